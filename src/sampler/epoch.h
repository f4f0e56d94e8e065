/* The order of an epoch's full blocks: SeededBlockPermute_v1, made at once or in instalments, or a stateless
 * one, of which nothing is kept. */
#ifndef WEIR_SAMPLER_EPOCH_H
#define WEIR_SAMPLER_EPOCH_H

#include "base/internal.h"
#include "sampler/place.h"
#include "weir_tool/philox.h"

/* Block numbers in 4 bytes where they fit, in 8 where they do not. */
typedef struct weir_sampler__block_order {
    void *entries;               /* NULL: stateless */
    weir_sampler__place_map map; /* of a stateless order */
    uint64_t count;
    uint64_t filled;   /* identity written up to here */
    uint64_t shuffled; /* final up to here */
    bool is_narrow;    /* entries of 4 bytes */
} weir_sampler__block_order;

/* Memory for `count` blocks, none if the order is stateless; false if memory is short. */
bool weir_sampler__block_order_open(weir_sampler__block_order *order, const weir_env *env, uint64_t count,
                                    bool is_stateless);
void weir_sampler__block_order_close(weir_sampler__block_order *order, const weir_env *env);

/* Begins a new permutation; advance does `work` more of its 2 * count units (all with UINT64_MAX). A
 * stateless one is whole at once. */
void weir_sampler__block_order_restart(weir_sampler__block_order *order, weir_seed seed);
void weir_sampler__block_order_advance(weir_sampler__block_order *order, weir_seed seed, uint64_t work);

/* Orders that do not lie in entries of 4 bytes; out of line, to keep the usual way short. */
__attribute__((noinline)) uint64_t weir_sampler__block_order_find(const weir_sampler__block_order *order,
                                                                  uint64_t place);

static inline uint64_t weir_sampler__block_order_at(const weir_sampler__block_order *order, uint64_t place) {
    return __builtin_expect(order->is_narrow, true) ? ((const uint32_t *)order->entries)[place]
                                                    : weir_sampler__block_order_find(order, place);
}

#endif
