/* The files of one rank of a run. Ranks share nothing, so in a larger world each has its own, NAME.rankN. */
#ifndef WEIR_PIPELINE_RUN_FILES_H
#define WEIR_PIPELINE_RUN_FILES_H

#include "base/internal.h"
#include "weir/run.h"

typedef struct weir_pipeline__run_files {
    char *trace; /* NULL: none */
    char *checkpoint;
    char *resume; /* NULL too if the run begins because there is no checkpoint yet */
} weir_pipeline__run_files;

/* Names them, by the options with rank and world size in place. IO_ERROR if the checkpoint to resume from is
 * missing, unless it is the file that the run saves to. Close them also after a failure. */
WEIR_CHECKED weir_status weir_pipeline__run_files_open(weir_pipeline__run_files *files, const weir_env *env,
                                                       const weir_run_options *options, weir_error *error);
void weir_pipeline__run_files_close(weir_pipeline__run_files *files, const weir_env *env);

/* The checkpoint to resume from, in memory that the caller releases. IO_ERROR; CBOR_INVALID and
 * CHECKPOINT_MISMATCH if it is not one. */
WEIR_CHECKED weir_status weir_pipeline__run_files_read(const weir_pipeline__run_files *files,
                                                       const weir_env *env, uint8_t **data, size_t *size,
                                                       weir_error *error);

/* IO_ERROR if a run that begins would replace any file by its checkpoint, or one that resumes a file that is
 * not a checkpoint. */
WEIR_CHECKED weir_status weir_pipeline__run_files_check(const weir_pipeline__run_files *files,
                                                        const weir_env *env, bool is_resumed,
                                                        weir_error *error);

/* IO_ERROR if a checkpoint that a run begins with would replace anything. */
WEIR_CHECKED weir_status weir_pipeline__run_files_check_first(const weir_env *env, const char *checkpoint,
                                                              const char *failure_operator,
                                                              weir_error *error);

/* Whether there is anything of this name. If that cannot be told there is: whoever opens it is told why. */
bool weir_pipeline__run_files_exists(const weir_env *env, const char *path);

#endif
