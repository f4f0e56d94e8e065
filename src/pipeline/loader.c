/* A run's batches, made ahead by workers and taken in order. One item of the prefetcher is one step: the
 * worker that has it locates it (run.h), builds its batch into the item's slot with builders of its own, and
 * leaves a note of which dataset it was. Slots are batch buffers over planned arenas (memory.h). */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "batch/build.h"
#include "pipeline/checkpoint.h"
#include "pipeline/loader.h"
#include "pipeline/memory.h"
#include "pipeline/prefetch.h"
#include "store/parallel.h"

static const char operator_name[] = "weir.loader.open";

enum { WORKERS_DEFAULT = 1, BUFFER_DEFAULT = 2, QUEUE_DEFAULT = 2, SLOTS_MAX = 1 << 20 };

typedef struct arena {
    uint8_t *base;
    size_t size;
} arena;

typedef struct slot {
    weir_batch_buffer *buffer;
    size_t member; /* of the run, whose batch it holds */
} slot;

struct weir_loader {
    const weir_env *env;
    weir__run run;
    weir_policy policy;
    weir_memory memory;
    weir_loader_hook hook;
    weir__meter meter; /* what worker 0's builders and the buffers' lists live in */
    weir__builders *workers;
    uint32_t worker_count;
    weir_mix *mix; /* the consumer's; NULL where the run is not mixed */
    weir__memory_need need;
    weir_plan *plan;
    bool without_tensors;
    arena compact; /* of the compact batches, in `memory` */
    arena tensors; /* of their tensors, on the host */
    slot *slots;
    void **slot_pointers;
    uint64_t slot_count;
    weir_prefetch *prefetch;
    uint64_t *indices; /* room for one rank's share of a batch */
    uint64_t step;
};

/* ---- Steps to batches ------------------------------------------------------------------------ */

/* Adds to an error of building a step's batch which call of the sampler it was. */
static void name_call(const weir_loader *loader, size_t member, weir_cursor cursor, weir_error *error) {
    const weir__run *run = &loader->run;
    weir_sampler_options call = {.size = sizeof call,
                                 .dataset = run->members[member].dataset->key,
                                 .stage = run->stage,
                                 .world_size = run->world_size,
                                 .rank = run->rank,
                                 .token = run->token,
                                 .token_size = run->token_size,
                                 .cursor = cursor};
    weir_sampler_name_call(run->manifest, &call, error);
}

static weir_status produce(void *context, const weir_item *item, weir_error *error) {
    weir_loader *loader = context;
    weir__builders *worker = &loader->workers[item->worker];
    slot *into = item->slot;
    weir_cursor cursor;
    weir_status status =
        weir__run_locate(&loader->run, worker->mix, item->position, &into->member, &cursor, error);
    if (status == WEIR_OK) {
        status = weir_batch_build(worker->list[into->member], cursor, into->buffer, error);
        if (status == WEIR_OK && loader->hook.built)
            status = loader->hook.built(loader->hook.context, item, into->buffer, error);
        if (status != WEIR_OK)
            name_call(loader, into->member, cursor, error);
    }
    if (status != WEIR_OK && error) {
        error->t = item->position;
        error->rank = loader->run.rank;
    }
    return status;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static weir_prefetch_options prefetch_options(const weir_loader_options *options) {
    return (weir_prefetch_options){
        .size = sizeof(weir_prefetch_options),
        .epochs = 1,
        .policy = options->policy,
        .max_lead = options->max_lead,
        .max_skips_per_round = options->max_skips_per_round,
        .workers = options->workers ? options->workers : WORKERS_DEFAULT,
        .buffer_size = options->buffer_size ? options->buffer_size : BUFFER_DEFAULT,
        .queue_size = options->queue_size ? options->queue_size : QUEUE_DEFAULT,
    };
}

uint64_t weir_loader_slot_count(const weir_loader_options *options) {
    weir_prefetch_options prefetching = prefetch_options(options);
    return weir_prefetch_slot_count(&prefetching);
}

static weir_status too_many(const weir_loader *loader, weir_error *error) {
    weir_status status = weir__fail(
        error, WEIR_CONTRACT_VIOLATION, operator_name,
        "%u workers and %llu slots (batches ahead of each worker, and the queue) are too many: %d and %d are "
        "the most; lower the workers, their buffers or the queue",
        loader->worker_count, (unsigned long long)loader->slot_count, WEIR__WORKERS_MAX, SLOTS_MAX);
    weir__note_uint(error, "workers", loader->worker_count);
    weir__note_uint(error, "slots", loader->slot_count);
    return status;
}

/* Opens the run and the first worker, and measures what it takes. */
static weir_status open_measured(weir_loader *loader, const weir_loader_options *options, weir_error *error) {
    if (options->size < sizeof *options)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "options.size is %zu; set it to sizeof(weir_loader_options)", options->size);
    if (loader->worker_count > WEIR__WORKERS_MAX || loader->slot_count > SLOTS_MAX)
        return too_many(loader, error);
    weir_status status = weir__run_open(&loader->run, loader->env, options, error);
    if (status != WEIR_OK)
        return status;
    loader->workers = weir__allocate_zero(loader->env, loader->worker_count, sizeof *loader->workers);
    if (!loader->workers)
        return weir__out_of_memory(error, operator_name, loader->worker_count * sizeof *loader->workers);
    loader->need = (weir__memory_need){.slots = loader->slot_count, .workers = loader->worker_count};
    weir__meter_open(&loader->meter, loader->env);
    status = weir__builders_open(&loader->workers[0], &loader->meter.env, &loader->run, error);
    return status ? status : weir__memory_measure(&loader->need, &loader->workers[0], &loader->meter, error);
}

