/* Critical buffers first.
 *
 * Where the load is near its maximum in few sections only, the buffers that live there decide the peak.
 * They are searched alone, as a part of their own, and the others, which live where there is room, are then
 * fitted between them, each into the smallest gap that holds it below the peak so far, else on the lowest
 * place. */
#include "plan/pack_internal.h"

#include <string.h>

typedef enum insert_order { INSERT_BY_DURATION, INSERT_BY_AREA, INSERT_ORDERS } insert_order;

typedef struct span {
    uint64_t from, to; /* also: a sort key and a buffer */
} span;

typedef struct layers {
    weir__part_search *search;
    uint64_t *offsets; /* UINT64_MAX: not placed */
    uint64_t *critical_offsets;
    span *spans;
    span *queue;
    uint32_t queue_count;
} layers;

static bool span_before(const span *a, const span *b) {
    return a->from != b->from ? a->from < b->from : a->to < b->to;
}

static void sift_down(span *heap, size_t count, size_t at) {
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && span_before(&heap[child], &heap[child + 1]))
            child++;
        if (!span_before(&heap[at], &heap[child]))
            return;
        span swap = heap[at];
        heap[at] = heap[child];
        heap[child] = swap;
    }
}

static void sort_spans(span *spans, size_t count) {
    for (size_t at = count / 2; at-- > 0;)
        sift_down(spans, count, at);
    for (size_t end = count; end-- > 1;) {
        span swap = spans[0];
        spans[0] = spans[end];
        spans[end] = swap;
        sift_down(spans, end, 0);
    }
}

static uint64_t insert_key(const weir__part *part, uint32_t buffer, insert_order order) {
    uint64_t duration = part->last[buffer] - part->first[buffer];
    if (order == INSERT_BY_DURATION)
        return duration;
    unsigned __int128 area = (unsigned __int128)part->size[buffer] * duration;
    return area > UINT64_MAX ? UINT64_MAX : (uint64_t)area;
}

/* The placed buffers that live with `buffer`, by offset. */
static uint32_t list_neighbours(layers *l, uint32_t buffer) {
    const weir__part *part = l->search->part;
    uint32_t first = part->first[buffer];
    uint32_t count = 0;
    for (uint32_t k = part->members_at[first]; k < part->members_at[first + 1]; k++) {
        uint32_t other = part->members[k];
        if (l->offsets[other] != UINT64_MAX)
            l->spans[count++] = (span){l->offsets[other], l->offsets[other] + part->size[other]};
    }
    uint32_t end = part->born_at[part->last[buffer]];
    for (uint32_t other = part->born_at[first + 1]; other < end; other++)
        if (l->offsets[other] != UINT64_MAX)
            l->spans[count++] = (span){l->offsets[other], l->offsets[other] + part->size[other]};
    l->search->steps += end - part->born_at[first + 1] + 8 * (uint64_t)count;
    sort_spans(l->spans, count);
    return count;
}

static uint64_t insert_buffer(layers *l, uint32_t buffer, uint64_t peak) {
    uint64_t size = l->search->part->size[buffer];
    uint32_t count = list_neighbours(l, buffer);
    uint64_t top = 0;
    uint64_t best = UINT64_MAX;
    uint64_t best_gap = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        if (l->spans[i].from > top && l->spans[i].from - top >= size && l->spans[i].from - top < best_gap) {
            best = top;
            best_gap = l->spans[i].from - top;
        }
        top = l->spans[i].to > top ? l->spans[i].to : top;
    }
    if (best == UINT64_MAX || (peak > top && peak - top >= size && peak - top < best_gap))
        best = top;
    l->offsets[buffer] = best;
    return best + size > peak ? best + size : peak;
}

static uint32_t mark_critical(const weir__part *part, uint64_t load, weir__item *items) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < part->count; i++) {
        bool critical = false;
        for (uint32_t s = part->first[i]; s < part->last[i] && !critical; s++)
            critical = part->load[s] >= load;
        if (critical)
            items[count++] = (weir__item){
                .lower = part->first[i], .upper = part->last[i], .size = part->size[i], .origin = i};
    }
    return count;
}

