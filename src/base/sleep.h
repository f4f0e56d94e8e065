/* Sleeping until another thread has made something to do. A sleeper has a word of its own, which is 1 while
 * it sleeps. All steps are sequentially consistent:
 *
 *     sleeper: word = 1; if (there is something to do) stay awake; else wait(word, 1)
 *     waker:   make something to do; if (word == 1) { word = 0; wake(word); }
 *
 * In the one order of these steps either the sleeper's store comes before the waker's load, and the waker
 * wakes it, or the waker's "make" comes before the sleeper's check, and the sleeper stays awake. A wake
 * between check and wait is not lost either, because the word is 0 then and wait returns at once. A late
 * `word = 0` of an earlier round is followed by a wake, after which the sleeper checks again. The stores that
 * must come before a load are exchanges: that is what a store compiles to on x86 anyway, and an emulated
 * AArch64 (qemu 7.2) lets a load pass a mere store, though both are sequentially consistent. */
#ifndef WEIR_BASE_SLEEP_H
#define WEIR_BASE_SLEEP_H

#include <stdatomic.h>

#include "weir/base.h"

enum { WEIR__CACHE_LINE = 64 };

/* The waker's half. Also for signal handlers. */
static inline void weir__wake_sleeper(const weir_env *env, _Atomic uint32_t *word) {
    if (atomic_load(word) == 0)
        return;
    atomic_store(word, 0);
    env->wake(env->context, (const uint32_t *)(const void *)word);
}

#endif
