/* How batches of a dataset are made: everything that a run decides once, constant from then on and shared by
 * all threads. */
#ifndef WEIR_BATCH_RECIPE_H
#define WEIR_BATCH_RECIPE_H

#include "base/hash.h"
#include "batch/buffer.h"
#include "batch/rules.h"
#include "weir/context.h"
#include "weir_tool/philox.h"

typedef struct weir_batch__recipe {
    const weir_env *env;
    const weir_store *store; /* NULL in a mixed one, which has … */
    const weir_batch__origin
        *origins;              /* … several: all stores of the batch, in the order of their numbers; */
    uint32_t origin_count;     /* of one dataset: */
    weir_batch__origin origin; /* its own */
    const weir_batch_source *sources;    /* of a mixed one: the datasets, … */
    const weir_batch__rules **all_rules; /* … the rules of each, … */
    uint32_t source_count;               /* … and how many they are; else 0 */
    uint32_t member;                     /* which of them this is, in a mixed one */
    weir_population *population;         /* the recipe's own, or NULL */
    weir_batch_config config;
    weir_batch__limits limits;
    weir_batch__limits by_length[WEIR_CHOICES_MAX]; /* the same of batches of one length; a length twice is
                                                       twice there */
    uint32_t length_count;
    weir_batch__rules rules;
    weir_stage stage;
    uint64_t cardinality;
    uint32_t rank;
    uint32_t task;
    uint64_t first_seed; /* of the split */
    uint32_t group_size; /* sequences of a sample */
    bool pads;
    bool with_digests;
    weir__sha256 seed_prefix; /* of the walk seed's tuple, up to the epoch */
    uint64_t context_seed;    /* which ends it, unless it is 0 */
} weir_batch__recipe;

/* The sampler whose positions a builder with these options builds. */
weir_sampler_options weir_batch__sampling_of(const weir_batch_options *options);

/* Opens a sampler too, as its checks and the recipe's have one order; it must be closed first. The builder's
 * errors. */
WEIR_CHECKED weir_status weir_batch__recipe_open(weir_batch__recipe *recipe, const weir_env *env,
                                                 const weir_batch_options *options,
                                                 const weir_batch__origin *origin, weir_sampler **sampler,
                                                 weir_error *error);
/* One without a dataset: for requests to a task, up to options->most_requests at once. */
WEIR_CHECKED weir_status weir_batch__recipe_open_for_requests(weir_batch__recipe *recipe, const weir_env *env,
                                                              const weir_context_options *options,
                                                              uint32_t task, weir_error *error);
void weir_batch__recipe_close(weir_batch__recipe *recipe);

/* Sets whose walk seeds these are: those of a dataset, under a manifest and a token (NULL: its own). */
void weir_batch__recipe_seed_by(weir_batch__recipe *recipe, const weir_manifest *manifest, const void *token,
                                size_t token_size, const char *dataset);

/* Adds batches of a length, whose limits are complete but for what follows from others, to those that the
 * recipe makes. OUT_OF_MEMORY if they are beyond any. */
WEIR_CHECKED weir_status weir_batch__recipe_add_length(weir_batch__recipe *recipe, weir_batch__limits *limits,
                                                       weir_error *error);

/* How many rows a sequence of a length that its batches have walks at most. */
uint32_t weir_batch__row_stride(const weir_batch__recipe *recipe, uint32_t sequence_length);

/* The walk's seed in an epoch of the samples; evaluation always walks as in epoch 0. */
weir_seed weir_batch__walk_seed(const weir_batch__recipe *recipe, uint64_t epoch);

#endif
