/* Pages that a command writes: one file each that asks nothing of the network. Their shell is
 * cli/page_shell/, each page has a folder cli/NAME_page/, and the build joins them into one array; the
 * command puts its data, as JSON, into it. */
#ifndef WEIR_CLI_PAGE_H
#define WEIR_CLI_PAGE_H

#include "weir/weir.h"
#include "weir_tool/documents.h"

/* A page as the build made it; such pages are CLI_PAGE(batch), CLI_PAGE(plan) and CLI_PAGE(report). */
typedef struct cli_page {
    const unsigned char *text;
    size_t size;
} cli_page;
#define CLI_PAGE(name) ((cli_page){cli_##name##_page, cli_##name##_page_size})
extern const unsigned char cli_batch_page[], cli_plan_page[], cli_report_page[];
extern const size_t cli_batch_page_size, cli_plan_page_size, cli_report_page_size;

/* Writes a page with a document in it, JSON in one piece or several. No text in the JSON can leave it: every
 * '<' is written as \u003c, so that the element that holds it cannot end early. The file appears whole;
 * OUT_OF_MEMORY, IO_ERROR. */
WEIR_CHECKED weir_status cli_write_page(cli_page page, const weir_text *json, size_t count, const char *path,
                                        weir_error *error);

/* Bytes as base64 text. */
void cli_json_base64(weir_json_writer *w, const void *data, size_t size);

#endif
