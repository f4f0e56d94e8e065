/* The host as the device: its memory is the host's, and work is done when its call returns. So what is
 * right for a GPU runs on any machine; only missing waits do not show here. */
#include <string.h>

#include "device/device.h"

enum { ANY_HANDLE = 1 };

static weir_status hold(weir_device *device, bool *is_held, weir_error *error) {
    (void)device, (void)error;
    *is_held = true;
    return WEIR_OK;
}

static void let_go(weir_device *device, bool is_held) {
    (void)device, (void)is_held;
}

static void close_host(weir_device *device) {
    weir__release(device->env, device);
}

static weir_status make(weir_device *device, weir_device__resource kind, size_t size, uintptr_t *out,
                        weir_error *error) {
    if (kind != WEIR_DEVICE__MEMORY && kind != WEIR_DEVICE__PINNED_MEMORY) {
        *out = ANY_HANDLE;
        return WEIR_OK;
    }
    weir_memory host = weir__host_memory(device->env);
    *out = (uintptr_t)host.allocate(host.context, size, error);
    return *out ? WEIR_OK : WEIR_OUT_OF_MEMORY;
}

static void drop(weir_device *device, weir_device__resource kind, uintptr_t handle, size_t size) {
    weir_memory host = weir__host_memory(device->env);
    if (kind == WEIR_DEVICE__MEMORY || kind == WEIR_DEVICE__PINNED_MEMORY)
        host.release(host.context, (void *)handle, size);
}

/* Nothing is under way: not on a stream or before an event, between the two, or at all. */
static weir_status wait_for_one(weir_device *device, uintptr_t handle, weir_error *error) {
    (void)device, (void)handle, (void)error;
    return WEIR_OK;
}

static weir_status wait_for_both(weir_device *device, uintptr_t one, uintptr_t other, weir_error *error) {
    (void)device, (void)one, (void)other, (void)error;
    return WEIR_OK;
}

static weir_status wait_for_all(weir_device *device, weir_error *error) {
    (void)device, (void)error;
    return WEIR_OK;
}

static weir_status query_event(weir_device *device, weir_event event, bool *is_done, weir_error *error) {
    (void)device, (void)event, (void)error;
    *is_done = true;
    return WEIR_OK;
}

static weir_status copy(weir_device *device, void *to, const void *from, size_t size, weir_stream stream,
                        weir_error *error) {
    (void)device, (void)stream, (void)error;
    memcpy(to, from, size);
    return WEIR_OK;
}

static weir_status clear(weir_device *device, void *memory, size_t size, weir_stream stream,
                         weir_error *error) {
    (void)device, (void)stream, (void)error;
    memset(memory, 0, size);
    return WEIR_OK;
}

static weir_status take_from_pool(weir_device *device, size_t size, weir_stream stream, uintptr_t *out,
                                  weir_error *error) {
    (void)stream;
    return make(device, WEIR_DEVICE__MEMORY, size, out, error);
}

static void give_to_pool(weir_device *device, uintptr_t data, size_t size, weir_stream stream) {
    (void)stream;
    drop(device, WEIR_DEVICE__MEMORY, data, size);
}

static uint64_t reserved_by_pool(weir_device *device) {
    (void)device;
    return 0;
}

static weir_status open_kernel(weir_device *device, weir_device__kernel *kernel, weir_error *error) {
    (void)device, (void)error;
    kernel->function = ANY_HANDLE;
    return WEIR_OK;
}

static void close_kernel(weir_device *device, weir_device__kernel *kernel) {
    (void)device, (void)kernel;
}

static weir_status launch(weir_device *device, const weir_device__kernel *kernel,
                          const weir_device__launch *launched, weir_error *error) {
    (void)device, (void)error;
    kernel->source->run(launched->arguments);
    return WEIR_OK;
}

weir_status weir_device__host_device_open(const weir_env *env, weir_device **out, weir_error *error) {
    static const weir_device__operations operations = {
        .close = close_host,
        .hold = hold,
        .let_go = let_go,
        .make = make,
        .drop = drop,
        .stream_sync = wait_for_one,
        .stream_wait = wait_for_both,
        .event_record = wait_for_both,
        .event_query = query_event,
        .event_sync = wait_for_one,
        .copy_in = copy,
        .copy_out = copy,
        .copy_within = copy,
        .clear = clear,
        .settle = wait_for_all,
        .pool_open = wait_for_all,
        .pool_allocate = take_from_pool,
        .pool_free = give_to_pool,
        .pool_trim = wait_for_all, /* there is nothing to give back */
        .pool_reserved = reserved_by_pool,
        .kernel_open = open_kernel,
        .kernel_close = close_kernel,
        .launch = launch,
    };
    weir_device *device = weir__allocate_zero(env, 1, sizeof *device);
    if (!device)
        return weir__out_of_memory(error, WEIR_DEVICE__OPERATOR, sizeof *device);
    device->env = env;
    device->operations = &operations;
    device->info = (weir_device_info){.is_host = true, .name = "host"};
    *out = device;
    return WEIR_OK;
}
