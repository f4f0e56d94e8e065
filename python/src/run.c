/* weir.Loader's engine: a run of the C loader, and the batches that it lends.
 *
 * A batch that was taken is a lease: it keeps the run, and gives its slot back when the last array of it is
 * gone. The run is closed with the last lease, so no slot is ever freed under an array.
 *
 * Taking a batch that is not ready lets go of the GIL, and lets Python handle signals (wait.c); if a handler
 * raises (Ctrl-C), the run is cancelled, and weir.Loader opens it again from its checkpoint. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dlpack.h"
#include "module.h"

typedef unsigned long long ull; /* what "K" takes */

typedef struct py_run {
    py_shared shared;
    py_sources *sources;
    weir_env env;
    weir_loader *loader;   /* the staging's, where there is one */
    weir_device *device;   /* NULL: batches stay on the host */
    weir_staging *staging; /* NULL too */
    py_place place;        /* of batches on a GPU */
    pid_t owner;
    weir_trace_writer *trace; /* or NULL */
    bool traces_indices;
} py_run;

/* Streams that a batch of a device was handed to: none, one (which the slot is given back behind), or more or
 * an unknown one (then all work of the device is waited for). */
enum { NO_STREAM, ONE_STREAM, MANY_STREAMS };

typedef struct lease {
    py_batch base;
    py_run *run;
    weir_loaded loaded;
    weir_staged staged;
    int streams;
    weir_stream stream;
} lease;

static py_run *run_of(PyObject *self) {
    return (py_run *)((py_object *)self)->shared;
}

/* In a child of fork the trace is the parent's: what is buffered here is written there. */
static void close_trace(py_run *run) {
    if (run->owner == getpid())
        weir_trace_writer_close(run->trace);
    run->trace = NULL;
}

static void destroy_run(py_shared *self) {
    py_run *run = (py_run *)self;
    close_trace(run);
    if (run->device) {
        weir_staging_close(run->staging);
        weir_device_close(run->device);
    } else {
        weir_loader_close(run->loader);
    }
    if (run->sources)
        py_drop(&run->sources->shared);
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
    return weir_staging_wait(lent->run->staging, &lent->staged, stream, error);
}

/* A device that fails here has failed before, and says so to whoever takes the next batch. */
static void release_staged(lease *lent) {
    weir_memory memory = weir_device_memory(lent->run->device);
    weir_status status = lent->streams == MANY_STREAMS ? memory.settle(memory.context, NULL) : WEIR_OK;
    if (status == WEIR_OK)
        status = weir_staging_release(lent->run->staging, &lent->staged, lent->stream, NULL);
    (void)status;
}

static void destroy_lease(py_shared *self) {
    lease *lent = (lease *)self;
    if (lent->run->staging)
        release_staged(lent);
    else
        weir_loader_release(lent->run->loader, &lent->loaded);
    py_drop(&lent->run->shared);
    free(lent);
}

/* ---- Options ----------------------------------------------------------------------------------- */

typedef struct run_arguments {
    weir_loader_options options;
    weir_staging_options staging;
    const char *device; /* NULL: the host */
    py_sources *sources;
    py_bytes token, checkpoint;
} run_arguments;

static void free_arguments(run_arguments *a) {
    Py_XDECREF(a->token.holder);
    Py_XDECREF(a->checkpoint.holder);
    if (a->sources)
        py_drop(&a->sources->shared);
}

static bool parse_names(const char *stage, const char *policy, run_arguments *a) {
    weir_error error;
    if (weir_stage_parse(stage, &a->options.stage, &error) == WEIR_OK &&
        weir_policy_parse(policy, &a->options.policy, &error) == WEIR_OK)
        return true;
    py_raise(&error);
    return false;
}

/* "cuda", "cuda:1", "host", or the path of a driver, which then is its compiler too. */
static bool parse_device(const char *name, weir_device_options *out) {
    *out = (weir_device_options){.size = sizeof *out};
    if (strcmp(name, "host") == 0 || strchr(name, '/')) {
        out->library = name;
        out->compiler = strchr(name, '/') ? name : NULL;
        return true;
    }
    char *end = NULL;
    unsigned long ordinal = strncmp(name, "cuda:", 5) == 0 ? strtoul(name + 5, &end, 10) : 0;
    out->ordinal = (uint32_t)ordinal;
    if (strcmp(name, "cuda") == 0 || (end && end > name + 5 && *end == 0 && ordinal < UINT32_MAX))
        return true;
    PyErr_Format(PyExc_ValueError, "a device is 'cuda', 'cuda:N' or 'host', not '%s'", name);
    return false;
}

