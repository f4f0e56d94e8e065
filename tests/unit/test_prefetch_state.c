/* States and options that are not what they should be: every one is refused with a reason, or resumes
 * exactly; and numbers at the ends of 64 bits. With fibers for threads. */
#include <string.h>

#include "support/cbor_copy.h"
#include "support/fibers.h"
#include "support/round_robin.h"

static fiber_env fibers;

static weir_prefetch *open_with_fibers(const weir_prefetch_options *options) {
    weir_prefetch *prefetch = NULL;
    weir_error error;
    assert_ok(weir_prefetch_open(&fibers.env, options, &prefetch, &error), &error);
    return prefetch;
}

static void assert_open_fails(const weir_prefetch_options *options, weir_status expected, const char *text) {
    weir_prefetch *prefetch = NULL;
    weir_error error;
    assert_fails(weir_prefetch_open(&fibers.env, options, &prefetch, &error), expected, &error);
    assert_null(prefetch);
    if (!strstr(error.message, text))
        fail_msg("'%s' is not in: %s", text, error.message);
}

/* The state of a run of 20 items, two passes, 3 workers, behind 17 items. */
static weir_prefetch_options saved_options(weir_policy policy) {
    weir_prefetch_options options = options_of(20, 3);
    options.epochs = 2;
    options.start_position = 1;
    options.start_epoch = 4;
    options.policy = policy;
    return options;
}

static void save_state(const weir_prefetch_options *options, kept_state *kept) {
    weir_prefetch *prefetch = open_with_fibers(options);
    weir_error error;
    weir_item item;
    for (int i = 0; i < 17; i++) {
        assert_ok(weir_prefetch_next(prefetch, &item, &error), &error);
        weir_prefetch_release(prefetch, &item);
    }
    keep_state(prefetch, kept);
    weir_prefetch_close(prefetch);
}

/* ---- Another configuration ------------------------------------------------------------------- */

static void items_are_shared_in_the_sequential_order_alone(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        weir_prefetch_options options = options_of(12, 3);
        options.shares_items = true;
        options.policy = i == 0 ? WEIR_POLICY_BEST_EFFORT : WEIR_POLICY_STRICT;
        options.shard_mode = i == 1 ? WEIR_SHARD_CONTIGUOUS : WEIR_SHARD_INTERLEAVED;
        options.drop_remainder = i == 2;
        options.epochs = i == 3 ? 2 : 1;
        assert_open_fails(&options, WEIR_CONTRACT_VIOLATION, "leave shares_items out");
    }
}

static void a_state_of_another_configuration_is_refused_by_name(void **state) {
    (void)state;
    kept_state kept;
    weir_prefetch_options options = saved_options(WEIR_POLICY_STRICT), other;
    save_state(&options, &kept);
    options.state = kept.bytes;
    options.state_size = kept.size;
    other = options;
    other.policy = WEIR_POLICY_BEST_EFFORT;
    assert_open_fails(&other, WEIR_CHECKPOINT_MISMATCH,
                      "policy \"strict\", and this prefetcher has \"best_effort\"");
    other = options;
    other.shard_mode = WEIR_SHARD_CONTIGUOUS;
    assert_open_fails(&other, WEIR_CHECKPOINT_MISMATCH,
                      "shard_mode \"interleaved\", and this prefetcher has \"contiguous\"");
    other = options;
    other.drop_remainder = true;
    assert_open_fails(&other, WEIR_CHECKPOINT_MISMATCH, "drop_remainder false, and this prefetcher has true");
    other = options;
    other.source.length = 21;
    assert_open_fails(&other, WEIR_CHECKPOINT_MISMATCH, "length 20, and this prefetcher has 21");
    other = options;
    other.key = 43;
    assert_open_fails(&other, WEIR_CHECKPOINT_MISMATCH, "key 42, and this prefetcher has 43");
    other = options;
    other.epochs = 3;
    assert_open_fails(&other, WEIR_CHECKPOINT_MISMATCH, "epochs 2, and this prefetcher has 3");
    other = options;
    other.start_position = 0;
    assert_open_fails(&other, WEIR_CHECKPOINT_MISMATCH, "start_position 1, and this prefetcher has 0");
    other = options;
    other.start_epoch = 5;
    assert_open_fails(&other, WEIR_CHECKPOINT_MISMATCH, "start_epoch 4, and this prefetcher has 5");
    other = options;
    other.workers = 4;
    assert_open_fails(&other, WEIR_CHECKPOINT_MISMATCH, "workers 3, and this prefetcher has 4");
}

