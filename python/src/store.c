/* weir.Store: an open store. Its embeddings and the columns of its tables are arrays of the file itself,
 * which stays mapped while any of them is there. */
#include <stdlib.h>
#include <string.h>

#include "module.h"

static void destroy_store(py_shared *self) {
    weir_store_close(((py_store *)self)->store);
    free(self);
}

static PyObject *store_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"path", "verify", "read_ahead", NULL};
    PyObject *path = NULL;
    const char *verify = "touched";
    int read_ahead = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|sp:Store", names, PyUnicode_FSConverter, &path,
                                     &verify, &read_ahead))
        return NULL;
    weir_error error;
    weir_store_options options = {.size = sizeof options, .reads_ahead = read_ahead};
    weir_status status = weir_verify_parse(verify, &options.verify, &error);
    py_store *shared = py_shared_new(sizeof *shared, destroy_store);
    const char *name = PyBytes_AsString(path);
    if (shared && status == WEIR_OK)
        PY_UNLOCKED(status = weir_store_open_with(NULL, name, &options, &shared->store, &error));
    Py_DECREF(path);
    return py_opened((PyObject *)type, shared, status, &error);
}

static const weir_store *store_of(PyObject *self) {
    return ((py_store *)((py_object *)self)->shared)->store;
}

static PyObject *get_name(PyObject *self, void *Py_UNUSED(closure)) {
    return py_text(weir_store_describe(store_of(self))->name);
}

static PyObject *get_hash(PyObject *self, void *Py_UNUSED(closure)) {
    return py_hex(weir_store_describe(store_of(self))->store_hash, WEIR_HASH_SIZE);
}

static PyObject *info_json(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    weir_json_writer w;
    weir_json_writer_memory(&w, NULL);
    weir_store_info_json(store_of(self), &w);
    return py_json(&w);
}

static PyObject *verify(PyObject *self, PyObject *number) {
    uint32_t threads = 0;
    if (!py_to_uint32(number, &threads))
        return NULL;
    weir_error error;
    weir_status status = WEIR_OK;
    PY_UNLOCKED(status = weir_store_verify(store_of(self), threads, &error));
    return py_done(status, &error);
}

/* ---- Arrays of the file ------------------------------------------------------------------------ */

/* Verifies what an array will show, as the store's `verify` says; raises where it is damaged. */
static bool is_whole(PyObject *self, const uint8_t *data, size_t size) {
    weir_error error;
    bool is_touched = true;
    if (!data)
        return true;
    PY_UNLOCKED(is_touched = weir_store_touch(store_of(self), data, size));
    if (weir_store_status(store_of(self), &error) == WEIR_OK && is_touched)
        return true;
    py_raise(&error);
    return false;
}

static PyObject *embeddings(PyObject *self, PyObject *args) {
    const char *kind = NULL;
    if (!PyArg_ParseTuple(args, "s:_embeddings", &kind))
        return NULL;
    const weir_store_info *info = weir_store_describe(store_of(self));
    const struct {
        const char *kind;
        const uint8_t *data;
        uint32_t count;
    } all[] = {{"columns", info->column_embeddings, info->column_count},
               {"categories", info->category_embeddings, info->category_count},
               {"texts", info->text_embeddings, info->text_count}};
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(all[i].kind, kind) != 0)
            continue;
        uint64_t shape[] = {all[i].count, info->embedding_dim};
        if (!is_whole(self, all[i].data, 2 * (size_t)info->embedding_dim * all[i].count))
            return NULL;
        return py_array_new(&(py_array_spec){.owner = ((py_object *)self)->shared,
                                             .data = all[i].data ? all[i].data : (const uint8_t *)"",
                                             .dtype = "float16",
                                             .rank = 2,
                                             .shape = shape});
    }
    PyErr_Format(PyExc_KeyError, "%s", kind);
    return NULL;
}

/* Bit `bit` of each row's record, as bytes of 0 and 1: a copy. */
static PyObject *bits_of(const weir_table *table, uint32_t bit) {
    py_block *block = py_block_new(table->row_count);
    const uint8_t *at = table->records + table->bits_offset + bit / 8;
    for (uint32_t row = 0; block && row < table->row_count; row++)
        block->data[row] = at[(size_t)row * table->stride] >> bit % 8 & 1;
    return py_array_of_block(block, "bool", table->row_count, 0);
}

static PyObject *values_of(PyObject *self, const weir_table *table, const weir_column *column) {
#define DTYPE(id, size, dtype, ...) #dtype,
    static const char *const dtypes[] = {WEIR_VALUES(DTYPE)};
    weir_value value = weir_value_of(column->stype);
    if (value == WEIR_VALUE_TRUTH)
        return bits_of(table, column->bool_bit);
    if (column->slot == WEIR_NONE) {
        PyErr_Format(PyExc_KeyError, "%s is an %s column: it has no values", column->name,
                     weir_stype_name(column->stype));
        return NULL;
    }
    uint64_t count = table->row_count;
    int64_t stride = table->stride;
    return py_array_new(&(py_array_spec){.owner = ((py_object *)self)->shared,
                                         .data = table->records + column->slot,
                                         .dtype = dtypes[value],
                                         .rank = 1,
                                         .shape = &count,
                                         .strides = &stride});
}

