/* The end of the demo: a short run that is stopped half way, resumed, and replayed. */
#ifndef WEIR_CLI_DEMO_RUN_H
#define WEIR_CLI_DEMO_RUN_H

#include "cli.h"

typedef struct demo_run_files {
    const char *store, *manifest;   /* that are there */
    const char *trace, *checkpoint; /* written again */
} demo_run_files;

/* Runs, and says how it went. */
WEIR_CHECKED weir_status demo_run(const demo_run_files *files, weir_error *error);

#endif
