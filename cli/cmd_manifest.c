/* weir manifest: checks a manifest and shows its identity. */
#include <inttypes.h>

#include "cli.h"

static int show(const weir_manifest *manifest, bool as_json) {
    const weir_manifest_info *info = weir_manifest_describe(manifest);
    weir_json_writer w;
    if (as_json) {
        cli_json_begin(&w);
        weir_json_pair_hex(&w, "manifest_hash", info->hash, WEIR_HASH_SIZE);
        weir_json_pair_hex(&w, "replay_token", info->token, WEIR_TOKEN_SIZE);
        weir_json_pair_hex(&w, "mix_hash", info->mix_hash, WEIR_HASH_SIZE);
        weir_json_pair_hex(&w, "batch_config_hash", info->batch_config_hash, WEIR_HASH_SIZE);
        weir_json_pair_hex(&w, "normalised", info->normalised, info->normalised_size);
        return cli_print_object(&w);
    }
    printf("global batch size %" PRIu64 ", seed %" PRIu64 ", blocks of %" PRIu64 "\n",
           info->global_batch_size, info->seed, info->data->sampler_block_size);
    const weir_choices *lengths = &info->batch->lengths;
    for (uint32_t i = 0; i < lengths->count && lengths->count > 1; i++)
        printf("%s%" PRIu32 "%s", i ? ", " : "training steps of ", lengths->values[i],
               i + 1 < lengths->count ? "" : " cells per sequence, in turn\n");
    printf("training runs %s\n", weir_manifest_operator(manifest, WEIR_STAGE_TRAIN));
    for (size_t i = 0; i < info->dataset_count; i++) {
        const weir_dataset *dataset = &info->datasets[i];
        printf("  %-32s %14" PRIu64 " %s", cli_shown(dataset->key), dataset->cardinality,
               dataset->cardinality == 1 ? "sample" : "samples");
        if (dataset->sampling != WEIR_SAMPLING_SHUFFLED)
            printf(", drawn by %s", dataset->sampling == WEIR_SAMPLING_WEIGHTED ? "weight" : "class");
        if (dataset->weight)
            printf(", weight %" PRIu32 " of %" PRIu32, dataset->weight, weir_manifest_mix_total(manifest));
        putchar('\n');
    }
    cli_print_hex("manifest_hash     ", info->hash, WEIR_HASH_SIZE);
    cli_print_hex("mix_hash          ", info->mix_hash, WEIR_HASH_SIZE);
    cli_print_hex("batch_config_hash ", info->batch_config_hash, WEIR_HASH_SIZE);
    cli_print_hex("replay_token      ", info->token, WEIR_TOKEN_SIZE);
    return cli_flush();
}

static int run(const cli_command *self, int argc, char **argv) {
    const char *path = NULL;
    bool as_json = false;
    cli_option options[] = {CLI_OPTION("--json", &as_json)};
    if (cli_parse(self, options, 1, argc, argv, &path, 1, "name the manifest file") < 0)
        return CLI_USAGE;
    weir_error error;
    weir_manifest *manifest = NULL;
    if (weir_manifest_open(NULL, path, &manifest, &error) != WEIR_OK)
        return cli_fail(&error, as_json);
    int result = show(manifest, as_json);
    weir_manifest_close(manifest);
    return result;
}

const cli_command cli_manifest = {
    .name = "manifest",
    .summary = "check a manifest and show its datasets and identity hashes",
    .usage = "weir manifest M [--json]",
    .help = "  M        the manifest file ('-': standard input)\n"
            "  --json   {\"manifest_hash\", \"replay_token\", \"mix_hash\", \"batch_config_hash\", "
            "\"normalised\" (CBOR hex)}\n",
    .example = "  weir manifest shop.manifest.json\n",
    .run = run,
};
