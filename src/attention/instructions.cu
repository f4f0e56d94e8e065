/* A GPU's instructions, by name, for the kernels of float16 and bfloat16 (BFLOAT16: 1 or 0). All that is not
 * C++ is here: tests/gpu_on_host has the same functions for the host. */

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
#define MMA_TYPES "bf16.bf16"
#define PACK      "cvt.rn.bf16x2.f32 %0, %1, %2;"
#else
#define MMA_TYPES "f16.f16"
#define PACK      "cvt.rn.f16x2.f32 %0, %1, %2;"
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
