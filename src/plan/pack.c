/* The strategies, how much effort each is given, and the way from the caller's buffers to units and back.
 *
 * Effort comes in levels. A level begins with what the level below it left, layout and searches alike, and
 * has a budget of steps that it shares out among its strategies: so more effort is never worse, and what a
 * level may cost is known before. A strategy that got further is given twice the share the next time, one
 * that did not, half.
 *
 * The part with the highest peak decides the result, so searches look at that one alone, and at the next
 * highest after it. The end is reached when the highest is proven, or the target is met. */
#include <stdlib.h>
#include <string.h>

#include "plan/pack_internal.h"

typedef struct part_record {
    uint32_t row_from, row_to;
    uint64_t peak; /* once the packing has a layout */
    uint64_t proven;
} part_record;

typedef struct packing packing;

typedef struct strategy {
    const char *name;
    uint32_t from, to; /* levels on which it takes part */
    uint32_t share;    /* of the steps, to begin with; 0: what it needs, if there is as much left */
    weir_status (*run)(packing *p, uint64_t limit, weir_error *error);
} strategy;

enum { STRATEGIES = 8, SHARE_MAX = 64 };

struct packing {
    const weir_env *env;
    const weir_pack__options *options;
    weir_pack__sweep sweep;
    uint64_t *offsets; /* by row, the best so far; each part on its own */
    uint64_t *trial;   /* by row */
    part_record *parts;
    uint32_t part_count;
    uint64_t target; /* nothing is gained below */
    uint64_t steps;
    uint32_t level;              /* reached so far */
    uint32_t shares[STRATEGIES]; /* of a level's steps, by strategy */
    bool has_layout;             /* of all parts */

    const part_record *searched; /* the part that `search` is over; NULL: none */
    weir_pack__part_search search;

    weir_pack__windows *windows; /* NULL: not opened */
    unsigned cores;              /* tried so far */
    weir_pack__corner *corner;   /* of the cores that a strategy tries one after another; NULL between them */
    uint64_t fit_cost;           /* steps of the last fit in time order */
    bool has_sizes;              /* first fit of all is done */

    weir_pack__fusion *fusion;
    bool has_fusion; /* it was tried */
    packing *fused;  /* the problem over fused rows; NULL if fusion does not make it smaller */
    bool is_fused;   /* this is one: it is not fused again */
    bool is_large;   /* it, or what it was fused from, has many rows */
    bool is_better;  /* the last strategy got further, although its layout may not be the best yet */
};

/* Steps that a level may take from the start: a constant and a number for each buffer. About 3 ns each. */
static const struct {
    uint64_t base;
    uint64_t per_buffer;
} level_steps[WEIR_PACK__EFFORT_MAX + 1] = {
    {0, 192},          {4000000, 1000},   {12000000, 1400},  {36000000, 1450},   {80000000, 1500},
    {250000000, 1600}, {450000000, 1900}, {800000000, 2300}, {1400000000, 2800}, {2500000000, 3200},
};

enum {
    HARD_LEVEL = 4,
    CORE_MIN = 32,
    CORE_MAX = 1024,
    CORE_STEPS = 2000000,
    LARGE = 1 << 15,
    LARGE_ROUNDS = 4
};

uint64_t weir_pack__budget(uint32_t effort, size_t count) {
    return level_steps[effort].base + level_steps[effort].per_buffer * (uint64_t)count;
}

/* ---- Parts ------------------------------------------------------------------------------------- */

static uint32_t count_parts(const weir_pack__sweep *sweep, part_record *parts) {
    uint32_t count = 0;
    uint64_t end = 0;
    for (uint32_t i = 0; i < sweep->count; i++) {
        const weir_pack__row *row = &sweep->rows[i];
        if (i == 0 || row->lower >= end) {
            if (parts)
                parts[count] = (part_record){.row_from = i};
            count++;
        }
        if (parts)
            parts[count - 1].row_to = i + 1;
        end = row->upper > end ? row->upper : end;
    }
    return count;
}

/* Takes over, part by part, what is better in the layout `trial`. */
static void keep_better_parts(packing *p) {
    for (uint32_t i = 0; i < p->part_count; i++) {
        part_record *part = &p->parts[i];
        uint64_t peak = 0;
        for (uint32_t row = part->row_from; row < part->row_to; row++)
            if (p->trial[row] + p->sweep.rows[row].size > peak)
                peak = p->trial[row] + p->sweep.rows[row].size;
        if (p->has_layout && peak >= part->peak)
            continue;
        part->peak = peak;
        memcpy(p->offsets + part->row_from, p->trial + part->row_from,
               (part->row_to - part->row_from) * sizeof *p->offsets);
    }
}

