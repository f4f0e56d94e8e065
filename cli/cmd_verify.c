/* weir verify STORE: every byte against its hash, every number against what it points to. */

#include "cli.h"

static int print_result(const weir_store_info *info, bool as_json) {
    if (!as_json) {
        printf("%s: all %llu bytes are what was written\n", cli_shown(info->name),
               (unsigned long long)info->file_size);
        return cli_flush();
    }
    weir_json_writer w;
    weir_json_writer_memory(&w, NULL);
    weir_json_object(&w);
    cli_json_text(&w, "name", info->name);
    cli_json_hex(&w, "store_hash", info->store_hash, WEIR_HASH_SIZE);
    cli_json_uint(&w, "bytes", info->file_size);
    weir_json_end_object(&w);
    return cli_print_json(&w);
}

static int run(const cli_command *self, int argc, char **argv) {
    bool as_json = false;
    uint32_t threads = 0;
    cli_option options[] = {{"--json", CLI_FLAG, &as_json, false, false},
                            {"--threads", CLI_UINT32, &threads, false, false}};
    const char *path;
    weir_error error;
    weir_store *store;
    int count = cli_parse(self, options, 2, argc, argv, &path, 1);
    if (count < 0)
        return CLI_USAGE;
    if (count != 1)
        return cli_usage(self, "say which store");
    weir_status status = weir_store_open(NULL, path, &store, &error);
    if (status == WEIR_OK)
        status = weir_store_verify(store, threads, &error);
    int result =
        status == WEIR_OK ? print_result(weir_store_describe(store), as_json) : cli_fail(&error, as_json);
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
