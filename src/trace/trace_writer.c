/* Appends records to a trace. A record is encoded, linked into the chain and buffered; the buffer goes to
 * the file in whole records. What the run_end needs (the cursors and the number of samples) is counted
 * along, and recounted from the file when a run resumes. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/file.h"
#include "base/options.h"
#include "trace/record.h"
#include "trace/tally.h"
#include "trace/trace_writer.h"

static const char operator_name[] = "weir.trace.write";

enum { FLUSH_SIZE = 1 << 16 };

struct weir_trace_writer {
    const weir_env *env;
    char *path;
    int file;
    int lock; /* of a trace that is resumed, whose file is opened when it is cut; else -1 */
    weir_cbor_writer body;
    weir_cbor_writer pending; /* whole records that are not in the file yet */
    uint8_t link[WEIR_HASH_SIZE];
    weir_trace__tally tally;
    uint8_t *token; /* the run's, for a failure */
    size_t token_size;
    bool is_broken;
    bool is_finished;
};

static weir_status new_writer(const weir_env *env, const char *path, const weir_trace_run *run,
                              weir_trace_writer **out, weir_error *error) {
    const void *token = run->token ? run->token : weir_manifest_describe(run->manifest)->token;
    weir_trace_writer *w = weir__allocate_zero(env, 1, sizeof *w);
    if (!w)
        return weir__out_of_memory(error, operator_name, sizeof *w);
    w->env = env;
    w->file = w->lock = -1;
    weir_cbor_writer_memory(&w->body, env);
    weir_cbor_writer_memory(&w->pending, env);
    w->path = weir__copy_text(env, path, strlen(path));
    w->token_size = run->token ? run->token_size : WEIR_TOKEN_SIZE;
    w->token = weir__allocate(env, w->token_size, 1);
    if (!w->path || !w->token) {
        weir_trace_writer_close(w);
        return weir__out_of_memory(error, operator_name, strlen(path));
    }
    memcpy(w->token, token, w->token_size);
    *out = w;
    return WEIR_OK;
}

void weir_trace__writer_leave(weir_trace_writer *w) {
    if (!w)
        return;
    const weir_env *env = w->env;
    if (w->file >= 0)
        env->close(env->context, w->file);
    if (w->lock >= 0)
        env->close(env->context, w->lock);
    weir_trace__tally_release(&w->tally, env);
    weir__release(env, w->token);
    weir__release(env, w->path);
    weir_cbor_release(&w->body);
    weir_cbor_release(&w->pending);
    weir__release(env, w);
}

/* A child of fork that lives on has the file open, and would keep the lock. */
void weir_trace_writer_close(weir_trace_writer *w) {
    if (!w)
        return;
    int locked = w->lock >= 0 ? w->lock : w->file;
    if (w->file >= 0 && !w->is_broken)
        (void)weir__write_all(w->env, w->file, w->pending.data, w->pending.size);
    if (locked >= 0)
        (void)!w->env->unlock(w->env->context, locked);
    weir_trace__writer_leave(w);
}

static weir_status flush(weir_trace_writer *w, weir_error *error) {
    if (!weir__write_all(w->env, w->file, w->pending.data, w->pending.size)) {
        w->is_broken = true;
        return weir__io_error(error, operator_name, "write", w->path);
    }
    w->pending.size = 0;
    return WEIR_OK;
}

/* Links the record whose body was just written and buffers it. */
static weir_status append_body(weir_trace_writer *w, bool is_header, weir_error *error) {
    weir_status status = weir_cbor_finish(&w->body, error);
    if (status == WEIR_OK) {
        weir_trace__link(is_header ? NULL : w->link, w->body.data, w->body.size, w->link);
        weir_cbor_restart(&w->pending);
        weir_trace__seal(&w->pending, w->body.data, w->body.size, w->link);
        status = weir_cbor_finish(&w->pending, error);
    }
    w->body.size = 0;
    weir_cbor_restart(&w->body);
    if (status == WEIR_OK && w->pending.size >= FLUSH_SIZE)
        status = flush(w, error);
    w->is_broken = w->is_broken || status != WEIR_OK;
    return status;
}

/* Two runs that write one trace would spoil it: the second is refused. A lock lasts as long as its
 * descriptor, however the program ends; a file system without locks has none. */
static weir_status lock(const weir_trace_writer *w, int file, weir_error *error) {
    if (file < 0 || w->env->lock(w->env->context, file) == 0 || errno != EWOULDBLOCK)
        return WEIR_OK;
    return weir__fail(error, WEIR_IO_ERROR, operator_name,
                      "another run is writing %s; wait until it has ended, or give this one files of its own",
                      w->path);
}

