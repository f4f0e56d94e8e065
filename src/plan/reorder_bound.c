/* What no order can beat. At one step the nodes are split into those before it and those after it, and a
 * tensor is live if its maker is on one side and a reader on the other: the least over all orders is a least
 * cut. Where the cut puts a node on another side than the order at hand, both sides are tried, with what
 * that node itself then needs: of two branches that must run one after the other, either may be first, but
 * one of them is. */
#include <string.h>

#include "plan/steps.h"

enum { BOUND_STEPS = 64, BOUND_DEPTH = 2, BOUND_WORK_LOG2 = 20, DEPTH_SIZE_LOG2 = 14 };

/* ---- Largest flows ------------------------------------------------------------------------------- */

/* Dinic's algorithm: levels by breadth first, then paths along rising levels, until the sink is out of reach.
 * Paths are walked with a list of edges, not by recursion. */
#define FOREVER ((uint64_t)1 << 62)

typedef struct flow_edge {
    uint64_t room;
    uint32_t to;
    uint32_t next; /* of the same node, + 1; its reverse is the edge beside it */
} flow_edge;

typedef struct flow {
    const weir_env *env;
    flow_edge *edges;
    size_t edge_count;
    size_t edge_capacity;
    uint32_t *first; /* a node's first edge, + 1; all arrays of nodes are one allocation */
    uint32_t *level;
    uint32_t *cursor;
    uint32_t *queue;
    uint32_t node_count;
    bool is_short_of_memory;
} flow;

enum { UNREACHED = 0 };

static void open_flow(const weir_env *env, uint32_t nodes, flow *f) {
    *f = (flow){.env = env, .first = weir__allocate(env, nodes, 4 * sizeof *f->first), .node_count = nodes};
    f->is_short_of_memory = !f->first;
    if (!f->first)
        return;
    f->level = f->first + nodes;
    f->cursor = f->level + nodes;
    f->queue = f->cursor + nodes;
}

static void close_flow(flow *f) {
    weir__release(f->env, f->first);
    weir__release(f->env, f->edges);
}

static void add_half(flow *f, uint32_t from, uint32_t to, uint64_t room) {
    f->edges[f->edge_count] = (flow_edge){room, to, f->first[from]};
    f->first[from] = (uint32_t)++f->edge_count;
}

static void add_edge(flow *f, uint32_t from, uint32_t to, uint64_t capacity) {
    if (f->is_short_of_memory)
        return;
    if (f->edge_count + 2 > f->edge_capacity &&
        (f->edge_count > UINT32_MAX - 4 ||
         !weir__grow(f->env, (void **)&f->edges, &f->edge_capacity, f->edge_count + 2, sizeof *f->edges))) {
        f->is_short_of_memory = true;
        return;
    }
    add_half(f, from, to, capacity);
    add_half(f, to, from, 0);
}

/* Levels from 1 at the source. */
static bool find_levels(flow *f, uint32_t source, uint32_t sink) {
    uint32_t head = 0;
    uint32_t tail = 0;
    memset(f->level, 0, f->node_count * sizeof *f->level);
    f->level[source] = 1;
    f->queue[tail++] = source;
    while (head < tail) {
        uint32_t node = f->queue[head++];
        for (uint32_t e = f->first[node]; e != 0; e = f->edges[e - 1].next) {
            const flow_edge *edge = &f->edges[e - 1];
            if (edge->room > 0 && f->level[edge->to] == UNREACHED) {
                f->level[edge->to] = f->level[node] + 1;
                f->queue[tail++] = edge->to;
            }
        }
    }
    return f->level[sink] != UNREACHED;
}

/* The least room along the path of `depth` edges, taken from it; *cut is the first edge that is full then. */
static uint64_t push_along(flow *f, const uint32_t *path, uint32_t depth, uint32_t *cut) {
    uint64_t room = UINT64_MAX;
    for (uint32_t i = 0; i < depth; i++)
        room = f->edges[path[i]].room < room ? f->edges[path[i]].room : room;
    *cut = depth;
    for (uint32_t i = depth; i-- > 0;) {
        f->edges[path[i]].room -= room;
        f->edges[path[i] ^ 1].room += room;
        if (f->edges[path[i]].room == 0)
            *cut = i;
    }
    return room;
}

