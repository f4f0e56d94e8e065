/* weir replay: re-executes a trace and compares every field. */
#include <inttypes.h>

#include "selection.h"

static int print_report(const weir_replay_report *report, bool as_json) {
    if (!as_json) {
        printf("%" PRIu64 " steps replayed, %" PRIu64 " samples: every field is equal%s\n", report->steps,
               report->samples,
               report->is_complete ? "" : " (the trace has no run_end: its run did not finish)");
        if (report->checked_digests)
            printf("%" PRIu64 " batches built again: every digest is equal\n", report->checked_digests);
        if (report->unchecked_digests)
            printf("%" PRIu64 " batch digests were not checked: give their store with --store\n",
                   report->unchecked_digests);
        return cli_flush();
    }
    weir_json_writer w;
    weir_json_writer_memory(&w, NULL);
    weir_json_object(&w);
    cli_json_bool(&w, "equal", true);
    cli_json_uint(&w, "steps", report->steps);
    cli_json_uint(&w, "samples", report->samples);
    cli_json_bool(&w, "complete", report->is_complete);
    cli_json_uint(&w, "checked_digests", report->checked_digests);
    cli_json_uint(&w, "unchecked_digests", report->unchecked_digests);
    weir_json_end_object(&w);
    return cli_print_json(&w);
}

static int run(const cli_command *self, int argc, char **argv) {
    const char *trace = NULL;
    const char *manifest_path = NULL;
    cli_texts store_paths = {.count = 0};
    bool as_json = false;
    cli_option options[] = {{"--manifest", CLI_TEXT, &manifest_path, false, false},
                            {"--store", CLI_TEXTS, &store_paths, false, false},
                            {"--json", CLI_FLAG, &as_json, false, false}};
    int count = cli_parse(self, options, sizeof options / sizeof options[0], argc, argv, &trace, 1);
    if (count < 0)
        return CLI_USAGE;
    if (count == 0)
        return cli_usage(self, "name the trace");
    weir_error error;
    weir_manifest *manifest = NULL;
    cli_stores stores = {.count = 0};
    weir_replay_report report;
    weir_status status = WEIR_OK;
    if (manifest_path)
        status = weir_manifest_open(NULL, manifest_path, &manifest, &error);
    if (status == WEIR_OK)
        status = cli_stores_open(&stores, &store_paths, WEIR_VERIFY_TOUCHED, &error);
    weir_replay_options replay = {
        .size = sizeof replay, .manifest = manifest, .stores = stores.list, .store_count = stores.count};
    if (status == WEIR_OK)
        status = weir_trace_replay(NULL, trace, &replay, &report, &error);
    cli_stores_close(&stores);
    weir_manifest_close(manifest);
    return status == WEIR_OK ? print_report(&report, as_json) : cli_fail(&error, as_json);
}

const cli_command cli_replay = {
    .name = "replay",
    .summary = "re-execute a trace and compare every field",
    .usage = "weir replay TRACE [--store S]… [--manifest M] [--json]",
    .help = "  TRACE          the trace of one rank; it holds its manifest\n"
            "  --store S      build the batches again too and compare their digests; once for each store\n"
            "  --manifest M   replay with this file instead (it must have the same hashes)\n"
            "  --json         {\"equal\", \"steps\", \"samples\", \"complete\", \"checked_digests\",\n"
            "                 \"unchecked_digests\"}\n\n"
            "The first field that differs is REPLAY_DIVERGENCE with both values, and exit status 1.\n",
    .example = "  weir next --manifest m.json --dataset a --count 100 --trace run.trace > steps\n  weir "
               "replay run.trace\n",
    .run = run,
};
