/* weir.Plan: where the tensors of a model graph live. */
#include <stdlib.h>

#include "module.h"

typedef struct py_plan {
    py_shared shared;
    weir_plan *plan;
} py_plan;

static void destroy_plan(py_shared *self) {
    weir_plan_close(((py_plan *)self)->plan);
    free(self);
}

static weir_status make(const void *data, size_t size, const char *name, bool is_onnx,
                        const weir_plan_options *options, weir_plan **plan, weir_error *error) {
    weir_graph *graph = NULL;
    weir_status status = is_onnx ? weir_graph_import_onnx(NULL, data, size, name, &graph, error)
                                 : weir_graph_read(NULL, data, size, name, &graph, error);
    if (status == WEIR_OK)
        status = weir_plan_make(NULL, graph, options, plan, error);
    weir_graph_close(graph);
    return status;
}

/* _make(graph, name, is_onnx, mode, preset, token, arenas, order, effort, threads, reorder,
 * optimizer, step, link, speed, overlap) */
static PyObject *plan_make(PyObject *class, PyObject *args) {
    const char *name = NULL;
    py_bytes graph, token, arenas, order;
    int is_onnx = 0, reorder = 0, overlap = 1;
    weir_plan_options options = {.size = sizeof options};
    uint32_t effort = 0;
    if (!PyArg_ParseTuple(args, "O&spzzO&O&O&O&O&pzzO&O&p:_make", py_to_bytes, &graph, &name, &is_onnx,
                          &options.mode, &options.preset, py_to_bytes, &token, py_to_bytes, &arenas,
                          py_to_bytes, &order, py_to_uint32, &effort, py_to_uint32, &options.threads,
                          &reorder, &options.optimizer, &options.step, py_to_uint64, &options.link,
                          py_to_uint64, &options.speed, &overlap))
        return NULL;
    options.reorder = reorder != 0;
    options.no_overlap = overlap == 0;
    options.token = token.data;
    options.token_size = token.size;
    options.arenas = (weir_document){arenas.data, arenas.size, NULL};
    options.order = (weir_document){order.data, order.size, NULL};
    options.effort_plus_one = effort == UINT32_MAX ? effort : effort + 1;
    weir_error error;
    weir_status status = WEIR_OK;
    py_plan *shared = py_shared_new(sizeof *shared, destroy_plan);
    if (shared)
        PY_UNLOCKED(status = make(graph.data, graph.size, name, is_onnx, &options, &shared->plan, &error));
    return py_opened(class, shared, status, &error);
}

static PyObject *plan_restore(PyObject *class, PyObject *args) {
    py_bytes data;
    const char *name = NULL;
    if (!PyArg_ParseTuple(args, "O&s:_restore", py_to_bytes, &data, &name))
        return NULL;
    weir_error error;
    weir_status status = WEIR_OK;
    py_plan *shared = py_shared_new(sizeof *shared, destroy_plan);
    if (shared)
        status = weir_plan_restore(NULL, data.data, data.size, name, &shared->plan, &error);
    return py_opened(class, shared, status, &error);
}

const weir_plan *py_plan_of(PyObject *self) {
    return ((py_plan *)((py_object *)self)->shared)->plan;
}

PyObject *py_plan_bytes(const weir_plan *plan) {
    weir_cbor_writer w;
    weir_cbor_writer_memory(&w, NULL);
    weir_plan_write(plan, &w);
    weir_plan_write_tensors(plan, &w);
    weir_plan_write_metrics(plan, &w);
    return py_cbor(&w);
}

static PyObject *plan_bytes(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    return py_plan_bytes(py_plan_of(self));
}

static PyObject *plan_save(PyObject *self, PyObject *args) {
    PyObject *path = NULL;
    weir_error error;
    if (!PyArg_ParseTuple(args, "O&:save", PyUnicode_FSConverter, &path))
        return NULL;
    weir_status status = weir_plan_save(NULL, py_plan_of(self), PyBytes_AsString(path), &error);
    Py_DECREF(path);
    return py_done(status, &error);
}

/* ---- What is in it ----------------------------------------------------------------------------- */

static PyObject *text_of(weir_text text) {
    return PyUnicode_DecodeUTF8(text.data, (Py_ssize_t)text.size, "replace");
}

static PyObject *get_mode(PyObject *self, void *Py_UNUSED(closure)) {
    return py_text(weir_plan_describe(py_plan_of(self))->mode);
}

static PyObject *get_hashes(PyObject *self, void *Py_UNUSED(closure)) {
    const weir_plan_hashes *hashes = weir_plan_describe(py_plan_of(self))->hashes;
    return Py_BuildValue("{sNsNsN}", "plan", py_hex(hashes->plan, WEIR_HASH_SIZE), "assignment",
                         py_hex(hashes->assignment, WEIR_HASH_SIZE), "graph",
                         py_hex(hashes->graph, WEIR_HASH_SIZE));
}

