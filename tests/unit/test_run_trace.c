/* Traces of runs: recorded, replayed with and without their stores, and found out where a digest is another.
 */
#include <stdlib.h>
#include <string.h>

#include "support/loading.h"

enum { STEPS = 30 };

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

static void test_a_padded_batch_is_checked_by_its_samples(void **state) {
    (void)state;
    char path[160];
    weir_error error;
    weir_replay_report report;
    weir_loader_options options = loading_options(&fixture, manifest);
    weir_replay_options replay = {.size = sizeof replay, .stores = options.stores, .store_count = 1};
    snprintf(path, sizeof path, "%s/padded.trace", fixture.folder);
    options.dataset = "shop/churn/val"; /* whose last batch is a partial one */
    options.stage = WEIR_STAGE_EVAL;
    options.pad = true;
    record_run(&options, path, true);
    assert_ok(weir_trace_replay(NULL, path, &replay, &report, &error), &error);
    assert_int_equal(report.checked_digests, report.steps - 1);
    assert_int_equal(report.unchecked_digests, 0);
    remove(path);
}

/* Takes `count` batches into a trace that goes on from a checkpoint, or begins; leaves the next checkpoint.
 */
static void sit(const weir_loader_options *base, const char *path, size_t count, uint8_t **checkpoint,
                size_t *size, bool is_new) {
    weir_error error;
    weir_loader *loader;
    weir_trace_writer *writer;
    weir_trace_run run;
    weir_checkpoint from;
    weir_loaded loaded;
    weir_loader_options options = *base;
    options.checkpoint = *checkpoint;
    options.checkpoint_size = *size;
    assert_ok(weir_loader_open(NULL, &options, &loader, &error), &error);
    weir_loader_describe(loader, &run);
    if (*checkpoint)
        assert_ok(weir_checkpoint_read(*checkpoint, *size, &from, &error), &error);
    weir_trace_start start = {*checkpoint ? from.step : 0, *checkpoint ? from.hash : NULL};
    if (is_new)
        assert_ok(weir_trace_create(NULL, path, &run, &start, &writer, &error), &error);
    else
        assert_ok(weir_trace_resume(NULL, path, &run, from.step, from.hash, &writer, &error), &error);
    free(*checkpoint);
    *checkpoint = NULL;
    for (size_t i = 0; i < count; i++) {
        if (i == count / 2) /* the other half is made anew */
            *checkpoint = loading_checkpoint(loader, size);
        assert_ok(weir_loader_next(loader, &loaded, &error), &error);
        assert_ok(weir_loader_record(loader, &loaded, false, writer, &error), &error);
        weir_loader_release(loader, &loaded);
    }
    assert_ok(weir_trace_sync(writer, &error), &error);
    weir_trace_writer_close(writer);
    weir_loader_close(loader);
}

static void list_steps(const char *path, uint64_t *steps, size_t *count, size_t *resumes) {
    weir_error error;
    weir_trace_reader *reader;
    weir_trace_record record;
    weir_cbor_value t;
    *count = *resumes = 0;
    assert_ok(weir_trace_open(NULL, path, &reader, &error), &error);
    for (;;) {
        assert_ok(weir_trace_next(reader, &record, &error), &error);
        if (record.kind == WEIR_TRACE_EOF)
            break;
        *resumes += record.kind == WEIR_TRACE_RESUME;
        if (record.kind != WEIR_TRACE_ITER)
            continue;
        assert_true(weir_cbor_get(&record.map, "t", &t));
        steps[(*count)++] = t.number;
    }
    weir_trace_close(reader);
}

/* Each sitting is cut back to its half: also where steps come in any order, none is lost or there twice. */
static void test_a_trace_goes_on_under_both_policies(void **state) {
    (void)state;
    enum { SITTING = 10, SITTINGS = 5 };
    char path[160];
    snprintf(path, sizeof path, "%s/sittings.trace", fixture.folder);
    for (int policy = 0; policy < 2; policy++)
        for (int late = 0; late < 2; late++) {
            weir_loader_options options = loading_options(&fixture, manifest);
            uint64_t steps[SITTING * SITTINGS];
            size_t size = 0, count, resumes;
            uint8_t *checkpoint = NULL;
            options.policy = (weir_policy)policy;
            options.workers = 3;
            options.steps = 1000;
            if (late)
                sit(&options, path, SITTING, &checkpoint, &size, true);
            remove(path);
            uint64_t first = late ? SITTING / 2 : 0;
            for (int i = 0; i < SITTINGS; i++)
                sit(&options, path, SITTING, &checkpoint, &size, i == 0);
            free(checkpoint);
            list_steps(path, steps, &count, &resumes);
            assert_int_equal(count, SITTING / 2 * (SITTINGS - 1) + SITTING);
            assert_int_equal(resumes, SITTINGS - 1 + late);
            for (size_t i = 0; i < count; i++)
                for (size_t k = 0; k < i; k++)
                    assert_true(steps[k] != steps[i]);
            for (size_t i = 0; policy == WEIR_POLICY_STRICT && i < count; i++)
                assert_int_equal(steps[i], first + i);
            remove(path);
        }
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_recorded_run_replays),
        cmocka_unit_test(test_a_padded_batch_is_checked_by_its_samples),
        cmocka_unit_test(test_a_trace_goes_on_under_both_policies),
        cmocka_unit_test(test_a_digest_that_is_another),
        cmocka_unit_test(test_replay_wants_the_stores_of_the_trace),
    };
    return cmocka_run_group_tests(tests, loading_set_up, loading_tear_down);
}
