/* A GPU: each operation makes the device's primary context the thread's current one, if it is not (in a
 * program of PyTorch's it is), calls the driver, and leaves the thread as it was. Results are checked, all
 * but those of giving back. */
#include <string.h>

#include "device/cuda_api.h"
#include "device/device.h"

enum { OLDEST_VERSION = 11000 };

typedef struct cuda_device {
    weir_device base;
    weir_device__cuda_api api;
    char *compiler; /* NULL: the usual one */
    int ordinal;
    bool has_context;
    uintptr_t context;
    uintptr_t pool; /* the driver's own, if somebody asked for it */
} cuda_device;

static cuda_device *cuda_of(weir_device *device) {
    return (cuda_device *)device;
}

/* ---- Errors ------------------------------------------------------------------------------------ */

static const char *advice_of(int result) {
    switch (result) {
    case WEIR_DEVICE__CUDA_OUT_OF_MEMORY:
        return "; use fewer or smaller slots, or a device with more free memory";
    case WEIR_DEVICE__CUDA_NO_DEVICE:
    case WEIR_DEVICE__CUDA_INVALID_DEVICE:
        return "; look what 'nvidia-smi' shows and what CUDA_VISIBLE_DEVICES hides, or use the host as the "
               "device (--device host)";
    default:
        return "";
    }
}

static weir_status failed(const cuda_device *d, int result, const char *function, weir_error *error) {
    const char *name = NULL;
    const char *text = NULL;
    if (d->api.GetErrorName(result, &name) != WEIR_DEVICE__CUDA_SUCCESS || !name)
        name = "an unknown error";
    if (d->api.GetErrorString(result, &text) != WEIR_DEVICE__CUDA_SUCCESS || !text)
        text = "no text";
    weir_status status =
        weir__fail(error, WEIR_DEVICE_ERROR, WEIR_DEVICE__OPERATOR,
                   "the device's driver failed in cu%s: %s (%s)%s", function, name, text, advice_of(result));
    weir__note_int(error, "code", result);
    weir__note_text(error, "name", name, strlen(name));
    weir__note_text(error, "function", function, strlen(function));
    return status;
}

static weir_status check(const cuda_device *d, int result, const char *function, weir_error *error) {
    return result == WEIR_DEVICE__CUDA_SUCCESS ? WEIR_OK : failed(d, result, function, error);
}

#define CALL(d, error, function, arguments) check(d, (d)->api.function arguments, #function, error)

/* ---- The context ------------------------------------------------------------------------------- */

/* *is_pushed: what leave must undo; false after a failure. */
static weir_status enter(cuda_device *d, bool *is_pushed, weir_error *error) {
    uintptr_t current = 0;
    *is_pushed = false;
    weir_status status = CALL(d, error, CtxGetCurrent, (&current));
    if (status != WEIR_OK || current == d->context)
        return status;
    status = CALL(d, error, CtxPushCurrent, (d->context));
    *is_pushed = status == WEIR_OK;
    return status;
}

/* The first failure of the two: what was done is to be undone if this is another status than that was. */
static weir_status leave(cuda_device *d, bool is_pushed, weir_status status, weir_error *error) {
    uintptr_t popped;
    if (!is_pushed)
        return status;
    weir_status left = CALL(d, status == WEIR_OK ? error : NULL, CtxPopCurrent, (&popped));
    return status ? status : left;
}

#define IN_CONTEXT(d, error, function, arguments)                                                            \
    do {                                                                                                     \
        bool is_pushed_;                                                                                     \
        WEIR__TRY(enter(d, &is_pushed_, error));                                                             \
        return leave(d, is_pushed_, CALL(d, error, function, arguments), error);                             \
    } while (0)

static weir_status hold(weir_device *device, bool *is_held, weir_error *error) {
    return enter(cuda_of(device), is_held, error);
}

static void let_go(weir_device *device, bool is_held) {
    (void)leave(cuda_of(device), is_held, WEIR_OK, NULL);
}

/* ---- Resources --------------------------------------------------------------------------------- */

static weir_status make_zeroed_memory(cuda_device *d, size_t size, uintptr_t *out, weir_error *error) {
    WEIR__TRY(CALL(d, error, MemAlloc, (out, size)));
    weir_status status = CALL(d, error, MemsetD8Async, (*out, 0, size, 0));
    if (status == WEIR_OK)
        status = CALL(d, error, StreamSynchronize, (0));
    if (status != WEIR_OK)
        (void)d->api.MemFree(*out);
    return status;
}

