/* JSON as one more notation of CBOR: the text is read strictly into a flat list of nodes, in the order of the
 * text, and the list is written with sorted keys. Everything above reads one kind of document, whatever
 * notation it came in.
 *
 * Strict: RFC 8259 and nothing beyond it; UTF-8 without a byte order mark; no key twice; integers that fit 64
 * bits, signed; reals that are finite; no NUL in text; at most 64 levels. Memory is the environment's, so
 * that a test can make every piece of it fail. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/floating.h"
#include "base/internal.h"
#include "weir_tool/documents.h"

static const char operator_name[] = "weir.json.read";

enum { DEPTH_MAX = 64 };

typedef enum node_kind {
    OBJECT,
    ARRAY,
    STRING,
    INTEGER,
    REAL,
    FALSE_VALUE,
    TRUE_VALUE,
    NULL_VALUE
} node_kind;

/* A value, or a key. What an object or array holds follows it. */
typedef struct node {
    node_kind kind;
    bool is_decoded; /* the string lies in `decoded`, not in the text */
    size_t at;       /* where the value begins in the text; of a string, its bytes there or in `decoded` */
    size_t size;     /* of a string in bytes; of an object or array, its members */
    size_t end;      /* number of the node behind it and all that it holds */
    union {
        int64_t integer;
        double real;
        size_t position; /* of a string: where it begins in the text */
    };
} node;

typedef struct reader {
    const weir_env *env;
    const char *text;
    size_t size;
    size_t at;
    void *nodes;
    size_t node_count, node_capacity;
    void *decoded; /* strings that had escapes */
    size_t decoded_size, decoded_capacity;
    size_t open[DEPTH_MAX]; /* numbers of the containers that are not closed */
    size_t depth;
    const char *fault; /* what is wrong, at `at`; NULL: nothing yet */
    bool is_short_of_memory;
} reader;

static node *node_at(const reader *r, size_t number) {
    return (node *)r->nodes + number;
}

static bool refuse(reader *r, const char *fault) {
    r->fault = r->fault ? r->fault : fault;
    return false;
}

static bool refuse_memory(reader *r) {
    r->is_short_of_memory = true;
    return refuse(r, "out of memory");
}

static bool add_node(reader *r, node added) {
    if (!weir__grow(r->env, &r->nodes, &r->node_capacity, r->node_count + 1, sizeof(node)))
        return refuse_memory(r);
    added.end = r->node_count + 1;
    *node_at(r, r->node_count++) = added;
    return true;
}

static char peek(const reader *r) {
    return r->at < r->size ? r->text[r->at] : 0; /* a NUL is no part of JSON either */
}

static void skip_space(reader *r) {
    while (r->at < r->size && strchr(" \t\n\r", r->text[r->at]) && r->text[r->at])
        r->at++;
}

/* ---- Strings --------------------------------------------------------------------------------- */

static bool put_decoded(reader *r, const char *bytes, size_t size) {
    if (size == 0)
        return true; /* there may be no memory yet, and nothing is added to no place */
    if (!weir__grow(r->env, &r->decoded, &r->decoded_capacity, r->decoded_size + size, 1))
        return refuse_memory(r);
    memcpy((char *)r->decoded + r->decoded_size, bytes, size);
    r->decoded_size += size;
    return true;
}

/* The four hex digits of an escape, behind the 'u'. */
static bool read_unit(reader *r, uint32_t *out) {
    uint8_t bytes[2];
    if (r->size - r->at < 4 || !weir__hex_decode(r->text + r->at, 4, bytes, 2))
        return refuse(r, "an escape that is not \\u and four hex digits");
    *out = bytes[0] * 256u + bytes[1];
    r->at += 4;
    return true;
}

static bool put_character(reader *r, uint32_t code) {
    char bytes[4];
    size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = size; i-- > 1; code >>= 6)
        bytes[i] = (char)(0x80 | (code & 0x3F));
    bytes[0] = (char)(size == 1 ? code : leads[size] | code);
    return put_decoded(r, bytes, size);
}

