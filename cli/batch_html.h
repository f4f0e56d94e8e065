/* weir batch --html OUT: one batch or several as one page. */
#ifndef WEIR_CLI_BATCH_HTML_H
#define WEIR_CLI_BATCH_HTML_H

#include "weir/weir.h"

/* What the page is about, beside the batch itself. */
typedef struct cli_batch_context {
    const weir_store *store;
    const weir_manifest *manifest;
    const char *dataset; /* also of whose labels the page tells */
    const char *stage;   /* NULL: the batch is one of requests, which has neither step nor rank */
    uint32_t world_size;
    uint32_t rank;
} cli_batch_context;

/* A page while it is filled, with one batch after the other. The context's parts must outlive it. */
typedef struct cli_batch_html cli_batch_html;

/* Looks at all labels of the dataset, or of all datasets if the first batch is mixed: then the page shows
 * those of one dataset at a time, and the context's store and dataset say nothing. OUT_OF_MEMORY, or the
 * dataset's error; then *out is NULL. */
WEIR_CHECKED weir_status cli_batch_html_open(const cli_batch_context *context, const weir_batch *first,
                                             cli_batch_html **out, weir_error *error);

/* Adds a batch; it may be closed after. What fails is told by cli_batch_html_write. */
void cli_batch_html_add(cli_batch_html *page, const weir_batch *batch);

/* Writes one self-contained page, once. The file appears whole; OUT_OF_MEMORY, IO_ERROR. */
WEIR_CHECKED weir_status cli_batch_html_write(cli_batch_html *page, const char *path, weir_error *error);

void cli_batch_html_close(cli_batch_html *page);

#endif
