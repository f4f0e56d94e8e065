/* A builder: a recipe and the memory of one thread, which takes a batch through all phases (build.h). Its
 * samples come from a sampler, or are requests (context.c). */
#ifndef WEIR_BATCH_BUILDER_H
#define WEIR_BATCH_BUILDER_H

#include "batch/compact.h"
#include "batch/digest.h"
#include "batch/recipe.h"
#include "batch/team.h"

enum { WEIR_BATCH__ABREAST = 8 };

/* What one thread needs to build batches of a recipe. */
typedef struct weir_batch__worker {
    weir__block scratch;
    weir_batch__walk walks[WEIR_BATCH__ABREAST]; /* that take turns, so that they wait for memory together */
    weir_batch__retriever retriever;             /* that they share, if contexts have examples */
    weir_seed_row seeds[WEIR_BATCH__ABREAST];
    weir_batch__compact_writer writer;
    weir_batch__text_sorter sorter;
    weir_batch__digester digester;
} weir_batch__worker;

typedef struct weir_batch__mixture weir_batch__mixture;

struct weir_batch_builder {
    weir_batch__recipe recipe;
    weir_sampler *sampler; /* NULL: it answers requests */
    weir_batch__worker worker;
    weir_batch__team team;              /* that finds examples of requests with it, if it is open */
    weir_batch__mixture *mixture;       /* NULL: all batches are of one dataset */
    weir_seed split_seeds[WEIR_SPLITS]; /* of requests that the store has, in evaluation … */
    weir_seed request_seed;             /* … and of all others */
};

/* A builder of one dataset, which is the member of that number in a mixed batch, or 0; without an origin, one
 * of mixed batches. */
WEIR_CHECKED weir_status weir_batch__member_open(const weir_env *env, const weir_batch_options *options,
                                                 const weir_batch__origin *origin, uint32_t member,
                                                 weir_batch_builder **out, weir_error *error);

/* Opens the worker of a builder whose recipe is there; closing the builder closes it. */
WEIR_CHECKED weir_status weir_batch__worker_open(weir_batch_builder *builder, weir_error *error);

/* A buffer without tensors of its own whose memory for the compact form has `room` bytes, as many as
 * weir_batch__usual_room says or more. */
WEIR_CHECKED weir_status weir_batch__slot_open(weir_batch_builder *const *builders, size_t count,
                                               const weir_batch_memory *memory, uint64_t room,
                                               weir_batch_buffer **out, weir_error *error);

/* Bytes of the compact form that a slot should have room for: all of the largest batch but its texts, and
 * half as much again as the first sequences of each dataset say that a batch takes. Builds those in `buffer`.
 */
uint64_t weir_batch__usual_room(weir_batch_builder *const *builders, size_t count, weir_batch_buffer *buffer);

#endif
