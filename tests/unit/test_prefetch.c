/* The prefetcher with real threads: its order, resuming, held items, failures, uneven producers, metrics. */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "support/round_robin.h"
#include "support/testing.h"

static void strict_order_is_round_robin(void **state) {
    (void)state;
    static baseline expected;
    for (uint32_t workers = 1; workers <= 8; workers++)
        for (int mode = 0; mode < 4; mode++) {
            weir_prefetch_options options = options_of(100, workers);
            options.epochs = 3;
            options.start_position = 17;
            options.start_epoch = 5;
            options.shard_mode = mode & 1 ? WEIR_SHARD_CONTIGUOUS : WEIR_SHARD_INTERLEAVED;
            options.drop_remainder = mode & 2;
            options.buffer_size = 1 + workers % 3 * 7;
            baseline_make(&options, &expected);
            weir_prefetch *prefetch = open_prefetch(&options);
            assert_gives(prefetch, &expected, 0, expected.count);
            assert_ended(prefetch);
            weir_prefetch_close(prefetch);
        }
}

static void a_resumed_one_goes_on_behind_the_last_item(void **state) {
    (void)state;
    static baseline expected;
    weir_prefetch_options options = options_of(23, 3);
    options.epochs = 2;
    baseline_make(&options, &expected);
    for (size_t split = 0; split <= expected.count; split++) {
        kept_state kept;
        options.state = NULL;
        weir_prefetch *prefetch = open_prefetch(&options);
        assert_gives(prefetch, &expected, 0, split);
        keep_state(prefetch, &kept);
        weir_prefetch_close(prefetch);
        options.state = kept.bytes;
        options.state_size = kept.size;
        prefetch = open_prefetch(&options);
        assert_gives(prefetch, &expected, split, expected.count - split);
        assert_ended(prefetch);
        weir_prefetch_close(prefetch);
    }
}

/* ---- Held items ------------------------------------------------------------------------------ */

static void as_many_items_can_be_held_as_the_queue_has_places(void **state) {
    (void)state;
    static baseline expected;
    weir_prefetch_options options = options_of(50, 2);
    options.queue_size = 3;
    weir_prefetch *prefetch = open_prefetch(&options);
    weir_prefetch_metrics metrics;
    weir_error error;
    weir_item held[3], another = {.position = 77};
    baseline_make(&options, &expected);
    for (size_t round = 0; round < 10; round++) {
        for (size_t i = 0; i < 3; i++)
            assert_ok(weir_prefetch_next(prefetch, &held[i], &error), &error);
        weir_prefetch_measure(prefetch, &metrics, NULL);
        assert_int_equal(metrics.held, 3);
        assert_fails(weir_prefetch_next(prefetch, &another, &error), WEIR_CONTRACT_VIOLATION, &error);
        assert_non_null(strstr(error.message, "3 items are held"));
        assert_int_equal(another.position, 77);
        for (size_t i = 0; i < 3; i++) /* what is held stays as it was, whatever the workers do */
            assert_item_is(&held[i], &expected.items[3 * round + i]);
        for (size_t i = 3; i-- > 0;)
            weir_prefetch_release(prefetch, &held[i]);
        weir_prefetch_release(prefetch, &held[1]); /* a second time: nothing happens */
        weir_prefetch_measure(prefetch, &metrics, NULL);
        assert_int_equal(metrics.held, 0);
    }
    assert_gives(prefetch, &expected, 30, 20);
    weir_prefetch_release(prefetch, &(weir_item){0}); /* the end has no slot */
    assert_ended(prefetch);
    weir_prefetch_close(prefetch);
}

static void the_slots_can_be_the_callers(void **state) {
    (void)state;
    static baseline expected;
    static test_item storage[64];
    void *slots[64];
    weir_prefetch_options options = options_of(40, 3);
    options.slots = slots;
    options.slot_size = 0;
    options.buffer_size = 5;
    options.queue_size = 2;
    for (size_t i = 0; i < 64; i++)
        slots[i] = &storage[i];
    assert_int_equal(weir_prefetch_slot_count(&options), 17);
    baseline_make(&options, &expected);
    weir_prefetch *prefetch = open_prefetch(&options);
    memset(slots, 0, sizeof slots); /* the list itself was only needed at open */
    weir_item item;
    weir_error error;
    for (size_t i = 0; i < expected.count; i++) {
        assert_ok(weir_prefetch_next(prefetch, &item, &error), &error);
        assert_item_is(&item, &expected.items[i]);
        assert_true(item.slot_index < 17 && item.slot == &storage[item.slot_index]);
        weir_prefetch_release(prefetch, &item);
    }
    weir_prefetch_close(prefetch);
}

/* A thread that releases what it is handed, through a mailbox of one place. */
typedef struct releaser {
    weir_prefetch *prefetch;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    weir_item item; /* slot NULL: the mailbox is empty */
    bool is_over;
} releaser;

