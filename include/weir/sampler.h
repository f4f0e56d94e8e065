/* weir/sampler.h: which sample sits at any (epoch, position), for any world size, in O(1):
 * UML_OS.Data.NextBatch_v2.
 *
 * A step is a pure function of (manifest, token, dataset, stage, world size, rank, cursor). The sampler
 * only caches: the block order of the epoch in use and of the one after it. Nothing allocates after open.
 *
 *   weir_manifest_open(NULL, "shop.manifest.json", &manifest, &error);
 *   weir_sampler_options options = {
 *       .size = sizeof options, .dataset = "shop/churn/train", .world_size = 8, .rank = 3};
 *   weir_sampler_open(NULL, manifest, &options, &sampler, &error);
 *   for (weir_cursor cursor = {0, 0};; cursor = step.cursor_next) {
 *       weir_sampler_step(sampler, cursor, &step, &error);
 *       weir_sampler_indices(sampler, &step, indices);            step.count of them
 *   } */
#ifndef WEIR_SAMPLER_H
#define WEIR_SAMPLER_H

#include "weir/manifest.h"
#include "weir/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "train", "eval", "infer", "eval_seeded"; NULL if there is no such stage. Static; any thread. */
WEIR_API const char *weir_stage_name(weir_stage stage);

/* Where a run stands in a dataset: all the state there is. */
typedef struct weir_cursor {
    uint64_t epoch;
    uint64_t global_index;
} weir_cursor;

/* ---- Populations ----------------------------------------------------------------------------- */

/* What class-balanced and weighted sampling draw from: the classes or the weights of a dataset's samples.
 * Immutable: any number of samplers and threads may share one. About 4 bytes per sample by class, 13 by
 * weight. */
typedef struct weir_population weir_population;

/* Reads the population of a dataset from its store, which may be closed after; sets *out to NULL if the
 * manifest has the dataset shuffled, or does not have it. `token` NULL: the manifest's own. The caller closes
 * it after its samplers. INVALID_DATASET_KEY (the store does not have it), TASK_INVALID (a target that has no
 * classes, another weight column or none, no positive weight, too many classes), STORE_CORRUPT,
 * IO_ERROR, OUT_OF_MEMORY. */
WEIR_API WEIR_CHECKED weir_status weir_population_open(const weir_env *env, const weir_manifest *manifest,
                                                       const weir_store *store, const char *dataset,
                                                       const void *token, size_t token_size,
                                                       weir_population **out, weir_error *error);
WEIR_API void weir_population_close(weir_population *population);

/* ---- Sampler --------------------------------------------------------------------------------- */

typedef struct weir_sampler weir_sampler;

typedef struct weir_sampler_options {
    size_t size; /* sizeof(weir_sampler_options) */
    const char *dataset;
    weir_stage stage;
    uint32_t world_size; /* 0 is an error, as the contract says */
    uint32_t rank;
    const void *token; /* NULL: the manifest's own */
    size_t token_size;
    const uint64_t *store_cardinality; /* if a store serves the dataset: its number of samples, which must
                                          be the manifest's */
    const weir_population *population; /* of this dataset and token, if training draws from one; else NULL */
    weir_cursor cursor;                /* where the caller begins: errors of opening carry its replay token */
} weir_sampler_options;

/* Everything about one step but the indices themselves. Texts are static. */
typedef struct weir_step {
    weir_cursor cursor_before;
    weir_cursor cursor_next;
    uint64_t count;                /* this rank's indices; in strict train always micro_batch_size */
    uint64_t valid_count;          /* of these, from the front, with a position inside the epoch */
    uint64_t effective_batch_size; /* global positions that the step consumes */
    uint64_t
        blocks_materialized; /* distinct (epoch, block) pairs of this rank's indices; 0 except in train */
    uint64_t blocks_materialized_this_epoch; /* distinct blocks of this rank's samples of the cursor's
                                                epoch, from the epoch's first step to this one */
    uint64_t sampler_block_size;
    uint64_t micro_batch_size; /* global_batch_size / world_size */
    uint64_t
        global_batch_size; /* of this step: the manifest's, if training steps do not have several lengths */
    uint32_t sequence_length; /* of this step */
    double effective_q;
    bool is_shuffled;
    const char *subsampling_mode;
    const char *sampling_mode;
    uint8_t sampler_config_hash[WEIR_HASH_SIZE];
    uint8_t epoch_seed_hash[WEIR_HASH_SIZE];
    uint8_t data_replay_t[WEIR_HASH_SIZE];
} weir_step;

/* The manifest may be closed after. All memory is taken here: in train 8 bytes per block of the dataset (16
 * from 2^32 blocks on), none with the stateless block order, a population, or in the other stages.
 * INVALID_STAGE_TYPE, INVALID_DATASET_KEY, CARDINALITY_MISMATCH, BATCH_SIZE_INCONSISTENT and
 * CONTRACT_VIOLATION in the contract's order; CONTRACT_VIOLATION if the manifest's accountant assumes another
 * sampling, or the population is missing or another dataset's; then OUT_OF_MEMORY. Every error carries the
 * dataset's key and the replay token of options.cursor. */
WEIR_API WEIR_CHECKED weir_status weir_sampler_open(const weir_env *env, const weir_manifest *manifest,
                                                    const weir_sampler_options *options, weir_sampler **out,
                                                    weir_error *error);
WEIR_API void weir_sampler_close(weir_sampler *sampler);

/* The step at a cursor. GLOBAL_POSITION_EXCEEDS_CARDINALITY, COUNTER_OVERFLOW; CONTRACT_VIOLATION if training
 * steps have several lengths and none of them begins there. */
WEIR_API WEIR_CHECKED weir_status weir_sampler_step(weir_sampler *sampler, weir_cursor cursor,
                                                    weir_step *step, weir_error *error);

/* Fills out[0, step->count) with the indices of a step of this sampler. */
WEIR_API void weir_sampler_indices(weir_sampler *sampler, const weir_step *step, uint64_t *out);

/* Random access to an epoch's virtual sequence, without a cursor; `range` stays inside the epoch.
 * GLOBAL_POSITION_EXCEEDS_CARDINALITY. */
WEIR_API WEIR_CHECKED weir_status weir_sampler_index_at(weir_sampler *sampler, uint64_t epoch,
                                                        uint64_t position, uint64_t *index,
                                                        weir_error *error);
WEIR_API WEIR_CHECKED weir_status weir_sampler_range(weir_sampler *sampler, uint64_t epoch, uint64_t position,
                                                     uint64_t count, uint64_t *out, weir_error *error);

/* ---- Mixing: a step is enough ---------------------------------------------------------------- */

typedef struct weir_mix weir_mix;

/* The schedule of a manifest's mix (or of its only dataset). The manifest must outlive it. MANIFEST_INVALID
 * if there are several datasets and no mix, OUT_OF_MEMORY. */
WEIR_API WEIR_CHECKED weir_status weir_mix_open(const weir_env *env, const weir_manifest *manifest,
                                                const void *token, size_t token_size, weir_mix **out,
                                                weir_error *error);
WEIR_API void weir_mix_close(weir_mix *mix);

/* The dataset and its cursor at a global step, at the same cost for every step. CARDINALITY_MISMATCH,
 * BATCH_SIZE_INCONSISTENT, COUNTER_OVERFLOW. */
WEIR_API WEIR_CHECKED weir_status weir_mix_locate(weir_mix *mix, uint64_t step, const weir_dataset **dataset,
                                                  weir_cursor *cursor, weir_error *error);

#ifdef __cplusplus
}
#endif
#endif
