/* The loop of `weir run`: what a training program would do with a run, less the training. */
#include <time.h>

#include "run.h"
#include "signals.h"

uint64_t cli_run_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void cancel(void *run) {
    weir_run_cancel(run);
}

static void count(cli_running *run, const weir_taken *taken) {
    const weir_step *step = &taken->batch->step;
    if (run->batches == 0)
        run->first_batch_ns = cli_run_now_ns() - run->began_ns;
    run->batches++;
    run->room += step->micro_batch_size;
    run->samples += step->valid_count;
    run->bytes += taken->batch->size;
    run->sources = taken->batch->sources;
    run->source_count = run->source_samples ? taken->batch->source_count : 0;
    for (uint64_t i = 0; run->source_count > 0 && i < step->valid_count; i++)
        run->source_samples[taken->batch->dataset_ids[i * taken->batch->group_size]]++;
    if (!run->datasets)
        return;
    size_t at = 0;
    while (at < run->dataset_count && run->datasets[at].dataset != taken->dataset)
        at++;
    if (at == run->dataset_count)
        run->datasets[run->dataset_count++] = (cli_run_dataset){.dataset = taken->dataset};
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

weir_status cli_run_loop(cli_running *run, weir_error *error) {
    bool is_over = false;
    weir_status status = weir_run_start(run->run, error);
    if (status != WEIR_OK)
        return status;
    cli_signals_catch(cancel, run->run);
    uint64_t began_ns = cli_run_now_ns();
    while (status == WEIR_OK && !cli_signals_caught()) {
        weir_taken taken;
        status = weir_run_next(run->run, &taken, error);
        is_over = status == WEIR_OK && !taken.batch;
        if (status != WEIR_OK || is_over)
            break;
        count(run, &taken);
        status = weir_run_wait(run->run, &taken, 0, error); /* the default stream is the training loop's */
        if (status == WEIR_OK)
            status = weir_run_release(run->run, &taken, 0, error);
        cli_run_show(run, false);
    }
    if (status == WEIR_CANCELLED && cli_signals_caught())
        status = WEIR_OK;
    run->loop_ns = cli_run_now_ns() - began_ns;
    run->signal = is_over ? 0 : cli_signals_caught();
    cli_run_show(run, true);
    if (status == WEIR_OK && !is_over)
        status = weir_run_stop(run->run, error);
    cli_signals_release();
    return status;
}
