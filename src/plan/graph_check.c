/* The checks that need the whole graph: who makes each tensor. Nodes are looked at in the order of their
 * declaration, so that of several faults the first in the file is reported. */
#include "plan/graph.h"

static const char *what_it_is(const weir_plan__graph_tensor *tensor) {
    switch (tensor->role) {
    case WEIR_ROLE_INPUT:
        return "an input";
    case WEIR_ROLE_PARAMETER:
        return "a parameter";
    case WEIR_ROLE_STATE:
        return "a state";
    default:
        return NULL;
    }
}

static weir_status set_producer(weir_graph *graph, uint32_t node, uint32_t index, weir_error *error) {
    weir_plan__graph_tensor *tensor = &graph->tensors[index];
    weir_text id = weir__name(&graph->tensor_ids, index);
    weir_text producer = weir__name(&graph->node_ids, node);
    const char *kind = what_it_is(tensor);
    if (kind)
        return weir__fail(
            error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
            "%s: node '%.*s' writes '%.*s', which is %s; only activations and gradients are written",
            graph->source, WEIR_PLAN__SHOW(producer), WEIR_PLAN__SHOW(id), kind);
    if (tensor->producer != WEIR__NO_NAME) {
        weir_text first = weir__name(&graph->node_ids, tensor->producer);
        return weir__fail(
            error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
            "%s: tensor '%.*s' is written by node '%.*s' and again by '%.*s'; it may have one producer",
            graph->source, WEIR_PLAN__SHOW(id), WEIR_PLAN__SHOW(first), WEIR_PLAN__SHOW(producer));
    }
    tensor->producer = node;
    return WEIR_OK;
}

static weir_status check_uses(weir_graph *graph, weir_error *error) {
    for (uint32_t i = 0; i < weir_plan__node_count(graph); i++) {
        const weir_plan__node *node = &graph->nodes[i];
        const uint32_t *inputs = weir_plan__inputs(graph, node);
        for (uint32_t k = 0; k < node->input_count; k++) {
            weir_plan__graph_tensor *tensor = &graph->tensors[inputs[k]];
            if (tensor->producer == WEIR__NO_NAME && !what_it_is(tensor))
                return weir__fail(
                    error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                    "%s: node '%.*s' reads '%.*s', which no node writes; give it a producer or the role "
                    "input",
                    graph->source, WEIR_PLAN__SHOW(weir__name(&graph->node_ids, i)),
                    WEIR_PLAN__SHOW(weir__name(&graph->tensor_ids, inputs[k])));
        }
    }
    return WEIR_OK;
}

weir_status weir_plan__graph_check_producers(weir_graph *graph, weir_error *error) {
    for (uint32_t i = 0; i < weir_plan__graph_tensor_count(graph); i++)
        graph->tensors[i].producer = WEIR__NO_NAME;
    for (uint32_t i = 0; i < weir_plan__node_count(graph); i++) {
        const weir_plan__node *node = &graph->nodes[i];
        for (uint32_t k = 0; k < node->output_count; k++)
            WEIR__TRY(set_producer(graph, i, weir_plan__node_outputs(graph, node)[k], error));
    }
    WEIR__TRY(check_uses(graph, error));
    for (size_t i = 0; i < graph->output_count; i++) {
        const weir_plan__graph_tensor *tensor = &graph->tensors[graph->outputs[i]];
        /* Models pass inputs, parameters and state on, so these may be outputs as they are. */
        if (tensor->producer == WEIR__NO_NAME && !what_it_is(tensor))
            return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                              "%s: no node writes the graph's output '%.*s'; give it a producer, or the role "
                              "input, parameter or state",
                              graph->source,
                              WEIR_PLAN__SHOW(weir__name(&graph->tensor_ids, graph->outputs[i])));
    }
    return WEIR_OK;
}
