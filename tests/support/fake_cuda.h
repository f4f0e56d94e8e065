/* A driver in host memory: libfakecuda.so has the functions of CUDA's driver and of its compiler that weir
 * uses, and these to steer it. A test finds them by dlsym in the same library (fake_driver_open). */
#ifndef WEIR_TESTS_FAKE_CUDA_H
#define WEIR_TESTS_FAKE_CUDA_H

#include <stdbool.h>
#include <stdint.h>

typedef struct fake_driver {
    /* Begins anew: no faults, no calls counted, lazy. What is live stays. */
    void (*reset)(void);

    /* 0: lazy: work is done when somebody waits for it. Else a seed: each call may do some of any stream's
     * work first, in every order that streams and events allow. */
    void (*set_schedule)(uint64_t seed);

    /* The nth call (from 1) of a function, such as "cuMemAlloc_v2", gives `result`. 0 calls: none. From
     * outside: WEIR_FAKE_CUDA_FAILS="cuMemAlloc_v2 3" in the environment, with the result 719. */
    void (*fail_call)(const char *function, uint64_t nth, int result);
    uint64_t (*calls)(const char *function);

    /* Memory, streams, events, modules, programs and contexts that are not given back. */
    int64_t (*live)(void);

    /* How deep this thread's stack of contexts is. */
    int (*depth)(void);

    void (*set_version)(int version);
    void (*set_device_count)(int count);
    void (*set_pages)(bool are_there); /* whether memory can be mapped apart from its addresses */
    void *library;
} fake_driver;

#endif
