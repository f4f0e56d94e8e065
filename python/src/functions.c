/* The module's functions: ingest, schema drafts, remote stores, replay, the table of errors. */
#include <string.h>

#include "module.h"

/* ---- Ingest ------------------------------------------------------------------------------------ */

/* The callback runs in any of ingest's threads; the first exception that it, or a function that opens a
 * table, raises ends the work, and is what the caller gets. */
typedef struct progress {
    PyObject *callback;
    py_failure *failure;
} progress;

static bool report_progress(void *context, const weir_progress *now) {
    progress *self = context;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *answer = PyObject_CallFunction(self->callback, "sKKKKKK", now->phase, (ull)now->done,
                                             (ull)now->total, (ull)now->done_bytes, (ull)now->total_bytes,
                                             (ull)now->elapsed_ns, (ull)now->spilled_bytes);
    bool goes_on = answer && answer != Py_False;
    if (!answer)
        py_keep_failure(self->failure);
    Py_XDECREF(answer);
    PyGILState_Release(gil);
    return goes_on;
}

/* What ingest and the report warn of, as tuples in a list. Both call from one thread, without the GIL. */
typedef struct hearer {
    PyObject *list;
    bool is_short_of_memory;
} hearer;

/* Messages may be cut inside a character. */
static PyObject *text_or_none(const char *text) {
    return text ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace") : Py_NewRef(Py_None);
}

static void hear_warning(void *context, const weir_warning *warning) {
    hearer *self = context;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *heard = Py_BuildValue("(NNNNNO)", text_or_none(warning->code), text_or_none(warning->table),
                                    text_or_none(warning->column), text_or_none(warning->task),
                                    text_or_none(warning->message), warning->is_note ? Py_True : Py_False);
    if (!heard || PyList_Append(self->list, heard) != 0)
        self->is_short_of_memory = true;
    Py_XDECREF(heard);
    PyErr_Clear();
    PyGILState_Release(gil);
}

/* The report on the finished store, before it takes its name, in the memory that ingest may take. */
static weir_status hear_report(void *context, const char *path, weir_warning_report tell, void *tell_context,
                               weir_error *error) {
    const weir_ingest_options *options = context;
    weir_store_options opening = {.size = sizeof opening, .memory = options->memory};
    weir_store *store = NULL;
    weir_report *report = NULL;
    weir_status status = weir_store_open_with(NULL, path, &opening, &store, error);
    if (status == WEIR_OK)
        status = weir_report_open(NULL, store, &report, error);
    for (uint32_t i = 0; status == WEIR_OK && i < weir_report_look(report)->warning_count; i++)
        tell(tell_context, &weir_report_look(report)->warnings[i]);
    weir_report_close(report);
    weir_store_close(store);
    return status;
}

static PyObject *report_dict(const weir_ingest_report *report, const weir_bytes *base) {
    return Py_BuildValue(
        "{sNsNsOsNsOsIsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKss#}", "store_path",
        PyUnicode_DecodeFSDefault(report->store_path), "manifest_path",
        PyUnicode_DecodeFSDefault(report->manifest_path), "manifest_kept",
        report->manifest_kept ? Py_True : Py_False, "store_hash", py_hex(report->store_hash, WEIR_HASH_SIZE),
        "drafted", report->drafted ? Py_True : Py_False, "tables", (unsigned)report->tables, "rows",
        (ull)report->rows, "edges", (ull)report->edges, "dangling", (ull)report->dangling, "not_finite",
        (ull)report->not_finite, "seeds", (ull)report->seeds, "dropped_seeds", (ull)report->dropped_seeds,
        "texts", (ull)report->texts, "source_bytes", (ull)report->source_bytes, "store_bytes",
        (ull)report->store_bytes, "embedding_bytes", (ull)report->embedding_bytes, "spilled_bytes",
        (ull)report->spilled_bytes, "kept_bytes", (ull)report->kept_bytes, "ignored_columns",
        (ull)report->ignored_columns, "read_ns", (ull)report->read_ns, "order_ns", (ull)report->order_ns,
        "match_ns", (ull)report->match_ns, "tasks_ns", (ull)report->tasks_ns, "write_ns",
        (ull)report->write_ns, "embed_ns", (ull)report->embed_ns, "total_ns", (ull)report->total_ns, "base",
        base->size > 0 ? (const char *)base->data : "[]",
        base->size > 0 ? (Py_ssize_t)base->size : (Py_ssize_t)2);
}

