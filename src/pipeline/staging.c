/* A staging at work. Whoever takes a batch first gives back the host's slots whose copies are done, then
 * starts the copies of the batches that are built, into the places that are free, and gets the oldest. A copy
 * into a place waits, on the device, for the event with which the consumer released it; so the host waits for
 * builders alone. What goes wrong behind batches that are queued is told when those were given. */
#include "pipeline/staging.h"
#include "pipeline/checkpoint.h"

#include <string.h>

/* The kernel's share of a sequence: enough threads for its cells in a few turns. */
enum { BLOCKS_OF_A_SEQUENCE = 4, THREADS_OF_A_BLOCK = 256 };

/* ---- Places ------------------------------------------------------------------------------------ */

static weir__place *free_place(weir_staging *s) {
    for (uint32_t i = 0; i < s->depth; i++) {
        weir__place *place = &s->places[(s->taken + i) % s->depth];
        if (atomic_load_explicit(&place->state, memory_order_acquire) == WEIR__PLACE_FREE)
            return place;
    }
    return NULL;
}

static weir__place *oldest_queued(weir_staging *s) {
    weir__place *oldest = NULL;
    for (uint32_t i = 0; i < s->depth; i++) {
        weir__place *place = &s->places[i];
        if (atomic_load_explicit(&place->state, memory_order_relaxed) == WEIR__PLACE_QUEUED &&
            (!oldest || place->order < oldest->order))
            oldest = place;
    }
    return oldest;
}

static void give_slot_back(weir_staging *s, weir__place *place) {
    weir_loader_release(s->loader, &place->loaded);
    place->has_loaded = false;
}

static weir__place *oldest_loaded(weir_staging *s) {
    weir__place *oldest = NULL;
    for (uint32_t i = 0; i < s->depth; i++) {
        weir__place *place = &s->places[i];
        if (place->has_loaded && (!oldest || place->order < oldest->order))
            oldest = place;
    }
    return oldest;
}

/* Gives back the host's slots whose copies are done: they end in the order in which they began. */
static weir_status retire(weir_staging *s, weir_error *error) {
    for (weir__place *place = oldest_loaded(s); place; place = oldest_loaded(s)) {
        bool is_done = false;
        weir_status status = weir_event_query(s->device, place->copied, &is_done, error);
        if (status != WEIR_OK || !is_done)
            return status;
        give_slot_back(s, place);
    }
    return WEIR_OK;
}

/* ---- Copying ----------------------------------------------------------------------------------- */

static weir_status expand(weir_staging *s, weir__place *place, weir_error *error) {
    const void *rules = s->rules[weir__loader_member_of(&place->loaded)];
    void *arguments[] = {&rules, &place->compact, &place->data};
    weir__launch launch = {.blocks_x = place->batch.sequence_count,
                           .blocks_y = BLOCKS_OF_A_SEQUENCE,
                           .threads = THREADS_OF_A_BLOCK,
                           .arguments = arguments,
                           .stream = s->expansions};
    weir_status status = weir_stream_wait(s->device, s->expansions, place->copied, error);
    if (status == WEIR_OK && place->batch.sequence_count > 0)
        status = weir__kernel_launch(s->device, &s->kernel, &launch, error);
    return status ? status : weir_event_record(s->device, place->ready, s->expansions, error);
}

/* Copies and expansions go on at the same time, on a stream each: one batch is copied while the one before it
 * is expanded. What came into this place before has been expanded when `ready` is done; the tensors are
 * written again only when the consumer is done with them. */
static weir_status start_copy(weir_staging *s, weir__place *place, weir_error *error) {
    const weir_batch *batch = place->loaded.batch;
    weir_status status = weir_stream_wait(s->device, s->stream, place->free, error);
    if (status == WEIR_OK)
        status = weir_stream_wait(s->device, s->stream, place->ready, error);
    if (status == WEIR_OK)
        status = weir_copy_to_device(s->device, place->compact, batch->compact, (size_t)batch->compact_size,
                                     s->stream, error);
    s->metrics.compact_bytes += batch->compact_size;
    if (status == WEIR_OK)
        status = weir_event_record(s->device, place->copied, s->stream, error);
    return status ? status : expand(s, place, error);
}

