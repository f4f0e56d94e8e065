/* weir.Arenas' engine: the memory of a plan, and arrays of it that copy nothing. An array keeps the arenas
 * (and their device) until the last view of it is gone, so no memory is freed under one. */
#include <stdlib.h>
#include <string.h>

#include "dlpack.h"
#include "module.h"

typedef struct py_arenas {
    py_shared shared;
    weir_device *device; /* NULL: the host */
    weir_arenas *arenas;
    py_place place; /* there is nothing to wait for: its users fill it, on streams of theirs */
} py_arenas;

typedef struct py_backing {
    py_shared shared;
    weir_device *device;
    weir_backing *backing;
} py_backing;

static py_arenas *self_of(PyObject *self) {
    return (py_arenas *)((py_object *)self)->shared;
}

static weir_backing *backing_of(PyObject *self) {
    return ((py_backing *)((py_object *)self)->shared)->backing;
}

static void destroy_arenas(py_shared *self) {
    py_arenas *a = (py_arenas *)self;
    weir_arenas_close(a->arenas);
    weir_device_close(a->device);
    free(a);
}

static void destroy_backing(py_shared *self) {
    py_backing *b = (py_backing *)self;
    weir_backing_close(b->backing);
    weir_device_close(b->device);
    free(b);
}

/* ---- Opening ----------------------------------------------------------------------------------- */

/* _open(plan, device or None, is_empty, reserves_capacity) */
static PyObject *arenas_open(PyObject *class, PyObject *args) {
    PyObject *plan = NULL;
    const char *device = NULL;
    int is_empty = 0, reserves_capacity = 0;
    weir_error error;
    if (!PyArg_ParseTuple(args, "O!zpp:_open", py_the.plan, &plan, &device, &is_empty, &reserves_capacity))
        return NULL;
    py_arenas *a = py_shared_new(sizeof *a, destroy_arenas);
    weir_arenas_options options = {
        .size = sizeof options, .is_empty = is_empty, .reserves_capacity = reserves_capacity};
    weir_status status = WEIR_OK;
    if (a && device)
        status = weir_device_open_named(NULL, device, &a->device, &error);
    if (a && a->device) {
        const weir_device_info *info = weir_device_describe(a->device);
        options.memory = weir_device_memory(a->device);
        if (!info->is_host)
            a->place = (py_place){.type = DL_CUDA, .id = (int32_t)info->ordinal};
    }
    if (a && status == WEIR_OK)
        status = weir_arenas_open(NULL, py_plan_of(plan), &options, &a->arenas, &error);
    return py_opened(class, a, status, &error);
}

/* ---- Arrays ------------------------------------------------------------------------------------ */

static PyObject *array_of(PyObject *self, void *memory, const char *dtype, int rank, const uint64_t *shape,
                          size_t size) {
    py_arenas *a = self_of(self);
    if (!weir_arenas_has_memory(a->arenas, memory, size)) {
        PyErr_SetString(PyExc_BufferError,
                        "the bytes have no memory: it was given back; map some with Arenas.remap");
        return NULL;
    }
    return py_array_new(&(py_array_spec){.owner = &a->shared,
                                         .data = memory,
                                         .dtype = dtype,
                                         .rank = rank,
                                         .shape = shape,
                                         .is_writable = true,
                                         .place = a->place.type == DL_CUDA ? &a->place : NULL});
}

static bool read_shape(PyObject *tuple, uint64_t *shape, int *rank) {
    Py_ssize_t count = PyTuple_Size(tuple);
    if (count > PY_RANK_MAX) {
        PyErr_Format(PyExc_ValueError, "an array has at most %d dimensions, not %zd", (int)PY_RANK_MAX,
                     count);
        return false;
    }
    for (Py_ssize_t k = 0; k < count; k++)
        if (!py_to_uint64(PyTuple_GetItem(tuple, k), &shape[k]))
            return false;
    *rank = (int)count;
    return true;
}

/* Whether a shape of a dtype has exactly `size` bytes. */
static bool fits(const py_dtype *dtype, const uint64_t *shape, int rank, size_t size) {
    uint64_t bytes = dtype ? dtype->size : 0;
    for (int k = 0; k < rank; k++)
        if (__builtin_mul_overflow(bytes, shape[k], &bytes))
            return false;
    return dtype && bytes == size;
}

