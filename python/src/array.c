/* weir.Array: memory of weir's as Python sees it: typed, shaped, never copied.
 *
 * An array knows its memory's owner and keeps it. It is a view for others to take: numpy through the buffer
 * protocol, torch and JAX through DLPack. What they make of it keeps the owner too (a buffer keeps the array,
 * a DLPack tensor keeps the owner itself), so a batch's slot is free only when the last of them is gone. */
#include <stdlib.h>
#include <string.h>

#include "dlpack.h"
#include "module.h"

/* weir's bytes are little-endian on every machine; where the machine is not, arrays of them would have to be
 * copies. CMake does not build the module there. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "for little-endian machines");
_Static_assert(sizeof(long) == 8, "the formats l and L are those of 64 bits");

static const py_dtype dtypes[] = {
    {"int8", "b", "|i1", DL_INT, 1},      {"uint8", "B", "|u1", DL_UINT, 1},
    {"bool", "?", "|b1", DL_BOOL, 1},     {"int16", "h", "<i2", DL_INT, 2},
    {"uint16", "H", "<u2", DL_UINT, 2},   {"float16", "e", "<f2", DL_FLOAT, 2},
    {"int32", "i", "<i4", DL_INT, 4},     {"uint32", "I", "<u4", DL_UINT, 4},
    {"float32", "f", "<f4", DL_FLOAT, 4}, {"int64", "l", "<i8", DL_INT, 8},
    {"uint64", "L", "<u8", DL_UINT, 8},   {"float64", "d", "<f8", DL_FLOAT, 8},
};

const py_dtype *py_dtype_find(const char *name) {
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return &dtypes[i];
    return NULL;
}

typedef struct array {
    PyObject_HEAD py_shared *owner;
    uint8_t *data;
    const py_dtype *dtype;
    int rank;
    bool is_writable;
    bool is_contiguous;
    const py_place *place;
    Py_ssize_t size; /* elements */
    Py_ssize_t shape[PY_RANK_MAX];
    Py_ssize_t strides[PY_RANK_MAX];
} array;

/* Fills in what follows from shape and strides. */
static void measure(array *self) {
    Py_ssize_t next = self->dtype->size;
    self->size = 1;
    self->is_contiguous = true;
    for (int k = self->rank - 1; k >= 0; k--) {
        self->is_contiguous &= self->strides[k] == next || self->shape[k] == 1;
        self->size *= self->shape[k];
        next *= self->shape[k];
    }
}

PyObject *py_array_new(const py_array_spec *spec) {
    PyTypeObject *type = py_the.array;
    array *self = (array *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self)
        return NULL;
    self->owner = py_keep(spec->owner);
    self->data = (uint8_t *)(uintptr_t)spec->data;
    self->dtype = py_dtype_find(spec->dtype);
    self->rank = spec->rank;
    self->is_writable = spec->is_writable;
    self->place = spec->place;
    Py_ssize_t next = self->dtype->size;
    for (int k = spec->rank - 1; k >= 0; k--) {
        self->shape[k] = (Py_ssize_t)spec->shape[k];
        self->strides[k] = spec->strides ? (Py_ssize_t)spec->strides[k] : next;
        next *= self->shape[k];
    }
    measure(self);
    return (PyObject *)self;
}

/* Another array of the same memory, to be made different from it. */
static array *array_like(const array *self) {
    PyTypeObject *type = py_the.array;
    array *other = (array *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!other)
        return NULL;
    memcpy((char *)other + sizeof(PyObject), (const char *)self + sizeof(PyObject),
           sizeof *self - sizeof(PyObject));
    py_keep(other->owner);
    return other;
}

PyObject *py_array_of_block(py_block *block, const char *dtype, uint64_t count, uint64_t width) {
    uint64_t shape[] = {count, width};
    if (!block)
        return NULL;
    PyObject *made = py_array_new(&(py_array_spec){.owner = &block->shared,
                                                   .data = block->data,
                                                   .dtype = dtype,
                                                   .rank = width ? 2 : 1,
                                                   .shape = shape,
                                                   .is_writable = true});
    py_drop(block);
    return made;
}

