/* What an operator costs: what the file gives, else its floating point operations from the shapes, which are
 * right for the operators that take nearly all the time and small for the rest. */
#include "plan/steps.h"

typedef unsigned __int128 wide;

static uint64_t capped(wide number) {
    return number > WEIR_PLAN__COST_MAX ? WEIR_PLAN__COST_MAX : (uint64_t)number;
}

/* Exact: a tensor's bytes fit in 64 bits, so its elements do in 65. */
static wide elements(const weir_graph *graph, uint32_t tensor) {
    const weir_plan__graph_tensor *t = &graph->tensors[tensor];
    const uint64_t *shape = graph->dimensions + t->first_dimension;
    wide product = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        if (shape[i] == 0)
            return 0;
    for (uint32_t i = 0; i < t->rank; i++)
        product *= shape[i];
    return product;
}

/* Dimension number `from_end` counted from the last, which is 1; false if there are fewer. */
static bool dimension(const weir_graph *graph, uint32_t tensor, uint32_t from_end, uint64_t *size) {
    const weir_plan__graph_tensor *t = &graph->tensors[tensor];
    if (t->rank < from_end)
        return false;
    *size = graph->dimensions[t->first_dimension + t->rank - from_end];
    return true;
}

static wide product(uint64_t factor, wide a, wide b) {
    return (wide)factor * capped(a) * capped(b);
}

static wide convolution(const weir_graph *graph, const weir_plan__node *node, bool is_transposed, wide made) {
    const uint32_t *inputs = weir_plan__inputs(graph, node);
    uint64_t first;
    if (node->input_count < 2 || !dimension(graph, inputs[1], graph->tensors[inputs[1]].rank, &first) ||
        graph->tensors[inputs[1]].rank == 0 || first == 0)
        return made;
    return product(2, is_transposed ? elements(graph, inputs[0]) : made, elements(graph, inputs[1]) / first);
}

static wide operations(const weir_graph *graph, const weir_plan__node *node, wide made) {
    weir_text op = weir__name(&graph->ops, node->op);
    const uint32_t *inputs = weir_plan__inputs(graph, node);
    uint64_t size;
    if (weir_plan__same_text(op, "matmul") && node->input_count > 0 && dimension(graph, inputs[0], 1, &size))
        return product(2, made, size);
    if (weir_plan__same_text(op, "attention") && node->input_count > 1 &&
        dimension(graph, inputs[1], 2, &size))
        return product(4, made, size);
    if (weir_plan__same_text(op, "conv") || weir_plan__same_text(op, "conv_transpose"))
        return convolution(graph, node, op.size > 4, made);
    return made;
}

uint64_t weir_plan__node_cost(const weir_graph *graph, uint32_t index) {
    const weir_plan__node *node = &graph->nodes[index];
    const uint32_t *outputs = weir_plan__node_outputs(graph, node);
    wide made = 0;
    if (node->has_cost)
        return node->cost;
    for (uint32_t i = 0; i < node->output_count; i++)
        made += elements(graph, outputs[i]);
    uint64_t cost = capped(operations(graph, node, made));
    return cost > 0 ? cost : 1;
}
