/* What an optimizer holds (docs/spec/03i-optimizer.md): a copy of the graph with its state as tensors, so
 * that all of planning, the graph's hash too, knows nothing of optimizers. */
#include <string.h>

#include "plan/graph.h"

enum { STATES_MAX = 2, SUFFIX_MAX = 12 };

typedef struct optimizer {
    const char *name;
    const char *states[STATES_MAX + 1]; /* what a parameter's id is followed by; ends in NULL */
} optimizer;

static const optimizer optimizers[] = {
    {"sgd", {NULL}},
    {"momentum", {".momentum", NULL}},
    {"adam", {".exp_avg", ".exp_avg_sq", NULL}},
};
static const char master_suffix[] = ".master";

typedef struct adding {
    const weir_env *env;
    const weir_graph *from;
    weir_graph *to;
    weir_text *texts; /* room for the ids of a node, of the outputs or of the order */
    char *id;         /* room for the id of a state */
} adding;

/* ---- Which one ---------------------------------------------------------------------------------- */

static weir_status refuse(const char *given, weir_error *error) {
    return weir__fail(
        error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
        "unknown optimizer '%.60s'; it is sgd, momentum or adam, perhaps with the floating dtype "
        "of its state, as in adam:f32",
        given);
}

/* *type stays WEIR_TENSOR_UNKNOWN if none is given. */
static weir_status read_optimizer(const char *given, const optimizer **found, weir_tensor_type *type,
                                  weir_error *error) {
    const char *colon = strchr(given, ':');
    weir_text name = {given, colon ? (size_t)(colon - given) : strlen(given)};
    *type = WEIR_TENSOR_UNKNOWN;
    *found = NULL;
    for (size_t i = 0; i < sizeof optimizers / sizeof optimizers[0]; i++)
        if (weir_plan__same_text(name, optimizers[i].name))
            *found = &optimizers[i];
    if (!*found)
        return refuse(given, error);
    if (colon && (!weir_plan__type_named((weir_text){colon + 1, strlen(colon + 1)}, type) ||
                  !weir_plan__type_is_floating(*type)))
        return refuse(given, error);
    return WEIR_OK;
}

/* ---- Copying a graph ---------------------------------------------------------------------------- */

/* Tensors keep their numbers. An original may come after its alias, so that aliases are told later. */
static weir_status copy_tensors(const adding *a, weir_error *error) {
    for (uint32_t i = 0; i < weir_plan__graph_tensor_count(a->from); i++) {
        weir_tensor_info info = weir_plan__graph_tensor_info(a->from, i);
        info.is_alias = false;
        info.alias_offset = 0;
        WEIR__TRY(weir_graph_add_tensor(a->to, &info, error));
    }
    for (uint32_t i = 0; i < weir_plan__graph_tensor_count(a->from); i++) {
        weir_tensor_info info = weir_plan__graph_tensor_info(a->from, i);
        if (info.is_alias)
            WEIR__TRY(weir_plan__graph_set_original(a->to, i, info.alias_of, info.alias_offset, error));
    }
    return WEIR_OK;
}

static void name_all(const weir__names *names, const uint32_t *indexes, size_t count, weir_text *out) {
    for (size_t i = 0; i < count; i++)
        out[i] = weir__name(names, indexes[i]);
}

static weir_status copy_nodes(const adding *a, weir_error *error) {
    for (uint32_t i = 0; i < weir_plan__node_count(a->from); i++) {
        const weir_plan__node *node = &a->from->nodes[i];
        weir_text *outputs = a->texts + node->input_count;
        name_all(&a->from->tensor_ids, weir_plan__inputs(a->from, node), node->input_count, a->texts);
        name_all(&a->from->tensor_ids, weir_plan__node_outputs(a->from, node), node->output_count, outputs);
        weir_node_info info = weir_plan__graph_node_info(a->from, i);
        info.inputs = a->texts;
        info.outputs = outputs;
        WEIR__TRY(weir_graph_add_node(a->to, &info, error));
    }
    name_all(&a->from->tensor_ids, a->from->outputs, a->from->output_count, a->texts);
    WEIR__TRY(weir_graph_set_outputs(a->to, a->texts, a->from->output_count, error));
    if (!a->from->has_order)
        return WEIR_OK;
    name_all(&a->from->order, a->from->order_indexes, a->from->order_count, a->texts);
    return weir_graph_set_order(a->to, a->texts, a->from->order_count, error);
}

