/* weir.Loader's engine: a run (weir/run.h), and the batches that it lends.
 *
 * A batch that was taken is a lease: it keeps the run, and gives its slot back when the last array of it is
 * gone. The run is closed with the last lease, so no slot is ever freed under an array.
 *
 * Taking a batch that is not ready lets go of the GIL, and lets Python handle signals (wait.c); if a handler
 * raises (Ctrl-C), the run is cancelled, and weir.Loader opens it again from its state. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dlpack.h"
#include "module.h"

typedef struct py_run {
    py_shared shared;
    py_sources *sources;
    weir_env env;
    weir_run *run;
    py_place place;       /* of batches on a GPU, if it is one's … */
    py_place table_place; /* … and of what is there from the start */
    pid_t owner;
    weir_taken taken; /* the last batch; owed if it could not be handed over for lack of memory … */
    bool is_owed;     /* … and given by the next call: no step is passed over */
} py_run;

/* Streams that a batch of a device was handed to: none, one (the slot is given back after its work), or more
 * or an unknown one (then all work of the device is waited for). */
enum { NO_STREAM, ONE_STREAM, MANY_STREAMS };

typedef struct lease {
    py_batch base;
    py_run *run;
    weir_taken taken;
    int streams;
    weir_stream stream;
    bool is_owed; /* nobody has it: it stays taken */
} lease;

static py_run *run_of(PyObject *self) {
    return (py_run *)((py_object *)self)->shared;
}

static void destroy_run(py_shared *self) {
    py_run *run = (py_run *)self;
    weir_run_close(run->run);
    py_drop(run->sources);
    free(run);
}

/* ---- On a device ------------------------------------------------------------------------------- */

static weir_status await_batch(py_shared *owner, weir_stream stream, weir_error *error) {
    lease *lent = (lease *)owner;
    if (stream == (weir_stream)-1) {
        lent->streams = MANY_STREAMS;
        return WEIR_OK;
    }
    lent->streams = lent->streams == NO_STREAM || (lent->streams == ONE_STREAM && lent->stream == stream)
                        ? ONE_STREAM
                        : MANY_STREAMS;
    lent->stream = stream;
    return weir_run_wait(lent->run->run, &lent->taken, stream, error);
}

/* A device that fails here has failed before, and says so to whoever takes the next batch. */
static void destroy_lease(py_shared *self) {
    lease *lent = (lease *)self;
    weir_device *device = weir_run_describe(lent->run->run)->device;
    weir_status status = WEIR_OK;
    if (device && lent->streams == MANY_STREAMS) {
        weir_memory memory = weir_device_memory(device);
        status = memory.settle(memory.context, NULL);
    }
    if (status == WEIR_OK && !lent->is_owed)
        status = weir_run_release(lent->run->run, &lent->taken, lent->stream, NULL);
    (void)status;
    py_drop(lent->run);
    free(lent);
}

/* ---- Opening ----------------------------------------------------------------------------------- */

enum { SETTINGS_MAX = 64 };

/* Borrowed; NULL with an exception. */
static const char *text_of(PyObject *value) {
    Py_ssize_t size = 0;
    const char *text = PyUnicode_AsUTF8AndSize(value, &size);
    if (!text || strlen(text) == (size_t)size)
        return text;
    PyErr_SetString(PyExc_ValueError, "embedded null character");
    return NULL;
}

/* Sets an option by what the run's table says of it; `path` keeps the name of a file. None leaves it. */
static bool set_option(weir_run_options *o, const weir_run_setting *setting, PyObject *value,
                       PyObject **path) {
    void *at = (uint8_t *)o + setting->offset;
    const char *word;
    weir_error error;
    if (value == Py_None)
        return true;
    switch (setting->value) {
    case WEIR_RUN_VALUE_BOOL:
        return (*(bool *)at = PyObject_IsTrue(value) == 1) || !PyErr_Occurred();
    case WEIR_RUN_VALUE_UINT32:
        return py_to_uint32(value, at);
    case WEIR_RUN_VALUE_UINT64:
    case WEIR_RUN_VALUE_SIZE:
        return py_to_uint64(value, at);
    case WEIR_RUN_VALUE_TEXT:
        return (*(const char **)at = text_of(value)) != NULL;
    case WEIR_RUN_VALUE_FILE:
        return PyUnicode_FSConverter(value, path) && (*(const char **)at = PyBytes_AsString(*path)) != NULL;
    default:
        word = text_of(value);
        if (word && weir_run_set_word(o, setting, word, &error) != WEIR_OK)
            py_raise(&error);
        return !PyErr_Occurred();
    }
}

