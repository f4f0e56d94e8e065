/* The body of philox_many: a translation unit defines PHILOX_LANES and PHILOX_KERNEL and includes this.
 * Words lie in the low halves of 64-bit lanes; upper halves may hold anything, because the multiplication
 * looks at the low ones only. */
#include "base/philox.h"
#include "base/philox_many.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef uint64_t lanes __attribute__((vector_size(8 * PHILOX_LANES)));

static inline lanes multiply_low_halves(lanes x, uint32_t y) {
#if defined(__x86_64__) && PHILOX_LANES == 8
    return (lanes)_mm512_mul_epu32((__m512i)x, _mm512_set1_epi64(y));
#elif defined(__x86_64__) && PHILOX_LANES == 4
    return (lanes)_mm256_mul_epu32((__m256i)x, _mm256_set1_epi64x(y));
#elif defined(__x86_64__) && PHILOX_LANES == 2
    return (lanes)_mm_mul_epu32((__m128i)x, _mm_set1_epi64x(y));
#else
    return (x & UINT32_MAX) * (uint64_t)y;
#endif
}

void PHILOX_KERNEL(weir_seed seed, uint32_t domain, uint64_t n, uint32_t first, weir__draws *out) {
    enum { VECTORS = WEIR__DRAWS / PHILOX_LANES };
    lanes c0[VECTORS], c1[VECTORS], c2[VECTORS], c3[VECTORS];
    for (int v = 0; v < VECTORS; v++) {
        for (int lane = 0; lane < PHILOX_LANES; lane++)
            c2[v][lane] = seed.word[2] ^ (first + WEIR__LOW(uint32_t, v * PHILOX_LANES + lane));
        c0[v] = WEIR__LOW(uint32_t, n) - (lanes){0};
        c1[v] = (n >> 32) - (lanes){0};
        c3[v] = (uint64_t)(seed.word[3] ^ domain) - (lanes){0};
    }
    uint32_t key0 = seed.word[0], key1 = seed.word[1];
    for (int round = 0; round < 10; round++) {
        for (int v = 0; v < VECTORS; v++) {
            lanes product0 = multiply_low_halves(c0[v], PHILOX_M4x32_0);
            lanes product1 = multiply_low_halves(c2[v], PHILOX_M4x32_1);
            c0[v] = product1 >> 32 ^ c1[v] ^ key0;
            c1[v] = product1;
            c2[v] = product0 >> 32 ^ c3[v] ^ key1;
            c3[v] = product0;
        }
        key0 += PHILOX_W32_0;
        key1 += PHILOX_W32_1;
    }
    for (int v = 0; v < VECTORS; v++) {
        lanes low = (c0[v] & UINT32_MAX) | c1[v] << 32;
        lanes high = (c2[v] & UINT32_MAX) | c3[v] << 32;
        __builtin_memcpy(out->k0 + v * PHILOX_LANES, &low, sizeof low);
        __builtin_memcpy(out->k1 + v * PHILOX_LANES, &high, sizeof high);
    }
}
