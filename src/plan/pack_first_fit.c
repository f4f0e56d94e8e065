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
#include "plan/pack_first_fit.h"

#include <string.h>

enum {
    SPACING_MIN = 32,
    LISTED_MAX = 8,
    BUCKETS = WEIR_PACK__FIRST_FIT_BUCKETS,
    BUCKETS_MIN = 16,
    RUN_MAX = 16
};

/* ---- Neighbours -------------------------------------------------------------------------------- */

static void count_births(weir_pack__first_fit *fit) {
    const weir_pack__sweep *sweep = fit->sweep;
    uint32_t born = 0;
    for (uint32_t i = 0; i < sweep->count; i++) {
        uint32_t row = sweep->deaths[i];
        while (born < sweep->count && sweep->rows[born].lower < sweep->rows[row].upper)
            born++;
        fit->born_before[row] = born;
    }
}

/* Keeps of the live rows those that live on at `time`. */
static uint32_t drop_dead(const weir_pack__sweep *sweep, uint32_t *live, uint32_t count, uint64_t time) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (sweep->rows[live[i]].upper > time)
            live[kept++] = live[i];
    return kept;
}

/* Fills the lists, or only counts their entries if there is no room for them yet. */
static size_t fill_lists(weir_pack__first_fit *fit, uint32_t *live) {
    const weir_pack__sweep *sweep = fit->sweep;
    size_t entries = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < sweep->count; i++) {
        if (i % fit->spacing == 0) {
            count = drop_dead(sweep, live, count, sweep->rows[i].lower);
            fit->lists_at[i / fit->spacing] = entries;
            if (fit->lists)
                memcpy(fit->lists + entries, live, count * sizeof *live);
            entries += count;
        }
        live[count++] = i;
    }
    fit->lists_at[(sweep->count - 1) / fit->spacing + 1] = entries;
    return entries;
}

static bool open_lists(weir_pack__first_fit *fit) {
    const weir_pack__sweep *sweep = fit->sweep;
    fit->spacing = sweep->live_max / LISTED_MAX > SPACING_MIN ? sweep->live_max / LISTED_MAX : SPACING_MIN;
    fit->lists_at = weir__allocate(fit->env, sweep->count / fit->spacing + (size_t)2, sizeof *fit->lists_at);
    uint32_t *live = weir__allocate(fit->env, sweep->live_max + (size_t)fit->spacing, sizeof *live);
    if (fit->lists_at && live) {
        size_t entries = fill_lists(fit, live);
        fit->lists = weir__allocate(fit->env, entries, sizeof *fit->lists);
        if (fit->lists)
            fill_lists(fit, live);
    }
    weir__release(fit->env, live);
    return fit->lists != NULL;
}

/* Adds the spans of the rows [from, to) that lie somewhere and live on at `time`. */
static uint32_t collect_range(weir_pack__first_fit *fit, uint32_t from, uint32_t to, uint64_t time,
                              uint32_t count) {
    for (uint32_t word = from / 64; word * 64 < to; word++) {
        uint64_t bits = fit->placed[word];
        if (word == from / 64)
            bits &= UINT64_MAX << from % 64;
        if (to - word * 64 < 64)
            bits &= ~(UINT64_MAX << to % 64);
        for (; bits; bits &= bits - 1) {
            const weir_pack__place *other = &fit->places[word * 64 + (uint32_t)__builtin_ctzll(bits)];
            if (other->upper > time)
                fit->spans[count++] = (weir_pack__span){other->from, other->to};
        }
    }
    return count;
}

