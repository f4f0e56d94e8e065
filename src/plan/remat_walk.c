/* One walk over the base steps that keeps within the budgets: where room is short, what costs least to make
 * again per byte is evicted, and what a step needs and is gone is made again, with whatever that needs; or it
 * goes to the host and comes back, if that is cheaper (docs/spec/03j-paging.md). The
 * idea is known from runtimes that rematerialise on the fly; here the future is known, so what nobody will
 * want goes first, and next needs settle ties. Remaking nests as deep as the graph: the stack is a list. */
#include "plan/steps.h"

typedef unsigned __int128 wide;

#define WALK_WORK_MAX ((uint64_t)1 << 31)

enum { CROSSING_WEIGHT = 64 };

/* What is being gathered: the tensors of a list, for the base step or for a node that runs again. */
typedef struct frame {
    weir_plan__list list;
    uint32_t at;
    weir_plan__execution execution;
} frame;

typedef struct candidate {
    uint64_t value;
    uint64_t size;
    uint64_t need;
    uint32_t tensor; /* WEIR__NO_NAME: none yet */
} candidate;

typedef struct walk {
    weir__arena memory; /* of all arrays */
    const weir_plan__steps *steps;
    const weir_plan__strategy *strategy;
    weir_plan__schedule *schedule;
    uint64_t *work;
    uint64_t work_of_eviction;
    uint64_t load[WEIR_PLAN__BUDGETS_MAX];
    uint64_t copied; /* bytes of all copies on the host */
    unsigned host;   /* its budget, or WEIR_PLAN__BUDGETS_MAX */
    bool *resident;
    bool *on_host;
    bool *crosses;
    bool *wanted;
    uint8_t *spared; /* outputs of the execution at hand */
    uint32_t *pins;
    uint32_t *cursor; /* a tensor: its next need */
    uint64_t *price;
    uint64_t *gradients_at;      /* a base step: bytes of gradients that live there */
    uint64_t *gradients_between; /* and across the border before it */
    frame *stack;
    uint32_t depth;
    uint32_t step;
    bool has_failed;
} walk;

/* ---- Getting ready ------------------------------------------------------------------------------ */

static bool open_walk(walk *w) {
    size_t tensors = (size_t)w->steps->tensor_count + 1;
    size_t places = (size_t)w->steps->step_count + 2;
    weir__arena_init(&w->memory, w->steps->env);
    w->resident = weir__arena_take_zero(&w->memory, tensors, sizeof *w->resident);
    w->on_host = weir__arena_take_zero(&w->memory, tensors, sizeof *w->on_host);
    w->crosses = weir__arena_take_zero(&w->memory, tensors, sizeof *w->crosses);
    w->wanted = weir__arena_take_zero(&w->memory, tensors, sizeof *w->wanted);
    w->spared = weir__arena_take_zero(&w->memory, tensors, sizeof *w->spared);
    w->pins = weir__arena_take_zero(&w->memory, tensors, sizeof *w->pins);
    w->cursor = weir__arena_take_zero(&w->memory, tensors, sizeof *w->cursor);
    w->price = weir__arena_take_zero(&w->memory, tensors, sizeof *w->price);
    w->gradients_at = weir__arena_take_zero(&w->memory, places, sizeof *w->gradients_at);
    w->gradients_between = weir__arena_take_zero(&w->memory, places, sizeof *w->gradients_between);
    w->stack = weir__arena_take_zero(&w->memory, (size_t)w->steps->node_count + 2, sizeof *w->stack);
    return !w->memory.is_short;
}

