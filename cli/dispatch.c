/* Picks the command and runs it: all of the program but its entry, so that the Python package can be the
 * program too. */
#include <signal.h>
#include <string.h>

#include "cli.h"
#include "commands.h"

#define DECLARE(name) extern const cli_command cli_##name;
CLI_COMMANDS(DECLARE)
#undef DECLARE

const cli_command *const cli_commands[] = {
#define LIST(name) &cli_##name,
    CLI_COMMANDS(LIST)
#undef LIST
        NULL,
};

int cli_main(int argc, char **argv) {
    signal(SIGXFSZ, SIG_IGN); /* a file that reaches its limit is an error to be told, as a full disk is */
    const char *name = argc > 1 ? argv[1] : "help";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    size_t number = 0;
    while (cli_commands[number] && strcmp(cli_commands[number]->name, name) != 0)
        number++;
    const cli_command *command = cli_commands[number];
    if (!command) {
        fprintf(stderr, "weir: there is no command '%s'; 'weir help' lists them\n", cli_shown(name));
        return CLI_USAGE;
    }
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++) /* `weir next --help` is `weir help next` */
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return cli_help.run(&cli_help, 1, (char *[]){(char *)name});
    return command->run(command, argc > 2 ? argc - 2 : 0, argv + (argc > 2 ? 2 : argc));
}
