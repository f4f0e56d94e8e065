/* First fit, and windows: a stretch of time around what stands too high is taken out of a layout and packed
 * again.
 *
 * The goal is a height a little below the peak. A try takes a row that passes the goal and a window of time
 * around it, of any width; every row that lives wholly in the window is taken out, and all of them are put
 * back by first fit among those that stay, largest first. A row that ended too high is given more weight, so
 * that it comes earlier the next time: rows that are hard to place work their way to the front. A try that
 * leaves no more above the goal than before is kept. When nothing passes the goal, the next is lower. So a
 * problem of any size is improved where it is worst, at the cost of the window alone, and what was found for
 * one window stays while others are tried. All choices come from a counter: the result is the same
 * everywhere. */
#include <string.h>

#include "plan/pack_internal.h"

enum { SPACING_MIN = 32, LISTED_MAX = 8, BUCKETS = 256, BUCKETS_MIN = 16 };

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

/* Where a row lies, once it does. */
typedef struct place {
    uint64_t from, to;
    uint64_t upper; /* of its lifetime */
} place;

typedef struct span {
    uint64_t from, to;
} span;

struct weir_pack__windows {
    weir__arena memory; /* of all arrays */
    const weir_pack__sweep *sweep;
    uint64_t steps; /* grows */

    place *places;         /* by row */
    uint64_t *placed;      /* a bit per row: lies somewhere */
    uint32_t *born_before; /* by row: how many rows are born before it dies */
    uint32_t spacing;      /* rows between two lists */
    size_t *lists_at; /* list i has what lives when row i * spacing is born, and ends where the next begins */
    uint32_t *lists;
    uint64_t cost; /* steps to place every row once */
    span *spans;
    weir__record *sorted; /* those of one bucket by offset, and as much scratch */
    uint32_t *next;       /* links of the buckets */
    uint32_t heads[BUCKETS];

    uint64_t *keys;   /* by row: largest goes first */
    uint32_t *weight; /* by row, in 1/256: grows each time that the row ends too high */
    weir__record *queue, *spare;
    uint64_t *kept;  /* old offsets of the rows in the queue's window */
    uint32_t *taken; /* these rows */
    uint32_t *high;  /* rows that pass the goal */
    uint32_t high_count;
    bool *is_high; /* by row: stands in `high` */
    uint64_t goal;
    uint64_t peak; /* of the best layout that was loaded or found; 0: none */
    uint64_t random;
    uint64_t tries;
};

/* ---- First fit ---------------------------------------------------------------------------------- */

/* First fit: a row goes to the lowest place that none of its neighbours has.
 *
 * Who its neighbours are: rows are sorted by birth, so those born during its life are one range; those that
 * live already when it is born are in a list that is kept every `spacing` rows, or were born since. Lists
 * are at least half as far apart as the most rows that live at once, so that all of them together have
 * about two entries per row.
 *
 * Where they leave room: their spans are dealt into buckets by offset, and the buckets are sorted one after
 * another, from the lowest, until a gap is wide enough; most are never looked at.
 *
 * Placed largest first this is the classical greedy by size. Rows that only live while there is little else
 * can wait: their rank falls with the fourth power of the fullest moment of their life. Where lifetimes and
 * sizes are of all kinds, that is the strongest construction known here that looks at each row once. */

/* Fills the lists, or only counts their entries if there is no room for them yet. */
static size_t fill_lists(weir_pack__windows *w, uint32_t *live) {
    const weir_pack__sweep *sweep = w->sweep;
    size_t entries = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < sweep->count; i++) {
        if (i % w->spacing == 0) {
            uint32_t kept = 0;
            for (uint32_t k = 0; k < count; k++)
                if (sweep->rows[live[k]].upper > sweep->rows[i].lower)
                    live[kept++] = live[k];
            count = kept;
            w->lists_at[i / w->spacing] = entries;
            if (w->lists)
                memcpy(w->lists + entries, live, count * sizeof *live);
            entries += count;
        }
        live[count++] = i;
    }
    w->lists_at[(sweep->count - 1) / w->spacing + 1] = entries;
    return entries;
}