static void begin(walk *w) {
    const weir_plan__steps *s = w->steps;
    uint32_t segments = w->strategy->segments;
    uint32_t length = segments > 0 ? (s->node_count + segments - 1) / segments : 0;
    for (uint32_t t = 0; t < s->tensor_count; t++) {
        unsigned budget = weir_plan__budget_of(s, s->arena[t]);
        w->resident[t] = s->producer[t] == WEIR__NO_NAME;
        w->cursor[t] = s->needs.first[t];
        if (w->resident[t] && budget != WEIR_PLAN__BUDGETS_MAX)
            w->load[budget] += s->sizes[t];
        if (length == 0)
            continue;
        uint32_t made = w->resident[t] ? 0 : s->place[s->producer[t]] / length;
        weir_plan__list needs = weir_plan__list_at(&s->needs, t);
        for (uint32_t i = 0; i < needs.count && needs.items[i] < s->node_count; i++)
            w->crosses[t] |= needs.items[i] / length != made;
    }
    w->has_failed = !weir_plan__within(s, w->load);
    w->host = s->link.bytes ? weir_plan__budget_of(s, s->host) : WEIR_PLAN__BUDGETS_MAX;
    w->work_of_eviction = s->tensor_count + (uint64_t)s->inputs.first[s->node_count];
    for (uint32_t i = 0; i < s->gradient_count && s->node_count > 0; i++) {
        const weir_plan__gradient_life *g = &s->gradients[i];
        w->gradients_at[g->first] += g->size;
        w->gradients_at[g->last + 1] -= g->size;
        w->gradients_between[g->first + 1] += g->size;
        w->gradients_between[g->last + 1] -= g->size;
    }
    for (uint32_t i = 1; i < s->step_count + 2; i++) {
        w->gradients_at[i] += w->gradients_at[i - 1];
        w->gradients_between[i] += w->gradients_between[i - 1];
    }
}

/* ---- What to evict ------------------------------------------------------------------------------ */

static uint64_t next_need(walk *w, uint32_t tensor) {
    const weir_plan__lists *needs = &w->steps->needs;
    while (w->cursor[tensor] < needs->first[tensor + 1] && needs->items[w->cursor[tensor]] < w->step)
        w->cursor[tensor]++;
    return w->cursor[tensor] < needs->first[tensor + 1] ? needs->items[w->cursor[tensor]]
                                                        : WEIR_PLAN__COST_NEVER;
}

static uint32_t nodes_done(const walk *w) {
    return w->step < w->steps->node_count ? w->step : w->steps->node_count;
}

static void find_prices(walk *w) {
    const weir_plan__steps *s = w->steps;
    for (uint32_t t = 0; t < s->tensor_count; t++)
        w->price[t] = s->producer[t] == WEIR__NO_NAME ? WEIR_PLAN__COST_NEVER : 0;
    for (uint32_t p = 0; p < nodes_done(w); p++) {
        uint32_t node = s->order[p];
        weir_plan__list inputs = weir_plan__list_at(&s->inputs, node);
        weir_plan__list outputs = weir_plan__list_at(&s->outputs, node);
        uint64_t cost = s->costs[node];
        for (uint32_t i = 0; i < inputs.count && cost < WEIR_PLAN__COST_NEVER; i++) {
            uint32_t t = inputs.items[i];
            cost += w->resident[t] ? 0 : w->on_host[t] ? weir_plan__move_of(s, t) : w->price[t];
        }
        for (uint32_t i = 0; i < outputs.count; i++)
            w->price[outputs.items[i]] = cost < WEIR_PLAN__COST_NEVER ? cost : WEIR_PLAN__COST_NEVER;
    }
}

static void find_wanted(walk *w) {
    const weir_plan__steps *s = w->steps;
    for (uint32_t t = 0; t < s->tensor_count; t++)
        w->wanted[t] = next_need(w, t) < WEIR_PLAN__COST_NEVER;
    for (uint32_t p = nodes_done(w); p-- > 0;) {
        weir_plan__list inputs = weir_plan__list_at(&s->inputs, s->order[p]);
        weir_plan__list outputs = weir_plan__list_at(&s->outputs, s->order[p]);
        bool is_wanted = false;
        for (uint32_t i = 0; i < outputs.count && !is_wanted; i++)
            is_wanted = w->wanted[outputs.items[i]] && !w->resident[outputs.items[i]] &&
                        !w->on_host[outputs.items[i]];
        for (uint32_t i = 0; i < inputs.count && is_wanted; i++)
            w->wanted[inputs.items[i]] = true;
    }
}

static uint64_t noise(uint32_t seed, uint32_t tensor) {
    uint64_t x = seed * UINT64_C(0x9E3779B97F4A7C15) + tensor * UINT64_C(0xBF58476D1CE4E5B9);
    x ^= x >> 31;
    x *= UINT64_C(0x94D049BB133111EB);
    return x >> 61;
}

