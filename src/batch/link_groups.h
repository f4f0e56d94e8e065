/* The group of sequences that a sample of a link task is: the source, the destination, negatives
 * (docs/spec/05f-links.md). */
#ifndef WEIR_BATCH_LINK_GROUPS_H
#define WEIR_BATCH_LINK_GROUPS_H

#include "batch/recipe.h"

/* How many sequences a sample of the task has in this stage: 1, or those of a group. */
uint32_t weir_batch__group_size(const weir_task *task, const weir_batch_config *config, weir_stage stage);

/* Lists the sequences of a sample, whose number in the dataset, position and walk seed are given: as many as
 * the recipe's groups have. False if the store is damaged. */
WEIR_CHECKED bool weir_batch__list_group(const weir_batch__recipe *recipe, const weir_batch__sample *sample,
                                         weir_batch__sample *group);

#endif
