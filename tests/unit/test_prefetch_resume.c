/* Every split of every small run, with fibers for threads: what was taken before and what a resumed
 * prefetcher gives make the whole, whatever the schedule. And a cancel at every turn. */
#include <string.h>

#include "support/fibers.h"
#include "support/round_robin.h"

enum { LENGTH_MAX = 12, WORKERS_MAX = 8, EPOCHS_MAX = 3, ITEMS_MAX = LENGTH_MAX * EPOCHS_MAX };

static fiber_env fibers;

/* Some items take a turn or two. */
static weir_status produce_and_yield(void *context, const weir_item *item, weir_error *error) {
    (void)context;
    for (uint64_t turns = random_below(&fibers.random, 3); turns > 0; turns--)
        fiber_yield(&fibers);
    return produce_test_item(NULL, item, error);
}

static weir_prefetch *open_with_fibers(const weir_prefetch_options *options) {
    weir_prefetch *prefetch = NULL;
    weir_error error;
    assert_ok(weir_prefetch_open(&fibers.env, options, &prefetch, &error), &error);
    return prefetch;
}

static weir_prefetch_options configuration(uint64_t length, uint32_t workers, uint64_t epochs, uint64_t start,
                                           unsigned mode) {
    return (weir_prefetch_options){
        .size = sizeof(weir_prefetch_options),
        .source = {.length = length, .produce = produce_and_yield},
        .key = length,
        .epochs = epochs,
        .workers = workers,
        .start_position = start,
        .start_epoch = start % 3,
        .shard_mode = mode & 1 ? WEIR_SHARD_CONTIGUOUS : WEIR_SHARD_INTERLEAVED,
        .drop_remainder = mode & 2,
        .buffer_size = 1 + (uint32_t)random_below(&fibers.random, 9),
        .queue_size = 1 + (uint32_t)random_below(&fibers.random, 2),
        .slot_size = sizeof(test_item),
        .shares_items = epochs == 1 && mode == 0 && random_below(&fibers.random, 4) > 0,
    };
}

/* Calls `check` for every small configuration; the policy is strict. */
static void for_every_configuration(void (*check)(weir_prefetch_options *options)) {
    unsigned number = 0, stride = test_stride();
    for (uint64_t length = 0; length <= LENGTH_MAX; length++)
        for (uint32_t workers = 1; workers <= WORKERS_MAX; workers++)
            for (uint64_t epochs = 1; epochs <= EPOCHS_MAX; epochs++)
                for (uint64_t start = 0; start <= length; start += start < 2 ? 1 : 5)
                    for (unsigned mode = 0; mode < 4; mode++) {
                        weir_prefetch_options options = configuration(length, workers, epochs, start, mode);
                        if (number++ % stride == 0)
                            check(&options);
                    }
}

static baseline whole;
static kept_state states[ITEMS_MAX + 1];

/* Takes everything and keeps the state before each item and at the end. */
static void keep_all_states(const weir_prefetch_options *options) {
    baseline_make(options, &whole);
    assert_true(whole.count <= ITEMS_MAX);
    weir_prefetch *prefetch = open_with_fibers(options);
    for (size_t i = 0; i < whole.count; i++) {
        keep_state(prefetch, &states[i]);
        assert_gives(prefetch, &whole, i, 1);
    }
    keep_state(prefetch, &states[whole.count]);
    assert_ended(prefetch);
    weir_prefetch_close(prefetch);
}

/* ---- Strict order ---------------------------------------------------------------------------- */

static void check_every_split(weir_prefetch_options *options) {
    keep_all_states(options);
    for (size_t split = 0; split <= whole.count; split++) {
        kept_state again;
        options->state = states[split].bytes;
        options->state_size = states[split].size;
        options->buffer_size = 1 + (uint32_t)(split % 5);
        weir_prefetch *prefetch = open_with_fibers(options);
        keep_state(prefetch, &again);
        assert_int_equal(again.size, states[split].size);
        assert_memory_equal(again.bytes, states[split].bytes, again.size);
        assert_gives(prefetch, &whole, split, whole.count - split);
        assert_ended(prefetch);
        weir_prefetch_close(prefetch);
    }
}

static void strict_order_resumes_at_every_split(void **state) {
    (void)state;
    for_every_configuration(check_every_split);
}

/* ---- Another number of workers --------------------------------------------------------------- */

/* The rule of the contract, for a pass that begins at `start`. */
static bool order_is_sequential(const weir_prefetch_options *options, uint32_t workers) {
    uint64_t length = options->source.length, first = length - options->start_position;
    if (options->shard_mode != WEIR_SHARD_INTERLEAVED)
        return false;
    if (options->epochs == 1 && !options->drop_remainder)
        return true;
    return first % workers == 0 && (options->epochs == 1 || length % workers == 0);
}

static uint64_t changes_allowed, changes_refused;

