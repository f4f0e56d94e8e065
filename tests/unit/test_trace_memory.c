/* What replaying a trace takes, whatever its records say of themselves. */
#include <string.h>

#include "support/memory_env.h"
#include "support/testing.h"
#include "trace/record.h"

static void *resize_a_little(void *context, void *memory, size_t size) {
    return size > 1 << 20 ? NULL : ((memory_env *)context)->env.resize(context, memory, size);
}

/* A trace of a few bytes may say that its steps have any number of samples: they are made if it has them. */
static void replay_takes_memory_for_what_was_recorded(void **state) {
    static const char text[] =
        "{\"seed\": 1, \"global_batch_size\": 1000000000, \"datasets\": {\"a\": {\"id\": \"a\", \"version\": "
        "\"1\", "
        "\"hash\": \"0000000000000000000000000000000000000000000000000000000000000000\", \"cardinality\": "
        "1000000000000}}}";
    weir_error error;
    weir_manifest *manifest;
    weir_sampler *sampler;
    weir_trace_writer *writer;
    weir_replay_report report;
    weir_step step;
    const char *path = "large.trace";
    memory_env memory;
    (void)state;
    memory_env_init(&memory);
    assert_ok(weir_manifest_read(NULL, text, strlen(text), "test", &manifest, &error), &error);
    weir_sampler_options options = {.size = sizeof options, .dataset = "a", .world_size = 1};
    assert_ok(weir_sampler_open(NULL, manifest, &options, &sampler, &error), &error);
    assert_ok(weir_sampler_step(sampler, (weir_cursor){0, 0}, &step, &error), &error);
    weir_trace_run description = {
        .size = sizeof description, .manifest = manifest, .world_size = 1, .schedule = WEIR_SCHEDULE_CURSOR};
    assert_ok(weir_trace_create(&memory.env, path, &description, NULL, &writer, &error), &error);
    weir_trace_iter iter = {.dataset = "a", .step = &step};
    assert_ok(weir_trace_append(writer, &iter, &error), &error);
    assert_ok(weir_trace_finish(writer, &error), &error);
    weir_trace_writer_close(writer);
    weir_env env = memory.env;
    env.resize = resize_a_little;
    assert_ok(weir_trace_replay(&env, path, NULL, &report, &error), &error);
    assert_int_equal(report.samples, 1000000000);
    weir_sampler_close(sampler);
    weir_manifest_close(manifest);
    memory_env_close(&memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replay_takes_memory_for_what_was_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
