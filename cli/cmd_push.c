/* weir push STORE URL: a store to a server, in chunks that it does not have. */
#include "remote.h"

static int run(const cli_command *self, int argc, char **argv) {
    cli_remote remote = {.options = WEIR_REMOTE_OPTIONS};
    cli_option options[] = {{"--chunk-size", CLI_SIZE, &remote.chunk_size, false, false},
                            CLI_REMOTE_OPTIONS(remote)};
    const char *given[2];
    if (cli_parse(self, options, CLI_COUNT(options), argc, argv, given, 2, "say which store, and where to") <
        0)
        return CLI_USAGE;
    if (options[0].given) {
        while (remote.options.chunk_bits < 26 && (uint64_t)1 << remote.options.chunk_bits < remote.chunk_size)
            remote.options.chunk_bits++;
        if ((uint64_t)1 << remote.options.chunk_bits != remote.chunk_size || remote.chunk_size < 4096)
            return cli_usage(self, "--chunk-size must be a power of two from 4KiB to 64MiB");
    }
    return cli_remote_run(&remote, weir_push, given[0], given[1], "pushed");
}

const cli_command cli_push = {
    .name = "push",
    .summary = "send a store to S3 or a web server; only chunks that it lacks are sent",
    .usage = "weir push STORE URL [--chunk-size SIZE] [--concurrency N] [--retries N] [--timeout S] [--json]",
    .help =
        "  STORE               a file that weir ingest wrote; every byte of it is verified first\n"
        "  URL                 s3://bucket/folder/name.weir, or https://… of a server that takes PUT; one "
        "that\n"
        "                      ends in '/' gets the file's name. Chunks lie in the folder chunks/ beside it\n"
        "  --chunk-size SIZE   about how large a chunk is: a power of two from 4KiB to 64MiB (default: "
        "4MiB); a store "
        "and\n"
        "                      its successors should have the same\n" CLI_REMOTE_HELP
        "If a push was interrupted, give the same command again: it sends the chunks that are not there "
        "yet.\n",
    .example = "  weir push shop.weir s3://my-bucket/stores/shop.weir\n",
    .run = run,
};
