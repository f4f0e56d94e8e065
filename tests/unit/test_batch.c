/* The batch builder on the golden shop: a buffer that is used again holds what a fresh one would; sequences
 * do not depend on the world size; nothing is allocated after open; a damaged store never leads outside.
 * (The golden batches themselves are checked through the program.) */
#include "support/shop_store.h"

static shop_store shop;
static uint8_t *store_bytes;
static size_t store_size;

static weir_batch_options options_of(const weir_manifest *manifest, const char *dataset, uint32_t world_size,
                                     uint32_t rank) {
    return (weir_batch_options){.size = sizeof(weir_batch_options),
                                .store = shop.store,
                                .manifest = manifest,
                                .dataset = dataset,
                                .world_size = world_size,
                                .rank = rank,
                                .with_digests = true};
}

static const char *const configs[] = {
    "\"sequence_length\": 64, \"child_width\": 3, \"row_order\": \"best\"",
    "\"sequence_length\": 1",
    "\"sequence_length\": 300, \"max_rows\": 17, \"pad_rows\": true",
    "\"sequence_length\": 50, \"max_hops\": 2, \"child_policy\": \"recent\", \"label_visibility\": \"all\"",
    "\"sequence_length\": 700, \"child_width\": 100, \"label_visibility\": \"none\"",
    "\"sequence_length\": 40, \"max_hops\": 0",
    "\"sequence_length\": 40, \"child_width\": 0",
};
enum { CONFIGS = sizeof configs / sizeof configs[0] };

static const char *const datasets[] = {"shop/churn/train", "shop/rating/train", "shop/spend/train"};

/* Steps in a random order into one buffer, each compared byte for byte with the same step in a buffer of
 * its own. A batch of one sequence changes its number of rows most: a matrix that grows again after it
 * shrank must not show what lay there before. */
static void test_a_used_buffer_is_as_good_as_a_new_one(void **state) {
    (void)state;
    random_stream random = {11};
    weir_error error;
    for (size_t trial = 0; trial < 2 * CONFIGS; trial++) {
        weir_manifest *manifest = shop_manifest(&shop, trial % 2 ? 1 : 5, "", configs[trial / 2]);
        weir_batch_builder *builders[3];
        weir_batch_buffer *used = NULL;
        for (size_t d = 0; d < 3; d++) {
            weir_batch_options options = options_of(manifest, datasets[d], 1, 0);
            assert_ok(weir_batch_builder_open(NULL, &options, &builders[d], &error), &error);
        }
        assert_ok(weir_batch_buffer_open(builders, 3, NULL, &used, &error), &error);
        for (int i = 0; i < 60; i++) {
            weir_batch_buffer *fresh;
            weir_batch_builder *builder = builders[random_below(&random, 3)];
            weir_cursor cursor = {random_below(&random, 3), random_below(&random, 9)};
            assert_ok(weir_batch_buffer_open(&builder, 1, NULL, &fresh, &error), &error);
            assert_ok(weir_batch_build(builder, cursor, fresh, &error), &error);
            assert_ok(weir_batch_build(builder, cursor, used, &error), &error);
            const weir_batch *a = weir_batch_view(fresh);
            const weir_batch *b = weir_batch_view(used);
            assert_int_equal(a->size, b->size);
            for (int id = 0; id < WEIR_BATCH_PARTS; id++) {
                assert_int_equal(a->tensors[id].offset, b->tensors[id].offset);
                assert_memory_equal(a->data + a->tensors[id].offset, b->data + b->tensors[id].offset,
                                    (size_t)a->tensors[id].size);
            }
            assert_memory_equal(a->batch_digest, b->batch_digest, sizeof a->batch_digest);
            weir_batch_buffer_close(fresh);
        }
        weir_batch_buffer_close(used);
        for (size_t d = 0; d < 3; d++)
            weir_batch_builder_close(builders[d]);
        weir_manifest_close(manifest);
    }
}

/* The digests of a step's samples, in order over the ranks of a world. */
static uint32_t digests_of(const weir_manifest *manifest, const char *dataset, uint32_t world_size,
                           weir_cursor cursor, uint64_t digests[64]) {
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < world_size; rank++) {
        weir_error error;
        weir_batch_builder *builder;
        weir_batch_buffer *buffer;
        weir_batch_options options = options_of(manifest, dataset, world_size, rank);
        assert_ok(weir_batch_builder_open(NULL, &options, &builder, &error), &error);
        assert_ok(weir_batch_buffer_open(&builder, 1, NULL, &buffer, &error), &error);
        assert_ok(weir_batch_build(builder, cursor, buffer, &error), &error);
        const weir_batch *batch = weir_batch_view(buffer);
        for (uint32_t i = 0; i < batch->sequence_count; i++)
            digests[count++] = batch->sample_digests[i];
        weir_batch_buffer_close(buffer);
        weir_batch_builder_close(builder);
    }
    return count;
}

