/* See loader.h. The worker that has a step locates it (schedule.h), builds its batch into the item's slot
 * with builders of its own, and leaves a note of which dataset it was. Slots are batch buffers over planned
 * arenas (run_memory.h). */
#include "pipeline/loader.h"

#include <stdio.h>
#include <string.h>

#include "base/floating.h"
#include "base/parallel.h"
#include "batch/build.h"
#include "pipeline/prefetch.h"
#include "sampler/manifest.h"
#include "weir_tool/pipeline_tools.h"
#include "weir_tool/sampler_tools.h"

static const char operator_name[] = "weir.run.open";

/* Batches of more than ALONE_MAX sequences are built together; there are as many lanes as have ALONE_MAX
 * sequences for each worker at work, but two, so that one step is begun while another is finished. */
enum { SLOTS_MAX = 1 << 20, ALONE_MAX = 64, LANES_LEAST = 2, UNITS_EACH = 4, UNIT_MOST = 64 };

/* ---- Steps to batches ------------------------------------------------------------------------ */

const weir_dataset *weir_pipeline__loader_name_step(weir_pipeline__loader *loader, uint64_t step,
                                                    weir_cursor *cursor, weir_error *error) {
    size_t member;
    if (weir_pipeline__schedule_locate(&loader->schedule, loader->mix, step, &member, cursor, NULL) !=
        WEIR_OK)
        return NULL;
    const weir_dataset *dataset = loader->schedule.members[member].dataset;
    weir_pipeline__schedule_name_call(&loader->schedule, dataset->key, *cursor, error);
    return dataset;
}

weir_status weir_pipeline__loader_transform(weir_pipeline__loader *loader, uint64_t step,
                                            const weir_batch *batch, weir_stream stream, weir_error *error) {
    const weir_transform *transform = &loader->options->transform;
    if (!transform->apply)
        return WEIR_OK;
    uint64_t began_ns = weir_pipeline__loader_now(loader);
    weir_status status =
        transform->apply(transform->context, step, batch, (void *)(uintptr_t)batch->data, stream, error);
    (void)atomic_fetch_add(&loader->transform_ns, weir_pipeline__loader_now(loader) - began_ns);
    (void)atomic_fetch_add(&loader->transformed, status == WEIR_OK);
    return status;
}

/* What all workers do with the sequences of a slot's batch, unit by unit: walk, or expand. */
typedef struct shared_work {
    const weir_pipeline__slot *slot;
    bool expands;
} shared_work;

static void do_unit(void *context, void *job, uint32_t unit, uint32_t thread) {
    weir_pipeline__loader *loader = context;
    const shared_work *work = job;
    const weir_pipeline__slot *slot = work->slot;
    uint32_t first = unit * loader->unit, left = weir_batch_view(slot->buffer)->sequence_count - first;
    uint32_t count = left < loader->unit ? left : loader->unit;
    uint64_t began_ns = weir_pipeline__loader_now(loader);
    if (work->expands)
        weir_batch__expand_sequences(slot->buffer, first, count);
    else
        weir_batch__walk_unit(loader->workers[thread].list[slot->member], slot->buffer, first, count);
    if (thread >= loader->lane_count) /* a lead's time is counted with its step, and has its units in it */
        (void)atomic_fetch_add(&loader->build_ns, weir_pipeline__loader_now(loader) - began_ns);
}

static void share(weir_pipeline__loader *loader, const weir_item *item, bool expands) {
    shared_work work = {item->slot, expands};
    uint32_t units = (weir_batch_view(work.slot->buffer)->sequence_count + loader->unit - 1) / loader->unit;
    weir__crew_share(&loader->crew, item->worker, item->position, units, do_unit, &work);
}

/* Builds a step with all workers. */
static weir_status build_together(weir_pipeline__loader *loader, const weir_item *item, weir_cursor cursor,
                                  weir_error *error) {
    weir_pipeline__slot *into = item->slot;
    weir_batch_builder *builder = loader->workers[item->worker].list[into->member];
    weir__floating kept = weir__enter_floating();
    weir_status status = weir_batch__begin(builder, cursor, into->buffer, error);
    if (status == WEIR_OK) {
        share(loader, item, false);
        status = weir_batch__finish(builder, cursor, into->buffer, error);
    }
    if (status == WEIR_OK && !loader->options->device)
        share(loader, item, true);
    if (status == WEIR_OK)
        weir_batch__digest(builder, into->buffer);
    weir__leave_floating(&kept);
    return status;
}

