/* blake3_many.h: BLAKE3's compression of LANES blocks side by side, word i of all the blocks in one vector.
 * A template in the compiler's vector types, which become whatever instructions the including file is
 * compiled for. It is included with LANES defined as 4, 8 or 16, once for each, and gives two functions
 * that return how many nodes or blocks they did, LANES or what was left:
 *
 *     size_t hash_nodes_LANES(const weir__blake3_nodes *nodes, size_t index, uint8_t *out);
 *     size_t expand_root_LANES(const weir__blake3_end *root, uint64_t counter, size_t index, size_t count,
 *                              uint8_t *out);
 *
 * Two more may be defined for the including file: HAS_ROTATION where the target rotates the words of a
 * vector in one instruction, HAS_BYTE_SHUFFLE where it moves the bytes of a vector in one instruction and
 * is little-endian.
 *
 * Blocks lie in rows and are needed in columns. They are loaded in quads, four words of one lane: a vector
 * takes quads of every fourth lane, so that four such vectors are 4 x 4 matrices side by side, and
 * transposing these gives four words of the message for all lanes. That is two shuffles a word whatever
 * LANES is; output takes the same way back. Lanes beyond the last node repeat it, and what comes out of
 * them is dropped. */
#include <string.h>

#include "base/blake3_kernel.h"
#include "base/bytes.h"

#ifndef WEIR_BASE_BLAKE3_MANY_H
#define WEIR_BASE_BLAKE3_MANY_H

/* Apart from accesses to memory, which the address sanitizer watches, nothing in here can be undefined, and
 * the checks of it would be compiled many hundred times over. */
#define UNCHECKED     __attribute__((no_sanitize("undefined")))
#define ALWAYS_INLINE static inline __attribute__((always_inline)) UNCHECKED

#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

/* How many bytes of a chunk ahead of the block in work its lane is fetched into the cache: the lanes are
 * more streams than hardware follows by itself. */
enum { FETCH_AHEAD_SIZE = 128 };

/* How many of the four mixings of half a round are done in step. They do not depend on each other, and a
 * processor looks ahead only so far for what it can do meanwhile, so all four; but where registers do not
 * even hold the state (x86-64 before AVX-512 has 16), two, because more would move more of it out and in. */
#if defined(__x86_64__) && !defined(HAS_ROTATION)
#define TOGETHER 2
#else
#define TOGETHER 4
#endif

typedef uint32_t quad __attribute__((vector_size(16)));

/* Between the processor's order of bytes and that of memory: its own inverse. */
ALWAYS_INLINE quad order_bytes(quad words) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    words = (words >> 24) | ((words >> 8) & 0xff00) | ((words << 8) & 0xff0000) | (words << 24);
#endif
    return words;
}

ALWAYS_INLINE quad load_quad(const uint8_t *from) {
    quad words;
    memcpy(&words, from, sizeof words);
    return order_bytes(words);
}

ALWAYS_INLINE void store_quad(uint8_t *to, quad words) {
    words = order_bytes(words);
    memcpy(to, &words, sizeof words);
}

/* Lists of indices for shuffles: the same two or four again and again, each time that much further on. */
#define TWOS_1(from, a, b)         (from) + (a), (from) + (b)
#define TWOS_2(from, a, b)         TWOS_1(from, a, b), TWOS_1((from) + 2, a, b)
#define TWOS_4(from, a, b)         TWOS_2(from, a, b), TWOS_2((from) + 4, a, b)
#define FOURS_1(from, a, b, c, d)  (from) + (a), (from) + (b), (from) + (c), (from) + (d)
#define FOURS_2(from, a, b, c, d)  FOURS_1(from, a, b, c, d), FOURS_1((from) + 4, a, b, c, d)
#define FOURS_4(from, a, b, c, d)  FOURS_2(from, a, b, c, d), FOURS_2((from) + 8, a, b, c, d)
#define FOURS_8(from, a, b, c, d)  FOURS_4(from, a, b, c, d), FOURS_4((from) + 16, a, b, c, d)
#define FOURS_16(from, a, b, c, d) FOURS_8(from, a, b, c, d), FOURS_8((from) + 32, a, b, c, d)

#define JOIN_EXPANDED(name, lanes) name##_##lanes
#define JOIN(name, lanes)          JOIN_EXPANDED(name, lanes)
#define NAMED(name)                JOIN(name, LANES)