static void knobs_that_change_no_order_can_change(void **state) {
    (void)state;
    static baseline expected;
    kept_state kept;
    weir_prefetch_options options = saved_options(WEIR_POLICY_STRICT);
    baseline_make(&options, &expected);
    save_state(&options, &kept);
    options.state = kept.bytes;
    options.state_size = kept.size;
    options.max_lead = 3;
    options.max_skips_per_round = 9;
    options.buffer_size = 7;
    options.queue_size = 4;
    weir_prefetch *prefetch = open_with_fibers(&options);
    assert_gives(prefetch, &expected, 17, expected.count - 17);
    assert_ended(prefetch);
    weir_prefetch_close(prefetch);
}

/* ---- Hostile states -------------------------------------------------------------------------- */

/* Copies a value, with its n-th integer replaced. */
typedef struct replacement {
    uint64_t index;
    uint64_t value;
    uint64_t seen;
    uint64_t old;
} replacement;

static void copy_replacing(weir_cbor_writer *w, const weir_cbor_value *value, replacement *r) {
    weir_cbor_iterator it = weir_cbor_children(value);
    weir_cbor_value key, child;
    if (value->type == WEIR_CBOR_UINT) {
        bool is_it = r->seen++ == r->index;
        if (is_it)
            r->old = value->number;
        weir_cbor_uint(w, is_it ? r->value : value->number);
    } else if (value->type == WEIR_CBOR_ARRAY || value->type == WEIR_CBOR_MAP) {
        (value->type == WEIR_CBOR_MAP ? weir_cbor_map : weir_cbor_array)(w, value->number);
        while (weir_cbor_next(&it, &key, &child)) {
            if (value->type == WEIR_CBOR_MAP)
                copy_view(w, &key);
            copy_replacing(w, &child, r);
        }
    } else {
        copy_view(w, value);
    }
}

/* Opens with a state that may be anything; true where it is taken, and then it must end as it should. */
static bool try_state(const weir_prefetch_options *options, const weir_cbor_value *value) {
    weir_prefetch_options tried = *options;
    weir_prefetch *prefetch = NULL;
    weir_error error;
    weir_item item;
    tried.state = value->item;
    tried.state_size = (size_t)(weir_cbor_skip(value->item) - value->item);
    weir_status status = weir_prefetch_open(&fibers.env, &tried, &prefetch, &error);
    if (status != WEIR_OK) {
        assert_true(status == WEIR_CHECKPOINT_MISMATCH || status == WEIR_CBOR_INVALID);
        assert_null(prefetch);
        return false;
    }
    for (int i = 0; i < 40; i++) {
        assert_ok(weir_prefetch_next(prefetch, &item, &error), &error);
        if (!item.slot)
            break;
        assert_true(item.position < options->source.length);
        weir_prefetch_release(prefetch, &item);
    }
    assert_null(item.slot);
    weir_prefetch_close(prefetch);
    return true;
}

/* One number of a state is another: strict order notices each, best effort all but next_worker. */
static void a_number_that_cannot_be_is_noticed(void **state) {
    (void)state;
    static const uint64_t extremes[] = {
        0, 1, 2, 3, 5, 6, 7, 8, 255, UINT32_MAX, UINT64_C(1) << 32, INT64_MAX, UINT64_C(1) << 63, UINT64_MAX};
    for (int policy = 0; policy < 2; policy++) {
        kept_state kept;
        uint64_t accepted = 0, tried = 0;
        weir_prefetch_options options = saved_options((weir_policy)policy);
        save_state(&options, &kept);
        assert_true(try_state(&options, &kept.value));
        for (uint64_t index = 0; index < 16; index++)
            for (size_t i = 0; i < sizeof extremes / sizeof *extremes; i++) {
                uint8_t bytes[4096];
                weir_error error;
                weir_cbor_writer w;
                replacement r = {.index = index, .value = extremes[i]};
                weir_cbor_writer_fixed(&w, bytes, sizeof bytes);
                copy_replacing(&w, &kept.value, &r);
                assert_ok(weir_cbor_finish(&w, &error), &error);
                assert_int_equal(r.seen, 16);
                weir_cbor_value value = weir_cbor_view(bytes);
                if (r.old == r.value)
                    continue;
                tried++;
                accepted += try_state(&options, &value);
            }
        assert_true(tried > 150);
        assert_int_equal(accepted, policy == WEIR_POLICY_STRICT ? 0 : 2);
    }
}

