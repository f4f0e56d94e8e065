/* Traces of runs: recorded, replayed with and without their stores, and found out where a digest is another.
 */
#include <string.h>

#include "support/loading.h"

enum { STEPS = 30 };

static loading fixture;
static weir_manifest *manifest;

static void record_run(const weir_loader_options *options, const char *path, bool with_indices) {
    weir_error error;
    weir_loader *loader;
    weir_trace_writer *writer;
    weir_trace_run run;
    weir_loaded loaded;
    assert_ok(weir_loader_open(NULL, options, &loader, &error), &error);
    weir_loader_describe(loader, &run);
    weir_trace_start start = {.step = options->first_step};
    assert_ok(weir_trace_create(NULL, path, &run, &start, &writer, &error), &error);
    for (;;) {
        assert_ok(weir_loader_next(loader, &loaded, &error), &error);
        if (!loaded.batch)
            break;
        assert_ok(weir_loader_record(loader, &loaded, with_indices, writer, &error), &error);
        weir_loader_release(loader, &loaded);
    }
    assert_ok(weir_trace_finish(writer, &error), &error);
    weir_trace_writer_close(writer);
    weir_loader_close(loader);
}

static void assert_replays(const char *path, const weir_loader_options *o, size_t stores, uint64_t steps,
                           uint64_t unchecked) {
    weir_error error;
    weir_replay_report report;
    weir_replay_options options = {.size = sizeof options, .stores = o->stores, .store_count = stores};
    assert_ok(weir_trace_replay(NULL, path, &options, &report, &error), &error);
    assert_int_equal(report.steps, steps);
    assert_int_equal(report.unchecked_digests, unchecked);
    assert_int_equal(report.checked_digests, steps - unchecked);
    assert_true(report.is_complete);
}

static void test_a_recorded_run_replays(void **state) {
    (void)state;
    char path[160];
    loading_batch whole[STEPS];
    uint64_t of_other = 0;
    weir_loader_options options = loading_options(&fixture, manifest);
    snprintf(path, sizeof path, "%s/replay.trace", fixture.folder);
    loading_build(&options, 0, STEPS, whole);
    for (size_t i = 0; i < STEPS; i++)
        of_other += whole[i].dataset[0] == 'o';
    options.steps = STEPS;
    options.workers = 2;
    for (int policy = 0; policy < 2; policy++) {
        options.policy = (weir_policy)policy;
        record_run(&options, path, policy == 0);
        assert_replays(path, &options, 2, STEPS, 0);
        assert_replays(path, &options, 1, STEPS, of_other);
        assert_replays(path, &options, 0, STEPS, STEPS);
        remove(path);
    }
    options.policy = WEIR_POLICY_STRICT;
    options.first_step = STEPS - 4;
    record_run(&options, path, true);
    assert_replays(path, &options, 2, 4, 0);
    remove(path);
    options.dataset = "shop/churn/val"; /* whose last batch is a partial one */
    options.stage = WEIR_STAGE_EVAL;
    options.first_step = options.steps = 0;
    options.world_size = 4;
    options.rank = 3;
    record_run(&options, path, true);
    assert_replays(path, &options, 1, (weir_manifest_find(manifest, options.dataset)->cardinality + 7) / 8,
                   0);
    remove(path);
}

static void test_a_digest_that_is_another(void **state) {
    (void)state;
    char path[160];
    weir_error error;
    weir_loader *loader;
    weir_trace_writer *writer;
    weir_trace_run run;
    weir_loaded loaded;
    weir_replay_report report;
    weir_loader_options options = loading_options(&fixture, manifest);
    weir_replay_options replay = {.size = sizeof replay, .stores = options.stores, .store_count = 2};
    snprintf(path, sizeof path, "%s/other.trace", fixture.folder);
    for (int field = 0; field < 3; field++) {
        assert_ok(weir_loader_open(NULL, &options, &loader, &error), &error);
        weir_loader_describe(loader, &run);
        assert_ok(weir_trace_create(NULL, path, &run, NULL, &writer, &error), &error);
        assert_ok(weir_loader_next(loader, &loaded, &error), &error);
        assert_ok(weir_loader_record(loader, &loaded, false, writer, &error), &error);
        weir_loader_release(loader, &loaded);
        assert_ok(weir_loader_next(loader, &loaded, &error), &error);
        const weir_batch *batch = loaded.batch;
        uint8_t digest[16];
        uint64_t samples[8];
        memcpy(digest, batch->batch_digest, sizeof digest);
        memcpy(samples, batch->sample_digests, (size_t)batch->step.valid_count * sizeof *samples);
        digest[3] ^= field == 1;
        samples[1] ^= field == 2;
        weir_trace_iter iter = {.t = 1,
                                .dataset = loaded.dataset->key,
                                .step = &batch->step,
                                .batch_digest = digest,
                                .sample_digests = samples};
        assert_ok(weir_trace_append(writer, &iter, &error), &error);
        weir_loader_release(loader, &loaded);
        assert_ok(weir_trace_finish(writer, &error), &error);
        weir_trace_writer_close(writer);
        weir_loader_close(loader);
        weir_status status = weir_trace_replay(NULL, path, &replay, &report, &error);
        assert_fails(status, field ? WEIR_REPLAY_DIVERGENCE : WEIR_OK, &error);
        if (field) {
            assert_int_equal(error.t, 1);
            assert_string_equal(diagnostic_of_field(&error), field == 1 ? "batch_digest" : "sample_digests");
        }
        remove(path);
    }
}

static void test_replay_wants_the_stores_of_the_trace(void **state) {
    (void)state;
    char path[160];
    weir_error error;
    weir_replay_report report;
    weir_loader_options options = loading_options(&fixture, manifest);
    weir_replay_options replay = {.size = sizeof replay, .stores = options.stores, .store_count = 2};
    snprintf(path, sizeof path, "%s/stores.trace", fixture.folder);
    options.dataset = "shop/churn/train";
    options.steps = 3;
    record_run(&options, path, false);
    assert_fails(weir_trace_replay(NULL, path, &replay, &report, &error), WEIR_CHECKPOINT_MISMATCH, &error);
    replay.store_count = 1;
    assert_ok(weir_trace_replay(NULL, path, &replay, &report, &error), &error);
    assert_int_equal(report.checked_digests, 3);
    remove(path);
}

static int set_up(void **state) {
    (void)state;
    loading_open(&fixture);
    manifest = loading_manifest(&fixture, SMALL_BATCHES);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    weir_manifest_close(manifest);
    loading_close(&fixture);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_recorded_run_replays),
        cmocka_unit_test(test_a_digest_that_is_another),
        cmocka_unit_test(test_replay_wants_the_stores_of_the_trace),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
