/* How a run goes: the line on the terminal while it lasts, and the summary. */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>

#include "progress.h"
#include "run.h"

static double per_second(uint64_t count, uint64_t ns) {
    return ns ? (double)count * 1e9 / (double)ns : 0;
}

/* "950", "16.4k", "1.2M". */
static const char *format_count(double value, char out[32]) {
    static const char *const units[] = {"", "k", "M", "G"};
    int unit = 0;
    for (; value >= 10000 && unit < 3; unit++)
        value /= 1000;
    snprintf(out, 32, unit || value < 10 ? "%.1f%s" : "%.0f%s", value, units[unit]);
    return out;
}

static void print_rates(FILE *out, const cli_running *run, uint64_t ns) {
    char batches[32], samples[32], bytes[32];
    cli_format_bytes((uint64_t)per_second(run->bytes, ns), bytes);
    fprintf(out, "%s batches/s, %s samples/s, %s/s", format_count(per_second(run->batches, ns), batches),
            format_count(per_second(run->samples, ns), samples), bytes);
}

void cli_run_show(const cli_running *run, bool is_last) {
    enum { INTERVAL_NS = 100000000 };
    static uint64_t shown_ns; /* a program has one run */
    char line[CLI_PROGRESS_MAX];
    if (!run->shows_progress)
        return;
    uint64_t now_ns = cli_run_now_ns();
    if (is_last)
        cli_progress_wipe();
    if (is_last || now_ns - shown_ns < INTERVAL_NS)
        return;
    shown_ns = now_ns;
    FILE *out = fmemopen(line, sizeof line, "w");
    if (!out)
        return;
    fputs("run    ", out);
    uint64_t end = weir_run_describe(run->run)->end, step = weir_run_step(run->run);
    uint64_t spent_ns = now_ns - run->began_ns; /* batches are made before the loop begins */
    if (end != WEIR_ENDLESS) {
        cli_progress_bar(out, end ? (double)step / (double)end : 1);
        double left_s = (double)(end - step) / per_second(run->batches, spent_ns);
        if (left_s >= 1)
            fprintf(out, "%.0f s left  ", left_s);
    }
    fprintf(out, "step %" PRIu64 "  ", step);
    print_rates(out, run, spent_ns);
    fclose(out);
    cli_progress_line(line);
}

/* ---- The summary ----------------------------------------------------------------------------- */

static void print_text(const cli_running *run, const weir_run_metrics *metrics, bool with_files) {
    char bytes[32];
    const weir_run_info *info = weir_run_describe(run->run);
    uint64_t step = weir_run_step(run->run);
    cli_format_bytes(run->bytes, bytes);
    if (info->world_size > 1)
        printf("rank %" PRIu32 " of %" PRIu32 ": ", info->rank, info->world_size);
    printf("steps %" PRIu64 " to %" PRIu64 ": %s, %s, %s in %.1f s\n", info->first_step, step,
           cli_number(run->batches, "batch", "batches"), cli_number(run->samples, "sample", "samples"), bytes,
           (double)run->loop_ns / 1e9);
    if (run->samples < run->room)
        printf("  %s fewer than in %s: the last batch of an epoch has only the samples that are left\n",
               cli_number(run->room - run->samples, "sample", "samples"),
               cli_number(run->batches, "full batch", "full batches"));
    if (run->batches == 0 && info->first_step == info->end)
        printf("  nothing was left to do: the run had reached its end; more --steps let it go on\n");
    if (run->batches > 0) {
        printf("  ");
        print_rates(stdout, run, run->loop_ns);
        printf("; first batch after %.0f ms\n", (double)run->first_batch_ns / 1e6);
    }
    if (info->device) {
        cli_format_bytes(metrics->compact_bytes, bytes);
        printf("  on %s: %s copied", weir_device_describe(info->device)->name, bytes);
        if (metrics->read_back)
            printf(", %s read back, all identical", cli_number(metrics->read_back, "batch", "batches"));
        printf("\n");
    }
    if (with_files && info->trace)
        printf("  trace %s\n", info->trace);
    if (with_files && info->checkpoint)
        printf("  checkpoint %s at step %" PRIu64 "\n", info->checkpoint, step);
}

static void write_seconds(weir_json_writer *w, const char *key, uint64_t ns) {
    weir_json_pair_double(w, key, (double)ns / 1e9);
}

