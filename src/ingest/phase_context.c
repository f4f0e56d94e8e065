/* See phase_context.h. Progress, and the way to stop: the one who called ingest is told how it goes and may
 * end it. A source can take hours over one query, and only it knows how far it is; so the work is done by a
 * thread of its own, and the caller's thread sleeps, wakes some times a second, reports, and, if it is told
 * to stop, interrupts the sessions until the work has ended. All reports come from the caller's thread: a
 * host like Python can only notice its signals there.
 *
 * The beginning of a phase is always reported: the work waits until that is done. Without a report function,
 * or without a second thread, the caller's thread does the work itself and reports when it counts rows. */
#include "ingest/phase_context.h"

#include <stdio.h>
#include <string.h>

enum { EVERY_NS = 100000000, SLEEP_NS = 50000000 };

static uint64_t now_of(const weir_ingest__context *context) {
    return context->env->now_ns(context->env->context);
}

static const uint32_t *word_of(const atomic_uint *word) {
    return (const uint32_t *)(const void *)word;
}

static void wake(weir_ingest__context *context, atomic_uint *word) {
    atomic_fetch_add(word, 1);
    context->env->wake(context->env->context, word_of(word));
}

void weir_ingest__context_init(weir_ingest__context *context, const weir_env *env, const weir_env *given_env,
                               weir__spill *spill, const weir_ingest_options *options) {
    memset(context, 0, sizeof *context);
    context->env = env;
    context->given_env = given_env;
    context->spill = spill;
    context->options = options;
    context->threads = weir__threads_or_processors(options->threads);
    context->started_ns = now_of(context);
    context->phase = "open";
    pthread_mutex_init(&context->progress_lock, NULL);
    pthread_mutex_init(&context->report_lock, NULL);
}

void weir_ingest__context_release(weir_ingest__context *context) {
    pthread_mutex_destroy(&context->progress_lock);
    pthread_mutex_destroy(&context->report_lock);
}

/* ---- Sessions -------------------------------------------------------------------------------- */

void weir_ingest__context_add_session(weir_ingest__context *context, weir_ingest__source *session) {
    assert(context->session_count < WEIR__THREADS_MAX && "more sessions than threads");
    pthread_mutex_lock(&context->progress_lock);
    context->sessions[context->session_count++] = session;
    pthread_mutex_unlock(&context->progress_lock);
}

/* Each is closed when nobody can interrupt it any more. */
void weir_ingest__context_close_sessions(weir_ingest__context *context) {
    while (context->session_count > 0) {
        pthread_mutex_lock(&context->progress_lock);
        weir_ingest__source *session = context->sessions[--context->session_count];
        pthread_mutex_unlock(&context->progress_lock);
        weir_ingest__source_close(session);
    }
}

/* ---- Reporting ------------------------------------------------------------------------------- */

/* Calls the user's report. Only one thread does at a time. */
static void report_progress(weir_ingest__context *context) {
    uint64_t now = now_of(context);
    uint64_t done = atomic_load_explicit(&context->done, memory_order_relaxed);
    pthread_mutex_lock(&context->progress_lock);
    weir_progress progress = {.phase = context->phase,
                              .done = done,
                              .total = context->total,
                              .total_bytes = context->total_bytes,
                              .done_bytes = context->total_bytes,
                              .elapsed_ns = now - context->started_ns,
                              .spilled_bytes = context->spill ? weir__spill_size(context->spill) : 0};
    pthread_mutex_unlock(&context->progress_lock);
    if (progress.total > 0 && done < progress.total)
        progress.done_bytes = (uint64_t)((unsigned __int128)progress.total_bytes * done / progress.total);
    if (!context->options->progress(context->options->progress_context, &progress))
        atomic_store_explicit(&context->is_cancelled, true, memory_order_relaxed);
    context->progress_due_ns = now + EVERY_NS;
}

void weir_ingest__begin_phase(weir_ingest__context *context, const char *phase, uint64_t total,
                              uint64_t total_bytes) {
    pthread_mutex_lock(&context->progress_lock);
    context->phase = phase;
    context->total = total;
    context->total_bytes = total_bytes;
    atomic_store_explicit(&context->done, 0, memory_order_relaxed);
    pthread_mutex_unlock(&context->progress_lock);
    if (context->has_watcher) {
        unsigned number = atomic_fetch_add(&context->asked, 1) + 1;
        wake(context, &context->bell);
        for (unsigned seen; (seen = atomic_load(&context->answered)) != number;)
            context->env->wait(context->env->context, word_of(&context->answered), seen, 0);
    } else if (context->options->progress) {
        report_progress(context);
    }
}

bool weir_ingest__advance(weir_ingest__context *context, uint64_t done) {
    atomic_fetch_add_explicit(&context->done, done, memory_order_relaxed);
    if (context->spill)
        weir__spill_look(context->spill);
    bool reports_itself = context->options->progress && !context->has_watcher;
    if (reports_itself && pthread_mutex_trylock(&context->report_lock) == 0) {
        if (now_of(context) >= context->progress_due_ns)
            report_progress(context);
        pthread_mutex_unlock(&context->report_lock);
    }
    return !atomic_load_explicit(&context->is_cancelled, memory_order_relaxed);
}

