/* See run_files.h. */
#include "pipeline/run_files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

static const char operator_name[] = "weir.run.files";

enum { CHECKPOINT_MAX = 1 << 26, RANK_SIZE = 16 };

bool weir_pipeline__run_files_exists(const weir_env *env, const char *path) {
    weir_file_info info;
    return env->inspect(env->context, -1, path, &info) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* A copy of the name; with a rank, NAME.rankN. */
static weir_status name_file(const weir_env *env, const char *name, bool has_rank, uint32_t rank, char **out,
                             weir_error *error) {
    size_t size = strlen(name) + RANK_SIZE;
    weir__release(env, *out);
    *out = weir__allocate(env, size, 1);
    if (!*out)
        return weir__out_of_memory(error, operator_name, size);
    if (has_rank)
        snprintf(*out, size, "%s.rank%u", name, rank);
    else
        snprintf(*out, size, "%s", name);
    return WEIR_OK;
}

/* NAME if it is there, else NAME.rankN, also of a world of one: so a run can shrink to one rank. */
static weir_status find_resume(weir_pipeline__run_files *files, const weir_env *env,
                               const weir_run_options *o, weir_error *error) {
    for (int has_rank = 0; has_rank < 2; has_rank++) {
        weir_status status = name_file(env, o->resume, has_rank, o->rank, &files->resume, error);
        if (status != WEIR_OK || weir_pipeline__run_files_exists(env, files->resume))
            return status;
    }
    weir_status status =
        weir__fail(error, WEIR_IO_ERROR, operator_name,
                   "there is no checkpoint %s, nor %s; name one that is there, or begin without one",
                   o->resume, files->resume);
    if (!o->checkpoint || strcmp(o->checkpoint, o->resume) != 0)
        return status;
    weir__release(env, files->resume);
    files->resume = NULL;
    return WEIR_OK;
}

weir_status weir_pipeline__run_files_open(weir_pipeline__run_files *files, const weir_env *env,
                                          const weir_run_options *o, weir_error *error) {
    bool has_rank = o->world_size > 1;
    weir_status status = WEIR_OK;
    if (o->trace)
        status = name_file(env, o->trace, has_rank, o->rank, &files->trace, error);
    if (status == WEIR_OK && o->checkpoint)
        status = name_file(env, o->checkpoint, has_rank, o->rank, &files->checkpoint, error);
    return status == WEIR_OK && o->resume ? find_resume(files, env, o, error) : status;
}

void weir_pipeline__run_files_close(weir_pipeline__run_files *files, const weir_env *env) {
    weir__release(env, files->trace);
    weir__release(env, files->checkpoint);
    weir__release(env, files->resume);
}

weir_status weir_pipeline__run_files_read(const weir_pipeline__run_files *files, const weir_env *env,
                                          uint8_t **data, size_t *size, weir_error *error) {
    weir_checkpoint found;
    weir_error reason;
    WEIR__TRY(weir__file_read(env, files->resume, CHECKPOINT_MAX, data, size, operator_name, error));
    weir_status status = weir_checkpoint_read(*data, *size, &found, &reason);
    if (status == WEIR_OK)
        return WEIR_OK;
    status = weir__explain_format(status, *data, *size, "it", "a checkpoint", &reason);
    weir__release(env, *data);
    *data = NULL;
    return weir__fail(error, status, operator_name, "cannot resume from %s: %s", files->resume,
                      reason.message);
}

weir_status weir_pipeline__run_files_check_first(const weir_env *env, const char *checkpoint,
                                                 const char *failure_operator, weir_error *error) {
    if (!weir_pipeline__run_files_exists(env, checkpoint))
        return WEIR_OK;
    return weir__fail(error, WEIR_IO_ERROR, failure_operator,
                      "%s exists already, and a run that begins would replace it; resume from it, or move it "
                      "away",
                      checkpoint);
}

weir_status weir_pipeline__run_files_check(const weir_pipeline__run_files *files, const weir_env *env,
                                           bool is_resumed, weir_error *error) {
    uint8_t *data = NULL;
    size_t size;
    weir_pipeline__run_files there = {.resume = files->checkpoint};
    if (!files->checkpoint)
        return WEIR_OK;
    if (!is_resumed)
        return weir_pipeline__run_files_check_first(env, files->checkpoint, operator_name, error);
    if (!weir_pipeline__run_files_exists(env, files->checkpoint))
        return WEIR_OK;
    weir_status status = weir_pipeline__run_files_read(&there, env, &data, &size, error);
    weir__release(env, data);
    if (status == WEIR_OK || status == WEIR_OUT_OF_MEMORY)
        return status;
    return weir__fail(error, WEIR_IO_ERROR, operator_name,
                      "%s exists already and is not a checkpoint; give the checkpoint another name, or move "
                      "the file away",
                      files->checkpoint);
}