/* Blocks all paths of the levels. The path's edges take the place of the queue. */
static uint64_t block(flow *f, uint32_t source, uint32_t sink) {
    uint32_t *path = f->queue;
    uint32_t depth = 0;
    uint32_t node = source;
    uint64_t total = 0;
    memcpy(f->cursor, f->first, f->node_count * sizeof *f->cursor);
    for (;;) {
        if (node == sink) {
            uint32_t cut;
            total += push_along(f, path, depth, &cut);
            depth = cut;
            node = depth == 0 ? source : f->edges[path[depth - 1]].to;
        }
        uint32_t e = f->cursor[node];
        while (e != 0 && (f->edges[e - 1].room == 0 || f->level[f->edges[e - 1].to] != f->level[node] + 1))
            e = f->edges[e - 1].next;
        f->cursor[node] = e;
        if (e != 0) {
            path[depth++] = e - 1;
            node = f->edges[e - 1].to;
        } else if (depth == 0) {
            return total;
        } else {
            depth--;
            node = f->edges[path[depth] ^ 1].to;
            f->cursor[node] = f->edges[path[depth]].next;
        }
    }
}

/* The largest flow from the source to the sink. The capacities of a least cut must stay below FOREVER.
 * By itself, so that its loops have all registers. */
static __attribute__((noinline)) uint64_t largest_flow(flow *f, uint32_t source, uint32_t sink) {
    uint64_t total = 0;
    while (!f->is_short_of_memory && find_levels(f, source, sink))
        total += block(f, source, sink);
    return total;
}

/* After the largest flow: whether the source still reaches a node, which is the smallest of the least cuts.
 */
static bool reaches(const flow *f, uint32_t node) {
    return f->level[node] != UNREACHED;
}

/* ---- Cuts of a graph ----------------------------------------------------------------------------- */

typedef struct relation {
    uint32_t first;
    uint32_t second;
} relation;

typedef struct cutting {
    const weir_plan__steps *steps;
    flow flow;
    relation relations[BOUND_DEPTH + 1];
    unsigned relation_count;
    uint32_t arena;
    uint32_t next_item; /* flow node of the next item */
    uint32_t source;
    uint32_t sink;
    uint64_t always;
} cutting;

/* What must come before what: a node before the step has all that it waits for there too. */
static void add_relation(cutting *c, uint32_t first, uint32_t second, uint32_t node) {
    add_edge(&c->flow, second, first, FOREVER);
    if (second == node)
        add_edge(&c->flow, c->source, first, FOREVER);
}

static void add_relations(cutting *c, uint32_t node) {
    const weir_plan__steps *s = c->steps;
    for (uint32_t i = 0; i < s->node_count; i++) {
        weir_plan__list inputs = weir_plan__list_at(&s->inputs, i);
        for (uint32_t k = 0; k < inputs.count; k++)
            if (s->producer[inputs.items[k]] != WEIR__NO_NAME)
                add_relation(c, s->producer[inputs.items[k]], i, node);
    }
    for (unsigned i = 0; i < c->relation_count; i++)
        add_relation(c, c->relations[i].first, c->relations[i].second, node);
    add_edge(&c->flow, node, c->sink, FOREVER);
}

/* Readers of a tensor: its needs below the first backward step. */
static weir_plan__list readers_of(const weir_plan__steps *s, uint32_t tensor) {
    weir_plan__list needs = weir_plan__list_at(&s->needs, tensor);
    while (needs.count > 0 && needs.items[needs.count - 1] >= s->node_count)
        needs.count--;
    return needs;
}

/* Bytes that are live where the maker (WEIR__NO_NAME: always) has run and a reader (NULL: always) has not. */
static void add_item(cutting *c, uint32_t node, uint64_t size, uint32_t maker,
                     const weir_plan__list *readers) {
    const weir_plan__steps *s = c->steps;
    uint32_t own = c->next_item++;
    if (maker == node)
        maker = WEIR__NO_NAME;
    if (readers && weir_plan__list_has(*readers, s->place[node]))
        readers = NULL;
    if (maker == WEIR__NO_NAME && !readers) {
        c->always += size;
    } else if (!readers) {
        add_edge(&c->flow, maker, c->sink, size);
    } else {
        add_edge(&c->flow, maker == WEIR__NO_NAME ? c->source : maker, own, size);
        for (uint32_t i = 0; i < readers->count; i++)
            add_edge(&c->flow, own, s->order[readers->items[i]], FOREVER);
    }
}

