/* See place.h. */
#include "sampler/place.h"

static void shuffle(weir__place_map *map, weir_seed seed, uint32_t domain, uint64_t n, uint32_t j) {
    uint32_t count = (uint32_t)map->m;
    for (uint32_t i = 0; i < count; i++)
        map->order[i] = (uint8_t)i;
    for (uint32_t i = 0; i + 1 < count; i++) {
        uint64_t k = i + weir__scale(weir__draw(seed, domain, n, j + i), count - i);
        uint8_t kept = map->order[i];
        map->order[i] = map->order[k];
        map->order[k] = kept;
    }
}

static void make_keys(weir__place_map *map, weir_seed seed, uint32_t domain, uint64_t n, uint32_t j) {
    for (uint32_t i = 0; i < WEIR__PLACE_ROUNDS / 4; i++) {
        weir_random words = weir__draw(seed, domain, n, j + i);
        map->key[4 * i] = (uint32_t)words.k0;
        map->key[4 * i + 1] = (uint32_t)(words.k0 >> 32);
        map->key[4 * i + 2] = (uint32_t)words.k1;
        map->key[4 * i + 3] = (uint32_t)(words.k1 >> 32);
    }
}

weir__place_map weir__place_map_make(weir_seed seed, uint32_t domain, uint64_t n, uint32_t j, uint64_t m) {
    weir__place_map map = {.m = m};
    if (m <= WEIR__SHUFFLE_MAX) {
        shuffle(&map, seed, domain, n, j);
        return map;
    }
    map.side_a = weir__ceil_sqrt(m);
    map.side_b = (m - 1) / map.side_a + 1;
    make_keys(&map, seed, domain, n, j);
    return map;
}
