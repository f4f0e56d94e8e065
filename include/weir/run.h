/* weir/run.h: a run: the batches of one rank, in order, made ahead by threads, on the host or on a device,
 * with a trace and checkpoints, so that it can be killed at any moment and resumed exactly
 * (docs/pipeline.md).
 *
 *   weir_run_options options = {.size = sizeof options, .stores = &store, .store_count = 1,
 *                               .manifest = manifest, .workers = 4, .steps = 1000, .trace = "run.trace",
 *                               .checkpoint = "run.checkpoint", .resume = "run.checkpoint"};
 *   weir_run_open(NULL, &options, &run, &error);
 *   weir_taken taken;
 *   while ((status = weir_run_next(run, &taken, &error)) == WEIR_OK && taken.batch) {
 *       train(taken.batch);
 *       weir_run_release(run, &taken, 0, &error);
 *   }
 *   weir_run_close(run);
 *
 * examples/run.c is a whole program. On a device (.device = "cuda") a batch's `data` is an address there, and
 * the consumer's stream waits for it:
 *
 *   weir_run_wait(run, &taken, stream, &error);     // the stream waits, the host does not
 *   train(taken.batch->data, stream);
 *   weir_run_release(run, &taken, stream, &error);  // after what the stream was given so far
 *
 * Under the strict policy the state of a run is its step. One thread at a time (the consumer) calls what is
 * declared here; weir_run_wait, weir_run_release and weir_run_cancel are for any thread. */
#ifndef WEIR_RUN_H
#define WEIR_RUN_H

#include "weir/batch.h"
#include "weir/device.h"
#include "weir/plan.h"
#include "weir/prefetch.h"
#include "weir/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What an option that is 0 stands for. */
enum {
    WEIR_RUN_WORKERS = 1,
    WEIR_RUN_BUFFER = 2,
    WEIR_RUN_QUEUE = 4,
    WEIR_RUN_DEPTH = 4,
    WEIR_RUN_CHECKPOINT_SECONDS = 60,
};

/* The caller's own step of the pipeline. Without a device a worker calls it when it has built a batch: it may
 * write the tensors at `data` (batch->data), and several workers call it at a time. With a device the
 * consumer's thread calls it when the batch's expansion was given to `stream`: it gives the stream work on
 * `data`, an address of the device, which is done before the batch is ready. The digests are those of the
 * batch before. A failure is the batch's: it comes at its step. */
typedef struct weir_transform {
    void *context;
    weir_status (*apply)(void *context, uint64_t step, const weir_batch *batch, void *data,
                         weir_stream stream, weir_error *error); /* NULL: none */
} weir_transform;