static weir_status try_fit(packing *p, weir_pack__fit_order order, weir_error *error) {
    uint64_t peak;
    uint64_t start = p->steps;
    WEIR__TRY(weir_pack__fit(p->env, &p->sweep, order, p->trial, &peak, &p->steps, error));
    p->fit_cost = p->steps - start;
    keep_better_parts(p);
    return WEIR_OK;
}

static part_record *highest_part(packing *p) {
    part_record *highest = &p->parts[0];
    for (uint32_t i = 1; i < p->part_count; i++)
        if (p->parts[i].peak > highest->peak)
            highest = &p->parts[i];
    return highest;
}

static bool is_done(packing *p) {
    const part_record *highest = highest_part(p);
    return highest->peak <= p->target || highest->peak <= highest->proven;
}

/* ---- Strategies: fits -------------------------------------------------------------------------- */

/* Best fits in time order, after the forward one: the plain ones, then those by end. */
static const weir_pack__fit_order fit_orders[] = {
    {.from = WEIR_PACK__FIT_BACKWARD},
    {.from = WEIR_PACK__FIT_OUTWARD, .slant = WEIR_PACK__SLANT_LONG},
    {.from = WEIR_PACK__FIT_OUTWARD, .slant = WEIR_PACK__SLANT_ONE},
    {.from = WEIR_PACK__FIT_OUTWARD, .slant = 0},
    {.from = WEIR_PACK__FIT_OUTWARD, .slant = 0, .by_end = true},
    {.from = WEIR_PACK__FIT_OUTWARD, .slant = WEIR_PACK__SLANT_LONG, .by_end = true},
    {.from = WEIR_PACK__FIT_OUTWARD, .slant = WEIR_PACK__SLANT_ONE, .by_end = true},
    {.from = WEIR_PACK__FIT_FORWARD, .by_end = true},
    {.from = WEIR_PACK__FIT_BACKWARD, .by_end = true},
};

enum { PLAIN_FITS = 4, FITS = sizeof fit_orders / sizeof fit_orders[0] };

/* The fits [from, to), as long as another one like the last is within the limit. */
static weir_status fit_range(packing *p, unsigned from, unsigned to, uint64_t limit, weir_error *error) {
    for (unsigned i = from; i < to && !is_done(p) && p->steps + p->fit_cost <= limit; i++)
        WEIR__TRY(try_fit(p, fit_orders[i], error));
    return WEIR_OK;
}

static weir_status fit_plain(packing *p, uint64_t limit, weir_error *error) {
    return fit_range(p, 0, PLAIN_FITS, limit, error);
}

static weir_status fit_by_end(packing *p, uint64_t limit, weir_error *error) {
    return fit_range(p, PLAIN_FITS, FITS, limit, error);
}

static weir_status try_core(packing *p, const weir_pack__core_setting *setting, uint64_t *peak,
                            weir_error *error) {
    WEIR__TRY(weir_pack__fit_core(p->env, &p->sweep, setting, p->target, &p->corner, p->trial, peak,
                                  &p->steps, error));
    if (*peak != UINT64_MAX)
        keep_better_parts(p);
    return WEIR_OK;
}

/* Cores that grow until one cannot be laid out. */
static weir_status grow_cores(packing *p, uint64_t limit, weir_error *error) {
    limit = p->steps + CORE_STEPS < limit ? p->steps + CORE_STEPS : limit;
    weir_pack__core_setting setting = {.reach = CORE_MIN, .slant = WEIR_PACK__SLANT_ONE};
    for (; setting.reach <= CORE_MAX && setting.reach / 2 < p->sweep.count; setting.reach *= 2) {
        uint64_t peak = UINT64_MAX;
        setting.by_end = setting.reach % 64 == 0;
        for (setting.order = 0; setting.order < WEIR_PACK__ORDERS && peak == UINT64_MAX; setting.order++) {
            if (is_done(p) || p->steps >= limit)
                return WEIR_OK;
            WEIR__TRY(try_core(p, &setting, &peak, error));
        }
        if (peak == UINT64_MAX)
            break;
    }
    return WEIR_OK;
}

