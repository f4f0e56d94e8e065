/* weir replay: re-executes a trace and compares every field. */
#include <inttypes.h>

#include "selection.h"

static int print_report(const weir_replay_report *report, bool as_json) {
    weir_json_writer w;
    if (as_json) {
        cli_json_begin(&w);
        weir_json_pair_bool(&w, "equal", true);
        weir_json_pair_uint(&w, "steps", report->steps);
        weir_json_pair_uint(&w, "samples", report->samples);
        weir_json_pair_bool(&w, "complete", report->is_complete);
        cli_json_judged(&w, report->status, report->failed_step, report->failure_code);
        weir_json_pair_uint(&w, "indices", report->indices);
        weir_json_pair_uint(&w, "checked_digests", report->checked_digests);
        weir_json_pair_uint(&w, "unchecked_digests", report->unchecked_digests);
        weir_json_pair_uint(&w, "checked_sample_digests", report->checked_sample_digests);
        weir_json_pair_uint(&w, "unchecked_sample_digests", report->unchecked_sample_digests);
        weir_json_pair_uint(&w, "memory_records", report->memory_records);
        return cli_print_object(&w);
    }
    printf("%s replayed in sequence, %s: every field is equal", cli_number(report->steps, "step", "steps"),
           cli_number(report->samples, "sample", "samples"));
    if (report->indices)
        printf(", %s too", cli_number(report->indices, "index", "indices"));
    printf("\n");
    if (report->checked_digests || report->checked_sample_digests)
        printf("%s and %s compared with batches built again: every digest is equal\n",
               cli_number(report->checked_digests, "batch digest", "batch digests"),
               cli_number(report->checked_sample_digests, "sample digest", "sample digests"));
    if (report->unchecked_digests || report->unchecked_sample_digests)
        printf("%s and %s were not checked: give their store with --store\n",
               cli_number(report->unchecked_digests, "batch digest", "batch digests"),
               cli_number(report->unchecked_sample_digests, "sample digest", "sample digests"));
    if (report->memory_records)
        printf("%s checked: each follows from the one before it\n",
               cli_number(report->memory_records, "memory record", "memory records"));
    if (report->status == WEIR_RUN_CUT)
        printf("the trace has no run_end: the run was stopped or killed, or is still running\n");
    if (report->status == WEIR_RUN_FAILED)
        printf("the run failed at step %" PRIu64 " with %s\n", report->failed_step,
               cli_shown(report->failure_code));
    return cli_flush();
}

static int run(const cli_command *self, int argc, char **argv) {
    const char *trace = NULL;
    const char *manifest_path = NULL;
    cli_texts store_paths = {.count = 0};
    bool as_json = false;
    cli_option options[] = {CLI_OPTION("--manifest", &manifest_path), CLI_OPTION("--store", &store_paths),
                            CLI_OPTION("--json", &as_json)};
    if (cli_parse(self, options, CLI_COUNT(options), argc, argv, &trace, 1, "name the trace") < 0)
        return CLI_USAGE;
    weir_error error;
    weir_manifest *manifest = NULL;
    cli_stores stores = {.count = 0};
    weir_replay_report report;
    weir_status status = WEIR_OK;
    if (manifest_path)
        status = weir_manifest_open(NULL, manifest_path, &manifest, &error);
    if (status == WEIR_OK)
        status = cli_stores_open(&stores, &store_paths, NULL, &error);
    weir_replay_options replay = {
        .size = sizeof replay, .manifest = manifest, .stores = stores.list, .store_count = stores.count};
    if (status == WEIR_OK)
        status = weir_trace_replay(NULL, trace, &replay, &report, &error);
    cli_stores_close(&stores);
    weir_manifest_close(manifest);
    if (status != WEIR_OK)
        return cli_fail(&error, as_json);
    int result = print_report(&report, as_json);
    return result == CLI_OK ? cli_judged(report.status) : result;
}

const cli_command cli_replay = {
    .name = "replay",
    .summary = "re-execute a trace and compare every field",
    .usage = "weir replay TRACE [--store S]… [--manifest M] [--json]",
    .help =
        "  TRACE          the trace of one rank; it holds its manifest\n"
        "  --store S      build the batches again too and compare their digests; once for each store\n"
        "  --manifest M   replay with this file instead (it must have the same hashes)\n"
        "  --json         {\"equal\", \"steps\", \"samples\", \"complete\", \"status\", \"indices\",\n"
        "                 \"checked_digests\", \"unchecked_digests\", \"checked_sample_digests\",\n"
        "                 \"unchecked_sample_digests\", \"memory_records\"}\n\n"
        "Also judged are the sequence of the steps, memory records, a failure, and the run_end. The\n"
        "first field that differs is REPLAY_DIVERGENCE with both values. Exit status: 0 whole and equal,\n"
        "1 not equal or an error, 3 equal, but without run_end (\"cut\"), 4 equal, and the run failed.\n",
    .example = "  weir next --manifest m.json --dataset a --count 100 --trace run.trace > steps\n  weir "
               "replay run.trace\n",
    .run = run,
};
