/* Random graphs for the planner's tests, built through the C API: the same for the same seed everywhere. */
#ifndef WEIR_TESTS_RANDOM_GRAPH_H
#define WEIR_TESTS_RANDOM_GRAPH_H

#include <stdio.h>
#include <string.h>

#include "support/testing.h"

static inline weir_text text(const char *data) {
    return (weir_text){data, strlen(data)};
}

static inline weir_status add_random_tensor(weir_graph *graph, random_stream *stream, unsigned number,
                                            weir_tensor_role role, weir_error *error) {
    char id[16];
    uint64_t shape[2] = {1 + random_below(stream, 4), 1 + random_below(stream, 96)};
    snprintf(id, sizeof id, "t%u", number);
    weir_tensor_info info = {.id = text(id),
                             .type = random_below(stream, 8) ? WEIR_TENSOR_F32 : WEIR_TENSOR_I4,
                             .role = role,
                             .shape = shape,
                             .rank = random_below(stream, 3)};
    if (random_below(stream, 10) == 0)
        info.arena = text("scratch");
    if (random_below(stream, 10) == 0)
        info.saved_for_backward = (weir_choice)(1 + random_below(stream, 2));
    return weir_graph_add_tensor(graph, &info, error);
}

static inline weir_status add_random_node(weir_graph *graph, random_stream *stream, unsigned number,
                                          unsigned tensors, weir_error *error) {
    static const char *const ops[] = {"add", "relu", "mul", "matmul", "softmax", "custom"};
    char names[4][16];
    weir_text inputs[3];
    char id[16];
    size_t count = 1 + random_below(stream, 3);
    for (size_t i = 0; i < count; i++) {
        unsigned window = tensors < 6 ? tensors : 6;
        snprintf(names[i], sizeof names[i], "t%u", tensors - 1 - (unsigned)random_below(stream, window));
        inputs[i] = text(names[i]);
    }
    snprintf(names[3], sizeof names[3], "t%u", tensors);
    snprintf(id, sizeof id, "n%u", number);
    weir_text output = text(names[3]);
    weir_node_info node = {.id = text(id),
                           .op = text(ops[random_below(stream, 6)]),
                           .inputs = inputs,
                           .input_count = count,
                           .outputs = &output,
                           .output_count = 1};
    return weir_graph_add_node(graph, &node, error);
}

/* Three tensors that are given, then `nodes` operators that make one each; the last one is the graph's
 * output. */
static inline weir_status random_graph(const weir_env *env, uint64_t seed, unsigned nodes, weir_graph **out,
                                       weir_error *error) {
    random_stream stream = {seed};
    static const weir_tensor_role given[] = {WEIR_ROLE_INPUT, WEIR_ROLE_PARAMETER, WEIR_ROLE_STATE};
    char last[16];
    weir_graph *graph;
    weir_status status = weir_graph_create(env, text("random"), &graph, error);
    if (status != WEIR_OK)
        return status;
    for (unsigned i = 0; status == WEIR_OK && i < 3; i++)
        status = add_random_tensor(graph, &stream, i, given[i], error);
    for (unsigned i = 0; status == WEIR_OK && i < nodes; i++) {
        status = add_random_tensor(graph, &stream, 3 + i, WEIR_ROLE_ACTIVATION, error);
        if (status == WEIR_OK)
            status = add_random_node(graph, &stream, i, 3 + i, error);
    }
    snprintf(last, sizeof last, "t%u", 2 + nodes);
    weir_text output = text(last);
    if (status == WEIR_OK && nodes > 0)
        status = weir_graph_set_outputs(graph, &output, 1, error);
    if (status == WEIR_OK)
        status = weir_graph_finish(graph, error);
    if (status != WEIR_OK) {
        weir_graph_close(graph);
        return status;
    }
    *out = graph;
    return WEIR_OK;
}

static const char *const plan_modes[] = {"inference", "forward", "backward"};

static inline weir_plan_options options_of(const char *mode) {
    return (weir_plan_options){.size = sizeof(weir_plan_options), .mode = mode};
}

#endif
