/* What a run_end says of the steps before it: where each dataset stands, and how many samples were seen. Kept
 * by the writer as it records, and by whoever judges a trace, to compare. */
#ifndef WEIR_TRACE_TALLY_H
#define WEIR_TRACE_TALLY_H

#include "base/internal.h"
#include "weir/trace.h"

typedef struct weir_trace__tally_end {
    char *key;
    weir_cursor cursor;
} weir_trace__tally_end;

typedef struct weir_trace__tally {
    weir_trace__tally_end *ends; /* in the order of CBOR keys */
    size_t count;
    size_t capacity;
    uint64_t samples; /* stays at 2^64-1 once it is there */
} weir_trace__tally;

/* Counts a step. False if memory is short. */
bool weir_trace__tally_step(weir_trace__tally *tally, const weir_env *env, weir_text key,
                            weir_cursor cursor_after, uint64_t samples);
void weir_trace__tally_release(weir_trace__tally *tally, const weir_env *env);

/* The body of a run_end: `status` "success", "failed", or NULL as old traces have it. */
void weir_trace__tally_write_end(const weir_trace__tally *tally, const uint8_t trace_hash[WEIR_HASH_SIZE],
                                 const char *status, weir_cbor_writer *w);

#endif
