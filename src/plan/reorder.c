/* Orders of a graph's nodes that may need less memory: a greedy one, and windows in which every order is
 * tried at once, by subsets. What is live while a node runs depends on the set of nodes before it, not on
 * their order, forward and in the backward step alike; so a window between two fixed sets can be settled by
 * itself, and only gets lower. */
#include <string.h>

#include "plan/steps.h"

enum { WIDTH_MAX = 10, REORDER_NODES_MAX = 1 << 16, REORDER_ARENAS_MAX = 64 };

/* What is live as nodes are run one by one, without backward steps and overwriting. */
typedef struct front {
    weir__arena memory; /* of all arrays */
    const weir_plan__steps *steps;
    uint32_t *left;     /* a tensor: readers that have not run */
    bool *stays;        /* a tensor: permanent, or some backward step needs it */
    uint64_t *gradient; /* a tensor: bytes of its gradient */
    bool *has_gradient;
    weir_plan__lists users; /* a tensor: the nodes that read it */
    int64_t live;
    int64_t back; /* gradients that live in the backward step of what runs next */
} front;

/* Readers are the needs below the first backward step. False: no memory. */
static bool open_front(front *f) {
    const weir_plan__steps *s = f->steps;
    size_t tensors = (size_t)s->tensor_count + 1;
    uint32_t at = 0;
    weir__arena_init(&f->memory, s->env);
    f->left = weir__arena_take_zero(&f->memory, tensors, sizeof *f->left);
    f->stays = weir__arena_take_zero(&f->memory, tensors, sizeof *f->stays);
    f->gradient = weir__arena_take_zero(&f->memory, tensors, sizeof *f->gradient);
    f->has_gradient = weir__arena_take_zero(&f->memory, tensors, sizeof *f->has_gradient);
    f->users.first = weir__arena_take_zero(&f->memory, tensors + 1, sizeof *f->users.first);
    f->users.items =
        weir__arena_take_zero(&f->memory, (size_t)s->inputs.first[s->node_count] + 1, sizeof *f->users.items);
    if (f->memory.is_short)
        return false;
    for (uint32_t t = 0; t < s->tensor_count; t++) {
        weir_plan__list needs = weir_plan__list_at(&s->needs, t);
        for (uint32_t i = 0; i < needs.count && needs.items[i] < s->node_count; i++)
            f->users.items[at++] = s->order[needs.items[i]];
        f->stays[t] = s->permanent[t] || (needs.count > 0 && needs.items[needs.count - 1] >= s->node_count);
        f->users.first[t + 1] = at;
    }
    for (uint32_t i = 0; i < s->gradient_count; i++) {
        f->gradient[s->gradients[i].tensor] = s->gradients[i].size;
        f->has_gradient[s->gradients[i].tensor] = true;
    }
    return true;
}

static uint32_t user_count(const front *f, uint32_t tensor) {
    return f->users.first[tensor + 1] - f->users.first[tensor];
}

static bool is_born(const front *f, uint32_t tensor) {
    return f->steps->is_output[tensor] || user_count(f, tensor) == 0 || f->left[tensor] > 0;
}

/* A tensor that was made: what it adds. */
static void count_in(front *f, uint32_t tensor, int64_t sign) {
    if (f->stays[tensor] || f->left[tensor] > 0)
        f->live += sign * (int64_t)f->steps->sizes[tensor];
    if (f->has_gradient[tensor] && is_born(f, tensor))
        f->back += sign * (int64_t)f->gradient[tensor];
}

static void restart(front *f) {
    const weir_plan__steps *s = f->steps;
    f->live = f->back = 0;
    for (uint32_t t = 0; t < s->tensor_count; t++) {
        f->left[t] = user_count(f, t);
        if (s->producer[t] == WEIR__NO_NAME)
            count_in(f, t, 1);
    }
}

