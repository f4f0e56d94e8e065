/* See page.h. */
#include "page.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* In JSON '<' can stand in strings alone, where \u003c means the same. Returns the size written. */
static size_t copy_without_markup(char *out, const char *json, size_t size) {
    static const char escaped[] = {'\\', 'u', '0', '0', '3', 'c'};
    char *at = out;
    for (size_t i = 0; i < size; i++) {
        if (json[i] == '<') {
            memcpy(at, escaped, sizeof escaped);
            at += sizeof escaped;
        } else {
            *at++ = json[i];
        }
    }
    return (size_t)(at - out);
}

weir_status cli_write_page(const unsigned char *page, size_t page_size, const char *mark, const char *json,
                           size_t json_size, const char *path, weir_error *error) {
    const unsigned char *place = memmem(page, page_size, mark, strlen(mark));
    size_t head = (size_t)(place + 1 - page);
    const unsigned char *rest = place + strlen(mark) - 1;
    size_t tail = page_size - (size_t)(rest - page);
    size_t markup = 0;
    for (size_t i = 0; i < json_size; i++)
        markup += json[i] == '<';
    char *text = malloc(head + json_size + 5 * markup + tail);
    if (!text)
        return cli_error(error, WEIR_OUT_OF_MEMORY, "no memory for the page %s", path);
    memcpy(text, page, head);
    size_t used = head + copy_without_markup(text + head, json, json_size);
    memcpy(text + used, rest, tail);
    weir_status status = cli_write_file(path, text, used + tail, error);
    free(text);
    return status;
}

static void encode_base64(const uint8_t *data, size_t size, char *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        uint32_t group = (uint32_t)data[i] << 16;
        if (i + 1 < size)
            group |= (uint32_t)data[i + 1] << 8;
        if (i + 2 < size)
            group |= data[i + 2];
        *out++ = digits[group >> 18];
        *out++ = digits[group >> 12 & 63];
        *out++ = i + 1 < size ? digits[group >> 6 & 63] : '=';
        *out++ = i + 2 < size ? digits[group & 63] : '=';
    }
}

void cli_json_base64(weir_json_writer *w, const void *data, size_t size) {
    size_t text_size = (size + 2) / 3 * 4;
    char *text = malloc(text_size + 1);
    if (!text) {
        w->status = WEIR_OUT_OF_MEMORY;
        return;
    }
    encode_base64(data, size, text);
    weir_json_text_n(w, text, text_size);
    free(text);
}
