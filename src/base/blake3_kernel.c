/* blake3_kernel.c: BLAKE3's compression function for one block, the kernel that takes one block after
 * another, and the choice among the kernels. One block at a time serves what does not come in numbers: the
 * blocks of a chunk in progress, the last few parents, the digest.
 *
 * The state is a 4 x 4 matrix of words: two rows of chaining value, one of constants, one of counter, size
 * and flags. A round mixes the four columns, then the four diagonals. Each row is one vector here, so that
 * a row's four mixings go side by side; turning the rows against each other makes columns of the diagonals.
 * The compiler's vector types mean the same on every architecture, with vector instructions or without. */
#include "base/blake3_kernel.h"

#include <string.h>

#include "base/bytes.h"
#include "base/vectors.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

typedef uint32_t row __attribute__((vector_size(16)));

typedef struct state {
    row a, b, c, d;
} state;

ALWAYS_INLINE row rotate_right(row x, int count) {
    return (x >> count) | (x << (32 - count));
}

ALWAYS_INLINE void mix_columns(state *s, row first, row second) {
    s->a = s->a + first + s->b;
    s->d = rotate_right(s->d ^ s->a, 16);
    s->c = s->c + s->d;
    s->b = rotate_right(s->b ^ s->c, 12);
    s->a = s->a + second + s->b;
    s->d = rotate_right(s->d ^ s->a, 8);
    s->c = s->c + s->d;
    s->b = rotate_right(s->b ^ s->c, 7);
}

/* The diagonals are brought under each other by turning the rows a, c and d and not b, on which the next
 * step waits; so the diagonal that starts in the last column comes first. */
ALWAYS_INLINE void mix_diagonals(state *s, row first, row second) {
    s->a = __builtin_shufflevector(s->a, s->a, 3, 0, 1, 2);
    s->c = __builtin_shufflevector(s->c, s->c, 1, 2, 3, 0);
    s->d = __builtin_shufflevector(s->d, s->d, 2, 3, 0, 1);
    mix_columns(s, first, second);
    s->a = __builtin_shufflevector(s->a, s->a, 1, 2, 3, 0);
    s->c = __builtin_shufflevector(s->c, s->c, 3, 0, 1, 2);
    s->d = __builtin_shufflevector(s->d, s->d, 2, 3, 0, 1);
}

ALWAYS_INLINE void mix_round(state *s, const uint32_t m[16], const uint8_t order[16]) {
    mix_columns(s, (row){m[order[0]], m[order[2]], m[order[4]], m[order[6]]},
                (row){m[order[1]], m[order[3]], m[order[5]], m[order[7]]});
    mix_diagonals(s, (row){m[order[14]], m[order[8]], m[order[10]], m[order[12]]},
                  (row){m[order[15]], m[order[9]], m[order[11]], m[order[13]]});
}

/* The state after the rounds, before its halves are folded. The rounds stand one by one so that the
 * schedule is a constant to the compiler. */
ALWAYS_INLINE state run_rounds(const uint32_t value[8], const uint8_t block[64], uint32_t block_size,
                               uint64_t counter, uint32_t flags) {
    uint32_t m[16];
    for (size_t i = 0; i < 16; i++)
        m[i] = weir__load32(block + 4 * i);
    state s = {
        .a = {value[0], value[1], value[2], value[3]},
        .b = {value[4], value[5], value[6], value[7]},
        .c = {weir__blake3_iv[0], weir__blake3_iv[1], weir__blake3_iv[2], weir__blake3_iv[3]},
        .d = {WEIR__LOW(uint32_t, counter), WEIR__LOW(uint32_t, counter >> 32), block_size, flags},
    };
    mix_round(&s, m, weir__blake3_schedule[0]);
    mix_round(&s, m, weir__blake3_schedule[1]);
    mix_round(&s, m, weir__blake3_schedule[2]);
    mix_round(&s, m, weir__blake3_schedule[3]);
    mix_round(&s, m, weir__blake3_schedule[4]);
    mix_round(&s, m, weir__blake3_schedule[5]);
    mix_round(&s, m, weir__blake3_schedule[6]);
    return s;
}

void weir__blake3_compress(uint32_t value[8], const uint8_t block[64], uint32_t block_size, uint64_t counter,
                           uint32_t flags) {
    state s = run_rounds(value, block, block_size, counter, flags);
    for (size_t i = 0; i < 4; i++) {
        value[i] = s.a[i] ^ s.c[i];
        value[4 + i] = s.b[i] ^ s.d[i];
    }
}

void weir__blake3_hash_each(const weir__blake3_nodes *nodes, size_t index, uint8_t *out) {
    for (; index < nodes->count; index++) {
        const uint8_t *blocks = nodes->bytes + index * nodes->block_count * WEIR__BLAKE3_BLOCK_SIZE;
        uint32_t value[8];
        memcpy(value, nodes->key, sizeof value);
        for (size_t block = 0; block < nodes->block_count; block++) {
            uint32_t flags = nodes->flags | (block == 0 ? nodes->first_flags : 0) |
                             (block + 1 == nodes->block_count ? nodes->last_flags : 0);
            weir__blake3_compress(value, blocks + block * WEIR__BLAKE3_BLOCK_SIZE, WEIR__BLAKE3_BLOCK_SIZE,
                                  nodes->counter + index * nodes->counter_step, flags);
        }
        for (size_t i = 0; i < 8; i++)
            weir__store32(out + index * WEIR__BLAKE3_VALUE_SIZE + 4 * i, value[i]);
    }
}

/* A block's 64 bytes of output; the next chaining value would be the first half. */
void weir__blake3_expand_each(const weir__blake3_end *root, uint64_t counter, size_t index, size_t count,
                              uint8_t *out) {
    out += index * WEIR__BLAKE3_BLOCK_SIZE;
    for (; index < count; index++, out += WEIR__BLAKE3_BLOCK_SIZE) {
        state s = run_rounds(root->value, root->block, root->block_size, counter + index, root->flags);
        for (size_t i = 0; i < 4; i++) {
            weir__store32(out + 4 * i, s.a[i] ^ s.c[i]);
            weir__store32(out + 16 + 4 * i, s.b[i] ^ s.d[i]);
            weir__store32(out + 32 + 4 * i, s.c[i] ^ root->value[i]);
            weir__store32(out + 48 + 4 * i, s.d[i] ^ root->value[4 + i]);
        }
    }
}

static void hash(const weir__blake3_nodes *nodes, uint8_t *out) {
    weir__blake3_hash_each(nodes, 0, out);
}

static void expand(const weir__blake3_end *root, uint64_t counter, size_t count, uint8_t *out) {
    weir__blake3_expand_each(root, counter, 0, count, out);
}

static const weir__blake3_kernel single = {.name = "single", .hash = hash, .expand = expand};

/* The choice is made anew each time: it costs a few loads, and nothing global has to be set up or changed. */
const weir__blake3_kernel *weir__blake3_kernel_at(size_t index) {
    static const weir__blake3_kernel *const kernels[] = {
        &single,
        [1 + WEIR__BASELINE] = &weir__blake3_baseline,
#if defined(__x86_64__)
        [1 + WEIR__AVX2] = &weir__blake3_avx2,
        [1 + WEIR__AVX512] = &weir__blake3_avx512,
#endif
    };
    return index <= 1u + weir__vectors_of_this_machine() ? kernels[index] : NULL;
}

const weir__blake3_kernel *weir__blake3_kernel_best(void) {
    return weir__blake3_kernel_at(1u + weir__vectors_of_this_machine());
}
