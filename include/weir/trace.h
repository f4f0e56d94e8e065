/* weir/trace.h: the record of a run, which can be replayed, compared and merged (format: docs/trace.md).
 *
 * A trace is a CBOR sequence in one append-only file: a run_header, one iter per step (and after it a memory
 * record, if that was asked for), resume records, a failure if the run failed, a run_end. Every record
 * carries a link of a SHA-256 chain, so that none can be changed, dropped, added or moved unnoticed; cut at a
 * record's end, a trace is one without its run_end. The header holds the manifest itself, so a trace explains
 * itself. No wall-clock time is in it: the same run gives the same bytes.
 *
 *   weir_trace_open(NULL, "run.trace", &reader, &error);
 *   while ((status = weir_trace_next(reader, &record, &error)) == WEIR_OK && record.kind != WEIR_TRACE_EOF)
 *       if (record.kind == WEIR_TRACE_ITER)
 *           printf("step %llu of %.*s\n", (unsigned long long)record.t, (int)record.dataset.size,
 *                  record.dataset.data); */
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

/* ---- Reading --------------------------------------------------------------------------------- */

typedef struct weir_trace_reader weir_trace_reader;

/* What a trace's header says; it lives as long as the reader. */
typedef struct weir_trace_info {
    weir_text weir_version; /* of the library that wrote it; size 0 if it does not say */
    uint32_t world_size;
    uint32_t rank;
    weir_trace_schedule schedule;
    bool is_best_effort;          /* steps may come in any order */
    const uint8_t *manifest_hash; /* WEIR_HASH_SIZE bytes … */
    const uint8_t *mix_hash;
    const uint8_t *batch_config_hash; /* … each */
    const uint8_t *token;             /* the run's replay token */
    size_t token_size;
    const uint8_t (*store_hashes)[WEIR_HASH_SIZE];
    size_t store_count;
} weir_trace_info;

typedef enum weir_trace_kind {
    WEIR_TRACE_HEADER,
    WEIR_TRACE_ITER,
    WEIR_TRACE_RESUME,
    WEIR_TRACE_FAILURE,
    WEIR_TRACE_END,
    WEIR_TRACE_EOF,
    WEIR_TRACE_MEMORY
} weir_trace_kind;

/* How a trace ends: in the middle, or with a run_end that says so. */
typedef enum weir_run_status { WEIR_RUN_CUT, WEIR_RUN_SUCCEEDED, WEIR_RUN_FAILED } weir_run_status;

/* "cut", "success", "failed". */
WEIR_API const char *weir_run_status_name(weir_run_status status);

/* A record. What its kind does not have is 0; what it points to is valid until the next call. */
typedef struct weir_trace_record {
    weir_trace_kind kind;
    uint64_t offset;     /* of its first byte in the file */
    uint64_t end;        /* of the byte after it */
    const uint8_t *data; /* the bytes between: one canonical CBOR map, with all of its fields */
    uint64_t t;          /* the step; of a resume the one that comes next */

    /* Of an iter and, if its step could be located, a failure. */
    bool has_cursor;
    weir_cursor cursor_before;
    weir_text dataset;
    const uint8_t *data_replay_t; /* WEIR_HASH_SIZE bytes, or NULL */

    /* Of an iter. */
    weir_cursor cursor_after;
    weir_stage stage;              /* EVAL of a run in stage infer too: both take the same samples */
    uint64_t valid_count;          /* samples of this rank */
    uint64_t effective_batch_size; /* global positions that the step consumes */
    uint64_t index_count;          /* that are recorded: weir_trace_samples */
    uint64_t sample_digest_count;  /* likewise */
    const uint8_t *batch_digest;   /* 16 bytes, or NULL */

    const uint8_t *checkpoint_hash; /* of a resume from a checkpoint: WEIR_HASH_SIZE bytes; or NULL */

    /* Of a failure. */
    weir_text failure_code;
    weir_text failure_operator;
    weir_text message;

    /* Of a run_end. */
    weir_run_status status;
    uint64_t total_samples;

    /* Of a memory record: WEIR_HASH_SIZE bytes each, and 16 or NULL. */
    const uint8_t *state_hash;
    const uint8_t *visibility_hash;
    const uint8_t *contents;
} weir_trace_record;

/* Opens a trace and checks its header. TRACE_CORRUPT with the offset, IO_ERROR, OUT_OF_MEMORY. */
WEIR_API WEIR_CHECKED weir_status weir_trace_open(const weir_env *env, const char *path,
                                                  weir_trace_reader **out, weir_error *error);
WEIR_API void weir_trace_close(weir_trace_reader *reader);

/* The header, and the manifest that it holds, which the caller closes. */
WEIR_API const weir_trace_info *weir_trace_describe(const weir_trace_reader *reader);
WEIR_API WEIR_CHECKED weir_status weir_trace_manifest(const weir_trace_reader *reader, weir_manifest **out,
                                                      weir_error *error);

/* The next record, its place in the chain checked; WEIR_TRACE_EOF at the end of the file. TRACE_CORRUPT
 * with the offset. */
WEIR_API WEIR_CHECKED weir_status weir_trace_next(weir_trace_reader *reader, weir_trace_record *record,
                                                  weir_error *error);

/* What an iter records of its samples, as far as it does: record->index_count indices and
 * record->sample_digest_count digests (XXH3-64). Either may be NULL: not wanted. */
WEIR_API void weir_trace_samples(const weir_trace_record *record, uint64_t *indices, uint64_t *digests);

/* ---- Judging --------------------------------------------------------------------------------- */

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
