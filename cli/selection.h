/* What `next`, `batch` and `run` ask for alike: a manifest, a dataset, a stage, a place in the world, a
 * token; and the stores that `run` and `replay` open. */
#ifndef WEIR_CLI_SELECTION_H
#define WEIR_CLI_SELECTION_H

#include "cli.h"

typedef struct cli_selection {
    const char *manifest, *dataset, *stage;
    uint32_t world_size, rank;
    cli_bytes token; /* NULL: the manifest's own */
} cli_selection;

#define CLI_SELECTION_DEFAULT                                                                                \
    { .world_size = 1 }

/* Entries of a cli_option table. */
#define CLI_SELECTION_OPTIONS(selection, dataset_is_required)                                                \
    CLI_REQUIRED("--manifest", &(selection).manifest),                                                       \
        {"--dataset", CLI_TEXT, &(selection).dataset, dataset_is_required, false},                           \
        CLI_OPTION("--stage", &(selection).stage), CLI_OPTION("--world-size", &(selection).world_size),      \
        CLI_OPTION("--rank", &(selection).rank), CLI_OPTION("--token", &(selection).token)

/* Where in the dataset, of the commands that take a cursor. */
#define CLI_CURSOR_OPTIONS(cursor)                                                                           \
    CLI_OPTION("--epoch", &(cursor).epoch), CLI_OPTION("--position", &(cursor).global_index)

#define CLI_ONE_DATASET_HELP                                                                                 \
    "  --dataset K      one of its datasets\n"                                                               \
    "  --stage S        train, eval, infer or eval_seeded (default: what the manifest's preset says,\n"      \
    "                   else train)\n"
#define CLI_CURSOR_HELP                                                                                      \
    "  --epoch E        where to begin: the epoch (default 0) …\n"                                         \
    "  --position P     … and the global position in it (default 0)\n"
#define CLI_WORLD_HELP                                                                                       \
    "  --world-size W   how many ranks share a batch (default 1)\n"                                          \
    "  --rank R         which of them this is (default 0)\n"
#define CLI_TOKEN_HELP    "  --token HEX      another replay token than the manifest's own\n"
#define CLI_ANY_HASH_HELP "  --any-hash       accept a manifest whose dataset hash is not the store's\n"

/* Sets the stage that the manifest's preset says, if none was given. */
void cli_selection_settle(cli_selection *selection, const weir_manifest *manifest);

/* How stores are verified. */
#define CLI_VERIFY_HELP                                                                                      \
    "  --verify V       what of the store is compared with its hashes: touched (default): each block when "  \
    "it\n"                                                                                                   \
    "                   is used first; all: everything, before the start; none\n"

/* Opens the stores that were named, as the options say (NULL: as usual); on failure none is open. Close takes
 * a list that was never opened. */
typedef struct cli_stores {
    weir_store *list[CLI_TEXTS_MAX];
    uint8_t hashes[CLI_TEXTS_MAX][WEIR_HASH_SIZE]; /* of the stores, in their order */
    size_t count;
} cli_stores;
WEIR_CHECKED weir_status cli_stores_open(cli_stores *stores, const cli_texts *paths,
                                         const weir_store_options *options, weir_error *error);
void cli_stores_close(cli_stores *stores);

/* The population of a dataset in train, from the first of the stores that has it; NULL if training does not
 * draw from one, or no store has it (the sampler then says so). The caller closes it. */
WEIR_CHECKED weir_status cli_stores_population(const cli_stores *stores, const weir_manifest *manifest,
                                               const cli_selection *selection, weir_stage stage,
                                               weir_population **out, weir_error *error);

#endif