static weir_status make_inside(cuda_device *d, weir_device__resource kind, size_t size, uintptr_t *out,
                               weir_error *error) {
    weir_status status;
    switch (kind) {
    case WEIR_DEVICE__MEMORY:
        return make_zeroed_memory(d, size, out, error);
    case WEIR_DEVICE__PINNED_MEMORY:
        status = CALL(d, error, MemHostAlloc, (out, size, WEIR_DEVICE__CUDA_HOST_PORTABLE));
        if (status == WEIR_OK)
            memset((void *)*out, 0, size);
        return status;
    case WEIR_DEVICE__STREAM:
        return CALL(d, error, StreamCreate, (out, WEIR_DEVICE__CUDA_STREAM_NON_BLOCKING));
    default:
        return CALL(d, error, EventCreate, (out, WEIR_DEVICE__CUDA_EVENT_DISABLE_TIMING));
    }
}

static void drop_inside(cuda_device *d, weir_device__resource kind, uintptr_t handle) {
    switch (kind) {
    case WEIR_DEVICE__MEMORY:
        (void)d->api.MemFree(handle);
        return;
    case WEIR_DEVICE__PINNED_MEMORY:
        (void)d->api.MemFreeHost(handle);
        return;
    case WEIR_DEVICE__STREAM:
        (void)d->api.StreamDestroy(handle);
        return;
    default:
        (void)d->api.EventDestroy(handle);
    }
}

/* The driver gives no memory of 0 bytes. */
static weir_status make(weir_device *device, weir_device__resource kind, size_t size, uintptr_t *out,
                        weir_error *error) {
    cuda_device *d = cuda_of(device);
    uintptr_t handle = 0;
    bool is_pushed;
    WEIR__TRY(enter(d, &is_pushed, error));
    weir_status made = make_inside(d, kind, size ? size : 1, &handle, error);
    weir_status status = leave(d, is_pushed, made, error);
    if (made != status)
        drop_inside(d, kind, handle); /* the context could not be popped: it is current still */
    if (status == WEIR_OK)
        *out = handle;
    return status;
}

static void drop(weir_device *device, weir_device__resource kind, uintptr_t handle, size_t size) {
    cuda_device *d = cuda_of(device);
    bool is_pushed;
    (void)size;
    (void)enter(d, &is_pushed, NULL); /* tried all the same: a driver that is gone has taken all with it */
    drop_inside(d, kind, handle);
    (void)leave(d, is_pushed, WEIR_OK, NULL);
}

/* ---- Streams and events ------------------------------------------------------------------------ */

static weir_status sync_stream(weir_device *device, weir_stream stream, weir_error *error) {
    IN_CONTEXT(cuda_of(device), error, StreamSynchronize, (stream));
}

static weir_status wait_for_event(weir_device *device, weir_stream stream, weir_event event,
                                  weir_error *error) {
    IN_CONTEXT(cuda_of(device), error, StreamWaitEvent, (stream, event, 0));
}

static weir_status record_event(weir_device *device, weir_event event, weir_stream stream,
                                weir_error *error) {
    IN_CONTEXT(cuda_of(device), error, EventRecord, (event, stream));
}

static weir_status query_event(weir_device *device, weir_event event, bool *is_done, weir_error *error) {
    cuda_device *d = cuda_of(device);
    bool is_pushed;
    WEIR__TRY(enter(d, &is_pushed, error));
    int result = d->api.EventQuery(event);
    bool is_answer = result == WEIR_DEVICE__CUDA_SUCCESS || result == WEIR_DEVICE__CUDA_NOT_READY;
    weir_status status =
        leave(d, is_pushed, is_answer ? WEIR_OK : failed(d, result, "EventQuery", error), error);
    if (status == WEIR_OK)
        *is_done = result == WEIR_DEVICE__CUDA_SUCCESS;
    return status;
}

static weir_status sync_event(weir_device *device, weir_event event, weir_error *error) {
    IN_CONTEXT(cuda_of(device), error, EventSynchronize, (event));
}

/* ---- Work -------------------------------------------------------------------------------------- */

static weir_status copy_in(weir_device *device, void *to, const void *from, size_t size, weir_stream stream,
                           weir_error *error) {
    IN_CONTEXT(cuda_of(device), error, MemcpyHtoDAsync, ((uintptr_t)to, from, size, stream));
}

