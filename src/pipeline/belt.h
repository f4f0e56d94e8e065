/* A ring that many workers fill and one consumer empties in order: which worker makes an item is not decided
 * before one is free for it, so a slow worker delays its item and no others.
 *
 * Item i has place i % capacity. A worker that is free takes the next item's number (one atomic addition) and
 * waits for its place, so that it is woken when that is free and not before. A place's `turn` says whose it
 * is: in round k (i / capacity) it is the worker's from 2k on, and the consumer's from 2k + 1 on, of which
 * the low 31 bits are enough. It orders all that is written to place and slot.
 *
 * Who waits sleeps on the turn itself: a worker that has the number of an item of the next round, and the
 * consumer, may sleep on one place at a time. A sleeper counts itself before it looks at the turn again, and
 * a waker changes the turn before it looks at the count; both are sequentially consistent, so either the
 * sleeper sees the turn or the waker the sleeper. If the turn changes between the look and the wait, the wait
 * returns at once. Cancelling sets the highest bit, so that this holds for it too. */
#ifndef WEIR_PIPELINE_BELT_H
#define WEIR_PIPELINE_BELT_H

#include "pipeline/ring.h"

typedef struct weir_pipeline__belt_place {
    _Alignas(WEIR__CACHE_LINE) _Atomic uint32_t turn;
    _Atomic uint32_t sleepers;
    uint32_t slot;
    uint32_t worker; /* that made the item, … */
    bool has_failed; /* … or could not */
} weir_pipeline__belt_place;

typedef struct weir_pipeline__belt {
    weir_pipeline__belt_place *places;
    uint64_t capacity;
    uint64_t length;                                    /* items in all */
    uint64_t taken;                                     /* by the consumer */
    _Alignas(WEIR__CACHE_LINE) _Atomic uint64_t next;   /* item that no worker has */
    _Alignas(WEIR__CACHE_LINE) uint8_t apart_from_next; /* what follows is not on its line */
} weir_pipeline__belt;

static inline weir_pipeline__belt_place *weir_pipeline__belt_place_of(const weir_pipeline__belt *belt,
                                                                      uint64_t item) {
    return &belt->places[item % belt->capacity];
}

/* Places have the slots 0, 1, …; items below `taken` are taken. */
void weir_pipeline__belt_init(weir_pipeline__belt *belt, weir_pipeline__belt_place *places, uint64_t capacity,
                              uint64_t length, uint64_t taken);

/* Whether the place has the item that the consumer takes next, or a failure in its stead. */
bool weir_pipeline__belt_is_ready(const weir_pipeline__belt *belt);

/* Waits for the place's turn, or a cancel; the nanoseconds that it slept. The consumer, for the next item; a
 * worker, for an item that it has taken the number of. */
uint64_t weir_pipeline__belt_await_item(weir_pipeline__belt *belt, const weir_env *env,
                                        const _Atomic uint32_t *cancelled);
uint64_t weir_pipeline__belt_await_room(weir_pipeline__belt *belt, const weir_env *env, uint64_t item,
                                        const _Atomic uint32_t *cancelled);

/* The worker is done with the item's place, the consumer with the next item's, which has another slot. */
void weir_pipeline__belt_push(weir_pipeline__belt *belt, const weir_env *env, uint64_t item);
void weir_pipeline__belt_take(weir_pipeline__belt *belt, const weir_env *env, uint32_t spare);

/* Wakes everybody, when all is cancelled. Also for signal handlers. */
void weir_pipeline__belt_cancel(weir_pipeline__belt *belt, const weir_env *env);

#endif
