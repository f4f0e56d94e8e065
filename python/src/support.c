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

void *py_keep(void *piece) {
    atomic_fetch_add_explicit(&((py_shared *)piece)->count, 1, memory_order_relaxed);
    return piece;
}

void py_drop(void *piece) {
    py_shared *shared = piece;
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

PyObject *py_object_new(PyObject *class, void *piece) {
    PyTypeObject *type = (PyTypeObject *)class;
    py_object *object = NULL;
    if (piece)
        object = (py_object *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (object)
        object->shared = piece;
    else
        py_drop(piece);
    return (PyObject *)object;
}

PyObject *py_opened(PyObject *class, void *piece, weir_status status, const weir_error *error) {
    if (!piece || status == WEIR_OK)
        return py_object_new(class, piece);
    py_drop(piece);
    return py_raise(error);
}

void py_object_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    py_drop(((py_object *)self)->shared);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

bool py_add_type(PyObject *module, PyTypeObject **type, PyType_Spec *spec) {
    PyObject *made = PyType_FromSpec(spec);
    if (!made && !PyErr_Occurred()) /* Python 3.11 forgets to say so */
        PyErr_NoMemory();
    bool is_added = made && PyModule_AddObjectRef(module, strrchr(spec->name, '.') + 1, made) == 0;
    if (type && is_added)
        *type = (PyTypeObject *)Py_NewRef(made);
    Py_XDECREF(made);
    return is_added;
}

bool py_add_shell(PyObject *module, PyTypeObject **type, const char *name, const char *doc,
                  PyMethodDef *methods, PyGetSetDef *attributes, newfunc new) {
    PyType_Slot slots[6] = {
        {Py_tp_doc, (void *)(uintptr_t)doc}, {Py_tp_dealloc, py_object_dealloc}, {Py_tp_methods, methods}};
    PyType_Slot *next = &slots[3];
    unsigned flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    if (attributes)
        *next++ = (PyType_Slot){Py_tp_getset, attributes};
    if (new)
        *next++ = (PyType_Slot){Py_tp_new, new};
    else
        flags |= Py_TPFLAGS_DISALLOW_INSTANTIATION;
    return py_add_type(module, type, &(PyType_Spec){name, sizeof(py_object), 0, flags, slots});
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

void py_keep_failure(py_failure *failure) {
    if (!failure->type)
        PyErr_Fetch(&failure->type, &failure->value, &failure->traceback);
    PyErr_Clear();
}

bool py_raise_failure(py_failure *failure, weir_status status) {
    bool is_raised = failure->type && status != WEIR_OK;
    if (is_raised) {
        PyErr_Restore(failure->type, failure->value, failure->traceback);
    } else {
        Py_XDECREF(failure->type);
        Py_XDECREF(failure->value);
        Py_XDECREF(failure->traceback);
    }
    *failure = (py_failure){0};
    return is_raised;
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

int py_to_bytes(PyObject *value, void *out) {
    py_bytes *bytes = out;
    *bytes = (py_bytes){NULL, 0};
    if (value != Py_None && !PyBytes_Check(value)) {
        PyErr_Format(PyExc_TypeError, "expected bytes or None, not %R", (PyObject *)Py_TYPE(value));
        return 0;
    }
    if (value != Py_None)
        *bytes = (py_bytes){PyBytes_AsString(value), (size_t)PyBytes_Size(value)};
    return 1;
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
        py_put(&list, i,
               Py_BuildValue("{sKsKsKsKsI}", "produced", (ull)worker->produced, "consumed",
                             (ull)worker->consumed, "wait_ns", (ull)worker->wait_ns, "stalls",
                             (ull)worker->stalls, "occupied", (unsigned)worker->occupied));
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

void py_put(PyObject **list, Py_ssize_t at, PyObject *value) {
    int (*put)(PyObject *, Py_ssize_t, PyObject *) = PyList_Check(*list) ? PyList_SetItem : PyTuple_SetItem;
    if (!value || put(*list, at, value) != 0)
        Py_CLEAR(*list);
}
