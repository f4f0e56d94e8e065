/* weir permute: the order of an epoch's blocks under a seed. */
#include <inttypes.h>
#include <stdlib.h>

#include "cli.h"

static int run(const cli_command *self, int argc, char **argv) {
    const char *seed_text = NULL;
    uint64_t count = 0;
    bool as_json = false;
    cli_option options[] = {CLI_REQUIRED("--seed", &seed_text), CLI_REQUIRED("--blocks", &count),
                            CLI_OPTION("--json", &as_json)};
    if (cli_parse(self, options, 3, argc, argv, NULL, 0, NULL) < 0)
        return CLI_USAGE;
    weir_error error;
    cli_bytes seed;
    if (!cli_hex(seed_text, &seed) || seed.size != 16)
        return cli_usage(self, "--seed takes 32 hex digits");
    uint64_t *order = count > SIZE_MAX / 8 ? NULL : malloc(count ? (size_t)count * sizeof *order : 1);
    weir_status status =
        order ? weir_block_permute(weir_seed_load(seed.data), count, order, &error)
              : cli_error(&error, WEIR_OUT_OF_MEMORY, "no memory for %" PRIu64 " blocks", count);
    int result;
    weir_json_writer w;
    if (status != WEIR_OK) {
        result = cli_fail(&error, as_json);
    } else if (as_json) {
        cli_json_begin(&w);
        weir_json_pair_array(&w, "block_order");
        for (uint64_t i = 0; i < count; i++)
            weir_json_uint(&w, order[i]);
        weir_json_end_array(&w);
        result = cli_print_object(&w);
    } else {
        for (uint64_t i = 0; i < count; i++)
            printf("%" PRIu64 "\n", order[i]);
        result = cli_flush();
    }
    free(order);
    return result;
}

const cli_command cli_permute = {
    .name = "permute",
    .summary = "print the order of blocks under an epoch seed",
    .usage = "weir permute --seed HEX --blocks N [--json]",
    .help = "  --seed HEX    the epoch seed, 32 hex digits\n"
            "  --blocks N    how many blocks, at least 1\n"
            "  --json        {\"block_order\": […]}\n",
    .example = "  weir permute --seed 000102030405060708090a0b0c0d0e0f --blocks 8 --json\n",
    .run = run,
};
