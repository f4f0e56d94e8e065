/* See blake3_tree.h. A level of the tree becomes the next one pair by pair, many at a time; what has no right
 * sibling goes up as it is, which is the tree whose left subtrees are full. Full groups of 64 values become
 * nodes on a stack, one for each bit of their number. The last group always waits, because the root is
 * compressed differently. */
#include "base/blake3_tree.h"

#include <assert.h>
#include <string.h>

#include "base/blake3_compress.h"
#include "base/blake3_kernel.h"
#include "base/bytes.h"

enum { VALUE = WEIR__SUBTREE_VALUE, CHUNK = WEIR__BLAKE3_CHUNK_SIZE, BLOCK = WEIR__BLAKE3_BLOCK_SIZE };

/* Pairs of values become their parents, in place; returns how many there are. */
static size_t next_level(uint8_t (*values)[32], size_t count) {
    weir__blake3_nodes parents = {.bytes = values[0],
                                  .count = count / 2,
                                  .block_count = 1,
                                  .key = weir__blake3_iv,
                                  .flags = WEIR__BLAKE3_PARENT};
    weir__blake3_kernel_best()->hash(&parents, values[0]);
    if (count % 2 == 1)
        memcpy(values[count / 2], values[count - 1], VALUE);
    return count / 2 + count % 2;
}

static void reduce(uint8_t (*values)[32], size_t count) {
    while (count > 1)
        count = next_level(values, count);
}

/* The parent of two values; may be one of them. */
static void join_two(const uint8_t left[32], const uint8_t right[32], uint32_t flags, uint8_t out[32]) {
    uint32_t value[8];
    uint8_t block[BLOCK];
    memcpy(value, weir__blake3_iv, sizeof value);
    memcpy(block, left, VALUE);
    memcpy(block + VALUE, right, VALUE);
    weir__blake3_compress(value, block, BLOCK, 0, WEIR__BLAKE3_PARENT | flags);
    for (size_t i = 0; i < 8; i++)
        weir__store32(out + 4 * i, value[i]);
}

/* A chunk that may be short, block by block. */
static void chunk_value(const uint8_t *data, size_t size, uint64_t number, uint8_t out[32]) {
    uint32_t value[8];
    uint32_t flags = WEIR__BLAKE3_CHUNK_START;
    memcpy(value, weir__blake3_iv, sizeof value);
    for (;;) {
        uint8_t block[BLOCK] = {0};
        uint32_t part = size < BLOCK ? WEIR__NARROW(uint32_t, size) : BLOCK;
        memcpy(block, data, part);
        data += part;
        size -= part;
        weir__blake3_compress(value, block, part, number, flags | (size == 0 ? WEIR__BLAKE3_CHUNK_END : 0u));
        flags = 0;
        if (size == 0)
            break;
    }
    for (size_t i = 0; i < 8; i++)
        weir__store32(out + 4 * i, value[i]);
}

void weir__blake3_subtree(const void *data, size_t size, uint64_t index, uint8_t value[32]) {
    uint8_t values[WEIR__SUBTREE_CHUNKS][32];
    size_t whole = size / CHUNK;
    uint64_t first = index * WEIR__SUBTREE_CHUNKS;
    assert(size > 0 && size <= WEIR__SUBTREE_SIZE);
    weir__blake3_nodes chunks = {.bytes = data,
                                 .count = whole,
                                 .block_count = WEIR__BLAKE3_CHUNK_BLOCKS,
                                 .key = weir__blake3_iv,
                                 .counter = first,
                                 .counter_step = 1,
                                 .first_flags = WEIR__BLAKE3_CHUNK_START,
                                 .last_flags = WEIR__BLAKE3_CHUNK_END};
    if (whole > 0)
        weir__blake3_kernel_best()->hash(&chunks, values[0]);
    if (size % CHUNK > 0)
        chunk_value((const uint8_t *)data + whole * CHUNK, size % CHUNK, first + whole, values[whole]);
    reduce(values, whole + (size % CHUNK > 0));
    memcpy(value, values[0], VALUE);
}

void weir__blake3_join_begin(weir__blake3_joiner *joiner) {
    joiner->group_count = joiner->depth = 0;
    joiner->groups = 0;
}

/* A full group becomes one node; equal neighbours on the stack become their parent. */
static void close_group(weir__blake3_joiner *joiner) {
    reduce(joiner->group, joiner->group_count);
    memcpy(joiner->stack[joiner->depth++], joiner->group[0], VALUE);
    joiner->groups++;
    for (uint64_t merged = joiner->groups; merged % 2 == 0; merged /= 2) {
        joiner->depth--;
        join_two(joiner->stack[joiner->depth - 1], joiner->stack[joiner->depth], 0,
                 joiner->stack[joiner->depth - 1]);
    }
    joiner->group_count = 0;
}

void weir__blake3_join_add(weir__blake3_joiner *joiner, const uint8_t *values, size_t count) {
    enum { GROUP = sizeof joiner->group / VALUE };
    while (count > 0) {
        if (joiner->group_count == GROUP)
            close_group(joiner);
        size_t part = GROUP - joiner->group_count < count ? GROUP - joiner->group_count : count;
        memcpy(joiner->group[joiner->group_count], values, part * VALUE);
        joiner->group_count += part;
        values += part * VALUE;
        count -= part;
    }
}

void weir__blake3_join_end(weir__blake3_joiner *joiner, uint8_t digest[32]) {
    size_t count = joiner->group_count;
    assert(count > 1 || joiner->depth > 0);
    while (count > 2 || (count == 2 && joiner->depth > 0))
        count = next_level(joiner->group, count);
    if (joiner->depth == 0) {
        join_two(joiner->group[0], joiner->group[1], WEIR__BLAKE3_ROOT, digest);
        return;
    }
    memcpy(digest, joiner->group[0], VALUE);
    while (joiner->depth > 0) {
        joiner->depth--;
        join_two(joiner->stack[joiner->depth], digest, joiner->depth == 0 ? WEIR__BLAKE3_ROOT : 0u, digest);
    }
}
