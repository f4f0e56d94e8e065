/* weir.Batch: the tensors of one step. The object holds a py_batch: a slot of a run on loan, a builder with
 * its buffer, or a copy. Its arrays keep that, not the object, so they outlive it. */
#include <stdlib.h>
#include <string.h>

#include "dlpack.h"
#include "module.h"

/* ---- Where batches come from ------------------------------------------------------------------- */

static void destroy_sources(py_shared *self) {
    py_sources *sources = (py_sources *)self;
    for (size_t i = 0; i < sources->count; i++)
        py_drop(sources->stores[i]);
    py_drop(sources->manifest);
    free(sources->opened);
    free(sources->context_key);
    free(sources);
}

py_sources *py_sources_new(PyObject *stores, PyObject *manifest) {
    if (manifest != Py_None && !PyObject_TypeCheck(manifest, py_the.manifest)) {
        PyErr_Format(PyExc_TypeError, "expected a weir.Manifest, not %R", manifest);
        return NULL;
    }
    size_t room = (size_t)PyTuple_Size(stores) * sizeof(void *);
    py_sources *sources = py_shared_new(sizeof *sources + room, destroy_sources);
    if (!sources)
        return NULL;
    if (manifest != Py_None)
        sources->manifest = py_keep(((py_object *)manifest)->shared);
    sources->opened = malloc(room + 1);
    bool is_complete = sources->opened != NULL;
    if (!is_complete)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; is_complete && i < PyTuple_Size(stores); i++) {
        PyObject *store = PyTuple_GetItem(stores, i);
        is_complete = PyObject_TypeCheck(store, py_the.store); /* not what only says so, such as a proxy */
        if (!is_complete) {
            PyErr_Format(PyExc_TypeError, "expected a weir.Store, not %R", store);
            break;
        }
        py_store *kept = py_keep(((py_object *)store)->shared);
        sources->opened[sources->count] = kept->store;
        sources->stores[sources->count++] = kept;
    }
    if (is_complete)
        return sources;
    py_drop(sources);
    return NULL;
}

/* A batch with the builder that made it. */
typedef struct built {
    py_batch base;
    py_sources *sources;
    weir_batch_builder *builder;
    weir_batch_buffer *buffer;
} built;

static void destroy_built(py_shared *self) {
    built *batch = (built *)self;
    weir_batch_buffer_close(batch->buffer);
    weir_batch_builder_close(batch->builder);
    py_drop(batch->sources);
    free(batch);
}

/* _build(stores, manifest, dataset, stage, rank, world_size, token, any_hash, pad, with_digests, epoch,
 * position, step) */
static PyObject *batch_build(PyObject *class, PyObject *args) {
    PyObject *stores = NULL, *manifest = NULL;
    const char *stage = NULL;
    int any_hash = 0, pad = 0, with_digests = 0;
    uint64_t step = 0;
    weir_cursor cursor;
    py_bytes token;
    weir_batch_options options = {.size = sizeof options};
    if (!PyArg_ParseTuple(args, "O!O!ssO&O&O&pppO&O&O&:_build", &PyTuple_Type, &stores, py_the.manifest,
                          &manifest, &options.dataset, &stage, py_to_uint32, &options.rank, py_to_uint32,
                          &options.world_size, py_to_bytes, &token, &any_hash, &pad, &with_digests,
                          py_to_uint64, &cursor.epoch, py_to_uint64, &cursor.global_index, py_to_uint64,
                          &step))
        return NULL;
    options.token = token.data;
    options.token_size = token.size;
    options.any_hash = any_hash;
    options.pad = pad;
    options.with_digests = with_digests;
    built *out = py_shared_new(sizeof *out, destroy_built);
    if (!out || !(out->sources = py_sources_new(stores, manifest))) {
        py_drop(out);
        return NULL;
    }
    if (out->sources->count == 0) {
        PyErr_SetString(PyExc_ValueError, "no store is given");
        py_drop(out);
        return NULL;
    }
    out->base.step = step;
    options.store = out->sources->stores[0]->store;
    options.stores = out->sources->opened;
    options.store_count = out->sources->count;
    options.manifest = out->sources->manifest->manifest;
    weir_error error;
    weir_status status = weir_stage_parse(stage, &options.stage, &error);
    if (status == WEIR_OK)
        status = weir_batch_builder_open(NULL, &options, &out->builder, &error);
    if (status == WEIR_OK)
        status = weir_batch_buffer_open(&out->builder, 1, NULL, &out->buffer, &error);
    if (status == WEIR_OK)
        status = weir_batch_build(out->builder, cursor, out->buffer, &error);
    if (status == WEIR_OK) {
        out->base.batch = weir_batch_view(out->buffer);
        out->base.store = out->base.batch->source_count > 0 ? NULL : options.store;
        out->base.sources = &out->sources->shared;
        out->base.dataset = weir_manifest_find(options.manifest, options.dataset);
    }
    return py_opened(class, out, status, &error);
}

