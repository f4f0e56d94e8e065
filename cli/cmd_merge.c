/* weir merge: the ranks of a run, put together, against world size 1. */
#include <inttypes.h>
#include <stdlib.h>

#include "cli.h"

static int print_report(const weir_merge_report *report, bool as_json) {
    if (!as_json) {
        printf("%" PRIu32 " ranks, %" PRIu64 " steps, %" PRIu64 " samples: the same as at world size 1\n",
               report->world_size, report->steps, report->samples);
        if (report->digests)
            printf("%" PRIu64 " sample digests compared\n", report->digests);
        if (report->unchecked_digests)
            printf("%" PRIu64 " sample digests not compared: give the world-size-1 trace with --single\n",
                   report->unchecked_digests);
        return cli_flush();
    }
    weir_json_writer w;
    weir_json_writer_memory(&w, NULL);
    weir_json_object(&w);
    cli_json_bool(&w, "equal", true);
    cli_json_uint(&w, "world_size", report->world_size);
    cli_json_uint(&w, "steps", report->steps);
    cli_json_uint(&w, "samples", report->samples);
    cli_json_uint(&w, "digests", report->digests);
    cli_json_uint(&w, "unchecked_digests", report->unchecked_digests);
    weir_json_end_object(&w);
    return cli_print_json(&w);
}

static int run(const cli_command *self, int argc, char **argv) {
    const char *single = NULL;
    bool as_json = false;
    cli_option options[] = {{"--single", CLI_TEXT, &single, false, false},
                            {"--json", CLI_FLAG, &as_json, false, false}};
    const char **traces = malloc((size_t)(argc + 1) * sizeof *traces);
    if (!traces)
        return CLI_FAILED;
    int result;
    int count = cli_parse(self, options, 2, argc, argv, traces, argc);
    weir_error error;
    weir_merge_report report;
    if (count < 0)
        result = CLI_USAGE;
    else if (count == 0)
        result = cli_usage(self, "name the traces of all ranks");
    else if (weir_trace_merge(NULL, traces, (size_t)count, single, &report, &error) != WEIR_OK)
        result = cli_fail(&error, as_json);
    else
        result = print_report(&report, as_json);
    free(traces);
    return result;
}

const cli_command cli_merge = {
    .name = "merge",
    .summary = "check that the ranks of a run, put together, are the run at world size 1",
    .usage = "weir merge RANK0 RANK1 … [--single TRACE] [--json]",
    .help = "  RANK0 …          the traces of all ranks of one run, in any order\n"
            "  --single TRACE   the same run at world size 1, to compare sample digests with\n"
            "  --json           {\"equal\", \"world_size\", \"steps\", \"samples\", \"digests\", "
            "\"unchecked_digests\"}\n\n"
            "Every index is recomputed from the manifest in the traces. The first difference is "
            "REPLAY_DIVERGENCE and\n"
            "exit status 1.\n",
    .example = "  weir merge rank0.trace rank1.trace\n",
    .run = run,
};