static uint64_t insert_others(layers *l, const weir__part *critical, uint64_t peak, insert_order order) {
    const weir__part *part = l->search->part;
    memset(l->offsets, 0xff, part->count * sizeof *l->offsets);
    for (uint32_t i = 0; i < critical->count; i++)
        l->offsets[critical->origin[i]] = l->critical_offsets[i];
    l->queue_count = 0;
    for (uint32_t i = 0; i < part->count; i++)
        if (l->offsets[i] == UINT64_MAX)
            l->queue[l->queue_count++] = (span){~insert_key(part, i, order), i};
    sort_spans(l->queue, l->queue_count);
    for (uint32_t i = 0; i < l->queue_count && peak < l->search->peak; i++)
        peak = insert_buffer(l, (uint32_t)l->queue[i].to, peak);
    return peak;
}

/* Searches the critical buffers down to `target`, then fits in the others. */
static weir_status search_critical(layers *l, const weir__part *critical, uint64_t target, uint64_t budget,
                                   weir_error *error) {
    weir__part_search *search = l->search;
    weir__part_search inner = *search;
    inner.part = critical;
    inner.offsets = l->critical_offsets;
    inner.proven = critical->lower_bound;
    inner.target = target;
    inner.budget = budget;
    weir_status status = weir__search_part(&inner, false, error);
    search->steps = inner.steps;
    search->number = inner.number;
    if (inner.proven > search->proven) /* a subset's bound holds for the whole */
        search->proven = inner.proven;
    for (insert_order order = 0; !status && inner.peak < search->peak && order < INSERT_ORDERS; order++) {
        uint64_t peak = insert_others(l, critical, inner.peak, order);
        if (peak < search->peak) {
            search->peak = peak;
            memcpy(search->offsets, l->offsets, search->part->count * sizeof *l->offsets);
        }
    }
    return status;
}

static weir_status search_layer(layers *l, weir__item *items, unsigned percent, uint64_t target,
                                uint64_t budget, weir_error *error) {
    const weir__part *part = l->search->part;
    uint32_t count = mark_critical(part, part->lower_bound / 100 * percent, items);
    if (count > part->count / 4 * 3)
        return WEIR_OK;
    weir__part critical;
    weir_status status = weir__part_open(l->search->env, items, count, &critical, error);
    if (!status && !critical.oversized)
        status = search_critical(l, &critical, target, budget, error);
    weir__part_close(l->search->env, &critical);
    return status;
}

static uint64_t floor_of(const weir__part_search *search) {
    return search->proven > search->target ? search->proven : search->target;
}

/* Rounds over thresholds; each aims a fraction of the gap below the best so far. */
static weir_status search_rounds(layers *l, weir__item *items, weir_error *error) {
    static const unsigned percents[] = {90, 80, 95, 85, 70};
    enum { PERCENTS = sizeof percents / sizeof *percents };
    weir__part_search *search = l->search;
    weir_status status = WEIR_OK;
    uint64_t slice = (search->budget - search->steps) / 16;
    uint64_t idle_from = search->steps;
    for (unsigned i = 0; !status && search->peak > floor_of(search) && search->steps < search->budget; i++) {
        uint64_t gap = search->peak - floor_of(search);
        uint64_t target = search->peak - 1 - (gap - 1) / (2u << i % 3);
        uint64_t budget = search->steps + slice < search->budget ? search->steps + slice : search->budget;
        status = search_layer(l, items, percents[i % PERCENTS], target, budget, error);
        if (i % PERCENTS == PERCENTS - 1) {
            if (search->steps == idle_from)
                break;
            idle_from = search->steps;
        }
    }
    return status;
}

weir_status weir__search_layers(weir__part_search *search, weir_error *error) {
    const weir_env *env = search->env;
    size_t count = search->part->count;
    layers l = {.search = search};
    weir__item *items = weir__allocate(env, count, sizeof *items);
    l.offsets = weir__allocate(env, count, sizeof *l.offsets);
    l.critical_offsets = weir__allocate(env, count, sizeof *l.critical_offsets);
    l.spans = weir__allocate(env, count, sizeof *l.spans);
    l.queue = weir__allocate(env, count, sizeof *l.queue);
    weir_status status = WEIR_OK;
    if (!items || !l.offsets || !l.critical_offsets || !l.spans || !l.queue)
        status = weir__out_of_memory(error, WEIR__PACK_OPERATOR, count * sizeof *items);
    else if (search->steps < search->budget)
        status = search_rounds(&l, items, error);
    weir__release(env, items);
    weir__release(env, l.offsets);
    weir__release(env, l.critical_offsets);
    weir__release(env, l.spans);
    weir__release(env, l.queue);
    return status;
}
