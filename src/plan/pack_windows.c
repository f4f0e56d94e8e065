/* Windows: a stretch of time around what stands too high is taken out of a layout and packed again.
 *
 * The goal is a height a little below the peak. A try takes a row that passes the goal and a window of time
 * around it, of any width; every row that lives wholly in the window is taken out, and all of them are put
 * back by first fit among those that stay, largest first. A row that ended too high is given more weight, so
 * that it comes earlier the next time: rows that are hard to place work their way to the front. A try that
 * leaves no more above the goal than before is kept. When nothing passes the goal, the next is lower. So a
 * problem of any size is improved where it is worst, at the cost of the window alone, and what was found for
 * one window stays while others are tried. All choices come from a counter: the result is the same
 * everywhere. */
#include "plan/pack_windows.h"

#include <string.h>

enum {
    WEIGHT_ONE = 256,
    WEIGHT_MAX = 1 << 15,
    WIDTH_MIN_LOG2 = 4,
    WIDTH_MIN = 1 << WIDTH_MIN_LOG2,
    ROWS_PER_WIDTH = 4, /* a window that holds a long row's life is wider than was drawn */
    WIDTHS_LOG2 = 10,
    GOAL_STEPS = 64,       /* a goal is this part of the gap below the peak */
    FORGET_TRIES = 1 << 12 /* weights are halved after as many tries */
};

static uint32_t draw(weir_pack__windows *w, uint32_t count) {
    w->random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = (w->random ^ w->random >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(((x >> 32) * count) >> 32);
}

static void add_weight(weir_pack__windows *w, uint32_t row, uint32_t fifths) {
    uint32_t weight = w->weight[row] + w->weight[row] / 5 * fifths;
    w->weight[row] = weight < WEIGHT_MAX ? weight : WEIGHT_MAX;
}

/* ---- All rows, once ------------------------------------------------------------------------------- */

void weir_pack__windows_fit(weir_pack__windows *w, uint64_t *offsets, uint64_t *steps) {
    weir_pack__first_fit *fit = &w->fit;
    uint32_t count = w->sweep->count;
    for (uint32_t i = 0; i < count; i++) {
        weir_pack__first_fit_take(fit, i);
        w->queue[i] = (weir__record){~w->keys[i], i};
    }
    weir__sort_records(w->queue, w->spare, count, NULL, NULL);
    fit->steps = *steps;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = w->queue[i].index;
        offsets[row] = weir_pack__first_fit_find(fit, row);
        weir_pack__first_fit_put(fit, row, offsets[row]);
    }
    *steps = fit->steps;
}

/* ---- One window ---------------------------------------------------------------------------------- */

/* Takes out what lives wholly in a window around a moment of the row's life, and the row; returns how many
 * rows that are. A window holds the row's whole life unless that is far longer than the window. */
static uint32_t take_window(weir_pack__windows *w, uint32_t row, uint32_t widest) {
    const weir_pack__row *rows = w->sweep->rows;
    uint32_t count = w->sweep->count;
    uint32_t width = 1u << (WIDTH_MIN_LOG2 + draw(w, WIDTHS_LOG2));
    width += draw(w, width);
    width = width < widest ? width : widest;
    uint32_t births = w->fit.born_before[row] - row;
    uint32_t middle = row + draw(w, births);
    uint32_t before = draw(w, width + 1);
    uint32_t first = middle > before ? middle - before : 0;
    uint64_t from = rows[first].lower;
    uint64_t to = count - first > width ? rows[first + width].lower : UINT64_MAX;
    if (births <= 4 * width) {
        from = rows[row].lower < from ? rows[row].lower : from;
        to = rows[row].upper > to ? rows[row].upper : to;
    }
    uint32_t taken = 0;
    w->taken[taken++] = row;
    for (uint32_t i = weir_pack__born_before(w->sweep, from); i < count && rows[i].lower < to; i++)
        if (rows[i].upper <= to && i != row)
            w->taken[taken++] = i;
    for (uint32_t i = 0; i < taken; i++) {
        w->kept[i] = w->fit.places[w->taken[i]].from;
        weir_pack__first_fit_take(&w->fit, w->taken[i]);
    }
    w->fit.steps += taken;
    return taken;
}

/* In the order of weighted keys, with a little noise. */
static void order_taken(weir_pack__windows *w, uint32_t taken) {
    for (uint32_t i = 0; i < taken; i++) {
        uint32_t row = w->taken[i];
        uint64_t key = (w->keys[row] >> 1) * w->weight[row] / WEIGHT_ONE;
        if (draw(w, 64) == 0)
            key = key / 512 * (256 + draw(w, 512));
        w->queue[i] = (weir__record){~key, row};
    }
    weir__sort_records(w->queue, w->spare, taken, NULL, NULL);
    w->fit.steps += 4 * (uint64_t)taken;
}

static uint64_t excess(uint64_t top, uint64_t goal) {
    return top > goal ? top - goal : 0;
}

/* Puts the rows of the queue back; false as soon as more passes the goal than `allowed`. */
static bool put_back(weir_pack__windows *w, uint32_t taken, unsigned __int128 allowed) {
    unsigned __int128 sum = 0;
    for (uint32_t i = 0; i < taken; i++) {
        uint32_t row = w->queue[i].index;
        weir_pack__first_fit_put(&w->fit, row, weir_pack__first_fit_find(&w->fit, row));
        uint64_t over = excess(w->fit.places[row].to, w->goal);
        if (over == 0)
            continue;
        add_weight(w, row, draw(w, 2));
        sum += over;
        if (sum > allowed)
            return false;
    }
    return true;
}

