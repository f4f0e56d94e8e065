/* Transfers beside the computation (docs/spec/03k-overlap.md): how long a schedule waits for its transfers,
 * and how they are issued before the place at which they have to be complete. Two links, one per direction,
 * move tensors one after the other while base steps and runs go on. */
#include <string.h>

#include "plan/steps.h"

typedef unsigned __int128 wide;

/* ---- Time --------------------------------------------------------------------------------------- */

bool weir_plan__schedule_waits(const weir_plan__steps *steps, const weir_plan__schedule *schedule,
                               uint64_t *waited) {
    wide now = 0;
    wide sum = 0;
    wide idle_from[2] = {0, 0}; /* of each link */
    wide *complete = weir__allocate_zero(steps->env, (size_t)steps->tensor_count + 1, sizeof *complete);
    if (!complete)
        return false;
    for (size_t i = 0; i < schedule->count; i++) {
        uint32_t node = schedule->items[i].node;
        if (!weir_plan__is_transfer(steps, schedule->items[i])) {
            now += weir_plan__duration(steps, schedule->items[i]);
            continue;
        }
        uint32_t tensor = weir_plan__moved_by(steps, node);
        unsigned kind = weir_plan__transfer_of(steps, node);
        if (kind == WEIR_PLAN__WAIT) {
            sum += complete[tensor] > now ? complete[tensor] - now : 0;
            now = complete[tensor] > now ? complete[tensor] : now;
            continue;
        }
        wide start = idle_from[kind] > now ? idle_from[kind] : now;
        complete[tensor] = idle_from[kind] = start + weir_plan__move_of(steps, tensor);
    }
    weir__release(steps->env, complete);
    *waited = sum < UINT64_MAX ? (uint64_t)sum : UINT64_MAX;
    return true;
}

/* ---- Hiding transfers ----------------------------------------------------------------------------- */

typedef struct hiding {
    weir__arena memory; /* of all arrays but `time` */
    const weir_plan__steps *steps;
    const weir_plan__schedule *from;
    size_t positions;
    uint64_t *loads; /* of each budget at each position, with what lives longer than in `from` */
    wide *time;      /* before each place: what has run, without waiting */
    wide *latest; /* of an `in`: when it must begin so that nothing waits, if the link is free; in `time` */
    uint32_t *until;   /* of an `out`: the next place that makes or overwrites the tensor */
    uint32_t *made;    /* a tensor: where its instance was made; before that, as `until` */
    uint32_t *touched; /* a tensor: the last place so far that has it */
    weir__record *issues;
    weir__record *waits;
    size_t count;
} hiding;

/* Room for everything, and the loads and times of `from`. False: no memory. */
static bool open_hiding(hiding *h) {
    const weir_plan__steps *s = h->steps;
    size_t places = h->from->count + 3;
    size_t tensors = (size_t)s->all_tensors + 1;
    uint64_t peaks[WEIR_PLAN__BUDGETS_MAX];
    weir__arena_init(&h->memory, s->env);
    h->positions = weir_plan__positions(h->from->count);
    h->time = weir__allocate_zero(s->env, places, 2 * sizeof *h->time);
    h->loads = weir__arena_take(&h->memory, (s->budgets.count * h->positions + 1) * sizeof *h->loads);
    h->until = weir__arena_take_zero(&h->memory, places, sizeof *h->until);
    h->made = weir__arena_take_zero(&h->memory, tensors, sizeof *h->made);
    h->touched = weir__arena_take_zero(&h->memory, tensors, sizeof *h->touched);
    h->issues = weir__arena_take(&h->memory, 2 * places * sizeof *h->issues);
    h->waits = weir__arena_take(&h->memory, 2 * places * sizeof *h->waits);
    if (!h->time || h->memory.is_short || !weir_plan__schedule_peaks(s, h->from, peaks, h->loads))
        return false;
    h->latest = h->time + places;
    for (size_t i = 0; i < h->from->count; i++) {
        weir_plan__execution e = h->from->items[i];
        h->time[i + 2] = h->time[i + 1] + (weir_plan__is_transfer(s, e) ? 0 : weir_plan__duration(s, e));
    }
    return true;
}

/* From the last place to the first: until when an `out` may take, and when an `in` should begin. */
static void find_limits(hiding *h) {
    const weir_plan__steps *s = h->steps;
    uint32_t end = (uint32_t)h->from->count + 1;
    wide next = h->time[end];
    for (uint32_t t = 0; t < s->tensor_count; t++)
        h->made[t] = end;
    for (uint32_t p = end - 1; p > 0; p--) {
        weir_plan__execution e = h->from->items[p - 1];
        weir_plan__list makes = weir_plan__makes_of(s, e);
        if (weir_plan__is_transfer(s, e)) {
            uint32_t tensor = weir_plan__moved_by(s, e.node);
            uint64_t move = weir_plan__move_of(s, tensor);
            h->until[p] = h->made[tensor];
            if (weir_plan__transfer_of(s, e.node) == WEIR_PLAN__IN) {
                next = next < h->time[p] ? next : h->time[p];
                next = next > move ? next - move : 0;
                h->latest[p] = next;
            }
        }
        for (uint32_t k = 0; k < makes.count; k++)
            h->made[makes.items[k]] = p;
        if (weir_plan__kills_of(s, e) != WEIR__NO_NAME)
            h->made[weir_plan__kills_of(s, e)] = p;
    }
    memset(h->made, 0, s->all_tensors * sizeof *h->made);
}

