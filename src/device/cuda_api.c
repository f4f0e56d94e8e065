/* Finding the driver's library. Every function is looked up by the symbol of the interface that is declared
 * in cuda_api.h; a driver that lacks one is too old. */
#include <dlfcn.h>
#include <string.h>

#include "device/cuda_api.h"
#include "device/device.h"

#define HOW_TO_GET_IT                                                                                        \
    "install NVIDIA's driver (version 450 or later), or use the host as the device (--device host)"

weir_status weir__cuda_load(const char *path, weir__cuda_api *out, weir_error *error) {
    /* Never unloaded: the driver has threads and state that outlive its last call. */
    void *library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const char *missing = NULL;
    void *address;
    if (!library)
        return weir__fail(error, WEIR_DEVICE_ERROR, WEIR__DEVICE_OPERATOR,
                          "CUDA's driver cannot be loaded (%s); " HOW_TO_GET_IT, dlerror());
#define FIND(name, symbol, parameters)                                                                       \
    address = dlsym(library, symbol);                                                                        \
    memcpy(&out->name, &address, sizeof address);                                                            \
    if (!address && !missing)                                                                                \
        missing = symbol;
    WEIR__CUDA_FUNCTIONS(FIND)
#undef FIND
    if (missing)
        return weir__fail(error, WEIR_DEVICE_ERROR, WEIR__DEVICE_OPERATOR,
                          "CUDA's driver is too old: it lacks the function %s; " HOW_TO_GET_IT, missing);
    return WEIR_OK;
}
