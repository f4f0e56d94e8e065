/* blake3.c: BLAKE3, the tree. The kernels (blake3_kernel.h) compute chaining values, here is decided of
 * what. The tree of a long input can also be made in two steps: its subtrees one by one, in any order, and
 * then the tree over their values, in which they take the place of chunks.
 *
 * The input is cut into chunks of 1 KiB, the leaves of a binary tree whose left subtrees are always full.
 * Of what has been hashed, a hasher keeps the roots of the full subtrees in its stack, one for each bit of
 * chunk_counter, the largest first. Chunks come in runs: a run's chaining values are one level of the tree,
 * which is turned into the next one, many parents at a time; a left sibling that is missing at the left end
 * is on top of the stack, and what has no right sibling yet is left for the stack. So whole chunks are
 * hashed at full width wherever they start.
 *
 * The root is compressed differently from all other nodes, so whatever may still become the root must not
 * be compressed yet:
 *   - the last block of the chunk in progress waits in `block`, full or not, until there is more input;
 *   - where all the chunks form one full subtree, its two halves lie on the stack in its place until there
 *     is more (halves_wait): the only time when the stack holds more nodes than chunk_counter has bits. */
#include "base/hash.h"

#include <assert.h>
#include <string.h>

#include "base/blake3_kernel.h"
#include "base/bytes.h"

enum {
    BLOCK_SIZE = WEIR__BLAKE3_BLOCK_SIZE,
    CHUNK_SIZE = WEIR__BLAKE3_CHUNK_SIZE,
    VALUE_SIZE = WEIR__BLAKE3_VALUE_SIZE,
    RUN_CHUNKS_MAX = 128,
    RUN_LEVELS_MAX = 8,
};

_Static_assert(RUN_CHUNKS_MAX == 1 << (RUN_LEVELS_MAX - 1),
               "one level for every halving of a run, and the last node");

/* ---- The chunk in progress -------------------------------------------------------------------------- */

static void start_chunk(weir__blake3 *hasher) {
    memcpy(hasher->chunk_value, hasher->key, sizeof hasher->chunk_value);
    hasher->block_size = 0;
    hasher->blocks_compressed = 0;
}

static size_t chunk_size(const weir__blake3 *hasher) {
    return (size_t)hasher->blocks_compressed * BLOCK_SIZE + hasher->block_size;
}

static uint32_t chunk_flags(const weir__blake3 *hasher) {
    return hasher->flags | (hasher->blocks_compressed == 0 ? WEIR__BLAKE3_CHUNK_START : 0u);
}

static uint64_t chunk_number(const weir__blake3 *hasher) {
    return hasher->first_chunk + hasher->chunk_counter;
}

static void compress_inner_block(weir__blake3 *hasher, const uint8_t block[64]) {
    weir__blake3_compress(hasher->chunk_value, block, BLOCK_SIZE, chunk_number(hasher), chunk_flags(hasher));
    hasher->blocks_compressed++;
}

/* Takes in up to the end of the chunk and returns how much that was. The last block stays uncompressed,
 * full or not. */
static size_t fill_chunk(weir__blake3 *hasher, const uint8_t *from, size_t size) {
    size_t room = CHUNK_SIZE - chunk_size(hasher);
    size_t taken = size < room ? size : room;
    for (size_t left = taken; left > 0;) {
        size_t part = BLOCK_SIZE;
        if (hasher->block_size == BLOCK_SIZE) {
            compress_inner_block(hasher, hasher->block);
            hasher->block_size = 0;
        }
        if (hasher->block_size == 0 && left > BLOCK_SIZE) {
            compress_inner_block(hasher, from);
        } else {
            part = BLOCK_SIZE - hasher->block_size;
            part = left < part ? left : part;
            memcpy(hasher->block + hasher->block_size, from, part);
            hasher->block_size = WEIR__LOW(uint8_t, hasher->block_size + part);
        }
        from += part;
        left -= part;
    }
    return taken;
}