static uint32_t collect_spans(weir_pack__first_fit *fit, uint32_t row) {
    uint64_t born = fit->sweep->rows[row].lower;
    uint32_t list = row / fit->spacing;
    uint32_t count = 0;
    for (size_t k = fit->lists_at[list]; k < fit->lists_at[list + 1]; k++) {
        uint32_t other = fit->lists[k];
        if (fit->placed[other / 64] >> other % 64 & 1 && fit->places[other].upper > born)
            fit->spans[count++] = (weir_pack__span){fit->places[other].from, fit->places[other].to};
    }
    uint32_t begin = list * fit->spacing;
    count = collect_range(fit, begin, row, born, count);
    count = collect_range(fit, row + 1, fit->born_before[row], born, count);
    fit->steps += 8 + (fit->lists_at[list + 1] - fit->lists_at[list]) / 2 +
                  (fit->born_before[row] - begin) / 16 + 2 * (uint64_t)count;
    return count;
}

/* ---- Gaps -------------------------------------------------------------------------------------- */

static void sift_down(weir_pack__span *heap, uint32_t count, uint32_t at) {
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && heap[child].from < heap[child + 1].from)
            child++;
        if (heap[at].from >= heap[child].from)
            return;
        weir_pack__span swap = heap[at];
        heap[at] = heap[child];
        heap[child] = swap;
    }
}

static void sort_spans(weir_pack__span *spans, uint32_t count) {
    if (count > RUN_MAX) {
        for (uint32_t at = count / 2; at-- > 0;)
            sift_down(spans, count, at);
        for (uint32_t end = count; end-- > 1;) {
            weir_pack__span swap = spans[0];
            spans[0] = spans[end];
            spans[end] = swap;
            sift_down(spans, end, 0);
        }
        return;
    }
    for (uint32_t i = 1; i < count; i++) {
        weir_pack__span span = spans[i];
        uint32_t at = i;
        for (; at > 0 && spans[at - 1].from > span.from; at--)
            spans[at] = spans[at - 1];
        spans[at] = span;
    }
}

uint64_t weir_pack__first_fit_find(weir_pack__first_fit *fit, uint32_t row) {
    uint64_t size = fit->sweep->rows[row].size;
    uint32_t count = collect_spans(fit, row);
    uint32_t buckets = BUCKETS_MIN;
    while (buckets < BUCKETS && 2 * buckets < count)
        buckets *= 2;
    unsigned shift = 0;
    while (fit->sweep->lower_bound >> shift >= buckets)
        shift++;
    memset(fit->heads, 0xff, buckets * sizeof *fit->heads);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t offset = fit->spans[i].from >> shift;
        uint32_t bucket = offset < buckets ? (uint32_t)offset : buckets - 1;
        fit->next[i] = fit->heads[bucket];
        fit->heads[bucket] = i;
    }
    uint64_t top = 0;
    weir_pack__span *sorted = fit->spans + count;
    fit->steps += buckets;
    for (uint32_t bucket = 0; bucket < buckets; bucket++) {
        uint32_t here = 0;
        for (uint32_t i = fit->heads[bucket]; i != WEIR_PACK__NO_INDEX; i = fit->next[i])
            sorted[here++] = fit->spans[i];
        sort_spans(sorted, here);
        for (uint32_t i = 0; i < here; i++) {
            if (sorted[i].from > top && sorted[i].from - top >= size)
                return top;
            top = sorted[i].to > top ? sorted[i].to : top;
        }
    }
    return top;
}

/* ---- Ranks ------------------------------------------------------------------------------------- */

/* The largest of values[from, to) for ranges that are asked for by their start, in descending order of
 * start: a stack of the suffix maxima. Fills `fullest` by row with the largest live sum of its life. */
static void find_fullest(const weir_pack__first_fit *fit, const uint64_t *load, uint32_t *stack,
                         uint64_t *fullest) {
    const weir_pack__sweep *sweep = fit->sweep;
    uint32_t depth = 0;
    for (uint32_t row = sweep->count; row-- > 0;) {
        while (depth > 0 && load[stack[depth - 1]] <= load[row])
            depth--;
        stack[depth++] = row;
        /* stack[depth - 1] is the nearest and least; the first with an index below the end is wanted */
        uint32_t low = 0, high = depth - 1;
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            if (stack[middle] < fit->born_before[row])
                high = middle;
            else
                low = middle + 1;
        }
        fullest[row] = load[stack[low]];
    }
}

