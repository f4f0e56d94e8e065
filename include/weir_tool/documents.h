/* weir_tool/documents.h: canonical CBOR, the form in which everything is hashed, traced and checkpointed, and
 * JSON, the form in which people write it.
 *
 * The profile (docs/encoding.md): shortest integers and lengths, definite lengths, text keys sorted by
 * their encoded bytes and unique, binary64 floats with one NaN, valid UTF-8, -2^64 … 2^64-1,
 * false/true/null, no tags, 64 levels at most. The writer can write nothing else and the reader accepts
 * nothing else, so a value has exactly one encoding. */
#ifndef WEIR_TOOL_DOCUMENTS_H
#define WEIR_TOOL_DOCUMENTS_H

#include "weir/base.h"

enum { WEIR_CBOR_DEPTH_MAX = 64 };

/* ---- Writing CBOR ---------------------------------------------------------------------------- */

/* A streaming writer. The first fault (no memory, text that is not UTF-8, a key out of order, too deep a
 * value, too few or too many items) sticks; later calls do nothing; weir_cbor_finish reports it. So a
 * sequence of calls needs one check:
 *
 *   weir_cbor_writer w;
 *   weir_cbor_writer_memory(&w, env);
 *   weir_cbor_map(&w, 1);
 *   weir_cbor_text(&w, "step");                 a key; its text must stay valid until the map is complete
 *   weir_cbor_uint(&w, step);
 *   status = weir_cbor_finish(&w, error);       then w.data, w.size
 *   weir_cbor_release(&w); */
typedef struct weir_cbor_level {
    uint64_t remaining; /* items still to come, keys and values counted each */
    const char *key;    /* the last key of a map */
    size_t key_size;
    bool is_map;
} weir_cbor_level;

typedef struct weir_cbor_writer {
    uint8_t *data;
    size_t size;
    size_t capacity;
    const weir_env *env;      /* where memory grows, NULL in a fixed buffer */
    struct weir__sha256 *sha; /* internal: bytes go there instead */
    const char *fault;        /* static text, NULL while all is well */
    weir_status status;
    uint32_t depth;
    weir_cbor_level levels[WEIR_CBOR_DEPTH_MAX + 1];
} weir_cbor_writer;

/* Into memory that grows (release it), or into a buffer of the caller's. */
void weir_cbor_writer_memory(weir_cbor_writer *w, const weir_env *env);
void weir_cbor_writer_fixed(weir_cbor_writer *w, void *buffer, size_t capacity);

void weir_cbor_uint(weir_cbor_writer *w, uint64_t value);
void weir_cbor_int(weir_cbor_writer *w, int64_t value);
void weir_cbor_negative(weir_cbor_writer *w, uint64_t n); /* the integer -1 - n */
void weir_cbor_bytes(weir_cbor_writer *w, const void *data, size_t size);
void weir_cbor_text(weir_cbor_writer *w, const char *text);
void weir_cbor_text_n(weir_cbor_writer *w, const char *text, size_t size);
void weir_cbor_double(weir_cbor_writer *w, double value);
void weir_cbor_bool(weir_cbor_writer *w, bool value);
void weir_cbor_null(weir_cbor_writer *w);
void weir_cbor_array(weir_cbor_writer *w, uint64_t count);
void weir_cbor_map(weir_cbor_writer *w, uint64_t pairs);

/* A pair of a map: a key and its value at once. */
static inline void weir_cbor_pair_uint(weir_cbor_writer *w, const char *key, uint64_t value) {
    weir_cbor_text(w, key);
    weir_cbor_uint(w, value);
}
static inline void weir_cbor_pair_text(weir_cbor_writer *w, const char *key, const char *text) {
    weir_cbor_text(w, key);
    weir_cbor_text(w, text);
}
static inline void weir_cbor_pair_bool(weir_cbor_writer *w, const char *key, bool value) {
    weir_cbor_text(w, key);
    weir_cbor_bool(w, value);
}
static inline void weir_cbor_pair_bytes(weir_cbor_writer *w, const char *key, const void *data, size_t size) {
    weir_cbor_text(w, key);
    weir_cbor_bytes(w, data, size);
}

