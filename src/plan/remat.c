/* Choosing what to run again: walks by several strategies, the cheapest of them made cheaper by leaving runs
 * out, an exact search where the graph is small, and a bound that says how far from the least the result can
 * be. docs/spec/03d-remat.md, and 03j-paging.md and 03k-overlap.md if tensors may go to the host, are exact
 * about all of it. */
#include <string.h>

#include "plan/steps.h"

typedef unsigned __int128 wide;

enum { BOUND_STEPS = 64, BOUND_PARTS = 64, FIRST_NOISE = 8, SEGMENTS = 6 };

/* ---- What every schedule must hold, and pay ----------------------------------------------------- */

typedef struct group {
    uint64_t cost;
    uint64_t size;
    uint32_t node; /* what has no producer comes after all nodes */
} group;

typedef struct bounding {
    const weir_plan__steps *steps;
    uint32_t arena;
    uint64_t limit;
    const uint64_t *loads; /* of the base schedule, at each position */
    uint64_t *kept;        /* at each base step, what every schedule has there */
    group *groups;
    uint32_t *group_of; /* a node's, + 1 */
    weir__record *records;
    wide *time;       /* what the base steps before each take */
    uint8_t *at_hand; /* scratch, all zero */
} bounding;

static bool is_needed_after(const weir_plan__steps *s, uint32_t tensor, uint32_t step) {
    weir_plan__list needs = weir_plan__list_at(&s->needs, tensor);
    return needs.count > 0 && needs.items[needs.count - 1] > step;
}

static bool stands_before(const weir_plan__steps *s, uint32_t tensor, uint32_t step) {
    return s->producer[tensor] == WEIR__NO_NAME || s->place[s->producer[tensor]] < step;
}

/* Whether it can neither be made again nor go to the host. */
static bool cannot_go(const weir_plan__steps *s, uint32_t tensor) {
    return s->permanent[tensor] ||
           (s->producer[tensor] == WEIR__NO_NAME && !weir_plan__can_be_paged(s, tensor));
}

/* What a list adds to `kept`, beyond what stays by itself. */
static uint64_t at_hand(const bounding *b, weir_plan__list list, uint32_t step) {
    const weir_plan__steps *s = b->steps;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < list.count; i++) {
        uint32_t t = list.items[i];
        bool stays =
            stands_before(s, t, step) && cannot_go(s, t) && (s->permanent[t] || is_needed_after(s, t, step));
        if (s->arena[t] == b->arena && !stays)
            sum += s->sizes[t];
    }
    return sum;
}

/* First as changes from step to step, then added up. */
static void find_kept(bounding *b) {
    const weir_plan__steps *s = b->steps;
    memset(b->kept, 0, ((size_t)s->step_count + 2) * sizeof *b->kept);
    for (uint32_t t = 0; t < s->tensor_count; t++) {
        weir_plan__list needs = weir_plan__list_at(&s->needs, t);
        bool has_producer = s->producer[t] != WEIR__NO_NAME;
        if (s->arena[t] != b->arena || !cannot_go(s, t))
            continue;
        uint32_t end = s->permanent[t] ? s->step_count : needs.count ? needs.items[needs.count - 1] : 0;
        b->kept[has_producer ? s->place[s->producer[t]] + 1 : 0] += s->sizes[t];
        b->kept[end] -= end < s->step_count ? s->sizes[t] : 0;
    }
    for (uint32_t i = 0; b->arena == WEIR_PLAN__ARENA_GRADIENTS && s->node_count > 0 && i < s->gradient_count;
         i++) {
        b->kept[s->gradients[i].first] += s->gradients[i].size;
        b->kept[s->gradients[i].last + 1] -= s->gradients[i].size;
    }
    for (uint32_t step = 1; step < s->step_count; step++)
        b->kept[step] += b->kept[step - 1];
    for (uint32_t step = 0; step < s->step_count; step++) {
        weir_plan__execution own = weir_plan__base_step(s, step);
        weir_plan__list makes = weir_plan__makes_of(s, own);
        uint32_t killed = weir_plan__kills_of(s, own);
        b->kept[step] += at_hand(b, weir_plan__reads_of(s, own), step);
        for (uint32_t i = 0; i < makes.count; i++)
            b->kept[step] += s->arena[makes.items[i]] == b->arena ? s->sizes[makes.items[i]] : 0;
        if (killed != WEIR__NO_NAME && s->arena[killed] == b->arena)
            b->kept[step] -= s->sizes[killed];
    }
}

