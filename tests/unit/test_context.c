/* Contexts on demand on the golden shop: a seed of the store has the digest that it has in evaluation, in any
 * company; what is not a seed has a null target and draws by its own seed; nothing is allocated after open;
 * a damaged store never leads outside; wrong requests are refused; what walks remember, of which time ever,
 * changes nothing. (Tests/property compares all tensors with the reference.) */
#include "base/bytes.h"
#include "batch/builder.h"
#include "batch/neighbours.h"
#include "support/shop_store.h"

static shop_store shop;
static uint8_t *store_bytes;
static size_t store_size;
static weir_manifest *manifest;

static weir_batch_builder *open_contexts(const weir_store *store, const char *task, uint32_t most) {
    weir_error error;
    weir_batch_builder *builder = NULL;
    weir_context_options options = {.size = sizeof options,
                                    .store = store,
                                    .manifest = manifest,
                                    .task = task,
                                    .most_requests = most,
                                    .with_digests = true};
    assert_ok(weir_context_builder_open(NULL, &options, &builder, &error), &error);
    return builder;
}

static uint64_t field64(const weir_batch *batch, weir_tensor_id id, uint32_t i) {
    return weir__load64(batch->data + batch->tensors[id].offset + 8 * (size_t)i);
}

static bool is_first_with_its_time(const weir_store *store, uint32_t task, uint64_t seed,
                                   const weir_seed_row *row) {
    return weir_store_find_seed(store, task, row->row, row->observation_time) == seed;
}

/* Each seed of the datasets of the manifest, alone and in the company of others. */
static void test_a_stored_seed_is_that_of_evaluation(void **state) {
    (void)state;
    enum { TOGETHER = 7 };
    static const char *const keys[] = {"shop/churn/train", "shop/rating/train", "shop/status/val",
                                       "shop/spend/train"};
    static const char *const tasks[] = {"churn", "rating", "status", "spend"};
    weir_error error;
    uint32_t compared = 0;
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        weir_batch_options options = {.size = sizeof options,
                                      .store = shop.store,
                                      .manifest = manifest,
                                      .dataset = keys[k],
                                      .stage = WEIR_STAGE_EVAL,
                                      .world_size = 1,
                                      .with_digests = true};
        weir_stored_dataset stored;
        weir_batch_builder *sampled, *asked = open_contexts(shop.store, tasks[k], TOGETHER);
        weir_batch_buffer *from, *to;
        assert_ok(weir_store_dataset(shop.store, keys[k], &stored, &error), &error);
        assert_ok(weir_batch_builder_open(NULL, &options, &sampled, &error), &error);
        assert_ok(weir_batch_buffer_open(&sampled, 1, NULL, &from, &error), &error);
        assert_ok(weir_batch_buffer_open(&asked, 1, NULL, &to, &error), &error);
        const weir_task *task = &weir_store_describe(shop.store)->tasks[stored.task];
        for (uint64_t at = 0; at < stored.cardinality; at += test_stride()) {
            weir_seed_row seed;
            uint64_t number = task->split_start[stored.split] + at;
            assert_true(weir_store_seed(shop.store, stored.task, number, &seed));
            if (!is_first_with_its_time(shop.store, stored.task, number, &seed))
                continue;
            weir_context_request requests[TOGETHER];
            for (uint32_t i = 0; i < TOGETHER; i++)
                requests[i] = (weir_context_request){.row = weir_store_number_of(shop.store, seed.row),
                                                     .has_time = true,
                                                     .time = seed.observation_time - (i == 3 ? 0 : 1 + i)};
            assert_ok(weir_batch_build(sampled, (weir_cursor){0, at}, from, &error), &error);
            assert_ok(weir_context_build(asked, requests, TOGETHER, to, &error), &error);
            const weir_batch *batch = weir_batch_view(to);
            assert_int_equal(weir_batch_view(from)->sample_digests[0], batch->sample_digests[3]);
            assert_int_equal(field64(batch, WEIR_SAMPLE_INDEX, 3), at);
            assert_int_equal(field64(batch, WEIR_POSITION, 3), at);
            assert_ok(weir_context_build(asked, requests + 3, 1, to, &error), &error);
            assert_int_equal(weir_batch_view(from)->sample_digests[0], batch->sample_digests[0]);
            compared++;
        }
        weir_batch_buffer_close(from);
        weir_batch_buffer_close(to);
        weir_batch_builder_close(sampled);
        weir_batch_builder_close(asked);
    }
    assert_true(compared * test_stride() > 20);
}

