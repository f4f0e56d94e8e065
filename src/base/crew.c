/* See crew.h. Leads sleep as sleep.h says; helpers sleep on a count of what was opened, which they
 * read before they look for work: if something was opened since, the wait returns at once. */
#include "base/crew.h"

#include "base/floating.h"

enum { SPINS = 200 };

typedef struct weir__helper {
    weir__crew *crew;
    uint32_t thread;
    uintptr_t handle;
} weir__helper;

static uint32_t left_of(uint64_t open) {
    return WEIR__LOW(uint32_t, open);
}

/* Takes a unit of the oldest step that has one and does it; false if there is none. */
static bool do_one(weir__crew *crew, uint32_t thread) {
    for (;;) {
        weir__lane *oldest = NULL;
        uint64_t open = 0, oldest_step = 0;
        for (uint32_t i = 0; i < crew->lane_count; i++) {
            weir__lane *lane = &crew->lanes[i];
            uint64_t seen = atomic_load(&lane->open);
            uint64_t step = atomic_load_explicit(&lane->step, memory_order_relaxed);
            if (left_of(seen) == 0 || (oldest && step >= oldest_step))
                continue;
            oldest = lane;
            oldest_step = step;
            open = seen;
        }
        if (!oldest)
            return false;
        if (!atomic_compare_exchange_strong(&oldest->open, &open, open - 1))
            continue;
        oldest->work(crew->context, oldest->job, left_of(open) - 1, thread);
        if (atomic_fetch_sub(&oldest->undone, 1) == 1)
            weir__wake_sleeper(crew->env, &oldest->lead_sleeps);
        return true;
    }
}

static void *help(void *argument) {
    const weir__helper *helper = argument;
    weir__crew *crew = helper->crew;
    weir__floating kept = weir__enter_floating();
    while (!atomic_load(&crew->is_over)) {
        uint32_t calls = atomic_load(&crew->calls);
        if (do_one(crew, helper->thread) || atomic_load(&crew->is_over))
            continue;
        (void)atomic_fetch_add(&crew->sleepers, 1);
        crew->env->wait(crew->env->context, (const uint32_t *)(const void *)&crew->calls, calls, 0);
        (void)atomic_fetch_sub(&crew->sleepers, 1);
    }
    weir__leave_floating(&kept);
    return NULL;
}

static void await_units(weir__crew *crew, weir__lane *lane) {
    for (int i = 0; i < SPINS; i++)
        if (atomic_load(&lane->undone) == 0)
            return;
    while (atomic_load(&lane->undone) != 0) {
        (void)atomic_exchange(&lane->lead_sleeps, 1);
        if (atomic_load(&lane->undone) != 0)
            crew->env->wait(crew->env->context, (const uint32_t *)(const void *)&lane->lead_sleeps, 1, 0);
    }
}

void weir__crew_share(weir__crew *crew, uint32_t number, uint64_t step, uint32_t count, weir__crew_work *work,
                      void *job) {
    weir__lane *lane = &crew->lanes[number];
    if (count == 0)
        return;
    assert(number < crew->lane_count && atomic_load(&lane->undone) == 0 && "a lane that has work already");
    uint64_t generation = (atomic_load(&lane->open) >> 32) + 1;
    lane->work = work;
    lane->job = job;
    atomic_store_explicit(&lane->step, step, memory_order_relaxed);
    atomic_store(&lane->undone, count);
    (void)atomic_exchange(&lane->open, generation << 32 | count);
    (void)atomic_fetch_add(&crew->calls, 1);
    if (atomic_load(&crew->sleepers) > 0)
        crew->env->wake(crew->env->context, (const uint32_t *)(const void *)&crew->calls);
    while (left_of(atomic_load(&lane->open)) > 0 && do_one(crew, number)) {
    }
    await_units(crew, lane);
}

weir_status weir__crew_open(weir__crew *crew, const weir_env *env, uint32_t lane_count, uint32_t helper_count,
                            void *context, weir_error *error) {
    static const char operator_name[] = "weir.crew";
    *crew = (weir__crew){.env = env, .context = context, .lane_count = lane_count};
    crew->lanes = weir__allocate_zero(env, lane_count, sizeof *crew->lanes);
    crew->helpers = weir__allocate_zero(env, helper_count + 1, sizeof *crew->helpers);
    if (!crew->lanes || !crew->helpers)
        return weir__out_of_memory(error, operator_name, lane_count * sizeof *crew->lanes);
    WEIR__TRY(weir__fork_mark_open(&crew->mark, env, operator_name, error));
    while (crew->helper_count < helper_count) {
        weir__helper *helper = &crew->helpers[crew->helper_count];
        *helper = (weir__helper){.crew = crew, .thread = lane_count + crew->helper_count};
        if (env->start_thread(env->context, help, helper, &helper->handle) != 0)
            return weir__fail(error, WEIR_OUT_OF_MEMORY, operator_name,
                              "thread %u of %u cannot be started; use fewer of them", helper->thread + 1,
                              lane_count + helper_count);
        crew->helper_count++;
    }
    return WEIR_OK;
}

void weir__crew_close(weir__crew *crew) {
    if (!crew->env)
        return;
    atomic_store(&crew->is_over, true);
    (void)atomic_fetch_add(&crew->calls, 1);
    crew->env->wake(crew->env->context, (const uint32_t *)(const void *)&crew->calls);
    for (uint32_t i = 0; weir__fork_mark_is_here(&crew->mark) && i < crew->helper_count; i++)
        crew->env->join_thread(crew->env->context, crew->helpers[i].handle);
    weir__fork_mark_close(&crew->mark, crew->env);
    weir__release(crew->env, crew->lanes);
    weir__release(crew->env, crew->helpers);
    crew->env = NULL;
}
