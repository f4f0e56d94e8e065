/* Dinic's algorithm: levels by breadth first, then paths along rising levels, until the sink is out of
 * reach. Paths are walked with a list of edges, not by recursion. */
#include <string.h>

#include "plan/flow.h"

enum { UNREACHED = 0 };

void weir_plan__flow_reset(const weir_env *env, weir_plan__flow *f, uint32_t nodes) {
    if (nodes > f->node_capacity) {
        weir__release(env, f->first);
        f->first = weir__allocate(env, nodes, 4 * sizeof *f->first);
        f->node_capacity = f->first ? nodes : 0;
        f->is_short_of_memory |= !f->first;
    }
    f->edge_count = 0;
    f->node_count = nodes;
    if (f->is_short_of_memory)
        return;
    f->level = f->first + f->node_capacity;
    f->cursor = f->level + f->node_capacity;
    f->queue = f->cursor + f->node_capacity;
    memset(f->first, 0, nodes * sizeof *f->first);
}

void weir_plan__flow_release(const weir_env *env, weir_plan__flow *f) {
    weir__release(env, f->first);
    weir__release(env, f->edges);
}

static void add_half(weir_plan__flow *f, uint32_t from, uint32_t to, uint64_t room) {
    f->edges[f->edge_count] = (weir_plan__flow_edge){room, to, f->first[from]};
    f->first[from] = (uint32_t)++f->edge_count;
}

void weir_plan__flow_add(const weir_env *env, weir_plan__flow *f, uint32_t from, uint32_t to,
                         uint64_t capacity) {
    if (f->is_short_of_memory)
        return;
    if (f->edge_count + 2 > f->edge_capacity &&
        (f->edge_count > UINT32_MAX - 4 ||
         !weir__grow(env, (void **)&f->edges, &f->edge_capacity, f->edge_count + 2, sizeof *f->edges))) {
        f->is_short_of_memory = true;
        return;
    }
    add_half(f, from, to, capacity);
    add_half(f, to, from, 0);
}

/* Levels from 1 at the source. */
static bool find_levels(weir_plan__flow *f, uint32_t source, uint32_t sink) {
    uint32_t head = 0;
    uint32_t tail = 0;
    memset(f->level, 0, f->node_count * sizeof *f->level);
    f->level[source] = 1;
    f->queue[tail++] = source;
    while (head < tail) {
        uint32_t node = f->queue[head++];
        for (uint32_t e = f->first[node]; e != 0; e = f->edges[e - 1].next) {
            const weir_plan__flow_edge *edge = &f->edges[e - 1];
            if (edge->room > 0 && f->level[edge->to] == UNREACHED) {
                f->level[edge->to] = f->level[node] + 1;
                f->queue[tail++] = edge->to;
            }
        }
    }
    return f->level[sink] != UNREACHED;
}

/* The least room along the path of `depth` edges, taken from it; *cut is the first edge that is full then. */
static uint64_t push_along(weir_plan__flow *f, const uint32_t *path, uint32_t depth, uint32_t *cut) {
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
static uint64_t block(weir_plan__flow *f, uint32_t source, uint32_t sink) {
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

uint64_t weir_plan__flow_largest(weir_plan__flow *f, uint32_t source, uint32_t sink) {
    uint64_t total = 0;
    while (!f->is_short_of_memory && find_levels(f, source, sink))
        total += block(f, source, sink);
    return total;
}

bool weir_plan__flow_reaches(const weir_plan__flow *f, uint32_t node) {
    return f->level[node] != UNREACHED;
}