/* Which slants are tried one after another: a half, one and none, then ever finer between them. */
static uint32_t slant_of(unsigned number) {
    if (number < 3)
        return (uint32_t[]){WEIR_PACK__SLANT_ONE / 2, WEIR_PACK__SLANT_ONE, 0}[number];
    uint32_t slant = 0;
    for (unsigned bit = 0, rest = number - 1; rest > 0; bit++, rest >>= 1)
        slant |= (rest & 1) * (WEIR_PACK__SLANT_ONE >> (bit + 1));
    return slant;
}

/* Cores of all sizes, orders and slants. */
static weir_status vary_cores(packing *p, uint64_t limit, weir_error *error) {
    enum { SIZES = 6 };
    uint64_t cost = p->fit_cost;
    while (!is_done(p) && p->steps + cost <= limit) {
        unsigned number = p->cores++;
        weir_pack__core_setting setting = {.reach = (uint32_t)CORE_MIN << number % SIZES,
                                           .order =
                                               (weir_pack__corner_order)(number / SIZES % WEIR_PACK__ORDERS),
                                           .seed = number,
                                           .slant = slant_of(number / SIZES),
                                           .by_end = number % 2};
        uint64_t start = p->steps;
        uint64_t peak;
        WEIR__TRY(try_core(p, &setting, &peak, error));
        cost = p->steps - start;
    }
    return WEIR_OK;
}

static weir_status open_windows(packing *p, weir_error *error) {
    if (!p->windows)
        p->windows = weir_pack__windows_open(p->env, &p->sweep);
    return p->windows ? WEIR_OK
                      : weir__out_of_memory(error, WEIR_PACK__OPERATOR, p->sweep.count * sizeof *p->offsets);
}

/* First fit of all, largest first. */
static weir_status fit_sizes(packing *p, uint64_t limit, weir_error *error) {
    if (p->has_sizes)
        return WEIR_OK;
    WEIR__TRY(open_windows(p, error));
    p->has_sizes = weir_pack__windows_fit(p->windows, limit, p->trial, &p->steps);
    if (p->has_sizes)
        keep_better_parts(p);
    return WEIR_OK;
}

/* ---- Strategies: searches ---------------------------------------------------------------------- */

static weir_status search_windows(packing *p, uint64_t limit, weir_error *error) {
    WEIR__TRY(open_windows(p, error));
    const part_record *highest = highest_part(p);
    uint64_t floor = highest->proven > p->target ? highest->proven : p->target;
    uint64_t peak = highest->peak;
    memcpy(p->trial, p->offsets, p->sweep.count * sizeof *p->trial);
    weir_pack__windows_run(p->windows, floor, limit, p->trial, &peak, &p->steps);
    keep_better_parts(p);
    return WEIR_OK;
}

/* Opens the search over a part. It is kept until another part is the highest. */
static weir_status open_search(packing *p, const part_record *record, weir_error *error) {
    if (p->searched == record)
        return WEIR_OK;
    weir_pack__search_close(&p->search);
    p->searched = NULL;
    WEIR__TRY(weir_pack__search_open(p->env, &p->sweep.rows[record->row_from],
                                     record->row_to - record->row_from, p->options->threads, &p->search,
                                     error));
    p->search.target = p->target;
    p->search.is_of_large = p->is_large;
    if (!p->search.part.oversized)
        p->steps += p->search.part.members_at[p->search.part.section_count];
    p->searched = record;
    return WEIR_OK;
}

/* Corner searches over the highest part, and over the one that is the highest then. */
static weir_status search_corners(packing *p, uint64_t limit, weir_error *error) {
    for (bool better = true; better && !is_done(p) && p->steps < limit;) {
        part_record *record = highest_part(p);
        p->steps += p->part_count;
        WEIR__TRY(open_search(p, record, error));
        if (p->search.part.oversized)
            return WEIR_OK;
        p->search.peak = record->peak;
        p->search.steps = p->steps;
        WEIR__TRY(weir_pack__search_part(&p->search, limit, p->level >= HARD_LEVEL, error));
        p->steps = p->search.steps;
        record->proven = p->search.proven;
        better = p->search.peak < record->peak;
        if (better) {
            record->peak = p->search.peak;
            memcpy(p->offsets + record->row_from, p->search.offsets,
                   p->search.part.count * sizeof *p->offsets);
        }
    }
    return WEIR_OK;
}

