/* See staging.h. Whoever takes a batch first gives back the host's slots whose copies are done, then
 * starts the copies of the batches that are built, into the places that are free, and gets the oldest. A copy
 * into a place waits, on the device, for the event with which the consumer released it. The host waits only
 * if there is no batch to give: for builders, or for the copy out of a slot. What goes wrong after batches
 * that are queued is told when those were given. */
#include "pipeline/staging.h"
#include "pipeline/prefetch.h"
#include "weir_tool/device_work.h"

#include <string.h>

/* The kernel's share of a sequence: enough threads for its cells in a few turns. */
enum { BLOCKS_OF_A_SEQUENCE = 4, THREADS_OF_A_BLOCK = 256 };

/* ---- Places ------------------------------------------------------------------------------------ */

static bool is_queued(const weir_pipeline__place *place) {
    return atomic_load_explicit(&place->state, memory_order_relaxed) == WEIR_PIPELINE__PLACE_QUEUED;
}

static bool has_loaded(const weir_pipeline__place *place) {
    return place->has_loaded;
}

/* The place that was taken first of those that are so; NULL if none is. */
static weir_pipeline__place *oldest(weir_pipeline__staging *s, bool (*is_so)(const weir_pipeline__place *)) {
    weir_pipeline__place *first = NULL;
    for (uint32_t i = 0; i < s->depth; i++)
        if (is_so(&s->places[i]) && (!first || s->places[i].order < first->order))
            first = &s->places[i];
    return first;
}

static void give_slot_back(weir_pipeline__staging *s, weir_pipeline__place *place) {
    weir_pipeline__loader_release(s->loader, &place->loaded);
    place->has_loaded = false;
}

/* Gives back the host's slots whose copies are done: they end in the order in which they began. */
static weir_status retire(weir_pipeline__staging *s, weir_error *error) {
    for (weir_pipeline__place *place = oldest(s, has_loaded); place; place = oldest(s, has_loaded)) {
        bool is_done = false;
        weir_status status = weir_event_query(s->device, place->copied, &is_done, error);
        if (status != WEIR_OK || !is_done)
            return status;
        give_slot_back(s, place);
    }
    return WEIR_OK;
}

/* ---- Copying ----------------------------------------------------------------------------------- */

/* Copies and expansions are done at the same time, on a stream each: one batch is copied while the one before
 * it is expanded. What came into this place before has been expanded when `ready` is done; the tensors are
 * written again only when the consumer is done with them. */
static weir_status start_copy(weir_pipeline__staging *s, weir_pipeline__place *place, weir_error *error) {
    const weir_pipeline__slot *from = &s->loader->slots[place->loaded.slot];
    const weir_batch_buffer *slot = from->buffer;
    uint64_t beyond = slot->batch.compact_size - slot->here;
    void *arguments[] = {&s->rules[from->member], &place->compact, &place->data};
    weir_device__launch expansion = {.blocks_x = place->batch.sequence_count,
                                     .blocks_y = BLOCKS_OF_A_SEQUENCE,
                                     .threads = THREADS_OF_A_BLOCK,
                                     .arguments = arguments,
                                     .stream = s->expansions};
    WEIR__TRY(weir_stream_wait(s->device, s->stream, place->free, error));
    WEIR__TRY(weir_stream_wait(s->device, s->stream, place->ready, error));
    WEIR__TRY(
        weir_copy_to_device(s->device, place->compact, slot->compact, (size_t)slot->here, s->stream, error));
    if (beyond > 0)
        WEIR__TRY(weir_copy_to_device(s->device, place->compact + slot->here, slot->beyond, (size_t)beyond,
                                      s->stream, error));
    s->compact_bytes += slot->batch.compact_size;
    s->unpinned_bytes += beyond;
    WEIR__TRY(weir_event_record(s->device, place->copied, s->stream, error));
    WEIR__TRY(weir_stream_wait(s->device, s->expansions, place->copied, error));
    if (place->batch.sequence_count > 0)
        WEIR__TRY(weir_device__kernel_launch(s->device, &s->kernel, &expansion, error));
    WEIR__TRY(
        weir_pipeline__loader_transform(s->loader, place->loaded.step, &place->batch, s->expansions, error));
    return weir_event_record(s->device, place->ready, s->expansions, error);
}

