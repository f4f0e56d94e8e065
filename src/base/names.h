/* Names as small integers: each distinct text is kept once, in one pool, and found again through a hash
 * table. A million ids cost two allocations that grow, not a million. */
#ifndef WEIR_BASE_NAMES_H
#define WEIR_BASE_NAMES_H

#include "base/internal.h"
#include "base/sort.h"

#define WEIR__NO_NAME UINT32_MAX

typedef struct weir__name_cell {
    uint32_t hash;
    uint32_t index; /* + 1; 0 is empty */
} weir__name_cell;

typedef struct weir__names {
    char *text; /* all names, one after the other */
    size_t text_capacity;
    uint64_t *ends; /* where name i ends; it begins where the one before it ends */
    size_t capacity;
    uint32_t count;
    weir__name_cell *cells; /* a power of two of them, at most half full */
    size_t cell_count;
} weir__names;

void weir__names_release(const weir_env *env, weir__names *names);

static inline weir_text weir__name(const weir__names *names, uint32_t index) {
    assert(index < names->count && "a name that was not added");
    uint64_t begin = index ? names->ends[index - 1] : 0;
    return (weir_text){names->text + begin, (size_t)(names->ends[index] - begin)};
}

/* The index of a name, or WEIR__NO_NAME. */
uint32_t weir__names_find(const weir__names *names, const char *text, size_t size);

typedef enum weir__name_result {
    WEIR__NAME_ADDED,
    WEIR__NAME_PRESENT,
    WEIR__NAME_NO_MEMORY
} weir__name_result;

/* Adds a name, or finds it; *index is its index. */
weir__name_result weir__names_add(const weir_env *env, weir__names *names, const char *text, size_t size,
                                  uint32_t *index);

/* Fills sorted[0, count) with the indexes in the order of CBOR keys. False if memory is short. */
bool weir__names_sort(const weir_env *env, const char *text, const uint64_t *ends, uint32_t count,
                      uint32_t *sorted);

#endif
