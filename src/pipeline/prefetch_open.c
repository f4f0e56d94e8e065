/* Opening and closing a prefetcher: all memory, the places of every worker, then the threads.
 *
 * The struct and its arrays are one allocation, laid out in cache lines of their own. Slots that the caller
 * does not bring are one mapping, zeroed by the system. Threads start last, so that whatever fails before
 * leaves none. */
#include <string.h>

#include "pipeline/prefetch.h"

/* ---- Memory ---------------------------------------------------------------------------------- */

static size_t whole_lines(size_t size) {
    return (size + WEIR__CACHE_LINE - 1) & ~(size_t)(WEIR__CACHE_LINE - 1);
}

/* Where the arrays lie after the struct, and what all takes. No sum overflows: the counts are bounded. */
typedef struct memory_layout {
    size_t workers;
    size_t entries;
    size_t entries_stride; /* of each worker */
    size_t places;         /* of the belt */
    size_t links;
    size_t spares;
    size_t addresses;
    size_t size;
} memory_layout;

static memory_layout lay_out(const weir_prefetch_options *options) {
    memory_layout layout;
    size_t slot_count = (size_t)weir_prefetch_slot_count(options);
    layout.workers = whole_lines(sizeof(weir_prefetch));
    layout.entries = layout.workers + options->workers * sizeof(weir_pipeline__worker);
    layout.entries_stride = whole_lines(options->buffer_size * sizeof(uint32_t));
    layout.places = layout.entries + options->workers * layout.entries_stride;
    layout.links = layout.places;
    if (options->shares_items)
        layout.links += options->workers * (size_t)options->buffer_size * sizeof(weir_pipeline__belt_place);
    layout.spares = layout.links + whole_lines(slot_count * sizeof(uint32_t));
    layout.addresses = layout.spares + whole_lines(options->queue_size * sizeof(uint32_t));
    layout.size = layout.addresses + slot_count * sizeof(void *);
    return layout;
}

/* The struct, zeroed, with its arrays after it; NULL if memory is short. */
static weir_prefetch *allocate(const weir_env *env, const memory_layout *layout) {
    uint8_t *memory = weir__allocate_zero(env, layout->size + WEIR__CACHE_LINE, 1);
    if (!memory)
        return NULL;
    uint8_t *base = (uint8_t *)whole_lines((size_t)(uintptr_t)memory);
    weir_prefetch *prefetch = (weir_prefetch *)(void *)base;
    prefetch->env = env;
    prefetch->memory = memory;
    prefetch->workers = (weir_pipeline__worker *)(void *)(base + layout->workers);
    prefetch->addresses = (void **)(void *)(base + layout->addresses);
    return prefetch;
}

static weir_status place_slots(weir_prefetch *prefetch, const weir_prefetch_options *options,
                               weir_error *error) {
    size_t slot_count = (size_t)weir_prefetch_slot_count(options);
    size_t stride = whole_lines(options->slot_size), size;
    if (options->slots) {
        memcpy(prefetch->addresses, options->slots, slot_count * sizeof(void *));
        return WEIR_OK;
    }
    if (stride < options->slot_size || __builtin_mul_overflow(stride, slot_count, &size))
        return weir__out_of_memory(error, WEIR_PIPELINE__PREFETCH_OPERATOR, SIZE_MAX);
    prefetch->own_slots = prefetch->env->map(prefetch->env->context, -1, size);
    if (!prefetch->own_slots)
        return weir__out_of_memory(error, WEIR_PIPELINE__PREFETCH_OPERATOR, size);
    prefetch->own_slots_size = size;
    for (size_t i = 0; i < slot_count; i++)
        prefetch->addresses[i] = (uint8_t *)prefetch->own_slots + i * stride;
    return WEIR_OK;
}

/* ---- The start ------------------------------------------------------------------------------- */

static void configure(weir_prefetch *prefetch, const weir_prefetch_options *options) {
    prefetch->source = options->source;
    prefetch->key = options->key;
    prefetch->epochs = options->epochs;
    prefetch->shards =
        (weir_pipeline__shards){.length = options->source.length,
                                .start_position = options->start_position,
                                .start_epoch = options->start_epoch,
                                .passes = weir_pipeline__passes_of(options->epochs, options->start_epoch),
                                .workers = options->workers,
                                .mode = options->shard_mode,
                                .drop_remainder = options->drop_remainder};
    prefetch->policy = options->policy;
    prefetch->max_lead = options->max_lead;
    prefetch->max_skips_per_round = options->max_skips_per_round;
    prefetch->worker_count = options->workers;
    for (uint32_t i = 0; i < options->workers; i++) {
        weir_pipeline__worker *worker = &prefetch->workers[i];
        worker->prefetch = prefetch;
        worker->number = i;
        worker->total = weir_pipeline__shard_total(&prefetch->shards, i);
    }
}