static weir_status produce(void *context, const weir_item *item, weir_error *error) {
    weir_pipeline__loader *loader = context;
    weir_pipeline__builders *worker = &loader->workers[item->worker];
    weir_pipeline__slot *into = item->slot;
    weir_cursor cursor;
    weir_status status = weir_pipeline__schedule_locate(&loader->schedule, worker->mix, item->position,
                                                        &into->member, &cursor, error);
    if (status == WEIR_OK) {
        uint64_t began_ns = weir_pipeline__loader_now(loader);
        status = loader->unit > 0 ? build_together(loader, item, cursor, error)
                                  : weir_batch_build(worker->list[into->member], cursor, into->buffer, error);
        (void)atomic_fetch_add(&loader->build_ns, weir_pipeline__loader_now(loader) - began_ns);
        if (status == WEIR_OK && !loader->options->device)
            status = weir_pipeline__loader_transform(loader, item->position, weir_batch_view(into->buffer), 0,
                                                     error);
        if (status != WEIR_OK)
            weir_pipeline__schedule_name_call(
                &loader->schedule, loader->schedule.members[into->member].dataset->key, cursor, error);
    }
    if (status != WEIR_OK && error) {
        error->t = item->position;
        error->rank = loader->options->rank;
    }
    return status;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static weir_prefetch_options prefetch_options(const weir_pipeline__loader *loader) {
    const weir_run_options *options = loader->options;
    return (weir_prefetch_options){
        .size = sizeof(weir_prefetch_options),
        .epochs = 1,
        .shard_mode = options->shard_mode,
        .policy = options->policy,
        .max_lead = options->max_lead,
        .max_skips_per_round = options->max_skips_per_round,
        .workers = loader->lane_count,
        .buffer_size = options->buffer_size,
        .queue_size = options->queue_size,
        .shares_items = options->policy == WEIR_POLICY_STRICT,
    };
}

static weir_status open_slots(weir_pipeline__loader *loader, const weir_plan *plan, const weir_memory *memory,
                              weir_error *error) {
    size_t count = (size_t)loader->need.slots;
    bool has_tensors = !loader->options->device;
    weir_memory host = weir__host_memory(loader->env);
    const weir_pipeline__builders *builders = &loader->workers[0];
    loader->slots = weir__allocate_zero(loader->env, count, sizeof *loader->slots);
    loader->slot_pointers = weir__allocate_zero(loader->env, count, sizeof *loader->slot_pointers);
    if (!loader->slots || !loader->slot_pointers)
        return weir__out_of_memory(error, operator_name, count * sizeof *loader->slots);
    WEIR__TRY(weir_pipeline__memory_open(loader->env, plan, "slots", memory, &loader->compact, error));
    if (has_tensors)
        WEIR__TRY(weir_pipeline__memory_open(loader->env, plan, "tensors", &host, &loader->tensors, error));
    for (size_t i = 0; i < count; i++) {
        weir_batch_memory at = {.compact = weir_pipeline__memory_at(loader->compact, "slot", i),
                                .without_tensors = !has_tensors,
                                .without_anchors = !has_tensors && !loader->options->anchor_rows};
        if (has_tensors)
            at.tensors = weir_pipeline__memory_at(loader->tensors, "tensors", i);
        loader->slot_pointers[i] = &loader->slots[i];
        WEIR__TRY(weir_batch__slot_open(builders->list, builders->count, &at, loader->need.slot_size,
                                        &loader->slots[i].buffer, error));
    }
    return WEIR_OK;
}

/* The builders of the other workers are opened on all processors: their memory is touched for the first time
 * here, which takes longer than all else. The first failure is kept. */
typedef struct opening {
    weir_pipeline__loader *loader;
    _Atomic bool has_failed;
    weir_status status;
    weir_error error;
} opening;

static void open_worker(void *context, size_t index, uint32_t thread) {
    opening *o = context;
    weir_error error;
    (void)thread;
    weir_status status = weir_pipeline__builders_open(&o->loader->workers[index + 1], o->loader->env,
                                                      &o->loader->schedule, &error);
    if (status != WEIR_OK && !atomic_exchange(&o->has_failed, true)) {
        o->status = status;
        o->error = error;
    }
}

/* Where the run begins or resumes. */
static weir_status find_start(weir_pipeline__loader *loader, weir_error *error) {
    const weir_run_options *o = loader->options;
    weir_pipeline__restored *start = &loader->start;
    weir_status status = WEIR_OK;
    *start = (weir_pipeline__restored){.step = o->first_step, .start_position = o->first_step};
    if (o->state)
        status = weir_pipeline__checkpoint_restore(&loader->schedule, loader->mix, o->state, o->state_size,
                                                   start, error);
    loader->step = start->step;
    if (status != WEIR_OK || start->step <= loader->schedule.end)
        return status;
    status = weir__fail(
        error, WEIR_CONTRACT_VIOLATION, operator_name,
        "the run begins at step %llu, after its end at step %llu; give it more steps, and leave out "
        "drop_remainder if it has it",
        (unsigned long long)start->step, (unsigned long long)loader->schedule.end);
    weir__note_uint(error, "step", start->step);
    weir__note_uint(error, "end", loader->schedule.end);
    return status;
}

static const char *describe_end(uint64_t end, char out[32]) {
    snprintf(out, 32, end == WEIR_ENDLESS ? "nowhere" : "at step %llu", (unsigned long long)end);
    return out;
}

/* Best effort deals the steps out to its workers from the beginning, up to the end. What it cannot resume
 * with is said when the run is opened; the prefetcher checks it all again. */
static weir_status check_dealing(const weir_pipeline__loader *loader, weir_error *error) {
    char was[32], is[32];
    const weir_cbor_value *saved = &loader->start.prefetch;
    const char *mode = weir_shard_mode_name(loader->options->shard_mode), *field = "steps";
    weir_status status = WEIR_OK;
    weir_cbor_value value;
    if (weir_cbor_get(saved, "length", &value) && value.type == WEIR_CBOR_UINT &&
        value.number != loader->schedule.end)
        status = weir__fail(error, WEIR_CHECKPOINT_MISMATCH, operator_name,
                            "the checkpoint's run ends %s, and this one %s; in best effort a run resumes to "
                            "the end that it began with: give the same steps and drop_remainder",
                            describe_end(value.number, was), describe_end(loader->schedule.end, is));
    else if (weir_cbor_get(saved, field = "shard_mode", &value) && !weir_cbor_is_text(&value, mode))
        status = weir__fail(error, WEIR_CHECKPOINT_MISMATCH, operator_name,
                            "the checkpoint's run does not have %s shards; in best effort a run resumes with "
                            "the shards that it began with",
                            mode);
    if (status != WEIR_OK)
        weir__note_text(error, "field", field, strlen(field));
    return status;
}

/* In best effort each worker has its own batches: whichever is ready. A lane without a step would be idle. */
static void choose_lanes(weir_pipeline__loader *loader) {
    const weir_run_options *o = loader->options;
    uint64_t sequences = weir_sampler__most_samples(o->manifest, o->stage) / o->world_size;
    uint64_t workers = o->workers;
    loader->lane_count = o->workers;
    if (workers == 1 || o->policy != WEIR_POLICY_STRICT || sequences <= ALONE_MAX)
        return;
    uint64_t lanes = (ALONE_MAX * workers + sequences - 1) / sequences;
    lanes = lanes < LANES_LEAST ? LANES_LEAST : lanes;
    lanes = o->steps > 0 && o->steps < lanes ? o->steps : lanes;
    uint64_t unit = sequences / (UNITS_EACH * workers) / WEIR_BATCH__UNIT * WEIR_BATCH__UNIT;
    loader->lane_count = WEIR__NARROW(uint32_t, lanes);
    loader->unit = WEIR__NARROW(uint32_t, unit < WEIR_BATCH__UNIT ? WEIR_BATCH__UNIT
                                          : unit > UNIT_MOST      ? UNIT_MOST
                                                                  : unit);
}

weir_status weir_pipeline__loader_open(weir_pipeline__loader *loader, const weir_env *env,
                                       const weir_run_options *options, weir_error *error) {
    *loader = (weir_pipeline__loader){.env = env, .options = options};
    choose_lanes(loader);
    weir_prefetch_options prefetching = prefetch_options(loader);
    loader->need = (weir_pipeline__memory_need){.slots = weir_prefetch_slot_count(&prefetching),
                                                .workers = options->workers,
                                                .places = options->device ? options->depth : 0};
    if (options->workers > WEIR_PIPELINE__WORKERS_MAX || loader->need.slots > SLOTS_MAX) {
        weir_status status = weir__fail(
            error, WEIR_CONTRACT_VIOLATION, operator_name,
            "%u workers and %llu slots (batches ahead of each worker, and the queue) are too many: %d and %d "
            "are the most; lower the workers, their buffers or the queue",
            options->workers, (unsigned long long)loader->need.slots, WEIR_PIPELINE__WORKERS_MAX, SLOTS_MAX);
        weir__note_uint(error, "workers", options->workers);
        weir__note_uint(error, "slots", loader->need.slots);
        return status;
    }
    WEIR__TRY(weir_pipeline__schedule_open(&loader->schedule, env, options, error));
    if (options->shard_mode == WEIR_SHARD_CONTIGUOUS && loader->schedule.end == WEIR_ENDLESS)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "a run without an end has no contiguous shards; give it steps");
    loader->workers = weir__allocate_zero(env, options->workers, sizeof *loader->workers);
    if (!loader->workers)
        return weir__out_of_memory(error, operator_name, options->workers * sizeof *loader->workers);
    weir_pipeline__meter_open(&loader->meter, env);
    WEIR__TRY(
        weir_pipeline__builders_open(&loader->workers[0], &loader->meter.env, &loader->schedule, error));
    WEIR__TRY(weir_pipeline__memory_measure(&loader->need, &loader->workers[0], &loader->meter, error));
    if (loader->schedule.is_mixed)
        WEIR__TRY(
            weir_mix_open(env, options->manifest, options->token, options->token_size, &loader->mix, error));
    size_t share =
        (size_t)(weir_sampler__most_samples(options->manifest, options->stage) / options->world_size);
    loader->indices = weir__allocate(env, share, sizeof *loader->indices);
    if (!loader->indices)
        return weir__out_of_memory(error, operator_name, share * sizeof *loader->indices);
    WEIR__TRY(find_start(loader, error));
    bool is_dealt = options->state && options->policy == WEIR_POLICY_BEST_EFFORT;
    return is_dealt ? check_dealing(loader, error) : WEIR_OK;
}

