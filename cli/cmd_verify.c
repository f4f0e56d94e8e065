/* weir verify STORE: every byte against its hash, every number against what it points to. */

#include "cli.h"

static int run(const cli_command *self, int argc, char **argv) {
    bool as_json = false;
    uint32_t threads = 0;
    cli_option options[] = {CLI_OPTION("--json", &as_json), CLI_OPTION("--threads", &threads)};
    const char *path;
    weir_error error;
    weir_store *store;
    if (cli_parse(self, options, 2, argc, argv, &path, 1, "say which store") < 0)
        return CLI_USAGE;
    weir_status status = weir_store_open(NULL, path, &store, &error);
    if (status == WEIR_OK)
        status = weir_store_verify(store, threads, &error);
    const weir_store_info *info = status == WEIR_OK ? weir_store_describe(store) : NULL;
    weir_json_writer w;
    int result;
    if (!info) {
        result = cli_fail(&error, as_json);
    } else if (as_json) {
        cli_json_begin(&w);
        weir_json_pair_text(&w, "name", info->name);
        weir_json_pair_hex(&w, "store_hash", info->store_hash, WEIR_HASH_SIZE);
        weir_json_pair_uint(&w, "bytes", info->file_size);
        result = cli_print_object(&w);
    } else {
        printf("%s: all %llu bytes are what was written\n", cli_shown(info->name),
               (unsigned long long)info->file_size);
        result = cli_flush();
    }
    weir_store_close(store);
    return result;
}

const cli_command cli_verify = {
    .name = "verify",
    .summary = "check every byte of a store",
    .usage = "weir verify STORE [--threads N] [--json]",
    .help = "  STORE         a file that weir ingest wrote\n"
            "  --threads N   sections that are read at once (default: the number of processors)\n"
            "  --json        print {\"name\": …, \"store_hash\": …, \"bytes\": …}\n\n"
            "Exit status 1, with the section that is damaged, if a byte is not what was written.\n",
    .example = "  weir verify shop.weir\n",
    .run = run,
};
