/* weir.Prefetcher's engine: the C prefetcher over a Python callable.
 *
 * A slot of the prefetcher is a reference: a worker calls the source with (epoch, position), under the GIL,
 * and leaves there what it gave; the consumer takes it out, and the slot goes back at once. What a worker's
 * call raises is kept and raised at the item's own place.
 *
 * A worker has one thread state from its start to its end, so that what the source keeps per thread (a
 * connection, a file) stays. Unlike the module's other objects this one keeps Python objects: it is let go of
 * under the GIL, and whatever joins the workers lets go of the GIL meanwhile, since they may need it to end.
 *
 * A worker runs any Python, so the last reference may go in one of the prefetcher's own workers, which cannot
 * join itself. So what workers use is the engine and not the Python object; there it is left to a thread that
 * joins the workers and frees it, and that the end of the program waits for. The same if the garbage
 * collector takes the object, since its thread may hold locks that the source waits for.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "module.h"

static const char source_operator[] = "weir.Prefetcher";

/* Lives as long as its workers. */
typedef struct engine {
    weir_env env;
    weir_prefetch *prefetch;
    PyObject *source;
    uint64_t number; /* of the weir.Prefetcher, in all its runs */
    pid_t owner;
    uint64_t slot_count;
    PyObject **slots;  /* what lies in each */
    void **addresses;  /* of the slots */
    PyObject **raised; /* by each worker: an exception, or NULL */
    uint32_t worker_count;
} engine;

typedef struct py_prefetch {
    PyObject_HEAD engine *engine; /* NULL: closed */
    bool is_garbage;
} py_prefetch;

/* ---- Workers ----------------------------------------------------------------------------------- */

/* What this thread is a worker of, from its first item until it has ended. */
static _Thread_local const engine *working_for;

typedef struct start {
    void *(*run)(void *argument);
    void *argument;
} start;

static void *run_with_a_thread_state(void *given) {
    start begin = *(start *)given;
    free(given);
    PyGILState_STATE gil = PyGILState_Ensure();
    PyThreadState *state = PyEval_SaveThread();
    void *result = begin.run(begin.argument);
    PyEval_RestoreThread(state);
    PyGILState_Release(gil);
    return result;
}

static int start_thread(void *context, void *(*run)(void *), void *argument, uintptr_t *thread) {
    start *begin = malloc(sizeof *begin);
    if (!begin)
        return ENOMEM;
    *begin = (start){run, argument};
    int status = weir_env_default()->start_thread(context, run_with_a_thread_state, begin, thread);
    if (status != 0)
        free(begin);
    return status;
}

/* The exception that is set, whole, with its traceback. */
static PyObject *take_exception(void) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value && traceback)
        PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

static weir_status produce(void *context, const weir_item *item, weir_error *error) {
    engine *self = context;
    PyObject **slot = item->slot;
    working_for = self;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *value = PyObject_CallFunction(self->source, "KK", (ull)item->epoch, (ull)item->position);
    PyObject *before = *slot;
    *slot = value;
    if (!value)
        self->raised[item->worker] = take_exception();
    Py_XDECREF(before);
    PyGILState_Release(gil);
    if (value)
        return WEIR_OK;
    memset(error, 0, sizeof *error);
    error->status = WEIR_SOURCE_ERROR;
    error->failure_operator = source_operator;
    error->diagnostic_count = 1;
    error->diagnostics[0] = (weir_diagnostic){.name = "worker", .number = item->worker};
    return WEIR_SOURCE_ERROR;
}

/* ---- The end ----------------------------------------------------------------------------------- */

/* Threads that end an engine, in the process that has them. Begun under the GIL. */
static struct {
    pid_t owner;
    _Atomic uint32_t count;
} enders;

/* Joins the workers. */
static void end_workers(engine *self) {
    weir_prefetch_close(self->prefetch);
    self->prefetch = NULL;
}

/* Lets go of what ended workers have made. NULL is fine. */
static void free_engine(engine *self) {
    if (!self)
        return;
    for (uint64_t i = 0; self->slots && i < self->slot_count; i++)
        Py_CLEAR(self->slots[i]);
    for (uint32_t i = 0; self->raised && i < self->worker_count; i++)
        Py_CLEAR(self->raised[i]);
    Py_CLEAR(self->source);
    free(self->slots);
    free(self->addresses);
    free(self->raised);
    free(self);
}

