/* Memory of a loop: recorded, planned and served on the fake driver and on the host. Every live tensor has a
 * pattern that must stay, whatever the loop does: steps that differ, lifetimes that reach into the next step,
 * other streams, threads. */
#include <pthread.h>
#include <stdlib.h>

#include "support/fake_driver.h"

static fake_driver fake;

enum { LAYERS = 12, WIDTH = 3000 };

typedef struct tensor {
    uint8_t *data;
    size_t size;
    uint8_t pattern;
} tensor;

typedef struct loop {
    weir_device *device; /* the host: its memory can be looked at */
    weir_step_memory *memory;
    tensor saved[LAYERS], gradients[LAYERS];
    uint8_t next_pattern;
} loop;

static tensor make(loop *l, size_t size, weir_stream stream) {
    weir_error error = {0};
    tensor t = {.data = weir_step_memory_allocate(l->memory, size, stream, &error),
                .size = size,
                .pattern = ++l->next_pattern};
    if (!t.data)
        fail_msg("%s", error.message);
    assert_int_equal((uintptr_t)t.data % 512, 0);
    memset(t.data, t.pattern, size);
    return t;
}

static void drop(loop *l, tensor *t) {
    for (size_t i = 0; i < t->size; i++)
        assert_int_equal(t->data[i], t->pattern);
    weir_step_memory_free(l->memory, t->data, 0);
    t->data = NULL;
}

/* A training step: gradients of the step before go first, activations are kept for the backward pass. */
static void run_step(loop *l, size_t extra) {
    weir_error error;
    assert_ok(weir_step_memory_begin(l->memory, &error), &error);
    for (int i = 0; i < LAYERS; i++)
        if (l->gradients[i].data)
            drop(l, &l->gradients[i]);
    for (int i = 0; i < LAYERS; i++) {
        tensor scratch = make(l, 2 * WIDTH + extra, 0);
        l->saved[i] = make(l, (size_t)(i % 3 + 1) * WIDTH, 0);
        drop(l, &scratch);
    }
    for (int i = LAYERS - 1; i >= 0; i--) {
        tensor scratch = make(l, 4 * WIDTH, 0);
        l->gradients[i] = make(l, WIDTH + 100, 0);
        drop(l, &scratch);
        drop(l, &l->saved[i]);
    }
    assert_ok(weir_step_memory_end(l->memory, &error), &error);
}

static void open_loop(loop *l, weir_device *device, const weir_step_memory_options *options) {
    weir_error error;
    memset(l, 0, sizeof *l);
    l->device = device;
    assert_ok(weir_step_memory_open(NULL, device, options, &l->memory, &error), &error);
}

static void close_loop(loop *l) {
    for (int i = 0; i < LAYERS; i++)
        if (l->gradients[i].data)
            drop(l, &l->gradients[i]);
    weir_step_memory_close(l->memory);
}

static weir_device *host_device(void) {
    weir_error error;
    weir_device *device;
    assert_ok(open_host_device(NULL, &device, &error), &error);
    return device;
}

static void test_steps_are_served(void **state) {
    (void)state;
    loop l;
    weir_device *device = host_device();
    open_loop(&l, device, NULL);
    for (int i = 0; i < 3; i++) {
        assert_false(weir_step_memory_describe(l.memory).is_planned);
        run_step(&l, 0);
    }
    weir_step_memory_info info = weir_step_memory_describe(l.memory);
    assert_true(info.is_planned);
    assert_int_equal(info.requests, 4 * LAYERS);
    assert_int_equal(info.planned, 4 * LAYERS);
    assert_int_equal(info.served, 0);
    for (int i = 0; i < 20; i++)
        run_step(&l, 0);
    info = weir_step_memory_describe(l.memory);
    assert_int_equal(info.steps, 23);
    assert_int_equal(info.served, 20 * 4 * LAYERS);
    assert_int_equal(info.fell_through, 0);
    assert_int_equal(info.pool_bytes, 0);                 /* gradients of the recorded steps are gone */
    assert_int_equal(info.peak_bytes, info.lower_bound);  /* what the loop has at most … */
    assert_int_equal(info.block_bytes, info.lower_bound); /* … is all that was taken */
    close_loop(&l);
    weir_device_close(device);
}