typedef struct weir_run_options {
    size_t size; /* sizeof(weir_run_options) */

    /* What: the same batches for the same values. */
    weir_store *const *stores;
    size_t store_count;
    const weir_manifest *manifest;
    const char *dataset; /* NULL: the mix, or the only dataset. All stages but train run one dataset at
                            a time */
    weir_stage stage;
    uint32_t rank;
    uint32_t world_size; /* 0: rank and world size are what the launcher says (weir_launcher_read) */
    const void *token;   /* NULL: the manifest's own */
    size_t token_size;
    bool any_hash;       /* as in weir_batch_options … */
    bool pad;            /* … */
    bool with_digests;   /* … */
    uint64_t steps;      /* where the run ends, counted from step 0; 0: never in train, after one pass over
                            the dataset else */
    uint64_t first_step; /* where it begins, unless a checkpoint says; at most `steps` */
    bool drop_remainder; /* all stages but train: leave out the last batch if it is not full. In train the
                            manifest says so (data.drop_last) */

    /* How: workers, queues, memory. */
    uint32_t workers;             /* 0: WEIR_RUN_WORKERS. Batches of more than 64 sequences are built by all
                                     of them together, unless the policy is best effort (docs/pipeline.md) */
    uint32_t buffer_size;         /* batches ahead, each worker; 0: WEIR_RUN_BUFFER */
    uint32_t queue_size;          /* batches that the consumer may hold at a time, without a device; 0:
                                     WEIR_RUN_QUEUE */
    weir_policy policy;           /* as in weir_prefetch_options … */
    uint32_t max_lead;            /* … */
    uint32_t max_skips_per_round; /* … */
    weir_shard_mode shard_mode;   /* which steps are a worker's. Contiguous: best effort, with an end */
    uint64_t memory_limit;        /* bytes of the host, 0: none. ARENA_TOO_SMALL if the plan needs more */
    weir_transform transform;

    /* Where. */
    const char *device; /* NULL: batches are the host's; else as weir_device_open_named takes it */
    uint32_t depth;     /* batches on the device at a time, at most 64; 0: WEIR_RUN_DEPTH */
    bool anchor_rows;   /* batches have the tensor anchor_row on the device; else it is empty there: models do
                           not need it, and batch->anchor_rows has it on the host */
    bool read_back;     /* compare each batch on the device with the host's digest; it waits for the batch */

    /* Files. In a world of more than one rank each name is that of a rank's own file, NAME.rankN. */
    const char *trace;           /* record every batch that is given; NULL: no trace */
    bool trace_indices;          /* with the indices themselves */
    bool trace_memory;           /* and what the run's memory is when a batch is given: a commit of it, which
                                    waits for the device (docs/trace.md, `memory`) */
    bool trace_contents;         /* … with a digest of the batch's bytes in their place: trace_memory,
                                    with_digests, no transform */
    const char *checkpoint;      /* save the state there; NULL: nowhere */
    uint64_t checkpoint_seconds; /* how often; 0: WEIR_RUN_CHECKPOINT_SECONDS; UINT64_MAX: not by time */
    uint64_t checkpoint_steps;   /* and after every so many steps; 0: not by steps */
    const char *resume; /* a checkpoint to resume from: NAME if there is one, else NAME.rankN. If it is also
                           `checkpoint` and is not there yet, the run begins */
    const void *state;  /* the same in memory, what weir_run_state gave; NULL: begin, or `resume` */
    size_t state_size;
} weir_run_options;

typedef struct weir_run weir_run;

/* ---- Opening and closing --------------------------------------------------------------------- */

/* Checks all options, reads the checkpoint to resume from, and plans all memory. It starts no thread, opens
 * no device and writes no file: weir_run_start does. What the options point to is copied, but for the stores
 * and the manifest, which must outlive the run. The batch builder's errors for each dataset;
 * INVALID_DATASET_KEY if no store has a dataset of the mix; CONTRACT_VIOLATION (an option out of range, a
 * first step after the end, a launcher's variables that make no sense); CHECKPOINT_MISMATCH, which names what
 * differs, CBOR_INVALID, IO_ERROR (the checkpoint); ARENA_TOO_SMALL; OUT_OF_MEMORY. */
WEIR_API WEIR_CHECKED weir_status weir_run_open(const weir_env *env, const weir_run_options *options,
                                                weir_run **out, weir_error *error);

/* Takes all memory, opens the device, starts the workers, opens the trace, and saves the first checkpoint.
 * weir_run_next does so if it was not done. A run that begins replaces no file; one that resumes replaces a
 * checkpoint and nothing else, and resumes its trace if that is there. After a failure the run can only be
 * closed. OUT_OF_MEMORY, DEVICE_ERROR, IO_ERROR (a file that is there already, or that another run is
 * writing), TRACE_CORRUPT, CHECKPOINT_MISMATCH. */
WEIR_API WEIR_CHECKED weir_status weir_run_start(weir_run *run, weir_error *error);

/* Frees everything; batches that are still held are gone. It waits for workers and copies, and saves nothing:
 * weir_run_stop does. In a child of fork it leaves the trace, which is the parent's, as it is. */
WEIR_API void weir_run_close(weir_run *run);

/* ---- Taking batches -------------------------------------------------------------------------- */

