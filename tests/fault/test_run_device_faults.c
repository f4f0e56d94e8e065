/* Runs on a device under faults: every call of every function of the driver fails in the middle of a run, and
 * every allocation of opening one: an error, no batch that is not right, nothing left behind. */
#include "support/fake_driver.h"
#include "support/loading.h"

enum { STEPS = 5 };

static fake_driver fake;

static weir_status stage(const weir_env *env, void *context, weir_error *error) {
    const uint64_t *steps = context;
    weir_run *run;
    weir_taken taken;
    weir_run_options options = loading_options(&fixture, manifest);
    options.steps = *steps;
    options.dataset = "shop/churn/train";
    options.device = WEIR_FAKE_CUDA;
    options.depth = 2;
    options.read_back = true;
    weir_status status = weir_run_open(env, &options, &run, error);
    if (status != WEIR_OK)
        return status;
    while ((status = weir_run_next(run, &taken, error)) == WEIR_OK && taken.batch) {
        status = weir_run_wait(run, &taken, 0, error);
        if (status == WEIR_OK)
            status = weir_run_release(run, &taken, 0, error);
        if (status != WEIR_OK)
            break;
    }
    weir_run_close(run);
    return status;
}

/* How often the copies are asked for depends on the workers' speed: calls fail one after the other until a
 * run has fewer. */
static uint64_t sweep(const char *function, bool must_fail) {
    weir_error error;
    uint64_t n = 0, steps = STEPS;
    for (;;) {
        fake.reset();
        fake.fail_call(function, ++n, 719);
        memset(&error, 0, sizeof error);
        weir_status status = stage(NULL, &steps, &error);
        if (fake.calls(function) < n)
            return n - 1;
        if (status != WEIR_OK)
            assert_fails(status, WEIR_DEVICE_ERROR, &error);
        else if (must_fail)
            fail_msg("call %llu of %s failed, and nobody noticed", (unsigned long long)n, function);
        if (fake.live() != 0)
            fail_msg("call %llu of %s failed, and something is left", (unsigned long long)n, function);
    }
}

static void test_the_driver_fails(void **state) {
    (void)state;
    static const char *const harmful[] = {"cuMemAddressReserve", "cuMemCreate",          "cuMemMap",
                                          "cuMemSetAccess",      "cuMemcpyHtoDAsync_v2", "cuMemsetD8Async",
                                          "cuStreamCreate",      "cuStreamWaitEvent",    "cuEventCreate",
                                          "cuEventRecord",       "cuEventQuery",         "cuMemHostAlloc",
                                          "cuMemcpyDtoHAsync_v2"};
    static const char *const harmless[] = {"cuMemUnmap",          "cuMemRelease",        "cuMemAddressFree",
                                           "cuMemFreeHost",       "cuStreamDestroy_v2",  "cuEventDestroy_v2",
                                           "cuStreamSynchronize", "cuCtxPushCurrent_v2", "cuCtxGetCurrent"};
    for (size_t i = 0; i < sizeof harmful / sizeof harmful[0]; i++)
        assert_true(sweep(harmful[i], true) > 0);
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        assert_true(sweep(harmless[i], false) > 0);
    assert_int_equal(sweep("cuLaunchKernel", true), STEPS);
    assert_int_equal(sweep("cuModuleLoadData", true), 1);
}

/* A batch that was not given is in no state, also if its place was the last one's. */
static void test_a_failure_keeps_the_state(void **state) {
    (void)state;
    static const char copying[] = "cuMemcpyHtoDAsync_v2";
    weir_error error;
    weir_run *run;
    weir_taken taken;
    weir_checkpoint found;
    const void *data;
    size_t size;
    weir_run_options options = loading_options(&fixture, manifest);
    options.device = WEIR_FAKE_CUDA;
    options.depth = 1;
    fake.reset();
    assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
    assert_ok(weir_run_next(run, &taken, &error), &error);
    assert_ok(weir_run_release(run, &taken, 0, &error), &error);
    fake.fail_call(copying, fake.calls(copying) + 1, 719);
    assert_fails(weir_run_next(run, &taken, &error), WEIR_DEVICE_ERROR, &error);
    assert_ok(weir_run_state(run, &data, &size, &error), &error);
    assert_ok(weir_checkpoint_read(data, size, &found, &error), &error);
    assert_int_equal(found.step, 1);
    assert_int_equal(weir_run_step(run), 1);
    weir_run_close(run);
}

/* A commit that cannot wait for the device: the step is not given, and the trace ends with its failure. */
static void test_a_failed_barrier_names_the_arena(void **state) {
    (void)state;
    static const char waiting[] = "cuCtxSynchronize";
    char path[160];
    weir_json_writer w;
    weir_error error;
    weir_run *run;
    weir_taken taken;
    weir_replay_report report;
    weir_run_options options = loading_options(&fixture, manifest);
    snprintf(path, sizeof path, "%s/barrier.trace", fixture.folder);
    options.device = WEIR_FAKE_CUDA;
    options.trace = path;
    options.trace_memory = true;
    fake.reset();
    assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
    assert_ok(weir_run_next(run, &taken, &error), &error);
    assert_ok(weir_run_release(run, &taken, 0, &error), &error);
    fake.fail_call(waiting, fake.calls(waiting) + 1, 719);
    assert_fails(weir_run_next(run, &taken, &error), WEIR_DEVICE_ERROR, &error);
    weir_json_writer_memory(&w, NULL);
    weir_error_json(&error, &w);
    assert_ok(weir_json_finish(&w, &error), &error);
    assert_non_null(strstr(w.data, "\"arena\": \"device\""));
    weir_json_release(&w);
    weir_run_close(run);
    assert_ok(weir_trace_replay(NULL, path, NULL, &report, &error), &error);
    assert_int_equal(report.status, WEIR_RUN_FAILED);
    assert_int_equal(report.failed_step, 1);
    assert_int_equal(report.memory_records, 1);
    assert_int_equal(remove(path), 0);
}

static void test_memory_fails(void **state) {
    (void)state;
    uint64_t steps = 1;
    fake.reset();
    assert_true(sweep_faults(stage, NULL, &steps) >= 270);
    assert_int_equal(fake.live(), 0);
}

static int set_up(void **state) {
    (void)state;
    fake_driver_open(&fake);
    loading_set_up(NULL);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_driver_fails),
        cmocka_unit_test(test_a_failure_keeps_the_state),
        cmocka_unit_test(test_a_failed_barrier_names_the_arena),
        cmocka_unit_test(test_memory_fails),
    };
    return cmocka_run_group_tests(tests, set_up, loading_tear_down);
}
