/* Schedules: how long every instance lives, what that needs, and which runs can be left out. Nothing here
 * searches; what it says of a schedule is what the plan of it will hold. */
#include <string.h>

#include "plan/steps.h"

/* ---- Lists of executions ------------------------------------------------------------------------ */

void weir_plan__schedule_release(const weir_env *env, weir_plan__schedule *schedule) {
    weir__release(env, schedule->items);
    *schedule = (weir_plan__schedule){0};
}

void weir_plan__schedule_add(const weir_env *env, weir_plan__schedule *schedule, weir_plan__execution item) {
    if (schedule->count < schedule->capacity ||
        weir__grow(env, (void **)&schedule->items, &schedule->capacity, schedule->count + 1, sizeof item))
        schedule->items[schedule->count++] = item;
    else
        schedule->is_short = true;
}

void weir_plan__schedule_base(const weir_plan__steps *steps, weir_plan__schedule *schedule) {
    schedule->count = 0;
    for (uint32_t s = 0; s < steps->step_count; s++)
        weir_plan__schedule_add(steps->env, schedule, weir_plan__base_step(steps, s));
}

uint64_t weir_plan__schedule_cost(const weir_plan__steps *steps, const weir_plan__schedule *schedule,
                                  bool with_transfers) {
    uint64_t cost = 0;
    for (size_t i = 0; i < schedule->count; i++)
        if (!schedule->items[i].is_base &&
            (with_transfers || !weir_plan__is_transfer(steps, schedule->items[i])))
            cost = weir_plan__add_capped(cost, steps->costs[schedule->items[i].node]);
    return cost;
}

uint64_t weir_plan__base_cost(const weir_plan__steps *steps) {
    uint64_t cost = 0;
    for (uint32_t i = 0; i < steps->node_count; i++)
        cost = weir_plan__add_capped(cost, steps->costs[i]);
    return cost;
}

/* ---- Lives -------------------------------------------------------------------------------------- */

typedef struct weir_plan__instance {
    uint32_t birth;
    uint32_t last; /* the last place that reads it, 0 for none */
    uint32_t number;
    uint32_t overwrites_number;
    uint32_t overwrites;
    bool is_there;
    bool was_there;
} instance;

bool weir_plan__lives_open(const weir_plan__steps *steps, weir_plan__lives_scratch *scratch) {
    scratch->instances = weir__allocate(steps->env, (size_t)steps->all_tensors + 1, sizeof(instance));
    scratch->step_places = weir__allocate(steps->env, (size_t)steps->step_count + 1, sizeof(uint32_t));
    return scratch->instances && scratch->step_places;
}

void weir_plan__lives_close(const weir_env *env, weir_plan__lives_scratch *scratch) {
    weir__release(env, scratch->instances);
    weir__release(env, scratch->step_places);
}

typedef struct emitter {
    void (*emit)(void *context, const weir_plan__life *life);
    void *context;
} emitter;

static void end_life(const emitter *e, uint32_t tensor, const instance *own, uint32_t death) {
    weir_plan__life life = {.tensor = tensor,
                            .number = own->number,
                            .birth = own->birth,
                            .death = death,
                            .overwrites = own->overwrites,
                            .overwrites_number = own->overwrites_number};
    e->emit(e->context, &life);
}

/* What nobody reads lives for one position. */
static uint32_t natural_death(const instance *own) {
    return (own->last > own->birth ? own->last : own->birth) + 1;
}

static void run_node(const weir_plan__steps *steps, uint32_t node, uint32_t place, instance *all,
                     const emitter *e) {
    uint32_t killed = steps->kills[node];
    uint32_t killed_number = 0;
    if (killed != WEIR__NO_NAME) {
        end_life(e, killed, &all[killed], place);
        all[killed].is_there = false;
        killed_number = all[killed].number;
    }
    weir_plan__list makes = weir_plan__list_at(&steps->outputs, node);
    for (uint32_t i = 0; i < makes.count; i++) {
        instance *own = &all[makes.items[i]];
        if (own->is_there)
            end_life(e, makes.items[i], own, natural_death(own));
        *own = (instance){.birth = place,
                          .number = own->was_there ? own->number + 1 : 0,
                          .overwrites = killed,
                          .overwrites_number = killed_number,
                          .is_there = true,
                          .was_there = true};
    }
}

