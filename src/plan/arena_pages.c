/* How memory comes to an arena's addresses. A range of addresses is reserved once; pages of memory are mapped
 * into it, and can be replaced while every tensor keeps its address. Memory of the host can be replaced in
 * any part; a GPU's driver unmaps only what was mapped in one call, so `extents` remembers that. Memory
 * without pages (pinned memory, a caller's own) is one allocation, and stays as it is. */
#include <string.h>

#include "base/options.h"
#include "plan/arenas.h"

#define REMAP_OPERATOR "UML_OS.TMMU.Remap_v1"

enum { HUGE_PAGE = 2 << 20, PAGES_MAX = 4096 };

struct weir_backing {
    const weir_env *env;
    weir_memory memory;
    size_t size;
    uint64_t handle;
};

static const weir_pages *pages_of(const weir_arenas *set) {
    return set->memory.pages;
}

static uint8_t *page_at(const weir_plan__mapped *arena, size_t page) {
    return arena->base + page * arena->page;
}

/* How many pages the mapping at `page` has, or 1 if there is none. */
static size_t length_at(const weir_plan__mapped *arena, size_t page) {
    return arena->extents[page] ? arena->extents[page] : 1;
}

static void mark(const weir_arenas *set, weir_plan__mapped *arena, size_t first, size_t count,
                 bool is_backed) {
    for (size_t i = 0; i < count; i++)
        arena->extents[first + i] = !is_backed                    ? 0
                                    : pages_of(set)->is_divisible ? 1
                                    : i == 0                      ? (uint32_t)count
                                                                  : WEIR_PLAN__INSIDE;
}

/* ---- Opening ----------------------------------------------------------------------------------- */

/* The plan's page size, but at least the memory's. Without one, few pages, huge ones if there is room. */
static size_t choose_page(uint64_t asked, size_t unit, uint64_t bytes) {
    size_t page = unit;
    if (asked > 0) {
        while (page < asked)
            page *= 2;
        return page;
    }
    while (page < HUGE_PAGE && bytes >= 2 * (uint64_t)HUGE_PAGE)
        page *= 2;
    while (bytes / page >= PAGES_MAX)
        page *= 2;
    return page;
}

static weir_status back_pages(const weir_arenas *set, weir_plan__mapped *arena, size_t count,
                              weir_error *error) {
    size_t step = pages_of(set)->is_divisible ? count : 1;
    for (size_t page = 0; page < count; page += step) {
        WEIR__TRY(pages_of(set)->back(set->memory.context, page_at(arena, page), step * arena->page, error));
        mark(set, arena, page, step, true);
    }
    return WEIR_OK;
}

static weir_status reserve(weir_arenas *set, weir_plan__mapped *arena, const weir_plan__planned_arena *plan,
                           uint64_t range, uint64_t alignment, weir_error *error) {
    size_t unit = 0;
    WEIR__TRY(pages_of(set)->measure(set->memory.context, &unit, error));
    size_t page = choose_page(plan->page_size, unit, range);
    size_t slack = alignment > unit ? (size_t)alignment : 0;
    if (range > SIZE_MAX / 4 || page > SIZE_MAX / 4)
        return weir__out_of_memory(error, WEIR_PLAN__ARENA_OPERATOR, SIZE_MAX);
    arena->page_count = ((size_t)range + page - 1) / page;
    arena->extents = weir__allocate_zero(set->env, arena->page_count, sizeof *arena->extents);
    if (!arena->extents)
        return weir__out_of_memory(error, WEIR_PLAN__ARENA_OPERATOR,
                                   arena->page_count * sizeof *arena->extents);
    size_t wanted = arena->page_count * page + slack;
    weir_status status = pages_of(set)->reserve(set->memory.context, wanted, &arena->mapping, error);
    if (status != WEIR_OK) {
        arena->mapping = NULL;
        return status;
    }
    arena->page = page;
    arena->mapping_size = wanted;
    return WEIR_OK;
}