static weir_status plan_memory(weir_loader *loader, uint64_t limit, weir_error *error) {
    weir__memory_need need = loader->need;
    if (loader->without_tensors)
        need.tensor_size = 0;
    return weir__memory_plan(loader->env, &need, limit, &loader->plan, error);
}

static weir_status open_arena(const weir_loader *loader, const weir_memory *memory, const char *name,
                              arena *out, weir_error *error) {
    uint64_t size = weir__memory_arena_size(loader->plan, name);
    weir_error refused = {0};
    if (size > SIZE_MAX)
        return weir__out_of_memory(error, operator_name, SIZE_MAX);
    out->size = (size_t)size;
    out->base = memory->allocate(memory->context, out->size, &refused);
    if (out->base)
        return WEIR_OK;
    if (refused.status == WEIR_OK)
        return weir__out_of_memory(error, operator_name, out->size);
    if (error)
        *error = refused;
    return refused.status;
}

static weir_status open_slots(weir_loader *loader, weir_error *error) {
    size_t count = (size_t)loader->slot_count;
    weir_memory host = weir__host_memory(loader->env);
    loader->slots = weir__allocate_zero(loader->env, count, sizeof *loader->slots);
    loader->slot_pointers = weir__allocate_zero(loader->env, count, sizeof *loader->slot_pointers);
    if (!loader->slots || !loader->slot_pointers)
        return weir__out_of_memory(error, operator_name, count * sizeof *loader->slots);
    weir_status status = open_arena(loader, &loader->memory, "slots", &loader->compact, error);
    if (status == WEIR_OK && !loader->without_tensors)
        status = open_arena(loader, &host, "tensors", &loader->tensors, error);
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        weir_batch_memory memory = {
            .compact = loader->compact.base + weir__memory_offset(loader->plan, "slot", i),
            .without_tensors = loader->without_tensors,
        };
        if (!loader->without_tensors)
            memory.tensors = loader->tensors.base + weir__memory_offset(loader->plan, "tensors", i);
        loader->slot_pointers[i] = &loader->slots[i];
        status = weir_batch_buffer_open(loader->workers[0].list, loader->workers[0].count, &memory,
                                        &loader->slots[i].buffer, error);
    }
    return status;
}

/* The builders of the other workers are opened on all processors: their memory is touched for the first time
 * here, which takes longer than all else. The first failure is kept. */
typedef struct opening {
    weir_loader *loader;
    _Atomic bool has_failed;
    weir_status status;
    weir_error error;
} opening;

static void open_worker(void *context, size_t index, uint32_t thread) {
    opening *o = context;
    weir_error error;
    (void)thread;
    weir_status status =
        weir__builders_open(&o->loader->workers[index + 1], o->loader->env, &o->loader->run, &error);
    if (status != WEIR_OK && !atomic_exchange(&o->has_failed, true)) {
        o->status = status;
        o->error = error;
    }
}

static weir_status open_workers(weir_loader *loader, weir_error *error) {
    opening o = {.loader = loader};
    weir__parallel(loader->env, weir__threads_or_processors(0), loader->worker_count - 1, open_worker, &o);
    if (error && o.status != WEIR_OK)
        *error = o.error;
    return o.status;
}