/* Sets all that a dict has; `paths` keeps the names of files, at the places of their settings. */
static bool set_options(weir_run_options *o, PyObject *given, PyObject *paths[SETTINGS_MAX]) {
    size_t count;
    Py_ssize_t found = 0;
    const weir_run_setting *settings = weir_run_settings(&count);
    for (size_t i = 0; i < count; i++) {
        PyObject *name = PyUnicode_FromString(settings[i].name);
        PyObject *value = name ? PyDict_GetItemWithError(given, name) : NULL; /* borrowed */
        Py_XDECREF(name);
        found += value != NULL;
        if (value ? !set_option(o, &settings[i], value, &paths[i]) : PyErr_Occurred() != NULL)
            return false;
    }
    if (found == PyDict_Size(given))
        return true;
    PyErr_Format(PyExc_TypeError, "a run has not all of the options %R", given);
    return false;
}

/* _open(stores, manifest, token, {option: value}, state) */
static PyObject *run_open(PyObject *class, PyObject *args) {
    PyObject *stores = NULL, *manifest = NULL, *given = NULL, *paths[SETTINGS_MAX] = {NULL};
    py_bytes token, state;
    weir_run_options o = {.size = sizeof o};
    weir_error error;
    weir_status status = WEIR_OK;
    if (!PyArg_ParseTuple(args, "O!O!O&O!O&", &PyTuple_Type, &stores, py_the.manifest, &manifest, py_to_bytes,
                          &token, &PyDict_Type, &given, py_to_bytes, &state))
        return NULL;
    py_run *run = set_options(&o, given, paths) ? py_shared_new(sizeof *run, destroy_run) : NULL;
    if (run && (run->sources = py_sources_new(stores, manifest))) {
        o.stores = run->sources->opened;
        o.store_count = run->sources->count;
        o.manifest = run->sources->manifest->manifest;
        o.token = token.data;
        o.token_size = token.size;
        o.state = state.data;
        o.state_size = state.size;
        run->env = py_env();
        PY_UNLOCKED(status = weir_run_open(&run->env, &o, &run->run, &error));
    } else {
        py_drop(run);
        run = NULL;
    }
    for (size_t i = 0; i < SETTINGS_MAX; i++)
        Py_XDECREF(paths[i]);
    return py_opened(class, run, status, &error);
}

static PyObject *run_start(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    py_run *run = run_of(self);
    weir_error error;
    weir_status status;
    run->owner = getpid();
    PY_UNLOCKED(status = weir_run_start(run->run, &error));
    if (status != WEIR_OK)
        return py_raise(&error);
    const weir_device *device = weir_run_describe(run->run)->device;
    if (device && !weir_device_describe(device)->is_host) {
        int32_t id = (int32_t)weir_device_describe(device)->ordinal;
        run->place = (py_place){.type = DL_CUDA, .id = id, .await = await_batch};
        run->table_place = (py_place){.type = DL_CUDA, .id = id};
    }
    Py_RETURN_NONE;
}

/* ---- Taking ------------------------------------------------------------------------------------ */

static void say(weir_error *error, const char *text) {
    snprintf(error->message, sizeof error->message, "%s", text);
}

/* A loop's variable holds its batch while the next one is asked for, so one is never enough for a loop. */
static void say_held(weir_error *error, ull held, const char *where, const char *limit, const char *way_out) {
    if (held == 1)
        snprintf(error->message, sizeof error->message,
                 "a batch is still held%s, and %s allows one (a loop holds its last batch while it asks for "
                 "the next); let go of it and of what was made of its arrays, or pass %s",
                 where, limit, way_out);
    else
        snprintf(error->message, sizeof error->message,
                 "%llu batches are still held%s, as many as %s allows; let go of them and of what was made "
                 "of their arrays, or pass %s",
                 held, where, limit, way_out);
}

