/* The children that a walk has found, by level (their hop), and the order in which a level is visited: by
 * (priority, row). */
#ifndef WEIR_SRC_BATCH_LEVELS_H
#define WEIR_SRC_BATCH_LEVELS_H

#include "base/internal.h"
#include "batch/draws.h"

/* Children that were listed together: of one parent, along one edge type. Their priorities are draws that
 * follow each other. */
typedef struct weir__child_run {
    uint32_t first; /* among all listed rows */
    uint32_t count;
    uint32_t first_draw;
    uint32_t table;
    uint32_t next; /* run of the level; WEIR_NONE ends them */
} weir__child_run;

/* A child of the level that is being visited. */
typedef struct weir__ranked_row {
    uint64_t priority;
    uint32_t row;
    uint32_t table;
} weir__ranked_row;

enum { WEIR__LEVELS = 66 }; /* the anchor's 0, and 1 to max_hops, which is at most 64 */

typedef struct weir__levels {
    uint32_t *rows; /* listed, one after the other */
    uint32_t row_count;
    weir__child_run *runs;
    uint32_t run_count;
    uint32_t first_run[WEIR__LEVELS];
    uint32_t last_run[WEIR__LEVELS];

    uint32_t current; /* level that is being visited; all below it are empty for good */
    uint32_t last;    /* level that a walk can reach */
    weir__ranked_row *ranked;
    uint32_t *next; /* of a ranked row, in its bucket */
    uint32_t *buckets;
    uint32_t ranked_count;  /* in buckets */
    uint32_t bucket;        /* all below it are empty */
    weir__ranked_row ahead; /* the next to be taken, where has_ahead says so */
    bool has_ahead;
} weir__levels;

/* For at most `rows` listed rows in `runs` runs; false where there is no memory for them. */
bool weir__levels_open(weir__levels *levels, const weir_env *env, uint64_t rows, uint64_t runs,
                       uint32_t last_level);
void weir__levels_close(weir__levels *levels, const weir_env *env);
void weir__levels_begin(weir__levels *levels);

/* Lists the `count` rows that the caller has written from rows + row_count on. */
void weir__list_run(weir__levels *levels, uint32_t level, uint32_t count, uint32_t table,
                    uint32_t first_draw);

/* Takes the least child of the lowest level; false where none is left. Where the level has another one, it
 * is known ahead. */
bool weir__take_child(weir__levels *levels, weir__walk_draws *draws, weir__ranked_row *out);

#endif