PyObject *py_array_of_indices(uint64_t count, uint64_t **data) {
    py_block *block = count > SIZE_MAX / 8 ? (py_block *)PyErr_NoMemory() : py_block_new((size_t)count * 8);
    if (block)
        *data = (uint64_t *)(void *)block->data;
    return py_array_of_block(block, "uint64", count, 0);
}

static void array_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    py_drop(((array *)object)->owner);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* ---- The buffer protocol ----------------------------------------------------------------------- */

/* False, with an exception, where the memory is a device's. */
static bool is_reachable(const array *self) {
    if (!self->place)
        return true;
    PyErr_SetString(PyExc_BufferError,
                    "the array lies on a device: torch.from_dlpack and jax.dlpack take it, and "
                    "copies of theirs come back to the host");
    return false;
}

static int array_getbuffer(PyObject *object, Py_buffer *view, int flags) {
    array *self = (array *)object;
    view->obj = NULL;
    if (!is_reachable(self))
        return -1;
    if ((flags & PyBUF_WRITABLE) && !self->is_writable) {
        PyErr_SetString(PyExc_BufferError, "the array is read-only: it shows weir's own memory");
        return -1;
    }
    bool wants_strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
    bool wants_fortran = (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && self->rank > 1;
    bool wants_order =
        flags & (PyBUF_C_CONTIGUOUS | PyBUF_F_CONTIGUOUS | PyBUF_ANY_CONTIGUOUS) & ~PyBUF_STRIDES;
    if (wants_fortran || (!self->is_contiguous && (!wants_strides || wants_order))) {
        PyErr_SetString(PyExc_BufferError, "the array does not lie in memory as it is asked for");
        return -1;
    }
    *view = (Py_buffer){
        .buf = self->data,
        .obj = Py_NewRef(object),
        .len = self->size * self->dtype->size,
        .itemsize = self->dtype->size,
        .readonly = !self->is_writable,
        .ndim = self->rank,
        .format = (flags & PyBUF_FORMAT) ? (char *)(uintptr_t)self->dtype->format : NULL,
        .shape = (flags & PyBUF_ND) ? self->shape : NULL,
        .strides = wants_strides ? self->strides : NULL,
    };
    return 0;
}

/* ---- DLPack ------------------------------------------------------------------------------------ */

/* One tensor that was handed out. A consumer that takes its capsule renames it and calls the deleter when it
 * is done, from any thread; one that nobody took is freed with its capsule. */
typedef struct handed_out {
    union {
        dl_managed plain;
        dl_managed_versioned versioned;
    } as;
    py_shared *owner;
    int64_t shape[PY_RANK_MAX];
    int64_t strides[PY_RANK_MAX];
} handed_out;

static const char plain_name[] = "dltensor";
static const char versioned_name[] = "dltensor_versioned";

static void take_back(handed_out *self) {
    py_drop(self->owner);
    free(self);
}

static void delete_plain(dl_managed *self) {
    take_back(self->context);
}

static void delete_versioned(dl_managed_versioned *self) {
    take_back(self->context);
}

static void free_capsule(PyObject *capsule) {
    for (int i = 0; i < 2; i++) {
        const char *name = i ? versioned_name : plain_name;
        if (PyCapsule_IsValid(capsule, name))
            take_back(PyCapsule_GetPointer(capsule, name));
    }
}

/* A capsule of the memory, its type called by a code of DLPack's. */
static PyObject *hand_out(const array *self, bool is_versioned, uint8_t code) {
    handed_out *out = calloc(1, sizeof *out);
    if (!out)
        return PyErr_NoMemory();
    for (int k = 0; k < self->rank; k++) {
        if (self->strides[k] < 0 || self->strides[k] % self->dtype->size != 0) {
            PyErr_SetString(PyExc_BufferError,
                            "DLPack shows neither fields inside wider records nor reversed arrays; copy them "
                            "first, as in torch.tensor(array.numpy())");
            free(out);
            return NULL;
        }
        out->shape[k] = self->shape[k];
        out->strides[k] = self->strides[k] / self->dtype->size;
    }
    out->owner = py_keep(self->owner);
    dl_tensor tensor = {
        .data = self->data,
        .device = {self->place ? self->place->type : DL_CPU, self->place ? self->place->id : 0},
        .ndim = self->rank,
        .dtype = {code, (uint8_t)(8 * self->dtype->size), 1},
        .shape = out->shape,
        .strides = out->strides};
    if (is_versioned)
        out->as.versioned = (dl_managed_versioned){.version = {1, 0},
                                                   .context = out,
                                                   .deleter = delete_versioned,
                                                   .flags = self->is_writable ? 0 : DL_FLAG_READ_ONLY,
                                                   .tensor = tensor};
    else
        out->as.plain = (dl_managed){.tensor = tensor, .context = out, .deleter = delete_plain};
    PyObject *capsule = PyCapsule_New(out, is_versioned ? versioned_name : plain_name, free_capsule);
    if (!capsule)
        take_back(out);
    return capsule;
}

/* Whether a consumer that says max_version=(major, minor) reads DLPack 1. */
static int wants_versioned(PyObject *max_version) {
    if (!max_version || max_version == Py_None)
        return 0;
    PyObject *major = PySequence_GetItem(max_version, 0);
    long number = major ? PyLong_AsLong(major) : -1;
    Py_XDECREF(major);
    return PyErr_Occurred() ? -1 : number >= 1;
}

/* Makes a consumer's stream wait for the memory. By the protocol None and 1 are the default stream, 2 is the
 * thread's own, -1 asks for no waiting, and other numbers are handles. */
static bool await_on(const array *self, PyObject *stream) {
    weir_error error;
    long long number = 1;
    if (!self->place)
        return true;
    if (stream && stream != Py_None)
        number = PyLong_AsLongLong(stream);
    if (PyErr_Occurred())
        return false;
    if (number < -1 || number == 0) {
        PyErr_SetString(PyExc_ValueError, "a stream is a handle, 1, 2, -1 or None");
        return false;
    }
    if (!self->place->await ||
        self->place->await(self->owner, number == 1 ? 0 : (weir_stream)number, &error) == WEIR_OK)
        return true;
    py_raise(&error);
    return false;
}

/* A consumer may name the device that it wants the memory on: it is where it is. */
static bool is_on(const array *self, PyObject *device) {
    int type = 0, id = 0;
    if (!device || device == Py_None)
        return true;
    if (!PyArg_Parse(device, "(ii)", &type, &id))
        return false;
    if (type == (self->place ? self->place->type : DL_CPU) && id == (self->place ? self->place->id : 0))
        return true;
    PyErr_SetString(PyExc_BufferError, "an array does not move to another device; move what you make of it");
    return false;
}

static PyObject *array_dlpack(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = NULL, *max_version = NULL, *device = NULL, *copy = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream, &max_version, &device,
                                     &copy))
        return NULL;
    if (copy == Py_True) {
        PyErr_SetString(PyExc_BufferError, "an array does not copy itself; copy what you make of it");
        return NULL;
    }
    const array *self = (const array *)object;
    int is_versioned = wants_versioned(max_version);
    if (is_versioned < 0 || !is_on(self, device) || !await_on(self, stream))
        return NULL;
    return hand_out(self, is_versioned, self->dtype->dlpack_code);
}

