/* Devices under faults: every call of every function of the driver and the compiler fails, and every
 * allocation: an error, nothing left behind, and the next try works. */
#include "batch/expand.h"
#include "device/kernel.h"
#include "support/fake_driver.h"
#include "support/random_graph.h"

static fake_driver fake;
static weir_plan *plan;

enum { SIZE = 1000 };

static weir_status work_on(weir_device *device, uint8_t *host, uint8_t *there, weir_error *error) {
    weir_stream stream = 0;
    weir_event event = 0;
    bool is_done = false;
    weir_status status = weir_stream_open(device, &stream, error);
    if (status == WEIR_OK)
        status = weir_event_open(device, &event, error);
    if (status == WEIR_OK)
        status = weir_device_clear(device, there, SIZE, stream, error);
    if (status == WEIR_OK)
        status = weir_copy_to_device(device, there, host, SIZE, stream, error);
    if (status == WEIR_OK)
        status = weir_copy_to_host(device, host, there, SIZE, stream, error);
    if (status == WEIR_OK)
        status = weir_event_record(device, event, stream, error);
    if (status == WEIR_OK)
        status = weir_stream_wait(device, 0, event, error);
    while (status == WEIR_OK && !is_done)
        status = weir_event_query(device, event, &is_done, error);
    if (status == WEIR_OK)
        status = weir_event_sync(device, event, error);
    weir_status waited = weir_stream_sync(
        device, stream, status ? NULL : error); /* what is under way reads the host's memory */
    status = status ? status : waited;
    weir_event_close(device, event);
    weir_stream_close(device, stream);
    return status;
}

static weir_status use_kernel(weir_device *device, weir_error *error) {
    weir_device__kernel kernel;
    weir_device__kernel_source source = {.name = WEIR_BATCH__EXPAND_NAME,
                                         .text = weir_batch__expand_text,
                                         .text_size = weir_batch__expand_text_size,
                                         .run = weir_batch__expand_run};
    weir_status status = weir_device__kernel_open(device, &source, &kernel, error);
    if (status == WEIR_OK)
        weir_device__kernel_close(device, &kernel);
    return status;
}

static weir_status remap_arenas(const weir_env *env, weir_device *device, weir_arenas *arenas,
                                weir_error *error) {
    weir_memory memory = weir_device_memory(device);
    weir_plan_arena arena = weir_plan_arena_at(plan, 0);
    weir_arena_pages pages = weir_arenas_pages(arenas, arena.name.data, arena.name.size);
    weir_backing *backing;
    weir_status status = weir_backing_open(env, &memory, (size_t)pages.range_bytes, &backing, error);
    weir_remap remaps[] = {{.target = WEIR_REMAP_NEW, .keeps = true},
                           {.target = WEIR_REMAP_NOTHING},
                           {.target = WEIR_REMAP_BACKING},
                           {.target = WEIR_REMAP_NEW}};
    if (status != WEIR_OK)
        return status;
    for (size_t i = 0; i < sizeof remaps / sizeof remaps[0] && status == WEIR_OK; i++) {
        remaps[i].size = sizeof remaps[i];
        remaps[i].backing = backing;
        status = weir_arenas_remap(arenas, arena.name.data, arena.name.size, &remaps[i], error);
    }
    weir_backing_close(backing);
    return status;
}

static weir_status use_arenas(const weir_env *env, weir_device *device, weir_error *error) {
    weir_arenas *arenas;
    uint8_t token[WEIR_TOKEN_SIZE] = {0}, hash[WEIR_HASH_SIZE];
    weir_arenas_options options = {.size = sizeof options,
                                   .fill_token = token,
                                   .fill_token_size = sizeof token,
                                   .memory = weir_device_memory(device)};
    weir_status status = weir_arenas_open(env, plan, &options, &arenas, error);
    if (status != WEIR_OK)
        return status;
    status = weir_arenas_zero(arenas, "t1", 2, error);
    if (status == WEIR_OK)
        status = weir_arenas_prepare(arenas, 1, hash, error);
    if (status == WEIR_OK)
        status = remap_arenas(env, device, arenas, error);
    weir_arenas_close(arenas);
    return status;
}

static weir_status use_device(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    weir_device *device;
    weir_status status = open_fake_device(env, &device, error);
    if (status != WEIR_OK)
        return status;
    weir_memory pinned = weir_device_pinned(device), memory = weir_device_memory(device);
    uint8_t *host = pinned.allocate(pinned.context, SIZE, error);
    uint8_t *there = host ? memory.allocate(memory.context, SIZE, error) : NULL;
    status = there ? work_on(device, host, there, error) : WEIR_DEVICE_ERROR;
    if (status == WEIR_OK)
        status = use_kernel(device, error);
    if (status == WEIR_OK)
        status = use_arenas(env, device, error);
    memory.release(memory.context, there, SIZE);
    pinned.release(pinned.context, host, SIZE);
    weir_device_close(device);
    return status;
}

