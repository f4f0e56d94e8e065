/* A run: the loader, a device if there is one, and the files of this rank in one handle (weir/run.h).
 *
 * A checkpoint is saved after a synced trace, so a trace always reaches as far as its checkpoint; what it has
 * beyond is cut when the run resumes. The first checkpoint is saved before the first batch: from then on a
 * run that is killed at any moment can be resumed. */
#include <string.h>

#include "base/arena.h"
#include "base/options.h"
#include "batch/builder.h"
#include "device/device.h"
#include "pipeline/prefetch.h"
#include "pipeline/resident_tables.h"
#include "pipeline/run_files.h"
#include "pipeline/run_options.h"
#include "pipeline/staging.h"
#include "store/reader.h"
#include "trace/trace_writer.h"
#include "weir_tool/device_work.h"
#include "weir_tool/pipeline_tools.h"
#include "weir_tool/store_tools.h"

static const char operator_name[] = "weir.run";

typedef enum run_phase { OPENED, STARTED, ENDED, STOPPED, FAILED } run_phase;

struct weir_run {
    const weir_env *env;
    weir_run_options options; /* with the defaults in place; what they point to and is used later is … */
    weir__arena kept;         /* … here, or … */
    uint8_t *resumed;         /* … the state that was read from a file */
    weir_pipeline__run_files files;
    weir_pipeline__loader loader;
    weir_pipeline__staging staging; /* zeros without a device */
    weir_plan *plan;
    uint8_t *joined_memory; /* without a device: … */
    weir_tables joined;     /* … the tables of mixed batches */
    weir_run_info info;
    weir_checkpoint from; /* if the run is resumed */
    run_phase phase;
    weir_trace_writer *trace;
    weir_cbor_writer written; /* the state that was asked for last */
    bool is_lost;             /* a batch was taken and could not be given, or recorded … */
    uint64_t lost_step;       /* … that of this step */
    uint64_t given;
    uint64_t verified;
    uint64_t saved_step;
    uint64_t saved_ns;
    uint64_t asked_ns;             /* spent in taking batches … */
    uint64_t used_ns;              /* … and between two of them, by the consumer */
    uint64_t gave_ns;              /* when the last one was given; 0: not yet */
    weir_worker_metrics *measured; /* room for one of each lane */
    weir_batch__digester digester; /* open from the first digest_in_place on */
    _Atomic bool is_cancelled;
};

/* ---- Opening --------------------------------------------------------------------------------- */

static void *keep(weir_run *run, const void *from, size_t size) {
    void *copy = weir__arena_take(&run->kept, size);
    return copy && size > 0 ? memcpy(copy, from, size) : copy; /* `from` may be NULL else */
}

static weir_status open_run(weir_run *run, weir_error *error) {
    weir_run_options *o = &run->options;
    WEIR__TRY(weir_pipeline__run_settle(o, error));
    /* What they point to and is used after opening is copied. */
    bool has_token = o->token != NULL;
    o->token_size = has_token ? o->token_size : WEIR_TOKEN_SIZE;
    o->token = keep(run, has_token ? o->token : weir_manifest_describe(o->manifest)->token, o->token_size);
    o->stores = keep(run, o->stores, o->store_count * sizeof *o->stores);
    o->device = o->device ? keep(run, o->device, strlen(o->device) + 1) : NULL;
    o->state = o->state ? keep(run, o->state, o->state_size) : NULL;
    if (run->kept.is_short)
        return weir__out_of_memory(error, operator_name, 0);
    WEIR__TRY(weir_pipeline__run_files_open(&run->files, run->env, o, error));
    if (run->files.resume) {
        WEIR__TRY(weir_pipeline__run_files_read(&run->files, run->env, &run->resumed, &o->state_size, error));
        o->state = run->resumed;
    }
    WEIR__TRY(weir_pipeline__loader_open(&run->loader, run->env, o, error));
    if (o->state) /* the loader has read it before */
        WEIR__TRY(weir_checkpoint_read(o->state, o->state_size, &run->from, error));
    run->measured = weir__allocate_zero(run->env, run->loader.lane_count, sizeof *run->measured);
    if (!run->measured)
        return weir__out_of_memory(error, operator_name, run->loader.lane_count * sizeof *run->measured);
    if (o->device)
        weir_pipeline__staging_measure(&run->loader);
    WEIR__TRY(weir_pipeline__memory_plan(run->env, &run->loader.need, o->memory_limit,
                                         weir_manifest_describe(o->manifest)->token, &run->plan, error));
    run->info = (weir_run_info){.rank = o->rank,
                                .world_size = o->world_size,
                                .stage = o->stage,
                                .policy = o->policy,
                                .workers = o->workers,
                                .buffer_size = o->buffer_size,
                                .queue_size = o->queue_size,
                                .first_step = run->loader.step,
                                .end = run->loader.schedule.end,
                                .is_resumed = o->state != NULL,
                                .trace = run->files.trace,
                                .checkpoint = run->files.checkpoint,
                                .resumed_from = run->files.resume,
                                .memory = run->plan};
    return WEIR_OK;
}

