/* A prefetcher from inside: what is the consumer's, what is the workers', what is shared.
 *
 * prefetch_open.c makes it, worker.c is a worker's thread, policy.c says from which worker the next item
 * comes, prefetch.c takes it, prefetch_state.c saves and restores. Everything that changes after open is
 * either the consumer's alone, or a worker's alone, or in a ring, in the list of returned slots, or atomic.
 */
#ifndef WEIR_PIPELINE_PREFETCH_H
#define WEIR_PIPELINE_PREFETCH_H

#include "base/block.h"
#include "base/fork_mark.h"
#include "pipeline/belt.h"
#include "pipeline/item_slots.h"
#include "pipeline/ring.h"
#include "pipeline/shard.h"

#define WEIR_PIPELINE__PREFETCH_OPERATOR "weir.pipeline.prefetch"

enum { WEIR_PIPELINE__WORKERS_MAX = 4096 };

/* Names by their enums' numbers; NULL ends them. */
extern const char *const weir_pipeline__policies[], *const weir_pipeline__shard_modes[];

typedef struct weir_pipeline__worker {
    weir_pipeline__ring ring;

    weir_prefetch *prefetch;
    uint64_t total; /* its items in all passes */
    uint32_t number;
    bool has_thread;
    uintptr_t thread;
    uint64_t consumed_at_open;
    weir_pipeline__cursor first; /* of the first item that it makes */

    /* The consumer's. */
    _Alignas(WEIR__CACHE_LINE) weir_pipeline__cursor cursor; /* of the next item to take */
    uint64_t consumed;                                       /* since the very beginning, resumes included */
    uint64_t stalls;

    /* The thread's; the failure is the consumer's once the ring says has_failed. */
    _Alignas(WEIR__CACHE_LINE) _Atomic uint64_t wait_ns;
    weir_status failure_status;
    weir_error failure;
} weir_pipeline__worker;

struct weir_prefetch {
    const weir_env *env;
    weir__block block; /* what this struct, its arrays and slots of its own lie in */

    /* Never written after open. */
    weir_prefetch_options options; /* with the defaults in place; the slots' list and the state are gone */
    weir_pipeline__shards shards;
    weir_pipeline__worker *workers;
    weir_pipeline__belt belt; /* that all workers fill; without places: each fills a ring of its own */
    void **addresses;         /* of the slots */
    weir__fork_mark mark;     /* of the process that has the workers */

    /* The consumer's. */
    _Alignas(WEIR__CACHE_LINE) uint32_t next_worker;
    uint32_t active_count; /* workers that have items left */
    uint64_t slowest;      /* what the slowest active worker has given, or less */
    uint64_t wait_ns;
    weir_pipeline__slots slots;

    _Alignas(WEIR__CACHE_LINE) _Atomic uint32_t is_cancelled;
};

/* The options with the defaults in place of zeros, checked. */
weir_status weir_pipeline__prefetch_options_check(const weir_prefetch_options *options,
                                                  weir_prefetch_options *out, weir_error *error);

/* A worker's thread: makes its items from `first` on until they end, it fails, or all is cancelled. */
void *weir_pipeline__worker_run(void *worker);

/* Puts a default in place of a zero. */
static inline void weir_pipeline__set_default(uint32_t *option, uint32_t value) {
    *option = *option ? *option : value;
}

static inline bool weir_pipeline__is_cancelled(const weir_prefetch *prefetch) {
    return atomic_load_explicit(&prefetch->is_cancelled, memory_order_acquire) != 0;
}

/* Whether a worker has no more items to give. */
static inline bool weir_pipeline__worker_is_done(const weir_pipeline__worker *worker) {
    return worker->consumed == worker->total;
}

/* The worker that is next by the policy, and whether it has something to take now; if not, it is the one to
 * wait for. At least one worker must have items left. */
typedef struct weir_pipeline__pick {
    weir_pipeline__worker *worker;
    bool is_ready;
} weir_pipeline__pick;
weir_pipeline__pick weir_pipeline__pick_worker(weir_prefetch *prefetch);

/* What was taken so far, as 1 + worker_count numbers, for a state that is written later. The consumer. */
void weir_pipeline__prefetch_mark(const weir_prefetch *prefetch, uint64_t *mark);

/* Writes the state of a mark; NULL: of now. */
void weir_pipeline__prefetch_save(const weir_prefetch *prefetch, const uint64_t *mark, weir_cbor_writer *w);

/* Whether the workers live in this process, which is not a child of fork. */
static inline bool weir_pipeline__prefetch_is_here(const weir_prefetch *prefetch) {
    return weir__fork_mark_is_here(&prefetch->mark);
}

/* Sets what every worker has given, and next_worker, from a state. CHECKPOINT_MISMATCH, CBOR_INVALID. */
weir_status weir_pipeline__prefetch_restore(weir_prefetch *prefetch, const void *data, size_t size,
                                            weir_error *error);

#endif
