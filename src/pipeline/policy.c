/* From which worker the next item comes.
 *
 * Strict: the workers in turn; one that has no items left is passed over from then on. What comes next
 * depends on the numbers alone.
 *
 * Best effort: one look at each worker in turn, and the first that has something gives it. A worker that has
 * given max_lead items more than the slowest that still has some is not asked. Where more than
 * max_skips_per_round had nothing, or one look at all of them found nothing, the consumer waits for the
 * first that may be asked. The slowest always may, so there is one. */
#include "pipeline/prefetch.h"

static uint32_t next_number(const weir_prefetch *prefetch, uint32_t number) {
    return number + 1 == prefetch->options.workers ? 0 : number + 1;
}

static bool has_something(weir_pipeline__worker *worker) {
    return weir_pipeline__ring_has_item(&worker->ring) || weir_pipeline__ring_is_at_failure(&worker->ring);
}

/* The slowest never becomes slower, so what was found earlier is no more than what it is now. */
static bool may_give(weir_prefetch *prefetch, const weir_pipeline__worker *worker) {
    if (weir_pipeline__worker_is_done(worker))
        return false;
    if (worker->consumed - prefetch->slowest < prefetch->options.max_lead)
        return true;
    prefetch->slowest = UINT64_MAX;
    for (uint32_t i = 0; i < prefetch->options.workers; i++) {
        const weir_pipeline__worker *other = &prefetch->workers[i];
        if (!weir_pipeline__worker_is_done(other) && other->consumed < prefetch->slowest)
            prefetch->slowest = other->consumed;
    }
    return worker->consumed - prefetch->slowest < prefetch->options.max_lead;
}

static weir_pipeline__pick pick_what_is_there(weir_prefetch *prefetch) {
    weir_pipeline__worker *first = NULL;
    uint32_t number = prefetch->next_worker, skips = 0;
    for (uint32_t i = 0; i < prefetch->options.workers; i++, number = next_number(prefetch, number)) {
        weir_pipeline__worker *worker = &prefetch->workers[number];
        if (!may_give(prefetch, worker))
            continue;
        if (has_something(worker))
            return (weir_pipeline__pick){worker, true};
        if (!first)
            first = worker;
        if (++skips > prefetch->options.max_skips_per_round)
            break;
    }
    return (weir_pipeline__pick){first, false};
}

weir_pipeline__pick weir_pipeline__pick_worker(weir_prefetch *prefetch) {
    uint32_t number = prefetch->next_worker;
    if (prefetch->options.policy != WEIR_POLICY_STRICT)
        return pick_what_is_there(prefetch);
    while (weir_pipeline__worker_is_done(&prefetch->workers[number]))
        number = next_number(prefetch, number);
    weir_pipeline__worker *worker = &prefetch->workers[number];
    bool is_ready =
        prefetch->belt.places ? weir_pipeline__belt_is_ready(&prefetch->belt) : has_something(worker);
    return (weir_pipeline__pick){worker, is_ready};
}
