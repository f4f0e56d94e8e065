/* Traces of runs: recorded, replayed with and without their stores, and found out where a digest is another.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/loading.h"

enum { STEPS = 30 };

static void record_run(const weir_run_options *base, const char *path, bool with_indices) {
    static loading_batch taken[STEPS + 1];
    weir_run_options options = *base;
    options.trace = path;
    options.trace_indices = with_indices;
    assert_in_range(loading_run(&options, STEPS + 1, taken), 1, STEPS);
}

static void assert_replays(const char *path, const weir_run_options *o, size_t stores, uint64_t steps,
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
    weir_run_options options = loading_options(&fixture, manifest);
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
    snprintf(path, sizeof path, "%s/replay.trace.rank3", fixture.folder);
    assert_replays(path, &options, 1, (weir_manifest_find(manifest, options.dataset)->cardinality + 7) / 8,
                   0);
    remove(path);
}

static void test_a_padded_batch_is_checked_by_its_samples(void **state) {
    (void)state;
    char path[160];
    weir_error error;
    weir_replay_report report;
    weir_run_options options = loading_options(&fixture, manifest);
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

/* Takes `count` batches into a trace that resumes from a state, or begins; leaves the next state. */
static void sit(const weir_run_options *base, const char *path, size_t count, uint8_t **from, size_t *size) {
    weir_error error;
    weir_run *run;
    weir_taken taken;
    weir_run_options options = *base;
    options.state = *from;
    options.state_size = *size;
    options.trace = path;
    assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
    free(*from);
    *from = NULL;
    for (size_t i = 0; i < count; i++) {
        if (i == count / 2) /* the other half is made anew */
            *from = loading_checkpoint(run, size);
        assert_ok(weir_run_next(run, &taken, &error), &error);
        assert_ok(weir_run_release(run, &taken, 0, &error), &error);
    }
    assert_ok(weir_run_stop(run, &error), &error);
    weir_run_close(run);
}