weir_status weir_plan__arena_map(weir_arenas *set, uint32_t index, const weir_arenas_options *options,
                                 weir_error *error) {
    const weir_plan__planned_arena *plan = &set->plan->arenas[index];
    weir_plan__mapped *arena = &set->arenas[index];
    uint64_t alignment = plan->alignment > plan->page_size ? plan->alignment : plan->page_size;
    uint64_t range = plan->peak_bytes;
    uint64_t wanted;
    if (options->reserves_capacity && plan->has_capacity)
        range = plan->capacity;
    if (range >= 2 * (uint64_t)HUGE_PAGE && alignment < HUGE_PAGE)
        alignment = HUGE_PAGE;
    arena->name = plan->name;
    if (options->only && (strlen(options->only) != plan->name.size ||
                          memcmp(options->only, plan->name.data, plan->name.size) != 0))
        return WEIR_OK;
    if (range == 0)
        return WEIR_OK;
    if (__builtin_add_overflow(range, alignment, &wanted) || wanted > SIZE_MAX / 2)
        return weir__fail(error, WEIR_ALLOCATION_OVERFLOW, WEIR_PLAN__ARENA_OPERATOR,
                          "arena '%.*s' needs %llu bytes, more than the address space has",
                          WEIR_PLAN__SHOW(plan->name), (unsigned long long)range);
    if (pages_of(set)) {
        WEIR__TRY(reserve(set, arena, plan, range, alignment, error));
    } else { /* one allocation, larger by an alignment, so that an aligned base fits into it */
        weir_error failure = {.status = WEIR_OUT_OF_MEMORY};
        arena->mapping = set->memory.allocate(set->memory.context, (size_t)wanted, &failure);
        arena->mapping_size = (size_t)wanted;
        if (!arena->mapping && error)
            *error = failure;
        if (!arena->mapping)
            return failure.status;
    }
    uintptr_t base = ((uintptr_t)arena->mapping + (uintptr_t)alignment - 1) & ~((uintptr_t)alignment - 1);
    arena->base = (uint8_t *)arena->mapping + (base - (uintptr_t)arena->mapping);
    arena->size = (size_t)plan->peak_bytes;
    if (!arena->page || options->is_empty)
        return WEIR_OK;
    return back_pages(set, arena, (arena->size + arena->page - 1) / arena->page, error);
}

void weir_plan__arena_unmap(weir_arenas *set, weir_plan__mapped *arena) {
    void *context = set->memory.context;
    if (arena->mapping && !arena->page)
        set->memory.release(context, arena->mapping, arena->mapping_size);
    if (arena->mapping && arena->page) {
        for (size_t i = 0; !pages_of(set)->is_divisible && i < arena->page_count; i += length_at(arena, i))
            if (arena->extents[i])
                (void)pages_of(set)->unmap(context, page_at(arena, i), arena->extents[i] * arena->page, NULL);
        pages_of(set)->unreserve(context, arena->mapping, arena->mapping_size);
    }
    weir__release(set->env, arena->extents);
    arena->extents = NULL;
    arena->mapping = NULL;
}

/* ---- Looking ----------------------------------------------------------------------------------- */

bool weir_plan__arena_is_backed(const weir_plan__mapped *arena, uint64_t offset, uint64_t size) {
    if (size == 0 || !arena->page)
        return true;
    for (uint64_t page = offset / arena->page; page <= (offset + size - 1) / arena->page; page++)
        if (!arena->extents[page])
            return false;
    return true;
}

bool weir_arenas_has_memory(const weir_arenas *arenas, const void *memory, size_t size) {
    uintptr_t at = (uintptr_t)memory;
    if (size == 0)
        return true;
    for (uint32_t a = 0; a < arenas->arena_count; a++) {
        const weir_plan__mapped *arena = &arenas->arenas[a];
        uintptr_t base = (uintptr_t)arena->base;
        size_t room = arena->page ? arena->page_count * arena->page : arena->size;
        if (arena->base && at >= base && at - base < room && size <= room - (at - base))
            return weir_plan__arena_is_backed(arena, at - base, size);
    }
    return false;
}

weir_arena_pages weir_arenas_pages(const weir_arenas *arenas, const char *arena, size_t arena_size) {
    const weir_plan__mapped *found = weir_plan__arena_find(arenas, arena, arena_size);
    if (!found || !found->base)
        return (weir_arena_pages){0};
    if (!found->page)
        return (weir_arena_pages){.range_bytes = found->size, .backed_bytes = found->size};
    weir_arena_pages out = {.page_size = found->page,
                            .range_bytes = found->page * (uint64_t)found->page_count};
    for (size_t i = 0; i < found->page_count; i++)
        out.backed_bytes += found->extents[i] ? found->page : 0;
    return out;
}

/* ---- Backings ---------------------------------------------------------------------------------- */