static weir_status copy_out(weir_device *device, void *to, const void *from, size_t size, weir_stream stream,
                            weir_error *error) {
    IN_CONTEXT(cuda_of(device), error, MemcpyDtoHAsync, (to, (uintptr_t)from, size, stream));
}

static weir_status copy_within(weir_device *device, void *to, const void *from, size_t size,
                               weir_stream stream, weir_error *error) {
    IN_CONTEXT(cuda_of(device), error, MemcpyDtoDAsync, ((uintptr_t)to, (uintptr_t)from, size, stream));
}

static weir_status clear(weir_device *device, void *memory, size_t size, weir_stream stream,
                         weir_error *error) {
    IN_CONTEXT(cuda_of(device), error, MemsetD8Async, ((uintptr_t)memory, 0, size, stream));
}

static weir_status settle(weir_device *device, weir_error *error) {
    IN_CONTEXT(cuda_of(device), error, CtxSynchronize, ());
}

/* ---- Pages: addresses apart from memory --------------------------------------------------------- */

static cuda_device *device_of(void *context) {
    return cuda_of(((weir_device__owned_memory *)context)->device);
}

static weir_device__cuda_allocation allocation_on(const cuda_device *d) {
    return (weir_device__cuda_allocation){.type = WEIR_DEVICE__CUDA_ALLOCATION_PINNED,
                                          .location = {WEIR_DEVICE__CUDA_ON_DEVICE, d->ordinal}};
}

static weir_status measure_pages(void *context, size_t *unit, weir_error *error) {
    cuda_device *d = device_of(context);
    weir_device__cuda_allocation allocation = allocation_on(d);
    IN_CONTEXT(d, error, MemGetAllocationGranularity, (unit, &allocation, 0));
}

static weir_status reserve_range(void *context, size_t size, void **out, weir_error *error) {
    cuda_device *d = device_of(context);
    uintptr_t range = 0;
    bool is_pushed;
    WEIR__TRY(enter(d, &is_pushed, error));
    weir_status reserved = CALL(d, error, MemAddressReserve, (&range, size, 0, 0, 0));
    weir_status status = leave(d, is_pushed, reserved, error);
    if (reserved != status)
        (void)d->api.MemAddressFree(range, size);
    *out = (void *)range;
    return status;
}

static void unreserve_range(void *context, void *range, size_t size) {
    cuda_device *d = device_of(context);
    bool is_pushed;
    (void)enter(d, &is_pushed, NULL);
    (void)d->api.MemAddressFree((uintptr_t)range, size);
    (void)leave(d, is_pushed, WEIR_OK, NULL);
}

static void drop_pages(void *context, uint64_t handle) {
    cuda_device *d = device_of(context);
    bool is_pushed;
    (void)enter(d, &is_pushed, NULL);
    (void)d->api.MemRelease(handle);
    (void)leave(d, is_pushed, WEIR_OK, NULL);
}

static weir_status map_inside(cuda_device *d, uintptr_t at, size_t size, uint64_t handle, uint64_t offset,
                              weir_error *error) {
    weir_device__cuda_access access = {{WEIR_DEVICE__CUDA_ON_DEVICE, d->ordinal},
                                       WEIR_DEVICE__CUDA_READ_AND_WRITE};
    WEIR__TRY(CALL(d, error, MemMap, (at, size, (size_t)offset, handle, 0)));
    weir_status status = CALL(d, error, MemSetAccess, (at, size, &access, 1));
    if (status != WEIR_OK)
        (void)d->api.MemUnmap(at, size);
    return status;
}

static weir_status map_pages(void *context, void *at, size_t size, uint64_t handle, uint64_t offset,
                             weir_error *error) {
    cuda_device *d = device_of(context);
    bool is_pushed;
    WEIR__TRY(enter(d, &is_pushed, error));
    weir_status mapped = map_inside(d, (uintptr_t)at, size, handle, offset, error);
    weir_status status = leave(d, is_pushed, mapped, error);
    if (mapped != status)
        (void)d->api.MemUnmap((uintptr_t)at, size);
    return status;
}

/* Tried whatever the context says: what counts is whether the memory is gone. */
static weir_status unmap_pages(void *context, void *at, size_t size, weir_error *error) {
    cuda_device *d = device_of(context);
    bool is_pushed;
    (void)enter(d, &is_pushed, NULL);
    weir_status status = CALL(d, error, MemUnmap, ((uintptr_t)at, size));
    (void)leave(d, is_pushed, WEIR_OK, NULL);
    return status;
}

