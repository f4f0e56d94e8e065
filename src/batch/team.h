/* Threads that take the walks of one sequence together (retrieve.h), so that a context on demand is there
 * sooner. Each counts the visits of the walks that it takes; the sums do not depend on who took which. */
#ifndef WEIR_BATCH_TEAM_H
#define WEIR_BATCH_TEAM_H

#include "base/crew.h"
#include "batch/recipe.h"
#include "batch/retrieve.h"

typedef struct weir_batch__team {
    const weir_env *env; /* NULL: not open */
    weir__block block;
    weir__crew crew;                /* with the caller's thread as its lead */
    weir_batch__retriever *helpers; /* one for each of its other threads */
    uint32_t helper_count;
    weir_batch__retriever *lead;
    const weir_batch__outlook *outlook; /* of the sequence that is at hand, … */
    const weir_batch__budget *budget;
    uint64_t sequence; /* … which has this number */
} weir_batch__team;

/* How many threads to use if the caller says 0: two if there are as many processors and many steps to take.
 */
uint32_t weir_batch__team_size(const weir_batch__recipe *recipe, uint32_t threads);

/* Gives `lead` helpers, so that there are so many threads. Nothing is opened for one thread, or if there are
 * no walks. OUT_OF_MEMORY; close it also then. */
WEIR_CHECKED weir_status weir_batch__team_open(weir_batch__team *team, const weir_batch__recipe *recipe,
                                               weir_batch__retriever *lead, uint32_t threads,
                                               weir_error *error);
void weir_batch__team_close(weir_batch__team *team);

/* Takes the walks of a sequence that the lead has begun, and brings all visits to it. */
void weir_batch__walk_together(weir_batch__team *team, const weir_batch__outlook *outlook,
                               const weir_batch__budget *budget);

#endif
