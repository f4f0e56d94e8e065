/* weir_tool/batch_tools.h: names of roles, and the expansion of a batch by itself. */
#ifndef WEIR_TOOL_BATCH_TOOLS_H
#define WEIR_TOOL_BATCH_TOOLS_H

#include "weir/batch.h"

/* "source", "destination" or "negative"; NULL for the other. */
const char *weir_role_name(weir_role role);

/* The tensors of a batch (weir_batch.size bytes, laid out as its tensors say) from its compact form and
 * rules, on the host. Both must be bytes that a builder of this version of the library made: they are not
 * checked. Any thread. */
void weir_batch_expand(const void *rules, const void *compact, void *out);

#endif
