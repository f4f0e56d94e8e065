/* A run as a function of its step: which dataset and cursor each step has, which store serves it, and where
 * the run ends. Nothing here changes after open; the cache that locating needs (a weir_mix) belongs to the
 * thread that locates. */
#ifndef WEIR_PIPELINE_SCHEDULE_H
#define WEIR_PIPELINE_SCHEDULE_H

#include "base/internal.h"
#include "weir/run.h"

/* A dataset that has steps in the run. */
typedef struct weir_pipeline__schedule_member {
    const weir_dataset *dataset;
    size_t index; /* in the manifest */
    const weir_store *store;
    weir_population *population; /* that all workers draw from; NULL: the dataset is shuffled */
} weir_pipeline__schedule_member;

typedef struct weir_pipeline__schedule {
    const weir_env *env;
    const weir_run_options *options; /* with a token, and the defaults in place; the caller keeps them */
    bool is_mixed;                   /* steps are located by the mix; else by the only member */
    weir_pipeline__schedule_member
        *members; /* in the order of CBOR keys; if batches are mixed, the mix alone */
    size_t member_count;
    weir_pipeline__schedule_member *sources; /* the datasets that samples are of: the members, or those of the
                                                mix */
    size_t source_count;
    const weir_population **populations;     /* of the sources, by their numbers in the manifest */
    uint8_t (*store_hashes)[WEIR_HASH_SIZE]; /* of the stores that serve a source: sorted, each once */
    size_t store_count;
    uint64_t end; /* steps of the whole run; WEIR_ENDLESS */
} weir_pipeline__schedule;

/* INVALID_STAGE_TYPE, INVALID_DATASET_KEY, MANIFEST_INVALID, CONTRACT_VIOLATION, OUT_OF_MEMORY. What the
 * builders check (cardinalities, hashes, batch size, rank) is left to them. */
WEIR_CHECKED weir_status weir_pipeline__schedule_open(weir_pipeline__schedule *run, const weir_env *env,
                                                      const weir_run_options *options, weir_error *error);
void weir_pipeline__schedule_close(weir_pipeline__schedule *run);

/* The member and cursor of a step below the end. `mix` is the calling thread's own, NULL if the run is
 * not mixed. CARDINALITY_MISMATCH, BATCH_SIZE_INCONSISTENT, COUNTER_OVERFLOW. */
WEIR_CHECKED weir_status weir_pipeline__schedule_locate(const weir_pipeline__schedule *run, weir_mix *mix,
                                                        uint64_t step, size_t *member, weir_cursor *cursor,
                                                        weir_error *error);

/* Adds to an error which call of the sampler it is about. */
void weir_pipeline__schedule_name_call(const weir_pipeline__schedule *run, const char *dataset,
                                       weir_cursor cursor, weir_error *error);

/* The cursor of a member's first batch at or after `step`; false if there is none below epoch 2^64-1. */
bool weir_pipeline__schedule_next_cursor(const weir_pipeline__schedule *run, weir_mix *mix, uint64_t step,
                                         size_t member, weir_cursor *cursor);

/* What one thread needs to build the run's batches. */
typedef struct weir_pipeline__builders {
    const weir_env *env;
    weir_mix *mix;             /* NULL if the run is not mixed */
    weir_batch_builder **list; /* one per member */
    size_t count;
} weir_pipeline__builders;

WEIR_CHECKED weir_status weir_pipeline__builders_open(weir_pipeline__builders *builders, const weir_env *env,
                                                      const weir_pipeline__schedule *run, weir_error *error);
void weir_pipeline__builders_close(weir_pipeline__builders *builders);

#endif
