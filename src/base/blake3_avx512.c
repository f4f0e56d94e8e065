/* blake3_avx512.c: the BLAKE3 kernel of sixteen lanes, for x86-64 processors with AVX-512 F and VL, whose
 * rotation of words makes it worth having narrower vectors of its own too. Only the functions of this file
 * are compiled for such a processor, and only blake3_kernel.c decides to call them. */
#if defined(__x86_64__)

#include <string.h>

#include "base/blake3_compress.h"
#include "base/blake3_kernel.h"
#include "base/bytes.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512vl")
#endif

#define HAS_ROTATION
#define LANES 4
#include "base/blake3_many.h"
#define LANES 8
#include "base/blake3_many.h"
#define LANES 16
#include "base/blake3_many.h"

static void hash(const weir__blake3_nodes *nodes, uint8_t *out) {
    size_t done = 0;
    while (nodes->count - done > 8)
        done += hash_nodes_16(nodes, done, out);
    while (nodes->count - done > 4)
        done += hash_nodes_8(nodes, done, out);
    while (nodes->count - done > 1)
        done += hash_nodes_4(nodes, done, out);
    weir__blake3_hash_each(nodes, done, out);
}

static void expand(const weir__blake3_end *root, uint64_t counter, size_t count, uint8_t *out) {
    size_t done = 0;
    while (count - done > 8)
        done += expand_root_16(root, counter, done, count, out);
    while (count - done > 4)
        done += expand_root_8(root, counter, done, count, out);
    while (count - done > 1)
        done += expand_root_4(root, counter, done, count, out);
    weir__blake3_expand_each(root, counter, done, count, out);
}

#if defined(__clang__)
#pragma clang attribute pop
#endif

const weir__blake3_kernel weir__blake3_avx512 = {.name = "avx512", .hash = hash, .expand = expand};

#endif
