/* The fake driver's memory in pages: addresses are reserved, memory is made by handle, and mappings join the
 * two. It is as strict as the driver: a mapping is unmapped whole, is not accessible before it is made so,
 * keeps its memory after the handle is released, and begins at the memory's first byte. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/cuda_api.h"
#include "support/fake_calls.h"

enum { UNIT = 1 << 16, OUT_OF_MEMORY = 2 };

typedef struct memory {
    struct memory *next;
    int file;
    size_t size;
    int mappings;
    bool is_released;
} memory;

typedef struct mapping {
    struct mapping *next;
    uint8_t *data;
    size_t size;
    memory *of;
    bool is_accessible;
} mapping;

typedef struct range {
    struct range *next;
    uint8_t *data;
    size_t size;
} range;

static memory *memories;
static mapping *mappings;
static range *ranges;

int64_t fake_pages_live(void) {
    int64_t live = 0;
    for (memory *m = memories; m; m = m->next)
        live++;
    for (mapping *m = mappings; m; m = m->next)
        live++;
    for (range *r = ranges; r; r = r->next)
        live++;
    return live;
}

static mapping *mapping_with(const uint8_t *data) {
    mapping *m = mappings;
    while (m && !(data >= m->data && data < m->data + m->size))
        m = m->next;
    return m;
}

bool fake_pages_have(const uint8_t *data, size_t size) {
    for (size_t done = 0; done < size;) {
        mapping *m = mapping_with(data + done);
        if (!m || !m->is_accessible)
            return false;
        done = (size_t)(m->data + m->size - data);
    }
    return size > 0;
}

static void *allocate(size_t size) {
    void *made = calloc(1, size);
    if (!made)
        abort();
    return made;
}

static void forget(memory *m) {
    if (!m->is_released || m->mappings > 0)
        return;
    memory **at = &memories;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    close(m->file);
    free(m);
}

static bool is_whole(size_t size) {
    return size > 0 && size % UNIT == 0;
}

DRIVER(cuMemGetAllocationGranularity,
       (size_t * unit, const weir_device__cuda_allocation *allocation, int option)) {
    BEGIN_IN_CONTEXT()
    *unit = UNIT;
    return fake_end(allocation->type == 1 && allocation->location.type == 1 && option == 0 ? SUCCESS
                                                                                           : INVALID_VALUE);
}

DRIVER(cuMemAddressReserve,
       (uintptr_t * out, size_t size, size_t alignment, uintptr_t wish, uint64_t flags)) {
    BEGIN_IN_CONTEXT()
    if (!is_whole(size) || alignment || wish || flags)
        return fake_end(INVALID_VALUE);
    uint8_t *data = mmap(NULL, size + UNIT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED)
        return fake_end(OUT_OF_MEMORY);
    size_t skipped = (UNIT - (uintptr_t)data % UNIT) % UNIT;
    munmap(data + skipped + size, UNIT - skipped);
    if (skipped)
        munmap(data, skipped);
    range *r = allocate(sizeof *r);
    *r = (range){ranges, data + skipped, size};
    ranges = r;
    *out = (uintptr_t)r->data + FAR_AWAY;
    return fake_end(SUCCESS);
}

DRIVER(cuMemAddressFree, (uintptr_t address, size_t size)) {
    BEGIN_GIVING_BACK()
    uint8_t *data = (uint8_t *)(address - FAR_AWAY);
    range **at = &ranges;
    while (*at && (*at)->data != data)
        at = &(*at)->next;
    range *r = *at;
    if (!r || r->size != size)
        return fake_end(INVALID_VALUE);
    for (mapping *m = mappings; m; m = m->next)
        if (m->data >= data && m->data < data + size)
            return fake_end(INVALID_VALUE);
    *at = r->next;
    munmap(r->data, r->size);
    free(r);
    return fake_end(result_);
}

DRIVER(cuMemCreate,
       (uint64_t * out, size_t size, const weir_device__cuda_allocation *allocation, uint64_t flags)) {
    BEGIN_IN_CONTEXT()
    if (!is_whole(size) || allocation->type != 1 || allocation->location.type != 1 || flags)
        return fake_end(INVALID_VALUE);
    memory *m = allocate(sizeof *m);
    *m = (memory){.next = memories, .file = memfd_create("fake", MFD_CLOEXEC), .size = size};
    if (m->file < 0 || ftruncate(m->file, (off_t)size) != 0)
        abort();
    uint8_t *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, m->file, 0);
    if (data == MAP_FAILED)
        abort();
    memset(data, 0xa5, size); /* the driver promises nothing */
    munmap(data, size);
    memories = m;
    *out = (uint64_t)(uintptr_t)m;
    return fake_end(SUCCESS);
}

DRIVER(cuMemRelease, (uint64_t handle)) {
    BEGIN_GIVING_BACK()
    memory *m = (memory *)(uintptr_t)handle;
    if (m->is_released)
        return fake_end(INVALID_VALUE);
    m->is_released = true;
    forget(m);
    return fake_end(result_);
}

static bool is_free_and_reserved(const uint8_t *data, size_t size) {
    bool is_reserved = false;
    for (range *r = ranges; r; r = r->next)
        is_reserved |=
            data >= r->data && data < r->data + r->size && size <= (size_t)(r->data + r->size - data);
    for (mapping *m = mappings; m; m = m->next)
        is_reserved &= m->data >= data + size || m->data + m->size <= data;
    return is_reserved;
}

DRIVER(cuMemMap, (uintptr_t address, size_t size, size_t offset, uint64_t handle, uint64_t flags)) {
    BEGIN_IN_CONTEXT()
    memory *of = (memory *)(uintptr_t)handle;
    uint8_t *data = (uint8_t *)(address - FAR_AWAY);
    if (!is_whole(size) || address % UNIT || offset || size > of->size || of->is_released || flags ||
        !is_free_and_reserved(data, size))
        return fake_end(INVALID_VALUE);
    if (mmap(data, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, of->file, 0) == MAP_FAILED)
        abort();
    mapping *m = allocate(sizeof *m);
    *m = (mapping){.next = mappings, .data = data, .size = size, .of = of};
    mappings = m;
    of->mappings++;
    return fake_end(SUCCESS);
}

DRIVER(cuMemSetAccess,
       (uintptr_t address, size_t size, const weir_device__cuda_access *access, size_t count)) {
    BEGIN_IN_CONTEXT()
    mapping *m = mapping_with((uint8_t *)(address - FAR_AWAY));
    if (!m || m->size != size || count != 1 || access->location.type != 1 || access->flags != 3)
        return fake_end(INVALID_VALUE);
    m->is_accessible = true;
    return fake_end(SUCCESS);
}

DRIVER(cuMemUnmap, (uintptr_t address, size_t size)) {
    BEGIN_GIVING_BACK()
    uint8_t *data = (uint8_t *)(address - FAR_AWAY);
    mapping **at = &mappings;
    while (*at && (*at)->data != data)
        at = &(*at)->next;
    mapping *m = *at;
    if (!m || m->size != size)
        return fake_end(INVALID_VALUE);
    *at = m->next;
    if (mmap(data, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) ==
        MAP_FAILED)
        abort();
    m->of->mappings--;
    forget(m->of);
    free(m);
    return fake_end(result_);
}
