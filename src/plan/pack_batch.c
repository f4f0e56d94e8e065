/* A batch: a fixed list of searches over one part, on any number of threads, with one result.
 *
 * A task is *decisive* when it refutes its capacity or finds a layout that is good enough. The result is a
 * function of the tasks up to the first decisive one in list order: the least peak, the lowest number of
 * equals. Threads take tasks in order and stop past the first decisive task known so far; what was run
 * beyond it is forgotten, steps included, so one thread and many give the same answer. */
#include "plan/pack_batch.h"

#include "base/parallel.h"

static void run_task(void *context, size_t index, uint32_t worker) {
    weir_pack__batch *batch = context;
    const weir_pack__part *part = batch->part;
    if (index > atomic_load(&batch->decisive) || atomic_load(&batch->is_short_of_memory))
        return;
    weir_pack__batch_outcome *outcome = &batch->outcomes[index];
    uint64_t *offsets = batch->offsets + index * part->count;
    *outcome = (weir_pack__batch_outcome){.peak = UINT64_MAX};
    if (weir_pack__corner_run(batch->corners[worker], &batch->tasks[index], offsets, &outcome->end,
                              &outcome->steps, NULL)) {
        atomic_store(&batch->is_short_of_memory, true);
        return;
    }
    if (outcome->end == WEIR_PACK__SEARCH_SOLVED) {
        outcome->peak = 0;
        for (uint32_t i = 0; i < part->count; i++)
            if (offsets[i] + part->size[i] > outcome->peak)
                outcome->peak = offsets[i] + part->size[i];
    }
    if (outcome->end == WEIR_PACK__SEARCH_REFUTED || outcome->peak <= batch->enough) {
        unsigned seen = atomic_load(&batch->decisive);
        while (index < seen &&
               !atomic_compare_exchange_weak(&batch->decisive, &seen, WEIR__NARROW(unsigned, index)))
            continue;
    }
}

weir_status weir_pack__batch_run(weir_pack__batch *batch, const weir_pack__search_task *tasks,
                                 unsigned task_count, uint64_t enough, weir_pack__batch_outcome *best,
                                 const uint64_t **offsets, weir_error *error) {
    assert(task_count > 0 && task_count <= WEIR_PACK__BATCH_TASKS_MAX && "a batch has room for its tasks");
    batch->tasks = tasks;
    batch->enough = enough;
    atomic_store(&batch->decisive, task_count - 1);
    atomic_store(&batch->is_short_of_memory, false);
    weir__parallel(batch->env, batch->worker_count, task_count, run_task, batch);
    if (atomic_load(&batch->is_short_of_memory))
        return weir__out_of_memory(error, WEIR_PACK__OPERATOR, 0);
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
        weir_status status = weir_pack__corner_open(env, part, &batch->corners[batch->worker_count], error);
        if (status) {
            weir_pack__batch_close(batch);
            return status;
        }
    }
    return WEIR_OK;
}

void weir_pack__batch_close(weir_pack__batch *batch) {
    for (unsigned i = 0; i < batch->worker_count; i++)
        weir_pack__corner_close(batch->corners[i]);
    if (batch->env)
        weir__release(batch->env, batch->offsets);
    *batch = (weir_pack__batch){0};
}
