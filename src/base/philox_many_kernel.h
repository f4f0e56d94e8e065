/* The body of philox_many: a translation unit defines PHILOX_LANES and PHILOX_KERNEL and includes this. */
#include "base/philox_kernel.h"

void PHILOX_KERNEL(weir_seed seed, uint32_t domain, uint64_t n, uint32_t first, weir__draws *out) {
    philox_words w = draw_words(seed, domain, n, first);
    for (int v = 0; v < PHILOX_VECTORS; v++) {
        philox_lanes low = (w.of[0][v] & UINT32_MAX) | w.of[1][v] << 32;
        philox_lanes high = (w.of[2][v] & UINT32_MAX) | w.of[3][v] << 32;
        __builtin_memcpy(out->k0 + v * PHILOX_LANES, &low, sizeof low);
        __builtin_memcpy(out->k1 + v * PHILOX_LANES, &high, sizeof high);
    }
}