/* One whole item that is canonical already (as weir_cbor_check accepts it), as the next item. */
void weir_cbor_raw(weir_cbor_writer *w, const void *data, size_t size);

/* After a whole value: makes the writer ready for the next one, after it (a CBOR sequence). */
void weir_cbor_restart(weir_cbor_writer *w);

/* CBOR_INVALID if the items do not make exactly one value (or, after weir_cbor_restart, a sequence of
 * whole values), OUT_OF_MEMORY. */
WEIR_CHECKED weir_status weir_cbor_finish(weir_cbor_writer *w, weir_error *error);

/* Finishes a memory writer and gives its bytes away: to the caller, or, after a failure, back. */
WEIR_CHECKED weir_status weir_cbor_give(weir_cbor_writer *w, weir_bytes *out, weir_error *error);

/* Frees a memory writer's bytes; harmless for the others. */
void weir_cbor_release(weir_cbor_writer *w);

/* ---- Reading CBOR ---------------------------------------------------------------------------- */

typedef enum weir_cbor_type {
    WEIR_CBOR_UINT,
    WEIR_CBOR_NEGATIVE, /* the integer -1 - number */
    WEIR_CBOR_BYTES,
    WEIR_CBOR_TEXT,
    WEIR_CBOR_ARRAY,
    WEIR_CBOR_MAP,
    WEIR_CBOR_BOOL,
    WEIR_CBOR_NULL,
    WEIR_CBOR_FLOAT,
} weir_cbor_type;

/* A view of one item inside checked bytes, which it borrows. */
typedef struct weir_cbor_value {
    weir_cbor_type type;
    uint64_t number;     /* the integer; 0 or 1; the size of bytes or text; the count of items or pairs */
    double real;         /* of a float */
    const uint8_t *data; /* bytes or text (not terminated); the first child of an array or map */
    const uint8_t *item; /* where the item itself begins */
} weir_cbor_value;

/* Checks that data[0, size) is exactly one item of the profile; with `item_size` given, that it begins with
 * one, whose size is returned. CBOR_INVALID, with diagnostics offset (the first byte of the offending item)
 * and what is wrong. */
WEIR_CHECKED weir_status weir_cbor_check(const void *data, size_t size, size_t *item_size, weir_error *error);

/* Views into bytes that weir_cbor_check accepted: none of these can fail. */
weir_cbor_value weir_cbor_view(const void *item);
const uint8_t *weir_cbor_skip(const uint8_t *item); /* the byte after the item */

/* Walks the children of an array (key is left alone and may be NULL) or a map:
 *
 *   weir_cbor_iterator it = weir_cbor_children(&value);
 *   while (weir_cbor_next(&it, &key, &child)) … */
typedef struct weir_cbor_iterator {
    const uint8_t *next;
    uint64_t remaining;
    bool is_map;
} weir_cbor_iterator;
weir_cbor_iterator weir_cbor_children(const weir_cbor_value *container);
bool weir_cbor_next(weir_cbor_iterator *it, weir_cbor_value *key, weir_cbor_value *child);

/* The value of a map's key; false if the value is not a map or has no such key. */
bool weir_cbor_get(const weir_cbor_value *map, const char *key, weir_cbor_value *out);

/* Whether a value is this text. */
bool weir_cbor_is_text(const weir_cbor_value *value, const char *text);

/* An integer from 0 to 2^64-1, given as such or as a text of ASCII digits without leading zeros; false for
 * all else. */
bool weir_cbor_get_uint(const weir_cbor_value *value, uint64_t *out);

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Reads strict JSON text (no duplicate keys, no NUL in strings) and writes it as one CBOR value, with map
 * keys sorted. What is refused is `family` (MANIFEST_INVALID, INVALID_IR, SCHEMA_INVALID, CBOR_INVALID)
 * with line and column; `name` is what the message calls the text, such as its path. */
