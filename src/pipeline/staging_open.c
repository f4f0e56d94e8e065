/* Opening and closing a staging: all of its memory, on both sides, its stream and events, the stores'
 * tables, and then the loader, whose workers begin at once. Closing goes the other way, behind the last
 * copy. */
#include <string.h>

#include "batch/expand.h"
#include "pipeline/staging.h"

static weir_status open_stretch(const weir_memory *memory, uint64_t size, weir__stretch *out,
                                weir_error *error) {
    weir_error refused = {.status = WEIR_OUT_OF_MEMORY};
    if (size <= SIZE_MAX)
        out->base = memory->allocate(memory->context, (size_t)size, &refused);
    out->size = size;
    if (out->base)
        return WEIR_OK;
    if (error)
        *error = refused;
    return refused.status;
}

static void close_stretch(const weir_memory *memory, weir__stretch *stretch) {
    if (stretch->base)
        memory->release(memory->context, stretch->base, (size_t)stretch->size);
}

/* ---- Places on the device ---------------------------------------------------------------------- */

static weir_status open_place(weir_staging *s, uint32_t index, uint64_t sequences, weir_error *error) {
    weir__place *place = &s->places[index];
    weir_cbor_writer_memory(&place->checkpoint, s->env);
    place->epochs = weir__allocate_zero(s->env, (size_t)sequences, sizeof *place->epochs);
    place->indices = weir__allocate_zero(s->env, (size_t)sequences, sizeof *place->indices);
    place->digests = weir__allocate_zero(s->env, (size_t)sequences, sizeof *place->digests);
    if (!place->epochs || !place->indices || !place->digests)
        return weir__out_of_memory(error, WEIR__STAGING_OPERATOR, (size_t)sequences * sizeof(uint64_t));
    place->data = s->there.base + weir__memory_offset(s->plan, "place", index);
    place->compact = s->there.base + weir__memory_offset(s->plan, "place_slot", index);
    weir_status status = weir_event_open(s->device, &place->copied, error);
    if (status == WEIR_OK)
        status = weir_event_open(s->device, &place->ready, error);
    if (status == WEIR_OK)
        status = weir_event_open(s->device, &place->free, error);
    return status;
}

static void close_place(weir_staging *s, weir__place *place) {
    weir_event_close(s->device, place->copied);
    weir_event_close(s->device, place->ready);
    weir_event_close(s->device, place->free);
    weir__release(s->env, place->epochs);
    weir__release(s->env, place->indices);
    weir__release(s->env, place->digests);
    weir_cbor_release(&place->checkpoint);
}

static weir_status open_places(weir_staging *s, uint64_t sequences, weir_error *error) {
    weir_status status = weir_stream_open(s->device, &s->stream, error);
    if (status == WEIR_OK)
        status = weir_stream_open(s->device, &s->expansions, error);
    if (status != WEIR_OK)
        return status;
    s->places = weir__allocate_zero(s->env, s->depth, sizeof *s->places);
    if (!s->places)
        return weir__out_of_memory(error, WEIR__STAGING_OPERATOR, s->depth * sizeof *s->places);
    for (uint32_t i = 0; i < s->depth && status == WEIR_OK; i++)
        status = open_place(s, i, sequences, error);
    return status;
}

/* ---- Tables ------------------------------------------------------------------------------------ */

static uint64_t table_size(const weir_store_info *info, uint32_t count) {
    return (2 * (uint64_t)info->embedding_dim * count + 255) & ~(uint64_t)255;
}

static uint64_t size_of_tables(weir_store *const *stores, size_t count) {
    uint64_t size = 0;
    for (size_t i = 0; i < count; i++) {
        const weir_store_info *info = weir_store_describe(stores[i]);
        size += table_size(info, info->column_count) + table_size(info, info->category_count);
    }
    return size;
}

/* Writes a table where the next one goes, if it is what was written. */
static weir_status upload(weir_staging *s, const weir_store *store, const uint8_t *table, uint32_t count,
                          uint8_t **next, const void **out, weir_error *error) {
    const weir_store_info *info = weir_store_describe(store);
    size_t size = 2 * (size_t)info->embedding_dim * count;
    *out = *next;
    *next += table_size(info, count);
    if (!weir_store_touch(store, table, size))
        return weir_store_status(store, error);
    return weir__memory_write(&s->memory, (void *)(uintptr_t)*out, table, size, error);
}

