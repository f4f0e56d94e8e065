/* See spill.h. The file is mapped as a whole at addresses that are reserved once, so that a block's place in
 * the file is its distance from the first of them, and letting go of everything is one call. Only pieces
 * whose room was claimed are ever given out; between them the file has holes, which cost nothing, so that a
 * block that grows gets a place with room to grow in.
 *
 * A large block in memory is mapped by itself, where growing costs nothing while its place suffices, and the
 * system may give it huge pages.
 *
 * Every block begins with its size and its place's. A second thread looks at the process's memory a few
 * hundred times per second, from the first block in the file on. */
#include "base/spill.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum {
    BLOCK_LEAST = 64 * 1024, /* smaller ones stay in memory */
    MAPPED_LEAST = 4 << 20,  /* larger ones in memory are mapped */
    GROWN_LEAST = 1 << 20,   /* the same of those that have grown */
    HUGE_PAGE = 2 << 20,
    GROWTH = 4,            /* times its size is the place in the file of a block that has grown */
    GROWTH_IN_MEMORY = 16, /* and in memory, where room that is not used costs nothing, if it is given */
    LOOK_EVERY_NS = 2000000,
    IS_MAPPED = 1,
};
static const size_t region_most = (size_t)1 << 42, region_least = (size_t)1 << 26;

typedef struct block {
    uint64_t size;  /* with this */
    uint64_t place; /* bytes of its place in the file, or, with IS_MAPPED, in memory; 0: it has none */
} block;
_Static_assert(sizeof(block) == 16, "what follows is aligned for everything");

typedef struct gap {
    size_t offset;
    size_t size;
} gap;

struct weir__spill {
    weir_env env;        /* what its users see; its context is this */
    weir_env memory_env; /* the same for blocks that stay in memory */
    const weir_env *inner;
    const char *failure_operator;
    uint64_t memory;
    uint64_t plain_most; /* of the budget, for blocks in memory */
    size_t block_least;
    size_t page;
    char *beside; /* NULL: no block goes to the file yet */
    atomic_ullong plain;
    pthread_mutex_t lock; /* of all that follows */
    atomic_bool is_open;
    int file;
    uint8_t *region;
    size_t region_size;
    atomic_size_t end; /* no place is beyond it */
    void *gaps;        /* places that are free, below the end, by offset */
    size_t gap_count;
    size_t gap_capacity;
    uint64_t in_file, peak;
    atomic_int failure; /* errno of the file, where a block was not given for it */
    uintptr_t thread;
    int usage;      /* /proc/self/statm */
    uint64_t floor; /* mapped memory that was there before: programs, libraries */
    atomic_uint is_over;
};

/* ---- Letting go ------------------------------------------------------------------------------ */

/* What the process has in memory, and how much of it is mapped files; false if the system does not say. */
static bool measure(const weir__spill *spill, uint64_t *all, uint64_t *mapped) {
    char text[128];
    ssize_t size = spill->usage < 0
                       ? -1
                       : spill->inner->pread(spill->inner->context, spill->usage, text, sizeof text - 1, 0);
    if (size <= 0)
        return false;
    text[size] = 0;
    char *at = text;
    (void)strtoull(at, &at, 10);
    *all = strtoull(at, &at, 10) * spill->page;
    *mapped = strtoull(at, &at, 10) * spill->page;
    return true;
}

/* Half of the budget is kept free, for what comes until the next look: on a busy machine that may be late.
 * Letting go is worth it only if an eighth can be won: less than that is what is in use. */
void weir__spill_look(weir__spill *spill) {
    uint64_t all, mapped;
    if (!atomic_load(&spill->is_open))
        return;
    bool is_known = measure(spill, &all, &mapped);
    if (is_known && (all < spill->memory / 2 || mapped < spill->floor + spill->memory / 8))
        return;
    spill->inner->forget(spill->inner->context, spill->region, atomic_load(&spill->end), false);
}

static void *keep_to_budget(void *argument) {
    weir__spill *spill = argument;
    const weir_env *inner = spill->inner;
    while (atomic_load(&spill->is_over) == 0) {
        weir__spill_look(spill);
        inner->wait(inner->context, (const uint32_t *)(const void *)&spill->is_over, 0, LOOK_EVERY_NS);
    }
    return NULL;
}

/* ---- The file -------------------------------------------------------------------------------- */

