/* How a prefetcher ends: cancelled at any moment by anybody, left early, in a child of fork. Nothing hangs,
 * and no thread and no descriptor is left. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/round_robin.h"
#include "support/testing.h"

/* ---- Cancels --------------------------------------------------------------------------------- */

/* Produces nothing until it is told to stop. */
static weir_status produce_until_cancelled(void *context, const weir_item *item, weir_error *error) {
    (void)error;
    atomic_fetch_add((atomic_int *)context, 1);
    while (!weir_item_is_cancelled(item))
        sched_yield();
    return WEIR_IO_ERROR; /* whatever it returns then */
}

static void *cancel_it(void *argument) {
    weir_prefetch_cancel(argument);
    return NULL;
}

static void a_cancel_ends_a_wait_for_a_stuck_producer(void **state) {
    (void)state;
    for (int trial = 0; trial < 3; trial++) {
        atomic_int calls = 0;
        weir_prefetch_options options = options_of(20, 2);
        options.policy = trial == 1 ? WEIR_POLICY_BEST_EFFORT : WEIR_POLICY_STRICT;
        options.shares_items = trial == 2;
        options.source.produce = produce_until_cancelled;
        options.source.context = &calls;
        weir_prefetch *prefetch = open_prefetch(&options);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, cancel_it, prefetch), 0);
        assert_cancelled(prefetch);
        pthread_join(thread, NULL);
        weir_prefetch_close(prefetch);
        assert_true(atomic_load(&calls) <= 2);
    }
}

static void a_consumer_may_stop_early(void **state) {
    (void)state;
    atomic_int calls = 0;
    weir_prefetch_options options = options_of(20, 3);
    options.source.produce = produce_until_cancelled;
    options.source.context = &calls;
    weir_prefetch_close(open_prefetch(&options));
    options.source.produce = produce_test_item;
    weir_prefetch_close(open_prefetch(&options));
    weir_prefetch *prefetch = open_prefetch(&options);
    weir_item item;
    weir_error error;
    assert_ok(weir_prefetch_next(prefetch, &item, &error), &error);
    weir_prefetch_close(prefetch); /* with an item held */
    weir_prefetch_close(NULL);
}

/* ---- Random moments -------------------------------------------------------------------------- */

enum { CANCELS = 10000 };

/* A thread that cancels each prefetcher that it is handed, after a while. */
typedef struct canceller {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    weir_prefetch *prefetch; /* NULL: nothing to do */
    uint64_t turns;
    bool is_over;
} canceller;