static void advance(front *f, uint32_t node) {
    weir_plan__list inputs = weir_plan__list_at(&f->steps->inputs, node);
    weir_plan__list outputs = weir_plan__list_at(&f->steps->outputs, node);
    for (uint32_t i = 0; i < inputs.count; i++) {
        count_in(f, inputs.items[i], -1);
        f->left[inputs.items[i]]--;
        count_in(f, inputs.items[i], 1);
    }
    for (uint32_t i = 0; i < outputs.count; i++)
        count_in(f, outputs.items[i], 1);
}

/* The fullest moments of an order: forward, and of gradients. */
static void find_fullest(front *f, const uint32_t *order, int64_t full[2]) {
    restart(f);
    full[0] = full[1] = 0;
    for (uint32_t p = 0; p < f->steps->node_count; p++) {
        weir_plan__list outputs = weir_plan__list_at(&f->steps->outputs, order[p]);
        int64_t forward = f->live;
        int64_t back = f->back;
        for (uint32_t i = 0; i < outputs.count; i++) {
            uint32_t t = outputs.items[i];
            forward += (int64_t)f->steps->sizes[t];
            back += f->has_gradient[t] && is_born(f, t) ? (int64_t)f->gradient[t] : 0;
        }
        full[0] = forward > full[0] ? forward : full[0];
        full[1] = back > full[1] ? back : full[1];
        advance(f, order[p]);
    }
}

/* ---- Greedy ------------------------------------------------------------------------------------- */

static int64_t adds(const front *f, uint32_t node) {
    weir_plan__list inputs = weir_plan__list_at(&f->steps->inputs, node);
    weir_plan__list outputs = weir_plan__list_at(&f->steps->outputs, node);
    int64_t sum = 0;
    for (uint32_t i = 0; i < outputs.count; i++)
        if (f->left[outputs.items[i]] > 0 || f->stays[outputs.items[i]])
            sum += (int64_t)f->steps->sizes[outputs.items[i]];
    for (uint32_t i = 0; i < inputs.count; i++)
        if (f->left[inputs.items[i]] == 1 && !f->stays[inputs.items[i]])
            sum -= (int64_t)f->steps->sizes[inputs.items[i]];
    return sum;
}

/* The place in `ready` of the node that adds least, of equal ones the first of the given order. */
static uint32_t choose(const front *f, const uint32_t *ready, uint32_t count) {
    uint32_t best = 0;
    int64_t least = adds(f, ready[0]);
    for (uint32_t i = 1; i < count; i++) {
        int64_t more = adds(f, ready[i]);
        if (more < least || (more == least && f->steps->place[ready[i]] < f->steps->place[ready[best]])) {
            best = i;
            least = more;
        }
    }
    return best;
}

/* `waits` and `ready` have room for all nodes. */
static void order_greedily(front *f, uint32_t *waits, uint32_t *ready, uint32_t *order) {
    const weir_plan__steps *s = f->steps;
    uint32_t count = 0;
    restart(f);
    for (uint32_t i = 0; i < s->node_count; i++) {
        weir_plan__list inputs = weir_plan__list_at(&s->inputs, i);
        waits[i] = 0;
        for (uint32_t k = 0; k < inputs.count; k++)
            waits[i] += s->producer[inputs.items[k]] != WEIR__NO_NAME;
        if (waits[i] == 0)
            ready[count++] = i;
    }
    for (uint32_t p = 0; p < s->node_count; p++) {
        uint32_t at = choose(f, ready, count);
        uint32_t node = ready[at];
        ready[at] = ready[--count];
        order[p] = node;
        advance(f, node);
        weir_plan__list outputs = weir_plan__list_at(&s->outputs, node);
        for (uint32_t i = 0; i < outputs.count; i++) {
            weir_plan__list users = weir_plan__list_at(&f->users, outputs.items[i]);
            for (uint32_t k = 0; k < users.count; k++)
                if (--waits[users.items[k]] == 0)
                    ready[count++] = users.items[k];
        }
    }
}

/* ---- Windows ------------------------------------------------------------------------------------ */

/* A tensor that a node of the window reads or makes; nodes of the window are bits. */
typedef struct touched {
    uint32_t tensor;
    int64_t size;
    int64_t gradient; /* 0: none */
    uint32_t readers;
    uint32_t maker; /* 0: made before */
    bool stays;     /* or is read after the window */
    bool is_born;   /* its gradient is, whatever runs in the window */
} touched;