/* What a base step needs and makes. */
static void mark(bounding *b, uint32_t step, uint8_t value) {
    weir_plan__execution own = weir_plan__base_step(b->steps, step);
    weir_plan__list needs = weir_plan__reads_of(b->steps, own);
    weir_plan__list makes = weir_plan__makes_of(b->steps, own);
    for (uint32_t i = 0; i < needs.count; i++)
        b->at_hand[needs.items[i]] = value;
    for (uint32_t i = 0; i < makes.count; i++)
        b->at_hand[makes.items[i]] = value;
}

/* Tensors that cross a step, by producer. */
static size_t collect_groups(bounding *b, uint32_t step, uint64_t *sum) {
    const weir_plan__steps *s = b->steps;
    size_t count = 0;
    *sum = 0;
    mark(b, step, 1);
    for (uint32_t t = 0; t < s->tensor_count; t++) {
        if (s->arena[t] != b->arena || cannot_go(s, t) || b->at_hand[t] || s->sizes[t] == 0 ||
            !stands_before(s, t, step) || !is_needed_after(s, t, step))
            continue;
        uint32_t node = s->producer[t] == WEIR__NO_NAME ? s->node_count + t : s->producer[t];
        if (b->group_of[node] == 0) {
            uint64_t cost = node < s->node_count ? s->costs[node] : WEIR_PLAN__COST_NEVER;
            b->groups[count] = (group){cost, 0, node};
            b->group_of[node] = (uint32_t)++count;
        }
        b->groups[b->group_of[node] - 1].size += s->sizes[t];
        *sum += s->sizes[t];
    }
    mark(b, step, 0);
    for (size_t i = 0; i < count; i++) {
        group *own_group = &b->groups[i];
        b->group_of[own_group->node] = 0;
        if (!s->link.bytes || s->link.overlaps)
            continue;
        /* If nothing runs meanwhile: moving it out and in, if that costs less. */
        wide paged = (wide)2 * own_group->size * s->link.speed / s->link.bytes;
        own_group->cost = paged < own_group->cost ? (uint64_t)paged : own_group->cost;
    }
    return count;
}

static int by_ratio(const void *context, uint32_t x, uint32_t y) {
    const group *a = (const group *)context + x;
    const group *b = (const group *)context + y;
    wide left = (wide)a->cost * b->size;
    wide right = (wide)b->cost * a->size;
    if (left != right)
        return left < right ? -1 : 1;
    return a->node < b->node ? -1 : 1;
}

/* What dropping so many bytes costs, of `count` groups that are sorted: the last of them in part. */
static uint64_t cost_of_dropping(const bounding *b, size_t count, uint64_t bytes) {
    uint64_t cost = 0;
    for (size_t i = 0; i < count && bytes > 0; i++) {
        const group *g = &b->groups[b->records[i].index];
        uint64_t part = g->size < bytes ? g->size : bytes;
        cost += part == g->size ? g->cost : (uint64_t)(((wide)g->cost * part + g->size - 1) / g->size);
        bytes -= part;
        cost = cost < WEIR_PLAN__COST_NEVER ? cost : WEIR_PLAN__COST_NEVER;
    }
    return cost;
}

