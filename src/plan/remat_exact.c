/* The least added cost of a small graph, proven: A* over states of (base step, resident tensors, copies on
 * the host), where what is missing and needed later owes at least one more run of its producer. Tensors are
 * dropped only where room is short, and no more of them than that takes, since whatever else is dropped can
 * be dropped later. Sets of tensors are the bits of one word. */
#include "plan/steps.h"

enum { NODES_MAX = 30, TENSORS_MAX = 64, STEPS_MAX = 2 * NODES_MAX, RAN_IN = NODES_MAX + 1, LOOKS = 4 };

typedef struct state {
    uint64_t live;
    uint64_t host;
    uint64_t saved; /* what went to the host on the way here */
    uint64_t cost;
    uint64_t estimate;
    uint32_t before; /* the state that it came from */
    uint32_t next;   /* in its chain of the table */
    uint8_t step;
    uint8_t ran; /* node + 1, RAN_IN + bit of what came in, or 0 for the base step */
} state;

typedef struct exact {
    const weir_plan__steps *steps;
    uint64_t below;
    uint64_t state_limit;
    uint64_t looks; /* at successors of states, with a link: at most LOOKS for each state of the limit */
    uint32_t tensors[TENSORS_MAX]; /* bit -> tensor */
    unsigned bits;
    uint64_t pageable;
    uint64_t given; /* without producer */
    uint64_t arena_bits[WEIR_PLAN__BUDGETS_MAX];
    uint64_t reads[NODES_MAX];
    uint64_t makes[NODES_MAX];
    uint64_t killed[NODES_MAX];
    uint64_t needed[STEPS_MAX + 1];
    uint64_t future[STEPS_MAX + 1];
    uint64_t useful[STEPS_MAX + 1];
    uint64_t always_before[WEIR_PLAN__BUDGETS_MAX][STEPS_MAX + 1];
    uint64_t always_at[WEIR_PLAN__BUDGETS_MAX][STEPS_MAX + 1];
    state *states;
    size_t state_count;
    size_t state_capacity;
    uint32_t *heap;
    size_t heap_count;
    size_t heap_capacity;
    uint32_t *table; /* chains of states, + 1 */
    size_t table_size;
    bool is_full; /* the limit of states */
    bool is_short_of_memory;
} exact;

bool weir_plan__remat_exact_applies(const weir_plan__steps *steps) {
    uint32_t free_ones = 0;
    if (steps->link.bytes && weir_plan__budget_of(steps, steps->host) != WEIR_PLAN__BUDGETS_MAX)
        return false;
    for (uint32_t t = 0; t < steps->tensor_count; t++)
        free_ones += !steps->permanent[t];
    return steps->node_count <= NODES_MAX && free_ones <= TENSORS_MAX;
}

/* ---- Masks -------------------------------------------------------------------------------------- */

static uint64_t bit_of(const exact *e, uint32_t tensor) {
    for (unsigned i = 0; i < e->bits; i++)
        if (e->tensors[i] == tensor)
            return (uint64_t)1 << i;
    return 0; /* permanent */
}

static uint64_t mask_of(const exact *e, weir_plan__list list) {
    uint64_t mask = 0;
    for (uint32_t i = 0; i < list.count; i++)
        mask |= bit_of(e, list.items[i]);
    return mask;
}

static uint64_t bytes_of(const exact *e, uint64_t mask) {
    uint64_t sum = 0;
    for (; mask; mask &= mask - 1)
        sum += e->steps->sizes[e->tensors[__builtin_ctzll(mask)]];
    return sum;
}

/* Whether a permanent tensor is there before a step. */
static bool stands(const exact *e, uint32_t tensor, uint32_t step) {
    uint32_t producer = e->steps->producer[tensor];
    return e->steps->permanent[tensor] && (producer == WEIR__NO_NAME || e->steps->place[producer] < step);
}

static void find_always(exact *e, unsigned budget, uint32_t step) {
    const weir_plan__steps *s = e->steps;
    uint32_t arena = e->steps->budgets.items[budget].arena;
    uint64_t before = 0;
    uint64_t at = 0;
    for (uint32_t t = 0; t < s->tensor_count; t++)
        if (s->arena[t] == arena) {
            before += stands(e, t, step) ? s->sizes[t] : 0;
            at += stands(e, t, step + 1) ? s->sizes[t] : 0;
        }
    for (uint32_t i = 0; arena == WEIR_PLAN__ARENA_GRADIENTS && i < s->gradient_count; i++) {
        const weir_plan__gradient_life *g = &s->gradients[i];
        before += g->first < step && step <= g->last ? g->size : 0;
        at += g->first <= step && step <= g->last ? g->size : 0;
    }
    e->always_before[budget][step] = before;
    e->always_at[budget][step] = at;
}