static void add_high(weir_pack__windows *w, uint32_t row) {
    w->is_high[row] = true;
    w->high[w->high_count++] = row;
}

/* Takes a window out around a high row and puts it back. */
static void try_window(weir_pack__windows *w, uint32_t row, uint32_t widest) {
    uint32_t taken = take_window(w, row, widest);
    unsigned __int128 before = 0;
    for (uint32_t i = 0; i < taken; i++)
        before += excess(w->kept[i] + w->sweep->rows[w->taken[i]].size, w->goal);
    add_weight(w, row, 1 + draw(w, 4));
    order_taken(w, taken);
    bool better = put_back(w, taken, before);
    for (uint32_t i = 0; i < taken; i++) {
        uint32_t at = w->taken[i];
        if (!better)
            weir_pack__first_fit_put(&w->fit, at, w->kept[i]);
        else if (w->fit.places[at].to > w->goal && !w->is_high[at])
            add_high(w, at);
    }
}

/* ---- Goals --------------------------------------------------------------------------------------- */

static void set_goal(weir_pack__windows *w, uint64_t peak, uint64_t floor) {
    w->goal = peak - 1 - (peak - floor - 1) / GOAL_STEPS;
    w->high_count = 0;
    memset(w->is_high, 0, w->sweep->count * sizeof *w->is_high);
    for (uint32_t i = 0; i < w->sweep->count; i++)
        if (w->fit.places[i].to > w->goal)
            add_high(w, i);
    w->fit.steps += w->sweep->count / 2;
}

/* Takes over what the windows have now, if its peak is lower. */
static void keep(weir_pack__windows *w, uint64_t *offsets) {
    uint64_t peak = 0;
    for (uint32_t i = 0; i < w->sweep->count; i++)
        peak = w->fit.places[i].to > peak ? w->fit.places[i].to : peak;
    w->fit.steps += w->sweep->count / 2;
    if (peak >= w->peak)
        return;
    w->peak = peak;
    for (uint32_t i = 0; i < w->sweep->count; i++)
        offsets[i] = w->fit.places[i].from;
}

void weir_pack__windows_run(weir_pack__windows *w, uint64_t floor, uint64_t limit, uint64_t *offsets,
                            uint64_t *peak, uint64_t *steps) {
    uint32_t count = w->sweep->count;
    uint64_t per_row = ROWS_PER_WIDTH * (w->fit.cost / count + 1);
    w->fit.steps = *steps;
    if (w->peak != *peak) { /* another layout than the one that the last run left */
        w->peak = *peak;
        for (uint32_t i = 0; i < count; i++)
            weir_pack__first_fit_put(&w->fit, i, offsets[i]);
        set_goal(w, w->peak, floor);
    }
    for (bool going = true; going && w->peak > floor && w->fit.steps < limit;) {
        while (w->high_count > 0 && w->fit.steps < limit) {
            uint32_t at = draw(w, w->high_count);
            uint32_t row = w->high[at];
            if (w->fit.places[row].to <= w->goal) {
                w->is_high[row] = false;
                w->high[at] = w->high[--w->high_count];
                continue;
            }
            uint64_t widest = (limit - w->fit.steps) / per_row;
            if (widest < WIDTH_MIN)
                break;
            try_window(w, row, widest < UINT32_MAX ? (uint32_t)widest : UINT32_MAX);
            if (++w->tries % FORGET_TRIES == 0)
                for (uint32_t i = 0; i < count; i++)
                    w->weight[i] = WEIGHT_ONE + (w->weight[i] - WEIGHT_ONE) / 2;
        }
        keep(w, offsets);
        going = w->high_count == 0;
        if (going && w->peak > floor)
            set_goal(w, w->peak, floor);
    }
    *peak = w->peak;
    *steps = w->fit.steps;
}

/* ---- Opening ------------------------------------------------------------------------------------- */

weir_status weir_pack__windows_open(const weir_env *env, const weir_pack__sweep *sweep, weir_pack__windows *w,
                                    weir_error *error) {
    size_t count = sweep->count;
    *w = (weir_pack__windows){.sweep = sweep};
    weir__arena_init(&w->memory, env);
    WEIR__TRY(weir_pack__first_fit_open(env, sweep, &w->fit, error));
    w->keys = weir__arena_take(&w->memory, count * sizeof *w->keys);
    w->weight = weir__arena_take(&w->memory, count * sizeof *w->weight);
    w->queue = weir__arena_take(&w->memory, count * sizeof *w->queue);
    w->spare = weir__arena_take(&w->memory, count * sizeof *w->spare);
    w->kept = weir__arena_take(&w->memory, count * sizeof *w->kept);
    w->taken = weir__arena_take(&w->memory, count * sizeof *w->taken);
    w->high = weir__arena_take(&w->memory, count * sizeof *w->high);
    w->is_high = weir__arena_take(&w->memory, count * sizeof *w->is_high);
    if (w->memory.is_short) {
        weir_pack__windows_close(w);
        return weir__out_of_memory(error, WEIR_PACK__OPERATOR, count * sizeof *w->queue);
    }
    for (size_t i = 0; i < count; i++)
        w->weight[i] = WEIGHT_ONE;
    weir_pack__first_fit_keys(&w->fit, w->kept, w->taken, w->keys);
    return WEIR_OK;
}

void weir_pack__windows_close(weir_pack__windows *w) {
    weir__arena_release(&w->memory);
    weir_pack__first_fit_close(&w->fit);
}
