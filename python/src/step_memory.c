/* weir.torch.planned_allocator's engine: a weir_step_memory, and the two functions that torch calls for every
 * tensor on the GPU. They are found by name in this library and have no place for a context, so one memory is
 * the process's; it lives until the end, as torch's allocator does. */
#include <stdio.h>
#include <stdlib.h>

#include "module.h"

typedef struct py_step_memory {
    py_shared shared;
    weir_device *device;
    weir_step_memory *memory;
} py_step_memory;

static py_step_memory *torchs; /* set once, before torch calls */

static weir_step_memory *memory_of(PyObject *self) {
    return ((py_step_memory *)((py_object *)self)->shared)->memory;
}

static void destroy(py_shared *self) {
    py_step_memory *m = (py_step_memory *)self;
    weir_step_memory_close(m->memory);
    weir_device_close(m->device);
    free(m);
}

/* ---- What torch calls, from any thread, without the GIL ------------------------------------------- */

#define EXPORT __attribute__((visibility("default")))

EXPORT void *weir_torch_allocate(ssize_t size, int device, void *stream);
EXPORT void weir_torch_free(void *data, ssize_t size, int device, void *stream);
EXPORT void weir_torch_share(void *data, void *stream);

/* torch does not look at NULL, so a failure cannot be told; going on would destroy other memory. */
static void die(const char *what) {
    char text[WEIR_MESSAGE_CAPACITY + 64];
    snprintf(text, sizeof text, "weir.torch.planned_allocator: %s", what);
    Py_FatalError(text);
}

void *weir_torch_allocate(ssize_t size, int device, void *stream) {
    weir_error error = {0};
    if (!torchs || (uint32_t)device != weir_device_describe(torchs->device)->ordinal)
        die("memory was asked for on another GPU than the one it was made for");
    void *data = weir_step_memory_allocate(torchs->memory, (size_t)size, (weir_stream)stream, &error);
    if (!data)
        die(error.message);
    return data;
}

void weir_torch_free(void *data, ssize_t Py_UNUSED(size), int Py_UNUSED(device), void *stream) {
    weir_step_memory_free(torchs->memory, data, (weir_stream)stream);
}

void weir_torch_share(void *data, void *stream) {
    weir_step_memory_share(torchs->memory, data, (weir_stream)stream);
}

/* ---- What Python calls -------------------------------------------------------------------------- */

/* _open(device, warmup, effort) */
static PyObject *open_memory(PyObject *class, PyObject *args) {
    const char *device = NULL;
    uint32_t warmup = 0, effort = 0;
    weir_error error;
    if (!PyArg_ParseTuple(args, "sO&O&:_open", &device, py_to_uint32, &warmup, py_to_uint32, &effort))
        return NULL;
    weir_step_memory_options options = {.size = sizeof options,
                                        .warmup_plus_one = warmup == UINT32_MAX ? warmup : warmup + 1,
                                        .effort_plus_one = effort == UINT32_MAX ? effort : effort + 1};
    py_step_memory *shared = py_shared_new(sizeof *shared, destroy);
    weir_status status = WEIR_OK;
    if (shared)
        status = weir_device_open_named(NULL, device, &shared->device, &error);
    if (shared && status == WEIR_OK)
        status = weir_step_memory_open(NULL, shared->device, &options, &shared->memory, &error);
    return py_opened(class, shared, status, &error);
}

/* Gives it to the functions above, for good. */
static PyObject *install(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    if (torchs) {
        PyErr_SetString(PyExc_RuntimeError, "this process has a planned allocator already");
        return NULL;
    }
    torchs = py_keep(((py_object *)self)->shared);
    Py_RETURN_NONE;
}

static PyObject *begin(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    weir_error error;
    return py_done(weir_step_memory_begin(memory_of(self), &error), &error);
}

static PyObject *end(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    weir_error error;
    weir_status status = WEIR_OK;
    PY_UNLOCKED(status = weir_step_memory_end(memory_of(self), &error));
    return py_done(status, &error);
}

static PyObject *allocate(PyObject *self, PyObject *args) {
    uint64_t size = 0, stream = 0;
    weir_error error;
    if (!PyArg_ParseTuple(args, "O&O&:_allocate", py_to_uint64, &size, py_to_uint64, &stream))
        return NULL;
    void *data = weir_step_memory_allocate(memory_of(self), (size_t)size, (weir_stream)stream, &error);
    return data ? PyLong_FromVoidPtr(data) : py_raise(&error);
}

static PyObject *free_memory(PyObject *self, PyObject *args) {
    uint64_t data = 0, stream = 0;
    if (!PyArg_ParseTuple(args, "O&O&:_free", py_to_uint64, &data, py_to_uint64, &stream))
        return NULL;
    weir_step_memory_free(memory_of(self), (void *)(uintptr_t)data, (weir_stream)stream);
    Py_RETURN_NONE;
}

static PyObject *describe(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    weir_step_memory_info i = weir_step_memory_describe(memory_of(self));
    return Py_BuildValue("{sKsNsKsKsKsKsKsKsKsKsKsK}", "steps", (ull)i.steps, "is_planned",
                         PyBool_FromLong(i.is_planned), "requests", (ull)i.requests, "planned",
                         (ull)i.planned, "block_bytes", (ull)i.block_bytes, "lower_bound", (ull)i.lower_bound,
                         "used_bytes", (ull)i.used_bytes, "peak_bytes", (ull)i.peak_bytes, "served",
                         (ull)i.served, "fell_through", (ull)i.fell_through, "pool_bytes", (ull)i.pool_bytes,
                         "pool_reserved", (ull)i.pool_reserved);
}

static PyMethodDef methods[] = {
    {"_open", open_memory, METH_VARARGS | METH_CLASS, "Memory of a loop on a device."},
    {"_install", install, METH_NOARGS, "Serves torch from now on."},
    {"_begin", begin, METH_NOARGS, "A step begins."},
    {"_end", end, METH_NOARGS, "It ends."},
    {"_allocate", allocate, METH_VARARGS, "An address."},
    {"_free", free_memory, METH_VARARGS, "Gives one back."},
    {"_describe", describe, METH_NOARGS, "What was planned and served."},
    {NULL, NULL, 0, NULL}};

bool py_add_step_memory(PyObject *module) {
    return py_add_shell(module, NULL, "weir._weir.StepMemory",
                        "Memory of a loop; see weir.torch.planned_allocator.", methods, NULL, NULL);
}