static void find_masks(exact *e) {
    const weir_plan__steps *s = e->steps;
    for (uint32_t t = 0; t < s->tensor_count; t++)
        if (!s->permanent[t])
            e->tensors[e->bits++] = t;
    for (unsigned i = 0; i < e->bits; i++) {
        unsigned budget = weir_plan__budget_of(s, s->arena[e->tensors[i]]);
        uint64_t bit = (uint64_t)1 << i;
        if (budget != WEIR_PLAN__BUDGETS_MAX && s->sizes[e->tensors[i]] > 0)
            e->arena_bits[budget] |= bit;
        e->pageable |= weir_plan__can_be_paged(s, e->tensors[i]) ? bit : 0;
        e->given |= s->producer[e->tensors[i]] == WEIR__NO_NAME ? bit : 0;
    }
    for (uint32_t i = 0; i < s->node_count; i++) {
        e->reads[i] = mask_of(e, weir_plan__list_at(&s->inputs, i));
        e->makes[i] = mask_of(e, weir_plan__list_at(&s->outputs, i));
        e->killed[i] = s->kills[i] == WEIR__NO_NAME ? 0 : bit_of(e, s->kills[i]);
    }
    for (uint32_t step = s->step_count; step-- > 0;) {
        e->needed[step] = mask_of(e, weir_plan__reads_of(s, weir_plan__base_step(s, step)));
        e->future[step] = e->future[step + 1] | e->needed[step];
    }
    for (uint32_t step = 0; step <= s->step_count; step++) {
        e->useful[step] = e->future[step];
        for (uint32_t p = step < s->node_count ? step : s->node_count; p-- > 0;)
            if (e->makes[s->order[p]] & e->useful[step])
                e->useful[step] |= e->reads[s->order[p]];
        for (unsigned b = 0; b < e->steps->budgets.count && step < s->step_count; b++)
            find_always(e, b, step);
    }
}

/* What moving tensors costs, in one direction. */
static uint64_t moving(const exact *e, uint64_t mask) {
    uint64_t cost = 0;
    for (; mask; mask &= mask - 1)
        cost += weir_plan__move_of(e->steps, e->tensors[__builtin_ctzll(mask)]);
    return cost;
}

/* What is missing is made once more, or comes in. */
static uint64_t owed(const exact *e, uint32_t step, uint64_t live, uint64_t host) {
    const weir_plan__steps *s = e->steps;
    uint64_t missing = e->future[step] & ~live;
    uint64_t cost = 0;
    for (uint32_t p = 0; missing && p < step && p < s->node_count; p++) {
        uint64_t own = e->makes[s->order[p]] & missing;
        uint64_t made = own ? s->costs[s->order[p]] : 0;
        uint64_t moved = own & ~host ? WEIR_PLAN__COST_NEVER : moving(e, own);
        cost += made < moved ? made : moved;
    }
    if (s->link.bytes)
        cost += missing & e->given & ~host ? WEIR_PLAN__COST_NEVER : moving(e, missing & e->given);
    return cost;
}

/* ---- States ------------------------------------------------------------------------------------- */

/* Least estimate, then the furthest, then the first made. */
static bool comes_first(const exact *e, uint32_t a, uint32_t b) {
    const state *x = &e->states[a];
    const state *y = &e->states[b];
    if (x->estimate != y->estimate)
        return x->estimate < y->estimate;
    return x->step != y->step ? x->step > y->step : a < b;
}

static void heap_push(exact *e, uint32_t item) {
    if (e->heap_count == e->heap_capacity && !weir__grow(e->steps->env, (void **)&e->heap, &e->heap_capacity,
                                                         e->heap_count + 1, sizeof *e->heap)) {
        e->is_short_of_memory = true;
        return;
    }
    size_t at = e->heap_count++;
    for (; at > 0 && comes_first(e, item, e->heap[(at - 1) / 2]); at = (at - 1) / 2)
        e->heap[at] = e->heap[(at - 1) / 2];
    e->heap[at] = item;
}

static uint32_t heap_pop(exact *e) {
    uint32_t top = e->heap[0];
    uint32_t moved = e->heap[--e->heap_count];
    size_t at = 0;
    for (size_t child = 1; child < e->heap_count; child = 2 * at + 1) {
        if (child + 1 < e->heap_count && comes_first(e, e->heap[child + 1], e->heap[child]))
            child++;
        if (!comes_first(e, e->heap[child], moved))
            break;
        e->heap[at] = e->heap[child];
        at = child;
    }
    e->heap[at] = moved;
    return top;
}

static uint32_t *chain_of(const exact *e, uint32_t step, uint64_t live, uint64_t host) {
    uint64_t hash = (live + step + host * UINT64_C(0xBF58476D1CE4E5B9)) * UINT64_C(0x9E3779B97F4A7C15);
    return &e->table[(hash ^ hash >> 29) & (e->table_size - 1)];
}

