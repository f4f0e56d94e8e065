/* See levels.h. Nothing is ever added to the level that is being visited, because a visited row lists its
 * children at least one level further on. So a level's priorities are drawn when it is reached, and those
 * of a level that is not reached never; and it need not be sorted as a whole, as most walks are full before
 * it ends. Drawn priorities are even: with a few times as many buckets as rows nearly every one holds one row
 * or none, and the least row is the one of the first bucket that is not empty. Given priorities, which are
 * times, may be anything, and are in a heap instead. */
#include "batch/levels.h"

#include <assert.h>
#include <string.h>

#include "base/narrow.h"
#include "weir/store.h"

enum { BUCKETS_A_ROW = 4, WORD = 64 };

void weir_batch__levels_carve(weir_batch__levels *levels, weir__block *block, uint64_t rows, uint64_t runs,
                              bool has_priorities) {
    *levels = (weir_batch__levels){
        .rows = weir__carve(block, rows, sizeof *levels->rows),
        .runs = weir__carve(block, runs, sizeof *levels->runs),
        .ranked = weir__carve(block, rows, sizeof *levels->ranked),
        .room = rows,
    };
    if (has_priorities) {
        levels->priorities = weir__carve(block, rows, sizeof *levels->priorities);
        return;
    }
    levels->next = weir__carve(block, rows, sizeof *levels->next);
    levels->buckets = weir__carve(block, BUCKETS_A_ROW * rows + WORD, sizeof *levels->buckets);
    levels->filled = weir__carve(block, BUCKETS_A_ROW * rows / WORD + 1, sizeof *levels->filled);
}

void weir_batch__levels_begin(weir_batch__levels *levels, uint32_t last) {
    for (uint32_t level = 0; level <= last; level++)
        levels->first_run[level] = WEIR_NONE;
    levels->row_count = levels->run_count = levels->ranked_count = levels->current = 0;
    levels->ahead_begin = levels->ahead_end = 0;
    levels->last = last;
}

void weir_batch__list_run(weir_batch__levels *levels, uint32_t level, uint32_t count, uint32_t table,
                          uint32_t first_draw) {
    if (count == 0)
        return;
    assert(count <= levels->room - levels->row_count);
    uint32_t run = levels->run_count++;
    levels->runs[run] = (weir_batch__child_run){.first = levels->row_count,
                                                .count = count,
                                                .first_draw = first_draw,
                                                .table = table,
                                                .next = WEIR_NONE};
    levels->row_count += count;
    if (levels->first_run[level] == WEIR_NONE)
        levels->first_run[level] = run;
    else
        levels->runs[levels->last_run[level]].next = run;
    levels->last_run[level] = run;
}

/* Puts the ranked rows into buckets, at most BUCKETS_A_ROW for each of them, by their highest bits. */
static void fill_buckets(weir_batch__levels *levels) {
    int bits = 63 - __builtin_clzll((uint64_t)levels->ranked_count * BUCKETS_A_ROW);
    memset(levels->filled, 0, sizeof *levels->filled * (((size_t)1 << bits) / WORD + 1));
    for (uint32_t i = 0; i < levels->ranked_count; i++) {
        uint64_t bucket = levels->ranked[i].priority >> (64 - bits);
        uint64_t *filled = &levels->filled[bucket / WORD];
        uint32_t is_filled = *filled >> bucket % WORD & 1;
        levels->next[i] = levels->buckets[bucket] | (is_filled - 1); /* all bits: there is no next */
        levels->buckets[bucket] = i;
        *filled |= (uint64_t)1 << bucket % WORD;
    }
    levels->word = 0;
}

static bool goes_before(const weir_batch__ranked_row *a, const weir_batch__ranked_row *b) {
    if (a->priority != b->priority)
        return a->priority < b->priority;
    return a->table != b->table ? a->table < b->table : a->row < b->row;
}

/* Given priorities may be anything: a heap, of which again only what is visited is put in order. */
static void sink(weir_batch__levels *levels, uint32_t at) {
    weir_batch__ranked_row *heap = levels->ranked, row = heap[at];
    for (uint32_t below = 2 * at + 1; below < levels->ranked_count; at = below, below = 2 * at + 1) {
        below += below + 1 < levels->ranked_count && goes_before(&heap[below + 1], &heap[below]);
        if (!goes_before(&heap[below], &row))
            break;
        heap[at] = heap[below];
    }
    heap[at] = row;
}

/* Takes the least row out of the heap, or out of its bucket. */
static weir_batch__ranked_row take_least(weir_batch__levels *levels) {
    if (levels->priorities) {
        weir_batch__ranked_row top = levels->ranked[0];
        levels->ranked[0] = levels->ranked[--levels->ranked_count];
        if (levels->ranked_count > 0)
            sink(levels, 0);
        return top;
    }
    while (levels->filled[levels->word] == 0)
        levels->word++;
    uint64_t *filled = &levels->filled[levels->word];
    uint32_t *first = &levels->buckets[levels->word * WORD + WEIR__LOW(uint32_t, __builtin_ctzll(*filled))];
    uint32_t *least = first;
    for (uint32_t *link = &levels->next[*least]; *link != WEIR_NONE; link = &levels->next[*link])
        if (goes_before(&levels->ranked[*link], &levels->ranked[*least]))
            least = link;
    weir_batch__ranked_row row = levels->ranked[*least];
    *least = levels->next[*least];
    if (*first == WEIR_NONE)
        *filled &= *filled - 1;
    levels->ranked_count--;
    return row;
}

bool weir_batch__reach_level(weir_batch__levels *levels, weir_batch__walk_draws *draws) {
    do {
        if (levels->current == levels->last)
            return false;
        levels->current++;
    } while (levels->first_run[levels->current] == WEIR_NONE);
    uint32_t count = 0;
    for (uint32_t r = levels->first_run[levels->current]; r != WEIR_NONE; r = levels->runs[r].next) {
        weir_batch__child_run run = levels->runs[r];
        const uint64_t *given = levels->priorities ? levels->priorities + run.first : NULL;
        for (uint32_t i = 0; i < run.count; i++)
            levels->ranked[count++] = (weir_batch__ranked_row){
                .priority = given ? given[i] : weir_batch__draw64_at(draws, run.first_draw + i),
                .row = levels->rows[run.first + i],
                .table = run.table};
    }
    levels->ranked_count = count;
    if (!levels->priorities)
        fill_buckets(levels);
    for (uint32_t at = levels->ranked_count / 2; levels->priorities && at-- > 0;)
        sink(levels, at);
    return true;
}

void weir_batch__look_ahead(weir_batch__levels *levels) {
    while (levels->ranked_count > 0 && levels->ahead_end - levels->ahead_begin < WEIR_BATCH__AHEAD)
        levels->ahead[levels->ahead_end++ % WEIR_BATCH__AHEAD] = take_least(levels);
}
