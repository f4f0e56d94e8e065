/* The permutations of a sequence: cells by column, rows by reverse Cuthill-McKee. */
#ifndef WEIR_SRC_BATCH_ORDER_H
#define WEIR_SRC_BATCH_ORDER_H

#include "batch/walk.h"

/* A row and one of its neighbours. */
typedef struct weir__half_edge {
    uint16_t row;
    uint16_t neighbour;
} weir__half_edge;

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
} weir__row_orders;

WEIR_CHECKED weir_status weir__row_orders_open(weir__row_orders *orders, const weir_env *env, uint32_t rows,
                                               uint32_t edges, weir_error *error);
void weir__row_orders_close(weir__row_orders *orders, const weir_env *env);

/* Removes duplicates from edges that are sorted by child, between `rows` rows; returns how many are left. */
uint32_t weir__unique_edges(weir__row_orders *orders, uint32_t rows, struct weir__local_edge *edges,
                            uint32_t count);

/* The final (reversed) order of the rows of a sequence, keyed by degree (`out`) and by number of children
 * (`in`). The edges come by child, without doubles. */
void weir__row_order(weir__row_orders *orders, uint32_t rows, const struct weir__local_edge *edges,
                     uint32_t edge_count, uint16_t *out, uint16_t *in);

#endif
