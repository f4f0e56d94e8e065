/* Staging under faults: every call of every function of the driver fails in the middle of a run, and every
 * allocation of opening one: an error, no batch that is not right, nothing left behind. */
#include "support/fake_driver.h"
#include "support/loading.h"

enum { STEPS = 5 };

static fake_driver fake;

static weir_status take_all(weir_staging *staging, weir_error *error) {
    for (;;) {
        weir_staged staged;
        weir_status status = weir_staging_next(staging, &staged, error);
        if (status != WEIR_OK || !staged.batch)
            return status;
        status = weir_staging_wait(staging, &staged, 0, error);
        if (status == WEIR_OK)
            status = weir_staging_verify(staging, &staged, error);
        if (status == WEIR_OK)
            status = weir_staging_release(staging, &staged, 0, error);
        if (status != WEIR_OK)
            return status;
    }
}

static weir_status stage(const weir_env *env, void *context, weir_error *error) {
    const uint64_t *steps = context;
    weir_device *device;
    weir_staging *staging;
    weir_loader_options run = loading_options(&fixture, manifest);
    weir_staging_options options = {
        .size = sizeof options, .loader = &run, .depth = 2, .with_checkpoints = true};
    weir_status status = open_fake_device(env, &device, error);
    if (status != WEIR_OK)
        return status;
    run.steps = *steps;
    run.dataset = "shop/churn/train";
    options.device = device;
    status = weir_staging_open(env, &options, &staging, error);
    if (status == WEIR_OK) {
        status = take_all(staging, error);
        weir_staging_close(staging);
    }
    weir_device_close(device);
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
    static const char *const harmful[] = {
        "cuMemAlloc_v2", "cuMemcpyHtoDAsync_v2", "cuMemsetD8Async", "cuStreamCreate", "cuStreamWaitEvent",
        "cuEventCreate", "cuEventRecord",        "cuEventQuery",    "cuMemHostAlloc", "cuMemcpyDtoHAsync_v2"};
    static const char *const harmless[] = {"cuMemFree_v2",      "cuMemFreeHost",       "cuStreamDestroy_v2",
                                           "cuEventDestroy_v2", "cuStreamSynchronize", "cuCtxPushCurrent_v2",
                                           "cuCtxGetCurrent"};
    for (size_t i = 0; i < sizeof harmful / sizeof harmful[0]; i++)
        assert_true(sweep(harmful[i], true) > 0);
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        assert_true(sweep(harmless[i], false) > 0);
    assert_int_equal(sweep("cuLaunchKernel", true), STEPS);
    assert_int_equal(sweep("cuModuleLoadData", true), 1);
}

/* A batch that was not given is in no checkpoint, also where its place was the last one's. */
static void test_a_failure_keeps_the_checkpoint(void **state) {
    (void)state;
    static const char copying[] = "cuMemcpyHtoDAsync_v2";
    weir_error error;
    weir_device *device;
    weir_staging *staging;
    weir_staged staged;
    weir_checkpoint found;
    const void *data;
    size_t size;
    weir_loader_options run = loading_options(&fixture, manifest);
    weir_staging_options options = {
        .size = sizeof options, .loader = &run, .depth = 1, .with_checkpoints = true};
    fake.reset();
    assert_ok(open_fake_device(NULL, &device, &error), &error);
    options.device = device;
    assert_ok(weir_staging_open(NULL, &options, &staging, &error), &error);
    assert_ok(weir_staging_next(staging, &staged, &error), &error);
    assert_ok(weir_staging_release(staging, &staged, 0, &error), &error);
    fake.fail_call(copying, fake.calls(copying) + 1, 719);
    assert_fails(weir_staging_next(staging, &staged, &error), WEIR_DEVICE_ERROR, &error);
    assert_ok(weir_staging_checkpoint(staging, &data, &size, &error), &error);
    assert_ok(weir_checkpoint_read(data, size, &found, &error), &error);
    assert_int_equal(found.step, 1);
    assert_int_equal(weir_staging_step(staging), 1);
    weir_staging_close(staging);
    weir_device_close(device);
}

static void test_memory_fails(void **state) {
    (void)state;
    uint64_t steps = 1;
    fake.reset();
    assert_true(sweep_faults(stage, NULL, &steps) > 40);
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
        cmocka_unit_test(test_a_failure_keeps_the_checkpoint),
        cmocka_unit_test(test_memory_fails),
    };
    return cmocka_run_group_tests(tests, set_up, loading_tear_down);
}