/* _column(column index, whether its nulls are wanted) */
static PyObject *column(PyObject *self, PyObject *args) {
    uint32_t index = 0;
    int wants_nulls = 0;
    if (!PyArg_ParseTuple(args, "O&p:_column", py_to_uint32, &index, &wants_nulls))
        return NULL;
    const weir_store_info *info = weir_store_describe(store_of(self));
    if (index >= info->table_column_count) {
        PyErr_Format(PyExc_IndexError, "the store has no column %u in a table", index);
        return NULL;
    }
    const weir_column *found = &info->columns[index];
    const weir_table *table = &info->tables[found->table];
    if (!is_whole(self, table->records, (size_t)table->row_count * table->stride))
        return NULL;
    return wants_nulls ? bits_of(table, found->null_bit) : values_of(self, table, found);
}

/* ---- Keys -------------------------------------------------------------------------------------- */

/* A value of a row's key. */
static PyObject *key_part(const weir_store *store, uint64_t row, uint32_t number) {
    weir_key_value value;
    (void)weir_store_key(store, row, number, &value);
    switch (value.type) {
    case WEIR_KEY_INTEGER:
        return PyLong_FromLongLong(value.integer);
    case WEIR_KEY_REAL:
        return PyFloat_FromDouble(value.real);
    case WEIR_KEY_TEXT:
        return PyUnicode_DecodeUTF8(value.bytes.data, (Py_ssize_t)value.bytes.size, "replace");
    case WEIR_KEY_BYTES:
        return PyBytes_FromStringAndSize(value.bytes.data, (Py_ssize_t)value.bytes.size);
    default:
        PyErr_SetString(PyExc_KeyError, "the row has no key in the store");
        return NULL;
    }
}

/* _key(row): the value, or a tuple of those of several columns. */
static PyObject *key(PyObject *self, PyObject *number) {
    uint64_t row = 0;
    if (!py_to_uint64(number, &row))
        return NULL;
    const weir_store *store = store_of(self);
    uint32_t table = weir_store_table_of(store, row);
    uint32_t count = table == WEIR_NONE ? 1 : weir_store_describe(store)->tables[table].primary_key_count;
    if (count < 2)
        return key_part(store, row, 0);
    PyObject *parts = PyTuple_New((Py_ssize_t)count);
    for (uint32_t i = 0; parts && i < count; i++)
        py_put(&parts, i, key_part(store, row, i));
    return parts;
}

/* _seed(task, number): its observation time and its target: None, the normalised number of a numerical one,
 * else the integer of weir_cell. KeyError if there is no such seed. */
static PyObject *seed(PyObject *self, PyObject *args) {
    uint32_t task = 0;
    uint64_t number = 0;
    weir_seed_row found;
    if (!PyArg_ParseTuple(args, "O&O&:_seed", py_to_uint32, &task, py_to_uint64, &number))
        return NULL;
    const weir_store *store = store_of(self);
    if (task >= weir_store_describe(store)->task_count || !weir_store_seed(store, task, number, &found)) {
        PyErr_Format(PyExc_KeyError, "task %u has no seed %llu", task, (ull)number);
        return NULL;
    }
    if (found.target.is_null)
        return Py_BuildValue("LO", (long long)found.observation_time, Py_None);
    if (weir_value_of(found.target.stype) == WEIR_VALUE_NUMBER)
        return Py_BuildValue("Ld", (long long)found.observation_time, (double)found.target.number);
    return Py_BuildValue("LL", (long long)found.observation_time, (long long)found.target.integer);
}

bool py_key_value(PyObject *object, weir_key_value *out) {
    Py_ssize_t size = 0;
    *out = (weir_key_value){.type = WEIR_KEY_NONE};
    if (PyUnicode_Check(object)) {
        out->type = WEIR_KEY_TEXT;
        out->bytes.data = PyUnicode_AsUTF8AndSize(object, &size);
        out->bytes.size = (size_t)size;
        return out->bytes.data != NULL;
    }
    if (PyBytes_Check(object)) {
        out->type = WEIR_KEY_BYTES;
        out->bytes = (weir_text){PyBytes_AsString(object), (size_t)PyBytes_Size(object)};
        return true;
    }
    if (PyFloat_Check(object)) {
        out->type = WEIR_KEY_REAL;
        out->real = PyFloat_AsDouble(object);
        return true;
    }
    int overflow = 0;
    PyObject *whole = PyNumber_Index(object);
    if (!whole)
        return false;
    out->integer = PyLong_AsLongLongAndOverflow(whole, &overflow);
    out->type = overflow ? WEIR_KEY_NONE : WEIR_KEY_INTEGER;
    Py_DECREF(whole);
    return !PyErr_Occurred();
}