/* ---- Strategies: fusion ------------------------------------------------------------------------ */

static weir_status open_packing(packing *p, const weir_buffer *buffers, size_t count, const uint32_t *rank,
                                weir_error *error);
static weir_status advance(packing *p, uint32_t level, uint64_t limit, weir_error *error);

/* Fuses all rows. There is no fused problem afterwards if that leaves more than seven eighths of them. */
static weir_status open_fusion(packing *p, weir_error *error) {
    uint32_t count = 0;
    weir_status status = WEIR_OK;
    p->fusion = weir_pack__fuse(p->env, &p->sweep, &count, &p->steps);
    if (!p->fusion)
        return weir__out_of_memory(error, WEIR_PACK__OPERATOR, p->sweep.count * sizeof *p->sweep.rows);
    p->has_fusion = true;
    if (count >= p->sweep.count - p->sweep.count / 8) {
        weir_pack__fusion_close(p->fusion);
        p->fusion = NULL;
        return WEIR_OK;
    }
    weir_buffer *buffers = weir__allocate(p->env, count, sizeof *buffers);
    p->fused = weir__allocate_zero(p->env, 1, sizeof *p->fused);
    if (p->fused)
        *p->fused = (packing){
            .env = p->env, .options = p->options, .level = 1, .is_fused = true, .is_large = p->is_large};
    if (!buffers || !p->fused) {
        status = weir__out_of_memory(error, WEIR_PACK__OPERATOR, count * sizeof *buffers);
    } else {
        weir_pack__fusion_buffers(p->fusion, buffers);
        status = open_packing(p->fused, buffers, count, NULL, error);
        assert((status || p->fused->sweep.lower_bound * p->fused->sweep.unit == p->sweep.lower_bound) &&
               "fusing changes no load");
    }
    weir__release(p->env, buffers);
    return status;
}

/* The same problem over fewer, larger rows. */
static weir_status search_fused(packing *p, uint64_t limit, weir_error *error) {
    uint64_t start = p->steps;
    if (!p->has_fusion)
        WEIR__TRY(open_fusion(p, error));
    limit += p->steps - start;
    packing *fused = p->fused;
    if (!fused)
        return WEIR_OK;
    uint64_t before = fused->has_layout ? highest_part(fused)->peak : UINT64_MAX;
    uint64_t target = p->target / fused->sweep.unit;
    fused->target = target > fused->sweep.lower_bound ? target : fused->sweep.lower_bound;
    fused->steps = p->steps;
    WEIR__TRY(advance(fused, p->level, limit, error));
    p->steps = fused->steps;
    p->is_better = highest_part(fused)->peak < before;
    for (uint32_t i = 0; i < fused->sweep.count; i++)
        fused->trial[fused->sweep.rows[i].origin] = fused->offsets[i] * fused->sweep.unit;
    weir_pack__fusion_expand(p->fusion, fused->trial, p->trial);
    keep_better_parts(p);
    return WEIR_OK;
}

/* ---- The strategies ---------------------------------------------------------------------------- */

static const strategy strategies[STRATEGIES] = {
    {"fits", 1, 1, 0, fit_plain},
    {"cores", 1, 1, 0, grow_cores},
    {"ends", 1, 1, 0, fit_by_end},
    {"fusion", 2, WEIR_PACK__EFFORT_MAX, 32, search_fused},
    {"corners", 2, WEIR_PACK__EFFORT_MAX, 32, search_corners},
    {"sizes", 2, WEIR_PACK__EFFORT_MAX, 0, fit_sizes},
    {"slants", 2, WEIR_PACK__EFFORT_MAX, 4, vary_cores},
    {"windows", 2, WEIR_PACK__EFFORT_MAX, 12, search_windows},
};

weir_status weir_pack__choose(const char *names, uint32_t *without, weir_error *error) {
    *without = names ? (1u << STRATEGIES) - 1 : 0;
    for (const char *at = names; at;) {
        size_t size = strcspn(at, ",");
        unsigned i = 0;
        while (i < STRATEGIES &&
               (strlen(strategies[i].name) != size || memcmp(at, strategies[i].name, size) != 0))
            i++;
        if (i == STRATEGIES) {
            char known[16 * STRATEGIES] = "";
            for (unsigned k = 0; k < STRATEGIES; k++) {
                strcat(known, k ? ", " : "");
                strcat(known, strategies[k].name);
            }
            return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PACK__OPERATOR,
                              "unknown packing strategy '%.*s'; choose among %s, separated by commas",
                              (int)(size < 40 ? size : 40), at, known);
        }
        *without &= ~(1u << i);
        at = at[size] ? at + size + 1 : NULL;
    }
    return WEIR_OK;
}