/* ---- Adding state ------------------------------------------------------------------------------- */

static weir_status add_state(const adding *a, uint32_t parameter, const char *suffix, weir_tensor_type type,
                             weir_error *error) {
    weir_tensor_info info = weir_plan__graph_tensor_info(a->from, parameter);
    size_t size = strlen(suffix);
    memcpy(a->id, info.id.data, info.id.size);
    memcpy(a->id + info.id.size, suffix, size);
    info = (weir_tensor_info){.id = {a->id, info.id.size + size},
                              .type = type,
                              .role = WEIR_ROLE_STATE,
                              .shape = info.shape,
                              .rank = info.rank};
    return weir_graph_add_tensor(a->to, &info, error);
}

static weir_status add_states(const adding *a, const optimizer *kind, weir_tensor_type given,
                              weir_error *error) {
    for (uint32_t i = 0; i < weir_plan__graph_tensor_count(a->from); i++) {
        const weir_plan__graph_tensor *tensor = &a->from->tensors[i];
        weir_tensor_type own = (weir_tensor_type)tensor->type;
        weir_tensor_type type = given == WEIR_TENSOR_UNKNOWN ? own : given;
        if (tensor->role != WEIR_ROLE_PARAMETER || tensor->alias_of != WEIR__NO_NAME ||
            !weir_plan__type_is_floating(own))
            continue;
        if (type != own)
            WEIR__TRY(add_state(a, i, master_suffix, type, error));
        for (const char *const *suffix = kind->states; *suffix; suffix++)
            WEIR__TRY(add_state(a, i, *suffix, type, error));
    }
    return WEIR_OK;
}

/* ---- All of it ---------------------------------------------------------------------------------- */

static weir_status fill(const adding *a, const char *optimizer_given, const char *step, weir_error *error) {
    const optimizer *kind;
    weir_tensor_type type;
    if (!a->texts || !a->id)
        return weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR, sizeof *a->texts);
    WEIR__TRY(copy_tensors(a, error));
    WEIR__TRY(copy_nodes(a, error));
    if (optimizer_given) {
        WEIR__TRY(read_optimizer(optimizer_given, &kind, &type, error));
        WEIR__TRY(add_states(a, kind, type, error));
    }
    a->to->steps_in_backward = a->from->steps_in_backward;
    if (step)
        WEIR__TRY(weir_plan__graph_set_step(a->to, (weir_text){step, strlen(step)}, error));
    return weir_graph_finish(a->to, error);
}

weir_status weir_plan__graph_with_optimizer(const weir_env *env, const weir_graph *graph,
                                            const char *optimizer_given, const char *step, weir_graph **with,
                                            weir_error *error) {
    adding a = {.env = env, .from = graph};
    size_t texts = graph->output_count > graph->order_count ? graph->output_count : graph->order_count;
    size_t id = 0;
    for (uint32_t i = 0; i < weir_plan__node_count(graph); i++) {
        size_t edges = (size_t)graph->nodes[i].input_count + graph->nodes[i].output_count;
        texts = edges > texts ? edges : texts;
    }
    for (uint32_t i = 0; i < weir_plan__graph_tensor_count(graph); i++) {
        size_t size = weir__name(&graph->tensor_ids, i).size;
        id = size > id ? size : id;
    }
    WEIR__TRY(weir_plan__graph_new(env, graph->source, graph->name, &a.to, error));
    a.texts = weir__allocate(env, texts + 1, sizeof *a.texts);
    a.id = weir__allocate(env, id + SUFFIX_MAX, 1);
    weir_status status = fill(&a, optimizer_given, step, error);
    weir__release(env, a.texts);
    weir__release(env, a.id);
    if (status != WEIR_OK) {
        weir_graph_close(a.to);
        return status;
    }
    *with = a.to;
    return WEIR_OK;
}