static void *release_items(void *argument) {
    releaser *r = argument;
    pthread_mutex_lock(&r->mutex);
    for (;;) {
        while (!r->item.slot && !r->is_over)
            pthread_cond_wait(&r->changed, &r->mutex);
        if (!r->item.slot)
            break;
        weir_item item = r->item;
        r->item.slot = NULL;
        pthread_cond_broadcast(&r->changed);
        pthread_mutex_unlock(&r->mutex);
        memset(item.slot, 0xFF, sizeof(test_item)); /* the slot is this thread's until it is released */
        weir_prefetch_release(r->prefetch, &item);
        pthread_mutex_lock(&r->mutex);
    }
    pthread_mutex_unlock(&r->mutex);
    return NULL;
}

static void hand_over(releaser *r, const weir_item *item) {
    pthread_mutex_lock(&r->mutex);
    while (r->item.slot)
        pthread_cond_wait(&r->changed, &r->mutex);
    r->item = *item;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
}

static void other_threads_can_release(void **state) {
    (void)state;
    static baseline expected;
    weir_prefetch_options options = options_of(3000, 2);
    options.queue_size = 8; /* two mailboxes, two threads at work, and the item itself */
    baseline_make(&options, &expected);
    weir_prefetch *prefetch = open_prefetch(&options);
    releaser releasers[2] = {{.prefetch = prefetch}, {.prefetch = prefetch}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        pthread_mutex_init(&releasers[i].mutex, NULL);
        pthread_cond_init(&releasers[i].changed, NULL);
        assert_int_equal(pthread_create(&threads[i], NULL, release_items, &releasers[i]), 0);
    }
    weir_error error;
    weir_item item;
    for (size_t i = 0; i < expected.count; i++) {
        assert_ok(weir_prefetch_next(prefetch, &item, &error), &error);
        assert_item_is(&item, &expected.items[i]);
        hand_over(&releasers[i / 3 % 2], &item);
    }
    for (int i = 0; i < 2; i++) {
        pthread_mutex_lock(&releasers[i].mutex);
        releasers[i].is_over = true;
        pthread_cond_broadcast(&releasers[i].changed);
        pthread_mutex_unlock(&releasers[i].mutex);
        pthread_join(threads[i], NULL);
    }
    weir_prefetch_metrics metrics;
    weir_prefetch_measure(prefetch, &metrics, NULL);
    assert_int_equal(metrics.held, 0);
    weir_prefetch_close(prefetch);
}

/* ---- Failures -------------------------------------------------------------------------------- */

static weir_status produce_until(void *context, const weir_item *item, weir_error *error) {
    const uint64_t *fails_at = context;
    if (item->position >= *fails_at) {
        memset(error, 0, sizeof *error);
        error->status = WEIR_SOURCE_ERROR;
        error->failure_operator = "test.source";
        error->t = item->position;
        error->rank = 9;
        snprintf(error->message, sizeof error->message, "item %u is broken", (unsigned)item->position);
        return WEIR_SOURCE_ERROR;
    }
    return produce_test_item(NULL, item, error);
}

static void a_failure_comes_at_its_place_once(void **state) {
    (void)state;
    static baseline expected;
    for (uint32_t workers = 1; workers <= 4; workers++)
        for (uint64_t fails_at = 0; fails_at < 20; fails_at++) {
            weir_prefetch_options options = options_of(20, workers);
            options.source.produce = produce_until;
            options.source.context = &fails_at;
            options.buffer_size = 4;
            options.shares_items = fails_at % 2;
            baseline_make(&options, &expected);
            weir_prefetch *prefetch = open_prefetch(&options);
            assert_gives(prefetch, &expected, 0, (size_t)fails_at);
            kept_state before, after;
            weir_error error;
            weir_item item;
            keep_state(prefetch, &before);
            assert_fails(weir_prefetch_next(prefetch, &item, &error), WEIR_SOURCE_ERROR, &error);
            assert_int_equal(error.t, fails_at);
            assert_int_equal(error.rank, 9);
            assert_string_equal(error.failure_operator, "test.source");
            char message[64];
            snprintf(message, sizeof message, "item %u is broken", (unsigned)fails_at);
            assert_string_equal(error.message, message);
            keep_state(prefetch, &after); /* the item was not taken: a resumed one tries it again */
            assert_memory_equal(before.bytes, after.bytes, before.size);
            assert_cancelled(prefetch);
            weir_prefetch_close(prefetch);
        }
}

static weir_status fail_without_a_record(void *context, const weir_item *item, weir_error *error) {
    (void)context;
    (void)item;
    (void)error;
    return WEIR_DEVICE_ERROR;
}

