/* A worker's thread: see prefetch.h. It asks for a free slot, has the producer fill it, and hands it over. */
#include "pipeline/prefetch.h"

/* Has the producer fill the slot; false if it cannot. A producer may give no record that fits its status. */
static bool make(weir_pipeline__worker *worker, weir_item *item, uint32_t slot) {
    weir_prefetch *prefetch = worker->prefetch;
    item->slot_index = slot;
    item->slot = prefetch->addresses[slot];
    worker->failure_status =
        prefetch->options.source.produce(prefetch->options.source.context, item, &worker->failure);
    if (worker->failure_status != WEIR_OK && worker->failure.status != worker->failure_status)
        (void)weir__fail(&worker->failure, worker->failure_status, WEIR_PIPELINE__PREFETCH_OPERATOR,
                         "the producer failed at position %llu of epoch %llu, and does not say why",
                         (unsigned long long)item->position, (unsigned long long)item->epoch);
    return worker->failure_status == WEIR_OK;
}

/* Makes the items of its shard. */
static void fill_ring(weir_pipeline__worker *worker, weir_item *item) {
    weir_prefetch *prefetch = worker->prefetch;
    weir_pipeline__cursor cursor = worker->first;
    for (uint64_t left = worker->total - worker->consumed_at_open; left > 0; left--) {
        while (!weir_pipeline__ring_has_room(&worker->ring) && !weir_pipeline__is_cancelled(prefetch)) {
            uint64_t slept_ns =
                weir_pipeline__ring_await_room(&worker->ring, prefetch->env, &prefetch->is_cancelled);
            atomic_fetch_add_explicit(&worker->wait_ns, slept_ns, memory_order_relaxed);
        }
        if (weir_pipeline__is_cancelled(prefetch))
            return;
        item->epoch = cursor.epoch;
        item->position = cursor.position;
        if (!make(worker, item, weir_pipeline__ring_free_slot(&worker->ring))) {
            weir_pipeline__ring_fail(&worker->ring, prefetch->env);
            return;
        }
        weir_pipeline__ring_push(&worker->ring, prefetch->env);
        weir_pipeline__cursor_advance(&cursor);
    }
}

/* Makes the next item that nobody makes. */
static void fill_belt(weir_pipeline__worker *worker, weir_item *item) {
    weir_prefetch *prefetch = worker->prefetch;
    weir_pipeline__belt *belt = &prefetch->belt;
    bool is_made = true;
    while (is_made) {
        uint64_t number = atomic_fetch_add(&belt->next, 1);
        if (number >= belt->length)
            return;
        uint64_t slept_ns =
            weir_pipeline__belt_await_room(belt, prefetch->env, number, &prefetch->is_cancelled);
        atomic_fetch_add_explicit(&worker->wait_ns, slept_ns, memory_order_relaxed);
        if (weir_pipeline__is_cancelled(prefetch))
            return;
        weir_pipeline__belt_place *place = weir_pipeline__belt_place_of(belt, number);
        item->epoch = prefetch->shards.start_epoch;
        item->position = prefetch->shards.start_position + number;
        is_made = make(worker, item, place->slot);
        place->worker = worker->number;
        place->has_failed = !is_made;
        atomic_fetch_add_explicit(&worker->ring.made, is_made, memory_order_relaxed);
        weir_pipeline__belt_push(belt, prefetch->env, number);
    }
}

void *weir_pipeline__worker_run(void *argument) {
    weir_pipeline__worker *worker = argument;
    weir_prefetch *prefetch = worker->prefetch;
    weir_item item = {.key = prefetch->options.key,
                      .worker = worker->number,
                      .cancel = (const uint32_t *)(const void *)&prefetch->is_cancelled};
    if (prefetch->belt.places)
        fill_belt(worker, &item);
    else
        fill_ring(worker, &item);
    return NULL;
}
