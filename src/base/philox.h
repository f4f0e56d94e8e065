/* Philox4x32-10 inline, for the parts that draw in loops: Random123's function behind weir's seeds, domains
 * and counters. */
#ifndef WEIR_BASE_PHILOX_H
#define WEIR_BASE_PHILOX_H

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include <Random123/philox.h>
#pragma GCC diagnostic pop

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/narrow.h"
#include "weir_tool/philox.h"

static inline weir_random weir__philox_block(weir_seed seed, uint32_t domain, uint64_t n) {
    philox4x32_ctr_t counter = {
        {WEIR__LOW(uint32_t, n), WEIR__LOW(uint32_t, n >> 32), seed.word[2], seed.word[3] ^ domain}};
    philox4x32_key_t key = {{seed.word[0], seed.word[1]}};
    philox4x32_ctr_t r = philox4x32_R(10, counter, key);
    return (weir_random){r.v[0] | (uint64_t)r.v[1] << 32, r.v[2] | (uint64_t)r.v[3] << 32};
}

/* The same draw in half the instructions, at a longer latency: for one draw amid other work (index_at),
 * where what counts is how much of the next call fits into the processor's window. The two multiplications
 * of a round do not depend on each other, so they share a vector: `even` holds words 0 and 2, `odd` words 1
 * and 3, each in the low half of a 64-bit lane; upper halves may hold anything, the multiplication does not
 * look. */
#if defined(__SSE2__)
static inline weir_random weir__philox_lean(weir_seed seed, uint32_t domain, uint64_t n) {
    const __m128i multipliers = _mm_set_epi64x(PHILOX_M4x32_1, PHILOX_M4x32_0);
    const __m128i bumps = _mm_set_epi64x(PHILOX_W32_1, PHILOX_W32_0);
    __m128i even = _mm_set_epi64x(seed.word[2], (int64_t)WEIR__LOW(uint32_t, n));
    __m128i odd = _mm_set_epi64x(seed.word[3] ^ domain, (int64_t)(n >> 32));
    __m128i key = _mm_set_epi64x(seed.word[1], seed.word[0]);
#pragma GCC unroll 10
    for (int round = 0; round < 10; round++) {
        __m128i product = _mm_shuffle_epi32(_mm_mul_epu32(even, multipliers), _MM_SHUFFLE(1, 0, 3, 2));
        even = _mm_xor_si128(_mm_srli_epi64(product, 32), _mm_xor_si128(odd, key));
        odd = product;
        key = _mm_add_epi32(key, bumps);
    }
    __m128i low_halves = _mm_and_si128(even, _mm_set1_epi64x(UINT32_MAX));
    __m128i words = _mm_or_si128(low_halves, _mm_slli_epi64(odd, 32));
    return (weir_random){(uint64_t)_mm_cvtsi128_si64(words),
                         (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(words, words))};
}
#else
#define weir__philox_lean weir__philox_block
#endif

/* (x * range) >> 128, exactly. */
static inline uint64_t weir__scale(weir_random x, uint64_t range) {
    unsigned __int128 low = (unsigned __int128)x.k0 * range;
    unsigned __int128 high = (unsigned __int128)x.k1 * range;
    return (uint64_t)((high + (uint64_t)(low >> 64)) >> 64);
}

#endif