static void check_a_change(const weir_prefetch_options *options, uint32_t workers) {
    static baseline other;
    weir_prefetch_options changed = *options;
    bool is_exact = workers == options->workers ||
                    (order_is_sequential(options, options->workers) && order_is_sequential(options, workers));
    changed.workers = workers;
    baseline_make(&changed, &other);
    for (size_t split = 0; split <= whole.count; split++) {
        weir_prefetch *prefetch = NULL;
        weir_error error;
        changed.state = states[split].bytes;
        changed.state_size = states[split].size;
        if (!is_exact) {
            assert_fails(weir_prefetch_open(&fibers.env, &changed, &prefetch, &error),
                         WEIR_CHECKPOINT_MISMATCH, &error);
            assert_non_null(strstr(error.message, "workers"));
            assert_null(prefetch);
            changes_refused++;
            continue;
        }
        assert_int_equal(other.count, whole.count);
        for (size_t i = 0; i < whole.count; i++) {
            assert_int_equal(other.items[i].epoch, whole.items[i].epoch);
            assert_int_equal(other.items[i].position, whole.items[i].position);
        }
        prefetch = open_with_fibers(&changed);
        assert_gives(prefetch, &other, split, whole.count - split);
        assert_ended(prefetch);
        weir_prefetch_close(prefetch);
        changes_allowed++;
    }
}

static void check_other_numbers_of_workers(weir_prefetch_options *options) {
    if (random_below(&fibers.random, 4) > 0)
        return;
    keep_all_states(options);
    check_a_change(options, 1 + (uint32_t)random_below(&fibers.random, WORKERS_MAX));
}

static void workers_can_change_where_that_is_exact(void **state) {
    (void)state;
    for_every_configuration(check_other_numbers_of_workers);
    assert_true(changes_allowed > 2000 / test_stride() && changes_refused > 2000 / test_stride());
}

/* ---- Best effort ----------------------------------------------------------------------------- */

/* Takes `count` items while the workers run as chance has it. */
static void take_some(follower *f, weir_prefetch *prefetch, size_t count) {
    weir_error error;
    weir_item item;
    while (count > 0) {
        bool is_ready = true;
        fibers_run(&fibers, random_below(&fibers.random, 6));
        if (random_below(&fibers.random, 2) == 0)
            assert_ok(weir_prefetch_try_next(prefetch, &item, &is_ready, &error), &error);
        else
            assert_ok(weir_prefetch_next(prefetch, &item, &error), &error);
        if (!is_ready)
            continue;
        assert_non_null(item.slot);
        follow(f, &item);
        weir_prefetch_release(prefetch, &item);
        count--;
    }
}

static size_t out_of_order;

/* One run that is saved and resumed a few times at random places, each time with other knobs. */
static void check_a_best_effort_run(weir_prefetch_options *options) {
    static follower f;
    kept_state kept;
    options->policy = WEIR_POLICY_BEST_EFFORT;
    options->shares_items = false;
    options->max_lead = 1 + (uint32_t)random_below(&fibers.random, 4);
    options->max_skips_per_round = 1 + (uint32_t)random_below(&fibers.random, 4);
    follow_from_the_start(&f, options);
    for (;;) {
        weir_prefetch *prefetch = open_with_fibers(options);
        size_t left = f.whole.count - f.count;
        f.max_lead = options->max_lead;
        take_some(&f, prefetch, (size_t)random_below(&fibers.random, left + 1));
        keep_state(prefetch, &kept);
        if (f.count == f.whole.count)
            assert_ended(prefetch);
        weir_prefetch_close(prefetch);
        if (f.count == f.whole.count)
            break;
        options->state = kept.bytes;
        options->state_size = kept.size;
        options->max_lead = 1 + (uint32_t)random_below(&fibers.random, 4);
        options->buffer_size = 1 + (uint32_t)random_below(&fibers.random, 9);
        options->queue_size = 1 + (uint32_t)random_below(&fibers.random, 3);
        for (uint32_t i = 1; i < options->workers; i++)
            out_of_order += f.given[i] > f.given[i - 1];
    }
    assert_all_followed(&f);
}

static void best_effort_loses_and_repeats_nothing(void **state) {
    (void)state;
    for_every_configuration(check_a_best_effort_run);
    assert_true(out_of_order > 1000 / test_stride()); /* it did go out of order */
}

/* ---- Cancels --------------------------------------------------------------------------------- */

/* Every moment, one by one, of a run whose schedule repeats: everybody wakes, whoever sleeps where. */
static void a_cancel_at_any_turn_wakes_everybody(void **state) {
    (void)state;
    for (uint64_t turns = 0; turns < 400; turns++) {
        weir_prefetch_options options = options_of(60, 3);
        weir_error error;
        weir_item item;
        options.buffer_size = 1 + (uint32_t)(turns % 4);
        options.policy = (weir_policy)(turns % 2);
        options.shares_items = turns % 4 == 2;
        weir_prefetch *prefetch = open_with_fibers(&options);
        for (uint64_t i = 0; i < turns / 8; i++) {
            assert_ok(weir_prefetch_next(prefetch, &item, &error), &error);
            weir_prefetch_release(prefetch, &item);
        }
        fibers_run(&fibers, turns % 8);
        weir_prefetch_cancel(prefetch);
        assert_cancelled(prefetch);
        weir_prefetch_close(prefetch);
    }
}

static int begin(void **state) {
    (void)state;
    fiber_env_init(&fibers, 1);
    return 0;
}

static int end(void **state) {
    (void)state;
    fiber_env_close(&fibers);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strict_order_resumes_at_every_split),
        cmocka_unit_test(workers_can_change_where_that_is_exact),
        cmocka_unit_test(best_effort_loses_and_repeats_nothing),
        cmocka_unit_test(a_cancel_at_any_turn_wakes_everybody),
    };
    return cmocka_run_group_tests_name("prefetch, resumed", tests, begin, end);
}
