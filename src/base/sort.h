/* Sorts records of a number and an index; ties of the number are settled by a function of the two indexes.
 * Stable, O(n log n), linear on input that is sorted already. */
#ifndef WEIR_BASE_SORT_H
#define WEIR_BASE_SORT_H

#include <stddef.h>
#include <stdint.h>

typedef struct weir__record {
    uint64_t key;
    uint32_t index;
} weir__record;

/* Negative, 0 or positive, as the items of these indexes compare. */
typedef int weir__tie_break(const void *context, uint32_t a, uint32_t b);

/* Ascending by key, then by tie_break (NULL: as they stand). `scratch` has room for `count` records. */
void weir__sort_records(weir__record *records, weir__record *scratch, size_t count,
                        weir__tie_break *tie_break, const void *context);

/* Structs that begin with their name, a const char *: bytewise by it. The first is for qsort and bsearch. */
int weir__compare_by_name(const void *a, const void *b);
void weir__sort_by_name(void *items, size_t count, size_t size);

#endif
