/* A fixed list of searches over one part, run on any number of threads with one result. See pack_batch.c. */
#ifndef WEIR_PLAN_PACK_BATCH_H
#define WEIR_PLAN_PACK_BATCH_H

#include <stdatomic.h>

#include "plan/pack_internal.h"

enum { WEIR__BATCH_TASKS_MAX = 24 };

typedef struct weir__batch weir__batch;

typedef struct weir__batch_outcome {
    weir__search_end end;
    uint64_t peak; /* UINT64_MAX if there is no layout */
    uint64_t steps;
} weir__batch_outcome;

typedef struct weir__batch_worker {
    weir__batch *batch;
    weir__corner *corner;
    weir_error *error; /* NULL: the caller's record is filled once, after the join */
    weir_status status;
    uintptr_t thread;
} weir__batch_worker;

struct weir__batch {
    const weir_env *env;
    const weir__part *part;
    const weir__search_task *tasks;
    unsigned task_count;
    uint64_t enough;
    atomic_uint next;
    atomic_uint decisive;
    uint64_t *offsets; /* WEIR__BATCH_TASKS_MAX layouts */
    weir__batch_outcome outcomes[WEIR__BATCH_TASKS_MAX];
    unsigned worker_count;
    weir__batch_worker workers[WEIR__PACK_THREADS_MAX];
};

weir_status weir__batch_open(const weir_env *env, const weir__part *part, unsigned threads,
                             weir__batch *batch, weir_error *error);
void weir__batch_close(weir__batch *batch);
/* Runs the tasks (1 to WEIR__BATCH_TASKS_MAX). A task is decisive where it is refuted or its peak is <=
 * enough. *best is the outcome chosen, with the steps of all tasks that count; *offsets stays valid until
 * the next run. */
weir_status weir__batch_run(weir__batch *batch, const weir__search_task *tasks, unsigned task_count,
                            uint64_t enough, weir__batch_outcome *best, const uint64_t **offsets,
                            weir_error *error);

#endif