PyObject *py_array_capsule_as(PyObject *object, uint8_t code) {
    return hand_out((const array *)object, false, code);
}

static PyObject *array_dlpack_device(PyObject *object, PyObject *Py_UNUSED(nothing)) {
    const py_place *place = ((const array *)object)->place;
    return Py_BuildValue("(ii)", place ? place->type : DL_CPU, place ? place->id : 0);
}

/* ---- Attributes -------------------------------------------------------------------------------- */

static PyObject *tuple_of(const Py_ssize_t *numbers, int count) {
    PyObject *tuple = PyTuple_New(count);
    for (int k = 0; tuple && k < count; k++) {
        py_put(&tuple, k, PyLong_FromSsize_t(numbers[k]));
    }
    return tuple;
}

typedef enum attribute {
    SHAPE,
    STRIDES,
    DTYPE,
    NDIM,
    SIZE,
    ITEMSIZE,
    NBYTES,
    ADDRESS,
    READONLY,
} attribute;

static PyObject *get_attribute(PyObject *object, void *which) {
    const array *self = (const array *)object;
    switch ((attribute)(intptr_t)which) {
    case SHAPE:
        return tuple_of(self->shape, self->rank);
    case STRIDES:
        return tuple_of(self->strides, self->rank);
    case DTYPE:
        return PyUnicode_FromString(self->dtype->name);
    case NDIM:
        return PyLong_FromLong(self->rank);
    case SIZE:
        return PyLong_FromSsize_t(self->size);
    case ITEMSIZE:
        return PyLong_FromLong(self->dtype->size);
    case NBYTES:
        return PyLong_FromSsize_t(self->size * self->dtype->size);
    case ADDRESS:
        return PyLong_FromVoidPtr(self->data);
    case READONLY:
        return PyBool_FromLong(!self->is_writable);
    }
    return NULL;
}

