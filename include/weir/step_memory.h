/* weir/step_memory.h: the memory of a loop whose steps are alike. One step is recorded, its requests are
 * packed, and all later steps are served from one block at planned offsets (docs/planner.md, "PyTorch").
 *
 *   weir_step_memory_open(NULL, device, NULL, &memory, &error);
 *   for (;;) {
 *       weir_step_memory_begin(memory, &error);
 *       … weir_step_memory_allocate(memory, size, stream, &error), weir_step_memory_free(memory, …) …
 *       weir_step_memory_end(memory, &error);
 *   }
 *
 * The first steps warm up, two are recorded (the second tells when the memory of the first is given back),
 * and from then on the k-th request of a size gets the place of the k-th recorded request of that size, if it
 * comes on the recorded stream and the place is free. Every other request falls through to the driver. So a
 * step that differs is slower, never wrong. Memory is in the order of its stream: what was freed may be given
 * out again at once.
 *
 * Any thread may allocate, free, share and describe; begin and end are for the loop's thread. */
#ifndef WEIR_STEP_MEMORY_H
#define WEIR_STEP_MEMORY_H

#include "weir/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_step_memory weir_step_memory;

/* Zero what is not wanted. */
typedef struct weir_step_memory_options {
    size_t size;              /* of this struct */
    uint32_t warmup_plus_one; /* steps before the recorded ones, plus 1; 0: 1 step */
    uint32_t effort_plus_one; /* as in weir_packing_options */
} weir_step_memory_options;

/* The device must outlive *memory, which the caller owns. Options may be NULL. DEVICE_ERROR: the driver has
 * no pools (CUDA before 11.2). OUT_OF_MEMORY, CONTRACT_VIOLATION. */
WEIR_API WEIR_CHECKED weir_status weir_step_memory_open(const weir_env *env, weir_device *device,
                                                        const weir_step_memory_options *options,
                                                        weir_step_memory **memory, weir_error *error);

/* Everything that was allocated must have been freed: the block goes with it. */
WEIR_API void weir_step_memory_close(weir_step_memory *memory);

/* The bounds of a step. The end of the second recorded step packs and takes the block; it waits for the
 * device then. If there is no room for the block, or too little memory to plan, requests are passed to the
 * pool, and the failure is returned once. CONTRACT_VIOLATION: out of turn. */
WEIR_API WEIR_CHECKED weir_status weir_step_memory_begin(weir_step_memory *memory, weir_error *error);
WEIR_API WEIR_CHECKED weir_status weir_step_memory_end(weir_step_memory *memory, weir_error *error);

/* Memory for work on a stream, 512-byte aligned; NULL with *error (OUT_OF_MEMORY, DEVICE_ERROR). Freed memory
 * must not be used by work that is given to the stream later. What is freed must be from here, and is freed
 * once; NULL is nothing. */
WEIR_API void *weir_step_memory_allocate(weir_step_memory *memory, size_t size, weir_stream stream,
                                         weir_error *error);
WEIR_API void weir_step_memory_free(weir_step_memory *memory, void *data, weir_stream stream);

/* Another stream uses the memory too: freeing it waits for that stream. */
WEIR_API void weir_step_memory_share(weir_step_memory *memory, void *data, weir_stream stream);

typedef struct weir_step_memory_info {
    uint64_t steps;         /* ended */
    bool is_planned;        /* the block is there */
    uint64_t requests;      /* of the recorded step */
    uint64_t planned;       /* of them, what has a place: what outlives two steps has none */
    uint64_t block_bytes;   /* the packing's peak */
    uint64_t lower_bound;   /* no packing of these requests needs less */
    uint64_t used_bytes;    /* of the block, now: the rounded sizes of what is live in it */
    uint64_t peak_bytes;    /* their largest sum ever */
    uint64_t served;        /* requests from the block */
    uint64_t fell_through;  /* requests within steps that went to the pool since there is a block */
    uint64_t pool_bytes;    /* live outside the block: the rounded sizes */
    uint64_t pool_reserved; /* what the driver keeps for them */
} weir_step_memory_info;
WEIR_API weir_step_memory_info weir_step_memory_describe(weir_step_memory *memory);

#ifdef __cplusplus
}
#endif
#endif
