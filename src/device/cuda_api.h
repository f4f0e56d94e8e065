/* CUDA's driver API and its run-time compiler, as far as they are used here, declared by their binary
 * interface: handles are pointers or numbers, results are ints. The libraries are found at run time
 * (dlopen), so weir needs nothing of CUDA to be built. */
#ifndef WEIR_DEVICE_CUDA_API_H
#define WEIR_DEVICE_CUDA_API_H

#include "device/kernel.h"
#include "weir/device.h"

enum {
    WEIR_DEVICE__CUDA_SUCCESS = 0,
    WEIR_DEVICE__CUDA_OUT_OF_MEMORY = 2,
    WEIR_DEVICE__CUDA_NO_DEVICE = 100,
    WEIR_DEVICE__CUDA_INVALID_DEVICE = 101,
    WEIR_DEVICE__CUDA_NOT_READY = 600,
};

enum { /* of DeviceGetAttribute */
       WEIR_DEVICE__CUDA_MULTIPROCESSOR_COUNT = 16,
       WEIR_DEVICE__CUDA_CAPABILITY_MAJOR = 75,
       WEIR_DEVICE__CUDA_CAPABILITY_MINOR = 76,
       WEIR_DEVICE__CUDA_VIRTUAL_MEMORY = 102,
};

enum {
    WEIR_DEVICE__CUDA_HOST_PORTABLE = 1,        /* pinned memory that every context may read */
    WEIR_DEVICE__CUDA_STREAM_NON_BLOCKING = 1,  /* no waiting for the default stream */
    WEIR_DEVICE__CUDA_EVENT_DISABLE_TIMING = 2, /* cheaper */
    WEIR_DEVICE__CUDA_MAX_DYNAMIC_SHARED = 8,   /* of FuncSetAttribute */
    WEIR_DEVICE__CUDA_ALLOCATION_PINNED = 1,    /* of MemCreate: the only kind there is */
    WEIR_DEVICE__CUDA_ON_DEVICE = 1,            /* a place is a device */
    WEIR_DEVICE__CUDA_READ_AND_WRITE = 3,       /* of MemSetAccess */
    WEIR_DEVICE__CUDA_POOL_THRESHOLD = 4,       /* of a pool: bytes that it keeps */
    WEIR_DEVICE__CUDA_POOL_RESERVED = 5,        /* … and bytes that it has now */
};

/* The driver's CUmemLocation, CUmemAllocationProp and CUmemAccessDesc. */
typedef struct weir_device__cuda_location {
    int type;
    int id;
} weir_device__cuda_location;

typedef struct weir_device__cuda_allocation {
    int type;
    int handle_types;
    weir_device__cuda_location location;
    void *windows;
    uint8_t flags[8];
} weir_device__cuda_allocation;

typedef struct weir_device__cuda_access {
    weir_device__cuda_location location;
    int flags;
} weir_device__cuda_access;

_Static_assert(sizeof(weir_device__cuda_allocation) == 32 && sizeof(weir_device__cuda_access) == 12,
               "the driver's ABI");

/* Every function of the driver that is used: X(name without "cu", symbol, parameters). If the interface
 * of a name has changed since its first version, the symbol carries the version's number. */
#define WEIR_DEVICE__CUDA_FUNCTIONS(X)                                                                       \
    X(GetErrorName, "cuGetErrorName", (int, const char **))                                                  \
    X(GetErrorString, "cuGetErrorString", (int, const char **))                                              \
    X(Init, "cuInit", (unsigned))                                                                            \
    X(DriverGetVersion, "cuDriverGetVersion", (int *))                                                       \
    X(DeviceGetCount, "cuDeviceGetCount", (int *))                                                           \
    X(DeviceGet, "cuDeviceGet", (int *, int))                                                                \
    X(DeviceGetName, "cuDeviceGetName", (char *, int, int))                                                  \
    X(DeviceGetAttribute, "cuDeviceGetAttribute", (int *, int, int))                                         \
    X(DeviceTotalMem, "cuDeviceTotalMem_v2", (size_t *, int))                                                \
    X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (uintptr_t *, int))                                \
    X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (int))                                        \
    X(CtxGetCurrent, "cuCtxGetCurrent", (uintptr_t *))                                                       \
    X(CtxPushCurrent, "cuCtxPushCurrent_v2", (uintptr_t))                                                    \
    X(CtxPopCurrent, "cuCtxPopCurrent_v2", (uintptr_t *))                                                    \
    X(CtxSynchronize, "cuCtxSynchronize", (void))                                                            \
    X(MemAlloc, "cuMemAlloc_v2", (uintptr_t *, size_t))                                                      \
    X(MemFree, "cuMemFree_v2", (uintptr_t))                                                                  \
    X(MemHostAlloc, "cuMemHostAlloc", (uintptr_t *, size_t, unsigned))                                       \
    X(MemFreeHost, "cuMemFreeHost", (uintptr_t))                                                             \
    X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (uintptr_t, const void *, size_t, uintptr_t))                 \
    X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *, uintptr_t, size_t, uintptr_t))                       \
    X(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (uintptr_t, uintptr_t, size_t, uintptr_t))                    \
    X(MemsetD8Async, "cuMemsetD8Async", (uintptr_t, unsigned char, size_t, uintptr_t))                       \
    X(MemGetAllocationGranularity, "cuMemGetAllocationGranularity",                                          \
      (size_t *, const weir_device__cuda_allocation *, int))                                                 \
    X(MemAddressReserve, "cuMemAddressReserve", (uintptr_t *, size_t, size_t, uintptr_t, uint64_t))          \
    X(MemAddressFree, "cuMemAddressFree", (uintptr_t, size_t))                                               \
    X(MemCreate, "cuMemCreate", (uint64_t *, size_t, const weir_device__cuda_allocation *, uint64_t))        \
    X(MemRelease, "cuMemRelease", (uint64_t))                                                                \
    X(MemMap, "cuMemMap", (uintptr_t, size_t, size_t, uint64_t, uint64_t))                                   \
    X(MemUnmap, "cuMemUnmap", (uintptr_t, size_t))                                                           \
    X(MemSetAccess, "cuMemSetAccess", (uintptr_t, size_t, const weir_device__cuda_access *, size_t))         \
    X(StreamCreate, "cuStreamCreate", (uintptr_t *, unsigned))                                               \
    X(StreamDestroy, "cuStreamDestroy_v2", (uintptr_t))                                                      \
    X(StreamSynchronize, "cuStreamSynchronize", (uintptr_t))                                                 \
    X(StreamWaitEvent, "cuStreamWaitEvent", (uintptr_t, uintptr_t, unsigned))                                \
    X(EventCreate, "cuEventCreate", (uintptr_t *, unsigned))                                                 \
    X(EventDestroy, "cuEventDestroy_v2", (uintptr_t))                                                        \
    X(EventRecord, "cuEventRecord", (uintptr_t, uintptr_t))                                                  \
    X(EventQuery, "cuEventQuery", (uintptr_t))                                                               \
    X(EventSynchronize, "cuEventSynchronize", (uintptr_t))                                                   \
    X(ModuleLoadData, "cuModuleLoadData", (uintptr_t *, const void *))                                       \
    X(ModuleUnload, "cuModuleUnload", (uintptr_t))                                                           \
    X(ModuleGetFunction, "cuModuleGetFunction", (uintptr_t *, uintptr_t, const char *))                      \
    X(FuncSetAttribute, "cuFuncSetAttribute", (uintptr_t, int, int))                                         \
    X(LaunchKernel, "cuLaunchKernel",                                                                        \
      (uintptr_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, uintptr_t, void **,  \
       void **))

