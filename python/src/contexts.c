/* weir.Contexts: batches of requests to one task. Builders and buffers are kept for the next call: a builder
 * is borrowed while a batch is made, by one thread each; a buffer belongs to its batch and comes back when
 * nothing of the batch is used any more. Both are made for a number of requests, a power of two. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "module.h"

enum { SIZES = 21, BUFFERS_KEPT = 16 };

typedef struct pool {
    void **items;
    size_t count, capacity;
} pool;

typedef struct py_contexts {
    py_shared shared;
    py_sources *sources;
    char *task;
    uint8_t *token;
    size_t token_size;
    bool with_digests;
    uint32_t threads;
    pthread_mutex_t lock; /* of the pools */
    pool builders[SIZES], buffers[SIZES];
} py_contexts;

/* A batch of requests. */
typedef struct answered {
    py_batch base;
    py_contexts *contexts;
    weir_batch_buffer *buffer;
    int size; /* the buffer is for 2^size requests */
} answered;

/* ---- What is kept ------------------------------------------------------------------------------ */

static void *take(py_contexts *c, pool *from) {
    pthread_mutex_lock(&c->lock);
    void *item = from->count > 0 ? from->items[--from->count] : NULL;
    pthread_mutex_unlock(&c->lock);
    return item;
}

/* False if it is not kept. */
static bool put(py_contexts *c, pool *to, void *item, size_t most) {
    pthread_mutex_lock(&c->lock);
    if (to->count == to->capacity && to->count < most) {
        size_t capacity = 2 * to->capacity + 4;
        void **grown = realloc(to->items, capacity * sizeof *grown);
        if (grown) {
            to->items = grown;
            to->capacity = capacity;
        }
    }
    bool is_kept = to->count < to->capacity && to->count < most;
    if (is_kept)
        to->items[to->count++] = item;
    pthread_mutex_unlock(&c->lock);
    return is_kept;
}

static void destroy_contexts(py_shared *self) {
    py_contexts *c = (py_contexts *)self;
    for (int i = 0; i < SIZES; i++) {
        while (c->buffers[i].count > 0)
            weir_batch_buffer_close(c->buffers[i].items[--c->buffers[i].count]);
        while (c->builders[i].count > 0)
            weir_batch_builder_close(c->builders[i].items[--c->builders[i].count]);
        free(c->buffers[i].items);
        free(c->builders[i].items);
    }
    py_drop(c->sources);
    pthread_mutex_destroy(&c->lock);
    free(c->task);
    free(c->token);
    free(c);
}

static void destroy_answered(py_shared *self) {
    answered *batch = (answered *)self;
    py_contexts *c = batch->contexts;
    if (batch->buffer && !put(c, &c->buffers[batch->size], batch->buffer, BUFFERS_KEPT))
        weir_batch_buffer_close(batch->buffer);
    py_drop(c);
    free(batch);
}

/* ---- Answering --------------------------------------------------------------------------------- */

static weir_status open_builder(const py_contexts *c, int size, weir_batch_builder **out, weir_error *error) {
    weir_context_options options = {.size = sizeof options,
                                    .store = c->sources->stores[0]->store,
                                    .manifest = c->sources->manifest->manifest,
                                    .task = c->task,
                                    .most_requests = (uint32_t)1 << size,
                                    .token = c->token,
                                    .token_size = c->token_size,
                                    .with_digests = c->with_digests,
                                    .threads = c->threads};
    return weir_context_builder_open(NULL, &options, out, error);
}

