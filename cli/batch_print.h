/* How `weir batch` and `weir context` print what they have built. */
#ifndef WEIR_CLI_BATCH_PRINT_H
#define WEIR_CLI_BATCH_PRINT_H

#include "cli.h"

/* What a sequence is of: the store's one dataset, or that of a mixed batch (then `store` is not read). */
weir_batch_source cli_batch_source(const weir_store *store, const weir_batch *batch, uint32_t index);

/* A number of a tensor: the field of a sequence, such as WEIR_ANCHOR_ROW, or of a cell. */
uint64_t cli_batch_field(const weir_batch *batch, weir_tensor_id id, uint64_t index);

/* The RowIdx of what a sequence is about, which is not padding. */
uint64_t cli_batch_anchor(const weir_batch_source *source, const weir_batch *batch, uint32_t index);

/* Members of an object: task (of a mixed batch: its datasets, each with its task), dims, shapes and digest of
 * the batch; all tensors, as hex; what there is to say of one sequence, from its position to its digest. */
void cli_batch_write_head(weir_json_writer *w, const weir_store *store, const weir_batch *batch);
void cli_batch_write_tensors(weir_json_writer *w, const weir_batch *batch);
void cli_batch_write_sequence(weir_json_writer *w, const weir_store *store, const weir_batch *batch,
                              uint32_t index);

/* "customers 5 (row 653 of the store) as of 2024-05-01, 96 cells of 12 rows, digest …", and a newline. */
void cli_batch_print_sequence(const weir_store *store, const weir_batch *batch, uint32_t index);

#endif
