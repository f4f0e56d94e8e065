/* weir version: weir's own, and those of what it was built with and runs with. */
#include "cli.h"

static int run(const cli_command *self, int argc, char **argv) {
    bool as_json = false;
    cli_option options[] = {CLI_OPTION("--json", &as_json)};
    if (cli_parse(self, options, 1, argc, argv, NULL, 0, NULL) < 0)
        return CLI_USAGE;
    if (!as_json) {
        printf("weir %s\n", weir_version());
        return cli_flush();
    }
    weir_component component;
    weir_json_writer w;
    cli_json_begin(&w);
    weir_json_pair_text(&w, "version", weir_version());
    weir_json_pair_object(&w, "components");
    for (size_t i = 0; weir_component_at(i, &component); i++) {
        weir_json_pair_object(&w, component.name);
        weir_json_pair_text(&w, "built", component.built);
        if (component.running[0])
            weir_json_pair_text(&w, "running", component.running);
        weir_json_end_object(&w);
    }
    weir_json_end_object(&w);
    return cli_print_object(&w);
}

const cli_command cli_version = {
    .name = "version",
    .summary = "print weir's version",
    .usage = "weir version [--json]",
    .help = "  --json   with the versions of the compiler and the libraries that it was built with, and of "
            "those\n"
            "           that run now: {\"version\": …, \"components\": {NAME: {\"built\": …, \"running\": "
            "…}, …}}\n",
    .example = "  weir version --json\n",
    .run = run,
};
