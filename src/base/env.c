/* The default environment: the system itself, one thin function an entry. Interrupted calls are retried
 * here, so that nobody above has to think of signals. Also the memory helpers that check sizes before they
 * ask. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/guard.h"
#include "base/internal.h"

#define RETRY_WHEN_INTERRUPTED(call)                                                                         \
    ({                                                                                                       \
        __typeof__(call) result;                                                                             \
        do {                                                                                                 \
            result = (call);                                                                                 \
        } while (result == -1 && errno == EINTR);                                                            \
        result;                                                                                              \
    })

/* Large memory is written in many places at once (a batch has two dozen tensors): fewer pages, fewer misses
 * of the TLB. */
enum { HUGE_PAGES_FROM = 4 << 20 };

static void *system_allocate(void *context, size_t size) {
    (void)context;
    return malloc(size ? size : 1);
}

static void *system_resize(void *context, void *memory, size_t size) {
    (void)context;
    return realloc(memory, size ? size : 1);
}

static void system_release(void *context, void *memory) {
    (void)context;
    free(memory);
}

static int system_open(void *context, const char *path, int flags, unsigned mode) {
    (void)context;
    return RETRY_WHEN_INTERRUPTED(open(path, flags | O_CLOEXEC, (mode_t)mode));
}

static int system_close(void *context, int file) {
    (void)context;
    return close(file);
}

static ssize_t system_read(void *context, int file, void *out, size_t size) {
    (void)context;
    return RETRY_WHEN_INTERRUPTED(read(file, out, size));
}

static ssize_t system_pread(void *context, int file, void *out, size_t size, uint64_t offset) {
    (void)context;
    return RETRY_WHEN_INTERRUPTED(pread(file, out, size, (off_t)offset));
}

static ssize_t system_write(void *context, int file, const void *data, size_t size) {
    (void)context;
    return RETRY_WHEN_INTERRUPTED(write(file, data, size));
}

static ssize_t system_pwrite(void *context, int file, const void *data, size_t size, uint64_t offset) {
    (void)context;
    return RETRY_WHEN_INTERRUPTED(pwrite(file, data, size, (off_t)offset));
}

static int system_sync(void *context, int file) {
    (void)context;
    return RETRY_WHEN_INTERRUPTED(fsync(file));
}

static int system_truncate(void *context, int file, uint64_t size) {
    (void)context;
    return RETRY_WHEN_INTERRUPTED(ftruncate(file, (off_t)size));
}

static int system_size(void *context, int file, uint64_t *size) {
    (void)context;
    struct stat status;
    if (fstat(file, &status) != 0)
        return -1;
    *size = (uint64_t)status.st_size;
    return 0;
}

static int system_rename(void *context, const char *from, const char *to) {
    (void)context;
    return rename(from, to);
}

static int system_remove(void *context, const char *path) {
    (void)context;
    return unlink(path);
}

static int system_make_folder(void *context, const char *path) {
    (void)context;
    return mkdir(path, 0777);
}

static int system_link(void *context, const char *from, const char *to) {
    (void)context;
    return link(from, to);
}

static ssize_t system_read_link(void *context, const char *path, char *out, size_t size) {
    (void)context;
    return readlink(path, out, size);
}

static void *system_map(void *context, int file, size_t size) {
    (void)context;
    void *memory = file >= 0 ? mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0)
                             : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if (size >= HUGE_PAGES_FROM)
        (void)madvise(memory, size, MADV_HUGEPAGE); /* advice: where the kernel has none, small pages do */
    return memory;
}

static int system_unmap(void *context, void *memory, size_t size) {
    (void)context;
    return munmap(memory, size);
}

static uint64_t system_now_ns(void *context) {
    (void)context;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int system_start_thread(void *context, void *(*run)(void *), void *argument, uintptr_t *thread) {
    (void)context;
    pthread_t started;
    int failure = pthread_create(&started, NULL, run, argument);
    if (failure == 0)
        *thread = (uintptr_t)started;
    return failure;
}

static int system_join_thread(void *context, uintptr_t thread) {
    (void)context;
    return pthread_join((pthread_t)thread, NULL);
}

static void system_wait(void *context, const uint32_t *word, uint32_t expected, uint64_t timeout_ns) {
    (void)context;
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                               .tv_nsec = (long)(timeout_ns % 1000000000u)};
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout_ns ? &timeout : NULL, NULL, 0);
}

