/* weir_tool/documents.h: CBOR and JSON item by item. Writers and views are those of weir/cbor.h. */
#ifndef WEIR_TOOL_DOCUMENTS_H
#define WEIR_TOOL_DOCUMENTS_H

#include "weir/cbor.h"

/* ---- Writing CBOR ---------------------------------------------------------------------------- */

/* Beyond what weir/cbor.h says, a key out of order, too deep a value, and too few or too many items are
 * faults.
 *
 *   weir_cbor_map(&w, 1);
 *   weir_cbor_text(&w, "step");                 a key; its text must stay valid until the map is complete
 *   weir_cbor_uint(&w, step); */

/* Into a buffer of the caller's. */
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

/* One whole item that is canonical already (as weir_cbor_check accepts it), as the next item. */
void weir_cbor_raw(weir_cbor_writer *w, const void *data, size_t size);

/* After a whole value: makes the writer ready for the next one, after it (a CBOR sequence). */
void weir_cbor_restart(weir_cbor_writer *w);

/* ---- Reading CBOR ---------------------------------------------------------------------------- */

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

/* A checked CBOR value as JSON: bytes as {"bytes": hex}, integers in full, floats always with a point or
 * exponent, NaN and infinities as {"float": bits in hex}. */
void weir_json_value(weir_json_writer *w, const weir_cbor_value *value);

/* After weir_json_finish: breaks the text into lines for people, with a newline at its end. Members of
 * objects down to `depth` have a line each; arrays without objects, and what lies deeper, stay on one.
 * OUT_OF_MEMORY leaves it as it was. */
WEIR_CHECKED weir_status weir_json_indent(weir_json_writer *w, unsigned depth, weir_error *error);

/* An error record as canonical CBOR map. */
void weir_error_cbor(const weir_error *error, weir_cbor_writer *w);

#endif