/* Giving back may fail without harm. */
static bool gives_back(const char *function) {
    static const char *const names[] = {
        "cuMemFree_v2",        "cuMemFreeHost",       "cuStreamDestroy_v2",
        "cuEventDestroy_v2",   "cuModuleUnload",      "cuDevicePrimaryCtxRelease_v2",
        "cuCtxPopCurrent_v2",  "cuCtxPushCurrent_v2", "cuCtxGetCurrent",
        "cuStreamSynchronize", "nvrtcDestroyProgram", "cuMemAddressFree",
        "cuMemRelease",        "cuMemUnmap",          "cuCtxSynchronize"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], function) == 0)
            return true;
    return false;
}

static uint64_t sweep(const char *function) {
    weir_error error;
    fake.reset();
    assert_ok(use_device(NULL, NULL, &error), &error);
    assert_int_equal(fake.live(), 0);
    uint64_t calls = fake.calls(function);
    for (uint64_t n = 1; n <= calls; n++) {
        fake.reset();
        fake.fail_call(function, n, 999);
        memset(&error, 0, sizeof error);
        weir_status status = use_device(NULL, NULL, &error);
        if (status != WEIR_OK)
            assert_fails(status, WEIR_DEVICE_ERROR, &error);
        else if (!gives_back(function))
            fail_msg("call %llu of %s failed, and nobody noticed", (unsigned long long)n, function);
        if (fake.live() != 0)
            fail_msg("call %llu of %s failed, and something is left", (unsigned long long)n, function);
    }
    return calls;
}

static void test_the_driver_fails(void **state) {
    (void)state;
    static const char *const functions[] = {"cuInit",
                                            "cuDriverGetVersion",
                                            "cuDeviceGetCount",
                                            "cuDeviceGet",
                                            "cuDeviceGetName",
                                            "cuDeviceGetAttribute",
                                            "cuDeviceTotalMem_v2",
                                            "cuDevicePrimaryCtxRetain",
                                            "cuMemAlloc_v2",
                                            "cuMemHostAlloc",
                                            "cuDevicePrimaryCtxRelease_v2",
                                            "cuMemFree_v2",
                                            "cuMemFreeHost",
                                            "cuMemcpyHtoDAsync_v2",
                                            "cuMemcpyDtoHAsync_v2",
                                            "cuMemcpyDtoDAsync_v2",
                                            "cuMemsetD8Async",
                                            "cuMemGetAllocationGranularity",
                                            "cuMemAddressReserve",
                                            "cuMemAddressFree",
                                            "cuMemCreate",
                                            "cuMemRelease",
                                            "cuMemMap",
                                            "cuMemUnmap",
                                            "cuMemSetAccess",
                                            "cuStreamCreate",
                                            "cuStreamDestroy_v2",
                                            "cuStreamSynchronize",
                                            "cuEventCreate",
                                            "cuEventDestroy_v2",
                                            "cuEventRecord",
                                            "cuEventQuery",
                                            "cuModuleUnload",
                                            "cuModuleLoadData",
                                            "cuModuleGetFunction",
                                            "cuEventSynchronize",
                                            "cuCtxSynchronize",
                                            "cuStreamWaitEvent",
                                            "cuCtxPushCurrent_v2",
                                            "cuCtxGetCurrent",
                                            "cuCtxPopCurrent_v2",
                                            "nvrtcCreateProgram",
                                            "nvrtcCompileProgram",
                                            "nvrtcGetCUBINSize",
                                            "nvrtcGetCUBIN",
                                            "nvrtcDestroyProgram"};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (sweep(functions[i]) == 0)
            fail_msg("%s is not called", functions[i]);
}

static void test_memory_fails(void **state) {
    (void)state;
    fake.reset();
    assert_true(sweep_faults(use_device, NULL, NULL) >= 28);
    assert_int_equal(fake.live(), 0);
}

static int set_up(void **state) {
    (void)state;
    weir_error error;
    weir_graph *graph = NULL;
    weir_plan_options options = options_of("inference");
    fake_driver_open(&fake);
    assert_ok(random_graph(NULL, 1, 4, &graph, &error), &error);
    assert_ok(weir_plan_make(NULL, graph, &options, &plan, &error), &error);
    weir_graph_close(graph);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    weir_plan_close(plan);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_driver_fails),
        cmocka_unit_test(test_memory_fails),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