static bool read_unicode_escape(reader *r) {
    uint32_t code, low;
    if (!read_unit(r, &code))
        return false;
    if (code == 0)
        return refuse(r, "\\u0000 in a text");
    if (code >= 0xDC00 && code < 0xE000)
        return refuse(r, "half of a surrogate pair");
    if (code < 0xD800 || code >= 0xE000)
        return put_character(r, code);
    if (r->size - r->at < 2 || r->text[r->at] != '\\' || r->text[r->at + 1] != 'u')
        return refuse(r, "half of a surrogate pair");
    r->at += 2;
    if (!read_unit(r, &low))
        return false;
    if (low < 0xDC00 || low >= 0xE000)
        return refuse(r, "half of a surrogate pair");
    return put_character(r, 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00));
}

/* Behind the backslash. */
static bool read_escape(reader *r) {
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    char name = peek(r);
    const char *found = name ? strchr(names, name) : NULL;
    if (name == 'u') {
        r->at++;
        return read_unicode_escape(r);
    }
    if (!found)
        return refuse(r, "an escape that JSON does not have");
    r->at++;
    return put_decoded(r, &meanings[found - names], 1);
}

/* Up to the next quote or escape. */
static bool skip_plain(reader *r) {
    while (r->at < r->size && r->text[r->at] != '"' && r->text[r->at] != '\\') {
        uint8_t byte = WEIR__LOW(uint8_t, r->text[r->at]);
        size_t length =
            byte < 0x80 ? 1 : weir__utf8_sequence((const uint8_t *)r->text + r->at, r->size - r->at);
        if (byte < 0x20)
            return refuse(r, "a control character in a text; write it as an escape");
        if (length == 0)
            return refuse(r, "bytes that are not UTF-8");
        r->at += length;
    }
    return r->at < r->size || refuse(r, "the end of the document inside a text");
}

