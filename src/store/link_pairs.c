/* See link_pairs.h. Everything is found by binary search: in the seeds, which are sorted by (row, time,
 * place), and in the times of places and references, which ascend. */
#include "store/link_pairs.h"

#include "base/bytes.h"
#include "store/reader.h"
#include "weir_tool/store_tools.h"

static const weir_task *task_of(const weir_store *store, uint32_t task) {
    return &store->info.tasks[task];
}

/* A number of the section of links. */
static bool read_word(const weir_store *store, const uint8_t *words, uint32_t index, uint32_t *out) {
    const uint8_t *at = words + 4 * (size_t)index;
    if (!weir_store__touch_in(store, WEIR_STORE__SECTION_LINKS, at, 4))
        return false;
    *out = weir__load32(at);
    return true;
}

/* How many of `count` ascending times are at most `limit`. */
static bool count_until(const weir_store *store, const uint8_t *times, uint32_t count, int64_t limit,
                        uint32_t *out) {
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const uint8_t *at = times + 8 * (size_t)middle;
        if (!weir_store__touch_in(store, WEIR_STORE__SECTION_LINKS, at, 8))
            return false;
        if ((int64_t)weir__load64(at) <= limit)
            low = middle + 1;
        else
            high = middle;
    }
    *out = low;
    return true;
}

/* A seed's source, by its number, and time. */
static bool read_source(const weir_store *store, const weir_task *task, uint64_t seed, uint32_t *row,
                        int64_t *time) {
    const uint8_t *row_at = task->seed_rows + 4 * (size_t)seed;
    const uint8_t *time_at = task->seed_times + 8 * (size_t)seed;
    if (!weir_store__touch_in(store, WEIR_STORE__SECTION_SEED_ROWS, row_at, 4) ||
        !weir_store__touch_in(store, WEIR_STORE__SECTION_SEED_TIMES, time_at, 8))
        return false;
    *row = weir__load32(row_at);
    *time = (int64_t)weir__load64(time_at);
    return true;
}

/* Between `low` and `high`, the first seed that is not before this source and time, or after them. */
static bool find_bound(const weir_store *store, const weir_task *task, uint64_t low, uint64_t high,
                       uint32_t row, int64_t time, bool is_after, uint64_t *out) {
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        uint32_t other;
        int64_t other_time;
        if (!read_source(store, task, middle, &other, &other_time))
            return false;
        bool is_equal = other == row && other_time == time;
        bool is_before = other < row || (other == row && other_time < time) || (is_equal && is_after);
        if (is_before)
            low = middle + 1;
        else
            high = middle;
    }
    *out = low;
    return true;
}

bool weir_store__link_list_of(const weir_store *store, uint32_t number, uint64_t seed,
                              weir_store__link_list *out) {
    const weir_task *task = task_of(store, number);
    const weir_link *link = &task->link;
    uint32_t row, references = 0;
    uint64_t end;
    int64_t time;
    weir_split split = weir_store__split_of(task, seed);
    if (link->edge != WEIR_NONE)
        references = WEIR__NARROW(uint32_t, store->info.edges[link->edge].edges);
    bool is_sound =
        read_source(store, task, seed, &row, &time) &&
        find_bound(store, task, task->split_start[split], seed, row, time, false, &out->first) &&
        find_bound(store, task, seed, task->split_start[split + 1], row, time, true, &end) &&
        count_until(store, link->times, store->info.tables[link->table].row_count, time, &out->existing) &&
        count_until(store, link->reference_times, references, time, &out->references);
    if (!is_sound || end <= out->first || end - out->first > out->existing)
        return false;
    out->count = WEIR__NARROW(uint32_t, end - out->first);
    return true;
}

bool weir_store__link_place(const weir_store *store, uint32_t number, uint64_t seed, uint32_t *place) {
    const weir_task *task = task_of(store, number);
    const uint8_t *at = task->seed_targets + 8 * (size_t)seed;
    if (!weir_store__touch_in(store, WEIR_STORE__SECTION_SEED_TARGETS, at, 8))
        return false;
    uint64_t found = weir__load64(at);
    *place = WEIR__LOW(uint32_t, found);
    return found < store->info.tables[task->link.table].row_count;
}

bool weir_store__link_row(const weir_store *store, uint32_t number, uint32_t place, uint64_t *row) {
    const weir_link *link = &task_of(store, number)->link;
    uint32_t found;
    if (place >= store->info.tables[link->table].row_count || !read_word(store, link->rows, place, &found))
        return false;
    *row = weir_store_row_of(store, link->table, found);
    return *row != WEIR_NO_ROW;
}

bool weir_store__link_reference(const weir_store *store, uint32_t number, uint32_t entry, uint32_t *place) {
    return read_word(store, task_of(store, number)->link.reference_places, entry, place);
}

/* Of n places of the list that come first, place - n is the number of candidates before that one: it does not
 * descend. So as many places of the list come before a candidate as have no more candidates before them. */
bool weir_store__link_candidate(const weir_store *store, uint32_t number, const weir_store__link_list *list,
                                uint32_t candidate, uint32_t *place) {
    uint32_t low = 0, high = list->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2, positive;
        if (!weir_store__link_place(store, number, list->first + middle, &positive) || positive < middle)
            return false;
        if (positive - middle <= candidate)
            low = middle + 1;
        else
            high = middle;
    }
    *place = candidate + low;
    return true;
}

bool weir_store__link_has(const weir_store *store, uint32_t number, const weir_store__link_list *list,
                          uint32_t place, bool *is_positive) {
    uint32_t low = 0, high = list->count;
    *is_positive = false;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2, positive;
        if (!weir_store__link_place(store, number, list->first + middle, &positive))
            return false;
        if (positive < place)
            low = middle + 1;
        else
            high = middle;
        *is_positive |= positive == place;
    }
    return true;
}

const char *weir_task_kind(const weir_task *task) {
    return task->link.is_link ? "link" : task->is_cell ? "cell" : "derived";
}