/* (stores, manifest, dataset, stage, rank, world_size, token, any_hash, pad, with_digests, steps, first_step,
 * workers, buffer_size, queue_size, policy, max_lead, max_skips_per_round, memory_limit, device, depth,
 * checkpoint).
 * free_arguments also where it fails. */
static bool parse_arguments(PyObject *args, run_arguments *a) {
    PyObject *stores = NULL, *manifest = NULL;
    const char *stage = NULL, *policy = NULL;
    int any_hash = 0, pad = 0, with_digests = 0;
    weir_loader_options *o = &a->options;
    *a = (run_arguments){.options = {.size = sizeof *o}, .staging = {.size = sizeof a->staging}};
    if (!PyArg_ParseTuple(
            args, "O!O!zsO&O&O&pppO&O&O&O&O&sO&O&O&zO&O&", &PyTuple_Type, &stores, py_the.manifest, &manifest,
            &o->dataset, &stage, py_to_uint32, &o->rank, py_to_uint32, &o->world_size, py_to_bytes, &a->token,
            &any_hash, &pad, &with_digests, py_to_uint64, &o->steps, py_to_uint64, &o->first_step,
            py_to_uint32, &o->workers, py_to_uint32, &o->buffer_size, py_to_uint32, &o->queue_size, &policy,
            py_to_uint32, &o->max_lead, py_to_uint32, &o->max_skips_per_round, py_to_uint64, &o->memory_limit,
            &a->device, py_to_uint32, &a->staging.depth, py_to_bytes, &a->checkpoint) ||
        !parse_names(stage, policy, a) || !(a->sources = py_sources_new(stores, manifest)))
        return false;
    o->stores = a->sources->opened;
    o->store_count = a->sources->count;
    o->manifest = a->sources->manifest->manifest;
    o->any_hash = any_hash;
    o->pad = pad;
    o->with_digests = with_digests;
    o->token = a->token.data;
    o->token_size = a->token.size;
    o->checkpoint = a->checkpoint.data;
    o->checkpoint_size = a->checkpoint.size;
    if (a->device)
        o->queue_size = a->staging.depth; /* as the staging does */
    return true;
}

/* ---- Opening ----------------------------------------------------------------------------------- */

/* Without the GIL. */
static weir_status open_staged(py_run *run, run_arguments *a, const weir_device_options *device,
                               weir_error *error) {
    weir_status status = weir_device_open(&run->env, device, &run->device, error);
    if (status != WEIR_OK)
        return status;
    const weir_device_info *info = weir_device_describe(run->device);
    run->place = (py_place){.type = DL_CUDA, .id = (int32_t)info->ordinal, .await = await_batch};
    a->staging.device = run->device;
    a->staging.loader = &a->options;
    a->staging.with_checkpoints = true;
    status = weir_staging_open(&run->env, &a->staging, &run->staging, error);
    if (status == WEIR_OK)
        run->loader = weir_staging_loader(run->staging);
    return status;
}

static PyObject *run_open(PyObject *class, PyObject *args) {
    run_arguments a;
    weir_error error;
    weir_status status = WEIR_OK;
    weir_device_options device = {0};
    py_run *run = NULL;
    if (parse_arguments(args, &a) && (!a.device || parse_device(a.device, &device)) &&
        (run = py_shared_new(sizeof *run, destroy_run))) {
        run->env = py_env();
        run->owner = getpid();
        run->sources = (py_sources *)py_keep(&a.sources->shared);
        Py_BEGIN_ALLOW_THREADS status = a.device
                                            ? open_staged(run, &a, &device, &error)
                                            : weir_loader_open(&run->env, &a.options, &run->loader, &error);
        Py_END_ALLOW_THREADS
    }
    free_arguments(&a);
    if (!run)
        return NULL;
    if (status == WEIR_OK)
        return py_object_new((PyTypeObject *)class, &run->shared);
    py_drop(&run->shared);
    return py_raise(&error);
}

