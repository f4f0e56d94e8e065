/* The JSON writer: unsigned integers in full, doubles in their shortest exact form, text escaped and always
 * valid UTF-8. It follows the caller's nesting and sets the commas; faults stick until weir_json_finish. What
 * it made in one line can be broken into many, for people. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/floating.h"
#include "base/internal.h"
#include "weir_tool/documents.h"

enum { DEPTH_MAX = sizeof((weir_json_writer *)0)->has_items / sizeof(bool) };

static const char operator_name[] = "weir.json.write";

void weir_json_writer_memory(weir_json_writer *w, const weir_env *env) {
    memset(w, 0, sizeof *w);
    w->env = weir__env_or_default(env);
}

static char *reserve(weir_json_writer *w, size_t size) {
    void *memory = w->data;
    size_t needed;
    if (w->status != WEIR_OK)
        return NULL;
    if (__builtin_add_overflow(w->size, size + 1, &needed) ||
        !weir__grow(w->env, &memory, &w->capacity, needed, 1)) {
        w->status = WEIR_OUT_OF_MEMORY;
        return NULL;
    }
    w->data = memory;
    return w->data + w->size;
}

static void put(weir_json_writer *w, const char *text, size_t size) {
    char *out = reserve(w, size);
    if (!out)
        return;
    memcpy(out, text, size);
    w->size += size;
    w->data[w->size] = 0;
}

/* A comma before every item but the first, nothing between a key and its value. */
static void begin_item(weir_json_writer *w) {
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->has_items[w->depth])
        put(w, ", ", 2);
    w->has_items[w->depth] = true;
}

static void open_level(weir_json_writer *w, const char *bracket) {
    begin_item(w);
    put(w, bracket, 1);
    if (w->depth + 1 >= DEPTH_MAX) {
        if (w->status == WEIR_OK)
            w->status = WEIR_CONTRACT_VIOLATION;
        return;
    }
    w->has_items[++w->depth] = false;
}

static void close_level(weir_json_writer *w, const char *bracket) {
    if (w->depth == 0) {
        if (w->status == WEIR_OK)
            w->status = WEIR_CONTRACT_VIOLATION;
        return;
    }
    w->depth--;
    put(w, bracket, 1);
}

void weir_json_object(weir_json_writer *w) {
    open_level(w, "{");
}

void weir_json_array(weir_json_writer *w) {
    open_level(w, "[");
}

void weir_json_end_object(weir_json_writer *w) {
    close_level(w, "}");
}

void weir_json_end_array(weir_json_writer *w) {
    close_level(w, "]");
}

