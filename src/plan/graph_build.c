/* Building a graph, step by step. Every public call checks all that it is given before it changes anything,
 * so that a refused call leaves the graph as it was. The reader uses the same steps in the order that
 * faults have. At the end comes who makes each tensor: nodes are looked at in the order of their declaration,
 * so that of several faults the first in the file is reported. */
#include <string.h>

#include "plan/graph.h"
#include "weir_tool/plan_tools.h"

static weir_status no_memory(weir_error *error, size_t size) {
    return weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR, size);
}

/* Text of size 0 may have no data. */
static bool is_valid_text(weir_text text) {
    return text.size == 0 || weir__utf8_is_valid(text.data, text.size);
}

/* ---- Creation and end -------------------------------------------------------------------------- */

weir_status weir_plan__graph_new(const weir_env *env, const char *source, weir_text name, weir_graph **graph,
                                 weir_error *error) {
    static const char *const own_arenas[WEIR_PLAN__OWN_ARENAS] = {"parameters", "activations", "gradients"};
    env = weir__env_or_default(env);
    weir_graph *made = weir__allocate_zero(env, 1, sizeof *made);
    if (!made)
        return no_memory(error, sizeof *made);
    made->env = env;
    made->source = weir__copy_text(env, source, strlen(source));
    made->name.data = weir__copy_text(env, name.data ? name.data : "", name.size);
    made->name.size = name.size;
    bool has_memory = made->source && made->name.data;
    for (uint32_t i = 0, index; has_memory && i < WEIR_PLAN__OWN_ARENAS; i++)
        has_memory = weir__names_add(env, &made->arenas, own_arenas[i], strlen(own_arenas[i]), &index) !=
                     WEIR__NAME_NO_MEMORY;
    /* A graph without any edge or dimension has arrays too, so that a place in them can be pointed to. */
    if (!has_memory ||
        !weir__grow(env, (void **)&made->dimensions, &made->dimension_capacity, 1,
                    sizeof *made->dimensions) ||
        !weir__grow(env, (void **)&made->edges, &made->edge_capacity, 1, sizeof *made->edges)) {
        weir_graph_close(made);
        return no_memory(error, name.size);
    }
    *graph = made;
    return WEIR_OK;
}

weir_status weir_graph_create(const weir_env *env, weir_text name, weir_graph **graph, weir_error *error) {
    if (!is_valid_text(name))
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "the graph's name is not valid UTF-8");
    return weir_plan__graph_new(env, "graph", name, graph, error);
}

void weir_graph_close(weir_graph *graph) {
    if (!graph)
        return;
    const weir_env *env = graph->env;
    weir__release(env, graph->source);
    weir__release(env, (char *)graph->name.data);
    weir__names_release(env, &graph->tensor_ids);
    weir__names_release(env, &graph->node_ids);
    weir__names_release(env, &graph->ops);
    weir__names_release(env, &graph->arenas);
    weir__names_release(env, &graph->order);
    weir__release(env, graph->tensors);
    weir__release(env, graph->nodes);
    weir__release(env, graph->dimensions);
    weir__release(env, graph->edges);
    weir__release(env, graph->outputs);
    weir__release(env, graph->order_indexes);
    weir__release(env, graph);
}

/* ---- Tensors ----------------------------------------------------------------------------------- */

weir_status weir_plan__graph_declare_tensor(weir_graph *graph, const weir_tensor_info *info,
                                            weir_error *error) {
    uint32_t arena = weir_plan__arena_of_role(info->role);
    uint32_t index;
    if (info->arena.size > 0 && weir__names_add(graph->env, &graph->arenas, info->arena.data,
                                                info->arena.size, &arena) == WEIR__NAME_NO_MEMORY)
        return no_memory(error, info->arena.size);
    if (!weir__grow(graph->env, (void **)&graph->tensors, &graph->tensor_capacity,
                    (size_t)graph->tensor_ids.count + 1, sizeof *graph->tensors))
        return no_memory(error, sizeof *graph->tensors);
    switch (weir__names_add(graph->env, &graph->tensor_ids, info->id.data, info->id.size, &index)) {
    case WEIR__NAME_NO_MEMORY:
        return no_memory(error, info->id.size);
    case WEIR__NAME_PRESENT:
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "%s: two tensors have the id '%.*s'; ids must be unique", graph->source,
                          WEIR_PLAN__SHOW(info->id));
    case WEIR__NAME_ADDED:
        break;
    }
    graph->tensors[index] =
        (weir_plan__graph_tensor){.arena = arena,
                                  .producer = WEIR__NO_NAME,
                                  .alias_of = WEIR__NO_NAME,
                                  .owner = index,
                                  .has_arena = info->arena.size > 0,
                                  .role = (uint8_t)info->role,
                                  .saved_for_backward = (uint8_t)info->saved_for_backward};
    return WEIR_OK;
}