static void *cancel_what_comes(void *argument) {
    canceller *c = argument;
    pthread_mutex_lock(&c->mutex);
    for (;;) {
        while (!c->prefetch && !c->is_over)
            pthread_cond_wait(&c->changed, &c->mutex);
        if (!c->prefetch)
            break;
        for (uint64_t turns = c->turns; turns > 0; turns--)
            sched_yield();
        weir_prefetch_cancel(c->prefetch);
        c->prefetch = NULL;
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

static void hand_to(canceller *c, weir_prefetch *prefetch, uint64_t turns) {
    pthread_mutex_lock(&c->mutex);
    c->prefetch = prefetch;
    c->turns = turns;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
}

static void wait_until_done(canceller *c) {
    pthread_mutex_lock(&c->mutex);
    while (c->prefetch)
        pthread_cond_wait(&c->changed, &c->mutex);
    pthread_mutex_unlock(&c->mutex);
}

/* What the signal handler cancels. */
static _Atomic(weir_prefetch *) signalled;

static void cancel_in_handler(int signal_number) {
    (void)signal_number;
    weir_prefetch *prefetch = atomic_load(&signalled);
    if (prefetch)
        weir_prefetch_cancel(prefetch);
}

/* Raises the signal in the worker's thread at one item. */
static weir_status produce_and_raise(void *context, const weir_item *item, weir_error *error) {
    const uint64_t *raise_at = context;
    if (item->position == *raise_at)
        raise(SIGUSR1);
    return produce_test_item(NULL, item, error);
}

typedef enum cancelled_by { BY_A_THREAD, BY_A_SIGNAL, BY_THE_CONSUMER, CANCELLED_BY_COUNT } cancelled_by;

/* Takes items until the cancel is seen, in order until then; or all of them, where it comes too late. */
static void take_until_cancelled(weir_prefetch *prefetch, const baseline *expected, uint64_t cancel_at) {
    weir_error error;
    weir_item item;
    for (size_t i = 0;; i++) {
        if (i == cancel_at)
            weir_prefetch_cancel(prefetch);
        weir_status status = weir_prefetch_next(prefetch, &item, &error);
        if (status == WEIR_CANCELLED || (status == WEIR_OK && !item.slot))
            break;
        assert_ok(status, &error);
        assert_item_is(&item, &expected->items[i]);
        weir_prefetch_release(prefetch, &item);
    }
}

static void cancel_once(random_stream *random, cancelled_by who, canceller *c) {
    static baseline expected;
    uint64_t moment = random_below(random, 40), raise_at = who == BY_A_SIGNAL ? moment : UINT64_MAX;
    weir_prefetch_options options = options_of(40, 2);
    options.shares_items = random_below(random, 2);
    options.source.produce = produce_and_raise;
    options.source.context = &raise_at;
    options.buffer_size = 1 + (uint32_t)random_below(random, 4);
    baseline_make(&options, &expected);
    /* A signal may come before open returns: there is nothing to cancel then. */
    weir_prefetch *prefetch = open_prefetch(&options);
    atomic_store(&signalled, prefetch);
    if (who == BY_A_THREAD)
        hand_to(c, prefetch, moment);
    take_until_cancelled(prefetch, &expected, who == BY_THE_CONSUMER ? moment : UINT64_MAX);
    wait_until_done(c);
    atomic_store(&signalled, NULL);
    weir_prefetch_close(prefetch);
}

/* How many threads and descriptors this process has. A thread that was joined may still be on its way
 * out. */
static void assert_as_many_as(const char *folder, size_t expected) {
    for (int i = 0; i < 1000000 && count_entries(folder) != expected; i++)
        sched_yield();
    assert_int_equal(count_entries(folder), expected);
}

static void cancels_at_random_moments_leave_nothing(void **state) {
    (void)state;
    canceller c = {.turns = 0};
    pthread_t thread;
    random_stream random = {6};
    struct sigaction action = {.sa_handler = cancel_in_handler}, before;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    pthread_mutex_init(&c.mutex, NULL);
    pthread_cond_init(&c.changed, NULL);
    assert_int_equal(pthread_create(&thread, NULL, cancel_what_comes, &c), 0);
    size_t threads = count_entries("/proc/self/task"), files = count_entries("/proc/self/fd");
    for (unsigned i = 0; i < CANCELS / test_stride(); i++)
        cancel_once(&random, (cancelled_by)(i % CANCELLED_BY_COUNT), &c);
    assert_as_many_as("/proc/self/task", threads);
    assert_as_many_as("/proc/self/fd", files);
    pthread_mutex_lock(&c.mutex);
    c.is_over = true;
    pthread_cond_broadcast(&c.changed);
    pthread_mutex_unlock(&c.mutex);
    pthread_join(thread, NULL);
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
}

/* ---- Forks ----------------------------------------------------------------------------------- */

/* What a child does with a prefetcher of its parent's: 0 where all is as it should be. */
static int use_in_child(weir_prefetch *prefetch) {
    weir_error error;
    weir_item item;
    bool is_ready;
    if (weir_prefetch_next(prefetch, &item, &error) != WEIR_CONTRACT_VIOLATION ||
        !strstr(error.message, "open one in the child"))
        return 1;
    if (weir_prefetch_try_next(prefetch, &item, &is_ready, &error) != WEIR_CONTRACT_VIOLATION)
        return 2;
    weir_prefetch_close(prefetch);
    return 0;
}

/* Whether memory is wiped in a child of fork: an emulator of another architecture may not do it. */
static bool forks_are_noticed(void) {
    const weir_env *env = weir_env_default();
    uint32_t *mark = env->map(env->context, -1, 4096);
    assert_non_null(mark);
    *mark = 1;
    assert_int_equal(env->wipe_on_fork(env->context, mark, 4096), 0);
    pid_t child = fork();
    if (child == 0)
        _exit((int)*mark);
    int result = -1;
    assert_int_equal(waitpid(child, &result, 0), child);
    env->unmap(env->context, mark, 4096);
    return WIFEXITED(result) && WEXITSTATUS(result) == 0;
}

static void a_child_of_fork_cannot_take_and_can_close(void **state) {
    (void)state;
    if (!forks_are_noticed())
        skip_because("memory is not wiped in a child of fork here (an emulator)");
    static baseline expected;
    weir_prefetch_options options = options_of(100, 3);
    baseline_make(&options, &expected);
    weir_prefetch *prefetch = open_prefetch(&options);
    assert_gives(prefetch, &expected, 0, 10);
    pid_t child = fork();
    if (child == 0)
        _exit(use_in_child(prefetch));
    assert_true(child > 0);
    int result = -1;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), 0);
    assert_gives(prefetch, &expected, 10, 90); /* the parent has not noticed */
    weir_prefetch_close(prefetch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cancel_ends_a_wait_for_a_stuck_producer),
        cmocka_unit_test(a_consumer_may_stop_early),
        cmocka_unit_test(cancels_at_random_moments_leave_nothing),
        cmocka_unit_test(a_child_of_fork_cannot_take_and_can_close),
    };
    return cmocka_run_group_tests_name("prefetch, ended", tests, NULL, NULL);
}
