/* weir pull URL: a store from a server, verified before it takes its name. */
#include "remote.h"

#include <string.h>

static int run(const cli_command *self, int argc, char **argv) {
    cli_remote remote = {.options = WEIR_REMOTE_OPTIONS};
    const char *output = NULL, *hash = NULL, *url;
    cli_bytes expected = {0};
    cli_option options[] = {CLI_OPTION("--output", &output), CLI_OPTION("--hash", &hash),
                            CLI_REMOTE_OPTIONS(remote)};
    if (cli_parse(self, options, CLI_COUNT(options), argc, argv, &url, 1, "say which store, by its URL") < 0)
        return CLI_USAGE;
    const char *slash = strrchr(url, '/');
    if (!output)
        output = slash && slash[1] ? slash + 1 : url;
    if (hash && (!cli_hex(hash, &expected) || expected.size != WEIR_HASH_SIZE))
        return cli_usage(self,
                         "--hash is the 64 hex digits of a store's hash, as weir verify --json says it");
    remote.options.expected_hash = expected.data;
    return cli_remote_run(&remote, weir_pull, url, output, "pulled");
}

const cli_command cli_pull = {
    .name = "pull",
    .summary = "fetch and verify a store from S3 or a web server; only missing chunks are fetched",
    .usage = "weir pull URL [-o STORE] [--hash HEX] [--concurrency N] [--retries N] [--timeout S] [--json]",
    .help =
        "  URL                 where weir push has put it: s3://bucket/folder/name.weir, or https://…\n"
        "  -o, --output STORE  where it goes (default: the name in the URL). A store that is there is "
        "replaced\n"
        "                      when the new one is whole, and what both have is not asked for\n"
        "  --hash HEX          the store's hash; any other store is refused\n" CLI_REMOTE_HELP
        "If a pull was interrupted, what has arrived is in STORE.part, and the next pull resumes from it.\n",
    .example = "  weir pull s3://my-bucket/stores/shop.weir -o shop.weir\n",
    .run = run,
};