static void *end_in_a_thread(void *given) {
    engine *self = given;
    end_workers(self);
    if (Py_IsInitialized()) { /* else the process ends, and all memory with it */
        PyGILState_STATE gil = PyGILState_Ensure();
        free_engine(self);
        PyGILState_Release(gil);
    }
    (void)atomic_fetch_sub(&enders.count, 1);
    const weir_env *env = weir_env_default();
    env->wake(env->context, (const uint32_t *)(const void *)&enders.count);
    return NULL;
}

/* Has another thread join the workers and free the engine; false if there can be none. */
static bool leave_to_a_thread(engine *self) {
    pthread_t thread;
    if (enders.owner != getpid()) { /* a child of fork has none of its parent's */
        enders.owner = getpid();
        atomic_store(&enders.count, 0);
    }
    (void)atomic_fetch_add(&enders.count, 1);
    bool is_left = pthread_create(&thread, NULL, end_in_a_thread, self) == 0;
    if (is_left)
        (void)pthread_detach(thread);
    else
        (void)atomic_fetch_sub(&enders.count, 1);
    return is_left;
}

/* Waits for the threads that end engines. */
static PyObject *prefetch_await_ends(PyObject *Py_UNUSED(class), PyObject *Py_UNUSED(nothing)) {
    const weir_env *env = weir_env_default();
    const uint32_t *word = (const uint32_t *)(const void *)&enders.count;
    uint32_t count;
    while (enders.owner == getpid() && (count = atomic_load(&enders.count)) > 0)
        PY_UNLOCKED(env->wait(env->context, word, count, 0));
    Py_RETURN_NONE;
}

/* Ends the workers, from any thread. One of them cannot wait for itself, and the garbage collector must not:
 * there a thread does. What a child of fork in the source drops is still in use by that call, and stays. */
static void let_go(py_prefetch *object) {
    engine *self = object->engine;
    object->engine = NULL;
    if (!self)
        return;
    weir_prefetch_cancel(self->prefetch);
    bool is_worker = working_for == self;
    bool is_left = (is_worker || object->is_garbage) && self->owner == getpid() && leave_to_a_thread(self);
    if (is_left || is_worker) /* without a thread it stays: the workers end all the same */
        return;
    PY_UNLOCKED(end_workers(self));
    free_engine(self);
}

/* False with an exception if this thread is a worker of the weir.Prefetcher of this number. */
static bool may_close(uint64_t number) {
    if (!working_for || working_for->number != number)
        return true;
    PyErr_SetString(PyExc_RuntimeError,
                    "a source cannot close its own prefetcher; raise an exception instead");
    return false;
}

static PyObject *prefetch_check_may_close(PyObject *Py_UNUSED(class), PyObject *number) {
    uint64_t value = 0;
    if (!py_to_uint64(number, &value) || !may_close(value))
        return NULL;
    Py_RETURN_NONE;
}

/* ---- Opening ----------------------------------------------------------------------------------- */

static py_prefetch *self_of(PyObject *object) {
    return (py_prefetch *)object;
}

/* The garbage collector's: first it tells all garbage, then it clears what is garbage still. */
static void finalize(PyObject *object) {
    py_prefetch *self = self_of(object);
    self->is_garbage = true;
    if (self->engine)
        weir_prefetch_cancel(self->engine->prefetch);
}

static int clear(PyObject *object) {
    let_go(self_of(object));
    return 0;
}

static int traverse(PyObject *object, visitproc visit, void *arg) {
    const engine *self = self_of(object)->engine;
    Py_VISIT(Py_TYPE(object));
    if (!self)
        return 0;
    Py_VISIT(self->source);
    for (uint64_t i = 0; i < self->slot_count; i++)
        Py_VISIT(self->slots[i]);
    for (uint32_t i = 0; i < self->worker_count; i++)
        Py_VISIT(self->raised[i]);
    return 0;
}

