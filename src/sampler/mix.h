/* What a run needs of the schedule beyond weir_mix_locate: a dataset's own batches by number, and how many
 * of them lie before a step. */
#ifndef WEIR_SAMPLER_MIX_H
#define WEIR_SAMPLER_MIX_H

#include "base/internal.h"
#include "weir/sampler.h"

/* The cursor of a dataset's q-th batch in train. CARDINALITY_MISMATCH, BATCH_SIZE_INCONSISTENT,
 * COUNTER_OVERFLOW. */
WEIR_CHECKED weir_status weir_sampler__batch_cursor(const weir_manifest *manifest,
                                                    const weir_dataset *dataset, uint64_t q,
                                                    weir_cursor *cursor, weir_error *error);

/* How many of the steps before `step` are those of a dataset, given by its index in the manifest: the number
 * of its next batch. */
uint64_t weir_sampler__mix_batches_before(weir_mix *mix, uint64_t step, size_t dataset);

#endif