/* The plan of a run's memory as bytes: also the check of all options, without starting anything. */
static PyObject *run_plan(PyObject *class, PyObject *args) {
    (void)class;
    run_arguments a;
    weir_error error;
    weir_plan *plan = NULL;
    weir_status status = WEIR_OK;
    weir_device_options device;
    bool is_parsed = parse_arguments(args, &a) && (!a.device || parse_device(a.device, &device));
    if (is_parsed) {
        a.staging.loader = &a.options;
        Py_BEGIN_ALLOW_THREADS status = a.device ? weir_staging_plan(NULL, &a.staging, &plan, &error)
                                                 : weir_loader_plan(NULL, &a.options, &plan, &error);
        Py_END_ALLOW_THREADS
    }
    free_arguments(&a);
    if (!is_parsed)
        return NULL;
    PyObject *bytes = status == WEIR_OK ? py_plan_bytes(plan) : py_raise(&error);
    weir_plan_close(plan);
    return bytes;
}

/* ---- Traces ------------------------------------------------------------------------------------ */

/* _trace(path, checkpoint or None, whether with indices, whether the file is there): records what is taken
 * from now on. A run that resumes from a checkpoint resumes its trace. */
static PyObject *run_trace(PyObject *self, PyObject *args) {
    py_run *run = run_of(self);
    PyObject *path = NULL;
    py_bytes checkpoint = {NULL, NULL, 0};
    int with_indices = 0, exists = 0;
    if (!PyArg_ParseTuple(args, "O&O&pp:_trace", PyUnicode_FSConverter, &path, py_to_bytes, &checkpoint,
                          &with_indices, &exists))
        return NULL;
    weir_trace_run description;
    weir_checkpoint from = {.step = weir_loader_step(run->loader)};
    weir_error error;
    weir_loader_describe(run->loader, &description);
    weir_status status =
        checkpoint.data ? weir_checkpoint_read(checkpoint.data, checkpoint.size, &from, &error) : WEIR_OK;
    weir_trace_start start = {from.step, checkpoint.data ? from.hash : NULL};
    if (status == WEIR_OK && checkpoint.data && exists)
        status = weir_trace_resume(NULL, PyBytes_AsString(path), &description, from.step, from.hash,
                                   &run->trace, &error);
    else if (status == WEIR_OK)
        status = weir_trace_create(NULL, PyBytes_AsString(path), &description, &start, &run->trace, &error);
    run->traces_indices = with_indices;
    Py_XDECREF(checkpoint.holder);
    Py_DECREF(path);
    if (status != WEIR_OK)
        return py_raise(&error);
    Py_RETURN_NONE;
}

static PyObject *run_sync(PyObject *self, PyObject *nothing) {
    (void)nothing;
    py_run *run = run_of(self);
    weir_error error;
    if (run->trace && run->owner == getpid() && weir_trace_sync(run->trace, &error) != WEIR_OK)
        return py_raise(&error);
    Py_RETURN_NONE;
}

/* Batches that are held keep the run, but its trace ends with the loader. */
static PyObject *run_end_trace(PyObject *self, PyObject *nothing) {
    PyObject *result = run_sync(self, nothing);
    close_trace(run_of(self));
    return result;
}

/* Records a batch that was taken, or the end. A trace that could not be finished stays: no state is given
 * out that it does not reach. */
static weir_status record(py_run *run, const weir_loaded *loaded, weir_error *error) {
    if (loaded->batch)
        return weir_loader_record(run->loader, loaded, run->traces_indices, run->trace, error);
    weir_status status = weir_trace_finish(run->trace, error);
    if (status == WEIR_OK)
        close_trace(run);
    return status;
}

/* Ends the trace of a run that failed. A batch that is still held, a fork and a cancelled run are no
 * failures: the run can continue. */