/* Steps that differ are right too, and the ones after them are served again. */
static void test_steps_that_differ(void **state) {
    (void)state;
    loop l;
    weir_device *device = host_device();
    weir_step_memory_options options = {.size = sizeof options, .warmup_plus_one = 1, .effort_plus_one = 1};
    open_loop(&l, device, &options);
    for (int i = 0; i < 2; i++)
        run_step(&l, 0);
    assert_true(weir_step_memory_describe(l.memory).is_planned);
    for (int i = 0; i < 12; i++)
        run_step(&l, i % 3 == 1 ? 5000 : 0);
    weir_step_memory_info info = weir_step_memory_describe(l.memory);
    assert_true(info.fell_through >= 4 * LAYERS);
    assert_true(info.served >= 8 * 4 * LAYERS + 4 * 3 * LAYERS - 4 * LAYERS);
    assert_true(info.peak_bytes <= info.block_bytes);
    uint64_t before = info.fell_through;
    run_step(&l, 0);
    assert_int_equal(weir_step_memory_describe(l.memory).fell_through, before);

    tensor outside = make(&l, 2 * WIDTH, 0); /* not in a step: not from the block */
    assert_int_equal(weir_step_memory_describe(l.memory).fell_through, before);
    assert_int_equal(weir_step_memory_describe(l.memory).pool_bytes, 6144);
    drop(&l, &outside);
    close_loop(&l);
    weir_device_close(device);
}

/* Random lifetimes, some of several steps, on two streams; patterns tell whether two ever shared a byte. */
static void test_any_loop_is_right(void **state) {
    (void)state;
    enum { KEPT = 64 };
    for (uint64_t seed = 0; seed < 12; seed++) {
        weir_error error;
        loop l;
        weir_device *device = host_device();
        random_stream random = {seed};
        tensor kept[KEPT] = {{0}};
        open_loop(&l, device, NULL);
        for (int step = 0; step < 12; step++) {
            assert_ok(weir_step_memory_begin(l.memory, &error), &error);
            random_stream again = {1000 + seed + (step % 5 == 4 ? (uint64_t)step : 0)};
            for (int i = 0; i < 200; i++) {
                tensor *slot = &kept[random_next(step % 4 == 3 ? &random : &again) % KEPT];
                if (slot->data)
                    drop(&l, slot);
                else
                    *slot = make(&l, 1 + random_next(&again) % 5000, random_next(&again) % 8 == 0 ? 5 : 0);
            }
            assert_ok(weir_step_memory_end(l.memory, &error), &error);
        }
        assert_true(seed > 0 || weir_step_memory_describe(l.memory).served > 0);
        for (int i = 0; i < KEPT; i++)
            if (kept[i].data)
                drop(&l, &kept[i]);
        close_loop(&l);
        weir_device_close(device);
    }
}

static void *allocate_often(void *argument) {
    loop l = {.memory = argument};
    for (int i = 0; i < 2000; i++) {
        tensor t = make(&l, (size_t)(1 + i % 7) * 512, 0);
        drop(&l, &t);
    }
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    weir_error error;
    loop l;
    weir_device *device = host_device();
    open_loop(&l, device, NULL);
    for (int step = 0; step < 6; step++) {
        pthread_t threads[3];
        assert_ok(weir_step_memory_begin(l.memory, &error), &error);
        for (int i = 0; i < 3; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, allocate_often, l.memory), 0);
        for (int i = 0; i < 3; i++)
            pthread_join(threads[i], NULL);
        assert_ok(weir_step_memory_end(l.memory, &error), &error);
    }
    assert_int_equal(weir_step_memory_describe(l.memory).used_bytes, 0);
    close_loop(&l);
    weir_device_close(device);
}