static void find_loads(const weir_pack__sweep *sweep, uint64_t *load) {
    uint64_t live = 0;
    uint32_t dead = 0;
    for (uint32_t i = 0; i < sweep->count; i++) {
        while (sweep->rows[sweep->deaths[dead]].upper <= sweep->rows[i].lower)
            live -= sweep->rows[sweep->deaths[dead++]].size;
        live += sweep->rows[i].size;
        load[i] = live;
    }
}

/* value / whole in 1/65536. */
static uint64_t share(uint64_t value, uint64_t whole) {
    return (uint64_t)(((unsigned __int128)value << 16) / whole);
}

void weir_pack__first_fit_keys(const weir_pack__first_fit *fit, uint64_t *load, uint32_t *stack,
                               uint64_t *keys) {
    const weir_pack__sweep *sweep = fit->sweep;
    uint64_t size_max = 1;
    for (uint32_t i = 0; i < sweep->count; i++)
        size_max = sweep->rows[i].size > size_max ? sweep->rows[i].size : size_max;
    find_loads(sweep, load);
    find_fullest(fit, load, stack, keys);
    for (uint32_t i = 0; i < sweep->count; i++) {
        uint64_t part = share(keys[i], sweep->lower_bound);
        uint64_t squared = part * part >> 16;
        uint64_t size = (uint64_t)(((unsigned __int128)sweep->rows[i].size << 31) / size_max);
        keys[i] = (size + 1) * ((squared * squared >> 16) + 1);
    }
}

/* ---- Opening ----------------------------------------------------------------------------------- */

/* Upper bounds of what collect_spans finds; returns the largest. */
static uint32_t count_neighbours(weir_pack__first_fit *fit) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < fit->sweep->count; i++) {
        uint32_t list = i / fit->spacing;
        uint32_t here = (uint32_t)(fit->lists_at[list + 1] - fit->lists_at[list]) + fit->born_before[i] -
                        list * fit->spacing;
        fit->cost += 24 + 3 * (uint64_t)here / 2;
        most = here > most ? here : most;
    }
    return most;
}

weir_status weir_pack__first_fit_open(const weir_env *env, const weir_pack__sweep *sweep,
                                      weir_pack__first_fit *fit, weir_error *error) {
    size_t count = sweep->count;
    *fit = (weir_pack__first_fit){.env = env, .sweep = sweep};
    fit->places = weir__allocate(env, count, sizeof *fit->places);
    fit->born_before = weir__allocate(env, count, sizeof *fit->born_before);
    fit->placed = weir__allocate_zero(env, count / 64 + 1, sizeof *fit->placed);
    bool opened = fit->places && fit->placed && fit->born_before && open_lists(fit);
    if (opened) {
        count_births(fit);
        size_t most = count_neighbours(fit);
        fit->spans = weir__allocate(env, 2 * most, sizeof *fit->spans);
        fit->next = weir__allocate(env, most, sizeof *fit->next);
    }
    if (!opened || !fit->spans || !fit->next) {
        weir_pack__first_fit_close(fit);
        return weir__out_of_memory(error, WEIR_PACK__OPERATOR, count * sizeof *fit->places);
    }
    for (uint32_t i = 0; i < sweep->count; i++)
        fit->places[i] = (weir_pack__place){0, 0, sweep->rows[i].upper};
    return WEIR_OK;
}

void weir_pack__first_fit_close(weir_pack__first_fit *fit) {
    weir__release(fit->env, fit->places);
    weir__release(fit->env, fit->placed);
    weir__release(fit->env, fit->born_before);
    weir__release(fit->env, fit->lists_at);
    weir__release(fit->env, fit->lists);
    weir__release(fit->env, fit->spans);
    weir__release(fit->env, fit->next);
    *fit = (weir_pack__first_fit){.env = fit->env};
}
