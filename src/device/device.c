/* The public calls: each leads to the device's operation of the same name. */
#include "device/device.h"
#include "base/ascii.h"
#include "base/options.h"
#include "weir_tool/device_work.h"

#include <stdlib.h>
#include <string.h>

weir_status weir_device_open(const weir_env *env, const weir_device_options *given, weir_device **out,
                             weir_error *error) {
    weir_device_options options;
    WEIR__TRY(WEIR__TAKE_OPTIONS(options, given, weir_device_options, WEIR_DEVICE__OPERATOR, error));
    bool is_host = options.library && strcmp(options.library, "host") == 0;
    weir_device *device;
    WEIR__TRY(is_host ? weir_device__host_device_open(weir__env_or_default(env), &device, error)
                      : weir_device__cuda_device_open(weir__env_or_default(env), &options, &device, error));
    for (int kind = WEIR_DEVICE__MEMORY; kind <= WEIR_DEVICE__PINNED_MEMORY; kind++)
        device->memories[kind] = (weir_device__owned_memory){device, (weir_device__resource)kind};
    *out = device;
    return WEIR_OK;
}

weir_status weir_device__name(const char *name, weir_device_options *out, weir_error *error) {
    bool is_path = strchr(name, '/') != NULL;
    *out = (weir_device_options){.size = sizeof *out};
    if (is_path || strcmp(name, "host") == 0) {
        out->library = name;
        out->compiler = is_path ? name : NULL;
    } else if (strcmp(name, "cuda") != 0) {
        char *end = NULL;
        bool has_number = weir__begins_with(name, "cuda:") && weir__is_digit(name[5]);
        unsigned long ordinal = has_number ? strtoul(name + 5, &end, 10) : 0;
        if (!has_number || *end || ordinal >= UINT32_MAX)
            return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_DEVICE__OPERATOR,
                              "a device is 'cuda', 'cuda:N' or 'host', not '%.80s'", name);
        out->ordinal = WEIR__NARROW(uint32_t, ordinal);
    }
    return WEIR_OK;
}

weir_status weir_device_open_named(const weir_env *env, const char *name, weir_device **out,
                                   weir_error *error) {
    weir_device_options options;
    weir_status status = weir_device__name(name, &options, error);
    return status ? status : weir_device_open(env, &options, out, error);
}

void weir_device_close(weir_device *device) {
    if (device)
        device->operations->close(device);
}

const weir_device_info *weir_device_describe(const weir_device *device) {
    return &device->info;
}

weir_status weir_device__hold(weir_device *device, bool *is_held, weir_error *error) {
    return device->operations->hold(device, is_held, error);
}

void weir_device__let_go(weir_device *device, bool is_held) {
    device->operations->let_go(device, is_held);
}

/* ---- Memory ------------------------------------------------------------------------------------ */

static void *allocate(void *context, size_t size, weir_error *error) {
    weir_device__owned_memory *memory = context;
    uintptr_t made;
    if (memory->device->operations->make(memory->device, memory->kind, size, &made, error) != WEIR_OK)
        return NULL;
    return (void *)made;
}

static void release(void *context, void *data, size_t size) {
    weir_device__owned_memory *memory = context;
    if (data)
        memory->device->operations->drop(memory->device, memory->kind, (uintptr_t)data, size);
}

static weir_status clear(void *context, void *data, size_t size, weir_error *error) {
    weir_device *device = ((weir_device__owned_memory *)context)->device;
    weir_status status = device->operations->clear(device, data, size, 0, error);
    return status ? status : device->operations->stream_sync(device, 0, error);
}

static weir_status write_data(void *context, void *to, const void *from, size_t size, weir_error *error) {
    weir_device *device = ((weir_device__owned_memory *)context)->device;
    weir_status status = device->operations->copy_in(device, to, from, size, 0, error);
    return status ? status : device->operations->stream_sync(device, 0, error);
}

static weir_status read_data(void *context, void *out, const void *from, size_t size, weir_error *error) {
    weir_device *device = ((weir_device__owned_memory *)context)->device;
    weir_status status = device->operations->copy_out(device, out, from, size, 0, error);
    return status ? status : device->operations->stream_sync(device, 0, error);
}

