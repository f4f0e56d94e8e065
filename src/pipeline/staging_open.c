/* Opening and closing a staging: all of its memory, on both sides, its stream and events, the stores'
 * tables, and then the loader, whose workers begin at once. Closing goes the other way, behind the last
 * copy. */
#include <string.h>

#include "batch/wire.h"
#include "pipeline/staging.h"

static void *allocate(const weir_memory *memory, uint64_t size, weir_status *status, weir_error *error) {
    weir_error refused = {.status = WEIR_OUT_OF_MEMORY};
    void *data = size <= SIZE_MAX ? memory->allocate(memory->context, (size_t)size, &refused) : NULL;
    *status = data ? WEIR_OK : refused.status;
    if (!data && error)
        *error = refused;
    return data;
}

static void release(const weir_memory *memory, const void *data, uint64_t size) {
    if (data)
        memory->release(memory->context, (void *)(uintptr_t)data, (size_t)size);
}

/* ---- Packing, in the workers' threads ---------------------------------------------------------- */

static weir_status pack(void *context, const weir_item *item, const weir_batch_buffer *buffer,
                        weir_error *error) {
    weir__wires *wires = &((weir_staging *)context)->wires;
    return weir_wire_pack(buffer, wires->memory + item->slot_index * wires->stride, wires->stride,
                          &wires->sizes[item->slot_index], error);
}

static weir_status open_wires(weir_staging *s, uint64_t slot_count, weir_error *error) {
    weir_status status;
    uint64_t stride = (weir_wire_capacity(s->capacity) + 255) & ~(uint64_t)255;
    s->wires.stride = stride;
    s->wires.count = slot_count;
    s->wires.sizes = weir__allocate_zero(s->env, (size_t)slot_count, sizeof *s->wires.sizes);
    if (!s->wires.sizes)
        return weir__out_of_memory(error, WEIR__STAGING_OPERATOR, (size_t)slot_count * sizeof(uint64_t));
    s->wires.memory = allocate(&s->pinned, stride * slot_count, &status, error);
    return status;
}

/* ---- Places on the device ---------------------------------------------------------------------- */

static weir_status open_place(weir_staging *s, weir__place *place, uint64_t sequences, weir_error *error) {
    weir_status status;
    weir_cbor_writer_memory(&place->checkpoint, s->env);
    place->epochs = weir__allocate_zero(s->env, (size_t)sequences, sizeof *place->epochs);
    place->digests = weir__allocate_zero(s->env, (size_t)sequences, sizeof *place->digests);
    if (!place->epochs || !place->digests)
        return weir__out_of_memory(error, WEIR__STAGING_OPERATOR, (size_t)sequences * sizeof(uint64_t));
    place->data = allocate(&s->memory, s->capacity, &status, error);
    if (status == WEIR_OK && s->form == WEIR_WIRE_COMPACT)
        place->wire = allocate(&s->memory, s->wires.stride, &status, error);
    if (status == WEIR_OK)
        status = weir_event_open(s->device, &place->copied, error);
    if (status == WEIR_OK)
        status = weir_event_open(s->device, &place->ready, error);
    if (status == WEIR_OK)
        status = weir_event_open(s->device, &place->free, error);
    return status;
}

static void close_place(weir_staging *s, weir__place *place) {
    release(&s->memory, place->data, s->capacity);
    release(&s->memory, place->wire, s->wires.stride);
    weir_event_close(s->device, place->copied);
    weir_event_close(s->device, place->ready);
    weir_event_close(s->device, place->free);
    weir__release(s->env, place->epochs);
    weir__release(s->env, place->digests);
    weir_cbor_release(&place->checkpoint);
}

static weir_status open_places(weir_staging *s, uint64_t sequences, weir_error *error) {
    weir_status status = weir_stream_open(s->device, &s->stream, error);
    if (status != WEIR_OK)
        return status;
    s->places = weir__allocate_zero(s->env, s->depth, sizeof *s->places);
    if (!s->places)
        return weir__out_of_memory(error, WEIR__STAGING_OPERATOR, s->depth * sizeof *s->places);
    for (uint32_t i = 0; i < s->depth && status == WEIR_OK; i++)
        status = open_place(s, &s->places[i], sequences, error);
    return status;
}

/* ---- Tables ------------------------------------------------------------------------------------ */

static uint64_t table_size(const weir_staged_tables *tables, uint32_t count) {
    return 2 * (uint64_t)tables->embedding_dim * count;
}