static PyObject *get_interface(PyObject *object, void *Py_UNUSED(closure)) {
    const array *self = (const array *)object;
    if (self->place) {
        PyErr_SetString(PyExc_AttributeError, "the array lies on a device");
        return NULL;
    }
    return Py_BuildValue("{sNsNsss(NN)si}", "shape", tuple_of(self->shape, self->rank), "strides",
                         tuple_of(self->strides, self->rank), "typestr", self->dtype->interface, "data",
                         PyLong_FromVoidPtr(self->data), PyBool_FromLong(!self->is_writable), "version", 3);
}

/* ---- Methods ----------------------------------------------------------------------------------- */

static PyObject *array_view(PyObject *object, PyObject *name) {
    const array *self = (const array *)object;
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!text)
        return NULL;
    const py_dtype *dtype = py_dtype_find(text);
    if (!dtype || dtype->size != self->dtype->size) {
        PyErr_Format(PyExc_ValueError, "an array of %s cannot be seen as %s: %s", self->dtype->name, text,
                     dtype ? "another size" : "there is no such dtype");
        return NULL;
    }
    array *view = array_like(self);
    if (!view)
        return NULL;
    view->dtype = dtype;
    return (PyObject *)view;
}

static double half_value(uint16_t bits) {
    int exponent = bits >> 10 & 31;
    double fraction = bits & 1023;
    double value = exponent == 31  ? (fraction > 0 ? __builtin_nan("") : __builtin_inf())
                   : exponent == 0 ? __builtin_ldexp(fraction, -24)
                                   : __builtin_ldexp(fraction + 1024, exponent - 25);
    return bits >> 15 ? -value : value;
}

static PyObject *element(const py_dtype *dtype, const uint8_t *at) {
    uint64_t bits = 0;
    memcpy(&bits, at, dtype->size); /* both are little-endian */
    if (dtype->dlpack_code == DL_BOOL)
        return PyBool_FromLong(bits != 0);
    if (dtype->dlpack_code == DL_UINT)
        return PyLong_FromUnsignedLongLong(bits);
    if (dtype->dlpack_code == DL_INT)
        return PyLong_FromLongLong(dtype->size == 1   ? (int8_t)bits
                                   : dtype->size == 2 ? (int16_t)bits
                                   : dtype->size == 4 ? (int32_t)bits
                                                      : (int64_t)bits);
    uint32_t low = (uint32_t)bits;
    float single;
    double wide;
    memcpy(&single, &low, sizeof single);
    memcpy(&wide, &bits, sizeof wide);
    return PyFloat_FromDouble(dtype->size == 2   ? half_value((uint16_t)bits)
                              : dtype->size == 4 ? (double)single
                                                 : wide);
}

