/* weir/prefetch.h: many workers, one order (docs/pipeline.md).
 *
 * A prefetcher shards the items of a source over N workers. Each worker is a thread that fills a bounded
 * ring of preallocated slots; one consumer takes items from the rings by a policy. What was taken, and
 * nothing else, is the state: a prefetcher opened with a saved state resumes exactly after it.
 *
 *   weir_prefetch_options options = {.size = sizeof options, .source = {.length = 1000, .produce = produce},
 *                                    .epochs = 1, .workers = 4, .slot_size = 4096};
 *   weir_prefetch_open(NULL, &options, &prefetch, &error);
 *   weir_item item;
 *   while ((status = weir_prefetch_next(prefetch, &item, &error)) == WEIR_OK && item.slot) {
 *       use(item.slot);
 *       weir_prefetch_release(prefetch, &item);
 *   }
 *   weir_prefetch_close(prefetch);
 *
 * One thread at a time takes items; releasing and cancelling are for any thread. After open nothing
 * allocates; a thread that has nothing to do sleeps. */
#ifndef WEIR_PREFETCH_H
#define WEIR_PREFETCH_H

#include "weir/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_ENDLESS UINT64_MAX /* a source's length: one pass that does not end */

/* An item: which one it is, and where it lies. */
typedef struct weir_item {
    uint64_t epoch;
    uint64_t position; /* in the epoch, below the source's length */
    uint64_t key;      /* the iterator's */
    uint32_t worker;
    uint32_t slot_index;
    void *slot;             /* NULL if there are no more items */
    const uint32_t *cancel; /* for weir_item_is_cancelled */
} weir_item;

/* Where items come from. `produce` fills item->slot; each worker calls it from its own thread, for ascending
 * items of its shard. What an item is must depend on (key, epoch, position) alone. */
typedef struct weir_source {
    void *context;
    uint64_t length;
    weir_status (*produce)(void *context, const weir_item *item, weir_error *error);
} weir_source;

/* Whether the prefetcher is being cancelled or closed: a producer that takes long asks now and then, and
 * returns anything. */
WEIR_API bool weir_item_is_cancelled(const weir_item *item);

typedef enum weir_shard_mode { WEIR_SHARD_INTERLEAVED, WEIR_SHARD_CONTIGUOUS } weir_shard_mode;
typedef enum weir_policy { WEIR_POLICY_STRICT, WEIR_POLICY_BEST_EFFORT } weir_policy;

/* What an option that is 0 stands for. */
enum {
    WEIR_PREFETCH_LEAD = 16,
    WEIR_PREFETCH_SKIPS = 4,
    WEIR_PREFETCH_WORKERS = 1,
    WEIR_PREFETCH_BUFFER = 2,
    WEIR_PREFETCH_QUEUE = 1,
};

/* Zero what is not wanted. */
typedef struct weir_prefetch_options {
    size_t size; /* sizeof(weir_prefetch_options) */

    /* The iterator. The first pass begins at start_position of start_epoch and is sharded as what is left. */
    weir_source source;
    uint64_t key;
    uint64_t epochs; /* passes, from start_epoch on; 0: endless */
    uint64_t start_position;
    uint64_t start_epoch;

    /* The shards. */
    weir_shard_mode shard_mode;
    bool drop_remainder;

    weir_policy policy;
    uint32_t max_lead;            /* best effort */
    uint32_t max_skips_per_round; /* best effort */

    uint32_t workers;
    uint32_t buffer_size; /* slots of each worker's ring */
    uint32_t queue_size;  /* items that the consumer may hold at a time */

    size_t slot_size;   /* of the slots that the prefetcher makes itself, 64-byte aligned and zeroed … */
    void *const *slots; /* … or weir_prefetch_slot_count of the caller's own */

    bool shares_items; /* strict order of one pass, interleaved and without a dropped remainder: an item is
                          made by whichever worker is free, not by the one whose shard it is in. Order and
                          states are the same; a slow worker delays its items and no others */

    const void *state; /* what weir_prefetch_save wrote: resume there; NULL: begin */
    size_t state_size;
} weir_prefetch_options;

/* workers * buffer_size + queue_size, with the defaults filled in. */
WEIR_API uint64_t weir_prefetch_slot_count(const weir_prefetch_options *options);

typedef struct weir_prefetch weir_prefetch;

/* Starts the workers. CONTRACT_VIOLATION (an option out of range), CHECKPOINT_MISMATCH (the state is
 * another configuration's; the message names what differs, and what can be changed without harm is not
 * refused), CBOR_INVALID (no state), OUT_OF_MEMORY. */
WEIR_API WEIR_CHECKED weir_status weir_prefetch_open(const weir_env *env,
                                                     const weir_prefetch_options *options,
                                                     weir_prefetch **out, weir_error *error);

/* Cancels, waits for the producers that are at work, and frees everything; items that are still held are
 * gone. In a child of fork it only lets go of the memory. */
WEIR_API void weir_prefetch_close(weir_prefetch *prefetch);

/* The next item by the policy; waits for it. item->slot is NULL at the end. A producer's failure comes at
 * its item's place, once, as the producer gave it; then, and after a cancel, CANCELLED. CONTRACT_VIOLATION
 * if queue_size items are held already, and in a child of fork. */
WEIR_API WEIR_CHECKED weir_status weir_prefetch_next(weir_prefetch *prefetch, weir_item *item,
                                                     weir_error *error);

/* The same without waiting: *is_ready false if the next item is not there yet. */
WEIR_API WEIR_CHECKED weir_status weir_prefetch_try_next(weir_prefetch *prefetch, weir_item *item,
                                                         bool *is_ready, weir_error *error);

/* Gives an item's slot back. Any thread. */
WEIR_API void weir_prefetch_release(weir_prefetch *prefetch, const weir_item *item);

/* Ends it: a consumer that waits gets CANCELLED. Any thread, and a signal handler. */
WEIR_API void weir_prefetch_cancel(weir_prefetch *prefetch);

/* The state after the last item that was taken, as one canonical CBOR map; the caller releases it. The
 * consumer's thread. OUT_OF_MEMORY. */
WEIR_API WEIR_CHECKED weir_status weir_prefetch_save(const weir_prefetch *prefetch, weir_bytes *out,
                                                     weir_error *error);

typedef struct weir_worker_metrics {
    uint64_t produced;
    uint64_t consumed;
    uint64_t wait_ns;  /* that the worker slept for a free slot */
    uint64_t stalls;   /* times that the consumer had to wait for it */
    uint32_t occupied; /* slots of its ring that are ready now */
} weir_worker_metrics;

typedef struct weir_prefetch_metrics {
    uint64_t produced;
    uint64_t consumed;
    uint64_t consumer_wait_ns;
    uint64_t stalls;
    uint32_t held; /* items that the consumer holds now */
    uint32_t workers;
} weir_prefetch_metrics;

/* The consumer's thread. `workers` may be NULL; else it has room for one entry per worker. */
WEIR_API void weir_prefetch_measure(const weir_prefetch *prefetch, weir_prefetch_metrics *metrics,
                                    weir_worker_metrics *workers);

#ifdef __cplusplus
}
#endif
#endif
