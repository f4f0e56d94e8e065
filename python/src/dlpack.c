/* The capsules of DLPack. A consumer that takes one renames it and calls the deleter when it is done; one
 * that nobody took is freed with its capsule. */
#include <stdlib.h>

#include "dlpack.h"

static const char plain_name[] = "dltensor";
static const char versioned_name[] = "dltensor_versioned";

void py_export_discard(py_export *export) {
    py_drop(export->owner);
    free(export);
}

static void delete_plain(dl_managed *self) {
    py_export_discard(self->context);
}

static void delete_versioned(dl_managed_versioned *self) {
    py_export_discard(self->context);
}

py_export *py_export_new(bool is_versioned, bool is_read_only) {
    py_export *export = calloc(1, sizeof *export);
    if (!export) {
        PyErr_NoMemory();
        return NULL;
    }
    if (is_versioned)
        export->as.versioned = (dl_managed_versioned){.version = {1, 0},
                                                      .context = export,
                                                      .deleter = delete_versioned,
                                                      .flags = is_read_only ? DL_FLAG_READ_ONLY : 0};
    else
        export->as.plain = (dl_managed){.context = export, .deleter = delete_plain};
    return export;
}

static void free_capsule(PyObject *capsule) {
    for (int i = 0; i < 2; i++) {
        const char *name = i ? versioned_name : plain_name;
        if (PyCapsule_IsValid(capsule, name))
            py_export_discard(PyCapsule_GetPointer(capsule, name));
    }
}

PyObject *py_export_capsule(py_export *export, bool is_versioned) {
    PyObject *capsule = PyCapsule_New(export, is_versioned ? versioned_name : plain_name, free_capsule);
    if (!capsule)
        py_export_discard(export);
    return capsule;
}
