/* Re-executing recorded steps: samplers by dataset and stage, kept open across a trace. */
#ifndef WEIR_TRACE_REPLAY_H
#define WEIR_TRACE_REPLAY_H

#include "trace/judge.h"
#include "trace/record.h"

typedef struct weir_trace__replayer weir_trace__replayer;

/* Stores to read classes and weights from, and to build batches again. */
typedef struct weir_trace__replay_stores {
    weir_store *const *list;
    size_t count;
} weir_trace__replay_stores;

/* Every store must be one of the header's: CHECKPOINT_MISMATCH. */
WEIR_CHECKED weir_status weir_trace__replay_check_stores(const weir_trace_info *header,
                                                         weir_trace__replay_stores stores, weir_error *error);

/* Re-executes steps of `manifest` as one rank of a world. All that is given must outlive it. `header` is of
 * the trace that the steps are recorded in. */
WEIR_CHECKED weir_status weir_trace__replayer_open(const weir_env *env, const weir_manifest *manifest,
                                                   const weir_trace_info *header,
                                                   weir_trace__replay_stores stores, uint32_t world_size,
                                                   uint32_t rank, weir_trace__replayer **out,
                                                   weir_error *error);
void weir_trace__replayer_close(weir_trace__replayer *replayer);

/* The step that a recorded iter says it is, and the sampler that makes its indices. They are not made here: a
 * trace of a few bytes may say that they are any number. */
WEIR_CHECKED weir_status weir_trace__replayer_step(weir_trace__replayer *replayer,
                                                   const weir_trace_record *iter, weir_step *step,
                                                   weir_sampler **sampler, weir_error *error);

/* Re-executes a recorded iter and compares all that can be, also indices that were recorded:
 * REPLAY_DIVERGENCE. Digests of built batches are taken from the record. */
WEIR_CHECKED weir_status weir_trace__replayer_check(weir_trace__replayer *replayer,
                                                    const weir_trace_record *iter, weir_step *step,
                                                    weir_sampler **sampler, weir_error *error);

/* Whether a step at a place fails as a recorded failure says, if that follows from the cursor alone:
 * REPLAY_DIVERGENCE if not. */
WEIR_CHECKED weir_status weir_trace__replayer_check_failure(weir_trace__replayer *replayer,
                                                            const weir_trace_record *failure,
                                                            const weir_trace__place_of_step *place,
                                                            weir_error *error);

/* REPLAY_DIVERGENCE at a step, with both values, the rank of the trace that the header is of, and the
 * record's token (without a record, or if it has none: none). */
weir_status weir_trace__divergence(weir_error *error, const weir_trace_info *header,
                                   const weir_trace_record *record, uint64_t t, const char *field,
                                   const char *recorded, const char *replayed);

#endif