static uint64_t below_never(wide value) {
    return value < WEIR_PLAN__COST_NEVER ? (uint64_t)value : WEIR_PLAN__COST_NEVER - 1;
}

/* Whether going to the host and coming back is cheaper than being made again. */
static bool is_better_paged(const walk *w, uint32_t t) {
    const weir_plan__steps *s = w->steps;
    if (!w->strategy->pages || w->on_host[t] || !weir_plan__can_be_paged(s, t))
        return false;
    return 2 * weir_plan__move_of(s, t) < w->price[t] &&
           (w->host == WEIR_PLAN__BUDGETS_MAX ||
            w->copied + s->sizes[s->tensor_count + t] <= s->budgets.items[w->host].bytes);
}

/* What having a tensor back costs, if it is wanted, as the strategy sees it. WEIR_PLAN__COST_NEVER: it cannot
 * be had. */
static uint64_t value_of(const walk *w, uint32_t t, uint64_t need) {
    const weir_plan__steps *s = w->steps;
    uint64_t value = 0;
    if (w->wanted[t])
        value = w->on_host[t]           ? weir_plan__move_of(s, t)
                : is_better_paged(w, t) ? 2 * weir_plan__move_of(s, t)
                                        : w->price[t];
    if (value >= WEIR_PLAN__COST_NEVER)
        return WEIR_PLAN__COST_NEVER;
    if (w->strategy->by_distance && need < WEIR_PLAN__COST_NEVER)
        value >>= 63 - __builtin_clzll(need - w->step + 1);
    if (w->crosses[t])
        value = below_never((wide)value * CROSSING_WEIGHT);
    if (w->strategy->seed)
        value = below_never((wide)value * (8 + noise(w->strategy->seed, t)) / 8);
    return value;
}

static bool precedes(const candidate *a, const candidate *b) {
    wide left = (wide)a->value * b->size;
    wide right = (wide)b->value * a->size;
    if (left != right)
        return left < right;
    return a->need != b->need ? a->need > b->need : a->tensor < b->tensor;
}

static void add_execution(walk *w, weir_plan__execution execution) {
    weir_plan__schedule_add(w->steps->env, w->schedule, execution);
    w->has_failed |= w->schedule->is_short;
}

/* Drops the tensor of the budget's arena that costs least to have back, per byte, and keeps a copy on the
 * host if that is the cheaper way back. */
static void evict(walk *w, unsigned budget) {
    const weir_plan__steps *s = w->steps;
    candidate best = {.tensor = WEIR__NO_NAME};
    *w->work += w->work_of_eviction;
    if (*w->work > WALK_WORK_MAX) {
        w->has_failed = true;
        return;
    }
    find_prices(w);
    find_wanted(w);
    for (uint32_t t = 0; t < s->tensor_count; t++) {
        if (!w->resident[t] || s->arena[t] != s->budgets.items[budget].arena || s->sizes[t] == 0 ||
            s->permanent[t] || w->pins[t] > 0 || w->spared[t])
            continue;
        uint64_t need = next_need(w, t);
        candidate other = {value_of(w, t, need), s->sizes[t], need, t};
        if (other.value >= WEIR_PLAN__COST_NEVER)
            continue;
        if (best.tensor == WEIR__NO_NAME || precedes(&other, &best))
            best = other;
    }
    if (best.tensor == WEIR__NO_NAME) {
        w->has_failed = true;
        return;
    }
    if (w->wanted[best.tensor] && is_better_paged(w, best.tensor)) {
        add_execution(w, (weir_plan__execution){weir_plan__out_of(s, best.tensor), false, false});
        w->on_host[best.tensor] = true;
        w->copied += s->sizes[s->tensor_count + best.tensor];
    }
    w->resident[best.tensor] = false;
    w->load[budget] -= best.size;
}

/* ---- Running ------------------------------------------------------------------------------------ */

