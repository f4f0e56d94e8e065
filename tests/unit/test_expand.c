/* The expansion of compact batches: on the host and thread by thread, as a device does it, it gives the same
 * bytes, all of them, for every shape of batch and whatever was there before; what a consumer writes into a
 * batch harms no later one; times of all years are right. (That the bytes are those of the contract is
 * checked through the program, against golden batches and the reference.) */
#include <xxhash.h>

#include "batch/buffer.h"
#include "batch/expand_kernel.h"
#include "support/shop_store.h"

static shop_store shop;

static const char *const configs[] = {
    "\"sequence_length\": 64, \"child_width\": 3",
    "\"sequence_length\": 1",
    "\"sequence_length\": 2",
    "\"sequence_length\": 300, \"max_rows\": 17, \"pad_rows\": true",
    "\"sequence_length\": 50, \"max_hops\": 2, \"child_policy\": \"recent\", \"label_visibility\": \"all\"",
    "\"sequence_length\": 700, \"child_width\": 100, \"label_visibility\": \"none\"",
    "\"sequence_length\": 40, \"max_hops\": 0",
    "\"sequence_length\": 90, \"tensors\": [\"example_ids\", \"hops\", \"ages\"], \"mask_permille\": 400",
    "\"sequence_length\": 65, \"tensors\": [\"ages\"], \"since\": \"90d\"",
    "\"sequence_length\": 33, \"mask_permille\": 1000",
};
enum { CONFIGS = sizeof configs / sizeof configs[0], DATASETS = 4, SEEDS = 5, LONG = 5 }; /* each has SEEDS */
static const char *const datasets[DATASETS] = {"shop/churn/train", "shop/rating/train", "shop/spend/train",
                                               "shop/status/val"};

typedef struct trial {
    weir_manifest *manifest;
    weir_batch_builder *builder;
    weir_batch_buffer *buffer;
    const weir_batch *batch;
    size_t capacity;
    uint8_t *out;
} trial;

static void begin(trial *t, const char *config, const char *dataset, uint64_t batch_size, bool pad) {
    weir_error error;
    bool is_mixed = strcmp(dataset, WEIR_MIX_KEY) == 0;
    t->manifest = shop_manifest(&shop, batch_size, is_mixed ? "\"epoch_boundary\": \"stream\"" : "", config);
    weir_batch_options options = {.size = sizeof options,
                                  .store = shop.store,
                                  .manifest = t->manifest,
                                  .dataset = dataset,
                                  .world_size = 1,
                                  .pad = pad,
                                  .with_digests = true};
    assert_ok(weir_batch_builder_open(NULL, &options, &t->builder, &error), &error);
    assert_ok(weir_batch_buffer_open(&t->builder, 1, NULL, &t->buffer, &error), &error);
    t->batch = weir_batch_view(t->buffer);
    t->capacity = (size_t)weir_batch_capacity(&t->builder, 1).tensors + 256;
    t->out = malloc(t->capacity);
    assert_non_null(t->out);
}

static void end(trial *t) {
    free(t->out);
    weir_batch_buffer_close(t->buffer);
    weir_batch_builder_close(t->builder);
    weir_manifest_close(t->manifest);
}

static void build(trial *t, weir_cursor cursor) {
    weir_error error;
    assert_ok(weir_batch_build(t->builder, cursor, t->buffer, &error), &error);
    assert_true(t->batch->compact_size <= weir_batch_capacity(&t->builder, 1).compact);
}

static void assert_digest(const weir_batch *batch) {
    XXH3_state_t *state = XXH3_createState();
    XXH128_canonical_t canonical;
    assert_non_null(state);
    XXH3_128bits_reset(state);
    for (int id = 0; id < WEIR_TENSORS; id++)
        if (batch->tensors[id].size > 0)
            XXH3_128bits_update(state, batch->data + batch->tensors[id].offset,
                                (size_t)batch->tensors[id].size);
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    XXH3_freeState(state);
    assert_memory_equal(canonical.digest, batch->batch_digest, 16);
}

/* Thread by thread, backwards, over memory that holds something else. */
static void expand_by_threads(const trial *t, uint32_t threads) {
    memset(t->out, 0xa5, t->capacity);
    for (uint32_t thread = threads; thread-- > 0;)
        for (uint32_t i = 0; i < t->batch->sequence_count; i++)
            expand_share(t->batch->rules, t->batch->compact, t->out, i, thread, threads);
}

/* Every byte of every part, and none between them. */
static void assert_expanded(const trial *t) {
    uint64_t at = 0;
    for (int id = 0; id < WEIR_BATCH_PARTS; id++) {
        const weir_tensor *tensor = &t->batch->tensors[id];
        for (; at < tensor->offset; at++)
            assert_int_equal(t->out[at], 0xa5);
        if (memcmp(t->out + at, t->batch->data + at, (size_t)tensor->size) != 0)
            fail_msg("%s differs", tensor->name);
        at += tensor->size;
    }
    assert_int_equal(at, t->batch->size);
    for (; at < t->capacity; at++)
        assert_int_equal(t->out[at], 0xa5);
}

