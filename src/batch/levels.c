/* See levels.h. Nothing is ever added to the level that is being visited, because a visited row lists its
 * children at least one level further on. So a level's priorities are drawn when it is reached, and those
 * of a level that is not reached never; and it need not be sorted as a whole, as most walks are full before
 * it ends. Priorities are even, so as many buckets as rows hold about one each: taking the least row is
 * looking at the few of the first bucket that is not empty. */
#include "batch/levels.h"

#include <string.h>

#include "weir/store.h"

bool weir__levels_open(weir__levels *levels, const weir_env *env, uint64_t rows, uint64_t runs,
                       uint32_t last_level) {
    *levels = (weir__levels){
        .rows = weir__allocate(env, rows, sizeof *levels->rows),
        .runs = weir__allocate(env, runs, sizeof *levels->runs),
        .last = last_level,
        .ranked = weir__allocate(env, rows, sizeof *levels->ranked),
        .next = weir__allocate(env, rows, sizeof *levels->next),
        .buckets = weir__allocate(env, rows, sizeof *levels->buckets),
    };
    return levels->rows && levels->runs && levels->ranked && levels->next && levels->buckets;
}

void weir__levels_close(weir__levels *levels, const weir_env *env) {
    weir__release(env, levels->rows);
    weir__release(env, levels->runs);
    weir__release(env, levels->ranked);
    weir__release(env, levels->next);
    weir__release(env, levels->buckets);
    *levels = (weir__levels){0};
}

void weir__levels_begin(weir__levels *levels) {
    for (uint32_t level = 0; level <= levels->last; level++)
        levels->first_run[level] = WEIR_NONE;
    levels->row_count = levels->run_count = levels->ranked_count = levels->current = 0;
    levels->has_ahead = false;
}

void weir__list_run(weir__levels *levels, uint32_t level, uint32_t count, uint32_t table,
                    uint32_t first_draw) {
    if (count == 0)
        return;
    uint32_t run = levels->run_count++;
    levels->runs[run] = (weir__child_run){.first = levels->row_count,
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

/* All children of the current level, with their priorities, in no order. */
static void rank_children(weir__levels *levels, weir__walk_draws *draws) {
    uint32_t count = 0;
    for (uint32_t r = levels->first_run[levels->current]; r != WEIR_NONE; r = levels->runs[r].next) {
        weir__child_run run = levels->runs[r];
        for (uint32_t i = 0; i < run.count; i++)
            levels->ranked[count++] =
                (weir__ranked_row){.priority = weir__draw64_at(draws, run.first_draw + i),
                                   .row = levels->rows[run.first + i],
                                   .table = run.table};
    }
    levels->ranked_count = count;
}

/* Puts them into buckets, at most as many as there are of them, by their highest bits. */
static void fill_buckets(weir__levels *levels) {
    uint32_t bits = 31 - WEIR__NARROW(uint32_t, __builtin_clz(levels->ranked_count));
    memset(levels->buckets, 0xFF, sizeof *levels->buckets << bits);
    for (uint32_t i = 0; i < levels->ranked_count; i++) {
        uint32_t *bucket = &levels->buckets[levels->ranked[i].priority >> 1 >> (63 - bits)];
        levels->next[i] = *bucket;
        *bucket = i;
    }
    levels->bucket = 0;
}

/* Makes the next level that has children the current one; false where there is none. */
static bool reach_next_level(weir__levels *levels, weir__walk_draws *draws) {
    do {
        if (levels->current == levels->last)
            return false;
        levels->current++;
    } while (levels->first_run[levels->current] == WEIR_NONE);
    rank_children(levels, draws);
    fill_buckets(levels);
    return true;
}

static bool goes_before(const weir__ranked_row *a, const weir__ranked_row *b) {
    return a->priority != b->priority ? a->priority < b->priority : a->row < b->row;
}

/* Takes the least row out of its bucket. */
static weir__ranked_row take_least(weir__levels *levels) {
    while (levels->buckets[levels->bucket] == WEIR_NONE)
        levels->bucket++;
    uint32_t *least = &levels->buckets[levels->bucket];
    for (uint32_t *link = &levels->next[*least]; *link != WEIR_NONE; link = &levels->next[*link])
        if (goes_before(&levels->ranked[*link], &levels->ranked[*least]))
            least = link;
    weir__ranked_row row = levels->ranked[*least];
    *least = levels->next[*least];
    levels->ranked_count--;
    return row;
}

bool weir__take_child(weir__levels *levels, weir__walk_draws *draws, weir__ranked_row *out) {
    if (!levels->has_ahead) {
        if (!reach_next_level(levels, draws))
            return false;
        levels->ahead = take_least(levels);
    }
    *out = levels->ahead;
    levels->has_ahead = levels->ranked_count > 0;
    if (levels->has_ahead)
        levels->ahead = take_least(levels);
    return true;
}
