/* weir cbor encode FILE.json | weir cbor decode HEX: canonical CBOR from the shell, to look into hashes and
 * traces. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static int encode(const char *path, bool as_json) {
    weir_error error;
    weir_cbor_writer cbor;
    weir_json_writer w;
    char *text = NULL;
    size_t size = 0;
    int result;
    weir_cbor_writer_memory(&cbor, NULL);
    weir_status status = cli_read_file(path, &text, &size, &error);
    if (status == WEIR_OK)
        status = weir_json_read(text, size, path, WEIR_CBOR_INVALID, &cbor, &error);
    if (status == WEIR_OK)
        status = weir_cbor_finish(&cbor, &error);
    if (status != WEIR_OK) {
        result = cli_fail(&error, as_json);
    } else if (as_json) {
        cli_json_begin(&w);
        weir_json_pair_hex(&w, "cbor", cbor.data, cbor.size);
        result = cli_print_object(&w);
    } else {
        cli_print_hex("", cbor.data, cbor.size);
        result = cli_flush();
    }
    free(text);
    weir_cbor_release(&cbor);
    return result;
}

static int decode(const cli_command *self, const char *hex, bool as_json) {
    weir_error error;
    cli_bytes bytes;
    if (!cli_hex(hex, &bytes))
        return cli_usage(self, "'%s' is not hex (an even number of digits 0-9 a-f)", hex);
    if (weir_cbor_check(bytes.data, bytes.size, NULL, &error) != WEIR_OK)
        return cli_fail(&error, as_json);
    weir_cbor_value value = weir_cbor_view(bytes.data);
    weir_json_writer w;
    weir_json_writer_memory(&w, NULL);
    if (as_json) {
        weir_json_object(&w);
        weir_json_key(&w, "value");
    }
    weir_json_value(&w, &value);
    if (as_json)
        weir_json_end_object(&w);
    return cli_print_json(&w);
}

static int run(const cli_command *self, int argc, char **argv) {
    bool as_json = false;
    cli_option options[] = {CLI_OPTION("--json", &as_json)};
    const char *arguments[2];
    int count = cli_parse(self, options, 1, argc, argv, arguments, 2, NULL);
    if (count < 0)
        return CLI_USAGE;
    if (count == 2 && strcmp(arguments[0], "encode") == 0)
        return encode(arguments[1], as_json);
    if (count == 2 && strcmp(arguments[0], "decode") == 0)
        return decode(self, arguments[1], as_json);
    return cli_usage(self, "say 'encode FILE.json' or 'decode HEX'");
}

const cli_command cli_cbor = {
    .name = "cbor",
    .summary = "encode JSON as canonical CBOR, or decode it",
    .usage = "weir cbor encode FILE.json [--json] | weir cbor decode HEX [--json]",
    .help =
        "  encode FILE   the file's JSON value in its only canonical encoding, as hex ('-': standard input)\n"
        "  decode HEX    the value; what is not canonical is refused with the offset of the offending item\n"
        "  --json        print {\"cbor\": hex} or {\"value\": …}\n\n"
        "Byte strings are shown as {\"bytes\": hex}, NaN and infinities as {\"float\": bits in hex}.\n",
    .example = "  echo '{\"step\": 7}' | weir cbor encode -\n  weir cbor decode a1647374657007 --json\n",
    .run = run,
};