/* _view(id, position or None, dtype, shape) */
static PyObject *arenas_view(PyObject *self, PyObject *args) {
    const char *id = NULL, *dtype = NULL;
    Py_ssize_t id_size = 0;
    PyObject *position = NULL, *dimensions = NULL;
    uint64_t at = 0, shape[PY_RANK_MAX];
    int rank = 0;
    void *memory;
    size_t size;
    weir_error error;
    if (!PyArg_ParseTuple(args, "s#OsO!:_view", &id, &id_size, &position, &dtype, &PyTuple_Type,
                          &dimensions) ||
        (position != Py_None && !py_to_uint64(position, &at)) || !read_shape(dimensions, shape, &rank))
        return NULL;
    const weir_arenas *arenas = self_of(self)->arenas;
    weir_status status = position == Py_None
                             ? weir_arenas_tensor(arenas, id, (size_t)id_size, &memory, &size, &error)
                             : weir_arenas_tensor_at(arenas, id, (size_t)id_size, at, &memory, &size, &error);
    if (status != WEIR_OK)
        return py_raise(&error);
    if (!fits(py_dtype_find(dtype), shape, rank, size)) {
        PyErr_Format(PyExc_ValueError, "a tensor of %zu bytes is not of that shape of %s", size, dtype);
        return NULL;
    }
    return array_of(self, memory, dtype, rank, shape, size);
}

/* _resolve(address, position, arena or None) */
static PyObject *arenas_resolve(PyObject *self, PyObject *args) {
    const char *arena = NULL;
    uint64_t address = 0, position = 0;
    void *memory;
    size_t size;
    weir_error error;
    if (!PyArg_ParseTuple(args, "O&O&z:_resolve", py_to_uint64, &address, py_to_uint64, &position, &arena))
        return NULL;
    if (weir_arenas_resolve(self_of(self)->arenas, arena, arena ? strlen(arena) : 0, address, position,
                            &memory, &size, &error) != WEIR_OK)
        return py_raise(&error);
    uint64_t shape = size;
    return array_of(self, memory, "uint8", 1, &shape, size);
}

/* _base(arena): its bytes */
static PyObject *arenas_base(PyObject *self, PyObject *args) {
    const char *arena = NULL;
    size_t size;
    if (!PyArg_ParseTuple(args, "s:_base", &arena))
        return NULL;
    void *memory = weir_arenas_base(self_of(self)->arenas, arena, strlen(arena), &size);
    uint64_t shape = size;
    return array_of(self, memory, "uint8", 1, &shape, size);
}

/* ---- Work -------------------------------------------------------------------------------------- */

static PyObject *arenas_zero(PyObject *self, PyObject *args) {
    const char *id = NULL;
    Py_ssize_t size = 0;
    weir_error error;
    if (!PyArg_ParseTuple(args, "s#:zero", &id, &size))
        return NULL;
    return py_done(weir_arenas_zero(self_of(self)->arenas, id, (size_t)size, &error), &error);
}

static PyObject *seal(PyObject *self, PyObject *args, bool is_prepared) {
    uint64_t batch = 0;
    uint8_t hash[WEIR_HASH_SIZE];
    weir_error error;
    if (!PyArg_ParseTuple(args, "O&", py_to_uint64, &batch))
        return NULL;
    weir_arenas *arenas = self_of(self)->arenas;
    weir_status status = is_prepared ? weir_arenas_prepare(arenas, batch, hash, &error)
                                     : weir_arenas_commit(arenas, batch, hash, &error);
    return status == WEIR_OK ? py_hex(hash, sizeof hash) : py_raise(&error);
}

static PyObject *arenas_prepare(PyObject *self, PyObject *args) {
    return seal(self, args, true);
}

static PyObject *arenas_commit(PyObject *self, PyObject *args) {
    return seal(self, args, false);
}

/* _seal(batch, position, with_contents): (state, state hash, visibility hash) */
static PyObject *arenas_seal(PyObject *self, PyObject *args) {
    weir_commit_options options = {.size = sizeof options};
    weir_commit commit;
    weir_error error;
    int with_contents = 0;
    if (!PyArg_ParseTuple(args, "O&O&p:_seal", py_to_uint64, &options.batch, py_to_uint64, &options.position,
                          &with_contents))
        return NULL;
    options.with_contents = with_contents;
    if (weir_arenas_seal(self_of(self)->arenas, &options, &commit, &error) != WEIR_OK)
        return py_raise(&error);
    return Py_BuildValue("(y#NN)", (const char *)commit.state, (Py_ssize_t)commit.state_size,
                         py_hex(commit.state_hash, WEIR_HASH_SIZE),
                         py_hex(commit.visibility_hash, WEIR_HASH_SIZE));
}

static PyObject *arenas_written(PyObject *self, PyObject *args) {
    const char *id = NULL;
    Py_ssize_t size = 0;
    weir_error error;
    if (!PyArg_ParseTuple(args, "s#:written", &id, &size))
        return NULL;
    return py_done(weir_arenas_written(self_of(self)->arenas, id, (size_t)size, &error), &error);
}

/* ---- Memory at the addresses -------------------------------------------------------------------- */

static PyObject *arenas_pages(PyObject *self, PyObject *args) {
    const char *arena = NULL;
    if (!PyArg_ParseTuple(args, "s:_pages", &arena))
        return NULL;
    weir_arena_pages pages = weir_arenas_pages(self_of(self)->arenas, arena, strlen(arena));
    return Py_BuildValue("{sKsKsK}", "page_size", (ull)pages.page_size, "range_bytes", (ull)pages.range_bytes,
                         "backed_bytes", (ull)pages.backed_bytes);
}