bool weir_plan__schedule_lives(const weir_plan__steps *steps, const weir_plan__execution *items, size_t count,
                               weir_plan__lives_scratch *scratch,
                               void (*emit)(void *context, const weir_plan__life *life), void *context) {
    instance *all = scratch->instances;
    emitter e = {emit, context};
    uint32_t step = 0;
    for (uint32_t t = 0; t < steps->all_tensors; t++) {
        bool is_there = steps->producer[t] == WEIR__NO_NAME;
        all[t] = (instance){.overwrites = WEIR__NO_NAME, .is_there = is_there, .was_there = is_there};
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t place = (uint32_t)i + 1;
        weir_plan__list reads = weir_plan__reads_of(steps, items[i]);
        for (uint32_t k = 0; k < reads.count; k++) {
            if (!all[reads.items[k]].is_there)
                return false;
            all[reads.items[k]].last = place;
        }
        if (!items[i].is_back)
            run_node(steps, items[i].node, place, all, &e);
        if (items[i].is_base)
            scratch->step_places[step++] = place;
    }
    scratch->step_places[step] = (uint32_t)count + 1;
    for (uint32_t t = 0; t < steps->all_tensors; t++)
        if (all[t].is_there)
            end_life(&e, t, &all[t], steps->permanent[t] ? (uint32_t)count + 1 : natural_death(&all[t]));
    return true;
}

/* ---- Loads -------------------------------------------------------------------------------------- */

typedef struct load_sums {
    const weir_plan__steps *steps;
    uint64_t *changes; /* for each budget, at each position: what is born less what dies; then what is live */
    size_t positions;
} load_sums;

static void note_life(void *context, const weir_plan__life *life) {
    load_sums *l = context;
    unsigned budget = weir_plan__budget_of(l->steps, l->steps->arena[life->tensor]);
    if (budget == WEIR_PLAN__BUDGETS_MAX)
        return;
    l->changes[budget * l->positions + life->birth] += l->steps->sizes[life->tensor];
    l->changes[budget * l->positions + life->death] -= l->steps->sizes[life->tensor];
}

/* Room to weigh schedules of a bounded length again and again. */
typedef struct scales {
    weir_plan__lives_scratch lives;
    load_sums loads;
} scales;

static void close_scales(scales *s) {
    weir_plan__lives_close(s->loads.steps->env, &s->lives);
    weir__release(s->loads.steps->env, s->loads.changes);
}

static bool open_scales(const weir_plan__steps *steps, size_t count, scales *s) {
    *s = (scales){.loads = {.steps = steps, .positions = weir_plan__positions(count)}};
    s->loads.changes =
        weir__allocate(steps->env, (steps->budgets.count + (size_t)1) * s->loads.positions, sizeof(uint64_t));
    bool has_lives = weir_plan__lives_open(steps, &s->lives);
    if (s->loads.changes && has_lives)
        return true;
    close_scales(s);
    return false;
}

static void weigh(scales *s, const weir_plan__execution *items, size_t count, uint64_t *peaks) {
    load_sums *l = &s->loads;
    memset(l->changes, 0, l->steps->budgets.count * l->positions * sizeof *l->changes);
    memset(peaks, 0xFF, l->steps->budgets.count * sizeof *peaks);
    if (!weir_plan__schedule_lives(l->steps, items, count, &s->lives, note_life, l))
        return;
    unsigned gradients = weir_plan__budget_of(l->steps, WEIR_PLAN__ARENA_GRADIENTS);
    for (uint32_t i = 0; gradients != WEIR_PLAN__BUDGETS_MAX && i < l->steps->gradient_count; i++) {
        const weir_plan__gradient_life *gradient = &l->steps->gradients[i];
        uint64_t *changes = l->changes + gradients * l->positions;
        changes[s->lives.step_places[gradient->first]] += gradient->size;
        changes[s->lives.step_places[gradient->last] + 1] -= gradient->size;
    }
    for (unsigned b = 0; b < l->steps->budgets.count; b++) {
        uint64_t live = 0;
        peaks[b] = 0;
        for (size_t p = 0; p < l->positions; p++) {
            live += l->changes[b * l->positions + p];
            l->changes[b * l->positions + p] = live;
            peaks[b] = live > peaks[b] ? live : peaks[b];
        }
    }
}

bool weir_plan__schedule_peaks(const weir_plan__steps *steps, const weir_plan__schedule *schedule,
                               uint64_t *peaks, uint64_t *loads) {
    scales s;
    if (!open_scales(steps, schedule->count, &s))
        return false;
    weigh(&s, schedule->items, schedule->count, peaks);
    if (loads)
        memcpy(loads, s.loads.changes, steps->budgets.count * s.loads.positions * sizeof *loads);
    close_scales(&s);
    return true;
}