/* Ring k has slots k * buffer_size and so on; those after the rings' are the spares. */
static void fill_rings(weir_prefetch *prefetch, const weir_prefetch_options *options,
                       const memory_layout *layout) {
    uint8_t *base = (uint8_t *)prefetch;
    uint32_t slot = 0;
    for (uint32_t i = 0; i < options->workers; i++) {
        uint32_t *entries = (uint32_t *)(void *)(base + layout->entries + i * layout->entries_stride);
        for (uint32_t k = 0; k < options->buffer_size; k++)
            entries[k] = slot++;
        weir_pipeline__ring_init(&prefetch->workers[i].ring, entries, options->buffer_size);
    }
    weir_pipeline__slots_init(&prefetch->slots, (_Atomic uint32_t *)(void *)(base + layout->links),
                              WEIR__NARROW(uint32_t, weir_prefetch_slot_count(options)),
                              (uint32_t *)(void *)(base + layout->spares), options->queue_size);
}

/* The belt has the slots of all rings. */
static void open_belt(weir_prefetch *prefetch, const weir_prefetch_options *options,
                      const memory_layout *layout) {
    uint64_t taken = 0;
    for (uint32_t i = 0; i < options->workers; i++)
        taken += prefetch->workers[i].consumed;
    weir_pipeline__belt_init(&prefetch->belt,
                             (weir_pipeline__belt_place *)(void *)((uint8_t *)prefetch + layout->places),
                             (uint64_t)options->workers * options->buffer_size,
                             weir_pipeline__pass_length(&prefetch->shards, true), taken);
}

/* Puts every worker's two cursors where what was consumed ends. */
static void seek(weir_prefetch *prefetch) {
    for (uint32_t i = 0; i < prefetch->worker_count; i++) {
        weir_pipeline__worker *worker = &prefetch->workers[i];
        worker->consumed_at_open = worker->consumed;
        if (weir_pipeline__worker_is_done(worker))
            continue;
        prefetch->active_count++;
        worker->cursor = worker->first = weir_pipeline__cursor_at(&prefetch->shards, i, worker->consumed);
    }
}

static weir_status start_threads(weir_prefetch *prefetch, weir_error *error) {
    const weir_env *env = prefetch->env;
    for (uint32_t i = 0; i < prefetch->worker_count; i++) {
        weir_pipeline__worker *worker = &prefetch->workers[i];
        if (weir_pipeline__worker_is_done(worker))
            continue;
        int failure = env->start_thread(env->context, weir_pipeline__worker_run, worker, &worker->thread);
        if (failure != 0)
            return weir__fail(error, WEIR_OUT_OF_MEMORY, WEIR_PIPELINE__PREFETCH_OPERATOR,
                              "cannot start worker %u of %u: %s; use fewer workers, or raise the limit of "
                              "threads",
                              i + 1, prefetch->worker_count, strerror(failure));
        worker->has_thread = true;
    }
    return WEIR_OK;
}

weir_status weir_prefetch_open(const weir_env *env, const weir_prefetch_options *options, weir_prefetch **out,
                               weir_error *error) {
    weir_prefetch_options filled;
    weir_status status = weir_pipeline__prefetch_options_check(options, &filled, error);
    if (status != WEIR_OK)
        return status;
    memory_layout layout = lay_out(&filled);
    weir_prefetch *prefetch = allocate(weir__env_or_default(env), &layout);
    if (!prefetch)
        return weir__out_of_memory(error, WEIR_PIPELINE__PREFETCH_OPERATOR, layout.size);
    configure(prefetch, &filled);
    fill_rings(prefetch, &filled, &layout);
    if (filled.state)
        status = weir_pipeline__prefetch_restore(prefetch, filled.state, filled.state_size, error);
    if (status == WEIR_OK)
        status =
            weir__fork_mark_open(&prefetch->mark, prefetch->env, WEIR_PIPELINE__PREFETCH_OPERATOR, error);
    if (status == WEIR_OK)
        status = place_slots(prefetch, &filled, error);
    if (status == WEIR_OK) {
        if (filled.shares_items)
            open_belt(prefetch, &filled, &layout);
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
    bool is_here = weir_pipeline__prefetch_is_here(prefetch);
    if (is_here)
        weir_prefetch_cancel(prefetch);
    for (uint32_t i = 0; is_here && i < prefetch->worker_count; i++)
        if (prefetch->workers[i].has_thread)
            env->join_thread(env->context, prefetch->workers[i].thread);
    weir__fork_mark_close(&prefetch->mark, env);
    if (prefetch->own_slots)
        env->unmap(env->context, prefetch->own_slots, prefetch->own_slots_size);
    weir__release(env, prefetch->memory);
}
