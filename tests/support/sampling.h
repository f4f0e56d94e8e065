/* What the sampler's tests share: opening samplers, and the contract's procedure written down word by word,
 * slowly, to compare with. */
#ifndef WEIR_TESTS_SAMPLING_H
#define WEIR_TESTS_SAMPLING_H

#include "sampler/population.h"
#include "support/testing.h"

/* A sampler of a dataset under the manifest's own token; fails the test where it is refused. */
weir_sampler *sampler_of(const weir_manifest *manifest, const char *dataset, weir_stage stage,
                         uint32_t world_size, uint32_t rank);

/* One step; indices has room for the rank's share. */
weir_step take_step(weir_sampler *sampler, weir_cursor cursor, uint64_t *indices);

/* Section 6 of NextBatch_v2 for dataset "a", one position after another, from the public pieces
 * (weir_block_permute, weir_intra_block_map) and hashes that are made anew for every call. Returns the
 * number of indices. */
uint64_t slow_step(const weir_manifest *manifest, weir_stage stage, uint32_t world_size, uint32_t rank,
                   weir_cursor cursor, uint64_t *indices, weir_cursor *cursor_next);

bool cursors_equal(weir_cursor a, weir_cursor b);

/* SHA-256 over indices as 8-byte little-endian integers. */
void hash_indices(weir__sha256 *sha, const uint64_t *indices, uint64_t count);

/* ---- Populations ------------------------------------------------------------------------------ */

weir_population *weighted(weir_seed seed, const double *weights, uint64_t count);
weir_population *by_class(weir_seed seed, const uint32_t *classes, uint64_t count, uint64_t limit);

/* A sampler of dataset "a" in train that draws from a population. */
weir_sampler *drawing(const weir_manifest *manifest, const weir_population *population, uint32_t world_size,
                      uint32_t rank);

/* A manifest of one dataset "a" whose `data` has these members. */
weir_manifest *sampling_manifest(uint64_t n, uint64_t batch, const char *data, uint64_t seed);

#define BALANCED "\"sampling\": {\"mode\": \"class_balanced\"}"
#define WEIGHTED "\"sampling\": {\"mode\": \"weighted\", \"column\": \"w\"}"

/* The first `count` samples of a run, from epoch 0 on, step by step; the caller frees them. */
uint64_t *take_run(const weir_manifest *manifest, const weir_population *population, uint64_t count);

#endif
