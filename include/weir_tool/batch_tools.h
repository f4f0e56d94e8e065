/* weir_tool/batch_tools.h: names of roles, the rows that sequences are about, and the expansion of a batch by
 * itself. */
#ifndef WEIR_TOOL_BATCH_TOOLS_H
#define WEIR_TOOL_BATCH_TOOLS_H

#include "weir/batch.h"

/* "source", "destination" or "negative"; NULL for the other. */
const char *weir_role_name(weir_role role);

/* The RowIdx of the row that a sequence of a task is about, in its store, which the number anchor_row stands
 * for. The sequence is not padding; the batch is on the host. Any thread. */
uint64_t weir_batch_anchor(const weir_store *store, uint32_t task, const weir_batch *batch, uint32_t sequence,
                           uint32_t number);

/* The tensors of a batch (weir_batch.size bytes, laid out as its tensors say) from its compact form and
 * rules, on the host. Both must be bytes that a builder of this version of the library made: they are not
 * checked. Any thread. */
void weir_batch_expand(const void *rules, const void *compact, void *out);

#endif
