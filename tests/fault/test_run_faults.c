/* Runs under faults: every allocation, mapping and thread of opening one fails, and every file operation of
 * saving its checkpoint; nothing leaks, the checkpoint that was there stands, and the next try works. */
#include <string.h>
#include <unistd.h>

#include "support/loading.h"

static char path[160];

/* One dataset, so that the sweep is short; the schedule of its mix all the same. */
static weir_manifest *manifest_of_one(unsigned batch_size) {
    char text[512], hex[2 * WEIR_HASH_SIZE + 1];
    weir_error error;
    weir_stored_dataset stored;
    assert_ok(weir_store_dataset(fixture.stores[0], "shop/churn/train", &stored, &error), &error);
    for (size_t i = 0; i < WEIR_HASH_SIZE; i++)
        snprintf(hex + 2 * i, 3, "%02x", stored.hash[i]);
    snprintf(
        text, sizeof text,
        "{\"global_batch_size\": %u, \"batch\": {\"sequence_length\": 24, \"max_rows\": 8}, \"datasets\": "
        "{\"shop/churn/train\": {\"id\": \"shop\", \"version\": \"1\", \"cardinality\": %llu, \"hash\": "
        "\"%s\"}}}",
        batch_size, (unsigned long long)stored.cardinality, hex);
    return manifest_of_text(text);
}

static weir_run_options options_of_one(void) {
    weir_run_options options = loading_options(&fixture, manifest);
    options.workers = 2;
    options.steps = 4;
    return options;
}

/* A run from beginning to end. */
static weir_status take_all(const weir_env *env, const weir_run_options *options, weir_error *error) {
    weir_run *run = NULL;
    weir_taken taken = {0};
    weir_status status = weir_run_open(env, options, &run, error);
    while (status == WEIR_OK) {
        status = weir_run_next(run, &taken, error);
        if (status != WEIR_OK || !taken.batch)
            break;
        status = weir_run_release(run, &taken, 0, error);
    }
    weir_run_close(run);
    return status;
}

static weir_status open_and_take(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    weir_run_options options = options_of_one();
    return take_all(env, &options, error);
}

static void test_opening(void **state) {
    (void)state;
    assert_true(sweep_faults(open_and_take, NULL, NULL) >= 340);
}

static weir_status plan_alone(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    weir_run_options options = options_of_one();
    weir_run *run = NULL;
    weir_status status = weir_run_open(env, &options, &run, error);
    weir_run_close(run);
    return status;
}

/* Batches that two workers and their helper build together. */
static weir_status share(const weir_env *env, void *context, weir_error *error) {
    weir_run_options options = loading_options(&fixture, context);
    options.workers = 3;
    options.steps = 2;
    options.buffer_size = options.queue_size = 1;
    return take_all(env, &options, error);
}

static void test_sharing(void **state) {
    (void)state;
    weir_manifest *large = manifest_of_one(128);
    assert_true(sweep_faults(share, NULL, large) > 100);
    weir_manifest_close(large);
}

static void test_planning(void **state) {
    (void)state;
    assert_true(sweep_faults(plan_alone, NULL, NULL) >= 240);
}

/* ---- Saving a checkpoint --------------------------------------------------------------------- */

/* The run is opened with the environment of the sweep, resumes from its checkpoint, and takes one batch;
 * faults of opening were swept above, and are met here again. */
static weir_status save_over(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    weir_run_options options = options_of_one();
    weir_run *run = NULL;
    weir_taken taken = {0};
    options.workers = 1;
    options.checkpoint = options.resume = path;
    weir_status status = weir_run_open(env, &options, &run, error);
    if (status == WEIR_OK)
        status = weir_run_next(run, &taken, error);
    if (status == WEIR_OK)
        status = weir_run_release(run, &taken, 0, error);
    if (status == WEIR_OK)
        status = weir_run_save(run, error);
    weir_run_close(run);
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
    assert_true(read.step <= 4);
    weir_run_options options = options_of_one();
    weir_run *run;
    options.state = data;
    options.state_size = size;
    assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
    assert_true(weir_run_step(run) == read.step);
    weir_run_close(run);
}

static void begin_anew(void *context) {
    (void)context;
    weir_error error;
    weir_run *run;
    weir_run_options options = options_of_one();
    options.checkpoint = path;
    remove(path);
    assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
    assert_ok(weir_run_start(run, &error), &error);
    weir_run_close(run);
}

static void check_and_begin_anew(void *context) {
    check_saved(context);
    begin_anew(context);
}

static void test_saving(void **state) {
    (void)state;
    snprintf(path, sizeof path, "%s/run.checkpoint", fixture.folder);
    begin_anew(NULL);
    size_t entries = count_entries(fixture.folder);
    assert_true(sweep_faults(save_over, check_and_begin_anew, NULL) >= 420);
    assert_int_equal(count_entries(fixture.folder), entries);
}

static int set_up(void **state) {
    (void)state;
    loading_open(&fixture);
    manifest = manifest_of_one(2);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opening),
        cmocka_unit_test(test_planning),
        cmocka_unit_test(test_sharing),
        cmocka_unit_test(test_saving),
    };
    return cmocka_run_group_tests(tests, set_up, loading_tear_down);
}
