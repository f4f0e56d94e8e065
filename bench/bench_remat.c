/* Training within half the memory: what recomputing adds, beside sqrt(n) checkpointing on the same graph with
 * the same costs, how far that is from the bound, and how long planning takes; and what another order of the
 * operators is worth. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "plan/graph.h"
#include "weir/weir.h"

/* The program's own generators; they use the public headers only. */
#include "../cli/model_builder.c"
#include "../cli/models_plain.c"
#include "../cli/models_transformer.c"
#include "../cli/models_vision.c"

typedef struct job {
    const weir_graph *graph;
    const char *arenas; /* NULL: no capacity */
    bool reorder;
    weir_plan *plan;
} job;

static void make_plan(void *context) {
    job *j = context;
    weir_error error;
    weir_plan_options options = {.size = sizeof options, .mode = "backward", .reorder = j->reorder};
    if (j->arenas) {
        options.preset = "remat_enabled";
        options.arenas = (weir_document){j->arenas, strlen(j->arenas), NULL};
    }
    weir_plan_close(j->plan);
    j->plan = NULL;
    bench_check(weir_plan_make(NULL, j->graph, &options, &j->plan, &error), &error);
}

static uint64_t activations(const weir_plan *plan) {
    for (size_t i = 0; i < weir_plan_describe(plan)->arena_count; i++) {
        weir_plan_arena arena = weir_plan_arena_at(plan, i);
        if (arena.name.size == strlen("activations") &&
            memcmp(arena.name.data, "activations", arena.name.size) == 0)
            return arena.peak_bytes;
    }
    return 0;
}

/* ---- sqrt(n) checkpointing ----------------------------------------------------------------------- */

static uint32_t segment_of(const weir_graph *graph, uint32_t node) {
    return node / (uint32_t)ceil(sqrt(weir_plan__node_count(graph)));
}

static bool saves(const weir_plan__node *node, bool is_input) {
    return is_input ? node->saves_inputs : node->saves_output;
}

/* What a segment must make again: what its backward steps need, and what that is made of, up to tensors that
 * cross a segment's border, which are kept. The last segment is still there. The models declare their nodes
 * in the order in which they run. */
static double checkpointing_cost(const weir_graph *graph) {
    uint32_t nodes = weir_plan__node_count(graph);
    uint32_t tensors = weir_plan__graph_tensor_count(graph);
    bool *wanted = calloc(tensors, sizeof *wanted);
    bool *kept = calloc(tensors, sizeof *kept);
    double cost = 0;
    for (uint32_t i = 0; i < nodes; i++) {
        const weir_plan__node *node = &graph->nodes[i];
        const uint32_t *edges = weir_plan__inputs(graph, node);
        for (uint32_t k = 0; k < node->input_count + node->output_count; k++) {
            uint32_t producer = graph->tensors[edges[k]].producer;
            wanted[edges[k]] |= saves(node, k < node->input_count);
            kept[edges[k]] |=
                producer == WEIR__NO_NAME || segment_of(graph, producer) != segment_of(graph, i);
        }
    }
    for (uint32_t i = nodes; i-- > 0;) {
        const weir_plan__node *node = &graph->nodes[i];
        const uint32_t *outputs = weir_plan__node_outputs(graph, node);
        bool runs = false;
        for (uint32_t k = 0; k < node->output_count; k++)
            runs |= wanted[outputs[k]] && !kept[outputs[k]];
        if (!runs || segment_of(graph, i) == segment_of(graph, nodes - 1))
            continue;
        cost += (double)weir_plan__node_cost(graph, i);
        for (uint32_t k = 0; k < node->input_count; k++)
            wanted[weir_plan__inputs(graph, node)[k]] = true;
    }
    free(wanted);
    free(kept);
    return cost;
}

/* ---- Measuring ----------------------------------------------------------------------------------- */

static void measure(const model_kind *kind, const char *size) {
    weir_error error;
    weir_graph *graph = NULL;
    char name[96];
    char arenas[80];
    bench_check(kind->make(&(model_options){.size = size}, &graph, &error), &error);
    job j = {.graph = graph};
    make_plan(&j);
    snprintf(arenas, sizeof arenas, "{\"activations\": {\"capacity_bytes\": %llu}}",
             (unsigned long long)(activations(j.plan) / 2));
    j.arenas = arenas;
    double seconds = bench_best(2, make_plan, &j);
    const weir_plan_remat *remat = weir_plan_describe(j.plan)->remat;
    snprintf(name, sizeof name, "%s %s at half the activations: planning", kind->name, size ? size : "");
    bench_report(name, seconds, "s", NULL, 0, "<= 10 s");
    snprintf(name, sizeof name, "%s %s at half the activations: added cost", kind->name, size ? size : "");
    bench_report(name, 100 * (double)remat->added_cost / (double)remat->base_cost, "% of forward",
                 "sqrt(n) checkpointing", 100 * checkpointing_cost(graph) / (double)remat->base_cost, "<= 1");
    snprintf(name, sizeof name, "%s %s at half the activations: bound of it", kind->name, size ? size : "");
    bench_report(name, 100 * (double)remat->lower_bound / (double)remat->base_cost, "% of forward", NULL, 0,
                 "");
    j.arenas = NULL;
    j.reorder = true;
    make_plan(&j);
    const weir_plan_reorder *order = weir_plan_describe(j.plan)->reorder;
    snprintf(name, sizeof name, "%s %s reordered: peak", kind->name, size ? size : "");
    bench_report(name, (double)order->peak, "bytes", "the bound of all orders", (double)order->lower_bound,
                 "1");
    weir_plan_close(j.plan);
    weir_graph_close(graph);
}

int main(void) {
    static const char *const wanted[][2] = {{"gpt2", "small"}, {"gpt2", "xl"},   {"llama", "7b"},
                                            {"llama", "70b"},  {"resnet", "50"}, {"unet", NULL}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        for (size_t k = 0; model_kinds[k].name; k++)
            if (strcmp(model_kinds[k].name, wanted[i][0]) == 0)
                measure(&model_kinds[k], wanted[i][1]);
    return 0;
}
