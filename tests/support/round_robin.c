/* See round_robin.h. */
#include "support/round_robin.h"

#include <string.h>

#include "pipeline/prefetch.h"
#include "support/testing.h"

typedef struct worker_list {
    baseline_item items[BASELINE_MAX];
    size_t count;
} worker_list;

static void add(worker_list *lists, uint32_t worker, uint64_t epoch, uint64_t position) {
    assert_true(lists[worker].count < BASELINE_MAX);
    lists[worker].items[lists[worker].count++] = (baseline_item){epoch, position, worker};
}

static void deal_interleaved(worker_list *lists, uint32_t workers, uint64_t epoch, uint64_t from,
                             uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        add(lists, (uint32_t)(i % workers), epoch, from + i);
}

/* Blocks, of which the first `longer` have one item more than `shorter`. */
static void deal_contiguous(worker_list *lists, uint32_t workers, uint64_t epoch, uint64_t from,
                            uint64_t shorter, uint64_t longer) {
    uint64_t position = from;
    for (uint32_t worker = 0; worker < workers; worker++)
        for (uint64_t i = 0; i < shorter + (worker < longer); i++)
            add(lists, worker, epoch, position++);
}

static void deal_pass(worker_list *lists, const weir_prefetch_options *options, uint64_t epoch,
                      uint64_t from) {
    uint64_t length = options->source.length - from;
    uint64_t remainder = length % options->workers;
    uint64_t dealt = options->drop_remainder ? length - remainder : length;
    if (options->shard_mode == WEIR_SHARD_INTERLEAVED)
        deal_interleaved(lists, options->workers, epoch, from, dealt);
    else
        deal_contiguous(lists, options->workers, epoch, from, length / options->workers,
                        options->drop_remainder ? 0 : remainder);
}

void baseline_make(const weir_prefetch_options *options, baseline *out) {
    static worker_list lists[BASELINE_WORKERS];
    assert_true(options->workers <= BASELINE_WORKERS && options->epochs > 0);
    for (uint32_t worker = 0; worker < options->workers; worker++)
        lists[worker].count = 0;
    deal_pass(lists, options, options->start_epoch, options->start_position);
    for (uint64_t pass = 1; pass < options->epochs; pass++)
        deal_pass(lists, options, options->start_epoch + pass, 0);
    out->count = 0;
    bool found = true;
    for (size_t round = 0; found; round++) {
        found = false;
        for (uint32_t worker = 0; worker < options->workers; worker++)
            if (round < lists[worker].count) {
                assert_true(out->count < BASELINE_MAX);
                out->items[out->count] = lists[worker].items[round];
                if (options->shares_items)
                    out->items[out->count].worker = ANY_WORKER;
                out->count++;
                found = true;
            }
    }
}

/* ---- A source for tests ---------------------------------------------------------------------- */

weir_status produce_test_item(void *context, const weir_item *item, weir_error *error) {
    (void)context;
    (void)error;
    *(test_item *)item->slot = (test_item){item->epoch, item->position, item->key};
    return WEIR_OK;
}

weir_prefetch_options options_of(uint64_t length, uint32_t workers) {
    return (weir_prefetch_options){.size = sizeof(weir_prefetch_options),
                                   .source = {.length = length, .produce = produce_test_item},
                                   .key = 42,
                                   .epochs = 1,
                                   .workers = workers,
                                   .slot_size = sizeof(test_item)};
}

weir_prefetch *open_prefetch(const weir_prefetch_options *options) {
    weir_prefetch *prefetch = NULL;
    weir_error error;
    assert_ok(weir_prefetch_open(NULL, options, &prefetch, &error), &error);
    return prefetch;
}

void assert_item_is(const weir_item *item, const baseline_item *expected) {
    assert_non_null(item->slot);
    assert_int_equal(item->epoch, expected->epoch);
    assert_int_equal(item->position, expected->position);
    if (expected->worker != ANY_WORKER)
        assert_int_equal(item->worker, expected->worker);
    const test_item *held = item->slot;
    assert_int_equal(held->epoch, expected->epoch);
    assert_int_equal(held->position, expected->position);
    assert_int_equal(held->key, item->key);
}

void assert_gives(weir_prefetch *prefetch, const baseline *expected, size_t from, size_t count) {
    weir_error error;
    weir_item item;
    for (size_t i = from; i < from + count; i++) {
        assert_ok(weir_prefetch_next(prefetch, &item, &error), &error);
        assert_item_is(&item, &expected->items[i]);
        weir_prefetch_release(prefetch, &item);
    }
}

void assert_ended(weir_prefetch *prefetch) {
    weir_error error;
    weir_item item = {.position = 1};
    bool is_ready = false;
    assert_ok(weir_prefetch_next(prefetch, &item, &error), &error);
    assert_null(item.slot);
    assert_ok(weir_prefetch_try_next(prefetch, &item, &is_ready, &error), &error);
    assert_true(is_ready && !item.slot);
}

void assert_cancelled(weir_prefetch *prefetch) {
    weir_error error;
    weir_item item = {.position = 77};
    bool is_ready = true;
    assert_fails(weir_prefetch_next(prefetch, &item, &error), WEIR_CANCELLED, &error);
    assert_fails(weir_prefetch_try_next(prefetch, &item, &is_ready, &error), WEIR_CANCELLED, &error);
    assert_int_equal(item.position, 77);
}

/* ---- Best effort, followed from outside ------------------------------------------------------- */

void follow_from_the_start(follower *f, const weir_prefetch_options *options) {
    memset(f, 0, sizeof *f);
    f->workers = options->workers;
    f->max_lead = options->max_lead;
    baseline_make(options, &f->whole);
    for (size_t i = 0; i < f->whole.count; i++)
        f->totals[f->whole.items[i].worker]++;
}

/* The n-th item of a worker. */
static const baseline_item *find_item(const baseline *whole, uint32_t worker, size_t n) {
    for (size_t i = 0; i < whole->count; i++)
        if (whole->items[i].worker == worker && n-- == 0)
            return &whole->items[i];
    return NULL;
}

void follow(follower *f, const weir_item *item) {
    size_t slowest = SIZE_MAX;
    for (uint32_t i = 0; i < f->workers; i++)
        if (f->given[i] < f->totals[i] && f->given[i] < slowest)
            slowest = f->given[i];
    assert_true(item->worker < f->workers);
    assert_true(f->given[item->worker] - slowest < f->max_lead);
    const baseline_item *expected = find_item(&f->whole, item->worker, f->given[item->worker]);
    assert_non_null(expected);
    assert_item_is(item, expected);
    f->given[item->worker]++;
    f->count++;
}

void assert_all_followed(const follower *f) {
    assert_memory_equal(f->given, f->totals, sizeof f->given);
}

/* ---- States ---------------------------------------------------------------------------------- */

void keep_state(const weir_prefetch *prefetch, kept_state *out) {
    weir_cbor_writer w;
    weir_error error;
    weir_cbor_writer_fixed(&w, out->bytes, sizeof out->bytes);
    weir_pipeline__prefetch_save(prefetch, NULL, &w);
    assert_ok(weir_cbor_finish(&w, &error), &error);
    out->size = w.size;
    assert_ok(weir_cbor_check(out->bytes, out->size, NULL, &error), &error);
    out->value = weir_cbor_view(out->bytes);
}