/* Another run may be writing what exists already. One that has written something has locked it before, so
 * that trying its lock takes none away. */
static weir_status find_writer(const weir_trace_writer *w, weir_error *error) {
    const weir_env *env = w->env;
    uint64_t size = 0;
    int file = env->open(env->context, w->path, O_RDONLY | O_NONBLOCK, 0);
    if (file < 0)
        return WEIR_OK;
    bool is_begun = env->size(env->context, file, &size) == 0 && size > 0;
    weir_status status = is_begun ? lock(w, file, error) : WEIR_OK;
    env->close(env->context, file);
    return status;
}

/* O_EXCL says EEXIST for a directory too, which nobody can resume. */
static weir_status cannot_create(const weir_trace_writer *w, weir_error *error) {
    const weir_env *env = w->env;
    const char *path = w->path;
    if (errno != EEXIST)
        return weir__io_error(error, operator_name, "create", path);
    int directory = env->open(env->context, path, O_RDONLY | O_DIRECTORY, 0);
    if (directory >= 0) {
        env->close(env->context, directory);
        errno = EISDIR;
        return weir__io_error(error, operator_name, "create", path);
    }
    WEIR__TRY(find_writer(w, error));
    weir_status status = weir__fail(error, WEIR_IO_ERROR, operator_name,
                                    "%s exists already; move it away, or resume the run", path);
    weir__note_int(error, "errno", EEXIST);
    weir__note_text(error, "path", path, strlen(path));
    return status;
}

/* Buffers the header, and the resume of a run that does not begin at step 0. */
static weir_status buffer_beginning(weir_trace_writer *w, const weir_trace_run *run,
                                    const weir_trace_start *start, weir_error *error) {
    weir_trace__write_header(&w->body, run);
    weir_status status = append_body(w, true, error);
    if (status == WEIR_OK && start && (start->step > 0 || start->checkpoint_hash)) {
        weir_trace__write_resume(&w->body, start);
        status = append_body(w, false, error);
    }
    return status;
}

weir_status weir_trace_create(const weir_env *env, const char *path, const weir_trace_run *given,
                              const weir_trace_start *start, weir_trace_writer **out, weir_error *error) {
    env = weir__env_or_default(env);
    weir_trace_writer *w;
    weir_trace_run run;
    weir_status status = WEIR__TAKE_OPTIONS(run, given, weir_trace_run, operator_name, error);
    if (status == WEIR_OK)
        status = new_writer(env, path, &run, &w, error);
    if (status != WEIR_OK)
        return status;
    w->file = env->open(env->context, path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0666);
    if (w->file < 0) {
        status = cannot_create(w, error);
        weir_trace_writer_close(w);
        return status;
    }
    status = lock(w, w->file, error);
    if (status == WEIR_OK)
        status = buffer_beginning(w, &run, start, error);
    if (status == WEIR_OK)
        status = flush(w, error);
    if (status == WEIR_OK && !weir__sync_directory(env, path)) /* or a crash takes the name with it */
        status = weir__io_error(error, operator_name, "sync the directory of", path);
    if (status != WEIR_OK) {
        weir_trace_writer_close(w);
        env->remove(env->context, path);
        return status;
    }
    *out = w;
    return WEIR_OK;
}

static weir_status refuse_broken(const weir_trace_writer *w, weir_error *error) {
    return weir__fail(error, w->is_finished ? WEIR_CONTRACT_VIOLATION : WEIR_IO_ERROR, operator_name,
                      w->is_finished ? "%s is finished; nothing can be appended"
                                     : "%s failed before; resume the run from its checkpoint",
                      w->path);
}

weir_status weir_trace_append(weir_trace_writer *w, const weir_trace_iter *iter, weir_error *error) {
    if (w->is_broken || w->is_finished)
        return refuse_broken(w, error);
    weir_trace__write_iter(&w->body, iter);
    WEIR__TRY(append_body(w, false, error));
    if (weir_trace__tally_step(&w->tally, w->env, (weir_text){iter->dataset, strlen(iter->dataset)},
                               iter->step->cursor_next, iter->step->effective_batch_size))
        return WEIR_OK;
    w->is_broken = true;
    return weir__out_of_memory(error, operator_name, strlen(iter->dataset));
}

weir_status weir_trace_append_memory(weir_trace_writer *w, const weir_trace_memory *memory,
                                     weir_error *error) {
    if (w->is_broken || w->is_finished)
        return refuse_broken(w, error);
    weir_trace__write_memory(&w->body, memory);
    return append_body(w, false, error);
}

