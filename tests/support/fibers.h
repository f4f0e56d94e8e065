/* Threads without threads: an environment whose threads are fibers of one thread, switched only where they
 * wait, or where the test says so. A seed decides who runs next, and now and then ends a wait for no reason.
 * So a schedule can be repeated, thousands of them take a second, and where everybody sleeps the test fails
 * instead of hanging. */
#ifndef WEIR_TESTS_FIBERS_H
#define WEIR_TESTS_FIBERS_H

#include <ucontext.h>

#include "support/testing.h"

enum { FIBERS_MAX = 16, FIBER_STACK = 128 * 1024 };

typedef struct fiber {
    ucontext_t context;
    void *(*run)(void *);
    void *argument;
    const uint32_t *sleeps_on; /* NULL while it can run */
    bool is_alive;
    void *stack;
} fiber;

typedef struct fiber_env {
    weir_env env;
    ucontext_t main;
    fiber fibers[FIBERS_MAX];
    uint32_t current; /* FIBERS_MAX: the test itself */
    random_stream random;
    uint64_t now_ns;
    uint64_t switches;
} fiber_env;

void fiber_env_init(fiber_env *fibers, uint64_t seed);
void fiber_env_close(fiber_env *fibers);

/* From the test: lets up to `turns` turns of fibers that can run pass. */
void fibers_run(fiber_env *fibers, uint64_t turns);

/* From a fiber, such as in a producer: lets another have a turn. From the test itself: nothing. */
void fiber_yield(fiber_env *fibers);

#endif
