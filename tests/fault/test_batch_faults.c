/* The batch builder under faults: every allocation and mapping of its opening fails, once and from then on;
 * nothing leaks, and the next try works. */
#include "support/database.h"

static char folder[64];
static weir_store *store;
static weir_manifest *manifest;

static weir_status open_and_build(const weir_env *env, void *context, weir_error *error) {
    weir_batch_builder *builder = NULL;
    weir_batch_buffer *buffer = NULL;
    weir_batch_options options = {.size = sizeof options,
                                  .store = store,
                                  .manifest = manifest,
                                  .dataset = context,
                                  .world_size = 1,
                                  .any_hash = true,
                                  .with_digests = true};
    weir_status status = weir_batch_builder_open(env, &options, &builder, error);
    if (status == WEIR_OK)
        status = weir_batch_buffer_open(&builder, 1, NULL, &buffer, error);
    if (status == WEIR_OK)
        status = weir_batch_build(builder, (weir_cursor){0, 0}, buffer, error);
    weir_batch_buffer_close(buffer);
    weir_batch_builder_close(builder);
    return status;
}

static void test_opening(void **state) {
    (void)state;
    char dataset[] = "shop/churn/train";
    assert_true(sweep_faults(open_and_build, NULL, dataset) >= 24);
}

static void test_opening_mixed(void **state) {
    (void)state;
    char mix[] = WEIR_MIX_KEY;
    assert_true(sweep_faults(open_and_build, NULL, mix) >= 48);
}

static int set_up(void **state) {
    (void)state;
    char source[160], path[160], text[1024];
    weir_error error;
    weir_ingest_report report;
    weir_stored_dataset stored, other;
    make_folder(folder);
    make_shop(folder, source);
    path_in(folder, "shop.weir", path);
    assert_ok(ingest_shop(NULL, source, path, 1, &report, &error), &error);
    assert_ok(weir_store_open(NULL, path, &store, &error), &error);
    assert_ok(weir_store_dataset(store, "shop/churn/train", &stored, &error), &error);
    assert_ok(weir_store_dataset(store, "shop/rating/train", &other, &error), &error);
    snprintf(text, sizeof text,
             "{\"global_batch_size\": 3, \"data\": {\"epoch_boundary\": \"stream\"}, "
             "\"batch\": {\"sequence_length\": 64, \"row_order\": \"best\", \"mixed\": true}, "
             "\"mix\": {\"shop/churn/train\": 1, \"shop/rating/train\": 2}, \"datasets\": {"
             "\"shop/churn/train\": {\"id\": \"shop\", \"version\": \"1\", \"cardinality\": %llu, \"hash\": "
             "\"0000000000000000000000000000000000000000000000000000000000000000\"}, "
             "\"shop/rating/train\": {\"id\": \"shop\", \"version\": \"1\", \"cardinality\": %llu, \"hash\": "
             "\"0000000000000000000000000000000000000000000000000000000000000000\"}}}",
             (unsigned long long)stored.cardinality, (unsigned long long)other.cardinality);
    assert_ok(weir_manifest_read(NULL, text, strlen(text), "test", &manifest, &error), &error);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    weir_manifest_close(manifest);
    weir_store_close(store);
    remove_folder(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_opening), cmocka_unit_test(test_opening_mixed)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