/* What drivers before CUDA 11.2 lack: NULL there. */
#define WEIR_DEVICE__CUDA_POOL_FUNCTIONS(X)                                                                  \
    X(DeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool", (uintptr_t *, int))                              \
    X(MemPoolSetAttribute, "cuMemPoolSetAttribute", (uintptr_t, int, void *))                                \
    X(MemPoolGetAttribute, "cuMemPoolGetAttribute", (uintptr_t, int, void *))                                \
    X(MemPoolTrimTo, "cuMemPoolTrimTo", (uintptr_t, size_t))                                                 \
    X(MemAllocAsync, "cuMemAllocAsync", (uintptr_t *, size_t, uintptr_t))                                    \
    X(MemFreeAsync, "cuMemFreeAsync", (uintptr_t, uintptr_t))

/* And of the compiler: X(name without "nvrtc", parameters). */
#define WEIR_DEVICE__NVRTC_FUNCTIONS(X)                                                                      \
    X(Version, (int *, int *))                                                                               \
    X(CreateProgram,                                                                                         \
      (uintptr_t *, const char *, const char *, int, const char *const *, const char *const *))              \
    X(CompileProgram, (uintptr_t, int, const char *const *))                                                 \
    X(GetCUBINSize, (uintptr_t, size_t *))                                                                   \
    X(GetCUBIN, (uintptr_t, char *))                                                                         \
    X(GetProgramLogSize, (uintptr_t, size_t *))                                                              \
    X(GetProgramLog, (uintptr_t, char *))                                                                    \
    X(DestroyProgram, (uintptr_t *))

typedef struct weir_device__cuda_api {
#define WEIR_DEVICE__CUDA_MEMBER(name, symbol, parameters) int(*name) parameters;
    WEIR_DEVICE__CUDA_FUNCTIONS(WEIR_DEVICE__CUDA_MEMBER)
    WEIR_DEVICE__CUDA_POOL_FUNCTIONS(WEIR_DEVICE__CUDA_MEMBER)
#undef WEIR_DEVICE__CUDA_MEMBER
} weir_device__cuda_api;

typedef struct weir_device__nvrtc_api {
#define WEIR_DEVICE__NVRTC_MEMBER(name, parameters) int(*name) parameters;
    WEIR_DEVICE__NVRTC_FUNCTIONS(WEIR_DEVICE__NVRTC_MEMBER)
#undef WEIR_DEVICE__NVRTC_MEMBER
    const char *(*GetErrorString)(int);
} weir_device__nvrtc_api;

/* Find, load and check the libraries, which stay loaded. `path` NULL: the usual names. DEVICE_ERROR says
 * what is missing and how to get it. */
WEIR_CHECKED weir_status weir_device__cuda_load(const char *path, weir_device__cuda_api *out,
                                                weir_error *error);
WEIR_CHECKED weir_status weir_device__nvrtc_load(const char *path, weir_device__nvrtc_api *out,
                                                 weir_error *error);

/* Compiles a kernel for a processor of a capability into a terminated image that the caller releases. */
WEIR_CHECKED weir_status weir_device__nvrtc_compile(const weir_env *env, const char *path,
                                                    const weir_device__kernel_source *source,
                                                    uint32_t capability, char **image, weir_error *error);

#endif