/* Memory is zeroed while it is mapped at `at`. */
static weir_status create_inside(cuda_device *d, uintptr_t at, size_t size, uint64_t *handle,
                                 weir_error *error) {
    weir_device__cuda_allocation allocation = allocation_on(d);
    WEIR__TRY(CALL(d, error, MemCreate, (handle, size, &allocation, 0)));
    weir_status status = map_inside(d, at, size, *handle, 0, error);
    bool is_mapped = status == WEIR_OK;
    if (is_mapped)
        status = CALL(d, error, MemsetD8Async, (at, 0, size, 0));
    if (is_mapped && status == WEIR_OK)
        status = CALL(d, error, StreamSynchronize, (0));
    if (status == WEIR_OK)
        return WEIR_OK;
    if (is_mapped)
        (void)d->api.MemUnmap(at, size);
    (void)d->api.MemRelease(*handle);
    return status;
}

/* What is mapped stays after its handle is released. */
static weir_status back_range(void *context, void *at, size_t size, weir_error *error) {
    cuda_device *d = device_of(context);
    uint64_t handle = 0;
    bool is_pushed;
    WEIR__TRY(enter(d, &is_pushed, error));
    weir_status backed = create_inside(d, (uintptr_t)at, size, &handle, error);
    if (backed == WEIR_OK)
        (void)d->api.MemRelease(handle);
    weir_status status = leave(d, is_pushed, backed, error);
    if (backed != status)
        (void)d->api.MemUnmap((uintptr_t)at, size);
    return status;
}

static weir_status make_inside_range(cuda_device *d, size_t size, uint64_t *handle, weir_error *error) {
    uintptr_t range = 0;
    WEIR__TRY(CALL(d, error, MemAddressReserve, (&range, size, 0, 0, 0)));
    weir_status status = create_inside(d, range, size, handle, error);
    if (status == WEIR_OK)
        (void)d->api.MemUnmap(range, size);
    (void)d->api.MemAddressFree(range, size);
    return status;
}

static weir_status make_pages(void *context, size_t size, uint64_t *handle, weir_error *error) {
    cuda_device *d = device_of(context);
    bool is_pushed;
    WEIR__TRY(enter(d, &is_pushed, error));
    weir_status made = make_inside_range(d, size, handle, error);
    weir_status status = leave(d, is_pushed, made, error);
    if (made != status)
        (void)d->api.MemRelease(*handle);
    return status;
}

static const weir_pages cuda_pages = {.measure = measure_pages,
                                      .reserve = reserve_range,
                                      .unreserve = unreserve_range,
                                      .make = make_pages,
                                      .drop = drop_pages,
                                      .map = map_pages,
                                      .back = back_range,
                                      .unmap = unmap_pages};

/* ---- The driver's pool -------------------------------------------------------------------------- */

/* It keeps what is freed, for the next request, until it is trimmed. */
static weir_status open_pool(weir_device *device, weir_error *error) {
    cuda_device *d = cuda_of(device);
    uint64_t all = UINT64_MAX;
    if (!d->api.DeviceGetDefaultMemPool || !d->api.MemPoolSetAttribute || !d->api.MemPoolGetAttribute ||
        !d->api.MemPoolTrimTo || !d->api.MemAllocAsync || !d->api.MemFreeAsync)
        return weir__fail(error, WEIR_DEVICE_ERROR, WEIR_DEVICE__OPERATOR,
                          "the driver has no memory pools; install one for CUDA 11.2 or later");
    WEIR__TRY(CALL(d, error, DeviceGetDefaultMemPool, (&d->pool, d->ordinal)));
    return CALL(d, error, MemPoolSetAttribute, (d->pool, WEIR_DEVICE__CUDA_POOL_THRESHOLD, &all));
}

/* Giving memory of 0 bytes out is no thing of the driver's. */
static weir_status take_from_pool(weir_device *device, size_t size, weir_stream stream, uintptr_t *out,
                                  weir_error *error) {
    cuda_device *d = cuda_of(device);
    bool is_pushed;
    WEIR__TRY(enter(d, &is_pushed, error));
    weir_status taken = CALL(d, error, MemAllocAsync, (out, size ? size : 1, stream));
    weir_status status = leave(d, is_pushed, taken, error);
    if (taken != status)
        (void)d->api.MemFreeAsync(*out, stream);
    return status;
}

