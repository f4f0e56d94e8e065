/* Division by a number that stays the same, without dividing: a shift where it is a power of two (block
 * sizes mostly are; the branch is always predicted), else a multiplication with a reciprocal that is made
 * once. Exact for every 64-bit dividend.
 *
 * With l = ceil(log2 d) and magic = floor(2^64 * (2^l - d) / d) + 1, the quotient of n is (t + (n - t) / 2)
 * / 2^(l-1) with t = magic * n / 2^64. */
#ifndef WEIR_SAMPLER_DIVIDE_H
#define WEIR_SAMPLER_DIVIDE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct weir_sampler__divisor {
    uint64_t value;
    uint64_t magic;
    uint8_t shift;
    bool is_power;
} weir_sampler__divisor;

static inline weir_sampler__divisor weir_sampler__divisor_make(uint64_t d) {
    if ((d & (d - 1)) == 0)
        return (weir_sampler__divisor){
            .value = d, .shift = (uint8_t)(d ? __builtin_ctzll(d) : 0), .is_power = true};
    unsigned bits = 64u - (unsigned)__builtin_clzll(d - 1);
    unsigned __int128 power = (unsigned __int128)1 << bits;
    return (weir_sampler__divisor){
        .value = d, .magic = (uint64_t)((((power - d) << 64) / d) + 1), .shift = (uint8_t)(bits - 1)};
}

static inline uint64_t weir_sampler__divide(uint64_t n, const weir_sampler__divisor *d) {
    if (d->is_power)
        return n >> d->shift;
    uint64_t t = (uint64_t)(((unsigned __int128)d->magic * n) >> 64);
    return (t + ((n - t) >> 1)) >> d->shift;
}

static inline uint64_t weir_sampler__remainder(uint64_t n, const weir_sampler__divisor *d) {
    return d->is_power ? n & (d->value - 1) : n - weir_sampler__divide(n, d) * d->value;
}

#endif
