/* The two bijections inside a block, and what they need: parameters that depend on the block's size alone
 * (made once) and keys that depend on seed and block (made once a run of positions). */
#ifndef WEIR_SRC_SAMPLER_BLOCK_MAP_H
#define WEIR_SRC_SAMPLER_BLOCK_MAP_H

#include "base/internal.h"
#include "weir/hash.h"
#include "weir/manifest.h"

enum { WEIR__PRIMES_MAX = 15 }; /* no uint64 has more distinct odd prime factors */

/* What is known of a block size m: its odd prime factors below 2^16 as exact-division constants, and what is
 * left of m without them. It answers "is x coprime to m" in a few multiplications. */
typedef struct weir__block_shape {
    uint64_t m;
    bool is_even;
    uint32_t prime_count;
    struct {
        uint64_t inverse; /* of the prime modulo 2^64 */
        uint64_t limit;   /* (2^64-1) / prime: x is a multiple iff x * inverse <= limit */
    } primes[WEIR__PRIMES_MAX];
    uint64_t cofactor; /* 1, or without factors below 2^16 */
    uint64_t side_a;   /* ceil(sqrt(m)) */
    uint64_t side_b;   /* ceil(m / side_a) */
} weir__block_shape;

void weir__block_shape_init(weir__block_shape *shape, uint64_t m);

/* j = (a * position + c) mod m. */
typedef struct weir__affine {
    uint64_t a;
    uint64_t c;
} weir__affine;

/* Six rounds of an unbalanced Feistel network over [0, side_a * side_b), walked until the value is below m.
 */
typedef struct weir__feistel {
    uint32_t key[6];
} weir__feistel;

weir__affine weir__affine_make(const weir__block_shape *shape, weir_seed seed, uint64_t block_id);
weir__feistel weir__feistel_make(weir_seed seed, uint64_t block_id);

/* The offset inside the block of one position below m; m is at least 2. */
uint64_t weir__affine_at(const weir__block_shape *shape, const weir__affine *map, uint64_t position);
uint64_t weir__feistel_at(const weir__block_shape *shape, const weir__feistel *map, uint64_t position);

/* The same for `count` positions from `position` on, as start + offset. */
void weir__affine_fill(const weir__block_shape *shape, const weir__affine *map, uint64_t start,
                       uint64_t position, size_t count, uint64_t *out);
void weir__feistel_fill(const weir__block_shape *shape, const weir__feistel *map, uint64_t start,
                        uint64_t position, size_t count, uint64_t *out);

/* One index of a block by either map, whatever its size. */
uint64_t weir__block_index(const weir__block_shape *shape, weir_intra_block kind, weir_seed seed,
                           uint64_t block_id, uint64_t start, uint64_t position);
/* And a run of them. */
void weir__block_fill(const weir__block_shape *shape, weir_intra_block kind, weir_seed seed,
                      uint64_t block_id, uint64_t start, uint64_t position, size_t count, uint64_t *out);

#endif