weir_status weir_ingest__cancelled(weir_error *error) {
    return weir__fail(error, WEIR_CANCELLED, WEIR_INGEST__OPERATOR,
                      "the ingest was cancelled; nothing was written");
}

weir_status weir_ingest__count_rows(weir_ingest__context *context, uint64_t *uncounted, weir_error *error) {
    bool goes_on = weir_ingest__advance(context, *uncounted);
    *uncounted = 0;
    return goes_on ? WEIR_OK : weir_ingest__cancelled(error);
}

/* ---- Watching -------------------------------------------------------------------------------- */

typedef struct watched_work {
    weir_ingest__context *context;
    void (*work)(void *argument);
    void *argument;
} watched_work;

static void *do_work(void *argument) {
    watched_work *watched = argument;
    watched->work(watched->argument);
    atomic_store(&watched->context->is_over, 1);
    wake(watched->context, &watched->context->bell);
    return NULL;
}

void weir_ingest__watch(weir_ingest__context *context, void (*work)(void *argument), void *argument) {
    const weir_env *env = context->env;
    watched_work watched = {context, work, argument};
    uintptr_t thread;
    context->has_watcher = context->options->progress != NULL;
    if (!context->has_watcher || env->start_thread(env->context, do_work, &watched, &thread) != 0) {
        context->has_watcher = false;
        work(argument);
        return;
    }
    context->progress_due_ns = now_of(context) + EVERY_NS;
    while (!atomic_load(&context->is_over)) {
        unsigned rung = atomic_load(&context->bell);
        /* One turn: reports if it is asked to or it is time, and interrupts what was cancelled. */
        unsigned asked = atomic_load(&context->asked);
        bool is_asked = asked != atomic_load(&context->answered);
        if (!atomic_load(&context->is_cancelled) && (is_asked || now_of(context) >= context->progress_due_ns))
            report_progress(context);
        if (is_asked) {
            atomic_store(&context->answered, asked);
            context->env->wake(context->env->context, word_of(&context->answered));
        }
        if (atomic_load(&context->is_cancelled)) {
            pthread_mutex_lock(&context->progress_lock);
            for (uint32_t i = 0; i < context->session_count; i++)
                context->sessions[i]->kind->interrupt(context->sessions[i]);
            pthread_mutex_unlock(&context->progress_lock);
        }
        if (!atomic_load(&context->is_over))
            env->wait(env->context, word_of(&context->bell), rung, SLEEP_NS);
    }
    env->join_thread(env->context, thread);
}

/* ---- Work that threads share ----------------------------------------------------------------- */

typedef struct shared_work {
    weir_ingest__step step;
    void *argument;
    struct outcome {
        weir_status status;
        weir_error error;
    } * outcomes;
} shared_work;

static void run_step(void *argument, size_t index, uint32_t worker) {
    const shared_work *work = argument;
    struct outcome *outcome = &work->outcomes[index];
    outcome->status = work->step(work->argument, index, worker, &outcome->error);
}

weir_status weir_ingest__for_each(const weir_ingest__context *context, uint32_t threads, size_t count,
                                  weir_ingest__step step, void *argument, weir_error *error) {
    shared_work work = {.step = step, .argument = argument};
    weir_status status = WEIR_OK;
    work.outcomes = weir__allocate_zero(context->env, count, sizeof *work.outcomes);
    if (!work.outcomes)
        return weir_ingest__no_memory(error, count * sizeof *work.outcomes);
    weir__parallel(context->env, threads, count, run_step, &work);
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = work.outcomes[i].status;
        if (status != WEIR_OK && error)
            *error = work.outcomes[i].error;
    }
    weir__release(context->env, work.outcomes);
    return status;
}

uint64_t weir_ingest__share_of_thread(const weir_ingest__context *context) {
    return context->spill ? weir__spill_share(context->spill) / context->threads : UINT64_MAX;
}

/* ---- Warnings -------------------------------------------------------------------------------- */

void weir_ingest__tell(void *argument, const weir_warning *warning) {
    weir_ingest__context *context = argument;
    if (!warning->is_note && context->warning_count++ == 0)
        snprintf(context->first_warning, sizeof context->first_warning, "%s: %.300s", warning->code,
                 warning->message);
    if (context->options->warning)
        context->options->warning(context->options->warning_context, warning);
}

void weir_ingest__warn(weir_ingest__context *context, const char *code, const char *table, const char *column,
                       const char *task, const char *format, ...) {
    char message[1024];
    WEIR__FORMAT(message, format);
    weir_ingest__tell(
        context,
        &(weir_warning){.code = code, .table = table, .column = column, .task = task, .message = message});
}

void weir_ingest__note(weir_ingest__context *context, const char *code, const char *format, ...) {
    char message[1024];
    WEIR__FORMAT(message, format);
    weir_ingest__tell(context, &(weir_warning){.code = code, .message = message, .is_note = true});
}
