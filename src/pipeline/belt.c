/* See belt.h. */
#include "pipeline/belt.h"

#include "base/narrow.h"

enum { SPINS = 32 };

#define CANCELLED 0x80000000u

/* The item's turn of its place, and whether the worker is done with it. */
static uint32_t turn_of(const weir_pipeline__belt *belt, uint64_t item, bool is_made) {
    return WEIR__LOW(uint32_t, 2 * (item / belt->capacity) + is_made) & ~CANCELLED;
}

void weir_pipeline__belt_init(weir_pipeline__belt *belt, weir_pipeline__belt_place *places, uint64_t capacity,
                              uint64_t length, uint64_t taken) {
    *belt = (weir_pipeline__belt){.places = places, .capacity = capacity, .length = length, .taken = taken};
    atomic_init(&belt->next, taken);
    for (uint64_t i = 0; i < capacity; i++) {
        uint64_t item = taken + (capacity + i - taken % capacity) % capacity; /* the first that comes here */
        atomic_init(&places[i].turn, turn_of(belt, item, false));
        places[i].slot = WEIR__NARROW(uint32_t, i);
    }
}

bool weir_pipeline__belt_is_ready(const weir_pipeline__belt *belt) {
    return atomic_load(&weir_pipeline__belt_place_of(belt, belt->taken)->turn) ==
           turn_of(belt, belt->taken, true);
}

static uint64_t await(weir_pipeline__belt_place *place, uint32_t turn, const weir_env *env,
                      const _Atomic uint32_t *cancelled) {
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load(&place->turn) == turn || atomic_load(cancelled) != 0)
            return 0;
        weir_pipeline__pause();
    }
    uint64_t began_ns = env->now_ns(env->context);
    (void)atomic_fetch_add(&place->sleepers, 1);
    for (;;) {
        uint32_t seen = atomic_load(&place->turn);
        if (seen == turn || atomic_load(cancelled) != 0)
            break;
        env->wait(env->context, (const uint32_t *)(const void *)&place->turn, seen, 0);
    }
    (void)atomic_fetch_sub(&place->sleepers, 1);
    return env->now_ns(env->context) - began_ns;
}

uint64_t weir_pipeline__belt_await_item(weir_pipeline__belt *belt, const weir_env *env,
                                        const _Atomic uint32_t *cancelled) {
    return await(weir_pipeline__belt_place_of(belt, belt->taken), turn_of(belt, belt->taken, true), env,
                 cancelled);
}

uint64_t weir_pipeline__belt_await_room(weir_pipeline__belt *belt, const weir_env *env, uint64_t item,
                                        const _Atomic uint32_t *cancelled) {
    return await(weir_pipeline__belt_place_of(belt, item), turn_of(belt, item, false), env, cancelled);
}

static void pass_on(weir_pipeline__belt_place *place, const weir_env *env, uint32_t from, uint32_t turn) {
    uint32_t was = atomic_exchange(&place->turn, turn);
    assert((was & ~CANCELLED) == from && "a place is passed on out of turn");
    if (atomic_load(&place->sleepers) > 0)
        env->wake(env->context, (const uint32_t *)(const void *)&place->turn);
}

void weir_pipeline__belt_push(weir_pipeline__belt *belt, const weir_env *env, uint64_t item) {
    pass_on(weir_pipeline__belt_place_of(belt, item), env, turn_of(belt, item, false),
            turn_of(belt, item, true));
}

void weir_pipeline__belt_take(weir_pipeline__belt *belt, const weir_env *env, uint32_t spare) {
    weir_pipeline__belt_place *place = weir_pipeline__belt_place_of(belt, belt->taken);
    place->slot = spare;
    pass_on(place, env, turn_of(belt, belt->taken, true), turn_of(belt, belt->taken + belt->capacity, false));
    belt->taken++;
}

void weir_pipeline__belt_cancel(weir_pipeline__belt *belt, const weir_env *env) {
    for (uint64_t i = 0; i < belt->capacity; i++) {
        (void)atomic_fetch_or(&belt->places[i].turn, CANCELLED);
        if (atomic_load(&belt->places[i].sleepers) > 0)
            env->wake(env->context, (const uint32_t *)(const void *)&belt->places[i].turn);
    }
}
