/* See key_text.h. */
#include "key_text.h"

#include <string.h>

static bool read_json(const char *text, weir_cbor_writer *document) {
    weir_error ignored;
    return weir_json_read(text, strlen(text), "the key", WEIR_CBOR_INVALID, document, &ignored) == WEIR_OK &&
           weir_cbor_finish(document, &ignored) == WEIR_OK;
}

uint32_t cli_key_read(const char *text, weir_cbor_writer *document, weir_key_value out[CLI_KEY_PARTS]) {
    int64_t number;
    uint32_t count = 0;
    *out = (weir_key_value){.type = WEIR_KEY_TEXT, .bytes = {text, strlen(text)}};
    if (cli_integer(text, &number))
        *out = (weir_key_value){.type = WEIR_KEY_INTEGER, .integer = number};
    if (*text != '[' || !read_json(text, document))
        return 1;
    weir_cbor_value list = weir_cbor_view(document->data), item;
    weir_cbor_iterator it = weir_cbor_children(&list);
    while (count < CLI_KEY_PARTS && weir_cbor_next(&it, NULL, &item))
        out[count++] = weir_key_value_of(&item);
    return count;
}

/* A number that is no integer, as JSON has it. */
static bool read_real(const char *text, weir_key_value *out) {
    weir_cbor_writer document;
    weir_cbor_writer_memory(&document, NULL);
    bool is_real = read_json(text, &document);
    if (is_real) {
        weir_cbor_value value = weir_cbor_view(document.data);
        *out = weir_key_value_of(&value);
        is_real = out->type == WEIR_KEY_REAL;
    }
    weir_cbor_release(&document);
    return is_real;
}

uint64_t cli_key_find(const weir_store *store, uint32_t table, weir_key_value *values, uint32_t count,
                      const char *text) {
    weir_key_value other = {.type = WEIR_KEY_TEXT, .bytes = {text, strlen(text)}};
    uint64_t row = weir_store_find_row(store, table, values, count);
    if (row != WEIR_NO_ROW || count != 1 || *text == '[')
        return row;
    if (values[0].type == WEIR_KEY_TEXT && !read_real(text, &other))
        return row;
    row = weir_store_find_row(store, table, &other, 1);
    if (row != WEIR_NO_ROW)
        values[0] = other;
    return row;
}
