/* Building a batch in phases, so that many threads can share one:
 *
 *   weir_batch__begin    one thread: which samples
 *   weir_batch__walk_unit   any threads: walks, in any order
 *   weir_batch__finish   one thread, when all units are done: texts, and all sizes
 *   weir_batch__expand_sequences   any threads: tensors on the host
 *   weir_batch__digest   one thread, when all is expanded
 *
 * Units are [first, first + count) of buffer->batch.sequence_count; WEIR_BATCH__UNIT of them are a good
 * number. Each thread walks with a builder of its own, all of one dataset, and the one that began a batch
 * also finishes and digests it. Who calls sees to it that what one phase wrote is seen by the next, and that
 * all run in the usual floating-point state (base/floating.h). */
#ifndef WEIR_BATCH_BUILD_H
#define WEIR_BATCH_BUILD_H

#include "batch/builder.h"

enum { WEIR_BATCH__UNIT = 8 };

/* CONTRACT_VIOLATION if the buffer is too small. */
WEIR_CHECKED weir_status weir_batch__check_buffer(const weir_batch_builder *builder,
                                                  const weir_batch_buffer *buffer, weir_error *error);

/* Makes the buffer ready for the walks of so many sequences. */
void weir_batch__empty(const weir_batch_builder *builder, weir_batch_buffer *buffer, const weir_step *step,
                       uint64_t sequence_count);

/* The sampler's errors; CONTRACT_VIOLATION if the buffer is too small. */
WEIR_CHECKED weir_status weir_batch__begin(weir_batch_builder *builder, weir_cursor cursor,
                                           weir_batch_buffer *buffer, weir_error *error);
/* Walks those of [first, end) that are of the builder's own dataset. */
void weir_batch__walk_own(weir_batch_builder *builder, weir_batch_buffer *buffer, uint32_t first,
                          uint32_t end);
void weir_batch__walk_unit(weir_batch_builder *builder, weir_batch_buffer *buffer, uint32_t first,
                           uint32_t count);

/* Numbers the texts of all walks; how many they are. Once. */
uint32_t weir_batch__number_texts(weir_batch_builder *builder, weir_batch_buffer *buffer);
/* Numbers the texts, and completes the compact form and the view, but for the digests. STORE_CORRUPT. */
WEIR_CHECKED weir_status weir_batch__finish(weir_batch_builder *builder, weir_cursor cursor,
                                            weir_batch_buffer *buffer, weir_error *error);

/* Does nothing in a buffer without tensors. */
void weir_batch__expand_sequences(weir_batch_buffer *buffer, uint32_t first, uint32_t count);

/* The digests, if the recipe wants them. */
void weir_batch__digest(weir_batch_builder *builder, weir_batch_buffer *buffer);

/* All phases after the first, by one thread. */
WEIR_CHECKED weir_status weir_batch__complete(weir_batch_builder *builder, weir_cursor cursor,
                                              weir_batch_buffer *buffer, weir_error *error);

/* What a mixed batch says of the recipe's dataset, but for its key. */
weir_batch_source weir_batch__source_of(const weir_batch__recipe *recipe);

#endif
