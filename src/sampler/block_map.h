/* The two bijections inside a block, and what they need: parameters that depend on the block's size alone
 * (made once) and keys that depend on seed and block (made once per run of positions). */
#ifndef WEIR_SAMPLER_BLOCK_MAP_H
#define WEIR_SAMPLER_BLOCK_MAP_H

#include "base/internal.h"
#include "base/philox.h"
#include "sampler/divide.h"
#include "weir/manifest.h"
#include "weir_tool/philox.h"

enum { WEIR_SAMPLER__PRIMES_MAX = 15 }; /* no uint64 has more distinct odd prime factors */

/* What is known of a block size m: its odd prime factors below 2^16 as exact-division constants, and what
 * is left of m without them. It answers "is x coprime to m" in a few multiplications. */
typedef struct weir_sampler__block_shape {
    uint64_t m;
    bool is_even;
    uint32_t prime_count;
    struct {
        uint64_t inverse; /* of the prime modulo 2^64 */
        uint64_t limit;   /* (2^64-1) / prime: x is a multiple iff x * inverse <= limit */
    } primes[WEIR_SAMPLER__PRIMES_MAX];
    uint64_t cofactor; /* 1, or without factors below 2^16 */
    weir_sampler__divisor by_m;
    weir_sampler__divisor by_m_less_1;
    weir_sampler__divisor by_side_a;
    uint64_t side_a; /* ceil(sqrt(m)) */
    uint64_t side_b; /* ceil(m / side_a) */
} weir_sampler__block_shape;

void weir_sampler__block_shape_init(weir_sampler__block_shape *shape, uint64_t m);

/* j = (a * position + c) mod m. */
typedef struct weir_sampler__affine {
    uint64_t a;
    uint64_t c;
} weir_sampler__affine;

/* Six rounds of an unbalanced Feistel network over [0, side_a * side_b), walked until the value is below m.
 */
typedef struct weir_sampler__feistel {
    uint32_t key[6];
} weir_sampler__feistel;

uint64_t weir_sampler__gcd(uint64_t x, uint64_t y);
uint64_t weir_sampler__ceil_sqrt(uint64_t m); /* the least x with x * x >= m */

/* x is odd where m is even. */
static inline bool weir_sampler__is_coprime(const weir_sampler__block_shape *shape, uint64_t x) {
    for (uint32_t i = 0; i < shape->prime_count; i++)
        if (x * shape->primes[i].inverse <= shape->primes[i].limit)
            return false;
    return shape->cofactor == 1 || weir_sampler__gcd(shape->cofactor, x) == 1;
}

/* The first candidate from a random start, wrapping from m - 1 to 1, that is coprime to m; 1 is, so the
 * search ends. For an even m every even candidate is passed over to the odd one behind it, which is at most
 * m
 * - 1, without a branch to mispredict. */
static inline weir_sampler__affine weir_sampler__affine_make(const weir_sampler__block_shape *shape,
                                                             weir_seed seed, uint64_t block_id) {
    weir_random k = weir__philox_lean(seed, WEIR_DOMAIN_INTRA_AFFINE, block_id);
    uint64_t candidate = (1 + weir_sampler__remainder(k.k0, &shape->by_m_less_1)) | shape->is_even;
    while (!weir_sampler__is_coprime(shape, candidate))
        candidate = (candidate == shape->m - 1 ? 1 : candidate + 1) | shape->is_even;
    return (weir_sampler__affine){.a = candidate, .c = weir_sampler__remainder(k.k1, &shape->by_m)};
}

static inline weir_sampler__feistel weir_sampler__feistel_make(weir_seed seed, uint64_t block_id) {
    /* 2 * block_id cannot overflow: blocks have at least two samples where a map is needed. */
    weir_random low = weir__philox_lean(seed, WEIR_DOMAIN_INTRA_FEISTEL, 2 * block_id);
    weir_random high = weir__philox_lean(seed, WEIR_DOMAIN_INTRA_FEISTEL, 2 * block_id + 1);
    return (weir_sampler__feistel){{(uint32_t)low.k0, (uint32_t)(low.k0 >> 32), (uint32_t)low.k1,
                                    (uint32_t)(low.k1 >> 32), (uint32_t)high.k0, (uint32_t)(high.k0 >> 32)}};
}

static inline uint64_t weir_sampler__affine_at(const weir_sampler__block_shape *shape,
                                               const weir_sampler__affine *map, uint64_t position) {
    if (shape->m <= UINT32_MAX)
        return weir_sampler__remainder(map->a * position + map->c, &shape->by_m);
    return (uint64_t)(((unsigned __int128)map->a * position + map->c) % shape->m);
}

static inline uint32_t weir_sampler__feistel_hash(uint32_t x, uint32_t key) {
    uint32_t h = x ^ key;
    h ^= h >> 16;
    h *= 0x7feb352d;
    h ^= h >> 15;
    h *= 0x846ca68b;
    h ^= h >> 16;
    return h;
}

/* (value + hash scaled to the side) mod side, where value < side <= 2^32. */
static inline uint64_t weir_sampler__feistel_turn(uint64_t value, uint64_t other, uint32_t key,
                                                  uint64_t side) {
    uint64_t sum = value + ((weir_sampler__feistel_hash((uint32_t)other, key) * side) >> 32);
    return sum >= side ? sum - side : sum;
}

static inline uint64_t weir_sampler__feistel_at(const weir_sampler__block_shape *shape,
                                                const weir_sampler__feistel *map, uint64_t position) {
    uint64_t a = shape->side_a;
    uint64_t b = shape->side_b;
    uint64_t x = position;
    do {
        uint64_t right = weir_sampler__divide(x, &shape->by_side_a);
        uint64_t left = x - right * a;
        for (int i = 0; i < 6; i += 2) {
            left = weir_sampler__feistel_turn(left, right, map->key[i], a);
            right = weir_sampler__feistel_turn(right, left, map->key[i + 1], b);
        }
        x = right * a + left;
    } while (x >= shape->m);
    return x;
}

static inline uint64_t weir_sampler__block_index(const weir_sampler__block_shape *shape,
                                                 weir_intra_block kind, weir_seed seed, uint64_t block_id,
                                                 uint64_t start, uint64_t position) {
    if (shape->m == 1)
        return start;
    if (kind == WEIR_INTRA_FEISTEL_V1) {
        weir_sampler__feistel map = weir_sampler__feistel_make(seed, block_id);
        return start + weir_sampler__feistel_at(shape, &map, position);
    }
    weir_sampler__affine map = weir_sampler__affine_make(shape, seed, block_id);
    return start + weir_sampler__affine_at(shape, &map, position);
}

/* The same for `count` positions from `position` on, as start + offset. */
void weir_sampler__affine_fill(const weir_sampler__block_shape *shape, const weir_sampler__affine *map,
                               uint64_t start, uint64_t position, size_t count, uint64_t *out);
void weir_sampler__feistel_fill(const weir_sampler__block_shape *shape, const weir_sampler__feistel *map,
                                uint64_t start, uint64_t position, size_t count, uint64_t *out);

/* A run of a block by either map, whatever its size. */
void weir_sampler__block_fill(const weir_sampler__block_shape *shape, weir_intra_block kind, weir_seed seed,
                              uint64_t block_id, uint64_t start, uint64_t position, size_t count,
                              uint64_t *out);

#endif
