/* What the page of weir batch --html knows of one dataset. */
#ifndef WEIR_CLI_BATCH_PAGE_DATA_H
#define WEIR_CLI_BATCH_PAGE_DATA_H

#include "batch_html.h"
#include "batch_labels.h"
#include "cli.h"

/* Members of an object: what all sequences share. */
void cli_batch_write_page_head(weir_json_writer *w, const cli_batch_context *context, const weir_task *task,
                               const cli_labels *labels);

/* A batch; of a mixed one the sequences of dataset number `member`. */
void cli_batch_write_page_step(weir_json_writer *w, const weir_batch *batch, const cli_batch_context *context,
                               uint32_t member, const cli_labels *labels);

#endif
