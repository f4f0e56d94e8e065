/* What replaying and merging traces takes, whatever their records say of themselves: a trace of a few bytes
 * may have steps of any number of samples. */
#include <string.h>

#include "support/memory_env.h"
#include "support/testing.h"
#include "trace/record.h"

static void *resize_a_little(void *context, void *memory, size_t size) {
    return size > 1 << 20 ? NULL : ((memory_env *)context)->env.resize(context, memory, size);
}

static weir_manifest *manifest_with_batches_of(uint64_t batch_size) {
    char text[512];
    weir_error error;
    weir_manifest *manifest;
    snprintf(text, sizeof text,
             "{\"seed\": 1, \"global_batch_size\": %llu, \"datasets\": {\"a\": {\"id\": \"a\", \"version\": "
             "\"1\", \"hash\": \"%064d\", \"cardinality\": 1000000000000}}}",
             (unsigned long long)batch_size, 0);
    assert_ok(weir_manifest_read(NULL, text, strlen(text), "test", &manifest, &error), &error);
    return manifest;
}

/* A trace of one step, without its indices. */
static void record(const weir_env *env, const char *path, const weir_manifest *manifest, uint32_t world_size,
                   uint32_t rank) {
    weir_error error;
    weir_sampler *sampler;
    weir_trace_writer *writer;
    weir_step step;
    weir_sampler_options options = {
        .size = sizeof options, .dataset = "a", .world_size = world_size, .rank = rank};
    assert_ok(weir_sampler_open(NULL, manifest, &options, &sampler, &error), &error);
    assert_ok(weir_sampler_step(sampler, (weir_cursor){0, 0}, &step, &error), &error);
    weir_trace_run description = {.size = sizeof description,
                                  .manifest = manifest,
                                  .world_size = world_size,
                                  .rank = rank,
                                  .schedule = WEIR_SCHEDULE_CURSOR};
    assert_ok(weir_trace_create(env, path, &description, NULL, &writer, &error), &error);
    weir_trace_iter iter = {.dataset = "a", .step = &step};
    assert_ok(weir_trace_append(writer, &iter, &error), &error);
    assert_ok(weir_trace_finish(writer, &error), &error);
    weir_trace_writer_close(writer);
    weir_sampler_close(sampler);
}

/* Samples are made if the trace has their indices. */
static void replay_takes_memory_for_what_was_recorded(void **state) {
    weir_error error;
    weir_replay_report report;
    memory_env memory;
    (void)state;
    memory_env_init(&memory);
    weir_manifest *manifest = manifest_with_batches_of(1000000000);
    record(&memory.env, "large.trace", manifest, 1, 0);
    weir_env env = memory.env;
    env.resize = resize_a_little;
    assert_ok(weir_trace_replay(&env, "large.trace", NULL, &report, &error), &error);
    assert_int_equal(report.samples, 1000000000);
    weir_manifest_close(manifest);
    memory_env_close(&memory);
}

static void merge_makes_samples_a_piece_at_a_time(void **state) {
    static const char *const paths[] = {"large-0.trace", "large-1.trace"};
    weir_error error;
    weir_merge_report report;
    memory_env memory;
    (void)state;
    memory_env_init(&memory);
    weir_manifest *manifest = manifest_with_batches_of(400000);
    for (uint32_t rank = 0; rank < 2; rank++)
        record(&memory.env, paths[rank], manifest, 2, rank);
    weir_env env = memory.env;
    env.resize = resize_a_little;
    assert_ok(weir_trace_merge(&env, paths, 2, NULL, &report, &error), &error);
    assert_int_equal(report.samples, 400000);
    weir_manifest_close(manifest);
    memory_env_close(&memory);
}

static void merge_refuses_a_step_that_would_take_hours(void **state) {
    static const char *const paths[] = {"endless.trace"};
    weir_error error;
    weir_merge_report report;
    memory_env memory;
    (void)state;
    memory_env_init(&memory);
    weir_manifest *manifest = manifest_with_batches_of(100000000000);
    record(&memory.env, paths[0], manifest, 1, 0);
    assert_fails(weir_trace_merge(&memory.env, paths, 1, NULL, &report, &error), WEIR_CONTRACT_VIOLATION,
                 &error);
    assert_string_equal(error.message,
                        "endless.trace: step 0 has 100000000000 samples; at most 4294967296 are compared");
    weir_manifest_close(manifest);
    memory_env_close(&memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replay_takes_memory_for_what_was_recorded),
        cmocka_unit_test(merge_makes_samples_a_piece_at_a_time),
        cmocka_unit_test(merge_refuses_a_step_that_would_take_hours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