/* The same if a part is paged beside the base steps: it goes out before the step and comes back after it. */
static uint64_t cost_beside(const bounding *b, uint32_t step, size_t count, uint64_t excess) {
    const weir_plan__link *link = &b->steps->link;
    wide before = b->time[step];
    wide after = b->time[b->steps->step_count] - b->time[step + 1];
    wide least = WEIR_PLAN__COST_NEVER;
    for (unsigned k = 0; k < BOUND_PARTS; k++) {
        uint64_t made = (uint64_t)((wide)excess * k / BOUND_PARTS);
        uint64_t paged = excess - (uint64_t)(((wide)excess * (k + 1) + BOUND_PARTS - 1) / BOUND_PARTS);
        wide moved = (wide)paged * link->speed / link->bytes;
        wide cost = cost_of_dropping(b, count, made);
        if (moved > after && moved - after > cost)
            cost = moved - after;
        cost += moved > before ? moved - before : 0;
        least = cost < least ? cost : least;
    }
    return (uint64_t)least;
}

/* The bound at the fullest steps of the base schedule, the earlier of equal ones first. False: no schedule
 * can fit. */
static bool bound_arena(bounding *b, uint64_t *bound, uint64_t *least) {
    uint32_t fullest[BOUND_STEPS];
    uint32_t steps = b->steps->step_count;
    uint32_t count = steps < BOUND_STEPS ? steps : BOUND_STEPS;
    find_kept(b);
    *least = b->loads[0];
    for (uint32_t step = 0; step < steps; step++)
        *least = b->kept[step] > *least ? b->kept[step] : *least;
    if (*least > b->limit)
        return false;
    for (uint32_t i = 0; i < steps; i++)
        b->records[i] = (weir__record){UINT64_MAX - b->loads[i + 1], i};
    weir__sort_records(b->records, b->records + steps, steps, NULL, NULL);
    for (uint32_t i = 0; i < count; i++)
        fullest[i] = b->records[i].index;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t step = fullest[i];
        uint64_t sum;
        size_t groups = collect_groups(b, step, &sum);
        if (b->kept[step] + sum <= b->limit)
            continue;
        uint64_t excess = b->kept[step] + sum - b->limit;
        for (size_t k = 0; k < groups; k++)
            b->records[k] = (weir__record){0, (uint32_t)k};
        weir__sort_records(b->records, b->records + groups, groups, by_ratio, b->groups);
        uint64_t cost = b->steps->link.overlaps ? cost_beside(b, step, groups, excess)
                                                : cost_of_dropping(b, groups, excess);
        *bound = cost > *bound ? cost : *bound;
    }
    return true;
}

static bool find_bound(const weir_plan__steps *s, const uint64_t *loads, uint64_t *bound, uint64_t *least,
                       bool *is_possible) {
    const weir_env *env = s->env;
    size_t most = s->step_count + (size_t)s->tensor_count + 2;
    weir__arena memory;
    bounding b = {.steps = s, .time = weir__allocate_zero(env, most, sizeof *b.time)};
    weir__arena_init(&memory, env);
    b.kept = weir__arena_take(&memory, most * sizeof *b.kept);
    b.groups = weir__arena_take(&memory, most * sizeof *b.groups);
    b.group_of = weir__arena_take_zero(&memory, most, sizeof *b.group_of);
    b.records = weir__arena_take(&memory, 2 * most * sizeof *b.records);
    b.at_hand = weir__arena_take_zero(&memory, (size_t)s->tensor_count + 1, 1);
    bool has_memory = b.time && !memory.is_short;
    for (uint32_t i = 0; has_memory && i < s->step_count; i++)
        b.time[i + 1] = b.time[i] + weir_plan__duration(s, weir_plan__base_step(s, i));
    *bound = 0;
    *is_possible = true;
    for (unsigned i = 0; has_memory && i < s->budgets.count; i++) {
        b.arena = s->budgets.items[i].arena;
        b.limit = s->budgets.items[i].bytes;
        b.loads = loads + i * weir_plan__positions(s->step_count);
        *is_possible &= bound_arena(&b, bound, &least[i]);
    }
    weir__release(env, b.time);
    weir__arena_release(&memory);
    return has_memory;
}

