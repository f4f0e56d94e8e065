/* See parallel.h. Workers take the next number from one counter; nothing else is shared. */
#include <stdatomic.h>
#include <unistd.h>

#include "base/parallel.h"

typedef struct shared_work {
    atomic_size_t next;
    size_t count;
    void (*run)(void *context, size_t index, uint32_t worker);
    void *context;
} shared_work;

typedef struct worker_thread {
    shared_work *work;
    uint32_t number;
    uintptr_t thread;
} worker_thread;

static void *take_pieces(void *argument) {
    worker_thread *worker = argument;
    shared_work *work = worker->work;
    for (;;) {
        size_t index = atomic_fetch_add_explicit(&work->next, 1, memory_order_relaxed);
        if (index >= work->count)
            return NULL;
        work->run(work->context, index, worker->number);
    }
}

void weir__parallel(const weir_env *env, uint32_t threads, size_t count,
                    void (*run)(void *context, size_t index, uint32_t worker), void *context) {
    worker_thread workers[WEIR__THREADS_MAX];
    shared_work work = {.count = count, .run = run, .context = context};
    uint32_t started = 1;
    if (threads > WEIR__THREADS_MAX)
        threads = WEIR__THREADS_MAX;
    atomic_init(&work.next, 0);
    for (; started < threads && started < count; started++) {
        workers[started] = (worker_thread){.work = &work, .number = started};
        if (env->start_thread(env->context, take_pieces, &workers[started], &workers[started].thread) != 0)
            break;
    }
    workers[0] = (worker_thread){.work = &work, .number = 0};
    take_pieces(&workers[0]);
    for (uint32_t i = 1; i < started; i++)
        env->join_thread(env->context, workers[i].thread);
}

uint32_t weir__threads_or_processors(uint32_t threads) {
    if (threads == 0) {
        long processors = sysconf(_SC_NPROCESSORS_ONLN);
        threads = processors > 0 ? WEIR__NARROW(uint32_t, processors) : 1;
    }
    return threads < WEIR__THREADS_MAX ? threads : WEIR__THREADS_MAX;
}
