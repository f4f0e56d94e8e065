/* Devices: the fake driver and the host give the same results; work is in the order of streams and events
 * and no earlier; errors carry the driver's words; arenas on a device hold what those of the host do. */
#include <stdlib.h>

#include "batch/expand.h"
#include "batch/expand_kernel.h"
#include "device/kernel.h"
#include "support/fake_driver.h"
#include "support/random_graph.h"

static fake_driver fake;

typedef weir_status (*open_device)(const weir_env *env, weir_device **device, weir_error *error);
static const open_device kinds[] = {open_fake_device, open_host_device};

static weir_device *device_of(open_device open) {
    weir_error error;
    weir_device *device;
    fake.reset();
    assert_ok(open(NULL, &device, &error), &error);
    return device;
}

static void close_device(weir_device *device) {
    weir_device_close(device);
    assert_int_equal(fake.live(), 0);
    assert_int_equal(fake.depth(), 0); /* the thread is left as it was */
}

static void *take(weir_memory memory, size_t size) {
    weir_error error;
    void *data = memory.allocate(memory.context, size, &error);
    assert_non_null(data);
    assert_int_equal((uintptr_t)data % 256, 0);
    return data;
}

static void assert_text(const char *text, const char *part) {
    if (!strstr(text, part))
        fail_msg("'%s' is not in '%s'", part, text);
}

/* ---- Opening ------------------------------------------------------------------------------------- */

static void test_what_a_device_is(void **state) {
    (void)state;
    weir_device *device = device_of(open_fake_device);
    const weir_device_info *info = weir_device_describe(device);
    assert_false(info->is_host);
    assert_string_equal(info->name, "fake device 0");
    assert_int_equal(info->driver_version, 13000);
    assert_int_equal(info->capability_major, 9);
    assert_int_equal(info->capability_minor, 0);
    assert_int_equal(info->multiprocessors, 4);
    assert_int_equal(info->memory_bytes, 1 << 30);
    close_device(device);
    device = device_of(open_host_device);
    assert_true(weir_device_describe(device)->is_host);
    assert_string_equal(weir_device_describe(device)->name, "host");
    close_device(device);
    weir_device_close(NULL);
}

static void assert_refused(const weir_device_options *options, const char *part) {
    weir_error error;
    weir_device *device;
    assert_fails(weir_device_open(NULL, options, &device, &error), WEIR_DEVICE_ERROR, &error);
    assert_text(error.message, part);
    assert_int_equal(fake.live(), 0);
}

static void test_no_device(void **state) {
    (void)state;
    weir_error error;
    weir_device *device;
    weir_device_options options = {.size = sizeof options, .library = "/nowhere/libcuda.so.1"};
    assert_refused(&options, "--device host");
    options.library = "libc.so.6";
    assert_refused(&options, "too old: it lacks the function cuGetErrorName");
    options.library = WEIR_FAKE_CUDA;
    fake.reset();
    fake.set_version(10020);
    assert_refused(&options, "is for CUDA 10.2");
    fake.reset();
    options.ordinal = 1;
    assert_refused(&options, "there is no device 1: the driver has 1");
    options.ordinal = 0;
    fake.set_device_count(0);
    assert_refused(&options, "nvidia-smi");
    fake.reset();
    fake.fail_call("cuInit", 1, 100);
    assert_refused(&options, "cuInit: CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)");
    fake.reset();
    options.size = 1;
    assert_fails(weir_device_open(NULL, &options, &device, &error), WEIR_CONTRACT_VIOLATION, &error);
}

