/* weir.Sampler: which samples a rank takes at any cursor. A weir_sampler caches, so one thread at a time may
 * use it: calls hold the GIL, which they need for microseconds. */
#include <stdlib.h>

#include "module.h"

typedef struct py_sampler {
    py_shared shared;
    weir_sampler *sampler;
    uint64_t cardinality;
} py_sampler;

static void destroy_sampler(py_shared *self) {
    weir_sampler_close(((py_sampler *)self)->sampler);
    free(self);
}

/* _open(manifest, dataset, stage, rank, world_size, token) */
static PyObject *sampler_open(PyObject *class, PyObject *args) {
    PyObject *given = NULL;
    const char *stage = NULL;
    py_bytes token;
    weir_sampler_options options = {.size = sizeof options};
    if (!PyArg_ParseTuple(args, "O!ssO&O&O&:_open", py_the.manifest, &given, &options.dataset, &stage,
                          py_to_uint32, &options.rank, py_to_uint32, &options.world_size, py_to_bytes,
                          &token))
        return NULL;
    options.token = token.data;
    options.token_size = token.size;
    weir_error error;
    const weir_manifest *manifest = ((py_manifest *)((py_object *)given)->shared)->manifest;
    weir_status status = weir_stage_parse(stage, &options.stage, &error);
    py_sampler *shared = py_shared_new(sizeof *shared, destroy_sampler);
    if (shared && status == WEIR_OK)
        status = weir_sampler_open(NULL, manifest, &options, &shared->sampler, &error);
    if (shared && status == WEIR_OK)
        shared->cardinality = weir_manifest_find(manifest, options.dataset)->cardinality;
    return py_opened(class, shared, status, &error);
}

static py_sampler *sampler_of(PyObject *self) {
    return (py_sampler *)((py_object *)self)->shared;
}

/* The step at the cursor in the arguments; false with an exception set. */
static bool step_at(PyObject *self, PyObject *args, weir_step *step) {
    weir_cursor cursor;
    weir_error error;
    if (!PyArg_ParseTuple(args, "O&O&", py_to_uint64, &cursor.epoch, py_to_uint64, &cursor.global_index))
        return false;
    if (weir_sampler_step(sampler_of(self)->sampler, cursor, step, &error) == WEIR_OK)
        return true;
    py_raise(&error);
    return false;
}

static PyObject *sampler_step(PyObject *self, PyObject *args) {
    weir_step step;
    uint64_t *indices = NULL;
    if (!step_at(self, args, &step))
        return NULL;
    PyObject *array = py_array_of_indices(step.count, &indices);
    if (!array)
        return NULL;
    weir_sampler_indices(sampler_of(self)->sampler, &step, indices);
    return Py_BuildValue(
        "{s(KK)sKsKsKsKsKsIsdsNsssssNsNsNsN}", "cursor_next", (ull)step.cursor_next.epoch,
        (ull)step.cursor_next.global_index, "valid_count", (ull)step.valid_count, "effective_batch_size",
        (ull)step.effective_batch_size, "blocks_materialized", (ull)step.blocks_materialized,
        "sampler_block_size", (ull)step.sampler_block_size, "micro_batch_size", (ull)step.micro_batch_size,
        "sequence_length", (unsigned)step.sequence_length, "effective_q", step.effective_q, "is_shuffled",
        PyBool_FromLong(step.is_shuffled), "subsampling_mode", step.subsampling_mode, "sampling_mode",
        step.sampling_mode, "sampler_config_hash", py_hex(step.sampler_config_hash, WEIR_HASH_SIZE),
        "epoch_seed_hash", py_hex(step.epoch_seed_hash, WEIR_HASH_SIZE), "data_replay_t",
        py_hex(step.data_replay_t, WEIR_HASH_SIZE), "indices", array);
}

/* (this rank's valid indices as a list, next epoch, next position): what iteration takes. */
static PyObject *sampler_take(PyObject *self, PyObject *args) {
    weir_step step;
    if (!step_at(self, args, &step))
        return NULL;
    uint64_t *indices = step.count > SIZE_MAX / 8 ? NULL : malloc((size_t)step.count * 8 + 1);
    if (!indices)
        return PyErr_NoMemory();
    weir_sampler_indices(sampler_of(self)->sampler, &step, indices);
    PyObject *list = PyList_New((Py_ssize_t)step.valid_count);
    for (uint64_t i = 0; list && i < step.valid_count; i++) {
        py_put(&list, (Py_ssize_t)i, PyLong_FromUnsignedLongLong(indices[i]));
    }
    free(indices);
    if (!list)
        return NULL;
    return Py_BuildValue("(NKK)", list, (ull)step.cursor_next.epoch, (ull)step.cursor_next.global_index);
}

static PyObject *sampler_index_at(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"epoch", "position", NULL};
    uint64_t epoch = 0, position = 0, index = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O&:index_at", names, py_to_uint64, &epoch, py_to_uint64,
                                     &position))
        return NULL;
    weir_error error;
    if (weir_sampler_index_at(sampler_of(self)->sampler, epoch, position, &index, &error) != WEIR_OK)
        return py_raise(&error);
    return PyLong_FromUnsignedLongLong(index);
}

static PyObject *sampler_range(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"epoch", "position", "count", NULL};
    uint64_t epoch = 0, position = 0, count = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O&O&:range", names, py_to_uint64, &epoch, py_to_uint64,
                                     &position, py_to_uint64, &count))
        return NULL;
    /* What lies outside the epoch is refused before memory is taken for it. */
    uint64_t *indices = NULL, end = 0;
    uint64_t held =
        __builtin_add_overflow(position, count, &end) || end > sampler_of(self)->cardinality ? 0 : count;
    PyObject *array = py_array_of_indices(held, &indices);
    if (!array)
        return NULL;
    weir_error error;
    if (weir_sampler_range(sampler_of(self)->sampler, epoch, position, count, indices, &error) == WEIR_OK)
        return array;
    Py_DECREF(array);
    return py_raise(&error);
}

static PyObject *get_cardinality(PyObject *self, void *Py_UNUSED(closure)) {
    return PyLong_FromUnsignedLongLong(sampler_of(self)->cardinality);
}

static PyMethodDef methods[] = {
    {"_open", sampler_open, METH_VARARGS | METH_CLASS, "Opens a sampler."},
    {"_step", sampler_step, METH_VARARGS, "The step at (epoch, position), as a dict."},
    {"_take", sampler_take, METH_VARARGS,
     "The valid indices of the step at (epoch, position), and what follows."},
    {"index_at", (PyCFunction)(void (*)(void))sampler_index_at, METH_VARARGS | METH_KEYWORDS,
     "index_at(epoch, position)\n--\n\nThe sample at a position of an epoch, over all ranks."},
    {"range", (PyCFunction)(void (*)(void))sampler_range, METH_VARARGS | METH_KEYWORDS,
     "range(epoch, position, count)\n--\n\nThe samples at so many positions of an epoch, over all ranks, as "
     "an array "
     "of uint64."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef attributes[] = {
    {"cardinality", get_cardinality, NULL, "The number of samples in the dataset.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

bool py_add_sampler(PyObject *module) {
    return py_add_shell(module, NULL, "weir._weir.Sampler", "Which samples a rank takes; see weir.Sampler.",
                        methods, attributes, NULL);
}