/* A copy: the header, the tensors, then everything else that it points to. */
typedef struct copied {
    py_batch base;
    weir_batch view;
    _Alignas(256) uint8_t data[];
} copied;

static void destroy_copied(py_shared *self) {
    py_drop(((copied *)self)->base.sources);
    free(self);
}

/* Copies what a batch points to, if it does, to the end of its copy. */
static void *copy_to(uint8_t **end, const void *data, size_t size) {
    void *copy = *end;
    if (!data)
        return NULL;
    *end += size;
    return memcpy(copy, data, size);
}

py_batch *py_batch_copy(const py_batch *from) {
    const weir_batch *batch = from->batch;
    size_t count = batch->sequence_count, tensors = ((size_t)batch->size + 7) / 8 * 8;
    size_t rows = 8 * count * batch->row_stride, sources = batch->source_count * sizeof *batch->sources;
    size_t size = sizeof(copied) + tensors + rows + sources + 16 * count;
    copied *copy = aligned_alloc(256, (size + 255) / 256 * 256);
    if (!copy) {
        PyErr_NoMemory();
        return NULL;
    }
    *copy = (copied){.base = *from, .view = *batch};
    copy->base.sources = py_keep(from->sources);
    atomic_init(&copy->base.shared.count, 1);
    copy->base.shared.destroy = destroy_copied;
    copy->base.batch = &copy->view;
    copy->base.is_own = true;
    memcpy(copy->data, batch->data, (size_t)batch->size);
    uint8_t *end = copy->data + tensors;
    weir_batch_source *mix = copy_to(&end, sources > 0 ? batch->sources : NULL, sources);
    for (uint32_t i = 0; i < batch->source_count; i++) { /* what keeps the copy keeps the manifest */
        const weir_manifest *manifest = ((const py_sources *)from->sources)->manifest->manifest;
        mix[i].dataset = weir_manifest_find(manifest, mix[i].dataset)->key;
    }
    copy->view.data = copy->data;
    copy->view.sources = mix;
    copy->view.epochs = copy_to(&end, batch->epochs, 8 * count);
    copy->view.rows = copy_to(&end, batch->rows, rows);
    copy->view.sample_digests = copy_to(&end, batch->has_digests ? batch->sample_digests : NULL, 8 * count);
    copy->view.dataset_ids = NULL; /* the tensor has them */
    copy->view.indices = NULL;
    copy->view.anchor_rows = NULL;
    copy->view.group_digests = NULL;
    copy->view.visits = NULL;
    copy->view.compact = copy->view.rules = NULL;
    return &copy->base;
}

/* ---- What is in a batch ------------------------------------------------------------------------ */

static py_batch *batch_of(PyObject *self) {
    return (py_batch *)((py_object *)self)->shared;
}

static PyObject *part(PyObject *self, const weir_tensor *tensor) {
    py_batch *owner = batch_of(self);
    return py_array_new(&(py_array_spec){.owner = &owner->shared,
                                         .data = owner->batch->data + tensor->offset,
                                         .dtype = tensor->dtype,
                                         .rank = (int)tensor->rank,
                                         .shape = tensor->shape,
                                         .is_writable = owner->is_own,
                                         .place = owner->place});
}

