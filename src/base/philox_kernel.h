/* Philox draws side by side, one in each 64-bit lane: a translation unit defines PHILOX_LANES, how many its
 * instruction set has, and includes this. Words lie in the low halves of the lanes; upper halves may hold
 * anything, because the multiplication looks at the low ones only. */
#include "base/philox.h"
#include "base/philox_many.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { PHILOX_VECTORS = WEIR__DRAWS / PHILOX_LANES };
typedef uint64_t philox_lanes __attribute__((vector_size(8 * PHILOX_LANES)));
typedef struct philox_words {
    philox_lanes of[4][PHILOX_VECTORS]; /* words 0 to 3 of each draw */
} philox_words;

static inline philox_lanes multiply_low_halves(philox_lanes x, philox_lanes y) {
#if defined(__x86_64__) && PHILOX_LANES == 8
    return (philox_lanes)_mm512_mul_epu32((__m512i)x, (__m512i)y);
#elif defined(__x86_64__) && PHILOX_LANES == 4
    return (philox_lanes)_mm256_mul_epu32((__m256i)x, (__m256i)y);
#elif defined(__x86_64__) && PHILOX_LANES == 2
    return (philox_lanes)_mm_mul_epu32((__m128i)x, (__m128i)y);
#else
    return (x & UINT32_MAX) * (y & UINT32_MAX);
#endif
}

static inline philox_lanes in_all_lanes(uint64_t value) {
    return value - (philox_lanes){0};
}

/* Draws first, first + 1, … of weir__philox_kernel, as words. */
static inline philox_words draw_words(weir_seed seed, uint32_t domain, uint64_t n, uint32_t first) {
    philox_words w;
    for (int v = 0; v < PHILOX_VECTORS; v++) {
        for (int lane = 0; lane < PHILOX_LANES; lane++)
            w.of[2][v][lane] = seed.word[2] ^ (first + WEIR__LOW(uint32_t, v * PHILOX_LANES + lane));
        w.of[0][v] = in_all_lanes(WEIR__LOW(uint32_t, n));
        w.of[1][v] = in_all_lanes(n >> 32);
        w.of[3][v] = in_all_lanes(seed.word[3] ^ domain);
    }
    uint32_t key0 = seed.word[0], key1 = seed.word[1];
    for (int round = 0; round < 10; round++) {
        for (int v = 0; v < PHILOX_VECTORS; v++) {
            philox_lanes product0 = multiply_low_halves(w.of[0][v], in_all_lanes(PHILOX_M4x32_0));
            philox_lanes product1 = multiply_low_halves(w.of[2][v], in_all_lanes(PHILOX_M4x32_1));
            w.of[0][v] = product1 >> 32 ^ w.of[1][v] ^ key0;
            w.of[1][v] = product1;
            w.of[2][v] = product0 >> 32 ^ w.of[3][v] ^ key1;
            w.of[3][v] = product0;
        }
        key0 += PHILOX_W32_0;
        key1 += PHILOX_W32_1;
    }
    return w;
}