static void test_errors_have_the_drivers_words(void **state) {
    (void)state;
    weir_error error;
    weir_device *device = device_of(open_fake_device);
    weir_memory memory = weir_device_memory(device);
    fake.fail_call("cuMemAlloc_v2", 1, 2);
    assert_null(memory.allocate(memory.context, 100, &error));
    assert_int_equal(error.status, WEIR_DEVICE_ERROR);
    assert_text(error.message, "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
    assert_text(error.message, "fewer or smaller slots");
    assert_string_equal(error.diagnostics[0].name, "code");
    assert_int_equal(error.diagnostics[0].number, 2);
    fake.fail_call("cuMemAlloc_v2", 2, 12345);
    assert_null(memory.allocate(memory.context, 100, &error));
    assert_text(error.message, "an unknown error (no text)");
    close_device(device);
}

/* ---- Work ---------------------------------------------------------------------------------------- */

enum { SIZE = 10000 };

static void test_memory_is_zeroed(void **state) {
    (void)state;
    static const uint8_t zeros[SIZE];
    for (size_t k = 0; k < 2; k++) {
        weir_error error;
        weir_device *device = device_of(kinds[k]);
        weir_memory pinned = weir_device_pinned(device), memory = weir_device_memory(device);
        uint8_t *host = take(pinned, SIZE), *there = take(memory, SIZE);
        assert_memory_equal(host, zeros, SIZE);
        memset(host, 1, SIZE);
        assert_ok(weir_copy_to_host(device, host, there, SIZE, 0, &error), &error);
        assert_ok(weir_stream_sync(device, 0, &error), &error);
        assert_memory_equal(host, zeros, SIZE);
        pinned.release(pinned.context, host, SIZE);
        memory.release(memory.context, there, SIZE);
        memory.release(memory.context, NULL, 0);
        close_device(device);
    }
}

/* A copy in on one stream, a copy out on another that waits for it, and a clearing on the first again that
 * waits for the second: whoever waits last has seen all of it in order. */
static void copy_over_two_streams(weir_device *device) {
    weir_error error;
    weir_memory pinned = weir_device_pinned(device), memory = weir_device_memory(device);
    uint8_t *from = take(pinned, SIZE), *to = take(pinned, SIZE), *there = take(memory, SIZE);
    weir_stream first, second;
    weir_event copied, read;
    bool is_done = false;
    for (size_t i = 0; i < SIZE; i++)
        from[i] = (uint8_t)(i * 7 + 1);
    assert_ok(weir_stream_open(device, &first, &error), &error);
    assert_ok(weir_stream_open(device, &second, &error), &error);
    assert_ok(weir_event_open(device, &copied, &error), &error);
    assert_ok(weir_event_open(device, &read, &error), &error);
    assert_ok(weir_copy_to_device(device, there, from, SIZE, first, &error), &error);
    assert_ok(weir_event_record(device, copied, first, &error), &error);
    assert_ok(weir_stream_wait(device, second, copied, &error), &error);
    assert_ok(weir_copy_to_host(device, to, there, SIZE, second, &error), &error);
    assert_ok(weir_event_record(device, read, second, &error), &error);
    assert_ok(weir_stream_wait(device, first, read, &error), &error);
    assert_ok(weir_device_clear(device, there, SIZE, first, &error), &error);
    assert_ok(weir_stream_sync(device, first, &error), &error);
    assert_memory_equal(from, to, SIZE);
    assert_ok(weir_copy_to_host(device, to, there, SIZE, second, &error), &error);
    assert_ok(weir_event_record(device, read, second, &error), &error);
    while (!is_done)
        assert_ok(weir_event_query(device, read, &is_done, &error), &error);
    assert_int_equal(to[SIZE - 1], 0);
    assert_ok(weir_event_sync(device, read, &error), &error);
    weir_event_close(device, copied);
    weir_event_close(device, read);
    weir_stream_close(device, first);
    weir_stream_close(device, second);
    pinned.release(pinned.context, from, SIZE);
    pinned.release(pinned.context, to, SIZE);
    memory.release(memory.context, there, SIZE);
}

static void test_streams_and_events(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        weir_device *device = device_of(open_fake_device);
        fake.set_schedule(seed);
        copy_over_two_streams(device);
        close_device(device);
    }
    weir_device *device = device_of(open_host_device);
    copy_over_two_streams(device);
    close_device(device);
}

/* The fake would show a missing wait: it reads the host's side when the copy is done, not when it is asked
 * for. */
static void test_the_fake_is_late(void **state) {
    (void)state;
    weir_error error;
    weir_device *device = device_of(open_fake_device);
    weir_memory memory = weir_device_memory(device);
    uint8_t *there = take(memory, 1);
    uint8_t from = 1, to = 9;
    assert_ok(weir_copy_to_device(device, there, &from, 1, 0, &error), &error);
    assert_ok(weir_copy_to_host(device, &to, there, 1, 0, &error), &error);
    assert_int_equal(to, 9);
    from = 2;
    assert_ok(weir_stream_sync(device, 0, &error), &error);
    assert_int_equal(to, 2);
    memory.release(memory.context, there, 1);
    close_device(device);
}

static void test_a_wild_address(void **state) {
    (void)state;
    weir_error error;
    weir_device *device = device_of(open_fake_device);
    weir_memory memory = weir_device_memory(device);
    uint8_t *there = take(memory, 8);
    assert_ok(weir_device_clear(device, there, 9, 0, &error), &error);
    assert_fails(weir_stream_sync(device, 0, &error), WEIR_DEVICE_ERROR, &error);
    assert_text(error.message, "CUDA_ERROR_ILLEGAL_ADDRESS");
    fake.reset();
    memory.release(memory.context, there, 8);
    close_device(device);
}

/* ---- Kernels ------------------------------------------------------------------------------------- */

/* A batch of three sequences of padding, one position each, and some bytes of text. Each part has 256 bytes.
 */