/* Adds the spans of the rows [from, to) that lie somewhere and live on at `time`. */
static uint32_t collect_range(weir_pack__windows *w, uint32_t from, uint32_t to, uint64_t time,
                              uint32_t count) {
    for (uint32_t word = from / 64; word * 64 < to; word++) {
        uint64_t bits = w->placed[word];
        if (word == from / 64)
            bits &= UINT64_MAX << from % 64;
        if (to - word * 64 < 64)
            bits &= ~(UINT64_MAX << to % 64);
        for (; bits; bits &= bits - 1) {
            const place *other = &w->places[word * 64 + (uint32_t)__builtin_ctzll(bits)];
            if (other->upper > time)
                w->spans[count++] = (span){other->from, other->to};
        }
    }
    return count;
}

static uint32_t collect_spans(weir_pack__windows *w, uint32_t row) {
    uint64_t born = w->sweep->rows[row].lower;
    uint32_t list = row / w->spacing;
    uint32_t count = 0;
    for (size_t k = w->lists_at[list]; k < w->lists_at[list + 1]; k++) {
        uint32_t other = w->lists[k];
        if (w->placed[other / 64] >> other % 64 & 1 && w->places[other].upper > born)
            w->spans[count++] = (span){w->places[other].from, w->places[other].to};
    }
    uint32_t begin = list * w->spacing;
    count = collect_range(w, begin, row, born, count);
    count = collect_range(w, row + 1, w->born_before[row], born, count);
    w->steps += 8 + (w->lists_at[list + 1] - w->lists_at[list]) / 2 + (w->born_before[row] - begin) / 16 +
                2 * (uint64_t)count;
    return count;
}

/* ---- Gaps -------------------------------------------------------------------------------------- */

/* The lowest offset at which a row meets none of those that lie somewhere. */
static uint64_t find_place(weir_pack__windows *w, uint32_t row) {
    uint64_t size = w->sweep->rows[row].size;
    uint32_t count = collect_spans(w, row);
    uint32_t buckets = BUCKETS_MIN;
    while (buckets < BUCKETS && 2 * buckets < count)
        buckets *= 2;
    unsigned shift = 0;
    while (w->sweep->lower_bound >> shift >= buckets)
        shift++;
    memset(w->heads, 0xff, buckets * sizeof *w->heads);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t offset = w->spans[i].from >> shift;
        uint32_t bucket = offset < buckets ? (uint32_t)offset : buckets - 1;
        w->next[i] = w->heads[bucket];
        w->heads[bucket] = i;
    }
    uint64_t top = 0;
    w->steps += buckets;
    for (uint32_t bucket = 0; bucket < buckets; bucket++) {
        uint32_t here = 0;
        for (uint32_t i = w->heads[bucket]; i != WEIR_PACK__NO_INDEX; i = w->next[i])
            w->sorted[here++] = (weir__record){w->spans[i].from, i};
        if (here > 1)
            weir__sort_records(w->sorted, w->sorted + here, here, NULL, NULL);
        for (uint32_t i = 0; i < here; i++) {
            const span *other = &w->spans[w->sorted[i].index];
            if (other->from > top && other->from - top >= size)
                return top;
            top = other->to > top ? other->to : top;
        }
    }
    return top;
}

/* ---- Ranks ------------------------------------------------------------------------------------- */

/* The largest of values[from, to) for ranges that are asked for by their start, in descending order of
 * start: a stack of the suffix maxima. Fills `fullest` by row with the largest live sum of its life. */
static void find_fullest(const weir_pack__windows *w, const uint64_t *load, uint32_t *stack,
                         uint64_t *fullest) {
    const weir_pack__sweep *sweep = w->sweep;
    uint32_t depth = 0;
    for (uint32_t row = sweep->count; row-- > 0;) {
        while (depth > 0 && load[stack[depth - 1]] <= load[row])
            depth--;
        stack[depth++] = row;
        /* stack[depth - 1] is the nearest and least; the first with an index below the end is wanted */
        uint32_t low = 0, high = depth - 1;
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            if (stack[middle] < w->born_before[row])
                high = middle;
            else
                low = middle + 1;
        }
        fullest[row] = load[stack[low]];
    }
}

/* The rank of each row for first fit: its size, less if it never lives at a full moment; at most 2^48. `load`
 * and `stack` are scratch; all have an entry per row. */
