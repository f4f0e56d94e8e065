/* weir diff: the first step at which two traces differ. */
#include <inttypes.h>

#include "cli.h"

static int print_difference(const weir_trace_difference *d, bool as_json) {
    weir_json_writer w;
    if (as_json) {
        cli_json_begin(&w);
        weir_json_pair_bool(&w, "comparable", d->is_comparable);
        if (!d->is_comparable)
            weir_json_pair_text(&w, "incomparable", d->incomparable);
        weir_json_pair_uint(&w, "equal_steps", d->steps);
        weir_json_pair_bool(&w, "differs", d->differs);
        if (d->differs) {
            weir_json_pair_uint(&w, "step", d->t);
            weir_json_pair_text(&w, "field", d->field);
            weir_json_pair_text(&w, "left", d->left);
            weir_json_pair_text(&w, "right", d->right);
        } else {
            weir_json_pair_text(&w, "status", weir_run_status_name(d->status));
        }
        return cli_print_object(&w);
    }
    if (!d->is_comparable)
        printf("the runs are not comparable: they differ in %s\n", d->incomparable);
    if (d->differs)
        printf("step %" PRIu64 " is the first that differs, in %s:\n  left:  %s\n  right: %s\n", d->t,
               d->field, d->left, d->right);
    else
        printf("%s, all equal%s\n", cli_number(d->steps, "step", "steps"),
               d->status == WEIR_RUN_CUT      ? "; neither trace has a run_end"
               : d->status == WEIR_RUN_FAILED ? "; both runs failed in the same way"
                                              : "");
    return cli_flush();
}

static int run(const cli_command *self, int argc, char **argv) {
    const char *traces[2];
    bool as_json = false;
    cli_option options[] = {CLI_OPTION("--json", &as_json)};
    if (cli_parse(self, options, 1, argc, argv, traces, 2, "name two traces") < 0)
        return CLI_USAGE;
    weir_error error;
    weir_trace_difference difference;
    if (weir_trace_diff(NULL, traces[0], traces[1], &difference, &error) != WEIR_OK)
        return cli_fail(&error, as_json);
    int result = print_difference(&difference, as_json);
    if (difference.differs)
        return CLI_FAILED;
    return result == CLI_OK && difference.status == WEIR_RUN_CUT ? CLI_TRACE_CUT : result;
}

const cli_command cli_diff = {
    .name = "diff",
    .summary = "find the first step at which two traces differ",
    .usage = "weir diff A B [--json]",
    .help = "  A B      two traces\n"
            "  --json   {\"comparable\", \"equal_steps\", \"differs\", \"step\", \"field\", \"left\", "
            "\"right\", \"status\"}\n\n"
            "Exit status 0 if all is equal, 1 if not, 3 if all is equal, but without a run_end. The step "
            "that is\n"
            "named is the same for diff A B and diff B A. Headers and resume records do not make\n"
            "traces differ; weir says so if the runs cannot be the same (other manifest, mix, batch config, "
            "stores).\n",
    .example = "  weir diff monday.trace tuesday.trace\n",
    .run = run,
};
