/* The module weir._weir itself: types, functions, version. One interpreter a process: the types are kept in
 * one static table, so single-phase initialisation it is, and a second interpreter is refused by Python. */
#include "module.h"

py_types py_the;

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "weir._weir",
    .m_doc = "weir's C library for Python. Use the package weir instead.",
    .m_size = -1,
    .m_methods = py_functions,
};

PyMODINIT_FUNC PyInit__weir(void);
PyMODINIT_FUNC PyInit__weir(void) {
    PyObject *module = PyModule_Create(&definition);
    if (!module)
        return NULL;
    bool (*const parts[])(PyObject *) = {py_add_array,      py_add_manifest, py_add_store,     py_add_sampler,
                                         py_add_plan,       py_add_batch,    py_add_run,       py_add_cursors,
                                         py_add_prefetch,   py_add_contexts, py_add_attention, py_add_arenas,
                                         py_add_step_memory};
    bool is_complete = PyModule_AddStringConstant(module, "version", weir_version()) == 0;
    for (size_t i = 0; is_complete && i < sizeof parts / sizeof parts[0]; i++)
        is_complete = parts[i](module);
    if (!is_complete)
        Py_CLEAR(module);
    return module;
}