/* The lowest node that saves the tensor for its backward step; WEIR__NO_NAME for none. */
static uint32_t saver_of(const weir_plan__steps *s, uint32_t tensor, uint32_t node, bool *is_saved_here) {
    weir_plan__list needs = weir_plan__list_at(&s->needs, tensor);
    uint32_t lowest = WEIR__NO_NAME;
    *is_saved_here = false;
    for (uint32_t i = needs.count; i-- > 0 && needs.items[i] >= s->node_count;) {
        uint32_t saver = s->order[2 * s->node_count - 1 - needs.items[i]];
        lowest = saver < lowest ? saver : lowest;
        *is_saved_here |= saver == node;
    }
    return lowest;
}

static void add_tensor(cutting *c, uint32_t node, bool is_back, uint32_t tensor) {
    const weir_plan__steps *s = c->steps;
    bool is_saved_here;
    uint32_t saver = saver_of(s, tensor, node, &is_saved_here);
    if (is_back) {
        if (s->permanent[tensor] || is_saved_here)
            c->always += s->sizes[tensor];
        else if (saver != WEIR__NO_NAME)
            add_item(c, node, s->sizes[tensor], saver, NULL);
        return;
    }
    weir_plan__list readers = readers_of(s, tensor);
    bool is_made_here = weir_plan__list_has(weir_plan__list_at(&s->outputs, node), tensor);
    bool lasts = s->permanent[tensor] || saver != WEIR__NO_NAME;
    if (lasts || is_made_here || readers.count > 0)
        add_item(c, node, s->sizes[tensor], s->producer[tensor], lasts || is_made_here ? NULL : &readers);
}

static void add_items(cutting *c, uint32_t node, bool is_back) {
    const weir_plan__steps *s = c->steps;
    for (uint32_t t = 0; t < s->tensor_count; t++)
        if (s->arena[t] == c->arena)
            add_tensor(c, node, is_back, t);
    for (uint32_t i = 0; is_back && c->arena == WEIR_PLAN__ARENA_GRADIENTS && i < s->gradient_count; i++) {
        uint32_t tensor = s->gradients[i].tensor;
        if (s->is_shared[tensor]) /* readers of aliases have gradients of their own: not counted */
            continue;
        weir_plan__list readers = readers_of(s, tensor);
        bool is_always = s->is_output[tensor] || readers.count == 0;
        add_item(c, node, s->gradients[i].size, s->producer[tensor], is_always ? NULL : &readers);
    }
}

/* In some order the node may overwrite an input: that much less must be live. */
static uint64_t overwritable(const cutting *c, uint32_t node) {
    const weir_plan__steps *s = c->steps;
    weir_plan__list inputs = weir_plan__list_at(&s->inputs, node);
    weir_plan__list outputs = weir_plan__list_at(&s->outputs, node);
    if (s->mode != WEIR_PLAN__INFERENCE || !s->is_inplace[node] || outputs.count != 1 ||
        s->arena[outputs.items[0]] != c->arena)
        return 0;
    for (uint32_t i = 0; i < inputs.count; i++)
        if (s->arena[inputs.items[i]] == c->arena && s->sizes[inputs.items[i]] == s->sizes[outputs.items[0]])
            return s->sizes[outputs.items[0]];
    return 0;
}

/* The least that any order has live in the arena at the node's step. */
static uint64_t least_at(cutting *c, uint32_t node, bool is_back) {
    const weir_plan__steps *s = c->steps;
    c->next_item = s->node_count;
    c->always = 0;
    c->flow.edge_count = 0;
    memset(c->flow.first, 0, c->flow.node_count * sizeof *c->flow.first);
    add_relations(c, node);
    add_items(c, node, is_back);
    uint64_t least = c->always + largest_flow(&c->flow, c->source, c->sink);
    return c->flow.is_short_of_memory ? 0 : least - (is_back ? 0 : overwritable(c, node));
}

