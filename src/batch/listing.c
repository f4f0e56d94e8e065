/* See listing.h. */
#include "batch/listing.h"

#include <string.h>

#include "base/bytes.h"
#include "batch/fetch.h"
#include "batch/times.h"
#include "store/reader.h"

bool weir_batch__listing_begin(weir_batch__walk *walk) {
    uint32_t end = walk->listed_count + WEIR_BATCH__LISTED_TOGETHER;
    end = end < walk->row_count ? end : walk->row_count;
    if (walk->listed_count == end)
        return false;
    walk->listing = walk->listing_count = 0;
    for (; walk->listed_count < end; walk->listed_count++) {
        const weir_batch__walked_row *row = &walk->rows[walk->listed_count];
        const weir_batch__table_rules *table = &walk->rules->tables[row->table];
        uint32_t count = row->hop < walk->max_hops ? table->inbound_count : 0;
        uint32_t index = row->row;
        for (uint32_t i = 0; i < count; i++) {
            weir_batch__fetch(table->inbound[i].list.starts + 4 * (size_t)index);
            walk->listings[walk->listing_count++] = (weir_batch__listing){
                .rule = &table->inbound[i], .index = index, .local = walk->listed_count};
        }
    }
    for (uint32_t i = 0; walk->store->reads_ahead && i < walk->listing_count; i++) {
        const weir_batch__listing *listing = &walk->listings[i];
        weir_store__expect(walk->store, listing->rule->list.starts + 4 * (size_t)listing->index);
    }
    return true;
}

/* Asks for the pages of short lists, and of what a search looks at first. */
static void expect_lists(const weir_batch__walk *walk) {
    for (uint32_t i = 0; i < walk->listing_count; i++) {
        const weir_batch__listing *listing = &walk->listings[i];
        const weir_batch__list *list = &listing->rule->list;
        size_t start = listing->shown.first, count = (size_t)listing->shown.known + listing->shown.unsure;
        if (count == 0)
            continue;
        weir_store__expect(walk->store, list->rows + 4 * start);
        if (listing->shown.unsure > 0)
            weir_store__expect(walk->store, list->times + 8 * (start + count / 2));
        if (listing->shown.unsure > 0)
            weir_store__expect(walk->store, list->times + 8 * (start + count - 1));
    }
}

/* The lists of the rows' children: none where their numbers lead nowhere. */
void weir_batch__listing_find(weir_batch__walk *walk) {
    walk->search_count = 0;
    for (uint32_t i = 0; i < walk->listing_count; i++) {
        weir_batch__listing *listing = &walk->listings[i];
        const weir_batch__list *list = &listing->rule->list;
        const uint8_t *at = list->starts + 4 * (size_t)listing->index;
        weir_batch__walk_touch(walk, listing->rule->list.starts_in, at, 8);
        listing->shown = weir_batch__rows_of(list, at);
        uint32_t first = listing->shown.first, count = listing->shown.known + listing->shown.unsure;
        walk->searches[walk->search_count] = i;
        walk->search_count += listing->shown.unsure > 0;
        if (count == 0)
            continue;
        weir_batch__fetch(list->rows + 4 * (size_t)first);
        weir_batch__fetch(list->rows + 4 * ((size_t)first + count - 1));
        if (list->times)
            weir_batch__fetch_times(list->times + 8 * (size_t)first, count);
    }
    if (walk->store->reads_ahead)
        expect_lists(walk);
}

/* The place in its list of the i-th child that counts. */
static uint32_t place_in_list(const weir_batch__listing *listing, uint32_t i) {
    return i < listing->always ? i : i + listing->old;
}

/* Takes each search to the end, or, of a long list, to the quarter in which it ends; says whether one is
 * left. */
bool weir_batch__listing_search(weir_batch__walk *walk) {
    uint32_t left = 0;
    int64_t limit = walk->outlook.cutoff - (walk->outlook.cutoff == WEIR_TIME_NEVER);
    for (uint32_t i = 0; i < walk->search_count; i++) {
        weir_batch__listing *listing = &walk->listings[walk->searches[i]];
        const weir_batch__list *list = &listing->rule->list;
        if (weir_batch__narrow_search(walk->store, list->times_in, list->times, &listing->shown, limit,
                                      &walk->is_corrupt))
            walk->searches[left++] = walk->searches[i];
        else if (walk->outlook.floor != WEIR_TIME_ALWAYS) {
            listing->old = weir_batch__count_old(
                walk->store, list->times_in, list->times + 8 * (size_t)listing->shown.first,
                listing->shown.known, walk->outlook.floor, &listing->always, &walk->is_corrupt);
            listing->shown.known -= listing->old;
        }
    }
    walk->search_count = left;
    return left > 0;
}

/* Lists those of `count` children that were neither visited when the row was, nor listed, without a branch on
 * whether they are. `children` are little-endian, and so are `times`, which go with them if they decide. */
