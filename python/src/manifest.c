/* weir.Manifest and weir.Mix: what a run is made of, and which dataset each step takes. */
#include <stdlib.h>

#include "module.h"

static void destroy_manifest(py_shared *self) {
    weir_manifest_close(((py_manifest *)self)->manifest);
    free(self);
}

static PyObject *open_file(PyObject *class, PyObject *args) {
    PyObject *path = NULL;
    if (!PyArg_ParseTuple(args, "O&:_open", PyUnicode_FSConverter, &path))
        return NULL;
    weir_error error;
    weir_status status = WEIR_OK;
    py_manifest *shared = py_shared_new(sizeof *shared, destroy_manifest);
    if (shared)
        status = weir_manifest_open(NULL, PyBytes_AsString(path), &shared->manifest, &error);
    Py_DECREF(path);
    return py_opened(class, shared, status, &error);
}

static PyObject *read_text(PyObject *class, PyObject *args) {
    const char *text = NULL, *name = NULL;
    Py_ssize_t size = 0;
    if (!PyArg_ParseTuple(args, "s#s:_read", &text, &size, &name))
        return NULL;
    weir_error error;
    weir_status status = WEIR_OK;
    py_manifest *shared = py_shared_new(sizeof *shared, destroy_manifest);
    if (shared)
        status = weir_manifest_read(NULL, text, (size_t)size, name, &shared->manifest, &error);
    return py_opened(class, shared, status, &error);
}

static const weir_manifest *manifest_of(PyObject *self) {
    return ((py_manifest *)((py_object *)self)->shared)->manifest;
}

typedef enum attribute { HASH, MIX_HASH, BATCH_CONFIG_HASH, TOKEN, SEED, GLOBAL_BATCH_SIZE, STAGE } attribute;

static PyObject *get_attribute(PyObject *self, void *which) {
    const weir_manifest_info *info = weir_manifest_describe(manifest_of(self));
    switch ((attribute)(intptr_t)which) {
    case HASH:
        return py_hex(info->hash, WEIR_HASH_SIZE);
    case MIX_HASH:
        return py_hex(info->mix_hash, WEIR_HASH_SIZE);
    case BATCH_CONFIG_HASH:
        return py_hex(info->batch_config_hash, WEIR_HASH_SIZE);
    case TOKEN:
        return PyBytes_FromStringAndSize((const char *)info->token, WEIR_TOKEN_SIZE);
    case SEED:
        return PyLong_FromUnsignedLongLong(info->seed);
    case GLOBAL_BATCH_SIZE:
        return PyLong_FromUnsignedLongLong(info->global_batch_size);
    case STAGE:
        return py_text(info->stage == WEIR_STAGE_EVAL ? "eval" : "train");
    }
    return NULL;
}

static PyObject *get_datasets(PyObject *self, void *Py_UNUSED(closure)) {
    const weir_manifest_info *info = weir_manifest_describe(manifest_of(self));
    PyObject *all = PyDict_New();
    for (size_t i = 0; all && i < info->dataset_count; i++) {
        const weir_dataset *dataset = &info->datasets[i];
        PyObject *dict =
            Py_BuildValue("{sNsNsNsKsI}", "id", py_text(dataset->id), "version", py_text(dataset->version),
                          "hash", py_hex(dataset->hash, WEIR_HASH_SIZE), "cardinality",
                          (ull)dataset->cardinality, "weight", (unsigned)dataset->weight);
        if (!py_set(all, dataset->key, dict))
            Py_CLEAR(all);
    }
    return all;
}

/* The documents behind the hashes, as one JSON object. */
static PyObject *document_json(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    const weir_manifest *manifest = manifest_of(self);
    weir_json_writer w;
    weir_json_writer_memory(&w, NULL);
    weir_json_object(&w);
    for (int i = 0; i < 2; i++) {
        weir_cbor_writer cbor;
        weir_cbor_writer_memory(&cbor, NULL);
        (i ? weir_manifest_write_batch : weir_manifest_write_mix)(manifest, &cbor);
        if (weir_cbor_finish(&cbor, NULL) == WEIR_OK) {
            weir_cbor_value value = weir_cbor_view(cbor.data);
            weir_json_key(&w, i ? "batch" : "mix");
            weir_json_value(&w, &value);
        }
        weir_cbor_release(&cbor);
    }
    weir_cbor_value value = weir_cbor_view(weir_manifest_describe(manifest)->normalised);
    weir_json_key(&w, "normalised");
    weir_json_value(&w, &value);
    weir_json_end_object(&w);
    return py_json(&w);
}

