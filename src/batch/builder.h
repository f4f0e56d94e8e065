/* A builder: a recipe and the memory of one thread, which takes a batch through all phases. Its samples come
 * from a sampler, or are requests (context.c). */
#ifndef WEIR_BATCH_BUILDER_H
#define WEIR_BATCH_BUILDER_H

#include "batch/build.h"
#include "batch/team.h"

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

#endif
