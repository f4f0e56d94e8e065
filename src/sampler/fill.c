/* Runs of a block's indices: picks a kernel, and does one at a time what the kernels leave out (sizes
 * beyond their range, and the few values that must walk on). */
#include "sampler/fill.h"

#include "base/vectors.h"

enum { KERNEL_MIN = 16, KERNEL_SIDE_MIN = 64, WALK_CHUNK = 1024 };

/* The fastest that this machine can run. */
static const weir_sampler__fill_kernels *best_kernels(void) {
#if defined(__x86_64__)
    weir__vectors vectors = weir__vectors_of_this_machine();
    if (vectors != WEIR__BASELINE)
        return vectors == WEIR__AVX512 ? &weir_sampler__fill_avx512 : &weir_sampler__fill_avx2;
#endif
    return &weir_sampler__fill_baseline;
}

void weir_sampler__affine_fill(const weir_sampler__block_shape *shape, const weir_sampler__affine *map,
                               uint64_t start, uint64_t position, size_t count, uint64_t *out) {
    uint64_t m = shape->m;
    uint64_t offset = weir_sampler__affine_at(shape, map, position);
    if (m <= (uint64_t)1 << 60 && count >= KERNEL_MIN) {
        best_kernels()->affine(out, count, start, offset, map->a, m);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        out[i] = start + offset;
        offset = offset >= m - map->a ? offset - (m - map->a) : offset + map->a;
    }
}

/* The kernel does six rounds for each; the values that came out at or above m (fewer than one in sqrt(m))
 * walk on here. */
void weir_sampler__feistel_fill(const weir_sampler__block_shape *shape, const weir_sampler__feistel *map,
                                uint64_t start, uint64_t position, size_t count, uint64_t *out) {
    bool fits =
        shape->side_a >= KERNEL_SIDE_MIN && shape->m <= (uint64_t)1 << 60 && start <= (uint64_t)1 << 60;
    if (!fits || count < KERNEL_MIN) {
        for (size_t i = 0; i < count; i++)
            out[i] = start + weir_sampler__feistel_at(shape, map, position + i);
        return;
    }
    const weir_sampler__fill_kernels *kernels = best_kernels();
    for (size_t done = 0; done < count; done += WALK_CHUNK) {
        size_t end = count - done < WALK_CHUNK ? count : done + WALK_CHUNK;
        if (!kernels->feistel(shape, map, start, position + done, end - done, out + done))
            continue;
        for (size_t i = done; i < end; i++)
            if (out[i] - start >= shape->m)
                out[i] = start + weir_sampler__feistel_at(shape, map, out[i] - start);
    }
}
