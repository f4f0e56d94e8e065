/* blake3_compress.h: what every part of our BLAKE3 shares: the algorithm's constants, and the compression
 * of one block, which the kernels of blake3_kernel.h repeat for many blocks at a time.
 *
 * Blocks and chaining values are little-endian bytes wherever they lie in memory, so that the two children
 * of a parent are its block as they stand; a chaining value is eight words only while it is being computed
 * with. */
#ifndef WEIR_BASE_BLAKE3_COMPRESS_H
#define WEIR_BASE_BLAKE3_COMPRESS_H

#include <stdint.h>

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

/* The same for all 64 bytes of output, of which the next chaining value is the first half. */
void weir__blake3_compress_wide(const uint32_t value[8], const uint8_t block[64], uint32_t block_size,
                                uint64_t counter, uint32_t flags, uint8_t out[64]);

#endif