static bool takes_part(const packing *p, unsigned index) {
    return p->level >= strategies[index].from && p->level <= strategies[index].to &&
           !(p->options->without >> index & 1) && !(p->is_fused && strategies[index].run == search_fused);
}

/* Gives every strategy its share of the steps up to `limit`. One that made the layout better has twice the
 * share the next time, one that did not, half. */
static weir_status run_round(packing *p, uint64_t limit, weir_error *error) {
    weir_status status = WEIR_OK;
    for (unsigned i = 0; !status && i < STRATEGIES && !is_done(p) && p->steps < limit; i++) {
        if (!takes_part(p, i))
            continue;
        uint64_t sum = 0;
        for (unsigned k = i; k < STRATEGIES; k++)
            sum += takes_part(p, k) ? p->shares[k] : 0;
        uint64_t before = highest_part(p)->peak;
        unsigned __int128 left = limit - p->steps;
        uint64_t slice = p->shares[i] ? (uint64_t)(left * p->shares[i] / sum) : (uint64_t)left;
        p->is_better = false;
        status = strategies[i].run(p, p->steps + slice, error);
        weir_pack__corner_close(p->corner);
        p->corner = NULL;
        if (p->is_better || highest_part(p)->peak < before)
            p->shares[i] = p->shares[i] * 2 < SHARE_MAX ? p->shares[i] * 2 : SHARE_MAX;
        else if (p->shares[i] > 1)
            p->shares[i] /= 2;
    }
    return status;
}

/* Takes the packing up to a level, or on in the level that it has reached. A level of a large problem is run
 * in rounds, so that the steps go where they pay. */
static weir_status advance(packing *p, uint32_t level, uint64_t limit, weir_error *error) {
    if (!p->has_layout)
        WEIR__TRY(try_fit(p, (weir_pack__fit_order){.from = WEIR_PACK__FIT_FORWARD}, error));
    p->has_layout = true;
    do {
        p->level += p->level < level;
        unsigned rounds = p->sweep.count >= LARGE && p->level > 1 ? LARGE_ROUNDS : 1;
        for (; rounds > 0 && !is_done(p) && p->steps < limit; rounds--)
            WEIR__TRY(run_round(p, rounds == 1 ? limit : p->steps + (limit - p->steps) / 2, error));
    } while (p->level < level);
    return WEIR_OK;
}

/* ---- The result -------------------------------------------------------------------------------- */

/* The caller's own layout, where it is better than ours. */
static void prefer_initial(const packing *p, size_t count, const weir_buffer *buffers, uint64_t proven,
                           uint64_t *offsets, weir_pack__result *result) {
    const uint64_t *initial = p->options->initial;
    uint64_t peak = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t top;
        if (__builtin_add_overflow(initial[i], buffers[i].size, &top))
            return;
        if (buffers[i].size && top > peak)
            peak = top;
    }
    if (peak >= result->peak)
        return;
    memcpy(offsets, initial, count * sizeof *offsets);
    result->peak = peak;
    result->optimal = peak / p->sweep.unit <= proven;
}

static void finish(packing *p, size_t count, const weir_buffer *buffers, uint64_t *offsets,
                   weir_pack__result *result) {
    const weir_pack__options *options = p->options;
    uint64_t proven = p->sweep.lower_bound;
    for (uint32_t i = 0; i < p->part_count; i++)
        proven = p->parts[i].proven > proven ? p->parts[i].proven : proven;
    uint64_t peak = p->part_count ? highest_part(p)->peak : 0;
    assert(peak >= p->sweep.lower_bound && "no layout is below the bound");
    result->lower_bound = p->sweep.lower_bound * p->sweep.unit;
    result->peak = peak * p->sweep.unit;
    result->optimal = peak <= proven;
    result->infeasible_proven = options->capacity != UINT64_MAX && proven > options->capacity / p->sweep.unit;
    result->steps = p->steps;
    for (size_t i = 0; i < count; i++)
        offsets[i] = 0;
    for (uint32_t i = 0; i < p->sweep.count; i++)
        offsets[p->sweep.rows[i].origin] = p->offsets[i] * p->sweep.unit;
    if (options->initial)
        prefer_initial(p, count, buffers, proven, offsets, result);
}

