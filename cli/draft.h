/* Drafts of schemas, for `weir schema` and `weir init`: making one, and its reasons for a person to read. */
#ifndef WEIR_CLI_DRAFT_H
#define WEIR_CLI_DRAFT_H

#include "cli.h"

typedef struct cli_draft {
    weir_bytes schema;  /* JSON on one line */
    weir_bytes reasons; /* what weir_ingest_options.reasons takes */
} cli_draft;

/* Drafts with progress and an end on signals. Release it, also after a failure. */
WEIR_CHECKED weir_status cli_draft_make(cli_draft *draft, const weir_ingest_options *options,
                                        weir_error *error);
void cli_draft_release(cli_draft *draft);

/* Breaks the schema into lines, for a person to edit. */
WEIR_CHECKED weir_status cli_draft_indent(cli_draft *draft, weir_error *error);

/* Writes the schema to a file, and the reasons to another. */
WEIR_CHECKED weir_status cli_draft_save(const cli_draft *draft, const char *source, const char *schema_path,
                                        const char *notes_path, weir_error *error);

/* Writes the reasons as Markdown: what to check first, then table by table. `source` is what was drafted
 * from. OUT_OF_MEMORY. */
WEIR_CHECKED weir_status cli_draft_explain(const cli_draft *draft, FILE *out, const char *source,
                                           weir_error *error);

#endif
