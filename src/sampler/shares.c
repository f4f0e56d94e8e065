/* See shares.h. */
#include "sampler/shares.h"

bool weir_sampler__share_at(const weir_sampler__share *shares, uint32_t count, uint64_t period,
                            uint64_t entry, uint32_t *share, weir_cursor *at) {
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (shares[middle].first <= entry)
            low = middle;
        else
            high = middle;
    }
    const weir_sampler__share *found = &shares[low];
    unsigned __int128 number = (unsigned __int128)period * found->weight + (entry - found->first);
    *share = low;
    if (number / found->cardinality > UINT64_MAX)
        return false;
    *at = (weir_cursor){(uint64_t)(number / found->cardinality), (uint64_t)(number % found->cardinality)};
    return true;
}