/* The least cost at which a state was reached, of those that are kept. */
static uint64_t best_cost(const exact *e, uint32_t step, uint64_t live, uint64_t host) {
    uint64_t best = WEIR_PLAN__COST_NEVER;
    for (uint32_t at = *chain_of(e, step, live, host); at != 0; at = e->states[at - 1].next) {
        const state *s = &e->states[at - 1];
        if (s->step == step && s->live == live && s->host == host && s->cost < best)
            best = s->cost;
    }
    return best;
}

/* `new` has no estimate and no chain yet. */
static void reach(exact *e, state new) {
    if (e->is_full || best_cost(e, new.step, new.live, new.host) <= new.cost)
        return;
    new.estimate = new.cost + owed(e, new.step, new.live, new.host);
    if (new.estimate >= e->below)
        return;
    if (e->state_count >= e->state_limit) {
        e->is_full = true;
        return;
    }
    if (e->state_count == e->state_capacity &&
        !weir__grow(e->steps->env, (void **)&e->states, &e->state_capacity, e->state_count + 1,
                    sizeof *e->states)) {
        e->is_short_of_memory = e->is_full = true;
        return;
    }
    uint32_t *chain = chain_of(e, new.step, new.live, new.host);
    new.next = *chain;
    e->states[e->state_count++] = new;
    *chain = (uint32_t)e->state_count;
    heap_push(e, (uint32_t)e->state_count - 1);
}

/* ---- Moves -------------------------------------------------------------------------------------- */

/* An execution from a state: what it may drop, and where it leads. */
typedef struct move {
    uint32_t before;
    uint8_t ran;
    uint32_t to_step;
    uint64_t cost;
    uint64_t live;
    uint64_t host;
    uint64_t made;
    uint64_t killed;
    uint64_t droppable;
    uint64_t excess[WEIR_PLAN__BUDGETS_MAX]; /* bytes to drop */
} move;

static void drop_in(exact *e, const move *m, unsigned budget, uint64_t dropped);

/* Minimal sets of candidates, in the order of their members: with the next one, then without it. */
static void choose(exact *e, const move *m, unsigned budget, uint64_t rest, uint64_t dropped, uint64_t total,
                   uint64_t least) {
    uint64_t excess = m->excess[budget];
    if (total >= excess) {
        if (total - least < excess || total == 0)
            drop_in(e, m, budget + 1, dropped);
        return;
    }
    if (rest == 0 || total + bytes_of(e, rest) < excess || e->is_full)
        return;
    uint64_t bit = rest & -rest;
    uint64_t size = bytes_of(e, bit);
    choose(e, m, budget, rest & ~bit, dropped | bit, total + size, size < least ? size : least);
    choose(e, m, budget, rest & ~bit, dropped, total, least);
}

static void drop_in(exact *e, const move *m, unsigned budget, uint64_t dropped) {
    if (budget < e->steps->budgets.count) {
        choose(e, m, budget, m->droppable & e->arena_bits[budget], dropped, 0, UINT64_MAX);
        return;
    }
    uint64_t useful = e->useful[m->to_step];
    uint64_t live = ((m->live & ~dropped) | m->made) & ~m->killed & useful;
    uint64_t savable = (dropped | m->killed) & e->pageable & ~m->host & useful;
    uint64_t saved = 0;
    do { /* every subset, by ascending number */
        e->is_full |= e->steps->link.bytes && ++e->looks > LOOKS * e->state_limit;
        reach(e, (state){.live = live,
                         .host = (m->host | saved) & useful,
                         .saved = saved,
                         .cost = m->cost + moving(e, saved),
                         .before = m->before,
                         .step = (uint8_t)m->to_step,
                         .ran = m->ran});
        saved = (saved - savable) & savable;
    } while (saved && !e->is_full);
}

static void try_move(exact *e, move *m, uint64_t pins, uint32_t step, bool is_base) {
    m->droppable = m->live & ~pins & ~m->made;
    for (unsigned b = 0; b < e->steps->budgets.count; b++) {
        uint64_t always = is_base ? e->always_at[b][step] : e->always_before[b][step];
        uint64_t load = always + bytes_of(e, (m->live | m->made) & ~m->killed & e->arena_bits[b]);
        uint64_t limit = e->steps->budgets.items[b].bytes;
        m->excess[b] = load > limit ? load - limit : 0;
    }
    drop_in(e, m, 0, 0);
}

