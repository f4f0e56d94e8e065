/* The program weir inside Python: what the wheel's command `weir` and `python -m weir` run. It is the whole
 * of cli/, so a wheel has no less than a build has, and pip's duckdb, whose module wants Python around it,
 * can be used. */
#include "cli.h"
#include "module.h"

/* A list of bytes, the program's name first, as argv; borrowed from the list, the array to be freed. */
static char **arguments_of(PyObject *list, Py_ssize_t count) {
    char **argv = PyMem_Calloc((size_t)count + 1, sizeof *argv);
    if (!argv) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        argv[i] = PyBytes_AsString(PyList_GetItem(list, i));
        if (!argv[i]) {
            PyMem_Free(argv);
            return NULL;
        }
    }
    return argv;
}

PyObject *py_command(PyObject *Py_UNUSED(module), PyObject *arguments) {
    if (!PyList_Check(arguments) || PyList_Size(arguments) > INT_MAX)
        return PyErr_Format(PyExc_TypeError, "the arguments are a list of bytes");
    Py_ssize_t count = PyList_Size(arguments);
    char **argv = arguments_of(arguments, count);
    int status = CLI_FAILED;
    if (!argv)
        return NULL;
    PY_UNLOCKED(status = cli_main((int)count, argv));
    PyMem_Free(argv);
    return PyLong_FromLong(status);
}