weir_status weir_run_open(const weir_env *env, const weir_run_options *given, weir_run **out,
                          weir_error *error) {
    weir_run_options options;
    WEIR__TRY(WEIR__TAKE_OPTIONS(options, given, weir_run_options, operator_name, error));
    env = weir__env_or_default(env);
    weir_run *run = weir__allocate_zero(env, 1, sizeof *run);
    if (!run)
        return weir__out_of_memory(error, operator_name, sizeof *run);
    run->env = env;
    run->options = options;
    weir__arena_init(&run->kept, env);
    weir_cbor_writer_memory(&run->written, env);
    weir_status status = open_run(run, error);
    if (status != WEIR_OK) {
        weir_run_close(run);
        return status;
    }
    *out = run;
    return WEIR_OK;
}

/* Whether the run was started by another process, of which this is a child. */
static bool is_elsewhere(const weir_run *run) {
    const weir_prefetch *prefetch = weir_pipeline__loader_prefetch(&run->loader);
    return prefetch && !weir_pipeline__prefetch_is_here(prefetch);
}

/* In a child of fork the trace is the parent's: what is buffered here is written there. */
static void close_trace(weir_run *run) {
    if (is_elsewhere(run))
        weir_trace__writer_leave(run->trace);
    else
        weir_trace_writer_close(run->trace);
    run->trace = NULL;
}

void weir_run_close(weir_run *run) {
    if (!run)
        return;
    const weir_env *env = run->env;
    close_trace(run);
    weir_pipeline__staging_close(&run->staging);
    weir_pipeline__loader_close(&run->loader);
    weir_batch__digester_close(&run->digester, env);
    weir_plan_close(run->plan);
    weir_cbor_release(&run->written);
    weir_pipeline__run_files_close(&run->files, env);
    weir__release(env, run->joined_memory);
    weir__release(env, run->measured);
    weir__release(env, run->resumed);
    weir__arena_release(&run->kept);
    weir__release(env, run);
}

/* ---- Saving ---------------------------------------------------------------------------------- */

uint64_t weir_run_step(const weir_run *run) {
    return run->staging.device ? run->staging.step : run->loader.step;
}

static weir_status write_state(weir_run *run, weir_error *error) {
    weir_pipeline__run_state state = {.step = weir_run_step(run),
                                      .prefetch = weir_pipeline__loader_prefetch(&run->loader),
                                      .mark = run->staging.mark};
    if (run->is_lost)
        return weir__fail(error, WEIR_CANCELLED, operator_name,
                          "the batch of step %llu was lost; resume from the last checkpoint",
                          (unsigned long long)(state.step - 1));
    run->written.size = 0;
    weir_cbor_restart(&run->written);
    weir_pipeline__checkpoint_write(&run->loader.schedule, run->loader.mix, &state, &run->written);
    return weir_cbor_finish(&run->written, error);
}

