/* weir run in parts: cmd_run.c reads the call and opens the run, run_loop.c takes the batches, run_report.c
 * says how it goes. */
#ifndef WEIR_CLI_RUN_H
#define WEIR_CLI_RUN_H

#include "selection.h"

/* What a dataset has given. */
typedef struct cli_run_dataset {
    const weir_dataset *dataset;
    uint64_t batches;
    uint64_t samples;
    weir_cursor next;
    uint64_t epoch;             /* the latest of its batches' */
    uint64_t blocks_this_epoch; /* distinct blocks of that epoch, from its first step on */
} cli_run_dataset;

typedef struct cli_running {
    weir_run *run;
    bool shows_progress;

    /* What happened. */
    uint64_t began_ns; /* the program, by the clock of cli_run_now_ns */
    uint64_t batches;
    uint64_t room; /* samples that its batches would have on this rank if all were full */
    uint64_t samples;
    uint64_t bytes;
    cli_run_dataset *datasets; /* room for all of the manifest's; NULL: not counted */
    size_t dataset_count;
    const weir_batch_source *sources; /* of mixed batches, … */
    uint32_t source_count;
    uint64_t *source_samples; /* … and how many samples each gave; room for all datasets, or NULL */
    uint64_t first_batch_ns;  /* since the program began; 0 if there was none */
    uint64_t loop_ns;
    int signal; /* that stopped it, or 0 */
} cli_running;

uint64_t cli_run_now_ns(void);

/* Takes every batch; ends early, with all saved, at SIGINT or SIGTERM. */
WEIR_CHECKED weir_status cli_run_loop(cli_running *run, weir_error *error);

/* A line on the terminal, at most ten times a second. */
void cli_run_show(const cli_running *run, bool is_last);

/* The summary as text, which names the run's files if `with_files` is true: IO_ERROR if it cannot be written;
 * and as text with the files or one JSON object, with the exit status. */
WEIR_CHECKED weir_status cli_run_tell(const cli_running *run, bool with_files, weir_error *error);
int cli_run_print(const cli_running *run, bool as_json);

#endif
