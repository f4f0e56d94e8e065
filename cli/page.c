/* See page.h. */
#include "page.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"

weir_status cli_write_page(cli_page page, const weir_text *json, size_t count, const char *path,
                           weir_error *error) {
    static const char mark[] = ">@data<";
    const char *text = (const char *)page.text;
    const char *place = memmem(text, page.size, mark, strlen(mark));
    const char *rest = place + strlen(mark) - 1;
    cli_output output;
    weir_status status = cli_output_open(&output, path, error);
    if (status != WEIR_OK)
        return status;
    fwrite(text, 1, (size_t)(place + 1 - text), output.stream);
    for (size_t i = 0; i < count; i++) {
        const char *at = json[i].data, *end = at + json[i].size;
        while (at < end) { /* in JSON '<' can stand in strings alone */
            const char *markup = memchr(at, '<', (size_t)(end - at));
            fwrite(at, 1, (size_t)((markup ? markup : end) - at), output.stream);
            if (markup)
                fputs("\\u003c", output.stream);
            at = markup ? markup + 1 : end;
        }
    }
    fwrite(rest, 1, page.size - (size_t)(rest - text), output.stream);
    return cli_output_finish(&output, error);
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
