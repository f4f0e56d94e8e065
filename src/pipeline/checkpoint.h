/* weir_checkpoint_v2: a run's state and identity as one sealed map (docs/pipeline.md). */
#ifndef WEIR_PIPELINE_CHECKPOINT_H
#define WEIR_PIPELINE_CHECKPOINT_H

#include "pipeline/schedule.h"

#define WEIR_PIPELINE__CHECKPOINT_VERSION   "weir_checkpoint_v2"
#define WEIR_PIPELINE__CHECKPOINT_VERSION_1 "weir_checkpoint_v1" /* the same, not sealed: still read */

/* Where a run stands. */
typedef struct weir_pipeline__run_state {
    uint64_t step;
    const weir_prefetch *prefetch; /* NULL: its state is written as null */
    const uint64_t *mark;          /* which state of it; NULL: the one now */
} weir_pipeline__run_state;

/* Writes the map. `mix` as in weir_pipeline__schedule_locate. */
void weir_pipeline__checkpoint_write(const weir_pipeline__schedule *run, weir_mix *mix,
                                     const weir_pipeline__run_state *state, weir_cbor_writer *w);

/* Saves a checkpoint's bytes as a file that appears whole or not at all. The first one of a run replaces
 * nothing, also nothing that another process has just written: IO_ERROR. */
WEIR_CHECKED weir_status weir_pipeline__checkpoint_save(const weir_env *env, const void *data, size_t size,
                                                        const char *path, bool is_first, weir_error *error);

/* Where a checkpoint leads. Under strict the step is all; in best effort the prefetcher began at
 * start_position and resumes from its state (a view of the checkpoint's bytes). */
typedef struct weir_pipeline__restored {
    uint64_t step;
    uint64_t start_position;
    weir_cbor_value prefetch;
} weir_pipeline__restored;

/* Checks that a checkpoint's bytes are one, and that it is this run's. CBOR_INVALID, CHECKPOINT_MISMATCH,
 * OUT_OF_MEMORY. */
WEIR_CHECKED weir_status weir_pipeline__checkpoint_restore(const weir_pipeline__schedule *run, weir_mix *mix,
                                                           const void *data, size_t size,
                                                           weir_pipeline__restored *out, weir_error *error);

#endif
