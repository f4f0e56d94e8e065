/* Expanding on the host, and the same as a kernel: see expand_kernel.h, which has the forms. */
#ifndef WEIR_BATCH_EXPAND_H
#define WEIR_BATCH_EXPAND_H

#include "batch/rules.h"
#include "weir/batch.h"

/* Sequences [first, first + count) of a batch, and their share of the texts. Any threads, each its own. */
void weir_batch__expand_unit(const uint8_t *rules, const uint8_t *compact, uint8_t *out, uint32_t first,
                             uint32_t count);

/* One part of one sequence, as it lies in the expansion: one of the cells' tensors, or of the permutations.
 */
void weir_batch__expand_part(const uint8_t *rules, const uint8_t *compact, uint32_t index,
                             weir_tensor_id part, uint8_t *out);

/* Rows [begin, end) of one sequence's fk_adj, of `width` bytes each. */
void weir_batch__expand_edges(const uint8_t *compact, uint32_t index, uint32_t width, uint32_t begin,
                              uint32_t end, uint8_t *out);

/* text_embed_ids of one sequence with the store's numbers: `texts` has those that the batch's stand for.
 * `rules` are the sequence's own. */
void weir_batch__expand_texts(const uint8_t *all_rules, const weir_batch__rules *rules,
                              const uint8_t *compact, uint32_t index, const uint32_t *texts, uint8_t *out);

/* The expansion as CUDA C (not terminated): extern "C" __global__ weir_expand(rules, compact, out), a column
 * of the grid (x) per sequence. And the same on the host: the arguments' addresses. */
#define WEIR_BATCH__EXPAND_NAME "weir_expand"
extern const unsigned char weir_batch__expand_text[];
extern const size_t weir_batch__expand_text_size;
void weir_batch__expand_run(void *const *arguments);

#endif