static PyObject *list_of(const array *self, int axis, const uint8_t *at) {
    if (axis == self->rank || axis == PY_RANK_MAX)
        return element(self->dtype, at);
    PyObject *list = PyList_New(self->shape[axis]);
    for (Py_ssize_t i = 0; list && i < self->shape[axis]; i++) {
        py_put(&list, i, list_of(self, axis + 1, at + i * self->strides[axis]));
    }
    return list;
}

/* ---- Indexing -------------------------------------------------------------------------------------- */

/* What one key picks of an axis becomes the last axis of `part`; an integer picks no axis but a place. */
static bool pick(const array *self, int axis, PyObject *key, array *part) {
    Py_ssize_t size = self->shape[axis], stride = self->strides[axis];
    if (PySlice_Check(key)) {
        Py_ssize_t start, stop, step;
        if (PySlice_Unpack(key, &start, &stop, &step) != 0)
            return false;
        Py_ssize_t count = PySlice_AdjustIndices(size, &start, &stop, step);
        part->shape[part->rank] = count;
        part->strides[part->rank++] = count > 1 ? stride * step : stride; /* one element: any step fits */
        part->data += count > 0 ? start * stride : 0;
        return true;
    }
    Py_ssize_t index = PyNumber_AsSsize_t(key, PyExc_IndexError);
    if (index == -1 && PyErr_Occurred())
        return false;
    if (index < -size || index >= size) {
        PyErr_Format(PyExc_IndexError, "index %zd is out of range for an axis of %zd", index, size);
        return false;
    }
    part->data += (index < 0 ? index + size : index) * stride;
    return true;
}

/* array[i], array[i:j], array[i, j:k]: a number, or an array of the same memory. */
static PyObject *array_subscript(PyObject *object, PyObject *keys) {
    const array *self = (const array *)object;
    bool is_tuple = PyTuple_Check(keys);
    Py_ssize_t count = is_tuple ? PyTuple_Size(keys) : 1;
    if (count > self->rank) {
        PyErr_Format(PyExc_IndexError, "%zd indices for an array of %d dimensions", count, self->rank);
        return NULL;
    }
    array *part = array_like(self);
    if (!part)
        return NULL;
    part->rank = 0;
    PyObject *everything = PySlice_New(NULL, NULL, NULL);
    bool is_picked = everything != NULL;
    for (int axis = 0; is_picked && axis < self->rank; axis++) {
        PyObject *key = axis >= count ? everything : is_tuple ? PyTuple_GetItem(keys, axis) : keys;
        is_picked = pick(self, axis, key, part);
    }
    Py_XDECREF(everything);
    measure(part);
    PyObject *result = NULL;
    if (is_picked && part->rank > 0)
        result = Py_NewRef((PyObject *)part);
    else if (is_picked && is_reachable(part))
        result = element(part->dtype, part->data);
    Py_DECREF(part);
    return result;
}

static PyObject *array_item(PyObject *self, Py_ssize_t index) {
    PyObject *key = PyLong_FromSsize_t(index);
    PyObject *item = key ? array_subscript(self, key) : NULL;
    Py_XDECREF(key);
    return item;
}

static PyObject *array_tolist(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    return is_reachable((const array *)self) ? list_of((const array *)self, 0, ((const array *)self)->data)
                                             : NULL;
}