weir_status weir_backing_open(const weir_env *env, const weir_memory *memory, size_t size,
                              weir_backing **backing, weir_error *error) {
    env = weir__env_or_default(env);
    weir_memory from = memory && memory->allocate ? *memory : weir__host_memory(env);
    size_t unit = 0;
    if (!from.pages)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, REMAP_OPERATOR,
                          "this memory has no pages; take the host's, or a device's own");
    WEIR__TRY(from.pages->measure(from.context, &unit, error));
    if (size == 0 || size > SIZE_MAX / 2)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, REMAP_OPERATOR, "a backing has 1 to 2^63-1 bytes");
    weir_backing *made = weir__allocate_zero(env, 1, sizeof *made);
    if (!made)
        return weir__out_of_memory(error, REMAP_OPERATOR, sizeof *made);
    *made = (weir_backing){.env = env, .memory = from, .size = (size + unit - 1) / unit * unit};
    weir_status status = from.pages->make(from.context, made->size, &made->handle, error);
    if (status != WEIR_OK) {
        weir__release(env, made);
        return status;
    }
    *backing = made;
    return WEIR_OK;
}

void weir_backing_close(weir_backing *backing) {
    if (!backing)
        return;
    backing->memory.pages->drop(backing->memory.context, backing->handle);
    weir__release(backing->env, backing);
}

size_t weir_backing_size(const weir_backing *backing) {
    return backing->size;
}

uint64_t weir_backing_handle(const weir_backing *backing) {
    return backing->handle;
}

/* ---- Remapping --------------------------------------------------------------------------------- */

typedef struct piece {
    size_t first; /* pages */
    size_t count;
} piece;

static weir_status refuse(weir_text arena, const char *what, weir_error *error) {
    return weir__fail(error, WEIR_CONTRACT_VIOLATION, REMAP_OPERATOR,
                      "the arena '%.*s' cannot be remapped: %s", WEIR_PLAN__SHOW(arena), what);
}

static weir_status check_remap(const weir_arenas *set, const weir_plan__mapped *arena,
                               const weir_remap *remap, piece *out, weir_error *error) {
    if (!arena->page)
        return refuse(arena->name, arena->base ? "its memory has no pages" : "it needs no memory", error);
    uint64_t room = (uint64_t)arena->page_count * arena->page;
    uint64_t bytes = remap->bytes || remap->offset > room ? remap->bytes : room - remap->offset;
    if (remap->offset > room || bytes > room - remap->offset)
        return refuse(arena->name, "the part reaches past the arena's range", error);
    if (remap->offset % arena->page || bytes % arena->page)
        return refuse(arena->name, "offset and bytes must be multiples of its page size (weir_arenas_pages)",
                      error);
    *out = (piece){(size_t)(remap->offset / arena->page), (size_t)(bytes / arena->page)};
    size_t end = out->first + out->count;
    if (out->count > 0 && (arena->extents[out->first] == WEIR_PLAN__INSIDE ||
                           (end < arena->page_count && arena->extents[end] == WEIR_PLAN__INSIDE)))
        return refuse(arena->name, "the part cuts what was mapped in one piece", error);
    if (remap->target != WEIR_REMAP_BACKING)
        return WEIR_OK;
    if (!remap->backing || remap->backing->memory.pages != pages_of(set))
        return refuse(arena->name, "the backing must be given, and of the arena's kind of memory", error);
    size_t unit = 0;
    WEIR__TRY(pages_of(set)->measure(set->memory.context, &unit, error));
    if (remap->backing_offset % unit || remap->backing_offset > remap->backing->size ||
        bytes > remap->backing->size - remap->backing_offset)
        return refuse(arena->name, "the part reaches past the backing, or begins inside a page of it", error);
    return WEIR_OK;
}

/* Copies what the pages have into the memory of a handle, which is mapped elsewhere for that. */
static weir_status copy_to_handle(const weir_arenas *set, const weir_plan__mapped *arena, piece p,
                                  uint64_t handle, uint64_t offset, weir_error *error) {
    const weir_pages *pages = pages_of(set);
    void *context = set->memory.context;
    void *range = NULL;
    size_t size = p.count * arena->page;
    WEIR__TRY(pages->reserve(context, size, &range, error));
    weir_status status = pages->map(context, range, size, handle, offset, error);
    if (status == WEIR_OK) {
        for (size_t i = 0; i < p.count && status == WEIR_OK; i++)
            if (arena->extents[p.first + i])
                status = weir__memory_copy(&set->memory, (uint8_t *)range + i * arena->page,
                                           page_at(arena, p.first + i), arena->page, error);
        weir_status unmapped = pages->unmap(context, range, size, status ? NULL : error);
        status = status ? status : unmapped;
    }
    pages->unreserve(context, range, size);
    return status;
}

