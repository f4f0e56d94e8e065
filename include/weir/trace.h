/* weir/trace.h: the record of a run, which can be replayed, compared and merged (format: docs/trace.md).
 *
 * A trace is a CBOR sequence in one append-only file: a run_header, one iter per step (and after it a memory
 * record, if that was asked for), resume records, a failure if the run failed, a run_end. Every record
 * carries a link of a SHA-256 chain, so that none can be changed, dropped, added or moved unnoticed; cut at a
 * record's end, a trace is one without its run_end. The header holds the manifest itself, so a trace explains
 * itself. No wall-clock time is in it: the same run gives the same bytes. */
#ifndef WEIR_TRACE_H
#define WEIR_TRACE_H

#include "weir/sampler.h"
#include "weir/store.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_TRACE_VERSION "weir_trace_v1"

/* How a run finds its steps: each from the cursor that the one before left, or step t from the mix. */
typedef enum weir_trace_schedule { WEIR_SCHEDULE_CURSOR, WEIR_SCHEDULE_MIX } weir_trace_schedule;

/* ---- Writing --------------------------------------------------------------------------------- */

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
WEIR_API WEIR_CHECKED weir_status weir_trace_create(const weir_env *env, const char *path,
                                                    const weir_trace_run *run, const weir_trace_start *start,
                                                    weir_trace_writer **out, weir_error *error);

/* Opens the trace of a run that resumes at `step`: checks it up to there, cuts what lies after it (a torn
 * last record too), and records the resume. Of a best-effort run `step` is the number of steps. A file that
 * has no more than a part of a trace's beginning, as a killed run leaves it, is begun again. TRACE_CORRUPT
 * if the trace does not reach the step, CHECKPOINT_MISMATCH if it is another run's, OUT_OF_MEMORY: then
 * the file is as it was. After an IO_ERROR it may be cut already; what lies before the step is there, and the
 * next resume works. */
WEIR_API WEIR_CHECKED weir_status weir_trace_resume(const weir_env *env, const char *path,
                                                    const weir_trace_run *run, uint64_t step,
                                                    const uint8_t checkpoint_hash[WEIR_HASH_SIZE],
                                                    weir_trace_writer **out, weir_error *error);

