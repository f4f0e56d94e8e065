/* The host's side of a run: workers that build the batches of its schedule ahead, into slots, and the
 * consumer that takes them in order. One item of the prefetcher is one step. */
#ifndef WEIR_PIPELINE_LOADER_H
#define WEIR_PIPELINE_LOADER_H

#include <stdatomic.h>

#include "base/crew.h"
#include "pipeline/checkpoint.h"
#include "pipeline/run_memory.h"

typedef struct weir_pipeline__slot {
    weir_batch_buffer *buffer;
    size_t member; /* of the schedule, whose batch it holds */
} weir_pipeline__slot;

typedef struct weir_pipeline__loader {
    const weir_env *env;
    weir_pipeline__schedule schedule;
    const weir_run_options *options;  /* with the defaults in place */
    weir_pipeline__meter meter;       /* what worker 0's builders and the buffers' lists live in */
    weir_pipeline__builders *workers; /* first those that lead a lane */
    uint32_t lane_count;              /* the prefetcher's workers */
    uint32_t unit; /* sequences that are built at a time; 0: workers build their steps alone */
    weir__crew crew;
    weir_mix *mix; /* the consumer's; NULL if the run is not mixed */
    weir_pipeline__memory_need need;
    weir_arenas *compact; /* of the compact batches */
    weir_arenas *tensors; /* of their tensors, without a device */
    weir_pipeline__slot *slots;
    void **slot_pointers;
    weir_pipeline__restored start;
    _Atomic(weir_prefetch *) prefetch; /* NULL until it is started */
    _Atomic uint64_t build_ns;         /* that workers spent in building … */
    _Atomic uint64_t transform_ns;     /* … and in the caller's function, */
    _Atomic uint64_t transformed;      /* which had so many batches */
    uint64_t *indices;                 /* room for one rank's share of a batch */
    uint64_t step;                     /* after the last batch that was taken */
} weir_pipeline__loader;

/* Opens the schedule and the first worker's builders, measures what the run needs, and finds where it begins.
 * The loader keeps the options, and the checkpoint that they have. Close it also after a failure. */
WEIR_CHECKED weir_status weir_pipeline__loader_open(weir_pipeline__loader *loader, const weir_env *env,
                                                    const weir_run_options *options, weir_error *error);

/* Opens the other builders and the slots, where the plan says, and starts the workers. Compact batches lie in
 * `memory`; batches are expanded if there is no device. */
WEIR_CHECKED weir_status weir_pipeline__loader_start(weir_pipeline__loader *loader, const weir_plan *plan,
                                                     const weir_memory *memory, weir_error *error);
void weir_pipeline__loader_close(weir_pipeline__loader *loader);

/* The next batch; if it is not built yet, waits or sets *is_ready false. */
WEIR_CHECKED weir_status weir_pipeline__loader_next(weir_pipeline__loader *loader, bool waits,
                                                    weir_taken *out, bool *is_ready, weir_error *error);
void weir_pipeline__loader_release(weir_pipeline__loader *loader, const weir_taken *taken);

/* Adds to an error which call of the sampler the batch of a step is; the dataset and cursor of the step, if
 * it has any. The consumer. */
const weir_dataset *weir_pipeline__loader_name_step(weir_pipeline__loader *loader, uint64_t step,
                                                    weir_cursor *cursor, weir_error *error);

static inline uint64_t weir_pipeline__loader_now(const weir_pipeline__loader *loader) {
    return loader->env->now_ns(loader->env->context);
}

/* Calls the caller's function, if there is one. */
WEIR_CHECKED weir_status weir_pipeline__loader_transform(weir_pipeline__loader *loader, uint64_t step,
                                                         const weir_batch *batch, weir_stream stream,
                                                         weir_error *error);

/* The prefetcher, or NULL if it was not started. */
static inline weir_prefetch *weir_pipeline__loader_prefetch(const weir_pipeline__loader *loader) {
    return atomic_load(&loader->prefetch);
}

#endif