typedef struct subset {
    int64_t height;
    uint32_t last; /* in the window */
    bool is_reachable;
} subset;

typedef struct window {
    uint32_t nodes[WIDTH_MAX];
    uint32_t waits[WIDTH_MAX]; /* nodes of the window that must have run */
    uint32_t count;
    touched *tensors;
    size_t tensor_count;
    size_t tensor_capacity;
    subset *subsets;
    int64_t others; /* bytes of what the window does not touch, less the fullest moment */
    int64_t others_back;
    bool has_gradients;
} window;

static touched *touch(const front *f, window *w, uint32_t tensor) {
    for (size_t i = 0; i < w->tensor_count; i++)
        if (w->tensors[i].tensor == tensor)
            return &w->tensors[i];
    if (!weir__grow(f->steps->env, (void **)&w->tensors, &w->tensor_capacity, w->tensor_count + 1,
                    sizeof *w->tensors))
        return NULL;
    w->tensors[w->tensor_count] =
        (touched){.tensor = tensor,
                  .size = (int64_t)f->steps->sizes[tensor],
                  .gradient = f->has_gradient[tensor] ? (int64_t)f->gradient[tensor] : 0};
    return &w->tensors[w->tensor_count++];
}

/* What the window's tensors are, and what the others take. False: no memory. */
static bool measure_window(const front *f, window *w, const int64_t full[2]) {
    w->tensor_count = 0;
    w->others = f->live - full[0];
    w->others_back = f->back - full[1];
    for (uint32_t i = 0; i < w->count; i++) {
        weir_plan__list inputs = weir_plan__list_at(&f->steps->inputs, w->nodes[i]);
        weir_plan__list outputs = weir_plan__list_at(&f->steps->outputs, w->nodes[i]);
        w->waits[i] = 0;
        for (uint32_t k = 0; k < inputs.count + outputs.count; k++) {
            bool is_input = k < inputs.count;
            touched *t = touch(f, w, is_input ? inputs.items[k] : outputs.items[k - inputs.count]);
            if (!t)
                return false;
            *(is_input ? &t->readers : &t->maker) |= (uint32_t)1 << i;
        }
    }
    for (size_t i = 0; i < w->tensor_count; i++) {
        touched *t = &w->tensors[i];
        bool is_read_after = f->left[t->tensor] > (uint32_t)__builtin_popcount(t->readers);
        if (!t->maker) {
            w->others -= f->stays[t->tensor] || f->left[t->tensor] > 0 ? t->size : 0;
            w->others_back -= is_born(f, t->tensor) ? t->gradient : 0;
        }
        t->stays = f->stays[t->tensor] || is_read_after;
        t->is_born = f->steps->is_output[t->tensor] || user_count(f, t->tensor) == 0 || is_read_after;
        for (uint32_t k = 0; k < w->count; k++)
            w->waits[k] |= t->readers >> k & 1 ? t->maker : 0;
    }
    return true;
}

static int64_t height(const window *w, uint32_t done, uint32_t node) {
    uint32_t running = (uint32_t)1 << node;
    int64_t forward = w->others;
    int64_t back = w->others_back;
    for (size_t i = 0; i < w->tensor_count; i++) {
        const touched *t = &w->tensors[i];
        bool is_made = !t->maker || (t->maker & done);
        if (((t->readers | t->maker) & running) || (is_made && (t->stays || (t->readers & ~done))))
            forward += t->size;
        if ((t->is_born || (t->readers & ~done)) && (is_made || (t->maker & running)))
            back += t->gradient;
    }
    return w->has_gradients && back > forward ? back : forward;
}

