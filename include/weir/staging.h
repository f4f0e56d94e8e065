/* weir/staging.h: a run's batches on a device: copied ahead in their compact form, one asynchronous copy a
 * batch, and expanded there by a kernel, with events for what waits for what (docs/devices.md).
 *
 *   weir_staging_options options = {.size = sizeof options, .device = device, .loader = &loading};
 *   weir_staging_open(NULL, &options, &staging, &error);
 *   weir_staged staged;
 *   while ((status = weir_staging_next(staging, &staged, &error)) == WEIR_OK && staged.batch) {
 *       weir_staging_wait(staging, &staged, stream, &error);       // the stream waits, the host does not
 *       train(staged.batch->data, stream);                         // addresses of the device
 *       weir_staging_release(staging, &staged, stream, &error);    // behind what the stream was given
 *   }
 *   weir_staging_close(staging);
 *
 * The staging opens a loader of its own whose slots lie in pinned memory, and has no thread: who takes a
 * batch also starts the copies of those that are ready behind it. One thread at a time takes batches;
 * releasing and cancelling are for any thread. */
#ifndef WEIR_STAGING_H
#define WEIR_STAGING_H

#include "weir/device.h"
#include "weir/loader.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { WEIR_STAGING_DEPTH = 3 };

typedef struct weir_staging_options {
    size_t size; /* sizeof(weir_staging_options) */
    weir_device *device;
    const weir_loader_options *loader; /* memory, without_tensors and queue_size are the staging's to set */
    uint32_t depth;        /* batches on the device at a time, at most 64; 0: WEIR_STAGING_DEPTH */
    bool with_checkpoints; /* keep the run's state behind each batch, for weir_staging_checkpoint */
} weir_staging_options;

typedef struct weir_staging weir_staging;

/* A batch on the device, on loan until it is released. In the view, `data` is an address of the device;
 * `rows`, `compact` and `rules` are NULL; all else is the host's. */
typedef struct weir_staged {
    uint64_t step;
    const weir_dataset *dataset;
    const weir_store *store;
    const weir_batch *batch; /* NULL at the end of the run */
    weir_event ready;        /* done when the batch is there */
    uint32_t slot;
} weir_staged;

/* The device, and what the loader's options point to, must outlive the staging. weir_loader_open's errors;
 * CONTRACT_VIOLATION (a depth out of range); DEVICE_ERROR, also where there is no compiler of kernels
 * (libnvrtc). */
WEIR_API WEIR_CHECKED weir_status weir_staging_open(const weir_env *env, const weir_staging_options *options,
                                                    weir_staging **out, weir_error *error);

/* Waits for the copies under way; batches that are still held are gone. */
WEIR_API void weir_staging_close(weir_staging *staging);

/* The next batch; waits until it is built, not until it is copied. The loader's errors, at their step, once,
 * and the device's; then CANCELLED. CONTRACT_VIOLATION where `depth` batches are held. */
WEIR_API WEIR_CHECKED weir_status weir_staging_next(weir_staging *staging, weir_staged *out,
                                                    weir_error *error);

/* Makes a stream wait for the batch. (A host waits by weir_event_sync on staged.ready.) */
WEIR_API WEIR_CHECKED weir_status weir_staging_wait(weir_staging *staging, const weir_staged *staged,
                                                    weir_stream stream, weir_error *error);

/* Gives the batch back behind all that the stream was given: its memory is overwritten only then. */
WEIR_API WEIR_CHECKED weir_status weir_staging_release(weir_staging *staging, const weir_staged *staged,
                                                       weir_stream stream, weir_error *error);

/* Ends it, as weir_loader_cancel. */
WEIR_API void weir_staging_cancel(weir_staging *staging);

/* ---- What else there is ---------------------------------------------------------------------- */

/* A store's tables, which are on the device from the beginning: float16 [count][embedding_dim]. NULL and 0
 * where a store has no embeddings, and for a store that is not of the run. */
typedef struct weir_staged_tables {
    uint32_t embedding_dim;
    uint32_t column_count;
    uint32_t category_count;
    const void *column_embeddings;
    const void *category_embeddings;
} weir_staged_tables;
WEIR_API weir_staged_tables weir_staging_tables(const weir_staging *staging, const weir_store *store);

typedef struct weir_staging_metrics {
    uint64_t batches;       /* whose copies were started */
    uint64_t compact_bytes; /* that were copied */
    uint64_t bytes;         /* of these batches' tensors */
} weir_staging_metrics;
WEIR_API void weir_staging_measure(const weir_staging *staging, weir_staging_metrics *out);

/* The plan of all memory: what the loader plans (its slots are pinned, and have no tensors), and arena
 * `device` (place/N, place_slot/N, tables/0, rules/0). It belongs to the staging. weir_staging_plan makes it
 * (the caller closes it) without a device. */
WEIR_API const weir_plan *weir_staging_memory(const weir_staging *staging);
WEIR_API WEIR_CHECKED weir_status weir_staging_plan(const weir_env *env, const weir_staging_options *options,
                                                    weir_plan **out, weir_error *error);

/* The loader behind it, for its metrics, end, trace and cancel; batches are the staging's to take. Its
 * step runs ahead; that behind the last batch that weir_staging_next gave is weir_staging_step. */
WEIR_API weir_loader *weir_staging_loader(const weir_staging *staging);
WEIR_API uint64_t weir_staging_step(const weir_staging *staging);

/* Reads a batch back and compares its digest with the one it was built with; waits for it. DEVICE_ERROR
 * where they differ, CONTRACT_VIOLATION where the loader makes no digests. The thread that takes batches. */
WEIR_API WEIR_CHECKED weir_status weir_staging_verify(weir_staging *staging, const weir_staged *staged,
                                                      weir_error *error);

/* The checkpoint (weir_loader_checkpoint) behind the last batch that weir_staging_next gave; before the
 * first, where the run began. It is valid until the next call of weir_staging_next. CONTRACT_VIOLATION where
 * checkpoints are not kept. */
WEIR_API WEIR_CHECKED weir_status weir_staging_checkpoint(const weir_staging *staging, const void **data,
                                                          size_t *size, weir_error *error);

/* The same as a file, as weir_loader_checkpoint_save. */
WEIR_API WEIR_CHECKED weir_status weir_staging_checkpoint_save(const weir_staging *staging, const char *path,
                                                               uint8_t hash[WEIR_HASH_SIZE],
                                                               weir_error *error);

#ifdef __cplusplus
}
#endif
#endif