static void give_to_pool(weir_device *device, uintptr_t data, size_t size, weir_stream stream) {
    cuda_device *d = cuda_of(device);
    bool is_pushed;
    (void)size;
    (void)enter(d, &is_pushed, NULL);
    (void)d->api.MemFreeAsync(data, stream);
    (void)leave(d, is_pushed, WEIR_OK, NULL);
}

static weir_status trim_pool(weir_device *device, weir_error *error) {
    cuda_device *d = cuda_of(device);
    return CALL(d, error, MemPoolTrimTo, (d->pool, 0));
}

static uint64_t reserved_by_pool(weir_device *device) {
    cuda_device *d = cuda_of(device);
    uint64_t bytes = 0;
    (void)d->api.MemPoolGetAttribute(d->pool, WEIR_DEVICE__CUDA_POOL_RESERVED, &bytes);
    return bytes;
}

/* ---- Kernels ----------------------------------------------------------------------------------- */

static weir_status load_inside(cuda_device *d, weir_device__kernel *kernel, const char *image,
                               weir_error *error) {
    WEIR__TRY(CALL(d, error, ModuleLoadData, (&kernel->module, image)));
    weir_status status =
        CALL(d, error, ModuleGetFunction, (&kernel->function, kernel->module, kernel->source->name));
    if (status == WEIR_OK && kernel->source->shared_bytes > 0)
        status = CALL(d, error, FuncSetAttribute,
                      (kernel->function, WEIR_DEVICE__CUDA_MAX_DYNAMIC_SHARED,
                       WEIR__NARROW(int, kernel->source->shared_bytes)));
    if (status != WEIR_OK)
        (void)d->api.ModuleUnload(kernel->module);
    return status;
}

static weir_status load_kernel(cuda_device *d, weir_device__kernel *kernel, const char *image,
                               weir_error *error) {
    bool is_pushed;
    WEIR__TRY(enter(d, &is_pushed, error));
    weir_status loaded = load_inside(d, kernel, image, error);
    weir_status status = leave(d, is_pushed, loaded, error);
    if (loaded != status)
        (void)d->api.ModuleUnload(kernel->module);
    if (status != WEIR_OK)
        kernel->module = kernel->function = 0;
    return status;
}

static weir_status open_kernel(weir_device *device, weir_device__kernel *kernel, weir_error *error) {
    cuda_device *d = cuda_of(device);
    uint32_t capability = device->info.capability_major * 10 + device->info.capability_minor;
    char *image;
    WEIR__TRY(
        weir_device__nvrtc_compile(device->env, d->compiler, kernel->source, capability, &image, error));
    weir_status status = load_kernel(d, kernel, image, error);
    weir__release(device->env, image);
    return status;
}

static void close_kernel(weir_device *device, weir_device__kernel *kernel) {
    cuda_device *d = cuda_of(device);
    bool is_pushed;
    (void)enter(d, &is_pushed, NULL);
    (void)d->api.ModuleUnload(kernel->module);
    (void)leave(d, is_pushed, WEIR_OK, NULL);
}

static weir_status launch(weir_device *device, const weir_device__kernel *kernel,
                          const weir_device__launch *l, weir_error *error) {
    IN_CONTEXT(cuda_of(device), error, LaunchKernel,
               (kernel->function, l->blocks_x, l->blocks_y, 1, l->threads, 1, 1, kernel->source->shared_bytes,
                l->stream, (void **)l->arguments, NULL));
}

/* ---- Opening ----------------------------------------------------------------------------------- */

static void close_cuda(weir_device *device) {
    cuda_device *d = cuda_of(device);
    if (d->has_context)
        (void)d->api.DevicePrimaryCtxRelease(d->ordinal);
    weir__release(device->env, d->compiler);
    weir__release(device->env, d);
}

static weir_status check_version(cuda_device *d, weir_error *error) {
    int version = 0;
    WEIR__TRY(CALL(d, error, DriverGetVersion, (&version)));
    d->base.info.driver_version = WEIR__LOW(uint32_t, version);
    if (version < OLDEST_VERSION)
        return weir__fail(error, WEIR_DEVICE_ERROR, WEIR_DEVICE__OPERATOR,
                          "the driver is for CUDA %d.%d, but weir needs 11.0 or later; install a newer one",
                          version / 1000, version % 1000 / 10);
    return WEIR_OK;
}

