/* A run's batches on a device: copied ahead in their compact form, one asynchronous copy per batch, and
 * expanded there by a kernel, with events for what waits for what. It has no thread: who takes a batch also
 * starts the copies of those that are ready after it. */
#ifndef WEIR_PIPELINE_STAGING_H
#define WEIR_PIPELINE_STAGING_H

#include "batch/buffer.h"
#include "device/kernel.h"
#include "pipeline/loader.h"

#define WEIR_PIPELINE__STAGING_OPERATOR "weir.run.device"

enum { WEIR_PIPELINE__DEPTH_MAX = 64 };

/* A place on the device. It is free, or its copy was started (queued), or the consumer has it (held). Only
 * the consumer's thread moves it on, but any thread may release it, which makes it free. */
enum {
    WEIR_PIPELINE__PLACE_FREE,
    WEIR_PIPELINE__PLACE_QUEUED,
    WEIR_PIPELINE__PLACE_HELD,
    WEIR_PIPELINE__PLACE_RELEASED
};

typedef struct weir_pipeline__place {
    _Atomic int state;
    _Atomic uint64_t held_step; /* of the batch that is held, or was last */
    uint64_t order;             /* of taking: batches are given on in this order */
    weir_taken loaded;          /* the host's slot … */
    bool has_loaded;            /* … which goes back when it is copied */
    void *data;                 /* the batch's tensors, on the device */
    uint8_t *compact;           /* its compact form, on the device */
    weir_event copied;          /* the host's slot is free again */
    weir_event ready;           /* the tensors are there */
    weir_event free;            /* the consumer is done with it; never recorded before its first release */
    weir_batch batch;
    uint64_t *epochs;
    uint64_t *indices;
    uint64_t *digests;
    uint32_t *anchors;
    uint32_t *dataset_ids;
    uint64_t *group_digests;
    uint64_t step;  /* of the run, after this batch … */
    uint64_t *mark; /* … and what its prefetcher had given then */
} weir_pipeline__place;

typedef struct weir_pipeline__staging {
    const weir_env *env;
    weir_device *device;
    weir_pipeline__loader *loader;
    weir_arenas *there; /* the arena `device` */
    weir_device__kernel_source expansion;
    weir_device__kernel kernel;
    const void **rules;     /* of each of the run's datasets, on the device */
    weir_tables *tables;    /* of each store, there */
    weir_tables joined;     /* of mixed batches */
    weir_stream stream;     /* of the copies */
    weir_stream expansions; /* of the kernels */
    uint32_t depth;
    weir__block lists; /* what places keep on the host */
    weir_pipeline__place *places;
    uint32_t queued;
    uint64_t taken;
    uint64_t step;  /* after the last batch that was given … */
    uint64_t *mark; /* … likewise */
    bool is_ended;
    weir_status failure; /* of a batch that was to come after those that are queued */
    weir_error failure_record;
    uint64_t transferred;
    uint64_t busy_ns; /* in starting copies */
    uint64_t wait_ns; /* for the copy out of a place that is filled again */
    uint64_t compact_bytes;
    uint64_t unpinned_bytes; /* of them */
    uint64_t tensor_bytes;
    uint8_t *read_back; /* pinned, of a batch's size, from the first weir_pipeline__staging_read on */
} weir_pipeline__staging;

/* Adds what a device needs to what the loader does, which is open. */
void weir_pipeline__staging_measure(weir_pipeline__loader *loader);

/* Opens the device that the options name, takes the plan's memory on it, puts tables and rules there, and
 * starts the loader, whose slots lie in pinned memory. Close it also after a failure. DEVICE_ERROR, also if
 * there is no compiler of kernels (libnvrtc). */
WEIR_CHECKED weir_status weir_pipeline__staging_start(weir_pipeline__staging *staging,
                                                      weir_pipeline__loader *loader, const weir_plan *plan,
                                                      weir_error *error);

/* Waits for the copies under way; closes the loader and the device too. */
void weir_pipeline__staging_close(weir_pipeline__staging *staging);

/* The next batch; if none is built yet, waits or sets *is_ready false. */
WEIR_CHECKED weir_status weir_pipeline__staging_next(weir_pipeline__staging *staging, bool waits,
                                                     weir_taken *out, bool *is_ready, weir_error *error);
WEIR_CHECKED weir_status weir_pipeline__staging_release(weir_pipeline__staging *staging,
                                                        const weir_taken *taken, weir_stream stream,
                                                        weir_error *error);

/* A copy of a batch's bytes on the device, until the next call; waits for them. The consumer. */
WEIR_CHECKED weir_status weir_pipeline__staging_read(weir_pipeline__staging *staging, const weir_taken *taken,
                                                     const uint8_t **data, weir_error *error);

#endif
