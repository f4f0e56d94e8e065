/* weir batch --html OUT: a batch as one page. */
#ifndef WEIR_CLI_BATCH_HTML_H
#define WEIR_CLI_BATCH_HTML_H

#include "weir/weir.h"

/* What the page is about, beside the batch itself. */
typedef struct cli_batch_context {
    const weir_store *store;
    const weir_manifest *manifest;
    const char *dataset;
    const char *stage;
    uint32_t world_size;
    uint32_t rank;
} cli_batch_context;

/* Writes one self-contained page. The file appears whole; OUT_OF_MEMORY, IO_ERROR. */
WEIR_CHECKED weir_status cli_batch_write_html(const weir_batch *batch, const cli_batch_context *context,
                                              const char *path, weir_error *error);

#endif
