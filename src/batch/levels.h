/* The children that a walk has found, by level (their hop), and the order in which a level is visited: by
 * (priority, table, row). Priorities are drawn, or given with the rows where the latest children come first.
 */
#ifndef WEIR_BATCH_LEVELS_H
#define WEIR_BATCH_LEVELS_H

#include "base/block.h"
#include "batch/draws.h"

/* Children that were listed together: of one parent, along one edge type. If their priorities are drawn, it
 * is by draws that follow each other. */
typedef struct weir_batch__child_run {
    uint32_t first; /* among all listed rows */
    uint32_t count;
    uint32_t first_draw;
    uint32_t table;
    uint32_t next; /* run of the level; WEIR_NONE ends them */
} weir_batch__child_run;

/* A child of the level that is being visited. */
typedef struct weir_batch__ranked_row {
    uint64_t priority;
    uint32_t row;
    uint32_t table;
} weir_batch__ranked_row;

enum {
    WEIR_BATCH__LEVELS = 66, /* the anchor's 0, and 1 to max_hops, which is at most 64 */
    WEIR_BATCH__AHEAD = 8,   /* a power of 2 */
};

typedef struct weir_batch__levels {
    uint32_t *rows;       /* listed, one after the other, each by its place in the run's table */
    uint64_t *priorities; /* of each; NULL: they are drawn */
    uint32_t row_count;
    uint64_t room; /* for rows */
    weir_batch__child_run *runs;
    uint32_t run_count;
    uint32_t first_run[WEIR_BATCH__LEVELS];
    uint32_t last_run[WEIR_BATCH__LEVELS];

    uint32_t current; /* level that is being visited; all below it are empty for good */
    uint32_t last;    /* level that a walk can reach */
    weir_batch__ranked_row *ranked;
    uint32_t *next;        /* of a ranked row, in its bucket */
    uint32_t *buckets;     /* the first ranked row of each */
    uint64_t *filled;      /* a bit a bucket */
    uint32_t word;         /* of `filled`; all below it are empty */
    uint32_t ranked_count; /* in buckets, or in a heap if priorities are given */

    /* The next to be taken, least first: those from ahead_begin up to ahead_end, at WEIR_BATCH__AHEAD places
     * in turn. */
    weir_batch__ranked_row ahead[WEIR_BATCH__AHEAD];
    uint32_t ahead_begin, ahead_end;
} weir_batch__levels;

/* For at most `rows` listed rows in `runs` runs, with drawn or given priorities. */
void weir_batch__levels_carve(weir_batch__levels *levels, weir__block *block, uint64_t rows, uint64_t runs,
                              bool has_priorities);

/* Empty, with levels up to `last`. */
void weir_batch__levels_begin(weir_batch__levels *levels, uint32_t last);

/* Lists the `count` rows that the caller has written from rows + row_count on, as are their priorities if
 * they are given. */
void weir_batch__list_run(weir_batch__levels *levels, uint32_t level, uint32_t count, uint32_t table,
                          uint32_t first_draw);

/* Makes the next level that has children the current one; false if there is none. The current one must be
 * empty. */
bool weir_batch__reach_level(weir_batch__levels *levels, weir_batch__walk_draws *draws);

/* Puts the least children of the current level ahead, as many as there is room for. */
void weir_batch__look_ahead(weir_batch__levels *levels);

/* Takes the least child; false if none is ahead. weir_batch__look_ahead puts more there, unless the level is
 * empty. */
static inline bool weir_batch__take_child(weir_batch__levels *levels, weir_batch__ranked_row *out) {
    if (levels->ahead_begin == levels->ahead_end)
        return false;
    *out = levels->ahead[levels->ahead_begin++ % WEIR_BATCH__AHEAD];
    return true;
}

#endif