static int compare_offsets(const void *a, const void *b) {
    const uint64_t *x = a;
    const uint64_t *y = b;
    return (*x > *y) - (*x < *y);
}

/* Equal buffers are interchangeable: offsets ascend with rank. */
static void order_equals(packing *p) {
    const weir_pack__row *rows = p->sweep.rows;
    for (uint32_t start = 0, end; start < p->sweep.count; start = end) {
        for (end = start + 1; end < p->sweep.count && rows[end].lower == rows[start].lower &&
                              rows[end].upper == rows[start].upper && rows[end].size == rows[start].size;)
            end++;
        if (end - start > 1)
            qsort(p->offsets + start, end - start, sizeof *p->offsets, compare_offsets);
    }
}

/* ---- The whole --------------------------------------------------------------------------------- */

static weir_status open_packing(packing *p, const weir_buffer *buffers, size_t count, const uint32_t *rank,
                                weir_error *error) {
    WEIR__TRY(weir_pack__sweep_open(p->env, buffers, count, rank, &p->sweep, error));
    p->is_large |= p->sweep.count >= LARGE;
    p->part_count = count_parts(&p->sweep, NULL);
    p->parts = weir__allocate(p->env, p->part_count, sizeof *p->parts);
    p->offsets = weir__allocate(p->env, p->sweep.count, sizeof *p->offsets);
    p->trial = weir__allocate(p->env, p->sweep.count, sizeof *p->trial);
    if (!p->parts || !p->offsets || !p->trial)
        return weir__out_of_memory(error, WEIR_PACK__OPERATOR, p->sweep.count * sizeof *p->offsets);
    count_parts(&p->sweep, p->parts);
    for (unsigned i = 0; i < STRATEGIES; i++)
        p->shares[i] = strategies[i].share;
    uint64_t capacity = p->options->capacity / p->sweep.unit;
    bool has_room = p->options->capacity != UINT64_MAX && capacity > p->sweep.lower_bound;
    p->target = has_room ? capacity : p->sweep.lower_bound;
    return WEIR_OK;
}

static void close_packing(packing *p) {
    if (p->fused)
        close_packing(p->fused);
    weir__release(p->env, p->fused);
    weir_pack__fusion_close(p->fusion);
    weir_pack__windows_close(p->windows);
    weir_pack__search_close(&p->search);
    weir__release(p->env, p->parts);
    weir__release(p->env, p->offsets);
    weir__release(p->env, p->trial);
    weir_pack__sweep_close(p->env, &p->sweep);
}

static weir_status check_request(const weir_buffer *buffers, size_t count, const weir_pack__options *options,
                                 weir_error *error) {
    if (options->effort > WEIR_PACK__EFFORT_MAX)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PACK__OPERATOR, "effort %u is not in 0..%d",
                          options->effort, WEIR_PACK__EFFORT_MAX);
    if (count >= WEIR_PACK__NO_INDEX / 4)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PACK__OPERATOR,
                          "%zu buffers are too many to pack", count);
    for (size_t i = 0; options->alignment > 1 && i < count; i++)
        if (buffers[i].size % options->alignment)
            return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PACK__OPERATOR,
                              "the size of buffer %zu is not a multiple of the alignment", i);
    return WEIR_OK;
}

weir_status weir_pack__pack(const weir_env *env, const weir_buffer *buffers, size_t count,
                            const weir_pack__options *options, uint64_t *offsets, weir_pack__result *result,
                            weir_error *error) {
    WEIR__TRY(check_request(buffers, count, options, error));
    packing p = {.env = weir__env_or_default(env), .options = options};
    weir_status status = open_packing(&p, buffers, count, options->rank, error);
    for (uint32_t level = 0; !status && p.sweep.count > 0 && level <= options->effort; level++)
        status = advance(&p, level, weir_pack__budget(level, p.sweep.count), error);
    if (!status) {
        order_equals(&p);
        finish(&p, count, buffers, offsets, result);
    }
    close_packing(&p);
    return status;
}
