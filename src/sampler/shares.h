/* Whose turn it is where batches are mixed (docs/spec/05g-mixed.md): an entry of the mix stands for one
 * sample of one dataset. Pure arithmetic. */
#ifndef WEIR_SAMPLER_SHARES_H
#define WEIR_SAMPLER_SHARES_H

#include "base/internal.h"
#include "weir/sampler.h"

/* A dataset's part of a period. */
typedef struct weir_sampler__share {
    uint32_t first;  /* of its entries */
    uint32_t weight; /* how many they are */
    uint64_t cardinality;
} weir_sampler__share;

/* Which of the shares, in order of their first entries, an entry of a period is of, and where in the stream
 * of that dataset its sample is. False if that is beyond epoch 2^64-1. */
bool weir_sampler__share_at(const weir_sampler__share *shares, uint32_t count, uint64_t period,
                            uint64_t entry, uint32_t *share, weir_cursor *at);

#endif
