/* What opening a staging and running it share. */
#ifndef WEIR_SRC_PIPELINE_STAGING_H
#define WEIR_SRC_PIPELINE_STAGING_H

#include <stdatomic.h>

#include "base/internal.h"
#include "batch/digest.h"
#include "device/kernel.h"
#include "pipeline/loader.h"
#include "weir/staging.h"

#define WEIR__STAGING_OPERATOR "weir.staging"

enum { WEIR__STAGING_DEPTH_MAX = 64 };

/* A place on the device. It is free, or its copy was started (queued), or the consumer has it (held). Only
 * the consumer's thread moves it on, but releasing makes it free from any thread. */
enum { WEIR__PLACE_FREE, WEIR__PLACE_QUEUED, WEIR__PLACE_HELD };

typedef struct weir__place {
    _Atomic int state;
    uint64_t order;     /* of taking: batches are given on in this order */
    uint64_t step;      /* of the run, behind this batch */
    weir_loaded loaded; /* the host's slot … */
    bool has_loaded;    /* … which goes back when it is copied */
    void *data;         /* the batch's tensors, on the device */
    void *compact;      /* its compact form, on the device */
    weir_event copied;  /* the host's slot is free again */
    weir_event ready;   /* the tensors are there */
    weir_event free;    /* the consumer is done with it; never recorded before its first release */
    weir_batch batch;
    uint64_t *epochs;
    uint64_t *indices;
    uint64_t *digests;
    weir_cbor_writer checkpoint; /* behind this batch */
} weir__place;

/* A stretch of one kind of memory, laid out by the plan. */
typedef struct weir__stretch {
    uint8_t *base;
    uint64_t size;
} weir__stretch;

typedef struct weir__store_tables {
    const weir_store *store;
    weir_staged_tables there;
} weir__store_tables;

struct weir_staging {
    const weir_env *env;
    weir_device *device;
    weir_memory memory; /* the device's */
    weir_memory pinned;
    weir_loader *loader;
    weir_plan *plan;
    weir__memory_need need; /* what the plan is for */
    weir__stretch there;    /* the arena `device` */
    weir__kernel_source expansion;
    weir__kernel kernel;
    const void **rules;     /* of each of the run's datasets, on the device */
    weir_stream stream;     /* of the copies */
    weir_stream expansions; /* of the kernels */
    uint32_t depth;
    weir__place *places;
    uint32_t queued;
    uint64_t taken;
    uint64_t step; /* behind the last batch that was given */
    bool is_ended;
    bool keeps_checkpoints;
    weir_cbor_writer checkpoint; /* behind the batch that was given last; before the first, the run's start */
    weir_status failure;         /* of a batch that was to come behind those that are queued */
    weir_error failure_record;
    weir__store_tables *tables; /* one a store */
    size_t store_count;
    weir_staging_metrics metrics;
    uint8_t *read_back; /* pinned, of a batch's size, from the first weir_staging_verify on */
    weir__digester digester;
};

/* Writes the loader's state into a writer of memory, in the place of what was there. */
WEIR_CHECKED weir_status weir__staging_keep_checkpoint(weir_staging *staging, weir_cbor_writer *w,
                                                       weir_error *error);

#endif
