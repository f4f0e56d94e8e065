/* See file.h. The temporary name is the file's own with ".tmp" and the process id behind it: two processes
 * that write one file at once do not meet, and the last rename wins whole. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

enum { FIRST_READ = 64 * 1024 };

static weir_status read_stream(const weir_env *env, int file, const char *path, size_t max_size,
                               uint8_t **data, size_t *size, const char *failure_operator,
                               weir_error *error) {
    void *memory = NULL;
    size_t capacity = 0;
    size_t used = 0;
    for (;;) {
        if (!weir__grow(env, &memory, &capacity, used + FIRST_READ + 1, 1)) {
            weir__release(env, memory);
            return weir__out_of_memory(error, failure_operator, used + FIRST_READ + 1);
        }
        ssize_t got = env->read(env->context, file, (uint8_t *)memory + used, capacity - used - 1);
        if (got < 0) {
            weir_status status = weir__io_error(error, failure_operator, "read", path);
            weir__release(env, memory);
            return status;
        }
        if (got == 0)
            break;
        used += (size_t)got;
        if (used > max_size) {
            weir__release(env, memory);
            return weir__fail(error, WEIR_IO_ERROR, failure_operator,
                              "%s is larger than the limit of %zu bytes", path, max_size);
        }
    }
    ((uint8_t *)memory)[used] = 0;
    *data = memory;
    *size = used;
    return WEIR_OK;
}

weir_status weir__file_read(const weir_env *env, const char *path, size_t max_size, uint8_t **data,
                            size_t *size, const char *failure_operator, weir_error *error) {
    if (strcmp(path, "-") == 0)
        return read_stream(env, STDIN_FILENO, "standard input", max_size, data, size, failure_operator,
                           error);
    int file = env->open(env->context, path, O_RDONLY, 0);
    if (file < 0)
        return weir__io_error(error, failure_operator, "open", path);
    weir_status status = read_stream(env, file, path, max_size, data, size, failure_operator, error);
    env->close(env->context, file);
    return status;
}

weir_status weir__refuse_directory(const weir_env *env, int file, const char *path,
                                   const char *failure_operator, weir_error *error) {
    uint8_t byte;
    if (env->pread(env->context, file, &byte, 1, 0) >= 0)
        return WEIR_OK;
    if (errno != EISDIR)
        return weir__io_error(error, failure_operator, "read", path);
    return weir__fail(error, WEIR_IO_ERROR, failure_operator, "%s is a directory", path);
}

bool weir__write_all(const weir_env *env, int file, const void *data, size_t size) {
    const uint8_t *at = data;
    while (size > 0) {
        ssize_t written = env->write(env->context, file, at, size);
        if (written < 0)
            return false;
        if (written == 0) {
            errno = EIO;
            return false;
        }
        at += written;
        size -= (size_t)written;
    }
    return true;
}

bool weir__sync_directory(const weir_env *env, const char *path) {
    const char *slash = strrchr(path, '/');
    char *directory = slash ? weir__copy_text(env, path, slash == path ? 1 : (size_t)(slash - path))
                            : weir__copy_text(env, ".", 1);
    if (!directory) {
        errno = ENOMEM;
        return false;
    }
    int file = env->open(env->context, directory, O_RDONLY | O_DIRECTORY, 0);
    weir__release(env, directory);
    if (file < 0)
        return false;
    int failed = env->sync(env->context, file);
    int number = errno;
    env->close(env->context, file);
    errno = number;
    return failed == 0;
}

static char *temporary_name(const weir_env *env, const char *path) {
    size_t capacity = strlen(path) + 32;
    char *name = weir__allocate(env, capacity, 1);
    if (name)
        snprintf(name, capacity, "%s.tmp%ld", path, (long)getpid());
    return name;
}

weir_status weir__atomic_open(weir__atomic_file *file, const weir_env *env, const char *path,
                              const char *failure_operator, weir_error *error) {
    *file = (weir__atomic_file){.env = env, .failure_operator = failure_operator, .file = -1};
    file->path = weir__copy_text(env, path, strlen(path));
    file->temporary = temporary_name(env, path);
    if (!file->path || !file->temporary) {
        weir__atomic_abandon(file);
        return weir__out_of_memory(error, failure_operator, strlen(path));
    }
    file->file = env->open(env->context, file->temporary, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (file->file < 0) {
        weir_status status = weir__io_error(error, failure_operator, "create", path);
        weir__release(env, file->temporary); /* not made, so not this file's to remove */
        file->temporary = NULL;
        weir__atomic_abandon(file);
        return status;
    }
    return WEIR_OK;
}

weir_status weir__atomic_write(weir__atomic_file *file, const void *data, size_t size, weir_error *error) {
    if (!weir__write_all(file->env, file->file, data, size))
        return weir__io_error(error, file->failure_operator, "write", file->path);
    return WEIR_OK;
}

static void free_names(weir__atomic_file *file) {
    weir__release(file->env, file->path);
    weir__release(file->env, file->temporary);
    file->path = file->temporary = NULL;
}

weir_status weir__atomic_commit(weir__atomic_file *file, weir_error *error) {
    const weir_env *env = file->env;
    if (env->sync(env->context, file->file) != 0)
        return weir__io_error(error, file->failure_operator, "sync", file->path);
    int failed = env->close(env->context, file->file);
    file->file = -1;
    if (failed != 0)
        return weir__io_error(error, file->failure_operator, "close", file->path);
    if (env->rename(env->context, file->temporary, file->path) != 0)
        return weir__io_error(error, file->failure_operator, "replace", file->path);
    if (!weir__sync_directory(env, file->path)) {
        weir_status status =
            weir__io_error(error, file->failure_operator, "sync the directory of", file->path);
        free_names(file);
        return status;
    }
    free_names(file);
    return WEIR_OK;
}

void weir__atomic_abandon(weir__atomic_file *file) {
    const weir_env *env = file->env;
    if (file->file >= 0)
        env->close(env->context, file->file);
    if (file->temporary)
        env->remove(env->context, file->temporary);
    file->file = -1;
    free_names(file);
}
