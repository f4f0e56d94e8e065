/* What the public calls stand on: a table of operations, made once for CUDA (cuda.c) and once for the host
 * (host.c). Only these two know what a handle is. */
#ifndef WEIR_DEVICE_DEVICE_H
#define WEIR_DEVICE_DEVICE_H

#include "base/internal.h"
#include "device/kernel.h"
#include "weir/device.h"

#define WEIR_DEVICE__OPERATOR "weir.device"

typedef enum weir_device__resource {
    WEIR_DEVICE__MEMORY,        /* zeroed */
    WEIR_DEVICE__PINNED_MEMORY, /* zeroed */
    WEIR_DEVICE__STREAM,
    WEIR_DEVICE__EVENT,
    WEIR_DEVICE__RESOURCES
} weir_device__resource;

typedef struct weir_device__operations {
    void (*close)(weir_device *device);
    weir_status (*hold)(weir_device *device, bool *is_held, weir_error *error);
    void (*let_go)(weir_device *device, bool is_held);
    weir_status (*make)(weir_device *device, weir_device__resource kind, size_t size, uintptr_t *out,
                        weir_error *error);
    void (*drop)(weir_device *device, weir_device__resource kind, uintptr_t handle, size_t size);
    weir_status (*stream_sync)(weir_device *device, weir_stream stream, weir_error *error);
    weir_status (*stream_wait)(weir_device *device, weir_stream stream, weir_event event, weir_error *error);
    weir_status (*event_record)(weir_device *device, weir_event event, weir_stream stream, weir_error *error);
    weir_status (*event_query)(weir_device *device, weir_event event, bool *is_done, weir_error *error);
    weir_status (*event_sync)(weir_device *device, weir_event event, weir_error *error);
    weir_status (*copy_in)(weir_device *device, void *to, const void *from, size_t size, weir_stream stream,
                           weir_error *error);
    weir_status (*copy_out)(weir_device *device, void *to, const void *from, size_t size, weir_stream stream,
                            weir_error *error);
    weir_status (*copy_within)(weir_device *device, void *to, const void *from, size_t size,
                               weir_stream stream, weir_error *error);
    weir_status (*clear)(weir_device *device, void *memory, size_t size, weir_stream stream,
                         weir_error *error);
    weir_status (*settle)(weir_device *device, weir_error *error);
    /* The driver's own pool, in the order of streams. pool_open: DEVICE_ERROR if there is none. */
    weir_status (*pool_open)(weir_device *device, weir_error *error);
    weir_status (*pool_allocate)(weir_device *device, size_t size, weir_stream stream, uintptr_t *out,
                                 weir_error *error);
    void (*pool_free)(weir_device *device, uintptr_t data, size_t size, weir_stream stream);
    weir_status (*pool_trim)(weir_device *device, weir_error *error); /* gives back what is not used */
    uint64_t (*pool_reserved)(weir_device *device);
    weir_status (*kernel_open)(weir_device *device, weir_device__kernel *kernel, weir_error *error);
    void (*kernel_close)(weir_device *device, weir_device__kernel *kernel);
    weir_status (*launch)(weir_device *device, const weir_device__kernel *kernel,
                          const weir_device__launch *launch, weir_error *error);
} weir_device__operations;

/* A weir_memory's context. */
typedef struct weir_device__owned_memory {
    weir_device *device;
    weir_device__resource kind;
} weir_device__owned_memory;

struct weir_device {
    const weir_env *env;
    const weir_device__operations *operations;
    weir_device_info info;
    weir_device__owned_memory memories[2]; /* by resource */
    const weir_pages *pages;               /* of the device's memory; their context is memories[0] */
};

WEIR_CHECKED weir_status weir_device__host_device_open(const weir_env *env, weir_device **out,
                                                       weir_error *error);
WEIR_CHECKED weir_status weir_device__cuda_device_open(const weir_env *env,
                                                       const weir_device_options *options, weir_device **out,
                                                       weir_error *error);

/* What a device's name stands for (weir_device_open_named). CONTRACT_VIOLATION. */
WEIR_CHECKED weir_status weir_device__name(const char *name, weir_device_options *out, weir_error *error);

#endif