static weir_status save_checkpoint(weir_run *run, bool is_first, weir_error *error) {
    weir_status status = write_state(run, error);
    if (status == WEIR_OK)
        status = weir_pipeline__checkpoint_save(run->env, run->written.data, run->written.size,
                                                run->files.checkpoint, is_first, error);
    run->saved_step = weir_run_step(run);
    run->saved_ns = run->env->now_ns(run->env->context);
    return status;
}

weir_status weir_run_save(weir_run *run, weir_error *error) {
    if (is_elsewhere(run))
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "this is a child of fork, and the run's files are the parent's; save there");
    weir_status status = run->trace ? weir_trace_sync(run->trace, error) : WEIR_OK;
    bool is_saved = run->files.checkpoint && weir_pipeline__loader_prefetch(&run->loader);
    return status == WEIR_OK && is_saved ? save_checkpoint(run, false, error) : status;
}

weir_status weir_run_stop(weir_run *run, weir_error *error) {
    bool has_files = (run->phase == STARTED || run->phase == ENDED) && !is_elsewhere(run);
    weir_run_cancel(run);
    weir_status status = has_files ? weir_run_save(run, error) : WEIR_OK;
    close_trace(run);
    if (has_files)
        run->phase = STOPPED;
    return status;
}

weir_status weir_run_state(weir_run *run, const void **data, size_t *size, weir_error *error) {
    WEIR__TRY(run->phase == OPENED ? weir_run_start(run, error) : WEIR_OK);
    if (run->trace && !is_elsewhere(run))
        WEIR__TRY(weir_trace_sync(run->trace, error));
    WEIR__TRY(write_state(run, error));
    *data = run->written.data;
    *size = run->written.size;
    return WEIR_OK;
}

/* By steps, or by the time since the last one. The end has its own. */
static bool is_due(const weir_run *run) {
    const weir_run_options *o = &run->options;
    uint64_t step = weir_run_step(run);
    if (!run->files.checkpoint || step == run->saved_step || step >= run->info.end)
        return false;
    if (o->checkpoint_steps > 0 && step % o->checkpoint_steps == 0)
        return true;
    return (run->env->now_ns(run->env->context) - run->saved_ns) / 1000000000u >= o->checkpoint_seconds;
}

/* ---- The trace ------------------------------------------------------------------------------- */

static weir_status open_trace(weir_run *run, weir_error *error) {
    const weir_run_options *o = &run->options;
    const weir_pipeline__schedule *s = &run->loader.schedule;
    bool is_resumed = run->info.is_resumed;
    weir_trace_start start = {run->info.first_step, is_resumed ? run->from.hash : NULL};
    weir_trace_run header = {.size = sizeof header,
                             .manifest = o->manifest,
                             .token = o->token,
                             .token_size = o->token_size,
                             .world_size = o->world_size,
                             .rank = o->rank,
                             .schedule = s->is_mixed ? WEIR_SCHEDULE_MIX : WEIR_SCHEDULE_CURSOR,
                             .store_hashes = (const uint8_t(*)[WEIR_HASH_SIZE])s->store_hashes,
                             .store_count = s->store_count,
                             .is_best_effort = o->policy == WEIR_POLICY_BEST_EFFORT,
                             .stage = o->stage};
    header.build = weir_build_info(&header.build_count);
    if (is_resumed && weir_pipeline__run_files_exists(run->env, run->files.trace))
        return weir_trace_resume(run->env, run->files.trace, &header, start.step, start.checkpoint_hash,
                                 &run->trace, error);
    return weir_trace_create(run->env, run->files.trace, &header, &start, &run->trace, error);
}

