/* Starting and closing a staging: the device, all memory on it, streams and events, the stores' tables, and
 * then the loader, whose workers begin at once. Closing goes the other way, after the last copy. */
#include <string.h>

#include "base/bits.h"
#include "batch/builder.h"
#include "batch/expand.h"
#include "pipeline/prefetch.h"
#include "pipeline/resident_tables.h"
#include "pipeline/staging.h"
#include "weir_tool/device_work.h"

/* ---- Places on the device ---------------------------------------------------------------------- */

static void carve_places(weir_pipeline__staging *s) {
    uint64_t sequences = s->loader->need.sequences;
    uint64_t marks = 1 + (uint64_t)s->loader->lane_count;
    s->places = weir__carve(&s->lists, s->depth, sizeof *s->places);
    s->mark = weir__carve(&s->lists, marks, sizeof *s->mark);
    for (uint32_t i = 0; i < s->depth; i++) {
        weir_pipeline__place counted, *place = s->places ? &s->places[i] : &counted;
        place->epochs = weir__carve(&s->lists, sequences, sizeof *place->epochs);
        place->indices = weir__carve(&s->lists, sequences, sizeof *place->indices);
        place->digests = weir__carve(&s->lists, sequences, sizeof *place->digests);
        place->anchors = weir__carve(&s->lists, sequences, sizeof *place->anchors);
        place->dataset_ids = weir__carve(&s->lists, sequences, sizeof *place->dataset_ids);
        place->group_digests = weir__carve(&s->lists, sequences, sizeof *place->group_digests);
        place->mark = weir__carve(&s->lists, marks, sizeof *place->mark);
    }
}

static weir_status open_places(weir_pipeline__staging *s, weir_error *error) {
    WEIR__TRY(weir_stream_open(s->device, &s->stream, error));
    WEIR__TRY(weir_stream_open(s->device, &s->expansions, error));
    carve_places(s);
    if (!weir__block_open(&s->lists, s->env))
        return weir__out_of_memory(error, WEIR_PIPELINE__STAGING_OPERATOR, (size_t)s->lists.size);
    carve_places(s);
    for (uint32_t i = 0; i < s->depth; i++) {
        weir_pipeline__place *place = &s->places[i];
        place->data = weir_pipeline__memory_at(s->there, "place", i);
        place->compact = weir_pipeline__memory_at(s->there, "place_slot", i);
        WEIR__TRY(weir_event_open(s->device, &place->copied, error));
        WEIR__TRY(weir_event_open(s->device, &place->ready, error));
        WEIR__TRY(weir_event_open(s->device, &place->free, error));
    }
    return WEIR_OK;
}

/* ---- Tables ------------------------------------------------------------------------------------ */

void weir_pipeline__staging_measure(weir_pipeline__loader *loader) {
    const weir_run_options *o = loader->options;
    const weir_batch__recipe *recipe = &loader->workers[0].list[0]->recipe;
    bool is_mixed = recipe->source_count > 0;
    loader->need.table_size =
        is_mixed ? weir_pipeline__tables_size(recipe->origins, recipe->origin_count) : 0;
    for (size_t i = 0; i < o->store_count; i++) {
        weir_batch__origin alone = {.store = o->stores[i]};
        loader->need.table_size += weir_pipeline__tables_size(&alone, 1);
    }
}

static weir_status upload_tables(weir_pipeline__staging *s, weir_error *error) {
    const weir_run_options *o = s->loader->options;
    weir_memory memory = weir_device_memory(s->device);
    uint8_t *next = s->loader->need.table_size > 0 ? weir_pipeline__memory_at(s->there, "tables", 0) : NULL;
    const weir_batch__recipe *recipe = &s->loader->workers[0].list[0]->recipe;
    s->tables = weir__allocate_zero(s->env, o->store_count, sizeof *s->tables);
    if (!s->tables)
        return weir__out_of_memory(error, WEIR_PIPELINE__STAGING_OPERATOR,
                                   o->store_count * sizeof *s->tables);
    for (size_t i = 0; i < o->store_count; i++) {
        weir_batch__origin alone = {.store = o->stores[i]};
        WEIR__TRY(weir_pipeline__tables_write(&alone, 1, &memory, &next, &s->tables[i], error));
    }
    if (recipe->source_count == 0)
        return WEIR_OK;
    return weir_pipeline__tables_write(recipe->origins, recipe->origin_count, &memory, &next, &s->joined,
                                       error);
}

