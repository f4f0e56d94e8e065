/* The extension module weir._weir: what its files share.
 *
 * Every Python object here is a thin shell around C: it owns a `py_shared`, a counted piece of C (a store, a
 * batch on loan, a block of memory), and nothing of Python. So there are no cycles for the garbage collector,
 * and an array that numpy or torch has taken can be let go by any thread, with or without the GIL, even
 * while the interpreter ends: only a C counter goes down. Python classes in python/weir/ derive from these
 * types and add what is pleasant to use; what they call begins with an underscore if it is not for users.
 *
 * Against the stable ABI of Python 3.11: one file serves every later version. */
#ifndef WEIR_PYTHON_MODULE_H
#define WEIR_PYTHON_MODULE_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdatomic.h>

#include "weir/weir.h"
#include "weir_tool/tools.h"

typedef unsigned long long ull; /* what "K" takes */

/* ---- Counted pieces of C ----------------------------------------------------------------------- */

/* Every piece begins with this. */
typedef struct py_shared {
    atomic_size_t count;
    void (*destroy)(struct py_shared *self); /* frees it; any thread, no GIL needed */
} py_shared;

/* A new piece has a count of 1: the caller's. NULL with MemoryError set. */
void *py_shared_new(size_t size, void (*destroy)(py_shared *self));
void *py_keep(void *piece); /* gives the piece */
void py_drop(void *piece);  /* may be NULL */

/* A piece that is nothing but memory. */
typedef struct py_block {
    py_shared shared;
    _Alignas(64) uint8_t data[];
} py_block;
py_block *py_block_new(size_t size);

typedef struct py_store {
    py_shared shared;
    weir_store *store;
} py_store;

typedef struct py_manifest {
    py_shared shared;
    weir_manifest *manifest;
} py_manifest;

/* ---- Python objects ---------------------------------------------------------------------------- */

/* Every object but an Array is this: a shell around one piece. */
typedef struct py_object {
    PyObject_HEAD py_shared *shared;
} py_object;

/* Makes the object of one of the types, or of a Python class that derives from it, around a piece, whose
 * count it takes over also if it fails. Without a piece an exception is set already. */
PyObject *py_object_new(PyObject *class, void *piece);

/* The same after an attempt to open the piece: raises the error if that failed. */
PyObject *py_opened(PyObject *class, void *piece, weir_status status, const weir_error *error);
void py_object_dealloc(PyObject *self);

/* The types that C looks at, made when the module is; one interpreter a process has them. */
typedef struct py_types {
    PyTypeObject *array, *manifest, *store, *plan, *batch, *backing;
} py_types;
extern py_types py_the;

/* Makes a type and puts it into the module under the last part of its name, and into *type, if C looks at it
 * too. False with an exception. */
bool py_add_type(PyObject *module, PyTypeObject **type, PyType_Spec *spec);

/* The same for the type of a shell, from which classes may derive. Without `new` only C makes objects of it;
 * `attributes` may be NULL. */
bool py_add_shell(PyObject *module, PyTypeObject **type, const char *name, const char *doc,
                  PyMethodDef *methods, PyGetSetDef *attributes, newfunc new);
bool py_add_array(PyObject *module);
bool py_add_manifest(PyObject *module);
bool py_add_store(PyObject *module);
bool py_add_sampler(PyObject *module);
bool py_add_plan(PyObject *module);
bool py_add_arenas(PyObject *module);
bool py_add_step_memory(PyObject *module);
bool py_add_batch(PyObject *module);
bool py_add_contexts(PyObject *module);
bool py_add_run(PyObject *module);
bool py_add_cursors(PyObject *module);
bool py_add_prefetch(PyObject *module);
bool py_add_attention(PyObject *module);
extern PyMethodDef py_functions[];
PyObject *py_command(PyObject *module, PyObject *arguments);
PyObject *py_pack(PyObject *module, PyObject *args);

/* ---- Tables of Python, for ingest -------------------------------------------------------------- */

/* The first exception of a function that ingest calls back; `type` is NULL if there was none. */
typedef struct py_failure {
    PyObject *type, *value, *traceback;
} py_failure;

/* Keeps the exception that is set, if it is the first one; none is set afterwards. */
void py_keep_failure(py_failure *failure);

/* Whether the failure is what the caller gets, because the work failed: then it is raised. Lets it go in any
 * case. */
bool py_raise_failure(py_failure *failure, weir_status status);

typedef struct py_arrow_function {
    PyObject *function; /* borrowed */
    py_failure *failure;
} py_arrow_function;

typedef struct py_arrow {
    weir_arrow_table *tables;
    uint32_t count;
    py_arrow_function *functions;
    struct ArrowArrayStream *streams; /* of tables that gave one */
} py_arrow;

/* From a tuple of (name, table or function, rows), which must outlive it. False with an exception. */
bool py_arrow_take(py_arrow *self, PyObject *tables, py_failure *failure);
void py_arrow_release(py_arrow *self);

/* The rows of a table become runs: row_runs.c, a function of the module. */
PyObject *py_write_row_runs(PyObject *module, PyObject *args);

/* ---- Errors ------------------------------------------------------------------------------------ */

/* Raises the exception that belongs to an error record (weir/errors.py); always NULL. */
PyObject *py_raise(const weir_error *error);

/* None, or the exception if it did not go well. */
PyObject *py_done(weir_status status, const weir_error *error);

/* ---- Arguments (converters for "O&") and results ----------------------------------------------- */

int py_to_uint64(PyObject *value, void *out); /* uint64_t */
int py_to_uint32(PyObject *value, void *out); /* uint32_t */