/* What the view says beside the tensors is kept: the host's slot goes back before the consumer reads it. */
static void keep_view(weir__place *place) {
    const weir_batch *batch = place->loaded.batch;
    place->batch = *batch;
    place->batch.data = place->data;
    place->batch.epochs = place->epochs;
    place->batch.indices = place->indices;
    place->batch.sample_digests = place->digests;
    place->batch.rows = NULL;
    place->batch.compact = place->batch.rules = NULL;
    memcpy(place->epochs, batch->epochs, batch->sequence_count * sizeof *place->epochs);
    memcpy(place->indices, batch->indices, (size_t)batch->step.valid_count * sizeof *place->indices);
    if (batch->has_digests)
        memcpy(place->digests, batch->sample_digests, batch->sequence_count * sizeof *place->digests);
}

/* ---- Checkpoints ------------------------------------------------------------------------------- */

weir_status weir__staging_keep_checkpoint(weir_staging *s, weir_cbor_writer *w, weir_error *error) {
    weir_cbor_release(w);
    weir_cbor_writer_memory(w, s->env);
    weir_loader_checkpoint(s->loader, w);
    return weir_cbor_finish(w, error);
}

weir_status weir_staging_checkpoint(const weir_staging *s, const void **data, size_t *size,
                                    weir_error *error) {
    if (!s->keeps_checkpoints)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR__STAGING_OPERATOR,
                          "the staging keeps no checkpoints; open it with with_checkpoints");
    *data = s->checkpoint.data;
    *size = s->checkpoint.size;
    return WEIR_OK;
}

weir_status weir_staging_checkpoint_save(const weir_staging *s, const char *path,
                                         uint8_t hash[WEIR_HASH_SIZE], weir_error *error) {
    const void *data = NULL;
    size_t size = 0;
    weir_status status = weir_staging_checkpoint(s, &data, &size, error);
    return status ? status : weir__checkpoint_save(s->env, data, size, path, hash, error);
}

/* ---- Taking ------------------------------------------------------------------------------------ */

/* Starts the copy of a batch that the loader gave. Where that fails the batch is lost, and the run with it:
 * its slot goes back behind what may still read it. */
static weir_status queue(weir_staging *s, weir__place *place, const weir_loaded *loaded, weir_error *error) {
    weir_status status = WEIR_OK;
    place->loaded = *loaded;
    place->has_loaded = true;
    place->order = s->taken++;
    keep_view(place);
    if (s->keeps_checkpoints)
        status = weir__staging_keep_checkpoint(s, &place->checkpoint, error);
    if (status == WEIR_OK)
        status = start_copy(s, place, error);
    if (status != WEIR_OK) {
        weir_loader_cancel(s->loader);
        if (weir_stream_sync(s->device, s->stream, NULL) == WEIR_OK)
            give_slot_back(s, place);
        return status;
    }
    place->step = weir_loader_step(s->loader);
    s->queued++;
    s->metrics.batches++;
    s->metrics.bytes += place->batch.size;
    atomic_store_explicit(&place->state, WEIR__PLACE_QUEUED, memory_order_relaxed);
    return WEIR_OK;
}

static weir_status all_held(const weir_staging *s, weir_error *error) {
    weir_status status = weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR__STAGING_OPERATOR,
                                    "%u batches are held on the device, as many as fit; release one before "
                                    "taking the next, or open with a larger depth",
                                    s->depth);
    weir__note_uint(error, "depth", s->depth);
    return status;
}

/* Takes one batch from the loader and queues it; *is_taken false where there is no place, or none is built
 * yet and nobody wants to wait, or the run is over. */
static weir_status take(weir_staging *s, bool waits, bool *is_taken, weir_error *error) {
    weir__place *place = free_place(s);
    weir_loaded loaded;
    bool is_ready = true;
    *is_taken = false;
    if (!place)
        return waits ? all_held(s, error) : WEIR_OK;
    if (place->has_loaded) { /* the consumer was done with it before the host knew of the copy's end */
        weir_status status = weir_event_sync(s->device, place->copied, error);
        if (status != WEIR_OK)
            return status;
        give_slot_back(s, place);
    }
    weir_status status = waits ? weir_loader_next(s->loader, &loaded, error)
                               : weir_loader_try_next(s->loader, &loaded, &is_ready, error);
    if (status != WEIR_OK || !is_ready)
        return status;
    s->is_ended = loaded.batch == NULL;
    if (s->is_ended)
        return WEIR_OK;
    *is_taken = true;
    return queue(s, place, &loaded, error);
}

/* Queues what is built; a failure is kept for its turn. */
static void take_ahead(weir_staging *s) {
    bool is_taken = true;
    while (is_taken && !s->is_ended && s->failure == WEIR_OK)
        s->failure = take(s, false, &is_taken, &s->failure_record);
}

