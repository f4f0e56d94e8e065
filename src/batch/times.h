/* How many of ascending times are up to a limit, of edges and labels: what is shown of a list. */
#ifndef WEIR_BATCH_TIMES_H
#define WEIR_BATCH_TIMES_H

#include "batch/fetch.h"
#include "batch/rules.h"
#include "store/reader.h"

/* Rows of a list, from one on: those that are surely shown, and after them those that may be. */
typedef struct weir_batch__shown {
    uint32_t first, known, unsure;
} weir_batch__shown;

/* The rows of a parent, at whose start in the list is `at`: none where its numbers lead nowhere. */
static inline weir_batch__shown weir_batch__rows_of(const weir_batch__list *list, const uint8_t *at) {
    uint32_t start = weir__load32(at), end = weir__load32(at + 4);
    uint32_t count = start > end || end > list->count ? 0 : end - start;
    return (weir_batch__shown){start, list->times ? 0 : count, list->times ? count : 0};
}

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
static inline uint32_t weir_batch__times_up_to(const weir_store *store, weir_batch__lies_in in,
                                               const uint8_t *times, uint32_t count, int64_t limit,
                                               bool *is_corrupt) {
    enum { SHORT = 32 };
    uint32_t before = 0;
    while (count > SHORT) {
        uint32_t half = count / 2;
        const uint8_t *last = times + 8 * ((size_t)before + half - 1);
        *is_corrupt |= !weir_batch__verify(store, in, last, 8);
        bool is_up_to = (int64_t)weir__load64(last) <= limit;
        before += is_up_to ? half : 0;
        count = is_up_to ? count - half : half;
    }
    times += 8 * (size_t)before;
    *is_corrupt |= !weir_batch__verify(store, in, times, 8 * (size_t)count);
    return before + weir_batch__count_up_to(times, count, limit);
}

/* Of times up to the cut-off: how many are before the floor, but for those that are no time (*always), which
 * come first. */
static inline uint32_t weir_batch__count_old(const weir_store *store, weir_batch__lies_in in,
                                             const uint8_t *times, uint32_t count, int64_t floor,
                                             uint32_t *always, bool *is_corrupt) {
    uint32_t recent = weir_batch__times_up_to(store, in, times, count, floor - 1, is_corrupt);
    *always = weir_batch__times_up_to(store, in, times, recent, WEIR_TIME_ALWAYS, is_corrupt);
    return recent - *always;
}

/* Asks for what a search through `count` times looks at next. */
static inline void weir_batch__fetch_times(const uint8_t *times, uint32_t count) {
    size_t size = 8 * (size_t)count;
    weir_batch__fetch(times);
    weir_batch__fetch(times + size / 4);
    weir_batch__fetch(times + size / 2);
    weir_batch__fetch(times + size / 4 * 3);
    weir_batch__fetch(times + size - 8);
}

/* Takes a search for the times up to a limit to its end, or, in a long list, to the quarter in which it ends,
 * and asks for that. Says whether some are left that are not sure. */
static inline bool weir_batch__narrow_search(const weir_store *store, weir_batch__lies_in in,
                                             const uint8_t *times, weir_batch__shown *shown, int64_t limit,
                                             bool *is_corrupt) {
    enum { SHORT = 32 };
    times += 8 * ((size_t)shown->first + shown->known);
    if (shown->unsure <= SHORT) {
        *is_corrupt |= !weir_batch__verify(store, in, times, 8 * (size_t)shown->unsure);
        shown->known += weir_batch__count_up_to(times, shown->unsure, limit);
        shown->unsure = 0;
        return false;
    }
    uint32_t quarter = shown->unsure / 4, quarters = 0;
    for (uint32_t q = 1; q <= 3; q++) {
        const uint8_t *time = times + 8 * ((size_t)(q * quarter) - 1);
        *is_corrupt |= !weir_batch__verify(store, in, time, 8);
        quarters += (int64_t)weir__load64(time) <= limit;
    }
    shown->known += quarters * quarter;
    shown->unsure = quarters < 3 ? quarter : shown->unsure - 3 * quarter;
    weir_batch__fetch_times(times + 8 * (size_t)(quarters * quarter), shown->unsure);
    return true;
}

#endif