enum { TEXT_SIZE = 203, COMPACT_BYTES = 8 * COMPACT_WORDS + 3 * SEQUENCE_SIZE + TEXT_SIZE };
static void write_compact(uint8_t rules[8 * RULES_WORDS], uint8_t *compact) {
    static const uint64_t strides[WEIR_BATCH_PARTS] = {1, 4, 2, 1, 4, 60, 1, 4, 4, 1, 1,
                                                       0, 2, 2, 2, 0, 8,  8, 4, 8, 4, 4};
    uint64_t texts_at = 8 * (uint64_t)COMPACT_WORDS + 3 * (uint64_t)SEQUENCE_SIZE;
    uint64_t words[COMPACT_WORDS] = {
        [COMPACT_SIZE] = COMPACT_BYTES, [COMPACT_BATCH_SIZE] = 256 * (uint64_t)WEIR_BATCH_PARTS,
        [COMPACT_SEQUENCES] = 3,        [COMPACT_LENGTH] = 1,
        [COMPACT_TEXTS] = texts_at,     [COMPACT_TEXT_SIZE] = TEXT_SIZE};
    for (uint32_t i = 0; i < WEIR_BATCH_PARTS; i++) {
        words[COMPACT_PARTS + i] = 256 * (uint64_t)i;
        words[COMPACT_STRIDES + i] = strides[i];
    }
    memset(rules, 0, 8 * (size_t)RULES_WORDS);
    weir__store64(rules, 8 * (uint64_t)RULES_WORDS);
    memset(compact, 0, COMPACT_BYTES);
    for (uint32_t i = 0; i < COMPACT_WORDS; i++)
        weir__store64(compact + 8 * (size_t)i, words[i]);
    for (uint32_t i = 0; i < TEXT_SIZE; i++)
        compact[texts_at + i] = (uint8_t)(i * 13 + 5);
}

static const weir_device__kernel_source *expansion_source(weir_device__kernel_source *source) {
    *source = (weir_device__kernel_source){.name = WEIR_BATCH__EXPAND_NAME,
                                           .text = weir_batch__expand_text,
                                           .text_size = weir_batch__expand_text_size,
                                           .run = weir_batch__expand_run};
    return source;
}

static void test_a_kernel(void **state) {
    (void)state;
    enum { BATCH_SIZE = 256 * WEIR_BATCH_PARTS };
    static uint8_t rules[8 * RULES_WORDS], compact[COMPACT_BYTES], back[BATCH_SIZE];
    write_compact(rules, compact);
    for (size_t k = 0; k < 2; k++) {
        weir_error error;
        weir_device__kernel kernel;
        weir_device__kernel_source source;
        weir_device *device = device_of(kinds[k]);
        weir_memory memory = weir_device_memory(device);
        void *rules_there = take(memory, sizeof rules), *there = take(memory, sizeof compact);
        void *out = take(memory, BATCH_SIZE);
        void *arguments[] = {&rules_there, &there, &out};
        weir_device__launch launch = {.blocks_x = 3, .blocks_y = 2, .threads = 32, .arguments = arguments};
        assert_ok(weir_device__kernel_open(device, expansion_source(&source), &kernel, &error), &error);
        assert_ok(weir_copy_to_device(device, rules_there, rules, sizeof rules, 0, &error), &error);
        assert_ok(weir_copy_to_device(device, there, compact, sizeof compact, 0, &error), &error);
        assert_ok(weir_device__kernel_launch(device, &kernel, &launch, &error), &error);
        assert_ok(weir_copy_to_host(device, back, out, BATCH_SIZE, 0, &error), &error);
        assert_ok(weir_stream_sync(device, 0, &error), &error);
        assert_memory_equal(back + 256 * WEIR_TEXT_BATCH_EMBEDDINGS, compact + COMPACT_BYTES - TEXT_SIZE,
                            TEXT_SIZE);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(back[256 * WEIR_IS_PADDING + i], 1);
        assert_int_equal(back[256 * WEIR_IS_PADDING + 3], 0);
        weir_device__kernel_close(device, &kernel);
        memory.release(memory.context, rules_there, sizeof rules);
        memory.release(memory.context, there, sizeof compact);
        memory.release(memory.context, out, BATCH_SIZE);
        close_device(device);
    }
}