/* ---- Ends of nodes ---------------------------------------------------------------------------------- */

static weir__blake3_end end_of_chunk(const weir__blake3 *hasher) {
    weir__blake3_end end = {.block_size = hasher->block_size,
                            .flags = chunk_flags(hasher) | WEIR__BLAKE3_CHUNK_END};
    memcpy(end.value, hasher->chunk_value, sizeof end.value);
    memcpy(end.block, hasher->block, hasher->block_size);
    return end;
}

static weir__blake3_end end_of_parent(const weir__blake3 *hasher, const uint8_t left[32],
                                      const uint8_t right[32]) {
    weir__blake3_end end = {.block_size = BLOCK_SIZE, .flags = hasher->flags | WEIR__BLAKE3_PARENT};
    memcpy(end.value, hasher->key, sizeof end.value);
    memcpy(end.block, left, VALUE_SIZE);
    memcpy(end.block + VALUE_SIZE, right, VALUE_SIZE);
    return end;
}

static void value_of_end(const weir__blake3_end *end, uint64_t counter, uint8_t out[32]) {
    uint32_t value[8];
    memcpy(value, end->value, sizeof value);
    weir__blake3_compress(value, end->block, end->block_size, counter, end->flags);
    for (size_t i = 0; i < 8; i++)
        weir__store32(out + 4 * i, value[i]);
}

/* ---- The stack of subtrees -------------------------------------------------------------------------- */

static void push(weir__blake3 *hasher, const uint8_t node[32]) {
    memcpy(hasher->stack[hasher->stack_depth++], node, VALUE_SIZE);
}

static void hash_parents(const weir__blake3_kernel *kernel, const weir__blake3 *hasher,
                         const uint8_t *children, size_t count, uint8_t *out) {
    weir__blake3_nodes parents = {
        .bytes = children,
        .count = count,
        .block_count = 1,
        .key = hasher->key,
        .flags = hasher->flags | WEIR__BLAKE3_PARENT,
    };
    kernel->hash(&parents, out);
}

static void join_halves(const weir__blake3_kernel *kernel, weir__blake3 *hasher) {
    bool halves_wait = hasher->stack_depth > __builtin_popcountll(hasher->chunk_counter);
    if (!halves_wait)
        return;
    uint8_t *halves = hasher->stack[hasher->stack_depth - 2];
    hash_parents(kernel, hasher, halves, 1, halves);
    hasher->stack_depth--;
}

/* How many of `count` chunks go into one run: up to a multiple of the longest. */
static size_t run_of(const weir__blake3 *hasher, size_t count) {
    size_t room = RUN_CHUNKS_MAX - (size_t)(hasher->chunk_counter % RUN_CHUNKS_MAX);
    return count < room ? count : room;
}

/* Adds the chaining values of a run of `count` chunks, which stand in `nodes` from its second place on: the
 * first is for a left sibling. Each turn takes a level of the tree to the next, in place. */
static void add_chunk_values(const weir__blake3_kernel *kernel, weir__blake3 *hasher, uint8_t (*nodes)[32],
                             size_t count) {
    uint8_t unpaired[RUN_LEVELS_MAX][VALUE_SIZE];
    size_t unpaired_count = 0;
    uint64_t first = hasher->chunk_counter;
    join_halves(kernel, hasher);
    hasher->chunk_counter += count;
    uint8_t(*level)[32];
    for (;;) {
        level = nodes + 1;
        if (first % 2 == 1) {
            level = nodes;
            memcpy(level[0], hasher->stack[--hasher->stack_depth], VALUE_SIZE);
            first--;
            count++;
        }
        bool may_be_root = first == 0 && count == 2 && unpaired_count == 0;
        if (count == 1 || may_be_root)
            break;
        if (count % 2 == 1)
            memcpy(unpaired[unpaired_count++], level[count - 1], VALUE_SIZE);
        first /= 2;
        count /= 2;
        hash_parents(kernel, hasher, level[0], count, nodes[1]);
    }
    for (size_t i = 0; i < count; i++)
        push(hasher, level[i]);
    while (unpaired_count > 0)
        push(hasher, unpaired[--unpaired_count]);
}