static PyObject *get_item(PyObject *self, PyObject *key) {
    const char *name = PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, NULL) : NULL;
    const weir_batch *batch = batch_of(self)->batch;
    for (int id = 0; name && id < WEIR_TENSORS; id++)
        if (batch->tensors[id].name && strcmp(batch->tensors[id].name, name) == 0)
            return part(self, &batch->tensors[id]);
    if (!PyErr_Occurred())
        PyErr_SetObject(PyExc_KeyError, key);
    return NULL;
}

/* All tensors as a dict: one call instead of one for each. */
static PyObject *arrays(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    const weir_batch *batch = batch_of(self)->batch;
    PyObject *all = PyDict_New();
    for (int id = 0; all && id < WEIR_TENSORS; id++)
        if (batch->tensors[id].name && !py_set(all, batch->tensors[id].name, part(self, &batch->tensors[id])))
            Py_CLEAR(all);
    return all;
}

/* What torch is told that a tensor is. Before 2.3 it has no unsigned types but uint8, and takes no bool. */
static uint8_t code_for_torch(const weir_batch *batch, int id, bool has_unsigned) {
    const py_dtype *dtype = py_dtype_find(batch->tensors[id].dtype);
    bool is_mask = dtype->dlpack_code == DL_UINT && dtype->size == 1; /* they hold 0 and 1 */
    if (has_unsigned)
        return is_mask ? DL_BOOL : dtype->dlpack_code;
    return dtype->dlpack_code == DL_UINT && dtype->size > 1 ? DL_INT : dtype->dlpack_code;
}

/* _capsules(stream, whether torch has unsigned types): all tensors as DLPack capsules, for a stream of the
 * batch's device that waits for it. */
static PyObject *capsules(PyObject *self, PyObject *args) {
    const weir_batch *batch = batch_of(self)->batch;
    const py_place *place = batch_of(self)->place;
    weir_error error;
    uint64_t stream = 0;
    int has_unsigned = 0;
    if (!PyArg_ParseTuple(args, "O&p:_capsules", py_to_uint64, &stream, &has_unsigned))
        return NULL;
    if (place && place->await(&batch_of(self)->shared, (weir_stream)stream, &error) != WEIR_OK)
        return py_raise(&error);
    PyObject *all = PyDict_New();
    for (int id = 0; all && id < WEIR_TENSORS; id++) {
        if (!batch->tensors[id].name)
            continue;
        PyObject *array = part(self, &batch->tensors[id]);
        uint8_t code = code_for_torch(batch, id, has_unsigned);
        if (!array || !py_set(all, batch->tensors[id].name, py_array_capsule_as(array, code)))
            Py_CLEAR(all);
        Py_XDECREF(array);
    }
    return all;
}

/* ---- Groups ------------------------------------------------------------------------------------ */

/* _group(): (group, role) of each sequence, in memory of their own. */
static PyObject *batch_group(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    const weir_batch *batch = batch_of(self)->batch;
    size_t count = batch->sequence_count;
    py_block *groups = py_block_new(8 * count), *roles = py_block_new(count);
    for (uint32_t i = 0; groups && roles && i < count; i++) {
        int64_t group = i / batch->group_size;
        memcpy(groups->data + 8 * (size_t)i, &group, sizeof group);
        roles->data[i] = (uint8_t)weir_batch_role(batch, i);
    }
    return Py_BuildValue("(NN)", py_array_of_block(groups, "int64", count, 0),
                         py_array_of_block(roles, "uint8", count, 0));
}

/* Whether all sequences are of one dataset; else an exception says where to look. */
static bool is_of_one(PyObject *self) {
    if (batch_of(self)->store)
        return true;
    PyErr_SetString(PyExc_ValueError,
                    "the batch is mixed: its sequences are of several datasets, and each has "
                    "this of its own; see batch.sources and batch.dataset_ids");
    return false;
}

/* ---- The edges --------------------------------------------------------------------------------- */

/* Whether an edge of a row is known at a time: the row is, and the cell of the foreign key. (A row without a
 * time was always there; a null known_at is never.) */
static bool is_edge_known(const weir_store *store, uint64_t row, const weir_edge *edge, int64_t at) {
    weir_cell known;
    if (weir_store_row_time(store, row) > at)
        return false;
    return edge->known_at == WEIR_NONE ||
           (weir_store_cell(store, row, edge->known_at, &known) && !known.is_null && known.integer <= at);
}

