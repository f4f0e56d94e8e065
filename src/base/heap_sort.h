/* Sorting numbers in place, in a time that does not depend on their order. */
#ifndef WEIR_BASE_HEAP_SORT_H
#define WEIR_BASE_HEAP_SORT_H

#include <stdint.h>

/* Lets the number at a place of a heap, whose largest is first, sink to where it belongs. */
static inline void weir__heap_sink(uint32_t *heap, uint32_t count, uint32_t at) {
    uint32_t value = heap[at];
    for (uint32_t below = 2 * at + 1; below < count; at = below, below = 2 * at + 1) {
        below += below + 1 < count && heap[below] < heap[below + 1];
        if (heap[below] <= value)
            break;
        heap[at] = heap[below];
    }
    heap[at] = value;
}

/* Ascending. */
static inline void weir__heap_sort(uint32_t *values, uint32_t count) {
    for (uint32_t at = count / 2; at-- > 0;)
        weir__heap_sink(values, count, at);
    for (uint32_t end = count; end-- > 1;) {
        uint32_t largest = values[0];
        values[0] = values[end];
        values[end] = largest;
        weir__heap_sink(values, end, 0);
    }
}

#endif
