/* The program weir inside Python: what the wheel's command `weir` and `python -m weir` run. It is the whole
 * of cli/, so a wheel has no less than a build has, and pip's duckdb, whose module wants Python around it,
 * can be used. */
#include <string.h>

#include "cli.h"
#include "module.h"

/* A list of bytes, the program's name first, as argv, with the texts behind it in memory to be freed: they
 * are the program's, which may write to them. */
static char **arguments_of(PyObject *list, Py_ssize_t count) {
    size_t size = ((size_t)count + 1) * sizeof(char *), used = size;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!PyBytes_AsString(PyList_GetItem(list, i)))
            return NULL;
        size += (size_t)PyBytes_Size(PyList_GetItem(list, i)) + 1;
    }
    char **argv = PyMem_Calloc(1, size);
    if (!argv)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; argv && i < count; i++) {
        size_t length = (size_t)PyBytes_Size(PyList_GetItem(list, i)) + 1;
        argv[i] = memcpy((char *)argv + used, PyBytes_AsString(PyList_GetItem(list, i)), length);
        used += length;
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