static weir_status upload(weir_staging *s, const uint8_t *from, uint64_t size, const void **out,
                          weir_error *error) {
    weir_status status = WEIR_OK;
    if (size == 0)
        return WEIR_OK;
    void *there = allocate(&s->memory, size, &status, error);
    *out = there;
    return status ? status : weir__memory_write(&s->memory, there, from, (size_t)size, error);
}

static weir_status upload_tables(weir_staging *s, const weir_store *const *stores, weir_error *error) {
    weir_status status = WEIR_OK;
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
        status = upload(s, info->column_embeddings, table_size(tables, info->column_count),
                        &tables->column_embeddings, error);
        if (status == WEIR_OK)
            status = upload(s, info->category_embeddings, table_size(tables, info->category_count),
                            &tables->category_embeddings, error);
    }
    return status;
}

static void close_tables(weir_staging *s) {
    for (size_t i = 0; s->tables && i < s->store_count; i++) {
        const weir_staged_tables *tables = &s->tables[i].there;
        release(&s->memory, tables->column_embeddings, table_size(tables, tables->column_count));
        release(&s->memory, tables->category_embeddings, table_size(tables, tables->category_count));
    }
    weir__release(s->env, s->tables);
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

/* The size of a slot is the loader's to plan. */
static weir_status find_capacity(weir_staging *s, const weir_loader_options *options, weir_error *error) {
    weir_plan *plan;
    size_t slot = 0;
    weir_status status = weir_loader_plan(s->env, options, &plan, error);
    if (status != WEIR_OK)
        return status;
    if (weir_plan_find(plan, "slot/0", 6, &slot))
        s->capacity = weir_plan_tensor_at(plan, slot).size;
    weir_plan_close(plan);
    return WEIR_OK;
}

static weir_status open_parts(weir_staging *s, const weir_staging_options *options, weir_error *error) {
    weir_loader_options loading = *options->loader;
    loading.queue_size = s->depth;
    loading.memory = (weir_memory){0};
    loading.hook = (weir_loader_hook){0};
    uint64_t sequences =
        weir_manifest_global_batch_size(loading.manifest) / (loading.world_size ? loading.world_size : 1);
    weir_status status = find_capacity(s, &loading, error);
    if (status == WEIR_OK)
        status = choose_form(s, options->wire, error);
    if (status == WEIR_OK && s->form == WEIR_WIRE_COMPACT)
        status = open_wires(s, weir_loader_slot_count(&loading), error);
    if (status == WEIR_OK)
        status = open_places(s, sequences, error);
    if (status == WEIR_OK)
        status = upload_tables(s, options->loader->stores, error);
    if (status != WEIR_OK)
        return status;
    if (s->form == WEIR_WIRE_COMPACT)
        loading.hook = (weir_loader_hook){.context = s, .built = pack};
    else
        loading.memory = s->pinned;
    status = weir_loader_open(s->env, &loading, &s->loader, error);
    if (status == WEIR_OK && s->keeps_checkpoints)
        status = weir__staging_keep_checkpoint(s, &s->beginning, error);
    if (status == WEIR_OK)
        s->step = weir_loader_step(s->loader);
    return status;
}

weir_status weir_staging_open(const weir_env *env, const weir_staging_options *options, weir_staging **out,
                              weir_error *error) {
    env = weir__env(env);
    if (options->size < sizeof *options || options->depth > WEIR__STAGING_DEPTH_MAX)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR__STAGING_OPERATOR,
                          "the options' size is not set, or the depth of %u is more than %d", options->depth,
                          WEIR__STAGING_DEPTH_MAX);
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
    weir_cbor_writer_memory(&s->beginning, env);
    s->checkpoint = &s->beginning;
    weir_status status = open_parts(s, options, error);
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
    weir_loader_close(s->loader);
    weir__kernel_close(s->device, &s->kernel);
    for (uint32_t i = 0; s->places && i < s->depth; i++)
        close_place(s, &s->places[i]);
    weir_stream_close(s->device, s->stream);
    close_tables(s);
    release(&s->pinned, s->wires.memory, s->wires.stride * s->wires.count);
    weir__release(s->env, s->wires.sizes);
    weir__release(s->env, s->places);
    release(&s->pinned, s->read_back, s->capacity);
    weir__digester_close(&s->digester);
    weir_cbor_release(&s->beginning);
    weir__release(s->env, s);
}