weir_status weir_pipeline__loader_start(weir_pipeline__loader *loader, const weir_plan *plan,
                                        const weir_memory *memory, weir_error *error) {
    weir_prefetch_options prefetching = prefetch_options(loader);
    uint32_t lanes = loader->lane_count;
    weir_prefetch *prefetch;
    opening o = {.loader = loader};
    weir__parallel(loader->env, weir__threads_or_processors(0), loader->options->workers - 1, open_worker,
                   &o);
    if (error && o.status != WEIR_OK)
        *error = o.error;
    WEIR__TRY(o.status);
    WEIR__TRY(open_slots(loader, plan, memory, error));
    if (loader->unit > 0)
        WEIR__TRY(weir__crew_open(&loader->crew, loader->env, lanes, loader->options->workers - lanes, loader,
                                  error));
    prefetching.source = (weir_source){.context = loader, .length = loader->schedule.end, .produce = produce};
    prefetching.slots = loader->slot_pointers;
    prefetching.start_position = loader->start.start_position;
    if (loader->options->state && loader->options->policy == WEIR_POLICY_BEST_EFFORT) {
        prefetching.state = loader->start.prefetch.item;
        prefetching.state_size = weir_cbor_size(&loader->start.prefetch);
    }
    WEIR__TRY(weir_prefetch_open(loader->env, &prefetching, &prefetch, error));
    atomic_store(&loader->prefetch, prefetch);
    return WEIR_OK;
}

