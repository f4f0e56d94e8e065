/* weir_tool/pipeline_tools.h: names of policies and stages, the launcher's rank, cursors as a document. */
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
