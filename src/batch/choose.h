/* Which of a row's children are taken. */
#ifndef WEIR_BATCH_CHOOSE_H
#define WEIR_BATCH_CHOOSE_H

#include "base/block.h"
#include "batch/draws.h"

/* Up to 16 of the numbers below n, which is larger, by the draws that come next: written once, compiled for
 * each instruction set. `taken` has 16 places. */
typedef void weir_batch__narrow_choice(const weir_batch__walk_draws *draws, uint32_t width, uint32_t n,
                                       uint32_t taken[WEIR__DRAWS]);
void weir_batch__choose_narrow_baseline(const weir_batch__walk_draws *draws, uint32_t width, uint32_t n,
                                        uint32_t taken[WEIR__DRAWS]);
#if defined(__x86_64__)
void weir_batch__choose_narrow_avx2(const weir_batch__walk_draws *draws, uint32_t width, uint32_t n,
                                    uint32_t taken[WEIR__DRAWS]);
void weir_batch__choose_narrow_avx512(const weir_batch__walk_draws *draws, uint32_t width, uint32_t n,
                                      uint32_t taken[WEIR__DRAWS]);
#endif

typedef struct weir_batch__chooser {
    uint32_t width; /* child_width */
    uint32_t table_mask;
    uint32_t *taken; /* at least that many places */
    uint32_t *table; /* open table over them, for wide choices; zeros */
    weir_batch__narrow_choice *narrow;
} weir_batch__chooser;

void weir_batch__chooser_carve(weir_batch__chooser *chooser, weir__block *block, uint32_t width);

/* Floyd's method: `width` of the numbers below n, which is larger, ascending, into `taken`; without looking
 * at the rest. */
void weir_batch__choose(weir_batch__chooser *chooser, weir_batch__walk_draws *draws, uint32_t n);

#endif