/* ---- Opening ----------------------------------------------------------------------------------- */

/* The rules of the run's datasets. */
static weir_status upload_rules(weir_pipeline__staging *s, weir_error *error) {
    const weir_pipeline__builders *builders = &s->loader->workers[0];
    weir_memory memory = weir_device_memory(s->device);
    uint8_t *next = weir_pipeline__memory_at(s->there, "rules", 0);
    s->rules = weir__allocate_zero(s->env, builders->count, sizeof *s->rules);
    if (!s->rules)
        return weir__out_of_memory(error, WEIR_PIPELINE__STAGING_OPERATOR,
                                   builders->count * sizeof *s->rules);
    for (size_t i = 0; i < builders->count; i++) {
        const weir_batch__rules *rules = &builders->list[i]->recipe.rules;
        s->rules[i] = next;
        WEIR__TRY(weir__memory_write(&memory, next, rules->expansion, (size_t)rules->expansion_size, error));
        next += weir__align(rules->expansion_size, WEIR_PIPELINE__DEVICE_ALIGNMENT);
    }
    return WEIR_OK;
}

weir_status weir_pipeline__staging_start(weir_pipeline__staging *s, weir_pipeline__loader *loader,
                                         const weir_plan *plan, weir_error *error) {
    *s = (weir_pipeline__staging){.env = loader->env, .loader = loader, .step = loader->step};
    s->depth = loader->options->depth;
    s->expansion = (weir_device__kernel_source){.name = WEIR_BATCH__EXPAND_NAME,
                                                .text = weir_batch__expand_text,
                                                .text_size = weir_batch__expand_text_size,
                                                .run = weir_batch__expand_run};
    WEIR__TRY(weir_device_open_named(s->env, loader->options->device, &s->device, error));
    weir_memory memory = weir_device_memory(s->device), pinned = weir_device_pinned(s->device);
    WEIR__TRY(weir_device__kernel_open(s->device, &s->expansion, &s->kernel, error));
    WEIR__TRY(weir_pipeline__memory_open(s->env, plan, "device", &memory, &s->there, error));
    WEIR__TRY(open_places(s, error));
    WEIR__TRY(upload_tables(s, error));
    WEIR__TRY(upload_rules(s, error));
    WEIR__TRY(weir_pipeline__loader_start(loader, plan, &pinned, error));
    weir_pipeline__prefetch_mark(weir_pipeline__loader_prefetch(loader), s->mark);
    return WEIR_OK;
}

void weir_pipeline__staging_close(weir_pipeline__staging *s) {
    if (!s->device)
        return;
    weir_memory pinned = weir_device_pinned(s->device);
    if (s->stream) /* nobody is left to tell of a failure */
        (void)!weir_stream_sync(s->device, s->stream, NULL);
    if (s->expansions)
        (void)!weir_stream_sync(s->device, s->expansions, NULL);
    weir_arenas_close(s->there); /* waits for what is under way, and may read the loader's memory */
    if (s->read_back)
        pinned.release(pinned.context, s->read_back, (size_t)s->loader->need.tensor_size);
    weir_pipeline__loader_close(s->loader);
    weir_device__kernel_close(s->device, &s->kernel);
    for (uint32_t i = 0; s->places && i < s->depth; i++) {
        weir_event_close(s->device, s->places[i].copied);
        weir_event_close(s->device, s->places[i].ready);
        weir_event_close(s->device, s->places[i].free);
    }
    weir_stream_close(s->device, s->stream);
    weir_stream_close(s->device, s->expansions);
    weir__block_close(&s->lists, s->env);
    weir__release(s->env, s->tables);
    weir__release(s->env, s->rules);
    weir_device_close(s->device);
}