/* What the C layer says of items and prefetchers, said of batches and loaders. */
static PyObject *raise_for(const py_run *run, weir_error *error) {
    bool is_contract = error->status == WEIR_CONTRACT_VIOLATION;
    const weir_diagnostic *first = is_contract && error->diagnostic_count > 0 ? &error->diagnostics[0] : NULL;
    if (is_contract && run->owner != getpid())
        say(error,
            "this loader was opened before a fork, and its workers live in the parent; make a Loader in "
            "the child");
    else if (first && strcmp(first->name, "held") == 0)
        say_held(error, (ull)first->number, "", "queue_size", "copy=True or a larger queue_size");
    else if (first && strcmp(first->name, "depth") == 0)
        say_held(error, (ull)first->number, " on the device", "depth", "a larger depth");
    else if (error->status == WEIR_CANCELLED)
        say(error, "the loader was closed, or has failed before; make a new one");
    return py_raise(error);
}

static void cancel_run(void *run) {
    weir_run_cancel(run);
}

/* The batch that was taken, or a copy of it. What fails for lack of memory leaves it owed. */
static PyObject *lend(py_run *run, PyObject *class, bool is_copied) {
    PyObject *batch = NULL;
    lease *lent = py_shared_new(sizeof *lent, destroy_lease);
    if (lent) {
        lent->base.batch = run->taken.batch;
        lent->base.dataset = run->taken.dataset;
        lent->base.store = run->taken.store;
        lent->base.sources = &run->sources->shared;
        lent->base.step = run->taken.step;
        lent->base.place = run->place.type == DL_CUDA ? &run->place : NULL;
        lent->run = py_keep(run);
        lent->taken = run->taken;
        lent->is_owed = true; /* until somebody has it */
        batch = py_object_new(class, is_copied ? (void *)py_batch_copy(&lent->base) : py_keep(lent));
        lent->is_owed = !batch;
        py_drop(lent);
    }
    run->is_owed = !batch;
    return batch;
}

/* _next(class of the batch, whether to copy): None at the end. One thread at a time. */
static PyObject *run_next(PyObject *self, PyObject *args) {
    PyObject *class = NULL;
    int is_copied = 0;
    if (!PyArg_ParseTuple(args, "O!p:_next", &PyType_Type, &class, &is_copied))
        return NULL;
    if (PyObject_IsSubclass(class, (PyObject *)py_the.batch) != 1) {
        PyErr_SetString(PyExc_TypeError, "a run gives batches");
        return NULL;
    }
    py_run *run = run_of(self);
    weir_error error;
    weir_status status = WEIR_OK;
    bool is_ready = run->is_owed;
    if (!is_ready)
        status = weir_run_try_next(run->run, &run->taken, &is_ready, &error);
    if (status == WEIR_OK && !is_ready) {
        py_wait_begin(cancel_run, run->run);
        PY_UNLOCKED(status = weir_run_next(run->run, &run->taken, &error));
        py_wait_end();
    }
    if (PyErr_Occurred()) /* a signal handler's: the run was cancelled, and gave nothing */
        return NULL;
    if (status != WEIR_OK)
        return raise_for(run, &error);
    if (!run->taken.batch)
        Py_RETURN_NONE;
    return lend(run, class, is_copied);
}

/* Closing waits for the workers, who may be in the middle of a batch; Python need not. */
static void run_dealloc(PyObject *self) {
    py_run *run = run_of(self);
    ((py_object *)self)->shared = NULL;
    weir_run_cancel(run->run);
    PY_UNLOCKED(py_drop(run));
    py_object_dealloc(self);
}

/* ---- Saving and ending ------------------------------------------------------------------------- */

/* What is saved begins behind the batch that is owed, and would pass over it. */
static bool is_owed(PyObject *self) {
    if (run_of(self)->is_owed)
        PyErr_SetString(PyExc_MemoryError,
                        "a batch was made, and there was no memory to hand it over: take it first");
    return run_of(self)->is_owed;
}