static PyObject *run_ingest(weir_ingest_options *options, PyObject *callback, PyObject *warnings,
                            py_failure *failure) {
    hearer heard = {.list = warnings};
    weir_ingest_report report;
    weir_error error;
    progress self = {.callback = callback, .failure = failure};
    weir_status status = WEIR_OK;
    if (callback != Py_None) {
        options->progress = report_progress;
        options->progress_context = &self;
    }
    weir_bytes base = {0};
    options->base_report = &base;
    options->warning = hear_warning;
    options->warning_context = &heard;
    options->inspect = hear_report;
    options->inspect_context = options;
    PY_UNLOCKED(status = weir_ingest(NULL, options, &report, &error));
    PyObject *result = NULL;
    bool is_raised = py_raise_failure(failure, status);
    if (status == WEIR_OK && heard.is_short_of_memory)
        result = PyErr_NoMemory();
    else if (status == WEIR_OK)
        result = report_dict(&report, &base);
    else if (!is_raised)
        py_raise(&error);
    weir_bytes_release(&base);
    return result;
}

static const char *path_text(PyObject *path) {
    return path ? PyBytes_AsString(path) : NULL;
}

/* None, or a path as the file system spells it. */
static int to_optional_path(PyObject *value, void *out) {
    *(PyObject **)out = NULL;
    return value == Py_None ? 1 : PyUnicode_FSConverter(value, out) != 0;
}

/* A path, or a tuple of Arrow tables. */
typedef struct py_source {
    PyObject *path;
    py_arrow arrow;
    py_failure failure;
} py_source;

static bool take_source(PyObject *given, py_source *out, weir_ingest_options *options) {
    *out = (py_source){0};
    if (!PyTuple_Check(given)) {
        if (!PyUnicode_FSConverter(given, &out->path))
            return false;
        options->source = path_text(out->path);
        return true;
    }
    if (!py_arrow_take(&out->arrow, given, &out->failure))
        return false;
    options->arrow_tables = out->arrow.tables;
    options->arrow_table_count = out->arrow.count;
    return true;
}

static void release_source(py_source *source) {
    Py_XDECREF(source->path);
    py_arrow_release(&source->arrow);
}

/* _ingest(source, schema text, schema name, output, manifest, manifest_mode, batch_size, threads, memory,
 * strict, no_embeddings, like, keep_rows, base, base_check, base_cut, progress, warnings) */
static PyObject *ingest(PyObject *Py_UNUSED(module), PyObject *args) {
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    PyObject *given = NULL, *output = NULL, *manifest = NULL, *callback = NULL, *result = NULL;
    PyObject *warnings = NULL, *like = NULL, *base = NULL;
    py_source source = {0};
    Py_ssize_t schema_size = 0;
    int manifest_mode = 0, is_strict = 0, no_embeddings = 0, keep_rows = 0, base_check = 0;
    if (PyArg_ParseTuple(args, "Oz#zO&O&iO&O&O&ppO&pO&izOO!:_ingest", &given, &options.schema, &schema_size,
                         &options.schema_name, to_optional_path, &output, to_optional_path, &manifest,
                         &manifest_mode, py_to_uint64, &options.batch_size, py_to_uint32, &options.threads,
                         py_to_uint64, &options.memory, &is_strict, &no_embeddings, to_optional_path, &like,
                         &keep_rows, to_optional_path, &base, &base_check, &options.base_cut, &callback,
                         &PyList_Type, &warnings) &&
        take_source(given, &source, &options)) {
        options.schema_size = (size_t)schema_size;
        options.output = path_text(output);
        options.manifest = path_text(manifest);
        options.manifest_mode = (weir_manifest_mode)manifest_mode;
        options.strict = is_strict;
        options.like = path_text(like);
        options.no_embeddings = no_embeddings;
        options.keep_rows = keep_rows;
        options.base = path_text(base);
        options.base_check = (weir_base_check)base_check;
        result = run_ingest(&options, callback, warnings, &source.failure);
    }
    release_source(&source);
    Py_XDECREF(output);
    Py_XDECREF(manifest);
    Py_XDECREF(like);
    Py_XDECREF(base);
    return result;
}

