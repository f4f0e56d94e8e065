/* Threads that build one batch together. A lane is a worker of the prefetcher: it leads the building of its
 * steps. If batches are large, there are fewer lanes than threads, and a step that a lane has begun is open
 * to all of them in units of some sequences: leads and helpers alike take the next unit of the oldest step
 * that has one. So the first batch is there as soon as all threads together can build it, and slots are
 * needed for the lanes alone.
 *
 * A lane's open phase is one word: its generation and the number of units that nobody has taken. Taking one
 * is a compare-and-swap, which fails if the phase is over, so what the lane says besides may be read after
 * it: the lead changes that only when all units are done. */
#ifndef WEIR_PIPELINE_CREW_H
#define WEIR_PIPELINE_CREW_H

#include <stdatomic.h>

#include "base/internal.h"
#include "pipeline/ring.h"

/* Does one unit of what a lane has open, as thread number `thread`. */
typedef void weir_pipeline__crew_work(void *context, void *job, uint32_t unit, uint32_t thread);

typedef struct weir_pipeline__lane {
    _Atomic uint64_t open; /* generation << 32 | units to take */
    _Atomic uint64_t step;
    _Atomic uint32_t undone; /* units that are not done */
    _Atomic uint32_t lead_sleeps;
    weir_pipeline__crew_work *work;
    void *job;
    uint8_t apart[WEIR_PIPELINE__CACHE_LINE]; /* from the next one */
} weir_pipeline__lane;

typedef struct weir_pipeline__crew {
    const weir_env *env;
    void *context;
    uint32_t lane_count;
    uint32_t helper_count; /* that were started */
    struct weir_pipeline__helper *helpers;
    weir_pipeline__lane *lanes;
    _Atomic uint32_t calls; /* counts what was opened; helpers sleep on it */
    _Atomic uint32_t sleepers;
    _Atomic bool is_over;
} weir_pipeline__crew;

/* Starts the helpers: threads number lane_count, lane_count + 1 … Close it also after a failure. */
WEIR_CHECKED weir_status weir_pipeline__crew_open(weir_pipeline__crew *crew, const weir_env *env,
                                                  uint32_t lane_count, uint32_t helper_count, void *context,
                                                  weir_error *error);

/* Waits for the helpers; no lane may be at work. In a child of fork, which has none, `is_here` is
 * false. */
void weir_pipeline__crew_close(weir_pipeline__crew *crew, bool is_here);

/* The lead of a lane: has `count` units of a step done by everybody, and returns when they are. */
void weir_pipeline__crew_share(weir_pipeline__crew *crew, uint32_t lane, uint64_t step, uint32_t count,
                               weir_pipeline__crew_work *work, void *job);

#endif
