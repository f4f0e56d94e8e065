/* See file.h. The temporary name is the file's own with random digits after it, made new and never followed
 * through a link, so that nobody can put another file in its place; and it is locked while it is written.
 * So a temporary file without a lock is one that a killed process left, which the next writer of the same
 * file removes; one with a lock means that somebody is writing that file now. Without locks (some network
 * file systems) leftovers stay, and of two writers the last rename wins, whole. */
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

weir_status weir__file_open(const weir_env *env, const char *path, int *file, const char *failure_operator,
                            weir_error *error) {
    weir_file_info info;
    /* Without O_NONBLOCK a pipe would make us wait for its writer. Files do not know it. */
    *file = env->open(env->context, path, O_RDONLY | O_NONBLOCK, 0);
    if (*file < 0)
        return weir__io_error(error, failure_operator, "open", path);
    weir_status status = WEIR_OK;
    if (env->inspect(env->context, *file, path, &info) != 0)
        status = weir__io_error(error, failure_operator, "look at", path);
    else if (info.kind == WEIR_FILE_FOLDER) {
        status = weir__fail(error, WEIR_IO_ERROR, failure_operator, "%s is a directory", path);
        weir__note_int(error, "errno", EISDIR);
        weir__note_text(error, "path", path, strlen(path));
    } else if (info.kind != WEIR_FILE_REGULAR)
        status =
            weir__fail(error, WEIR_IO_ERROR, failure_operator,
                       "%s is a device or a pipe, not a file; write what it gives into a file first", path);
    if (status != WEIR_OK) {
        env->close(env->context, *file);
        *file = -1;
    }
    return status;
}

weir_status weir__file_read(const weir_env *env, const char *path, size_t max_size, uint8_t **data,
                            size_t *size, const char *failure_operator, weir_error *error) {
    if (strcmp(path, "-") == 0)
        return read_stream(env, STDIN_FILENO, "standard input", max_size, data, size, failure_operator,
                           error);
    int file;
    WEIR__TRY(weir__file_open(env, path, &file, failure_operator, error));
    weir_status status = read_stream(env, file, path, max_size, data, size, failure_operator, error);
    env->close(env->context, file);
    return status;
}

bool weir__read_at(const weir_env *env, int file, void *out, size_t size, uint64_t offset) {
    uint8_t *at = out;
    while (size > 0) {
        ssize_t got = env->pread(env->context, file, at, size, offset);
        if (got <= 0) {
            errno = got == 0 ? EIO : errno;
            return false;
        }
        at += got;
        offset += (uint64_t)got;
        size -= (size_t)got;
    }
    return true;
}

