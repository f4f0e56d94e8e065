/* A bottom-up merge sort: runs of eight by insertion, then merges that copy only the left half and do
 * nothing if the halves are in order already. */
#include "base/sort.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { RUN = 8 };

static bool is_after(const weir__record *a, const weir__record *b, weir__tie_break *tie_break,
                     const void *context) {
    if (a->key != b->key)
        return a->key > b->key;
    return tie_break && tie_break(context, a->index, b->index) > 0;
}

static void sort_run(weir__record *records, size_t count, weir__tie_break *tie_break, const void *context) {
    for (size_t i = 1; i < count; i++) {
        weir__record moved = records[i];
        size_t to = i;
        for (; to > 0 && is_after(&records[to - 1], &moved, tie_break, context); to--)
            records[to] = records[to - 1];
        records[to] = moved;
    }
}

static void merge(weir__record *records, size_t middle, size_t count, weir__record *scratch,
                  weir__tie_break *tie_break, const void *context) {
    if (!is_after(&records[middle - 1], &records[middle], tie_break, context))
        return;
    memcpy(scratch, records, middle * sizeof *records);
    size_t left = 0;
    size_t right = middle;
    size_t out = 0;
    while (left < middle && right < count) {
        bool right_first = is_after(&scratch[left], &records[right], tie_break, context);
        records[out++] = right_first ? records[right++] : scratch[left++];
    }
    memcpy(records + out, scratch + left, (middle - left) * sizeof *records);
}

void weir__sort_records(weir__record *records, weir__record *scratch, size_t count,
                        weir__tie_break *tie_break, const void *context) {
    for (size_t at = 0; at < count; at += RUN)
        sort_run(records + at, count - at < RUN ? count - at : RUN, tie_break, context);
    for (size_t width = RUN; width < count; width *= 2)
        for (size_t at = 0; at + width < count; at += 2 * width) {
            size_t whole = count - at < 2 * width ? count - at : 2 * width;
            merge(records + at, width, whole, scratch, tie_break, context);
        }
}

int weir__compare_by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void weir__sort_by_name(void *items, size_t count, size_t size) {
    if (count > 0)
        qsort(items, count, size, weir__compare_by_name);
}