/* A batch on loan: valid until it is released. On a device `batch->data` is an address there, and `rows`,
 * `compact` and `rules` are NULL; all else is the host's. */
typedef struct weir_taken {
    uint64_t step;
    const weir_dataset *dataset; /* of the manifest; of a mixed batch the mix, whose key is WEIR_MIX_KEY */
    const weir_store *store;     /* NULL: the batch is mixed, and batch->sources has them */
    const weir_batch *batch;     /* NULL at the end of the run */
    weir_event ready;            /* on a device: done when the batch is there */
    uint32_t slot;
} weir_taken;

/* The next batch; waits until it is built, not until it is on the device. It is in the trace when it is
 * given. Checkpoints that are due are saved first: they are of the state after the batches that were given
 * before, so a consumer that asks for the next batch must be done with those.
 *
 * At the end of the run the trace is finished and the last checkpoint saved. If the batch of a step
 * cannot be built (COUNTER_OVERFLOW, STORE_CORRUPT, IO_ERROR, DEVICE_ERROR, a transform's failure), the call
 * for that step fails, once: the trace ends with the failure, and a checkpoint of the state before it is
 * saved; then CANCELLED. CONTRACT_VIOLATION if too many batches are held (the run continues when one is
 * released), and in a child of fork. IO_ERROR if the trace or a checkpoint cannot be written. */
WEIR_API WEIR_CHECKED weir_status weir_run_next(weir_run *run, weir_taken *out, weir_error *error);

/* The same without waiting: *is_ready false if the next batch is not built yet. */
WEIR_API WEIR_CHECKED weir_status weir_run_try_next(weir_run *run, weir_taken *out, bool *is_ready,
                                                    weir_error *error);

/* Makes a stream of the device wait for the batch; without a device the batch is there. (A host waits by
 * weir_event_sync on taken.ready.) */
WEIR_API WEIR_CHECKED weir_status weir_run_wait(weir_run *run, const weir_taken *taken, weir_stream stream,
                                                weir_error *error);

/* Gives a batch back, in any order. On a device its memory is written again only after all that the stream
 * was given so far; CONTRACT_VIOLATION if it was released before, DEVICE_ERROR. Without a device it does not
 * fail: the stream says nothing, and releasing a batch again does nothing. */
WEIR_API WEIR_CHECKED weir_status weir_run_release(weir_run *run, const weir_taken *taken, weir_stream stream,
                                                   weir_error *error);

/* Ends the run: a consumer that waits gets CANCELLED. Also for a signal handler. */
WEIR_API void weir_run_cancel(weir_run *run);

/* ---- Saving ---------------------------------------------------------------------------------- */

/* Makes the trace durable, then saves the checkpoint: the state after the last batch that was given. Does
 * nothing for a run without files. IO_ERROR; CANCELLED if a batch was lost on the way to the consumer: then
 * the last checkpoint is the one to resume from; CONTRACT_VIOLATION in a child of fork, whose parent has the
 * files. */
WEIR_API WEIR_CHECKED weir_status weir_run_save(weir_run *run, weir_error *error);

/* Ends the run before its end: cancels it, saves, and closes the files. Batches that are held stay valid;
 * there is no next one (CANCELLED). In a child of fork it saves nothing. The errors of weir_run_save. */
WEIR_API WEIR_CHECKED weir_status weir_run_stop(weir_run *run, weir_error *error);

/* The state after the last batch that was given, as a canonical CBOR map that holds a hash of itself
 * (weir_checkpoint_v2): what weir_run_save writes. The trace is made durable first. It is valid until the
 * next call of this function. The errors of weir_run_save; OUT_OF_MEMORY. */