/* _find_row(table number, tuple of values): the row, or None. */
static PyObject *find_row(PyObject *self, PyObject *args) {
    enum { PARTS_MAX = 64 };
    weir_key_value values[PARTS_MAX];
    uint32_t table = 0;
    PyObject *parts = NULL;
    if (!PyArg_ParseTuple(args, "O&O!:_find_row", py_to_uint32, &table, &PyTuple_Type, &parts))
        return NULL;
    Py_ssize_t count = PyTuple_Size(parts);
    for (Py_ssize_t i = 0; i < count && i < PARTS_MAX; i++)
        if (!py_key_value(PyTuple_GetItem(parts, i), &values[i]))
            return NULL;
    uint64_t row =
        count > PARTS_MAX ? WEIR_NO_ROW : weir_store_find_row(store_of(self), table, values, (uint32_t)count);
    if (row == WEIR_NO_ROW)
        Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong(row);
}

/* ---- Texts and datasets ------------------------------------------------------------------------ */

static PyObject *text_of(const weir_store *store, weir_text text) {
    weir_error error;
    if (text.size == 0 && weir_store_status(store, &error) != WEIR_OK)
        return py_raise(&error);
    return PyUnicode_DecodeUTF8(text.data, (Py_ssize_t)text.size, "replace");
}

static PyObject *text(PyObject *self, PyObject *number) {
    const weir_store *store = store_of(self);
    uint32_t index = 0;
    return py_to_uint32(number, &index) ? text_of(store, weir_store_text(store, index)) : NULL;
}

static PyObject *category(PyObject *self, PyObject *number) {
    const weir_store *store = store_of(self);
    uint32_t index = 0;
    return py_to_uint32(number, &index) ? text_of(store, weir_store_category(store, index)) : NULL;
}

static bool add_dataset(PyObject *all, const weir_store *store, const weir_task *task, weir_split split) {
    const char *name = weir_store_describe(store)->name;
    PyObject *key = PyUnicode_FromFormat("%s/%s/%s", name, task->name, weir_split_name(split));
    const char *text = key ? PyUnicode_AsUTF8AndSize(key, NULL) : NULL;
    weir_stored_dataset found;
    weir_error error;
    bool is_added = false;
    if (text && weir_store_dataset(store, text, &found, &error) != WEIR_OK)
        py_raise(&error);
    else if (text)
        is_added = py_set(all, text,
                          Py_BuildValue("{sssssKsN}", "task", task->name, "split", weir_split_name(split),
                                        "cardinality", (ull)found.cardinality, "hash",
                                        py_hex(found.hash, WEIR_HASH_SIZE)));
    Py_XDECREF(key);
    return is_added;
}

static PyObject *get_datasets(PyObject *self, void *Py_UNUSED(closure)) {
    const weir_store_info *info = weir_store_describe(store_of(self));
    PyObject *all = PyDict_New();
    for (uint32_t i = 0; all && i < info->task_count; i++)
        for (weir_split split = WEIR_TRAIN; all && split < WEIR_SPLITS; split++)
            if (!add_dataset(all, store_of(self), &info->tasks[i], split))
                Py_CLEAR(all);
    return all;
}

static PyMethodDef methods[] = {
    {"_info", info_json, METH_NOARGS, "What `weir info --json` prints."},
    {"_verify", verify, METH_O, "Checks every byte with so many threads."},
    {"_embeddings", embeddings, METH_VARARGS, "The embeddings of columns, categories or texts."},
    {"_column", column, METH_VARARGS, "The values, or the nulls, of the column with this index."},
    {"_key", key, METH_O, "The primary key of a row; KeyError if the store has none."},
    {"_find_row", find_row, METH_VARARGS, "The row of a key in the table with this number, or None."},
    {"_seed", seed, METH_VARARGS, "The observation time and the target of a task's seed."},
    {"text", text, METH_O, "The text with this number; empty if there is none."},
    {"category", category, METH_O, "The value of the category with this number; empty if there is none."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef attributes[] = {
    {"name", get_name, NULL, "The store's name: the first part of its dataset keys.", NULL},
    {"hash", get_hash, NULL, "The store's identity, in hex.", NULL},
    {"datasets", get_datasets, NULL, "By key: task, split, cardinality and hash.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

bool py_add_store(PyObject *module) {
    return py_add_shell(module, &py_the.store, "weir._weir.Store", "An open store; see weir.Store.", methods,
                        attributes, store_new);
}
