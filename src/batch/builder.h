/* A builder: a recipe and the memory of one thread, which takes a batch through all phases. Its samples come
 * from a sampler, or are requests (context.c). */
#ifndef WEIR_BATCH_BUILDER_H
#define WEIR_BATCH_BUILDER_H

#include "batch/build.h"
#include "batch/team.h"

struct weir_batch_builder {
    weir_batch__recipe recipe;
    weir_sampler *sampler; /* NULL: it answers requests */
    weir_batch__worker worker;
    weir_batch__team team;              /* that finds examples of requests with it, if it is open */
    weir_seed split_seeds[WEIR_SPLITS]; /* of requests that the store has, in evaluation … */
    weir_seed request_seed;             /* … and of all others */
};

#endif
