/* The row orders of a sequence: by reverse Cuthill-McKee, or the best of several (docs/spec/05-row-order.md).
 */
#ifndef WEIR_SRC_BATCH_ORDER_H
#define WEIR_SRC_BATCH_ORDER_H

#include "batch/walk.h"

/* A row and one of its neighbours. */
typedef struct weir__half_edge {
    uint16_t row;
    uint16_t neighbour;
} weir__half_edge;

/* What choosing the best order takes besides; all NULL where nobody asks for it. */
typedef struct weir__row_choice {
    uint16_t *first_tile; /* of each row's cells, in the order that is looked at */
    uint16_t *last_tile;
    uint32_t *key;
    uint64_t *tiles;  /* a bit each, by tile of the attending cells */
    uint16_t *orders; /* the candidates that both permutations share, rows each */
} weir__row_choice;

/* Scratch for the row orders of one sequence. */
typedef struct weir__row_orders {
    uint32_t *edge_starts;       /* of each row's foreign keys among the edges: rows + 1 */
    uint64_t *parent_masks;      /* of each row: bit p % 64 is set where p is a parent */
    uint32_t *starts;            /* of each row's neighbours: rows + 1 */
    weir__half_edge *half_edges; /* by the row's (key, number) */
    uint16_t *neighbours;        /* of each row, by (key, number) */
    uint32_t *ends;              /* while lists are filled */
    uint32_t *degree;
    uint32_t *children;
    uint32_t *key_starts;
    uint16_t *by_key; /* rows by (key, number) */
    uint16_t *queue;  /* rows as they are placed */
    uint8_t *placed;
    weir__row_choice choice;
} weir__row_orders;

WEIR_CHECKED weir_status weir__row_orders_open(weir__row_orders *orders, const weir_env *env, uint32_t rows,
                                               uint32_t edges, weir_error *error);
/* Takes what weir__best_row_order needs too, for sequences of up to `cells` cells. */
WEIR_CHECKED weir_status weir__row_choice_open(weir__row_orders *orders, const weir_env *env, uint32_t rows,
                                               uint32_t cells, weir_error *error);
void weir__row_orders_close(weir__row_orders *orders, const weir_env *env);

/* Drops doubles from edges that come by child; returns how many are left. */
uint32_t weir__unique_edges(struct weir__local_edge *edges, uint32_t count);

/* The final (reversed) order of the rows of a sequence, keyed by degree (`out`) and by number of children
 * (`in`). The edges come by child, without doubles. */
void weir__row_order(weir__row_orders *orders, uint32_t rows, const struct weir__local_edge *edges,
                     uint32_t edge_count, uint16_t *out, uint16_t *in);

/* The same, with the order for each that uses the fewest tiles. Row r's cells are those from starts[r] up to
 * starts[r + 1]. */
void weir__best_row_order(weir__row_orders *orders, uint32_t rows, const uint32_t *starts,
                          const struct weir__local_edge *edges, uint32_t edge_count, uint16_t *out,
                          uint16_t *in);

/* ---- For the two files that share the scratch ------------------------------------------------- */

/* Rows by (key, number) into by_key; keys are at most the number of rows. */
void weir__sort_rows(weir__row_orders o, uint32_t rows, const uint32_t *key);
/* Every row's neighbours in the order of by_key. */
void weir__sort_neighbours(weir__row_orders o, uint32_t rows, const struct weir__local_edge *edges,
                           uint32_t edge_count);
/* Fills `queue` from `count` on with the rows that are not placed: each start is the first of by_key that is
 * not, followed by what it leads to, breadth first. */
void weir__spread_rows(weir__row_orders o, uint32_t rows, uint32_t count);

#endif