/* The prefetcher's workers, the stages of a device's batches, and what each dataset gave. */
static void write_parts(weir_json_writer *w, const cli_running *run, const weir_run_metrics *metrics,
                        const weir_worker_metrics *workers) {
    weir_json_pair_array(w, "workers");
    for (uint32_t i = 0; workers && i < metrics->prefetch.workers; i++) {
        weir_json_object(w);
        weir_json_pair_uint(w, "produced", workers[i].produced);
        weir_json_pair_uint(w, "consumed", workers[i].consumed);
        write_seconds(w, "wait_seconds", workers[i].wait_ns);
        weir_json_pair_uint(w, "stalls", workers[i].stalls);
        weir_json_end_object(w);
    }
    weir_json_end_array(w);
    weir_json_pair_object(w, "stages");
    for (int i = 0; i < WEIR_RUN_STAGES; i++) {
        const weir_stage_metrics *stage = &metrics->stages[i];
        weir_json_pair_object(w, weir_run_stage_name((weir_run_stage)i));
        weir_json_pair_uint(w, "batches", stage->batches);
        write_seconds(w, "busy_seconds", stage->busy_ns);
        write_seconds(w, "input_wait_seconds", stage->input_wait_ns);
        write_seconds(w, "room_wait_seconds", stage->room_wait_ns);
        weir_json_pair_uint(w, "queued", stage->queued);
        weir_json_pair_uint(w, "room", stage->room);
        weir_json_end_object(w);
    }
    weir_json_end_object(w);
    weir_json_pair_object(w, "datasets");
    for (size_t i = 0; i < run->dataset_count; i++) {
        const cli_run_dataset *d = &run->datasets[i];
        weir_json_pair_object(w, d->dataset->key);
        weir_json_pair_uint(w, "batches", d->batches);
        weir_json_pair_uint(w, "samples", d->samples);
        weir_json_pair_uint(w, "epoch", d->epoch);
        weir_json_pair_uint(w, "blocks_materialized_this_epoch", d->blocks_this_epoch);
        cli_json_cursor(w, "cursor_next", d->next);
        if (run->source_count > 0) {
            weir_json_pair_object(w, "samples_by_dataset"); /* of mixed batches */
            for (uint32_t s = 0; s < run->source_count; s++)
                weir_json_pair_uint(w, run->sources[s].dataset, run->source_samples[s]);
            weir_json_end_object(w);
        }
        weir_json_end_object(w);
    }
    weir_json_end_object(w);
}

static int print_json(const cli_running *run, const weir_run_metrics *metrics,
                      const weir_worker_metrics *workers) {
    const weir_run_info *info = weir_run_describe(run->run);
    const char *signal = run->signal == SIGINT ? "SIGINT" : "SIGTERM";
    weir_json_writer w;
    double waited = run->loop_ns ? (double)metrics->prefetch.consumer_wait_ns / (double)run->loop_ns : 0;
    cli_json_begin(&w);
    weir_json_pair_uint(&w, "first_step", info->first_step);
    weir_json_pair_uint(&w, "step", weir_run_step(run->run));
    if (info->end == WEIR_ENDLESS)
        weir_json_pair_text(&w, "end", NULL);
    else
        weir_json_pair_uint(&w, "end", info->end);
    weir_json_pair_text(&w, "stopped_by", run->signal ? signal : NULL);
    weir_json_pair_text(&w, "stage", weir_stage_name(info->stage));
    weir_json_pair_text(&w, "policy", weir_policy_name(info->policy));
    weir_json_pair_uint(&w, "world_size", info->world_size);
    weir_json_pair_uint(&w, "rank", info->rank);
    weir_json_pair_uint(&w, "batches", run->batches);
    weir_json_pair_uint(&w, "samples", run->samples);
    weir_json_pair_uint(&w, "bytes", run->bytes);
    write_seconds(&w, "seconds", run->loop_ns);
    write_seconds(&w, "first_batch_seconds", run->first_batch_ns);
    weir_json_pair_double(&w, "batches_per_second", per_second(run->batches, run->loop_ns));
    weir_json_pair_double(&w, "samples_per_second", per_second(run->samples, run->loop_ns));
    weir_json_pair_double(&w, "bytes_per_second", per_second(run->bytes, run->loop_ns));
    weir_json_pair_double(&w, "wait_share", waited < 1 ? waited : 1);
    write_seconds(&w, "wait_seconds", metrics->prefetch.consumer_wait_ns);
    weir_json_pair_uint(&w, "stalls", metrics->prefetch.stalls);
    write_parts(&w, run, metrics, workers);
    if (info->device) {
        weir_json_pair_object(&w, "device");
        weir_json_pair_text(&w, "name", weir_device_describe(info->device)->name);
        weir_json_pair_uint(&w, "compact_bytes", metrics->compact_bytes);
        weir_json_pair_uint(&w, "unpinned_bytes", metrics->unpinned_bytes);
        weir_json_pair_uint(&w, "verified", metrics->read_back);
        weir_json_end_object(&w);
    } else {
        weir_json_pair_text(&w, "device", NULL);
    }
    weir_json_pair_text(&w, "trace", info->trace);
    weir_json_pair_text(&w, "checkpoint", info->checkpoint);
    return cli_print_object(&w);
}

weir_status cli_run_tell(const cli_running *run, bool with_files, weir_error *error) {
    weir_run_metrics metrics;
    weir_run_measure(run->run, &metrics, NULL);
    print_text(run, &metrics, with_files);
    return cli_check_output(error);
}

int cli_run_print(const cli_running *run, bool as_json) {
    weir_error error;
    weir_run_metrics metrics;
    if (!as_json)
        return cli_run_tell(run, true, &error) == WEIR_OK ? CLI_OK : cli_fail(&error, false);
    weir_worker_metrics *workers = calloc(weir_run_describe(run->run)->workers, sizeof *workers);
    weir_run_measure(run->run, &metrics, workers);
    int result = print_json(run, &metrics, workers);
    free(workers);
    return result;
}
