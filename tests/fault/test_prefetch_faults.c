/* Every call to the system fails in turn while a prefetcher is opened, used, saved and resumed: an error
 * record, no thread and nothing else left, and the next try works. And what it asks for after open:
 * nothing. */
#include <sched.h>

#include "support/round_robin.h"
#include "support/testing.h"

static const weir_prefetch_options *options_of_test(void) {
    static weir_prefetch_options options;
    options = options_of(30, 4);
    options.buffer_size = 3;
    return &options;
}

/* Takes up to `count` items. */
static weir_status take(weir_prefetch *prefetch, int count, weir_error *error) {
    weir_item item;
    for (int i = 0; i < count; i++) {
        weir_status status = weir_prefetch_next(prefetch, &item, error);
        if (status != WEIR_OK)
            return status;
        weir_prefetch_release(prefetch, &item);
    }
    return WEIR_OK;
}

static weir_status open_use_and_resume(const weir_env *env, void *context, weir_error *error) {
    weir_prefetch_options options = *options_of_test();
    weir_prefetch *prefetch = NULL;
    kept_state kept;
    (void)context;
    weir_status status = weir_prefetch_open(env, &options, &prefetch, error);
    if (status != WEIR_OK) {
        assert_null(prefetch);
        return status;
    }
    status = take(prefetch, 13, error);
    keep_state(prefetch, &kept);
    weir_prefetch_close(prefetch);
    if (status != WEIR_OK)
        return status;
    options.state = kept.bytes;
    options.state_size = kept.size;
    status = weir_prefetch_open(env, &options, &prefetch, error);
    if (status != WEIR_OK)
        return status;
    status = take(prefetch, 18, error);
    if (status == WEIR_OK)
        assert_ended(prefetch);
    weir_prefetch_close(prefetch);
    if (status != WEIR_OK)
        return status;
    options.state = NULL;
    options.shares_items = true;
    status = weir_prefetch_open(env, &options, &prefetch, error);
    if (status != WEIR_OK)
        return status;
    status = take(prefetch, 30, error);
    weir_prefetch_close(prefetch);
    return status;
}

static size_t threads_before;

/* After any failure no thread is left (one that was joined may still be on its way out), and the same
 * works. */
static void nothing_is_left(void *context) {
    weir_error error;
    for (int i = 0; i < 1000000 && count_entries("/proc/self/task") != threads_before; i++)
        sched_yield();
    assert_int_equal(count_entries("/proc/self/task"), threads_before);
    assert_ok(open_use_and_resume(weir_env_default(), context, &error), &error);
}

static void opening_fails_cleanly(void **state) {
    (void)state;
    weir_error error;
    assert_ok(open_use_and_resume(weir_env_default(), NULL, &error), &error); /* a sanitizer's own thread */
    threads_before = count_entries("/proc/self/task");
    assert_true(sweep_faults(open_use_and_resume, nothing_is_left, NULL) >= 36);
}

static void nothing_is_asked_for_after_open(void **state) {
    (void)state;
    fault_env faults;
    weir_error error;
    weir_prefetch *prefetch = NULL;
    kept_state kept;
    fault_env_init(&faults);
    assert_ok(weir_prefetch_open(&faults.env, options_of_test(), &prefetch, &error), &error);
    fault_env before = faults;
    assert_ok(take(prefetch, 30, &error), &error);
    keep_state(prefetch, &kept);
    assert_ended(prefetch);
    assert_memory_equal(before.calls, faults.calls, sizeof faults.calls);
    weir_prefetch_close(prefetch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_fails_cleanly),
        cmocka_unit_test(nothing_is_asked_for_after_open),
    };
    return cmocka_run_group_tests_name("prefetch faults", tests, NULL, NULL);
}
