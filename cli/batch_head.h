/* What all sequences of a page share: the task, tables, columns and foreign keys. */
#ifndef WEIR_CLI_BATCH_HEAD_H
#define WEIR_CLI_BATCH_HEAD_H

#include "weir/store.h"
#include "weir_tool/documents.h"

/* Members of the object that is being written: task, tables, columns, edges. A task whose labels have a time
 * has one table and one foreign key more: its seeds, and their anchors. */
void cli_batch_head(weir_json_writer *w, const weir_store *store, const weir_task *task);

#endif
