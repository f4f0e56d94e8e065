/* weir_tool/trace_tools.h: writing a trace, as runs and `weir next` do. */
#ifndef WEIR_TOOL_TRACE_TOOLS_H
#define WEIR_TOOL_TRACE_TOOLS_H

#include "weir/trace.h"
#include "weir_tool/base_tools.h"

typedef struct weir_trace_writer weir_trace_writer;

typedef struct weir_trace_run {
    size_t size; /* sizeof(weir_trace_run) */
    const weir_manifest *manifest;
    const void *token; /* NULL: the manifest's own */
    size_t token_size;
    uint32_t world_size;
    uint32_t rank;
    weir_trace_schedule schedule;
    const uint8_t (*store_hashes)[WEIR_HASH_SIZE]; /* in the order of the stores */
    size_t store_count;
    bool is_best_effort; /* steps may come in any order; recorded in the header */
    weir_stage stage;
    const weir_build_part *build; /* weir_build_info, or NULL: not recorded */
    size_t build_count;
} weir_trace_run;

/* Where a run begins: at step 0, or at a later one, with or without a checkpoint (NULL). */
typedef struct weir_trace_start {
    uint64_t step;
    const uint8_t *checkpoint_hash; /* WEIR_HASH_SIZE bytes */
} weir_trace_start;

/* What is recorded of one step. */
typedef struct weir_trace_iter {
    uint64_t t;
    const char *dataset;
    const weir_step *step;
    const uint64_t *indices;        /* step->count of them, or NULL: not recorded */
    const uint8_t *batch_digest;    /* 16 bytes, or NULL if no batch was built */
    const uint64_t *sample_digests; /* step->valid_count of them, or NULL */
} weir_trace_iter;

/* Creates the file (which must not exist) and writes the header, and after it a resume record if the run
 * begins at a later step than 0 or from a checkpoint. `start` may be NULL: step 0. The manifest may be closed
 * after. A writer locks its file: another that would write it gets IO_ERROR. IO_ERROR, OUT_OF_MEMORY. */
WEIR_CHECKED weir_status weir_trace_create(const weir_env *env, const char *path, const weir_trace_run *run,
                                           const weir_trace_start *start, weir_trace_writer **out,
                                           weir_error *error);

/* Opens the trace of a run that resumes at `step`: checks it up to there, cuts what lies after it (a torn
 * last record too), and records the resume. Of a best-effort run `step` is the number of steps. A file that
 * has no more than a part of a trace's beginning, as a killed run leaves it, is begun again. TRACE_CORRUPT
 * if the trace does not reach the step, CHECKPOINT_MISMATCH if it is another run's, OUT_OF_MEMORY: then
 * the file is as it was. After an IO_ERROR it may be cut already; what lies before the step is there, and the
 * next resume works. */
WEIR_CHECKED weir_status weir_trace_resume(const weir_env *env, const char *path, const weir_trace_run *run,
                                           uint64_t step, const uint8_t checkpoint_hash[WEIR_HASH_SIZE],
                                           weir_trace_writer **out, weir_error *error);

/* Appends a step. Records are buffered and written whole. After a failure every further call fails. */
WEIR_CHECKED weir_status weir_trace_append(weir_trace_writer *writer, const weir_trace_iter *iter,
                                           weir_error *error);

/* What memory was when a step's batch was given: a commit (weir/arenas.h). */
typedef struct weir_trace_memory {
    uint64_t t;
    const uint8_t *state; /* canonical CBOR */
    size_t state_size;
    const uint8_t *state_hash;      /* WEIR_HASH_SIZE bytes … */
    const uint8_t *visibility_hash; /* … each */
    const uint8_t *contents;        /* 16 bytes: the batch digest of the bytes in their place; or NULL */
} weir_trace_memory;

/* Appends it, after the step. As weir_trace_append. */
WEIR_CHECKED weir_status weir_trace_append_memory(weir_trace_writer *writer, const weir_trace_memory *memory,
                                                  weir_error *error);

/* Writes what is buffered and syncs the file: what was appended so far survives a crash. */
WEIR_CHECKED weir_status weir_trace_sync(weir_trace_writer *writer, weir_error *error);

/* Writes the run_end and syncs. Without it a trace is one of a run that did not end. */
WEIR_CHECKED weir_status weir_trace_finish(weir_trace_writer *writer, weir_error *error);

/* The step that a run failed at; what is not known of it is NULL. */
typedef struct weir_trace_failure {
    uint64_t t;
    const weir_error *error;
    const char *dataset;
    const weir_cursor *cursor;
    const uint8_t *data_replay_t; /* WEIR_HASH_SIZE bytes */
} weir_trace_failure;

/* Ends the trace of a run that failed: writes the failure and a run_end with status "failed", and syncs. A
 * run that resumes from its checkpoint cuts both away. */
WEIR_CHECKED weir_status weir_trace_fail(weir_trace_writer *writer, const weir_trace_failure *failure,
                                         weir_error *error);
void weir_trace_writer_close(weir_trace_writer *writer);

#endif
