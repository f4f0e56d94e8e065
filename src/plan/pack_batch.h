/* A fixed list of searches over one part, run on any number of threads with one result. See pack_batch.c. */
#ifndef WEIR_PLAN_PACK_BATCH_H
#define WEIR_PLAN_PACK_BATCH_H

#include <stdatomic.h>

#include "plan/pack_internal.h"

enum { WEIR_PACK__BATCH_TASKS_MAX = 24 };

typedef struct weir_pack__batch_outcome {
    weir_pack__search_end end;
    uint64_t peak; /* UINT64_MAX if there is no layout */
    uint64_t steps;
} weir_pack__batch_outcome;

typedef struct weir_pack__batch {
    const weir_env *env;
    const weir_pack__part *part;
    const weir_pack__search_task *tasks;
    uint64_t enough;
    atomic_uint decisive; /* the first decisive task known so far, or the last of all */
    atomic_bool is_short_of_memory;
    uint64_t *offsets; /* WEIR_PACK__BATCH_TASKS_MAX layouts */
    weir_pack__batch_outcome outcomes[WEIR_PACK__BATCH_TASKS_MAX];
    unsigned worker_count;
    weir_pack__corner *corners[WEIR_PACK__THREADS_MAX]; /* a worker's */
} weir_pack__batch;

weir_status weir_pack__batch_open(const weir_env *env, const weir_pack__part *part, unsigned threads,
                                  weir_pack__batch *batch, weir_error *error);
void weir_pack__batch_close(weir_pack__batch *batch);
/* Runs the tasks (1 to WEIR_PACK__BATCH_TASKS_MAX). A task is decisive where it is refuted or its peak is <=
 * enough. *best is the outcome chosen, with the steps of all tasks that count; *offsets stays valid until
 * the next run. */
weir_status weir_pack__batch_run(weir_pack__batch *batch, const weir_pack__search_task *tasks,
                                 unsigned task_count, uint64_t enough, weir_pack__batch_outcome *best,
                                 const uint64_t **offsets, weir_error *error);

#endif