static void dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    let_go(self_of(object));
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static bool allocate_slots(engine *self, weir_prefetch_options *options) {
    self->worker_count = options->workers ? options->workers : 1;
    self->slot_count = weir_prefetch_slot_count(options);
    self->slots = calloc((size_t)self->slot_count, sizeof *self->slots);
    self->addresses = calloc((size_t)self->slot_count, sizeof *self->addresses);
    self->raised = calloc(self->worker_count, sizeof *self->raised);
    if (!self->slots || !self->addresses || !self->raised)
        return false;
    for (uint64_t i = 0; i < self->slot_count; i++)
        self->addresses[i] = &self->slots[i];
    options->slots = self->addresses;
    return true;
}

/* (source, length, epochs, start_epoch, start_position, shards, drop_remainder, policy, max_lead, max_skips,
 * workers, buffer_size, shares_items, number, state or None) */
static PyObject *prefetch_open(PyObject *class, PyObject *args) {
    PyObject *source = NULL;
    const char *shards = NULL, *policy = NULL;
    int drop_remainder = 0, shares_items = 0;
    uint64_t number = 0;
    py_bytes state;
    weir_prefetch_options options = {.size = sizeof options};
    weir_error error;
    if (!PyArg_ParseTuple(args, "OO&O&O&O&spsO&O&O&O&pO&O&:_open", &source, py_to_uint64,
                          &options.source.length, py_to_uint64, &options.epochs, py_to_uint64,
                          &options.start_epoch, py_to_uint64, &options.start_position, &shards,
                          &drop_remainder, &policy, py_to_uint32, &options.max_lead, py_to_uint32,
                          &options.max_skips_per_round, py_to_uint32, &options.workers, py_to_uint32,
                          &options.buffer_size, &shares_items, py_to_uint64, &number, py_to_bytes, &state))
        return NULL;
    if (weir_shard_mode_parse(shards, &options.shard_mode, &error) != WEIR_OK ||
        weir_policy_parse(policy, &options.policy, &error) != WEIR_OK)
        return py_raise(&error);
    options.drop_remainder = drop_remainder;
    options.shares_items = shares_items;
    py_prefetch *object =
        self_of(((allocfunc)PyType_GetSlot((PyTypeObject *)class, Py_tp_alloc))((PyTypeObject *)class, 0));
    engine *self = object ? calloc(1, sizeof *self) : NULL;
    if (!self || !allocate_slots(self, &options)) {
        free_engine(self);
        Py_XDECREF((PyObject *)object);
        return PyErr_NoMemory();
    }
    self->source = Py_NewRef(source);
    self->number = number;
    self->env = py_env();
    self->env.start_thread = start_thread;
    self->owner = getpid();
    options.source.context = self;
    options.source.produce = produce;
    options.state = state.data;
    options.state_size = state.size;
    weir_status status = WEIR_OK;
    PY_UNLOCKED(status = weir_prefetch_open(&self->env, &options, &self->prefetch, &error));
    if (status == WEIR_OK) {
        object->engine = self; /* whoever finds the object before finds it closed */
        return (PyObject *)object;
    }
    free_engine(self);
    Py_DECREF((PyObject *)object);
    return py_raise(&error);
}

/* ---- Taking ------------------------------------------------------------------------------------ */

static void cancel_prefetch(void *prefetch) {
    weir_prefetch_cancel(prefetch);
}

/* NULL with an exception if it is closed. */
static engine *engine_of(PyObject *object) {
    engine *self = self_of(object)->engine;
    if (!self)
        PyErr_SetString(PyExc_ValueError, "the prefetcher is closed");
    return self;
}