static weir_status record(weir_run *run, const weir_taken *taken, weir_error *error) {
    const weir_batch *batch = taken->batch;
    const weir_step *step = &batch->step;
    weir_trace_iter iter = {.t = taken->step, .dataset = taken->dataset->key, .step = step};
    bool is_padded = run->options.pad && step->valid_count < step->micro_batch_size;
    if (batch->has_digests) { /* a replay does not pad: of a padded batch it can check the samples alone */
        iter.batch_digest = is_padded ? NULL : batch->batch_digest;
        iter.sample_digests = batch->group_digests;
    }
    if (run->options.trace_indices) { /* a batch has the valid ones; positions wrap round after the last */
        uint64_t first = step->cursor_before.global_index + run->options.rank * step->micro_batch_size;
        for (uint64_t i = 0; i < step->count; i++)
            run->loader.indices[i] =
                i < step->valid_count ? batch->indices[i] : (first + i) % taken->dataset->cardinality;
        iter.indices = run->loader.indices;
    }
    return weir_trace_append(run->trace, &iter, error);
}

/* The digest of a batch's bytes where the consumer has them. */
static weir_status digest_in_place(weir_run *run, const weir_taken *taken, uint8_t digest[16],
                                   weir_error *error) {
    static const weir_batch__limits tensors_alone = {0};
    const uint8_t *data = taken->batch->data;
    if (!run->digester.batch)
        WEIR__TRY(weir_batch__digester_open(&run->digester, run->env, &tensors_alone, error));
    if (run->options.device)
        WEIR__TRY(weir_pipeline__staging_read(&run->staging, taken, &data, error));
    weir_batch__digest_tensors(&run->digester, taken->batch, data, digest);
    return WEIR_OK;
}

/* The step and, if that is asked for, the run's memory: it is committed first, so that a step whose commit
 * fails is not in the trace. */
static weir_status record_step(weir_run *run, const weir_taken *taken, weir_error *error) {
    weir_commit commit;
    uint8_t contents[16];
    const weir_run_options *o = &run->options;
    if (!o->trace_memory)
        return record(run, taken, error);
    weir_pipeline__sets sets = {run->loader.compact, run->loader.tensors, run->staging.there};
    weir_status status = weir_pipeline__memory_commit(&sets, taken->step, run->given == 0, &commit, error);
    if (status == WEIR_OK && o->trace_contents)
        status = digest_in_place(run, taken, contents, error);
    if (status == WEIR_OK)
        status = record(run, taken, error);
    weir_trace_memory memory = {.t = taken->step,
                                .state = commit.state,
                                .state_size = commit.state_size,
                                .state_hash = commit.state_hash,
                                .visibility_hash = commit.visibility_hash,
                                .contents = o->trace_contents ? contents : NULL};
    return status == WEIR_OK ? weir_trace_append_memory(run->trace, &memory, error) : status;
}

/* Ends the trace with a failure. One that cannot be written stays open: no state is given that it does not
 * reach. */
static void record_failure(weir_run *run, const weir_error *failure) {
    weir_cursor cursor;
    weir_error call = {0};
    uint64_t next = run->is_lost ? run->lost_step : weir_run_step(run);
    weir_trace_failure record = {.t = failure->replay_token_size > 0 ? failure->t : next, .error = failure};
    const weir_dataset *dataset = weir_pipeline__loader_name_step(&run->loader, record.t, &cursor, &call);
    if (dataset) {
        record.dataset = dataset->key;
        record.cursor = &cursor;
        record.data_replay_t = call.replay_token;
    }
    if (weir_trace_fail(run->trace, &record, NULL) == WEIR_OK)
        close_trace(run);
}

/* ---- Starting -------------------------------------------------------------------------------- */

/* A run that begins saves its first checkpoint before it makes its trace: whatever comes in between, the same
 * options resume from there. A run that resumes opens its trace first: only a trace that reaches the step may
 * have a checkpoint of it. A checkpoint that this run did not save is another's, and stays. */