/* Appends a step. Records are buffered and written whole. After a failure every further call fails. */
WEIR_API WEIR_CHECKED weir_status weir_trace_append(weir_trace_writer *writer, const weir_trace_iter *iter,
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
WEIR_API WEIR_CHECKED weir_status weir_trace_append_memory(weir_trace_writer *writer,
                                                           const weir_trace_memory *memory,
                                                           weir_error *error);

/* Writes what is buffered and syncs the file: what was appended so far survives a crash. */
WEIR_API WEIR_CHECKED weir_status weir_trace_sync(weir_trace_writer *writer, weir_error *error);

/* Writes the run_end and syncs. Without it a trace is one of a run that did not end. */
WEIR_API WEIR_CHECKED weir_status weir_trace_finish(weir_trace_writer *writer, weir_error *error);

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
WEIR_API WEIR_CHECKED weir_status weir_trace_fail(weir_trace_writer *writer,
                                                  const weir_trace_failure *failure, weir_error *error);
WEIR_API void weir_trace_writer_close(weir_trace_writer *writer);

/* ---- Reading --------------------------------------------------------------------------------- */

typedef struct weir_trace_reader weir_trace_reader;

typedef enum weir_trace_kind {
    WEIR_TRACE_HEADER,
    WEIR_TRACE_ITER,
    WEIR_TRACE_RESUME,
    WEIR_TRACE_FAILURE,
    WEIR_TRACE_END,
    WEIR_TRACE_EOF,
    WEIR_TRACE_MEMORY
} weir_trace_kind;

typedef struct weir_trace_record {
    weir_trace_kind kind;
    weir_cbor_value map; /* valid until the next call */
    uint64_t offset;     /* of its first byte in the file */
    uint64_t end;        /* of the byte after it */
} weir_trace_record;

/* Opens a trace and checks its header. TRACE_CORRUPT with the offset, IO_ERROR, OUT_OF_MEMORY. */
WEIR_API WEIR_CHECKED weir_status weir_trace_open(const weir_env *env, const char *path,
                                                  weir_trace_reader **out, weir_error *error);
WEIR_API void weir_trace_close(weir_trace_reader *reader);

/* The header's map, valid while the reader is open, and the manifest that it holds. */
WEIR_API const weir_cbor_value *weir_trace_header(const weir_trace_reader *reader);
WEIR_API WEIR_CHECKED weir_status weir_trace_manifest(const weir_trace_reader *reader, weir_manifest **out,
                                                      weir_error *error);

/* The next record, its place in the chain checked; WEIR_TRACE_EOF at the end of the file. TRACE_CORRUPT
 * with the offset. */
WEIR_API WEIR_CHECKED weir_status weir_trace_next(weir_trace_reader *reader, weir_trace_record *record,
                                                  weir_error *error);

/* ---- Judging --------------------------------------------------------------------------------- */

/* How a trace ends: in the middle, or with a run_end that says so. */
typedef enum weir_run_status { WEIR_RUN_CUT, WEIR_RUN_SUCCEEDED, WEIR_RUN_FAILED } weir_run_status;

/* "cut", "success", "failed". */
WEIR_API const char *weir_run_status_name(weir_run_status status);

typedef struct weir_replay_report {
    uint64_t steps;             /* that were re-executed and are equal */
    uint64_t samples;           /* global positions that they consumed */
    uint64_t indices;           /* that were recorded, and are equal */
    uint64_t checked_digests;   /* batch digests of batches that were built again */
    uint64_t unchecked_digests; /* batch digests that no store was there to check */
    uint64_t checked_sample_digests;
    uint64_t unchecked_sample_digests;
    bool is_complete; /* there is a run_end */
    weir_run_status status;
    uint64_t failed_step;    /* of a run that failed */
    char failure_code[64];   /* likewise; "" */
    uint64_t memory_records; /* that were checked */
} weir_replay_report;

/* Zero what is not wanted. */
typedef struct weir_replay_options {
    size_t size;                   /* sizeof(weir_replay_options) */
    const weir_manifest *manifest; /* NULL: the one in the trace; another must have the same hashes */
    weir_store *const *stores;     /* to build batches again from, and compare their digests */
    size_t store_count;
} weir_replay_options;

/* Re-executes every step and compares every field, and judges the run: the sequence of its steps, its
 * failure, its run_end (docs/spec/02-trace.md). REPLAY_DIVERGENCE at the first that differs, with both
 * values, the trace's rank and the step's token. `options` may be NULL. CHECKPOINT_MISMATCH if the manifest
 * or a store is not the trace's; CONTRACT_VIOLATION if a dataset is drawn from by class or weight and its
 * store is not given. */
WEIR_API WEIR_CHECKED weir_status weir_trace_replay(const weir_env *env, const char *path,
                                                    const weir_replay_options *options,
                                                    weir_replay_report *report, weir_error *error);

enum { WEIR_DIFFERENCE_CAPACITY = 256 };

typedef struct weir_trace_difference {
    bool is_comparable; /* same manifest, mix, batch config, stores and trace version */
    char incomparable[WEIR_DIFFERENCE_CAPACITY]; /* the header fields that say no */
    bool differs;
    uint64_t t;             /* of the first step that differs: the same whichever trace is the left one */
    uint64_t steps;         /* equal steps before it */
    weir_run_status status; /* how both end, if they do not differ */
    char field[64];
    char left[WEIR_DIFFERENCE_CAPACITY]; /* both values as JSON, cut to fit */
    char right[WEIR_DIFFERENCE_CAPACITY];
} weir_trace_difference;

/* Finds the first step at which two traces differ. Headers and resume records do not make them differ. */
WEIR_API WEIR_CHECKED weir_status weir_trace_diff(const weir_env *env, const char *left, const char *right,
                                                  weir_trace_difference *difference, weir_error *error);

typedef struct weir_merge_report {
    uint32_t world_size;
    uint64_t steps;
    uint64_t samples; /* whose index was recomputed for the rank and for world size 1, and is equal */
    uint64_t digests; /* sample digests compared with the world-size-1 trace */
    uint64_t unchecked_digests; /* sample digests without one to compare with */
    weir_run_status status;
    uint64_t failed_step;  /* of a run that failed */
    char failure_code[64]; /* likewise; "" */
} weir_merge_report;

typedef struct weir_merge_options {
    size_t size;               /* sizeof(weir_merge_options) */
    const char *single;        /* the world-size-1 trace, or NULL */
    weir_store *const *stores; /* of datasets that are drawn from by class or weight */
    size_t store_count;
} weir_merge_options;

/* Checks that the traces of all ranks of one run, put together, are the run at world size 1: every index
 * (recomputed from the manifest) and, with options->single, every sample digest; and judges the run as
 * weir_trace_replay does. `options` may be NULL. CONTRACT_VIOLATION if the files are not the ranks of one
 * run, or lack the digests that are to be compared with `single`; CHECKPOINT_MISMATCH if a store is not
 * theirs; REPLAY_DIVERGENCE. */
WEIR_API WEIR_CHECKED weir_status weir_trace_merge(const weir_env *env, const char *const *paths,
                                                   size_t count, const weir_merge_options *options,
                                                   weir_merge_report *report, weir_error *error);

#ifdef __cplusplus
}
#endif
#endif
