/* See fibers.h. Fibers switch to the test and back, never to each other; the test picks who is next. */
#include "support/fibers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void fiber_main(unsigned high, unsigned low) {
    fiber_env *fibers = (fiber_env *)((uintptr_t)high << 32 | low);
    fiber *self = &fibers->fibers[fibers->current];
    self->run(self->argument);
    self->is_alive = false;
    swapcontext(&self->context, &fibers->main);
}

static void run_fiber(fiber_env *fibers, uint32_t number) {
    fibers->current = number;
    fibers->switches++;
    assert_int_equal(swapcontext(&fibers->main, &fibers->fibers[number].context), 0);
    fibers->current = FIBERS_MAX;
}

/* A fiber that can run, by chance; FIBERS_MAX where there is none. */
static uint32_t choose_fiber(fiber_env *fibers) {
    uint32_t first = (uint32_t)random_below(&fibers->random, FIBERS_MAX);
    for (uint32_t i = 0; i < FIBERS_MAX; i++) {
        uint32_t number = (first + i) % FIBERS_MAX;
        if (fibers->fibers[number].is_alive && !fibers->fibers[number].sleeps_on)
            return number;
    }
    return FIBERS_MAX;
}

void fibers_run(fiber_env *fibers, uint64_t turns) {
    for (uint64_t i = 0; i < turns; i++) {
        uint32_t number = choose_fiber(fibers);
        if (number == FIBERS_MAX)
            return;
        run_fiber(fibers, number);
    }
}

void fiber_yield(fiber_env *fibers) {
    if (fibers->current != FIBERS_MAX)
        swapcontext(&fibers->fibers[fibers->current].context, &fibers->main);
}

/* ---- The environment's entries --------------------------------------------------------------- */

/* Makes the fiber ready to begin; false where there is no memory. */
static bool prepare(fiber_env *fibers, fiber *f) {
    uintptr_t address = (uintptr_t)fibers;
    if (!f->stack)
        f->stack = malloc(FIBER_STACK);
    if (!f->stack || getcontext(&f->context) != 0)
        return false;
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = FIBER_STACK;
    f->context.uc_link = NULL;
    makecontext(&f->context, (void (*)(void))fiber_main, 2, (unsigned)(address >> 32), (unsigned)address);
    return true;
}

static int fiber_start(void *context, void *(*run)(void *), void *argument, uintptr_t *thread) {
    fiber_env *fibers = context;
    for (uint32_t i = 0; i < FIBERS_MAX; i++) {
        fiber *f = &fibers->fibers[i];
        if (f->is_alive)
            continue;
        if (!prepare(fibers, f))
            return EAGAIN;
        f->run = run;
        f->argument = argument;
        f->sleeps_on = NULL;
        f->is_alive = true;
        *thread = i;
        return 0;
    }
    return EAGAIN;
}

static int fiber_join(void *context, uintptr_t thread) {
    fiber_env *fibers = context;
    while (fibers->fibers[thread].is_alive) {
        uint32_t number = choose_fiber(fibers);
        if (number == FIBERS_MAX)
            fail_msg("a thread is joined that sleeps for ever");
        run_fiber(fibers, number);
    }
    return 0;
}

static void fiber_wait(void *context, const uint32_t *word, uint32_t expected, uint64_t timeout_ns) {
    fiber_env *fibers = context;
    (void)timeout_ns;
    if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != expected)
        return;
    bool returns_early = random_below(&fibers->random, 8) == 0;
    if (fibers->current != FIBERS_MAX) {
        fibers->fibers[fibers->current].sleeps_on = returns_early ? NULL : word;
        fiber_yield(fibers);
        return;
    }
    while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == expected) {
        uint32_t number = choose_fiber(fibers);
        if (number == FIBERS_MAX)
            fail_msg("everybody sleeps");
        run_fiber(fibers, number);
        if (returns_early)
            return;
    }
}

static void fiber_wake(void *context, const uint32_t *word) {
    fiber_env *fibers = context;
    for (uint32_t i = 0; i < FIBERS_MAX; i++)
        if (fibers->fibers[i].sleeps_on == word)
            fibers->fibers[i].sleeps_on = NULL;
}

static uint64_t fiber_now(void *context) {
    fiber_env *fibers = context;
    return ++fibers->now_ns;
}

void fiber_env_init(fiber_env *fibers, uint64_t seed) {
    memset(fibers, 0, sizeof *fibers);
    fibers->env = *weir_env_default();
    fibers->env.context = fibers;
    fibers->env.start_thread = fiber_start;
    fibers->env.join_thread = fiber_join;
    fibers->env.wait = fiber_wait;
    fibers->env.wake = fiber_wake;
    fibers->env.now_ns = fiber_now;
    fibers->current = FIBERS_MAX;
    fibers->random.state = seed;
}

void fiber_env_close(fiber_env *fibers) {
    for (uint32_t i = 0; i < FIBERS_MAX; i++) {
        assert_false(fibers->fibers[i].is_alive);
        free(fibers->fibers[i].stack);
    }
}