static weir_status begin_files(weir_run *run, weir_error *error) {
    bool is_resumed = run->info.is_resumed, has_saved = !is_resumed && run->files.checkpoint;
    run->saved_ns = run->env->now_ns(run->env->context);
    if (has_saved)
        WEIR__TRY(save_checkpoint(run, true, error));
    weir_status status = run->files.trace ? open_trace(run, error) : WEIR_OK;
    if (status == WEIR_OK && is_resumed)
        return weir_run_save(run, error);
    if (status != WEIR_OK && has_saved)
        run->env->remove(run->env->context, run->files.checkpoint);
    return status;
}

weir_status weir_run_start(weir_run *run, weir_error *error) {
    if (run->phase != OPENED)
        return WEIR_OK;
    const weir_batch__recipe *recipe = &run->loader.workers[0].list[0]->recipe;
    weir_memory host = weir__host_memory(run->env);
    run->phase = FAILED;
    WEIR__TRY(weir_pipeline__run_files_check(&run->files, run->env, run->info.is_resumed, error));
    WEIR__TRY(run->options.device
                  ? weir_pipeline__staging_start(&run->staging, &run->loader, run->plan, error)
                  : weir_pipeline__loader_start(&run->loader, run->plan, &host, error));
    if (recipe->source_count > 0 && !run->options.device) { /* the tables of mixed batches are ours */
        uint64_t size = weir_pipeline__tables_size(recipe->origins, recipe->origin_count);
        uint8_t *next = run->joined_memory = weir__allocate(run->env, (size_t)size + 1, 1);
        if (!next)
            return weir__out_of_memory(error, operator_name, (size_t)size);
        WEIR__TRY(weir_pipeline__tables_write(recipe->origins, recipe->origin_count, &host, &next,
                                              &run->joined, error));
    }
    WEIR__TRY(begin_files(run, error));
    run->phase = STARTED;
    run->info.device = run->staging.device;
    if (atomic_load(&run->is_cancelled)) /* by another thread, while there was nothing to cancel */
        weir_run_cancel(run);
    return WEIR_OK;
}

/* ---- Taking ---------------------------------------------------------------------------------- */

/* Saves what can be saved of a run that failed, and ends its trace with the failure. Without a trace, a run
 * that failed before its first batch has nothing to resume from, and leaves nothing. A batch that is still
 * held, a fork and a cancelled run are not failures. */
static void fail(weir_run *run, const weir_error *failure) {
    bool is_a_batch = failure->replay_token_size > 0;
    bool has_nothing = run->given == 0 && !run->info.is_resumed;
    if (run->phase != STARTED || is_elsewhere(run) ||
        (!is_a_batch && (failure->status == WEIR_CONTRACT_VIOLATION || failure->status == WEIR_CANCELLED)))
        return;
    run->phase = FAILED;
    if (!has_nothing && !run->is_lost)
        (void)!weir_run_save(run, NULL);
    if (run->trace)
        record_failure(run, failure);
    else if (has_nothing && run->files.checkpoint)
        run->env->remove(run->env->context, run->files.checkpoint);
    weir_run_cancel(run);
}

/* The end of the run: nothing comes after it in trace and checkpoint. */
static weir_status finish(weir_run *run, weir_error *error) {
    if (run->phase != STARTED)
        return WEIR_OK;
    weir_status status = run->trace ? weir_trace_finish(run->trace, error) : WEIR_OK;
    if (status != WEIR_OK) {
        run->is_lost = true;
        return status;
    }
    close_trace(run);
    run->phase = ENDED;
    return run->files.checkpoint ? save_checkpoint(run, false, error) : WEIR_OK;
}

/* Compares a batch on the device with the digest that it was built with. */
static weir_status verify(weir_run *run, const weir_taken *taken, weir_error *error) {
    uint8_t digest[16];
    WEIR__TRY(digest_in_place(run, taken, digest, error));
    if (memcmp(digest, taken->batch->batch_digest, sizeof digest) == 0) {
        run->verified++;
        return WEIR_OK;
    }
    weir_status status = weir__fail(error, WEIR_DEVICE_ERROR, WEIR_PIPELINE__STAGING_OPERATOR,
                                    "step %llu: the batch that was read back from the device is not the "
                                    "host's; the device, its driver or weir is broken",
                                    (unsigned long long)taken->step);
    if (error)
        error->t = taken->step;
    return status;
}

