/* The intra-block maps, one position at a time, and their parameters.
 *
 * The affine map needs the first candidate from a random start that is coprime to m. All full blocks share
 * one m, so m is factored once, and the test is a multiplication a prime (x is divisible by an odd p iff x
 * * p^-1 mod 2^64 <= (2^64-1) / p) instead of a gcd. */
#include "sampler/block_map.h"

#include "sampler/fill.h"

uint64_t weir_sampler__gcd(uint64_t x, uint64_t y) {
    while (y != 0) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x;
}

/* The square root is exact up to a rounding, which is put right. */
uint64_t weir_sampler__ceil_sqrt(uint64_t m) {
    uint64_t root = (uint64_t)__builtin_sqrt((double)m);
    while ((unsigned __int128)root * root < m)
        root++;
    while (root > 0 && (unsigned __int128)(root - 1) * (root - 1) >= m)
        root--;
    return root;
}

static void take_prime(weir_sampler__block_shape *shape, uint64_t p) {
    uint64_t inverse = p; /* modulo 2^64: right in 3 bits; each step doubles them */
    for (int i = 0; i < 5; i++)
        inverse *= 2 - p * inverse;
    shape->primes[shape->prime_count].inverse = inverse;
    shape->primes[shape->prime_count].limit = UINT64_MAX / p;
    shape->prime_count++;
    while (shape->cofactor % p == 0)
        shape->cofactor /= p;
}

void weir_sampler__block_shape_init(weir_sampler__block_shape *shape, uint64_t m) {
    *shape = (weir_sampler__block_shape){.m = m, .is_even = m % 2 == 0, .cofactor = m};
    if (m == 0)
        return;
    shape->cofactor >>= __builtin_ctzll(m);
    for (uint64_t p = 3; p < 65536 && p * p <= shape->cofactor; p += 2)
        if (shape->cofactor % p == 0)
            take_prime(shape, p);
    bool is_prime = shape->cofactor > 1 && shape->cofactor < (uint64_t)1 << 32;
    if (is_prime)
        take_prime(shape, shape->cofactor);
    shape->side_a = weir_sampler__ceil_sqrt(m);
    shape->side_b = (m - 1) / shape->side_a + 1;
    shape->by_m = weir_sampler__divisor_make(m);
    shape->by_m_less_1 = weir_sampler__divisor_make(m > 1 ? m - 1 : 1);
    shape->by_side_a = weir_sampler__divisor_make(shape->side_a);
}

void weir_sampler__block_fill(const weir_sampler__block_shape *shape, weir_intra_block kind, weir_seed seed,
                              uint64_t block_id, uint64_t start, uint64_t position, size_t count,
                              uint64_t *out) {
    if (shape->m == 1) {
        out[0] = start;
    } else if (kind == WEIR_INTRA_FEISTEL_V1) {
        weir_sampler__feistel map = weir_sampler__feistel_make(seed, block_id);
        weir_sampler__feistel_fill(shape, &map, start, position, count, out);
    } else {
        weir_sampler__affine map = weir_sampler__affine_make(shape, seed, block_id);
        weir_sampler__affine_fill(shape, &map, start, position, count, out);
    }
}