/* ---- Strategies --------------------------------------------------------------------------------- */

/* Strategy number `index` of an effort; false after the last. */
static bool strategy_at(uint32_t effort, uint32_t index, weir_plan__strategy *strategy) {
    static const uint32_t segments[SEGMENTS] = {2, 4, 8, 16, 32, 64};
    *strategy = (weir_plan__strategy){0};
    if (index < 2) {
        strategy->by_distance = index == 1;
        return effort >= index;
    }
    if (effort >= 2 && index < 2 + SEGMENTS) {
        strategy->segments = segments[index - 2];
        return true;
    }
    strategy->seed = index - FIRST_NOISE + 1;
    strategy->by_distance = strategy->seed % 2 == 0;
    return index >= FIRST_NOISE && effort >= 3 && strategy->seed <= (uint32_t)1 << (effort - 1);
}

typedef struct solving {
    const weir_plan__steps *steps;
    uint32_t effort;
    uint64_t work;
    weir_plan__schedule *best;
    weir_plan__schedule other;
    weir_plan__schedule hidden; /* what hiding makes of a schedule */
    weir_plan__remat_result *result;
    bool has_walked; /* a walk with the strategies at hand came to its end */
} solving;

static void swap_schedules(weir_plan__schedule *a, weir_plan__schedule *b) {
    weir_plan__schedule kept = *a;
    *a = *b;
    *b = kept;
}

/* What was found takes the place of the best if it is cheaper. */
static bool consider_other(solving *s) {
    uint64_t cost;
    if (!weir_plan__schedule_hide(s->steps, &s->other, &s->hidden, &cost))
        return false;
    if (s->result->is_found && cost >= s->result->added_cost)
        return true;
    swap_schedules(s->best, &s->other);
    s->result->is_found = true;
    s->result->added_cost = cost;
    return true;
}

static bool try_strategy(solving *s, const weir_plan__strategy *strategy, const weir_plan__steps *steps) {
    bool is_found;
    if (s->work > (uint64_t)1 << (26 + s->effort / 2))
        return true;
    if (strategy->segments > 0 && 2 * (uint64_t)strategy->segments > s->steps->node_count)
        return true;
    if (!weir_plan__remat_walk(steps, strategy, &s->work, &s->other, &is_found))
        return false;
    if (!is_found)
        return true;
    s->has_walked = true;
    if (!weir_plan__schedule_prune(s->steps, s->effort >= 1, &s->other))
        return false;
    return consider_other(s);
}

static bool try_exact(solving *s) {
    weir_plan__remat_result *r = s->result;
    uint64_t below =
        r->is_found && r->added_cost < WEIR_PLAN__COST_NEVER ? r->added_cost : WEIR_PLAN__COST_NEVER;
    bool is_found;
    bool is_ended;
    if (s->effort < 4 || (r->is_found && r->added_cost <= r->lower_bound) ||
        !weir_plan__remat_exact_applies(s->steps))
        return true;
    if (!weir_plan__remat_exact(s->steps, (uint64_t)1 << (12 + s->effort), below, &s->other, &is_found,
                                &is_ended))
        return false;
    if (is_found && !consider_other(s))
        return false;
    r->is_optimal = is_ended && !s->steps->link.overlaps;
    r->is_impossible = is_ended && !r->is_found;
    return true;
}