/* ---- Input ------------------------------------------------------------------------------------------ */

/* Hashes whole chunks straight from the caller's memory, and returns how many bytes that was. */
static size_t hash_run(const weir__blake3_kernel *kernel, weir__blake3 *hasher, const uint8_t *from,
                       size_t size) {
    uint8_t nodes[1 + RUN_CHUNKS_MAX][VALUE_SIZE];
    weir__blake3_nodes chunks = {
        .bytes = from,
        .count = run_of(hasher, size / CHUNK_SIZE),
        .block_count = WEIR__BLAKE3_CHUNK_BLOCKS,
        .key = hasher->key,
        .counter = chunk_number(hasher),
        .counter_step = 1,
        .flags = hasher->flags,
        .first_flags = WEIR__BLAKE3_CHUNK_START,
        .last_flags = WEIR__BLAKE3_CHUNK_END,
    };
    kernel->hash(&chunks, nodes[1]);
    add_chunk_values(kernel, hasher, nodes, chunks.count);
    return chunks.count * CHUNK_SIZE;
}

void weir__blake3_update_with(const weir__blake3_kernel *kernel, weir__blake3 *hasher, const void *data,
                              size_t size) {
    const uint8_t *from = data;
    if (chunk_size(hasher) > 0 && size > 0) {
        size_t taken = fill_chunk(hasher, from, size);
        from += taken;
        size -= taken;
        if (size > 0) {
            uint8_t nodes[2][VALUE_SIZE];
            weir__blake3_end end = end_of_chunk(hasher);
            value_of_end(&end, chunk_number(hasher), nodes[1]);
            add_chunk_values(kernel, hasher, nodes, 1);
            start_chunk(hasher);
        }
    }
    /* A lone chunk may be the root, and then it is not hashed as part of a run. */
    while (size > CHUNK_SIZE || (size == CHUNK_SIZE && hasher->chunk_counter > 0)) {
        size_t taken = hash_run(kernel, hasher, from, size);
        from += taken;
        size -= taken;
    }
    if (size > 0) {
        join_halves(kernel, hasher);
        fill_chunk(hasher, from, size);
    }
}

void weir__blake3_join(weir__blake3 *hasher, const uint8_t *values, size_t count) {
    uint8_t nodes[1 + RUN_CHUNKS_MAX][VALUE_SIZE];
    while (count > 0) {
        size_t part = run_of(hasher, count);
        memcpy(nodes[1], values, part * VALUE_SIZE);
        add_chunk_values(weir__blake3_kernel_best(), hasher, nodes, part);
        values += part * VALUE_SIZE;
        count -= part;
    }
}

/* ---- Output ----------------------------------------------------------------------------------------- */

/* Joins the chunk in progress and the stack, from right to left, without changing them. */
static void find_end(const weir__blake3 *hasher, weir__blake3_end *end) {
    *end = end_of_chunk(hasher);
    size_t depth = hasher->stack_depth;
    assert((depth != 1 || chunk_size(hasher) > 0) && "a tree of one value");
    if (depth > 0) {
        uint8_t right[VALUE_SIZE];
        if (chunk_size(hasher) > 0)
            value_of_end(end, chunk_number(hasher), right);
        else
            memcpy(right, hasher->stack[--depth], VALUE_SIZE);
        for (;;) {
            *end = end_of_parent(hasher, hasher->stack[--depth], right);
            if (depth == 0)
                break;
            value_of_end(end, 0, right);
        }
    }
}

static void copy_part_of_block(const weir__blake3_end *root, uint64_t counter, size_t skip, uint8_t *out,
                               size_t size) {
    uint8_t block[BLOCK_SIZE];
    weir__blake3_expand_each(root, counter, 0, 1, block);
    memcpy(out, block + skip, size);
}

