/* Windows of time taken out and packed again: see pack_windows.c. */
#ifndef WEIR_PLAN_PACK_WINDOWS_H
#define WEIR_PLAN_PACK_WINDOWS_H

#include "plan/pack_first_fit.h"

typedef struct weir_pack__windows {
    weir__arena memory; /* of all arrays */
    const weir_pack__sweep *sweep;
    weir_pack__first_fit fit;
    uint64_t *keys;   /* by row: largest goes first */
    uint32_t *weight; /* by row, in 1/256: grows each time that the row ends too high */
    weir__record *queue, *spare;
    uint64_t *kept;  /* old offsets of the rows in the queue's window */
    uint32_t *taken; /* these rows */
    uint32_t *high;  /* rows that pass the goal */
    uint32_t high_count;
    bool *is_high; /* by row: stands in `high` */
    uint64_t goal;
    uint64_t peak; /* of the best layout that was loaded or found; 0: none */
    uint64_t random;
    uint64_t tries;
} weir_pack__windows;

weir_status weir_pack__windows_open(const weir_env *env, const weir_pack__sweep *sweep, weir_pack__windows *w,
                                    weir_error *error);
void weir_pack__windows_close(weir_pack__windows *w);

/* First fit of every row, largest key first. Takes w->fit.cost steps at most. */
void weir_pack__windows_fit(weir_pack__windows *w, uint64_t *offsets, uint64_t *steps);

/* Improves a layout until its peak is at most `floor` or the steps have reached `limit`. Nothing that is
 * known from an earlier call is lost. */
void weir_pack__windows_run(weir_pack__windows *w, uint64_t floor, uint64_t limit, uint64_t *offsets,
                            uint64_t *peak, uint64_t *steps);

#endif