static weir_status report_no_original(const weir_graph *graph, weir_text id, weir_text original,
                                      weir_error *error) {
    return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                      "%s: tensor '%.*s' is an alias of '%.*s', which is not declared", graph->source,
                      WEIR_PLAN__SHOW(id), WEIR_PLAN__SHOW(original));
}

weir_status weir_plan__graph_set_original(weir_graph *graph, uint32_t index, weir_text original,
                                          uint64_t offset, weir_error *error) {
    uint32_t found = weir__names_find(&graph->tensor_ids, original.data, original.size);
    if (found == WEIR__NO_NAME)
        return report_no_original(graph, weir__name(&graph->tensor_ids, index), original, error);
    graph->tensors[index].alias_of = found;
    graph->tensors[index].alias_offset = offset;
    graph->has_aliases = true;
    return WEIR_OK;
}

weir_status weir_plan__graph_set_shape(weir_graph *graph, uint32_t index, weir_tensor_type type,
                                       const uint64_t *shape, size_t rank, weir_error *error) {
    weir_plan__graph_tensor *tensor = &graph->tensors[index];
    bool grown =
        rank < UINT32_MAX && weir__grow(graph->env, (void **)&graph->dimensions, &graph->dimension_capacity,
                                        graph->dimension_count + rank + 1, sizeof *graph->dimensions);
    if (!grown)
        return no_memory(error, rank * sizeof *shape);
    if (rank > 0)
        memcpy(graph->dimensions + graph->dimension_count, shape, rank * sizeof *shape);
    tensor->type = (uint8_t)type;
    tensor->first_dimension = graph->dimension_count;
    tensor->rank = (uint32_t)rank;
    graph->dimension_count += rank;
    return WEIR_OK;
}

bool weir_plan__shape_bytes(weir_tensor_type type, const uint64_t *shape, size_t rank, uint64_t *bytes) {
    unsigned __int128 elements = 1;
    for (size_t i = 0; i < rank; i++)
        if (shape[i] == 0)
            elements = 0;
    for (size_t i = 0; i < rank && elements != 0; i++) {
        if (elements >> 64 != 0 && shape[i] > 1)
            return false;
        elements *= shape[i];
        if (elements >> 66 != 0)
            return false;
    }
    unsigned __int128 size = (elements * weir_plan__type_bits(type) + 7) / 8;
    *bytes = (uint64_t)size;
    return size >> 64 == 0;
}

static weir_status report_size(const weir_graph *graph, weir_text id, weir_error *error) {
    return weir__fail(error, WEIR_ALLOCATION_OVERFLOW, WEIR_PLAN__PREPARE_OPERATOR,
                      "%s: tensor '%.*s' has more than 2^64-1 bytes; its shape must be smaller",
                      graph->source, WEIR_PLAN__SHOW(id));
}

weir_status weir_plan__graph_measure(weir_graph *graph, uint32_t index, weir_error *error) {
    weir_plan__graph_tensor *tensor = &graph->tensors[index];
    const uint64_t *shape = graph->dimensions + tensor->first_dimension;
    if (!weir_plan__shape_bytes((weir_tensor_type)tensor->type, shape, tensor->rank, &tensor->bytes))
        return report_size(graph, weir__name(&graph->tensor_ids, index), error);
    return WEIR_OK;
}

static weir_status refuse_finished(const weir_graph *graph, weir_error *error) {
    return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PLAN__PREPARE_OPERATOR,
                      "%s is finished and cannot be changed; build another one", graph->source);
}