/* Without the GIL. */
static weir_status answer(py_contexts *c, const weir_context_request *requests, uint32_t count, answered *out,
                          weir_error *error) {
    while ((uint32_t)1 << out->size < count)
        out->size++;
    weir_status status = WEIR_OK;
    weir_batch_builder *builder = take(c, &c->builders[out->size]);
    if (!builder)
        status = open_builder(c, out->size, &builder, error);
    out->buffer = status == WEIR_OK ? take(c, &c->buffers[out->size]) : NULL;
    if (status == WEIR_OK && !out->buffer)
        status = weir_batch_buffer_open(&builder, 1, NULL, &out->buffer, error);
    if (status == WEIR_OK)
        status = weir_context_build(builder, requests, count, out->buffer, error);
    if (status == WEIR_OK) {
        out->base.batch = weir_batch_view(out->buffer);
        out->base.store = c->sources->stores[0]->store;
        out->base.sources = &c->sources->shared;
        out->base.dataset = &c->sources->context;
    }
    if (builder && !put(c, &c->builders[out->size], builder, SIZE_MAX))
        weir_batch_builder_close(builder);
    return status;
}

/* ---- Requests ---------------------------------------------------------------------------------- */

typedef struct requests {
    weir_context_request *list;
    weir_key_value *values; /* of all keys */
    Py_ssize_t count;
} requests;

/* An integer of 64 bits, or a text as weir reads times. */
static bool read_time(PyObject *object, weir_context_request *out) {
    if (PyUnicode_Check(object)) {
        Py_ssize_t size = 0;
        const char *text = PyUnicode_AsUTF8AndSize(object, &size);
        out->has_time = text && weir_timestamp_parse(text, (size_t)size, &out->time);
        if (text && !out->has_time)
            PyErr_Format(
                PyExc_ValueError,
                "%R is not a time: write it as '2024-05-01', '2024-05-01T12:30:00Z' or in microseconds "
                "since 1970",
                object);
        return out->has_time;
    }
    int overflow = 0;
    long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow)
        PyErr_Format(PyExc_OverflowError, "%S microseconds is not a time that fits 64 bits", object);
    out->time = number;
    out->has_time = true;
    return !PyErr_Occurred();
}

/* A request: (key as a tuple, or row, time, seed, whether it is about a destination); time and seed may be
 * None. */
static bool read_request(PyObject *item, weir_context_request *out, weir_key_value *values) {
    PyObject *subject = NULL, *time = NULL, *seed = NULL;
    int is_destination = 0;
    if (!PyArg_ParseTuple(item, "OOOp:request", &subject, &time, &seed, &is_destination))
        return false;
    *out = (weir_context_request){.has_seed = seed != Py_None, .is_destination = is_destination != 0};
    if (PyTuple_Check(subject)) {
        out->key = values;
        out->key_count = (uint32_t)PyTuple_Size(subject);
        for (uint32_t i = 0; i < out->key_count; i++)
            if (!py_key_value(PyTuple_GetItem(subject, (Py_ssize_t)i), &values[i]))
                return false;
        if (out->key_count == 0)
            PyErr_SetString(PyExc_ValueError, "a key has at least one value");
    } else if (!py_to_uint32(subject, &out->row)) {
        return false;
    }
    if (out->has_seed && !py_to_uint64(seed, &out->seed))
        return false;
    return (time == Py_None || read_time(time, out)) && !PyErr_Occurred();
}

static bool read_requests(PyObject *list, requests *out) {
    size_t value_count = 0;
    out->count = PyList_Size(list);
    if (out->count < 1 || out->count > (Py_ssize_t)1 << (SIZES - 1)) {
        PyErr_Format(PyExc_ValueError, "%zd requests; there may be 1 to %d at once", out->count,
                     1 << (SIZES - 1));
        return false;
    }
    for (Py_ssize_t i = 0; i < out->count; i++) {
        PyObject *item = PyList_GetItem(list, i);
        PyObject *subject = PyTuple_Check(item) && PyTuple_Size(item) > 0 ? PyTuple_GetItem(item, 0) : NULL;
        value_count += subject && PyTuple_Check(subject) ? (size_t)PyTuple_Size(subject) : 0;
    }
    out->list = malloc((size_t)out->count * sizeof *out->list);
    out->values = malloc((value_count + 1) * sizeof *out->values);
    if (!out->list || !out->values) {
        PyErr_NoMemory();
        return false;
    }
    weir_key_value *values = out->values;
    for (Py_ssize_t i = 0; i < out->count; i++) {
        if (!read_request(PyList_GetItem(list, i), &out->list[i], values))
            return false;
        values += out->list[i].key_count;
    }
    return true;
}