typedef struct edge_list {
    uint32_t (*items)[4];
    size_t count, capacity;
} edge_list;

static bool add_edge(edge_list *list, uint32_t edge, uint32_t sequence, uint32_t child, uint32_t parent) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 1024;
        void *grown = realloc(list->items, capacity * sizeof *list->items);
        if (!grown) {
            PyErr_NoMemory();
            return false;
        }
        list->items = grown;
        list->capacity = capacity;
    }
    uint32_t item[4] = {edge, sequence, child, parent};
    memcpy(list->items[list->count++], item, sizeof item);
    return true;
}

/* The foreign keys between the rows of a sequence: fk_adj says which rows, the store which column. False,
 * with an exception, without memory, or if who has the batch wrote more rows to num_rows than there are. */
static bool add_edges_of(const py_batch *owner, uint32_t i, edge_list *list) {
    const weir_batch *batch = owner->batch;
    const weir_store_info *info = weir_store_describe(owner->store);
    const uint64_t *rows = batch->rows + (size_t)i * batch->row_stride;
    size_t width = batch->row_count;
    const uint8_t *adjacent = batch->data + batch->tensors[WEIR_FK_ADJ].offset + i * width * width;
    uint32_t count;
    int64_t at;
    memcpy(&count, batch->data + batch->tensors[WEIR_NUM_ROWS].offset + 4 * (size_t)i, 4);
    memcpy(&at, batch->data + batch->tensors[WEIR_OBSERVATION_TIME].offset + 8 * (size_t)i, 8);
    if (count > width || count > batch->row_stride) {
        PyErr_Format(PyExc_ValueError, "num_rows[%u] is %u, but the batch has %u rows: it was written to", i,
                     count, batch->row_count);
        return false;
    }
    for (uint32_t child = 0; child < count; child++) {
        uint32_t table = weir_store_table_of(owner->store, rows[child]);
        for (uint32_t parent = 0; table != WEIR_NONE && parent < count; parent++) {
            if (!adjacent[child * width + parent])
                continue;
            uint32_t first = info->tables[table].edge_start, end = first + info->tables[table].edge_count;
            for (uint32_t edge = first; edge < end; edge++)
                if (weir_store_parent(owner->store, rows[child], edge) == rows[parent] &&
                    !info->tasks[batch->task].edge_hidden[edge] &&
                    is_edge_known(owner->store, rows[child], &info->edges[edge], at) &&
                    !add_edge(list, edge, i, child, parent))
                    return false;
        }
    }
    return true;
}

/* _edges(): uint32 [E, 4], each an edge type of the store, the sequence, and its rows child and parent. */
static PyObject *batch_edges(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    const py_batch *owner = batch_of(self);
    edge_list list = {NULL, 0, 0};
    if (!is_of_one(self))
        return NULL;
    if (owner->place || !owner->batch->rows) {
        PyErr_SetString(PyExc_ValueError, "a batch on a device does not know its rows; leave device out");
        return NULL;
    }
    bool is_complete = true;
    for (uint32_t i = 0; is_complete && i < owner->batch->sequence_count; i++)
        is_complete = add_edges_of(owner, i, &list);
    py_block *block = is_complete ? py_block_new(list.count * sizeof *list.items) : NULL;
    if (block && list.count > 0)
        memcpy(block->data, list.items, list.count * sizeof *list.items);
    free(list.items);
    return py_array_of_block(block, "uint32", list.count, 4);
}

static Py_ssize_t length(PyObject *self) {
    const weir_batch *batch = batch_of(self)->batch;
    Py_ssize_t count = 0;
    for (int id = 0; id < WEIR_TENSORS; id++)
        count += batch->tensors[id].name != NULL;
    return count;
}

/* What lies beside the tensors, as arrays of one or two dimensions. */
static PyObject *beside(PyObject *self, const void *data, const char *dtype, uint32_t width) {
    py_batch *owner = batch_of(self);
    uint64_t shape[] = {owner->batch->sequence_count, width};
    return py_array_new(&(py_array_spec){.owner = &owner->shared,
                                         .data = data,
                                         .dtype = dtype,
                                         .rank = width ? 2 : 1,
                                         .shape = shape,
                                         .is_writable = owner->is_own});
}

