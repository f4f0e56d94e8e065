/* The execution order. A declaration that is a valid order already is what Kahn's algorithm gives when it
 * always takes the ready node that is declared first, so that common case costs one look at every edge;
 * else a heap holds the ready nodes. A given order is checked, never repaired. */
#include <stdio.h>
#include <string.h>

#include "plan/planning.h"

#define LIVENESS_OPERATOR "UML_OS.Model.AnalyzeLiveness_v1"

enum { CYCLE_SHOWN = 8 };

static uint32_t producer_of(const weir_graph *graph, uint32_t tensor) {
    return graph->tensors[tensor].producer;
}

/* ---- Showing a cycle --------------------------------------------------------------------------- */

/* A node before `node` that has not run: there is one, since `node` could not run. */
static uint32_t waits_for(const weir_graph *graph, uint32_t node, const uint32_t *position) {
    const weir_plan__node *waiting = &graph->nodes[node];
    const uint32_t *inputs = weir_plan__inputs(graph, waiting);
    for (uint32_t i = 0; i < waiting->input_count; i++) {
        uint32_t producer = producer_of(graph, inputs[i]);
        if (producer != WEIR__NO_NAME && position[producer] == 0)
            return producer;
    }
    return node;
}

/* Every node that has not run waits for another such node, so walking on must come back to one that was
 * seen: after as many steps as there are nodes the walk is inside a cycle. */
static weir_status report_cycle(const weir_graph *graph, const uint32_t *position, weir_error *error) {
    char cycle[640];
    size_t used = 0;
    uint32_t start = 0;
    while (position[start] != 0)
        start++;
    for (uint32_t i = 0; i < weir_plan__node_count(graph); i++)
        start = waits_for(graph, start, position);
    uint32_t node = start;
    for (unsigned shown = 0; shown < CYCLE_SHOWN && used < sizeof cycle; shown++) {
        weir_text id = weir__name(&graph->node_ids, node);
        used += (size_t)snprintf(cycle + used, sizeof cycle - used, "%.*s needs ",
                                 (int)(id.size < 40 ? id.size : 40), id.data);
        node = waits_for(graph, node, position);
        if (node == start)
            break;
    }
    weir_text id = weir__name(&graph->node_ids, node);
    if (used < sizeof cycle)
        snprintf(cycle + used, sizeof cycle - used, "%.*s%s", (int)(id.size < 40 ? id.size : 40), id.data,
                 node == start ? "" : " …");
    return weir__fail(error, WEIR_LIVENESS_CYCLE, LIVENESS_OPERATOR,
                      "%s: no order exists, the nodes wait for each other: %s", graph->source, cycle);
}

/* ---- Kahn's algorithm -------------------------------------------------------------------------- */

static bool declaration_is_an_order(const weir_graph *graph) {
    for (uint32_t i = 0; i < weir_plan__node_count(graph); i++) {
        const weir_plan__node *node = &graph->nodes[i];
        const uint32_t *inputs = weir_plan__inputs(graph, node);
        for (uint32_t k = 0; k < node->input_count; k++) {
            uint32_t producer = producer_of(graph, inputs[k]);
            if (producer != WEIR__NO_NAME && producer >= i)
                return false;
        }
    }
    return true;
}

typedef struct kahn {
    uint32_t *waits; /* a node: how many of its inputs are still to be made */
    uint64_t *first; /* a node: where its users begin in `users`; one more at the end */
    uint32_t *users; /* nodes, once for every edge */
} kahn;

/* Counts the users of every node, then lays their lists one behind the other. */
static void list_users(const weir_graph *graph, kahn *k) {
    uint32_t nodes = weir_plan__node_count(graph);
    for (uint32_t i = 0; i < nodes; i++) {
        const uint32_t *inputs = weir_plan__inputs(graph, &graph->nodes[i]);
        for (uint32_t e = 0; e < graph->nodes[i].input_count; e++) {
            uint32_t producer = producer_of(graph, inputs[e]);
            if (producer == WEIR__NO_NAME)
                continue;
            k->waits[i]++;
            k->first[producer]++;
        }
    }
    uint64_t end = 0;
    for (uint32_t i = 0; i <= nodes; i++) {
        end += k->first[i];
        k->first[i] = end;
    }
    for (uint32_t i = nodes; i-- > 0;) {
        const uint32_t *inputs = weir_plan__inputs(graph, &graph->nodes[i]);
        for (uint32_t e = graph->nodes[i].input_count; e-- > 0;) {
            uint32_t producer = producer_of(graph, inputs[e]);
            if (producer != WEIR__NO_NAME)
                k->users[--k->first[producer]] = i;
        }
    }
}

void weir_plan__heap_push(weir_plan__heap *heap, uint32_t item) {
    uint32_t at = heap->count++;
    for (; at > 0 && heap->items[(at - 1) / 2] > item; at = (at - 1) / 2)
        heap->items[at] = heap->items[(at - 1) / 2];
    heap->items[at] = item;
}