static void test_out_of_turn(void **state) {
    (void)state;
    weir_error error;
    weir_step_memory *memory;
    weir_device *device = host_device();
    weir_step_memory_options options = {.size = sizeof options, .effort_plus_one = 11};
    assert_fails(weir_step_memory_open(NULL, device, &options, &memory, &error), WEIR_CONTRACT_VIOLATION,
                 &error);
    assert_ok(weir_step_memory_open(NULL, device, NULL, &memory, &error), &error);
    assert_fails(weir_step_memory_end(memory, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_ok(weir_step_memory_begin(memory, &error), &error);
    assert_fails(weir_step_memory_begin(memory, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_ok(weir_step_memory_end(memory, &error), &error);
    assert_null(weir_step_memory_allocate(memory, SIZE_MAX, 0, &error));
    weir_step_memory_free(memory, NULL, 0);
    for (int i = 0; i < 4; i++) { /* steps that ask for nothing */
        assert_ok(weir_step_memory_begin(memory, &error), &error);
        assert_ok(weir_step_memory_end(memory, &error), &error);
    }
    assert_true(weir_step_memory_describe(memory).is_planned);
    weir_step_memory_close(memory);
    weir_device_close(device);
}

/* ---- On the fake driver, which fails ----------------------------------------------------------- */

static weir_status use(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    weir_device *device;
    weir_step_memory *memory = NULL;
    weir_stream other = 0;
    weir_status status = open_fake_device(env, &device, error);
    if (status != WEIR_OK)
        return status;
    status = weir_step_memory_open(env, device, NULL, &memory, error);
    if (status == WEIR_OK)
        status = weir_stream_open(device, &other, error);
    for (int step = 0; step < 5 && status == WEIR_OK; step++) {
        void *held[3] = {NULL};
        status = weir_step_memory_begin(memory, error);
        for (size_t i = 0; i < 3 && status == WEIR_OK; i++) {
            held[i] = weir_step_memory_allocate(memory, i ? 1000 * (i + 1) : 2 << 20, 0, error);
            if (!held[i])
                status = error->status;
        }
        weir_step_memory_share(memory, held[2], other);
        for (size_t i = 0; i < 3; i++)
            weir_step_memory_free(memory, held[i], 0);
        weir_status ended = weir_step_memory_end(memory, status ? NULL : error);
        status = status ? status : ended;
    }
    if (other)
        weir_stream_close(device, other);
    weir_step_memory_close(memory);
    weir_device_close(device);
    return status;
}

static void test_faults(void **state) {
    (void)state;
    static const char *const functions[] = {
        "cuDeviceGetDefaultMemPool", "cuMemPoolSetAttribute", "cuMemPoolTrimTo",
        "cuMemAllocAsync",           "cuMemFreeAsync",        "cuMemAlloc_v2",
        "cuCtxPushCurrent_v2",       "cuCtxPopCurrent_v2",    "cuCtxSynchronize"};
    weir_error error;
    fake.reset();
    assert_true(sweep_faults(use, NULL, NULL) >= 16);
    assert_int_equal(fake.live(), 0);
    for (size_t f = 0; f < sizeof functions / sizeof functions[0]; f++)
        for (uint64_t n = 1;; n++) {
            fake.reset();
            fake.fail_call(functions[f], n, 2);
            weir_status status = use(NULL, NULL, &error);
            bool struck = fake.calls(functions[f]) >= n;
            if (status != WEIR_OK)
                assert_int_equal(status, WEIR_DEVICE_ERROR);
            if (fake.live() != 0)
                fail_msg("call %llu of %s failed, and something is left", (unsigned long long)n,
                         functions[f]);
            if (!struck)
                break;
        }
}

static int set_up(void **state) {
    (void)state;
    fake_driver_open(&fake);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_are_served),  cmocka_unit_test(test_steps_that_differ),
        cmocka_unit_test(test_any_loop_is_right), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_out_of_turn),       cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
