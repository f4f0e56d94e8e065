/* Pages that a command writes: one file each that asks nothing of the network. The page itself is kept as
 * readable sources in cli/NAME_page/, which the build joins into one array; the command puts its data, as
 * JSON, at a mark. */
#ifndef WEIR_CLI_PAGE_H
#define WEIR_CLI_PAGE_H

#include "weir/weir.h"
#include "weir_tool/documents.h"

/* Writes a page with `json` where it has the mark ">@NAME<". No text in the JSON can leave it: every '<' is
 * written as \u003c, so that the element that holds it cannot end early. The file appears whole;
 * OUT_OF_MEMORY, IO_ERROR. */
WEIR_CHECKED weir_status cli_write_page(const unsigned char *page, size_t page_size, const char *mark,
                                        const char *json, size_t json_size, const char *path,
                                        weir_error *error);

/* Bytes as base64 text. */
void cli_json_base64(weir_json_writer *w, const void *data, size_t size);

#endif