/* A field of each sequence; the closure is the part's number. Anchors that nobody asked for on a device are
 * on the host. */
static PyObject *get_field(PyObject *self, void *closure) {
    const weir_batch *batch = batch_of(self)->batch;
    const weir_tensor *field = &batch->tensors[(intptr_t)closure];
    if ((intptr_t)closure == WEIR_ANCHOR_ROW && field->size == 0)
        return beside(self, batch->anchor_rows, field->dtype, 0);
    return part(self, field);
}

static PyObject *get_rows(PyObject *self, void *Py_UNUSED(closure)) {
    const weir_batch *batch = batch_of(self)->batch;
    uint64_t count = (uint64_t)batch->sequence_count * batch->row_stride;
    if (!batch->rows)
        Py_RETURN_NONE;
    /* 32 bits hold every RowIdx of the batch if no store of it is of format 2. */
    bool is_short = batch->source_count > 0 || weir_store_describe(batch_of(self)->store)->format == 1;
    for (uint32_t i = 0; i < batch->source_count; i++)
        is_short = is_short && weir_store_describe(batch->sources[i].store)->format == 1;
    if (!is_short)
        return beside(self, batch->rows, "uint64", batch->row_stride);
    py_block *block = py_block_new(4 * count);
    for (uint64_t i = 0; block && i < count; i++) {
        uint32_t row = (uint32_t)batch->rows[i];
        memcpy(block->data + 4 * i, &row, sizeof row);
    }
    return py_array_of_block(block, "uint32", batch->sequence_count, batch->row_stride);
}

typedef enum attribute {
    STEP,
    DEVICE_INDEX,
    EPOCH,
    CURSOR,
    CURSOR_NEXT,
    VALID_COUNT,
    DATASET,
    TARGET_STYPE,
    DIGEST,
    SAMPLE_DIGESTS,
    EPOCHS,
    NBYTES,
    DATASET_IDS,
    /* What each dataset of a mixed batch has of its own: */
    TASK,
    STORE_INDEX,
    STORE_HASH,
} attribute;

static PyObject *get_attribute(PyObject *object, void *which) {
    const py_batch *self = batch_of(object);
    const weir_batch *batch = self->batch;
    const weir_cursor *before = &batch->step.cursor_before, *next = &batch->step.cursor_next;
    if ((attribute)(intptr_t)which >= TASK && !is_of_one(object))
        return NULL;
    switch ((attribute)(intptr_t)which) {
    case STEP:
        return PyLong_FromUnsignedLongLong(self->step);
    case DEVICE_INDEX:
        return self->place ? PyLong_FromLong(self->place->id) : Py_NewRef(Py_None);
    case EPOCH:
        return PyLong_FromUnsignedLongLong(before->epoch);
    case CURSOR:
        return Py_BuildValue("(KK)", (ull)before->epoch, (ull)before->global_index);
    case CURSOR_NEXT:
        return Py_BuildValue("(KK)", (ull)next->epoch, (ull)next->global_index);
    case VALID_COUNT:
        return PyLong_FromUnsignedLongLong(batch->step.valid_count * batch->group_size);
    case DATASET:
        return py_text(self->dataset->key);
    case TARGET_STYPE:
        return py_text(batch->source_count > 0 ? "mixed" : weir_stype_name(batch->target_stype));
    case DIGEST:
        return batch->has_digests ? py_hex(batch->batch_digest, sizeof batch->batch_digest)
                                  : Py_NewRef(Py_None);
    case SAMPLE_DIGESTS:
        return batch->has_digests ? beside(object, batch->sample_digests, "uint64", 0) : Py_NewRef(Py_None);
    case EPOCHS:
        return beside(object, batch->epochs, "uint64", 0);
    case NBYTES:
        return PyLong_FromUnsignedLongLong(batch->size);
    case DATASET_IDS:
        return batch->tensors[WEIR_DATASET_IDS].name ? part(object, &batch->tensors[WEIR_DATASET_IDS])
                                                     : Py_NewRef(Py_None);
    case TASK:
        return py_text(weir_store_describe(self->store)->tasks[batch->task].name);
    case STORE_INDEX:
        return PyLong_FromSize_t(py_batch_store_index(self, self->store));
    case STORE_HASH:
        return py_hex(weir_store_describe(self->store)->store_hash, WEIR_HASH_SIZE);
    }
    return NULL;
}

