/* Division by a number that stays the same, as a multiplication: the divisor's reciprocal is made once. Exact
 * for every 64-bit dividend.
 *
 * With l = ceil(log2 d) and magic = floor(2^64 * (2^l - d) / d) + 1, the quotient of n is (t + (n - t) / 2) /
 * 2^(l-1) with t = magic * n / 2^64; d = 1 needs no division at all and is written as shifts of nothing. */
#ifndef WEIR_SRC_SAMPLER_DIVIDE_H
#define WEIR_SRC_SAMPLER_DIVIDE_H

#include <stdint.h>

typedef struct weir__divisor {
    uint64_t value;
    uint64_t magic;
    uint8_t first_shift;
    uint8_t last_shift;
} weir__divisor;

static inline weir__divisor weir__divisor_make(uint64_t d) {
    unsigned bits = d > 1 ? 64u - (unsigned)__builtin_clzll(d - 1) : 0;
    unsigned __int128 power = (unsigned __int128)1 << bits;
    return (weir__divisor){
        .value = d,
        .magic = (uint64_t)((((power - d) << 64) / d) + 1),
        .first_shift = bits > 0,
        .last_shift = (uint8_t)(bits > 0 ? bits - 1 : 0),
    };
}

static inline uint64_t weir__divide(uint64_t n, const weir__divisor *d) {
    uint64_t t = (uint64_t)(((unsigned __int128)d->magic * n) >> 64);
    return (t + ((n - t) >> d->first_shift)) >> d->last_shift;
}

static inline uint64_t weir__remainder(uint64_t n, const weir__divisor *d) {
    return n - weir__divide(n, d) * d->value;
}

#endif
