/* A library for LD_PRELOAD that kills the program at one moment of what it does to files: before the Nth call
 * that opens for writing, writes, syncs, cuts, renames or removes, with N from WEIR_CRASH_AT. With
 * WEIR_CRASH_TORN set, a write at that moment leaves its first half. With WEIR_PUBLISH_PART set, the program
 * lives, and another one seems to run beside it: before NAME.part is locked for the first time, it becomes
 * NAME. */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static unsigned long calls;

/* Whether this is the moment. */
static int is_now(void) {
    const char *at = getenv("WEIR_CRASH_AT");
    return at && __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) == strtoul(at, NULL, 10);
}

static void die_now(void) {
    if (is_now())
        kill(getpid(), SIGKILL);
}

/* Calls the system's own. The cast through a pointer to the pointer is what dlsym is made for. */
#define REAL(name, ...)                                                                                      \
    ({                                                                                                       \
        __typeof__(&name) real;                                                                              \
        *(void **)&real = dlsym(RTLD_NEXT, #name);                                                           \
        real(__VA_ARGS__);                                                                                   \
    })

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    if ((flags & O_ACCMODE) != O_RDONLY)
        die_now();
    return REAL(open, path, flags, mode);
}

ssize_t write(int file, const void *data, size_t size) {
    if (is_now()) {
        if (getenv("WEIR_CRASH_TORN"))
            (void)!REAL(write, file, data, size / 2);
        kill(getpid(), SIGKILL);
    }
    return REAL(write, file, data, size);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t offset) {
    die_now();
    return REAL(pwrite, file, data, size, offset);
}

int fsync(int file) {
    die_now();
    return REAL(fsync, file);
}

int fdatasync(int file) {
    die_now();
    return REAL(fdatasync, file);
}

int ftruncate(int file, off_t size) {
    die_now();
    return REAL(ftruncate, file, size);
}

int rename(const char *from, const char *to) {
    die_now();
    return REAL(rename, from, to);
}

int unlink(const char *path) {
    die_now();
    return REAL(unlink, path);
}

int flock(int file, int operation) {
    static const char ending[] = ".part";
    char link[64], path[4096], name[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = getenv("WEIR_PUBLISH_PART") ? readlink(link, path, sizeof path - 1) : -1;
    size_t tail = sizeof ending - 1;
    if (size > (ssize_t)tail && memcmp(path + size - tail, ending, tail) == 0) {
        path[size] = 0;
        snprintf(name, sizeof name, "%.*s", (int)(size - (ssize_t)tail), path);
        unsetenv("WEIR_PUBLISH_PART");
        (void)!REAL(rename, path, name);
    }
    return REAL(flock, file, operation);
}