/* Gives the next batch, after it was checked and recorded. Batches that are on the device already are not
 * given after a failure: what comes after a batch that was lost, or is not in the trace, is not the run any
 * more. */
static weir_status take_next(weir_run *run, bool waits, weir_taken *out, bool *is_ready, weir_error *error) {
    WEIR__TRY(weir_run_start(run, error));
    bool is_here = !is_elsewhere(run);
    if (is_here && (run->phase == FAILED || run->phase == STOPPED)) {
        if (run->trace) /* it says if it failed before */
            WEIR__TRY(weir_trace_sync(run->trace, error));
        return weir__fail(error, WEIR_CANCELLED, operator_name, "the run %s; open a new one, and resume it",
                          run->phase == FAILED ? "failed before" : "was stopped");
    }
    if (is_here && is_due(run))
        WEIR__TRY(weir_run_save(run, error));
    weir_status status = run->options.device && is_here
                             ? weir_pipeline__staging_next(&run->staging, waits, out, is_ready, error)
                             : weir_pipeline__loader_next(&run->loader, waits, out, is_ready, error);
    if (status != WEIR_OK || !*is_ready)
        return status;
    if (!out->batch)
        return finish(run, error);
    if (run->options.read_back)
        status = verify(run, out, error);
    if (status == WEIR_OK && run->trace)
        status = record_step(run, out, error);
    run->is_lost = status != WEIR_OK;
    run->lost_step = out->step;
    run->given += status == WEIR_OK;
    if (status != WEIR_OK)
        (void)!weir_run_release(run, out, 0, NULL);
    return status;
}

static weir_status take_measured(weir_run *run, bool waits, weir_taken *out, bool *is_ready,
                                 weir_error *error) {
    weir_error kept;
    error = error ? error : &kept;
    uint64_t began_ns = weir_pipeline__loader_now(&run->loader);
    weir_status status = take_next(run, waits, out, is_ready, error);
    if (status != WEIR_OK)
        fail(run, error);
    uint64_t now_ns = weir_pipeline__loader_now(&run->loader);
    run->used_ns += run->gave_ns ? began_ns - run->gave_ns : 0;
    run->asked_ns += now_ns - began_ns;
    run->gave_ns = now_ns;
    return status;
}

weir_status weir_run_next(weir_run *run, weir_taken *out, weir_error *error) {
    bool is_ready;
    return take_measured(run, true, out, &is_ready, error);
}

weir_status weir_run_try_next(weir_run *run, weir_taken *out, bool *is_ready, weir_error *error) {
    return take_measured(run, false, out, is_ready, error);
}

weir_status weir_run_wait(weir_run *run, const weir_taken *taken, weir_stream stream, weir_error *error) {
    return run->options.device ? weir_stream_wait(run->staging.device, stream, taken->ready, error) : WEIR_OK;
}

weir_status weir_run_release(weir_run *run, const weir_taken *taken, weir_stream stream, weir_error *error) {
    if (!taken->batch)
        return WEIR_OK;
    if (run->options.device)
        return weir_pipeline__staging_release(&run->staging, taken, stream, error);
    weir_pipeline__loader_release(&run->loader, taken);
    return WEIR_OK;
}

void weir_run_cancel(weir_run *run) {
    weir_prefetch *prefetch;
    atomic_store(&run->is_cancelled, true);
    prefetch = weir_pipeline__loader_prefetch(&run->loader);
    if (prefetch)
        weir_prefetch_cancel(prefetch);
}

/* ---- About it -------------------------------------------------------------------------------- */

const weir_run_info *weir_run_describe(const weir_run *run) {
    return &run->info;
}

