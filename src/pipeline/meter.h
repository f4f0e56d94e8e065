/* An environment that counts the bytes which are taken through it: how a run knows what its builders need.
 * One thread at a time. It must stay where it is while anything lives in it. */
#ifndef WEIR_PIPELINE_METER_H
#define WEIR_PIPELINE_METER_H

#include "base/internal.h"

typedef struct weir_pipeline__meter {
    weir_env env; /* hand this on */
    const weir_env *below;
    uint64_t bytes; /* live, of allocations; what is mapped is not counted */
} weir_pipeline__meter;

void weir_pipeline__meter_open(weir_pipeline__meter *meter, const weir_env *below);

#endif