WEIR_CHECKED weir_status weir_json_read(const char *text, size_t size, const char *name, weir_status family,
                                        weir_cbor_writer *w, weir_error *error);

/* A streaming JSON writer: the caller nests begin and end, the writer sets commas. Like the CBOR writer, a
 * fault (memory, depth) sticks. Text is escaped; bytes that are not UTF-8 become U+FFFD. Any number that is
 * not finite becomes null. */
typedef struct weir_json_writer {
    char *data;
    size_t size;
    size_t capacity;
    const weir_env *env;
    weir_status status;
    uint32_t depth;
    bool after_key;
    bool has_items[WEIR_CBOR_DEPTH_MAX + 8];
} weir_json_writer;

void weir_json_writer_memory(weir_json_writer *w, const weir_env *env);

/* OUT_OF_MEMORY or CONTRACT_VIOLATION (unbalanced). Then w->data, w->size (a NUL follows). */
WEIR_CHECKED weir_status weir_json_finish(weir_json_writer *w, weir_error *error);

/* Finishes the writer and gives its text away: to the caller, or, after a failure, back. */
WEIR_CHECKED weir_status weir_json_give(weir_json_writer *w, weir_bytes *out, weir_error *error);
void weir_json_release(weir_json_writer *w);

void weir_json_object(weir_json_writer *w);
void weir_json_array(weir_json_writer *w);
void weir_json_end_object(weir_json_writer *w);
void weir_json_end_array(weir_json_writer *w);
void weir_json_key(weir_json_writer *w, const char *key);
void weir_json_key_n(weir_json_writer *w, const char *key, size_t size);
void weir_json_uint(weir_json_writer *w, uint64_t value);
void weir_json_int(weir_json_writer *w, int64_t value);
void weir_json_double(weir_json_writer *w, double value); /* shortest form that reads back exactly */
void weir_json_bool(weir_json_writer *w, bool value);
void weir_json_null(weir_json_writer *w);
void weir_json_text(weir_json_writer *w, const char *text);
void weir_json_text_n(weir_json_writer *w, const char *text, size_t size);
void weir_json_hex(weir_json_writer *w, const void *data, size_t size); /* as lower-case hex text */
void weir_json_uint_text(weir_json_writer *w, uint64_t value);          /* as a decimal string */

/* A key and its value at once; a text of NULL is null. An object or array is ended by the caller. */
void weir_json_pair_object(weir_json_writer *w, const char *key);
void weir_json_pair_array(weir_json_writer *w, const char *key);
void weir_json_pair_text(weir_json_writer *w, const char *key, const char *text);
void weir_json_pair_texts(weir_json_writer *w, const char *key, const char *const *texts, size_t count);
void weir_json_pair_uint(weir_json_writer *w, const char *key, uint64_t value);
void weir_json_pair_bool(weir_json_writer *w, const char *key, bool value);
void weir_json_pair_double(weir_json_writer *w, const char *key, double value);
void weir_json_pair_hex(weir_json_writer *w, const char *key, const void *data, size_t size);

/* A checked CBOR value as JSON: bytes as {"bytes": hex}, integers in full, floats always with a point or
 * exponent, NaN and infinities as {"float": bits in hex}. */
void weir_json_value(weir_json_writer *w, const weir_cbor_value *value);

/* Breaks the text that a JSON writer wrote into lines for people, with a newline at its end. Members of
 * objects down to `depth` have a line each; arrays without objects, and what lies deeper, stay on one.
 * OUT_OF_MEMORY leaves it as it was. */
WEIR_CHECKED weir_status weir_json_indent(weir_bytes *text, unsigned depth, weir_error *error);

/* An error record as canonical CBOR map, and as JSON object. */
void weir_error_cbor(const weir_error *error, weir_cbor_writer *w);
void weir_error_json(const weir_error *error, weir_json_writer *w);

#endif