static void close_file(weir__spill *spill) {
    const weir_env *inner = spill->inner;
    if (spill->region)
        inner->unmap(inner->context, spill->region, spill->region_size);
    if (spill->usage >= 0)
        inner->close(inner->context, spill->usage);
    if (spill->file >= 0)
        inner->close(inner->context, spill->file);
    spill->region = NULL;
    spill->usage = spill->file = -1;
}

/* As many addresses as the system gives: a process may have few. */
static bool map_region(weir__spill *spill) {
    const weir_env *inner = spill->inner;
    for (size_t size = region_most; size >= region_least; size /= 2) {
        uint8_t *region = inner->reserve(inner->context, size);
        if (!region)
            continue;
        if (inner->map_at(inner->context, region, size, spill->file, 0) == 0) {
            spill->region = region;
            spill->region_size = size;
            return true;
        }
        inner->unmap(inner->context, region, size);
    }
    return false;
}

static bool open_file(weir__spill *spill) {
    const weir_env *inner = spill->inner;
    if (spill->is_open)
        return true;
    spill->file = weir__open_nameless(inner, spill->beside);
    spill->usage = inner->open(inner->context, "/proc/self/statm", 0, 0);
    uint64_t all;
    if (!measure(spill, &all, &spill->floor))
        spill->floor = 0;
    bool is_fine = spill->file >= 0 && map_region(spill);
    int failure = is_fine ? 0 : errno ? errno : EIO;
    if (is_fine)
        failure = inner->start_thread(inner->context, keep_to_budget, spill, &spill->thread);
    spill->is_open = failure == 0;
    if (!spill->is_open)
        close_file(spill);
    errno = failure;
    return spill->is_open;
}

/* The first gap that is large enough, or the end; SIZE_MAX if there is no room. Under the lock. */
static size_t take_place(weir__spill *spill, size_t size) {
    gap *gaps = spill->gaps;
    for (size_t i = 0; i < spill->gap_count; i++) {
        if (gaps[i].size < size)
            continue;
        size_t offset = gaps[i].offset;
        gaps[i].offset += size;
        gaps[i].size -= size;
        if (gaps[i].size == 0)
            memmove(gaps + i, gaps + i + 1, (--spill->gap_count - i) * sizeof *gaps);
        return offset;
    }
    if (size > spill->region_size - spill->end)
        return SIZE_MAX;
    spill->end += size;
    return spill->end - size;
}

static void join_gaps(weir__spill *spill, size_t first) {
    gap *gaps = spill->gaps;
    if (first + 1 >= spill->gap_count || gaps[first].offset + gaps[first].size != gaps[first + 1].offset)
        return;
    gaps[first].size += gaps[first + 1].size;
    memmove(gaps + first + 1, gaps + first + 2, (--spill->gap_count - first - 1) * sizeof *gaps);
}

/* Without memory for the list a place is lost, which costs addresses alone. Under the lock. */
static void give_place(weir__spill *spill, size_t offset, size_t size) {
    gap *gaps;
    size_t at = 0;
    if (!weir__grow(spill->inner, &spill->gaps, &spill->gap_capacity, spill->gap_count + 1, sizeof *gaps))
        return;
    gaps = spill->gaps;
    while (at < spill->gap_count && gaps[at].offset < offset)
        at++;
    memmove(gaps + at + 1, gaps + at, (spill->gap_count++ - at) * sizeof *gaps);
    gaps[at] = (gap){offset, size};
    join_gaps(spill, at);
    if (at > 0)
        join_gaps(spill, at - 1);
}

static size_t whole_pages(const weir__spill *spill, size_t size) {
    return (size + spill->page - 1) / spill->page * spill->page;
}

static void count_in_file(weir__spill *spill, uint64_t change) {
    spill->in_file += change;
    spill->peak = spill->in_file > spill->peak ? spill->in_file : spill->peak;
}

/* A block in the file of `size` bytes, in a place of at least that. */
static block *make_in_file(weir__spill *spill, size_t size, size_t room) {
    const weir_env *inner = spill->inner;
    size_t pages = whole_pages(spill, size);
    room = whole_pages(spill, room);
    pthread_mutex_lock(&spill->lock);
    size_t offset = SIZE_MAX;
    bool is_open = open_file(spill);
    if (is_open) {
        offset = take_place(spill, room);
        if (offset == SIZE_MAX && room > pages)
            offset = take_place(spill, room = pages);
        errno = ENOMEM;
        count_in_file(spill, offset == SIZE_MAX ? 0 : pages);
    }
    bool is_fine = offset != SIZE_MAX && inner->claim(inner->context, spill->file, offset, pages) == 0;
    if (!is_fine) {
        atomic_store(&spill->failure, errno);
        if (offset != SIZE_MAX) {
            spill->in_file -= pages;
            give_place(spill, offset, room);
        }
    }
    pthread_mutex_unlock(&spill->lock);
    if (!is_fine)
        return NULL;
    block *made = (block *)(void *)(spill->region + offset);
    *made = (block){size, room};
    return made;
}

