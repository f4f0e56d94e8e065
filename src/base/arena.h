/* Memory that is taken piece by piece and freed at once. */
#ifndef WEIR_BASE_ARENA_H
#define WEIR_BASE_ARENA_H

#include "base/internal.h"

typedef struct weir__arena_block weir__arena_block;
typedef struct weir__arena {
    const weir_env *env;
    weir__arena_block *blocks;
    size_t used;
    size_t capacity; /* of the newest block */
    bool is_short;   /* some piece could not be had: one question for all of them */
} weir__arena;

void weir__arena_init(weir__arena *arena, const weir_env *env);
void weir__arena_release(weir__arena *arena);
/* 8-byte aligned, not zeroed; NULL if memory is short, which is_short remembers until the release. */
void *weir__arena_take(weir__arena *arena, size_t size);
void *weir__arena_take_zero(weir__arena *arena, size_t count, size_t size);
char *weir__arena_text(weir__arena *arena, const char *text, size_t size); /* terminated */
/* One more item, zeroed, at the end of a list of `*count` items that grows in the arena; `list` is where the
 * pointer to its first is. NULL if memory is short, with all as it was. */
void *weir__arena_append(weir__arena *arena, void *list, uint32_t *count, size_t size);
/* As printf has it. NULL also for what printf cannot, such as more than 2 GiB. */
char *weir__arena_format(weir__arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