/* Evicts until what is made has room, and counts that in. */
static void make_room(walk *w, weir_plan__execution execution) {
    const weir_plan__steps *s = w->steps;
    weir_plan__list makes = weir_plan__makes_of(s, execution);
    uint32_t killed = weir_plan__kills_of(s, execution);
    for (unsigned b = 0; b < s->budgets.count && !w->has_failed; b++) {
        const weir_plan__budget *budget = &s->budgets.items[b];
        uint64_t more = 0; /* less than nothing if the step overwrites: then it wraps, as it should */
        uint64_t fixed = 0;
        if (b == w->host)
            continue;
        for (uint32_t i = 0; i < makes.count; i++) {
            uint32_t made = makes.items[i];
            more += s->arena[made] == budget->arena && !w->resident[made] ? s->sizes[made] : 0;
        }
        if (killed != WEIR__NO_NAME && s->arena[killed] == budget->arena)
            more -= s->sizes[killed];
        if (budget->arena == WEIR_PLAN__ARENA_GRADIENTS)
            fixed = execution.is_base ? w->gradients_at[w->step] : w->gradients_between[w->step];
        while (!w->has_failed && w->load[b] + fixed + more > budget->bytes)
            evict(w, b);
        w->load[b] += more;
    }
}

static void execute(walk *w, weir_plan__execution execution) {
    weir_plan__list makes = weir_plan__makes_of(w->steps, execution);
    uint32_t killed = weir_plan__kills_of(w->steps, execution);
    if (w->schedule->count >= 16 * (uint64_t)w->steps->step_count + 64) {
        w->has_failed = true;
        return;
    }
    for (uint32_t i = 0; i < makes.count; i++)
        w->spared[makes.items[i]] = 1;
    make_room(w, execution);
    for (uint32_t i = 0; i < makes.count; i++) {
        w->spared[makes.items[i]] = 0;
        w->resident[makes.items[i]] = true;
    }
    if (killed != WEIR__NO_NAME)
        w->resident[killed] = false;
    add_execution(w, execution);
}

/* Gathers what an execution reads. */
static void push(walk *w, weir_plan__execution execution) {
    weir_plan__list list = weir_plan__reads_of(w->steps, execution);
    for (uint32_t i = 0; i < list.count; i++)
        w->pins[list.items[i]]++;
    w->stack[w->depth++] = (frame){.list = list, .execution = execution};
}

/* Runs what the frame on top was gathered for. */
static void finish_frame(walk *w) {
    const frame *top = &w->stack[w->depth - 1];
    for (uint32_t i = 0; i < top->list.count; i++)
        w->has_failed |= !w->resident[top->list.items[i]];
    if (w->has_failed)
        return;
    execute(w, top->execution);
    for (uint32_t i = 0; i < top->list.count; i++)
        w->pins[top->list.items[i]]--;
    w->depth--;
    if (!top->execution.is_base)
        w->stack[w->depth - 1].at++;
}

static void run_step(walk *w, uint32_t index) {
    w->step = index;
    push(w, weir_plan__base_step(w->steps, index));
    while (w->depth > 0 && !w->has_failed) {
        frame *top = &w->stack[w->depth - 1];
        while (top->at < top->list.count && w->resident[top->list.items[top->at]])
            top->at++;
        if (top->at == top->list.count) {
            finish_frame(w);
            continue;
        }
        uint32_t missing = top->list.items[top->at];
        uint32_t producer = w->steps->producer[missing];
        if (w->on_host[missing])
            execute(w, (weir_plan__execution){.node = weir_plan__in_of(w->steps, missing)});
        else if (producer == WEIR__NO_NAME)
            w->has_failed = true;
        else
            push(w, (weir_plan__execution){.node = producer});
    }
}

bool weir_plan__remat_walk(const weir_plan__steps *steps, const weir_plan__strategy *strategy, uint64_t *work,
                           weir_plan__schedule *schedule, bool *is_found) {
    walk w = {.steps = steps, .strategy = strategy, .schedule = schedule, .work = work};
    bool has_memory = open_walk(&w);
    schedule->count = 0;
    if (has_memory) {
        begin(&w);
        for (uint32_t s = 0; s < steps->step_count && !w.has_failed; s++)
            run_step(&w, s);
    }
    *is_found = has_memory && !w.has_failed;
    weir__arena_release(&w.memory);
    return has_memory && !schedule->is_short;
}
