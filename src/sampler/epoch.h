/* One epoch of a shuffled dataset: its seed and the order of its full blocks, made at once or in
 * instalments. */
#ifndef WEIR_SRC_SAMPLER_EPOCH_H
#define WEIR_SRC_SAMPLER_EPOCH_H

#include "base/internal.h"
#include "weir/hash.h"

/* Block numbers in 4 bytes where they fit, in 8 where they do not. */
typedef struct weir__block_order {
    void *entries;
    uint64_t count;
    uint64_t filled;   /* identity written up to here */
    uint64_t shuffled; /* final up to here */
    bool is_wide;
} weir__block_order;

/* Memory for `count` blocks; false where it is short. */
bool weir__block_order_open(weir__block_order *order, const weir_env *env, uint64_t count);
void weir__block_order_close(weir__block_order *order, const weir_env *env);

/* Begins a new permutation (SeededBlockPermute_v1); advance does `work` more of its 2 * count units (all
 * with UINT64_MAX). */
void weir__block_order_restart(weir__block_order *order);
void weir__block_order_advance(weir__block_order *order, weir_seed seed, uint64_t work);

static inline uint64_t weir__block_order_at(const weir__block_order *order, uint64_t place) {
    return order->is_wide ? ((const uint64_t *)order->entries)[place]
                          : ((const uint32_t *)order->entries)[place];
}

#endif
