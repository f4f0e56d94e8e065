/* weir.Cursors' engine: a cursor for every dataset of a manifest, and their checkpoint. */
#include "module.h"

#include <stdlib.h>

typedef struct py_cursors {
    py_shared shared;
    weir_cursors *cursors;
} py_cursors;

static weir_cursors *cursors_of(PyObject *self) {
    return ((py_cursors *)((py_object *)self)->shared)->cursors;
}

static void destroy_cursors(py_shared *self) {
    weir_cursors_close(((py_cursors *)self)->cursors);
    free(self);
}

/* _open(manifest, token or None) */
static PyObject *cursors_open(PyObject *class, PyObject *args) {
    PyObject *manifest = NULL;
    py_bytes token;
    weir_error error;
    if (!PyArg_ParseTuple(args, "O!O&:_open", py_the.manifest, &manifest, py_to_bytes, &token))
        return NULL;
    const py_manifest *opened = (const py_manifest *)((py_object *)manifest)->shared;
    py_cursors *shared = py_shared_new(sizeof *shared, destroy_cursors);
    weir_status status = WEIR_OK;
    if (shared)
        status = weir_cursors_open(NULL, opened->manifest, token.data, token.size, &shared->cursors, &error);
    return py_opened(class, shared, status, &error);
}

static PyObject *cursors_get(PyObject *self, PyObject *args) {
    const char *dataset = NULL;
    weir_cursor cursor;
    weir_error error;
    if (!PyArg_ParseTuple(args, "s:_get", &dataset))
        return NULL;
    if (weir_cursors_get(cursors_of(self), dataset, &cursor, &error) != WEIR_OK)
        return py_raise(&error);
    return Py_BuildValue("(KK)", (ull)cursor.epoch, (ull)cursor.global_index);
}

static PyObject *cursors_set(PyObject *self, PyObject *args) {
    const char *dataset = NULL;
    weir_cursor cursor;
    weir_error error;
    if (!PyArg_ParseTuple(args, "sO&O&:_set", &dataset, py_to_uint64, &cursor.epoch, py_to_uint64,
                          &cursor.global_index))
        return NULL;
    return py_done(weir_cursors_set(cursors_of(self), dataset, cursor, &error), &error);
}

/* _advance(dataset, epoch, position, next epoch, next position) */
static PyObject *cursors_advance(PyObject *self, PyObject *args) {
    const char *dataset = NULL;
    weir_step step = {0};
    weir_error error;
    if (!PyArg_ParseTuple(args, "sO&O&O&O&:_advance", &dataset, py_to_uint64, &step.cursor_before.epoch,
                          py_to_uint64, &step.cursor_before.global_index, py_to_uint64,
                          &step.cursor_next.epoch, py_to_uint64, &step.cursor_next.global_index))
        return NULL;
    return py_done(weir_cursors_advance(cursors_of(self), dataset, &step, &error), &error);
}

static PyObject *cursors_bytes(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    weir_cbor_writer w;
    weir_cbor_writer_memory(&w, NULL);
    weir_cursors_write(cursors_of(self), &w);
    return py_cbor(&w);
}

static PyObject *cursors_restore(PyObject *self, PyObject *args) {
    py_bytes data;
    weir_error error;
    if (!PyArg_ParseTuple(args, "O&:_restore", py_to_bytes, &data))
        return NULL;
    return py_done(weir_cursors_restore(cursors_of(self), data.data, data.size, &error), &error);
}

/* Saves to or loads from a file. */
static PyObject *with_file(PyObject *self, PyObject *args, bool is_saved) {
    PyObject *path = NULL;
    weir_error error;
    weir_status status;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path))
        return NULL;
    if (is_saved)
        status = weir_cursors_save(cursors_of(self), PyBytes_AsString(path), NULL, &error);
    else
        status = weir_cursors_load(cursors_of(self), PyBytes_AsString(path), &error);
    Py_DECREF(path);
    return py_done(status, &error);
}

static PyObject *cursors_save(PyObject *self, PyObject *args) {
    return with_file(self, args, true);
}

static PyObject *cursors_load(PyObject *self, PyObject *args) {
    return with_file(self, args, false);
}

static PyMethodDef methods[] = {
    {"_open", cursors_open, METH_VARARGS | METH_CLASS, "A cursor at (0, 0) for every dataset."},
    {"_get", cursors_get, METH_VARARGS, "Where a dataset stands."},
    {"_set", cursors_set, METH_VARARGS, "Puts a dataset somewhere else."},
    {"_advance", cursors_advance, METH_VARARGS, "Moves a dataset to the end of a step."},
    {"_bytes", cursors_bytes, METH_NOARGS, "All cursors as a checkpoint."},
    {"_restore", cursors_restore, METH_VARARGS, "Takes over a checkpoint's cursors."},
    {"_save", cursors_save, METH_VARARGS, "Saves them as a file."},
    {"_load", cursors_load, METH_VARARGS, "Loads them from a file."},
    {NULL, NULL, 0, NULL}};

bool py_add_cursors(PyObject *module) {
    return py_add_shell(module, NULL, "weir._weir.Cursors", "Where each dataset stands; see weir.Cursors.",
                        methods, NULL, NULL);
}