static weir_status open_consumer(weir_loader *loader, weir_error *error) {
    const weir__run *run = &loader->run;
    uint64_t share = weir_manifest_global_batch_size(run->manifest) / run->world_size;
    weir_status status = WEIR_OK;
    if (run->is_mixed)
        status = weir_mix_open(loader->env, run->manifest, run->token, run->token_size, &loader->mix, error);
    if (status != WEIR_OK)
        return status;
    loader->indices = weir__allocate(loader->env, (size_t)share, sizeof *loader->indices);
    return loader->indices ? WEIR_OK
                           : weir__out_of_memory(error, operator_name, (size_t)share * sizeof(uint64_t));
}

/* Where the run begins or goes on. The first worker lends its mix: no thread is there yet. */
static weir_status find_start(weir_loader *loader, const weir_loader_options *options, weir__restored *out,
                              weir_error *error) {
    weir__run_state here = {.policy = loader->policy, .workers = loader->worker_count};
    weir_status status = WEIR_OK;
    *out = (weir__restored){.step = options->first_step, .start_position = options->first_step};
    if (options->checkpoint)
        status = weir__checkpoint_restore(&loader->run, loader->workers[0].mix, &here, options->checkpoint,
                                          options->checkpoint_size, out, error);
    if (status != WEIR_OK || out->step <= loader->run.end)
        return status;
    status = weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                        "the run begins at step %llu, behind its end at step %llu; raise the number of steps",
                        (unsigned long long)out->step, (unsigned long long)loader->run.end);
    weir__note_uint(error, "step", out->step);
    weir__note_uint(error, "end", loader->run.end);
    return status;
}

static const char *describe_end(uint64_t end, char out[32]) {
    snprintf(out, 32, end == WEIR_ENDLESS ? "nowhere" : "at step %llu", (unsigned long long)end);
    return out;
}

/* Best effort deals the steps out to its workers from the beginning, up to the end. */
static weir_status check_end(const weir_loader *loader, const weir_cbor_value *prefetch, weir_error *error) {
    char was[32], is[32];
    weir_cbor_value end;
    if (!weir_cbor_get(prefetch, "length", &end) || end.type != WEIR_CBOR_UINT ||
        end.number == loader->run.end)
        return WEIR_OK;
    weir_status status = weir__fail(error, WEIR_CHECKPOINT_MISMATCH, operator_name,
                                    "the checkpoint's run ends %s, and this one %s; in best effort a run "
                                    "goes on to the end that it began with: give the same number of steps",
                                    describe_end(end.number, was), describe_end(loader->run.end, is));
    weir__note_text(error, "field", "steps", strlen("steps"));
    return status;
}

static weir_status start(weir_loader *loader, const weir_loader_options *options, weir_error *error) {
    weir_prefetch_options prefetching = prefetch_options(options);
    weir__restored from;
    weir_status status = find_start(loader, options, &from, error);
    if (status != WEIR_OK)
        return status;
    loader->step = from.step;
    prefetching.source = (weir_source){.context = loader, .length = loader->run.end, .produce = produce};
    prefetching.slots = loader->slot_pointers;
    prefetching.start_position = from.start_position;
    if (options->checkpoint && loader->policy == WEIR_POLICY_BEST_EFFORT) {
        prefetching.state = &from.prefetch;
        status = check_end(loader, &from.prefetch, error);
    }
    if (status != WEIR_OK)
        return status;
    return weir_prefetch_open(loader->env, &prefetching, &loader->prefetch, error);
}

/* A loader that is measured and no more; NULL where that fails, with the status. */
static weir_loader *new_loader(const weir_env *env, const weir_loader_options *options, weir_status *status,
                               weir_error *error) {
    weir_prefetch_options prefetching = prefetch_options(options);
    weir_loader *loader = weir__allocate_zero(env, 1, sizeof *loader);
    if (!loader) {
        *status = weir__out_of_memory(error, operator_name, sizeof *loader);
        return NULL;
    }
    loader->env = env;
    loader->policy = options->policy;
    loader->memory = options->memory.allocate ? options->memory : weir__host_memory(env);
    loader->without_tensors = options->without_tensors;
    loader->hook = options->hook;
    loader->worker_count = prefetching.workers;
    loader->slot_count = weir_prefetch_slot_count(&prefetching);
    *status = open_measured(loader, options, error);
    if (*status == WEIR_OK)
        return loader;
    weir_loader_close(loader);
    return NULL;
}

