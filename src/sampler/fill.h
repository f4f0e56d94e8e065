/* Runs of indices at memory speed: kernels that are written once (fill_kernel.h) and compiled for each
 * instruction set, chosen by the machine. All give the same numbers. */
#ifndef WEIR_SAMPLER_FILL_H
#define WEIR_SAMPLER_FILL_H

#include <stddef.h>
#include <stdint.h>

#include "sampler/block_map.h"

typedef struct weir_sampler__fill_kernels {
    const char *name;

    /* out[i] = start + (offset + i * step) mod m. Needs offset and step below m, and m at most 2^62. */
    void (*affine)(uint64_t *out, size_t count, uint64_t start, uint64_t offset, uint64_t step, uint64_t m);

    /* out[i] = start + one pass of six rounds from position + i. Values that came out at or above m are
     * left so: the return value says whether there may be any. Needs both sides below 2^32 and side_a of at
     * least 64, and start + side_a * side_b below 2^63. */
    bool (*feistel)(const weir_sampler__block_shape *shape, const weir_sampler__feistel *map, uint64_t start,
                    uint64_t position, size_t count, uint64_t *out);
} weir_sampler__fill_kernels;

extern const weir_sampler__fill_kernels weir_sampler__fill_baseline;
#if defined(__x86_64__)
extern const weir_sampler__fill_kernels weir_sampler__fill_avx2;
extern const weir_sampler__fill_kernels weir_sampler__fill_avx512;
#endif

#endif
