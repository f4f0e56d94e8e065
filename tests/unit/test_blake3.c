/* test_blake3.c: BLAKE3 against the golden vectors, and against a second implementation (below) that
 * follows the algorithm's definition word by word, one block at a time, the tree by recursion. Everything
 * is done with every kernel that this processor can run. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/blake3_kernel.h"
#include "base/hash.h"
#include "support/testing.h"

enum { INPUT_SIZE = 300 * 1024, LONG_OUTPUT_SIZE = 5000, NODES_MAX = 70 };

static uint8_t input[INPUT_SIZE];

/* ---- The second implementation ---------------------------------------------------------------------- */

enum { CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8, KEYED_HASH = 16 };

static uint32_t rotated(uint32_t x, int count) {
    return x >> count | x << (32 - count);
}

static void plain_mix(uint32_t *v, int a, int b, int c, int d, uint32_t x, uint32_t y) {
    v[a] += v[b] + x;
    v[d] = rotated(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = rotated(v[b] ^ v[c], 12);
    v[a] += v[b] + y;
    v[d] = rotated(v[d] ^ v[a], 8);
    v[c] += v[d];
    v[b] = rotated(v[b] ^ v[c], 7);
}

static void plain_compress(const uint32_t value[8], const uint32_t block[16], uint64_t counter, uint32_t size,
                           uint32_t flags, uint32_t out[16]) {
    static const int permutation[16] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};
    uint32_t m[16], permuted[16];
    uint32_t v[16] = {[8] = 0x6A09E667,          0xBB67AE85, 0x3C6EF372, 0xA54FF53A, (uint32_t)counter,
                      (uint32_t)(counter >> 32), size,       flags};
    memcpy(v, value, 32);
    memcpy(m, block, 64);
    for (int round = 0; round < 7; round++) {
        for (int i = 0; i < 4; i++)
            plain_mix(v, i, 4 + i, 8 + i, 12 + i, m[2 * i], m[2 * i + 1]);
        for (int i = 0; i < 4; i++)
            plain_mix(v, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, m[8 + 2 * i], m[9 + 2 * i]);
        for (int i = 0; i < 16; i++)
            permuted[i] = m[permutation[i]];
        memcpy(m, permuted, 64);
    }
    for (int i = 0; i < 8; i++) {
        out[i] = v[i] ^ v[8 + i];
        out[8 + i] = v[8 + i] ^ value[i];
    }
}

static void plain_load(uint32_t words[16], const uint8_t *bytes, size_t size) {
    memset(words, 0, 64);
    for (size_t i = 0; i < size; i++)
        words[i / 4] |= (uint32_t)bytes[i] << 8 * (i % 4);
}

typedef struct plain_node {
    uint32_t value[8], block[16];
    uint64_t counter;
    uint32_t size, flags;
} plain_node;

static void plain_value(const plain_node *node, uint32_t value[8]) {
    uint32_t out[16];
    plain_compress(node->value, node->block, node->counter, node->size, node->flags, out);
    memcpy(value, out, 32);
}

/* The last block of the node over these bytes, of which the first is in the chunk `counter`. */
static plain_node plain_tree(const uint32_t key[8], uint32_t flags, const uint8_t *bytes, size_t size,
                             uint64_t counter) {
    plain_node node = {.flags = flags};
    memcpy(node.value, key, 32);
    if (size <= 1024) {
        node.counter = counter;
        node.flags |= CHUNK_START;
        for (; size > 64; bytes += 64, size -= 64) {
            plain_load(node.block, bytes, 64);
            node.size = 64;
            plain_value(&node, node.value);
            node.flags = flags;
        }
        plain_load(node.block, bytes, size);
        node.size = (uint32_t)size;
        node.flags |= CHUNK_END;
        return node;
    }
    size_t left_size = 1024;
    while (left_size * 2 < size)
        left_size *= 2;
    plain_node left = plain_tree(key, flags, bytes, left_size, counter);
    plain_node right =
        plain_tree(key, flags, bytes + left_size, size - left_size, counter + left_size / 1024);
    plain_value(&left, node.block);
    plain_value(&right, node.block + 8);
    node.size = 64;
    node.flags |= PARENT;
    return node;
}

