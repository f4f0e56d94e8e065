/* Mixed batches (docs/spec/05g-mixed.md): the sampler of the mix says which datasets the sequences of a batch
 * are of, and a builder of each dataset walks its own. Its recipe holds what they have in common: the limits
 * of the largest, the rules of all one after the other, and the numbers of all stores. */
#ifndef WEIR_BATCH_MIXED_H
#define WEIR_BATCH_MIXED_H

#include "batch/build.h"

/* The first of the stores that has a dataset, or of several the one that the manifest's hash names.
 * INVALID_DATASET_KEY. */
WEIR_CHECKED weir_status weir_batch__find_store(weir_store *const *stores, size_t count,
                                                const weir_dataset *dataset, const weir_store **out,
                                                weir_error *error);

/* Fills a builder that is zero but for its environment. The builder's errors; CONTRACT_VIOLATION if datasets
 * cannot be mixed. */
WEIR_CHECKED weir_status weir_batch__mixture_open(weir_batch_builder *builder,
                                                  const weir_batch_options *options, weir_error *error);
void weir_batch__mixture_close(weir_batch_builder *builder);

/* Lists the samples of a step whose indices the buffer has. COUNTER_OVERFLOW, and the sampler's errors. */
WEIR_CHECKED weir_status weir_batch__mixture_list(weir_batch_builder *builder, weir_batch_buffer *buffer,
                                                  weir_cursor cursor, weir_error *error);

/* Walks [first, end), each with the builder of its dataset. */
void weir_batch__mixture_walk(weir_batch_builder *builder, weir_batch_buffer *buffer, uint32_t first,
                              uint32_t end);

#endif
