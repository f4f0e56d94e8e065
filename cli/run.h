/* weir run in parts: cmd_run.c reads the call and opens what it names, run_place.c finds rank and world size,
 * run_files.c the files of this rank, run_loop.c takes the batches, run_device.c does so on a device,
 * run_report.c says how it goes. */
#ifndef WEIR_CLI_RUN_H
#define WEIR_CLI_RUN_H

#include "selection.h"

/* ---- Place in the world ---------------------------------------------------------------------- */

/* Fills rank and world size from what launched the program, where it says: torchrun, Open MPI, MPICH and
 * other PMI launchers, Slurm, in this order; else they stay as they are. CONTRACT_VIOLATION where the
 * variables make no sense. */
WEIR_CHECKED weir_status cli_run_find_place(uint32_t *rank, uint32_t *world_size, weir_error *error);

/* ---- Files ----------------------------------------------------------------------------------- */

/* The files of this rank; "" where there is none. */
typedef struct cli_run_files {
    char trace[CLI_PATH_MAX];
    char checkpoint[CLI_PATH_MAX];
    char resume[CLI_PATH_MAX]; /* "" too where the run begins because there is no checkpoint yet */
} cli_run_files;

/* Names them: NAME, or NAME.rankN in a larger world; the checkpoint to resume from is NAME if there is one,
 * else NAME.rankN. IO_ERROR where that is missing (unless it is the file that the run saves to: then the run
 * begins). */
WEIR_CHECKED weir_status cli_run_name_files(cli_run_files *files, const char *trace, const char *checkpoint,
                                            const char *resume, uint32_t rank, uint32_t world_size,
                                            weir_error *error);

/* IO_ERROR where a run that begins would replace any file by its checkpoint, or one that goes on a file that
 * is no checkpoint. */
WEIR_CHECKED weir_status cli_run_check_replaced(const cli_run_files *files, weir_error *error);

/* Opens the trace of a run that begins (from NULL) or goes on from a checkpoint: appends to a trace that is
 * there, begins one where there is none. IO_ERROR where another run is writing it: the descriptor in
 * `locked`, which the caller closes after the writer (-1: none), keeps others away. */
WEIR_CHECKED weir_status cli_run_open_trace(const weir_loader *loader, const char *path,
                                            const weir_checkpoint *from, weir_trace_writer **out, int *locked,
                                            weir_error *error);

/* ---- The run --------------------------------------------------------------------------------- */

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
    weir_loader *loader;   /* the staging's, where there is one */
    weir_device *device;   /* NULL: the batches stay on the host */
    weir_staging *staging; /* NULL too */
    bool verifies;
    const weir_checkpoint *from; /* NULL: it begins */
    cli_run_files files;
    uint64_t checkpoint_every;   /* steps; 0: not by steps */
    uint64_t checkpoint_seconds; /* 0: not by time */
    bool with_indices;
    bool shows_progress;
    uint32_t rank;
    uint32_t world_size;
    weir_stage stage;
    weir_policy policy;
    uint32_t workers;

    /* What happened. */
    uint64_t began_ns; /* the program, by the clock of cli_run_now_ns */
    uint64_t first_step;
    uint64_t batches;
    uint64_t batch_size; /* samples of a full batch on this rank */
    uint64_t samples;
    uint64_t bytes;
    cli_run_dataset *datasets; /* room for all of the manifest's; NULL: not counted */
    size_t dataset_count;
    uint64_t verified; /* batches that were read back from the device */
    uint64_t loop_began_ns;
    uint64_t first_batch_ns; /* since the program began; 0 where there was none */
    uint64_t loop_ns;
    int signal; /* that stopped it, or 0 */
} cli_running;

uint64_t cli_run_now_ns(void);

/* Takes every batch, records it, saves checkpoints; ends early, with all saved, at SIGINT or SIGTERM. */
WEIR_CHECKED weir_status cli_run_loop(cli_running *run, weir_error *error);

/* The step behind the last batch that was taken. */
uint64_t cli_run_step(const cli_running *run);

/* ---- On a device ------------------------------------------------------------------------------- */

typedef struct cli_run_device {
    const char *name; /* NULL: no device */
    uint32_t depth;
    bool verifies;
} cli_run_device;

/* Opens the device and, on it, the run. The caller closes, in any case. */
WEIR_CHECKED weir_status cli_run_open_device(cli_running *run, const weir_loader_options *loading,
                                             const cli_run_device *wanted, weir_error *error);
void cli_run_close_device(cli_running *run);

/* Takes one batch there, records it and gives it back; its view (no buffer, no item) is valid until the next
 * one is taken. */
WEIR_CHECKED weir_status cli_run_take_staged(cli_running *run, weir_trace_writer *trace, weir_loaded *out,
                                             weir_error *error);

/* ---- How it goes -------------------------------------------------------------------------------- */

/* A line on the terminal, at most ten times a second. */
void cli_run_show(const cli_running *run, bool is_last);

/* The summary, as text or one JSON object. */
int cli_run_print(const cli_running *run, bool as_json);

#endif
