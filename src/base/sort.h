/* Sorts records of a number and an index; ties of the number are settled by a function of the two indexes.
 * Stable, O(n log n), linear on input that is sorted already. */
#ifndef WEIR_BASE_SORT_H
#define WEIR_BASE_SORT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

/* How many items have a number below `key`, of `count` items of `size` bytes that each begin with a uint64_t
 * and ascend by it. */
static inline size_t weir__count_below(const void *items, size_t count, size_t size, uint64_t key) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t number;
        memcpy(&number, (const char *)items + middle * size, sizeof number);
        if (number < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

#endif
