/* The cells of a sequence, as the first eleven tensors. */
#ifndef WEIR_SRC_BATCH_CELLS_H
#define WEIR_SRC_BATCH_CELLS_H

#include "batch/buffer.h"
#include "batch/texts.h"

/* Writes sequence `index` of the buffer from a finished walk: its cells, cut at S, and the padding behind
 * them. Text numbers are global still, and their uses noted. What an earlier batch left there is cleared. */
void weir__write_cells(weir_batch_buffer *buffer, uint32_t index, const weir__walk *walk,
                       const weir_cell *target, weir__text_gatherer *texts);

/* Writes a sequence that is all padding. */
void weir__write_padding(weir_batch_buffer *buffer, uint32_t index);

#endif