static void plain_hash(const uint32_t key[8], uint32_t flags, const uint8_t *bytes, size_t size,
                       uint64_t offset, uint8_t *out, size_t out_size) {
    plain_node root = plain_tree(key, flags, bytes, size, 0);
    for (size_t i = 0; i < out_size; i++) {
        uint32_t words[16];
        uint64_t at = offset + i;
        plain_compress(root.value, root.block, at / 64, root.size, root.flags | ROOT, words);
        out[i] = (uint8_t)(words[at % 64 / 4] >> 8 * (at % 4));
    }
}

static void plain_digest(size_t size, uint8_t digest[32]) {
    plain_hash(weir__blake3_iv, 0, input, size, 0, digest, 32);
}

/* ---- Helpers ---------------------------------------------------------------------------------------- */

/* Those that this processor can run, and then NULL. */
static const weir__blake3_kernel *kernels[8];

/* The input is that of the official test vectors. */
static int prepare(void **state) {
    (void)state;
    size_t count = 0;
    const weir__blake3_kernel *kernel;
    while ((kernel = weir__blake3_kernel_at(count)) != NULL)
        kernels[count++] = kernel;
    for (size_t i = 0; i < INPUT_SIZE; i++)
        input[i] = (uint8_t)(i % 251);
    return 0;
}

static uint64_t next_random(uint64_t *random) {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

static size_t drawn_below(uint64_t *random, size_t bound) {
    return (size_t)(next_random(random) >> 16) % bound;
}

#define FOR_EACH_KERNEL(kernel)                                                                              \
    for (const weir__blake3_kernel *const *place = kernels, *kernel; (kernel = *place) != NULL; place++)

static void assert_digest(const weir__blake3_kernel *kernel, const weir__blake3 *hasher,
                          const uint8_t expected[32]) {
    uint8_t digest[32];
    weir__blake3_final_seek_with(kernel, hasher, 0, digest, sizeof digest);
    assert_memory_equal(digest, expected, sizeof digest);
}

/* ---- Golden vectors --------------------------------------------------------------------------------- */

static size_t decode_hex(const char *hex, uint8_t *bytes, size_t capacity) {
    size_t size = strlen(hex) / 2;
    assert_true(size <= capacity);
    for (size_t i = 0; i < size; i++) {
        char digits[3] = {hex[2 * i], hex[2 * i + 1], 0};
        bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return size;
}

static void check_golden(const weir__blake3_kernel *kernel, const weir__blake3 *fresh, size_t size,
                         const json_t *expected_hex) {
    uint8_t expected[512], out[512];
    size_t out_size = decode_hex(json_string_value(expected_hex), expected, sizeof expected);
    weir__blake3 hasher = *fresh;
    weir__blake3_update_with(kernel, &hasher, input, size);
    weir__blake3_final_seek_with(kernel, &hasher, 0, out, out_size);
    assert_memory_equal(out, expected, out_size);
}

static void test_golden_vectors(void **state) {
    (void)state;
    json_t *vectors = load_vectors("blake3.json");
    const json_t *cases = json_object_get(vectors, "cases");
    const char *key = json_string_value(json_object_get(vectors, "key"));
    const char *context = json_string_value(json_object_get(vectors, "context_string"));
    assert_int_equal(strlen(key), 32);
    assert_true(json_array_size(cases) > 0);
    weir__blake3 plain, keyed, derived;
    weir__blake3_init(&plain);
    weir__blake3_init_keyed(&keyed, (const uint8_t *)key);
    weir__blake3_init_derive_key(&derived, context, strlen(context));
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i);
        size_t size = (size_t)json_integer_value(json_object_get(one, "input_len"));
        assert_true(size <= INPUT_SIZE);
        FOR_EACH_KERNEL(kernel) {
            check_golden(kernel, &plain, size, json_object_get(one, "hash"));
            check_golden(kernel, &keyed, size, json_object_get(one, "keyed_hash"));
            check_golden(kernel, &derived, size, json_object_get(one, "derive_key"));
        }
    }
    json_decref(vectors);
}

