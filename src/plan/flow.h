/* The largest flow from a source to a sink, and with it the least cut: what the bound of an order asks. */
#ifndef WEIR_PLAN_FLOW_H
#define WEIR_PLAN_FLOW_H

#include "base/internal.h"

#define WEIR_PLAN__FLOW_FOREVER ((uint64_t)1 << 62)

typedef struct weir_plan__flow_edge {
    uint64_t room;
    uint32_t to;
    uint32_t next; /* of the same node, + 1; its reverse is the edge beside it */
} weir_plan__flow_edge;

/* Zero, then weir_plan__flow_reset. */
typedef struct weir_plan__flow {
    weir_plan__flow_edge *edges;
    size_t edge_count;
    size_t edge_capacity;
    uint32_t *first; /* a node's first edge, + 1 */
    uint32_t *level;
    uint32_t *cursor;
    uint32_t *queue;
    size_t node_capacity;
    uint32_t node_count;
    bool is_short_of_memory;
} weir_plan__flow;

void weir_plan__flow_reset(const weir_env *env, weir_plan__flow *flow, uint32_t nodes);
void weir_plan__flow_add(const weir_env *env, weir_plan__flow *flow, uint32_t from, uint32_t to,
                         uint64_t capacity);
/* The capacities of a least cut must stay below WEIR_PLAN__FLOW_FOREVER. */
uint64_t weir_plan__flow_largest(weir_plan__flow *flow, uint32_t source, uint32_t sink);
/* After the largest flow: whether the source still reaches a node, which is the smallest of the least cuts.
 */
bool weir_plan__flow_reaches(const weir_plan__flow *flow, uint32_t node);
void weir_plan__flow_release(const weir_env *env, weir_plan__flow *flow);

#endif