/* The nodes in their best order, if its highest moment is lower than now. */
static void settle(window *w) {
    uint32_t all = ((uint32_t)1 << w->count) - 1;
    uint32_t nodes[WIDTH_MAX];
    int64_t now = INT64_MIN;
    w->subsets[0] = (subset){INT64_MIN, 0, true};
    for (uint32_t mask = 1; mask <= all; mask++) {
        subset *own = &w->subsets[mask];
        *own = (subset){0};
        for (uint32_t i = 0; i < w->count; i++) {
            uint32_t rest = mask & ~((uint32_t)1 << i);
            if (rest == mask || !w->subsets[rest].is_reachable || (w->waits[i] & ~rest))
                continue;
            int64_t top = height(w, rest, i);
            top = top > w->subsets[rest].height ? top : w->subsets[rest].height;
            if (!own->is_reachable || top < own->height)
                *own = (subset){top, i, true};
        }
    }
    for (uint32_t i = 0; i < w->count; i++) {
        int64_t here = height(w, ((uint32_t)1 << i) - 1, i);
        now = here > now ? here : now;
    }
    if (w->subsets[all].height >= now)
        return;
    memcpy(nodes, w->nodes, sizeof nodes);
    for (uint32_t mask = all, at = w->count; mask; mask &= ~((uint32_t)1 << w->subsets[mask].last))
        w->nodes[--at] = nodes[w->subsets[mask].last];
}

/* Windows that overlap by half, over the whole order, until a round changes nothing. */
static bool improve(front *f, uint32_t effort, uint32_t *order, uint32_t *before) {
    const weir_env *env = f->steps->env;
    uint32_t count = f->steps->node_count;
    uint32_t width = 6 + effort / 2;
    window w = {.has_gradients = f->steps->gradient_count > 0};
    w.subsets = weir__allocate(env, (size_t)1 << width, sizeof *w.subsets);
    bool has_memory = w.subsets != NULL;
    assert(width <= WIDTH_MAX && "a window has room for its nodes");
    for (uint32_t round = 0; has_memory && round < effort; round++) {
        int64_t full[2];
        memcpy(before, order, count * sizeof *order);
        find_fullest(f, order, full);
        restart(f);
        for (uint32_t start = 0; has_memory && start + 1 < count; start += width / 2) {
            w.count = count - start < width ? count - start : width;
            memcpy(w.nodes, order + start, w.count * sizeof *order);
            has_memory = measure_window(f, &w, full);
            if (!has_memory)
                break;
            settle(&w);
            memcpy(order + start, w.nodes, w.count * sizeof *order);
            for (uint32_t i = start; i < start + width / 2 && i < count; i++)
                advance(f, order[i]);
        }
        if (memcmp(before, order, count * sizeof *order) == 0)
            break;
    }
    weir__release(env, w.subsets);
    weir__release(env, w.tensors);
    return has_memory;
}

/* ---- The best of some orders --------------------------------------------------------------------- */

typedef struct ordering {
    const weir_env *env;
    const weir_graph *graph;
    weir_plan__graph_mode mode;
    weir_plan__limits limits; /* without a link */
    weir__arena memory;       /* of all arrays */
    uint32_t *position;       /* scratch */
} ordering;

static weir_status no_memory(const ordering *o, weir_error *error) {
    return weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR,
                               weir_plan__node_count(o->graph) * sizeof *o->position);
}

/* The sum over arenas of the largest live bytes of the base steps. False: no memory. */
static bool find_peak(const weir_plan__steps *s, uint64_t *peak) {
    weir_plan__schedule base = {0};
    weir_plan__schedule_base(s, &base);
    bool has_memory = !base.is_short;
    *peak = 0;
    for (uint32_t arena = 0; has_memory && arena < s->arena_count; arena++) {
        weir_plan__steps one = *s;
        uint64_t own = 0;
        one.budgets = (weir_plan__budgets){.items = {{.arena = arena}}, .count = 1};
        has_memory = weir_plan__schedule_peaks(&one, &base, &own, NULL);
        *peak += own;
    }
    weir_plan__schedule_release(s->env, &base);
    return has_memory;
}

