/* weir_tool/sampler_tools.h: the documents of a manifest, and the maps that an order is made of. */
#ifndef WEIR_TOOL_SAMPLER_TOOLS_H
#define WEIR_TOOL_SAMPLER_TOOLS_H

#include "weir/sampler.h"
#include "weir_tool/documents.h"
#include "weir_tool/philox.h"

/* A manifest from the three documents that a trace header keeps: the normalised manifest, the mix and the
 * batch config, all checked CBOR. Errors as weir_manifest_open. */
WEIR_CHECKED weir_status weir_manifest_restore(const weir_env *env, const weir_cbor_value *normalised,
                                               const weir_cbor_value *mix, const weir_cbor_value *batch,
                                               weir_manifest **out, weir_error *error);

/* The stage of a name; INVALID_STAGE_TYPE if there is none. Any thread. */
WEIR_CHECKED weir_status weir_stage_parse(const char *name, weir_stage *out, weir_error *error);

/* The operator that a stage runs: "UML_OS.Data.NextBatch_v2", or …_v3 if training under this manifest goes
 * through the samples in another order than v2 does. Static. */
const char *weir_manifest_operator(const weir_manifest *manifest, weir_stage stage);

/* Whether there is a mix, and the sum of its weights (0 without one). */
uint32_t weir_manifest_mix_total(const weir_manifest *manifest);

/* The mix and the batch config with all defaults, as the maps that their hashes are over. */
void weir_manifest_write_mix(const weir_manifest *manifest, weir_cbor_writer *w);
void weir_manifest_write_batch(const weir_manifest *manifest, weir_cbor_writer *w);

/* Adds to an error which call it is about, as the sampler's own errors have it: the dataset's key as a
 * diagnostic, the rank, and the replay token of options->cursor; what the error has already stays. For
 * callers that fail before or after the sampler. Any thread. */
void weir_sampler_name_call(const weir_manifest *manifest, const weir_sampler_options *options,
                            weir_error *error);

/* The order of n blocks under a seed (SeededBlockPermute_v1), into out[0, n). Any thread.
 * CONTRACT_VIOLATION for n = 0. */
WEIR_CHECKED weir_status weir_block_permute(weir_seed seed, uint64_t n, uint64_t *out, weir_error *error);

/* The index at one local position of a block, by either map. CONTRACT_VIOLATION if the position is
 * not in the block. Any thread. */
WEIR_CHECKED weir_status weir_intra_block_map(weir_intra_block kind, weir_seed seed, uint64_t block_id,
                                              uint64_t block_size, uint64_t cardinality,
                                              uint64_t local_position, uint64_t *index, weir_error *error);

#endif