static void find_keys(const weir_pack__windows *w, uint64_t *load, uint32_t *stack, uint64_t *keys) {
    const weir_pack__sweep *sweep = w->sweep;
    uint64_t size_max = 1;
    uint64_t live = 0;
    for (uint32_t i = 0, dead = 0; i < sweep->count; i++) {
        while (sweep->rows[sweep->deaths[dead]].upper <= sweep->rows[i].lower)
            live -= sweep->rows[sweep->deaths[dead++]].size;
        live += sweep->rows[i].size;
        load[i] = live;
        size_max = sweep->rows[i].size > size_max ? sweep->rows[i].size : size_max;
    }
    find_fullest(w, load, stack, keys);
    for (uint32_t i = 0; i < sweep->count; i++) {
        uint64_t part = (uint64_t)(((unsigned __int128)keys[i] << 16) / sweep->lower_bound);
        uint64_t squared = part * part >> 16;
        uint64_t size = (uint64_t)(((unsigned __int128)sweep->rows[i].size << 31) / size_max);
        keys[i] = (size + 1) * ((squared * squared >> 16) + 1);
    }
}

static void put(weir_pack__windows *w, uint32_t row, uint64_t offset) {
    w->places[row].from = offset;
    w->places[row].to = offset + w->sweep->rows[row].size;
    w->placed[row / 64] |= UINT64_C(1) << row % 64;
}

static void take_out(weir_pack__windows *w, uint32_t row) {
    w->placed[row / 64] &= ~(UINT64_C(1) << row % 64);
}

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

bool weir_pack__windows_fit(weir_pack__windows *w, uint64_t limit, uint64_t *offsets, uint64_t *steps) {
    uint32_t count = w->sweep->count;
    if (*steps + w->cost > limit)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        take_out(w, i);
        w->queue[i] = (weir__record){~w->keys[i], i};
    }
    weir__sort_records(w->queue, w->spare, count, NULL, NULL);
    w->steps = *steps;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = w->queue[i].index;
        offsets[row] = find_place(w, row);
        put(w, row, offsets[row]);
    }
    *steps = w->steps;
    return true;
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
    uint32_t births = w->born_before[row] - row;
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
        w->kept[i] = w->places[w->taken[i]].from;
        take_out(w, w->taken[i]);
    }
    w->steps += taken;
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
    w->steps += 4 * (uint64_t)taken;
}

static uint64_t excess(uint64_t top, uint64_t goal) {
    return top > goal ? top - goal : 0;
}

/* Puts the rows of the queue back; false as soon as more passes the goal than `allowed`. */
static bool put_back(weir_pack__windows *w, uint32_t taken, unsigned __int128 allowed) {
    unsigned __int128 sum = 0;
    for (uint32_t i = 0; i < taken; i++) {
        uint32_t row = w->queue[i].index;
        put(w, row, find_place(w, row));
        uint64_t over = excess(w->places[row].to, w->goal);
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
            put(w, at, w->kept[i]);
        else if (w->places[at].to > w->goal && !w->is_high[at])
            add_high(w, at);
    }
}

/* ---- Goals --------------------------------------------------------------------------------------- */

static void set_goal(weir_pack__windows *w, uint64_t peak, uint64_t floor) {
    w->goal = peak - 1 - (peak - floor - 1) / GOAL_STEPS;
    w->high_count = 0;
    memset(w->is_high, 0, w->sweep->count * sizeof *w->is_high);
    for (uint32_t i = 0; i < w->sweep->count; i++)
        if (w->places[i].to > w->goal)
            add_high(w, i);
    w->steps += w->sweep->count / 2;
}

/* Takes over what the windows have now, if its peak is lower. */
static void keep(weir_pack__windows *w, uint64_t *offsets) {
    uint64_t peak = 0;
    for (uint32_t i = 0; i < w->sweep->count; i++)
        peak = w->places[i].to > peak ? w->places[i].to : peak;
    w->steps += w->sweep->count / 2;
    if (peak >= w->peak)
        return;
    w->peak = peak;
    for (uint32_t i = 0; i < w->sweep->count; i++)
        offsets[i] = w->places[i].from;
}