static void a_failure_without_a_record_gets_one(void **state) {
    (void)state;
    weir_prefetch_options options = options_of(20, 2);
    options.source.produce = fail_without_a_record;
    for (int with_record = 0; with_record < 2; with_record++) {
        weir_prefetch *prefetch = open_prefetch(&options);
        weir_error error;
        weir_item item;
        weir_status status = weir_prefetch_next(prefetch, &item, with_record ? &error : NULL);
        assert_int_equal(status, WEIR_DEVICE_ERROR);
        if (with_record) {
            assert_int_equal(error.status, WEIR_DEVICE_ERROR);
            assert_non_null(strstr(error.message, "position 0 of epoch 0"));
        }
        weir_prefetch_close(prefetch);
    }
}

/* ---- Best effort and slow producers ---------------------------------------------------------- */

/* Some items make the thread give way a few times. */
static weir_status produce_unevenly(void *context, const weir_item *item, weir_error *error) {
    random_stream random = {item->position};
    for (uint64_t turns = random_below(&random, 20); turns > 16; turns--)
        sched_yield();
    return produce_test_item(context, item, error);
}

static void best_effort_gives_all_and_keeps_the_lead(void **state) {
    (void)state;
    static follower f;
    for (uint32_t workers = 1; workers <= 4; workers++)
        for (uint32_t max_lead = 1; max_lead <= 16; max_lead *= 4) {
            weir_prefetch_options options = options_of(500, workers);
            options.source.produce = produce_unevenly;
            options.policy = WEIR_POLICY_BEST_EFFORT;
            options.max_lead = max_lead;
            options.buffer_size = 1 + workers;
            follow_from_the_start(&f, &options);
            weir_prefetch *prefetch = open_prefetch(&options);
            weir_error error;
            weir_item item;
            for (;;) {
                assert_ok(weir_prefetch_next(prefetch, &item, &error), &error);
                if (!item.slot)
                    break;
                follow(&f, &item);
                weir_prefetch_release(prefetch, &item);
            }
            assert_all_followed(&f);
            weir_prefetch_close(prefetch);
        }
}

static void uneven_producers_change_nothing_under_strict_order(void **state) {
    (void)state;
    static baseline expected;
    for (uint32_t trial = 0; trial < 14; trial++) {
        uint32_t buffer_size = 1u << trial / 2;
        weir_prefetch_options options = options_of(2000, 3);
        options.shares_items = trial % 2;
        options.source.produce = produce_unevenly;
        options.buffer_size = buffer_size;
        options.queue_size = 1 + buffer_size % 3;
        baseline_make(&options, &expected);
        weir_prefetch *prefetch = open_prefetch(&options);
        assert_gives(prefetch, &expected, 0, expected.count);
        assert_ended(prefetch);
        weir_prefetch_close(prefetch);
    }
}

static void metrics_count_what_happens(void **state) {
    (void)state;
    static baseline expected;
    weir_prefetch_options options = options_of(10, 2);
    weir_prefetch_metrics metrics;
    weir_worker_metrics workers[2];
    options.buffer_size = 3;
    baseline_make(&options, &expected);
    weir_prefetch *prefetch = open_prefetch(&options);
    assert_gives(prefetch, &expected, 0, 7);
    weir_prefetch_measure(prefetch, &metrics, workers);
    assert_int_equal(metrics.workers, 2);
    assert_int_equal(metrics.consumed, 7);
    assert_int_equal(metrics.held, 0);
    assert_int_equal(workers[0].consumed, 4);
    assert_int_equal(workers[1].consumed, 3);
    assert_int_equal(metrics.stalls, workers[0].stalls + workers[1].stalls);
    assert_int_equal(metrics.produced, workers[0].produced + workers[1].produced);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(workers[i].produced - workers[i].consumed, workers[i].occupied);
        assert_in_range(workers[i].occupied, 0, 3);
    }
    assert_gives(prefetch, &expected, 7, 3);
    weir_prefetch_measure(prefetch, &metrics, workers);
    assert_int_equal(metrics.produced, 10);
    assert_int_equal(metrics.consumed, 10);
    assert_int_equal(workers[0].occupied + workers[1].occupied, 0);
    weir_prefetch_close(prefetch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strict_order_is_round_robin),
        cmocka_unit_test(a_resumed_one_goes_on_behind_the_last_item),
        cmocka_unit_test(as_many_items_can_be_held_as_the_queue_has_places),
        cmocka_unit_test(the_slots_can_be_the_callers),
        cmocka_unit_test(other_threads_can_release),
        cmocka_unit_test(a_failure_comes_at_its_place_once),
        cmocka_unit_test(a_failure_without_a_record_gets_one),
        cmocka_unit_test(best_effort_gives_all_and_keeps_the_lead),
        cmocka_unit_test(uneven_producers_change_nothing_under_strict_order),
        cmocka_unit_test(metrics_count_what_happens),
    };
    return cmocka_run_group_tests_name("prefetch", tests, NULL, NULL);
}