/* At a time that no seed has: the label is unknown, and the seed says which context. */
static void test_what_is_not_a_seed_has_no_label(void **state) {
    (void)state;
    weir_error error;
    weir_seed_row seed;
    weir_batch_builder *builder = open_contexts(shop.store, "churn", 4);
    weir_batch_buffer *buffer;
    uint32_t task = 0;
    while (strcmp(weir_store_describe(shop.store)->tasks[task].name, "churn") != 0)
        task++;
    assert_ok(weir_batch_buffer_open(&builder, 1, NULL, &buffer, &error), &error);
    assert_true(weir_store_seed(shop.store, task, 0, &seed));
    int64_t later = seed.observation_time + 1;
    weir_context_request requests[] = {
        {.row = weir_store_number_of(shop.store, seed.row), .has_time = true, .time = later},
        {.row = weir_store_number_of(shop.store, seed.row),
         .has_time = true,
         .time = later,
         .has_seed = true,
         .seed = 0},
        {.row = weir_store_number_of(shop.store, seed.row),
         .has_time = true,
         .time = later,
         .has_seed = true,
         .seed = 77},
        {.row = weir_store_number_of(shop.store, seed.row),
         .has_time = true,
         .time = seed.observation_time,
         .has_seed = true,
         .seed = 77},
    };
    assert_ok(weir_context_build(builder, requests, 4, buffer, &error), &error);
    const weir_batch *batch = weir_batch_view(buffer);
    const uint8_t *is_null = batch->data + batch->tensors[WEIR_IS_NULL].offset;
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(is_null[(size_t)i * batch->sequence_length], i < 3);
        assert_int_equal(field64(batch, WEIR_SAMPLE_INDEX, i), i < 3 ? WEIR_NO_SAMPLE : 0);
        assert_int_equal(field64(batch, WEIR_POSITION, i), i < 2 ? 0 : 77);
    }
    assert_int_equal(batch->sample_digests[0], batch->sample_digests[1]);
    assert_int_equal(batch->step.valid_count, 4);
    weir_batch_buffer_close(buffer);
    weir_batch_builder_close(builder);
}

