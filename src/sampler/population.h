/* The inside of a population: the samples of a dataset by class, or on a line on which each takes as much
 * room as its weight (docs/spec/02-sampling-modes.md). */
#ifndef WEIR_SAMPLER_POPULATION_H
#define WEIR_SAMPLER_POPULATION_H

#include "sampler/place.h"
#include "weir/sampler.h"

struct weir_population {
    const weir_env *env;
    weir_sampling sampling;
    weir_seed seed; /* sampling_seed */
    uint64_t count; /* N */

    /* By class: the members of class c are members[starts[c] … starts[c + 1]), ascending. */
    uint32_t *members;
    uint32_t *starts;
    uint32_t class_count;

    /* By weight: place k of the line belongs to sample line[k] and ends at ends[k]. The point x lies in
     * place guide[x >> guide_shift] or later, up to the guide's next one. */
    uint32_t *line;
    uint64_t *ends;
    uint32_t *guide;
    uint32_t guide_shift;
    uint64_t total; /* W */
    uint64_t theta;
};

/* Populations of the given classes (any numbers below class_limit) or weights, one per sample. TASK_INVALID,
 * STORE_CORRUPT (a weight that is not one), OUT_OF_MEMORY. `name` is what messages call the task. */
WEIR_CHECKED weir_status weir_sampler__population_of_classes(const weir_env *env, weir_seed seed,
                                                             const char *name, const uint32_t *classes,
                                                             uint64_t count, uint64_t class_limit,
                                                             weir_population **out, weir_error *error);
WEIR_CHECKED weir_status weir_sampler__population_of_weights(const weir_env *env, weir_seed seed,
                                                             const char *name, const double *weights,
                                                             uint64_t count, weir_population **out,
                                                             weir_error *error);

/* The seed stream of class-balanced and weighted sampling. */
weir_seed weir_sampler__sampling_seed(const weir_manifest *manifest, const char *dataset, const void *token,
                                      size_t token_size);

/* The sample that holds a point below the total. */
uint64_t weir_sampler__population_find(const weir_population *population, uint64_t point);

#endif
