/* What the page of weir batch --html knows of one dataset. */
#ifndef WEIR_CLI_BATCH_PAGE_DATA_H
#define WEIR_CLI_BATCH_PAGE_DATA_H

#include "batch_html.h"
#include "batch_labels.h"
#include "cli.h"

/* A value as a person would write it; null if it is null. */
void cli_batch_write_value(weir_json_writer *w, const weir_store *store, uint32_t column,
                           const weir_cell *cell);

/* A batch; of a mixed one the sequences of dataset number `member`. */
void cli_batch_write_page_step(weir_json_writer *w, const weir_batch *batch, const cli_batch_context *context,
                               uint32_t member, const cli_labels *labels);

#endif
