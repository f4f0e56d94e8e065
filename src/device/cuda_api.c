/* Finding the libraries: the driver's, where every function is looked up by the symbol of the interface that
 * is declared in cuda_api.h (one that lacks one is too old), and the run-time compiler's. */
#include <dlfcn.h>
#include <string.h>

#include "device/cuda_api.h"
#include "device/device.h"

#define HOW_TO_GET_THE_DRIVER                                                                                \
    "install NVIDIA's driver (version 450 or later), or use the host as the device (--device host)"

#define HOW_TO_GET_THE_COMPILER "install CUDA's libnvrtc (it comes with the toolkit and with PyTorch)"

/* Never unloaded: the libraries have threads and state that outlive their last call. */
static void *load(const char *path) {
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

weir_status weir_device__cuda_load(const char *path, weir_device__cuda_api *out, weir_error *error) {
    void *library = load(path ? path : "libcuda.so.1");
    const char *missing = NULL;
    void *address;
    if (!library)
        return weir__fail(error, WEIR_DEVICE_ERROR, WEIR_DEVICE__OPERATOR,
                          "CUDA's driver cannot be loaded (%s); " HOW_TO_GET_THE_DRIVER, dlerror());
#define FIND(name, symbol, parameters)                                                                       \
    address = dlsym(library, symbol);                                                                        \
    memcpy(&out->name, &address, sizeof address);                                                            \
    if (!address && !missing)                                                                                \
        missing = symbol;
    WEIR_DEVICE__CUDA_POOL_FUNCTIONS(FIND)
    missing = NULL;
    WEIR_DEVICE__CUDA_FUNCTIONS(FIND)
#undef FIND
    if (missing)
        return weir__fail(error, WEIR_DEVICE_ERROR, WEIR_DEVICE__OPERATOR,
                          "CUDA's driver is too old: it lacks the function %s; " HOW_TO_GET_THE_DRIVER,
                          missing);
    return WEIR_OK;
}

static void *load_from_usual_places(void) {
    static const char *const places[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12",
                                         "/usr/local/cuda/lib64/libnvrtc.so"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places && !library; i++)
        library = load(places[i]);
    return library;
}

weir_status weir_device__nvrtc_load(const char *path, weir_device__nvrtc_api *out, weir_error *error) {
    void *library = path ? load(path) : load_from_usual_places();
    const char *missing = NULL;
    void *address;
    if (!library)
        return weir__fail(error, WEIR_DEVICE_ERROR, WEIR_DEVICE__OPERATOR,
                          "CUDA's run-time compiler cannot be loaded (%s); " HOW_TO_GET_THE_COMPILER,
                          dlerror());
#define FIND(name, parameters)                                                                               \
    address = dlsym(library, "nvrtc" #name);                                                                 \
    memcpy(&out->name, &address, sizeof address);                                                            \
    if (!address && !missing)                                                                                \
        missing = "nvrtc" #name;
    WEIR_DEVICE__NVRTC_FUNCTIONS(FIND)
    FIND(GetErrorString, )
#undef FIND
    if (missing)
        return weir__fail(error, WEIR_DEVICE_ERROR, WEIR_DEVICE__OPERATOR,
                          "CUDA's run-time compiler lacks the function %s; " HOW_TO_GET_THE_COMPILER,
                          missing);
    return WEIR_OK;
}
