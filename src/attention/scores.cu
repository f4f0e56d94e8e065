/* What the kernels for float16 and bfloat16 (tensor_cores.cu, warp_groups.cu) have in common: how weights are
 * made of scores. Compiled for one pass (PASS) and one type (BFLOAT16: 1 or 0), after records_kernel.h,
 * pass_kernel.h and instructions.cu. */

#define FORWARD WEIR_ATTENTION__FORWARD
#define QUERIES WEIR_ATTENTION__QUERIES
#define KEYS    WEIR_ATTENTION__KEYS

#define NOTHING 0xffffffffu /* instead of a position */
#define LEAST   -1e30f
#define LOG2E   1.4426950408889634f
#define WARP    0xffffffffu

#if BFLOAT16
#define NOT_A_NUMBER 0x7fc07fc0u
#else
#define NOT_A_NUMBER 0x7e007e00u
#endif

/* Four lanes have a row of a matrix. */
SHARED float row_most(float x) {
    x = fmaxf(x, __shfl_xor_sync(WARP, x, 1));
    return fmaxf(x, __shfl_xor_sync(WARP, x, 2));
}

SHARED float row_sum(float x) {
    x += __shfl_xor_sync(WARP, x, 1);
    return x + __shfl_xor_sync(WARP, x, 2);
}

SHARED uint16_t *head_of(const weir_attention__strided &t, int b, int h) {
    return (uint16_t *)t.data + b * t.b + h * t.h;
}

SHARED float dot_of_pairs(uint32_t x, uint32_t y) {
    return low_of(x) * low_of(y) + high_of(x) * high_of(y);
}

SHARED void pack_square(uint32_t p[4], const float x[2][4]) {
    p[0] = pack(x[0][0], x[0][1]);
    p[1] = pack(x[0][2], x[0][3]);
    p[2] = pack(x[1][0], x[1][1]);
    p[3] = pack(x[1][2], x[1][3]);
}

/* Scores become weights relative to their rows' largest so far, and the sums of what came before shrink to
 * these. */
template <int SCORES, int COLUMNS, class cells>
SHARED void take_scores(cells &w, float (*x)[4], float most0, float most1, float scale) {
    float shrink0 = power_of_2((w.most0 - most0) * scale), shrink1 = power_of_2((w.most1 - most1) * scale);
    float off0 = most0 * scale, off1 = most1 * scale;
    w.most0 = most0;
    w.most1 = most1;
    w.lse0 *= shrink0;
    w.lse1 *= shrink1;
#pragma unroll
    for (int k = 0; k < SCORES; k++) {
        x[k][0] = power_of_2(x[k][0] * scale - off0);
        x[k][1] = power_of_2(x[k][1] * scale - off0);
        x[k][2] = power_of_2(x[k][2] * scale - off1);
        x[k][3] = power_of_2(x[k][3] * scale - off1);
        w.lse0 += x[k][0] + x[k][1];
        w.lse1 += x[k][2] + x[k][3];
    }
#pragma unroll
    for (int k = 0; k < COLUMNS; k++) {
        w.sum[k][0] *= shrink0;
        w.sum[k][1] *= shrink0;
        w.sum[k][2] *= shrink1;
        w.sum[k][3] *= shrink1;
    }
}