static PyObject *get_metrics(PyObject *self, void *Py_UNUSED(closure)) {
    const weir_plan_metrics *metrics = weir_plan_describe(py_plan_of(self))->metrics;
    return Py_BuildValue(
        "{sKsKsKsdsdsdsdsK}", "tensors", (ull)metrics->tensors, "peak_logical_slots",
        (ull)metrics->peak_logical_slots, "max_live", (ull)metrics->max_live, "memory_reuse_ratio",
        metrics->memory_reuse_ratio, "memory_reuse_bound", metrics->memory_reuse_bound,
        "internal_fragmentation_ratio", metrics->internal_fragmentation_ratio, "activation_retention_ratio",
        metrics->activation_retention_ratio, "allocation_time_ns", (ull)metrics->allocation_time_ns);
}

static PyObject *get_arenas(PyObject *self, void *Py_UNUSED(closure)) {
    PyObject *all = PyDict_New();
    for (size_t i = 0; all && i < weir_plan_describe(py_plan_of(self))->arena_count; i++) {
        weir_plan_arena arena = weir_plan_arena_at(py_plan_of(self), i);
        PyObject *name = text_of(arena.name);
        PyObject *capacity =
            arena.has_capacity ? PyLong_FromUnsignedLongLong(arena.capacity) : Py_NewRef(Py_None);
        PyObject *dict = Py_BuildValue("{sKsKsKsNsKsKsKsKsN}", "tensors", (ull)arena.tensors, "alignment",
                                       (ull)arena.alignment, "page_size", (ull)arena.page_size, "capacity",
                                       capacity, "lower_bound", (ull)arena.lower_bound, "peak_bytes",
                                       (ull)arena.peak_bytes, "slot_bytes", (ull)arena.slot_bytes, "slots",
                                       (ull)arena.slots, "optimal", PyBool_FromLong(arena.optimal));
        if (!name || !dict || PyDict_SetItem(all, name, dict) != 0)
            Py_CLEAR(all);
        Py_XDECREF(name);
        Py_XDECREF(dict);
    }
    return all;
}

static PyObject *get_tensors(PyObject *self, void *Py_UNUSED(closure)) {
    const weir_plan *plan = py_plan_of(self);
    PyObject *all = PyDict_New();
    for (size_t i = 0; all && i < weir_plan_describe(plan)->tensor_count; i++) {
        weir_plan_tensor tensor = weir_plan_tensor_at(plan, i);
        PyObject *id = text_of(tensor.id);
        bool is_known = tensor.type != WEIR_TENSOR_UNKNOWN;
        PyObject *shape = is_known ? PyTuple_New((Py_ssize_t)tensor.rank) : Py_NewRef(Py_None);
        for (size_t k = 0; shape && is_known && k < tensor.rank; k++) {
            py_put(&shape, (Py_ssize_t)k, PyLong_FromUnsignedLongLong(tensor.shape[k]));
        }
        PyObject *dict = Py_BuildValue(
            "{sNsNsssssKsKsKsKsKsKsN}", "arena", text_of(weir_plan_arena_at(plan, tensor.arena).name),
            "shape", shape, "dtype", weir_tensor_type_name(tensor.type), "role",
            weir_tensor_role_name(tensor.role), "slot", (ull)tensor.slot, "address", (ull)tensor.address,
            "offset", (ull)tensor.offset, "size", (ull)tensor.size, "birth", (ull)tensor.birth, "death",
            (ull)tensor.death, "alias_of", tensor.is_alias ? text_of(tensor.alias_of) : Py_NewRef(Py_None));
        if (!id || !dict || PyDict_SetItem(all, id, dict) != 0)
            Py_CLEAR(all);
        Py_XDECREF(id);
        Py_XDECREF(dict);
    }
    return all;
}

static PyObject *get_schedule(PyObject *self, void *Py_UNUSED(closure)) {
    const weir_plan *plan = py_plan_of(self);
    size_t count = weir_plan_describe(plan)->step_count;
    if (count == 0)
        return Py_NewRef(Py_None);
    PyObject *all = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; all && i < count; i++) {
        weir_plan_step step = weir_plan_step_at(plan, i);
        py_put(&all, (Py_ssize_t)i,
               Py_BuildValue("(sN)", weir_plan_step_kind_name(step.kind), text_of(step.node)));
    }
    return all;
}

static PyObject *get_remat(PyObject *self, void *Py_UNUSED(closure)) {
    const weir_plan_remat *remat = weir_plan_describe(py_plan_of(self))->remat;
    const weir_plan_paging *paging = weir_plan_describe(py_plan_of(self))->paging;
    if (remat->runs_again == 0 && paging->transfers == 0)
        return Py_NewRef(Py_None);
    return Py_BuildValue("{sKsKsKsKsN}", "runs_again", (ull)remat->runs_again, "added_cost",
                         (ull)remat->added_cost, "base_cost", (ull)remat->base_cost, "lower_bound",
                         (ull)remat->lower_bound, "optimal", PyBool_FromLong(remat->optimal));
}