#endif

typedef uint8_t NAMED(bytes) __attribute__((vector_size(4 * LANES)));
typedef uint16_t NAMED(shorts) __attribute__((vector_size(4 * LANES)));
typedef uint32_t NAMED(words) __attribute__((vector_size(4 * LANES)));
typedef uint64_t NAMED(pairs) __attribute__((vector_size(4 * LANES)));
#define BYTES  NAMED(bytes)
#define SHORTS NAMED(shorts)
#define WORDS  NAMED(words)
#define PAIRS  NAMED(pairs)

#if LANES == 4
#define PAIR_LIST(a, b)        TWOS_1(0, a, b)
#define WORD_LIST(a, b, c, d)  FOURS_1(0, a, b, c, d)
#define SHORT_LIST(a, b, c, d) FOURS_2(0, a, b, c, d)
#define BYTE_LIST(a, b, c, d)  FOURS_4(0, a, b, c, d)
#elif LANES == 8
#define PAIR_LIST(a, b)        TWOS_2(0, a, b)
#define WORD_LIST(a, b, c, d)  FOURS_2(0, a, b, c, d)
#define SHORT_LIST(a, b, c, d) FOURS_4(0, a, b, c, d)
#define BYTE_LIST(a, b, c, d)  FOURS_8(0, a, b, c, d)
#else
#define PAIR_LIST(a, b)        TWOS_4(0, a, b)
#define WORD_LIST(a, b, c, d)  FOURS_4(0, a, b, c, d)
#define SHORT_LIST(a, b, c, d) FOURS_8(0, a, b, c, d)
#define BYTE_LIST(a, b, c, d)  FOURS_16(0, a, b, c, d)
#endif

/* ---- The rounds ------------------------------------------------------------------------------------- */

ALWAYS_INLINE WORDS NAMED(rotate_right)(WORDS x, int count) {
#if !defined(HAS_ROTATION)
    if (count == 16)
        return (WORDS)__builtin_shufflevector((SHORTS)x, (SHORTS)x, SHORT_LIST(1, 0, 3, 2));
#endif
#if !defined(HAS_ROTATION) && defined(HAS_BYTE_SHUFFLE)
    if (count == 8)
        return (WORDS)__builtin_shufflevector((BYTES)x, (BYTES)x, BYTE_LIST(1, 2, 3, 0));
#endif
    return (x >> count) | (x << (32 - count));
}

/* Mixes TOGETHER of the four columns (turn 0) or diagonals (turn 1), from the first-th on. */
ALWAYS_INLINE void NAMED(mix)(WORDS v[16], int turn, int first, const WORDS message[16],
                              const uint8_t order[8]) {
#define EACH UNROLLED for (int i = first; i < first + TOGETHER; i++)
#define A    v[i]
#define B    v[4 + (i + turn) % 4]
#define C    v[8 + (i + 2 * turn) % 4]
#define D    v[12 + (i + 3 * turn) % 4]
    EACH A = A + message[order[2 * i]] + B;
    EACH D = NAMED(rotate_right)(D ^ A, 16);
    EACH C = C + D;
    EACH B = NAMED(rotate_right)(B ^ C, 12);
    EACH A = A + message[order[2 * i + 1]] + B;
    EACH D = NAMED(rotate_right)(D ^ A, 8);
    EACH C = C + D;
    EACH B = NAMED(rotate_right)(B ^ C, 7);
#undef EACH
#undef A
#undef B
#undef C
#undef D
}

ALWAYS_INLINE void NAMED(mix_round)(WORDS v[16], const WORDS message[16], const uint8_t order[16]) {
    UNROLLED for (int first = 0; first < 4; first += TOGETHER) {
        NAMED(mix)(v, 0, first, message, order);
    }
    UNROLLED for (int first = 0; first < 4; first += TOGETHER) {
        NAMED(mix)(v, 1, first, message, order + 8);
    }
}

/* Leaves in v the state after the rounds, before its halves are folded. The rounds stand one by one so that
 * the schedule is a constant to the compiler and the message stays in registers. */
