/* weir help [COMMAND | errors]: what there is, and how to call it. */
#include <string.h>

#include "cli.h"

static int print_commands(void) {
    puts("weir: a deterministic data plane for training models\n");
    for (size_t i = 0; cli_commands[i]; i++)
        printf("  %-10s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
    puts("\n'weir help COMMAND' shows options and an example, 'weir help errors' the error codes.\n"
         "Every command that prints results takes --json.");
    return cli_flush();
}

static int print_errors(void) {
    puts("| code | id | subsystem | meaning |\n| --- | --- | --- | --- |");
    for (size_t i = 0; weir_status_at(i) != WEIR_OK; i++) {
        weir_status status = weir_status_at(i);
        printf("| %d | %s | %s | %s |\n", (int)status, weir_status_name(status),
               weir_status_subsystem(status), weir_status_meaning(status));
    }
    return cli_flush();
}

static int print_command(const cli_command *command) {
    printf("weir %s: %s\n\nusage: %s\n\n", command->name, command->summary, command->usage);
    if (command->print_help)
        command->print_help();
    else
        fputs(command->help, stdout);
    printf("\nexample:\n%s", command->example);
    return cli_flush();
}

static int run(const cli_command *self, int argc, char **argv) {
    const char *topic = NULL;
    int count = cli_parse(self, NULL, 0, argc, argv, &topic, 1);
    if (count < 0)
        return CLI_USAGE;
    if (count == 0)
        return print_commands();
    if (strcmp(topic, "errors") == 0)
        return print_errors();
    for (size_t i = 0; cli_commands[i]; i++)
        if (strcmp(cli_commands[i]->name, topic) == 0)
            return print_command(cli_commands[i]);
    return cli_usage(self, "there is no command '%s'", topic);
}

const cli_command cli_help = {
    .name = "help",
    .summary = "show this, a command's options, or the error codes",
    .usage = "weir help [COMMAND | errors]",
    .help = "Without an argument: the list of commands.\n",
    .example = "  weir help next\n",
    .run = run,
};
