/* Core fits: the hard moments searched, the rest played outward.
 *
 * If the load is high only around one moment, as in a training step whose gradients stay, stacking that one
 * moment leaves the next ones fragmented. So a window around it is laid out by a corner search (lifetimes
 * cut to the window; the buffers that span it go to the bottom, at a slant as in pack_fit.c) and the
 * time-order fit continues from its borders. */
#include "plan/pack_internal.h"

typedef struct window {
    uint64_t from, to;
} window;

typedef struct core {
    window w;
    weir__record *spanning; /* rows that live all through the window, which lie at the bottom */
    uint64_t base;          /* their top */
    weir_pack__row *rows;   /* the others, cut to the window; `origin` is their row in the sweep */
    uint32_t count;
} core;

static bool lives_in(const weir_pack__row *row, window w) {
    return row->lower < w.to && row->upper > w.from;
}

static bool spans(const weir_pack__row *row, window w) {
    return row->lower <= w.from && row->upper >= w.to;
}

/* Lists the rows of the window and writes the offsets of those that span it. False: no memory. */
static bool open_core(const weir_env *env, const weir_pack__sweep *sweep, uint32_t slant, core *c,
                      uint64_t *by_row) {
    uint32_t spanning = 0, others = 0, listed = 0;
    for (uint32_t i = 0; i < sweep->count && sweep->rows[i].lower < c->w.to; i++)
        if (lives_in(&sweep->rows[i], c->w))
            (*(spans(&sweep->rows[i], c->w) ? &spanning : &others))++;
    c->spanning = weir__allocate(env, spanning, 2 * sizeof *c->spanning);
    c->rows = weir__allocate(env, others, sizeof *c->rows);
    if (!c->spanning || !c->rows)
        return false;
    for (uint32_t i = 0; i < sweep->count && sweep->rows[i].lower < c->w.to; i++) {
        const weir_pack__row *row = &sweep->rows[i];
        if (!lives_in(row, c->w))
            continue;
        if (spans(row, c->w))
            c->spanning[listed++] = (weir__record){weir_pack__slanted(sweep, row, slant), i};
        else
            c->rows[c->count++] = (weir_pack__row){.lower = row->lower > c->w.from ? row->lower : c->w.from,
                                                   .upper = row->upper < c->w.to ? row->upper : c->w.to,
                                                   .size = row->size,
                                                   .origin = i};
    }
    weir__sort_records(c->spanning, c->spanning + spanning, spanning, NULL, NULL);
    for (uint32_t i = 0; i < spanning; i++) {
        by_row[c->spanning[i].index] = c->base;
        c->base += sweep->rows[c->spanning[i].index].size;
    }
    return true;
}

static weir_status search_core(const weir_env *env, const core *c, const weir_pack__core_setting *setting,
                               const weir_pack__part *part, uint64_t target, weir_pack__corner **corner,
                               uint64_t *by_row, weir_pack__search_end *end, uint64_t *steps,
                               weir_error *error) {
    uint64_t *offsets = weir__allocate(env, part->count, sizeof *offsets);
    if (!offsets)
        return weir__out_of_memory(error, WEIR_PACK__OPERATOR, part->count * sizeof *offsets);
    weir_status status = weir_pack__corner_open(env, part, corner, error);
    weir_pack__search_task task = {.rule = WEIR_PACK__RULE_FEWEST,
                                   .order = setting->order,
                                   .seed = setting->seed,
                                   .capacity = target - c->base,
                                   .fit = 3,
                                   .budget = 20000 + 20 * (uint64_t)part->count * part->live_max};
    if (!status)
        status = weir_pack__corner_run(*corner, &task, offsets, end, steps, error);
    for (uint32_t i = 0; !status && *end == WEIR_PACK__SEARCH_SOLVED && i < part->count; i++)
        by_row[c->rows[i].origin] = c->base + offsets[i];
    weir__release(env, offsets);
    return status;
}

weir_status weir_pack__fit_core(const weir_env *env, const weir_pack__sweep *sweep,
                                const weir_pack__core_setting *setting, uint64_t target,
                                weir_pack__corner **corner, uint64_t *offsets, uint64_t *peak,
                                uint64_t *steps, weir_error *error) {
    /* From the birth `reach` rows before the fullest moment to the one `reach` rows after it. */
    uint32_t low = sweep->peak_row > setting->reach ? sweep->peak_row - setting->reach : 0;
    uint32_t last = sweep->count - 1;
    uint32_t high = last - sweep->peak_row > setting->reach ? sweep->peak_row + setting->reach : last;
    core c = {.w = {sweep->rows[low].lower, sweep->rows[high].lower + 1}};
    weir_pack__part part = {0};
    weir_pack__search_end end = WEIR_PACK__SEARCH_SPENT;
    weir_status status = open_core(env, sweep, setting->slant, &c, offsets)
                             ? weir_pack__part_open(env, c.rows, c.count, &part, error)
                             : weir__out_of_memory(error, WEIR_PACK__OPERATOR, sweep->count * sizeof *c.rows);
    if (!status && !part.oversized)
        status = search_core(env, &c, setting, &part, target, corner, offsets, &end, steps, error);
    *steps += sweep->count / 2;
    *peak = UINT64_MAX;
    if (!status && end == WEIR_PACK__SEARCH_SOLVED) {
        *peak = target;
        weir_pack__fit_order order = {.from = WEIR_PACK__FIT_AROUND,
                                      .by_end = setting->by_end,
                                      .window_from = c.w.from,
                                      .window_to = c.w.to};
        status = weir_pack__fit(env, sweep, order, offsets, peak, steps, error);
    }
    weir_pack__part_close(&part);
    weir__release(env, c.spanning);
    weir__release(env, c.rows);
    return status;
}