/* _remap(arena, target, offset, bytes, backing or None, backing offset, keeps). Memory is not taken away
 * under an array: whoever reads it would die. */
static PyObject *arenas_remap(PyObject *self, PyObject *args) {
    const char *arena = NULL;
    int target = 0, keeps = 0;
    PyObject *backing = NULL;
    weir_remap remap = {.size = sizeof remap};
    weir_error error;
    if (!PyArg_ParseTuple(args, "siO&O&OO&p:_remap", &arena, &target, py_to_uint64, &remap.offset,
                          py_to_uint64, &remap.bytes, &backing, py_to_uint64, &remap.backing_offset, &keeps))
        return NULL;
    if (backing != Py_None && !PyObject_TypeCheck(backing, py_the.backing)) {
        PyErr_SetString(PyExc_TypeError, "a backing is a weir.Backing");
        return NULL;
    }
    remap.target = (weir_remap_target)target;
    remap.keeps = keeps;
    remap.backing = backing == Py_None ? NULL : backing_of(backing);
    if (remap.target == WEIR_REMAP_NOTHING && atomic_load(&self_of(self)->shared.count) > 1) {
        PyErr_SetString(PyExc_BufferError,
                        "arrays of these arenas are in use; delete them before their memory is given back");
        return NULL;
    }
    return py_done(weir_arenas_remap(self_of(self)->arenas, arena, strlen(arena), &remap, &error), &error);
}

/* _open(size, device or None) */
static PyObject *backing_open(PyObject *class, PyObject *args) {
    uint64_t size = 0;
    const char *device = NULL;
    weir_error error;
    if (!PyArg_ParseTuple(args, "O&z:_open", py_to_uint64, &size, &device))
        return NULL;
    py_backing *b = py_shared_new(sizeof *b, destroy_backing);
    weir_status status = WEIR_OK;
    if (b && device)
        status = weir_device_open_named(NULL, device, &b->device, &error);
    weir_memory memory = b && b->device ? weir_device_memory(b->device) : (weir_memory){0};
    if (b && status == WEIR_OK)
        status = weir_backing_open(NULL, &memory, (size_t)size, &b->backing, &error);
    return py_opened(class, b, status, &error);
}

static PyObject *backing_size(PyObject *self, void *Py_UNUSED(closure)) {
    return PyLong_FromSize_t(weir_backing_size(backing_of(self)));
}

static PyObject *backing_handle(PyObject *self, void *Py_UNUSED(closure)) {
    return PyLong_FromUnsignedLongLong(weir_backing_handle(backing_of(self)));
}

/* ---- Types ------------------------------------------------------------------------------------- */

static PyMethodDef arenas_methods[] = {
    {"_open", arenas_open, METH_VARARGS | METH_CLASS, "The memory of a plan."},
    {"_view", arenas_view, METH_VARARGS, "A tensor's memory."},
    {"_resolve", arenas_resolve, METH_VARARGS, "The memory of an address at a position."},
    {"_base", arenas_base, METH_VARARGS, "An arena's memory."},
    {"_pages", arenas_pages, METH_VARARGS, "What an arena's range has."},
    {"_remap", arenas_remap, METH_VARARGS, "Replaces the memory at addresses."},
    {"zero", arenas_zero, METH_VARARGS, "zero(id, /)\n--\n\nWrites zeros to a tensor (ZeroTensor_v1)."},
    {"_seal", arenas_seal, METH_VARARGS, "Commits a batch at a position."},
    {"written", arenas_written, METH_VARARGS,
     "written(id, /)\n--\n\nSays that a tensor was written through its array: the next sealed batch counts "
     "it."},
    {"prepare", arenas_prepare, METH_VARARGS,
     "prepare(batch, /)\n--\n\nZeros every tensor and commits: the last steps of PrepareMemory_v2. The state "
     "hash, in hex."},
    {"commit", arenas_commit, METH_VARARGS,
     "commit(batch, /)\n--\n\nWaits for all work on the memory and seals the batch (CommitExecution_v1). The "
     "state hash, in hex: the same for the same batch."},
    {NULL, NULL, 0, NULL}};

static PyMethodDef backing_methods[] = {
    {"_open", backing_open, METH_VARARGS | METH_CLASS, "Memory without addresses."}, {NULL, NULL, 0, NULL}};

static PyGetSetDef backing_attributes[] = {
    {"nbytes", backing_size, NULL, "Its bytes, a multiple of the memory's page size.", NULL},
    {"handle", backing_handle, NULL,
     "The file's number on the host (a memfd), the driver's allocation handle on a GPU.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

bool py_add_arenas(PyObject *module) {
    return py_add_shell(module, &py_the.backing, "weir._weir.Backing",
                        "Memory without addresses; see weir.Backing.", backing_methods, backing_attributes,
                        NULL) &&
           py_add_shell(module, NULL, "weir._weir.Arenas", "The memory of a plan; see weir.Arenas.",
                        arenas_methods, NULL, NULL);
}