/* A number of the batch; the closure is where it lies in a weir_batch. */
static PyObject *get_number(PyObject *self, void *closure) {
    uint32_t number;
    memcpy(&number, (const char *)batch_of(self)->batch + (uintptr_t)closure, sizeof number);
    return PyLong_FromUnsignedLong(number);
}

/* The same of what each dataset of a mixed batch has of its own. */
static PyObject *get_task_number(PyObject *self, void *closure) {
    return is_of_one(self) ? get_number(self, closure) : NULL;
}

static PyObject *batch_copy(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    py_batch *from = batch_of(self);
    if (from->place || !from->batch->rows) {
        PyErr_SetString(PyExc_ValueError, "a batch of a device cannot be copied; clone its tensors");
        return NULL;
    }
    return py_object_new((PyObject *)Py_TYPE(self), py_batch_copy(from));
}

static PyMethodDef methods[] = {
    {"_build", batch_build, METH_VARARGS | METH_CLASS, "Builds the batch at a cursor."},
    {"copy", batch_copy, METH_NOARGS,
     "copy()\n--\n\nThe batch in memory of its own, which may be written to and kept."},
    {"_arrays", arrays, METH_NOARGS, "All tensors, by name."},
    {"_edges", batch_edges, METH_NOARGS, "The foreign keys between the rows of each sequence, by column."},
    {"_group", batch_group, METH_NOARGS, "The group and the role of each sequence."},
    {"_sources", py_batch_sources, METH_NOARGS, "The datasets of a mixed batch."},
    {"_target", py_batch_target, METH_NOARGS, "The target's values and nulls, in memory of their own."},
    {"_capsules", capsules, METH_VARARGS, "All tensors as DLPack capsules, as torch takes them."},
    {NULL, NULL, 0, NULL}};

#define ATTRIBUTE(name, which, doc)                                                                          \
    { name, get_attribute, NULL, doc, (void *)(intptr_t)which }
#define NUMBER(name, field, doc)                                                                             \
    { name, get_number, NULL, doc, (void *)offsetof(weir_batch, field) }
#define TASK_NUMBER(name, field, doc)                                                                        \
    { name, get_task_number, NULL, doc, (void *)offsetof(weir_batch, field) }
