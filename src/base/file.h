/* Files through the environment: whole reads with a limit, what a file seems to be, and files that appear
 * whole or not at all. */
#ifndef WEIR_BASE_FILE_H
#define WEIR_BASE_FILE_H

#include <limits.h>

#include "base/internal.h"
#include "weir_tool/base_tools.h"

/* Reads a whole file of at most max_size bytes into memory from `env` (release it); a NUL follows the data.
 * "-" is standard input. IO_ERROR (a larger file too), OUT_OF_MEMORY. */
WEIR_CHECKED weir_status weir__file_read(const weir_env *env, const char *path, size_t max_size,
                                         uint8_t **data, size_t *size, const char *failure_operator,
                                         weir_error *error);

/* Opens a file to read or map it; the caller closes it. IO_ERROR if it is a directory, a device or a pipe: a
 * device may have no end, and a pipe no beginning. */
WEIR_CHECKED weir_status weir__file_open(const weir_env *env, const char *path, int *file,
                                         const char *failure_operator, weir_error *error);

/* Passes `status` on. If it is a failure to understand these bytes and they are of another format than
 * is wanted, such as "a graph", the message says so instead. */
weir_status weir__explain_format(weir_status status, const void *data, size_t size, const char *name,
                                 const char *wanted, weir_error *error);

/* weir_cbor_check of a file's bytes: the message has its name. */
WEIR_CHECKED weir_status weir__cbor_check_in(const char *name, const void *data, size_t size,
                                             size_t *item_size, weir_error *error);

/* Reads exactly `size` bytes from `offset` on, however often the system gives only a part. False with errno
 * set (EIO if the file ends before). */
bool weir__read_at(const weir_env *env, int file, void *out, size_t size, uint64_t offset);

/* Writes all of it, however often the system takes only a part. False with errno set. */
bool weir__write_at(const weir_env *env, int file, const void *data, size_t size, uint64_t offset);
bool weir__write_all(const weir_env *env, int file, const void *data, size_t size);

/* Whether an open file is the one at `path`: a name that was opened may be another's before it is locked. */
bool weir__is_still(const weir_env *env, int file, const char *path);

/* Syncs the directory of `path`, so that a rename in it lasts. False with errno set. */
bool weir__sync_directory(const weir_env *env, const char *path);

/* A new, empty file in the folder of `beside`, to be read and written, that has no name: it is gone when it
 * is closed, also by a kill. -1 with errno set. */
int weir__open_nameless(const weir_env *env, const char *beside);

/* The name that a new file is to take, which no file has or a regular one: where a link of this name leads.
 */
WEIR_CHECKED weir_status weir__find_target(const weir_env *env, const char *path, char target[PATH_MAX],
                                           const char *failure_operator, weir_error *error);

/* A file that is written under a temporary name beside its own and takes its name, synced, at commit. Until
 * then the old file stands. A link stays one: the file that it leads to is replaced. Opening it also removes
 * what killed writers of the same file left, and is an IO_ERROR while another process writes it, and if a
 * directory, a device, a pipe or a socket has the name.
 *
 *   weir__atomic_file file;
 *   status = weir__atomic_open(&file, env, path, op, error);
 *   status = weir__atomic_write(&file, data, size, error);          any number of times
 *   status = weir__atomic_commit(&file, error);                     or weir__atomic_abandon(&file)
 *
 * After a failed write or commit: abandon. Abandon is harmless after commit. None of it takes memory: runs
 * save checkpoints this way. */
typedef struct weir__atomic_file {
    const weir_env *env;
    const char *failure_operator;
    int file;                 /* -1 if nothing is open */
    char path[PATH_MAX];      /* where its links lead */
    char temporary[PATH_MAX]; /* empty if there is no such file */
} weir__atomic_file;

WEIR_CHECKED weir_status weir__atomic_open(weir__atomic_file *file, const weir_env *env, const char *path,
                                           const char *failure_operator, weir_error *error);
WEIR_CHECKED weir_status weir__atomic_write(weir__atomic_file *file, const void *data, size_t size,
                                            weir_error *error);
WEIR_CHECKED weir_status weir__atomic_commit(weir__atomic_file *file, weir_error *error);
void weir__atomic_abandon(weir__atomic_file *file);

#endif
