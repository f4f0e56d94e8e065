/* blake3_baseline.c: the BLAKE3 kernel of four lanes, which every processor of the architecture runs. */
#define LANES 4
#include "base/blake3_many.h"

static void hash(const weir__blake3_nodes *nodes, uint8_t *out) {
    size_t done = 0;
    while (nodes->count - done > 1)
        done += hash_nodes_4(nodes, done, out);
    weir__blake3_hash_each(nodes, done, out);
}

static void expand(const weir__blake3_end *root, uint64_t counter, size_t count, uint8_t *out) {
    size_t done = 0;
    while (count - done > 1)
        done += expand_root_4(root, counter, done, count, out);
    weir__blake3_expand_each(root, counter, done, count, out);
}

const weir__blake3_kernel weir__blake3_baseline = {.name = "baseline", .hash = hash, .expand = expand};
