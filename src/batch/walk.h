/* The walk: from a seed's row along foreign keys, parents first, children by chance, to the rows of a
 * sequence. */
#ifndef WEIR_SRC_BATCH_WALK_H
#define WEIR_SRC_BATCH_WALK_H

#include "base/philox_many.h"
#include "batch/task.h"

typedef struct weir__walked_row {
    uint32_t row;
    uint32_t table;
    const uint8_t *record;
    const weir__row_rules *rules; /* its cells */
    uint32_t first_cell;          /* position of the first of them in the sequence */
} weir__walked_row;

/* An entry of the table of known rows; see walk.c. */
typedef struct weir__known_row {
    uint32_t row;
    uint16_t local;
    uint16_t stamp; /* generation and two flags */
} weir__known_row;

/* A child in the list of its level. Its priority is the draw of that number, made only if the level is
 * reached. */
typedef struct weir__listed_row {
    uint32_t row;
    uint32_t draw;
    uint32_t next; /* in the level's list; WEIR_NONE ends it */
    uint32_t table;
} weir__listed_row;

/* A child of the level that is being visited. */
typedef struct weir__ranked_row {
    uint64_t priority;
    uint32_t row;
    uint32_t table;
} weir__ranked_row;

enum { WEIR__LEVELS = 66 }; /* the anchor's 0, and 1 to max_hops, which is at most 64 */

typedef struct weir__queued_row {
    uint32_t row;
    uint16_t hop;
    uint16_t table;
} weir__queued_row;

typedef struct weir__walk {
    const weir__task_rules *rules;
    const weir_store *store;
    uint32_t sequence_length;
    uint32_t max_rows;
    uint32_t max_hops;
    uint32_t child_width;
    weir_child_policy policy;

    /* The rows of the sequence, in visit order, and its cells before the cut. */
    weir__walked_row *rows;
    uint32_t row_count;
    uint32_t cell_count;

    /* Visible foreign keys between rows of the sequence, as local numbers. */
    struct weir__local_edge {
        uint16_t child;
        uint16_t parent;
    } * edges;
    uint32_t edge_count;

    /* Scratch. */
    weir__known_row *known;
    weir__known_row *known_spare; /* where the table moves when it grows */
    uint32_t known_count;
    uint32_t known_mask;
    uint32_t known_mask_max;
    uint16_t generation;
    weir__queued_row *queue;
    uint32_t queue_begin, queue_end, queue_mask;
    weir__listed_row *listed;
    uint32_t listed_count;
    uint32_t level_first[WEIR__LEVELS];
    uint32_t level_last[WEIR__LEVELS];
    uint32_t level; /* that is being visited; all levels below it are empty for good */
    weir__ranked_row *heap;
    uint32_t heap_count;
    uint32_t *taken;       /* child_width places */
    uint32_t *taken_table; /* open table over them, for wide draws */
    uint32_t taken_mask;

    /* The seed under way, and the row that is visited next: chosen, with what its visit reads being
     * fetched. */
    struct weir__next_row {
        uint32_t row;
        uint32_t table;
        uint16_t hop;
        bool is_near; /* the second round of fetches is under way too */
    } next;
    bool is_done;
    int64_t observation_time;
    weir_seed seed;
    uint64_t position;
    uint32_t draw_count;
    uint32_t draws_block; /* which 16 draws are at hand */
    weir__draws draws;
    weir__philox_kernel *philox;
    bool is_corrupt; /* a number of the store led nowhere */
} weir__walk;

WEIR_CHECKED weir_status weir__walk_open(weir__walk *walk, const weir_env *env, const weir__task_rules *rules,
                                         const weir_store *store, const weir_batch_config *config,
                                         weir_error *error);
void weir__walk_close(weir__walk *walk, const weir_env *env);

/* A walk is begun and then taken step by step until weir__walk_step says false: then it is done, or the
 * store is damaged (is_corrupt). A step only touches memory that an earlier one has asked for, so that
 * several walks, each taking a step in turn, wait for their cache misses together. */
void weir__walk_begin(weir__walk *walk, weir_seed walk_seed, uint64_t position, uint32_t row,
                      int64_t observation_time);
bool weir__walk_step(weir__walk *walk);

/* The most foreign keys that a row of the store has. */
uint32_t weir__most_parents(const weir_store_info *info);

#endif
