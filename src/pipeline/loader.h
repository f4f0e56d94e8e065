/* What a staging needs of the loader behind it beyond the public calls. */
#ifndef WEIR_SRC_PIPELINE_LOADER_H
#define WEIR_SRC_PIPELINE_LOADER_H

#include "pipeline/memory.h"

/* What a run with these options needs, on the host. The errors of weir_loader_plan, but for the limit. */
WEIR_CHECKED weir_status weir__loader_need(const weir_env *env, const weir_loader_options *options,
                                           weir__memory_need *out, weir_error *error);

/* The run's datasets have numbers: how many there are, the one of a batch, and the rules by which each one's
 * batches are expanded (weir_batch.rules). */
size_t weir__loader_member_count(const weir_loader *loader);
size_t weir__loader_member_of(const weir_loaded *loaded);
const void *weir__loader_rules(const weir_loader *loader, size_t member, uint64_t *size);

#endif