/* _build(batch class, list of requests) */
static PyObject *contexts_build(PyObject *self, PyObject *args) {
    PyObject *class = NULL, *list = NULL, *result = NULL;
    requests r = {0};
    if (!PyArg_ParseTuple(args, "O!O!:_build", &PyType_Type, &class, &PyList_Type, &list))
        return NULL;
    py_contexts *c = (py_contexts *)((py_object *)self)->shared;
    answered *out = read_requests(list, &r) ? py_shared_new(sizeof *out, destroy_answered) : NULL;
    if (out) {
        weir_error error;
        weir_status status = WEIR_OK;
        out->contexts = py_keep(c);
        PY_UNLOCKED(status = answer(c, r.list, (uint32_t)r.count, out, &error));
        result = py_opened(class, out, status, &error);
    }
    free(r.list);
    free(r.values);
    return result;
}

/* ---- The type ---------------------------------------------------------------------------------- */

static bool fill(py_contexts *c, const char *task, const py_bytes *token) {
    py_sources *sources = c->sources;
    if (sources->count != 1) {
        PyErr_Format(PyExc_ValueError, "contexts are of one store, and %zu are given", sources->count);
        return false;
    }
    c->task = strdup(task);
    if (asprintf(&sources->context_key, "%s/%s/context", weir_store_describe(sources->opened[0])->name,
                 task) < 0)
        sources->context_key = NULL;
    c->token = token->data ? malloc(token->size + 1) : NULL;
    c->token_size = token->size;
    if (!c->task || !sources->context_key || (token->data && !c->token)) {
        PyErr_NoMemory();
        return false;
    }
    if (token->data)
        memcpy(c->token, token->data, token->size);
    sources->context = (weir_dataset){.key = sources->context_key, .id = sources->context_key, .version = ""};
    return true;
}

/* _open(stores, manifest, task, token, with_digests, threads): one builder is opened, so that what is wrong
 * is said here. */
static PyObject *contexts_open(PyObject *class, PyObject *args) {
    PyObject *stores = NULL, *manifest = NULL;
    const char *task = NULL;
    int with_digests = 0;
    uint32_t threads = 0;
    py_bytes token;
    if (!PyArg_ParseTuple(args, "O!O!sO&pO&:_open", &PyTuple_Type, &stores, py_the.manifest, &manifest, &task,
                          py_to_bytes, &token, &with_digests, py_to_uint32, &threads))
        return NULL;
    py_contexts *c = py_shared_new(sizeof *c, destroy_contexts);
    weir_error error;
    weir_status status = WEIR_OK;
    bool is_complete = c != NULL;
    if (c) {
        pthread_mutex_init(&c->lock, NULL);
        c->with_digests = with_digests;
        c->threads = threads;
        c->sources = py_sources_new(stores, manifest);
        is_complete = c->sources && fill(c, task, &token);
    }
    if (is_complete) {
        weir_batch_builder *builder = NULL;
        PY_UNLOCKED(status = open_builder(c, 0, &builder, &error));
        if (builder && !put(c, &c->builders[0], builder, SIZE_MAX))
            weir_batch_builder_close(builder);
    }
    if (is_complete)
        return py_opened(class, c, status, &error);
    py_drop(c);
    return NULL;
}

static PyMethodDef methods[] = {
    {"_open", contexts_open, METH_VARARGS | METH_CLASS, "Contexts of a task of a store, under a manifest."},
    {"_build", contexts_build, METH_VARARGS, "A batch of requests: (key or row, time, seed) each."},
    {NULL, NULL, 0, NULL}};

bool py_add_contexts(PyObject *module) {
    return py_add_shell(module, NULL, "weir._weir.Contexts",
                        "Batches of requests to a task; see weir.Contexts.", methods, NULL, NULL);
}
