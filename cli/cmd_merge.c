/* weir merge: the ranks of a run, put together, against world size 1. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "selection.h"

static int print_report(const weir_merge_report *report, bool as_json) {
    weir_json_writer w;
    if (as_json) {
        cli_json_begin(&w);
        weir_json_pair_bool(&w, "equal", true);
        weir_json_pair_uint(&w, "world_size", report->world_size);
        weir_json_pair_uint(&w, "steps", report->steps);
        weir_json_pair_uint(&w, "samples", report->samples);
        cli_json_judged(&w, report->status, report->failed_step, report->failure_code);
        weir_json_pair_uint(&w, "digests", report->digests);
        weir_json_pair_uint(&w, "unchecked_digests", report->unchecked_digests);
        return cli_print_object(&w);
    }
    printf("%s, %s in sequence, %s: every index is the same as at world size 1\n",
           cli_number(report->world_size, "rank", "ranks"), cli_number(report->steps, "step", "steps"),
           cli_number(report->samples, "sample", "samples"));
    if (report->digests)
        printf("%s compared\n", cli_number(report->digests, "sample digest", "sample digests"));
    if (report->unchecked_digests)
        printf("%s not compared: give the world-size-1 trace with --single\n",
               cli_number(report->unchecked_digests, "sample digest", "sample digests"));
    if (report->status == WEIR_RUN_CUT)
        printf("the traces have no run_end: the run was stopped or killed, or is still running\n");
    if (report->status == WEIR_RUN_FAILED)
        printf("the run failed at step %" PRIu64 " with %s\n", report->failed_step,
               cli_shown(report->failure_code));
    return cli_flush();
}

static int run(const cli_command *self, int argc, char **argv) {
    const char *single = NULL;
    cli_texts paths = {.count = 0};
    bool as_json = false;
    cli_option options[] = {CLI_OPTION("--single", &single), CLI_OPTION("--store", &paths),
                            CLI_OPTION("--json", &as_json)};
    weir_error error;
    const char **traces = malloc((size_t)(argc + 1) * sizeof *traces);
    if (!traces) { /* before the options are read */
        (void)cli_error(&error, WEIR_OUT_OF_MEMORY, "no memory for the names of %d traces", argc);
        for (int i = 0; i < argc; i++)
            as_json = as_json || strcmp(argv[i], "--json") == 0;
        return cli_fail(&error, as_json);
    }
    int count = cli_parse(self, options, CLI_COUNT(options), argc, argv, traces, argc, NULL);
    if (count <= 0) {
        free(traces);
        return count < 0 ? CLI_USAGE : cli_usage(self, "name the traces of all ranks");
    }
    weir_merge_report report;
    cli_stores stores = {.count = 0};
    weir_status status = cli_stores_open(&stores, &paths, NULL, &error);
    weir_merge_options merging = {
        .size = sizeof merging, .single = single, .stores = stores.list, .store_count = stores.count};
    if (status == WEIR_OK)
        status = weir_trace_merge(NULL, traces, (size_t)count, &merging, &report, &error);
    cli_stores_close(&stores);
    free(traces);
    int result = status == WEIR_OK ? print_report(&report, as_json) : cli_fail(&error, as_json);
    return result == CLI_OK ? cli_judged(report.status) : result;
}

const cli_command cli_merge = {
    .name = "merge",
    .summary = "check that the ranks of a run, put together, are the run at world size 1",
    .usage = "weir merge RANK0 RANK1 … [--single TRACE] [--store S]… [--json]",
    .help = "  RANK0 …          the traces of all ranks of one run, in any order\n"
            "  --single TRACE   the same run at world size 1, to compare every sample digest with\n"
            "  --store S        the stores of datasets that are drawn from by class or weight\n"
            "  --json           {\"equal\", \"world_size\", \"steps\", \"samples\", \"status\", \"digests\", "
            "\"unchecked_digests\"}\n\n"
            "Every index is recomputed from the manifest in the traces, and each trace is judged as by 'weir "
            "replay'.\n"
            "The first difference is REPLAY_DIVERGENCE. Exit status: 0 whole and equal, 1 not equal or an "
            "error, 3\n"
            "equal, but without run_end (\"cut\"), 4 equal, and the run failed.\n",
    .example = "  weir merge rank0.trace rank1.trace\n",
    .run = run,
};