static weir_status upload_tables(weir_staging *s, weir_store *const *stores, weir_error *error) {
    weir_status status = WEIR_OK;
    uint8_t *next = s->there.base + (s->need.table_size ? weir__memory_offset(s->plan, "tables", 0) : 0);
    s->tables = weir__allocate_zero(s->env, s->store_count, sizeof *s->tables);
    if (!s->tables)
        return weir__out_of_memory(error, WEIR__STAGING_OPERATOR, s->store_count * sizeof *s->tables);
    for (size_t i = 0; i < s->store_count && status == WEIR_OK; i++) {
        const weir_store_info *info = weir_store_describe(stores[i]);
        weir_staged_tables *tables = &s->tables[i].there;
        s->tables[i].store = stores[i];
        if (info->embedding_dim == 0)
            continue;
        *tables = (weir_staged_tables){.embedding_dim = info->embedding_dim,
                                       .column_count = info->column_count,
                                       .category_count = info->category_count};
        status = upload(s, stores[i], info->column_embeddings, info->column_count, &next,
                        &tables->column_embeddings, error);
        if (status == WEIR_OK)
            status = upload(s, stores[i], info->category_embeddings, info->category_count, &next,
                            &tables->category_embeddings, error);
    }
    return status;
}

weir_staged_tables weir_staging_tables(const weir_staging *staging, const weir_store *store) {
    for (size_t i = 0; i < staging->store_count; i++)
        if (staging->tables[i].store == store)
            return staging->tables[i].there;
    return (weir_staged_tables){0};
}

/* ---- Opening ----------------------------------------------------------------------------------- */

static weir_status open_kernel(weir_staging *s, weir_error *error) {
    s->expansion = (weir__kernel_source){.name = WEIR__EXPAND_NAME,
                                         .text = weir__expand_text,
                                         .text_size = weir__expand_text_size,
                                         .run = weir__expand_run};
    return weir__kernel_open(s->device, &s->expansion, &s->kernel, error);
}

/* What the loader is opened with, but for what the staging adds. */
static weir_loader_options loading_of(const weir_staging_options *options) {
    weir_loader_options loading = *options->loader;
    loading.queue_size = options->depth ? options->depth : WEIR_STAGING_DEPTH;
    loading.memory = (weir_memory){0};
    loading.without_tensors = true;
    return loading;
}

/* What the loader needs, and what comes to it. */
static weir_status make_plan(const weir_env *env, const weir_staging_options *options,
                             weir__memory_need *need, weir_plan **out, weir_error *error) {
    weir_loader_options loading = loading_of(options);
    weir_status status = weir__loader_need(env, &loading, need, error);
    if (status != WEIR_OK)
        return status;
    need->places = loading.queue_size;
    need->table_size = size_of_tables(loading.stores, loading.store_count);
    return weir__memory_plan(env, need, loading.memory_limit, out, error);
}

static weir_status check_options(const weir_staging_options *options, weir_error *error) {
    if (options->size < sizeof *options)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR__STAGING_OPERATOR,
                          "the options' size is not set; set it to sizeof(weir_staging_options)");
    if (options->depth > WEIR__STAGING_DEPTH_MAX)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR__STAGING_OPERATOR,
                          "a depth of %u batches on the device is too much; %d are the most", options->depth,
                          WEIR__STAGING_DEPTH_MAX);
    return WEIR_OK;
}

weir_status weir_staging_plan(const weir_env *env, const weir_staging_options *options, weir_plan **out,
                              weir_error *error) {
    weir__memory_need need;
    weir_status status = check_options(options, error);
    return status ? status : make_plan(weir__env(env), options, &need, out, error);
}

const weir_plan *weir_staging_memory(const weir_staging *staging) {
    return staging->plan;
}

