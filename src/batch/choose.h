/* Which of a row's children are taken. */
#ifndef WEIR_SRC_BATCH_CHOOSE_H
#define WEIR_SRC_BATCH_CHOOSE_H

#include "base/internal.h"
#include "batch/draws.h"

typedef struct weir__chooser {
    uint32_t width;  /* child_width */
    uint32_t *taken; /* at least that many places */
    uint32_t *table; /* open table over them, for wide choices */
    uint32_t table_mask;
} weir__chooser;

/* False where there is no memory. */
bool weir__chooser_open(weir__chooser *chooser, const weir_env *env, uint32_t width);
void weir__chooser_close(weir__chooser *chooser, const weir_env *env);

/* Floyd's method: `width` of the numbers below n, which is larger, ascending, into `taken`; without looking
 * at the rest. */
void weir__choose(weir__chooser *chooser, weir__walk_draws *draws, uint32_t n);

#endif
