/* The order of a sequence's rows in two of its permutations: reverse Cuthill-McKee. */
#ifndef WEIR_SRC_BATCH_ORDER_H
#define WEIR_SRC_BATCH_ORDER_H

#include "batch/walk.h"

/* Scratch for the row orders of one sequence. */
typedef struct weir__row_orders {
    uint32_t *degree;
    uint32_t *children;     /* how many */
    uint64_t *parent_masks; /* of each row: bit p % 64 is set where p is a parent */
    uint32_t *starts;       /* of each row's neighbours: rows + 1 */
    uint32_t *ends;         /* while lists are filled */
    uint16_t *neighbours;
    uint32_t *ranked; /* rows as (key, number) */
    uint32_t *queue;  /* the same, as they are placed */
    uint8_t *placed;
} weir__row_orders;

/* For at most that many. */
void weir__row_orders_carve(weir__row_orders *orders, weir__block *block, uint64_t rows, uint64_t edges);

/* Drops doubles from edges that come by child, between `rows` rows; returns how many are left. */
uint32_t weir__unique_edges(const weir__row_orders *orders, uint32_t rows, struct weir__local_edge *edges,
                            uint32_t count);

/* The final (reversed) order of the rows of a sequence, keyed by degree (`out`) and by number of children
 * (`in`). The edges come by child, without doubles. */
void weir__row_order(const weir__row_orders *orders, uint32_t rows, const struct weir__local_edge *edges,
                     uint32_t edge_count, uint16_t *out, uint16_t *in);

#endif