static void test_public_calls_agree_with_kernels(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 1024, 1025, 70000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t expected[32], digest[32], tail[20];
        plain_digest(sizes[i], expected);
        weir__blake3_of(input, sizes[i], digest);
        assert_memory_equal(digest, expected, 32);
        weir__blake3 hasher;
        weir__blake3_init(&hasher);
        weir__blake3_update(&hasher, input, sizes[i]);
        weir__blake3_final(&hasher, digest, 32);
        assert_memory_equal(digest, expected, 32);
        weir__blake3_final_seek(&hasher, 12, tail, sizeof tail);
        assert_memory_equal(tail, expected + 12, sizeof tail);
    }
}

/* ---- Input in parts --------------------------------------------------------------------------------- */

static void test_every_size_at_once_and_bytewise(void **state) {
    (void)state;
    enum { LARGEST = 4 * 1024 + 2 };
    static uint8_t expected[LARGEST + 1][32];
    for (size_t size = 0; size <= LARGEST; size++)
        plain_digest(size, expected[size]);
    FOR_EACH_KERNEL(kernel) {
        weir__blake3 bytewise;
        weir__blake3_init(&bytewise);
        for (size_t size = 0; size <= LARGEST; size++) {
            assert_digest(kernel, &bytewise, expected[size]);
            weir__blake3 whole;
            weir__blake3_init(&whole);
            weir__blake3_update_with(kernel, &whole, input, size);
            assert_digest(kernel, &whole, expected[size]);
            weir__blake3_update_with(kernel, &bytewise, input + size, 1);
        }
    }
}

/* All numbers up to well above the lanes, and around the longest run and twice that. */
static void test_any_number_of_chunks(void **state) {
    (void)state;
    for (size_t chunks = 1; chunks <= 260; chunks += chunks == 70 ? 50 : chunks == 140 ? 110 : 1) {
        for (size_t more = 0; more < 2; more++) {
            size_t size = chunks * 1024 + more;
            uint8_t expected[32];
            plain_digest(size, expected);
            FOR_EACH_KERNEL(kernel) {
                weir__blake3 hasher;
                weir__blake3_init(&hasher);
                weir__blake3_update_with(kernel, &hasher, input, size);
                assert_digest(kernel, &hasher, expected);
            }
        }
    }
}

static void test_every_split_of_short_inputs(void **state) {
    (void)state;
    static const size_t sizes[] = {0,    1,    2,    63,   64,   65,   127,  128,  129,  1023, 1024,
                                   1025, 1088, 2047, 2048, 2049, 3071, 3072, 3073, 4096, 4097};
    FOR_EACH_KERNEL(kernel) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            uint8_t expected[32];
            plain_digest(sizes[i], expected);
            for (size_t split = 0; split <= sizes[i]; split++) {
                weir__blake3 hasher;
                weir__blake3_init(&hasher);
                weir__blake3_update_with(kernel, &hasher, input, split);
                weir__blake3_update_with(kernel, &hasher, input + split, sizes[i] - split);
                assert_digest(kernel, &hasher, expected);
            }
        }
    }
}

/* Splits at chunks: the tree sees every pair of runs, wherever the first one ends. */
static void test_runs_of_chunks_that_start_anywhere(void **state) {
    (void)state;
    enum { CHUNKS_MAX = 40 };
    static uint8_t expected[2 * CHUNKS_MAX + 1][32];
    for (size_t chunks = 0; chunks <= 2 * CHUNKS_MAX; chunks++)
        plain_digest(chunks * 1024, expected[chunks]);
    FOR_EACH_KERNEL(kernel) {
        for (size_t first = 0; first <= CHUNKS_MAX; first++) {
            for (size_t second = 0; second <= CHUNKS_MAX; second++) {
                weir__blake3 hasher;
                weir__blake3_init(&hasher);
                weir__blake3_update_with(kernel, &hasher, input, first * 1024);
                weir__blake3_update_with(kernel, &hasher, input + first * 1024, second * 1024);
                assert_digest(kernel, &hasher, expected[first + second]);
            }
        }
    }
}

