/* Memory of other kinds as one thing: the host's own, mapped zeroed, and what to do with memory that the
 * processor may or may not reach. */
#include <stdatomic.h>
#include <string.h>

#include "base/block.h"

static const char operator_name[] = "weir.memory";

/* ---- Blocks ---------------------------------------------------------------------------------- */

bool weir__block_open(weir__block *block, const weir_env *env) {
    *block = (weir__block){.size = block->used};
    if (block->size < SIZE_MAX)
        block->memory = env->map(env->context, -1, (size_t)block->size + 1); /* never of no bytes */
    return block->memory != NULL;
}

void weir__block_close(weir__block *block, const weir_env *env) {
    if (block->memory)
        env->unmap(env->context, block->memory, (size_t)block->size + 1);
    *block = (weir__block){0};
}

/* ---- Kinds of memory ------------------------------------------------------------------------- */

static void *map_memory(void *context, size_t size, weir_error *error) {
    const weir_env *env = context;
    void *memory = env->map(env->context, -1, size ? size : 1);
    if (!memory)
        (void)weir__out_of_memory(error, operator_name, size);
    return memory;
}

static void unmap_memory(void *context, void *memory, size_t size) {
    const weir_env *env = context;
    if (memory)
        env->unmap(env->context, memory, size ? size : 1);
}

weir_memory weir__host_memory(const weir_env *env) {
    return (weir_memory){.context = (void *)(uintptr_t)env, .allocate = map_memory, .release = unmap_memory};
}

weir_status weir__memory_clear(const weir_memory *memory, void *data, size_t size, weir_error *error) {
    if (size == 0)
        return WEIR_OK;
    if (memory->clear)
        return memory->clear(memory->context, data, size, error);
    memset(data, 0, size);
    return WEIR_OK;
}

weir_status weir__memory_write(const weir_memory *memory, void *to, const void *from, size_t size,
                               weir_error *error) {
    if (size == 0)
        return WEIR_OK;
    if (memory->write)
        return memory->write(memory->context, to, from, size, error);
    memcpy(to, from, size);
    return WEIR_OK;
}

weir_status weir__memory_settle(const weir_memory *memory, weir_error *error) {
    if (memory->settle)
        return memory->settle(memory->context, error);
    atomic_thread_fence(memory_order_seq_cst);
    return WEIR_OK;
}
