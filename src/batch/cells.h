/* The cells of a sequence, as the first eleven tensors, and their order by column. */
#ifndef WEIR_SRC_BATCH_CELLS_H
#define WEIR_SRC_BATCH_CELLS_H

#include "batch/buffer.h"
#include "batch/texts.h"
#include "batch/timestamps.h"

/* A row of the sequence while its table's columns are written. */
typedef struct weir__placed_row {
    const uint8_t *record;
    uint32_t first_cell;
    uint32_t hides_label; /* 1: it has no cell of the target column */
} weir__placed_row;

/* What writing needs beside the walk and the buffer. */
typedef struct weir__cell_writer {
    weir__text_gatherer texts;
    weir__timestamp_parts *timestamp_parts;
    weir__placed_row *rows; /* of the sequence, those of one table together */
    uint32_t *table_ends;   /* and where each table's end */
} weir__cell_writer;

WEIR_CHECKED weir_status weir__cell_writer_open(weir__cell_writer *writer, const weir_env *env,
                                                const weir__batch_limits *limits, uint32_t tables,
                                                weir_error *error);
void weir__cell_writer_close(weir__cell_writer *writer, const weir_env *env);

/* Asks for the memory that writing sequence `index` will clear here and there, some time before. */
void weir__fetch_cells(weir_batch_buffer *buffer, uint32_t index);

/* Writes sequence `index` of the buffer from a finished walk: its cells, cut at S, and the padding behind
 * them. Text numbers are global still, and their uses noted. What an earlier batch left there is cleared. */
void weir__write_cells(weir__cell_writer *writer, weir_batch_buffer *buffer, uint32_t index,
                       const weir__walk *walk, const weir_cell *target);

/* Writes a sequence that is all padding. */
void weir__write_padding(weir_batch_buffer *buffer, uint32_t index);

#endif