static void check(const trial *t) {
    static const uint32_t counts[] = {1, 7, 1024};
    assert_digest(t->batch);
    memset(t->out, 0xa5, t->capacity);
    weir_batch_expand(t->batch->rules, t->batch->compact, t->out);
    assert_expanded(t);
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        expand_by_threads(t, counts[k]);
        if (t->batch->sequence_count > 0)
            assert_expanded(t);
    }
}

static void test_host_and_threads_agree(void **state) {
    (void)state;
    random_stream random = {5};
    for (size_t c = 0; c < CONFIGS; c++)
        for (size_t d = 0; d < DATASETS; d++) {
            trial t;
            begin(&t, configs[c], datasets[d], 1 + random_below(&random, 7), random_below(&random, 2));
            for (int i = 0; i < 4; i++) {
                build(&t, (weir_cursor){random_below(&random, 3), random_below(&random, SEEDS)});
                check(&t);
            }
            end(&t);
        }
}

/* The rest of a manifest's `batch`, and a mix after it. */
#define MIXED                                                                                                \
    ", \"mixed\": true}, \"mix\": {\"shop/churn/train\": 2, \"shop/rating/train\": 1, \"shop/status/val\": " \
    "3, "                                                                                                    \
    "\"shop/spend/train\": 1"

/* Each sequence of a mixed batch is expanded by the rules of its own dataset. */
static void test_mixed_batches(void **state) {
    (void)state;
    static const char *const mixed[] = {
        "\"sequence_length\": 64" MIXED,
        "\"sequence_length\": 90, \"tensors\": [\"hops\", \"ages\"], \"mask_permille\": 400" MIXED,
        "\"sequence_length\": [60, 20], \"max_rows\": 17, \"pad_rows\": true" MIXED,
    };
    for (size_t c = 0; c < sizeof mixed / sizeof mixed[0]; c++) {
        trial t;
        uint32_t seen = 0;
        begin(&t, mixed[c], WEIR_MIX_KEY, 5, false);
        weir_cursor cursor = {0, 0};
        for (int i = 0; i < 6; i++, cursor = t.batch->step.cursor_next) {
            build(&t, cursor);
            check(&t);
            const weir_tensor *ids = &t.batch->tensors[WEIR_DATASET_IDS];
            assert_int_equal(t.batch->source_count, 4);
            for (uint32_t k = 0; k < t.batch->sequence_count; k++) {
                assert_int_equal(weir__load32(t.batch->data + ids->offset + 4 * (size_t)k),
                                 t.batch->dataset_ids[k]);
                seen |= 1u << t.batch->dataset_ids[k];
            }
        }
        assert_int_equal(seen, 15);
        assert_string_equal(t.batch->sources[2].dataset, "shop/spend/train");
        end(&t);
    }
}

/* The last batch of an epoch is not full: with padding it has sequences without a cell. A rank may have no
 * sample of it at all. */
static void test_padding_and_nothing(void **state) {
    (void)state;
    weir_error error;
    for (int pad = 0; pad < 2; pad++) {
        trial t;
        bool was_partial = false;
        begin(&t, configs[0], datasets[0], 7, pad);
        for (weir_cursor cursor = {0, 0}; cursor.epoch < 2; cursor = t.batch->step.cursor_next) {
            build(&t, cursor);
            check(&t);
            was_partial |= t.batch->step.valid_count < 7;
        }
        assert_true(was_partial);
        end(&t);
    }
    trial t;
    weir_stored_dataset stored;
    begin(&t, configs[0], datasets[0], 8, false);
    weir_batch_options last = {.size = sizeof last,
                               .store = shop.store,
                               .manifest = t.manifest,
                               .dataset = datasets[0],
                               .world_size = 8,
                               .rank = 7,
                               .with_digests = true};
    weir_batch_builder *builder;
    assert_ok(weir_batch_builder_open(NULL, &last, &builder, &error), &error);
    assert_ok(weir_store_dataset(shop.store, datasets[0], &stored, &error), &error);
    assert_ok(weir_batch_build(builder, (weir_cursor){0, stored.cardinality - 1}, t.buffer, &error), &error);
    assert_int_equal(t.batch->sequence_count, 0);
    check(&t);
    weir_batch_builder_close(builder);
    end(&t);
}

static void test_few_bytes_a_cell(void **state) {
    (void)state;
    trial t;
    uint64_t cells = 0;
    begin(&t, configs[LONG], datasets[0], 5, false);
    build(&t, (weir_cursor){0, 0});
    for (uint32_t i = 0; i < t.batch->sequence_count; i++) {
        uint32_t count;
        memcpy(&count, t.batch->data + t.batch->tensors[WEIR_NUM_CELLS].offset + 4 * i, 4);
        cells += WEIR__LE32(count);
    }
    assert_true(cells > 100);
    assert_true(t.batch->compact_size - t.batch->tensors[WEIR_TEXT_BATCH_EMBEDDINGS].size < 20 * cells);
    end(&t);
}