static weir_status copy_data(void *context, void *to, const void *from, size_t size, weir_error *error) {
    weir_device *device = ((weir_device__owned_memory *)context)->device;
    weir_status status = device->operations->copy_within(device, to, from, size, 0, error);
    return status ? status : device->operations->stream_sync(device, 0, error);
}

static weir_status settle(void *context, weir_error *error) {
    weir_device *device = ((weir_device__owned_memory *)context)->device;
    return device->operations->settle(device, error);
}

/* The host as a device has the host's own memory, pages and all. */
weir_memory weir_device_memory(weir_device *device) {
    if (device->info.is_host)
        return weir__host_memory(device->env);
    return (weir_memory){.context = &device->memories[WEIR_DEVICE__MEMORY],
                         .allocate = allocate,
                         .release = release,
                         .clear = clear,
                         .write = write_data,
                         .settle = settle,
                         .read = read_data,
                         .copy = copy_data,
                         .pages = device->pages};
}

weir_memory weir_device_pinned(weir_device *device) {
    return (weir_memory){
        .context = &device->memories[WEIR_DEVICE__PINNED_MEMORY], .allocate = allocate, .release = release};
}

/* ---- Streams and events ------------------------------------------------------------------------ */

weir_status weir_stream_open(weir_device *device, weir_stream *out, weir_error *error) {
    return device->operations->make(device, WEIR_DEVICE__STREAM, 0, out, error);
}

void weir_stream_close(weir_device *device, weir_stream stream) {
    if (stream)
        device->operations->drop(device, WEIR_DEVICE__STREAM, stream, 0);
}

weir_status weir_stream_sync(weir_device *device, weir_stream stream, weir_error *error) {
    return device->operations->stream_sync(device, stream, error);
}

weir_status weir_stream_wait(weir_device *device, weir_stream stream, weir_event event, weir_error *error) {
    return device->operations->stream_wait(device, stream, event, error);
}

weir_status weir_event_open(weir_device *device, weir_event *out, weir_error *error) {
    return device->operations->make(device, WEIR_DEVICE__EVENT, 0, out, error);
}

void weir_event_close(weir_device *device, weir_event event) {
    if (event)
        device->operations->drop(device, WEIR_DEVICE__EVENT, event, 0);
}

weir_status weir_event_record(weir_device *device, weir_event event, weir_stream stream, weir_error *error) {
    return device->operations->event_record(device, event, stream, error);
}

weir_status weir_event_query(weir_device *device, weir_event event, bool *is_done, weir_error *error) {
    return device->operations->event_query(device, event, is_done, error);
}

weir_status weir_event_sync(weir_device *device, weir_event event, weir_error *error) {
    return device->operations->event_sync(device, event, error);
}

/* ---- Work -------------------------------------------------------------------------------------- */

weir_status weir_copy_to_device(weir_device *device, void *to, const void *from, size_t size,
                                weir_stream stream, weir_error *error) {
    return size ? device->operations->copy_in(device, to, from, size, stream, error) : WEIR_OK;
}

weir_status weir_copy_to_host(weir_device *device, void *to, const void *from, size_t size,
                              weir_stream stream, weir_error *error) {
    return size ? device->operations->copy_out(device, to, from, size, stream, error) : WEIR_OK;
}

weir_status weir_device_clear(weir_device *device, void *memory, size_t size, weir_stream stream,
                              weir_error *error) {
    return size ? device->operations->clear(device, memory, size, stream, error) : WEIR_OK;
}

weir_status weir_device__kernel_open(weir_device *device, const weir_device__kernel_source *source,
                                     weir_device__kernel *out, weir_error *error) {
    *out = (weir_device__kernel){.source = source};
    return device->operations->kernel_open(device, out, error);
}

void weir_device__kernel_close(weir_device *device, weir_device__kernel *kernel) {
    if (kernel->function)
        device->operations->kernel_close(device, kernel);
    *kernel = (weir_device__kernel){0};
}

weir_status weir_device__kernel_launch(weir_device *device, const weir_device__kernel *kernel,
                                       const weir_device__launch *launch, weir_error *error) {
    return device->operations->launch(device, kernel, launch, error);
}