static PyObject *draft(PyObject *Py_UNUSED(module), PyObject *given) {
    py_source source;
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    weir_bytes schema = {0};
    weir_error error;
    weir_status status = WEIR_OK;
    bool is_taken = take_source(given, &source, &options);
    if (is_taken)
        PY_UNLOCKED(status = weir_schema_draft(NULL, &options, &schema, &error));
    bool is_raised = is_taken && py_raise_failure(&source.failure, status);
    release_source(&source);
    if (is_taken && status == WEIR_OK)
        return py_taken_text(&schema);
    return is_taken && !is_raised ? py_raise(&error) : NULL;
}

/* ---- Remote stores ----------------------------------------------------------------------------- */

typedef weir_status (*remote_call)(const weir_env *env, const char *from, const char *to,
                                   const weir_remote_options *options, weir_remote_report *report,
                                   weir_error *error);

static PyObject *run_remote(remote_call call, const char *from, const char *to, weir_remote_options *options,
                            PyObject *callback) {
    py_failure failure = {0};
    progress self = {.callback = callback, .failure = &failure};
    weir_remote_report report;
    weir_error error;
    weir_status status = WEIR_OK;
    if (callback != Py_None) {
        options->progress = report_progress;
        options->progress_context = &self;
    }
    PY_UNLOCKED(status = call(NULL, from, to, options, &report, &error));
    if (py_raise_failure(&failure, status))
        return NULL;
    if (status != WEIR_OK)
        return py_raise(&error);
    return Py_BuildValue("{sNsKsKsKsKsK}", "store_hash", py_hex(report.store_hash, WEIR_HASH_SIZE), "bytes",
                         (ull)report.bytes, "chunks", (ull)report.chunks, "moved_chunks",
                         (ull)report.moved_chunks, "moved_bytes", (ull)report.moved_bytes, "total_ns",
                         (ull)report.total_ns);
}

/* _push(store, url, chunk_bits, concurrency, retries, timeout_s, progress) */
static PyObject *push(PyObject *Py_UNUSED(module), PyObject *args) {
    weir_remote_options options = WEIR_REMOTE_OPTIONS;
    PyObject *store = NULL, *callback = NULL;
    const char *url;
    if (!PyArg_ParseTuple(args, "O&sO&O&O&O&O:_push", PyUnicode_FSConverter, &store, &url, py_to_uint32,
                          &options.chunk_bits, py_to_uint32, &options.concurrency, py_to_uint32,
                          &options.retries, py_to_uint32, &options.timeout_s, &callback))
        return NULL;
    PyObject *result = run_remote(weir_push, path_text(store), url, &options, callback);
    Py_DECREF(store);
    return result;
}

/* _pull(url, path, hash or None, concurrency, retries, timeout_s, progress) */
static PyObject *pull(PyObject *Py_UNUSED(module), PyObject *args) {
    weir_remote_options options = WEIR_REMOTE_OPTIONS;
    PyObject *path = NULL, *callback = NULL;
    const char *url, *hash;
    Py_ssize_t hash_size = 0;
    if (!PyArg_ParseTuple(args, "sO&z#O&O&O&O:_pull", &url, PyUnicode_FSConverter, &path, &hash, &hash_size,
                          py_to_uint32, &options.concurrency, py_to_uint32, &options.retries, py_to_uint32,
                          &options.timeout_s, &callback))
        return NULL;
    options.expected_hash = hash && hash_size == WEIR_HASH_SIZE ? (const uint8_t *)hash : NULL;
    PyObject *result = run_remote(weir_pull, url, path_text(path), &options, callback);
    Py_DECREF(path);
    return result;
}