static PyMethodDef manifest_methods[] = {
    {"_open", open_file, METH_VARARGS | METH_CLASS, "Reads a manifest from a file."},
    {"_read", read_text, METH_VARARGS | METH_CLASS,
     "Reads a manifest from JSON text, with a name for messages."},
    {"_documents", document_json, METH_NOARGS,
     "The normalised manifest, the mix and the batch config as JSON."},
    {NULL, NULL, 0, NULL}};

#define ATTRIBUTE(name, which, doc)                                                                          \
    { name, get_attribute, NULL, doc, (void *)(intptr_t)which }

static PyGetSetDef manifest_attributes[] = {
    ATTRIBUTE("hash", HASH, "The manifest's identity, in hex."),
    ATTRIBUTE("token", TOKEN, "The replay token that all randomness is derived from."),
    ATTRIBUTE("mix_hash", MIX_HASH, "The identity of the mix, in hex."),
    ATTRIBUTE("batch_config_hash", BATCH_CONFIG_HASH, "The identity of the batch config, in hex."),
    ATTRIBUTE("seed", SEED, "The seed."),
    ATTRIBUTE("global_batch_size", GLOBAL_BATCH_SIZE, "Samples per step, over all ranks."),
    ATTRIBUTE("stage", STAGE, "The stage of a run that names none: \"train\", or what the preset says."),
    {"datasets", get_datasets, NULL, "By key: id, version, hash, cardinality and weight in the mix.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

/* ---- Mix --------------------------------------------------------------------------------------- */

typedef struct py_mix {
    py_shared shared;
    py_manifest *manifest;
    weir_mix *mix;
} py_mix;

static void destroy_mix(py_shared *self) {
    weir_mix_close(((py_mix *)self)->mix);
    py_drop(((py_mix *)self)->manifest);
    free(self);
}

static PyObject *mix_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"manifest", "token", NULL};
    PyObject *manifest = NULL;
    py_bytes token = {NULL, 0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|$O&:Mix", names, py_the.manifest, &manifest,
                                     py_to_bytes, &token))
        return NULL;
    py_mix *shared = py_shared_new(sizeof *shared, destroy_mix);
    if (!shared)
        return NULL;
    shared->manifest = py_keep(((py_object *)manifest)->shared);
    weir_error error;
    weir_status status =
        weir_mix_open(NULL, shared->manifest->manifest, token.data, token.size, &shared->mix, &error);
    return py_opened((PyObject *)type, shared, status, &error);
}

static PyObject *mix_locate(PyObject *self, PyObject *number) {
    uint64_t step = 0;
    if (!py_to_uint64(number, &step))
        return NULL;
    weir_error error;
    const weir_dataset *dataset = NULL;
    weir_cursor cursor;
    if (weir_mix_locate(((py_mix *)((py_object *)self)->shared)->mix, step, &dataset, &cursor, &error) !=
        WEIR_OK)
        return py_raise(&error);
    return Py_BuildValue("(NKK)", py_text(dataset->key), (ull)cursor.epoch, (ull)cursor.global_index);
}

static PyMethodDef mix_methods[] = {
    {"_locate", mix_locate, METH_O, "The dataset, epoch and position of a step."}, {NULL, NULL, 0, NULL}};

bool py_add_manifest(PyObject *module) {
    return py_add_shell(module, &py_the.manifest, "weir._weir.Manifest",
                        "What a run is made of; see weir.Manifest.", manifest_methods, manifest_attributes,
                        NULL) &&
           py_add_shell(module, NULL, "weir._weir.Mix", "Which dataset each step takes; see weir.Mix.",
                        mix_methods, NULL, mix_new);
}
