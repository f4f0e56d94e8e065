/* Building a batch in phases, so that many threads can share one:
 *
 *   weir__batch_begin    one thread: which samples
 *   weir__batch_unit     any threads: walks, in any order
 *   weir__batch_finish   one thread, when all units are done: texts, and all sizes
 *   weir__batch_expand   any threads: tensors on the host
 *   weir__batch_digest   one thread, when all is expanded
 *
 * Units are [first, first + count) of buffer->batch.sequence_count; WEIR__UNIT of them are a good number. Who
 * calls sees to it that what one phase wrote is seen by the next, and that all run in the usual
 * floating-point state (base/floating.h). */
#ifndef WEIR_BATCH_BUILD_H
#define WEIR_BATCH_BUILD_H

#include "batch/compact.h"
#include "batch/digest.h"
#include "batch/recipe.h"

enum { WEIR__UNIT = 8, WEIR__ABREAST = 8 };

/* What one thread needs to build batches of a recipe. */
typedef struct weir__batch_worker {
    const weir_env *env;
    weir__block scratch;
    weir__walk walks[WEIR__ABREAST]; /* that take turns, so that they wait for memory together */
    weir__retriever retriever;       /* that they share, if contexts have examples */
    weir_seed_row seeds[WEIR__ABREAST];
    weir__compact_writer writer;
    weir__text_sorter sorter;
    weir__digester digester;
} weir__batch_worker;

WEIR_CHECKED weir_status weir__batch_worker_open(weir__batch_worker *worker, const weir__recipe *recipe,
                                                 weir_error *error);
void weir__batch_worker_close(weir__batch_worker *worker);

/* CONTRACT_VIOLATION if the buffer is too small. */
WEIR_CHECKED weir_status weir__batch_check_buffer(const weir__recipe *recipe, const weir_batch_buffer *buffer,
                                                  weir_error *error);

/* Makes the buffer ready for the walks of so many sequences. */
void weir__batch_empty(const weir__recipe *recipe, weir_batch_buffer *buffer, const weir_step *step,
                       uint64_t sequence_count);

/* The sampler's errors; CONTRACT_VIOLATION if the buffer is too small. */
WEIR_CHECKED weir_status weir__batch_begin(const weir__recipe *recipe, weir_sampler *sampler,
                                           weir_batch_buffer *buffer, weir_cursor cursor, weir_error *error);
void weir__batch_unit(const weir__recipe *recipe, weir__batch_worker *worker, weir_batch_buffer *buffer,
                      uint32_t first, uint32_t count);

/* Numbers the texts, and completes the compact form and the view, but for the digests. STORE_CORRUPT. */
WEIR_CHECKED weir_status weir__batch_finish(const weir__recipe *recipe, weir__batch_worker *worker,
                                            weir_batch_buffer *buffer, weir_error *error);

/* Does nothing in a buffer without tensors. */
void weir__batch_expand(weir_batch_buffer *buffer, uint32_t first, uint32_t count);

/* The digests, if the recipe wants them. */
void weir__batch_digest(const weir__recipe *recipe, weir__batch_worker *worker, weir_batch_buffer *buffer);

/* The same phases of builders of one dataset that share a batch: each thread walks with a builder of its own,
 * and the one that began a batch also finishes and digests it. */
WEIR_CHECKED weir_status weir__builder_begin(weir_batch_builder *builder, weir_cursor cursor,
                                             weir_batch_buffer *buffer, weir_error *error);
void weir__builder_walk(weir_batch_builder *builder, weir_batch_buffer *buffer, uint32_t first,
                        uint32_t count);
WEIR_CHECKED weir_status weir__builder_finish(weir_batch_builder *builder, weir_cursor cursor,
                                              weir_batch_buffer *buffer, weir_error *error);
void weir__builder_digest(weir_batch_builder *builder, weir_batch_buffer *buffer);

/* The most sequences that a batch of it has. */
uint64_t weir__builder_sequences(const weir_batch_builder *builder);

/* The rules of a builder's batches (weir_batch.rules). */
const void *weir__builder_rules(const weir_batch_builder *builder, uint64_t *size);

#endif