static void test_random_splits_of_long_inputs(void **state) {
    (void)state;
    uint64_t random = 0x9E3779B97F4A7C15;
    for (int turn = 0; turn < 60; turn++) {
        size_t size = drawn_below(&random, 200 * 1024 + 1);
        size_t part_bound = (size_t)1 << (1 + drawn_below(&random, 17));
        uint8_t expected[32];
        plain_digest(size, expected);
        FOR_EACH_KERNEL(kernel) {
            weir__blake3 hasher;
            weir__blake3_init(&hasher);
            for (size_t done = 0; done < size;) {
                size_t part = drawn_below(&random, part_bound + 1);
                part = part < size - done ? part : size - done;
                weir__blake3_update_with(kernel, &hasher, input + done, part);
                done += part;
            }
            assert_digest(kernel, &hasher, expected);
        }
    }
}

static void test_no_input_at_all(void **state) {
    (void)state;
    uint8_t expected[32], digest[32];
    plain_digest(0, expected);
    weir__blake3_of(NULL, 0, digest);
    assert_memory_equal(digest, expected, 32);
    weir__blake3 hasher;
    weir__blake3_init(&hasher);
    weir__blake3_update(&hasher, NULL, 0);
    weir__blake3_final(&hasher, NULL, 0);
    weir__blake3_final(&hasher, digest, 32);
    assert_memory_equal(digest, expected, 32);
}

/* Input and output end where memory ends, so that one byte further would be the end of this process. */
static void test_nothing_past_the_end_is_touched(void **state) {
    (void)state;
    enum { GUARD_SIZE = 64 * 1024, MEMORY_SIZE = 4 * GUARD_SIZE };
    uint8_t *memory = mmap(NULL, MEMORY_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    uint8_t *end = memory + MEMORY_SIZE - GUARD_SIZE;
    assert_int_equal(mprotect(end, GUARD_SIZE, PROT_NONE), 0);
    for (size_t size = 0; size <= 40 * 1024; size += 512) {
        uint8_t expected[32];
        plain_digest(size, expected);
        FOR_EACH_KERNEL(kernel) {
            memcpy(end - size, input, size);
            weir__blake3 hasher;
            weir__blake3_init(&hasher);
            weir__blake3_update_with(kernel, &hasher, end - size, size);
            assert_digest(kernel, &hasher, expected);
            weir__blake3_final_seek_with(kernel, &hasher, 3, end - size / 10, size / 10);
        }
    }
    munmap(memory, MEMORY_SIZE);
}

/* ---- One hasher used more than once ----------------------------------------------------------------- */

static void test_fork_by_copy(void **state) {
    (void)state;
    static const size_t prefixes[] = {0, 1, 64, 1000, 1024, 2048, 3000, 8192, 100000};
    FOR_EACH_KERNEL(kernel) {
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
            uint8_t expected_short[32], expected_long[32];
            plain_digest(prefixes[i] + 10, expected_short);
            plain_digest(prefixes[i] + 9000, expected_long);
            weir__blake3 trunk;
            weir__blake3_init(&trunk);
            weir__blake3_update_with(kernel, &trunk, input, prefixes[i]);
            weir__blake3 fork = trunk;
            weir__blake3_update_with(kernel, &trunk, input + prefixes[i], 9000);
            weir__blake3_update_with(kernel, &fork, input + prefixes[i], 10);
            assert_digest(kernel, &fork, expected_short);
            assert_digest(kernel, &trunk, expected_long);
        }
    }
}

static void test_initializing_again_forgets(void **state) {
    (void)state;
    uint8_t expected[32];
    plain_digest(7000, expected);
    weir__blake3 hasher;
    memset(&hasher, 0xA5, sizeof hasher);
    weir__blake3_init_keyed(&hasher, input);
    weir__blake3_update(&hasher, input, 50000);
    weir__blake3_init(&hasher);
    weir__blake3_update(&hasher, input, 7000);
    assert_digest(weir__blake3_kernel_best(), &hasher, expected);
}

/* ---- Extended output -------------------------------------------------------------------------------- */

/* The root is a chunk, a parent over an unfinished chunk, a parent over whole chunks. */
static const size_t seek_input_sizes[] = {0, 100, 1024, 5000, 8192};