/* ---- Errors ------------------------------------------------------------------------------------ */

/* The table of include/weir/errors.h: (code, name, subsystem, meaning) of each. */
static PyObject *error_table(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing)) {
    PyObject *table = PyList_New(0);
    for (size_t i = 0; table && weir_status_at(i) != WEIR_OK; i++) {
        weir_status status = weir_status_at(i);
        PyObject *row = Py_BuildValue("(isss)", (int)status, weir_status_name(status),
                                      weir_status_subsystem(status), weir_status_meaning(status));
        if (!row || PyList_Append(table, row) != 0)
            Py_CLEAR(table);
        Py_XDECREF(row);
    }
    return table;
}

/* ---- Replay ------------------------------------------------------------------------------------ */

/* _replay(trace, stores, manifest or None) */
static PyObject *replay(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *path = NULL, *stores = NULL, *manifest = NULL;
    if (!PyArg_ParseTuple(args, "O&O!O:_replay", PyUnicode_FSConverter, &path, &PyTuple_Type, &stores,
                          &manifest))
        return NULL;
    py_sources *sources = py_sources_new(stores, manifest);
    weir_replay_report report;
    weir_error error;
    weir_status status = WEIR_OK;
    if (sources) {
        weir_replay_options options = {.size = sizeof options,
                                       .manifest = sources->manifest ? sources->manifest->manifest : NULL,
                                       .stores = sources->opened,
                                       .store_count = sources->count};
        PY_UNLOCKED(status = weir_trace_replay(NULL, PyBytes_AsString(path), &options, &report, &error));
    }
    Py_DECREF(path);
    py_drop(sources);
    if (!sources || status != WEIR_OK)
        return sources ? py_raise(&error) : NULL;
    bool has_failed = report.status == WEIR_RUN_FAILED;
    PyObject *failed_step = has_failed ? PyLong_FromUnsignedLongLong(report.failed_step) : Py_NewRef(Py_None);
    return Py_BuildValue("{sKsKsKsKsKsKsKsKsOsssNsz}", "steps", (ull)report.steps, "samples",
                         (ull)report.samples, "indices", (ull)report.indices, "checked_digests",
                         (ull)report.checked_digests, "unchecked_digests", (ull)report.unchecked_digests,
                         "checked_sample_digests", (ull)report.checked_sample_digests,
                         "unchecked_sample_digests", (ull)report.unchecked_sample_digests, "memory_records",
                         (ull)report.memory_records, "is_complete", report.is_complete ? Py_True : Py_False,
                         "status", weir_run_status_name(report.status), "failed_step", failed_step,
                         "failure_code", has_failed ? report.failure_code : NULL);
}

static PyObject *launcher(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing)) {
    weir_error error;
    uint32_t rank, world_size;
    if (weir_launcher_read(&rank, &world_size, &error) != WEIR_OK)
        return py_raise(&error);
    return Py_BuildValue("II", rank, world_size);
}

PyMethodDef py_functions[] = {
    {"_launcher", launcher, METH_NOARGS, "(rank, world size) by the launcher's variables."},
    {"_ingest", ingest, METH_VARARGS, "Reads a source and writes a store and its manifest."},
    {"_draft", draft, METH_O, "The draft of a source's schema, as JSON text."},
    {"_write_row_runs", py_write_row_runs, METH_VARARGS,
     "The rows of a table as files, for a folder of runs."},
    {"_push", push, METH_VARARGS, "Sends a store to a server."},
    {"_pull", pull, METH_VARARGS, "Brings a store from a server."},
    {"_replay", replay, METH_VARARGS, "Re-executes a trace and compares every field."},
    {"_pack", py_pack, METH_VARARGS, "Offsets for buffers with lifetimes."},
    {"_command", py_command, METH_O, "Runs the program weir with its arguments; its exit status."},
    {"_error_table", error_table, METH_NOARGS, "(code, name, subsystem, meaning) of every error."},
    {NULL, NULL, 0, NULL}};