/* All strategies with a part of the budgets. */
static bool try_strategies(solving *s, uint64_t sixteenths, bool pages) {
    weir_plan__strategy strategy;
    weir_plan__steps steps = *s->steps;
    weir_plan__remat_result *r = s->result;
    for (unsigned b = 0; sixteenths < 16 && b < steps.budgets.count; b++)
        steps.budgets.items[b].bytes = steps.budgets.items[b].bytes / 16 * sixteenths;
    for (uint32_t i = 0; strategy_at(s->effort, i, &strategy); i++) {
        strategy.pages = pages;
        if (!try_strategy(s, &strategy, &steps))
            return false;
        if (r->is_found && r->added_cost == r->lower_bound)
            break;
    }
    return true;
}

/* All strategies, with less of the budgets until one succeeds. */
static bool try_budgets(solving *s, bool pages) {
    s->work = 0;
    s->has_walked = false;
    for (uint64_t sixteenths = 16; sixteenths >= 8 && !s->has_walked; sixteenths--)
        if (!try_strategies(s, sixteenths, pages))
            return false;
    return true;
}

static bool search(solving *s) {
    weir_plan__remat_result *r = s->result;
    if (!try_budgets(s, false))
        return false;
    bool is_least = r->is_found && r->added_cost == r->lower_bound;
    if (s->steps->link.bytes && !is_least && !try_budgets(s, true))
        return false;
    if (!try_exact(s))
        return false;
    if (s->steps->link.overlaps && r->is_found) {
        /* Pages more of the best schedule, and lets its transfers run beside the computation. */
        if (s->effort >= 1 && !weir_plan__schedule_swap(s->steps, s->best, &r->added_cost))
            return false;
        if (!weir_plan__schedule_hide(s->steps, s->best, &s->hidden, &r->added_cost))
            return false;
        if (s->hidden.count > 0)
            swap_schedules(s->best, &s->hidden);
    }
    if (r->is_optimal && r->is_found)
        r->lower_bound = r->added_cost;
    r->is_optimal = r->is_found && r->added_cost == r->lower_bound;
    return true;
}

/* The base steps as a schedule, their peaks, and their loads, which the caller releases. False: no memory. */
static bool weigh_base(const weir_plan__steps *steps, weir_plan__schedule *schedule, uint64_t *peaks,
                       uint64_t **loads) {
    size_t positions = weir_plan__positions(steps->step_count);
    *loads = weir__allocate(steps->env, steps->budgets.count * positions + 1, sizeof **loads);
    weir_plan__schedule_base(steps, schedule);
    return *loads && !schedule->is_short && weir_plan__schedule_peaks(steps, schedule, peaks, *loads);
}

bool weir_plan__remat_solve(const weir_plan__steps *steps, uint32_t effort, weir_plan__schedule *schedule,
                            weir_plan__remat_result *result) {
    solving s = {.steps = steps, .effort = effort, .best = schedule, .result = result};
    bool is_possible = true;
    uint64_t *loads;
    *result = (weir_plan__remat_result){0};
    bool has_memory = weigh_base(steps, schedule, result->base, &loads);
    if (has_memory && weir_plan__within(steps, result->base)) {
        result->is_found = result->is_optimal = true;
    } else if (has_memory) {
        has_memory = find_bound(steps, loads, &result->lower_bound, result->least, &is_possible);
        result->is_impossible = !is_possible;
        if (has_memory && is_possible)
            has_memory = search(&s);
    }
    weir__release(steps->env, loads);
    weir_plan__schedule_release(steps->env, &s.other);
    weir_plan__schedule_release(steps->env, &s.hidden);
    return has_memory;
}

bool weir_plan__remat_bound(const weir_plan__steps *steps, uint64_t *bound) {
    uint64_t peaks[WEIR_PLAN__BUDGETS_MAX];
    uint64_t least[WEIR_PLAN__BUDGETS_MAX];
    bool is_possible;
    uint64_t *loads;
    weir_plan__schedule base = {0};
    bool has_memory =
        weigh_base(steps, &base, peaks, &loads) && find_bound(steps, loads, bound, least, &is_possible);
    weir__release(steps->env, loads);
    weir_plan__schedule_release(steps->env, &base);
    return has_memory;
}