/* Whether a tensor can be at one more position; if so it is counted there. */
static bool takes(hiding *h, uint32_t tensor, uint32_t position) {
    unsigned b = weir_plan__budget_of(h->steps, h->steps->arena[tensor]);
    if (b == WEIR_PLAN__BUDGETS_MAX)
        return true;
    uint64_t *load = &h->loads[b * h->positions + position];
    if (*load + h->steps->sizes[tensor] > h->steps->budgets.items[b].bytes)
        return false;
    *load += h->steps->sizes[tensor];
    return true;
}

/* After which place, not before `first`, a tensor can be there that is made at `place` now. */
static uint32_t as_early(hiding *h, uint32_t tensor, uint32_t first, uint32_t place) {
    while (place - 1 > first && takes(h, tensor, place - 1))
        place--;
    return place - 1;
}

static void touch(uint32_t *touched, weir_plan__list list, uint32_t place) {
    for (uint32_t k = 0; k < list.count; k++)
        touched[list.items[k]] = touched[list.items[k]] > place ? touched[list.items[k]] : place;
}

/* An `out` begins as early as its copy has room, and its tensor stays until it is complete or room is short;
 * an `in` begins as late as is in time, and as early as its tensor has room then. */
static void hide(hiding *h) {
    const weir_plan__steps *s = h->steps;
    wide idle_from = 0;    /* of the link out */
    uint32_t previous = 0; /* after which place the last `in` began */
    for (uint32_t p = 1; p <= h->from->count; p++) {
        weir_plan__execution e = h->from->items[p - 1];
        weir_plan__list makes = weir_plan__makes_of(s, e);
        if (weir_plan__is_transfer(s, e)) {
            uint32_t tensor = weir_plan__moved_by(s, e.node);
            unsigned kind = weir_plan__transfer_of(s, e.node);
            uint32_t after;
            uint32_t wait = p;
            assert(kind != WEIR_PLAN__WAIT && "transfers are hidden once");
            if (kind == WEIR_PLAN__OUT) {
                after = as_early(h, s->tensor_count + tensor, h->made[tensor], p);
                wide start = idle_from > h->time[after + 1] ? idle_from : h->time[after + 1];
                idle_from = start + weir_plan__move_of(s, tensor);
                while (wait + 1 < h->until[p] && h->time[wait + 1] < idle_from && takes(h, tensor, wait + 1))
                    wait++;
                h->touched[tensor] = wait;
            } else {
                uint32_t first = h->touched[tensor] > previous ? h->touched[tensor] : previous;
                while (first + 1 < p && h->time[first + 2] <= h->latest[p])
                    first++;
                after = previous = as_early(h, tensor, first, p);
            }
            h->issues[h->count] = (weir__record){after, p};
            h->waits[h->count++] = (weir__record){wait, p};
        }
        touch(h->touched, weir_plan__reads_of(s, e), p);
        touch(h->touched, makes, p);
        for (uint32_t k = 0; k < makes.count; k++)
            h->made[makes.items[k]] = p;
    }
}

static void write_hidden(hiding *h, weir_plan__schedule *to) {
    const weir_plan__steps *s = h->steps;
    const weir_plan__execution *items = h->from->items;
    size_t issue = 0;
    size_t wait = 0;
    weir__sort_records(h->issues, h->issues + h->count, h->count, NULL, NULL);
    weir__sort_records(h->waits, h->waits + h->count, h->count, NULL, NULL);
    for (uint32_t p = 0; p <= h->from->count; p++) {
        if (p > 0 && !weir_plan__is_transfer(s, items[p - 1]))
            weir_plan__schedule_add(s->env, to, items[p - 1]);
        for (; wait < h->count && h->waits[wait].key == p; wait++) {
            uint32_t tensor = weir_plan__moved_by(s, items[h->waits[wait].index - 1].node);
            weir_plan__schedule_add(s->env, to,
                                    (weir_plan__execution){.node = weir_plan__wait_of(s, tensor)});
        }
        for (; issue < h->count && h->issues[issue].key == p; issue++)
            weir_plan__schedule_add(s->env, to, items[h->issues[issue].index - 1]);
    }
}

bool weir_plan__schedule_hide(const weir_plan__steps *steps, const weir_plan__schedule *schedule,
                              weir_plan__schedule *hidden, uint64_t *cost) {
    hiding h = {.steps = steps, .from = schedule};
    uint64_t waited;
    uint64_t runs = weir_plan__schedule_cost(steps, schedule, false);
    *cost = weir_plan__schedule_cost(steps, schedule, true);
    hidden->count = 0;
    if (!steps->link.overlaps || *cost == runs) /* a transfer costs at least 1 */
        return true;
    bool has_memory = open_hiding(&h);
    if (has_memory) {
        find_limits(&h);
        hide(&h);
        write_hidden(&h, hidden);
    }
    weir__release(steps->env, h.time);
    weir__arena_release(&h.memory);
    if (!has_memory || hidden->is_short || !weir_plan__schedule_waits(steps, hidden, &waited))
        return false;
    uint64_t other = weir_plan__add_capped(runs, waited);
    if (other < *cost)
        *cost = other;
    else
        hidden->count = 0;
    return true;
}
