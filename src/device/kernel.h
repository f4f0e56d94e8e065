/* What the library itself needs of a device beyond the public calls. Kernels: work that is written once, as a
 * function that compiles as CUDA C and as C. The GPU runs what NVRTC makes of the text; the host runs the
 * function. */
#ifndef WEIR_DEVICE_KERNEL_H
#define WEIR_DEVICE_KERNEL_H

#include "weir/device.h"

typedef struct weir_device__kernel_source {
    const char *name;          /* extern "C" __global__ in the text */
    const unsigned char *text; /* CUDA C, not terminated */
    size_t text_size;
    const char *const *options; /* of the compiler; NULL: products are not contracted (--fmad=false), so
                                   that floats are the same as on the host */
    size_t option_count;
    uint32_t shared_bytes; /* that a block has, beyond what the text declares */
    bool is_specific;      /* needs instructions of this very processor, which later ones lack ("sm_90a") */
    void (*run)(void *const *arguments); /* all of it, on the host; may be NULL if that is never the device */
} weir_device__kernel_source;

typedef struct weir_device__kernel {
    const weir_device__kernel_source *source;
    uintptr_t module;
    uintptr_t function;
} weir_device__kernel;

/* A grid of blocks, and the address of each argument. */
typedef struct weir_device__launch {
    uint32_t blocks_x;
    uint32_t blocks_y;
    uint32_t threads; /* of a block */
    void *const *arguments;
    weir_stream stream;
} weir_device__launch;

/* Many calls in a row are cheaper between these two, in one thread. let_go takes what hold gave. */
WEIR_CHECKED weir_status weir_device__hold(weir_device *device, bool *is_held, weir_error *error);
void weir_device__let_go(weir_device *device, bool is_held);

/* DEVICE_ERROR if there is no compiler, with how to get it, or the compiler's own words. */
WEIR_CHECKED weir_status weir_device__kernel_open(weir_device *device,
                                                  const weir_device__kernel_source *source,
                                                  weir_device__kernel *out, weir_error *error);
void weir_device__kernel_close(weir_device *device, weir_device__kernel *kernel);
WEIR_CHECKED weir_status weir_device__kernel_launch(weir_device *device, const weir_device__kernel *kernel,
                                                    const weir_device__launch *launch, weir_error *error);

#endif
