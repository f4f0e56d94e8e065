/* The random numbers of one walk, by their number d, made 16 at a time. */
#ifndef WEIR_BATCH_DRAWS_H
#define WEIR_BATCH_DRAWS_H

#include "base/philox_many.h"

typedef struct weir_batch__walk_draws {
    weir__philox_kernel *philox;
    weir_seed seed;
    uint64_t position;
    uint32_t next;  /* d of the next draw */
    uint32_t first; /* d of the first one at hand */
    weir__draws at_hand;
} weir_batch__walk_draws;

/* Makes 16 draws from the d-th on. */
static inline const weir__draws *weir_batch__draws_from(weir_batch__walk_draws *draws, uint32_t d) {
    draws->philox(draws->seed, WEIR_DOMAIN_WALK, draws->position, d, &draws->at_hand);
    draws->first = d;
    return &draws->at_hand;
}

static inline void weir_batch__draws_begin(weir_batch__walk_draws *draws, weir_seed seed, uint64_t position) {
    draws->seed = seed;
    draws->position = position;
    draws->next = 0;
    (void)weir_batch__draws_from(draws, 0);
}

/* draw64() as it was, or will be, the d-th time. */
static inline uint64_t weir_batch__draw64_at(weir_batch__walk_draws *draws, uint32_t d) {
    if (d - draws->first >= WEIR__DRAWS)
        (void)weir_batch__draws_from(draws, d);
    return draws->at_hand.k0[d - draws->first];
}

#endif
