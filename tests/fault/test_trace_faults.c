/* The trace under faults: every allocation and file operation fails once and from then on; what is left is
 * a trace of whole steps that a resume can go on with, or the one that was there before. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "support/testing.h"

enum { STEPS = 5 };

static char folder[] = "/tmp/weir-trace-faults-XXXXXX";
static char path[128];

static weir_manifest *manifest;
static weir_sampler *sampler;

static const weir_trace_run *description(void) {
    static weir_trace_run run;
    run = (weir_trace_run){.size = sizeof run, .manifest = manifest, .world_size = 1};
    return &run;
}

static weir_status append_steps(weir_trace_writer *writer, uint64_t first, uint64_t end, weir_error *error) {
    for (uint64_t t = first; t < end; t++) {
        weir_step step;
        uint64_t indices[4];
        assert_ok(weir_sampler_step(sampler, (weir_cursor){0, 4 * t}, &step, error), error);
        weir_sampler_indices(sampler, &step, indices);
        static const uint64_t digests[64];
        weir_trace_iter iter = {
            .t = t, .dataset = "a", .step = &step, .indices = indices, .sample_digests = digests};
        weir_status status = weir_trace_append(writer, &iter, error);
        if (status != WEIR_OK)
            return status;
    }
    return WEIR_OK;
}

/* What stands after a step in a trace that commits the memory of its run: here a plan without arenas. */
static void append_memory(weir_trace_writer *writer, uint64_t t) {
    static const uint8_t plan[WEIR_HASH_SIZE] = {7};
    uint8_t bytes[2][128], hashes[2][WEIR_HASH_SIZE];
    weir_cbor_writer state, commit;
    weir_error error;
    weir_cbor_writer_fixed(&state, bytes[0], sizeof bytes[0]);
    weir_cbor_map(&state, 5);
    weir_cbor_pair_uint(&state, "batch", t);
    weir_cbor_text(&state, "arenas");
    weir_cbor_map(&state, 0);
    weir_cbor_pair_text(&state, "format", "weir-commit/1");
    weir_cbor_pair_uint(&state, "position", 1);
    weir_cbor_pair_bytes(&state, "plan_hash", plan, sizeof plan);
    weir_cbor_writer_fixed(&commit, bytes[1], sizeof bytes[1]);
    weir_cbor_array(&commit, 3);
    weir_cbor_text(&commit, "tmmu_commit_v1");
    weir_cbor_bytes(&commit, plan, sizeof plan);
    weir_cbor_uint(&commit, t);
    weir__sha256_of(state.data, state.size, hashes[0]);
    weir__sha256_of(commit.data, commit.size, hashes[1]);
    weir_trace_memory memory = {.t = t,
                                .state = state.data,
                                .state_size = state.size,
                                .state_hash = hashes[1],
                                .visibility_hash = hashes[0]};
    assert_ok(weir_trace_append_memory(writer, &memory, &error), &error);
}

static weir_status write_whole(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    weir_trace_writer *writer;
    unlink(path);
    weir_status status = weir_trace_create(env, path, description(), NULL, &writer, error);
    if (status != WEIR_OK)
        return status;
    status = append_steps(writer, 0, STEPS, error);
    if (status == WEIR_OK)
        status = weir_trace_finish(writer, error);
    weir_trace_writer_close(writer);
    return status;
}

/* Whatever is left can be read as far as it goes. */
static void check_left_behind(void *context) {
    (void)context;
    weir_error error;
    weir_trace_reader *reader;
    weir_trace_record record;
    if (access(path, F_OK) != 0)
        return;
    assert_ok(weir_trace_open(NULL, path, &reader, &error), &error);
    for (uint64_t t = 0;
         weir_trace_next(reader, &record, &error) == WEIR_OK && record.kind == WEIR_TRACE_ITER; t++)
        assert_int_equal(record.t, t);
    weir_trace_close(reader);
}

static void test_writing(void **state) {
    (void)state;
    assert_true(sweep_faults(write_whole, check_left_behind, NULL) >= 68);
}

static weir_status resume_half(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    weir_trace_writer *writer;
    uint8_t hash[WEIR_HASH_SIZE] = {1};
    weir_error ignored;
    assert_ok(write_whole(NULL, NULL, &ignored), &ignored);
    weir_status status = weir_trace_resume(env, path, description(), 3, hash, &writer, error);
    if (status != WEIR_OK)
        return status;
    status = append_steps(writer, 3, STEPS, error);
    if (status == WEIR_OK)
        status = weir_trace_finish(writer, error);
    weir_trace_writer_close(writer);
    return status;
}

