/* A batch's buffer: where its parts lie, and what was written there, so that the next batch clears no more
 * than it must. */
#ifndef WEIR_SRC_BATCH_BUFFER_H
#define WEIR_SRC_BATCH_BUFFER_H

#include "batch/walk.h"
#include "weir/batch.h"

/* What the sizes of a batch depend on, at their largest. */
typedef struct weir__batch_limits {
    uint32_t sequences;
    uint32_t length;
    uint32_t rows;
    uint32_t texts;
    uint32_t dim;
    uint32_t edges; /* foreign keys of one sequence */
} weir__batch_limits;

struct weir_batch_buffer {
    const weir_env *env;
    weir__batch_limits limits;
    uint8_t *data;
    uint64_t capacity;
    bool owns_data;
    uint64_t written; /* bytes from here on are 0: no batch has been there */
    weir_batch batch;
    uint64_t *epochs;
    uint64_t *digests;
    uint32_t *rows; /* limits.rows a sequence */

    /* Of the batch that is in the buffer: what a sequence wrote beyond the dense parts. */
    uint32_t *cell_counts;          /* cells, at most S */
    uint32_t *timestamp_counts;     /* its timestamp cells … */
    uint16_t *timestamp_cells;      /* … and where, by column, S a sequence */
    int64_t *timestamps;            /* … and when, in microseconds */
    uint32_t *edge_counts;          /* set entries of fk_adj … */
    struct weir__local_edge *edges; /* … and which, limits.edges a sequence */
    uint8_t *column_orders;         /* col_perm up to the padding, as delivered, S a sequence */
    uint32_t *row_starts;           /* where each row's cells begin, and the end: rows + 1 a sequence */
    uint16_t *row_orders;           /* out and in order, rows each */
    weir_statistics timestamps_of;  /* the store of the batch */
    bool has_batch;                 /* the lists describe what is in the buffer */
};

/* Sets dims B and S, and the places of the first eleven tensors, which depend on nothing else. */
void weir__batch_place_cells(weir_batch *batch, uint32_t sequences, uint32_t length);

/* Sets dims R and U, and the places of the rest. */
void weir__batch_place_rest(weir_batch *batch, uint32_t rows, uint32_t texts, uint32_t dim);

/* UINT64_MAX if it does not fit 64 bits. */
uint64_t weir__batch_capacity(const weir__batch_limits *limits);

WEIR_CHECKED weir_status weir__batch_buffer_open(const weir_env *env, const weir__batch_limits *limits,
                                                 void *memory, weir_batch_buffer **out, weir_error *error);

/* Where sequence `index` of a part begins. */
static inline uint8_t *weir__part_of(weir_batch_buffer *buffer, weir_tensor_id id, uint32_t index) {
    const weir_tensor *tensor = &buffer->batch.tensors[id];
    return buffer->data + tensor->offset + tensor->size / buffer->batch.sequence_count * index;
}

/* The lists of sequence `index`. */
static inline uint32_t *weir__row_starts_of(const weir_batch_buffer *buffer, uint32_t index) {
    return buffer->row_starts + (size_t)index * (buffer->limits.rows + 1);
}

static inline uint16_t *weir__row_orders_of(const weir_batch_buffer *buffer, uint32_t index) {
    return buffer->row_orders + 2 * (size_t)index * buffer->limits.rows;
}

#endif
