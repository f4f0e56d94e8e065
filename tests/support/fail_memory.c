/* A library for LD_PRELOAD that lets the C allocations of one library fail, in the thread that asks for it:
 * each way of calls to an allocation fails once in a process, the first time that it is met. A loop that
 * repeats a call until nothing fails any more has then seen every failure of it, in as many rounds as there
 * are ways. */
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void fail_memory_begin(void);
int fail_memory_end(void);
int fail_memory_of(const char *library);

enum { FRAMES = 12, WAYS = 1 << 16 };

static uintptr_t first, end; /* the library's code */
static uint64_t seen[WAYS];  /* hashes of ways that have failed */
static _Thread_local bool is_armed, has_failed;

static int look(struct dl_phdr_info *info, size_t size, void *library) {
    (void)size;
    if (!strstr(info->dlpi_name, library))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            first = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            end = first + info->dlpi_phdr[i].p_memsz;
        }
    return 1;
}

/* Which library: a part of its path. Not 0 if it is loaded. */
int fail_memory_of(const char *library) {
    void *frames[FRAMES];
    (void)backtrace(frames, FRAMES); /* the first call allocates */
    return dl_iterate_phdr(look, (void *)(uintptr_t)library);
}

/* From now on the first allocation by a way that has not failed yet does. */
void fail_memory_begin(void) {
    has_failed = false;
    is_armed = true;
}

/* Not 0 if one did. */
int fail_memory_end(void) {
    is_armed = false;
    return has_failed;
}

static bool is_of_library(const void *address) {
    return (uintptr_t)address >= first && (uintptr_t)address < end;
}

/* The way is the library's own part of the calls. */
static bool is_new_way(void) {
    void *frames[FRAMES];
    uint64_t hash = 1;
    int count = backtrace(frames, FRAMES);
    for (int i = 0; i < count; i++)
        if (is_of_library(frames[i]))
            hash = (hash ^ (uintptr_t)frames[i]) * 0x9e3779b97f4a7c15u;
    size_t at = hash >> 48;
    while (seen[at] != 0 && seen[at] != hash)
        at = (at + 1) % WAYS;
    bool is_new = seen[at] == 0;
    seen[at] = hash;
    return is_new;
}

static bool fails(const void *caller) {
    if (!is_armed || !is_of_library(caller))
        return false;
    is_armed = false; /* what follows may allocate itself */
    has_failed = is_new_way();
    is_armed = !has_failed; /* one failure per call */
    if (has_failed)
        errno = ENOMEM;
    return has_failed;
}

void *malloc(size_t size) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_memalign(alignment, size);
}
