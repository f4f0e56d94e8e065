/* See names.h. The table has linear probing; a cell keeps 32 bits of the hash, so that a search rarely
 * touches a text that is not the right one. */
#include "base/names.h"

#include <string.h>

#include "base/bytes.h"

enum { FIRST_CELLS = 64 };

static uint64_t fold(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_of(const char *text, size_t size) {
    const uint64_t odd = 0x9E3779B97F4A7C15u;
    uint64_t hash = fold(size ^ 0xA0761D6478BD642Fu, odd);
    for (; size >= 8; size -= 8, text += 8)
        hash = fold(hash ^ weir__load64(text), odd);
    if (size > 0) {
        uint8_t tail[8] = {0};
        memcpy(tail, text, size);
        hash = fold(hash ^ weir__load64(tail), 0xE7037ED1A0B428DBu);
    }
    return fold(hash, odd);
}

void weir__names_release(const weir_env *env, weir__names *names) {
    weir__release(env, names->text);
    weir__release(env, names->ends);
    weir__release(env, names->cells);
    *names = (weir__names){0};
}

/* The cell that holds the name, or the empty one where it belongs. */
static size_t find_cell(const weir__names *names, const char *text, size_t size, uint64_t hash) {
    size_t mask = names->cell_count - 1;
    size_t at = (size_t)hash & mask;
    for (;; at = (at + 1) & mask) {
        weir__name_cell cell = names->cells[at];
        if (cell.index == 0)
            return at;
        if (cell.hash != WEIR__LOW(uint32_t, hash >> 32))
            continue;
        weir_text name = weir__name(names, cell.index - 1);
        if (name.size == size && memcmp(name.data, text, size) == 0)
            return at;
    }
}

uint32_t weir__names_find(const weir__names *names, const char *text, size_t size) {
    if (names->cell_count == 0)
        return WEIR__NO_NAME;
    size_t at = find_cell(names, text ? text : "", size, hash_of(text, size));
    return names->cells[at].index ? names->cells[at].index - 1 : WEIR__NO_NAME;
}

static bool grow_cells(const weir_env *env, weir__names *names) {
    size_t cell_count = names->cell_count ? 2 * names->cell_count : FIRST_CELLS;
    weir__name_cell *cells = weir__allocate_zero(env, cell_count, sizeof *cells);
    if (!cells)
        return false;
    for (size_t i = 0; i < names->cell_count; i++) {
        weir__name_cell cell = names->cells[i];
        if (cell.index == 0)
            continue;
        weir_text name = weir__name(names, cell.index - 1);
        size_t at = (size_t)hash_of(name.data, name.size) & (cell_count - 1);
        while (cells[at].index != 0)
            at = (at + 1) & (cell_count - 1);
        cells[at] = cell;
    }
    weir__release(env, names->cells);
    names->cells = cells;
    names->cell_count = cell_count;
    return true;
}

static bool append_text(const weir_env *env, weir__names *names, const char *text, size_t size) {
    size_t used = names->count ? (size_t)names->ends[names->count - 1] : 0;
    void *pool = names->text;
    void *ends = names->ends;
    bool has_room = size < SIZE_MAX - used && names->count < WEIR__NO_NAME - 1 &&
                    weir__grow(env, &pool, &names->text_capacity, used + size + 1, 1);
    names->text = pool;
    has_room =
        has_room && weir__grow(env, &ends, &names->capacity, (size_t)names->count + 1, sizeof(uint64_t));
    names->ends = ends;
    if (!has_room)
        return false;
    memcpy(names->text + used, text, size);
    names->ends[names->count++] = used + size;
    return true;
}

weir__name_result weir__names_add(const weir_env *env, weir__names *names, const char *text, size_t size,
                                  uint32_t *index) {
    text = text ? text : "";
    if (2 * ((size_t)names->count + 1) > names->cell_count && !grow_cells(env, names))
        return WEIR__NAME_NO_MEMORY;
    uint64_t hash = hash_of(text, size);
    weir__name_cell *cell = &names->cells[find_cell(names, text, size, hash)];
    if (cell->index != 0) {
        *index = cell->index - 1;
        return WEIR__NAME_PRESENT;
    }
    if (!append_text(env, names, text, size))
        return WEIR__NAME_NO_MEMORY;
    *cell = (weir__name_cell){WEIR__LOW(uint32_t, hash >> 32), names->count};
    *index = names->count - 1;
    return WEIR__NAME_ADDED;
}

/* ---- The order of CBOR keys: by length, then bytewise ------------------------------------------ */

typedef struct pool {
    const char *text;
    const uint64_t *ends;
} pool;

static weir_text pool_name(const pool *names, uint32_t index) {
    uint64_t begin = index ? names->ends[index - 1] : 0;
    return (weir_text){names->text + begin, (size_t)(names->ends[index] - begin)};
}

static int compare_same_length(const void *context, uint32_t a, uint32_t b) {
    weir_text left = pool_name(context, a);
    weir_text right = pool_name(context, b);
    return memcmp(left.data, right.data, left.size);
}

/* How many first bytes all names of a group of one length share. */
static size_t shared_prefix(const pool *names, const weir__record *group, size_t count) {
    weir_text first = pool_name(names, group[0].index);
    size_t shared = first.size;
    for (size_t i = 1; i < count && shared > 0; i++) {
        const char *other = pool_name(names, group[i].index).data;
        size_t same = 0;
        while (same < shared && first.data[same] == other[same])
            same++;
        shared = same;
    }
    return shared;
}

/* The eight bytes behind the shared prefix decide nearly every comparison without touching the text. */
static void sort_group(const pool *names, weir__record *group, weir__record *scratch, size_t count) {
    size_t skip = shared_prefix(names, group, count);
    for (size_t i = 0; i < count; i++) {
        weir_text name = pool_name(names, group[i].index);
        uint8_t word[8] = {0};
        memcpy(word, name.data + skip, name.size - skip < 8 ? name.size - skip : 8);
        group[i].key = weir__load64be(word);
    }
    weir__sort_records(group, scratch, count, compare_same_length, names);
}

bool weir__names_sort(const weir_env *env, const char *text, const uint64_t *ends, uint32_t count,
                      uint32_t *sorted) {
    pool names = {text, ends};
    weir__record *records = weir__allocate(env, count, 2 * sizeof *records);
    if (!records)
        return false;
    weir__record *scratch = records + count;
    for (uint32_t i = 0; i < count; i++)
        records[i] = (weir__record){pool_name(&names, i).size, i};
    weir__sort_records(records, scratch, count, NULL, NULL);
    for (size_t at = 0; at < count;) {
        size_t end = at + 1;
        while (end < count && records[end].key == records[at].key)
            end++;
        sort_group(&names, records + at, scratch, end - at);
        at = end;
    }
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = records[i].index;
    weir__release(env, records);
    return true;
}
