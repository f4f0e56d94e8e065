/* The loop of `weir run`: what a training program would do with a loader, less the training.
 *
 * A checkpoint is saved behind a synced trace, so a trace always reaches as far as its checkpoint; what it
 * has beyond is cut when the run goes on. The first checkpoint is saved before the first batch: from then on
 * a run that is killed at any moment can go on. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "run.h"
#include "signals.h"

uint64_t cli_run_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void cancel_loader(void *loader) {
    weir_loader_cancel(loader);
}

/* ---- Saving ---------------------------------------------------------------------------------- */

static weir_status save(const cli_running *run, weir_trace_writer *trace, bool is_over, weir_error *error) {
    weir_status status = WEIR_OK;
    if (trace)
        status = is_over ? weir_trace_finish(trace, error) : weir_trace_sync(trace, error);
    if (status == WEIR_OK && run->files.checkpoint[0])
        status = run->staging ? weir_staging_checkpoint_save(run->staging, run->files.checkpoint, NULL, error)
                              : weir_loader_checkpoint_save(run->loader, run->files.checkpoint, NULL, error);
    return status;
}

/* Opens the trace and saves the first checkpoint. A run that begins saves it first: whatever comes in
 * between, the same command goes on from there. A run that goes on opens its trace first: only a trace that
 * reaches the step may have a checkpoint of it. */
static weir_status begin(cli_running *run, weir_trace_writer **trace, int *locked, weir_error *error) {
    weir_status status = run->from ? WEIR_OK : save(run, NULL, false, error);
    if (status == WEIR_OK && run->files.trace[0])
        status = cli_run_open_trace(run->loader, run->files.trace, run->from, trace, locked, error);
    if (status == WEIR_OK && run->from)
        status = save(run, *trace, false, error);
    else if (status != WEIR_OK && !run->from && run->files.checkpoint[0])
        unlink(run->files.checkpoint);
    return status;
}

/* ---- The loop -------------------------------------------------------------------------------- */

uint64_t cli_run_step(const cli_running *run) {
    return run->staging ? weir_staging_step(run->staging) : weir_loader_step(run->loader);
}

static void count_dataset(cli_running *run, const weir_loaded *loaded) {
    const weir_step *step = &loaded->batch->step;
    size_t at = 0;
    if (!run->datasets)
        return;
    while (at < run->dataset_count && run->datasets[at].dataset != loaded->dataset)
        at++;
    if (at == run->dataset_count)
        run->datasets[run->dataset_count++] = (cli_run_dataset){.dataset = loaded->dataset};
    cli_run_dataset *d = &run->datasets[at];
    uint64_t epoch = step->cursor_before.epoch, blocks = step->blocks_materialized_this_epoch;
    if (epoch > d->epoch) /* best effort may give an earlier step later */
        d->blocks_this_epoch = 0;
    if (epoch >= d->epoch) {
        d->epoch = epoch;
        d->blocks_this_epoch = blocks > d->blocks_this_epoch ? blocks : d->blocks_this_epoch;
    }
    d->batches++;
    d->samples += step->valid_count;
    d->next = step->cursor_next;
}

static void count(cli_running *run, const weir_loaded *loaded) {
    if (run->batches == 0)
        run->first_batch_ns = cli_run_now_ns() - run->began_ns;
    run->batches++;
    run->batch_size = loaded->batch->step.micro_batch_size;
    run->samples += loaded->batch->step.valid_count;
    run->bytes += loaded->batch->size;
    count_dataset(run, loaded);
}

static weir_status take(cli_running *run, weir_trace_writer *trace, bool *is_over, weir_error *error) {
    weir_loaded loaded = {0};
    weir_status status = run->staging ? cli_run_take_staged(run, trace, &loaded, error)
                                      : weir_loader_next(run->loader, &loaded, error);
    *is_over = status == WEIR_OK && !loaded.batch;
    if (status != WEIR_OK || *is_over)
        return status;
    count(run, &loaded);
    if (run->staging)
        return WEIR_OK;
    if (trace)
        status = weir_loader_record(run->loader, &loaded, run->with_indices, trace, error);
    weir_loader_release(run->loader, &loaded);
    return status;
}

/* Whether a checkpoint is due after the step before `step`: by steps, or by the time since the last one. The
 * end has its own. */
static bool is_due(const cli_running *run, uint64_t step, uint64_t saved_ns) {
    if (!run->files.checkpoint[0] || step >= weir_loader_end(run->loader))
        return false;
    if (run->checkpoint_every > 0 && step % run->checkpoint_every == 0)
        return true;
    return run->checkpoint_seconds > 0 &&
           (cli_run_now_ns() - saved_ns) / 1000000000u >= run->checkpoint_seconds;
}

static weir_status take_all(cli_running *run, weir_trace_writer *trace, bool *is_over, weir_error *error) {
    weir_status status = WEIR_OK;
    uint64_t saved_ns = run->loop_began_ns;
    while (status == WEIR_OK && !cli_signals_caught()) {
        status = take(run, trace, is_over, error);
        if (status != WEIR_OK || *is_over)
            break;
        if (is_due(run, cli_run_step(run), saved_ns)) {
            status = save(run, trace, false, error);
            saved_ns = cli_run_now_ns();
        }
        cli_run_show(run, false);
    }
    return status == WEIR_CANCELLED && cli_signals_caught() ? WEIR_OK : status;
}

/* A batch that the device gave and that then failed there is behind the run's step, and in no trace: the
 * checkpoint before it is the one to go on from. */
static bool is_all_counted(const cli_running *run) {
    return cli_run_step(run) == run->first_step + run->batches;
}

/* Saves what can be saved of a run that failed, and ends its trace with the failure. Without a trace, a run
 * that failed before its first batch has nothing to resume from, and leaves nothing. */
static void fail(const cli_running *run, weir_trace_writer *trace, const weir_error *failure) {
    bool has_nothing = run->batches == 0 && !run->from;
    if (!has_nothing && is_all_counted(run))
        (void)!save(run, trace, false, NULL);
    if (trace)
        (void)!weir_loader_record_failure(run->loader, cli_run_step(run), failure, trace, NULL);
    else if (has_nothing && run->files.checkpoint[0])
        unlink(run->files.checkpoint);
}

static void close_trace(weir_trace_writer *trace, int locked) {
    weir_trace_writer_close(trace);
    if (locked >= 0)
        close(locked);
}

weir_status cli_run_loop(cli_running *run, weir_error *error) {
    weir_trace_writer *trace = NULL;
    int locked = -1;
    bool is_over = false;
    run->first_step = cli_run_step(run);
    weir_status status = begin(run, &trace, &locked, error);
    if (status != WEIR_OK) {
        close_trace(trace, locked);
        return status;
    }
    cli_signals_catch(cancel_loader, run->loader);
    run->loop_began_ns = cli_run_now_ns();
    status = take_all(run, trace, &is_over, error);
    run->loop_ns = cli_run_now_ns() - run->loop_began_ns;
    run->signal = is_over ? 0 : cli_signals_caught();
    cli_run_show(run, true);
    if (status == WEIR_OK)
        status = save(run, trace, is_over, error);
    else
        fail(run, trace, error);
    close_trace(trace, locked);
    cli_signals_release();
    return status;
}
