/* The fill kernels' body. A translation unit defines FILL_LANES (64-bit lanes of a vector), FILL_NAME and
 * FILL_KERNELS, and includes this.
 *
 * Affine: positions of a block are an arithmetic progression modulo m. Eight vectors are kept, each lane
 * one position; a round adds 8 vectors' worth of steps to all and subtracts m where that passed the end: an
 * addition, a comparison and a subtraction for a vector that is stored.
 *
 * Feistel: every lane holds 32-bit values in 64 bits, so that one widening multiplication serves both the
 * hash and the scaling. Consecutive positions need no division: their (position mod a, position div a) is
 * counted on. */
#include "sampler/fill.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

typedef uint64_t vector __attribute__((vector_size(8 * FILL_LANES)));
typedef int64_t signed_vector __attribute__((vector_size(8 * FILL_LANES)));

enum { VECTORS = 8, BLOCK = VECTORS * FILL_LANES };

static inline vector broadcast(uint64_t value) {
    return value - (vector){0};
}

/* All ones where x >= y; both below 2^63. */
static inline vector at_least(vector x, vector y) {
    return (vector)((signed_vector)x >= (signed_vector)y);
}

static inline void store(uint64_t *out, vector value) {
    __builtin_memcpy(out, &value, sizeof value);
}

/* The product of the low 32 bits of each lane. The upper halves are zero, but only the instruction's name
 * tells the compiler so. */
static inline vector multiply32(vector x, vector y) {
#if defined(__AVX512F__) && FILL_LANES == 8
    return (vector)_mm512_mul_epu32((__m512i)x, (__m512i)y);
#elif defined(__AVX2__) && FILL_LANES == 4
    return (vector)_mm256_mul_epu32((__m256i)x, (__m256i)y);
#else
    return x * y;
#endif
}

static uint64_t add_modulo(uint64_t value, uint64_t step, uint64_t m) {
    value += step;
    return value >= m ? value - m : value;
}

/* (value + step) mod m, given value and step below m. Where there is an unsigned minimum: of value + step
 * and that less m, the one that did not wrap around is the smaller; the chain from one round to the next is
 * then two instructions. */
static inline vector add_modulo_all(vector value, vector step, vector m) {
#if defined(__AVX512F__) && FILL_LANES == 8
    return (vector)_mm512_min_epu64((__m512i)(value + step), (__m512i)(value + (step - m)));
#else
    vector sum = value + step;
    return sum - (m & at_least(sum, m));
#endif
}

static void affine(uint64_t *out, size_t count, uint64_t start, uint64_t offset, uint64_t step, uint64_t m) {
    vector x[VECTORS], size = broadcast(m), base = broadcast(start);
    uint64_t stride = step; /* of BLOCK positions, by doubling */
    for (int lane = 0; lane < FILL_LANES; lane++) {
        x[0][lane] = offset;
        offset = add_modulo(offset, step, m);
    }
    for (int i = 1; i < FILL_LANES; i *= 2)
        stride = add_modulo(stride, stride, m);
    for (int v = 1; v < VECTORS; v++)
        x[v] = add_modulo_all(x[v - 1], broadcast(stride), size);
    for (int i = 1; i < VECTORS; i *= 2)
        stride = add_modulo(stride, stride, m);

    vector add = broadcast(stride);
    size_t done = 0;
    for (; done + BLOCK <= count; done += BLOCK)
#pragma GCC unroll 8
        for (int v = 0; v < VECTORS; v++) {
            store(out + done + v * FILL_LANES, base + x[v]);
            x[v] = add_modulo_all(x[v], add, size);
        }
    for (int v = 0; v < VECTORS; v++)
        x[v] += base;
    __builtin_memcpy(out + done, x, (count - done) * sizeof *out);
}

static inline vector hash32(vector x, vector key) {
    vector low = broadcast(UINT32_MAX);
    vector h = x ^ key;
    h ^= h >> 16;
    h = multiply32(h, broadcast(0x7feb352d)) & low;
    h ^= h >> 15;
    h = multiply32(h, broadcast(0x846ca68b)) & low;
    h ^= h >> 16;
    return h;
}

static inline vector turn(vector value, vector other, uint32_t key, vector side) {
    vector sum = value + (multiply32(hash32(other, broadcast(key)), side) >> 32);
    return sum - (side & at_least(sum, side));
}

static bool any_lane(vector mask) {
    uint64_t any = 0;
    for (int lane = 0; lane < FILL_LANES; lane++)
        any |= mask[lane];
    return any != 0;
}

/* The six rounds are one long chain of dependent steps, so several vectors go through them side by side. */
enum { ABREAST = 4, FEISTEL_BLOCK = ABREAST * FILL_LANES };

static inline void six_rounds(const weir_sampler__feistel *map, vector left[ABREAST], vector right[ABREAST],
                              vector a, vector b) {
#pragma GCC unroll 3
    for (int i = 0; i < 6; i += 2) {
#pragma GCC unroll 4
        for (int v = 0; v < ABREAST; v++)
            left[v] = turn(left[v], right[v], map->key[i], a);
#pragma GCC unroll 4
        for (int v = 0; v < ABREAST; v++)
            right[v] = turn(right[v], left[v], map->key[i + 1], b);
    }
}

static bool feistel(const weir_sampler__block_shape *shape, const weir_sampler__feistel *map, uint64_t start,
                    uint64_t position, size_t count, uint64_t *out) {
    vector a = broadcast(shape->side_a), b = broadcast(shape->side_b);
    vector m = broadcast(shape->m), base = broadcast(start);
    vector low, high, beyond = {0};
    for (int lane = 0; lane < FILL_LANES; lane++) {
        low[lane] = (position + (uint64_t)lane) % shape->side_a;
        high[lane] = (position + (uint64_t)lane) / shape->side_a;
    }
    for (size_t done = 0; done < count; done += FEISTEL_BLOCK) {
        vector left[ABREAST], right[ABREAST], result[ABREAST];
#pragma GCC unroll 4
        for (int v = 0; v < ABREAST; v++) {
            left[v] = low;
            right[v] = high;
            low += broadcast(FILL_LANES);
            vector wrapped = at_least(low, a);
            low -= a & wrapped;
            high -= wrapped; /* all ones is -1 */
        }
        six_rounds(map, left, right, a, b);
#pragma GCC unroll 4
        for (int v = 0; v < ABREAST; v++) {
            vector x = multiply32(right[v], a) + left[v];
            beyond |= at_least(x, m);
            result[v] = base + x;
        }
        size_t rest = count - done;
        if (rest >= FEISTEL_BLOCK)
            __builtin_memcpy(out + done, result, sizeof result);
        else
            __builtin_memcpy(out + done, result, rest * sizeof *out);
    }
    return any_lane(beyond);
}

const weir_sampler__fill_kernels FILL_KERNELS = {.name = FILL_NAME, .affine = affine, .feistel = feistel};
