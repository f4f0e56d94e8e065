/* A kernel of attention for the host: tensor_cores.cu as C++, between CUDA's words and instructions.cu's
 * functions, both made of lanes.h. Compiled for one pass (PASS), one head size (HEAD_SIZE) and one type
 * (BFLOAT16), as on a GPU, without the headers of C++; KERNEL: its name. */
#include <math.h>
#include <string.h>

#define __CUDACC__
#define __forceinline__ inline
#define __global__
#define __shared__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __log2f          log2f
#define threadIdx        lane_thread
#define blockIdx         lane_block
#define gridDim          lane_grid

#include "attention/half_floats.h"
#include "gpu_on_host/lanes.h"

/* ---- CUDA's words ------------------------------------------------------------------------------------ */

struct uint4 {
    uint32_t x, y, z, w;
};

static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
    return {x, y, z, w};
}

static inline int min(int a, uint32_t b) {
    return a < (int)b ? a : (int)b;
}

template <class to_type, class from_type> static inline to_type bits_as(from_type from) {
    to_type to;
    static_assert(sizeof to == 4 && sizeof from == 4, "words have 32 bits");
    memcpy(&to, &from, 4);
    return to;
}

static inline void __syncwarp() {
    lane_exchange(LANE_SYNC, nullptr, 0);
}

static inline void __syncthreads() {
    lane_sync_block();
}

template <class type> static inline type __shfl_sync(uint32_t lanes, type value, int from) {
    uint32_t word = bits_as<uint32_t>(value);
    (void)lanes;
    return bits_as<type>(lane_exchange(LANE_SHUFFLE, &word, 1)[from & 31][0]);
}

template <class type> static inline type __shfl_xor_sync(uint32_t lanes, type value, int other) {
    uint32_t word = bits_as<uint32_t>(value);
    (void)lanes;
    return bits_as<type>(lane_exchange(LANE_SHUFFLE_XOR, &word, 1)[(threadIdx.x & 31) ^ other][0]);
}

/* ---- The functions of instructions.cu ---------------------------------------------------------------- */

SHARED uint32_t shared_address(const void *p) {
    return (uint32_t)((const unsigned char *)p - shared);
}

SHARED void copy16(uint32_t to, const void *from, bool is_there) {
    lane_copy(shared + to, is_there ? from : nullptr, 16);
}

SHARED void copy4(void *to, const void *from, bool is_there) {
    lane_copy(to, is_there ? from : nullptr, 4);
}

SHARED void commit_copies() {
    lane_commit_copies();
}

SHARED void await_copies() {
    lane_await_copies();
}

SHARED uint32_t half_at(uint32_t address) {
    uint16_t half;
    memcpy(&half, shared + address, 2);
    return half;
}

/* Four matrices of 8 x 8: lanes 8 i to 8 i + 7 give the addresses of the i-th one's rows. */
SHARED void load_matrices(uint32_t *r, uint32_t from) {
    const lane_words *rows = lane_exchange(LANE_LOAD, &from, 1);
    int lane = threadIdx.x % 32;
    for (int i = 0; i < 4; i++)
        memcpy(&r[i], shared + rows[8 * i + lane / 4][0] + 4 * (lane % 4), 4);
}

SHARED void load_matrices_transposed(uint32_t *r, uint32_t from) {
    const lane_words *rows = lane_exchange(LANE_LOAD_TRANSPOSED, &from, 1);
    int lane = threadIdx.x % 32, row = lane % 4 * 2, column = lane / 4;
    for (int i = 0; i < 4; i++)
        r[i] = half_at(rows[8 * i + row][0] + 2 * column) | half_at(rows[8 * i + row + 1][0] + 2 * column)
                                                                << 16;
}

#if BFLOAT16
#define READ16  read_bfloat16
#define WRITE16 write_bfloat16
#else
#define READ16  read_float16
#define WRITE16 write_float16
#endif

SHARED float low_of(uint32_t both) {
    return READ16((uint16_t)both);
}

SHARED float high_of(uint32_t both) {
    return READ16((uint16_t)(both >> 16));
}

SHARED uint32_t pack(float low, float high) {
    return WRITE16(low) | (uint32_t)WRITE16(high) << 16;
}

/* Four numbers of a row of a, or of a column of b. */
typedef float quad __attribute__((vector_size(16)));

SHARED quad quad_of(uint32_t one, uint32_t other) {
    return quad{low_of(one), high_of(one), low_of(other), high_of(other)};
}

SHARED float product_of(const lane_words *x, int at, const lane_words *y) {
    quad sum = {};
    for (int t = 0; t < 4; t++) {
        quad a, b;
        memcpy(&a, &x[t][at], sizeof a);
        memcpy(&b, &y[t][8], sizeof b);
        sum += a * b;
    }
    return sum[0] + sum[1] + (sum[2] + sum[3]);
}

/* Lane 4 g + t has numbers 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of a's row g (a[0], a[2]), of its row g + 8
 * (a[1], a[3]) and of b's column g; and of c's rows g and g + 8 those of columns 2 t and 2 t + 1. */
SHARED void multiply(float *c, const uint32_t *a, uint32_t b0, uint32_t b1) {
    const quad given[3] = {quad_of(a[0], a[2]), quad_of(a[1], a[3]), quad_of(b0, b1)};
    uint32_t words[LANE_WORDS];
    static_assert(sizeof words == sizeof given, "a lane has twelve numbers");
    memcpy(words, given, sizeof words);
    const lane_words *all = lane_exchange(LANE_MULTIPLY, words, LANE_WORDS);
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    for (int e = 0; e < 4; e++)
        c[e] += product_of(&all[4 * g], e / 2 * 4, &all[4 * (2 * t + e % 2)]);
}

SHARED float power_of_2(float x) {
    float y = exp2f(x);
    return y < 0x1p-126f ? 0 : y;
}

/* ---- The kernel -------------------------------------------------------------------------------------- */

/* As kernels.c has it. */
#define SHARED_BYTES (4 * 16 * (HEAD_SIZE + 8) * 2 * ((PASS == 0 ? 1 : PASS == 1 ? 3 : 2) + 4) + 1024)

#define weir_attention KERNEL

#include "attention/scores.cu"
#include "attention/tensor_cores.cu"