weir_status weir_loader_open(const weir_env *env, const weir_loader_options *options, weir_loader **out,
                             weir_error *error) {
    weir_status status;
    weir_loader *loader = new_loader(weir__env(env), options, &status, error);
    if (!loader)
        return status;
    status = plan_memory(loader, options->memory_limit, error);
    if (status == WEIR_OK)
        status = open_workers(loader, error);
    if (status == WEIR_OK)
        status = open_consumer(loader, error);
    if (status == WEIR_OK)
        status = open_slots(loader, error);
    if (status == WEIR_OK)
        status = start(loader, options, error);
    if (status != WEIR_OK) {
        weir_loader_close(loader);
        return status;
    }
    *out = loader;
    return WEIR_OK;
}

void weir_loader_close(weir_loader *loader) {
    if (!loader)
        return;
    const weir_env *env = loader->env;
    weir_prefetch_close(loader->prefetch);
    for (size_t i = 0; loader->slots && i < loader->slot_count; i++)
        weir_batch_buffer_close(loader->slots[i].buffer);
    weir__release(env, loader->slots);
    weir__release(env, loader->slot_pointers);
    weir_memory host = weir__host_memory(env);
    if (loader->compact.base)
        loader->memory.release(loader->memory.context, loader->compact.base, loader->compact.size);
    if (loader->tensors.base)
        host.release(host.context, loader->tensors.base, loader->tensors.size);
    for (uint32_t i = 0; loader->workers && i < loader->worker_count; i++)
        weir__builders_close(&loader->workers[i]);
    weir__release(env, loader->workers);
    weir__release(env, loader->indices);
    weir_mix_close(loader->mix);
    weir_plan_close(loader->plan);
    weir__run_close(&loader->run);
    weir__release(env, loader);
}

/* ---- Taking batches -------------------------------------------------------------------------- */

static void deliver(weir_loader *loader, const weir_item *item, weir_loaded *out) {
    *out = (weir_loaded){.step = loader->step, .item = *item};
    if (!item->slot)
        return;
    const slot *from = item->slot;
    out->step = item->position;
    out->dataset = loader->run.members[from->member].dataset;
    out->store = loader->run.members[from->member].store;
    out->buffer = from->buffer;
    out->batch = weir_batch_view(from->buffer);
    loader->step++;
}

weir_status weir_loader_next(weir_loader *loader, weir_loaded *out, weir_error *error) {
    weir_item item;
    weir_status status = weir_prefetch_next(loader->prefetch, &item, error);
    if (status == WEIR_OK)
        deliver(loader, &item, out);
    return status;
}

weir_status weir_loader_try_next(weir_loader *loader, weir_loaded *out, bool *is_ready, weir_error *error) {
    weir_item item;
    weir_status status = weir_prefetch_try_next(loader->prefetch, &item, is_ready, error);
    if (status == WEIR_OK && *is_ready)
        deliver(loader, &item, out);
    return status;
}

void weir_loader_release(weir_loader *loader, const weir_loaded *loaded) {
    if (loaded->batch)
        weir_prefetch_release(loader->prefetch, &loaded->item);
}

void weir_loader_cancel(weir_loader *loader) {
    weir_prefetch_cancel(loader->prefetch);
}

void weir_loader_measure(const weir_loader *loader, weir_prefetch_metrics *metrics,
                         weir_worker_metrics *workers) {
    weir_prefetch_measure(loader->prefetch, metrics, workers);
}

uint64_t weir_loader_step(const weir_loader *loader) {
    return loader->step;
}

uint64_t weir_loader_end(const weir_loader *loader) {
    return loader->run.end;
}

size_t weir__loader_member_count(const weir_loader *loader) {
    return loader->run.member_count;
}

size_t weir__loader_member_of(const weir_loaded *loaded) {
    return ((const slot *)loaded->item.slot)->member;
}

