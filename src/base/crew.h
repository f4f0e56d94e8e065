/* Threads that stay and work together. A lane is a thread of the caller's that leads the work of its steps: a
 * step that it has begun is open to all in units, and leads and helpers alike take the next unit of the
 * oldest step that has one. A lead waits for units that others have taken, never for a helper to come: one
 * that is late, or does not exist (in a child of fork), is done without.
 *
 * A lane's open phase is one word: its generation and the number of units that nobody has taken. Taking one
 * is a compare-and-swap, which fails if the phase is over, so what the lane says besides may be read after
 * it: the lead changes that only when all units are done. */
#ifndef WEIR_BASE_CREW_H
#define WEIR_BASE_CREW_H

#include <stdatomic.h>

#include "base/fork_mark.h"
#include "base/sleep.h"

/* Does one unit of what a lane has open, as thread number `thread`. */
typedef void weir__crew_work(void *context, void *job, uint32_t unit, uint32_t thread);

typedef struct weir__lane {
    _Atomic uint64_t open; /* generation << 32 | units to take */
    _Atomic uint64_t step;
    _Atomic uint32_t undone; /* units that are not done */
    _Atomic uint32_t lead_sleeps;
    weir__crew_work *work;
    void *job;
    uint8_t apart[WEIR__CACHE_LINE]; /* from the next one */
} weir__lane;

typedef struct weir__crew {
    const weir_env *env;
    void *context;
    uint32_t lane_count;
    uint32_t helper_count; /* that were started */
    struct weir__helper *helpers;
    weir__fork_mark mark; /* of the process that has them */
    weir__lane *lanes;
    _Atomic uint32_t calls; /* counts what was opened; helpers sleep on it */
    _Atomic uint32_t sleepers;
    _Atomic bool is_over;
} weir__crew;

/* Starts the helpers: threads number lane_count, lane_count + 1 … OUT_OF_MEMORY. Close it also after a
 * failure. */
WEIR_CHECKED weir_status weir__crew_open(weir__crew *crew, const weir_env *env, uint32_t lane_count,
                                         uint32_t helper_count, void *context, weir_error *error);

/* Waits for the helpers, unless this is a child of fork, which has none; no lane may be at work. */
void weir__crew_close(weir__crew *crew);

/* The lead of a lane: has `count` units of a step done by everybody, and returns when they are. */
void weir__crew_share(weir__crew *crew, uint32_t lane, uint64_t step, uint32_t count, weir__crew_work *work,
                      void *job);

#endif
