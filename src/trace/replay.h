/* Re-executing recorded steps: samplers by dataset and stage, kept open across a trace. */
#ifndef WEIR_SRC_TRACE_REPLAY_H
#define WEIR_SRC_TRACE_REPLAY_H

#include "trace/record.h"

typedef struct weir__replayer weir__replayer;

/* Re-executes steps of `manifest` as one rank of a world. The manifest and the token must outlive it. */
WEIR_CHECKED weir_status weir__replayer_open(const weir_env *env, const weir_manifest *manifest,
                                             const void *token, size_t token_size, uint32_t world_size,
                                             uint32_t rank, weir__replayer **out, weir_error *error);
void weir__replayer_close(weir__replayer *replayer);

/* The step that a recorded iter says it is; `indices` (valid until the next call) are its samples. */
WEIR_CHECKED weir_status weir__replayer_step(weir__replayer *replayer, const weir_cbor_value *iter,
                                             weir_step *step, const uint64_t **indices, weir_error *error);

/* Re-executes a recorded iter and compares all that can be: REPLAY_DIVERGENCE. Digests of built batches are
 * taken from the record. */
WEIR_CHECKED weir_status weir__replayer_check(weir__replayer *replayer, const weir_cbor_value *iter,
                                              weir_step *step, const uint64_t **indices, weir_error *error);

/* REPLAY_DIVERGENCE at a step, with both values. */
weir_status weir__divergence(weir_error *error, uint64_t t, const char *field, const char *recorded,
                             const char *replayed);

#endif