/* ---- Leaving out -------------------------------------------------------------------------------- */

enum { PRUNING_WORK_LOG2 = 26 };

typedef weir_plan__marked marked;

typedef struct pruning {
    weir__arena memory; /* of all arrays */
    const weir_plan__steps *steps;
    scales scales;
    bool *wanted; /* a tensor: a later execution reads it before it is made again */
    marked *now;
    size_t count;
    marked *next;
    weir_plan__execution *bare;
    weir__record *records; /* runs by cost, and as much scratch */
} pruning;

size_t weir_plan__keep_useful(const weir_plan__steps *steps, bool *wanted, const marked *from, size_t count,
                              size_t without, marked *to) {
    size_t at = count;
    memset(wanted, 0, steps->all_tensors * sizeof *wanted);
    for (size_t i = count; i-- > 0;) {
        weir_plan__execution execution = from[i].execution;
        weir_plan__list makes = weir_plan__makes_of(steps, execution);
        weir_plan__list reads = weir_plan__reads_of(steps, execution);
        bool is_wanted = execution.is_base;
        for (uint32_t k = 0; k < makes.count && !is_wanted; k++)
            is_wanted = wanted[makes.items[k]];
        if (i == without || !is_wanted)
            continue;
        for (uint32_t k = 0; k < makes.count; k++)
            wanted[makes.items[k]] = false;
        for (uint32_t k = 0; k < reads.count; k++)
            wanted[reads.items[k]] = true;
        to[--at] = from[i];
    }
    memmove(to, to + at, (count - at) * sizeof *to);
    return count - at;
}

/* Runs without which the rest fits: the dearest first, and of equal ones the earliest. */
static void leave_out(pruning *p) {
    uint64_t peaks[WEIR_PLAN__BUDGETS_MAX];
    size_t tries = ((size_t)1 << PRUNING_WORK_LOG2) / (p->count + p->steps->tensor_count);
    size_t runs = 0;
    for (size_t i = 0; i < p->count; i++)
        if (!p->now[i].execution.is_base)
            p->records[runs++] =
                (weir__record){UINT64_MAX - p->steps->costs[p->now[i].execution.node], p->now[i].from};
    weir__sort_records(p->records, p->records + p->count, runs, NULL, NULL);
    for (size_t r = 0; r < runs && r < tries; r++) {
        size_t at = 0; /* where it is now, if it is not gone: `from` ascends */
        for (size_t high = p->count; at < high;) {
            size_t middle = at + (high - at) / 2;
            if (p->now[middle].from < p->records[r].index)
                at = middle + 1;
            else
                high = middle;
        }
        if (at == p->count || p->now[at].from != p->records[r].index)
            continue;
        size_t count = weir_plan__keep_useful(p->steps, p->wanted, p->now, p->count, at, p->next);
        for (size_t i = 0; i < count; i++)
            p->bare[i] = p->next[i].execution;
        weigh(&p->scales, p->bare, count, peaks);
        if (!weir_plan__within(p->steps, peaks))
            continue;
        marked *worse = p->now;
        p->now = p->next;
        p->next = worse;
        p->count = count;
    }
}

bool weir_plan__schedule_prune(const weir_plan__steps *steps, bool is_thorough,
                               weir_plan__schedule *schedule) {
    pruning p = {.steps = steps};
    size_t most = schedule->count + 1;
    if (!open_scales(steps, schedule->count, &p.scales))
        return false;
    weir__arena_init(&p.memory, steps->env);
    p.wanted = weir__arena_take(&p.memory, ((size_t)steps->all_tensors + 1) * sizeof *p.wanted);
    p.now = weir__arena_take(&p.memory, most * sizeof *p.now);
    p.next = weir__arena_take(&p.memory, most * sizeof *p.next);
    p.bare = weir__arena_take(&p.memory, most * sizeof *p.bare);
    p.records = weir__arena_take(&p.memory, 2 * most * sizeof *p.records);
    bool has_memory = !p.memory.is_short;
    if (has_memory) {
        for (size_t i = 0; i < schedule->count; i++)
            p.next[i] = (marked){schedule->items[i], (uint32_t)i};
        p.count = weir_plan__keep_useful(p.steps, p.wanted, p.next, schedule->count, SIZE_MAX, p.now);
        if (is_thorough)
            leave_out(&p);
        schedule->count = p.count;
        for (size_t i = 0; i < p.count; i++)
            schedule->items[i] = p.now[i].execution;
    }
    close_scales(&p.scales);
    weir__arena_release(&p.memory);
    return has_memory;
}
