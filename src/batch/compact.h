/* Writing a sequence's part of the compact form (expand_kernel.h) from a finished walk. */
#ifndef WEIR_BATCH_COMPACT_H
#define WEIR_BATCH_COMPACT_H

#include "batch/buffer.h"
#include "batch/cuthill_mckee.h"

/* Scratch of the thread that writes. */
typedef struct weir_batch__compact_writer {
    weir_batch__row_orders orders;
    uint16_t *out_order;
    uint16_t *in_order;
    struct weir_batch__table_share *tables; /* of the sequence, by table */
    weir_batch__text_use *uses;             /* of the sequence */
    weir__philox_kernel *philox;
    uint32_t mask_permille; /* cells that are masked; 0 but in training */
} weir_batch__compact_writer;

void weir_batch__compact_writer_carve(weir_batch__compact_writer *writer, weir__block *block,
                                      const weir_batch__rules *rules, const weir_batch__limits *limits);

/* Writes sequence `index` of the buffer. Any threads, each its own sequences with a writer of its own. */
void weir_batch__write_sequence(const weir_batch__compact_writer *writer, weir_batch_buffer *buffer,
                                uint32_t index, weir_batch__walk *walk, const weir_seed_row *seed);

/* One that is all padding. */
void weir_batch__write_padding(weir_batch_buffer *buffer, uint32_t index);

/* The most that a sequence of up to `length` cells and `rows` rows takes: sets the limits of what is walked,
 * and `blob`. */
void weir_batch__limit_sequences(weir_batch__limits *limits, const weir_batch__rules *rules, uint64_t length,
                                 uint64_t rows);

#endif