static inline void list_some(weir_batch__walk *walk, const weir_batch__listing *listing, const void *children,
                             const uint8_t *times, uint32_t count, const bool by_time,
                             const bool needs_tables) {
    const weir_batch__table_rules *table = listing->rule->children;
    weir_batch__walk_reserve(walk, count);
    uint32_t *listed = walk->levels.rows + walk->levels.row_count;
    uint64_t *priorities = by_time ? walk->levels.priorities + walk->levels.row_count : NULL;
    weir_batch__known_rows known = walk->known; /* near, where no other store can touch it */
    if (!needs_tables)
        known.tables = NULL; /* as it is */
    uint32_t new_count = 0, local = listing->local, first_number = table->first_number, furthest = 0;
    uint32_t number = table->number, first_key = table->first_key;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t child = weir__load32((const uint8_t *)children + 4 * (size_t)i) - first_number;
        uint32_t *at = weir_batch__know(&known, number, child + first_key), state = *at;
        *at = state & ~WEIR_BATCH__UNLISTED;
        listed[new_count] = child;
        if (by_time)
            priorities[new_count] = weir_batch__newest_first(
                times ? (int64_t)weir__load64(times + 8 * (size_t)i) : WEIR_TIME_ALWAYS);
        new_count += weir_batch__is_listable(state, local);
        furthest = child > furthest ? child : furthest;
    }
    walk->known = known;
    walk->is_corrupt |= count > 0 && furthest >= table->row_count;
    weir_batch__list_run(&walk->levels, walk->rows[local].hop + 1u, new_count, number, walk->draws.next);
    walk->draws.next += by_time ? 0 : new_count;
}

static inline void list_children_of(weir_batch__walk *walk, const weir_batch__listing *listing,
                                    const void *children, const uint8_t *times, uint32_t count,
                                    const bool by_time) {
    if (__builtin_expect(walk->known.tables != NULL, 0))
        list_some(walk, listing, children, times, count, by_time, true);
    else
        list_some(walk, listing, children, times, count, by_time, false);
}

/* The last `count` of a row's children that count, which lie together in at most two pieces. */
static void list_last(weir_batch__walk *walk, const weir_batch__listing *listing, uint32_t count) {
    const weir_batch__list *list = &listing->rule->list;
    bool by_time = walk->policy == WEIR_CHILDREN_LATEST;
    uint32_t end = listing->shown.known, begin = end - count;
    while (begin < end) {
        uint32_t stop = begin < listing->always && listing->old > 0 ? listing->always : end;
        size_t first = (size_t)listing->shown.first + place_in_list(listing, begin);
        const uint8_t *rows = list->rows + 4 * first;
        const uint8_t *times = by_time && list->times ? list->times + 8 * first : NULL;
        weir_batch__walk_touch(walk, listing->rule->list.rows_in, rows, 4 * (size_t)(stop - begin));
        if (times)
            weir_batch__walk_touch(walk, listing->rule->list.times_in, times, 8 * (size_t)(stop - begin));
        if (by_time)
            list_children_of(walk, listing, rows, times, stop - begin, true);
        else
            list_children_of(walk, listing, rows, NULL, stop - begin, false);
        begin = stop;
    }
}

/* Lists the children whose places in the list, ascending, were chosen. They are verified together, unless
 * they lie far apart. */
static void list_chosen(weir_batch__walk *walk, const weir_batch__listing *listing) {
    const uint8_t *rows = listing->rule->list.rows + 4 * (size_t)listing->shown.first;
    uint32_t count = walk->chooser.width, *taken = walk->chooser.taken;
    if (count == 0)
        return;
    size_t first = 4 * (size_t)taken[0];
    size_t size = 4 * ((size_t)taken[count - 1] + 1) - first;
    if (size <= WEIR__SUBTREE_SIZE)
        weir_batch__walk_touch(walk, listing->rule->list.rows_in, rows + first, size);
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *child = rows + 4 * (size_t)taken[i];
        if (size > WEIR__SUBTREE_SIZE)
            weir_batch__walk_touch(walk, listing->rule->list.rows_in, child, sizeof taken[i]);
        memcpy(&taken[i], child, sizeof taken[i]);
    }
    list_children_of(walk, listing, taken, NULL, count, false);
}

/* Chooses, and asks for what was chosen. */
static void choose(weir_batch__walk *walk, const weir_batch__listing *listing, uint32_t width) {
    const uint8_t *rows = listing->rule->list.rows + 4 * (size_t)listing->shown.first;
    uint32_t *taken = walk->chooser.taken;
    walk->chooser.width = width;
    weir_batch__choose(&walk->chooser, &walk->draws, listing->shown.known);
    for (uint32_t i = 0; i < width; i++) {
        taken[i] = place_in_list(listing, taken[i]);
        weir_batch__fetch(rows + 4 * (size_t)taken[i]);
    }
    for (uint32_t i = 0; walk->store->reads_ahead && i < width; i++)
        weir_store__expect(walk->store, rows + 4 * (size_t)taken[i]);
}

/* Lists row after row up to the first list that must be chosen from: what is chosen there is asked for, and
 * listed in the next step. */
bool weir_batch__listing_list(weir_batch__walk *walk) {
    for (; walk->listing < walk->listing_count && !walk->is_corrupt; walk->listing++) {
        const weir_batch__listing *listing = &walk->listings[walk->listing];
        const weir_choices *widths = listing->rule->widths;
        uint32_t width = walk->budget.width, hop = walk->rows[listing->local].hop;
        if (widths)
            width = widths->values[hop < widths->count ? hop : widths->count - 1];
        if (listing->shown.known <= width)
            list_last(walk, listing, listing->shown.known);
        else if (walk->policy != WEIR_CHILDREN_UNIFORM)
            list_last(walk, listing, width);
        else if (walk->has_chosen) {
            walk->has_chosen = false;
            list_chosen(walk, listing);
        } else {
            choose(walk, listing, width);
            walk->has_chosen = true;
            return true;
        }
    }
    return false;
}