/* numpy and torch are only looked for when they are asked for. */
static PyObject *convert(PyObject *self, const char *function) {
    PyObject *module = PyImport_ImportModule("weir._convert");
    PyObject *result = module ? PyObject_CallMethod(module, function, "O", self) : NULL;
    Py_XDECREF(module);
    return result;
}

static PyObject *array_numpy(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    return convert(self, "to_numpy");
}

/* numpy asks for this where the buffer protocol has failed, and would make an object of the array without it.
 */
static PyObject *array_array(PyObject *self, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs)) {
    return is_reachable((const array *)self) ? convert(self, "to_numpy") : NULL;
}

static PyObject *array_torch(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    return convert(self, "to_torch");
}

static Py_ssize_t array_length(PyObject *object) {
    const array *self = (const array *)object;
    if (self->rank > 0)
        return self->shape[0];
    PyErr_SetString(PyExc_TypeError, "an array without dimensions has no length");
    return -1;
}

static PyObject *array_repr(PyObject *self) {
    PyObject *shape = tuple_of(((array *)self)->shape, ((array *)self)->rank);
    PyObject *text =
        shape ? PyUnicode_FromFormat("<weir.Array %s %S>", ((array *)self)->dtype->name, shape) : NULL;
    Py_XDECREF(shape);
    return text;
}

static PyMethodDef methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))array_dlpack, METH_VARARGS | METH_KEYWORDS,
     "A DLPack capsule of the memory itself."},
    {"__dlpack_device__", array_dlpack_device, METH_NOARGS, "The CPU, (1, 0), or a GPU, (2, its number)."},
    {"view", array_view, METH_O, "The same memory as another dtype of the same size."},
    {"tolist", array_tolist, METH_NOARGS, "A copy as nested lists of numbers."},
    {"__array__", (PyCFunction)(void (*)(void))array_array, METH_VARARGS | METH_KEYWORDS,
     "A numpy array of the memory itself; BufferError if it is a device's."},
    {"numpy", array_numpy, METH_NOARGS, "A numpy array of the memory itself."},
    {"torch", array_torch, METH_NOARGS,
     "A torch tensor of the memory itself; uint16, uint32 and uint64 as the signed type of their size."},
    {NULL, NULL, 0, NULL}};

#define ATTRIBUTE(name, which, doc)                                                                          \
    { name, get_attribute, NULL, doc, (void *)(intptr_t)which }

static PyGetSetDef attributes[] = {
    ATTRIBUTE("shape", SHAPE, "The size of each dimension."),
    ATTRIBUTE("strides", STRIDES, "Bytes from one element to the next, in each dimension."),
    ATTRIBUTE("dtype", DTYPE, "The element type, as numpy names it."),
    ATTRIBUTE("ndim", NDIM, "The number of dimensions."),
    ATTRIBUTE("size", SIZE, "The number of elements."),
    ATTRIBUTE("itemsize", ITEMSIZE, "Bytes of an element."),
    ATTRIBUTE("nbytes", NBYTES, "Bytes of all elements."),
    ATTRIBUTE("address", ADDRESS, "Where the first element lies."),
    ATTRIBUTE("readonly", READONLY, "Whether the memory is not for writing."),
    {"__array_interface__", get_interface, NULL, "numpy's description of the memory.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "Memory of weir's: typed, shaped and shared, not copied. numpy.asarray, torch.from_dlpack and\n"
     "jax.dlpack.from_dlpack take it; what they make of it keeps the memory."},
    {Py_tp_dealloc, array_dealloc},
    {Py_tp_repr, array_repr},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_bf_getbuffer, array_getbuffer},
    {Py_sq_length, array_length},
    {Py_sq_item, array_item},
    {Py_mp_length, array_length},
    {Py_mp_subscript, array_subscript},
    {0, NULL}};

static PyType_Spec spec = {"weir._weir.Array", sizeof(array), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

bool py_add_array(PyObject *module) {
    return py_add_type(module, &py_the.array, &spec);
}
