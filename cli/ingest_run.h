/* An ingest as the program runs it: with progress, an end on signals, a look at the store before it takes its
 * name, and a report for a person, for a program, or as a page. */
#ifndef WEIR_CLI_INGEST_RUN_H
#define WEIR_CLI_INGEST_RUN_H

#include "cli.h"

typedef struct cli_ingest_job {
    weir_ingest_options options; /* the caller's; the hooks are filled in */
    const char *page;            /* where the report goes as a page, or NULL */

    /* Of a run. */
    weir_bytes base_report; /* how each table was read, if there is a base */
    weir_ingest_report result;
    weir_store *store; /* what was made, open since it was finished */
    weir_report *report;
    weir_warning *warnings; /* copies: those of ingest, then those of the report */
    size_t warning_count;
    bool is_short_of_memory;
} cli_ingest_job;

/* The command: `weir ingest`, or `weir assemble`, which has no options of sources and takes the schema that
 * lies among the runs if none is given. */
int cli_ingest_command(const cli_command *self, bool is_assembly, int argc, char **argv);

/* Runs it. Release it, also after a failure. */
WEIR_CHECKED weir_status cli_ingest_run(cli_ingest_job *ingest, weir_error *error);
void cli_ingest_release(cli_ingest_job *ingest);

/* Prints what happened, or why it failed (after the warnings, if it came as far as the report); CLI_OK or
 * CLI_FAILED.
 */
int cli_ingest_finish(const cli_ingest_job *ingest, weir_status status, const weir_error *error,
                      bool as_json);

/* The report of an ingest that went well, for a terminal. */
int cli_ingest_print(const cli_ingest_job *ingest);

/* How each table was read with a base, as CBOR to be released; false if there was none. */
bool cli_ingest_read_base(const cli_ingest_job *ingest, weir_cbor_writer *out);

/* Warnings and notes as lines. */
void cli_ingest_print_warnings(const cli_ingest_job *ingest);

#endif