bool weir__write_at(const weir_env *env, int file, const void *data, size_t size, uint64_t offset) {
    const uint8_t *at = data;
    while (size > 0) {
        ssize_t written = env->pwrite(env->context, file, at, size, offset);
        if (written <= 0) {
            errno = written == 0 ? EIO : errno;
            return false;
        }
        at += written;
        offset += (uint64_t)written;
        size -= (size_t)written;
    }
    return true;
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

/* The folder that a path's last name is in: "." if it names none. False with errno set if it is longer than
 * the system takes. */
static bool folder_of(const char *path, char folder[PATH_MAX]) {
    const char *slash = strrchr(path, '/');
    size_t size = slash && slash > path ? (size_t)(slash - path) : 1;
    errno = ENAMETOOLONG;
    if (size >= PATH_MAX)
        return false;
    memcpy(folder, slash ? path : ".", size);
    folder[size] = 0;
    return true;
}

bool weir__sync_directory(const weir_env *env, const char *path) {
    char directory[PATH_MAX];
    int file =
        folder_of(path, directory) ? env->open(env->context, directory, O_RDONLY | O_DIRECTORY, 0) : -1;
    if (file < 0)
        return false;
    int failed = env->sync(env->context, file);
    int number = errno;
    env->close(env->context, file);
    errno = number;
    return failed == 0;
}

/* ---- Temporary files ------------------------------------------------------------------------- */

enum { RANDOM_BYTES = 8, RANDOM_DIGITS = 2 * RANDOM_BYTES, CREATE_TRIES = 16 };
static const char ending[] = ".tmp";
enum { NAME_EXTRA = 1 + RANDOM_DIGITS + sizeof ending };

/* Whether `name` is that of a temporary file of `base`: "base.0123456789abcdef.tmp". */
static bool is_temporary_of(const char *name, const char *base) {
    size_t base_size = strlen(base);
    if (strlen(name) + 1 != base_size + NAME_EXTRA || strncmp(name, base, base_size) != 0 ||
        name[base_size] != '.')
        return false;
    return strspn(name + base_size + 1, "0123456789abcdef") == RANDOM_DIGITS &&
           strcmp(name + base_size + 1 + RANDOM_DIGITS, ending) == 0;
}

bool weir__is_still(const weir_env *env, int file, const char *path) {
    weir_file_info opened, named;
    return env->inspect(env->context, file, path, &opened) == 0 &&
           env->inspect(env->context, -1, path, &named) == 0 && opened.device == named.device &&
           opened.number == named.number;
}

/* Looks at one temporary file: removes it if nobody holds its lock; says whether somebody does. */
static bool is_being_written(const weir_env *env, const char *path) {
    int file = env->open(env->context, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (file < 0)
        return false;
    bool is_free = env->lock(env->context, file) == 0;
    bool is_busy = !is_free && errno == EWOULDBLOCK;
    if (is_free && weir__is_still(env, file, path))
        (void)!env->remove(env->context, path);
    env->close(env->context, file);
    return is_busy;
}

typedef struct search {
    const weir__atomic_file *file;
    const char *base; /* the path's last name */
    bool is_busy;
} search;

static bool look_at_name(void *context, const char *name, bool is_folder, bool is_file) {
    search *s = context;
    const weir__atomic_file *file = s->file;
    (void)is_folder;
    (void)is_file; /* links are not followed here */
    if (!is_temporary_of(name, s->base))
        return true;
    char path[PATH_MAX]; /* of the length of file->temporary */
    snprintf(path, sizeof path, "%.*s%s", WEIR__NARROW(int, s->base - file->path), file->path, name);
    if (strcmp(path, file->temporary) != 0)
        s->is_busy |= is_being_written(file->env, path);
    return true;
}

/* Removes what killed processes left beside the file; IO_ERROR if another process is writing it. */
static weir_status look_for_others(const weir__atomic_file *file, weir_error *error) {
    const weir_env *env = file->env;
    const char *slash = strrchr(file->path, '/');
    search s = {.file = file, .base = slash ? slash + 1 : file->path};
    char folder[PATH_MAX];
    if (folder_of(file->path, folder))
        (void)!env->list(env->context, folder, look_at_name, &s); /* a folder may be closed to readers */
    if (s.is_busy)
        return weir__fail(error, WEIR_IO_ERROR, file->failure_operator,
                          "another process is writing %s; wait until it has ended, or give this one another "
                          "name",
                          file->path);
    return WEIR_OK;
}

/* Makes the temporary file and locks it. Between the two, another writer may take it for a leftover and
 * remove it: then another is made. False with errno set. */
static bool create_temporary(weir__atomic_file *file, const weir_env *env, const char *path,
                             const char *failure_operator) {
    *file = (weir__atomic_file){.env = env, .failure_operator = failure_operator, .file = -1};
    errno = ENAMETOOLONG;
    if (strlen(path) + NAME_EXTRA > PATH_MAX)
        return false;
    strcpy(file->path, path);
    errno = EIO;
    for (int i = 0; i < CREATE_TRIES; i++) {
        uint8_t random[RANDOM_BYTES];
        char digits[RANDOM_DIGITS + 1];
        if (env->random(env->context, random, sizeof random) != 0)
            return false;
        weir__hex_encode(random, sizeof random, digits);
        snprintf(file->temporary, sizeof file->temporary, "%s.%s%s", path, digits, ending);
        file->file = env->open(env->context, file->temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
        if (file->file < 0 && errno != EEXIST)
            return false;
        if (file->file < 0)
            continue;
        bool has_lock = env->lock(env->context, file->file) == 0 || errno != EWOULDBLOCK;
        if (has_lock && weir__is_still(env, file->file, file->temporary))
            return true;
        env->close(env->context, file->file);
        (void)!env->remove(env->context, file->temporary); /* the name is nobody else's */
        file->file = -1;
        errno = EBUSY;
    }
    return false;
}

/* If the file system makes no file without a name, one whose name goes at once. */
int weir__open_nameless(const weir_env *env, const char *beside) {
    char folder[PATH_MAX];
    weir__atomic_file named;
    int file =
        folder_of(beside, folder) ? env->open(env->context, folder, O_TMPFILE | O_RDWR | O_EXCL, 0600) : -1;
    if (file >= 0)
        return file;
    if (create_temporary(&named, env, beside, NULL))
        (void)!env->remove(env->context, named.temporary);
    return named.file;
}

/* ---- Atomic files ---------------------------------------------------------------------------- */

enum { LINKS_MAX = 40 }; /* as many as the system itself follows */

/* Puts the name that the link `path` leads to in its place, link after link. False with errno set. */
static bool follow_links(const weir_env *env, char path[PATH_MAX]) {
    char target[PATH_MAX];
    for (int i = 0; i < LINKS_MAX; i++) {
        ssize_t got = env->read_link(env->context, path, target, sizeof target);
        if (got < 0)
            return errno == EINVAL; /* not a link */
        const char *slash = strrchr(path, '/');
        size_t size = (size_t)got, kept = slash && target[0] != '/' ? (size_t)(slash - path) + 1 : 0;
        errno = ENAMETOOLONG;
        if (kept + size >= PATH_MAX)
            return false;
        memcpy(path + kept, target, size);
        path[kept + size] = 0;
    }
    errno = ELOOP;
    return false;
}

/* Looks at what a link leads to, and puts the name of a regular file in the link's place. The system follows
 * the link first, because it refuses what this would not: links that others put into a shared folder. A link
 * that leads nowhere stays, to be replaced itself. False with errno set. */
static bool look_through_link(const weir_env *env, char path[PATH_MAX], weir_file_info *info) {
    int file = env->open(env->context, path, O_PATH, 0);
    if (file < 0) {
        info->kind = WEIR_FILE_REGULAR;
        return errno == ENOENT;
    }
    bool is_known = env->inspect(env->context, file, path, info) == 0;
    if (is_known && info->kind == WEIR_FILE_REGULAR) {
        is_known = follow_links(env, path);
        if (is_known && !weir__is_still(env, file, path)) {
            errno = EBUSY; /* another link since */
            is_known = false;
        }
    }
    int number = errno;
    env->close(env->context, file);
    errno = number;
    return is_known;
}

weir_status weir__find_target(const weir_env *env, const char *path, char target[PATH_MAX],
                              const char *failure_operator, weir_error *error) {
    weir_file_info info = {.kind = WEIR_FILE_REGULAR};
    errno = ENAMETOOLONG;
    if (strlen(path) >= PATH_MAX)
        return weir__io_error(error, failure_operator, "create", path);
    strcpy(target, path);
    if (env->inspect(env->context, -1, path, &info) != 0)
        return errno == ENOENT ? WEIR_OK : weir__io_error(error, failure_operator, "create", path);
    if (info.kind == WEIR_FILE_OTHER && !look_through_link(env, target, &info))
        return weir__io_error(error, failure_operator, "replace", path);
    errno = EISDIR;
    if (info.kind == WEIR_FILE_FOLDER)
        return weir__io_error(error, failure_operator, "replace", path);
    if (info.kind == WEIR_FILE_OTHER)
        return weir__fail(error, WEIR_IO_ERROR, failure_operator,
                          "%s is a device or a pipe, not a file, and is not replaced; give another name",
                          path);
    return WEIR_OK;
}

weir_status weir__atomic_open(weir__atomic_file *file, const weir_env *env, const char *path,
                              const char *failure_operator, weir_error *error) {
    char target[PATH_MAX];
    *file = (weir__atomic_file){.env = env, .failure_operator = failure_operator, .file = -1};
    WEIR__TRY(weir__find_target(env, path, target, failure_operator, error));
    if (!create_temporary(file, env, target, failure_operator)) {
        file->temporary[0] = 0; /* not made, so not this file's to remove */
        return weir__io_error(error, failure_operator, "create", path);
    }
    weir_status status = look_for_others(file, error);
    if (status != WEIR_OK)
        weir__atomic_abandon(file);
    return status;
}

weir_status weir__atomic_write(weir__atomic_file *file, const void *data, size_t size, weir_error *error) {
    if (!weir__write_all(file->env, file->file, data, size))
        return weir__io_error(error, file->failure_operator, "write", file->path);
    return WEIR_OK;
}

/* The lock is kept until the file has its name. What closing says after a sync is nothing that matters. */
weir_status weir__atomic_commit(weir__atomic_file *file, weir_error *error) {
    const weir_env *env = file->env;
    if (env->sync(env->context, file->file) != 0)
        return weir__io_error(error, file->failure_operator, "sync", file->path);
    if (env->rename(env->context, file->temporary, file->path) != 0)
        return weir__io_error(error, file->failure_operator, "replace", file->path);
    env->close(env->context, file->file);
    file->file = -1;
    file->temporary[0] = 0;
    if (!weir__sync_directory(env, file->path))
        return weir__io_error(error, file->failure_operator, "sync the directory of", file->path);
    return WEIR_OK;
}

void weir__atomic_abandon(weir__atomic_file *file) {
    const weir_env *env = file->env;
    if (file->file >= 0)
        env->close(env->context, file->file);
    if (file->temporary[0])
        env->remove(env->context, file->temporary);
    file->file = -1;
    file->temporary[0] = 0;
}