static void check_seek(const weir__blake3 *hasher, uint64_t offset, size_t size, const uint8_t *expected) {
    uint8_t out[LONG_OUTPUT_SIZE + 16];
    FOR_EACH_KERNEL(kernel) {
        memset(out, 0xA5, sizeof out);
        weir__blake3_final_seek_with(kernel, hasher, offset, out, size);
        assert_memory_equal(out, expected, size);
        for (size_t i = size; i < size + 16; i++)
            assert_int_equal(out[i], 0xA5);
    }
}

static void test_seek_is_a_slice_of_the_long_output(void **state) {
    (void)state;
    uint64_t random = 42;
    for (size_t i = 0; i < sizeof seek_input_sizes / sizeof *seek_input_sizes; i++) {
        static uint8_t whole[LONG_OUTPUT_SIZE];
        plain_hash(weir__blake3_iv, 0, input, seek_input_sizes[i], 0, whole, sizeof whole);
        weir__blake3 hasher;
        weir__blake3_init(&hasher);
        weir__blake3_update(&hasher, input, seek_input_sizes[i]);
        check_seek(&hasher, 0, sizeof whole, whole);
        for (int turn = 0; turn < 300; turn++) {
            size_t offset = drawn_below(&random, sizeof whole);
            size_t size = drawn_below(&random, sizeof whole - offset + 1);
            check_seek(&hasher, offset, size, whole + offset);
        }
    }
}

/* The counter of a block is two words of the state, and the carry between them comes at 2^32 blocks. */
static void test_seek_far_away(void **state) {
    (void)state;
    static const uint64_t offsets[] = {((uint64_t)1 << 38) - 2500, (uint64_t)7 << 55, UINT64_MAX - 2999};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        uint8_t expected[3000];
        plain_hash(weir__blake3_iv, 0, input, 5000, offsets[i], expected, sizeof expected);
        weir__blake3 hasher;
        weir__blake3_init(&hasher);
        weir__blake3_update(&hasher, input, 5000);
        check_seek(&hasher, offsets[i], sizeof expected, expected);
    }
}

/* ---- Kernels ---------------------------------------------------------------------------------------- */

static void test_best_kernel_is_the_last(void **state) {
    (void)state;
    size_t count = 0;
    FOR_EACH_KERNEL(kernel) {
        count++;
        for (size_t i = 0; i < count - 1; i++)
            assert_string_not_equal(kernels[i]->name, kernel->name);
    }
#if defined(__x86_64__)
    bool has_avx2 = __builtin_cpu_supports("avx2");
    bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
    assert_int_equal(count, 2 + has_avx2 + has_avx512);
#else
    assert_int_equal(count, 2);
#endif
    assert_ptr_equal(weir__blake3_kernel_best(), kernels[count - 1]);
}

static void check_nodes(const weir__blake3_nodes *nodes) {
    uint8_t expected[NODES_MAX * 32], out[NODES_MAX * 32 + 16];
    weir__blake3_hash_each(nodes, 0, expected);
    FOR_EACH_KERNEL(kernel) {
        memset(out, 0xA5, sizeof out);
        kernel->hash(nodes, out);
        assert_memory_equal(out, expected, nodes->count * 32);
        for (size_t i = nodes->count * 32; i < nodes->count * 32 + 16; i++)
            assert_int_equal(out[i], 0xA5);
    }
}

static void test_kernels_hash_any_number_of_chunks(void **state) {
    (void)state;
    uint32_t key[8] = {1, 2, 3, 4, 5, 6, 7, 0xFFFFFFFF};
    for (size_t count = 1; count <= NODES_MAX; count++) {
        weir__blake3_nodes chunks = {
            .bytes = input + 1,
            .count = count,
            .block_count = 16,
            .key = key,
            .counter = ((uint64_t)5 << 32) - 30,
            .counter_step = 1,
            .flags = KEYED_HASH,
            .first_flags = CHUNK_START,
            .last_flags = CHUNK_END,
        };
        check_nodes(&chunks);
        uint8_t last[32];
        plain_node node =
            plain_tree(key, KEYED_HASH, chunks.bytes + (count - 1) * 1024, 1024, chunks.counter + count - 1);
        uint32_t value[16] = {0}, expected[16];
        plain_value(&node, expected);
        chunks.bytes += (count - 1) * 1024;
        chunks.counter += count - 1;
        chunks.count = 1;
        weir__blake3_hash_each(&chunks, 0, last);
        plain_load(value, last, 32);
        assert_memory_equal(value, expected, 32);
    }
}