const void *weir__loader_rules(const weir_loader *loader, size_t member, uint64_t *size) {
    return weir__builder_rules(loader->workers[0].list[member], size);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

const weir_plan *weir_loader_memory(const weir_loader *loader) {
    return loader->plan;
}

weir_status weir_loader_plan(const weir_env *env, const weir_loader_options *options, weir_plan **out,
                             weir_error *error) {
    weir_status status;
    weir__restored from;
    weir_loader *loader = new_loader(weir__env(env), options, &status, error);
    if (!loader)
        return status;
    status = plan_memory(loader, options->memory_limit, error);
    if (status == WEIR_OK)
        status = find_start(loader, options, &from, error);
    if (status == WEIR_OK) {
        *out = loader->plan;
        loader->plan = NULL;
    }
    weir_loader_close(loader);
    return status;
}

weir_status weir__loader_need(const weir_env *env, const weir_loader_options *options, weir__memory_need *out,
                              weir_error *error) {
    weir_status status;
    weir__restored from;
    weir_loader *loader = new_loader(weir__env(env), options, &status, error);
    if (!loader)
        return status;
    status = find_start(loader, options, &from, error);
    *out = loader->need;
    weir_loader_close(loader);
    return status;
}

/* ---- Traces and checkpoints ------------------------------------------------------------------ */

void weir_loader_describe(const weir_loader *loader, weir_trace_run *out) {
    const weir__run *run = &loader->run;
    *out = (weir_trace_run){.size = sizeof *out,
                            .manifest = run->manifest,
                            .token = run->token,
                            .token_size = run->token_size,
                            .world_size = run->world_size,
                            .rank = run->rank,
                            .schedule = run->is_mixed ? WEIR_SCHEDULE_MIX : WEIR_SCHEDULE_CURSOR,
                            .store_hashes = (const uint8_t(*)[WEIR_HASH_SIZE])run->store_hashes,
                            .store_count = run->store_count,
                            .is_best_effort = loader->policy == WEIR_POLICY_BEST_EFFORT,
                            .stage = run->stage};
    out->build = weir_build_info(&out->build_count);
}

/* A batch has the valid ones; in eval and infer, positions wrap round behind the last. */
static void list_indices(weir_loader *loader, const weir_loaded *loaded) {
    const weir_step *step = &loaded->batch->step;
    uint64_t first = step->cursor_before.global_index + loader->run.rank * step->micro_batch_size;
    for (uint64_t i = 0; i < step->count; i++)
        loader->indices[i] =
            i < step->valid_count ? loaded->batch->indices[i] : (first + i) % loaded->dataset->cardinality;
}

weir_status weir_loader_record(weir_loader *loader, const weir_loaded *loaded, bool with_indices,
                               weir_trace_writer *writer, weir_error *error) {
    const weir_batch *batch = loaded->batch;
    weir_trace_iter iter = {.t = loaded->step, .dataset = loaded->dataset->key, .step = &batch->step};
    bool is_padded = loader->run.pad && batch->step.valid_count < batch->step.micro_batch_size;
    if (batch->has_digests) { /* a replay does not pad: of a padded batch it can check the samples alone */
        iter.batch_digest = is_padded ? NULL : batch->batch_digest;
        iter.sample_digests = batch->sample_digests;
    }
    if (with_indices) {
        list_indices(loader, loaded);
        iter.indices = loader->indices;
    }
    return weir_trace_append(writer, &iter, error);
}

weir_status weir_loader_record_failure(weir_loader *loader, uint64_t step, const weir_error *failure,
                                       weir_trace_writer *writer, weir_error *error) {
    size_t member;
    weir_cursor cursor;
    weir_error call = {0};
    weir_trace_failure record = {.t = failure->replay_token_size > 0 ? failure->t : step, .error = failure};
    if (weir__run_locate(&loader->run, loader->mix, record.t, &member, &cursor, NULL) == WEIR_OK) {
        name_call(loader, member, cursor, &call);
        record.dataset = loader->run.members[member].dataset->key;
        record.cursor = &cursor;
        record.data_replay_t = call.replay_token;
    }
    return weir_trace_fail(writer, &record, error);
}

void weir_loader_checkpoint(const weir_loader *loader, weir_cbor_writer *w) {
    weir__run_state state = {.step = loader->step,
                             .policy = loader->policy,
                             .workers = loader->worker_count,
                             .prefetch = loader->prefetch};
    weir__checkpoint_write(&loader->run, loader->mix, &state, w);
}

weir_status weir_loader_checkpoint_save(const weir_loader *loader, const char *path,
                                        uint8_t hash[WEIR_HASH_SIZE], weir_error *error) {
    weir_cbor_writer w;
    weir_cbor_writer_memory(&w, loader->env);
    weir_loader_checkpoint(loader, &w);
    weir_status status = weir_cbor_finish(&w, error);
    if (status == WEIR_OK)
        status = weir__checkpoint_save(loader->env, w.data, w.size, path, hash, error);
    weir_cbor_release(&w);
    return status;
}