/* What a consumer writes into a batch's tensors is gone with the next one. */
static void test_scribbling_harms_no_later_batch(void **state) {
    (void)state;
    random_stream random = {9};
    for (size_t c = 0; c < CONFIGS; c++) {
        trial t;
        begin(&t, configs[c], datasets[c % DATASETS], 3, c % 2);
        for (int i = 0; i < 30; i++) {
            build(&t, (weir_cursor){random_below(&random, 3), random_below(&random, SEEDS)});
            assert_digest(t.batch);
            for (int id = 0; id < WEIR_BATCH_PARTS; id++)
                memset((uint8_t *)(uintptr_t)t.batch->data + t.batch->tensors[id].offset,
                       (int)random_next(&random), (size_t)t.batch->tensors[id].size);
        }
        end(&t);
    }
}

/* A buffer without tensors has the same batch, and the same digests. */
static void test_without_tensors(void **state) {
    (void)state;
    for (size_t c = LONG; c < CONFIGS; c++) {
        trial t;
        weir_error error;
        weir_batch_buffer *bare;
        weir_batch_memory memory = {.without_tensors = true};
        begin(&t, configs[c], datasets[1], 3, false);
        assert_ok(weir_batch_buffer_open(&t.builder, 1, &memory, &bare, &error), &error);
        build(&t, (weir_cursor){1, 2});
        assert_ok(weir_batch_build(t.builder, (weir_cursor){1, 2}, bare, &error), &error);
        const weir_batch *batch = weir_batch_view(bare);
        assert_null(batch->data);
        assert_int_equal(batch->compact_size, t.batch->compact_size);
        assert_memory_equal(batch->batch_digest, t.batch->batch_digest, 16);
        memset(t.out, 0xa5, t.capacity);
        weir_batch_expand(batch->rules, batch->compact, t.out);
        assert_expanded(&t);
        weir_batch_buffer_close(bare);
        end(&t);
    }
}

/* No store of a test has such days: they are put into the records of a compact batch. */
static void test_times_of_all_years(void **state) {
    (void)state;
    static const int64_t moments[] = {INT64_MIN, INT64_MIN + 1,   -62135596800000000, -1,
                                      0,         951782400000000, INT64_MAX - 1,      INT64_MAX};
    const weir_statistics *statistics = &weir_store_describe(shop.store)->timestamps;
    trial t;
    uint32_t seen = 0;
    begin(&t, configs[0], datasets[0], 3, false);
    build(&t, (weir_cursor){0, 1});
    const uint8_t *rules = t.batch->rules;
    for (uint32_t i = 0; i < t.batch->sequence_count; i++) {
        expansion e = expansion_of(rules, t.batch->compact, i);
        for (uint32_t at = 1; at < e.cells; at++) {
            expanded_row row = row_of(&e, row_with_cell(&e, at));
            const uint8_t *rule = row.rules + (size_t)(at - row.first) * CELL_SIZE;
            bool is_time = rule[CELL_STYPE] == WEIR_TIMESTAMP && !rule[CELL_KNOWN_MASK];
            if (!is_time || is_null_cell(rule, row.record, e.seen))
                continue;
            int64_t micros = moments[seen++ % 8];
            float floats[WEIR_TIMESTAMP_FLOATS];
            weir__store64((uint8_t *)(uintptr_t)row.record + weir__load32(rule + CELL_SLOT),
                          (uint64_t)micros);
            weir_batch_expand(rules, t.batch->compact, (void *)(uintptr_t)t.batch->data);
            weir_timestamp_floats(micros, statistics, floats);
            const uint8_t *there = t.batch->data + t.batch->tensors[WEIR_TIMESTAMP_VALUES].offset +
                                   60 * ((size_t)i * t.batch->sequence_length + at);
            for (size_t f = 0; f < WEIR_TIMESTAMP_FLOATS; f++)
                assert_int_equal(weir__load32(there + 4 * f), bits_of(floats[f]));
        }
    }
    assert_true(seen >= 16);
    expand_by_threads(&t, 5);
    assert_expanded(&t);
    end(&t);
}

static int set_up(void **state) {
    (void)state;
    shop_store_open(&shop);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    shop_store_close(&shop);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_and_threads_agree), cmocka_unit_test(test_padding_and_nothing),
        cmocka_unit_test(test_few_bytes_a_cell),       cmocka_unit_test(test_scribbling_harms_no_later_batch),
        cmocka_unit_test(test_without_tensors),        cmocka_unit_test(test_times_of_all_years),
        cmocka_unit_test(test_mixed_batches),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
