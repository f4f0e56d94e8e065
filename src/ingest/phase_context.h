/* What every phase of an ingest may use, whatever it works on: memory and how much of it, threads, sessions
 * of the source, what the caller asked for, and the way to tell him how it goes, to warn, and to stop. */
#ifndef WEIR_INGEST_PHASE_CONTEXT_H
#define WEIR_INGEST_PHASE_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/parallel.h"
#include "base/spill.h"
#include "ingest/source.h"
#include "weir/ingest.h"

#define WEIR_INGEST__OPERATOR "weir.ingest"

static inline weir_status weir_ingest__no_memory(weir_error *error, size_t size) {
    return weir__out_of_memory(error, WEIR_INGEST__OPERATOR, size);
}

typedef struct weir_ingest__context {
    const weir_env *env;       /* of `spill`, if there is one */
    const weir_env *given_env; /* the caller's, which outlives this: of what the caller is given */
    weir__spill *spill;        /* what does not fit into memory; NULL for a draft */
    const weir_ingest_options *options;
    uint32_t threads;
    uint64_t started_ns;

    weir_ingest__source *sessions[WEIR__THREADS_MAX]; /* one per worker; [0] is the first */
    uint32_t session_count;

    uint32_t warning_count;
    char first_warning[400]; /* its code and message */

    bool has_watcher;     /* the caller's thread reports, another one works */
    atomic_uint asked;    /* reports that the work has waited for, */
    atomic_uint answered; /* and those that were made */
    atomic_uint is_over;  /* 1: the work has ended */
    atomic_uint bell;     /* what the watcher sleeps on */
    atomic_bool is_cancelled;
    atomic_ullong done;
    uint64_t total;
    uint64_t total_bytes;
    const char *phase;
    pthread_mutex_t progress_lock; /* of the phase, its totals and the list of sessions */
    pthread_mutex_t report_lock;   /* of the one who reports, without a watcher */
    uint64_t progress_due_ns;
} weir_ingest__context;

/* `spill` may be NULL; else `env` is its environment, and `given_env` the one below. */
void weir_ingest__context_init(weir_ingest__context *context, const weir_env *env, const weir_env *given_env,
                               weir__spill *spill, const weir_ingest_options *options);
void weir_ingest__context_release(weir_ingest__context *context);

/* ---- Sessions -------------------------------------------------------------------------------- */

void weir_ingest__context_add_session(weir_ingest__context *context, weir_ingest__source *session);
void weir_ingest__context_close_sessions(weir_ingest__context *context);

/* ---- Progress -------------------------------------------------------------------------------- */

/* Does the work on a thread of its own, if somebody wants to know how it goes, while the caller's thread
 * reports and asks whether to stop: also while the work waits for a source. */
void weir_ingest__watch(weir_ingest__context *context, void (*work)(void *argument), void *argument);

void weir_ingest__begin_phase(weir_ingest__context *context, const char *phase, uint64_t total,
                              uint64_t total_bytes);
/* Counts work done; false if the caller of ingest has cancelled it. Any thread. */
bool weir_ingest__advance(weir_ingest__context *context, uint64_t done);
weir_status weir_ingest__cancelled(weir_error *error);

/* The next rows of a cursor, counted as work done, many at a time (count_rows); *uncounted is 0 at first.
 * CANCELLED, and the cursor's errors. */
WEIR_CHECKED weir_status weir_ingest__count_rows(weir_ingest__context *context, uint64_t *uncounted,
                                                 weir_error *error);
WEIR_CHECKED static inline weir_status weir_ingest__next_rows(weir_ingest__context *context,
                                                              weir_ingest__cursor *cursor,
                                                              uint64_t *uncounted, weir_ingest__rows *out,
                                                              weir_error *error) {
    enum { COUNT_EVERY = 4096 };
    WEIR__TRY(cursor->next(cursor, out, error));
    *uncounted += out->row_count;
    bool waits = *uncounted < COUNT_EVERY && out->row_count > 0;
    return waits ? WEIR_OK : weir_ingest__count_rows(context, uncounted, error);
}

/* ---- Work that threads share ----------------------------------------------------------------- */

typedef weir_status (*weir_ingest__step)(void *argument, size_t index, uint32_t worker, weir_error *error);

/* Runs a step for every index below `count`, on up to `threads` threads; the first failure in their order is
 * the error. */
WEIR_CHECKED weir_status weir_ingest__for_each(const weir_ingest__context *context, uint32_t threads,
                                               size_t count, weir_ingest__step step, void *argument,
                                               weir_error *error);

/* What one of the threads may jump about in, in bytes. */
uint64_t weir_ingest__share_of_thread(const weir_ingest__context *context);

/* ---- Warnings -------------------------------------------------------------------------------- */

/* Tells the caller; `table`, `column` and `task` may be NULL. From the thread that does the work, which is
 * not always the one that called ingest; never from two at a time. */
void weir_ingest__warn(weir_ingest__context *context, const char *code, const char *table, const char *column,
                       const char *task, const char *format, ...) __attribute__((format(printf, 6, 7)));
/* The same, of what is not a mistake: it is told, but does not count. */
void weir_ingest__note(weir_ingest__context *context, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A warning that is made already; `argument` is the context. */
void weir_ingest__tell(void *argument, const weir_warning *warning);

#endif
