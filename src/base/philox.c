/* The public face of Philox: seeds as bytes, single draws. */
#include "base/philox.h"
#include "base/bytes.h"

weir_seed weir_seed_load(const uint8_t bytes[16]) {
    weir_seed seed;
    for (size_t i = 0; i < 4; i++)
        seed.word[i] = weir__load32(bytes + 4 * i);
    return seed;
}

void weir_seed_store(weir_seed seed, uint8_t bytes[16]) {
    for (size_t i = 0; i < 4; i++)
        weir__store32(bytes + 4 * i, seed.word[i]);
}

weir_random weir_philox(weir_seed seed, uint32_t domain, uint64_t n) {
    return weir__philox(seed, domain, n);
}

uint64_t weir_bounded(weir_seed seed, uint32_t domain, uint64_t n, uint64_t range) {
    return weir__scale(weir__philox(seed, domain, n), range);
}

void weir_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    philox4x32_ctr_t c = {{counter[0], counter[1], counter[2], counter[3]}};
    philox4x32_key_t k = {{key[0], key[1]}};
    philox4x32_ctr_t r = philox4x32_R(10, c, k);
    for (size_t i = 0; i < 4; i++)
        out[i] = r.v[i];
}
