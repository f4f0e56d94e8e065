/* DLPack: how programs hand each other tensors in memory. The structs are those of its ABI, before version 1
 * ("dltensor") and since ("dltensor_versioned", which can say read-only). */
#ifndef WEIR_PYTHON_DLPACK_H
#define WEIR_PYTHON_DLPACK_H

#include "module.h"

enum { DL_CPU = 1, DL_CUDA = 2 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BOOL = 6 };
enum { DL_FLAG_READ_ONLY = 1 };

typedef struct dl_tensor {
    void *data;
    struct {
        int32_t type;
        int32_t id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code;
        uint8_t bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape;
    int64_t *strides; /* in elements */
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
} dl_managed;

typedef struct dl_managed_versioned {
    struct {
        uint32_t major;
        uint32_t minor;
    } version;
    void *context;
    void (*deleter)(struct dl_managed_versioned *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_managed_versioned;

/* One tensor that was handed out: it keeps its owner until the consumer calls the deleter, from any thread.
 */
typedef struct py_export {
    union {
        dl_managed plain;
        dl_managed_versioned versioned;
    } as;
    py_shared *owner; /* or NULL */
    int64_t shape[PY_RANK_MAX];
    int64_t strides[PY_RANK_MAX];
} py_export;

/* NULL with MemoryError set. */
py_export *py_export_new(bool is_versioned, bool is_read_only);
void py_export_discard(py_export *export);

/* The capsule of an export, which it takes over also if it fails. */
PyObject *py_export_capsule(py_export *export, bool is_versioned);

#endif
