/* What the kernels for float16 and bfloat16 (tensor_cores.cu, warp_groups.cu) have in common: a GPU's
 * instructions, by name, and how weights are made of scores. Compiled for one pass (PASS) and one type
 * (BFLOAT16: 1 or 0), after records_kernel.h and pass_kernel.h. */

#define FORWARD WEIR_ATTENTION__FORWARD
#define QUERIES WEIR_ATTENTION__QUERIES
#define KEYS    WEIR_ATTENTION__KEYS

#define NOTHING 0xffffffffu /* instead of a position */
#define LEAST   -1e30f
#define LOG2E   1.4426950408889634f
#define WARP    0xffffffffu

/* ---- Instructions --------------------------------------------------------------------------------- */

SHARED uint32_t shared_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Copies in the background; zeros if there is nothing to be copied. */
SHARED void copy16(uint32_t to, const void *from, bool is_there) {
    int size = is_there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(size));
}

SHARED void copy4(void *to, const void *from, bool is_there) {
    int size = is_there ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from),
                 "r"(size));
}

SHARED void commit_copies() {
    asm volatile("cp.async.commit_group;");
}

SHARED void await_copies() {
    asm volatile("cp.async.wait_group 0;");
}

SHARED void load_matrices(uint32_t *r, uint32_t from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from));
}

SHARED void load_matrices_transposed(uint32_t *r, uint32_t from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from));
}

#if BFLOAT16
#define MMA_TYPES    "bf16.bf16"
#define PACK         "cvt.rn.bf16x2.f32 %0, %1, %2;"
#define NOT_A_NUMBER 0x7fc07fc0u
#else
#define MMA_TYPES    "f16.f16"
#define PACK         "cvt.rn.f16x2.f32 %0, %1, %2;"
#define NOT_A_NUMBER 0x7e007e00u
#endif

/* c (16 x 8) += a (16 x 16) b (16 x 8) */
SHARED void multiply(float *c, const uint32_t *a, uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." MMA_TYPES
                 ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

SHARED uint32_t pack(float low, float high) {
    uint32_t both;
    asm(PACK : "=r"(both) : "f"(high), "f"(low));
    return both;
}

SHARED float low_of(uint32_t both) {
#if BFLOAT16
    return __uint_as_float(both << 16);
#else
    float value;
    asm("{.reg .b16 a,b; mov.b32 {a,b}, %1; cvt.f32.f16 %0, a;}" : "=f"(value) : "r"(both));
    return value;
#endif
}

SHARED float high_of(uint32_t both) {
#if BFLOAT16
    return __uint_as_float(both & 0xffff0000u);
#else
    float value;
    asm("{.reg .b16 a,b; mov.b32 {a,b}, %1; cvt.f32.f16 %0, b;}" : "=f"(value) : "r"(both));
    return value;
#endif
}

SHARED float power_of_2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

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
