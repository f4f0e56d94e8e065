/* The public face of Philox: seeds as bytes, single draws. */
#include "base/philox.h"
#include "base/bytes.h"

weir_seed weir_seed_load(const uint8_t bytes[16]) {
    weir_seed seed;
    for (size_t i = 0; i < 4; i++)
        seed.word[i] = weir__load32(bytes + 4 * i);
    return seed;
}

weir_random weir_philox(weir_seed seed, uint32_t domain, uint64_t n) {
    return weir__philox_block(seed, domain, n);
}
