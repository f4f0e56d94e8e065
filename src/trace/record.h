/* A trace's records as bytes, and the chain through them.
 *
 * A body is a record's canonical map without its link; "h", the link, is the least key in canonical order,
 * so that a record is its body with one more pair in front. */
#ifndef WEIR_TRACE_RECORD_H
#define WEIR_TRACE_RECORD_H

#include "base/fields.h"
#include "weir_tool/trace_tools.h"

enum { WEIR_TRACE__CONTENTS_SIZE = 16 };

/* The link of a record, over its body and the link before it, which for the header is NULL. */
void weir_trace__link(const uint8_t *previous, const void *body, size_t size, uint8_t link[WEIR_HASH_SIZE]);

/* The record of a body: the map's head with one more pair, the link, the body's pairs. */
void weir_trace__seal(weir_cbor_writer *w, const void *body, size_t size, const uint8_t link[WEIR_HASH_SIZE]);

/* And back: the body of a record's bytes, in memory from env (release it). False if there is no memory;
 * the record must have a link. */
bool weir_trace__unseal(const weir_env *env, const weir_cbor_value *record, size_t record_size,
                        uint8_t **body, size_t *size);

void weir_trace__write_header(weir_cbor_writer *w, const weir_trace_run *run);
void weir_trace__write_iter(weir_cbor_writer *w, const weir_trace_iter *iter);
void weir_trace__write_resume(weir_cbor_writer *w, const weir_trace_start *start);
void weir_trace__write_memory(weir_cbor_writer *w, const weir_trace_memory *memory);
void weir_trace__write_failure(weir_cbor_writer *w, const weir_trace_failure *failure, const void *token,
                               size_t token_size);

extern const weir__shape weir_trace__cursor_shape; /* of a weir_cursor */

/* ---- Maps, for what is compared field by field ------------------------------------------------ */

/* The header's, valid while the reader is open. */
const weir_cbor_value *weir_trace__header(const weir_trace_reader *reader);

/* A record's; that of the end of the file has no fields. */
weir_cbor_value weir_trace__map(const weir_trace_record *record);

/* A field that is there: the reader has checked it, or weir wrote it itself. */
weir_cbor_value weir_trace__get(const weir_cbor_value *map, const char *key);

/* Whether a map has a field of this type. */
bool weir_trace__has(const weir_cbor_value *map, const char *key, weir_cbor_type type);

/* The list of a step's sample digests, whose items may be anything; false if there is none. */
bool weir_trace__digests(const weir_trace_record *record, weir_cbor_value *out);

/* An integer among a map's fields; 0 if there is none. */
uint64_t weir_trace__uint(const weir_cbor_value *map, const char *key);

#endif