/* The next item; StopIteration at the end. One thread at a time. */
static PyObject *prefetch_next(PyObject *object, PyObject *Py_UNUSED(nothing)) {
    engine *self = engine_of(object);
    weir_item item;
    weir_error error;
    if (!self)
        return NULL;
    bool is_ready = false;
    weir_status status = weir_prefetch_try_next(self->prefetch, &item, &is_ready, &error);
    if (status == WEIR_OK && !is_ready) {
        py_wait_begin(cancel_prefetch, self->prefetch);
        PY_UNLOCKED(status = weir_prefetch_next(self->prefetch, &item, &error));
        py_wait_end();
    }
    if (PyErr_Occurred()) /* a signal handler's: it was cancelled, and gave nothing */
        return NULL;
    uint64_t worker = status == WEIR_OK ? 0 : error.diagnostics[0].number;
    if (status != WEIR_OK && error.failure_operator == source_operator && worker < self->worker_count &&
        self->raised[worker]) {
        PyObject *exception = self->raised[worker];
        self->raised[worker] = NULL;
        PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(exception)), exception,
                      PyException_GetTraceback(exception));
        return NULL;
    }
    if (status != WEIR_OK)
        return py_raise(&error);
    if (!item.slot) {
        PyErr_SetNone(PyExc_StopIteration);
        return NULL;
    }
    PyObject *value = *(PyObject **)item.slot;
    *(PyObject **)item.slot = NULL;
    weir_prefetch_release(self->prefetch, &item);
    return value;
}

/* ---- About it ---------------------------------------------------------------------------------- */

static PyObject *prefetch_save(PyObject *object, PyObject *Py_UNUSED(nothing)) {
    engine *self = engine_of(object);
    weir_bytes state;
    weir_error error;
    if (!self)
        return NULL;
    if (weir_prefetch_save(self->prefetch, &state, &error) != WEIR_OK)
        return py_raise(&error);
    PyObject *bytes = PyBytes_FromStringAndSize(state.data, (Py_ssize_t)state.size);
    weir_bytes_release(&state);
    return bytes;
}

static PyObject *prefetch_metrics(PyObject *object, PyObject *Py_UNUSED(nothing)) {
    engine *self = engine_of(object);
    weir_prefetch_metrics metrics;
    if (!self)
        return NULL;
    weir_worker_metrics *workers = calloc(self->worker_count, sizeof *workers);
    if (!workers)
        return PyErr_NoMemory();
    weir_prefetch_measure(self->prefetch, &metrics, workers);
    PyObject *dict = py_metrics(&metrics, workers);
    free(workers);
    return dict;
}

static PyObject *prefetch_cancel(PyObject *object, PyObject *Py_UNUSED(nothing)) {
    if (self_of(object)->engine)
        weir_prefetch_cancel(self_of(object)->engine->prefetch);
    Py_RETURN_NONE;
}

static PyObject *prefetch_close(PyObject *object, PyObject *Py_UNUSED(nothing)) {
    py_prefetch *self = self_of(object);
    if (self->engine && !may_close(self->engine->number))
        return NULL;
    self->is_garbage = false; /* this waits, also if a finalizer asks */
    let_go(self);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"_open", prefetch_open, METH_VARARGS | METH_CLASS, "Starts the workers."},
    {"_next", prefetch_next, METH_NOARGS, "The next item; StopIteration at the end."},
    {"_save", prefetch_save, METH_NOARGS, "The state after the last item that was taken."},
    {"_metrics", prefetch_metrics, METH_NOARGS, "Counts and waits, in all and by worker."},
    {"_cancel", prefetch_cancel, METH_NOARGS, "Ends it; whoever waits for an item gets Cancelled."},
    {"_close", prefetch_close, METH_NOARGS, "Ends it and waits for the workers; refused in one of them."},
    {"_check_may_close", prefetch_check_may_close, METH_O | METH_STATIC,
     "RuntimeError in a worker of the weir.Prefetcher of this number."},
    {"_await_ends", prefetch_await_ends, METH_NOARGS | METH_STATIC,
     "Waits for the workers of all that was dropped in one of its own."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_doc, "A prefetcher over a Python source; see weir.Prefetcher."},
                              {Py_tp_dealloc, dealloc},
                              {Py_tp_finalize, finalize},
                              {Py_tp_clear, clear},
                              {Py_tp_traverse, traverse},
                              {Py_tp_methods, methods},
                              {0, NULL}};

static PyType_Spec spec = {"weir._weir.Prefetch", sizeof(py_prefetch), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           slots};

bool py_add_prefetch(PyObject *module) {
    return py_add_type(module, NULL, &spec);
}
