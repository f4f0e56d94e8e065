/* The order of a sequence's rows in two of its permutations: reverse Cuthill-McKee, or the best of several
 * (docs/spec/05-row-order.md). */
#ifndef WEIR_BATCH_CUTHILL_MCKEE_H
#define WEIR_BATCH_CUTHILL_MCKEE_H

#include "batch/walk.h"

/* What choosing the best order takes besides; all NULL if nobody asks for it. */
typedef struct weir_batch__row_choice {
    uint16_t *first_tile; /* of each row's cells, in the order that is looked at */
    uint16_t *last_tile;
    uint32_t *key;
    uint32_t *starts; /* of each row's cells: rows + 1 */
    uint64_t *tiles;  /* a bit each, by tile of the attending cells */
    uint16_t *orders; /* the candidates that both permutations share, rows each */
} weir_batch__row_choice;

/* Scratch for the row orders of one sequence. */
typedef struct weir_batch__row_orders {
    uint32_t *degree;
    uint32_t *children;     /* how many */
    uint64_t *parent_masks; /* of each row: bit p % 64 is set where p is a parent */
    uint32_t *starts;       /* of each row's neighbours: rows + 1 */
    uint32_t *ends;         /* while lists are filled */
    uint16_t *neighbours;
    uint32_t *ranked; /* rows as (key, number) */
    uint32_t *queue;  /* the same, as they are placed */
    uint8_t *placed;
    weir_batch__row_choice choice;
} weir_batch__row_orders;

/* For at most that many. */
void weir_batch__row_orders_carve(weir_batch__row_orders *orders, weir__block *block, uint64_t rows,
                                  uint64_t edges);
/* Takes what weir_batch__best_row_order needs too, for sequences of up to `cells` cells. */
void weir_batch__row_choice_carve(weir_batch__row_orders *orders, weir__block *block, uint64_t rows,
                                  uint64_t cells);

/* Drops doubles from edges that come by child, between `rows` rows; returns how many are left. */
uint32_t weir_batch__unique_edges(const weir_batch__row_orders *orders, uint32_t rows,
                                  struct weir_batch__local_edge *edges, uint32_t count);

/* The final (reversed) order of the rows of a sequence, keyed by degree (`out`) and by number of children
 * (`in`). The edges come by child, without doubles. */
void weir_batch__row_order(const weir_batch__row_orders *orders, uint32_t rows,
                           const struct weir_batch__local_edge *edges, uint32_t edge_count, uint16_t *out,
                           uint16_t *in);

/* The same, with the order for each that uses the fewest tiles. Row r's cells are those from choice.starts[r]
 * up to choice.starts[r + 1]. */
void weir_batch__best_row_order(const weir_batch__row_orders *orders, uint32_t rows,
                                const struct weir_batch__local_edge *edges, uint32_t edge_count,
                                uint16_t *out, uint16_t *in);

/* ---- For the two files that share the scratch ------------------------------------------------- */

/* `ranked`, the rows by (key, number) in the order of their numbers; keys are at most 65535. */
void weir_batch__rank_rows(const weir_batch__row_orders *o, uint32_t rows, const uint32_t *key);

/* Fills `queue` from `count` on with the rows that are not placed: first what those that are lead to, breadth
 * first and by rank; then the least unplaced row and what it leads to, until all are. */
void weir_batch__spread_rows(const weir_batch__row_orders *o, uint32_t rows, uint32_t count);

#endif