/* The loader's slots are ready when this is done: the rules of its datasets are put on the device. */
static weir_status upload_rules(weir_staging *s, weir_error *error) {
    size_t count = weir__loader_member_count(s->loader);
    uint8_t *next = s->there.base + weir__memory_offset(s->plan, "rules", 0);
    weir_status status = WEIR_OK;
    s->rules = weir__allocate_zero(s->env, count, sizeof *s->rules);
    if (!s->rules)
        return weir__out_of_memory(error, WEIR__STAGING_OPERATOR, count * sizeof *s->rules);
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        uint64_t size;
        const void *rules = weir__loader_rules(s->loader, i, &size);
        s->rules[i] = next;
        status = weir__memory_write(&s->memory, next, rules, (size_t)size, error);
        next += (size + 255) & ~(uint64_t)255;
    }
    return status;
}

static weir_status open_parts(weir_staging *s, const weir_staging_options *options, weir_error *error) {
    weir_loader_options loading = loading_of(options);
    uint64_t sequences =
        weir_manifest_global_batch_size(loading.manifest) / (loading.world_size ? loading.world_size : 1);
    weir_status status = open_kernel(s, error);
    if (status == WEIR_OK)
        status = make_plan(s->env, options, &s->need, &s->plan, error);
    if (status == WEIR_OK)
        status = open_stretch(&s->memory, weir__memory_arena_size(s->plan, "device"), &s->there, error);
    if (status == WEIR_OK)
        status = open_places(s, sequences, error);
    if (status == WEIR_OK)
        status = upload_tables(s, loading.stores, error);
    if (status != WEIR_OK)
        return status;
    loading.memory = s->pinned;
    status = weir_loader_open(s->env, &loading, &s->loader, error);
    if (status == WEIR_OK)
        status = upload_rules(s, error);
    if (status == WEIR_OK && s->keeps_checkpoints)
        status = weir__staging_keep_checkpoint(s, &s->checkpoint, error);
    if (status == WEIR_OK)
        s->step = weir_loader_step(s->loader);
    return status;
}

weir_status weir_staging_open(const weir_env *env, const weir_staging_options *options, weir_staging **out,
                              weir_error *error) {
    env = weir__env(env);
    weir_status status = check_options(options, error);
    if (status != WEIR_OK)
        return status;
    weir_staging *s = weir__allocate_zero(env, 1, sizeof *s);
    if (!s)
        return weir__out_of_memory(error, WEIR__STAGING_OPERATOR, sizeof *s);
    s->env = env;
    s->device = options->device;
    s->memory = weir_device_memory(options->device);
    s->pinned = weir_device_pinned(options->device);
    s->depth = options->depth ? options->depth : WEIR_STAGING_DEPTH;
    s->keeps_checkpoints = options->with_checkpoints;
    s->store_count = options->loader->store_count;
    weir_cbor_writer_memory(&s->checkpoint, env);
    status = open_parts(s, options, error);
    if (status != WEIR_OK) {
        weir_staging_close(s);
        return status;
    }
    *out = s;
    return WEIR_OK;
}

void weir_staging_close(weir_staging *s) {
    if (!s)
        return;
    if (s->stream && weir_stream_sync(s->device, s->stream, NULL) != WEIR_OK)
        s->failure = WEIR_DEVICE_ERROR; /* nobody is left to tell */
    if (s->expansions && weir_stream_sync(s->device, s->expansions, NULL) != WEIR_OK)
        s->failure = WEIR_DEVICE_ERROR;
    close_stretch(&s->memory, &s->there); /* waits for what is under way, and may read the loader's memory */
    weir_loader_close(s->loader);
    weir__kernel_close(s->device, &s->kernel);
    for (uint32_t i = 0; s->places && i < s->depth; i++)
        close_place(s, &s->places[i]);
    weir_stream_close(s->device, s->stream);
    weir_stream_close(s->device, s->expansions);
    weir__release(s->env, s->tables);
    weir__release(s->env, s->places);
    weir__release(s->env, s->rules);
    if (s->read_back)
        s->pinned.release(s->pinned.context, s->read_back, (size_t)s->need.tensor_size);
    weir_plan_close(s->plan);
    weir__digester_close(&s->digester, s->env);
    weir_cbor_release(&s->checkpoint);
    weir__release(s->env, s);
}