weir_status weir_trace_sync(weir_trace_writer *w, weir_error *error) {
    if (w->is_broken)
        return refuse_broken(w, error);
    weir_status status = flush(w, error);
    if (status == WEIR_OK && w->env->sync(w->env->context, w->file) != 0)
        status = weir__io_error(error, operator_name, "sync", w->path);
    w->is_broken = status != WEIR_OK;
    return status;
}

static weir_status end(weir_trace_writer *w, const char *run_status, weir_error *error) {
    weir_trace__tally_write_end(&w->tally, w->link, run_status, &w->body);
    weir_status status = append_body(w, false, error);
    if (status == WEIR_OK)
        status = weir_trace_sync(w, error);
    w->is_finished = status == WEIR_OK;
    return status;
}

weir_status weir_trace_finish(weir_trace_writer *w, weir_error *error) {
    return w->is_broken || w->is_finished ? refuse_broken(w, error) : end(w, "success", error);
}

weir_status weir_trace_fail(weir_trace_writer *w, const weir_trace_failure *failure, weir_error *error) {
    if (w->is_broken || w->is_finished)
        return refuse_broken(w, error);
    weir_trace__write_failure(&w->body, failure, w->token, w->token_size);
    WEIR__TRY(append_body(w, false, error));
    return end(w, "failed", error);
}

/* ---- Resuming -------------------------------------------------------------------------------- */

/* The header must be the one that this run would write. */
static weir_status check_same_run(weir_trace_writer *w, const weir_trace_run *run,
                                  const weir_trace_reader *reader, weir_error *error) {
    static const char *const ignored[] = {"h", "build", "operator", "weir_version", NULL};
    weir__difference difference;
    weir_trace__write_header(&w->body, run);
    weir_status status = weir_cbor_finish(&w->body, error);
    if (status == WEIR_OK) {
        weir_cbor_value expected = weir_cbor_view(w->body.data);
        if (weir__compare(w->env, weir_trace__header(reader), &expected, ignored, &difference))
            status = weir__fail(error, WEIR_CHECKPOINT_MISMATCH, operator_name,
                                "%s is the trace of another run: its %s is %.200s, this run's is %.200s",
                                w->path, difference.field, difference.left, difference.right);
    }
    w->body.size = 0;
    weir_cbor_restart(&w->body);
    return status;
}

static void keep_link(weir_trace_writer *w, const weir_cbor_value *map) {
    weir_cbor_value link = weir_trace__get(map, "h");
    memcpy(w->link, link.data, WEIR_HASH_SIZE);
}

/* Reads up to the first record that the resumed run makes anew: a step at or after `step`, a resume at a
 * later one, a failure, or the run_end. Returns where the kept part ends. Faults after the last step that is
 * kept do not matter: that part is cut. Steps of a best-effort run are counted, since their own numbers come
 * in any order. */
static weir_status find_cut(weir_trace_writer *w, weir_trace_reader *reader, uint64_t step, uint64_t *cut,
                            weir_error *error) {
    weir_trace_record record = {0};
    uint64_t next_step = 0; /* the step that the next record would be of */
    bool is_counted = weir_trace_describe(reader)->is_best_effort;
    for (;;) {
        weir_status status = weir_trace_next(reader, &record, error);
        bool reached = next_step == step;
        if (status != WEIR_OK)
            return reached && status == WEIR_TRACE_CORRUPT ? WEIR_OK : status;
        uint64_t t = is_counted ? next_step : record.t;
        bool is_kept = (record.kind == WEIR_TRACE_ITER && t < step) ||
                       (record.kind == WEIR_TRACE_MEMORY && next_step > 0) || /* of the step before it */
                       (record.kind == WEIR_TRACE_RESUME && record.t <= step);
        if (!is_kept && !reached)
            return weir__fail(
                error, WEIR_TRACE_CORRUPT, operator_name,
                "%s holds the steps before %llu only, the checkpoint is at step %llu; resume from an earlier "
                "checkpoint or begin a new trace",
                w->path, (unsigned long long)next_step, (unsigned long long)step);
        if (!is_kept)
            return WEIR_OK;
        if (record.kind == WEIR_TRACE_ITER) {
            next_step = t + 1;
            if (!weir_trace__tally_step(&w->tally, w->env, record.dataset, record.cursor_after,
                                        record.effective_batch_size))
                return weir__out_of_memory(error, operator_name, (size_t)(record.end - record.offset));
        } else if (record.kind == WEIR_TRACE_RESUME) {
            next_step = record.t;
        }
        weir_cbor_value map = weir_trace__map(&record);
        keep_link(w, &map);
        *cut = record.end;
    }
}

