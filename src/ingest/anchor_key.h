/* The check that the columns which a task calls a key of its anchor, or of its destination, are that key. */
#ifndef WEIR_INGEST_ANCHOR_KEY_H
#define WEIR_INGEST_ANCHOR_KEY_H

#include "ingest/stages.h"

/* A key that a task's query gives, of a table's rows. */
typedef struct weir_ingest__asked_key {
    const char *role; /* "anchor" or "destination" */
    uint32_t table;
    const char *const *names; /* columns of the query, one for each column of the primary key */
    uint32_t count;
} weir_ingest__asked_key;

/* `columns` are the query's columns that the names stand for. TASK_INVALID, naming what a column is instead.
 */
WEIR_CHECKED weir_status weir_ingest__check_asked_key(const weir_ingest__plan *plan,
                                                      const weir_ingest__schema_task *task,
                                                      const weir_ingest__asked_key *key,
                                                      const weir_ingest__cursor *cursor,
                                                      const uint32_t *columns, weir_error *error);

#endif
