/* Opening the fake driver, to steer it, and devices that it drives. */
#ifndef WEIR_TESTS_FAKE_DRIVER_H
#define WEIR_TESTS_FAKE_DRIVER_H

#include <dlfcn.h>
#include <string.h>

#include "support/fake_cuda.h"
#include "support/testing.h"

static inline void fake_driver_open(fake_driver *fake) {
    fake->library = dlopen(WEIR_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    assert_non_null(fake->library);
#define FIND(name)                                                                                           \
    do {                                                                                                     \
        void *address = dlsym(fake->library, "fake_cuda_" #name);                                            \
        assert_non_null(address);                                                                            \
        memcpy(&fake->name, &address, sizeof address);                                                       \
    } while (0)
    FIND(reset);
    FIND(set_schedule);
    FIND(fail_call);
    FIND(calls);
    FIND(live);
    FIND(depth);
    FIND(set_version);
    FIND(set_device_count);
    FIND(set_pages);
#undef FIND
    fake->reset();
}

static inline weir_status open_fake_device(const weir_env *env, weir_device **device, weir_error *error) {
    weir_device_options options = {
        .size = sizeof options, .library = WEIR_FAKE_CUDA, .compiler = WEIR_FAKE_CUDA};
    return weir_device_open(env, &options, device, error);
}

static inline weir_status open_host_device(const weir_env *env, weir_device **device, weir_error *error) {
    weir_device_options options = {.size = sizeof options, .library = "host"};
    return weir_device_open(env, &options, device, error);
}

#endif