static weir_status reopen_at(weir_trace_writer *w, uint64_t cut, weir_error *error) {
    const weir_env *env = w->env;
    w->file = env->open(env->context, w->path, O_WRONLY | O_APPEND, 0);
    if (w->file < 0)
        return weir__io_error(error, operator_name, "open", w->path);
    if (env->truncate(env->context, w->file, cut) != 0) {
        w->is_broken = true; /* what is buffered belongs after the cut, not after what is there */
        return weir__io_error(error, operator_name, "cut", w->path);
    }
    return WEIR_OK;
}

/* Whether the file holds no more than a part of what is buffered. If it cannot be read, the caller finds
 * out why. */
static weir_status find_part(const weir_trace_writer *w, bool *is_part, weir_error *error) {
    const weir_env *env = w->env;
    uint64_t size = 0;
    uint8_t *data = weir__allocate(env, w->pending.size, 1);
    if (!data)
        return weir__out_of_memory(error, operator_name, w->pending.size);
    int file = env->open(env->context, w->path, O_RDONLY, 0);
    *is_part = file >= 0 && env->size(env->context, file, &size) == 0 && size < w->pending.size &&
               env->pread(env->context, file, data, (size_t)size, 0) == (ssize_t)size &&
               memcmp(data, w->pending.data, (size_t)size) == 0;
    if (file >= 0)
        env->close(env->context, file);
    weir__release(env, data);
    return WEIR_OK;
}

/* A run that is killed while it makes its trace leaves a part of the beginning: no step is in it, so it is
 * made anew. Sets *is_begun if that was the case. */
static weir_status begin_again(weir_trace_writer *w, const weir_trace_run *run, const weir_trace_start *start,
                               bool *is_begun, weir_error *error) {
    weir_status status = buffer_beginning(w, run, start, error);
    if (status == WEIR_OK)
        status = find_part(w, is_begun, error);
    if (status != WEIR_OK || !*is_begun) {
        w->pending.size = 0;
        return status;
    }
    status = reopen_at(w, 0, error);
    return status == WEIR_OK ? weir_trace_sync(w, error) : status;
}

/* Resumes after the steps that are kept. */
static weir_status append_resume(weir_trace_writer *w, const weir_trace_run *run,
                                 const weir_trace_start *start, weir_error *error) {
    weir_trace_reader *reader = NULL;
    uint64_t cut = 0;
    weir_status status = weir_trace_open(w->env, w->path, &reader, error);
    if (status == WEIR_OK)
        status = check_same_run(w, run, reader, error);
    if (status == WEIR_OK) {
        const weir_cbor_value *header = weir_trace__header(reader);
        keep_link(w, header);
        cut = weir_cbor_size(header);
        status = find_cut(w, reader, start->step, &cut, error);
    }
    weir_trace_close(reader);
    if (status == WEIR_OK) { /* before the cut: after it, nothing but the file system may fail */
        weir_trace__write_resume(&w->body, start);
        status = append_body(w, false, error);
    }
    if (status == WEIR_OK)
        status = reopen_at(w, cut, error);
    return status == WEIR_OK ? weir_trace_sync(w, error) : status;
}

weir_status weir_trace_resume(const weir_env *env, const char *path, const weir_trace_run *given,
                              uint64_t step, const uint8_t checkpoint_hash[WEIR_HASH_SIZE],
                              weir_trace_writer **out, weir_error *error) {
    weir_trace_writer *w;
    weir_trace_start start = {step, checkpoint_hash};
    bool is_begun = false;
    weir_trace_run run;
    weir_status status = WEIR__TAKE_OPTIONS(run, given, weir_trace_run, operator_name, error);
    if (status == WEIR_OK)
        status = new_writer(weir__env_or_default(env), path, &run, &w, error);
    if (status != WEIR_OK)
        return status;
    w->lock = w->env->open(w->env->context, path, O_RDONLY, 0);
    status = lock(w, w->lock, error);
    if (status == WEIR_OK)
        status = begin_again(w, &run, &start, &is_begun, error);
    if (status == WEIR_OK && !is_begun)
        status = append_resume(w, &run, &start, error);
    if (status != WEIR_OK) {
        weir_trace_writer_close(w);
        return status;
    }
    *out = w;
    return WEIR_OK;
}
