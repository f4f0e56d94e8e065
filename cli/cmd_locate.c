/* weir locate: which dataset and cursor a global step is. */
#include <inttypes.h>
#include <stdlib.h>

#include "cli.h"

static int print_place(uint64_t step, const weir_dataset *dataset, weir_cursor cursor, bool as_json) {
    if (!as_json) {
        char key[256];
        printf("step %" PRIu64 ": %s, epoch %" PRIu64 ", position %" PRIu64 "\n", step,
               cli_printable(dataset->key, key, sizeof key), cursor.epoch, cursor.global_index);
        return cli_flush();
    }
    weir_json_writer w;
    weir_json_writer_memory(&w, NULL);
    weir_json_object(&w);
    cli_json_text(&w, "dataset", dataset->key);
    cli_json_cursor(&w, "cursor", cursor);
    weir_json_end_object(&w);
    return cli_print_json(&w);
}

static int locate(const weir_manifest *manifest, uint64_t step, const uint8_t *token, size_t token_size,
                  bool as_json) {
    weir_error error;
    weir_mix *mix = NULL;
    const weir_dataset *dataset = NULL;
    weir_cursor cursor;
    weir_status status = weir_mix_open(NULL, manifest, token, token_size, &mix, &error);
    if (status == WEIR_OK)
        status = weir_mix_locate(mix, step, &dataset, &cursor, &error);
    weir_mix_close(mix);
    return status == WEIR_OK ? print_place(step, dataset, cursor, as_json) : cli_fail(&error, as_json);
}

static int run(const cli_command *self, int argc, char **argv) {
    const char *path = NULL;
    const char *token_text = NULL;
    uint64_t step = 0;
    bool as_json = false;
    cli_option options[] = {{"--manifest", CLI_TEXT, &path, true, false},
                            {"--step", CLI_UINT, &step, true, false},
                            {"--token", CLI_TEXT, &token_text, false, false},
                            {"--json", CLI_FLAG, &as_json, false, false}};
    if (cli_parse(self, options, 4, argc, argv, NULL, 0) < 0)
        return CLI_USAGE;
    uint8_t *token = NULL;
    size_t token_size = 0;
    if (token_text && !cli_hex(token_text, &token, &token_size))
        return cli_usage(self, "--token takes hex digits, two per byte");
    weir_error error;
    weir_manifest *manifest = NULL;
    int result;
    if (weir_manifest_open(NULL, path, &manifest, &error) != WEIR_OK)
        result = cli_fail(&error, as_json);
    else
        result = locate(manifest, step, token, token_size, as_json);
    weir_manifest_close(manifest);
    free(token);
    return result;
}

const cli_command cli_locate = {
    .name = "locate",
    .summary = "the dataset and cursor of a global step",
    .usage = "weir locate --manifest M --step S [--token HEX] [--json]",
    .help = "  --manifest M   the manifest file\n"
            "  --step S       the global step; step 10^15 costs what step 10 does\n"
            "  --token HEX    another replay token than the manifest's own\n"
            "  --json         {\"dataset\": key, \"cursor\": {\"epoch\", \"global_index\"}}\n",
    .example = "  weir locate --manifest shop.manifest.json --step 1000000000000000 --json\n",
    .run = run,
};