/* What the view says beside the tensors is kept: the host's slot goes back before the consumer reads it. */
static void keep_view(weir_pipeline__place *place) {
    const weir_batch *batch = place->loaded.batch;
    place->batch = *batch;
    place->batch.data = place->data;
    place->batch.epochs = place->epochs;
    place->batch.indices = place->indices;
    place->batch.anchor_rows = place->anchors;
    place->batch.dataset_ids = batch->source_count > 0 ? place->dataset_ids : NULL;
    place->batch.sample_digests = place->digests;
    place->batch.group_digests = place->group_digests;
    place->batch.rows = NULL;
    place->batch.visits = NULL;
    place->batch.compact = place->batch.rules = NULL;
    memcpy(place->epochs, batch->epochs, batch->sequence_count * sizeof *place->epochs);
    memcpy(place->anchors, batch->anchor_rows, batch->sequence_count * sizeof *place->anchors);
    if (batch->source_count > 0)
        memcpy(place->dataset_ids, batch->dataset_ids, batch->sequence_count * sizeof *place->dataset_ids);
    memcpy(place->indices, batch->indices, (size_t)batch->step.valid_count * sizeof *place->indices);
    if (!batch->has_digests)
        return;
    memcpy(place->digests, batch->sample_digests, batch->sequence_count * sizeof *place->digests);
    memcpy(place->group_digests, batch->group_digests,
           batch->sequence_count / batch->group_size * sizeof *place->group_digests);
}

/* ---- Taking ------------------------------------------------------------------------------------ */

/* Starts the copy of a batch that the loader gave. If that fails the batch is lost, and the run with it:
 * its slot goes back after what may still read it. */
static weir_status queue(weir_pipeline__staging *s, weir_pipeline__place *place, const weir_taken *loaded,
                         weir_error *error) {
    weir_prefetch *prefetch = weir_pipeline__loader_prefetch(s->loader);
    place->loaded = *loaded;
    place->has_loaded = true;
    place->order = s->taken++;
    keep_view(place);
    uint64_t began_ns = weir_pipeline__loader_now(s->loader);
    weir_status status = start_copy(s, place, error);
    s->busy_ns += weir_pipeline__loader_now(s->loader) - began_ns;
    if (status != WEIR_OK) {
        if (error)
            error->t = loaded->step;
        weir_prefetch_cancel(prefetch);
        if (weir_stream_sync(s->device, s->stream, NULL) == WEIR_OK)
            give_slot_back(s, place);
        return status;
    }
    place->step = s->loader->step;
    weir_pipeline__prefetch_mark(prefetch, place->mark);
    s->queued++;
    s->transferred++;
    s->tensor_bytes += place->batch.size;
    atomic_store_explicit(&place->state, WEIR_PIPELINE__PLACE_QUEUED, memory_order_relaxed);
    return WEIR_OK;
}

/* Takes one batch from the loader and queues it; *is_taken false if the run is over, or nobody wants to wait
 * and there is no place, or none whose copy is done, or no batch that is built. */
static weir_status take(weir_pipeline__staging *s, bool waits, bool *is_taken, weir_error *error) {
    weir_pipeline__place *place = NULL; /* the first that is free */
    weir_taken loaded;
    bool is_ready;
    *is_taken = false;
    for (uint32_t i = 0; i < s->depth && !place; i++) {
        weir_pipeline__place *next = &s->places[(s->taken + i) % s->depth];
        if (atomic_load_explicit(&next->state, memory_order_acquire) == WEIR_PIPELINE__PLACE_FREE)
            place = next;
    }
    if (!waits && (!place || place->has_loaded))
        return WEIR_OK;
    if (!place) {
        weir_status status = weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PIPELINE__STAGING_OPERATOR,
                                        "%u batches are held on the device, as many as fit; release one "
                                        "before taking the next, or open with a larger depth",
                                        s->depth);
        weir__note_uint(error, "depth", s->depth);
        return status;
    }
    if (place->has_loaded) { /* the consumer released it before its copy was done */
        uint64_t began_ns = weir_pipeline__loader_now(s->loader);
        weir_status status = weir_event_sync(s->device, place->copied, error);
        s->wait_ns += weir_pipeline__loader_now(s->loader) - began_ns;
        if (status != WEIR_OK)
            return status;
        give_slot_back(s, place);
    }
    weir_status status = weir_pipeline__loader_next(s->loader, waits, &loaded, &is_ready, error);
    if (status != WEIR_OK || !is_ready)
        return status;
    s->is_ended = loaded.batch == NULL;
    if (s->is_ended)
        return WEIR_OK;
    *is_taken = true;
    return queue(s, place, &loaded, error);
}

