/* What weir push and weir pull share: their options, and the work with its progress. */
#ifndef WEIR_CLI_REMOTE_H
#define WEIR_CLI_REMOTE_H

#include "cli.h"

typedef struct cli_remote {
    weir_remote_options options;
    weir_remote_report report;
    uint64_t chunk_size; /* of a push; 0: not given */
    bool as_json;
} cli_remote;

/* Runs weir_push or weir_pull on (from, to) with progress and signals, and prints what was done, or the
 * failure. */
int cli_remote_run(cli_remote *remote,
                   weir_status (*run)(const weir_env *env, const char *from, const char *to,
                                      const weir_remote_options *options, weir_remote_report *report,
                                      weir_error *error),
                   const char *from, const char *to, const char *verb);

/* The options that both take, as the help says them. */
#define CLI_REMOTE_HELP                                                                                          \
    "  --concurrency N     requests at once, 1 to 64 (default: 8)\n"                                             \
    "  --retries N         how often a request is tried again, 0 to 100 (default: 6); waits double\n"            \
    "  --timeout SECONDS   how long a server may send nothing (default: 60)\n"                                   \
    "  --threads N         how many threads verify the store (default: the number of processors)\n"              \
    "  --json              print {\"store_hash\": …, \"bytes\": …, \"chunks\": …, \"moved_chunks\": …, " \
    "\"moved_bytes\": …}\n\n"                                                                                  \
    "For s3:// the variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION and\n"      \
    "AWS_ENDPOINT_URL are read; without keys, requests are not signed.\n"
#define CLI_REMOTE_OPTIONS(remote)                                                                           \
    CLI_OPTION("--concurrency", &(remote).options.concurrency),                                              \
        CLI_OPTION("--retries", &(remote).options.retries),                                                  \
        CLI_OPTION("--retry-ms", &(remote).options.retry_ms),                                                \
        CLI_OPTION("--timeout", &(remote).options.timeout_s),                                                \
        CLI_OPTION("--threads", &(remote).options.threads), CLI_OPTION("--json", &(remote).as_json)

#endif