static PyObject *run_save(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    weir_error error;
    if (is_owed(self))
        return NULL;
    if (weir_run_save(run_of(self)->run, &error) != WEIR_OK)
        return raise_for(run_of(self), &error);
    Py_RETURN_NONE;
}

static PyObject *run_cancel(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    weir_run_cancel(run_of(self)->run);
    Py_RETURN_NONE;
}

static PyObject *run_stop(PyObject *self, PyObject *nothing) {
    weir_error error;
    if (run_of(self)->is_owed)
        return run_cancel(self, nothing);
    return py_done(weir_run_stop(run_of(self)->run, &error), &error);
}

static PyObject *run_state(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    const void *data;
    size_t size;
    weir_error error;
    if (is_owed(self))
        return NULL;
    if (weir_run_state(run_of(self)->run, &data, &size, &error) != WEIR_OK)
        return py_raise(&error);
    return PyBytes_FromStringAndSize(data, (Py_ssize_t)size);
}

/* ---- About the run ----------------------------------------------------------------------------- */

static PyObject *run_plan(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    return py_plan_bytes(weir_run_describe(run_of(self)->run)->memory);
}

static PyObject *run_metrics(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    const weir_run *run = run_of(self)->run;
    weir_run_metrics metrics;
    weir_worker_metrics *workers = calloc(weir_run_describe(run)->workers, sizeof *workers);
    if (!workers)
        return PyErr_NoMemory();
    weir_run_measure(run, &metrics, workers);
    PyObject *dict = py_metrics(&metrics.prefetch, workers);
    free(workers);
    PyObject *stages = PyDict_New();
    bool is_complete = dict && stages;
    for (int i = 0; i < WEIR_RUN_STAGES && is_complete; i++) {
        const weir_stage_metrics *stage = &metrics.stages[i];
        is_complete = py_set(stages, weir_run_stage_name((weir_run_stage)i),
                             Py_BuildValue("{s:K,s:d,s:d,s:d,s:I,s:I}", "batches", (ull)stage->batches,
                                           "busy_seconds", (double)stage->busy_ns / 1e9, "input_wait_seconds",
                                           (double)stage->input_wait_ns / 1e9, "room_wait_seconds",
                                           (double)stage->room_wait_ns / 1e9, "queued", stage->queued, "room",
                                           stage->room));
    }
    is_complete = is_complete && py_set(dict, "stages", Py_NewRef(stages)) &&
                  py_set(dict, "compact_bytes", PyLong_FromUnsignedLongLong(metrics.compact_bytes)) &&
                  py_set(dict, "unpinned_bytes", PyLong_FromUnsignedLongLong(metrics.unpinned_bytes));
    Py_XDECREF(stages);
    if (!is_complete)
        Py_CLEAR(dict);
    return dict;
}

static PyObject *table_of(py_run *run, const weir_tables *tables, const void *data, uint32_t count) {
    uint64_t shape[2] = {count, tables->embedding_dim};
    py_array_spec spec = {.owner = &run->shared,
                          .data = data,
                          .dtype = "float16",
                          .rank = 2,
                          .shape = shape,
                          .place = run->table_place.type == DL_CUDA ? &run->table_place : NULL};
    return py_array_new(&spec);
}

/* _tables(which of the stores): {"columns", "categories"}, where the batches are. */
static PyObject *run_tables(PyObject *self, PyObject *args) {
    py_run *run = run_of(self);
    weir_tables tables;
    weir_error error;
    Py_ssize_t index = 0;
    if (!PyArg_ParseTuple(args, "n:_tables", &index))
        return NULL;
    const weir_store *store = (size_t)index < run->sources->count ? run->sources->opened[index] : NULL;
    if (weir_run_tables(run->run, store, &tables, &error) != WEIR_OK)
        return py_raise(&error);
    PyObject *dict = PyDict_New();
    if (dict &&
        py_set(dict, "columns", table_of(run, &tables, tables.column_embeddings, tables.column_count)) &&
        py_set(dict, "categories", table_of(run, &tables, tables.category_embeddings, tables.category_count)))
        return dict;
    Py_XDECREF(dict);
    return NULL;
}

