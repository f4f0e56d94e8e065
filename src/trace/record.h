/* A trace's records as bytes, and the chain through them.
 *
 * A body is a record's canonical map without its link; "h", the link, is the least key in canonical order,
 * so that a record is its body with one more pair in front. */
#ifndef WEIR_TRACE_RECORD_H
#define WEIR_TRACE_RECORD_H

#include "base/fields.h"
#include "weir/trace.h"

enum { WEIR_TRACE__CONTENTS_SIZE = 16 };

/* The link of the header, and of any later record, over its body. */
void weir_trace__link_header(const void *body, size_t size, uint8_t link[WEIR_HASH_SIZE]);
void weir_trace__link(const uint8_t previous[WEIR_HASH_SIZE], const void *body, size_t size,
                      uint8_t link[WEIR_HASH_SIZE]);

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

/* ---- Members --------------------------------------------------------------------------------- */

/* Whether a header is that of a run whose steps came in no fixed order. */
bool weir_trace__is_best_effort(const weir_cbor_value *header);

/* Typed members of a record that was checked by the reader. */
uint64_t weir_trace__uint(const weir_cbor_value *map, const char *key);
weir_cursor weir_trace__cursor(const weir_cbor_value *map, const char *key);

/* The stage that a step was taken in. Eval and infer take the same samples, so eval stands for both. */
weir_stage weir_trace__stage(const weir_cbor_value *iter);

#endif
