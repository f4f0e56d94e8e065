/* The order in which the packer tries things, and the way from the caller's buffers to units and back.
 *
 * Sweep and bound; time-order fits until one meets the bound; then the parts that fall apart in time, each
 * with the best of the fits. The part with the highest peak decides the result, so it alone is searched,
 * and the next highest after it, until the highest is proven or the effort is spent. */
#include "plan/pack_fuse.h"

#include <string.h>

enum { FUSE_STEPS_PER_BUFFER = 300, CORE_STEPS = 1000000 };

typedef struct part_record {
    uint32_t row_from, row_to;
    uint64_t peak; /* once has_layout */
    uint64_t proven;
    bool has_layout;
} part_record;

typedef struct packing {
    const weir_env *env;
    const weir__pack_options *options;
    weir__sweep sweep;
    uint64_t *offsets; /* by row, the best so far; each part on its own */
    uint64_t *trial;   /* by row */
    part_record *parts;
    uint32_t part_count;
    uint64_t target; /* nothing is gained below */
    uint64_t steps;
    uint64_t budget;
} packing;

/* Steps by effort; about 3 ns each. */
static const uint64_t effort_steps[WEIR__PACK_EFFORT_MAX + 1] = {
    0, 0, 6000000, 20000000, 80000000, 250000000, 450000000, 800000000, 1400000000, 2500000000,
};

