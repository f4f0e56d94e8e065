/* weir_tool/pipeline_tools.h: a run's options as a table, names of policies and stages, the launcher's rank,
 * cursors as a document. */
#ifndef WEIR_TOOL_PIPELINE_TOOLS_H
#define WEIR_TOOL_PIPELINE_TOOLS_H

#include "weir/cursors.h"
#include "weir/run.h"
#include "weir_tool/documents.h"

/* "strict", "best_effort"; "interleaved", "contiguous". Static; any thread. Parse: CONTRACT_VIOLATION. */
const char *weir_policy_name(weir_policy policy);
const char *weir_shard_mode_name(weir_shard_mode mode);
WEIR_CHECKED weir_status weir_policy_parse(const char *name, weir_policy *out, weir_error *error);
WEIR_CHECKED weir_status weir_shard_mode_parse(const char *name, weir_shard_mode *out, weir_error *error);

/* "read", "build" … Static; any thread. */
const char *weir_run_stage_name(weir_run_stage stage);

/* An option of a run that is a plain value, so that the program and Python need not list them: its name in
 * Python, the member of weir_run_options, and what a person is told about it. */
typedef enum weir_run_value {
    WEIR_RUN_VALUE_BOOL,
    WEIR_RUN_VALUE_UINT32,
    WEIR_RUN_VALUE_UINT64,
    WEIR_RUN_VALUE_SIZE, /* uint64_t: bytes */
    WEIR_RUN_VALUE_TEXT,
    WEIR_RUN_VALUE_FILE, /* a text that is the name of a file */
    WEIR_RUN_VALUE_STAGE,
    WEIR_RUN_VALUE_POLICY,
    WEIR_RUN_VALUE_SHARDS,
} weir_run_value;

typedef struct weir_run_setting {
    const char *name;
    weir_run_value value;
    size_t offset;
    const char *flag;  /* the option of `weir run`, "--workers"; NULL: it has none, or not as a plain value */
    const char *takes; /* what its value is called in the help; NULL for a bool */
    const char *help;
} weir_run_setting;

/* All of them, in the order of the help. Static; any thread. */
const weir_run_setting *weir_run_settings(size_t *count);

/* Sets a stage, a policy or shards by its name. INVALID_STAGE_TYPE, CONTRACT_VIOLATION. */
WEIR_CHECKED weir_status weir_run_set_word(weir_run_options *options, const weir_run_setting *setting,
                                           const char *word, weir_error *error);

/* Rank and world size as the first launcher says that has set its variables: torchrun (RANK, WORLD_SIZE),
 * Open MPI (OMPI_COMM_WORLD_RANK, …_SIZE), MPICH and other PMI launchers (PMI_RANK, PMI_SIZE), Slurm
 * (SLURM_PROCID, SLURM_NTASKS); rank 0 of 1 if there is none. CONTRACT_VIOLATION if one variable of the two
 * is missing, is not a number, or the rank is not below the world size. */
WEIR_CHECKED weir_status weir_launcher_read(uint32_t *rank, uint32_t *world_size, weir_error *error);

/* Writes all cursors as one canonical CBOR map that holds a hash of itself. */
void weir_cursors_write(const weir_cursors *cursors, weir_cbor_writer *w);

/* Takes over the cursors that were written, of any world size. CBOR_INVALID; CHECKPOINT_MISMATCH if they are
 * damaged or another manifest's or token's. Then all is as it was. */
WEIR_CHECKED weir_status weir_cursors_restore(weir_cursors *cursors, const void *data, size_t size,
                                              weir_error *error);

#endif
