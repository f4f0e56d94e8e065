/* See place.h. */
#include "sampler/place.h"

weir_sampler__place_map weir_sampler__place_map_make(weir_seed seed, uint32_t domain, uint64_t n, uint32_t j,
                                                     uint64_t m) {
    weir_sampler__place_map map = {.m = m};
    if (m <= WEIR_SAMPLER__SHUFFLE_MAX) {
        for (uint32_t i = 0; i < m; i++)
            map.order[i] = (uint8_t)i;
        for (uint32_t i = 0; i + 1 < m; i++) {
            uint64_t k = i + weir__scale(weir_sampler__draw_at(seed, domain, n, j + i), m - i);
            uint8_t kept = map.order[i];
            map.order[i] = map.order[k];
            map.order[k] = kept;
        }
        return map;
    }
    map.side_a = weir_sampler__ceil_sqrt(m);
    map.side_b = (m - 1) / map.side_a + 1;
    for (uint32_t i = 0; i < WEIR_SAMPLER__PLACE_ROUNDS / 4; i++) {
        weir_random words = weir_sampler__draw_at(seed, domain, n, j + i);
        map.key[4 * i] = (uint32_t)words.k0;
        map.key[4 * i + 1] = (uint32_t)(words.k0 >> 32);
        map.key[4 * i + 2] = (uint32_t)words.k1;
        map.key[4 * i + 3] = (uint32_t)(words.k1 >> 32);
    }
    return map;
}