static uint32_t count_parts(const weir__sweep *sweep, part_record *parts) {
    uint32_t count = 0;
    uint64_t end = 0;
    for (uint32_t i = 0; i < sweep->count; i++) {
        const weir__row *row = &sweep->rows[i];
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

static uint64_t peak_of_rows(const packing *p, const part_record *part, const uint64_t *offsets) {
    uint64_t peak = 0;
    for (uint32_t i = part->row_from; i < part->row_to; i++)
        if (offsets[i] + p->sweep.rows[i].size > peak)
            peak = offsets[i] + p->sweep.rows[i].size;
    return peak;
}

static uint64_t highest_peak(const packing *p) {
    uint64_t peak = 0;
    for (uint32_t i = 0; i < p->part_count; i++)
        peak = p->parts[i].peak > peak ? p->parts[i].peak : peak;
    return peak;
}

static bool is_enough(const packing *p) {
    return highest_peak(p) <= p->target;
}

/* Takes over, part by part, what is better in the layout `trial`. */
static void keep_better_parts(packing *p) {
    for (uint32_t i = 0; i < p->part_count; i++) {
        part_record *part = &p->parts[i];
        uint64_t peak = peak_of_rows(p, part, p->trial);
        if (part->has_layout && peak >= part->peak)
            continue;
        part->has_layout = true;
        part->peak = peak;
        memcpy(p->offsets + part->row_from, p->trial + part->row_from,
               (part->row_to - part->row_from) * sizeof *p->offsets);
    }
}

static weir_status try_fit(packing *p, weir__fit_kind kind, bool by_end, weir_error *error) {
    uint64_t peak;
    weir_status status = weir__fit(p->env, &p->sweep, kind, by_end, p->trial, &peak, &p->steps, error);
    if (!status)
        keep_better_parts(p);
    return status;
}

static weir_status try_cores(packing *p, weir_error *error) {
    uint64_t *scratch = weir__allocate(p->env, p->sweep.count, sizeof *scratch);
    if (!scratch)
        return weir__out_of_memory(error, WEIR__PACK_OPERATOR, p->sweep.count * sizeof *scratch);
    uint64_t peak;
    weir_status status = weir__fit_cores(p->env, &p->sweep, p->target, p->steps + CORE_STEPS + p->budget / 16,
                                         p->trial, scratch, &peak, &p->steps, error);
    if (!status && peak != UINT64_MAX)
        keep_better_parts(p);
    weir__release(p->env, scratch);
    return status;
}

static weir_status try_fits(packing *p, weir_error *error) {
    weir_status status = try_fit(p, WEIR__FIT_FORWARD, false, error);
    if (p->options->effort == 0)
        return status;
    for (weir__fit_kind kind = WEIR__FIT_BACKWARD; !status && kind < WEIR__FIT_KINDS && !is_enough(p); kind++)
        status = try_fit(p, kind, false, error);
    if (!status && !is_enough(p))
        status = try_cores(p, error);
    for (weir__fit_kind kind = WEIR__FIT_FORWARD; !status && kind < WEIR__FIT_KINDS && !is_enough(p); kind++)
        status = try_fit(p, kind, true, error);
    return status;
}

static part_record *highest_part(packing *p) {
    part_record *highest = &p->parts[0];
    for (uint32_t i = 1; i < p->part_count; i++)
        if (p->parts[i].peak > highest->peak)
            highest = &p->parts[i];
    return highest;
}

static weir_status open_part(packing *p, const part_record *record, weir__part *part, weir_error *error) {
    uint32_t count = record->row_to - record->row_from;
    weir__item *items = weir__allocate(p->env, count, sizeof *items);
    if (!items)
        return weir__out_of_memory(error, WEIR__PACK_OPERATOR, count * sizeof *items);
    for (uint32_t i = 0; i < count; i++) {
        const weir__row *row = &p->sweep.rows[record->row_from + i];
        items[i] = (weir__item){.lower = row->lower, .upper = row->upper, .size = row->size, .origin = i};
    }
    weir_status status = weir__part_open(p->env, items, count, part, error);
    weir__release(p->env, items);
    return status;
}

static weir__part_search make_search(const packing *p, const weir__part *part, const part_record *record,
                                     uint64_t *offsets, uint64_t budget) {
    return (weir__part_search){
        .env = p->env,
        .part = part,
        .offsets = offsets,
        .peak = record->peak,
        .proven = part->lower_bound > record->proven ? part->lower_bound : record->proven,
        .target = p->target,
        .effort = p->options->effort,
        .threads = p->options->threads,
        .steps = p->steps,
        .budget = budget,
    };
}

static weir_status search_fusion(packing *p, weir__fusion *fusion, part_record *record, uint64_t budget,
                                 weir_error *error) {
    weir__part fused;
    weir_status status = weir__fusion_part(p->env, fusion, &fused, error);
    if (status)
        return status;
    uint64_t *offsets = weir__allocate(p->env, fused.count, sizeof *offsets);
    if (!offsets) {
        status = weir__out_of_memory(error, WEIR__PACK_OPERATOR, fused.count * sizeof *offsets);
    } else if (!fused.oversized) {
        weir__part_search search = make_search(p, &fused, record, offsets, budget);
        status = weir__search_part(&search, false, error);
        p->steps = search.steps;
        if (!status && search.peak < record->peak) {
            record->peak = search.peak;
            weir__fusion_expand(fusion, &fused, offsets, p->offsets + record->row_from);
        }
    }
    weir__release(p->env, offsets);
    weir__part_close(p->env, &fused);
    return status;
}

/* Searches the part with what fits together fused, where that leaves clearly fewer rectangles. */
static weir_status search_fused(packing *p, const weir__part *part, part_record *record, weir__fuse_mode mode,
                                uint64_t budget, weir_error *error) {
    weir__fusion fusion;
    weir_status status = weir__fuse(p->env, part, mode, &fusion, error);
    if (status)
        return status;
    if (fusion.live_count < part->count - part->count / 8)
        status = search_fusion(p, &fusion, record, budget, error);
    weir__fusion_close(p->env, &fusion);
    return status;
}

/* A share of what is left of the effort, as a limit on steps. */
static uint64_t share_of_budget(const packing *p, uint64_t steps, unsigned parts) {
    return steps + (p->budget > steps ? (p->budget - steps) / parts : 0);
}

static void keep_search(packing *p, part_record *record, const weir__part_search *search) {
    p->steps = search->steps;
    record->peak = search->peak;
    record->proven = search->proven;
}

static weir_status search_raw(packing *p, const weir__part *part, part_record *record, weir_error *error) {
    weir__part_search search = make_search(p, part, record, p->offsets + record->row_from, p->budget);
    search.budget = share_of_budget(p, search.steps, 3);
    weir_status status = weir__search_layers(&search, error);
    search.budget = share_of_budget(p, search.steps, 3);
    if (!status)
        status = weir__search_repair(&search, error);
    search.budget = p->budget;
    if (!status)
        status = weir__search_part(&search, false, error);
    keep_search(p, record, &search);
    return status;
}

static weir_status search_open_part(packing *p, const weir__part *part, part_record *record,
                                    weir_error *error) {
    uint64_t floor = part->lower_bound > p->target ? part->lower_bound : p->target;
    weir__part_search dives = make_search(p, part, record, p->offsets + record->row_from, p->budget);
    weir_status status = weir__search_part(&dives, true, error);
    keep_search(p, record, &dives);
    for (weir__fuse_mode mode = 0; !status && mode < WEIR__FUSE_MODES && record->peak > floor; mode++) {
        if (p->steps + FUSE_STEPS_PER_BUFFER * (uint64_t)part->count > p->budget)
            break;
        p->steps += FUSE_STEPS_PER_BUFFER * (uint64_t)part->count;
        status = search_fused(p, part, record, mode, share_of_budget(p, p->steps, 10), error);
    }
    return status ? status : search_raw(p, part, record, error);
}

/* Whether the part got better; if it did not, neither can the whole. */
static weir_status search_record(packing *p, part_record *record, bool *better, weir_error *error) {
    weir__part part;
    weir_status status = open_part(p, record, &part, error);
    if (status)
        return status;
    uint64_t before = record->peak;
    if (!part.oversized)
        status = search_open_part(p, &part, record, error);
    *better = record->peak < before;
    weir__part_close(p->env, &part);
    return status;
}

static weir_status search_parts(packing *p, weir_error *error) {
    weir_status status = WEIR_OK;
    bool better = true;
    while (!status && better && p->steps < p->budget) {
        part_record *record = highest_part(p);
        p->steps += p->part_count;
        if (record->peak <= p->target || record->peak <= record->proven)
            break;
        status = search_record(p, record, &better, error);
    }
    return status;
}

/* The caller's own layout, where it is better than ours. */
static void prefer_initial(const packing *p, size_t count, const weir_buffer *buffers, uint64_t proven,
                           uint64_t *offsets, weir__pack_result *result) {
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

static void finish(const packing *p, size_t count, const weir_buffer *buffers, uint64_t *offsets,
                   weir__pack_result *result) {
    const weir__pack_options *options = p->options;
    uint64_t proven = p->sweep.lower_bound;
    for (uint32_t i = 0; i < p->part_count; i++)
        proven = p->parts[i].proven > proven ? p->parts[i].proven : proven;
    uint64_t peak = highest_peak(p);
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

static void sift_down(uint64_t *heap, size_t count, size_t at) {
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && heap[child] < heap[child + 1])
            child++;
        if (heap[at] >= heap[child])
            return;
        uint64_t swap = heap[at];
        heap[at] = heap[child];
        heap[child] = swap;
    }
}

static void sort_offsets(uint64_t *offsets, size_t count) {
    for (size_t at = count / 2; at-- > 0;)
        sift_down(offsets, count, at);
    for (size_t end = count; end-- > 1;) {
        uint64_t swap = offsets[0];
        offsets[0] = offsets[end];
        offsets[end] = swap;
        sift_down(offsets, end, 0);
    }
}

/* Equal buffers are interchangeable: offsets ascend with rank. */
static void order_equals(packing *p) {
    const weir__row *rows = p->sweep.rows;
    for (uint32_t start = 0, end; start < p->sweep.count; start = end) {
        for (end = start + 1; end < p->sweep.count && rows[end].lower == rows[start].lower &&
                              rows[end].upper == rows[start].upper && rows[end].size == rows[start].size;)
            end++;
        if (end - start > 1)
            sort_offsets(p->offsets + start, end - start);
    }
}

static weir_status pack_rows(packing *p, weir_error *error) {
    p->part_count = count_parts(&p->sweep, NULL);
    p->parts = weir__allocate(p->env, p->part_count, sizeof *p->parts);
    p->offsets = weir__allocate(p->env, p->sweep.count, sizeof *p->offsets);
    p->trial = weir__allocate(p->env, p->sweep.count, sizeof *p->trial);
    if (!p->parts || !p->offsets || !p->trial)
        return weir__out_of_memory(error, WEIR__PACK_OPERATOR, p->sweep.count * sizeof *p->offsets);
    count_parts(&p->sweep, p->parts);
    uint64_t capacity = p->options->capacity / p->sweep.unit;
    bool has_room = p->options->capacity != UINT64_MAX && capacity > p->sweep.lower_bound;
    p->target = has_room ? capacity : p->sweep.lower_bound;
    p->budget = effort_steps[p->options->effort];
    if (p->sweep.count == 0)
        return WEIR_OK;
    weir_status status = try_fits(p, error);
    return status ? status : search_parts(p, error);
}

weir_status weir__pack(const weir_env *env, const weir_buffer *buffers, size_t count,
                       const weir__pack_options *options, uint64_t *offsets, weir__pack_result *result,
                       weir_error *error) {
    env = weir__env(env);
    if (options->effort > WEIR__PACK_EFFORT_MAX)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR__PACK_OPERATOR, "effort %u is not in 0..%d",
                          options->effort, WEIR__PACK_EFFORT_MAX);
    if (count >= WEIR__NO_INDEX / 2)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR__PACK_OPERATOR,
                          "%zu buffers are too many to pack", count);
    for (size_t i = 0; options->alignment > 1 && i < count; i++)
        if (buffers[i].size % options->alignment)
            return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR__PACK_OPERATOR,
                              "the size of buffer %zu is no multiple of the alignment", i);
    packing p = {.env = env, .options = options};
    weir_status status = weir__sweep_open(env, buffers, count, options->rank, &p.sweep, error);
    if (!status)
        status = pack_rows(&p, error);
    if (!status) {
        order_equals(&p);
        finish(&p, count, buffers, offsets, result);
    }
    weir__release(env, p.parts);
    weir__release(env, p.offsets);
    weir__release(env, p.trial);
    weir__sweep_close(env, &p.sweep);
    return status;
}