static weir_status choose_device(cuda_device *d, uint32_t ordinal, weir_error *error) {
    int count = 0;
    WEIR__TRY(CALL(d, error, DeviceGetCount, (&count)));
    if (count <= 0 || ordinal >= WEIR__NARROW(uint32_t, count))
        return weir__fail(error, WEIR_DEVICE_ERROR, WEIR_DEVICE__OPERATOR,
                          "there is no device %u: the driver has %d%s", ordinal, count,
                          advice_of(WEIR_DEVICE__CUDA_NO_DEVICE));
    d->base.info.ordinal = ordinal;
    return CALL(d, error, DeviceGet, (&d->ordinal, WEIR__NARROW(int, ordinal)));
}

static weir_status describe(cuda_device *d, weir_error *error) {
    weir_device_info *info = &d->base.info;
    int major = 0, minor = 0, multiprocessors = 0, has_pages = 0;
    size_t bytes = 0;
    WEIR__TRY(CALL(d, error, DeviceGetName, (info->name, WEIR__NARROW(int, sizeof info->name), d->ordinal)));
    WEIR__TRY(CALL(d, error, DeviceGetAttribute, (&major, WEIR_DEVICE__CUDA_CAPABILITY_MAJOR, d->ordinal)));
    WEIR__TRY(CALL(d, error, DeviceGetAttribute, (&minor, WEIR_DEVICE__CUDA_CAPABILITY_MINOR, d->ordinal)));
    WEIR__TRY(CALL(d, error, DeviceGetAttribute,
                   (&multiprocessors, WEIR_DEVICE__CUDA_MULTIPROCESSOR_COUNT, d->ordinal)));
    WEIR__TRY(CALL(d, error, DeviceGetAttribute, (&has_pages, WEIR_DEVICE__CUDA_VIRTUAL_MEMORY, d->ordinal)));
    WEIR__TRY(CALL(d, error, DeviceTotalMem, (&bytes, d->ordinal)));
    info->name[sizeof info->name - 1] = 0;
    info->capability_major = WEIR__LOW(uint32_t, major);
    info->capability_minor = WEIR__LOW(uint32_t, minor);
    info->multiprocessors = WEIR__LOW(uint32_t, multiprocessors);
    info->memory_bytes = bytes;
    d->base.pages = has_pages ? &cuda_pages : NULL;
    return WEIR_OK;
}

static weir_status open_cuda(cuda_device *d, const weir_device_options *options, weir_error *error) {
    if (options->compiler) {
        d->compiler = weir__copy_text(d->base.env, options->compiler, strlen(options->compiler));
        if (!d->compiler)
            return weir__out_of_memory(error, WEIR_DEVICE__OPERATOR, strlen(options->compiler));
    }
    WEIR__TRY(weir_device__cuda_load(options->library, &d->api, error));
    WEIR__TRY(CALL(d, error, Init, (0)));
    WEIR__TRY(check_version(d, error));
    WEIR__TRY(choose_device(d, options->ordinal, error));
    WEIR__TRY(describe(d, error));
    WEIR__TRY(CALL(d, error, DevicePrimaryCtxRetain, (&d->context, d->ordinal)));
    d->has_context = true;
    return WEIR_OK;
}

weir_status weir_device__cuda_device_open(const weir_env *env, const weir_device_options *options,
                                          weir_device **out, weir_error *error) {
    static const weir_device__operations operations = {
        .close = close_cuda,
        .hold = hold,
        .let_go = let_go,
        .make = make,
        .drop = drop,
        .stream_sync = sync_stream,
        .stream_wait = wait_for_event,
        .event_record = record_event,
        .event_query = query_event,
        .event_sync = sync_event,
        .copy_in = copy_in,
        .copy_out = copy_out,
        .copy_within = copy_within,
        .clear = clear,
        .settle = settle,
        .pool_open = open_pool,
        .pool_allocate = take_from_pool,
        .pool_free = give_to_pool,
        .pool_trim = trim_pool,
        .pool_reserved = reserved_by_pool,
        .kernel_open = open_kernel,
        .kernel_close = close_kernel,
        .launch = launch,
    };
    cuda_device *d = weir__allocate_zero(env, 1, sizeof *d);
    if (!d)
        return weir__out_of_memory(error, WEIR_DEVICE__OPERATOR, sizeof *d);
    d->base.env = env;
    d->base.operations = &operations;
    weir_status status = open_cuda(d, options, error);
    if (status != WEIR_OK) {
        close_cuda(&d->base);
        return status;
    }
    *out = &d->base;
    return WEIR_OK;
}
