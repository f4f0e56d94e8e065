/* What a file seems to be. Other formats begin with bytes of their own. What weir writes as canonical CBOR
 * has, somewhere in its first map, a key and its value that no other document has. */
#include <string.h>

#include "base/file.h"

static const struct known_format {
    weir_file_format format;
    size_t at;        /* where the bytes stand; SOMEWHERE: in a map */
    const char *mark; /* none of them has a NUL */
} known_formats[] = {
#define SOMEWHERE SIZE_MAX
    {{"a weir store", true}, 0, "\x89WEIR\r\n\x1a"},
    {{"a run of rows", true}, 0, "weir-run"},
    {{"an SQLite database", true}, 0, "SQLite format 3"},
    {{"a DuckDB database", true}, 8, "DUCK"},
    {{"a Parquet file", true}, 0, "PAR1"},
    {{"a zip archive, such as torch.save writes", false}, 0, "PK\x03\x04"},
    {{"a weir trace", false}, SOMEWHERE, "\x64typejrun_header"},
    {{"a checkpoint", false},
     SOMEWHERE,
     "\x72"
     "checkpoint_version"},
    {{"a saved plan", false},
     SOMEWHERE,
     "\x66"
     "format\x6bweir-plan/1"},
    {{"a graph", false},
     SOMEWHERE,
     "\x66"
     "format\x6cweir-graph/1"},
};

static bool is_of_format(const struct known_format *known, const uint8_t *data, size_t size) {
    size_t length = strlen(known->mark);
    if (known->at == SOMEWHERE)
        return size > 0 && (data[0] & 0xE0) == 0xA0 && memmem(data, size, known->mark, length);
    return size >= known->at + length && memcmp(data + known->at, known->mark, length) == 0;
}

const weir_file_format *weir_file_format_of(const void *data, size_t size) {
    static const weir_file_format json = {"JSON", false};
    const char *text = data;
    for (size_t i = 0; i < sizeof known_formats / sizeof *known_formats; i++)
        if (is_of_format(&known_formats[i], data, size))
            return &known_formats[i].format;
    size_t space = 0;
    while (space < size && text[space] && strchr(" \t\r\n", text[space]))
        space++;
    return space < size && (text[space] == '{' || text[space] == '[') ? &json : NULL;
}

/* A message made of five parts; the rest of the record stays. */
static void say(weir_error *error, const char *name, const char *verb, const char *what, const char *link,
                const char *other) {
    weir_error said;
    weir__fail(&said, error->status, error->failure_operator, "%s%s%s%s%s", name, verb, what, link, other);
    memcpy(error->message, said.message, sizeof error->message);
}

weir_status weir__explain_format(weir_status status, const void *data, size_t size, const char *name,
                                 const char *wanted, weir_error *error) {
    if (status == WEIR_OK || status == WEIR_OUT_OF_MEMORY || status == WEIR_IO_ERROR || !error)
        return status;
    const weir_file_format *format = weir_file_format_of(data, size);
    if (format && strcmp(format->name, wanted) != 0)
        say(error, name, " is ", format->name, ", not ", wanted);
    return status;
}

weir_status weir__cbor_check_in(const char *name, const void *data, size_t size, size_t *item_size,
                                weir_error *error) {
    weir_status status = weir_cbor_check(data, size, item_size, error);
    if (status != WEIR_OK && error)
        say(error, name, ": ", error->message, "", "");
    return status;
}
