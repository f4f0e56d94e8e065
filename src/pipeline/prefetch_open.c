/* Opening and closing a prefetcher: all memory, the places of every worker, then the threads.
 *
 * The struct, its arrays and the slots that the caller does not bring are one block. Threads start last, so
 * that whatever fails before leaves none. */
#include <string.h>

#include "base/bits.h"
#include "pipeline/prefetch.h"

/* ---- Memory ---------------------------------------------------------------------------------- */

/* The struct and its arrays. Ring k has slots k * buffer_size and so on; the belt, if there is one, has those
 * of all rings; the last are the spares. */
static weir_prefetch *carve(weir__block *block, const weir_prefetch_options *o) {
    uint64_t in_rings = (uint64_t)o->workers * o->buffer_size, slot_count = in_rings + o->queue_size;
    uint64_t too_large = UINT64_MAX - WEIR__CACHE_LINE; /* which no memory holds */
    uint64_t stride = o->slot_size < too_large ? weir__align(o->slot_size, WEIR__CACHE_LINE) : UINT64_MAX;
    weir_prefetch *prefetch = weir__carve(block, 1, sizeof *prefetch);
    weir_pipeline__worker *workers = weir__carve(block, o->workers, sizeof *workers);
    void *places = o->shares_items ? weir__carve(block, in_rings, sizeof(weir_pipeline__belt_place)) : NULL;
    _Atomic uint32_t *links = weir__carve(block, slot_count, sizeof *links);
    uint32_t *spares = weir__carve(block, o->queue_size, sizeof *spares);
    void **addresses = weir__carve(block, slot_count, sizeof *addresses);
    uint8_t *own = o->slots ? NULL : weir__carve(block, slot_count, stride);
    for (uint32_t i = 0; i < o->workers; i++) {
        uint32_t *entries = weir__carve(block, o->buffer_size, sizeof *entries);
        if (block->memory)
            weir_pipeline__ring_init(&workers[i].ring, entries, o->buffer_size, i * o->buffer_size);
    }
    if (!block->memory)
        return NULL;
    prefetch->workers = workers;
    prefetch->belt.places = places;
    prefetch->addresses = addresses;
    weir_pipeline__slots_init(&prefetch->slots, links, WEIR__NARROW(uint32_t, slot_count), spares,
                              o->queue_size);
    for (uint64_t i = 0; i < slot_count; i++)
        addresses[i] = own ? own + i * stride : o->slots[i];
    return prefetch;
}

/* ---- The start ------------------------------------------------------------------------------- */

static void configure(weir_prefetch *prefetch, const weir_prefetch_options *options) {
    prefetch->options = *options;
    prefetch->shards =
        (weir_pipeline__shards){.length = options->source.length,
                                .start_position = options->start_position,
                                .start_epoch = options->start_epoch,
                                .passes = weir_pipeline__passes_of(options->epochs, options->start_epoch),
                                .workers = options->workers,
                                .mode = options->shard_mode,
                                .drop_remainder = options->drop_remainder};
    for (uint32_t i = 0; i < options->workers; i++) {
        weir_pipeline__worker *worker = &prefetch->workers[i];
        worker->prefetch = prefetch;
        worker->number = i;
        worker->total = weir_pipeline__shard_total(&prefetch->shards, i);
    }
}

/* Puts the belt, and every worker's two cursors, where what was consumed ends. */
static void seek(weir_prefetch *prefetch) {
    const weir_prefetch_options *options = &prefetch->options;
    uint64_t taken = 0;
    for (uint32_t i = 0; i < prefetch->options.workers; i++) {
        weir_pipeline__worker *worker = &prefetch->workers[i];
        worker->consumed_at_open = worker->consumed;
        taken += worker->consumed;
        if (weir_pipeline__worker_is_done(worker))
            continue;
        prefetch->active_count++;
        worker->cursor = worker->first = weir_pipeline__cursor_at(&prefetch->shards, i, worker->consumed);
    }
    if (prefetch->belt.places)
        weir_pipeline__belt_init(&prefetch->belt, prefetch->belt.places,
                                 (uint64_t)options->workers * options->buffer_size,
                                 weir_pipeline__pass_length(&prefetch->shards, true), taken);
}

static weir_status start_threads(weir_prefetch *prefetch, weir_error *error) {
    const weir_env *env = prefetch->env;
    for (uint32_t i = 0; i < prefetch->options.workers; i++) {
        weir_pipeline__worker *worker = &prefetch->workers[i];
        if (weir_pipeline__worker_is_done(worker))
            continue;
        int failure = env->start_thread(env->context, weir_pipeline__worker_run, worker, &worker->thread);
        if (failure != 0)
            return weir__fail(error, WEIR_OUT_OF_MEMORY, WEIR_PIPELINE__PREFETCH_OPERATOR,
                              "cannot start worker %u of %u: %s; use fewer workers, or raise the limit of "
                              "threads",
                              i + 1, prefetch->options.workers, strerror(failure));
        worker->has_thread = true;
    }
    return WEIR_OK;
}

weir_status weir_prefetch_open(const weir_env *env, const weir_prefetch_options *options, weir_prefetch **out,
                               weir_error *error) {
    weir_prefetch_options filled;
    weir__block block = {0};
    WEIR__TRY(weir_pipeline__prefetch_options_check(options, &filled, error));
    env = weir__env_or_default(env);
    (void)carve(&block, &filled);
    if (!weir__block_open(&block, env))
        return weir__out_of_memory(error, WEIR_PIPELINE__PREFETCH_OPERATOR, (size_t)block.size);
    weir_prefetch *prefetch = carve(&block, &filled);
    prefetch->env = env;
    prefetch->block = block;
    configure(prefetch, &filled);
    weir_status status = WEIR_OK;
    if (filled.state)
        status = weir_pipeline__prefetch_restore(prefetch, filled.state, filled.state_size, error);
    if (status == WEIR_OK)
        status = weir__fork_mark_open(&prefetch->mark, env, WEIR_PIPELINE__PREFETCH_OPERATOR, error);
    if (status == WEIR_OK) {
        seek(prefetch);
        status = start_threads(prefetch, error);
    }
    if (status != WEIR_OK) {
        weir_prefetch_close(prefetch);
        return status;
    }
    *out = prefetch;
    return WEIR_OK;
}

/* ---- The end --------------------------------------------------------------------------------- */

void weir_prefetch_close(weir_prefetch *prefetch) {
    if (!prefetch)
        return;
    const weir_env *env = prefetch->env;
    weir__block block = prefetch->block;
    bool is_here = weir_pipeline__prefetch_is_here(prefetch);
    if (is_here)
        weir_prefetch_cancel(prefetch);
    for (uint32_t i = 0; is_here && i < prefetch->options.workers; i++)
        if (prefetch->workers[i].has_thread)
            env->join_thread(env->context, prefetch->workers[i].thread);
    weir__fork_mark_close(&prefetch->mark, env);
    weir__block_close(&block, env);
}
