/* Progress, and the way to stop. The one who called ingest is told how it goes and may end it. A source can
 * take hours over one query, and only it knows how far it is; so the work is done by a thread of its own, and
 * the caller's thread sleeps, wakes some times a second, reports, and, if it is told to stop, interrupts the
 * sessions until the work has ended. All reports come from the caller's thread: a host like Python can only
 * notice its signals there.
 *
 * The beginning of a phase is always reported: the work waits until that is done. Without a report function,
 * or without a second thread, the caller's thread does the work itself and reports when it counts rows. */
#include "ingest/state.h"

enum { EVERY_NS = 100000000, SLEEP_NS = 50000000 };

static uint64_t now_of(const weir_ingest__ingest *ingest) {
    return ingest->env->now_ns(ingest->env->context);
}

static const uint32_t *word_of(const atomic_uint *word) {
    return (const uint32_t *)(const void *)word;
}

static void wake(weir_ingest__ingest *ingest, atomic_uint *word) {
    atomic_fetch_add(word, 1);
    ingest->env->wake(ingest->env->context, word_of(word));
}

/* ---- Reporting ------------------------------------------------------------------------------- */

/* Calls the user's report. Only one thread does at a time. */
static void report_progress(weir_ingest__ingest *ingest) {
    uint64_t now = now_of(ingest);
    uint64_t done = atomic_load_explicit(&ingest->done, memory_order_relaxed);
    pthread_mutex_lock(&ingest->progress_lock);
    weir_progress progress = {.phase = ingest->phase,
                              .done = done,
                              .total = ingest->total,
                              .total_bytes = ingest->total_bytes,
                              .done_bytes = ingest->total_bytes,
                              .elapsed_ns = now - ingest->started_ns,
                              .spilled_bytes = ingest->spill ? weir__spill_size(ingest->spill) : 0};
    pthread_mutex_unlock(&ingest->progress_lock);
    if (progress.total > 0 && done < progress.total)
        progress.done_bytes = (uint64_t)((unsigned __int128)progress.total_bytes * done / progress.total);
    if (!ingest->options->progress(ingest->options->progress_context, &progress))
        atomic_store_explicit(&ingest->is_cancelled, true, memory_order_relaxed);
    ingest->progress_due_ns = now + EVERY_NS;
}

void weir_ingest__begin_phase(weir_ingest__ingest *ingest, const char *phase, uint64_t total,
                              uint64_t total_bytes) {
    pthread_mutex_lock(&ingest->progress_lock);
    ingest->phase = phase;
    ingest->total = total;
    ingest->total_bytes = total_bytes;
    atomic_store_explicit(&ingest->done, 0, memory_order_relaxed);
    pthread_mutex_unlock(&ingest->progress_lock);
    if (ingest->has_watcher) {
        unsigned number = atomic_fetch_add(&ingest->asked, 1) + 1;
        wake(ingest, &ingest->bell);
        for (unsigned seen; (seen = atomic_load(&ingest->answered)) != number;)
            ingest->env->wait(ingest->env->context, word_of(&ingest->answered), seen, 0);
    } else if (ingest->options->progress) {
        report_progress(ingest);
    }
}

bool weir_ingest__advance(weir_ingest__ingest *ingest, uint64_t done) {
    atomic_fetch_add_explicit(&ingest->done, done, memory_order_relaxed);
    if (ingest->spill)
        weir__spill_look(ingest->spill);
    bool reports_itself = ingest->options->progress && !ingest->has_watcher;
    if (reports_itself && pthread_mutex_trylock(&ingest->report_lock) == 0) {
        if (now_of(ingest) >= ingest->progress_due_ns)
            report_progress(ingest);
        pthread_mutex_unlock(&ingest->report_lock);
    }
    return !atomic_load_explicit(&ingest->is_cancelled, memory_order_relaxed);
}

weir_status weir_ingest__cancelled(weir_error *error) {
    return weir__fail(error, WEIR_CANCELLED, WEIR_INGEST__OPERATOR,
                      "the ingest was cancelled; nothing was written");
}

/* ---- Watching -------------------------------------------------------------------------------- */

typedef struct watched_work {
    weir_ingest__ingest *ingest;
    void (*work)(void *context);
    void *context;
} watched_work;

static void *do_work(void *argument) {
    watched_work *watched = argument;
    watched->work(watched->context);
    atomic_store(&watched->ingest->is_over, 1);
    wake(watched->ingest, &watched->ingest->bell);
    return NULL;
}

static void interrupt_sessions(weir_ingest__ingest *ingest) {
    pthread_mutex_lock(&ingest->progress_lock);
    for (uint32_t i = 0; i < ingest->session_count; i++)
        ingest->sessions[i]->kind->interrupt(ingest->sessions[i]);
    pthread_mutex_unlock(&ingest->progress_lock);
}

/* One turn: reports if it is asked to or it is time, and interrupts what was cancelled. */
static void look(weir_ingest__ingest *ingest) {
    unsigned asked = atomic_load(&ingest->asked);
    bool is_asked = asked != atomic_load(&ingest->answered);
    if (!atomic_load(&ingest->is_cancelled) && (is_asked || now_of(ingest) >= ingest->progress_due_ns))
        report_progress(ingest);
    if (is_asked) {
        atomic_store(&ingest->answered, asked);
        ingest->env->wake(ingest->env->context, word_of(&ingest->answered));
    }
    if (atomic_load(&ingest->is_cancelled))
        interrupt_sessions(ingest);
}

void weir_ingest__watch(weir_ingest__ingest *ingest, void (*work)(void *context), void *context) {
    const weir_env *env = ingest->env;
    watched_work watched = {ingest, work, context};
    uintptr_t thread;
    ingest->has_watcher = ingest->options->progress != NULL;
    if (!ingest->has_watcher || env->start_thread(env->context, do_work, &watched, &thread) != 0) {
        ingest->has_watcher = false;
        work(context);
        return;
    }
    ingest->progress_due_ns = now_of(ingest) + EVERY_NS;
    while (!atomic_load(&ingest->is_over)) {
        unsigned rung = atomic_load(&ingest->bell);
        look(ingest);
        if (!atomic_load(&ingest->is_over))
            env->wait(env->context, word_of(&ingest->bell), rung, SLEEP_NS);
    }
    env->join_thread(env->context, thread);
}