/* Bytes or None, borrowed from an argument: the call keeps it. */
typedef struct py_bytes {
    const void *data; /* NULL for None */
    size_t size;
} py_bytes;
int py_to_bytes(PyObject *value, void *out);

/* A value of a key: an int, float, str or bytes, which it borrows from. False, with an exception, for
 * anything else. */
bool py_key_value(PyObject *object, weir_key_value *out);

PyObject *py_text(const char *text);
PyObject *py_hex(const void *data, size_t size);

/* A text as str, that of a JSON writer as str, and what a CBOR writer holds as bytes; all are released. */
PyObject *py_taken_text(weir_bytes *bytes);
PyObject *py_json(weir_json_writer *w);
PyObject *py_cbor(weir_cbor_writer *w);

/* Puts a value into a dict and lets go of it; false if one of the two failed. */
bool py_set(PyObject *dict, const char *key, PyObject *value);

/* Puts a value, which it takes over, into a list or a tuple that is being made; if one of the two failed, the
 * list is let go of, and NULL. */
void py_put(PyObject **list, Py_ssize_t at, PyObject *value);

/* A prefetcher's metrics as a dict, with a list of its workers'. */
PyObject *py_metrics(const weir_prefetch_metrics *metrics, const weir_worker_metrics *workers);

/* Does something without the GIL. */
#define PY_UNLOCKED(work)                                                                                    \
    do {                                                                                                     \
        Py_BEGIN_ALLOW_THREADS work;                                                                         \
        Py_END_ALLOW_THREADS                                                                                 \
    } while (0)

/* ---- Waiting, with signals (wait.c) ------------------------------------------------------------- */

/* The system's environment, but that waits let Python handle signals. */
weir_env py_env(void);

/* Around a call that may wait, without the GIL: if a signal handler raises, `cancel` is called with the
 * subject, from this thread, and the exception is set when the call returns. */
void py_wait_begin(void (*cancel)(void *subject), void *subject);
void py_wait_end(void);

/* ---- Arrays ------------------------------------------------------------------------------------ */

enum { PY_RANK_MAX = 8 };

typedef struct py_dtype {
    const char *name;      /* as numpy's */
    const char *format;    /* as the struct module's, native */
    const char *interface; /* as __array_interface__'s */
    uint8_t dlpack_code;
    uint8_t size;
} py_dtype;

/* By numpy's name; NULL if there is none. */
const py_dtype *py_dtype_find(const char *name);

/* A device whose memory the processor does not reach, by DLPack's numbers. `await` makes what a stream is
 * given from now on wait until the owner's memory is filled; the owner then gives it up behind that stream.
 * NULL: there is nothing to wait for. */
typedef struct py_place {
    int32_t type;
    int32_t id;
    weir_status (*await)(py_shared *owner, weir_stream stream, weir_error *error);
} py_place;

/* What an array shows. Strides in bytes; NULL: C order. */
typedef struct py_array_spec {
    py_shared *owner; /* kept by the array */
    const void *data;
    const char *dtype;
    int rank;
    const uint64_t *shape;
    const int64_t *strides;
    bool is_writable;
    const py_place *place; /* NULL: the host; lives as long as the owner */
} py_array_spec;
PyObject *py_array_new(const py_array_spec *spec);

/* The DLPack capsule of an array, its type called by another code of the same size. */
PyObject *py_array_capsule_as(PyObject *array, uint8_t code);

/* A block as an array of one dimension, or with a width of two, that may be written to. The array keeps the
 * block; the caller's hold on it ends. Without a block an exception is set already. */
PyObject *py_array_of_block(py_block *block, const char *dtype, uint64_t count, uint64_t width);

/* A new array of uint64 with memory of its own, to be filled through *data. */
PyObject *py_array_of_indices(uint64_t count, uint64_t **data);

/* The plan of a weir.Plan, and a plan as its bytes. */
const weir_plan *py_plan_of(PyObject *plan);
PyObject *py_plan_bytes(const weir_plan *plan);

/* ---- Batches ----------------------------------------------------------------------------------- */

/* A batch and what keeps it: the slot of a run, a builder and its buffer, or a copy. */
typedef struct py_batch {
    py_shared shared;
    const weir_batch *batch;
    const weir_dataset *dataset;
    const weir_store *store;
    py_shared *sources; /* what the dataset and the store are parts of; what keeps the batch keeps it */
    uint64_t step;
    const py_place *place; /* of the tensors; NULL: the host */
    bool is_own;           /* nobody else reads its memory: it may be written to */
} py_batch;

/* A copy of a batch with all that it points to, in memory of its own. It keeps the sources, and neither the
 * batch nor its slot. */
py_batch *py_batch_copy(const py_batch *from);

/* Which of its sources' stores a store is. */
size_t py_batch_store_index(const py_batch *batch, const weir_store *store);

/* Methods and an attribute of weir.Batch, in target.c. */
PyObject *py_batch_target(PyObject *self, PyObject *nothing);
PyObject *py_batch_target_scale(PyObject *self, void *closure);
PyObject *py_batch_sources(PyObject *self, PyObject *nothing);

/* The stores (a tuple) and the manifest (or None: NULL) of a run, as one piece. NULL with an exception set.
 */
typedef struct py_sources {
    py_shared shared;
    py_manifest *manifest;
    char *context_key;    /* of batches of Contexts, whose dataset no manifest has; else NULL … */
    weir_dataset context; /* … and their dataset */
    size_t count;
    weir_store **opened; /* of each store: what weir's options take */
    py_store *stores[];
} py_sources;
py_sources *py_sources_new(PyObject *stores, PyObject *manifest);

#endif
