/* weir version. */
#include "cli.h"

static int run(const cli_command *self, int argc, char **argv) {
    bool as_json = false;
    cli_option options[] = {{"--json", CLI_FLAG, &as_json, false, false}};
    if (cli_parse(self, options, 1, argc, argv, NULL, 0) < 0)
        return CLI_USAGE;
    if (!as_json) {
        printf("weir %s\n", weir_version());
        return cli_flush();
    }
    weir_json_writer w;
    weir_json_writer_memory(&w, NULL);
    weir_json_object(&w);
    cli_json_text(&w, "version", weir_version());
    weir_json_end_object(&w);
    return cli_print_json(&w);
}

const cli_command cli_version = {
    .name = "version",
    .summary = "print weir's version",
    .usage = "weir version [--json]",
    .help = "  --json   print {\"version\": …}\n",
    .example = "  weir version --json\n",
    .run = run,
};
