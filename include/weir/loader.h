/* weir/loader.h: a training run's batches: stores, manifest, mix, sampler, builders and prefetcher joined
 * (docs/pipeline.md).
 *
 *   weir_loader_options options = {.size = sizeof options, .stores = &store, .store_count = 1,
 *                                  .manifest = manifest, .world_size = 8, .rank = 3, .workers = 4};
 *   weir_loader_open(NULL, &options, &loader, &error);
 *   weir_loaded loaded;
 *   while ((status = weir_loader_next(loader, &loaded, &error)) == WEIR_OK && loaded.batch) {
 *       train(loaded.batch);
 *       weir_loader_release(loader, &loaded);
 *   }
 *   weir_loader_close(loader);
 *
 * The state of a run is its step. One thread at a time takes batches; releasing and cancelling are for any
 * thread. */
#ifndef WEIR_LOADER_H
#define WEIR_LOADER_H

#include "weir/batch.h"
#include "weir/plan.h"
#include "weir/prefetch.h"
#include "weir/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a worker calls after each build, in its own thread: to look at the batch, or to make something of it
 * beside its slot, whose number is item->slot_index. A failure is that of the item. */
typedef struct weir_loader_hook {
    void *context;
    weir_status (*built)(void *context, const weir_item *item, const weir_batch_buffer *buffer,
                         weir_error *error); /* NULL: none */
} weir_loader_hook;

typedef struct weir_loader_options {
    size_t size; /* sizeof(weir_loader_options) */
    weir_store *const *stores;
    size_t store_count;
    const weir_manifest *manifest;
    const char *dataset; /* NULL: the mix, or the only dataset. All stages but train run one dataset at a
                            time */
    weir_stage stage;
    uint32_t world_size;
    uint32_t rank;
    const void *token; /* NULL: the manifest's own */
    size_t token_size;
    bool any_hash;     /* as in weir_batch_options … */
    bool pad;          /* … */
    bool with_digests; /* … */
    uint64_t steps;    /* where the run ends, counted from step 0; 0: never in train, after one pass over the
                          dataset else */
    uint64_t first_step; /* where it begins, unless a checkpoint says; at most `steps` */

    uint32_t workers;     /* 0: 1 */
    uint32_t buffer_size; /* batches ahead, each worker; 0: 2 */
    uint32_t queue_size;  /* batches that the consumer may hold at a time; 0: 2 */
    weir_policy policy;
    uint32_t max_lead;            /* as in weir_prefetch_options … */
    uint32_t max_skips_per_round; /* … */
    uint64_t memory_limit; /* bytes, 0: none. ARENA_TOO_SMALL with the numbers where the plan needs more */
    weir_memory memory;    /* of the compact batches, such as a device's pinned memory; zeros: the host's */
    bool without_tensors;  /* batches are built and not expanded */
    weir_loader_hook hook;

    const void *checkpoint; /* what weir_loader_checkpoint wrote: go on there; NULL: begin */
    size_t checkpoint_size;
} weir_loader_options;

typedef struct weir_loader weir_loader;

/* A batch on loan: valid until it is released. */
typedef struct weir_loaded {
    uint64_t step;
    const weir_dataset *dataset; /* of the manifest */
    const weir_store *store;
    const weir_batch *batch; /* NULL at the end of the run */
    weir_batch_buffer *buffer;
    weir_item item;
} weir_loaded;

/* Stores and manifest must outlive the loader. The batch builder's errors for each dataset;
 * INVALID_DATASET_KEY where no store has a dataset of the mix; CONTRACT_VIOLATION (an option out of range,
 * a first step behind the end); CHECKPOINT_MISMATCH, which names what differs, CBOR_INVALID; ARENA_TOO_SMALL;
 * OUT_OF_MEMORY. */
WEIR_API WEIR_CHECKED weir_status weir_loader_open(const weir_env *env, const weir_loader_options *options,
                                                   weir_loader **out, weir_error *error);
WEIR_API void weir_loader_close(weir_loader *loader);

/* As weir_prefetch_next and its kin. A step that no batch can be had of (COUNTER_OVERFLOW, STORE_CORRUPT,
 * IO_ERROR) fails at its place. */