uint32_t weir_plan__heap_pop(weir_plan__heap *heap) {
    uint32_t top = heap->items[0];
    uint32_t moved = heap->items[--heap->count];
    uint32_t at = 0;
    for (uint32_t child = 1; child < heap->count; child = 2 * at + 1) {
        if (child + 1 < heap->count && heap->items[child + 1] < heap->items[child])
            child++;
        if (heap->items[child] >= moved)
            break;
        heap->items[at] = heap->items[child];
        at = child;
    }
    heap->items[at] = moved;
    return top;
}

static weir_status kahn_order(const weir_graph *graph, uint32_t *order, uint32_t *position,
                              weir_error *error) {
    const weir_env *env = graph->env;
    uint32_t nodes = weir_plan__node_count(graph);
    if (declaration_is_an_order(graph)) {
        for (uint32_t i = 0; i < nodes; i++) {
            order[i] = i;
            position[i] = i + 1;
        }
        return WEIR_OK;
    }
    kahn k = {.waits = weir__allocate_zero(env, nodes, sizeof *k.waits),
              .first = weir__allocate_zero(env, (size_t)nodes + 1, sizeof *k.first),
              .users = weir__allocate(env, graph->edge_count, sizeof *k.users)};
    weir_plan__heap ready = {weir__allocate(env, nodes, sizeof *ready.items), 0};
    bool has_memory = k.waits && k.first && k.users && ready.items;
    uint32_t done = 0;
    memset(position, 0, nodes * sizeof *position);
    if (has_memory)
        list_users(graph, &k);
    for (uint32_t i = 0; has_memory && i < nodes; i++)
        if (k.waits[i] == 0)
            weir_plan__heap_push(&ready, i);
    while (ready.count > 0) {
        uint32_t node = weir_plan__heap_pop(&ready);
        order[done++] = node;
        position[node] = done;
        for (uint64_t e = k.first[node]; e < k.first[node + 1]; e++)
            if (--k.waits[k.users[e]] == 0)
                weir_plan__heap_push(&ready, k.users[e]);
    }
    weir__release(env, k.waits);
    weir__release(env, k.first);
    weir__release(env, k.users);
    weir__release(env, ready.items);
    if (!has_memory)
        return weir__out_of_memory(error, LIVENESS_OPERATOR, graph->edge_count * sizeof *k.users);
    return done == nodes ? WEIR_OK : report_cycle(graph, position, error);
}

/* ---- Given orders ------------------------------------------------------------------------------ */

/* Every input must be made before the node that reads it. */
static weir_status check_births(const weir_graph *graph, const uint32_t *order, const uint32_t *position,
                                weir_error *error) {
    for (uint32_t p = 0; p < weir_plan__node_count(graph); p++) {
        const weir_plan__node *node = &graph->nodes[order[p]];
        const uint32_t *inputs = weir_plan__inputs(graph, node);
        for (uint32_t i = 0; i < node->input_count; i++) {
            uint32_t producer = producer_of(graph, inputs[i]);
            if (producer == WEIR__NO_NAME || position[producer] <= p)
                continue;
            return weir__fail(error, WEIR_LIVENESS_CYCLE, LIVENESS_OPERATOR,
                              "%s: the order runs node '%.*s' before node '%.*s' has made its input '%.*s'",
                              graph->source, WEIR_PLAN__SHOW(weir__name(&graph->node_ids, order[p])),
                              WEIR_PLAN__SHOW(weir__name(&graph->node_ids, producer)),
                              WEIR_PLAN__SHOW(weir__name(&graph->tensor_ids, inputs[i])));
        }
    }
    return WEIR_OK;
}

weir_status weir_plan__find_order(const weir_graph *graph, const weir_text *given, size_t given_count,
                                  uint32_t *order, uint32_t *position, weir_error *error) {
    if (!given && !graph->has_order)
        return kahn_order(graph, order, position, error);
    uint32_t nodes = weir_plan__node_count(graph);
    size_t count = given ? given_count : graph->order_count;
    memset(position, 0, nodes * sizeof *position);
    for (uint32_t i = 0; i < count && i < nodes; i++) {
        weir_text id = given ? given[i] : weir__name(&graph->order, graph->order_indexes[i]);
        uint32_t node = weir__names_find(&graph->node_ids, id.data, id.size);
        if (node == WEIR__NO_NAME)
            return weir__fail(error, WEIR_INVALID_IR, LIVENESS_OPERATOR,
                              "%s: the order names the node '%.*s', which the graph does not have",
                              graph->source, WEIR_PLAN__SHOW(id));
        if (position[node] != 0)
            return weir__fail(error, WEIR_INVALID_IR, LIVENESS_OPERATOR,
                              "%s: the order names the node '%.*s' twice", graph->source,
                              WEIR_PLAN__SHOW(id));
        order[i] = node;
        position[node] = i + 1;
    }
    if (count != nodes)
        return weir__fail(error, WEIR_INVALID_IR, LIVENESS_OPERATOR,
                          "%s: the order has %zu nodes and the graph %u; it must name every node once",
                          graph->source, count, nodes);
    weir_status status = check_births(graph, order, position, error);
    if (status == WEIR_OK)
        return WEIR_OK;
    /* Where the graph itself has a cycle, the message shows that rather than the order's first victim. */
    weir_error cycle;
    if (kahn_order(graph, order, position, &cycle) != WEIR_OK && error)
        *error = cycle;
    return error ? error->status : status;
}
