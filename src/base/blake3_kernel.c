/* blake3_kernel.c: the BLAKE3 kernel that takes one block after another, and the choice among the kernels.
 * The choice is made anew each time: it costs a few loads, and nothing global has to be set up or changed. */
#include "base/blake3_kernel.h"

#include <string.h>

#include "base/blake3_compress.h"
#include "base/bytes.h"

void weir__blake3_hash_each(const weir__blake3_nodes *nodes, size_t index, uint8_t *out) {
    for (; index < nodes->count; index++) {
        const uint8_t *blocks = nodes->bytes + index * nodes->block_count * WEIR__BLAKE3_BLOCK_SIZE;
        uint32_t value[8];
        memcpy(value, nodes->key, sizeof value);
        for (size_t block = 0; block < nodes->block_count; block++) {
            uint32_t flags = nodes->flags | (block == 0 ? nodes->first_flags : 0) |
                             (block + 1 == nodes->block_count ? nodes->last_flags : 0);
            weir__blake3_compress(value, blocks + block * WEIR__BLAKE3_BLOCK_SIZE, WEIR__BLAKE3_BLOCK_SIZE,
                                  nodes->counter + index * nodes->counter_step, flags);
        }
        for (size_t i = 0; i < 8; i++)
            weir__store32(out + index * WEIR__BLAKE3_VALUE_SIZE + 4 * i, value[i]);
    }
}

void weir__blake3_expand_each(const weir__blake3_end *root, uint64_t counter, size_t index, size_t count,
                              uint8_t *out) {
    for (; index < count; index++)
        weir__blake3_compress_wide(root->value, root->block, root->block_size, counter + index, root->flags,
                                   out + index * WEIR__BLAKE3_BLOCK_SIZE);
}

static void hash(const weir__blake3_nodes *nodes, uint8_t *out) {
    weir__blake3_hash_each(nodes, 0, out);
}

static void expand(const weir__blake3_end *root, uint64_t counter, size_t count, uint8_t *out) {
    weir__blake3_expand_each(root, counter, 0, count, out);
}

/* From slow to fast; a processor that has one has those before it. */
enum { WITHOUT_LANES, BASELINE, AVX2, AVX512 };

static const weir__blake3_kernel single = {.name = "single", .hash = hash, .expand = expand};

#if defined(__x86_64__)
static bool has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
}
#endif

const weir__blake3_kernel *weir__blake3_kernel_at(size_t index) {
    switch (index) {
    case WITHOUT_LANES:
        return &single;
    case BASELINE:
        return &weir__blake3_baseline;
#if defined(__x86_64__)
    case AVX2:
        return __builtin_cpu_supports("avx2") ? &weir__blake3_avx2 : NULL;
    case AVX512:
        return has_avx512() ? &weir__blake3_avx512 : NULL;
#endif
    default:
        return NULL;
    }
}

const weir__blake3_kernel *weir__blake3_kernel_best(void) {
    const weir__blake3_kernel *best = &weir__blake3_baseline;
    const weir__blake3_kernel *next;
    for (size_t index = BASELINE + 1; (next = weir__blake3_kernel_at(index)) != NULL; index++)
        best = next;
    return best;
}