const char *weir_run_stage_name(weir_run_stage stage) {
    static const char *const names[] = {"read", "build", "transform", "transfer", "consume"};
    return (unsigned)stage < WEIR_RUN_STAGES ? names[stage] : "unknown";
}

void weir_run_measure(const weir_run *run, weir_run_metrics *out, weir_worker_metrics *workers) {
    const weir_pipeline__loader *loader = &run->loader;
    const weir_pipeline__staging *staging = &run->staging;
    const weir_prefetch *prefetch = weir_pipeline__loader_prefetch(loader);
    *out = (weir_run_metrics){.prefetch = {.workers = loader->lane_count},
                              .compact_bytes = staging->compact_bytes,
                              .tensor_bytes = staging->tensor_bytes,
                              .read_back = run->verified,
                              .unpinned_bytes = staging->unpinned_bytes};
    memset(run->measured, 0, loader->lane_count * sizeof *run->measured);
    if (prefetch)
        weir_prefetch_measure(prefetch, &out->prefetch, run->measured);
    if (workers)
        memcpy(workers, run->measured, loader->lane_count * sizeof *workers);
    weir_stage_metrics *read = &out->stages[WEIR_RUN_READ], *build = &out->stages[WEIR_RUN_BUILD];
    weir_stage_metrics *use = &out->stages[WEIR_RUN_CONSUME];
    for (size_t i = 0; i < run->options.store_count; i++) { /* while they build: a part of that time */
        const weir_store *store = run->options.stores[i];
        out->pages_read += atomic_load(&store->touched->expected);
        read->busy_ns += atomic_load(&store->touched->expected_ns);
        read->batches = store->reads_ahead ? out->prefetch.produced : read->batches;
    }
    build->batches = out->prefetch.produced;
    build->busy_ns = atomic_load(&loader->build_ns);
    build->room = loader->lane_count * run->options.buffer_size;
    for (uint32_t i = 0; i < out->prefetch.workers; i++) {
        build->room_wait_ns += run->measured[i].wait_ns;
        build->queued += run->measured[i].occupied;
    }
    out->stages[WEIR_RUN_TRANSFORM] = (weir_stage_metrics){.batches = atomic_load(&loader->transformed),
                                                           .busy_ns = atomic_load(&loader->transform_ns)};
    *use = (weir_stage_metrics){.batches = run->given,
                                .busy_ns = run->used_ns,
                                .input_wait_ns = run->asked_ns,
                                .queued = out->prefetch.held,
                                .room = run->options.queue_size};
    if (!run->options.device)
        return;
    out->stages[WEIR_RUN_TRANSFER] = (weir_stage_metrics){.batches = staging->transferred,
                                                          .busy_ns = staging->busy_ns,
                                                          .input_wait_ns = out->prefetch.consumer_wait_ns,
                                                          .room_wait_ns = staging->wait_ns,
                                                          .queued = staging->queued,
                                                          .room = run->options.depth};
    use->queued = 0;
    for (uint32_t i = 0; i < staging->depth; i++)
        use->queued += atomic_load(&staging->places[i].state) == WEIR_PIPELINE__PLACE_HELD;
}

weir_status weir_run_tables(const weir_run *run, const weir_store *store, weir_tables *out,
                            weir_error *error) {
    const weir_run_options *o = &run->options;
    size_t at = 0;
    while (store && at < o->store_count && o->stores[at] != store)
        at++;
    if (!store && run->loader.workers[0].list[0]->recipe.source_count == 0)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "the run's batches are not mixed: each has a store of its own; name the store");
    if (store && at == o->store_count)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name, "the store is not one of the run's");
    if (run->options.device ? !run->staging.tables : !store && !run->joined_memory)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "the tables are not there yet; start the run first");
    if (store && !run->options.device)
        return weir_pipeline__tables_of_store(store, out, error);
    if (store)
        *out = run->staging.tables[at];
    else
        *out = run->options.device ? run->staging.joined : run->joined;
    return WEIR_OK;
}