ALWAYS_INLINE void NAMED(run_rounds)(WORDS v[16], const WORDS value[8], const WORDS message[16],
                                     const WORDS counter[2], uint32_t block_size, uint32_t flags) {
    UNROLLED for (int i = 0; i < 8; i++) {
        v[i] = value[i];
    }
    UNROLLED for (int i = 0; i < 4; i++) {
        v[8 + i] = (WORDS){0} + weir__blake3_iv[i];
    }
    v[12] = counter[0];
    v[13] = counter[1];
    v[14] = (WORDS){0} + block_size;
    v[15] = (WORDS){0} + flags;
    NAMED(mix_round)(v, message, weir__blake3_schedule[0]);
    NAMED(mix_round)(v, message, weir__blake3_schedule[1]);
    NAMED(mix_round)(v, message, weir__blake3_schedule[2]);
    NAMED(mix_round)(v, message, weir__blake3_schedule[3]);
    NAMED(mix_round)(v, message, weir__blake3_schedule[4]);
    NAMED(mix_round)(v, message, weir__blake3_schedule[5]);
    NAMED(mix_round)(v, message, weir__blake3_schedule[6]);
}

/* ---- Rows and columns ------------------------------------------------------------------------------- */

/* In each quad of the four vectors: rows become columns. */
ALWAYS_INLINE void NAMED(transpose_quads)(WORDS v[4]) {
    PAIRS low01 = (PAIRS)__builtin_shufflevector(v[0], v[1], WORD_LIST(0, LANES, 1, LANES + 1));
    PAIRS high01 = (PAIRS)__builtin_shufflevector(v[0], v[1], WORD_LIST(2, LANES + 2, 3, LANES + 3));
    PAIRS low23 = (PAIRS)__builtin_shufflevector(v[2], v[3], WORD_LIST(0, LANES, 1, LANES + 1));
    PAIRS high23 = (PAIRS)__builtin_shufflevector(v[2], v[3], WORD_LIST(2, LANES + 2, 3, LANES + 3));
    v[0] = (WORDS)__builtin_shufflevector(low01, low23, PAIR_LIST(0, LANES / 2));
    v[1] = (WORDS)__builtin_shufflevector(low01, low23, PAIR_LIST(1, LANES / 2 + 1));
    v[2] = (WORDS)__builtin_shufflevector(high01, high23, PAIR_LIST(0, LANES / 2));
    v[3] = (WORDS)__builtin_shufflevector(high01, high23, PAIR_LIST(1, LANES / 2 + 1));
}

/* A vector of the quads at `offset` of the lanes `lane`, lane + 4, lane + 8, ... */
ALWAYS_INLINE WORDS NAMED(load_quads)(const uint8_t *const lanes[LANES], int lane, size_t offset) {
#if LANES == 4
    return load_quad(lanes[lane] + offset);
#elif LANES == 8
    return __builtin_shufflevector(load_quad(lanes[lane] + offset), load_quad(lanes[lane + 4] + offset),
                                   FOURS_2(0, 0, 1, 2, 3));
#else
    return __builtin_shufflevector(
        __builtin_shufflevector(load_quad(lanes[lane] + offset), load_quad(lanes[lane + 4] + offset),
                                FOURS_2(0, 0, 1, 2, 3)),
        __builtin_shufflevector(load_quad(lanes[lane + 8] + offset), load_quad(lanes[lane + 12] + offset),
                                FOURS_2(0, 0, 1, 2, 3)),
        FOURS_4(0, 0, 1, 2, 3));
#endif
}

ALWAYS_INLINE void NAMED(load_message)(WORDS message[16], const uint8_t *const lanes[LANES], size_t offset) {
    UNROLLED for (int word = 0; word < 16; word += 4) {
        UNROLLED for (int lane = 0; lane < 4; lane++) {
            message[word + lane] = NAMED(load_quads)(lanes, lane, offset + 4 * (size_t)word);
        }
        NAMED(transpose_quads)(message + word);
    }
}

/* Writes `word_count` words of each of the first `count` lanes, one lane after another. */
ALWAYS_INLINE void NAMED(store_lanes)(WORDS *v, int word_count, size_t count, uint8_t *out) {
    uint8_t spare[LANES * 64];
    uint8_t *to = count < LANES ? spare : out;
    UNROLLED for (int word = 0; word < word_count; word += 4) {
        NAMED(transpose_quads)(v + word);
        UNROLLED for (int lane = 0; lane < LANES; lane++) {
            quad words;
            memcpy(&words, (const uint8_t *)&v[word + lane % 4] + 16 * (lane / 4), sizeof words);
            store_quad(to + 4 * (lane * word_count + word), words);
        }
    }
    if (count < LANES)
        memcpy(out, spare, 4 * (size_t)word_count * count);
}