static void record_failure(py_run *run, const weir_error *error) {
    bool is_a_batch = error->replay_token_size > 0;
    if (!run->trace || run->owner != getpid() ||
        (!is_a_batch && (error->status == WEIR_CONTRACT_VIOLATION || error->status == WEIR_CANCELLED)))
        return;
    uint64_t step = run->staging ? weir_staging_step(run->staging) : weir_loader_step(run->loader);
    (void)!weir_loader_record_failure(run->loader, step, error, run->trace, NULL);
    close_trace(run);
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

static void cancel_loader(void *loader) {
    weir_loader_cancel(loader);
}

static weir_status take_staged(py_run *run, weir_loaded *loaded, weir_staged *staged, weir_error *error) {
    weir_status status;
    py_wait_begin(cancel_loader, run->loader);
    Py_BEGIN_ALLOW_THREADS status = weir_staging_next(run->staging, staged, error);
    Py_END_ALLOW_THREADS py_wait_end();
    if (status == WEIR_OK)
        *loaded = (weir_loaded){
            .step = staged->step, .dataset = staged->dataset, .store = staged->store, .batch = staged->batch};
    return status;
}

static weir_status take(py_run *run, weir_loaded *loaded, weir_staged *staged, weir_error *error) {
    bool is_ready = false;
    if (run->staging)
        return take_staged(run, loaded, staged, error);
    weir_status status = weir_loader_try_next(run->loader, loaded, &is_ready, error);
    if (status != WEIR_OK || is_ready)
        return status;
    py_wait_begin(cancel_loader, run->loader);
    Py_BEGIN_ALLOW_THREADS status = weir_loader_next(run->loader, loaded, error);
    Py_END_ALLOW_THREADS py_wait_end();
    return status;
}

/* What was taken and nobody has seen. */
static void give_back(py_run *run, const weir_loaded *loaded, const weir_staged *staged) {
    if (!run->staging)
        weir_loader_release(run->loader, loaded);
    else if (staged->batch && weir_staging_release(run->staging, staged, 0, NULL) != WEIR_OK)
        weir_staging_cancel(run->staging);
}

static PyObject *lend(py_run *run, const weir_loaded *loaded, const weir_staged *staged, PyTypeObject *type,
                      bool is_copied) {
    lease *lent = py_shared_new(sizeof *lent, destroy_lease);
    if (!lent) {
        give_back(run, loaded, staged);
        return NULL;
    }
    lent->base.batch = loaded->batch;
    lent->base.dataset = loaded->dataset;
    lent->base.store = loaded->store;
    lent->base.sources = &run->sources->shared;
    lent->base.step = loaded->step;
    lent->run = (py_run *)py_keep(&run->shared);
    lent->loaded = *loaded;
    if (run->staging) {
        lent->staged = *staged;
        lent->base.place = weir_device_describe(run->device)->is_host ? NULL : &run->place;
    }
    if (!is_copied)
        return py_object_new(type, &lent->base.shared);
    py_batch *copy = py_batch_copy(&lent->base);
    py_drop(&lent->base.shared);
    return copy ? py_object_new(type, &copy->shared) : NULL;
}

/* _next(type of the batch, whether to copy): None at the end. One thread at a time. */
static PyObject *run_next(PyObject *self, PyObject *args) {
    PyObject *type = NULL;
    int is_copied = 0;
    if (!PyArg_ParseTuple(args, "O!p:_next", &PyType_Type, &type, &is_copied))
        return NULL;
    if (PyObject_IsSubclass(type, (PyObject *)py_the.batch) != 1) {
        PyErr_SetString(PyExc_TypeError, "a run gives batches");
        return NULL;
    }
    weir_loaded loaded;
    weir_staged staged = {0};
    weir_error error;
    weir_status status = take(run_of(self), &loaded, &staged, &error);
    if (PyErr_Occurred()) /* a signal handler's: the run was cancelled, and gave nothing */
        return NULL;
    if (status != WEIR_OK) {
        record_failure(run_of(self), &error);
        return raise_for(run_of(self), &error);
    }
    if (run_of(self)->trace && record(run_of(self), &loaded, &error) != WEIR_OK) {
        give_back(run_of(self), &loaded, &staged);
        return py_raise(&error);
    }
    if (!loaded.batch)
        Py_RETURN_NONE;
    return lend(run_of(self), &loaded, &staged, (PyTypeObject *)type, is_copied);
}

/* Closing waits for the workers, who may be in the middle of a batch; Python need not. */
static void run_dealloc(PyObject *self) {
    py_run *run = run_of(self);
    ((py_object *)self)->shared = NULL;
    weir_loader_cancel(run->loader);
    Py_BEGIN_ALLOW_THREADS py_drop(&run->shared);
    Py_END_ALLOW_THREADS py_object_dealloc(self);
}

/* ---- About the run ----------------------------------------------------------------------------- */

static PyObject *run_cancel(PyObject *self, PyObject *nothing) {
    (void)nothing;
    weir_loader_cancel(run_of(self)->loader);
    Py_RETURN_NONE;
}

static PyObject *staged_checkpoint(const py_run *run) {
    const void *data;
    size_t size;
    weir_error error;
    if (weir_staging_checkpoint(run->staging, &data, &size, &error) != WEIR_OK)
        return py_raise(&error);
    return PyBytes_FromStringAndSize(data, (Py_ssize_t)size);
}

static PyObject *run_checkpoint(PyObject *self, PyObject *nothing) {
    (void)nothing;
    weir_cbor_writer w;
    weir_error error;
    if (run_of(self)->staging)
        return staged_checkpoint(run_of(self));
    weir_cbor_writer_memory(&w, NULL);
    weir_loader_checkpoint(run_of(self)->loader, &w);
    PyObject *bytes = weir_cbor_finish(&w, &error) == WEIR_OK
                          ? PyBytes_FromStringAndSize((const char *)w.data, (Py_ssize_t)w.size)
                          : py_raise(&error);
    weir_cbor_release(&w);
    return bytes;
}

static PyObject *run_metrics(PyObject *self, PyObject *nothing) {
    (void)nothing;
    weir_prefetch_metrics metrics;
    weir_loader_measure(run_of(self)->loader, &metrics, NULL);
    weir_worker_metrics *workers = calloc(metrics.workers + 1, sizeof *workers);
    if (!workers)
        return PyErr_NoMemory();
    weir_loader_measure(run_of(self)->loader, &metrics, workers);
    PyObject *dict = py_metrics(&metrics, workers);
    free(workers);
    return dict;
}

static PyObject *get_step(PyObject *self, void *closure) {
    (void)closure;
    const py_run *run = run_of(self);
    return PyLong_FromUnsignedLongLong(run->staging ? weir_staging_step(run->staging)
                                                    : weir_loader_step(run->loader));
}

static PyObject *get_end(PyObject *self, void *closure) {
    (void)closure;
    uint64_t end = weir_loader_end(run_of(self)->loader);
    return end == WEIR_ENDLESS ? Py_NewRef(Py_None) : PyLong_FromUnsignedLongLong(end);
}

static PyObject *checkpoint_step(PyObject *class, PyObject *args) {
    (void)class;
    py_bytes data = {NULL, NULL, 0};
    weir_checkpoint found;
    weir_error error;
    if (!PyArg_ParseTuple(args, "O&:_checkpoint_step", py_to_bytes, &data))
        return NULL;
    weir_status status = weir_checkpoint_read(data.data, data.size, &found, &error);
    Py_XDECREF(data.holder);
    return status == WEIR_OK ? PyLong_FromUnsignedLongLong(found.step) : py_raise(&error);
}

static PyMethodDef methods[] = {
    {"_open", run_open, METH_VARARGS | METH_CLASS, "Opens a run and starts its workers."},
    {"_plan", run_plan, METH_VARARGS | METH_CLASS,
     "The plan of a run's memory, as bytes; checks all options."},
    {"_checkpoint_step", checkpoint_step, METH_VARARGS | METH_STATIC,
     "The step that a checkpoint stands at."},
    {"_next", run_next, METH_VARARGS, "The next batch, or None at the end."},
    {"_trace", run_trace, METH_VARARGS, "Records what is taken in a trace."},
    {"_sync", run_sync, METH_NOARGS, "Makes what was recorded survive a crash."},
    {"_end_trace", run_end_trace, METH_NOARGS, "Syncs the trace and closes it."},
    {"_cancel", run_cancel, METH_NOARGS, "Ends the run; whoever waits for a batch gets Cancelled."},
    {"_checkpoint", run_checkpoint, METH_NOARGS, "The state after the last batch that was taken."},
    {"_metrics", run_metrics, METH_NOARGS, "Counts and waits, in all and by worker."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef attributes[] = {{"step", get_step, NULL, "The step after the last batch.", NULL},
                                   {"end", get_end, NULL, "The run's end; None if it has none.", NULL},
                                   {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {{Py_tp_doc, "A run of the C loader; see weir.Loader."},
                              {Py_tp_dealloc, run_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, attributes},
                              {0, NULL}};

static PyType_Spec spec = {"weir._weir.Run", sizeof(py_object), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

int py_add_run(PyObject *module) {
    py_the.run = py_add_type(module, &spec);
    return py_the.run ? 0 : -1;
}