/* The mark leaves the place, which is filled again, or fails to be, before the next batch is given. */
static void give(weir_pipeline__staging *s, weir_taken *out) {
    weir_pipeline__place *place = oldest(s, is_queued);
    uint64_t *before = s->mark;
    s->queued--;
    s->step = place->step;
    s->mark = place->mark;
    place->mark = before;
    atomic_store_explicit(&place->held_step, place->loaded.step, memory_order_relaxed);
    atomic_store_explicit(&place->state, WEIR_PIPELINE__PLACE_HELD, memory_order_release);
    *out = (weir_taken){.step = place->loaded.step,
                        .dataset = place->loaded.dataset,
                        .store = place->loaded.store,
                        .batch = &place->batch,
                        .ready = place->ready,
                        .slot = WEIR__NARROW(uint32_t, place - s->places)};
}

static weir_status next_held(weir_pipeline__staging *s, bool waits, weir_taken *out, bool *is_ready,
                             weir_error *error) {
    bool is_taken = true;
    *is_ready = true;
    weir_status status = retire(s, error);
    if (status == WEIR_OK && waits && s->queued == 0 && s->failure == WEIR_OK && !s->is_ended)
        status = take(s, true, &is_taken, error);
    if (status != WEIR_OK)
        return status;
    for (is_taken = true; is_taken && !s->is_ended && s->failure == WEIR_OK;) /* what is built */
        s->failure = take(s, false, &is_taken, &s->failure_record);
    if (s->queued > 0) {
        give(s, out);
        return WEIR_OK;
    }
    if (s->failure != WEIR_OK) {
        status = s->failure;
        s->failure = WEIR_OK;
        if (error)
            *error = s->failure_record;
        return status;
    }
    *is_ready = s->is_ended;
    *out = (weir_taken){.step = s->loader->step};
    return WEIR_OK;
}

weir_status weir_pipeline__staging_next(weir_pipeline__staging *s, bool waits, weir_taken *out,
                                        bool *is_ready, weir_error *error) {
    bool is_held;
    WEIR__TRY(weir_device__hold(s->device, &is_held, error));
    weir_status status = next_held(s, waits, out, is_ready, error);
    weir_device__let_go(s->device, is_held);
    return status;
}

/* If the event cannot be recorded the place stays held: nothing says when its reader is done. */
weir_status weir_pipeline__staging_release(weir_pipeline__staging *s, const weir_taken *taken,
                                           weir_stream stream, weir_error *error) {
    weir_pipeline__place *place = taken->slot < s->depth ? &s->places[taken->slot] : NULL;
    int held = WEIR_PIPELINE__PLACE_HELD;
    if (!place || atomic_load_explicit(&place->held_step, memory_order_relaxed) != taken->step ||
        !atomic_compare_exchange_strong(&place->state, &held, WEIR_PIPELINE__PLACE_RELEASED))
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PIPELINE__STAGING_OPERATOR,
                          "the batch of step %llu is not held: it was released before",
                          (unsigned long long)taken->step);
    weir_status status = weir_event_record(s->device, place->free, stream, error);
    atomic_store_explicit(&place->state,
                          status == WEIR_OK ? WEIR_PIPELINE__PLACE_FREE : WEIR_PIPELINE__PLACE_HELD,
                          memory_order_release);
    return status;
}

/* ---- Reading back ------------------------------------------------------------------------------ */

/* The staging's own stream reads, after what fills the place. */
weir_status weir_pipeline__staging_read(weir_pipeline__staging *s, const weir_taken *taken,
                                        const uint8_t **data, weir_error *error) {
    const weir_batch *batch = taken->batch;
    weir_memory pinned = weir_device_pinned(s->device);
    weir_error refused = {.status = WEIR_OUT_OF_MEMORY};
    if (!s->read_back)
        s->read_back = pinned.allocate(pinned.context, (size_t)s->loader->need.tensor_size, &refused);
    if (!s->read_back) {
        if (error)
            *error = refused;
        return refused.status;
    }
    WEIR__TRY(weir_stream_wait(s->device, s->stream, taken->ready, error));
    WEIR__TRY(weir_copy_to_host(s->device, s->read_back, batch->data, (size_t)batch->size, s->stream, error));
    *data = s->read_back;
    return weir_stream_sync(s->device, s->stream, error);
}