/* ---- What a kernel does ----------------------------------------------------------------------------- */

/* The low and the high words of counter, counter + step, counter + 2 * step, ... */
ALWAYS_INLINE void NAMED(count_lanes)(WORDS words[2], uint64_t counter, uint32_t step) {
    WORDS low = (WORDS){0} + WEIR__LOW(uint32_t, counter);
    words[0] = low + step * (WORDS){WORD_LIST(0, 1, 2, 3)};
    words[1] = (WORDS){0} + WEIR__LOW(uint32_t, counter >> 32) - (WORDS)(words[0] < low);
}

/* Asks for the block at `offset` of every lane; past the end of the nodes, of the nodes that follow in
 * these lanes. There need not be any: an address is only a hint here. */
ALWAYS_INLINE void NAMED(fetch_ahead)(const uint8_t *const lanes[LANES], size_t offset, size_t node_size) {
    if (offset >= node_size)
        offset += (LANES - 1) * node_size;
    UNROLLED for (int i = 0; i < LANES; i++) {
        __builtin_prefetch((const void *)((uintptr_t)lanes[i] + offset));
    }
}

UNCHECKED static size_t NAMED(hash_nodes)(const weir__blake3_nodes *nodes, size_t index, uint8_t *out) {
    size_t count = nodes->count - index < LANES ? nodes->count - index : LANES;
    size_t node_size = nodes->block_count * WEIR__BLAKE3_BLOCK_SIZE;
    const uint8_t *lanes[LANES];
    for (size_t i = 0; i < LANES; i++)
        lanes[i] = nodes->bytes + (index + (i < count ? i : count - 1)) * node_size;
    WORDS counter[2], value[8];
    NAMED(count_lanes)(counter, nodes->counter + index * nodes->counter_step, nodes->counter_step);
    UNROLLED for (int i = 0; i < 8; i++) {
        value[i] = (WORDS){0} + nodes->key[i];
    }
    for (size_t block = 0; block < nodes->block_count; block++) {
        uint32_t flags = nodes->flags | (block == 0 ? nodes->first_flags : 0) |
                         (block + 1 == nodes->block_count ? nodes->last_flags : 0);
        size_t offset = block * WEIR__BLAKE3_BLOCK_SIZE;
        WORDS v[16], message[16];
        NAMED(load_message)(message, lanes, offset);
        NAMED(fetch_ahead)(lanes, offset + FETCH_AHEAD_SIZE, node_size);
        NAMED(run_rounds)(v, value, message, counter, WEIR__BLAKE3_BLOCK_SIZE, flags);
        UNROLLED for (int i = 0; i < 8; i++) {
            value[i] = v[i] ^ v[8 + i];
        }
    }
    NAMED(store_lanes)(value, 8, count, out + index * WEIR__BLAKE3_VALUE_SIZE);
    return count;
}

UNCHECKED static size_t NAMED(expand_root)(const weir__blake3_end *root, uint64_t first, size_t index,
                                           size_t total, uint8_t *out) {
    size_t count = total - index < LANES ? total - index : LANES;
    WORDS v[16], message[16], value[8], counter[2];
    UNROLLED for (int i = 0; i < 16; i++) {
        message[i] = (WORDS){0} + weir__load32(root->block + 4 * i);
    }
    UNROLLED for (int i = 0; i < 8; i++) {
        value[i] = (WORDS){0} + root->value[i];
    }
    NAMED(count_lanes)(counter, first + index, 1);
    NAMED(run_rounds)(v, value, message, counter, root->block_size, root->flags);
    UNROLLED for (int i = 0; i < 8; i++) {
        v[i] = v[i] ^ v[8 + i];
        v[8 + i] = v[8 + i] ^ value[i];
    }
    NAMED(store_lanes)(v, 16, count, out + index * WEIR__BLAKE3_BLOCK_SIZE);
    return count;
}

#undef LANES
#undef BYTES
#undef SHORTS
#undef WORDS
#undef PAIRS
#undef PAIR_LIST
#undef WORD_LIST
#undef SHORT_LIST
#undef BYTE_LIST
