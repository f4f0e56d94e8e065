/* The prefetcher with real threads: its order, the ends of it, held items, failures, cancels, forks. */
#include <string.h>

#include "support/round_robin.h"
#include "support/testing.h"

static weir_prefetch_options options_of(uint64_t length, uint32_t workers) {
    return (weir_prefetch_options){.size = sizeof(weir_prefetch_options),
                                   .source = {.length = length, .produce = produce_test_item},
                                   .key = 42,
                                   .epochs = 1,
                                   .workers = workers,
                                   .slot_size = sizeof(test_item)};
}

static weir_prefetch *open_prefetch(const weir_prefetch_options *options) {
    weir_prefetch *prefetch = NULL;
    weir_error error;
    assert_ok(weir_prefetch_open(NULL, options, &prefetch, &error), &error);
    return prefetch;
}

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
        options.state = &kept.value;
        prefetch = open_prefetch(&options);
        assert_gives(prefetch, &expected, split, expected.count - split);
        assert_ended(prefetch);
        weir_prefetch_close(prefetch);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strict_order_is_round_robin),
        cmocka_unit_test(a_resumed_one_goes_on_behind_the_last_item),
    };
    return cmocka_run_group_tests_name("prefetch", tests, NULL, NULL);
}
