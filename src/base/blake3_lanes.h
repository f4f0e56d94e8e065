/* blake3_lanes.h: a BLAKE3 kernel. A translation unit defines KERNEL_LANES (4, 8 or 16), KERNEL_NAME and
 * KERNEL, and includes this. What is left of full vectors goes through narrower ones. */
#define LANES 4
#include "base/blake3_many.h"
#if KERNEL_LANES >= 8
#define LANES 8
#include "base/blake3_many.h"
#endif
#if KERNEL_LANES >= 16
#define LANES 16
#include "base/blake3_many.h"
#endif

static void hash(const weir__blake3_nodes *nodes, uint8_t *out) {
    size_t done = 0;
#if KERNEL_LANES >= 16
    while (nodes->count - done > 8)
        done += hash_nodes_16(nodes, done, out);
#endif
#if KERNEL_LANES >= 8
    while (nodes->count - done > 4)
        done += hash_nodes_8(nodes, done, out);
#endif
    while (nodes->count - done > 1)
        done += hash_nodes_4(nodes, done, out);
    weir__blake3_hash_each(nodes, done, out);
}

static void expand(const weir__blake3_end *root, uint64_t counter, size_t count, uint8_t *out) {
    size_t done = 0;
#if KERNEL_LANES >= 16
    while (count - done > 8)
        done += expand_root_16(root, counter, done, count, out);
#endif
#if KERNEL_LANES >= 8
    while (count - done > 4)
        done += expand_root_8(root, counter, done, count, out);
#endif
    while (count - done > 1)
        done += expand_root_4(root, counter, done, count, out);
    weir__blake3_expand_each(root, counter, done, count, out);
}

const weir__blake3_kernel KERNEL = {.name = KERNEL_NAME, .hash = hash, .expand = expand};
