/* weir/context.h: contexts on demand: the sequence of an entity at a time, which need not be a seed of any
 * split. What a model in production is asked (docs/spec/05d-contexts.md).
 *
 *   weir_context_options options = {.size = sizeof options, .store = store, .manifest = manifest,
 *                                   .task = "churn"};
 *   weir_context_builder_open(NULL, &options, &builder, &error);
 *   weir_batch_buffer_open(&builder, 1, NULL, &buffer, &error);
 *   weir_key_value key = {.type = WEIR_KEY_INTEGER, .integer = 27005};
 *   weir_context_request request = {.key = &key, .key_count = 1, .has_time = true, .time = now};
 *   weir_context_build(builder, &request, 1, buffer, &error);
 *   const weir_batch *batch = weir_batch_view(buffer);      its tensors are those of any batch
 *
 * A request for a seed that the store has gives the sequence, label included, that this seed has in
 * evaluation. Any other derived target is null.
 *
 * A builder belongs to one thread; open one for each thread that answers requests. They share the store. If
 * contexts have examples that walks find, a builder has helpers, threads that sleep until it answers: see
 * `threads`. What they find does not depend on how many there are. A child of fork has none, and does
 * without.
 *
 * All memory is taken at open: answering allocates nothing, and takes locks or calls the system only as
 * building any batch does (weir/batch.h), and to wake the helpers. */
#ifndef WEIR_CONTEXT_H
#define WEIR_CONTEXT_H

#include "weir/batch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* sample_index of a request that is not a seed of the store. */
#define WEIR_NO_SAMPLE UINT64_MAX

typedef struct weir_context_request {
    const weir_key_value *key; /* of a row of the task's anchor table (in a link task the source's, or the
                                  destination's); borrowed during the call … */
    uint32_t key_count;  /* … as many values as its primary key has columns. 0: `row` says which row */
    uint32_t row;        /* its number in the store (weir_store_row_of) */
    bool has_time;       /* else the anchor row's time, or everything if that was always there */
    bool is_destination; /* of a link task: the row is one of the destination table */
    bool has_seed;       /* else 0, or as the store's own seed draws if the request is one */
    int64_t time;        /* microseconds since 1970; 2^63-1 sees everything */
    uint64_t seed;       /* which of many contexts, if the manifest's child policy draws any */
} weir_context_request;

typedef struct weir_context_options {
    size_t size; /* sizeof(weir_context_options) */
    const weir_store *store;
    const weir_manifest *manifest; /* its `batch`, hash and token count; its datasets do not */
    const char *task;
    uint32_t most_requests; /* of one batch; 0: 1 */
    const void *token;      /* NULL: the manifest's own */
    size_t token_size;
    bool with_digests;
    uint32_t threads; /* that take the walks of a context together (`retrieval`), the caller's among them, at
                         most 256; 0: 2 if there are 2 processors and 50,000 steps of walks or more, else 1 */
} weir_context_options;

/* A builder that answers requests to one task; weir_batch_builder_close closes it, and weir_batch_buffer_open
 * makes buffers for it. The store must outlive it, the manifest may be closed after. INVALID_DATASET_KEY if
 * the store has no such task; OUT_OF_MEMORY; CONTRACT_VIOLATION (options); STORE_CORRUPT. */
WEIR_API WEIR_CHECKED weir_status weir_context_builder_open(const weir_env *env,
                                                            const weir_context_options *options,
                                                            weir_batch_builder **out, weir_error *error);

/* Builds one batch of `count` requests, in their order. In the batch, `step` is empty but for valid_count.
 * KEY_NOT_FOUND if the anchor table has no such key or row; CONTRACT_VIOLATION if the store keeps no keys of
 * it, a key has another number of values, a time is -2^63, a destination is asked of a task without any,
 * there are no requests or more than the builder takes, or the builder or the buffer is not for contexts of
 * this task; STORE_CORRUPT. On an error the buffer holds no batch; the diagnostic `request` says which one
 * failed. */
WEIR_API WEIR_CHECKED weir_status weir_context_build(weir_batch_builder *builder,
                                                     const weir_context_request *requests, uint32_t count,
                                                     weir_batch_buffer *buffer, weir_error *error);

#ifdef __cplusplus
}
#endif
#endif
