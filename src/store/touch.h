/* Verifying a store's blocks when they are used first (docs/spec/04b-block-hashes.md). A bit a block says
 * that it was found whole in this process; whoever needs a block whose bit is not set verifies it, on the
 * spot. Bits are set by any thread and never cleared: two threads that meet at one block do the same work
 * twice, and that is all.
 *
 * What must hold: no byte of a section is used for anything but prefetching before weir_store__check_touched
 * has said true of it. The readers tolerate any bytes, so what was read before the answer is looked at does
 * no harm. */
#ifndef WEIR_STORE_TOUCH_H
#define WEIR_STORE_TOUCH_H

#include <stdatomic.h>

#include "base/hash.h"
#include "store/format.h"

enum { WEIR_STORE__BLOCK_SHIFT = 16 };
static_assert(1 << WEIR_STORE__BLOCK_SHIFT == WEIR__SUBTREE_SIZE, "a block is a subtree");

/* One section's blocks. */
typedef struct weir_store__blocks {
    atomic_ullong left; /* blocks that were not found whole yet */
    const uint8_t *base;
    uint64_t size; /* bytes */
    const uint8_t *hash;
    const uint8_t *values;   /* in the tail; NULL if it has none */
    atomic_ullong *is_whole; /* bits */
    atomic_uint state;       /* a weir_store__section_state */
} weir_store__blocks;

/* Of a section's values, or, if it has none, of the section as a whole. */
typedef enum weir_store__section_state {
    WEIR_STORE__UNKNOWN,
    WEIR_STORE__UNDER_WAY,
    WEIR_STORE__SOUND,
    WEIR_STORE__DAMAGED
} weir_store__section_state;

typedef struct weir_store__touched {
    const weir_env *env;
    weir_store__blocks sections[WEIR_STORE__SECTIONS_MOST];
    atomic_ullong *bits; /* of all sections */
    uint64_t word_count;
    atomic_uint damaged;       /* a section's kind, and … */
    atomic_ullong at;          /* … which byte of it begins the block */
    atomic_ullong expected;    /* times that something was asked for which was not in memory, … */
    atomic_ullong expected_ns; /* … and the time that looking and asking took */
    uint32_t unreadable;       /* set by the environment where a page cannot be read */
    bool is_scattered;         /* the system reads pages alone: blocks are asked for as a whole */
} weir_store__touched;

static inline uint64_t weir_store__block_count(uint64_t size) {
    return (size >> WEIR_STORE__BLOCK_SHIFT) + ((size & (WEIR__SUBTREE_SIZE - 1)) != 0);
}

/* How many values the tail of these sections has, and its size in bytes, 0 if it has none. */
uint64_t weir_store__value_count(const weir_section *sections);
uint64_t weir_store__tail_size(const weir_section *sections);

/* Prepares the bits; `tail` is NULL if the file has none. With `is_trusted` all are set. OUT_OF_MEMORY. */
WEIR_CHECKED weir_status weir_store__touched_open(weir_store__touched *touched, const weir_env *env,
                                                  const weir_section *sections, const uint8_t *data,
                                                  const uint8_t *tail, bool is_trusted, weir_error *error);
void weir_store__touched_close(weir_store__touched *touched);

/* Notes that all blocks are whole: the store was verified otherwise. */
void weir_store__touched_trust(weir_store__touched *touched);

/* Whether the tail's values of a section give its hash; true if it has none. */
bool weir_store__values_fit(const weir_store__blocks *blocks);

/* Asks for bytes that will be read soon, and counts what is not in memory. */
void weir_store__ask_for(weir_store__touched *touched, const uint8_t *at, size_t size);

/* Verifies blocks first … last of a section; false if one is damaged or cannot be read. */
bool weir_store__touch_blocks(weir_store__touched *touched, weir_store__section_kind kind, uint64_t first,
                              uint64_t last);

static inline bool weir_store__block_is_whole(const weir_store__blocks *blocks, uint64_t block) {
    return (atomic_load_explicit(&blocks->is_whole[block / 64], memory_order_relaxed) >> block % 64 & 1) != 0;
}

/* Before `size` bytes at `at`, which lie in the section, are used: true if they are what was written. */
static inline bool weir_store__check_touched(weir_store__touched *touched, weir_store__section_kind kind,
                                             const uint8_t *at, size_t size) {
    const weir_store__blocks *blocks = &touched->sections[kind - 1];
    if (__builtin_expect(atomic_load_explicit(&blocks->left, memory_order_relaxed) == 0, 1) || size == 0)
        return true;
    uint64_t offset = (uint64_t)(at - blocks->base);
    uint64_t first = offset >> WEIR_STORE__BLOCK_SHIFT;
    uint64_t last = (offset + size - 1) >> WEIR_STORE__BLOCK_SHIFT;
    if (weir_store__block_is_whole(blocks, first) &&
        (first == last || (last == first + 1 && weir_store__block_is_whole(blocks, last))))
        return true;
    return weir_store__touch_blocks(touched, kind, first, last);
}

#endif
