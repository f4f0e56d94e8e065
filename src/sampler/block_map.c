/* The intra-block maps, one position at a time, and their parameters.
 *
 * The affine map needs the first candidate from a random start that is coprime to m. All full blocks share
 * one m, so m is factored once, and the test is a multiplication a prime (x is divisible by an odd p iff x *
 * p^-1 mod 2^64 <= (2^64-1) / p) instead of a gcd. */
#include "sampler/block_map.h"

#include "base/philox.h"
#include "sampler/fill.h"

static uint64_t inverse_of_odd(uint64_t p) {
    uint64_t inverse = p; /* right in 3 bits; each step doubles them */
    for (int i = 0; i < 5; i++)
        inverse *= 2 - p * inverse;
    return inverse;
}

static uint64_t ceil_sqrt(uint64_t m) {
    uint64_t low = 0;
    uint64_t high = (uint64_t)1 << 32;
    while (low < high) { /* the least x with x * x >= m */
        uint64_t middle = (low + high) / 2;
        if ((unsigned __int128)middle * middle >= m)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void take_prime(weir__block_shape *shape, uint64_t p) {
    shape->primes[shape->prime_count].inverse = inverse_of_odd(p);
    shape->primes[shape->prime_count].limit = UINT64_MAX / p;
    shape->prime_count++;
    while (shape->cofactor % p == 0)
        shape->cofactor /= p;
}

void weir__block_shape_init(weir__block_shape *shape, uint64_t m) {
    *shape = (weir__block_shape){.m = m, .is_even = m % 2 == 0, .cofactor = m};
    if (m == 0)
        return;
    shape->cofactor >>= __builtin_ctzll(m);
    for (uint64_t p = 3; p < 65536 && p * p <= shape->cofactor; p += 2)
        if (shape->cofactor % p == 0)
            take_prime(shape, p);
    bool is_prime = shape->cofactor > 1 && shape->cofactor < (uint64_t)1 << 32;
    if (is_prime)
        take_prime(shape, shape->cofactor);
    shape->side_a = ceil_sqrt(m);
    shape->side_b = (m - 1) / shape->side_a + 1;
}

static uint64_t gcd(uint64_t x, uint64_t y) {
    while (y != 0) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x;
}

static bool is_coprime(const weir__block_shape *shape, uint64_t x) {
    if (shape->is_even && x % 2 == 0)
        return false;
    for (uint32_t i = 0; i < shape->prime_count; i++)
        if (x * shape->primes[i].inverse <= shape->primes[i].limit)
            return false;
    return shape->cofactor == 1 || gcd(shape->cofactor, x) == 1;
}

/* 1 is coprime to everything, so the search ends. */
weir__affine weir__affine_make(const weir__block_shape *shape, weir_seed seed, uint64_t block_id) {
    weir_random k = weir__philox(seed, WEIR_DOMAIN_INTRA_AFFINE, block_id);
    uint64_t candidate = 1 + k.k0 % (shape->m - 1);
    while (!is_coprime(shape, candidate))
        candidate = candidate == shape->m - 1 ? 1 : candidate + 1;
    return (weir__affine){.a = candidate, .c = k.k1 % shape->m};
}

weir__feistel weir__feistel_make(weir_seed seed, uint64_t block_id) {
    /* 2 * block_id cannot overflow: blocks have at least two samples where a map is needed. */
    weir_random low = weir__philox(seed, WEIR_DOMAIN_INTRA_FEISTEL, 2 * block_id);
    weir_random high = weir__philox(seed, WEIR_DOMAIN_INTRA_FEISTEL, 2 * block_id + 1);
    return (weir__feistel){{(uint32_t)low.k0, (uint32_t)(low.k0 >> 32), (uint32_t)low.k1,
                            (uint32_t)(low.k1 >> 32), (uint32_t)high.k0, (uint32_t)(high.k0 >> 32)}};
}

uint64_t weir__affine_at(const weir__block_shape *shape, const weir__affine *map, uint64_t position) {
    if (shape->m <= UINT32_MAX)
        return (map->a * position + map->c) % shape->m;
    return (uint64_t)(((unsigned __int128)map->a * position + map->c) % shape->m);
}

static uint32_t feistel_hash(uint32_t x, uint32_t key) {
    uint32_t h = x ^ key;
    h ^= h >> 16;
    h *= 0x7feb352d;
    h ^= h >> 15;
    h *= 0x846ca68b;
    h ^= h >> 16;
    return h;
}

/* (value + hash scaled to the side) mod side, where value < side <= 2^32. */
static uint64_t feistel_turn(uint64_t value, uint64_t other, uint32_t key, uint64_t side) {
    uint64_t sum = value + ((feistel_hash((uint32_t)other, key) * side) >> 32);
    return sum >= side ? sum - side : sum;
}

uint64_t weir__feistel_at(const weir__block_shape *shape, const weir__feistel *map, uint64_t position) {
    uint64_t a = shape->side_a;
    uint64_t b = shape->side_b;
    uint64_t x = position;
    do {
        uint64_t left = x % a;
        uint64_t right = x / a;
        for (int i = 0; i < 6; i += 2) {
            left = feistel_turn(left, right, map->key[i], a);
            right = feistel_turn(right, left, map->key[i + 1], b);
        }
        x = right * a + left;
    } while (x >= shape->m);
    return x;
}

uint64_t weir__block_index(const weir__block_shape *shape, weir_intra_block kind, weir_seed seed,
                           uint64_t block_id, uint64_t start, uint64_t position) {
    if (shape->m == 1)
        return start;
    if (kind == WEIR_INTRA_FEISTEL_V1) {
        weir__feistel map = weir__feistel_make(seed, block_id);
        return start + weir__feistel_at(shape, &map, position);
    }
    weir__affine map = weir__affine_make(shape, seed, block_id);
    return start + weir__affine_at(shape, &map, position);
}

void weir__block_fill(const weir__block_shape *shape, weir_intra_block kind, weir_seed seed,
                      uint64_t block_id, uint64_t start, uint64_t position, size_t count, uint64_t *out) {
    if (shape->m == 1) {
        out[0] = start;
    } else if (kind == WEIR_INTRA_FEISTEL_V1) {
        weir__feistel map = weir__feistel_make(seed, block_id);
        weir__feistel_fill(shape, &map, start, position, count, out);
    } else {
        weir__affine map = weir__affine_make(shape, seed, block_id);
        weir__affine_fill(shape, &map, start, position, count, out);
    }
}
