/* Philox4x32-10 inline, for the parts that draw in loops: Random123's function behind weir's seeds, domains
 * and counters. */
#ifndef WEIR_SRC_BASE_PHILOX_H
#define WEIR_SRC_BASE_PHILOX_H

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include <Random123/philox.h>
#pragma GCC diagnostic pop

#include "weir/hash.h"

static inline weir_random weir__philox(weir_seed seed, uint32_t domain, uint64_t n) {
    philox4x32_ctr_t counter = {{(uint32_t)n, (uint32_t)(n >> 32), seed.word[2], seed.word[3] ^ domain}};
    philox4x32_key_t key = {{seed.word[0], seed.word[1]}};
    philox4x32_ctr_t r = philox4x32_R(10, counter, key);
    return (weir_random){r.v[0] | (uint64_t)r.v[1] << 32, r.v[2] | (uint64_t)r.v[3] << 32};
}

/* (x * range) >> 128, exactly. */
static inline uint64_t weir__scale(weir_random x, uint64_t range) {
    unsigned __int128 low = (unsigned __int128)x.k0 * range;
    unsigned __int128 high = (unsigned __int128)x.k1 * range;
    return (uint64_t)((high + (uint64_t)(low >> 64)) >> 64);
}

#endif
