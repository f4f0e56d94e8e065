/* SeededBlockPermute_v1, in instalments. The Fisher-Yates shuffle runs upwards, so an entry is final as
 * soon as its step is done; the draws of a stretch are made first, in a loop of their own that the
 * processor can overlap, and then swapped in. */
#include "sampler/epoch.h"

#include "base/philox.h"
#include "weir/sampler.h"
#include "weir_tool/sampler_tools.h"

enum { DRAWS = 64 };

bool weir_sampler__block_order_open(weir_sampler__block_order *order, const weir_env *env, uint64_t count,
                                    bool is_stateless) {
    *order = (weir_sampler__block_order){.count = count, .is_narrow = !is_stateless && count <= UINT32_MAX};
    if (is_stateless)
        return true;
    order->entries = weir__allocate(env, count, order->is_narrow ? 4 : 8);
    return order->entries != NULL;
}

void weir_sampler__block_order_close(weir_sampler__block_order *order, const weir_env *env) {
    weir__release(env, order->entries);
    order->entries = NULL;
}

void weir_sampler__block_order_restart(weir_sampler__block_order *order, weir_seed seed) {
    order->filled = order->shuffled = 0;
    if (!order->entries && order->count > 0)
        order->map = weir_sampler__place_map_make(seed, WEIR_DOMAIN_BLOCKS, 0, 0, order->count);
}

static void fill_identity(weir_sampler__block_order *order, uint64_t end) {
    if (!order->is_narrow)
        for (uint64_t i = order->filled; i < end; i++)
            ((uint64_t *)order->entries)[i] = i;
    else
        for (uint64_t i = order->filled; i < end; i++)
            ((uint32_t *)order->entries)[i] = (uint32_t)i;
    order->filled = end;
}

#define SWAP(type, entries, i, j)                                                                            \
    do {                                                                                                     \
        type *at = (entries);                                                                                \
        type kept = at[i];                                                                                   \
        at[i] = at[j];                                                                                       \
        at[j] = kept;                                                                                        \
    } while (0)

static void shuffle_stretch(weir_sampler__block_order *order, weir_seed seed, unsigned count) {
    uint64_t targets[DRAWS];
    uint64_t first = order->shuffled;
    for (unsigned k = 0; k < count; k++) {
        uint64_t i = first + k;
        targets[k] =
            i + weir__scale(weir__philox_block(seed, WEIR_DOMAIN_BLOCK_PERMUTE, i), order->count - i);
    }
    for (unsigned k = 0; k < count; k++)
        if (!order->is_narrow)
            SWAP(uint64_t, order->entries, first + k, targets[k]);
        else
            SWAP(uint32_t, order->entries, first + k, targets[k]);
    order->shuffled += count;
}

void weir_sampler__block_order_advance(weir_sampler__block_order *order, weir_seed seed, uint64_t work) {
    if (!order->entries)
        return;
    assert(order->shuffled <= order->filled && order->filled <= order->count && "an order out of step");
    uint64_t to_fill = order->count - order->filled;
    uint64_t filling = to_fill < work ? to_fill : work;
    fill_identity(order, order->filled + filling);
    work -= filling;
    while (work > 0 && order->shuffled < order->count && order->filled == order->count) {
        uint64_t rest = order->count - order->shuffled;
        uint64_t stretch = rest < work ? rest : work;
        unsigned count = stretch < DRAWS ? (unsigned)stretch : DRAWS;
        shuffle_stretch(order, seed, count);
        work -= count;
    }
}

uint64_t weir_sampler__block_order_find(const weir_sampler__block_order *order, uint64_t place) {
    return order->entries ? ((const uint64_t *)order->entries)[place]
                          : weir_sampler__place_at(&order->map, place);
}

weir_status weir_block_permute(weir_seed seed, uint64_t n, uint64_t *out, weir_error *error) {
    if (n == 0)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, "UML_OS.Data.SeededBlockPermute_v1",
                          "there are 0 blocks to permute; give at least 1");
    weir_sampler__block_order order = {.entries = out, .count = n};
    weir_sampler__block_order_advance(&order, seed, UINT64_MAX);
    return WEIR_OK;
}
