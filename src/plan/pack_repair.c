/* Repair: take out what stands too high and some of its neighbours, put them back otherwise.
 *
 * For large parts, where a search from the ground costs too much to repeat often. The goal is a capacity a
 * little below the peak. One move takes a buffer that passes it, and some buffers that live with it, out of
 * the layout, and puts them back, one after another in an order that changes from move to move, each into
 * the smallest gap below the goal that holds it, else as low as it can lie. A move that leaves no more
 * above the goal than before is kept. When nothing passes the goal any more, the goal is lowered. All
 * choices come from a counter, so the result is the same everywhere. */
#include "plan/pack_internal.h"

#include <string.h>

enum { TAKEN_MAX = 48, FUTILE_MOVES_MAX = 2000 };

typedef struct gap_edge {
    uint64_t from, to;
} gap_edge;

typedef struct repair {
    weir__part_search *search;
    uint64_t *offsets; /* UINT64_MAX while taken out */
    gap_edge *edges;
    uint32_t *high; /* buffers that pass the goal */
    uint32_t high_count;
    uint64_t goal;
    uint64_t random;
    uint32_t taken[TAKEN_MAX];
    uint64_t old[TAKEN_MAX];
    uint32_t taken_count;
} repair;

static uint32_t draw(repair *r, uint32_t count) {
    r->random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = (r->random ^ r->random >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(((x >> 32) * count) >> 32);
}

static void sort_edges(gap_edge *edges, uint32_t count) {
    for (uint32_t width = 1; width < count; width = 3 * width + 1)
        if (width > count / 9 || width >= 1 << 20) {
            for (uint32_t gap = width; gap > 0; gap /= 3)
                for (uint32_t i = gap; i < count; i++) {
                    gap_edge edge = edges[i];
                    uint32_t at = i;
                    for (; at >= gap && edges[at - gap].from > edge.from; at -= gap)
                        edges[at] = edges[at - gap];
                    edges[at] = edge;
                }
            return;
        }
}

/* The buffers in place that live with `buffer`, by offset. */
static uint32_t list_edges(repair *r, uint32_t buffer) {
    const weir__part *part = r->search->part;
    uint32_t first = part->first[buffer];
    uint32_t end = part->born_at[part->last[buffer]];
    uint32_t count = 0;
    for (uint32_t k = part->members_at[first]; k < part->members_at[first + 1]; k++) {
        uint32_t other = part->members[k];
        if (r->offsets[other] != UINT64_MAX)
            r->edges[count++] = (gap_edge){r->offsets[other], r->offsets[other] + part->size[other]};
    }
    for (uint32_t other = part->born_at[first + 1]; other < end; other++)
        if (r->offsets[other] != UINT64_MAX)
            r->edges[count++] = (gap_edge){r->offsets[other], r->offsets[other] + part->size[other]};
    sort_edges(r->edges, count);
    r->search->steps += 8 + 12 * (uint64_t)count;
    return count;
}

static void put_back(repair *r, uint32_t buffer, bool lowest) {
    uint64_t size = r->search->part->size[buffer];
    uint32_t count = list_edges(r, buffer);
    uint64_t top = 0;
    uint64_t best = UINT64_MAX;
    uint64_t best_gap = UINT64_MAX;
    for (uint32_t i = 0; i < count && !(lowest && best != UINT64_MAX); i++) {
        uint64_t gap = r->edges[i].from > top ? r->edges[i].from - top : 0;
        if (gap >= size && gap < best_gap) {
            best = top;
            best_gap = gap;
        }
        top = r->edges[i].to > top ? r->edges[i].to : top;
    }
    if (best == UINT64_MAX || (!lowest && r->goal > top && r->goal - top >= size && r->goal - top < best_gap))
        best = top;
    r->offsets[buffer] = best;
}

static uint64_t excess_of(const repair *r, uint32_t buffer) {
    uint64_t top = r->offsets[buffer] + r->search->part->size[buffer];
    return top > r->goal ? top - r->goal : 0;
}

static void take(repair *r, uint32_t buffer) {
    if (r->taken_count == TAKEN_MAX || r->offsets[buffer] == UINT64_MAX)
        return;
    r->taken[r->taken_count] = buffer;
    r->old[r->taken_count++] = r->offsets[buffer];
    r->offsets[buffer] = UINT64_MAX;
}

/* A high buffer, and others that live in one of its sections or are born during its life. */
static void take_some(repair *r) {
    const weir__part *part = r->search->part;
    uint32_t buffer = r->high[draw(r, r->high_count)];
    r->taken_count = 0;
    take(r, buffer);
    uint32_t wanted = 4 + draw(r, TAKEN_MAX - 8);
    uint32_t length = part->last[buffer] - part->first[buffer];
    for (uint32_t i = 0; i < 2 * wanted && r->taken_count < wanted; i++) {
        uint32_t section = part->first[buffer] + draw(r, length);
        uint32_t from = part->members_at[section];
        take(r, part->members[from + draw(r, part->members_at[section + 1] - from)]);
    }
}

static uint64_t order_key(const weir__part *part, uint32_t buffer, uint32_t order) {
    uint64_t duration = part->last[buffer] - part->first[buffer];
    if (order == 0)
        return part->size[buffer];
    if (order == 1)
        return duration;
    return (uint64_t)((unsigned __int128)part->size[buffer] * duration >> 32);
}

static void order_taken(repair *r, uint32_t order) {
    const weir__part *part = r->search->part;
    for (uint32_t i = 1; i < r->taken_count; i++) {
        uint32_t buffer = r->taken[i];
        uint64_t old = r->old[i];
        uint64_t key = order_key(part, buffer, order);
        uint32_t at = i;
        for (; at > 0 && order_key(part, r->taken[at - 1], order) < key; at--) {
            r->taken[at] = r->taken[at - 1];
            r->old[at] = r->old[at - 1];
        }
        r->taken[at] = buffer;
        r->old[at] = old;
    }
}

/* True where less, or fewer, stand above the goal than before. */
static bool move(repair *r) {
    take_some(r);
    order_taken(r, draw(r, 3));
    if (draw(r, 4) == 0 && r->taken_count > 2) {
        uint32_t a = draw(r, r->taken_count), b = draw(r, r->taken_count);
        uint32_t swap = r->taken[a];
        uint64_t swap_old = r->old[a];
        r->taken[a] = r->taken[b];
        r->old[a] = r->old[b];
        r->taken[b] = swap;
        r->old[b] = swap_old;
    }
    bool lowest = draw(r, 2);
    unsigned __int128 before = 0, after = 0;
    for (uint32_t i = 0; i < r->taken_count; i++) {
        uint64_t top = r->old[i] + r->search->part->size[r->taken[i]];
        before += top > r->goal ? top - r->goal : 0;
    }
    for (uint32_t i = 0; i < r->taken_count; i++) {
        put_back(r, r->taken[i], lowest);
        after += excess_of(r, r->taken[i]);
    }
    if (after <= before)
        return after < before;
    for (uint32_t i = 0; i < r->taken_count; i++)
        r->offsets[r->taken[i]] = r->old[i];
    return false;
}

static void find_high(repair *r) {
    r->high_count = 0;
    for (uint32_t i = 0; i < r->search->part->count; i++)
        if (excess_of(r, i))
            r->high[r->high_count++] = i;
    r->search->steps += r->search->part->count / 4;
}

static uint64_t peak_of(const repair *r) {
    uint64_t peak = 0;
    for (uint32_t i = 0; i < r->search->part->count; i++) {
        uint64_t top = r->offsets[i] + r->search->part->size[i];
        peak = top > peak ? top : peak;
    }
    return peak;
}

static void run_moves(repair *r) {
    weir__part_search *search = r->search;
    uint64_t low = search->target > search->proven ? search->target : search->proven;
    uint32_t futile = 0;
    memcpy(r->offsets, search->offsets, search->part->count * sizeof *r->offsets);
    while (search->peak > low && search->steps < search->budget && futile < FUTILE_MOVES_MAX) {
        r->goal = search->peak - 1 - (search->peak - low - 1) / 32;
        for (find_high(r); r->high_count && search->steps < search->budget && futile < FUTILE_MOVES_MAX;
             find_high(r)) {
            futile++;
            for (uint32_t i = 0; i < 16; i++)
                if (move(r)) {
                    futile = 0;
                    break;
                }
        }
        uint64_t peak = peak_of(r);
        if (peak >= search->peak)
            break;
        search->peak = peak;
        memcpy(search->offsets, r->offsets, search->part->count * sizeof *r->offsets);
    }
}

weir_status weir__search_repair(weir__part_search *search, weir_error *error) {
    const weir_env *env = search->env;
    size_t count = search->part->count;
    repair *r = weir__allocate_zero(env, 1, sizeof *r);
    weir_status status = WEIR_OK;
    if (!r)
        return weir__out_of_memory(error, WEIR__PACK_OPERATOR, sizeof *r);
    r->search = search;
    r->offsets = weir__allocate(env, count, sizeof *r->offsets);
    r->edges = weir__allocate(env, count, sizeof *r->edges);
    r->high = weir__allocate(env, count, sizeof *r->high);
    if (!r->offsets || !r->edges || !r->high)
        status = weir__out_of_memory(error, WEIR__PACK_OPERATOR, count * sizeof *r->edges);
    else
        run_moves(r);
    weir__release(env, r->offsets);
    weir__release(env, r->edges);
    weir__release(env, r->high);
    weir__release(env, r);
    return status;
}
