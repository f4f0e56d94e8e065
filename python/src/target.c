/* The target of a weir.Batch, apart from its tensors, and the datasets that a mixed batch is of. */
#include <string.h>

#include "module.h"

static py_batch *batch_of(PyObject *self) {
    return (py_batch *)((py_object *)self)->shared;
}

/* Where the target's cell (the first) of each sequence lies in a tensor. */
static const uint8_t *target_cell(const weir_batch *batch, weir_tensor_id id, size_t sequence, size_t size) {
    return batch->data + batch->tensors[id].offset + sequence * batch->sequence_length * size;
}

static uint32_t number_of_source(const weir_batch *batch, size_t i) {
    uint32_t number;
    memcpy(&number, batch->data + batch->tensors[WEIR_DATASET_IDS].offset + 4 * i, sizeof number);
    return number;
}

/* In a mixed batch all are float32: booleans 0 and 1, classes their numbers. */
static void copy_target(const weir_batch *batch, size_t i, void *values, uint8_t *is_null) {
    weir_batch_source source = {.target_stype = batch->target_stype, .category_start = batch->category_start};
    if (batch->source_count > 0)
        source = batch->sources[number_of_source(batch, i)];
    weir_value kind = weir_value_of(source.target_stype);
    bool is_mixed = batch->source_count > 0;
    uint8_t truth = *target_cell(batch, WEIR_BOOL_VALUES, i, 1);
    uint32_t category;
    memcpy(&category, target_cell(batch, WEIR_CATEGORICAL_EMBED_IDS, i, 4), 4);
    uint32_t class = category > source.category_start ? category - source.category_start : 0;
    size_t time_size = 4 * WEIR_TIMESTAMP_FLOATS;
    *is_null = *target_cell(batch, WEIR_IS_NULL, i, 1) | *target_cell(batch, WEIR_IS_PADDING, i, 1);
    if (kind == WEIR_VALUE_TRUTH && !is_mixed)
        ((uint8_t *)values)[i] = truth;
    else if (kind == WEIR_VALUE_CATEGORY && !is_mixed)
        ((int64_t *)values)[i] = class;
    else if (kind == WEIR_VALUE_TRUTH || kind == WEIR_VALUE_CATEGORY)
        ((float *)values)[i] = kind == WEIR_VALUE_TRUTH ? (float)truth : (float)class;
    else if (kind == WEIR_VALUE_TIME) /* the last of its floats is the whole time */
        memcpy((float *)values + i, target_cell(batch, WEIR_TIMESTAMP_VALUES, i, time_size) + time_size - 4,
               4);
    else
        memcpy((float *)values + i, target_cell(batch, WEIR_NUMERIC_VALUES, i, 4), 4);
}

/* Whether the numbers of a mixed batch's datasets are numbers of its sources; else an exception: who has a
 * batch may have written to its tensors. */
static bool has_sources(const weir_batch *batch) {
    for (size_t i = 0; batch->source_count > 0 && i < batch->sequence_count; i++) {
        uint32_t number = number_of_source(batch, i);
        if (number < batch->source_count)
            continue;
        PyErr_Format(PyExc_ValueError,
                     "dataset_ids[%zd] is %u, but the batch has %u sources: it was written to", (Py_ssize_t)i,
                     number, batch->source_count);
        return false;
    }
    return true;
}

/* _target(): (values, is_null), in memory of their own, so that who keeps labels keeps no batch. Booleans are
 * bool, classes int64 from 0 on, numbers and times float32 as the batch has them. */
PyObject *py_batch_target(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    const weir_batch *batch = batch_of(self)->batch;
    size_t count = batch->sequence_count;
    if (batch_of(self)->place) {
        PyErr_SetString(PyExc_ValueError, "the batch is on a device; use target.torch()");
        return NULL;
    }
    if (!has_sources(batch))
        return NULL;
    py_block *values = py_block_new(8 * count), *nulls = py_block_new(count);
    for (size_t i = 0; values && nulls && i < count; i++)
        copy_target(batch, i, values->data, nulls->data + i);
    weir_value kind = weir_value_of(batch->target_stype);
    const char *dtype = batch->source_count > 0       ? "float32"
                        : kind == WEIR_VALUE_TRUTH    ? "bool"
                        : kind == WEIR_VALUE_CATEGORY ? "int64"
                                                      : "float32";
    return Py_BuildValue("(NN)", py_array_of_block(values, dtype, count, 0),
                         py_array_of_block(nulls, "bool", count, 0));
}

/* ---- What it was normalised by, and the datasets of a mixed batch ------------------------------ */

size_t py_batch_store_index(const py_batch *batch, const weir_store *store) {
    const py_sources *sources = (const py_sources *)batch->sources;
    size_t at = 0;
    while (at + 1 < sources->count && sources->opened[at] != store)
        at++;
    return at;
}

/* By which a target was normalised; 0 and 1 if it was not. */
static weir_statistics scale_of(const weir_store *store, uint32_t task, weir_stype stype) {
    const weir_store_info *info = weir_store_describe(store);
    weir_value kind = weir_value_of(stype);
    if (kind == WEIR_VALUE_NUMBER)
        return info->columns[info->tasks[task].column].statistics;
    return kind == WEIR_VALUE_TIME ? info->timestamps : (weir_statistics){.mean = 0, .std = 1};
}

/* (mean, std) of the target; (0, 1) of a mixed batch, whose sources have them. */
PyObject *py_batch_target_scale(PyObject *self, void *Py_UNUSED(closure)) {
    const py_batch *batch = batch_of(self);
    weir_statistics scale = {.mean = 0, .std = 1};
    if (batch->store)
        scale = scale_of(batch->store, batch->batch->task, batch->batch->target_stype);
    return Py_BuildValue("(dd)", scale.mean, scale.std);
}

/* _sources(): of a mixed batch, for each dataset (dataset, which store, task, its number, stype,
 * category_start, category_count, first_column, first_category, mean, std). */
PyObject *py_batch_sources(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    const py_batch *owner = batch_of(self);
    uint32_t count = owner->batch->source_count;
    PyObject *list = PyTuple_New(count);
    for (uint32_t i = 0; list && i < count; i++) {
        const weir_batch_source *s = &owner->batch->sources[i];
        weir_statistics scale = scale_of(s->store, s->task, s->target_stype);
        py_put(&list, i,
               Py_BuildValue("(snsIsIIIIdd)", s->dataset, (Py_ssize_t)py_batch_store_index(owner, s->store),
                             weir_store_describe(s->store)->tasks[s->task].name, s->task,
                             weir_stype_name(s->target_stype), s->category_start, s->category_count,
                             s->first_column, s->first_category, scale.mean, scale.std));
    }
    return list;
}