/* As the tree does it: the values replace their nodes, from the start of these or one value further on. */
static void test_kernels_hash_parents_in_place(void **state) {
    (void)state;
    for (size_t count = 1; count <= NODES_MAX; count++) {
        weir__blake3_nodes parents = {
            .bytes = input + 3, .count = count, .block_count = 1, .key = weir__blake3_iv, .flags = PARENT};
        check_nodes(&parents);
        uint8_t expected[NODES_MAX * 32];
        weir__blake3_hash_each(&parents, 0, expected);
        for (size_t shift = 0; shift <= 32; shift += 32) {
            FOR_EACH_KERNEL(kernel) {
                uint8_t bytes[NODES_MAX * 64];
                memcpy(bytes, input + 3, count * 64);
                parents.bytes = bytes;
                kernel->hash(&parents, bytes + shift);
                assert_memory_equal(bytes + shift, expected, count * 32);
            }
        }
    }
}

/* ---- Subtrees, as a store's block hashes are ------------------------------------------------------- */

static void test_joined_subtrees_are_the_hash(void **state) {
    enum { MOST = 130 * WEIR__SUBTREE_SIZE + 5 };
    static const size_t blocks[] = {1, 2, 3, 4, 5, 7, 8, 63, 64, 65, 127, 128, 129, 130};
    static const int more[] = {-WEIR__SUBTREE_SIZE + 1, -1024, -1, 0, 1, 5};
    (void)state;
    uint8_t *data = malloc(MOST);
    assert_non_null(data);
    for (size_t i = 0; i < MOST; i++)
        data[i] = (uint8_t)(i * 31 >> 5);
    for (size_t b = 0; b<sizeof blocks / sizeof blocks[0]; b += test_stride()> 1 ? 3 : 1)
        for (size_t m = 0; m < sizeof more / sizeof more[0]; m++) {
            size_t size = (size_t)((long)(blocks[b] * WEIR__SUBTREE_SIZE) + more[m]), count = 0;
            uint8_t expected[32], found[32], values[131][32];
            if (size <= WEIR__SUBTREE_SIZE || size > MOST)
                continue;
            for (size_t at = 0; at < size; at += WEIR__SUBTREE_SIZE, count++) {
                size_t part = size - at < WEIR__SUBTREE_SIZE ? size - at : WEIR__SUBTREE_SIZE;
                weir__blake3_subtree(data + at, part, count, values[count]);
            }
            weir__blake3_of(data, size, expected);
            for (size_t each = 1; each <= count; each += count - 1) { /* one by one, and all at once */
                weir__blake3 joined;
                weir__blake3_init(&joined);
                for (size_t i = 0; i < count; i += each)
                    weir__blake3_join(&joined, values[i], each);
                weir__blake3_final(&joined, found, sizeof found);
                assert_memory_equal(found, expected, 32);
            }
        }
    free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_vectors),
        cmocka_unit_test(test_public_calls_agree_with_kernels),
        cmocka_unit_test(test_every_size_at_once_and_bytewise),
        cmocka_unit_test(test_any_number_of_chunks),
        cmocka_unit_test(test_every_split_of_short_inputs),
        cmocka_unit_test(test_runs_of_chunks_that_start_anywhere),
        cmocka_unit_test(test_random_splits_of_long_inputs),
        cmocka_unit_test(test_no_input_at_all),
        cmocka_unit_test(test_nothing_past_the_end_is_touched),
        cmocka_unit_test(test_fork_by_copy),
        cmocka_unit_test(test_initializing_again_forgets),
        cmocka_unit_test(test_seek_is_a_slice_of_the_long_output),
        cmocka_unit_test(test_seek_far_away),
        cmocka_unit_test(test_best_kernel_is_the_last),
        cmocka_unit_test(test_kernels_hash_any_number_of_chunks),
        cmocka_unit_test(test_kernels_hash_parents_in_place),
        cmocka_unit_test(test_joined_subtrees_are_the_hash),
    };
    return cmocka_run_group_tests_name("blake3", tests, prepare, NULL);
}