static void put_escaped(weir_json_writer *w, uint8_t byte) {
    char escape[8];
    switch (byte) {
    case '"':
    case '\\':
        escape[0] = '\\';
        escape[1] = (char)byte;
        put(w, escape, 2);
        break;
    case '\n':
        put(w, "\\n", 2);
        break;
    case '\t':
        put(w, "\\t", 2);
        break;
    default:
        put(w, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", byte));
    }
}

static bool stands_for_itself(uint8_t byte) {
    return byte >= 0x20 && byte < 0x7F && byte != '"' && byte != '\\';
}

static void put_string(weir_json_writer *w, const char *text, size_t size) {
    const uint8_t *at = (const uint8_t *)(text ? text : "");
    const uint8_t *end = at + size;
    put(w, "\"", 1);
    while (at < end) {
        const uint8_t *plain = at;
        while (at < end && stands_for_itself(*at))
            at++;
        put(w, (const char *)plain, (size_t)(at - plain));
        if (at == end)
            break;
        size_t length = weir__utf8_sequence(at, (size_t)(end - at));
        bool is_c1 = length == 2 && at[0] == 0xC2 && at[1] < 0xA0; /* controls that terminals obey */
        if (length > 1 && !is_c1)
            put(w, (const char *)at, length);
        else if (length >= 1)
            put_escaped(w, is_c1 ? at[1] : *at);
        else
            put(w, "\xEF\xBF\xBD", 3);
        at += length ? length : 1;
    }
    put(w, "\"", 1);
}

void weir_json_text_n(weir_json_writer *w, const char *text, size_t size) {
    begin_item(w);
    put_string(w, text, size);
}

void weir_json_text(weir_json_writer *w, const char *text) {
    weir_json_text_n(w, text, strlen(text));
}

void weir_json_key_n(weir_json_writer *w, const char *key, size_t size) {
    begin_item(w);
    put_string(w, key, size);
    put(w, ": ", 2);
    w->after_key = true;
}

void weir_json_key(weir_json_writer *w, const char *key) {
    weir_json_key_n(w, key, strlen(key));
}

static size_t format_uint(char out[20], uint64_t value) {
    char reversed[20];
    size_t size = 0;
    do {
        reversed[size++] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    for (size_t i = 0; i < size; i++)
        out[i] = reversed[size - 1 - i];
    return size;
}

void weir_json_uint(weir_json_writer *w, uint64_t value) {
    char digits[20];
    begin_item(w);
    put(w, digits, format_uint(digits, value));
}

void weir_json_uint_text(weir_json_writer *w, uint64_t value) {
    char digits[20];
    weir_json_text_n(w, digits, format_uint(digits, value));
}

static void put_negative(weir_json_writer *w, uint64_t n) {
    if (n == UINT64_MAX) {
        put(w, "-18446744073709551616", 21);
        return;
    }
    char digits[20];
    put(w, "-", 1);
    put(w, digits, format_uint(digits, n + 1));
}

void weir_json_int(weir_json_writer *w, int64_t value) {
    if (value >= 0) {
        weir_json_uint(w, (uint64_t)value);
        return;
    }
    begin_item(w);
    put_negative(w, ~(uint64_t)value);
}

/* The shortest %g that reads back; with a point or exponent, so that it stays a float to every reader. */
static size_t format_double(char out[40], double value) {
    locale_t kept = weir__enter_c_locale();
    int size = 0;
    for (int precision = 1; precision <= 17; precision++) {
        size = snprintf(out, 32, "%.*g", precision, value);
        if (strtod(out, NULL) == value)
            break;
    }
    weir__leave_c_locale(kept);
    if (!strpbrk(out, ".e")) {
        memcpy(out + size, ".0", 3);
        size += 2;
    }
    return (size_t)size;
}

void weir_json_double(weir_json_writer *w, double value) {
    char digits[40];
    if (!isfinite(value)) {
        weir_json_null(w);
        return;
    }
    begin_item(w);
    weir__floating kept = weir__enter_floating();
    size_t size = format_double(digits, value);
    weir__leave_floating(&kept);
    put(w, digits, size);
}

void weir_json_bool(weir_json_writer *w, bool value) {
    begin_item(w);
    put(w, value ? "true" : "false", value ? 4 : 5);
}

void weir_json_null(weir_json_writer *w) {
    begin_item(w);
    put(w, "null", 4);
}

void weir_json_hex(weir_json_writer *w, const void *data, size_t size) {
    begin_item(w);
    put(w, "\"", 1);
    char *out = size > SIZE_MAX / 2 - 1 ? NULL : reserve(w, 2 * size);
    if (out) {
        weir__hex_encode(data, size, out);
        w->size += 2 * size;
    }
    put(w, "\"", 1);
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

void weir_json_pair_object(weir_json_writer *w, const char *key) {
    weir_json_key(w, key);
    weir_json_object(w);
}

void weir_json_pair_array(weir_json_writer *w, const char *key) {
    weir_json_key(w, key);
    weir_json_array(w);
}

void weir_json_pair_text(weir_json_writer *w, const char *key, const char *text) {
    weir_json_key(w, key);
    if (text)
        weir_json_text(w, text);
    else
        weir_json_null(w);
}

void weir_json_pair_texts(weir_json_writer *w, const char *key, const char *const *texts, size_t count) {
    weir_json_pair_array(w, key);
    for (size_t i = 0; i < count; i++)
        weir_json_text(w, texts[i]);
    weir_json_end_array(w);
}

void weir_json_pair_uint(weir_json_writer *w, const char *key, uint64_t value) {
    weir_json_key(w, key);
    weir_json_uint(w, value);
}

void weir_json_pair_bool(weir_json_writer *w, const char *key, bool value) {
    weir_json_key(w, key);
    weir_json_bool(w, value);
}

void weir_json_pair_double(weir_json_writer *w, const char *key, double value) {
    weir_json_key(w, key);
    weir_json_double(w, value);
}

void weir_json_pair_hex(weir_json_writer *w, const char *key, const void *data, size_t size) {
    weir_json_key(w, key);
    weir_json_hex(w, data, size);
}

/* ---- Values of CBOR --------------------------------------------------------------------------- */

static void write_tagged_hex(weir_json_writer *w, const char *key, const void *data, size_t size) {
    weir_json_object(w);
    weir_json_pair_hex(w, key, data, size);
    weir_json_end_object(w);
}

static void write_float(weir_json_writer *w, const weir_cbor_value *value) {
    uint8_t bits[8];
    weir__store64be(bits, value->number);
    if (isfinite(value->real))
        weir_json_double(w, value->real);
    else
        write_tagged_hex(w, "float", bits, sizeof bits);
}

static void write_container(weir_json_writer *w, const weir_cbor_value *value) {
    weir_cbor_iterator it = weir_cbor_children(value);
    weir_cbor_value key, child;
    bool is_map = value->type == WEIR_CBOR_MAP;
    open_level(w, is_map ? "{" : "[");
    while (w->status == WEIR_OK && weir_cbor_next(&it, &key, &child)) {
        if (is_map)
            weir_json_key_n(w, (const char *)key.data, (size_t)key.number);
        weir_json_value(w, &child);
    }
    close_level(w, is_map ? "}" : "]");
}

void weir_json_value(weir_json_writer *w, const weir_cbor_value *value) {
    switch (value->type) {
    case WEIR_CBOR_UINT:
        weir_json_uint(w, value->number);
        break;
    case WEIR_CBOR_NEGATIVE:
        begin_item(w);
        put_negative(w, value->number);
        break;
    case WEIR_CBOR_BYTES:
        write_tagged_hex(w, "bytes", value->data, (size_t)value->number);
        break;
    case WEIR_CBOR_TEXT:
        weir_json_text_n(w, (const char *)value->data, (size_t)value->number);
        break;
    case WEIR_CBOR_ARRAY:
    case WEIR_CBOR_MAP:
        write_container(w, value);
        break;
    case WEIR_CBOR_BOOL:
        weir_json_bool(w, value->number != 0);
        break;
    case WEIR_CBOR_NULL:
        weir_json_null(w);
        break;
    case WEIR_CBOR_FLOAT:
        write_float(w, value);
        break;
    }
}

weir_status weir_json_finish(weir_json_writer *w, weir_error *error) {
    if (w->status == WEIR_OK && (w->depth != 0 || w->after_key))
        w->status = WEIR_CONTRACT_VIOLATION;
    if (w->status == WEIR_OK && !w->data)
        put(w, "", 0);
    if (w->status == WEIR_OUT_OF_MEMORY)
        return weir__out_of_memory(error, operator_name, w->size);
    if (w->status != WEIR_OK)
        return weir__fail(error, w->status, operator_name,
                          "objects and arrays are not balanced or nest too deep");
    return WEIR_OK;
}

weir_status weir_json_give(weir_json_writer *w, weir_bytes *out, weir_error *error) {
    weir_status status = weir_json_finish(w, error);
    if (status != WEIR_OK)
        weir_json_release(w);
    *out = status == WEIR_OK ? (weir_bytes){w->data, w->size, w->env} : (weir_bytes){0};
    return status;
}

void weir_json_release(weir_json_writer *w) {
    if (w->env)
        weir__release(w->env, w->data);
    w->data = NULL;
    w->size = w->capacity = 0;
}

/* ---- Lines for people ------------------------------------------------------------------------ */

/* The length of the text's string at `at`, quotes included. */
static size_t string_size(const char *at) {
    size_t size = 1;
    while (at[size] != '"')
        size += at[size] == '\\' ? 2 : 1;
    return size + 1;
}

/* The length of the object or array at `at`; whether an object stands inside it. */
static size_t container_size(const char *at, bool *has_object) {
    size_t size = 0;
    int depth = 0;
    *has_object = false;
    do {
        if (at[size] == '"') {
            size += string_size(at + size);
            continue;
        }
        depth += at[size] == '{' || at[size] == '[' ? 1 : at[size] == '}' || at[size] == ']' ? -1 : 0;
        *has_object = *has_object || (at[size] == '{' && size > 0);
        size++;
    } while (depth > 0);
    return size;
}

static void break_line(weir_json_writer *out, unsigned level) {
    put(out, "\n", 1);
    for (unsigned i = 0; i < level; i++)
        put(out, "  ", 2);
}

weir_status weir_json_indent(weir_bytes *text, unsigned depth, weir_error *error) {
    weir_json_writer out;
    weir_bytes made;
    unsigned level = 0;
    weir_json_writer_memory(&out, text->env);
    for (const char *at = text->data; *at && out.status == WEIR_OK;) {
        bool opens = *at == '{' || *at == '[', has_object = false;
        size_t whole = opens ? container_size(at, &has_object) : 0;
        bool stays = opens && (whole == 2 || level >= depth || (*at == '[' && !has_object));
        if (*at == '"' || stays) {
            size_t size = stays ? whole : string_size(at);
            put(&out, at, size);
            at += size;
        } else if (opens) {
            put(&out, at++, 1);
            break_line(&out, ++level);
        } else if (*at == '}' || *at == ']') {
            break_line(&out, --level);
            put(&out, at++, 1);
        } else if (*at == ',') {
            put(&out, at++, 1);
            break_line(&out, level);
            at += *at == ' ' ? 1 : 0;
        } else {
            put(&out, at++, 1);
        }
    }
    put(&out, "\n", 1);
    WEIR__TRY(weir_json_give(&out, &made, error));
    weir_bytes_release(text);
    *text = made;
    return WEIR_OK;
}