static weir_status check_tensor_fields(const weir_graph *graph, const weir_tensor_info *info,
                                       weir_error *error) {
    const char *fault = NULL;
    if (!is_valid_text(info->id))
        fault = "an id that is not valid UTF-8";
    else if ((unsigned)info->role >= WEIR_ROLE_UNKNOWN)
        fault = "an unknown role";
    else if ((unsigned)info->saved_for_backward > WEIR_CHOICE_TRUE)
        fault = "an unknown choice of saved_for_backward";
    else if (info->arena.size > WEIR_PLAN__ARENA_NAME_MAX || !is_valid_text(info->arena))
        fault = "an arena name that is not 1 to 64 bytes of UTF-8";
    else if (info->alias_offset > (info->is_alias ? INT64_MAX : 0))
        fault = "an alias_offset without is_alias, or one beyond 2^63 - 1";
    if (!fault)
        return WEIR_OK;
    return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR, "%s: tensor '%.*s' has %s",
                      graph->source, WEIR_PLAN__SHOW(info->id), fault);
}

weir_status weir_graph_add_tensor(weir_graph *graph, const weir_tensor_info *info, weir_error *error) {
    uint64_t bytes = 0;
    if (graph->is_finished)
        return refuse_finished(graph, error);
    WEIR__TRY(check_tensor_fields(graph, info, error));
    bool is_new = weir__names_find(&graph->tensor_ids, info->id.data, info->id.size) == WEIR__NO_NAME;
    if (is_new && (unsigned)info->type >= WEIR_TENSOR_UNKNOWN)
        return weir__fail(error, WEIR_INVALID_IR_SHAPES, WEIR_PLAN__PREPARE_OPERATOR,
                          "%s: tensor '%.*s' has an unknown dtype", graph->source, WEIR_PLAN__SHOW(info->id));
    if (is_new && !weir_plan__shape_bytes(info->type, info->shape, info->rank, &bytes))
        return report_size(graph, info->id, error);
    if (is_new && info->is_alias &&
        weir__names_find(&graph->tensor_ids, info->alias_of.data, info->alias_of.size) == WEIR__NO_NAME)
        return report_no_original(graph, info->id, info->alias_of, error);
    bool grown = info->rank < UINT32_MAX &&
                 weir__grow(graph->env, (void **)&graph->dimensions, &graph->dimension_capacity,
                            graph->dimension_count + info->rank + 1, sizeof *graph->dimensions);
    if (!grown)
        return no_memory(error, info->rank);
    WEIR__TRY(weir_plan__graph_declare_tensor(graph, info, error));
    uint32_t index = graph->tensor_ids.count - 1;
    graph->tensors[index].bytes = bytes;
    if (info->is_alias)
        WEIR__TRY(weir_plan__graph_set_original(graph, index, info->alias_of, info->alias_offset, error));
    return weir_plan__graph_set_shape(graph, index, info->type, info->shape, info->rank, error);
}

/* ---- Nodes ------------------------------------------------------------------------------------- */

/* Writes the indexes of the named tensors; the ids of a node, or the graph's outputs (node.size 0). */
static weir_status find_tensors(const weir_graph *graph, weir_text node, const char *verb,
                                const weir_text *ids, size_t count, uint32_t *out, weir_error *error) {
    for (size_t i = 0; i < count; i++) {
        out[i] = weir__names_find(&graph->tensor_ids, ids[i].data, ids[i].size);
        if (out[i] == WEIR__NO_NAME)
            return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                              "%s: %s '%.*s' %s the tensor '%.*s', which is not declared", graph->source,
                              node.data ? "node" : "graph", WEIR_PLAN__SHOW(node.data ? node : graph->name),
                              verb, WEIR_PLAN__SHOW(ids[i]));
    }
    return WEIR_OK;
}

