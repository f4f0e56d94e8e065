/* Opening and closing a staging: all of its memory, on both sides, its stream and events, the stores'
 * tables, and then the loader, whose workers begin at once. Closing goes the other way, behind the last
 * copy. */
#include <string.h>

#include "batch/wire.h"
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

/* ---- Packing, in the workers' threads ---------------------------------------------------------- */

static weir_status pack(void *context, const weir_item *item, const weir_batch_buffer *buffer,
                        weir_error *error) {
    weir_staging *s = context;
    weir__wire_slot *wire = &s->wire_slots[item->slot_index];
    return weir_wire_pack(buffer, wire->data, s->need.wire_size, &wire->size, error);
}

static weir_status open_wires(weir_staging *s, weir_error *error) {
    s->wire_slots = weir__allocate_zero(s->env, (size_t)s->need.slots, sizeof *s->wire_slots);
    if (!s->wire_slots)
        return weir__out_of_memory(error, WEIR__STAGING_OPERATOR,
                                   (size_t)s->need.slots * sizeof *s->wire_slots);
    weir_status status =
        open_stretch(&s->pinned, weir__memory_arena_size(s->plan, "wires"), &s->wires, error);
    for (uint64_t i = 0; i < s->need.slots && status == WEIR_OK; i++)
        s->wire_slots[i].data = s->wires.base + weir__memory_offset(s->plan, "wire", i);
    return status;
}

/* ---- Places on the device ---------------------------------------------------------------------- */

static weir_status open_place(weir_staging *s, uint32_t index, uint64_t sequences, weir_error *error) {
    weir__place *place = &s->places[index];
    weir_cbor_writer_memory(&place->checkpoint, s->env);
    place->epochs = weir__allocate_zero(s->env, (size_t)sequences, sizeof *place->epochs);
    place->digests = weir__allocate_zero(s->env, (size_t)sequences, sizeof *place->digests);
    if (!place->epochs || !place->digests)
        return weir__out_of_memory(error, WEIR__STAGING_OPERATOR, (size_t)sequences * sizeof(uint64_t));
    place->data = s->there.base + weir__memory_offset(s->plan, "place", index);
    if (s->form == WEIR_WIRE_COMPACT)
        place->wire = s->there.base + weir__memory_offset(s->plan, "place_wire", index);
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
    weir__release(s->env, place->digests);
    weir_cbor_release(&place->checkpoint);
}

static weir_status open_places(weir_staging *s, uint64_t sequences, weir_error *error) {
    weir_status status = weir_stream_open(s->device, &s->stream, error);
    if (status == WEIR_OK && s->form == WEIR_WIRE_COMPACT)
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

/* Compact needs the kernel; the best form does without it where there is no compiler. */
static weir_status choose_form(weir_staging *s, weir_wire_form wanted, weir_error *error) {
    s->expansion = (weir__kernel_source){.name = WEIR__EXPAND_NAME,
                                         .text = weir__expand_text,
                                         .text_size = weir__expand_text_size,
                                         .run = weir__expand_run};
    s->form = WEIR_WIRE_PLAIN;
    if (wanted == WEIR_WIRE_PLAIN)
        return WEIR_OK;
    weir_status status =
        weir__kernel_open(s->device, &s->expansion, &s->kernel, wanted == WEIR_WIRE_BEST ? NULL : error);
    if (status == WEIR_OK)
        s->form = WEIR_WIRE_COMPACT;
    return wanted == WEIR_WIRE_BEST ? WEIR_OK : status;
}

/* What the loader is opened with, but for what the staging adds. */
static weir_loader_options loading_of(const weir_staging_options *options) {
    weir_loader_options loading = *options->loader;
    loading.queue_size = options->depth ? options->depth : WEIR_STAGING_DEPTH;
    loading.memory = (weir_memory){0};
    loading.hook = (weir_loader_hook){0};
    return loading;
}

/* The loader's plan, and what comes to it. */
static weir_status make_plan(const weir_env *env, const weir_staging_options *options, bool is_compact,
                             weir_plan **out, weir_error *error) {
    weir_loader_options loading = loading_of(options);
    weir_plan *plan;
    weir_status status = weir_loader_plan(env, &loading, &plan, error);
    if (status != WEIR_OK)
        return status;
    weir__memory_need need = weir__memory_need_of(plan);
    weir_plan_close(plan);
    need.places = loading.queue_size;
    need.wire_size = is_compact ? weir_wire_capacity(need.slot_size) : 0;
    need.table_size = size_of_tables(loading.stores, loading.store_count);
    return weir__memory_plan(env, &need, loading.memory_limit, out, error);
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
    weir_status status = check_options(options, error);
    if (status != WEIR_OK)
        return status;
    return make_plan(weir__env(env), options, options->wire != WEIR_WIRE_PLAIN, out, error);
}

const weir_plan *weir_staging_memory(const weir_staging *staging) {
    return staging->plan;
}

static weir_status open_memory(weir_staging *s, const weir_staging_options *options, weir_error *error) {
    weir_status status = make_plan(s->env, options, s->form == WEIR_WIRE_COMPACT, &s->plan, error);
    if (status != WEIR_OK)
        return status;
    s->need = weir__memory_need_of(s->plan);
    status = open_stretch(&s->memory, weir__memory_arena_size(s->plan, "device"), &s->there, error);
    if (status == WEIR_OK && s->form == WEIR_WIRE_COMPACT)
        status = open_wires(s, error);
    return status;
}

static weir_status open_parts(weir_staging *s, const weir_staging_options *options, weir_error *error) {
    weir_loader_options loading = loading_of(options);
    uint64_t sequences =
        weir_manifest_global_batch_size(loading.manifest) / (loading.world_size ? loading.world_size : 1);
    weir_status status = choose_form(s, options->wire, error);
    if (status == WEIR_OK)
        status = open_memory(s, options, error);
    if (status == WEIR_OK)
        status = open_places(s, sequences, error);
    if (status == WEIR_OK)
        status = upload_tables(s, loading.stores, error);
    if (status != WEIR_OK)
        return status;
    if (s->form == WEIR_WIRE_COMPACT)
        loading.hook = (weir_loader_hook){.context = s, .built = pack};
    else
        loading.memory = s->pinned;
    status = weir_loader_open(s->env, &loading, &s->loader, error);
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
    s->metrics.wire = s->form;
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
    weir_loader_close(s->loader);
    weir__kernel_close(s->device, &s->kernel);
    for (uint32_t i = 0; s->places && i < s->depth; i++)
        close_place(s, &s->places[i]);
    weir_stream_close(s->device, s->stream);
    weir_stream_close(s->device, s->expansions);
    weir__release(s->env, s->tables);
    weir__release(s->env, s->places);
    weir__release(s->env, s->wire_slots);
    close_stretch(&s->memory, &s->there);
    close_stretch(&s->pinned, &s->wires);
    if (s->read_back)
        s->pinned.release(s->pinned.context, s->read_back, (size_t)s->need.slot_size);
    weir_plan_close(s->plan);
    weir__digester_close(&s->digester);
    weir_cbor_release(&s->checkpoint);
    weir__release(s->env, s);
}
