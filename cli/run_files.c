/* The files of one rank of a run. Ranks share nothing, so in a larger world each has its own, NAME.rankN. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "run.h"

static weir_status name_file(char out[CLI_PATH_MAX], const char *path, uint32_t rank, uint32_t world_size,
                             weir_error *error) {
    int size = world_size > 1 ? snprintf(out, CLI_PATH_MAX, "%s.rank%u", path, rank)
                              : snprintf(out, CLI_PATH_MAX, "%s", path);
    if (size >= 0 && size < CLI_PATH_MAX)
        return WEIR_OK;
    return cli_error(error, WEIR_IO_ERROR, "the path of a file is longer than %d bytes", CLI_PATH_MAX - 1);
}

static bool exists(const char *path) {
    struct stat file;
    return stat(path, &file) == 0;
}

/* NAME if it is there, else NAME.rankN, also of a world of one: so a run can shrink to one rank. */
static weir_status find_resume(cli_run_files *files, const char *resume, uint32_t rank, bool is_saved_there,
                               weir_error *error) {
    weir_status status = name_file(files->resume, resume, 0, 1, error);
    if (status != WEIR_OK || exists(files->resume))
        return status;
    status = name_file(files->resume, resume, rank, 2, error);
    if (status != WEIR_OK || exists(files->resume))
        return status;
    if (is_saved_there) {
        files->resume[0] = 0;
        return WEIR_OK;
    }
    return cli_error(error, WEIR_IO_ERROR,
                     "there is no checkpoint %s, nor %s; name one that is there, or leave --resume away",
                     resume, files->resume);
}

/* A run that goes on replaces a checkpoint, and nothing else that has its name. */
static weir_status check_is_checkpoint(const char *path, weir_error *error) {
    enum { SIZE_MAX_READ = 1 << 26 };
    struct stat file;
    weir_checkpoint found;
    char *data = NULL;
    size_t size = 0;
    bool is_one = stat(path, &file) == 0 && S_ISREG(file.st_mode) && file.st_size <= SIZE_MAX_READ &&
                  cli_read_file(path, &data, &size, error) == WEIR_OK &&
                  weir_checkpoint_read(data, size, &found, error) == WEIR_OK;
    free(data);
    if (is_one)
        return WEIR_OK;
    return cli_error(error, WEIR_IO_ERROR,
                     "%s exists already and is not a checkpoint; give --checkpoint another name, or move the "
                     "file away",
                     path);
}

weir_status cli_run_name_files(cli_run_files *files, const char *trace, const char *checkpoint,
                               const char *resume, uint32_t rank, uint32_t world_size, weir_error *error) {
    weir_status status = WEIR_OK;
    memset(files, 0, sizeof *files);
    if (trace)
        status = name_file(files->trace, trace, rank, world_size, error);
    if (status == WEIR_OK && checkpoint)
        status = name_file(files->checkpoint, checkpoint, rank, world_size, error);
    if (status == WEIR_OK && resume)
        status = find_resume(files, resume, rank, checkpoint && strcmp(checkpoint, resume) == 0, error);
    return status;
}

weir_status cli_run_check_replaced(const cli_run_files *files, weir_error *error) {
    if (!files->checkpoint[0] || !exists(files->checkpoint))
        return WEIR_OK;
    if (files->resume[0])
        return check_is_checkpoint(files->checkpoint, error);
    return cli_error(
        error, WEIR_IO_ERROR,
        "%s exists already, and a run that begins would replace it; go on from it with --resume, "
        "or move it away",
        files->checkpoint);
}

/* Two runs that write one trace would spoil it: the second one of a command that is given twice is refused.
 * The lock lasts as long as its descriptor or the program, however that ends. Where the file system has no
 * locks there is none. */
static weir_status lock(const char *path, int *out, weir_error *error) {
    *out = open(path, O_RDONLY | O_CLOEXEC);
    if (*out < 0 || flock(*out, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return WEIR_OK;
    return cli_error(error, WEIR_IO_ERROR,
                     "another run is writing %s; wait until it has ended, or give this one files of its own",
                     path);
}

weir_status cli_run_open_trace(const weir_loader *loader, const char *path, const weir_checkpoint *from,
                               weir_trace_writer **out, int *locked, weir_error *error) {
    weir_trace_run description;
    weir_loader_describe(loader, &description);
    if (from && exists(path)) {
        weir_status status = lock(path, locked, error);
        return status == WEIR_OK
                   ? weir_trace_resume(NULL, path, &description, from->step, from->hash, out, error)
                   : status;
    }
    weir_trace_start start = {from ? from->step : 0, from ? from->hash : NULL};
    weir_status status = weir_trace_create(NULL, path, &description, from ? &start : NULL, out, error);
    return status == WEIR_OK ? lock(path, locked, error) : status;
}