static PyObject *get_paging(PyObject *self, void *Py_UNUSED(closure)) {
    const weir_plan_paging *paging = weir_plan_describe(py_plan_of(self))->paging;
    if (paging->transfers == 0)
        return Py_NewRef(Py_None);
    return Py_BuildValue("{sKsKsKsKsKsKsNsK}", "tensors", (ull)paging->tensors, "transfers",
                         (ull)paging->transfers, "moved", (ull)paging->moved, "cost", (ull)paging->cost,
                         "link", (ull)paging->link, "speed", (ull)paging->speed, "overlaps",
                         PyBool_FromLong(paging->overlaps), "hidden", (ull)paging->hidden);
}

static PyObject *get_reorder(PyObject *self, void *Py_UNUSED(closure)) {
    const weir_plan_reorder *reorder = weir_plan_describe(py_plan_of(self))->reorder;
    if (!reorder->is_tried)
        return Py_NewRef(Py_None);
    return Py_BuildValue("{sNsKsKsK}", "changed", PyBool_FromLong(reorder->is_changed), "given_peak",
                         (ull)reorder->given_peak, "peak", (ull)reorder->peak, "lower_bound",
                         (ull)reorder->lower_bound);
}

/* ---- Bare packing ------------------------------------------------------------------------------ */

/* _pack(buffers, alignment, capacity or None, effort, threads): `buffers` has lower, upper and size of each
 * as uint64 of this machine. (offsets as uint64, peak_bytes, lower_bound, optimal) */
PyObject *py_pack(PyObject *Py_UNUSED(module), PyObject *args) {
    py_bytes buffers;
    PyObject *capacity = NULL;
    weir_packing_options options = {.size = sizeof options};
    weir_packing_result result;
    weir_error error;
    uint32_t effort = 0;
    if (!PyArg_ParseTuple(args, "O&O&OO&O&:_pack", py_to_bytes, &buffers, py_to_uint64, &options.alignment,
                          &capacity, py_to_uint32, &effort, py_to_uint32, &options.threads))
        return NULL;
    options.has_capacity = capacity != Py_None;
    options.effort_plus_one = effort == UINT32_MAX ? effort : effort + 1;
    size_t count = buffers.size / sizeof(weir_buffer);
    PyObject *offsets = NULL, *answer = NULL;
    if (!options.has_capacity || py_to_uint64(capacity, &options.capacity))
        offsets = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(count * sizeof(uint64_t)));
    if (offsets) {
        uint64_t *out = (uint64_t *)(void *)PyBytes_AsString(offsets);
        weir_status status = WEIR_OK;
        PY_UNLOCKED(status = weir_pack(NULL, (const weir_buffer *)buffers.data, count, &options, out, &result,
                                       &error));
        answer = status == WEIR_OK
                     ? Py_BuildValue("OKKO", offsets, (ull)result.peak_bytes, (ull)result.lower_bound,
                                     result.optimal ? Py_True : Py_False)
                     : py_raise(&error);
    }
    Py_XDECREF(offsets);
    return answer;
}

static PyMethodDef methods[] = {
    {"_make", plan_make, METH_VARARGS | METH_CLASS, "Plans a graph."},
    {"_restore", plan_restore, METH_VARARGS | METH_CLASS, "Restores a plan from its bytes."},
    {"to_bytes", plan_bytes, METH_NOARGS,
     "to_bytes()\n--\n\nThe plan as canonical CBOR (weir-plan/1), and after it what its tensors are."},
    {"save", plan_save, METH_VARARGS,
     "save(path)\n--\n\nWrites the plan to a file, which appears whole or not at all."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef attributes[] = {
    {"mode", get_mode, NULL, "inference, forward or backward.", NULL},
    {"hashes", get_hashes, NULL, "The identities of plan, assignment and graph, in hex.", NULL},
    {"metrics", get_metrics, NULL, "How well memory is used.", NULL},
    {"arenas", get_arenas, NULL, "By name: the arenas and the memory that they need.", NULL},
    {"tensors", get_tensors, NULL, "By id: where each tensor lies, and when it lives.", NULL},
    {"schedule", get_schedule, NULL,
     "What runs when, as (\"run\" or \"back\", node) and (\"out\" or \"in\", tensor); None if it is the "
     "given "
     "order, each node once.",
     NULL},
    {"paging", get_paging, NULL, "What goes to the host and comes back; None if nothing does.", NULL},
    {"remat", get_remat, NULL, "What running operators again and paging cost; None if neither happens.",
     NULL},
    {"reorder", get_reorder, NULL, "What reorder=True found; None without.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

bool py_add_plan(PyObject *module) {
    return py_add_shell(module, &py_the.plan, "weir._weir.Plan",
                        "Where the tensors of a model graph live; see weir.Plan.", methods, attributes, NULL);
}