static void test_samples_do_not_depend_on_the_world(void **state) {
    (void)state;
    static const char *const modes[] = {
        "", "\"epoch_boundary\": \"stream\", \"rotate\": true",
        "\"intra_block\": \"feistel_v1\", \"sampler_block_size\": 4, \"drop_last\": true"};
    static const uint32_t worlds[] = {2, 3, 4, 8};
    for (size_t mode = 0; mode < 3; mode++) {
        weir_manifest *manifest = shop_manifest(&shop, mode == 2 ? 8 : 24, modes[mode], configs[0]);
        for (size_t d = 0; d < 3; d++)
            for (uint64_t position = 0; position < 9; position += 4) {
                uint64_t whole[64], parts[64];
                weir_cursor cursor = {2, position};
                uint32_t count = digests_of(manifest, datasets[d], 1, cursor, whole);
                for (size_t w = 0; w < 4; w++) {
                    if (weir_manifest_describe(manifest)->global_batch_size % worlds[w] != 0)
                        continue;
                    assert_int_equal(digests_of(manifest, datasets[d], worlds[w], cursor, parts), count);
                    assert_memory_equal(whole, parts, count * sizeof *whole);
                }
            }
        weir_manifest_close(manifest);
    }
}

static void test_nothing_is_allocated_after_open(void **state) {
    (void)state;
    fault_env faults;
    weir_error error;
    weir_batch_builder *builder;
    weir_batch_buffer *buffer;
    fault_env_init(&faults);
    weir_manifest *manifest = shop_manifest(&shop, 5, "", configs[0]);
    weir_batch_options options = options_of(manifest, datasets[1], 1, 0);
    assert_ok(weir_batch_builder_open(&faults.env, &options, &builder, &error), &error);
    assert_ok(weir_batch_buffer_open(&builder, 1, NULL, &buffer, &error), &error);
    weir_manifest_close(manifest);
    uint64_t before[FAULT_KINDS];
    memcpy(before, faults.calls, sizeof before);
    weir_cursor cursor = {0, 0};
    for (int i = 0; i < 200; i++) {
        assert_ok(weir_batch_build(builder, cursor, buffer, &error), &error);
        cursor = weir_batch_view(buffer)->step.cursor_next;
    }
    assert_memory_equal(before, faults.calls, sizeof before); /* no memory, no file, no map */
    weir_batch_buffer_close(buffer);
    weir_batch_builder_close(builder);
    assert_int_equal(faults.live_allocations, 0);
    assert_int_equal(faults.live_maps, 0);
}

static void test_a_dataset_must_be_the_stores(void **state) {
    (void)state;
    weir_error error;
    weir_batch_builder *builder;
    weir_manifest *manifest = shop_manifest(&shop, 5, "", configs[0]);
    weir_batch_options options = options_of(manifest, "shop/none/train", 1, 0);
    assert_fails(weir_batch_builder_open(NULL, &options, &builder, &error), WEIR_INVALID_DATASET_KEY, &error);
    weir_manifest_close(manifest);
    static const char text[] =
        "{\"global_batch_size\": 2, \"datasets\": {\"shop/churn/train\": {\"id\": \"shop\", \"version\": "
        "\"1\", \"cardinality\": "
        "%d, \"hash\": \"0000000000000000000000000000000000000000000000000000000000000000\"}}}";
    weir_stored_dataset stored;
    assert_ok(weir_store_dataset(shop.store, "shop/churn/train", &stored, &error), &error);
    for (int wrong = 0; wrong < 2; wrong++) {
        char json[512];
        snprintf(json, sizeof json, text, (int)stored.cardinality + wrong);
        assert_ok(weir_manifest_read(NULL, json, strlen(json), "test", &manifest, &error), &error);
        options = options_of(manifest, "shop/churn/train", 1, 0);
        assert_fails(weir_batch_builder_open(NULL, &options, &builder, &error), WEIR_CARDINALITY_MISMATCH,
                     &error);
        options.any_hash = true;
        assert_fails(weir_batch_builder_open(NULL, &options, &builder, &error),
                     wrong ? WEIR_CARDINALITY_MISMATCH : WEIR_OK, &error);
        if (!wrong)
            weir_batch_builder_close(builder);
        weir_manifest_close(manifest);
    }
}

static weir_status open_with_width(const char *name, weir_error *error) {
    char batch[200];
    weir_batch_builder *builder = NULL;
    snprintf(batch, sizeof batch, "\"child_width\": {\"*\": 2, \"%s\": 1}", name);
    weir_manifest *manifest = shop_manifest(&shop, 5, "", batch);
    weir_batch_options options = options_of(manifest, datasets[0], 1, 0);
    weir_status status = weir_batch_builder_open(NULL, &options, &builder, error);
    weir_batch_builder_close(builder);
    weir_manifest_close(manifest);
    return status;
}

static void refuse_width(const char *name) {
    char start[200];
    weir_error error;
    snprintf(start, sizeof start, "$.batch.child_width has a width for '%s', which is not an edge type",
             name);
    assert_fails(open_with_width(name, &error), WEIR_MANIFEST_INVALID, &error);
    assert_non_null(strstr(error.message, start));
    assert_non_null(strstr(error.message, ", and its tasks"));
}