static void list_steps(const char *path, uint64_t *steps, size_t *count, size_t *resumes) {
    weir_error error;
    weir_trace_reader *reader;
    weir_trace_record record;
    *count = *resumes = 0;
    assert_ok(weir_trace_open(NULL, path, &reader, &error), &error);
    for (;;) {
        assert_ok(weir_trace_next(reader, &record, &error), &error);
        if (record.kind == WEIR_TRACE_EOF)
            break;
        *resumes += record.kind == WEIR_TRACE_RESUME;
        if (record.kind != WEIR_TRACE_ITER)
            continue;
        steps[(*count)++] = record.t;
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
            weir_run_options options = loading_options(&fixture, manifest);
            uint64_t steps[SITTING * SITTINGS];
            size_t size = 0, count, resumes;
            uint8_t *checkpoint = NULL;
            options.policy = (weir_policy)policy;
            options.workers = 3;
            options.steps = 1000;
            if (late)
                sit(&options, path, SITTING, &checkpoint, &size);
            remove(path);
            uint64_t first = late ? SITTING / 2 : 0;
            for (int i = 0; i < SITTINGS; i++)
                sit(&options, path, SITTING, &checkpoint, &size);
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

/* ---- Children of fork ---------------------------------------------------------------------------- */

/* Its run and its files are the parent's: it can neither take nor save, and ends without writing. */
static int be_a_child(weir_run *run, int until) {
    char byte;
    weir_taken taken;
    bool is_refused = weir_run_next(run, &taken, NULL) == WEIR_CONTRACT_VIOLATION &&
                      weir_run_save(run, NULL) == WEIR_CONTRACT_VIOLATION;
    ssize_t size = read(until, &byte, 1);
    bool is_stopped = weir_run_stop(run, NULL) == WEIR_OK;
    weir_run_close(run);
    return size == 0 && is_refused && is_stopped ? 0 : 1;
}

/* A child that lives on does not keep the trace from being resumed. */
static void test_a_child_of_fork_leaves_the_trace(void **state) {
    (void)state;
    if (getenv("WEIR_TEST_EMULATED")) { /* qemu-user 7.2 wipes pages on fork, but not always */
        print_message("skipped: the emulator does not tell a child from its parent\n");
        skip();
    }
    for (int on_device = 0; on_device < 2; on_device++) {
        char path[160];
        int ends[2], status;
        weir_error error;
        weir_run *run;
        loading_batch batches[STEPS];
        weir_run_options options = loading_options(&fixture, manifest);
        snprintf(path, sizeof path, "%s/forked.trace", fixture.folder);
        options.trace = path;
        options.steps = STEPS;
        options.device = on_device ? "host" : NULL;
        assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
        assert_int_equal(loading_take(run, 4, batches), 4);
        assert_int_equal(pipe(ends), 0);
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            close(ends[1]);
            _exit(be_a_child(run, ends[0]));
        }
        close(ends[0]);
        size_t size;
        uint8_t *from = loading_checkpoint(run, &size);
        assert_ok(weir_run_stop(run, &error), &error);
        weir_run_close(run);
        options.state = from;
        options.state_size = size;
        assert_int_equal(loading_run(&options, STEPS, batches), STEPS - 4);
        close(ends[1]);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_replays(path, &options, 2, STEPS, 0);
        remove(path);
        free(from);
    }
}

/* A trace of the run's first two steps, written by hand: what is in it is up to the test. */
static weir_trace_writer *begin_trace(const char *path) {
    weir_error error;
    weir_trace_writer *writer;
    uint8_t hashes[2][WEIR_HASH_SIZE];
    for (size_t i = 0; i < 2; i++)
        memcpy(hashes[i], weir_store_describe(fixture.stores[i])->store_hash, WEIR_HASH_SIZE);
    if (memcmp(hashes[0], hashes[1], WEIR_HASH_SIZE) > 0)
        for (size_t i = 0; i < 2; i++)
            memcpy(hashes[i], weir_store_describe(fixture.stores[1 - i])->store_hash, WEIR_HASH_SIZE);
    weir_trace_run run = {.size = sizeof run,
                          .manifest = manifest,
                          .world_size = 1,
                          .schedule = WEIR_SCHEDULE_MIX,
                          .store_hashes = (const uint8_t(*)[WEIR_HASH_SIZE])hashes,
                          .store_count = 2};
    run.build = weir_build_info(&run.build_count);
    assert_ok(weir_trace_create(NULL, path, &run, NULL, &writer, &error), &error);
    return writer;
}

static void test_a_digest_that_is_another(void **state) {
    (void)state;
    char path[160];
    weir_error error;
    weir_run *run;
    weir_taken taken;
    weir_replay_report report;
    weir_run_options options = loading_options(&fixture, manifest);
    weir_replay_options replay = {.size = sizeof replay, .stores = options.stores, .store_count = 2};
    snprintf(path, sizeof path, "%s/other.trace", fixture.folder);
    for (int field = 0; field < 3; field++) {
        weir_trace_writer *writer = begin_trace(path);
        assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
        for (uint64_t t = 0; t < 2; t++) {
            uint8_t digest[16];
            uint64_t samples[8];
            assert_ok(weir_run_next(run, &taken, &error), &error);
            const weir_batch *batch = taken.batch;
            memcpy(digest, batch->batch_digest, sizeof digest);
            memcpy(samples, batch->sample_digests, (size_t)batch->step.valid_count * sizeof *samples);
            digest[3] ^= t == 1 && field == 1;
            samples[1] ^= t == 1 && field == 2;
            weir_trace_iter iter = {.t = t,
                                    .dataset = taken.dataset->key,
                                    .step = &batch->step,
                                    .batch_digest = digest,
                                    .sample_digests = samples};
            assert_ok(weir_trace_append(writer, &iter, &error), &error);
            assert_ok(weir_run_release(run, &taken, 0, &error), &error);
        }
        assert_ok(weir_trace_finish(writer, &error), &error);
        weir_trace_writer_close(writer);
        weir_run_close(run);
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
    weir_run_options options = loading_options(&fixture, manifest);
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

/* Another run makes its files while this one begins: after it looked for them, and before it makes its own.
 */
static const char *made_meanwhile;

static int start_thread_late(void *context, void *(*run)(void *), void *argument, uintptr_t *thread) {
    if (made_meanwhile) {
        FILE *file = fopen(made_meanwhile, "wx");
        assert_non_null(file);
        fputs("another run's", file);
        fclose(file);
        made_meanwhile = NULL;
    }
    return weir_env_default()->start_thread(context, run, argument, thread);
}

static void test_of_two_runs_that_begin_at_once_one_has_the_files(void **state) {
    (void)state;
    char paths[2][160];
    weir_env env = *weir_env_default();
    weir_run_options options = loading_options(&fixture, manifest);
    snprintf(paths[0], sizeof paths[0], "%s/once.checkpoint", fixture.folder);
    snprintf(paths[1], sizeof paths[1], "%s/once.trace", fixture.folder);
    env.start_thread = start_thread_late;
    options.checkpoint = paths[0];
    options.trace = paths[1];
    for (int i = 0; i < 2; i++) {
        weir_error error;
        weir_run *run;
        char found[32] = "";
        made_meanwhile = paths[i];
        assert_ok(weir_run_open(&env, &options, &run, &error), &error);
        assert_fails(weir_run_start(run, &error), WEIR_IO_ERROR, &error);
        assert_non_null(strstr(error.message, "exists already"));
        weir_run_close(run);
        assert_null(made_meanwhile);
        FILE *file = fopen(paths[i], "r");
        assert_non_null(file);
        assert_non_null(fgets(found, sizeof found, file));
        fclose(file);
        assert_string_equal(found, "another run's");
        assert_int_not_equal(access(paths[1 - i], F_OK), 0);
        remove(paths[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_recorded_run_replays),
        cmocka_unit_test(test_a_padded_batch_is_checked_by_its_samples),
        cmocka_unit_test(test_a_trace_goes_on_under_both_policies),
        cmocka_unit_test(test_a_child_of_fork_leaves_the_trace),
        cmocka_unit_test(test_a_digest_that_is_another),
        cmocka_unit_test(test_replay_wants_the_stores_of_the_trace),
        cmocka_unit_test(test_of_two_runs_that_begin_at_once_one_has_the_files),
    };
    return cmocka_run_group_tests(tests, loading_set_up, loading_tear_down);
}
