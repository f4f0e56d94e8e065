/* First fit among neighbours: see pack_first_fit.c. */
#ifndef WEIR_PLAN_PACK_FIRST_FIT_H
#define WEIR_PLAN_PACK_FIRST_FIT_H

#include "plan/pack_internal.h"

enum { WEIR_PACK__FIRST_FIT_BUCKETS = 256 };

/* Where a row lies, once it does. */
typedef struct weir_pack__place {
    uint64_t from, to;
    uint64_t upper; /* of its lifetime */
} weir_pack__place;

typedef struct weir_pack__span {
    uint64_t from, to;
} weir_pack__span;

typedef struct weir_pack__first_fit {
    weir__arena memory; /* of all arrays */
    const weir_pack__sweep *sweep;
    weir_pack__place *places; /* by row */
    uint64_t *placed;         /* a bit per row: lies somewhere */
    uint32_t *born_before;    /* by row: how many rows are born before it dies */
    uint32_t spacing;         /* rows between two lists */
    size_t *lists_at; /* list i has what lives when row i * spacing is born, and ends where the next begins */
    uint32_t *lists;
    uint64_t cost; /* steps to place every row once */
    weir_pack__span *spans;
    weir__record *sorted; /* those of one bucket by offset, and as much scratch */
    uint32_t *next;       /* links of the buckets */
    uint32_t heads[WEIR_PACK__FIRST_FIT_BUCKETS];
    uint64_t steps; /* grows */
} weir_pack__first_fit;

/* All rows lie nowhere. Fails with OUT_OF_MEMORY only. */
weir_status weir_pack__first_fit_open(const weir_env *env, const weir_pack__sweep *sweep,
                                      weir_pack__first_fit *fit, weir_error *error);
void weir_pack__first_fit_close(weir_pack__first_fit *fit);

/* The lowest offset at which a row meets none of those that lie somewhere. */
uint64_t weir_pack__first_fit_find(weir_pack__first_fit *fit, uint32_t row);

static inline void weir_pack__first_fit_put(weir_pack__first_fit *fit, uint32_t row, uint64_t offset) {
    fit->places[row].from = offset;
    fit->places[row].to = offset + fit->sweep->rows[row].size;
    fit->placed[row / 64] |= UINT64_C(1) << row % 64;
}

static inline void weir_pack__first_fit_take(weir_pack__first_fit *fit, uint32_t row) {
    fit->placed[row / 64] &= ~(UINT64_C(1) << row % 64);
}

/* The rank of each row for first fit: its size, less if it never lives at a full moment; at most 2^48. `load`
 * and `stack` are scratch; all have an entry per row. */
void weir_pack__first_fit_keys(const weir_pack__first_fit *fit, uint64_t *load, uint32_t *stack,
                               uint64_t *keys);

#endif