weir_status weir_graph_add_node(weir_graph *graph, const weir_node_info *info, weir_error *error) {
    if (graph->is_finished)
        return refuse_finished(graph, error);
    bool is_text = is_valid_text(info->id) && is_valid_text(info->op);
    if (!is_text || (unsigned)info->inplace > WEIR_CHOICE_TRUE || (unsigned)info->saves > WEIR_SAVES_BOTH)
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "%s: node '%.*s' has an id or op that is not UTF-8, or an unknown inplace or saves",
                          graph->source, WEIR_PLAN__SHOW(info->id));
    if (info->has_cost && info->cost >= (uint64_t)1 << 56)
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "%s: node '%.*s': its cost must be below 2^56", graph->source,
                          WEIR_PLAN__SHOW(info->id));
    size_t edges = info->input_count + info->output_count;
    uint32_t op;
    uint32_t index;
    /* Room for an edge more than there are, so that `edges` is an array even where no node has any. */
    if (info->input_count >= UINT32_MAX || info->output_count >= UINT32_MAX ||
        !weir__grow(graph->env, (void **)&graph->nodes, &graph->node_capacity,
                    (size_t)graph->node_ids.count + 1, sizeof *graph->nodes) ||
        !weir__grow(graph->env, (void **)&graph->edges, &graph->edge_capacity, graph->edge_count + edges + 1,
                    sizeof *graph->edges))
        return no_memory(error, edges * sizeof *graph->edges);
    if (weir__names_find(&graph->node_ids, info->id.data, info->id.size) != WEIR__NO_NAME)
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "%s: two nodes have the id '%.*s'; ids must be unique", graph->source,
                          WEIR_PLAN__SHOW(info->id));
    uint32_t *to = graph->edges + graph->edge_count;
    WEIR__TRY(find_tensors(graph, info->id, "reads", info->inputs, info->input_count, to, error));
    WEIR__TRY(find_tensors(graph, info->id, "writes", info->outputs, info->output_count,
                           to + info->input_count, error));
    if (weir__names_add(graph->env, &graph->ops, info->op.data, info->op.size, &op) == WEIR__NAME_NO_MEMORY ||
        weir__names_add(graph->env, &graph->node_ids, info->id.data, info->id.size, &index) ==
            WEIR__NAME_NO_MEMORY)
        return no_memory(error, info->id.size);
    weir_plan__node *node = &graph->nodes[index];
    *node = (weir_plan__node){.first_edge = graph->edge_count,
                              .input_count = (uint32_t)info->input_count,
                              .output_count = (uint32_t)info->output_count,
                              .op = op,
                              .given_inplace = (uint8_t)info->inplace,
                              .given_saves = (uint8_t)info->saves,
                              .has_cost = info->has_cost,
                              .cost = info->cost};
    weir_plan__apply_operator_table(info->op, node);
    graph->edge_count += edges;
    return WEIR_OK;
}

/* ---- Outputs and order ------------------------------------------------------------------------- */

weir_status weir_graph_set_outputs(weir_graph *graph, const weir_text *ids, size_t count, weir_error *error) {
    if (graph->is_finished)
        return refuse_finished(graph, error);
    uint32_t *outputs = weir__allocate(graph->env, count, sizeof *outputs);
    if (!outputs)
        return no_memory(error, count * sizeof *outputs);
    weir_status status = find_tensors(graph, (weir_text){0}, "has as output", ids, count, outputs, error);
    for (size_t i = 0; status == WEIR_OK && i < graph->output_count; i++)
        graph->tensors[graph->outputs[i]].is_output = false;
    size_t marked = 0;
    for (; status == WEIR_OK && marked < count && !graph->tensors[outputs[marked]].is_output; marked++)
        graph->tensors[outputs[marked]].is_output = true;
    if (status == WEIR_OK && marked < count)
        status = weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                            "%s: the graph's outputs name a tensor twice; name each once", graph->source);
    if (status != WEIR_OK) { /* all is as it was */
        while (marked-- > 0)
            graph->tensors[outputs[marked]].is_output = false;
        for (size_t i = 0; i < graph->output_count; i++)
            graph->tensors[graph->outputs[i]].is_output = true;
        weir__release(graph->env, outputs);
        return status;
    }
    weir__release(graph->env, graph->outputs);
    graph->outputs = outputs;
    graph->output_count = count;
    return WEIR_OK;
}

