/* How many of ascending times are up to a limit, of edges and labels. */
#ifndef WEIR_BATCH_TIMES_H
#define WEIR_BATCH_TIMES_H

#include "batch/rules.h"
#include "store/reader.h"

/* How many of ascending times are up to the limit. The search always takes the same way through as many: what
 * it finds is no branch. */
static inline uint32_t weir_batch__count_up_to(const uint8_t *times, uint32_t count, int64_t limit) {
    const uint8_t *first = times;
    while (count > 1) {
        uint32_t half = count / 2;
        const uint8_t *middle = first + 8 * (size_t)half;
        first = (int64_t)weir__load64(middle - 8) <= limit ? middle : first;
        count -= half;
    }
    uint32_t before = WEIR__LOW(uint32_t, (first - times) / 8);
    return before + (count == 1 && (int64_t)weir__load64(first) <= limit);
}

/* The same in a list of any length, of which only what is looked at is verified. */
static inline uint32_t weir_batch__times_up_to(const weir_store *store, weir_batch__lies_in kind,
                                               const uint8_t *times, uint32_t count, int64_t limit,
                                               bool *is_corrupt) {
    enum { SHORT = 32 };
    uint32_t before = 0;
    while (count > SHORT) {
        uint32_t half = count / 2;
        const uint8_t *last = times + 8 * ((size_t)before + half - 1);
        if (kind)
            *is_corrupt |= !weir_store__touch_in(store, (weir_store__section_kind)kind, last, 8);
        bool is_up_to = (int64_t)weir__load64(last) <= limit;
        before += is_up_to ? half : 0;
        count = is_up_to ? count - half : half;
    }
    times += 8 * (size_t)before;
    if (kind && count > 0)
        *is_corrupt |= !weir_store__touch_in(store, (weir_store__section_kind)kind, times, 8 * (size_t)count);
    return before + weir_batch__count_up_to(times, count, limit);
}

#endif
