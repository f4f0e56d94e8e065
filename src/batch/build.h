/* Building a batch in phases, so that many threads can share one:
 *
 *   weir_batch__begin    one thread: which samples
 *   weir_batch__unit     any threads: walks, in any order
 *   weir_batch__finish   one thread, when all units are done: texts, and all sizes
 *   weir_batch__expand_sequences   any threads: tensors on the host
 *   weir_batch__digest   one thread, when all is expanded
 *
 * Units are [first, first + count) of buffer->batch.sequence_count; WEIR_BATCH__UNIT of them are a good
 * number. Who calls sees to it that what one phase wrote is seen by the next, and that all run in the usual
 * floating-point state (base/floating.h). */
#ifndef WEIR_BATCH_BUILD_H
#define WEIR_BATCH_BUILD_H

#include "batch/compact.h"
#include "batch/digest.h"
#include "batch/recipe.h"

enum { WEIR_BATCH__UNIT = 8, WEIR_BATCH__ABREAST = 8 };

/* What one thread needs to build batches of a recipe. */
typedef struct weir_batch__worker {
    const weir_env *env;
    weir__block scratch;
    weir_batch__walk walks[WEIR_BATCH__ABREAST]; /* that take turns, so that they wait for memory together */
    weir_batch__retriever retriever;             /* that they share, if contexts have examples */
    weir_seed_row seeds[WEIR_BATCH__ABREAST];
    weir_batch__compact_writer writer;
    weir_batch__text_sorter sorter;
    weir_batch__digester digester;
} weir_batch__worker;

WEIR_CHECKED weir_status weir_batch__worker_open(weir_batch__worker *worker, const weir_batch__recipe *recipe,
                                                 weir_error *error);
void weir_batch__worker_close(weir_batch__worker *worker);

/* CONTRACT_VIOLATION if the buffer is too small. */
WEIR_CHECKED weir_status weir_batch__check_buffer(const weir_batch__recipe *recipe,
                                                  const weir_batch_buffer *buffer, weir_error *error);

/* Makes the buffer ready for the walks of so many sequences. */
void weir_batch__empty(const weir_batch__recipe *recipe, weir_batch_buffer *buffer, const weir_step *step,
                       uint64_t sequence_count);

/* The sampler's errors; CONTRACT_VIOLATION if the buffer is too small. */
WEIR_CHECKED weir_status weir_batch__begin(const weir_batch__recipe *recipe, weir_sampler *sampler,
                                           weir_batch_buffer *buffer, weir_cursor cursor, weir_error *error);
/* Walks those of [first, end) that are of the recipe's dataset. */
void weir_batch__walk_own(const weir_batch__recipe *recipe, weir_batch__worker *worker,
                          weir_batch_buffer *buffer, uint32_t first, uint32_t end);
/* The same, and padding behind the last of them: all of a batch of one dataset. */
void weir_batch__unit(const weir_batch__recipe *recipe, weir_batch__worker *worker, weir_batch_buffer *buffer,
                      uint32_t first, uint32_t count);

/* Numbers the texts of all walks; how many they are. Once. */
uint32_t weir_batch__number_texts(const weir_batch__recipe *recipe, weir_batch__worker *worker,
                                  weir_batch_buffer *buffer);
/* Numbers the texts, and completes the compact form and the view, but for the digests. STORE_CORRUPT. */
WEIR_CHECKED weir_status weir_batch__finish(const weir_batch__recipe *recipe, weir_batch__worker *worker,
                                            weir_batch_buffer *buffer, weir_error *error);

/* What a mixed batch says of the recipe's dataset, but for its key. */
weir_batch_source weir_batch__source_of(const weir_batch__recipe *recipe);

/* Does nothing in a buffer without tensors. */
void weir_batch__expand_sequences(weir_batch_buffer *buffer, uint32_t first, uint32_t count);

/* The digests, if the recipe wants them. */
void weir_batch__digest(const weir_batch__recipe *recipe, weir_batch__worker *worker,
                        weir_batch_buffer *buffer);

/* The same phases of builders of one dataset that share a batch: each thread walks with a builder of its own,
 * and the one that began a batch also finishes and digests it. */
WEIR_CHECKED weir_status weir_batch__builder_begin(weir_batch_builder *builder, weir_cursor cursor,
                                                   weir_batch_buffer *buffer, weir_error *error);
void weir_batch__builder_walk(weir_batch_builder *builder, weir_batch_buffer *buffer, uint32_t first,
                              uint32_t count);
WEIR_CHECKED weir_status weir_batch__builder_finish(weir_batch_builder *builder, weir_cursor cursor,
                                                    weir_batch_buffer *buffer, weir_error *error);
void weir_batch__builder_digest(weir_batch_builder *builder, weir_batch_buffer *buffer);

/* A buffer without tensors of its own whose memory for the compact form has `room` bytes, as many as
 * weir_batch__usual_room says or more. */
WEIR_CHECKED weir_status weir_batch__slot_open(weir_batch_builder *const *builders, size_t count,
                                               const weir_batch_memory *memory, uint64_t room,
                                               weir_batch_buffer **out, weir_error *error);

/* Bytes of the compact form that a slot should have room for: all of the largest batch but its texts, and
 * half as much again as the first sequences of each dataset say that a batch takes. Builds those in `buffer`.
 */
uint64_t weir_batch__usual_room(weir_batch_builder *const *builders, size_t count, weir_batch_buffer *buffer);

/* The most sequences that a batch of it has. */
uint64_t weir_batch__builder_sequences(const weir_batch_builder *builder);

/* The stores of a builder of mixed batches, in the order of their numbers; NULL of any other. */
const weir_batch__origin *weir_batch__builder_origins(const weir_batch_builder *builder, uint32_t *count);

/* The rules of a builder's batches (weir_batch.rules). */
const void *weir_batch__builder_rules(const weir_batch_builder *builder, uint64_t *size);

#endif