/* After a fault the steps before the checkpoint are still there: another resume succeeds. */
static void check_resumable(void *context) {
    (void)context;
    weir_error error;
    weir_trace_writer *writer;
    weir_replay_report report;
    uint8_t hash[WEIR_HASH_SIZE] = {1};
    assert_ok(weir_trace_resume(NULL, path, description(), 3, hash, &writer, &error), &error);
    assert_ok(append_steps(writer, 3, STEPS, &error), &error);
    assert_ok(weir_trace_finish(writer, &error), &error);
    weir_trace_writer_close(writer);
    assert_ok(weir_trace_replay(NULL, path, NULL, &report, &error), &error);
    assert_int_equal(report.steps, STEPS);
}

static void test_resuming(void **state) {
    (void)state;
    assert_true(sweep_faults(resume_half, check_resumable, NULL) >= 170);
}

/* A trace that cannot be cut is the one that was there before. */
static void test_a_cut_that_fails(void **state) {
    (void)state;
    fault_env faults;
    weir_error error;
    weir_trace_writer *writer;
    weir_replay_report report;
    uint8_t hash[WEIR_HASH_SIZE] = {1};
    assert_ok(write_whole(NULL, NULL, &error), &error);
    fault_env_init(&faults);
    faults.kind = FAULT_TRUNCATE;
    faults.fail_at = 1;
    assert_fails(weir_trace_resume(&faults.env, path, description(), 3, hash, &writer, &error), WEIR_IO_ERROR,
                 &error);
    assert_ok(weir_trace_replay(NULL, path, NULL, &report, &error), &error);
    assert_int_equal(report.steps, STEPS);
    assert_true(report.is_complete);
}

static weir_status replay_and_merge(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    weir_replay_report report;
    weir_merge_report merged;
    weir_trace_difference difference;
    const char *paths[] = {path};
    weir_merge_options merging = {.size = sizeof merging, .single = path};
    weir_status status = weir_trace_replay(env, path, NULL, &report, error);
    if (status == WEIR_OK)
        status = weir_trace_merge(env, paths, 1, &merging, &merged, error);
    if (status == WEIR_OK)
        status = weir_trace_diff(env, path, path, &difference, error);
    return status;
}

static void test_judging(void **state) {
    (void)state;
    weir_error error;
    assert_ok(write_whole(NULL, NULL, &error), &error);
    assert_true(sweep_faults(replay_and_merge, NULL, NULL) >= 840);
}

static weir_status replay_memory(const weir_env *env, void *context, weir_error *error) {
    weir_replay_report report;
    (void)context;
    return weir_trace_replay(env, path, NULL, &report, error);
}

/* No allocation that fails is passed over: what is not kept of a step's memory could not be compared with. */
static void test_judging_memory(void **state) {
    (void)state;
    weir_error error;
    weir_trace_writer *writer;
    weir_replay_report report;
    unlink(path);
    assert_ok(weir_trace_create(NULL, path, description(), NULL, &writer, &error), &error);
    for (uint64_t t = 0; t < STEPS; t++) {
        assert_ok(append_steps(writer, t, t + 1, &error), &error);
        append_memory(writer, t);
    }
    assert_ok(weir_trace_finish(writer, &error), &error);
    weir_trace_writer_close(writer);
    assert_ok(weir_trace_replay(NULL, path, NULL, &report, &error), &error);
    assert_int_equal(report.memory_records, STEPS);
    for (uint64_t fail_at = 1;; fail_at++) {
        fault_env faults;
        fault_env_init(&faults);
        faults.kind = FAULT_MEMORY;
        faults.fail_at = fail_at;
        weir_status status = replay_memory(&faults.env, NULL, &error);
        if (faults.calls[FAULT_MEMORY] < fail_at)
            break;
        assert_int_equal(status, WEIR_OUT_OF_MEMORY);
    }
    assert_true(sweep_faults(replay_memory, NULL, NULL) > 0);
}

static int set_up(void **state) {
    (void)state;
    static const char text[] = "{\"global_batch_size\": 4, \"datasets\": {\"a\": {\"id\": \"a\", "
                               "\"version\": \"1\", \"cardinality\": 100, \"hash\": "
                               "\"0000000000000000000000000000000000000000000000000000000000000000\"}}}";
    weir_sampler_options options = {.size = sizeof options, .dataset = "a", .world_size = 1};
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/a.trace", folder);
    if (weir_manifest_read(NULL, text, strlen(text), "test", &manifest, NULL) != WEIR_OK)
        return -1;
    return weir_sampler_open(NULL, manifest, &options, &sampler, NULL) == WEIR_OK ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    char command[200];
    weir_sampler_close(sampler);
    weir_manifest_close(manifest);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writing),          cmocka_unit_test(test_resuming),
        cmocka_unit_test(test_a_cut_that_fails), cmocka_unit_test(test_judging),
        cmocka_unit_test(test_judging_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