static weir_status unmap_piece(const weir_arenas *set, weir_plan__mapped *arena, piece p, weir_error *error) {
    size_t end = p.first + p.count;
    weir_status status = WEIR_OK;
    for (size_t page = p.first; page < end && status == WEIR_OK;) {
        size_t count = pages_of(set)->is_divisible ? p.count : length_at(arena, page);
        if (pages_of(set)->is_divisible || arena->extents[page])
            status =
                pages_of(set)->unmap(set->memory.context, page_at(arena, page), count * arena->page, error);
        if (status == WEIR_OK)
            mark(set, arena, page, count, false);
        page += count;
    }
    return status;
}

/* Maps a handle over a piece. Memory that is divisible is replaced at once. */
static weir_status map_handle(const weir_arenas *set, weir_plan__mapped *arena, piece p, uint64_t handle,
                              uint64_t offset, bool keeps, weir_error *error) {
    weir_status status = keeps ? copy_to_handle(set, arena, p, handle, offset, error) : WEIR_OK;
    if (status == WEIR_OK && !pages_of(set)->is_divisible)
        status = unmap_piece(set, arena, p, error);
    if (status == WEIR_OK)
        status = pages_of(set)->map(set->memory.context, page_at(arena, p.first), p.count * arena->page,
                                    handle, offset, error);
    if (status == WEIR_OK)
        mark(set, arena, p.first, p.count, true);
    return status;
}

/* New private memory of the host. What was there goes page by page through a page aside. */
static weir_status renew_on_host(const weir_arenas *set, weir_plan__mapped *arena, piece p, bool keeps,
                                 weir_error *error) {
    const weir_env *env = set->env;
    size_t step = keeps ? 1 : p.count;
    uint8_t *aside = keeps ? env->map(env->context, -1, arena->page) : NULL;
    weir_status status = WEIR_OK;
    if (keeps && !aside)
        return weir__out_of_memory(error, REMAP_OPERATOR, arena->page);
    for (size_t i = 0; i < p.count && status == WEIR_OK; i += step) {
        uint8_t *at = page_at(arena, p.first + i);
        bool is_kept = keeps && arena->extents[p.first + i];
        if (is_kept)
            memcpy(aside, at, arena->page);
        status = pages_of(set)->back(set->memory.context, at, step * arena->page, error);
        if (status == WEIR_OK)
            mark(set, arena, p.first + i, step, true);
        if (status == WEIR_OK && is_kept)
            memcpy(at, aside, arena->page);
    }
    if (aside)
        env->unmap(env->context, aside, arena->page);
    return status;
}

/* New memory. If mappings are replaced whole, over each, or over a page without one. */
static weir_status renew(const weir_arenas *set, weir_plan__mapped *arena, piece p, bool keeps,
                         weir_error *error) {
    const weir_pages *pages = pages_of(set);
    size_t end = p.first + p.count;
    if (pages->is_divisible)
        return renew_on_host(set, arena, p, keeps, error);
    for (size_t page = p.first, count; page < end; page += count) {
        uint64_t handle = 0;
        count = length_at(arena, page);
        WEIR__TRY(pages->make(set->memory.context, count * arena->page, &handle, error));
        weir_status status = map_handle(set, arena, (piece){page, count}, handle, 0, keeps, error);
        pages->drop(set->memory.context, handle);
        WEIR__TRY(status);
    }
    return WEIR_OK;
}

weir_status weir_arenas_remap(weir_arenas *arenas, const char *arena, size_t arena_size,
                              const weir_remap *given, weir_error *error) {
    weir_plan__mapped *found = weir_plan__arena_find(arenas, arena, arena_size);
    piece p = {0};
    weir_remap own;
    const weir_remap *remap = &own;
    WEIR__TRY(WEIR__TAKE_OPTIONS(own, given, weir_remap, REMAP_OPERATOR, error));
    if (!found)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, REMAP_OPERATOR, "the plan has no arena '%.*s'",
                          (int)(arena_size < 64 ? arena_size : 64), arena);
    weir_status status = check_remap(arenas, found, remap, &p, error);
    if (status == WEIR_OK)
        status = weir__memory_settle(&arenas->memory, error);
    if (status != WEIR_OK || p.count == 0)
        return status;
    switch (remap->target) {
    case WEIR_REMAP_NEW:
        return renew(arenas, found, p, remap->keeps, error);
    case WEIR_REMAP_BACKING:
        return map_handle(arenas, found, p, remap->backing->handle, remap->backing_offset, remap->keeps,
                          error);
    case WEIR_REMAP_NOTHING:
        return unmap_piece(arenas, found, p, error);
    }
    return refuse(found->name, "the target is not one of weir_remap_target", error);
}