/* The node nearest to `node` that the last cut has on another side of it than the order; WEIR__NO_NAME. */
static uint32_t find_moved(const cutting *c, uint32_t node) {
    const weir_plan__steps *s = c->steps;
    uint32_t place = s->place[node];
    uint32_t nearest = WEIR__NO_NAME;
    uint32_t least = UINT32_MAX;
    for (uint32_t p = 0; p < s->node_count; p++) {
        uint32_t distance = p < place ? place - p : p - place;
        if (p != place && distance < least && reaches(&c->flow, s->order[p]) != (p < place)) {
            nearest = s->order[p];
            least = distance;
        }
    }
    return nearest;
}

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static uint64_t bound_at(cutting *c, uint32_t node, bool is_back, uint64_t aim, unsigned depth) {
    uint64_t sides[2];
    uint64_t least = least_at(c, node, is_back);
    if (least >= aim || depth == 0 || c->flow.is_short_of_memory)
        return least;
    uint32_t other = find_moved(c, node);
    if (other == WEIR__NO_NAME)
        return least;
    for (unsigned i = 0; i < 2; i++) {
        c->relations[c->relation_count++] = i == 0 ? (relation){other, node} : (relation){node, other};
        uint64_t here = bound_at(c, node, is_back, aim, depth - 1);
        sides[i] = larger(here, least_at(c, other, is_back));
        c->relation_count--;
    }
    return larger(least, sides[0] < sides[1] ? sides[0] : sides[1]);
}

/* The bound of one arena, from its loads by position. */
static uint64_t bound_arena(cutting *c, const uint64_t *loads, weir__record *records) {
    const weir_plan__steps *s = c->steps;
    uint64_t best = loads[0];
    for (uint32_t i = 0; i < s->step_count; i++)
        records[i] = (weir__record){UINT64_MAX - loads[i + 1], i};
    weir__sort_records(records, records + s->step_count, s->step_count, NULL, NULL);
    uint32_t size = s->node_count + s->tensor_count;
    uint32_t most =
        (1u << BOUND_WORK_LOG2) / size < BOUND_STEPS ? (1u << BOUND_WORK_LOG2) / size : BOUND_STEPS;
    unsigned depth = size <= 1u << DEPTH_SIZE_LOG2 ? BOUND_DEPTH : 0;
    for (uint32_t i = 0; i < s->step_count && i < most; i++) {
        uint32_t step = records[i].index;
        uint64_t load = loads[step + 1];
        if (load <= best)
            break;
        weir_plan__execution own = weir_plan__base_step(s, step);
        best = larger(best, bound_at(c, own.node, own.is_back, load, depth));
    }
    return best;
}

bool weir_plan__order_bound(const weir_plan__steps *s, uint64_t *bound) {
    cutting c = {.steps = s, .source = s->node_count + s->tensor_count + s->gradient_count};
    weir_plan__schedule base = {0};
    uint64_t *loads = weir__allocate(s->env, weir_plan__positions(s->step_count), sizeof *loads);
    weir__record *records = weir__allocate(s->env, 2 * (size_t)s->step_count + 1, sizeof *records);
    c.sink = c.source + 1;
    open_flow(s->env, c.sink + 1, &c.flow);
    weir_plan__schedule_base(s, &base);
    bool has_memory = loads && records && !base.is_short && !c.flow.is_short_of_memory;
    *bound = 0;
    for (c.arena = 0; has_memory && c.arena < s->arena_count; c.arena++) {
        weir_plan__steps one = *s;
        uint64_t peak = 0;
        one.budgets = (weir_plan__budgets){.items = {{.arena = c.arena}}, .count = 1};
        has_memory = weir_plan__schedule_peaks(&one, &base, &peak, loads);
        if (has_memory)
            *bound += s->node_count > 0 ? bound_arena(&c, loads, records) : peak;
        has_memory = has_memory && !c.flow.is_short_of_memory;
    }
    close_flow(&c.flow);
    weir_plan__schedule_release(s->env, &base);
    weir__release(s->env, loads);
    weir__release(s->env, records);
    return has_memory;
}