static void damaged_bytes_are_refused_or_harmless(void **state) {
    (void)state;
    random_stream random = {77};
    for (int policy = 0; policy < 2; policy++) {
        kept_state kept, damaged;
        uint64_t well_formed = 0;
        weir_prefetch_options options = saved_options((weir_policy)policy);
        save_state(&options, &kept);
        for (int round = 0; round < 20000; round++) {
            damaged = kept;
            for (uint64_t changes = 1 + random_below(&random, 2); changes > 0; changes--)
                damaged.bytes[random_below(&random, kept.size)] = (uint8_t)random_next(&random);
            if (weir_cbor_check(damaged.bytes, damaged.size, NULL, NULL) != WEIR_OK)
                continue;
            damaged.value = weir_cbor_view(damaged.bytes);
            well_formed++;
            (void)try_state(&options, &damaged.value);
        }
        assert_true(well_formed > 500);
    }
}

static void what_is_no_state_is_refused(void **state) {
    (void)state;
    static const uint8_t empty_map[] = {0xa0}, number[] = {0x07}, array[] = {0x80}, null[] = {0xf6};
    static const uint8_t *const values[] = {empty_map, number, array, null};
    for (int i = 0; i < 4; i++) {
        weir_prefetch_options options = options_of(20, 2);
        options.state = values[i];
        options.state_size = 1;
        assert_open_fails(&options, WEIR_CBOR_INVALID, "not a state of a prefetcher");
    }
}

typedef struct place {
    uint64_t epoch;
    uint64_t place;
    uint64_t produced;
} place;

static void write_pair(weir_cbor_writer *w, const char *key, uint64_t value) {
    weir_cbor_text(w, key);
    weir_cbor_uint(w, value);
}

/* A state with these places, one a worker, whatever they are. */
static void write_state(const weir_prefetch_options *options, uint32_t workers, uint64_t next_worker,
                        const place *places, kept_state *kept) {
    weir_cbor_writer w;
    weir_error error;
    weir_cbor_writer_fixed(&w, kept->bytes, sizeof kept->bytes);
    weir_cbor_map(&w, 11);
    write_pair(&w, "key", options->key);
    write_pair(&w, "epochs", options->epochs);
    write_pair(&w, "length", options->source.length);
    weir_cbor_text(&w, "policy");
    weir_cbor_text(&w, weir_policy_name(options->policy));
    write_pair(&w, "workers", workers);
    weir_cbor_text(&w, "shard_mode");
    weir_cbor_text(&w, weir_shard_mode_name(options->shard_mode));
    write_pair(&w, "next_worker", next_worker);
    write_pair(&w, "start_epoch", options->start_epoch);
    weir_cbor_text(&w, "worker_states");
    weir_cbor_array(&w, workers);
    for (uint32_t i = 0; i < workers; i++) {
        weir_cbor_map(&w, 3);
        write_pair(&w, "epoch", places[i].epoch);
        write_pair(&w, "place", places[i].place);
        write_pair(&w, "produced", places[i].produced);
    }
    weir_cbor_text(&w, "drop_remainder");
    weir_cbor_bool(&w, options->drop_remainder);
    write_pair(&w, "start_position", options->start_position);
    assert_ok(weir_cbor_finish(&w, &error), &error);
    kept->size = w.size;
    kept->value = weir_cbor_view(kept->bytes);
}

/* What lies behind a worker's last item cannot have been consumed, however well it is written down. */
static void counts_beyond_the_end_are_refused(void **state) {
    (void)state;
    static const place places[] = {
        {0, 10, 10}, {1, 1, 11}, {0, 11, 11}, {1, 10, 20}, {UINT64_MAX, 1, UINT64_MAX}};
    for (int policy = 0; policy < 2; policy++) {
        weir_prefetch_options options = options_of(10, 1);
        kept_state kept;
        options.policy = (weir_policy)policy;
        options.state = kept.bytes;
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            write_state(&options, 1, 0, &places[i], &kept);
            options.state_size = kept.size;
            if (i > 0)
                assert_open_fails(&options, WEIR_CBOR_INVALID, "worker_states");
            else
                assert_true(try_state(&options, &kept.value));
        }
        options.source.length = 0; /* not even one */
        write_state(&options, 1, 0, &places[1], &kept);
        options.state_size = kept.size;
        assert_open_fails(&options, WEIR_CBOR_INVALID, "worker_states");
    }
}

