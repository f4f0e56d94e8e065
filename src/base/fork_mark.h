/* Whether this process is a child of fork, which has the memory of its parent but none of its threads: a
 * page that reads as zeros there. */
#ifndef WEIR_BASE_FORK_MARK_H
#define WEIR_BASE_FORK_MARK_H

#include "base/internal.h"

typedef struct weir__fork_mark {
    const uint32_t *page; /* NULL: not open */
} weir__fork_mark;

/* OUT_OF_MEMORY. */
WEIR_CHECKED weir_status weir__fork_mark_open(weir__fork_mark *mark, const weir_env *env,
                                              const char *operator_name, weir_error *error);
void weir__fork_mark_close(weir__fork_mark *mark, const weir_env *env);

/* Whether this is the process that opened it; false if nobody did. */
bool weir__fork_mark_is_here(const weir__fork_mark *mark);

#endif
