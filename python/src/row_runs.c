/* Runs of rows of a table of Python: what weir_row_run_write gives goes to two functions of Python's, one for
 * bytes and one for the end of a file, which put it wherever they like. */
#include <errno.h>
#include <stdlib.h>

#include "module.h"

typedef struct sink {
    PyObject *write, *end; /* borrowed */
    py_failure *failure;
} sink;

/* Calls a function with what is built, which it takes; an exception is kept. Called without the GIL held by
 * anybody of ours. */
static int call(sink *self, PyObject *function, PyObject *arguments) {
    PyObject *answer = arguments ? PyObject_CallObject(function, arguments) : NULL;
    if (!answer)
        py_keep_failure(self->failure);
    Py_XDECREF(arguments);
    Py_XDECREF(answer);
    return answer ? 0 : EIO;
}

static int take_bytes(void *context, const void *data, size_t size) {
    sink *self = context;
    PyGILState_STATE gil = PyGILState_Ensure();
    int result = call(self, self->write, Py_BuildValue("(y#)", data, (Py_ssize_t)size));
    PyGILState_Release(gil);
    return result;
}

static int take_end(void *context, const weir_row_run_file *file) {
    sink *self = context;
    PyGILState_STATE gil = PyGILState_Ensure();
    int result =
        call(self, self->end,
             Py_BuildValue("(KKN)", (ull)file->rows, (ull)file->size, py_hex(file->hash, WEIR_HASH_SIZE)));
    PyGILState_Release(gil);
    return result;
}

/* The texts of a tuple, which they borrow from; NULL with an exception. */
static const char **take_texts(PyObject *tuple, uint32_t *count) {
    Py_ssize_t size = PyTuple_Size(tuple);
    const char **texts = calloc((size_t)size + 1, sizeof *texts);
    if (!texts)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; texts && i < size; i++) {
        texts[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(tuple, i), NULL);
        if (!texts[i]) {
            free(texts);
            return NULL;
        }
    }
    *count = (uint32_t)size;
    return texts;
}

/* _write_row_runs((name, table, 0), key, frame_size, write, end): the columns, as JSON */
PyObject *py_write_row_runs(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *table = NULL, *key = NULL, *result = NULL;
    py_failure failure = {0};
    py_arrow arrow;
    sink out = {.failure = &failure};
    weir_row_run_options options = WEIR_ROW_RUN_OPTIONS;
    weir_error error;
    weir_bytes columns;
    weir_status status = WEIR_OK;
    if (!PyArg_ParseTuple(args, "O!O!O&OO:_write_row_runs", &PyTuple_Type, &table, &PyTuple_Type, &key,
                          py_to_uint32, &options.frame_size, &out.write, &out.end))
        return NULL;
    PyObject *tables = PyTuple_Pack(1, table);
    const char **names = tables ? take_texts(key, &options.key_count) : NULL;
    if (names && py_arrow_take(&arrow, tables, &failure)) {
        options.table = arrow.tables;
        options.key = names;
        options.write = take_bytes;
        options.end = take_end;
        options.context = &out;
        options.columns = &columns;
        PY_UNLOCKED(status = weir_row_run_write(NULL, &options, &error));
        bool is_raised = py_raise_failure(&failure, status);
        if (status == WEIR_OK)
            result = py_taken_text(&columns);
        else if (!is_raised)
            py_raise(&error);
        py_arrow_release(&arrow);
    }
    free(names);
    Py_XDECREF(tables);
    return result;
}