/* The worker before the next one gave last, so it gave something. */
static void who_gave_last_gave_something(void **state) {
    static const place places[] = {{0, 0, 0}, {0, 5, 5}};
    weir_prefetch_options options = options_of(10, 2);
    kept_state kept;
    (void)state;
    write_state(&options, 2, 1, places, &kept);
    options.state = kept.bytes;
    options.state_size = kept.size;
    assert_open_fails(&options, WEIR_CBOR_INVALID, "worker_states are not those of one place");
}

/* ---- Large numbers --------------------------------------------------------------------------- */

/* A state of strict order behind `consumed` items of an endless source. */
static void write_endless_state(uint32_t workers, uint64_t consumed, kept_state *kept) {
    weir_prefetch_options options = options_of(WEIR_ENDLESS, workers);
    place places[BASELINE_WORKERS];
    for (uint32_t i = 0; i < workers; i++) {
        uint64_t count = consumed / workers + (i < consumed % workers);
        places[i] = (place){0, count, count};
    }
    write_state(&options, workers, consumed % workers, places, kept);
}

static void an_endless_source_resumes_anywhere(void **state) {
    (void)state;
    static const uint64_t places[] = {0, 1, 1000, UINT64_C(1) << 40, INT64_MAX - 7, UINT64_MAX - 100};
    for (size_t p = 0; p < sizeof places / sizeof *places; p++)
        for (uint32_t from = 1; from <= 8; from++) {
            uint32_t to = 1 + (from * 5 + (uint32_t)p) % 8;
            kept_state kept, expected;
            weir_prefetch_options options = options_of(WEIR_ENDLESS, to);
            weir_error error;
            weir_item item;
            write_endless_state(from, places[p], &kept);
            options.state = kept.bytes;
            options.state_size = kept.size;
            weir_prefetch *prefetch = open_with_fibers(&options);
            for (uint64_t i = 0; i < 30; i++) {
                assert_ok(weir_prefetch_next(prefetch, &item, &error), &error);
                assert_int_equal(item.position, places[p] + i);
                weir_prefetch_release(prefetch, &item);
            }
            keep_state(prefetch, &kept);
            write_endless_state(to, places[p] + 30, &expected);
            assert_int_equal(kept.size, expected.size);
            assert_memory_equal(kept.bytes, expected.bytes, kept.size);
            weir_prefetch_close(prefetch);
        }
}

static void endless_epochs_go_on(void **state) {
    (void)state;
    static baseline expected;
    weir_prefetch_options options = options_of(7, 3);
    options.epochs = 100;
    options.start_position = 5;
    options.start_epoch = UINT64_MAX - 1000;
    baseline_make(&options, &expected);
    options.epochs = 0;
    weir_prefetch *prefetch = open_with_fibers(&options);
    assert_gives(prefetch, &expected, 0, 500); /* of a hundred epochs, no worker has ended by then */
    weir_prefetch_close(prefetch);
    options.source.length = 0; /* endless epochs of nothing end */
    options.start_position = 0;
    prefetch = open_with_fibers(&options);
    assert_ended(prefetch);
    weir_prefetch_close(prefetch);
    options.source.length = 2; /* and so do those of which no worker gets a share */
    options.drop_remainder = true;
    prefetch = open_with_fibers(&options);
    assert_ended(prefetch);
    weir_prefetch_close(prefetch);
}

/* The last epoch that can be counted is the last. */
static void epochs_end_where_they_cannot_be_counted(void **state) {
    (void)state;
    static baseline expected;
    weir_prefetch_options options = options_of(4, 2);
    options.epochs = 2;
    options.start_epoch = UINT64_MAX - 1;
    baseline_make(&options, &expected);
    for (options.epochs = 0; options.epochs <= 2; options.epochs += 2) {
        weir_prefetch *prefetch = open_with_fibers(&options);
        assert_gives(prefetch, &expected, 0, 8);
        assert_ended(prefetch);
        weir_prefetch_close(prefetch);
    }
    options.epochs = 3;
    assert_open_fails(&options, WEIR_CONTRACT_VIOLATION, "start_epoch");
}

/* ---- Options --------------------------------------------------------------------------------- */

