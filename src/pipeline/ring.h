/* A ring between one producer (a worker's thread) and one consumer, over slot numbers.
 *
 * entries[i] names the slot that belongs to place i. The producer fills the slots in turn and counts them in
 * `made`; the consumer takes them in turn, puts another slot's number in the place, and counts in `taken`.
 * Only the consumer writes entries, and only those of places that are the consumer's: from the moment that
 * `made` passes them until `taken` does. So the two counts, stored with release and loaded with acquire,
 * order all that is written to entries and slots.
 *
 * Each side keeps what it last saw of the other's count, and looks again only where that says "nothing". The
 * consumer tells its count in chunks of a quarter of the ring.
 *
 * A side that finds nothing to do spins for a moment, then sleeps as base/sleep.h says, on a word of its own.
 *
 * "Something to do" is, for the consumer: `made` has passed `taken`, the producer has failed, or all is
 * cancelled. For the producer it is: `taken` has reached wake_at, or all is cancelled. wake_at is where half
 * the ring is free, so that fast items cost a wake for half a ring and not for each. A consumer that has
 * emptied the ring has told all but less than a quarter of it, and so has passed wake_at: the two never
 * sleep at once. */
#ifndef WEIR_PIPELINE_RING_H
#define WEIR_PIPELINE_RING_H

#include <assert.h>

#include "base/sleep.h"

typedef struct weir_pipeline__ring {
    uint32_t *entries;
    uint32_t capacity;
    uint32_t chunk; /* the consumer tells its count at least this often */

    /* The consumer's. */
    _Alignas(WEIR__CACHE_LINE) _Atomic uint64_t taken; /* as told to the producer */
    uint64_t taken_own;
    uint64_t made_seen;
    uint32_t take_place;

    /* The producer's. */
    _Alignas(WEIR__CACHE_LINE) _Atomic uint64_t made;
    uint64_t made_own;
    uint64_t taken_seen;
    uint32_t make_place;

    /* Seldom written. */
    _Alignas(WEIR__CACHE_LINE) _Atomic uint32_t consumer_sleeps;
    _Atomic uint32_t producer_sleeps;
    _Atomic uint64_t wake_at;
    _Atomic bool has_failed; /* `made` is final, and a failure comes after it */
} weir_pipeline__ring;

/* An empty ring, zeroed before, whose places have the slots from first_slot on. */
void weir_pipeline__ring_init(weir_pipeline__ring *ring, uint32_t *entries, uint32_t capacity,
                              uint32_t first_slot);

/* ---- Waiting --------------------------------------------------------------------------------- */

/* For a moment, while another thread is about to do something. */
static inline void weir_pipeline__pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#else
    __asm__ volatile("" ::: "memory");
#endif
}

/* ---- The consumer's side --------------------------------------------------------------------- */

/* Tells the producer what was taken. */
void weir_pipeline__ring_tell(weir_pipeline__ring *ring, const weir_env *env);

/* Whether an item is there to take. */
static inline bool weir_pipeline__ring_has_item(weir_pipeline__ring *ring) {
    if (ring->taken_own == ring->made_seen)
        ring->made_seen = atomic_load_explicit(&ring->made, memory_order_acquire);
    return ring->taken_own != ring->made_seen;
}

/* Takes the item that is there: its slot's number, in whose place `spare` goes. */
static inline uint32_t weir_pipeline__ring_take(weir_pipeline__ring *ring, const weir_env *env,
                                                uint32_t spare) {
    assert(ring->taken_own != ring->made_seen && "nothing is there to take");
    uint32_t place = ring->take_place;
    uint32_t slot = ring->entries[place];
    ring->entries[place] = spare;
    ring->take_place = place + 1 == ring->capacity ? 0 : place + 1;
    ring->taken_own++;
    if (ring->taken_own - atomic_load_explicit(&ring->taken, memory_order_relaxed) >= ring->chunk)
        weir_pipeline__ring_tell(ring, env);
    return slot;
}

/* Whether the producer has failed and all that it made before is taken. */
bool weir_pipeline__ring_is_at_failure(weir_pipeline__ring *ring);

/* Waits until there is an item, a failure, or a cancel; the nanoseconds that it slept. */
uint64_t weir_pipeline__ring_await_item(weir_pipeline__ring *ring, const weir_env *env,
                                        const _Atomic uint32_t *cancelled);

/* ---- The producer's side --------------------------------------------------------------------- */

/* Whether there is a free slot. */
static inline bool weir_pipeline__ring_has_room(weir_pipeline__ring *ring) {
    if (ring->made_own - ring->taken_seen == ring->capacity)
        ring->taken_seen = atomic_load_explicit(&ring->taken, memory_order_acquire);
    return ring->made_own - ring->taken_seen != ring->capacity;
}

/* Waits until there is room, or a cancel; the nanoseconds that it slept. */
uint64_t weir_pipeline__ring_await_room(weir_pipeline__ring *ring, const weir_env *env,
                                        const _Atomic uint32_t *cancelled);

/* The free slot to fill next. */
static inline uint32_t weir_pipeline__ring_free_slot(const weir_pipeline__ring *ring) {
    return ring->entries[ring->make_place];
}

/* The slot is filled: the consumer may take it. */
static inline void weir_pipeline__ring_push(weir_pipeline__ring *ring, const weir_env *env) {
    assert(ring->made_own - ring->taken_seen < ring->capacity && "the ring is full");
    ring->make_place = ring->make_place + 1 == ring->capacity ? 0 : ring->make_place + 1;
    ring->made_own++;
    (void)atomic_exchange(&ring->made, ring->made_own);
    weir__wake_sleeper(env, &ring->consumer_sleeps);
}

/* The slot could not be filled: nothing comes after what was pushed. */
static inline void weir_pipeline__ring_fail(weir_pipeline__ring *ring, const weir_env *env) {
    (void)atomic_exchange(&ring->has_failed, true);
    weir__wake_sleeper(env, &ring->consumer_sleeps);
}

#endif