/* The steps of an order, which the caller releases in any case, and their peak. */
static weir_status weigh_order(const ordering *o, const uint32_t *order, weir_plan__steps *steps,
                               uint64_t *peak, weir_error *error) {
    weir_plan plan = {.env = o->env, .memory = {.env = o->env}, .mode = o->mode};
    weir_plan__liveness liveness = {
        .order = order, .position = o->position, .shares_places = o->graph->has_aliases};
    for (uint32_t p = 0; p < weir_plan__node_count(o->graph); p++)
        o->position[order[p]] = p + 1;
    *steps = (weir_plan__steps){.env = plan.env};
    weir_status status = weir_plan__analyze_liveness(o->graph, &plan, &liveness, error);
    if (status == WEIR_OK)
        status = weir_plan__steps_make(o->graph, &plan, &liveness, &o->limits, steps, error);
    if (status == WEIR_OK && !find_peak(steps, peak))
        status = no_memory(o, error);
    weir__arena_release(&liveness.memory);
    weir__arena_release(&plan.memory);
    return status;
}

/* Three candidates: the given order with better windows, a greedy one, and that with better windows. `best`
 * is the given order at first. */
static weir_status try_candidates(ordering *o, front *f, uint32_t *best, weir_plan_reorder *found,
                                  weir_error *error) {
    size_t nodes = weir_plan__node_count(o->graph);
    uint32_t *order = weir__arena_take(&o->memory, nodes * sizeof *order);
    uint32_t *waits = weir__arena_take(&o->memory, nodes * sizeof *waits);
    uint32_t *ready = weir__arena_take(&o->memory, nodes * sizeof *ready);
    if (o->memory.is_short)
        return no_memory(o, error);
    memcpy(order, best, nodes * sizeof *order);
    for (unsigned i = 0; i < 3 && found->peak > found->lower_bound; i++) {
        weir_plan__steps steps;
        uint64_t peak;
        if (i == 1)
            order_greedily(f, waits, ready, order);
        else if (o->limits.effort == 0)
            continue;
        else if (!improve(f, o->limits.effort, order, waits))
            return no_memory(o, error);
        weir_status status = weigh_order(o, order, &steps, &peak, error);
        weir_plan__steps_release(&steps);
        if (status == WEIR_INVALID_IR && o->graph->has_aliases) /* it would overwrite a place too early */
            continue;
        if (status != WEIR_OK)
            return status;
        if (peak < found->peak) {
            memcpy(best, order, nodes * sizeof *best);
            found->peak = peak;
            found->is_changed = true;
        }
    }
    return WEIR_OK;
}

weir_status weir_plan__find_better_order(const weir_env *env, const weir_graph *graph,
                                         weir_plan__graph_mode mode, const uint32_t *given,
                                         const weir_plan__limits *limits, uint32_t **order,
                                         weir_plan_reorder *found, weir_error *error) {
    size_t nodes = weir_plan__node_count(graph);
    ordering o = {.env = env, .graph = graph, .mode = mode, .limits = *limits};
    weir_plan__steps steps = {.env = env};
    front f = {.steps = &steps};
    *order = NULL;
    *found = (weir_plan_reorder){.is_tried = true};
    if (nodes > REORDER_NODES_MAX || graph->arenas.count > REORDER_ARENAS_MAX)
        return WEIR_OK;
    o.limits.link = (weir_plan__link){0};
    weir__arena_init(&o.memory, env);
    o.position = weir__arena_take(&o.memory, nodes * sizeof *o.position);
    uint32_t *best = weir__allocate(env, nodes, sizeof *best);
    weir_status status = WEIR_OK;
    if (!o.position || !best)
        status = no_memory(&o, error);
    if (status == WEIR_OK) {
        memcpy(best, given, nodes * sizeof *best);
        status = weigh_order(&o, best, &steps, &found->given_peak, error);
    }
    found->peak = found->given_peak;
    if (status == WEIR_OK && !(weir_plan__order_bound(&steps, &found->lower_bound) && open_front(&f)))
        status = no_memory(&o, error);
    if (status == WEIR_OK)
        status = try_candidates(&o, &f, best, found, error);
    weir__arena_release(&f.memory);
    weir_plan__steps_release(&steps);
    weir__arena_release(&o.memory);
    if (status == WEIR_OK && found->is_changed)
        *order = best;
    else
        weir__release(env, best);
    return status;
}
