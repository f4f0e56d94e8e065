/* weir/device.h: a GPU through its driver, or the host in its place (docs/devices.md).
 *
 *   weir_device_open_named(NULL, "cuda", &device, &error);          // or "host"
 *   weir_memory memory = weir_device_memory(device);
 *   void *data = memory.allocate(memory.context, size, &error);
 *
 * The driver is found at run time: nothing of CUDA is needed to build weir. The device's primary context is
 * used, so PyTorch, JAX and weir share memory, streams and events. A device may be used by any thread; the
 * thread's current context is as it was after each call. Every call that fails gives DEVICE_ERROR with the
 * driver's own name and text of what is wrong. */
#ifndef WEIR_DEVICE_H
#define WEIR_DEVICE_H

#include "weir/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_device weir_device;

typedef struct weir_device_options {
    size_t size;          /* sizeof(weir_device_options) */
    const char *library;  /* the driver; NULL: libcuda.so.1; "host": the host is the device */
    const char *compiler; /* of kernels; NULL: libnvrtc.so as the system finds it */
    uint32_t ordinal;     /* which of the driver's devices */
} weir_device_options;

typedef struct weir_device_info {
    bool is_host;
    uint32_t ordinal;
    char name[128];
    uint32_t driver_version;   /* 13020 is 13.2; 0: none */
    uint32_t capability_major; /* of the processor: 9.0 is Hopper */
    uint32_t capability_minor;
    uint32_t multiprocessors;
    uint64_t memory_bytes;
} weir_device_info;

/* Options may be NULL. DEVICE_ERROR says what is missing: a driver, a device, a version. */
WEIR_API WEIR_CHECKED weir_status weir_device_open(const weir_env *env, const weir_device_options *options,
                                                   weir_device **out, weir_error *error);

/* By name: "cuda" (the first GPU), "cuda:1", "host", or the path of a driver, which then is its compiler of
 * kernels too. CONTRACT_VIOLATION: any other name. */
WEIR_API WEIR_CHECKED weir_status weir_device_open_named(const weir_env *env, const char *name,
                                                         weir_device **out, weir_error *error);

/* Close everything that was made from the device first. */
WEIR_API void weir_device_close(weir_device *device);
WEIR_API const weir_device_info *weir_device_describe(const weir_device *device);

/* ---- Memory ---------------------------------------------------------------------------------- */

/* It belongs to the device. */
WEIR_API weir_memory weir_device_memory(weir_device *device);

/* ---- Streams and events ---------------------------------------------------------------------- */

/* The driver's own handles (CUstream, CUevent) as numbers, so that those of others can be given; 0 is the
 * default stream. On the host everything is done when its call returns. */
typedef uintptr_t weir_stream;
typedef uintptr_t weir_event;

/* Waits for an event. It is done when all that its stream was given before the record is; one that was never
 * recorded is done. A fault of earlier work comes out here, or in any call. */
WEIR_API WEIR_CHECKED weir_status weir_event_sync(weir_device *device, weir_event event, weir_error *error);

#ifdef __cplusplus
}
#endif
#endif
