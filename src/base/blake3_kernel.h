/* blake3_kernel.h: kernels, the part of BLAKE3 that compresses many blocks at a time. Blocks of different
 * nodes do not depend on each other, so a kernel takes them side by side, one in each lane of its vectors.
 * All kernels give the same bytes; they differ in the number of lanes and in what the processor must have. */
#ifndef WEIR_BASE_BLAKE3_KERNEL_H
#define WEIR_BASE_BLAKE3_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

/* Nodes of one kind (chunks or parents) that lie one after another, each of block_count whole blocks. */
typedef struct weir__blake3_nodes {
    const uint8_t *bytes;
    size_t count;
    size_t block_count;
    const uint32_t *key;   /* 8 words */
    uint64_t counter;      /* of the first node */
    uint32_t counter_step; /* from one node to the next: 1 or 0 */
    uint32_t flags;        /* of every block */
    uint32_t first_flags;  /* more of them for the first block */
    uint32_t last_flags;   /* and for the last one */
} weir__blake3_nodes;

/* The last block of a node, with the chaining value before it. As the root it is what all output is made
 * of: one block of output for every value of the counter. */
typedef struct weir__blake3_end {
    uint32_t value[8];
    uint8_t block[64];
    uint32_t block_size;
    uint32_t flags;
} weir__blake3_end;

typedef struct weir__blake3_kernel {
    const char *name;

    /* Writes the chaining values of the nodes, 32 bytes each. For nodes of one block, `out` may overlap
     * them if it starts at most 32 bytes after they do: a value is written only after its node and all
     * before it were read. */
    void (*hash)(const weir__blake3_nodes *nodes, uint8_t *out);

    /* Writes `count` blocks of the root's output, from block `counter` on. */
    void (*expand)(const weir__blake3_end *root, uint64_t counter, size_t count, uint8_t *out);
} weir__blake3_kernel;

/* The index-th of the kernels that this processor can run, slowest first; NULL past the last. */
const weir__blake3_kernel *weir__blake3_kernel_at(size_t index);

/* The last of them. */
const weir__blake3_kernel *weir__blake3_kernel_best(void);

/* One node after another and one block after another, from the index-th on: a kernel of one lane, and what
 * the others do with a single one that is left. */
void weir__blake3_hash_each(const weir__blake3_nodes *nodes, size_t index, uint8_t *out);
void weir__blake3_expand_each(const weir__blake3_end *root, uint64_t counter, size_t index, size_t count,
                              uint8_t *out);

extern const weir__blake3_kernel weir__blake3_baseline;
#if defined(__x86_64__)
extern const weir__blake3_kernel weir__blake3_avx2;
extern const weir__blake3_kernel weir__blake3_avx512;
#endif

/* The public calls, with the kernel given. */
void weir__blake3_update_with(const weir__blake3_kernel *kernel, weir__blake3 *hasher, const void *data,
                              size_t size);
void weir__blake3_final_seek_with(const weir__blake3_kernel *kernel, const weir__blake3 *hasher,
                                  uint64_t offset, void *out, size_t size);

#endif