static void system_wake(void *context, const uint32_t *word) {
    (void)context;
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static int system_wipe_on_fork(void *context, void *memory, size_t size) {
    (void)context;
    return madvise(memory, size, MADV_WIPEONFORK);
}

static int system_list(void *context, const char *path,
                       bool (*each)(void *argument, const char *name, bool is_folder, bool is_file),
                       void *argument) {
    (void)context;
    DIR *folder = opendir(path);
    if (!folder)
        return -1;
    bool goes_on = true;
    int failure = 0;
    while (goes_on) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        struct stat node = {0};
        if (!entry) {
            failure = errno;
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        bool is_there = fstatat(dirfd(folder), entry->d_name, &node, 0) == 0;
        goes_on = each(argument, entry->d_name, is_there && S_ISDIR(node.st_mode),
                       is_there && S_ISREG(node.st_mode));
    }
    closedir(folder);
    errno = failure;
    return failure ? -1 : 0;
}

static int system_inspect(void *context, int file, const char *path, weir_file_info *out) {
    (void)context;
    struct stat status;
    if ((file >= 0 ? fstat(file, &status) : lstat(path, &status)) != 0)
        return -1;
    *out = (weir_file_info){.kind = S_ISREG(status.st_mode)   ? WEIR_FILE_REGULAR
                                    : S_ISDIR(status.st_mode) ? WEIR_FILE_FOLDER
                                                              : WEIR_FILE_OTHER,
                            .size = (uint64_t)status.st_size,
                            .device = (uint64_t)status.st_dev,
                            .number = (uint64_t)status.st_ino};
    return 0;
}

static int system_lock(void *context, int file) {
    (void)context;
    return RETRY_WHEN_INTERRUPTED(flock(file, LOCK_EX | LOCK_NB));
}

static int system_unlock(void *context, int file) {
    (void)context;
    return flock(file, LOCK_UN);
}

static int system_random(void *context, void *out, size_t size) {
    (void)context;
    for (size_t done = 0; done < size;) {
        ssize_t got = RETRY_WHEN_INTERRUPTED(getrandom((uint8_t *)out + done, size - done, 0));
        if (got < 0)
            return -1;
        done += (size_t)got;
    }
    return 0;
}

/* ---- Memory that the process may have -------------------------------------------------------- */

/* The number in a file, which may say "max" instead: then, and if there is no such file, no limit. */
static uint64_t read_limit(const char *path) {
    char text[32] = "";
    FILE *file = fopen(path, "re");
    uint64_t limit = UINT64_MAX;
    if (!file)
        return limit;
    if (fgets(text, sizeof text, file) && text[0] >= '0' && text[0] <= '9')
        limit = strtoull(text, NULL, 10);
    fclose(file);
    return limit;
}

/* The least limit of a control group and those above it. The path is cut on the way up. */
static uint64_t limit_of_group(const char *root, char *group, const char *name) {
    uint64_t least = UINT64_MAX;
    for (;;) {
        char path[PATH_MAX];
        int size = snprintf(path, sizeof path, "%s%s/%s", root, group, name);
        uint64_t limit = size < PATH_MAX ? read_limit(path) : UINT64_MAX;
        least = limit < least ? limit : least;
        char *slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = 0;
    }
}

/* Lines of /proc/self/cgroup are number:controllers:group; version 2 names no controllers. */
static uint64_t system_memory_size(void *context) {
    (void)context;
    char line[PATH_MAX];
    uint64_t least = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file)) {
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        uint64_t limit = UINT64_MAX;
        if (strcmp(controllers, ":") == 0)
            limit = limit_of_group("/sys/fs/cgroup", group, "memory.max");
        else if (strstr(controllers, "memory"))
            limit = limit_of_group("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
        least = limit < least ? limit : least;
    }
    if (file)
        fclose(file);
    return least;
}

static void system_scatter(void *context, const void *memory, size_t size) {
    (void)context;
    (void)madvise((void *)(uintptr_t)memory, size, MADV_RANDOM);
    (void)madvise((void *)(uintptr_t)memory, size, MADV_NOHUGEPAGE); /* which would be read whole */
}

static void *system_reserve(void *context, size_t size) {
    (void)context;
    void *range = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return range == MAP_FAILED ? NULL : range;
}

static size_t system_page_size(void *context) {
    (void)context;
    return (size_t)sysconf(_SC_PAGESIZE);
}

static int system_map_at(void *context, void *at, size_t size, int file, uint64_t offset) {
    (void)context;
    int access = file == WEIR_MAP_NOTHING ? PROT_NONE : PROT_READ | PROT_WRITE;
    int flags = MAP_FIXED | (file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS);
    if (file == WEIR_MAP_NOTHING)
        flags |= MAP_NORESERVE;
    if (mmap(at, size, access, flags, file >= 0 ? file : -1, file >= 0 ? (off_t)offset : 0) == MAP_FAILED)
        return -1;
    if (file != WEIR_MAP_NOTHING && size >= HUGE_PAGES_FROM)
        (void)madvise(at, size, MADV_HUGEPAGE);
    return 0;
}

static int system_memory_file(void *context, uint64_t size) {
    int file = memfd_create("weir", MFD_CLOEXEC);
    if (file < 0 || system_truncate(context, file, size) == 0)
        return file;
    int failure = errno;
    (void)close(file);
    errno = failure;
    return -1;
}

