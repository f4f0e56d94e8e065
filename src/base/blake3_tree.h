/* blake3_tree.h: BLAKE3 in two steps. The hash of a long input is the root of a tree; here its subtrees of 64
 * KiB are hashed one by one, in any order, and their chaining values are joined to the hash. So a part of an
 * input can be checked without the rest. */
#ifndef WEIR_BASE_BLAKE3_TREE_H
#define WEIR_BASE_BLAKE3_TREE_H

#include <stddef.h>
#include <stdint.h>

enum { WEIR__SUBTREE_SIZE = 64 * 1024, WEIR__SUBTREE_CHUNKS = 64, WEIR__SUBTREE_VALUE = 32 };

/* The chaining value of the index-th subtree of a longer input: `size` bytes, 1 to WEIR__SUBTREE_SIZE, and
 * exactly that unless it is the last. */
void weir__blake3_subtree(const void *data, size_t size, uint64_t index, uint8_t value[32]);

/* Joins the values of all subtrees, in order, of an input that has at least two of them. A plain value. */
typedef struct weir__blake3_joiner {
    uint8_t group[64][32]; /* values that wait */
    size_t group_count;
    uint64_t groups; /* that were joined before */
    uint8_t stack[58][32];
    size_t depth;
} weir__blake3_joiner;

void weir__blake3_join_begin(weir__blake3_joiner *joiner);
void weir__blake3_join_add(weir__blake3_joiner *joiner, const uint8_t *values, size_t count);
void weir__blake3_join_end(weir__blake3_joiner *joiner, uint8_t digest[32]);

#endif