static void test_wrong_requests_are_refused(void **state) {
    (void)state;
    weir_error error;
    weir_batch_builder *builder = open_contexts(shop.store, "churn", 2), *other;
    weir_batch_buffer *buffer;
    weir_key_value key = {.type = WEIR_KEY_INTEGER, .integer = 1};
    const weir_store_info *info = weir_store_describe(shop.store);
    uint32_t row = info->tables[info->tasks[0].anchor_table].first_number;
    weir_context_request good = {.row = row}, bad = good;
    assert_ok(weir_batch_buffer_open(&builder, 1, NULL, &buffer, &error), &error);
    weir_context_request list[3] = {good, good, good};
    assert_ok(weir_context_build(builder, list, 2, buffer, &error), &error);
    assert_fails(weir_context_build(builder, list, 3, buffer, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_holds_no_batch(buffer);
    assert_fails(weir_context_build(builder, list, 0, buffer, &error), WEIR_CONTRACT_VIOLATION, &error);
    bad.row = WEIR_NONE;
    list[1] = bad;
    assert_fails(weir_context_build(builder, list, 2, buffer, &error), WEIR_KEY_NOT_FOUND, &error);
    assert_holds_no_batch(buffer);
    bad = (weir_context_request){.key = &key, .key_count = 1}; /* the golden shop keeps no keys */
    assert_fails(weir_context_build(builder, &bad, 1, buffer, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_fails(weir_batch_build(builder, (weir_cursor){0, 0}, buffer, &error), WEIR_CONTRACT_VIOLATION,
                 &error);
    weir_context_options options = {
        .size = sizeof options, .store = shop.store, .manifest = manifest, .task = "none"};
    assert_fails(weir_context_builder_open(NULL, &options, &other, &error), WEIR_INVALID_DATASET_KEY, &error);
    assert_non_null(strstr(error.message, "churn"));
    options.size = 3;
    assert_fails(weir_context_builder_open(NULL, &options, &other, &error), WEIR_CONTRACT_VIOLATION, &error);
    weir_batch_buffer_close(buffer);
    weir_batch_builder_close(builder);
}

static void test_a_time_of_minus_two_to_the_63_is_refused(void **state) {
    (void)state;
    weir_error error;
    weir_batch_builder *builder = open_contexts(shop.store, "churn", 1);
    weir_batch_buffer *buffer;
    weir_seed_row seed;
    uint32_t task = 0;
    while (strcmp(weir_store_describe(shop.store)->tasks[task].name, "churn") != 0)
        task++;
    assert_true(weir_store_seed(shop.store, task, 0, &seed));
    weir_context_request request = {
        .row = weir_store_number_of(shop.store, seed.row), .has_time = true, .time = INT64_MIN};
    assert_ok(weir_batch_buffer_open(&builder, 1, NULL, &buffer, &error), &error);
    assert_fails(weir_context_build(builder, &request, 1, buffer, &error), WEIR_CONTRACT_VIOLATION, &error);
    request.time++;
    assert_ok(weir_context_build(builder, &request, 1, buffer, &error), &error);
    request.time = INT64_MAX;
    assert_ok(weir_context_build(builder, &request, 1, buffer, &error), &error);
    weir_batch_buffer_close(buffer);
    weir_batch_builder_close(builder);
}

static void test_nothing_is_allocated_after_open(void **state) {
    (void)state;
    fault_env faults;
    weir_error error;
    weir_batch_builder *builder;
    weir_batch_buffer *buffer;
    uint64_t before[FAULT_KINDS];
    const weir_store_info *info = weir_store_describe(shop.store);
    fault_env_init(&faults);
    weir_context_options options = {
        .size = sizeof options, .store = shop.store, .manifest = manifest, .task = info->tasks[0].name};
    assert_ok(weir_context_builder_open(&faults.env, &options, &builder, &error), &error);
    assert_ok(weir_batch_buffer_open(&builder, 1, NULL, &buffer, &error), &error);
    memcpy(before, faults.calls, sizeof before);
    const weir_table *anchor = &info->tables[info->tasks[0].anchor_table];
    for (uint32_t i = 0; i < anchor->row_count; i++) {
        weir_context_request request = {.row = anchor->first_number + i, .has_seed = i % 2, .seed = i};
        assert_ok(weir_context_build(builder, &request, 1, buffer, &error), &error);
    }
    assert_memory_equal(before, faults.calls, sizeof before);
    weir_batch_buffer_close(buffer);
    weir_batch_builder_close(builder);
    assert_int_equal(faults.live_allocations, 0);
    assert_int_equal(faults.live_maps, 0);
}

static weir_status open_and_ask(const weir_env *env, void *context, weir_error *error) {
    const weir_store_info *info = weir_store_describe(shop.store);
    weir_batch_builder *builder = NULL;
    weir_batch_buffer *buffer = NULL;
    (void)context;
    weir_context_options options = {.size = sizeof options,
                                    .store = shop.store,
                                    .manifest = manifest,
                                    .task = info->tasks[0].name,
                                    .with_digests = true};
    weir_context_request request = {.row = info->tables[info->tasks[0].anchor_table].first_number};
    weir_status status = weir_context_builder_open(env, &options, &builder, error);
    if (status == WEIR_OK)
        status = weir_batch_buffer_open(&builder, 1, NULL, &buffer, error);
    if (status == WEIR_OK)
        status = weir_context_build(builder, &request, 1, buffer, error);
    weir_batch_buffer_close(buffer);
    weir_batch_builder_close(builder);
    return status;
}

static void test_opening_survives_faults(void **state) {
    (void)state;
    assert_true(sweep_faults(open_and_ask, NULL, NULL) > 5);
}

/* Random damage after the metadata: a batch, STORE_CORRUPT or a row that is not found, never a stray access
 * (the sanitizers watch). */
static void test_a_damaged_store_never_leads_outside(void **state) {
    (void)state;
    random_stream random = {5};
    weir_error error;
    uint32_t refused = 0;
    uint8_t *copy = aligned_alloc(4096, (store_size + 4095) / 4096 * 4096);
    for (int round = 0; round < 200; round++) {
        weir_store *damaged = open_damaged(store_bytes, store_size,
                                           round % 4 ? WEIR_VERIFY_NONE : WEIR_VERIFY_TOUCHED, &random, copy);
        if (!damaged)
            continue;
        const weir_store_info *info = weir_store_describe(damaged);
        uint32_t task = (uint32_t)round % info->task_count;
        const weir_table *anchor = &info->tables[info->tasks[task].anchor_table];
        weir_batch_builder *builder = open_contexts(damaged, info->tasks[task].name, 1);
        weir_batch_buffer *buffer;
        assert_ok(weir_batch_buffer_open(&builder, 1, NULL, &buffer, &error), &error);
        for (uint32_t i = 0; i < 9; i++) {
            uint32_t row = anchor->first_number + (uint32_t)random_below(&random, anchor->row_count);
            weir_context_request request = {.row = row};
            weir_status status = weir_context_build(builder, &request, 1, buffer, &error);
            assert_true(status == WEIR_OK || status == WEIR_STORE_CORRUPT);
            refused += status == WEIR_STORE_CORRUPT;
            if (status != WEIR_OK)
                assert_holds_no_batch(buffer);
        }
        weir_batch_buffer_close(buffer);
        weir_batch_builder_close(builder);
        weir_store_close(damaged);
    }
    assert_true(refused > 0);
    free(copy);
}

/* The time of a seed that is drawn. */
static int64_t any_time(uint32_t task, random_stream *random) {
    const weir_task *t = &weir_store_describe(shop.store)->tasks[task];
    weir_seed_row seed;
    assert_true(weir_store_seed(shop.store, task, (uint32_t)random_below(random, t->seed_count), &seed));
    return seed.observation_time;
}

/* Contexts of any times, one after the other, share what walks have learnt of rows, and forget it if there is
 * no room: the same contexts as without links, and with two places for all memos. */
static void test_what_walks_remember_changes_nothing(void **state) {
    (void)state;
    weir_error error;
    random_stream random = {17};
    weir_manifest *kept = manifest;
    manifest = shop_manifest(&shop, 1, "",
                             "\"sequence_length\": 300, \"max_rows\": 100, \"labels\": true, "
                             "\"retrieval\": {\"walks\": 1200, \"length\": 9, \"local_cells\": 8}");
    weir_batch_builder *roomy = open_contexts(shop.store, "rating", 1),
                       *cramped = open_contexts(shop.store, "rating", 1);
    weir_batch_buffer *from, *to;
    const weir_store_info *info = weir_store_describe(shop.store);
    uint32_t task = 0, examples = 0, linked = 0;
    while (strcmp(info->tasks[task].name, "rating") != 0)
        task++;
    const weir_table *anchor = &info->tables[info->tasks[task].anchor_table];
    assert_true(roomy->worker.retriever.memo_bits > 1);
    cramped->worker.retriever.memo_bits = 1;
    cramped->worker.retriever.links = NULL;
    assert_ok(weir_batch_buffer_open(&roomy, 1, NULL, &from, &error), &error);
    assert_ok(weir_batch_buffer_open(&cramped, 1, NULL, &to, &error), &error);
    for (uint32_t i = 0; i < anchor->row_count; i += test_stride()) {
        weir_context_request request = {
            .row = anchor->first_number + i, .has_time = i % 3 > 0, .time = any_time(task, &random)};
        assert_ok(weir_context_build(roomy, &request, 1, from, &error), &error);
        assert_ok(weir_context_build(cramped, &request, 1, to, &error), &error);
        const weir_batch *batch = weir_batch_view(from), *same = weir_batch_view(to);
        assert_memory_equal(batch->visits, same->visits, batch->row_stride * sizeof *batch->visits);
        assert_int_equal(batch->sample_digests[0], same->sample_digests[0]);
        for (uint32_t k = 0; k < batch->row_stride; k++)
            examples += batch->visits[k] != WEIR_NONE && batch->visits[k] > 0;
    }
    assert_true(examples * test_stride() > 100);
    for (uint32_t row = 0; row < info->row_count; row++)
        linked += roomy->worker.retriever.links[row].head != 0;
    assert_true(linked > 100);
    weir_batch_buffer_close(from);
    weir_batch_buffer_close(to);
    weir_batch_builder_close(roomy);
    weir_batch_builder_close(cramped);
    weir_manifest_close(manifest);
    manifest = kept;
}

static int set_up(void **state) {
    (void)state;
    shop_store_open(&shop);
    store_bytes = shop_store_bytes(&shop, &store_size);
    manifest = shop_manifest(&shop, 1, "", "\"sequence_length\": 64, \"child_width\": 2");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    weir_manifest_close(manifest);
    shop_store_close(&shop);
    free(store_bytes);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stored_seed_is_that_of_evaluation),
        cmocka_unit_test(test_what_is_not_a_seed_has_no_label),
        cmocka_unit_test(test_wrong_requests_are_refused),
        cmocka_unit_test(test_a_time_of_minus_two_to_the_63_is_refused),
        cmocka_unit_test(test_nothing_is_allocated_after_open),
        cmocka_unit_test(test_opening_survives_faults),
        cmocka_unit_test(test_a_damaged_store_never_leads_outside),
        cmocka_unit_test(test_what_walks_remember_changes_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
