/* A worker's thread: see prefetch.h. It asks for a free slot, has the producer fill it, and hands it over. */
#include "pipeline/prefetch.h"

static bool is_cancelled(const weir__worker *worker) {
    return atomic_load_explicit(&worker->prefetch->is_cancelled, memory_order_relaxed) != 0;
}

/* Waits for a free slot; false where all is cancelled. */
static bool find_room(weir__worker *worker) {
    weir_prefetch *prefetch = worker->prefetch;
    while (!weir__ring_has_room(&worker->ring) && !is_cancelled(worker)) {
        uint64_t slept_ns = weir__ring_await_room(&worker->ring, prefetch->env, &prefetch->is_cancelled);
        atomic_fetch_add_explicit(&worker->wait_ns, slept_ns, memory_order_relaxed);
    }
    return !is_cancelled(worker);
}

/* A record for a producer that gave none that fits its status. */
static void complete_record(weir__worker *worker, const weir_item *item) {
    if (worker->failure.status == worker->failure_status)
        return;
    (void)weir__fail(&worker->failure, worker->failure_status, WEIR__PREFETCH_OPERATOR,
                     "the producer failed at position %llu of epoch %llu, and does not say why",
                     (unsigned long long)item->position, (unsigned long long)item->epoch);
}

void *weir__worker_run(void *argument) {
    weir__worker *worker = argument;
    weir_prefetch *prefetch = worker->prefetch;
    weir__cursor cursor = worker->first;
    weir_item item = {.key = prefetch->key,
                      .worker = worker->number,
                      .cancel = (const uint32_t *)(const void *)&prefetch->is_cancelled};
    for (uint64_t left = worker->total - worker->consumed_at_open; left > 0; left--) {
        if (!find_room(worker))
            return NULL;
        item.slot_index = weir__ring_free_slot(&worker->ring);
        item.slot = prefetch->addresses[item.slot_index];
        item.epoch = cursor.epoch;
        item.position = cursor.position;
        weir_status status = prefetch->source.produce(prefetch->source.context, &item, &worker->failure);
        if (status != WEIR_OK) {
            worker->failure_status = status;
            complete_record(worker, &item);
            weir__ring_fail(&worker->ring, prefetch->env);
            return NULL;
        }
        weir__ring_push(&worker->ring, prefetch->env);
        weir__cursor_advance(&cursor);
    }
    return NULL;
}
