/* See page.h. */
#include "page.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"

weir_status cli_write_page(cli_page page, const char *json, size_t json_size, const char *path,
                           weir_error *error) {
    static const char mark[] = ">@data<", escaped[] = {'\\', 'u', '0', '0', '3', 'c'};
    const unsigned char *place = memmem(page.text, page.size, mark, strlen(mark));
    size_t head = (size_t)(place + 1 - page.text);
    const unsigned char *rest = place + strlen(mark) - 1;
    size_t tail = page.size - (size_t)(rest - page.text);
    size_t markup = 0;
    for (size_t i = 0; i < json_size; i++)
        markup += json[i] == '<';
    char *text = malloc(head + json_size + (sizeof escaped - 1) * markup + tail);
    if (!text)
        return cli_error(error, WEIR_OUT_OF_MEMORY, "no memory for the page %s", path);
    memcpy(text, page.text, head);
    size_t used = head;
    for (size_t i = 0; i < json_size; i++) { /* in JSON '<' can stand in strings alone */
        const char *from = json[i] == '<' ? escaped : &json[i];
        size_t size = json[i] == '<' ? sizeof escaped : 1;
        memcpy(text + used, from, size);
        used += size;
    }
    memcpy(text + used, rest, tail);
    weir_status status = cli_write_file(path, text, used + tail, error);
    free(text);
    return status;
}

void cli_json_base64(weir_json_writer *w, const void *data, size_t size) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *bytes = data;
    size_t text_size = (size + 2) / 3 * 4;
    char *text = malloc(text_size + 1), *out = text;
    if (!text) {
        w->status = WEIR_OUT_OF_MEMORY;
        return;
    }
    for (size_t i = 0; i < size; i += 3) {
        uint32_t group = (uint32_t)bytes[i] << 16;
        if (i + 1 < size)
            group |= (uint32_t)bytes[i + 1] << 8;
        if (i + 2 < size)
            group |= bytes[i + 2];
        *out++ = digits[group >> 18];
        *out++ = digits[group >> 12 & 63];
        *out++ = i + 1 < size ? digits[group >> 6 & 63] : '=';
        *out++ = i + 2 < size ? digits[group & 63] : '=';
    }
    weir_json_text_n(w, text, text_size);
    free(text);
}
