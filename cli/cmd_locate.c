/* weir locate: which dataset and cursor a global step has. */
#include <inttypes.h>

#include "cli.h"

static int run(const cli_command *self, int argc, char **argv) {
    const char *path = NULL;
    cli_bytes token = {0};
    uint64_t step = 0;
    bool as_json = false;
    cli_option options[] = {CLI_REQUIRED("--manifest", &path), CLI_REQUIRED("--step", &step),
                            CLI_OPTION("--token", &token), CLI_OPTION("--json", &as_json)};
    if (cli_parse(self, options, CLI_COUNT(options), argc, argv, NULL, 0, NULL) < 0)
        return CLI_USAGE;
    weir_error error;
    weir_manifest *manifest = NULL;
    weir_mix *mix = NULL;
    const weir_dataset *dataset = NULL;
    weir_cursor cursor;
    weir_json_writer w;
    int result;
    weir_status status = weir_manifest_open(NULL, path, &manifest, &error);
    if (status == WEIR_OK)
        status = weir_mix_open(NULL, manifest, token.data, token.size, &mix, &error);
    if (status == WEIR_OK)
        status = weir_mix_locate(mix, step, &dataset, &cursor, &error);
    if (status != WEIR_OK) {
        result = cli_fail(&error, as_json);
    } else if (as_json) {
        cli_json_begin(&w);
        weir_json_pair_text(&w, "dataset", dataset->key);
        cli_json_cursor(&w, "cursor", cursor);
        result = cli_print_object(&w);
    } else {
        printf("step %" PRIu64 ": %s, epoch %" PRIu64 ", position %" PRIu64 "\n", step,
               cli_shown(dataset->key), cursor.epoch, cursor.global_index);
        result = cli_flush();
    }
    weir_mix_close(mix);
    weir_manifest_close(manifest);
    return result;
}

const cli_command cli_locate = {
    .name = "locate",
    .summary = "say which dataset and cursor a global step has",
    .usage = "weir locate --manifest M --step S [--token HEX] [--json]",
    .help = "  --manifest M   the manifest file\n"
            "  --step S       the global step; step 10^15 costs what step 10 does\n"
            "  --token HEX    another replay token than the manifest's own\n"
            "  --json         {\"dataset\": key, \"cursor\": {\"epoch\", \"global_index\"}}\n",
    .example = "  weir locate --manifest shop.manifest.json --step 1000000000000000 --json\n",
    .run = run,
};
