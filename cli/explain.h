/* The reasons of a draft, for a person to read. */
#ifndef WEIR_CLI_EXPLAIN_H
#define WEIR_CLI_EXPLAIN_H

#include "cli.h"

/* Writes the reasons (what weir_ingest_options.reasons took) as Markdown: what to check first, then
 * table by table. `source` is what was drafted from. OUT_OF_MEMORY. */
WEIR_CHECKED weir_status cli_write_reasons(FILE *out, const char *source, const weir_bytes *reasons,
                                           weir_error *error);

#endif
