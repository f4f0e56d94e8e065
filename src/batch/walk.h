/* The walk: from a seed's row along foreign keys, parents first, children by chance, to the rows of a
 * sequence. */
#ifndef WEIR_SRC_BATCH_WALK_H
#define WEIR_SRC_BATCH_WALK_H

#include "batch/choose.h"
#include "batch/known.h"
#include "batch/levels.h"
#include "batch/task.h"

typedef struct weir__walked_row {
    uint32_t row;
    uint32_t table;
    const uint8_t *record;
    const weir__row_rules *rules; /* its cells */
    uint32_t first_cell;          /* position of the first of them in the sequence */
} weir__walked_row;

typedef struct weir__queued_row {
    uint32_t row;
    uint16_t hop;
    uint16_t table;
} weir__queued_row;

/* A visible foreign key of a row of the sequence. */
typedef struct weir__link {
    uint32_t parent;
    uint16_t table; /* the parent's */
    uint16_t child; /* local number */
} weir__link;

typedef struct weir__walk {
    const weir__task_rules *rules;
    const weir_store *store;
    uint32_t sequence_length;
    uint32_t max_rows;
    uint32_t max_hops;
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
    weir__known_rows known;
    weir__queued_row *queue; /* parents, first in, first out */
    uint32_t queue_begin, queue_end, queue_mask;
    weir__levels levels;
    weir__chooser chooser;
    weir__walk_draws draws;
    weir__link *links;
    uint32_t link_count;

    /* The row that is visited next: chosen, with what its visit reads being fetched. */
    struct weir__next_row {
        const uint8_t *record;
        uint32_t row;
        uint32_t table;
        uint16_t hop;
        uint32_t first_link;
    } next;
    int64_t observation_time;
    bool is_corrupt; /* a part of the store is damaged, or a number of it led nowhere */
} weir__walk;

WEIR_CHECKED weir_status weir__walk_open(weir__walk *walk, const weir_env *env, const weir__task_rules *rules,
                                         const weir_store *store, const weir_batch_config *config,
                                         weir_error *error);
void weir__walk_close(weir__walk *walk, const weir_env *env);

/* A walk is begun; then it looks and visits, row by row, until weir__walk_visit says false: then it is done,
 * or the store is damaged (is_corrupt). What a row says is asked for long before it is looked at, and what
 * that leads to before it is visited, so that several walks that take turns wait for their cache misses
 * together. */
void weir__walk_begin(weir__walk *walk, weir_seed walk_seed, uint64_t position, uint32_t row,
                      int64_t observation_time);
void weir__walk_look(weir__walk *walk);
bool weir__walk_visit(weir__walk *walk);

/* The most foreign keys that a row of the store has. */
uint32_t weir__most_parents(const weir_store_info *info);

#endif