static PyObject *get_step(PyObject *self, void *Py_UNUSED(closure)) {
    return PyLong_FromUnsignedLongLong(weir_run_step(run_of(self)->run) - run_of(self)->is_owed);
}

static PyObject *get_end(PyObject *self, void *Py_UNUSED(closure)) {
    uint64_t end = weir_run_describe(run_of(self)->run)->end;
    return end == WEIR_ENDLESS ? Py_NewRef(Py_None) : PyLong_FromUnsignedLongLong(end);
}

static PyObject *get_is_owed(PyObject *self, void *Py_UNUSED(closure)) {
    return PyBool_FromLong(run_of(self)->is_owed);
}

static PyObject *get_is_started(PyObject *self, void *Py_UNUSED(closure)) {
    return PyBool_FromLong(run_of(self)->owner != 0);
}

static PyObject *checkpoint_step(PyObject *Py_UNUSED(class), PyObject *args) {
    py_bytes data;
    weir_checkpoint found;
    weir_error error;
    if (!PyArg_ParseTuple(args, "O&:_checkpoint_step", py_to_bytes, &data))
        return NULL;
    weir_status status = weir_checkpoint_read(data.data, data.size, &found, &error);
    return status == WEIR_OK ? PyLong_FromUnsignedLongLong(found.step) : py_raise(&error);
}

static PyMethodDef methods[] = {
    {"_open", run_open, METH_VARARGS | METH_CLASS, "Opens a run: checks all, plans memory, starts nothing."},
    {"_checkpoint_step", checkpoint_step, METH_VARARGS | METH_STATIC, "The step of a state."},
    {"_start", run_start, METH_NOARGS, "Starts the workers."},
    {"_next", run_next, METH_VARARGS, "The next batch, or None at the end."},
    {"_save", run_save, METH_NOARGS, "Makes what was recorded survive a crash."},
    {"_stop", run_stop, METH_NOARGS, "Ends the run and its trace."},
    {"_cancel", run_cancel, METH_NOARGS, "Ends the run; whoever waits for a batch gets Cancelled."},
    {"_state", run_state, METH_NOARGS, "The state after the last batch that was taken."},
    {"_plan", run_plan, METH_NOARGS, "The plan of its memory, as bytes."},
    {"_metrics", run_metrics, METH_NOARGS, "Counts and waits, in all and by worker."},
    {"_tables", run_tables, METH_VARARGS, "A store's embeddings, where the batches are."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef attributes[] = {
    {"step", get_step, NULL, "The step after the last batch.", NULL},
    {"end", get_end, NULL, "The run's end; None if it has none.", NULL},
    {"is_started", get_is_started, NULL, "Whether its workers were started.", NULL},
    {"is_owed", get_is_owed, NULL, "Whether a batch was made and could not be handed over.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {{Py_tp_doc, "A run; see weir.Loader."},
                              {Py_tp_dealloc, run_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, attributes},
                              {0, NULL}};

static PyType_Spec spec = {"weir._weir.Run", sizeof(py_object), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

bool py_add_run(PyObject *module) {
    static const struct {
        const char *name;
        long value;
    } defaults[] = {{"RUN_WORKERS", WEIR_RUN_WORKERS},
                    {"RUN_BUFFER", WEIR_RUN_BUFFER},
                    {"RUN_QUEUE", WEIR_RUN_QUEUE},
                    {"RUN_DEPTH", WEIR_RUN_DEPTH},
                    {"PREFETCH_WORKERS", WEIR_PREFETCH_WORKERS},
                    {"PREFETCH_BUFFER", WEIR_PREFETCH_BUFFER},
                    {"PREFETCH_LEAD", WEIR_PREFETCH_LEAD},
                    {"PREFETCH_SKIPS", WEIR_PREFETCH_SKIPS}};
    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++)
        if (PyModule_AddIntConstant(module, defaults[i].name, defaults[i].value) != 0)
            return false;
    return py_add_type(module, NULL, &spec);
}