WEIR_API WEIR_CHECKED weir_status weir_loader_next(weir_loader *loader, weir_loaded *out, weir_error *error);
WEIR_API WEIR_CHECKED weir_status weir_loader_try_next(weir_loader *loader, weir_loaded *out, bool *is_ready,
                                                       weir_error *error);
WEIR_API void weir_loader_release(weir_loader *loader, const weir_loaded *loaded);
WEIR_API void weir_loader_cancel(weir_loader *loader);
WEIR_API void weir_loader_measure(const weir_loader *loader, weir_prefetch_metrics *metrics,
                                  weir_worker_metrics *workers);

/* The step behind the last batch that was taken; in best effort the first step and the number of those
 * taken since. And the run's end: WEIR_ENDLESS where it has none. */
WEIR_API uint64_t weir_loader_step(const weir_loader *loader);
WEIR_API uint64_t weir_loader_end(const weir_loader *loader);

/* ---- Memory ---------------------------------------------------------------------------------- */

/* The plan of the run's memory. Arena `slots`: the compact batch of each slot (slot/N); arena `tensors`: its
 * tensors (tensors/N), 256-byte aligned both. Arena `builders`: what the builders of each worker keep
 * (worker/N), and each slot's lists beside its batch (lists/N). It belongs to the loader. weir_loader_plan
 * makes it (the caller closes it) without starting anything; it has the errors of weir_loader_open, but for
 * what best effort's own part of a checkpoint may have. */
WEIR_API const weir_plan *weir_loader_memory(const weir_loader *loader);
WEIR_API WEIR_CHECKED weir_status weir_loader_plan(const weir_env *env, const weir_loader_options *options,
                                                   weir_plan **out, weir_error *error);

/* How many slots a run with these options has, the defaults filled in. */
WEIR_API uint64_t weir_loader_slot_count(const weir_loader_options *options);

/* ---- Traces ---------------------------------------------------------------------------------- */

/* What a trace of this run says in its header, for weir_trace_create and weir_trace_resume; it refers to the
 * loader. */
WEIR_API void weir_loader_describe(const weir_loader *loader, weir_trace_run *out);

/* Appends a batch to a trace: its step, its digests where the loader makes them (of a batch that was padded
 * those of its samples alone), its indices where they are wanted. The consumer's thread; weir_trace_append's
 * errors. */
WEIR_API WEIR_CHECKED weir_status weir_loader_record(weir_loader *loader, const weir_loaded *loaded,
                                                     bool with_indices, weir_trace_writer *writer,
                                                     weir_error *error);

/* Ends the trace of a run that failed with `failure`: at the step that the failure names, if it is one of
 * building a batch, else at `step`, the next one. The consumer's thread; weir_trace_fail's errors. */
WEIR_API WEIR_CHECKED weir_status weir_loader_record_failure(weir_loader *loader, uint64_t step,
                                                             const weir_error *failure,
                                                             weir_trace_writer *writer, weir_error *error);

/* ---- Checkpoints (docs/pipeline.md: weir_checkpoint_v2) --------------------------------------- */

/* Writes the state after the last batch that was taken, as a canonical CBOR map that holds a hash of itself.
 * The consumer's thread. */
WEIR_API void weir_loader_checkpoint(const weir_loader *loader, weir_cbor_writer *w);

/* The same as a file that appears whole or not at all; its hash goes into a trace's resume record
 * (`hash` may be NULL). */
WEIR_API WEIR_CHECKED weir_status weir_loader_checkpoint_save(const weir_loader *loader, const char *path,
                                                              uint8_t hash[WEIR_HASH_SIZE],
                                                              weir_error *error);

/* What a checkpoint says; the manifest's hash belongs to `data`. CBOR_INVALID; CHECKPOINT_MISMATCH if it is
 * damaged, or not a checkpoint that this version reads. Any thread. */
typedef struct weir_checkpoint {
    uint64_t step;
    weir_policy policy;
    uint32_t workers;
    uint32_t world_size;
    uint32_t rank;
    weir_stage stage;
    const uint8_t *manifest_hash;
    uint8_t hash[WEIR_HASH_SIZE]; /* of all of it */
} weir_checkpoint;
WEIR_API WEIR_CHECKED weir_status weir_checkpoint_read(const void *data, size_t size, weir_checkpoint *out,
                                                       weir_error *error);

#ifdef __cplusplus
}
#endif
#endif