void weir_pipeline__loader_close(weir_pipeline__loader *loader) {
    const weir_env *env = loader->env;
    if (!env)
        return;
    weir_prefetch *prefetch = weir_pipeline__loader_prefetch(loader);
    weir_prefetch_close(prefetch);
    weir__crew_close(&loader->crew);
    for (size_t i = 0; loader->slots && i < loader->need.slots; i++)
        weir_batch_buffer_close(loader->slots[i].buffer);
    weir__release(env, loader->slots);
    weir__release(env, loader->slot_pointers);
    weir_arenas_close(loader->compact);
    weir_arenas_close(loader->tensors);
    for (uint32_t i = 0; loader->workers && i < loader->options->workers; i++)
        weir_pipeline__builders_close(&loader->workers[i]);
    weir__release(env, loader->workers);
    weir__release(env, loader->indices);
    weir_mix_close(loader->mix);
    weir_pipeline__schedule_close(&loader->schedule);
    loader->env = NULL;
}

/* ---- Taking batches -------------------------------------------------------------------------- */

weir_status weir_pipeline__loader_next(weir_pipeline__loader *loader, bool waits, weir_taken *out,
                                       bool *is_ready, weir_error *error) {
    weir_prefetch *prefetch = weir_pipeline__loader_prefetch(loader);
    weir_item item;
    *is_ready = true;
    weir_status status = waits ? weir_prefetch_next(prefetch, &item, error)
                               : weir_prefetch_try_next(prefetch, &item, is_ready, error);
    if (status != WEIR_OK || !*is_ready)
        return status;
    *out = (weir_taken){.step = loader->step};
    if (!item.slot)
        return WEIR_OK;
    const weir_pipeline__slot *from = item.slot;
    const weir_pipeline__schedule_member *member = &loader->schedule.members[from->member];
    *out = (weir_taken){.step = item.position,
                        .dataset = member->dataset,
                        .store = member->store,
                        .batch = weir_batch_view(from->buffer),
                        .slot = item.slot_index};
    loader->step++;
    return WEIR_OK;
}

void weir_pipeline__loader_release(weir_pipeline__loader *loader, const weir_taken *taken) {
    weir_item item = {.slot = loader->slot_pointers[taken->slot], .slot_index = taken->slot};
    weir_prefetch_release(weir_pipeline__loader_prefetch(loader), &item);
}
