/* blake3_kernel.h: the part of BLAKE3 that compresses blocks: the algorithm's constants, the compression of
 * one block, and kernels that take many at a time. Blocks of different nodes do not depend on each other, so
 * a kernel takes them side by side, one in each lane of its vectors. All kernels give the same bytes; they
 * differ in the number of lanes and in what the processor must have.
 *
 * Blocks and chaining values are little-endian bytes wherever they lie in memory, so that the two children
 * of a parent are its block as they stand; a chaining value is eight words only while it is being computed
 * with. */
#ifndef WEIR_BASE_BLAKE3_KERNEL_H
#define WEIR_BASE_BLAKE3_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

enum {
    WEIR__BLAKE3_BLOCK_SIZE = 64,
    WEIR__BLAKE3_CHUNK_BLOCKS = 16,
    WEIR__BLAKE3_CHUNK_SIZE = WEIR__BLAKE3_CHUNK_BLOCKS * WEIR__BLAKE3_BLOCK_SIZE,
    WEIR__BLAKE3_VALUE_SIZE = 32,
};

/* What a block is: the last word of the state. */
enum {
    WEIR__BLAKE3_CHUNK_START = 1 << 0,
    WEIR__BLAKE3_CHUNK_END = 1 << 1,
    WEIR__BLAKE3_PARENT = 1 << 2,
    WEIR__BLAKE3_ROOT = 1 << 3,
    WEIR__BLAKE3_KEYED_HASH = 1 << 4,
    WEIR__BLAKE3_DERIVE_KEY_CONTEXT = 1 << 5,
    WEIR__BLAKE3_DERIVE_KEY_MATERIAL = 1 << 6,
};

/* The key of the unkeyed hash; its first half is the third row of every state. */
static const uint32_t weir__blake3_iv[8] = {
    0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19,
};

/* The message words of each round in the order in which its eight mixings take them, two each. Every row is
 * the one before it under the algorithm's permutation, which is the second row. */
static const uint8_t weir__blake3_schedule[7][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8},
    {3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1},
    {10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6},
    {12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4},
    {9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7},
    {11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13},
};

/* Compresses one block, of whose 64 bytes those from block_size on must be zero, and replaces the chaining
 * value by the next one. */
void weir__blake3_compress(uint32_t value[8], const uint8_t block[64], uint32_t block_size, uint64_t counter,
                           uint32_t flags);

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
