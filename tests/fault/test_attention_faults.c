/* Attention on a device whose driver fails, and where memory is short: an error that says so, nothing that is
 * left, and no harm done to what comes after. */
#include <string.h>

#include "support/fake_driver.h"
#include "support/testing.h"

enum { LENGTH = 4, HEADS = 1, SIZE = 16, TENSOR = LENGTH * HEADS * SIZE * 4, TENSORS = 8, SUMS = 256 };

static fake_driver fake;

/* One row of four cells in two columns: sequence, columns, padding, foreign keys, order; each at a multiple
 * of 64 bytes. */
static const uint8_t tensors[5 * 64] = {[64] = 1,         [64 + 4] = 1,     [64 + 8] = 2,    [64 + 12] = 2,
                                        [4 * 64 + 2] = 1, [4 * 64 + 4] = 2, [4 * 64 + 6] = 3};

static weir_attention_call call_at(uint8_t *data, const void *lists) {
    weir_attention_call call = {.size = sizeof call,
                                .dtype = WEIR_ATTENTION_BFLOAT16,
                                .pattern = WEIR_ATTENTION_OUTBOUND,
                                .sequences = 1,
                                .length = LENGTH,
                                .rows = 1,
                                .heads = HEADS,
                                .head_size = SIZE,
                                .threads = 1,
                                .lists = lists};
    weir_attention_tensor *const given[TENSORS] = {&call.q,          &call.k,          &call.v,
                                                   &call.o,          &call.o_gradient, &call.q_gradient,
                                                   &call.k_gradient, &call.v_gradient};
    for (size_t i = 0; i < TENSORS; i++)
        *given[i] = (weir_attention_tensor){data + i * TENSOR, {LENGTH * SIZE, SIZE, SIZE}};
    call.lse = data + TENSORS * TENSOR;
    call.delta = data + TENSORS * TENSOR + SUMS;
    return call;
}

static weir_attention_batch batch_at(const uint8_t *data) {
    return (weir_attention_batch){.sequences = 1,
                                  .length = LENGTH,
                                  .rows = 1,
                                  .threads = 1,
                                  .seq_row_ids = data,
                                  .column_ids = data + 64,
                                  .is_padding = data + 128,
                                  .fk_adj = data + 192,
                                  .col_perm = data + 256};
}

static weir_status attend(weir_attention *attention, const uint8_t *batch, uint8_t *data, void *lists,
                          weir_error *error) {
    weir_attention_batch given = batch_at(batch);
    weir_attention_call call = call_at(data, lists);
    weir_status status = weir_attention_lists(attention, &given, lists, 0, error);
    if (status == WEIR_OK)
        status = weir_attention_forward(attention, &call, 0, error);
    if (status == WEIR_OK)
        status = weir_attention_backward(attention, &call, 0, error);
    return status;
}

static weir_status attend_there(const weir_env *env, weir_device *device, weir_error *error) {
    weir_attention *attention = NULL;
    uint64_t size = 0;
    weir_memory memory = weir_device_memory(device);
    size_t data_size = TENSORS * TENSOR + 2 * SUMS;
    weir_status status = weir_attention_lists_size(1, LENGTH, 1, &size, error);
    uint8_t *batch = status ? NULL : memory.allocate(memory.context, sizeof tensors, error);
    uint8_t *data = batch ? memory.allocate(memory.context, data_size, error) : NULL;
    void *lists = data ? memory.allocate(memory.context, (size_t)size, error) : NULL;
    status =
        lists ? weir_copy_to_device(device, batch, tensors, sizeof tensors, 0, error) : WEIR_DEVICE_ERROR;
    if (status == WEIR_OK)
        status = weir_attention_open(env, device, &attention, error);
    if (status == WEIR_OK)
        status = attend(attention, batch, data, lists, error);
    weir_status waited = weir_stream_sync(device, 0, status ? NULL : error);
    status = status ? status : waited;
    weir_attention_close(attention);
    memory.release(memory.context, lists, (size_t)size);
    memory.release(memory.context, data, data_size);
    memory.release(memory.context, batch, sizeof tensors);
    return status;
}

static weir_status use_device(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    weir_device *device;
    weir_status status = open_fake_device(env, &device, error);
    if (status != WEIR_OK)
        return status;
    status = attend_there(env, device, error);
    weir_device_close(device);
    return status;
}

static weir_status use_host(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    static _Alignas(256) uint8_t data[TENSORS * TENSOR + 2 * SUMS], lists[1 << 16];
    uint64_t size;
    weir_attention *attention;
    weir_status status = weir_attention_lists_size(1, LENGTH, 1, &size, error);
    assert_true(size <= sizeof lists);
    if (status == WEIR_OK)
        status = weir_attention_open(env, NULL, &attention, error);
    if (status != WEIR_OK)
        return status;
    status = attend(attention, tensors, data, lists, error);
    weir_attention_close(attention);
    return status;
}

static void test_the_driver_fails(void **state) {
    (void)state;
    static const char *const functions[] = {"cuModuleLoadData",   "cuModuleGetFunction", "cuLaunchKernel",
                                            "cuFuncSetAttribute", "nvrtcCompileProgram", "nvrtcGetCUBIN"};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        weir_error error;
        fake.reset();
        assert_ok(use_device(NULL, NULL, &error), &error);
        uint64_t calls = fake.calls(functions[i]);
        assert_true(calls >= 3); /* a pass each; all but one also for the lists */
        for (uint64_t n = 1; n <= calls; n++) {
            fake.reset();
            fake.fail_call(functions[i], n, 999);
            assert_fails(use_device(NULL, NULL, &error), WEIR_DEVICE_ERROR, &error);
            assert_int_equal(fake.live(), 0);
        }
    }
}

static void test_memory_fails(void **state) {
    (void)state;
    fake.reset();
    assert_true(sweep_faults(use_device, NULL, NULL) > 8);
    assert_int_equal(fake.live(), 0);
    assert_true(sweep_faults(use_host, NULL, NULL) >= 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_driver_fails),
        cmocka_unit_test(test_memory_fails),
    };
    fake_driver_open(&fake);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
