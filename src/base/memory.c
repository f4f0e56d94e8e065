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

static weir_status measure_pages(void *context, size_t *unit, weir_error *error) {
    const weir_env *env = context;
    (void)error;
    *unit = env->page_size(env->context);
    return WEIR_OK;
}

static weir_status reserve_range(void *context, size_t size, void **out, weir_error *error) {
    const weir_env *env = context;
    *out = env->reserve(env->context, size);
    return *out ? WEIR_OK : weir__out_of_memory(error, operator_name, size);
}

static weir_status make_file(void *context, size_t size, uint64_t *handle, weir_error *error) {
    const weir_env *env = context;
    int file = env->memory_file(env->context, size);
    if (file < 0)
        return weir__out_of_memory(error, operator_name, size);
    *handle = (uint64_t)file;
    return WEIR_OK;
}

static void drop_file(void *context, uint64_t handle) {
    const weir_env *env = context;
    (void)env->close(env->context, WEIR__NARROW(int, handle));
}

static weir_status map_file(void *context, void *at, size_t size, uint64_t handle, uint64_t offset,
                            weir_error *error) {
    const weir_env *env = context;
    if (env->map_at(env->context, at, size, WEIR__NARROW(int, handle), offset) != 0)
        return weir__out_of_memory(error, operator_name, size);
    return WEIR_OK;
}

static weir_status back_range(void *context, void *at, size_t size, weir_error *error) {
    const weir_env *env = context;
    if (env->map_at(env->context, at, size, WEIR_MAP_ZEROED, 0) != 0)
        return weir__out_of_memory(error, operator_name, size);
    return WEIR_OK;
}

static weir_status unback_range(void *context, void *at, size_t size, weir_error *error) {
    const weir_env *env = context;
    if (env->map_at(env->context, at, size, WEIR_MAP_NOTHING, 0) != 0)
        return weir__out_of_memory(error, operator_name, size);
    return WEIR_OK;
}

weir_memory weir__host_memory(const weir_env *env) {
    static const weir_pages pages = {.is_divisible = true,
                                     .measure = measure_pages,
                                     .reserve = reserve_range,
                                     .unreserve = unmap_memory,
                                     .make = make_file,
                                     .drop = drop_file,
                                     .map = map_file,
                                     .back = back_range,
                                     .unmap = unback_range};
    return (weir_memory){
        .context = (void *)(uintptr_t)env, .allocate = map_memory, .release = unmap_memory, .pages = &pages};
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

weir_status weir__memory_read(const weir_memory *memory, void *out, const void *from, size_t size,
                              weir_error *error) {
    if (size == 0)
        return WEIR_OK;
    if (memory->read)
        return memory->read(memory->context, out, from, size, error);
    memcpy(out, from, size);
    return WEIR_OK;
}

weir_status weir__memory_copy(const weir_memory *memory, void *to, const void *from, size_t size,
                              weir_error *error) {
    if (size == 0)
        return WEIR_OK;
    if (memory->copy)
        return memory->copy(memory->context, to, from, size, error);
    memcpy(to, from, size);
    return WEIR_OK;
}

weir_status weir__memory_settle(const weir_memory *memory, weir_error *error) {
    if (memory->settle)
        return memory->settle(memory->context, error);
    atomic_thread_fence(memory_order_seq_cst);
    return WEIR_OK;
}