static bool read_string(reader *r) {
    node string = {.kind = STRING, .at = r->at + 1, .position = r->at};
    r->at++; /* the quote */
    if (!skip_plain(r))
        return false;
    string.size = r->at - string.at;
    if (r->text[r->at] == '\\') {
        size_t begin = r->decoded_size;
        if (!put_decoded(r, r->text + string.at, string.size))
            return false;
        while (r->text[r->at] == '\\') {
            r->at++;
            if (!read_escape(r))
                return false;
            size_t plain = r->at;
            if (!skip_plain(r) || !put_decoded(r, r->text + plain, r->at - plain))
                return false;
        }
        string.is_decoded = true;
        string.at = begin;
        string.size = r->decoded_size - begin;
    }
    r->at++; /* the other quote */
    return add_node(r, string);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static size_t skip_digits(reader *r) {
    size_t begin = r->at;
    while (peek(r) >= '0' && peek(r) <= '9')
        r->at++;
    return r->at - begin;
}

static bool read_integer(reader *r, size_t begin, node *number) {
    bool is_negative = r->text[begin] == '-';
    uint64_t value;
    size_t digits = begin + is_negative;
    if (!weir__decimal_parse(r->text + digits, r->at - digits, &value) ||
        value > (uint64_t)INT64_MAX + is_negative) {
        r->at = begin;
        return refuse(r, "an integer beyond 64 bits; write it as a text");
    }
    number->integer = is_negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

/* strtod wants a terminated copy; long ones are rare. */
static bool read_real(reader *r, size_t begin, node *number) {
    char near[64];
    size_t size = r->at - begin;
    char *copy = size < sizeof near ? near : weir__allocate(r->env, size + 1, 1);
    if (!copy)
        return refuse_memory(r);
    memcpy(copy, r->text + begin, size);
    copy[size] = 0;
    number->real = strtod(copy, NULL);
    if (copy != near)
        weir__release(r->env, copy);
    if (number->real - number->real == 0)
        return true;
    r->at = begin;
    return refuse(r, "a number beyond the range of 64-bit floats");
}

static bool read_number(reader *r) {
    node number = {.kind = INTEGER, .at = r->at};
    if (peek(r) == '-')
        r->at++;
    if (peek(r) == '0')
        r->at++;
    else if (skip_digits(r) == 0)
        return refuse(r, "a number without digits");
    if (peek(r) == '.') {
        number.kind = REAL;
        r->at++;
        if (skip_digits(r) == 0)
            return refuse(r, "a number without digits behind its point");
    }
    if (peek(r) == 'e' || peek(r) == 'E') {
        number.kind = REAL;
        r->at++;
        if (peek(r) == '+' || peek(r) == '-')
            r->at++;
        if (skip_digits(r) == 0)
            return refuse(r, "a number without digits in its exponent");
    }
    bool is_read =
        number.kind == REAL ? read_real(r, number.at, &number) : read_integer(r, number.at, &number);
    return is_read && add_node(r, number);
}

/* ---- Values ---------------------------------------------------------------------------------- */

static bool read_word(reader *r) {
    static const struct {
        const char *word;
        node_kind kind;
    } words[] = {{"true", TRUE_VALUE}, {"false", FALSE_VALUE}, {"null", NULL_VALUE}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t size = strlen(words[i].word);
        if (r->size - r->at >= size && memcmp(r->text + r->at, words[i].word, size) == 0) {
            node found = {.kind = words[i].kind, .at = r->at};
            r->at += size;
            return add_node(r, found);
        }
    }
    return refuse(r, r->at == r->size ? "the end of the document where a value should be"
                                      : "neither a value nor what may follow one");
}

static bool open_container(reader *r, node_kind kind) {
    if (r->depth == DEPTH_MAX)
        return refuse(r, "more than 64 levels");
    r->open[r->depth++] = r->node_count;
    node container = {.kind = kind, .at = r->at};
    r->at++;
    return add_node(r, container);
}

/* A scalar, or the beginning of an object or array. */
static bool begin_value(reader *r) {
    skip_space(r);
    switch (peek(r)) {
    case '{':
        return open_container(r, OBJECT);
    case '[':
        return open_container(r, ARRAY);
    case '"':
        return read_string(r);
    case '-':
    case '0' ... '9':
        return read_number(r);
    default:
        return read_word(r);
    }
}

static bool read_key(reader *r) {
    skip_space(r);
    if (peek(r) != '"')
        return refuse(r, "no text where a key should be");
    if (!read_string(r))
        return false;
    skip_space(r);
    if (peek(r) != ':')
        return refuse(r, "no colon behind a key");
    r->at++;
    return true;
}

/* The next member of the innermost container: its value is begun, or the container closed. */
static bool read_member(reader *r) {
    size_t number = r->open[r->depth - 1];
    bool is_object = node_at(r, number)->kind == OBJECT;
    bool is_first = node_at(r, number)->size == 0;
    skip_space(r);
    if (peek(r) == (is_object ? '}' : ']')) {
        node_at(r, r->open[--r->depth])->end = r->node_count;
        r->at++;
        return true;
    }
    if (!is_first) {
        if (peek(r) != ',')
            return refuse(r, "neither a comma nor the end of an object or array");
        r->at++;
        skip_space(r);
    }
    node_at(r, number)->size++;
    return (!is_object || read_key(r)) && begin_value(r);
}

/* ---- Writing --------------------------------------------------------------------------------- */

typedef struct text_key {
    const char *data;
    size_t size;
    size_t number; /* of its node */
} text_key;

static const char *string_of(const reader *r, const node *string) {
    return (string->is_decoded ? (const char *)r->decoded : r->text) + string->at;
}

static int compare_keys(const void *a, const void *b) {
    const text_key *left = a, *right = b;
    int order = weir__key_compare(left->data, left->size, right->data, right->size);
    return order ? order : left->number < right->number ? -1 : 1;
}

static void write_value(reader *r, size_t number, weir_cbor_writer *w);

static void write_object(reader *r, size_t number, weir_cbor_writer *w) {
    size_t count = node_at(r, number)->size;
    weir_cbor_map(w, count);
    if (w->status != WEIR_OK || count == 0)
        return;
    text_key *keys = weir__allocate(r->env, count, sizeof *keys);
    if (!keys) {
        (void)refuse_memory(r);
        return;
    }
    size_t at = number + 1;
    for (size_t i = 0; i < count; i++, at = node_at(r, at + 1)->end)
        keys[i] = (text_key){string_of(r, node_at(r, at)), node_at(r, at)->size, at};
    qsort(keys, count, sizeof *keys, compare_keys);
    for (size_t i = 0; i < count && w->status == WEIR_OK && !r->fault; i++) {
        if (i > 0 && weir__key_compare(keys[i].data, keys[i].size, keys[i - 1].data, keys[i - 1].size) == 0) {
            r->at = node_at(r, keys[i].number)->position;
            (void)refuse(r, "a key that the object has already");
            break;
        }
        weir_cbor_text_n(w, keys[i].data, keys[i].size);
        write_value(r, keys[i].number + 1, w);
    }
    weir__release(r->env, keys);
}

/* Recursion ends at 64 levels. */
static void write_value(reader *r, size_t number, weir_cbor_writer *w) {
    const node *value = node_at(r, number);
    switch (value->kind) {
    case OBJECT:
        write_object(r, number, w);
        break;
    case ARRAY:
        weir_cbor_array(w, value->size);
        for (size_t at = number + 1; at < value->end && w->status == WEIR_OK && !r->fault;
             at = node_at(r, at)->end)
            write_value(r, at, w);
        break;
    case STRING:
        weir_cbor_text_n(w, string_of(r, value), value->size);
        break;
    case INTEGER:
        weir_cbor_int(w, value->integer);
        break;
    case REAL:
        weir_cbor_double(w, value->real);
        break;
    case FALSE_VALUE:
    case TRUE_VALUE:
        weir_cbor_bool(w, value->kind == TRUE_VALUE);
        break;
    case NULL_VALUE:
        weir_cbor_null(w);
        break;
    }
}

/* ---- From beginning to end ------------------------------------------------------------------- */

static weir_status report_fault(const reader *r, const char *name, weir_status family, weir_error *error) {
    uint64_t line = 1, column = 1;
    if (r->is_short_of_memory)
        return weir__fail(error, WEIR_OUT_OF_MEMORY, operator_name, "no memory to read %s", name);
    for (size_t i = 0; i < r->at && i < r->size; i++) {
        bool is_continuation = (r->text[i] & 0xC0) == 0x80;
        line += r->text[i] == '\n';
        column = r->text[i] == '\n' ? 1 : column + !is_continuation;
    }
    weir_status status = weir__fail(error, family, operator_name, "%s:%llu:%llu: not valid JSON: %s", name,
                                    (unsigned long long)line, (unsigned long long)column, r->fault);
    weir__note_uint(error, "line", line);
    weir__note_uint(error, "column", column);
    return weir__explain_format(status, r->text, r->size, name, "JSON", error);
}

static __attribute__((noinline)) weir_status read_text(reader *r, const char *name, weir_status family,
                                                       weir_cbor_writer *w, weir_error *error) {
    bool is_sound = begin_value(r);
    while (is_sound && r->depth > 0)
        is_sound = read_member(r);
    skip_space(r);
    if (is_sound && (r->at == r->size || refuse(r, "more text behind the document")))
        write_value(r, 0, w);
    if (r->fault)
        return report_fault(r, name, family, error);
    if (w->status == WEIR_OK)
        return WEIR_OK;
    weir_status status = w->status == WEIR_OUT_OF_MEMORY ? WEIR_OUT_OF_MEMORY : family;
    return weir__fail(error, status, operator_name, "%s: %s", name, w->fault);
}

weir_status weir_json_read(const char *text, size_t size, const char *name, weir_status family,
                           weir_cbor_writer *w, weir_error *error) {
    reader r = {.env = weir__env_or_default(w->env), .text = text ? text : "", .size = size};
    locale_t locale = weir__enter_c_locale();
    weir__floating floating = weir__enter_floating();
    weir_status status = read_text(&r, name, family, w, error);
    weir__leave_floating(&floating);
    weir__leave_c_locale(locale);
    weir__release(r.env, r.nodes);
    weir__release(r.env, r.decoded);
    return status;
}
