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

#ifdef __cplusplus
extern "C" {
#endif

/* Train shuffles every epoch anew; eval and infer go through the dataset in its own order; eval_seeded goes
 * through it in one shuffled order that never changes (docs/spec/02b-eval-order.md). */
typedef enum weir_stage {
    WEIR_STAGE_TRAIN,
    WEIR_STAGE_EVAL,
    WEIR_STAGE_INFER,
    WEIR_STAGE_EVAL_SEEDED,
    WEIR_STAGES,
} weir_stage;

/* "train", "eval", "infer", "eval_seeded"; INVALID_STAGE_TYPE for anything else. The name is static, NULL if
 * there is no such stage. Any thread. */
WEIR_API WEIR_CHECKED weir_status weir_stage_parse(const char *name, weir_stage *out, weir_error *error);
WEIR_API const char *weir_stage_name(weir_stage stage);

/* Where a run stands in a dataset: all the state there is. */
typedef struct weir_cursor {
    uint64_t epoch;
    uint64_t global_index;
} weir_cursor;

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
    const uint64_t *store_cardinality; /* where a store serves the dataset: its number of samples, which must
                                          be the manifest's */
} weir_sampler_options;

/* Everything about one step but the indices themselves. Texts are static. */
typedef struct weir_step {
    weir_cursor cursor_before;
    weir_cursor cursor_next;
    uint64_t count;       /* this rank's indices; but in train always global_batch_size / world_size */
    uint64_t valid_count; /* of these, from the front, with a position inside the epoch */
    uint64_t effective_batch_size; /* global positions that the step consumes */
    uint64_t
        blocks_materialized; /* distinct (epoch, block) pairs behind this rank's indices; 0 unless shuffled */
    uint64_t sampler_block_size;
    uint64_t micro_batch_size;
    uint64_t global_batch_size;
    double effective_q;
    bool is_shuffled;
    const char *subsampling_mode;
    const char *sampling_mode;
    uint8_t sampler_config_hash[WEIR_HASH_SIZE];
    uint8_t epoch_seed_hash[WEIR_HASH_SIZE];
    uint8_t data_replay_t[WEIR_HASH_SIZE];
} weir_step;

/* The manifest may be closed after. All memory is taken here: 8 bytes a block of the dataset (16 from 2^32
 * blocks on) in train, none else. INVALID_STAGE_TYPE, INVALID_DATASET_KEY, CARDINALITY_MISMATCH,
 * BATCH_SIZE_INCONSISTENT and CONTRACT_VIOLATION in the contract's order, then OUT_OF_MEMORY. */
WEIR_API WEIR_CHECKED weir_status weir_sampler_open(const weir_env *env, const weir_manifest *manifest,
                                                    const weir_sampler_options *options, weir_sampler **out,
                                                    weir_error *error);
WEIR_API void weir_sampler_close(weir_sampler *sampler);

/* The step at a cursor. GLOBAL_POSITION_EXCEEDS_CARDINALITY, COUNTER_OVERFLOW. */
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

/* The order of n blocks under a seed (SeededBlockPermute_v1), into out[0, n). Any thread.
 * CONTRACT_VIOLATION for n = 0. */
WEIR_API WEIR_CHECKED weir_status weir_block_permute(weir_seed seed, uint64_t n, uint64_t *out,
                                                     weir_error *error);

/* The index behind one local position of a block, by either map. CONTRACT_VIOLATION where the position is
 * not in the block. Any thread. */
WEIR_API WEIR_CHECKED weir_status weir_intra_block_map(weir_intra_block kind, weir_seed seed,
                                                       uint64_t block_id, uint64_t block_size,
                                                       uint64_t cardinality, uint64_t local_position,
                                                       uint64_t *index, weir_error *error);

/* ---- Mixing: a step is enough ---------------------------------------------------------------- */

typedef struct weir_mix weir_mix;

/* The schedule of a manifest's mix (or of its only dataset). The manifest must outlive it. MANIFEST_INVALID
 * where there are several datasets and no mix, OUT_OF_MEMORY. */
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
