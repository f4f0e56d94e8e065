/* Core fits: the hard moments searched, the rest played outward.
 *
 * Where the load is high only around one moment, as in a training step whose gradients stay, stacking that
 * one moment leaves the next ones fragmented. So a window around it is laid out by a corner search
 * (lifetimes cut to the window; the buffers that span it go to the bottom by themselves, longest first) and
 * the time-order fit continues from its borders. Windows grow until one layout meets the target. */
#include "plan/pack_internal.h"

#include <string.h>

enum { WINDOW_MIN = 32, WINDOW_MAX = 1024 };

typedef struct window {
    uint64_t from, to;
} window;

/* From the birth `reach` rows before the fullest moment to the one `reach` rows after it. */
static window window_around(const weir__sweep *sweep, uint32_t reach) {
    uint32_t low = sweep->peak_row > reach ? sweep->peak_row - reach : 0;
    uint32_t high = sweep->count - 1 - sweep->peak_row > reach ? sweep->peak_row + reach : sweep->count - 1;
    return (window){sweep->rows[low].lower, sweep->rows[high].lower + 1};
}

typedef struct core {
    window w;
    uint64_t base;     /* top of the rows that span the window, which lie at the bottom */
    weir__item *items; /* the others */
    uint32_t count;
    uint64_t limit; /* on steps: no further search is begun beyond it */
} core;

/* Writes the offsets of spanning rows, in canonical order: born first, lowest. */
static void list_items(const weir__sweep *sweep, core *c, uint64_t *by_row) {
    for (uint32_t i = 0; i < sweep->count && sweep->rows[i].lower < c->w.to; i++) {
        const weir__row *row = &sweep->rows[i];
        if (row->upper <= c->w.from)
            continue;
        if (row->lower <= c->w.from && row->upper >= c->w.to) {
            by_row[i] = c->base;
            c->base += row->size;
            continue;
        }
        c->items[c->count++] = (weir__item){.lower = row->lower > c->w.from ? row->lower : c->w.from,
                                            .upper = row->upper < c->w.to ? row->upper : c->w.to,
                                            .size = row->size,
                                            .origin = i};
    }
}

static weir_status search_core(const weir_env *env, const core *c, const weir__part *part, uint64_t target,
                               uint64_t *by_row, weir__search_end *end, uint64_t *steps, weir_error *error) {
    weir__corner *corner = NULL;
    uint64_t *offsets = weir__allocate(env, part->count, sizeof *offsets);
    weir_status status = offsets
                             ? weir__corner_open(env, part, &corner, error)
                             : weir__out_of_memory(error, WEIR__PACK_OPERATOR, part->count * sizeof *offsets);
    weir__search_task task = {.rule = WEIR__RULE_FEWEST,
                              .capacity = target - c->base,
                              .fit = 3,
                              .budget = 20000 + 20 * (uint64_t)part->count * part->live_max};
    for (unsigned i = 0; !status && i < WEIR__ORDERS && *end == WEIR__SEARCH_SPENT && *steps < c->limit;
         i++) {
        task.order = (weir__corner_order)i;
        status = weir__corner_run(corner, &task, offsets, end, steps, error);
    }
    for (uint32_t i = 0; !status && *end == WEIR__SEARCH_SOLVED && i < part->count; i++)
        by_row[part->origin[i]] = c->base + offsets[i];
    weir__corner_close(corner);
    weir__release(env, offsets);
    return status;
}

/* SOLVED: every row that lives in the window has its offset in by_row, none above target. */
static weir_status lay_out_core(const weir_env *env, const weir__sweep *sweep, window w, uint64_t target,
                                uint64_t limit, uint64_t *by_row, weir__search_end *end, uint64_t *steps,
                                weir_error *error) {
    core c = {.w = w, .limit = limit};
    c.items = weir__allocate(env, 2 * ((size_t)sweep->live_max + WINDOW_MAX) + 1, sizeof *c.items);
    if (!c.items)
        return weir__out_of_memory(error, WEIR__PACK_OPERATOR, sweep->live_max * sizeof *c.items);
    list_items(sweep, &c, by_row);
    *end = WEIR__SEARCH_SPENT;
    weir__part part;
    weir_status status = weir__part_open(env, c.items, c.count, &part, error);
    if (!status && !part.oversized)
        status = search_core(env, &c, &part, target, by_row, end, steps, error);
    weir__part_close(env, &part);
    weir__release(env, c.items);
    return status;
}

weir_status weir__fit_cores(const weir_env *env, const weir__sweep *sweep, uint64_t target, uint64_t limit,
                            uint64_t *offsets, uint64_t *trial, uint64_t *peak, uint64_t *steps,
                            weir_error *error) {
    weir_status status = WEIR_OK;
    *peak = UINT64_MAX;
    for (uint32_t reach = WINDOW_MIN; !status && reach <= WINDOW_MAX && *peak > target && *steps < limit;
         reach *= 2) {
        window w = window_around(sweep, reach);
        weir__search_end end;
        status = lay_out_core(env, sweep, w, target, limit, trial, &end, steps, error);
        if (status || end != WEIR__SEARCH_SOLVED)
            return status;
        uint64_t trial_peak = target;
        status =
            weir__fit_around(env, sweep, w.from, w.to, reach % 64 == 0, trial, &trial_peak, steps, error);
        if (!status && trial_peak < *peak) {
            *peak = trial_peak;
            memcpy(offsets, trial, sweep->count * sizeof *offsets);
        }
        if (reach >= sweep->count)
            break;
    }
    return status;
}
