/* See ring.h: the parts that are not on the way of every item. */
#include "pipeline/ring.h"

/* A look at the other's count is a few nanoseconds, a sleep and a wake some thousands. */
enum { SPINS = 32 };

static inline const uint32_t *futex_word(const _Atomic uint32_t *word) {
    return (const uint32_t *)(const void *)word;
}

void weir_pipeline__ring_init(weir_pipeline__ring *ring, uint32_t *entries, uint32_t capacity,
                              uint32_t first_slot) {
    ring->entries = entries;
    ring->capacity = capacity;
    ring->chunk = capacity < 8 ? 1 : capacity / 4;
    for (uint32_t i = 0; i < capacity; i++)
        entries[i] = first_slot + i;
}

/* ---- The consumer's side --------------------------------------------------------------------- */

void weir_pipeline__ring_tell(weir_pipeline__ring *ring, const weir_env *env) {
    (void)atomic_exchange(&ring->taken, ring->taken_own);
    if (atomic_load(&ring->producer_sleeps) != 0 && ring->taken_own >= atomic_load(&ring->wake_at))
        weir__wake_sleeper(env, &ring->producer_sleeps);
}

bool weir_pipeline__ring_is_at_failure(weir_pipeline__ring *ring) {
    if (!atomic_load(&ring->has_failed))
        return false;
    return !weir_pipeline__ring_has_item(ring);
}

static bool consumer_has_something(weir_pipeline__ring *ring, const _Atomic uint32_t *cancelled) {
    ring->made_seen = atomic_load(&ring->made);
    return ring->taken_own != ring->made_seen || atomic_load(&ring->has_failed) ||
           atomic_load(cancelled) != 0;
}

uint64_t weir_pipeline__ring_await_item(weir_pipeline__ring *ring, const weir_env *env,
                                        const _Atomic uint32_t *cancelled) {
    for (int i = 0; i < SPINS; i++) {
        if (consumer_has_something(ring, cancelled))
            return 0;
        weir_pipeline__pause();
    }
    uint64_t began_ns = env->now_ns(env->context);
    for (;;) {
        (void)atomic_exchange(&ring->consumer_sleeps, 1);
        if (consumer_has_something(ring, cancelled))
            break;
        env->wait(env->context, futex_word(&ring->consumer_sleeps), 1, 0);
    }
    atomic_store(&ring->consumer_sleeps, 0);
    return env->now_ns(env->context) - began_ns;
}

/* ---- The producer's side --------------------------------------------------------------------- */

static bool producer_may_go_on(weir_pipeline__ring *ring, uint64_t wake_at,
                               const _Atomic uint32_t *cancelled) {
    ring->taken_seen = atomic_load(&ring->taken);
    return ring->taken_seen >= wake_at || atomic_load(cancelled) != 0;
}

uint64_t weir_pipeline__ring_await_room(weir_pipeline__ring *ring, const weir_env *env,
                                        const _Atomic uint32_t *cancelled) {
    uint64_t full_at = ring->made_own - ring->capacity;
    uint64_t wake_at = full_at + (ring->capacity + 1) / 2;
    for (int i = 0; i < SPINS; i++) {
        if (producer_may_go_on(ring, full_at + 1, cancelled))
            return 0;
        weir_pipeline__pause();
    }
    uint64_t began_ns = env->now_ns(env->context);
    atomic_store(&ring->wake_at, wake_at);
    for (;;) {
        (void)atomic_exchange(&ring->producer_sleeps, 1);
        if (producer_may_go_on(ring, wake_at, cancelled))
            break;
        env->wait(env->context, futex_word(&ring->producer_sleeps), 1, 0);
    }
    atomic_store(&ring->producer_sleeps, 0);
    return env->now_ns(env->context) - began_ns;
}
