/* See arena.h. The first block has 64 KiB, each further one twice as much up to 1 MiB, or what is asked for
 * if that is more. */
#include "base/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/boundary.h"

struct weir__arena_block {
    weir__arena_block *next;
    size_t capacity;
    alignas(16) uint8_t data[];
};

enum { ARENA_BLOCK = 64 * 1024, ARENA_BLOCK_MOST = 1024 * 1024 };

void weir__arena_init(weir__arena *arena, const weir_env *env) {
    *arena = (weir__arena){.env = env};
}

void weir__arena_release(weir__arena *arena) {
    for (weir__arena_block *block = arena->blocks; block;) {
        weir__arena_block *next = block->next;
        WEIR__OPEN(block->data, block->capacity);
        weir__release(arena->env, block);
        block = next;
    }
    weir__arena_init(arena, arena->env);
}

void *weir__arena_take(weir__arena *arena, size_t size) {
    if (size > SIZE_MAX / 2) {
        arena->is_short = true;
        return NULL;
    }
    size_t given = size;
    size = (size + 7) / 8 * 8 + WEIR__GAP;
    if (!arena->blocks || arena->capacity - arena->used < size) {
        size_t capacity = !arena->blocks                       ? ARENA_BLOCK
                          : arena->capacity < ARENA_BLOCK_MOST ? 2 * arena->capacity
                                                               : ARENA_BLOCK_MOST;
        capacity = size > capacity ? size : capacity;
        weir__arena_block *block = weir__allocate(arena->env, 1, sizeof *block + capacity);
        if (!block) {
            arena->is_short = true;
            return NULL;
        }
        block->next = arena->blocks;
        block->capacity = capacity;
        WEIR__CLOSE(block->data, capacity);
        arena->blocks = block;
        arena->capacity = capacity;
        arena->used = 0;
    }
    void *memory = arena->blocks->data + arena->used;
    arena->used += size;
    WEIR__OPEN(memory, given);
    return memory;
}

void *weir__arena_take_zero(weir__arena *arena, size_t count, size_t size) {
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        total = SIZE_MAX; /* which cannot be had */
    void *memory = weir__arena_take(arena, total);
    if (memory)
        memset(memory, 0, total);
    return memory;
}

char *weir__arena_text(weir__arena *arena, const char *text, size_t size) {
    char *copy = size == SIZE_MAX ? NULL : weir__arena_take(arena, size + 1);
    if (!copy)
        return NULL;
    if (size)
        memcpy(copy, text, size);
    copy[size] = 0;
    return copy;
}

void *weir__arena_append(weir__arena *arena, void *list, uint32_t *count, size_t size) {
    char *items;
    assert(*count < UINT32_MAX && "a list without end");
    memcpy(&items, list, sizeof items);
    bool is_full = (*count & (*count - 1)) == 0; /* 0 and the powers of two */
    if (is_full) {
        char *grown = weir__arena_take_zero(arena, *count ? 2 * (size_t)*count : 1, size);
        if (!grown)
            return NULL;
        if (*count) {
            memcpy(grown, items, *count * size);
            WEIR__CLOSE(items, *count * size); /* who still points there is wrong */
        }
        items = grown;
        memcpy(list, &items, sizeof items);
    }
    char *item = items + *count * size;
    memset(item, 0, size);
    ++*count;
    return item;
}

char *weir__arena_format(weir__arena *arena, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = weir__arena_take(arena, size < 0 ? SIZE_MAX : (size_t)size + 1); /* which cannot be had */
    va_start(arguments, format);
    if (text)
        vsnprintf(text, (size_t)size + 1, format, arguments);
    va_end(arguments);
    return text;
}