static void expand(exact *e, uint32_t index) {
    const weir_plan__steps *s = e->steps;
    state from = e->states[index];
    if (!(e->needed[from.step] & ~from.live)) {
        weir_plan__execution step = weir_plan__base_step(s, from.step);
        move m = {.before = index,
                  .to_step = from.step + 1u,
                  .cost = from.cost,
                  .live = from.live,
                  .host = from.host};
        m.made = step.is_back ? 0 : e->makes[step.node];
        m.killed = step.is_back ? 0 : e->killed[step.node];
        try_move(e, &m, e->needed[from.step], from.step, true);
    }
    for (uint32_t p = 0; p < from.step && p < s->node_count && !e->is_full; p++) {
        uint32_t node = s->order[p];
        if (!(e->makes[node] & e->useful[from.step] & ~from.live) || (e->reads[node] & ~from.live))
            continue;
        move m = {.before = index,
                  .ran = (uint8_t)(node + 1),
                  .to_step = from.step,
                  .cost = from.cost + s->costs[node],
                  .live = from.live,
                  .host = from.host,
                  .made = e->makes[node],
                  .killed = e->killed[node]};
        try_move(e, &m, e->reads[node], from.step, false);
    }
    uint64_t coming = from.host & e->useful[from.step] & ~from.live;
    for (; coming && !e->is_full; coming &= coming - 1) {
        unsigned bit = (unsigned)__builtin_ctzll(coming);
        move m = {.before = index,
                  .ran = (uint8_t)(RAN_IN + bit),
                  .to_step = from.step,
                  .cost = from.cost + weir_plan__move_of(s, e->tensors[bit]),
                  .live = from.live,
                  .host = from.host,
                  .made = (uint64_t)1 << bit};
        try_move(e, &m, 0, from.step, false);
    }
}

/* ---- The search --------------------------------------------------------------------------------- */

static void write_path(exact *e, uint32_t index, weir_plan__schedule *schedule) {
    const weir_plan__steps *s = e->steps;
    uint32_t after = 0;
    schedule->count = 0;
    for (uint32_t at = index, next; at > 0; at = next) { /* `before` becomes what follows */
        next = e->states[at].before;
        e->states[at].before = after;
        after = at;
    }
    for (uint32_t at = after; at > 0; at = e->states[at].before) {
        const state *to = &e->states[at];
        weir_plan__execution execution = {0};
        for (uint64_t saved = to->saved; saved; saved &= saved - 1) { /* first what goes out */
            execution.node = weir_plan__out_of(s, e->tensors[__builtin_ctzll(saved)]);
            weir_plan__schedule_add(s->env, schedule, execution);
        }
        if (to->ran == 0)
            execution = weir_plan__base_step(s, to->step - 1u);
        else
            execution.node =
                to->ran < RAN_IN ? to->ran - 1u : weir_plan__in_of(s, e->tensors[to->ran - RAN_IN]);
        weir_plan__schedule_add(s->env, schedule, execution);
    }
}

/* Whether what is there before the first step keeps the budgets. */
static bool start_fits(const exact *e) {
    const weir_plan__steps *s = e->steps;
    for (unsigned b = 0; b < e->steps->budgets.count; b++) {
        uint64_t load = bytes_of(e, e->given & e->arena_bits[b]);
        for (uint32_t t = 0; t < s->tensor_count; t++)
            if (s->permanent[t] && s->producer[t] == WEIR__NO_NAME &&
                s->arena[t] == e->steps->budgets.items[b].arena)
                load += s->sizes[t];
        if (load > e->steps->budgets.items[b].bytes)
            return false;
    }
    return true;
}

bool weir_plan__remat_exact(const weir_plan__steps *steps, uint64_t state_limit, uint64_t below,
                            weir_plan__schedule *schedule, bool *is_found, bool *is_ended) {
    const weir_env *env = steps->env;
    exact *e = weir__allocate_zero(env, 1, sizeof *e);
    *is_found = *is_ended = false;
    if (!e)
        return false;
    e->steps = steps;
    e->below = below;
    e->state_limit = state_limit;
    e->table_size = state_limit;
    e->table = weir__allocate_zero(env, e->table_size, sizeof *e->table);
    e->is_short_of_memory = !e->table;
    if (e->table) {
        find_masks(e);
        if (start_fits(e))
            reach(e, (state){.live = e->given & e->useful[0]});
    }
    while (e->heap_count > 0 && !e->is_full && !*is_found) {
        uint32_t index = heap_pop(e);
        const state *s = &e->states[index];
        if (best_cost(e, s->step, s->live, s->host) < s->cost)
            continue;
        if (s->step < steps->step_count) {
            expand(e, index);
            continue;
        }
        write_path(e, index, schedule);
        *is_found = true;
    }
    *is_ended = e->table && !e->is_full;
    bool has_memory = !e->is_short_of_memory && !schedule->is_short;
    weir__release(env, e->states);
    weir__release(env, e->heap);
    weir__release(env, e->table);
    weir__release(env, e);
    return has_memory;
}
