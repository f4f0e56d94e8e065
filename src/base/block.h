/* Memory that is taken at once and handed out in parts. What needs it has one function that carves its
 * parts: called on an empty block it only counts, called again on one that was opened it gets them. */
#ifndef WEIR_BASE_BLOCK_H
#define WEIR_BASE_BLOCK_H

#include "base/internal.h"

enum { WEIR__BLOCK_ALIGNMENT = 64 };

typedef struct weir__block {
    uint8_t *memory; /* NULL while parts are counted */
    uint64_t size;   /* of what was opened */
    uint64_t used;   /* UINT64_MAX if the parts are more than 64 bits can count */
} weir__block;

/* Room for `count` items, 64-byte aligned; NULL while counting. */
static inline void *weir__carve(weir__block *block, uint64_t count, uint64_t item_size) {
    uint64_t size, begin = block->used;
    if (__builtin_mul_overflow(count, item_size, &size) ||
        __builtin_add_overflow(size, WEIR__BLOCK_ALIGNMENT - 1, &size) ||
        __builtin_add_overflow(begin, size / WEIR__BLOCK_ALIGNMENT * WEIR__BLOCK_ALIGNMENT, &block->used))
        block->used = UINT64_MAX;
    assert((!block->memory || block->used <= block->size) && "more is handed out than was counted");
    return block->memory ? block->memory + begin : NULL;
}

/* Takes what was counted, zeroed, and begins to hand it out. It is mapped, so that what nobody touches costs
 * nothing. False if there is no memory. */
bool weir__block_open(weir__block *block, const weir_env *env);
void weir__block_close(weir__block *block, const weir_env *env);

#endif