static void test_no_compiler(void **state) {
    (void)state;
    weir_error error;
    weir_device *device;
    weir_device__kernel kernel;
    weir_device__kernel_source source;
    weir_device_options options = {
        .size = sizeof options, .library = WEIR_FAKE_CUDA, .compiler = "/nowhere/libnvrtc.so"};
    fake.reset();
    assert_ok(weir_device_open(NULL, &options, &device, &error), &error);
    assert_fails(weir_device__kernel_open(device, expansion_source(&source), &kernel, &error),
                 WEIR_DEVICE_ERROR, &error);
    assert_text(error.message, "libnvrtc");
    close_device(device);
    options.compiler = "libc.so.6";
    assert_ok(weir_device_open(NULL, &options, &device, &error), &error);
    assert_fails(weir_device__kernel_open(device, expansion_source(&source), &kernel, &error),
                 WEIR_DEVICE_ERROR, &error);
    assert_text(error.message, "lacks the function nvrtcVersion");
    close_device(device);
    device = device_of(open_fake_device);
    fake.fail_call("nvrtcCompileProgram", 1, 6);
    assert_fails(weir_device__kernel_open(device, expansion_source(&source), &kernel, &error),
                 WEIR_DEVICE_ERROR, &error);
    assert_text(error.message, "NVRTC_ERROR_COMPILATION: weir_kernel.cu(1): error as the test wanted it");
    close_device(device);
}

/* ---- Arenas -------------------------------------------------------------------------------------- */

static weir_arenas *arenas_in(const weir_plan *plan, weir_memory memory, const uint8_t *token) {
    weir_error error;
    weir_arenas *arenas;
    weir_arenas_options options = {.size = sizeof options, .memory = memory};
    options.fill_token = token;
    options.fill_token_size = token ? WEIR_TOKEN_SIZE : 0;
    assert_ok(weir_arenas_open(NULL, plan, &options, &arenas, &error), &error);
    return arenas;
}

/* Every arena of the device's against the host's. */
static void assert_same_bytes(weir_device *device, const weir_plan *plan, weir_arenas *host,
                              weir_arenas *there) {
    weir_error error;
    size_t seen = 0;
    for (size_t a = 0; a < weir_plan_describe(plan)->arena_count; a++) {
        weir_plan_arena arena = weir_plan_arena_at(plan, a);
        size_t size, size_there;
        uint8_t *data = weir_arenas_base(host, arena.name.data, arena.name.size, &size);
        uint8_t *data_there = weir_arenas_base(there, arena.name.data, arena.name.size, &size_there);
        uint8_t *back = malloc(size + 1);
        assert_non_null(back);
        assert_int_equal(size, size_there);
        assert_int_equal((uintptr_t)data_there % arena.alignment, 0);
        assert_ok(weir_copy_to_host(device, back, data_there, size, 0, &error), &error);
        assert_ok(weir_stream_sync(device, 0, &error), &error);
        assert_memory_equal(back, data, size);
        free(back);
        seen += size;
    }
    assert_true(seen > 0);
}

static void test_arenas(void **state) {
    (void)state;
    uint8_t token[WEIR_TOKEN_SIZE] = {1, 2, 3};
    for (size_t k = 0; k < 2; k++) {
        weir_error error;
        weir_device *device = device_of(kinds[k]);
        weir_graph *graph = NULL;
        weir_plan *plan = NULL;
        weir_plan_options options = options_of(plan_modes[2]);
        uint8_t hashes[2][WEIR_HASH_SIZE];
        assert_ok(random_graph(NULL, 3, 40, &graph, &error), &error);
        assert_ok(weir_plan_make(NULL, graph, &options, &plan, &error), &error);
        weir_arenas *host = arenas_in(plan, (weir_memory){0}, token);
        weir_arenas *there = arenas_in(plan, weir_device_memory(device), token);
        assert_same_bytes(device, plan, host, there);
        for (size_t t = 0; t < weir_plan_describe(plan)->tensor_count; t++) {
            weir_plan_tensor tensor = weir_plan_tensor_at(plan, t);
            weir_arenas *both[] = {host, there};
            for (size_t i = 0; i < 2; i++)
                assert_ok(t % 2 ? weir_arenas_zero(both[i], tensor.id.data, tensor.id.size, &error)
                                : weir_arenas_debug_fill(both[i], tensor.id.data, tensor.id.size, token,
                                                         sizeof token, &error),
                          &error);
        }
        assert_same_bytes(device, plan, host, there);
        assert_ok(weir_arenas_commit(host, 5, hashes[0], &error), &error);
        assert_ok(weir_arenas_commit(there, 5, hashes[1], &error), &error);
        assert_memory_equal(hashes[0], hashes[1], WEIR_HASH_SIZE);
        weir_arenas_close(host);
        weir_arenas_close(there);
        weir_plan_close(plan);
        weir_graph_close(graph);
        close_device(device);
    }
}

static int set_up(void **state) {
    (void)state;
    fake_driver_open(&fake);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_device_is),
        cmocka_unit_test(test_no_device),
        cmocka_unit_test(test_errors_have_the_drivers_words),
        cmocka_unit_test(test_memory_is_zeroed),
        cmocka_unit_test(test_streams_and_events),
        cmocka_unit_test(test_the_fake_is_late),
        cmocka_unit_test(test_a_wild_address),
        cmocka_unit_test(test_a_kernel),
        cmocka_unit_test(test_no_compiler),
        cmocka_unit_test(test_arenas),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