static bool grow_in_file(weir__spill *spill, block *old, size_t size) {
    const weir_env *inner = spill->inner;
    size_t before = whole_pages(spill, old->size), after = whole_pages(spill, size);
    size_t offset = (size_t)((uint8_t *)old - spill->region);
    if (after > before) {
        if (inner->claim(inner->context, spill->file, offset + before, after - before) != 0) {
            atomic_store(&spill->failure, errno);
            return false;
        }
        pthread_mutex_lock(&spill->lock);
        count_in_file(spill, after - before);
        pthread_mutex_unlock(&spill->lock);
    }
    old->size = size > old->size ? size : old->size;
    return true;
}

static void release_in_file(weir__spill *spill, block *old) {
    size_t size = whole_pages(spill, old->size), place = old->place;
    spill->inner->forget(spill->inner->context, old, size, true);
    pthread_mutex_lock(&spill->lock);
    assert(spill->in_file >= size && "more is released than was taken");
    spill->in_file -= size;
    give_place(spill, (size_t)((uint8_t *)old - spill->region), place);
    pthread_mutex_unlock(&spill->lock);
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static block *block_of(void *memory) {
    return (block *)memory - 1;
}

static bool is_in_file(const block *b) {
    return b->place > 0 && !(b->place & IS_MAPPED);
}

/* Counts `size` bytes more in memory, instead of `before`, if they may be there. */
static bool takes_memory(weir__spill *spill, uint64_t before, uint64_t size, bool stays) {
    uint64_t after = atomic_fetch_add(&spill->plain, size - before) + size - before;
    if (stays || !spill->beside || size < spill->block_least || after <= spill->plain_most)
        return true;
    (void)atomic_fetch_sub(&spill->plain, size - before);
    return false;
}

/* A block in memory that is mapped, with room to grow in, as much as the system gives. Whole huge pages: a
 * mapping of those begins where one does. */
static block *map_in_memory(weir__spill *spill, size_t size, size_t growth) {
    const weir_env *inner = spill->inner;
    block *made = NULL;
    size_t room = 0;
    for (; !made && growth > 0; growth /= 4) {
        room = (size * growth + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
        made = inner->map(inner->context, -1, room);
    }
    if (made)
        *made = (block){size, room | IS_MAPPED};
    return made;
}

static block *make_in_memory(weir__spill *spill, size_t size) {
    if (size >= MAPPED_LEAST)
        return map_in_memory(spill, size, 1);
    block *made = spill->inner->allocate(spill->inner->context, size);
    if (made)
        *made = (block){size, 0};
    return made;
}

static void release_in_memory(weir__spill *spill, block *old) {
    const weir_env *inner = spill->inner;
    if (old->place)
        (void)inner->unmap(inner->context, old, old->place - IS_MAPPED);
    else
        inner->release(inner->context, old);
}

/* A block in memory with `size` bytes; NULL if there are none, with all as it was. */
static block *resize_in_memory(weir__spill *spill, block *old, size_t size) {
    const weir_env *inner = spill->inner;
    block *made = old;
    if (!old->place && size < GROWN_LEAST) {
        made = inner->resize(inner->context, old, size);
    } else if (!old->place || size > old->place - IS_MAPPED) {
        made = map_in_memory(spill, size, GROWTH_IN_MEMORY);
        if (made) {
            memcpy(made + 1, old + 1, (old->size < size ? old->size : size) - sizeof *old);
            release_in_memory(spill, old);
        }
    }
    if (made)
        made->size = size;
    return made;
}

static void *make(weir__spill *spill, size_t size, bool stays) {
    if (size > SIZE_MAX / (2 * GROWTH_IN_MEMORY))
        return NULL;
    size += sizeof(block);
    bool is_plain = takes_memory(spill, 0, size, stays);
    block *made = is_plain ? make_in_memory(spill, size) : make_in_file(spill, size, size);
    if (is_plain && !made)
        (void)atomic_fetch_sub(&spill->plain, size);
    return made ? made + 1 : NULL;
}

static void spill_release(void *context, void *memory) {
    weir__spill *spill = context;
    if (!memory)
        return;
    block *old = block_of(memory);
    if (is_in_file(old)) {
        release_in_file(spill, old);
    } else {
        (void)atomic_fetch_sub(&spill->plain, old->size);
        release_in_memory(spill, old);
    }
}

static void *resize(weir__spill *spill, void *memory, size_t size, bool stays) {
    if (!memory)
        return make(spill, size, stays);
    if (size > SIZE_MAX / (2 * GROWTH_IN_MEMORY))
        return NULL;
    block *old = block_of(memory), *made;
    uint64_t before = old->size;
    size += sizeof *made;
    if (is_in_file(old) && size <= old->place)
        return grow_in_file(spill, old, size) ? memory : NULL;
    if (!is_in_file(old) && takes_memory(spill, before, size, stays)) {
        made = resize_in_memory(spill, old, size);
        if (!made)
            (void)atomic_fetch_sub(&spill->plain, size - before);
        return made ? made + 1 : NULL;
    }
    made = make_in_file(spill, size, size * GROWTH);
    if (!made)
        return NULL;
    memcpy(made + 1, memory, (before < size ? before : size) - sizeof *made);
    spill_release(spill, memory);
    return made + 1;
}

static void *spill_allocate(void *context, size_t size) {
    return make(context, size, false);
}

static void *spill_resize(void *context, void *memory, size_t size) {
    return resize(context, memory, size, false);
}

static void *memory_allocate(void *context, size_t size) {
    return make(context, size, true);
}

static void *memory_resize(void *context, void *memory, size_t size) {
    return resize(context, memory, size, true);
}

/* ---- All else goes to the environment below --------------------------------------------------- */

#define INNER (((weir__spill *)context)->inner)
#define PASS(type, name, parameters, ...)                                                                    \
    static type pass_##name parameters {                                                                     \
        return INNER->name(INNER->context, ##__VA_ARGS__);                                                   \
    }
#define PASSED(type, name, ...) .name = pass_##name,
#define ENTRIES(X)                                                                                           \
    X(int, open, (void *context, const char *path, int flags, unsigned mode), path, flags, mode)             \
    X(int, close, (void *context, int file), file)                                                           \
    X(ssize_t, read, (void *context, int file, void *out, size_t size), file, out, size)                     \
    X(ssize_t, pread, (void *context, int file, void *out, size_t size, uint64_t offset), file, out, size,   \
      offset)                                                                                                \
    X(ssize_t, write, (void *context, int file, const void *data, size_t size), file, data, size)            \
    X(ssize_t, pwrite, (void *context, int file, const void *data, size_t size, uint64_t offset), file,      \
      data, size, offset)                                                                                    \
    X(int, sync, (void *context, int file), file)                                                            \
    X(int, truncate, (void *context, int file, uint64_t size), file, size)                                   \
    X(int, size, (void *context, int file, uint64_t *size), file, size)                                      \
    X(int, rename, (void *context, const char *from, const char *to), from, to)                              \
    X(int, remove, (void *context, const char *path), path)                                                  \
    X(int, make_folder, (void *context, const char *path), path)                                             \
    X(int, link, (void *context, const char *from, const char *to), from, to)                                \
    X(ssize_t, read_link, (void *context, const char *path, char *out, size_t size), path, out, size)        \
    X(void *, map, (void *context, int file, size_t size), file, size)                                       \
    X(int, unmap, (void *context, void *memory, size_t size), memory, size)                                  \
    X(uint64_t, now_ns, (void *context))                                                                     \
    X(int, start_thread, (void *context, void *(*run)(void *), void *argument, uintptr_t *thread), run,      \
      argument, thread)                                                                                      \
    X(int, join_thread, (void *context, uintptr_t thread), thread)                                           \
    X(void, wait, (void *context, const uint32_t *word, uint32_t expected, uint64_t timeout_ns), word,       \
      expected, timeout_ns)                                                                                  \
    X(void, wake, (void *context, const uint32_t *word), word)                                               \
    X(int, wipe_on_fork, (void *context, void *memory, size_t size), memory, size)                           \
    X(int, list,                                                                                             \
      (void *context, const char *path,                                                                      \
       bool (*each)(void *argument, const char *name, bool is_folder, bool is_file), void *argument),        \
      path, each, argument)                                                                                  \
    X(int, guard, (void *context, const void *memory, size_t size, uint32_t *failed), memory, size, failed)  \
    X(void, unguard, (void *context, const void *memory), memory)                                            \
    X(int, inspect, (void *context, int file, const char *path, weir_file_info *out), file, path, out)       \
    X(int, lock, (void *context, int file), file)                                                            \
    X(int, unlock, (void *context, int file), file)                                                          \
    X(int, random, (void *context, void *out, size_t size), out, size)                                       \
    X(uint64_t, memory_size, (void *context))                                                                \
    X(void, scatter, (void *context, const void *memory, size_t size), memory, size)                         \
    X(bool, expect, (void *context, const void *memory, size_t size), memory, size)                          \
    X(void *, reserve, (void *context, size_t size), size)                                                   \
    X(size_t, page_size, (void *context))                                                                    \
    X(int, map_at, (void *context, void *at, size_t size, int file, uint64_t offset), at, size, file,        \
      offset)                                                                                                \
    X(int, memory_file, (void *context, uint64_t size), size)                                                \
    X(int, claim, (void *context, int file, uint64_t offset, uint64_t size), file, offset, size)             \
    X(void, forget, (void *context, const void *memory, size_t size, bool for_good), memory, size, for_good)

ENTRIES(PASS)

static const weir_env spill_env = {
    .allocate = spill_allocate, .resize = spill_resize, .release = spill_release, ENTRIES(PASSED)};
/* An entry that is new must be passed on too. */
_Static_assert(sizeof(weir_env) == 42 * sizeof(void *), "every entry of an environment is passed on");

/* ---- Opening and closing --------------------------------------------------------------------- */

weir_status weir__spill_open(weir__spill **out, const weir_env *env, uint64_t memory,
                             const char *failure_operator, weir_error *error) {
    weir__spill *spill = weir__allocate_zero(env, 1, sizeof *spill);
    *out = spill;
    if (!spill)
        return weir__out_of_memory(error, failure_operator, sizeof *spill);
    spill->env = spill_env;
    spill->env.context = spill;
    spill->memory_env = spill->env;
    spill->memory_env.allocate = memory_allocate;
    spill->memory_env.resize = memory_resize;
    spill->inner = env;
    spill->failure_operator = failure_operator;
    spill->memory = memory;
    spill->plain_most = memory / 4;
    spill->page = env->page_size(env->context);
    spill->block_least = memory / 256 > BLOCK_LEAST ? BLOCK_LEAST : (size_t)(memory / 256);
    spill->block_least = spill->block_least > spill->page ? spill->block_least : spill->page;
    spill->file = spill->usage = -1;
    pthread_mutex_init(&spill->lock, NULL);
    return WEIR_OK;
}

weir_status weir__spill_place(weir__spill *spill, const char *beside, weir_error *error) {
    spill->beside = weir__copy_text(spill->inner, beside, strlen(beside));
    return spill->beside ? WEIR_OK : weir__out_of_memory(error, spill->failure_operator, strlen(beside));
}

const weir_env *weir__spill_env(const weir__spill *spill) {
    return &spill->env;
}

const weir_env *weir__spill_memory_env(const weir__spill *spill) {
    return &spill->memory_env;
}

uint64_t weir__spill_share(const weir__spill *spill) {
    return spill->memory / 8;
}

bool weir__spill_is_used(const weir__spill *spill) {
    return atomic_load(&spill->is_open);
}

weir_status weir__spill_explain(const weir__spill *spill, weir_status status, weir_error *error) {
    int failure = atomic_load(&spill->failure);
    if (status != WEIR_OUT_OF_MEMORY || failure == 0)
        return status;
    return weir__fail(error, WEIR_IO_ERROR, spill->failure_operator,
                      "what does not fit into %llu MiB of memory cannot be kept in a file beside %s: %s; "
                      "give more memory, or an output on a disk with room",
                      (unsigned long long)(spill->memory >> 20), spill->beside, strerror(failure));
}

uint64_t weir__spill_size(weir__spill *spill) {
    pthread_mutex_lock(&spill->lock);
    uint64_t size = spill->in_file;
    pthread_mutex_unlock(&spill->lock);
    return size;
}

uint64_t weir__spill_peak(const weir__spill *spill) {
    return spill->peak;
}

void weir__spill_close(weir__spill *spill) {
    if (!spill)
        return;
    const weir_env *inner = spill->inner;
    if (spill->is_open) {
        atomic_store(&spill->is_over, 1);
        inner->wake(inner->context, (const uint32_t *)(const void *)&spill->is_over);
        inner->join_thread(inner->context, spill->thread);
    }
    close_file(spill);
    pthread_mutex_destroy(&spill->lock);
    weir__release(inner, spill->gaps);
    weir__release(inner, spill->beside);
    weir__release(inner, spill);
}