/* A file system that cannot set room aside gets it by zeros. */
static int system_claim(void *context, int file, uint64_t offset, uint64_t size) {
    static const uint8_t zeros[64 * 1024];
    (void)context;
    if (RETRY_WHEN_INTERRUPTED(fallocate(file, 0, (off_t)offset, (off_t)size)) == 0)
        return 0;
    if (errno != EOPNOTSUPP && errno != ENOSYS)
        return -1;
    while (size > 0) {
        ssize_t wrote = RETRY_WHEN_INTERRUPTED(
            pwrite(file, zeros, size < sizeof zeros ? (size_t)size : sizeof zeros, (off_t)offset));
        if (wrote <= 0)
            return -1;
        offset += (uint64_t)wrote;
        size -= (uint64_t)wrote;
    }
    return 0;
}

static void system_forget(void *context, const void *memory, size_t size, bool for_good) {
    (void)context;
    if (!for_good || madvise((void *)(uintptr_t)memory, size, MADV_REMOVE) != 0)
        (void)madvise((void *)(uintptr_t)memory, size, MADV_DONTNEED);
}

/* Looking first costs less than asking for what is there. */
static bool system_expect(void *context, const void *memory, size_t size) {
    enum { PAGE = 4096, PAGES_MOST = 64 };
    unsigned char is_there[PAGES_MOST];
    uintptr_t first = (uintptr_t)memory & ~(uintptr_t)(PAGE - 1);
    size_t pages = ((uintptr_t)memory + size - first + PAGE - 1) / PAGE, missing = 0;
    (void)context;
    if (pages <= PAGES_MOST && mincore((void *)first, pages * PAGE, is_there) == 0) {
        for (size_t i = 0; i < pages; i++)
            missing += !(is_there[i] & 1);
        if (missing == 0)
            return false;
    }
    (void)madvise((void *)first, pages * PAGE, MADV_WILLNEED);
    return true;
}

const weir_env *weir_env_default(void) {
    static const weir_env system_env = {
        .allocate = system_allocate,
        .resize = system_resize,
        .release = system_release,
        .open = system_open,
        .close = system_close,
        .read = system_read,
        .pread = system_pread,
        .write = system_write,
        .pwrite = system_pwrite,
        .sync = system_sync,
        .truncate = system_truncate,
        .size = system_size,
        .rename = system_rename,
        .remove = system_remove,
        .make_folder = system_make_folder,
        .link = system_link,
        .read_link = system_read_link,
        .map = system_map,
        .unmap = system_unmap,
        .now_ns = system_now_ns,
        .start_thread = system_start_thread,
        .join_thread = system_join_thread,
        .wait = system_wait,
        .wake = system_wake,
        .wipe_on_fork = system_wipe_on_fork,
        .guard = weir__guard_system,
        .unguard = weir__unguard_system,
        .inspect = system_inspect,
        .list = system_list,
        .lock = system_lock,
        .unlock = system_unlock,
        .random = system_random,
        .memory_size = system_memory_size,
        .scatter = system_scatter,
        .expect = system_expect,
        .reserve = system_reserve,
        .page_size = system_page_size,
        .map_at = system_map_at,
        .memory_file = system_memory_file,
        .claim = system_claim,
        .forget = system_forget,
    };
    return &system_env;
}

const weir_env *weir__env_or_default(const weir_env *env) {
    return env ? env : weir_env_default();
}

void *weir__allocate(const weir_env *env, size_t count, size_t size) {
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        return NULL;
    return env->allocate(env->context, total ? total : 1);
}

void *weir__allocate_zero(const weir_env *env, size_t count, size_t size) {
    void *memory = weir__allocate(env, count, size);
    if (memory)
        memset(memory, 0, count * size);
    return memory;
}

void weir__release(const weir_env *env, void *memory) {
    env->release(env->context, memory);
}

void weir_bytes_release(weir_bytes *bytes) {
    if (bytes->env)
        weir__release(bytes->env, bytes->data);
    *bytes = (weir_bytes){0};
}

bool weir__grow(const weir_env *env, void **memory, size_t *capacity, size_t needed, size_t item_size) {
    if (needed <= *capacity)
        return true;
    size_t wanted = *capacity < 16 ? 16 : *capacity;
    while (wanted < needed)
        if (__builtin_add_overflow(wanted, wanted / 2, &wanted))
            return false;
    size_t bytes;
    if (__builtin_mul_overflow(wanted, item_size, &bytes))
        return false;
    void *grown = env->resize(env->context, *memory, bytes);
    if (!grown)
        return false;
    *memory = grown;
    *capacity = wanted;
    return true;
}

char *weir__copy_text(const weir_env *env, const char *text, size_t size) {
    char *copy = size == SIZE_MAX ? NULL : weir__allocate(env, size + 1, 1);
    if (!copy)
        return NULL;
    if (size)
        memcpy(copy, text, size);
    copy[size] = 0;
    return copy;
}
