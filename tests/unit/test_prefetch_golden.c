/* The golden orders and states of strict order, which the reference in Python made: the C library gives the
 * same items, saves the same bytes, resumes from them, and takes other numbers of workers where it may. */
#include <stdlib.h>
#include <string.h>

#include "support/fibers.h"
#include "support/round_robin.h"

static fiber_env fibers;

static weir_prefetch_options options_of_case(json_t *c) {
    json_t *config = member(c, "config");
    weir_error error;
    weir_prefetch_options options =
        options_of(member_uint(config, "length"), (uint32_t)member_uint(config, "workers"));
    options.key = member_uint(config, "key");
    options.epochs = member_uint(config, "epochs");
    options.start_position = member_uint(config, "start_position");
    options.start_epoch = member_uint(config, "start_epoch");
    options.drop_remainder = json_is_true(member(config, "drop_remainder"));
    assert_ok(weir_shard_mode_parse(member_text(config, "shard_mode"), &options.shard_mode, &error), &error);
    assert_ok(weir_policy_parse(member_text(config, "policy"), &options.policy, &error), &error);
    return options;
}

static void read_items(json_t *c, baseline *out) {
    json_t *items = member(c, "items"), *item;
    size_t i;
    json_array_foreach(items, i, item) {
        out->items[i] = (baseline_item){uint_of(json_array_get(item, 0)), uint_of(json_array_get(item, 1)),
                                        (uint32_t)uint_of(json_array_get(item, 2))};
    }
    out->count = json_array_size(items);
}

static weir_prefetch *open_with_fibers(const weir_prefetch_options *options) {
    weir_prefetch *prefetch = NULL;
    weir_error error;
    assert_ok(weir_prefetch_open(&fibers.env, options, &prefetch, &error), &error);
    return prefetch;
}

/* Behind `consumed` items the state is these bytes, and they lead back there. */
static void check_state(const weir_prefetch_options *options, const baseline *expected, size_t consumed,
                        const char *hex) {
    weir_prefetch_options resumed = *options;
    kept_state kept;
    weir_prefetch *prefetch = open_with_fibers(options);
    assert_gives(prefetch, expected, 0, consumed);
    keep_state(prefetch, &kept);
    assert_hex_equal(kept.bytes, kept.size, hex);
    weir_prefetch_close(prefetch);
    resumed.state = kept.bytes;
    resumed.state_size = kept.size;
    prefetch = open_with_fibers(&resumed);
    assert_gives(prefetch, expected, consumed, expected->count - consumed);
    if (options->epochs > 0)
        assert_ended(prefetch);
    weir_prefetch_close(prefetch);
}

static void check_change(const weir_prefetch_options *options, const char *hex, uint32_t workers,
                         bool is_allowed) {
    weir_prefetch_options changed = *options;
    weir_prefetch *prefetch = NULL;
    weir_error error;
    size_t size;
    changed.state = bytes_of_hex(hex, &size);
    changed.state_size = size;
    changed.workers = workers;
    assert_fails(weir_prefetch_open(&fibers.env, &changed, &prefetch, &error),
                 is_allowed ? WEIR_OK : WEIR_CHECKPOINT_MISMATCH, &error);
    weir_prefetch_close(prefetch);
}

static void golden_orders_and_states(void **state) {
    (void)state;
    static baseline expected;
    json_t *vectors = load_vectors("prefetch.json"), *c, *value;
    const char *key;
    size_t i;
    fiber_env_init(&fibers, 5);
    json_array_foreach(member(vectors, "cases"), i, c) {
        weir_prefetch_options options = options_of_case(c);
        read_items(c, &expected);
        json_object_foreach(member(c, "states"), key, value) {
            const char *hex = json_string_value(value);
            check_state(&options, &expected, (size_t)strtoull(key, NULL, 10), hex);
            const char *workers;
            json_t *is_allowed;
            json_object_foreach(member(c, "changes"), workers, is_allowed)
                check_change(&options, hex, (uint32_t)strtoul(workers, NULL, 10), json_is_true(is_allowed));
        }
    }
    assert_int_equal(i, 10);
    fiber_env_close(&fibers);
    json_decref(vectors);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden_orders_and_states)};
    return cmocka_run_group_tests_name("prefetch, golden", tests, NULL, NULL);
}