WEIR_API WEIR_CHECKED weir_status weir_run_state(weir_run *run, const void **data, size_t *size,
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

/* ---- About a run ----------------------------------------------------------------------------- */

/* Its options with the defaults in place, and what follows from them. It belongs to the run. */
typedef struct weir_run_info {
    uint32_t rank;
    uint32_t world_size;
    weir_stage stage;
    weir_policy policy;
    uint32_t workers;
    uint32_t buffer_size;
    uint32_t queue_size; /* the depth, on a device */
    uint64_t first_step; /* where this sitting begins */
    uint64_t end;        /* WEIR_ENDLESS if it has none */
    bool is_resumed;
    const char *trace; /* this rank's own files; NULL: none */
    const char *checkpoint;
    const char *resumed_from;
    const weir_plan *memory; /* arena `slots`: the compact batch of each slot (slot/N); on the way to a device
                                it is pinned, and has room for a usual one; `tensors`: its tensors
                                (tensors/N), without a device; `builders`: what the builders of each worker
                                keep (worker/N), and each slot's lists (lists/N); `device`: places for tensors
                                and compact batches (place/N, place_slot/N), the stores' tables (tables/0),
                                the rules (rules/0) */
    weir_device *device;     /* NULL: none, or not started */
} weir_run_info;
WEIR_API const weir_run_info *weir_run_describe(const weir_run *run);

/* The step after the last batch that was given; in best effort the first step and the number of those given
 * since. */
WEIR_API uint64_t weir_run_step(const weir_run *run);

/* The stages that a batch passes through, in this order: the pages of a store that is larger than memory are
 * asked for some time before they are read, the workers build the batch, the caller's function transforms it,
 * it is transferred to the device, the consumer uses it. One that waits for input is faster than what comes
 * before it, one that waits for room is faster than what comes after: the one that waits for neither is the
 * one to speed up. */
typedef enum weir_run_stage {
    WEIR_RUN_READ,
    WEIR_RUN_BUILD,
    WEIR_RUN_TRANSFORM,
    WEIR_RUN_TRANSFER,
    WEIR_RUN_CONSUME,
    WEIR_RUN_STAGES
} weir_run_stage;

typedef struct weir_stage_metrics {
    uint64_t batches; /* that it has done */
    uint64_t busy_ns; /* of all its threads together */
    uint64_t input_wait_ns;
    uint64_t room_wait_ns;
    uint32_t queued; /* batches that lie ready after it now; after the last: that the consumer holds … */
    uint32_t room;   /* … and how many can */
} weir_stage_metrics;

/* What a run has done since it was started. `workers` may be NULL; else it has room for one entry per worker,
 * and has those of the prefetcher (metrics->prefetch.workers of them: the lanes, if batches are large). */
typedef struct weir_run_metrics {
    weir_prefetch_metrics prefetch;
    weir_stage_metrics stages[WEIR_RUN_STAGES];
    uint64_t compact_bytes;  /* that were copied to the device */
    uint64_t tensor_bytes;   /* of these batches' tensors */
    uint64_t pages_read;     /* that were asked for and not in memory: a page, or a block to verify */
    uint64_t read_back;      /* batches that were read back and are the same */
    uint64_t unpinned_bytes; /* of compact_bytes: texts that the batch's slot had no room for, which the
                                driver copies slower */
} weir_run_metrics;
WEIR_API void weir_run_measure(const weir_run *run, weir_run_metrics *out, weir_worker_metrics *workers);

/* A store's embeddings, float16 [count][embedding_dim]: on the device, where they are from the start, once;
 * without a device the store's own memory. NULL and 0 if the store has none. Of mixed batches `store` is
 * NULL: those of all their stores, one after the other, as the batches number them. CONTRACT_VIOLATION if the
 * run was not started, the store is not one of its, or is NULL and batches are not mixed; STORE_CORRUPT. */
typedef struct weir_tables {
    uint32_t embedding_dim;
    uint32_t column_count;
    uint32_t category_count;
    const void *column_embeddings;
    const void *category_embeddings;
} weir_tables;
WEIR_API WEIR_CHECKED weir_status weir_run_tables(const weir_run *run, const weir_store *store,
                                                  weir_tables *out, weir_error *error);

#ifdef __cplusplus
}
#endif
#endif
