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

enum { SPACING_MIN = 32, LISTED_MAX = 8, BUCKETS = WEIR_PACK__FIRST_FIT_BUCKETS, BUCKETS_MIN = 16 };

/* ---- Neighbours -------------------------------------------------------------------------------- */

/* Fills the lists, or only counts their entries if there is no room for them yet. */
static size_t fill_lists(weir_pack__first_fit *fit, uint32_t *live) {
    const weir_pack__sweep *sweep = fit->sweep;
    size_t entries = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < sweep->count; i++) {
        if (i % fit->spacing == 0) {
            uint32_t kept = 0;
            for (uint32_t k = 0; k < count; k++)
                if (sweep->rows[live[k]].upper > sweep->rows[i].lower)
                    live[kept++] = live[k];
            count = kept;
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
    fit->steps += buckets;
    for (uint32_t bucket = 0; bucket < buckets; bucket++) {
        uint32_t here = 0;
        for (uint32_t i = fit->heads[bucket]; i != WEIR_PACK__NO_INDEX; i = fit->next[i])
            fit->sorted[here++] = (weir__record){fit->spans[i].from, i};
        if (here > 1)
            weir__sort_records(fit->sorted, fit->sorted + here, here, NULL, NULL);
        for (uint32_t i = 0; i < here; i++) {
            const weir_pack__span *span = &fit->spans[fit->sorted[i].index];
            if (span->from > top && span->from - top >= size)
                return top;
            top = span->to > top ? span->to : top;
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

void weir_pack__first_fit_keys(const weir_pack__first_fit *fit, uint64_t *load, uint32_t *stack,
                               uint64_t *keys) {
    const weir_pack__sweep *sweep = fit->sweep;
    uint64_t size_max = 1;
    uint64_t live = 0;
    for (uint32_t i = 0, dead = 0; i < sweep->count; i++) {
        while (sweep->rows[sweep->deaths[dead]].upper <= sweep->rows[i].lower)
            live -= sweep->rows[sweep->deaths[dead++]].size;
        live += sweep->rows[i].size;
        load[i] = live;
        size_max = sweep->rows[i].size > size_max ? sweep->rows[i].size : size_max;
    }
    find_fullest(fit, load, stack, keys);
    for (uint32_t i = 0; i < sweep->count; i++) {
        uint64_t part = (uint64_t)(((unsigned __int128)keys[i] << 16) / sweep->lower_bound);
        uint64_t squared = part * part >> 16;
        uint64_t size = (uint64_t)(((unsigned __int128)sweep->rows[i].size << 31) / size_max);
        keys[i] = (size + 1) * ((squared * squared >> 16) + 1);
    }
}

/* ---- Opening ----------------------------------------------------------------------------------- */

weir_status weir_pack__first_fit_open(const weir_env *env, const weir_pack__sweep *sweep,
                                      weir_pack__first_fit *fit, weir_error *error) {
    size_t count = sweep->count;
    *fit = (weir_pack__first_fit){.sweep = sweep};
    weir__arena_init(&fit->memory, env);
    fit->spacing = sweep->live_max / LISTED_MAX > SPACING_MIN ? sweep->live_max / LISTED_MAX : SPACING_MIN;
    fit->places = weir__arena_take(&fit->memory, count * sizeof *fit->places);
    fit->born_before = weir__arena_take(&fit->memory, count * sizeof *fit->born_before);
    fit->placed = weir__arena_take_zero(&fit->memory, count / 64 + 1, sizeof *fit->placed);
    fit->lists_at = weir__arena_take(&fit->memory, (count / fit->spacing + 2) * sizeof *fit->lists_at);
    uint32_t *live = weir__allocate(env, sweep->live_max + (size_t)fit->spacing, sizeof *live);
    if (live && !fit->memory.is_short) {
        size_t entries = fill_lists(fit, live);
        fit->lists = weir__arena_take(&fit->memory, entries * sizeof *fit->lists);
        if (fit->lists)
            fill_lists(fit, live);
    }
    weir__release(env, live);
    if (!fit->lists) {
        weir_pack__first_fit_close(fit);
        return weir__out_of_memory(error, WEIR_PACK__OPERATOR, count * sizeof *fit->places);
    }
    for (uint32_t i = 0, born = 0; i < sweep->count; i++) {
        uint32_t row = sweep->deaths[i];
        while (born < sweep->count && sweep->rows[born].lower < sweep->rows[row].upper)
            born++;
        fit->born_before[row] = born;
        fit->places[row] = (weir_pack__place){0, 0, sweep->rows[row].upper};
    }
    size_t most = 0; /* an upper bound of what collect_spans finds */
    for (uint32_t i = 0; i < sweep->count; i++) {
        uint32_t list = i / fit->spacing;
        size_t here =
            fit->lists_at[list + 1] - fit->lists_at[list] + fit->born_before[i] - list * fit->spacing;
        fit->cost += 24 + 3 * here / 2;
        most = here > most ? here : most;
    }
    fit->spans = weir__arena_take(&fit->memory, most * sizeof *fit->spans);
    fit->sorted = weir__arena_take(&fit->memory, 2 * most * sizeof *fit->sorted);
    fit->next = weir__arena_take(&fit->memory, most * sizeof *fit->next);
    if (!fit->memory.is_short)
        return WEIR_OK;
    weir_pack__first_fit_close(fit);
    return weir__out_of_memory(error, WEIR_PACK__OPERATOR, most * sizeof *fit->spans);
}

void weir_pack__first_fit_close(weir_pack__first_fit *fit) {
    weir__arena_release(&fit->memory);
}