weir_status weir_graph_set_order(weir_graph *graph, const weir_text *ids, size_t count, weir_error *error) {
    if (graph->is_finished)
        return refuse_finished(graph, error);
    for (size_t i = 0; i < count; i++)
        if (!is_valid_text(ids[i]))
            return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                              "%s: the order has an id that is not valid UTF-8", graph->source);
    weir__names kept = {0};
    uint32_t *indexes = weir__allocate(graph->env, count, sizeof *indexes);
    bool has_memory = indexes != NULL;
    for (size_t i = 0; i < count && has_memory; i++)
        has_memory =
            weir__names_add(graph->env, &kept, ids[i].data, ids[i].size, &indexes[i]) != WEIR__NAME_NO_MEMORY;
    if (!has_memory) {
        weir__names_release(graph->env, &kept);
        weir__release(graph->env, indexes);
        return no_memory(error, count * sizeof *indexes);
    }
    weir__names_release(graph->env, &graph->order);
    weir__release(graph->env, graph->order_indexes);
    graph->order = kept;
    graph->order_indexes = indexes;
    graph->order_count = count;
    graph->has_order = true;
    return WEIR_OK;
}

weir_status weir_plan__graph_set_step(weir_graph *graph, weir_text step, weir_error *error) {
    graph->steps_in_backward = weir_plan__same_text(step, "backward");
    if (graph->steps_in_backward || weir_plan__same_text(step, "end"))
        return WEIR_OK;
    return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                      "%s: the optimizer's step is taken at the 'end' or in 'backward', not '%.*s'",
                      graph->source, WEIR_PLAN__SHOW(step));
}

/* ---- Checks that need the whole graph ----------------------------------------------------------- */

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

/* One producer at most, none for inputs, parameters and state, one for what is used or an output. */
static weir_status check_producers(weir_graph *graph, weir_error *error) {
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

weir_status weir_graph_finish(weir_graph *graph, weir_error *error) {
    if (graph->is_finished)
        return refuse_finished(graph, error);
    WEIR__TRY(check_producers(graph, error));
    WEIR__TRY(weir_plan__graph_check_aliases(graph, error));
    WEIR__TRY(weir_plan__graph_compute_hash(graph, error));
    graph->is_finished = true;
    return WEIR_OK;
}

/* ---- Accessors --------------------------------------------------------------------------------- */

weir_tensor_info weir_plan__graph_tensor_info(const weir_graph *graph, uint32_t index) {
    const weir_plan__graph_tensor *tensor = &graph->tensors[index];
    weir_tensor_info info = {.id = weir__name(&graph->tensor_ids, index),
                             .type = (weir_tensor_type)tensor->type,
                             .role = (weir_tensor_role)tensor->role,
                             .saved_for_backward = (weir_choice)tensor->saved_for_backward,
                             .shape = graph->dimensions + tensor->first_dimension,
                             .rank = tensor->rank,
                             .is_alias = tensor->alias_of != WEIR__NO_NAME,
                             .alias_offset = tensor->alias_offset};
    if (tensor->has_arena)
        info.arena = weir__name(&graph->arenas, tensor->arena);
    if (info.is_alias)
        info.alias_of = weir__name(&graph->tensor_ids, tensor->alias_of);
    return info;
}

weir_node_info weir_plan__graph_node_info(const weir_graph *graph, uint32_t index) {
    const weir_plan__node *node = &graph->nodes[index];
    return (weir_node_info){.id = weir__name(&graph->node_ids, index),
                            .op = weir__name(&graph->ops, node->op),
                            .input_count = node->input_count,
                            .output_count = node->output_count,
                            .inplace = (weir_choice)node->given_inplace,
                            .saves = (weir_saves)node->given_saves,
                            .has_cost = node->has_cost,
                            .cost = node->cost};
}

weir_text weir_graph_name(const weir_graph *graph) {
    return graph->name;
}

size_t weir_graph_tensor_count(const weir_graph *graph) {
    return graph->tensor_ids.count;
}

size_t weir_graph_node_count(const weir_graph *graph) {
    return graph->node_ids.count;
}

void weir_graph_hash(const weir_graph *graph, uint8_t hash[WEIR_HASH_SIZE]) {
    memcpy(hash, graph->hash, WEIR_HASH_SIZE);
}