void weir__blake3_final_seek_with(const weir__blake3_kernel *kernel, const weir__blake3 *hasher,
                                  uint64_t offset, void *out, size_t size) {
    weir__blake3_end root;
    find_end(hasher, &root);
    root.flags |= WEIR__BLAKE3_ROOT;
    uint8_t *to = out;
    uint64_t counter = offset / BLOCK_SIZE;
    size_t skip = (size_t)(offset % BLOCK_SIZE);
    if (skip > 0 && size > 0) {
        size_t part = size < BLOCK_SIZE - skip ? size : BLOCK_SIZE - skip;
        copy_part_of_block(&root, counter++, skip, to, part);
        to += part;
        size -= part;
    }
    size_t whole = size / BLOCK_SIZE;
    if (whole > 0)
        kernel->expand(&root, counter, whole, to);
    if (size % BLOCK_SIZE > 0)
        copy_part_of_block(&root, counter + whole, 0, to + whole * BLOCK_SIZE, size % BLOCK_SIZE);
}

/* ---- The public calls ------------------------------------------------------------------------------- */

static void init_with(weir__blake3 *hasher, const uint32_t key[8], uint8_t flags) {
    memcpy(hasher->key, key, sizeof hasher->key);
    hasher->first_chunk = hasher->chunk_counter = 0;
    hasher->flags = flags;
    hasher->stack_depth = 0;
    start_chunk(hasher);
}

static void init_with_bytes(weir__blake3 *hasher, const uint8_t key[32], uint8_t flags) {
    uint32_t words[8];
    for (size_t i = 0; i < 8; i++)
        words[i] = weir__load32(key + 4 * i);
    init_with(hasher, words, flags);
}

void weir__blake3_init(weir__blake3 *hasher) {
    init_with(hasher, weir__blake3_iv, 0);
}

void weir__blake3_init_keyed(weir__blake3 *hasher, const uint8_t key[32]) {
    init_with_bytes(hasher, key, WEIR__BLAKE3_KEYED_HASH);
}

void weir__blake3_init_derive_key(weir__blake3 *hasher, const void *context, size_t context_size) {
    uint8_t key[32];
    init_with(hasher, weir__blake3_iv, WEIR__BLAKE3_DERIVE_KEY_CONTEXT);
    weir__blake3_update(hasher, context, context_size);
    weir__blake3_final(hasher, key, sizeof key);
    init_with_bytes(hasher, key, WEIR__BLAKE3_DERIVE_KEY_MATERIAL);
}

void weir__blake3_update(weir__blake3 *hasher, const void *data, size_t size) {
    weir__blake3_update_with(weir__blake3_kernel_best(), hasher, data, size);
}

void weir__blake3_final(const weir__blake3 *hasher, void *out, size_t size) {
    weir__blake3_final_seek(hasher, 0, out, size);
}

void weir__blake3_final_seek(const weir__blake3 *hasher, uint64_t offset, void *out, size_t size) {
    weir__blake3_final_seek_with(weir__blake3_kernel_best(), hasher, offset, out, size);
}

void weir__blake3_of(const void *data, size_t size, uint8_t digest[32]) {
    weir__blake3 hasher;
    weir__blake3_init(&hasher);
    weir__blake3_update(&hasher, data, size);
    weir__blake3_final(&hasher, digest, 32);
}

void weir__blake3_subtree(const void *data, size_t size, uint64_t index, uint8_t value[32]) {
    weir__blake3 hasher;
    assert(size > 0 && size <= WEIR__SUBTREE_SIZE);
    weir__blake3_init(&hasher);
    hasher.first_chunk = index * (WEIR__SUBTREE_SIZE / CHUNK_SIZE);
    weir__blake3_update(&hasher, data, size);
    weir__blake3_end end;
    find_end(&hasher, &end);
    value_of_end(&end, hasher.stack_depth > 0 ? 0 : hasher.first_chunk, value);
}
