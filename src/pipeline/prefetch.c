/* Taking items, giving them back, ending, measuring: see prefetch.h. */
#include "pipeline/prefetch.h"

#include <errno.h>

bool weir_item_is_cancelled(const weir_item *item) {
    return __atomic_load_n(item->cancel, __ATOMIC_RELAXED) != 0;
}

/* ---- Taking ---------------------------------------------------------------------------------- */

static weir_status fail_cancelled(weir_error *error) {
    return weir__fail(error, WEIR_CANCELLED, WEIR_PIPELINE__PREFETCH_OPERATOR,
                      "the prefetcher was cancelled, or has failed before; open a new one");
}

/* Moves the worker's next item out of its ring, or the next one off the belt, and a spare there. Returns the
 * worker that could not make it; else NULL. */
static const weir_pipeline__worker *take_item(weir_prefetch *prefetch, weir_pipeline__worker *worker,
                                              weir_item *item) {
    uint32_t spare = weir_pipeline__slots_next_spare(&prefetch->slots), maker = worker->number, slot;
    if (prefetch->belt.places) { /* who made it is not who the order names */
        const weir_pipeline__belt_place *place =
            weir_pipeline__belt_place_of(&prefetch->belt, prefetch->belt.taken);
        slot = place->slot;
        maker = place->worker;
        if (place->has_failed)
            return &prefetch->workers[maker];
        prefetch->workers[maker].ring.taken_own++;
        weir_pipeline__belt_take(&prefetch->belt, prefetch->env, spare);
    } else {
        if (!weir_pipeline__ring_has_item(&worker->ring))
            return worker;
        slot = weir_pipeline__ring_take(&worker->ring, prefetch->env, spare);
    }
    weir_pipeline__slots_hold(&prefetch->slots, slot);
    *item = (weir_item){.epoch = worker->cursor.epoch,
                        .position = worker->cursor.position,
                        .key = prefetch->options.key,
                        .worker = maker,
                        .slot_index = slot,
                        .slot = prefetch->addresses[slot],
                        .cancel = (const uint32_t *)(const void *)&prefetch->is_cancelled};
    worker->consumed++;
    if (weir_pipeline__worker_is_done(worker))
        prefetch->active_count--;
    else
        weir_pipeline__cursor_advance(&worker->cursor);
    prefetch->next_worker = worker->number + 1 == prefetch->options.workers ? 0 : worker->number + 1;
    return NULL;
}

static weir_status take_next(weir_prefetch *prefetch, bool may_wait, weir_item *item, bool *is_ready,
                             weir_error *error) {
    if (!weir_pipeline__prefetch_is_here(prefetch))
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PIPELINE__PREFETCH_OPERATOR,
                          "this prefetcher was opened before a fork, and its workers live in the parent; "
                          "open one in the child");
    if (weir_pipeline__is_cancelled(prefetch))
        return fail_cancelled(error);
    *is_ready = true;
    if (prefetch->active_count == 0) {
        *item = (weir_item){0};
        return WEIR_OK;
    }
    if (!weir_pipeline__slots_have_spare(&prefetch->slots)) {
        weir_status status = weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PIPELINE__PREFETCH_OPERATOR,
                                        "%u items are held, as many as queue_size allows; release one before "
                                        "taking the next, or open with a larger queue_size",
                                        prefetch->slots.spares_max);
        weir__note_uint(error, "held", prefetch->slots.spares_max);
        return status;
    }
    weir_pipeline__pick pick = weir_pipeline__pick_worker(prefetch);
    weir_pipeline__worker *worker = pick.worker;
    if (!pick.is_ready) {
        *is_ready = may_wait;
        if (!may_wait)
            return WEIR_OK;
        worker->stalls++;
        prefetch->wait_ns +=
            prefetch->belt.places
                ? weir_pipeline__belt_await_item(&prefetch->belt, prefetch->env, &prefetch->is_cancelled)
                : weir_pipeline__ring_await_item(&worker->ring, prefetch->env, &prefetch->is_cancelled);
        if (weir_pipeline__is_cancelled(prefetch))
            return fail_cancelled(error);
    }
    const weir_pipeline__worker *failed = take_item(prefetch, worker, item);
    if (!failed)
        return WEIR_OK;
    if (error)
        *error = failed->failure;
    weir_prefetch_cancel(prefetch); /* one failure ends all: what others still make is never taken */
    return failed->failure_status;
}

weir_status weir_prefetch_next(weir_prefetch *prefetch, weir_item *item, weir_error *error) {
    bool is_ready;
    return take_next(prefetch, true, item, &is_ready, error);
}

weir_status weir_prefetch_try_next(weir_prefetch *prefetch, weir_item *item, bool *is_ready,
                                   weir_error *error) {
    bool found = false;
    weir_status status = take_next(prefetch, false, item, &found, error);
    if (status == WEIR_OK)
        *is_ready = found;
    return status;
}

void weir_prefetch_release(weir_prefetch *prefetch, const weir_item *item) {
    if (item->slot)
        weir_pipeline__slots_release(&prefetch->slots, item->slot_index);
}

/* ---- Ending ---------------------------------------------------------------------------------- */

void weir_prefetch_cancel(weir_prefetch *prefetch) {
    int kept = errno; /* a signal handler leaves it as it was */
    (void)atomic_exchange(&prefetch->is_cancelled, 1);
    for (uint32_t i = 0; i < prefetch->options.workers; i++) {
        weir__wake_sleeper(prefetch->env, &prefetch->workers[i].ring.consumer_sleeps);
        weir__wake_sleeper(prefetch->env, &prefetch->workers[i].ring.producer_sleeps);
    }
    weir_pipeline__belt_cancel(&prefetch->belt, prefetch->env);
    errno = kept;
}

/* ---- Measuring ------------------------------------------------------------------------------- */

void weir_prefetch_measure(const weir_prefetch *prefetch, weir_prefetch_metrics *metrics,
                           weir_worker_metrics *workers) {
    *metrics = (weir_prefetch_metrics){.consumer_wait_ns = prefetch->wait_ns,
                                       .held = weir_pipeline__slots_held(&prefetch->slots),
                                       .workers = prefetch->options.workers};
    for (uint32_t i = 0; i < prefetch->options.workers; i++) {
        const weir_pipeline__worker *worker = &prefetch->workers[i];
        uint64_t made = atomic_load_explicit(&worker->ring.made, memory_order_relaxed);
        weir_worker_metrics measured = {
            .produced = made,
            .consumed = worker->ring.taken_own,
            .wait_ns = atomic_load_explicit(&worker->wait_ns, memory_order_relaxed),
            .stalls = worker->stalls,
            .occupied = WEIR__NARROW(uint32_t, made - worker->ring.taken_own),
        };
        metrics->produced += measured.produced;
        metrics->consumed += measured.consumed;
        metrics->stalls += measured.stalls;
        if (workers)
            workers[i] = measured;
    }
}
