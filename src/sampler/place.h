/* SeededPlace_v1: a bijection of [0, m) that keeps no state (docs/spec/02-sampling-modes.md). Few places are
 * shuffled exactly; many go through twelve rounds of a Feistel network over a rectangle that holds them. */
#ifndef WEIR_SAMPLER_PLACE_H
#define WEIR_SAMPLER_PLACE_H

#include "sampler/block_map.h"

enum { WEIR_SAMPLER__SHUFFLE_MAX = 32, WEIR_SAMPLER__PLACE_ROUNDS = 12 };

/* What depends on (seed, domain, n, j, m) alone: made once for all the places that are asked for. */
typedef struct weir_sampler__place_map {
    uint64_t m;
    uint64_t side_a;
    uint64_t side_b;
    union {
        uint32_t key[WEIR_SAMPLER__PLACE_ROUNDS];
        uint8_t order[WEIR_SAMPLER__SHUFFLE_MAX]; /* of m <= WEIR_SAMPLER__SHUFFLE_MAX */
    };
} weir_sampler__place_map;

/* m is at least 1. */
weir_sampler__place_map weir_sampler__place_map_make(weir_seed seed, uint32_t domain, uint64_t n, uint32_t j,
                                                     uint64_t m);

/* X(seed, domain, n, j): the j-th draw of number n. */
static inline weir_random weir_sampler__draw_at(weir_seed seed, uint32_t domain, uint64_t n, uint32_t j) {
    seed.word[2] ^= j;
    return weir__philox_block(seed, domain, n);
}

static inline uint64_t weir_sampler__place_at(const weir_sampler__place_map *map, uint64_t x) {
    if (map->m <= WEIR_SAMPLER__SHUFFLE_MAX)
        return map->order[x];
    do {
        uint64_t right = x / map->side_a;
        uint64_t left = x - right * map->side_a;
        for (int i = 0; i < WEIR_SAMPLER__PLACE_ROUNDS; i += 2) {
            left = weir_sampler__feistel_turn(left, right, map->key[i], map->side_a);
            right = weir_sampler__feistel_turn(right, left, map->key[i + 1], map->side_b);
        }
        x = right * map->side_a + left;
    } while (x >= map->m);
    return x;
}

#endif