static void test_widths_are_of_edge_types_and_tasks(void **state) {
    (void)state;
    const weir_store_info *info = weir_store_describe(shop.store);
    weir_error error;
    char name[100];
    assert_true(info->edge_count > 1 && info->task_count > 1);
    for (uint32_t i = 0; i < info->task_count; i++)
        assert_ok(open_with_width(info->tasks[i].name, &error), &error);
    for (uint32_t i = 0; i < info->edge_count; i++) {
        const char *table = info->tables[info->edges[i].table].name, *edge = info->edges[i].name;
        snprintf(name, sizeof name, "%s.%s", table, edge);
        assert_ok(open_with_width(name, &error), &error);
        name[strlen(name) - 1] = 0;
        refuse_width(name);
        snprintf(name, sizeof name, "%s-%s", table, edge);
        refuse_width(name);
        snprintf(name, sizeof name, "%s.%s.", table, edge);
        refuse_width(name);
        refuse_width(table);
    }
}

/* Nor does it keep the batch that it held before: whoever goes on after an error has nothing to train on. */
static void test_after_an_error_the_buffer_holds_no_batch(void **state) {
    (void)state;
    static const weir_cursor start = {0, 0}, outside = {0, UINT64_MAX};
    weir_error error;
    weir_batch_builder *builder, *larger;
    weir_batch_buffer *buffer;
    weir_manifest *manifest = shop_manifest(&shop, 2, "", configs[0]);
    weir_manifest *of_more = shop_manifest(&shop, 5, "", configs[0]);
    weir_batch_options options = options_of(manifest, datasets[0], 1, 0);
    assert_ok(weir_batch_builder_open(NULL, &options, &builder, &error), &error);
    options.manifest = of_more;
    assert_ok(weir_batch_builder_open(NULL, &options, &larger, &error), &error);
    assert_ok(weir_batch_buffer_open(&builder, 1, NULL, &buffer, &error), &error);
    assert_ok(weir_batch_build(builder, start, buffer, &error), &error);
    assert_int_equal(weir_batch_view(buffer)->sequence_count, 2);
    assert_fails(weir_batch_build(builder, outside, buffer, &error), WEIR_GLOBAL_POSITION_EXCEEDS_CARDINALITY,
                 &error);
    assert_holds_no_batch(buffer);
    assert_ok(weir_batch_build(builder, start, buffer, &error), &error);
    assert_fails(weir_batch_build(larger, start, buffer, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_holds_no_batch(buffer);
    weir_batch_buffer_close(buffer);
    weir_batch_builder_close(builder);
    weir_batch_builder_close(larger);
    weir_manifest_close(manifest);
    weir_manifest_close(of_more);
}

/* Random damage after the metadata, which opening does not look at: a batch or STORE_CORRUPT, never a
 * stray access (the sanitizers watch). */
static void test_a_damaged_store_never_leads_outside(void **state) {
    (void)state;
    random_stream random = {5};
    weir_error error;
    uint32_t refused = 0;
    weir_manifest *manifest = shop_manifest(&shop, 5, "", configs[4]);
    uint8_t *copy = aligned_alloc(4096, (store_size + 4095) / 4096 * 4096);
    for (int round = 0; round < 300; round++) {
        weir_store *damaged = open_damaged(store_bytes, store_size, WEIR_VERIFY_NONE, &random, copy);
        if (!damaged)
            continue;
        weir_batch_options options = options_of(manifest, datasets[round % 3], 1, 0);
        weir_batch_builder *builder;
        weir_batch_buffer *buffer;
        options.store = damaged;
        options.any_hash = true;
        if (weir_batch_builder_open(NULL, &options, &builder, &error) == WEIR_OK) {
            assert_ok(weir_batch_buffer_open(&builder, 1, NULL, &buffer, &error), &error);
            for (uint64_t position = 0; position < 9; position++) {
                weir_status status = weir_batch_build(builder, (weir_cursor){0, position}, buffer, &error);
                assert_true(status == WEIR_OK || status == WEIR_STORE_CORRUPT);
                refused += status == WEIR_STORE_CORRUPT;
                if (status != WEIR_OK)
                    assert_holds_no_batch(buffer);
            }
            weir_batch_buffer_close(buffer);
            weir_batch_builder_close(builder);
        }
        weir_store_close(damaged);
    }
    assert_true(refused > 0);
    free(copy);
    weir_manifest_close(manifest);
}

static int set_up(void **state) {
    (void)state;
    shop_store_open(&shop);
    store_bytes = shop_store_bytes(&shop, &store_size);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    shop_store_close(&shop);
    free(store_bytes);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_used_buffer_is_as_good_as_a_new_one),
        cmocka_unit_test(test_samples_do_not_depend_on_the_world),
        cmocka_unit_test(test_nothing_is_allocated_after_open),
        cmocka_unit_test(test_a_dataset_must_be_the_stores),
        cmocka_unit_test(test_widths_are_of_edge_types_and_tasks),
        cmocka_unit_test(test_after_an_error_the_buffer_holds_no_batch),
        cmocka_unit_test(test_a_damaged_store_never_leads_outside),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