#define DOC_SAMPLE_INDEX     "which sample of the dataset."
#define DOC_POSITION         "its position in the epoch."
#define DOC_ANCHOR_ROW       "the store's row that it is about; on a device only if anchor_rows asks for it."
#define DOC_OBSERVATION_TIME "microseconds; what was known then is seen."
#define DOC_NUM_CELLS        "cells before the padding."
#define DOC_NUM_ROWS         "rows before the padding."
#define FIELD(id, name, dtype, size, axis)                                                                   \
    {#name, get_field, NULL, #dtype " [" #axis "]: " DOC_##id, (void *)(intptr_t)(WEIR_##id)},

static PyGetSetDef attributes[] = {
    ATTRIBUTE("step", STEP, "The step of the run."),
    ATTRIBUTE("device_index", DEVICE_INDEX,
              "The number of the GPU that has the tensors; None: the host has."),
    ATTRIBUTE("epoch", EPOCH, "The epoch in which the batch begins."),
    ATTRIBUTE("cursor", CURSOR, "(epoch, position) at which the batch begins, over all ranks."),
    ATTRIBUTE("cursor_next", CURSOR_NEXT, "(epoch, position) after the batch."),
    ATTRIBUTE("valid_count", VALID_COUNT, "Sequences, from the front, that are samples of the epoch."),
    ATTRIBUTE("dataset", DATASET, "The dataset's key; \"*\" of a mixed batch."),
    ATTRIBUTE("task", TASK, "The task's name."),
    ATTRIBUTE("target_stype", TARGET_STYPE, "The semantic type of the target; \"mixed\" of a mixed batch."),
    ATTRIBUTE("_store_index", STORE_INDEX, "Which of the stores it is of."),
    ATTRIBUTE("store_hash", STORE_HASH, "The hash of the store that the batch is of, in hex."),
    {"_target_scale", py_batch_target_scale, NULL,
     "The mean and deviation that the target was normalised by.", NULL},
    ATTRIBUTE("digest", DIGEST, "XXH3-128 of the batch in hex; None without with_digests."),
    ATTRIBUTE("sample_digests", SAMPLE_DIGESTS, "XXH3-64 of each sequence; None without with_digests."),
    ATTRIBUTE("epochs", EPOCHS, "The epoch of each sequence."),
    {"rows", get_rows, NULL, "The store's rows of each sequence, in visit order; None on a device.", NULL},
    ATTRIBUTE("nbytes", NBYTES, "Bytes of all tensors and fields, padding included."),
    NUMBER("sequence_count", sequence_count, "B: sequences of this rank."),
    NUMBER("group_size", group_size, "Sequences of a sample: 1, or those of a link task's group."),
    NUMBER("sequence_length", sequence_length, "S: cells of a sequence, padding included."),
    NUMBER("row_count", row_count, "R: rows of fk_adj."),
    NUMBER("text_count", text_count, "U: texts in text_batch_embeddings."),
    NUMBER("embedding_dim", embedding_dim, "D_t: the width of a text embedding."),
    TASK_NUMBER("task_index", task, "The task's number in the store."),
    TASK_NUMBER("category_start", category_start,
                "Of a categorical target: its first category in the store."),
    TASK_NUMBER("category_count", category_count, "Of a categorical target: the number of its categories."),
    ATTRIBUTE("dataset_ids", DATASET_IDS,
              "uint32 [B]: of a mixed batch, which of its sources each sequence is of; None of any other."),
    WEIR_BATCH_FIELDS(FIELD){NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {{Py_tp_doc, "The tensors of one step; see weir.Batch."},
                              {Py_tp_dealloc, py_object_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, attributes},
                              {Py_mp_subscript, get_item},
                              {Py_mp_length, length},
                              {0, NULL}};

static PyType_Spec spec = {"weir._weir.Batch", sizeof(py_object), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           slots};

#define PART(id, name, dtype, ...) {#name, #dtype},

/* A tuple of pairs: (name, dtype) of tensors. */
static bool add_list(PyObject *module, const char *name, const char *const (*parts)[2], Py_ssize_t count) {
    PyObject *list = PyTuple_New(count);
    for (Py_ssize_t i = 0; list && i < count; i++) {
        py_put(&list, i, Py_BuildValue("(ss)", parts[i][0], parts[i][1]));
    }
    bool is_added = list && PyModule_AddObjectRef(module, name, list) == 0;
    Py_XDECREF(list);
    return is_added;
}

#define CARRIER(id, size, dtype, tensor)    #tensor,
#define STYPE(id, number, name, value, ...) {#name, carriers[WEIR_VALUE_##value]},

bool py_add_batch(PyObject *module) {
    static const char *const carriers[] = {WEIR_VALUES(CARRIER)};
    const char *const stypes[][2] = {WEIR_STYPES(STYPE)}; /* and the tensors that carry their values */
    static const char *const tensors[][2] = {WEIR_BATCH_TENSORS(PART)};
    static const char *const optional[][2] = {WEIR_OPTIONAL_TENSORS(PART)};
    static const char *const fields[][2] = {WEIR_BATCH_FIELDS(PART)};
    return py_add_type(module, &py_the.batch, &spec) &&
           add_list(module, "TENSORS", tensors, WEIR_FIRST_OPTIONAL) &&
           add_list(module, "OPTIONAL_TENSORS", optional, WEIR_TENSORS - WEIR_FIRST_OPTIONAL) &&
           add_list(module, "FIELDS", fields, sizeof fields / sizeof fields[0]) &&
           add_list(module, "STYPES", stypes, sizeof stypes / sizeof stypes[0]);
}
