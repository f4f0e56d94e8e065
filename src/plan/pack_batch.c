/* A batch: a fixed list of searches over one part, on any number of threads, with one result.
 *
 * A task is *decisive* when it refutes its capacity or finds a layout that is good enough. The result is a
 * function of the tasks up to the first decisive one in list order: the least peak, the lowest number of
 * equals. Threads take tasks in order and stop past the first decisive task known so far; what was run
 * beyond it is forgotten, steps included, so one thread and many give the same answer. */
#include "plan/pack_batch.h"

static void lower_decisive(atomic_uint *decisive, unsigned index) {
    unsigned seen = atomic_load(decisive);
    while (index < seen && !atomic_compare_exchange_weak(decisive, &seen, index))
        continue;
}

static uint64_t peak_of(const weir_pack__part *part, const uint64_t *offsets) {
    uint64_t peak = 0;
    for (uint32_t i = 0; i < part->count; i++)
        if (offsets[i] + part->size[i] > peak)
            peak = offsets[i] + part->size[i];
    return peak;
}

static void *run_worker(void *argument) {
    weir_pack__batch_worker *worker = argument;
    weir_pack__batch *batch = worker->batch;
    for (;;) {
        unsigned index = atomic_fetch_add(&batch->next, 1);
        if (index >= batch->task_count || index > atomic_load(&batch->decisive))
            return NULL;
        weir_pack__batch_outcome *outcome = &batch->outcomes[index];
        uint64_t *offsets = batch->offsets + (size_t)index * batch->part->count;
        *outcome = (weir_pack__batch_outcome){.peak = UINT64_MAX};
        worker->status = weir_pack__corner_run(worker->corner, &batch->tasks[index], offsets, &outcome->end,
                                               &outcome->steps, worker->error);
        if (worker->status) {
            atomic_store(&batch->next, batch->task_count);
            return NULL;
        }
        if (outcome->end == WEIR_PACK__SEARCH_SOLVED)
            outcome->peak = peak_of(batch->part, offsets);
        if (outcome->end == WEIR_PACK__SEARCH_REFUTED || outcome->peak <= batch->enough)
            lower_decisive(&batch->decisive, index);
    }
}

static weir_status run_workers(weir_pack__batch *batch, weir_error *error) {
    unsigned started = 1;
    unsigned wanted = batch->task_count < batch->worker_count ? batch->task_count : batch->worker_count;
    weir_pack__batch_worker *workers = batch->workers;
    for (; started < wanted; started++)
        if (batch->env->start_thread(batch->env->context, run_worker, &workers[started],
                                     &workers[started].thread))
            break;
    run_worker(&workers[0]);
    for (unsigned i = 1; i < started; i++)
        batch->env->join_thread(batch->env->context, workers[i].thread);
    for (unsigned i = 0; i < started; i++)
        if (workers[i].status)
            return weir__out_of_memory(error, WEIR_PACK__OPERATOR, 0);
    return WEIR_OK;
}

weir_status weir_pack__batch_run(weir_pack__batch *batch, const weir_pack__search_task *tasks,
                                 unsigned task_count, uint64_t enough, weir_pack__batch_outcome *best,
                                 const uint64_t **offsets, weir_error *error) {
    batch->tasks = tasks;
    batch->task_count = task_count;
    batch->enough = enough;
    atomic_store(&batch->next, 0);
    atomic_store(&batch->decisive, task_count - 1);
    weir_status status = run_workers(batch, error);
    if (status)
        return status;
    unsigned last = atomic_load(&batch->decisive);
    unsigned chosen = last;
    uint64_t steps = 0;
    for (unsigned i = 0; i <= last; i++) {
        steps += batch->outcomes[i].steps;
        if (batch->outcomes[i].peak < batch->outcomes[chosen].peak ||
            (batch->outcomes[i].peak == batch->outcomes[chosen].peak && i < chosen &&
             batch->outcomes[i].peak != UINT64_MAX))
            chosen = i;
    }
    *best = batch->outcomes[chosen];
    best->steps = steps;
    *offsets = batch->offsets + (size_t)chosen * batch->part->count;
    return WEIR_OK;
}

weir_status weir_pack__batch_open(const weir_env *env, const weir_pack__part *part, unsigned threads,
                                  weir_pack__batch *batch, weir_error *error) {
    *batch = (weir_pack__batch){.env = env, .part = part};
    batch->offsets =
        weir__allocate(env, (size_t)WEIR_PACK__BATCH_TASKS_MAX * part->count, sizeof *batch->offsets);
    if (!batch->offsets)
        return weir__out_of_memory(error, WEIR_PACK__OPERATOR, part->count * sizeof *batch->offsets);
    threads = threads < 1 ? 1 : threads > WEIR_PACK__THREADS_MAX ? WEIR_PACK__THREADS_MAX : threads;
    for (; batch->worker_count < threads; batch->worker_count++) {
        weir_pack__batch_worker *worker = &batch->workers[batch->worker_count];
        worker->batch = batch;
        weir_status status = weir_pack__corner_open(env, part, &worker->corner, error);
        if (status) {
            weir_pack__batch_close(batch);
            return status;
        }
    }
    return WEIR_OK;
}

void weir_pack__batch_close(weir_pack__batch *batch) {
    for (unsigned i = 0; i < batch->worker_count; i++)
        weir_pack__corner_close(batch->workers[i].corner);
    if (batch->env)
        weir__release(batch->env, batch->offsets);
    *batch = (weir_pack__batch){0};
}