void weir_pack__windows_run(weir_pack__windows *w, uint64_t floor, uint64_t limit, uint64_t *offsets,
                            uint64_t *peak, uint64_t *steps) {
    uint32_t count = w->sweep->count;
    uint64_t per_row = ROWS_PER_WIDTH * (w->cost / count + 1);
    w->steps = *steps;
    if (w->peak != *peak) { /* another layout than the one that the last run left */
        w->peak = *peak;
        for (uint32_t i = 0; i < count; i++)
            put(w, i, offsets[i]);
        set_goal(w, w->peak, floor);
    }
    for (bool going = true; going && w->peak > floor && w->steps < limit;) {
        while (w->high_count > 0 && w->steps < limit) {
            uint32_t at = draw(w, w->high_count);
            uint32_t row = w->high[at];
            if (w->places[row].to <= w->goal) {
                w->is_high[row] = false;
                w->high[at] = w->high[--w->high_count];
                continue;
            }
            uint64_t widest = (limit - w->steps) / per_row;
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
    *steps = w->steps;
}

/* ---- Opening ------------------------------------------------------------------------------------- */

/* Who lives when. False: no memory. */
static bool open_first_fit(weir_pack__windows *w) {
    const weir_pack__sweep *sweep = w->sweep;
    size_t count = sweep->count;
    w->spacing = sweep->live_max / LISTED_MAX > SPACING_MIN ? sweep->live_max / LISTED_MAX : SPACING_MIN;
    w->places = weir__arena_take(&w->memory, count * sizeof *w->places);
    w->born_before = weir__arena_take(&w->memory, count * sizeof *w->born_before);
    w->placed = weir__arena_take_zero(&w->memory, count / 64 + 1, sizeof *w->placed);
    w->lists_at = weir__arena_take(&w->memory, (count / w->spacing + 2) * sizeof *w->lists_at);
    uint32_t *live = weir__arena_take(&w->memory, (sweep->live_max + (size_t)w->spacing) * sizeof *live);
    if (w->memory.is_short)
        return false;
    w->lists = weir__arena_take(&w->memory, fill_lists(w, live) * sizeof *w->lists);
    if (!w->lists)
        return false;
    fill_lists(w, live);
    for (uint32_t i = 0, born = 0; i < sweep->count; i++) {
        uint32_t row = sweep->deaths[i];
        while (born < sweep->count && sweep->rows[born].lower < sweep->rows[row].upper)
            born++;
        w->born_before[row] = born;
        w->places[row] = (place){0, 0, sweep->rows[row].upper};
    }
    size_t most = 0; /* an upper bound of what collect_spans finds */
    for (uint32_t i = 0; i < sweep->count; i++) {
        uint32_t list = i / w->spacing;
        size_t here = w->lists_at[list + 1] - w->lists_at[list] + w->born_before[i] - list * w->spacing;
        w->cost += 24 + 3 * here / 2;
        most = here > most ? here : most;
    }
    w->spans = weir__arena_take(&w->memory, most * sizeof *w->spans);
    w->sorted = weir__arena_take(&w->memory, 2 * most * sizeof *w->sorted);
    w->next = weir__arena_take(&w->memory, most * sizeof *w->next);
    return !w->memory.is_short;
}

weir_pack__windows *weir_pack__windows_open(const weir_env *env, const weir_pack__sweep *sweep) {
    size_t count = sweep->count;
    weir_pack__windows *w = weir__allocate_zero(env, 1, sizeof *w);
    if (!w)
        return NULL;
    w->sweep = sweep;
    weir__arena_init(&w->memory, env);
    w->keys = weir__arena_take(&w->memory, count * sizeof *w->keys);
    w->weight = weir__arena_take(&w->memory, count * sizeof *w->weight);
    w->queue = weir__arena_take(&w->memory, count * sizeof *w->queue);
    w->spare = weir__arena_take(&w->memory, count * sizeof *w->spare);
    w->kept = weir__arena_take(&w->memory, count * sizeof *w->kept);
    w->taken = weir__arena_take(&w->memory, count * sizeof *w->taken);
    w->high = weir__arena_take(&w->memory, count * sizeof *w->high);
    w->is_high = weir__arena_take(&w->memory, count * sizeof *w->is_high);
    if (w->memory.is_short || !open_first_fit(w)) {
        weir_pack__windows_close(w);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        w->weight[i] = WEIGHT_ONE;
    find_keys(w, w->kept, w->taken, w->keys);
    return w;
}

void weir_pack__windows_close(weir_pack__windows *w) {
    if (!w)
        return;
    const weir_env *env = w->memory.env;
    weir__arena_release(&w->memory);
    weir__release(env, w);
}
