/* Tables of Python that speak Arrow's C stream interface, for ingest: an object gives one stream at once, a
 * function gives a new one whenever ingest asks. A stream is moved out of its capsule, so that a capsule that
 * is given once more is known to have none. */
#include <errno.h>
#include <stdlib.h>

#include "module.h"

/* Moves the stream of an object to where it stays. False with an exception. */
static bool take_stream(PyObject *table, struct ArrowArrayStream *out) {
    PyObject *capsule = PyObject_CallMethod(table, "__arrow_c_stream__", NULL);
    struct ArrowArrayStream *stream = capsule ? PyCapsule_GetPointer(capsule, "arrow_array_stream") : NULL;
    if (stream) {
        *out = *stream;
        stream->release = NULL;
    }
    Py_XDECREF(capsule);
    return stream != NULL;
}

/* Called without the GIL. The first exception is what the caller of ingest gets. */
static int open_stream(void *context, struct ArrowArrayStream *out) {
    py_arrow_function *self = context;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *table = PyObject_CallNoArgs(self->function);
    bool is_taken = table && take_stream(table, out);
    if (!is_taken)
        py_keep_failure(self->failure);
    Py_XDECREF(table);
    PyGILState_Release(gil);
    return is_taken ? 0 : EIO;
}

/* One of (name, table or function, rows). */
static bool add_table(py_arrow *self, PyObject *given, py_failure *failure) {
    PyObject *table = NULL;
    unsigned long long rows = 0;
    weir_arrow_table *out = &self->tables[self->count];
    if (!PyArg_ParseTuple(given, "sOK", &out->name, &table, &rows))
        return false;
    out->row_estimate = rows;
    if (PyObject_HasAttrString(table, "__arrow_c_stream__")) {
        if (!take_stream(table, &self->streams[self->count]))
            return false;
        out->stream = &self->streams[self->count];
    } else {
        self->functions[self->count] = (py_arrow_function){table, failure};
        out->open = open_stream;
        out->context = &self->functions[self->count];
    }
    self->count++;
    return true;
}

/* A producer may be Python itself, which an exception that is on its way must not meet. */
void py_arrow_release(py_arrow *self) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    for (uint32_t i = 0; i < self->count; i++)
        if (self->streams[i].release)
            self->streams[i].release(&self->streams[i]);
    PyErr_Restore(type, value, traceback);
    free(self->tables);
    free(self->functions);
    free(self->streams);
    *self = (py_arrow){0};
}

bool py_arrow_take(py_arrow *self, PyObject *tables, py_failure *failure) {
    Py_ssize_t count = PyTuple_Size(tables);
    *self = (py_arrow){0};
    if (count < 0)
        return false;
    self->tables = calloc((size_t)count + 1, sizeof *self->tables);
    self->functions = calloc((size_t)count + 1, sizeof *self->functions);
    self->streams = calloc((size_t)count + 1, sizeof *self->streams);
    bool fits = self->tables && self->functions && self->streams;
    if (!fits)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count && fits; i++)
        fits = add_table(self, PyTuple_GetItem(tables, i), failure);
    if (!fits)
        py_arrow_release(self);
    return fits;
}
