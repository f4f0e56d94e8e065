/* What every file of the module uses: counted pieces, the shell objects around them, conversions. */
#include <stdlib.h>
#include <string.h>

#include "module.h"

/* ---- Counted pieces ---------------------------------------------------------------------------- */

void *py_shared_new(size_t size, void (*destroy)(py_shared *self)) {
    py_shared *shared = calloc(1, size);
    if (!shared) {
        PyErr_NoMemory();
        return NULL;
    }
    atomic_init(&shared->count, 1);
    shared->destroy = destroy;
    return shared;
}

py_shared *py_keep(py_shared *shared) {
    atomic_fetch_add_explicit(&shared->count, 1, memory_order_relaxed);
    return shared;
}

void py_drop(py_shared *shared) {
    if (shared && atomic_fetch_sub_explicit(&shared->count, 1, memory_order_acq_rel) == 1)
        shared->destroy(shared);
}

static void destroy_block(py_shared *self) {
    free(self);
}

py_block *py_block_new(size_t size) {
    size_t whole = 0;
    py_block *block = NULL;
    if (!__builtin_add_overflow(sizeof *block, size, &whole) && whole <= SIZE_MAX - 63)
        block = aligned_alloc(64, (whole + 63) / 64 * 64);
    if (!block) {
        PyErr_NoMemory();
        return NULL;
    }
    atomic_init(&block->shared.count, 1);
    block->shared.destroy = destroy_block;
    return block;
}

/* ---- Objects ----------------------------------------------------------------------------------- */

PyObject *py_object_new(PyTypeObject *type, py_shared *shared) {
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    py_object *object = (py_object *)allocate(type, 0);
    if (object)
        object->shared = shared;
    else
        py_drop(shared);
    return (PyObject *)object;
}

void py_object_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    py_drop(((py_object *)self)->shared);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

PyTypeObject *py_add_type(PyObject *module, PyType_Spec *spec) {
    PyObject *type = PyType_FromSpec(spec);
    if (!type && !PyErr_Occurred()) /* Python 3.11 forgets to say so */
        PyErr_NoMemory();
    if (type && PyModule_AddObjectRef(module, strrchr(spec->name, '.') + 1, type) != 0)
        Py_CLEAR(type);
    return (PyTypeObject *)type;
}

/* ---- Errors ------------------------------------------------------------------------------------ */

PyObject *py_raise(const weir_error *error) {
    weir_json_writer w;
    weir_json_writer_memory(&w, NULL);
    weir_error_json(error, &w);
    PyObject *record = py_json(&w);
    PyObject *errors = record ? PyImport_ImportModule("weir.errors") : NULL;
    PyObject *exception = errors ? PyObject_CallMethod(errors, "_of_record", "O", record) : NULL;
    if (exception)
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_XDECREF(exception);
    Py_XDECREF(errors);
    Py_XDECREF(record);
    return NULL;
}

PyObject *py_done(weir_status status, const weir_error *error) {
    return status == WEIR_OK ? Py_NewRef(Py_None) : py_raise(error);
}

/* ---- Conversions ------------------------------------------------------------------------------- */

int py_to_uint64(PyObject *value, void *out) {
    PyObject *number = PyNumber_Index(value);
    if (!number)
        return 0;
    unsigned long long result = PyLong_AsUnsignedLongLong(number);
    Py_DECREF(number);
    if (PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_OverflowError))
            PyErr_Format(PyExc_OverflowError, "%S is not between 0 and 2^64-1", value);
        return 0;
    }
    *(uint64_t *)out = result;
    return 1;
}

int py_to_uint32(PyObject *value, void *out) {
    uint64_t wide = 0;
    if (!py_to_uint64(value, &wide))
        return 0;
    if (wide > UINT32_MAX) {
        PyErr_Format(PyExc_OverflowError, "%S is not between 0 and 2^32-1", value);
        return 0;
    }
    *(uint32_t *)out = (uint32_t)wide;
    return 1;
}

/* Without a value it is the call's turn to undo it: a later argument was refused. */
int py_to_bytes(PyObject *value, void *out) {
    py_bytes *bytes = out;
    if (!value) {
        Py_CLEAR(bytes->holder);
        return 1;
    }
    *bytes = (py_bytes){NULL, NULL, 0};
    if (value == Py_None)
        return 1;
    char *data = NULL;
    Py_ssize_t size = 0;
    if (!PyBytes_Check(value)) {
        PyErr_Format(PyExc_TypeError, "expected bytes or None, not %R", (PyObject *)Py_TYPE(value));
        return 0;
    }
    if (PyBytes_AsStringAndSize(value, &data, &size) != 0)
        return 0;
    *bytes = (py_bytes){Py_NewRef(value), data, (size_t)size};
    return Py_CLEANUP_SUPPORTED;
}

/* Names in a store are UTF-8, but an unverified one may hold anything. */
PyObject *py_text(const char *text) {
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

PyObject *py_hex(const void *data, size_t size) {
    static const char digits[] = "0123456789abcdef";
    char text[2 * WEIR_TOKEN_SIZE];
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    return PyUnicode_FromStringAndSize(text, (Py_ssize_t)(2 * size));
}

PyObject *py_taken_text(weir_bytes *bytes) {
    PyObject *text = PyUnicode_DecodeUTF8(bytes->data, (Py_ssize_t)bytes->size, "replace");
    weir_bytes_release(bytes);
    return text;
}

PyObject *py_json(weir_json_writer *w) {
    weir_bytes text;
    return weir_json_give(w, &text, NULL) == WEIR_OK ? py_taken_text(&text) : PyErr_NoMemory();
}

PyObject *py_cbor(weir_cbor_writer *w) {
    weir_error error;
    PyObject *bytes = weir_cbor_finish(w, &error) == WEIR_OK
                          ? PyBytes_FromStringAndSize((const char *)w->data, (Py_ssize_t)w->size)
                          : py_raise(&error);
    weir_cbor_release(w);
    return bytes;
}

PyObject *py_metrics(const weir_prefetch_metrics *metrics, const weir_worker_metrics *workers) {
    PyObject *list = PyList_New((Py_ssize_t)metrics->workers);
    for (uint32_t i = 0; list && i < metrics->workers; i++) {
        const weir_worker_metrics *worker = &workers[i];
        PyObject *dict = Py_BuildValue("{sKsKsKsKsI}", "produced", (ull)worker->produced, "consumed",
                                       (ull)worker->consumed, "wait_ns", (ull)worker->wait_ns, "stalls",
                                       (ull)worker->stalls, "occupied", (unsigned)worker->occupied);
        if (!dict || PyList_SetItem(list, i, dict) != 0)
            Py_CLEAR(list);
    }
    if (!list)
        return NULL;
    return Py_BuildValue("{sKsKsKsKsIsN}", "produced", (ull)metrics->produced, "consumed",
                         (ull)metrics->consumed, "consumer_wait_ns", (ull)metrics->consumer_wait_ns, "stalls",
                         (ull)metrics->stalls, "held", (unsigned)metrics->held, "workers", list);
}

bool py_set(PyObject *dict, const char *key, PyObject *value) {
    bool is_set = value && PyDict_SetItemString(dict, key, value) == 0;
    Py_XDECREF(value);
    return is_set;
}
