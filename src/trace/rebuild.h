/* Building recorded batches again from their stores, to compare digests. */
#ifndef WEIR_TRACE_REBUILD_H
#define WEIR_TRACE_REBUILD_H

#include "trace/replay.h"

typedef struct weir_trace__rebuilder weir_trace__rebuilder;

/* Builds as the rank that the header names. Every store must be one of the header's: CHECKPOINT_MISMATCH.
 * The manifest, the header and the stores must outlive it. */
WEIR_CHECKED weir_status weir_trace__rebuilder_open(const weir_env *env, const weir_manifest *manifest,
                                                    const weir_trace_info *header, weir_store *const *stores,
                                                    size_t store_count, weir_trace__rebuilder **out,
                                                    weir_error *error);
void weir_trace__rebuilder_close(weir_trace__rebuilder *rebuilder);

/* Builds a recorded iter's batch and compares its digests: REPLAY_DIVERGENCE. *is_checked is false if no
 * store has its dataset. */
WEIR_CHECKED weir_status weir_trace__rebuilder_check(weir_trace__rebuilder *rebuilder,
                                                     const weir_trace_record *iter, bool *is_checked,
                                                     weir_error *error);

#endif
