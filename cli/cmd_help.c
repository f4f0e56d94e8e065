/* weir help [COMMAND | errors]: what there is, and how to call it. */
#include <string.h>

#include "cli.h"

static int run(const cli_command *self, int argc, char **argv) {
    const char *topic = NULL;
    const cli_command *const *of = cli_commands;
    int count = cli_parse(self, NULL, 0, argc, argv, &topic, 1, NULL);
    if (count < 0)
        return CLI_USAGE;
    if (count == 0) {
        puts("weir: a deterministic data plane for training models\n");
        for (; *of; of++)
            printf("  %-10s %s\n", (*of)->name, (*of)->summary);
        puts("\n'weir help COMMAND' shows options and an example, 'weir help errors' the error codes.\n"
             "Every command that prints results takes --json.");
        return cli_flush();
    }
    if (strcmp(topic, "errors") == 0) {
        puts("| code | id | subsystem | meaning |\n| --- | --- | --- | --- |");
        for (size_t i = 0; weir_status_at(i) != WEIR_OK; i++) {
            weir_status status = weir_status_at(i);
            printf("| %d | %s | %s | %s |\n", (int)status, weir_status_name(status),
                   weir_status_subsystem(status), weir_status_meaning(status));
        }
        return cli_flush();
    }
    while (*of && strcmp((*of)->name, topic) != 0)
        of++;
    if (!*of)
        return cli_usage(self, "there is no command '%s'", topic);
    printf("weir %s: %s\n\nusage: %s\n\n", topic, (*of)->summary, (*of)->usage);
    if ((*of)->print_help)
        (*of)->print_help();
    else
        fputs((*of)->help, stdout);
    printf("\nexample:\n%s", (*of)->example);
    return cli_flush();
}

const cli_command cli_help = {
    .name = "help",
    .summary = "show this, a command's options, or the error codes",
    .usage = "weir help [COMMAND | errors]",
    .help = "Without an argument: the list of commands.\n",
    .example = "  weir help next\n",
    .run = run,
};