static void options_out_of_range_are_refused(void **state) {
    (void)state;
    const weir_prefetch_options good = options_of(20, 2);
    weir_prefetch_options bad = good;
    bad.size = 8;
    assert_open_fails(&bad, WEIR_CONTRACT_VIOLATION, "sizeof(weir_prefetch_options)");
    bad = good;
    bad.source.produce = NULL;
    assert_open_fails(&bad, WEIR_CONTRACT_VIOLATION, "produce");
    bad = good;
    bad.start_position = 21;
    assert_open_fails(&bad, WEIR_CONTRACT_VIOLATION, "start_position is 21");
    bad = good;
    bad.policy = (weir_policy)2;
    assert_open_fails(&bad, WEIR_CONTRACT_VIOLATION, "policy is 2");
    bad = good;
    bad.shard_mode = (weir_shard_mode)2;
    assert_open_fails(&bad, WEIR_CONTRACT_VIOLATION, "shard_mode is 2");
    bad = good;
    bad.workers = 5000;
    assert_open_fails(&bad, WEIR_CONTRACT_VIOLATION, "workers is 5000");
    bad = good;
    bad.buffer_size = UINT32_MAX;
    assert_open_fails(&bad, WEIR_CONTRACT_VIOLATION, "slot_count is 8589934591");
    bad = good;
    bad.slot_size = 0;
    assert_open_fails(&bad, WEIR_CONTRACT_VIOLATION, "slot_size is 0");
    bad = good;
    bad.slot_size = SIZE_MAX / 2;
    assert_open_fails(&bad, WEIR_OUT_OF_MEMORY, "memory");
    bad = good;
    bad.source.length = WEIR_ENDLESS;
    bad.shard_mode = WEIR_SHARD_CONTIGUOUS;
    assert_open_fails(&bad, WEIR_CONTRACT_VIOLATION, "interleaved");
    void *slots[5] = {fibers.fibers, fibers.fibers, fibers.fibers, NULL, fibers.fibers};
    bad = good;
    bad.slots = slots;
    assert_open_fails(&bad, WEIR_CONTRACT_VIOLATION, "slot is 3");
}

static void names_are_read_and_written(void **state) {
    (void)state;
    weir_policy policy = WEIR_POLICY_STRICT;
    weir_shard_mode mode = WEIR_SHARD_INTERLEAVED;
    weir_error error;
    assert_ok(weir_policy_parse("best_effort", &policy, &error), &error);
    assert_int_equal(policy, WEIR_POLICY_BEST_EFFORT);
    assert_ok(weir_policy_parse("strict", &policy, &error), &error);
    assert_string_equal(weir_policy_name(policy), "strict");
    assert_fails(weir_policy_parse("Strict", &policy, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_ok(weir_shard_mode_parse("contiguous", &mode, &error), &error);
    assert_string_equal(weir_shard_mode_name(mode), "contiguous");
    assert_ok(weir_shard_mode_parse("interleaved", &mode, &error), &error);
    assert_fails(weir_shard_mode_parse("", &mode, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_string_equal(weir_policy_name((weir_policy)9), "unknown");
    assert_string_equal(weir_shard_mode_name((weir_shard_mode)9), "unknown");
    weir_prefetch_options options = options_of(20, 0);
    assert_int_equal(weir_prefetch_slot_count(&options), 3); /* one worker, two slots, one held */
}

static int begin(void **state) {
    (void)state;
    fiber_env_init(&fibers, 2);
    return 0;
}

static int end(void **state) {
    (void)state;
    fiber_env_close(&fibers);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_are_shared_in_the_sequential_order_alone),
        cmocka_unit_test(a_state_of_another_configuration_is_refused_by_name),
        cmocka_unit_test(knobs_that_change_no_order_can_change),
        cmocka_unit_test(a_number_that_cannot_be_is_noticed),
        cmocka_unit_test(damaged_bytes_are_refused_or_harmless),
        cmocka_unit_test(what_is_no_state_is_refused),
        cmocka_unit_test(counts_beyond_the_end_are_refused),
        cmocka_unit_test(who_gave_last_gave_something),
        cmocka_unit_test(an_endless_source_resumes_anywhere),
        cmocka_unit_test(endless_epochs_go_on),
        cmocka_unit_test(epochs_end_where_they_cannot_be_counted),
        cmocka_unit_test(options_out_of_range_are_refused),
        cmocka_unit_test(names_are_read_and_written),
    };
    return cmocka_run_group_tests_name("prefetch, states and options", tests, begin, end);
}
