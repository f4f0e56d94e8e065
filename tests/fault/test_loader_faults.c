/* Runs under faults: every allocation, mapping and thread of opening one fails, and every file operation of
 * saving its checkpoint; nothing leaks, the checkpoint that was there stands, and the next try works. */
#include <string.h>
#include <unistd.h>

#include "support/loading.h"

static char path[160];

/* One dataset, so that the sweep is short; the schedule of its mix all the same. */
static weir_manifest *manifest_of_one(void) {
    char text[512], hex[2 * WEIR_HASH_SIZE + 1];
    weir_error error;
    weir_stored_dataset stored;
    assert_ok(weir_store_dataset(fixture.stores[0], "shop/churn/train", &stored, &error), &error);
    for (size_t i = 0; i < WEIR_HASH_SIZE; i++)
        snprintf(hex + 2 * i, 3, "%02x", stored.hash[i]);
    snprintf(
        text, sizeof text,
        "{\"global_batch_size\": 2, \"batch\": {\"sequence_length\": 24, \"max_rows\": 8}, \"datasets\": "
        "{\"shop/churn/train\": {\"id\": \"shop\", \"version\": \"1\", \"cardinality\": %llu, \"hash\": "
        "\"%s\"}}}",
        (unsigned long long)stored.cardinality, hex);
    return manifest_of_text(text);
}

static weir_loader_options options_of_one(void) {
    weir_loader_options options = loading_options(&fixture, manifest);
    options.workers = 2;
    options.steps = 4;
    return options;
}

static weir_status open_and_take(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    weir_loader_options options = options_of_one();
    weir_loader *loader = NULL;
    weir_loaded loaded = {0};
    weir_status status = weir_loader_open(env, &options, &loader, error);
    while (status == WEIR_OK) {
        status = weir_loader_next(loader, &loaded, error);
        if (status != WEIR_OK || !loaded.batch)
            break;
        weir_loader_release(loader, &loaded);
    }
    weir_loader_close(loader);
    return status;
}

static void test_opening(void **state) {
    (void)state;
    assert_true(sweep_faults(open_and_take, NULL, NULL) > 100);
}

static weir_status plan_alone(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    weir_loader_options options = options_of_one();
    weir_plan *plan = NULL;
    weir_status status = weir_loader_plan(env, &options, &plan, error);
    weir_plan_close(plan);
    return status;
}

static void test_planning(void **state) {
    (void)state;
    assert_true(sweep_faults(plan_alone, NULL, NULL) > 50);
}

/* ---- Saving a checkpoint --------------------------------------------------------------------- */

/* The loader is opened with the environment of the sweep, and takes one batch; faults of opening were swept
 * above, and are met here again. */
static weir_status save_over(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    weir_loader_options options = options_of_one();
    weir_loader *loader = NULL;
    weir_loaded loaded = {0};
    options.workers = 1;
    weir_status status = weir_loader_open(env, &options, &loader, error);
    if (status == WEIR_OK)
        status = weir_loader_next(loader, &loaded, error);
    if (status == WEIR_OK) {
        weir_loader_release(loader, &loaded);
        status = weir_loader_checkpoint_save(loader, path, NULL, error);
    }
    weir_loader_close(loader);
    return status;
}

/* There is a whole checkpoint, the old one or the new, and nothing beside it that was not there. */
static void check_saved(void *context) {
    (void)context;
    weir_error error;
    weir_checkpoint read;
    uint8_t data[4096];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    assert_ok(weir_checkpoint_read(data, size, &read, &error), &error);
    assert_true(read.step <= 1);
    weir_loader_options options = options_of_one();
    weir_loader *loader;
    options.checkpoint = data;
    options.checkpoint_size = size;
    assert_ok(weir_loader_open(NULL, &options, &loader, &error), &error);
    assert_true(weir_loader_step(loader) == read.step);
    weir_loader_close(loader);
}

static void test_saving(void **state) {
    (void)state;
    weir_error error;
    weir_loader *loader;
    weir_loader_options options = options_of_one();
    snprintf(path, sizeof path, "%s/run.checkpoint", fixture.folder);
    assert_ok(weir_loader_open(NULL, &options, &loader, &error), &error);
    assert_ok(weir_loader_checkpoint_save(loader, path, NULL, &error), &error);
    weir_loader_close(loader);
    size_t entries = count_entries(fixture.folder);
    assert_true(sweep_faults(save_over, check_saved, NULL) > 50);
    assert_int_equal(count_entries(fixture.folder), entries);
}

static int set_up(void **state) {
    (void)state;
    loading_open(&fixture);
    manifest = manifest_of_one();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opening),
        cmocka_unit_test(test_planning),
        cmocka_unit_test(test_saving),
    };
    return cmocka_run_group_tests(tests, set_up, loading_tear_down);
}
