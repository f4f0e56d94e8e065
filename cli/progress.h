/* One line on a terminal that says how far long work is; silent if standard error is not a terminal. */
#ifndef WEIR_CLI_PROGRESS_H
#define WEIR_CLI_PROGRESS_H

#include "cli.h"

typedef struct cli_progress {
    bool is_shown;
    const char *phase;
    uint64_t phase_began_ns;
} cli_progress;

void cli_progress_begin(cli_progress *progress);
/* A weir_progress_report; the context is the cli_progress. False once a caught signal came (signals.h). */
bool cli_progress_show(void *context, const weir_progress *state);
/* Wipes the line. */
void cli_progress_end(cli_progress *progress);

/* The parts of such a line: a bar from 0 to 1 with its percentage; a line of ASCII in place of the last one,
 * cut where the terminal ends, because one that wraps cannot be replaced; and nothing again. */
void cli_progress_bar(FILE *out, double share);
void cli_progress_line(const char *line);
void cli_progress_wipe(void);
enum { CLI_PROGRESS_MAX = 256 };

/* "1.2 GB", "950 B". */
void cli_format_bytes(uint64_t bytes, char out[32]);

#endif
