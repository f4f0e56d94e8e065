/* The check that a task's anchor_key is its anchor's key. */
#ifndef WEIR_SRC_INGEST_ANCHOR_KEY_H
#define WEIR_SRC_INGEST_ANCHOR_KEY_H

#include "ingest/state.h"

/* `columns` are the query's columns that anchor_key names. TASK_INVALID, naming what a column is instead. */
WEIR_CHECKED weir_status weir__check_anchor_key(const weir__ingest *ingest, const weir__task_plan *task,
                                                const weir__cursor *cursor, const uint32_t *columns,
                                                weir_error *error);

#endif