/* The checkpoint leaves the place, which is filled anew, or fails to be, before the next batch is given. */
static void give(weir_staging *s, weir_staged *out) {
    weir__place *place = oldest_queued(s);
    weir_cbor_writer before = s->checkpoint;
    s->queued--;
    s->checkpoint = place->checkpoint;
    place->checkpoint = before;
    s->step = place->step;
    atomic_store_explicit(&place->state, WEIR__PLACE_HELD, memory_order_relaxed);
    *out = (weir_staged){.step = place->loaded.step,
                         .dataset = place->loaded.dataset,
                         .store = place->loaded.store,
                         .batch = &place->batch,
                         .ready = place->ready,
                         .slot = WEIR__NARROW(uint32_t, place - s->places)};
}

static weir_status next_held(weir_staging *s, weir_staged *out, weir_error *error) {
    bool is_taken;
    weir_status status = retire(s, error);
    if (status == WEIR_OK && s->queued == 0 && s->failure == WEIR_OK && !s->is_ended)
        status = take(s, true, &is_taken, error);
    if (status != WEIR_OK)
        return status;
    take_ahead(s);
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
    *out = (weir_staged){.step = weir_loader_step(s->loader)};
    return WEIR_OK;
}

weir_status weir_staging_next(weir_staging *s, weir_staged *out, weir_error *error) {
    bool is_held;
    weir_status status = weir__device_hold(s->device, &is_held, error);
    if (status != WEIR_OK)
        return status;
    status = next_held(s, out, error);
    weir__device_let_go(s->device, is_held);
    return status;
}

weir_status weir_staging_wait(weir_staging *s, const weir_staged *staged, weir_stream stream,
                              weir_error *error) {
    return weir_stream_wait(s->device, stream, staged->ready, error);
}

/* Where the event cannot be recorded the place stays held: nothing says when its reader is done. */
weir_status weir_staging_release(weir_staging *s, const weir_staged *staged, weir_stream stream,
                                 weir_error *error) {
    weir__place *place = &s->places[staged->slot];
    weir_status status = weir_event_record(s->device, place->free, stream, error);
    if (status == WEIR_OK)
        atomic_store_explicit(&place->state, WEIR__PLACE_FREE, memory_order_release);
    return status;
}

void weir_staging_cancel(weir_staging *s) {
    weir_loader_cancel(s->loader);
}

void weir_staging_measure(const weir_staging *s, weir_staging_metrics *out) {
    *out = s->metrics;
}

weir_loader *weir_staging_loader(const weir_staging *s) {
    return s->loader;
}

uint64_t weir_staging_step(const weir_staging *s) {
    return s->step;
}

/* ---- Verifying --------------------------------------------------------------------------------- */

static weir_status open_verifier(weir_staging *s, weir_error *error) {
    static const weir__batch_limits tensors_alone = {0};
    weir_error refused = {.status = WEIR_OUT_OF_MEMORY};
    if (!s->read_back)
        s->read_back = s->pinned.allocate(s->pinned.context, (size_t)s->need.tensor_size, &refused);
    if (s->read_back)
        return s->digester.batch ? WEIR_OK : weir__digester_open(&s->digester, s->env, &tensors_alone, error);
    if (error)
        *error = refused;
    return refused.status;
}

/* The staging's own stream reads, behind what fills the place. */
weir_status weir_staging_verify(weir_staging *s, const weir_staged *staged, weir_error *error) {
    const weir_batch *batch = staged->batch;
    uint8_t digest[16];
    if (!batch->has_digests)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR__STAGING_OPERATOR,
                          "the batches have no digests to compare with; open the loader with_digests");
    weir_status status = open_verifier(s, error);
    if (status == WEIR_OK)
        status = weir_stream_wait(s->device, s->stream, staged->ready, error);
    if (status == WEIR_OK)
        status =
            weir_copy_to_host(s->device, s->read_back, batch->data, (size_t)batch->size, s->stream, error);
    if (status == WEIR_OK)
        status = weir_stream_sync(s->device, s->stream, error);
    if (status != WEIR_OK)
        return status;
    weir__digest_tensors(&s->digester, batch, s->read_back, digest);
    if (memcmp(digest, batch->batch_digest, sizeof digest) == 0)
        return WEIR_OK;
    status = weir__fail(error, WEIR_DEVICE_ERROR, WEIR__STAGING_OPERATOR,
                        "the batch of step %llu is another one on the device than on the host; the device, "
                        "its driver or weir is broken",
                        (unsigned long long)staged->step);
    if (error)
        error->t = staged->step;
    return status;
}
