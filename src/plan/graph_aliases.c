/* Tensors that lie in the bytes of another one (docs/spec/03h-aliases.md): who owns each place, and whether
 * the graph's aliases can share theirs at all. Whether a write comes too early depends on the order and the
 * mode: liveness.c looks at that. */
#include "plan/graph.h"

static weir_status refuse(const weir_graph *graph, uint32_t tensor, uint32_t other, const char *what,
                          weir_error *error) {
    return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                      "%s: tensor '%.*s' cannot lie in the place of '%.*s': %s", graph->source,
                      WEIR_PLAN__SHOW(weir__name(&graph->tensor_ids, tensor)),
                      WEIR_PLAN__SHOW(weir__name(&graph->tensor_ids, other)), what);
}

/* Owners along the chain from `tensor`, whose owners are not known from there to one that is. A tensor's own
 * index stands for "not known"; tensors that are no aliases keep it. */
static weir_status find_owner(weir_graph *graph, uint32_t tensor, weir_error *error) {
    weir_plan__graph_tensor *all = graph->tensors;
    uint64_t offset = 0;
    uint32_t at = tensor;
    for (uint32_t steps = 0; all[at].alias_of != WEIR__NO_NAME && all[at].owner == at; steps++) {
        if (steps == weir_plan__graph_tensor_count(graph))
            return refuse(graph, tensor, all[tensor].alias_of,
                          "the chain of originals comes back to itself; one of them needs a place of its own",
                          error);
        offset += all[at].alias_offset;
        at = all[at].alias_of;
    }
    uint32_t owner = all[at].owner;
    offset += all[at].owner_offset;
    for (uint32_t next; all[tensor].alias_of != WEIR__NO_NAME && all[tensor].owner == tensor; tensor = next) {
        next = all[tensor].alias_of;
        all[tensor].owner = owner;
        all[tensor].owner_offset = offset;
        offset -= all[tensor].alias_offset;
    }
    return WEIR_OK;
}

static weir_status check_arenas(weir_graph *graph, weir_error *error) {
    for (uint32_t i = 0; i < weir_plan__graph_tensor_count(graph); i++) {
        weir_plan__graph_tensor *alias = &graph->tensors[i];
        const weir_plan__graph_tensor *owner = &graph->tensors[alias->owner];
        if (alias->alias_of == WEIR__NO_NAME)
            continue;
        if (alias->has_arena && alias->arena != owner->arena)
            return refuse(graph, i, alias->owner, "they are in different arenas; leave out its arena", error);
        if (alias->producer == WEIR__NO_NAME && owner->producer != WEIR__NO_NAME)
            return refuse(graph, i, alias->owner, "a node makes that, and none makes this", error);
        alias->arena = owner->arena;
    }
    return WEIR_OK;
}

/* `reader_of`: of each owner, 1 + the node that was last seen to read its place; all 0 at first. */
static weir_status check_makers(const weir_graph *graph, uint32_t *reader_of, weir_error *error) {
    for (uint32_t n = 0; n < weir_plan__node_count(graph); n++) {
        const weir_plan__node *node = &graph->nodes[n];
        const uint32_t *inputs = weir_plan__inputs(graph, node);
        const uint32_t *outputs = weir_plan__node_outputs(graph, node);
        for (uint32_t k = 0; k < node->input_count; k++)
            reader_of[graph->tensors[inputs[k]].owner] = n + 1;
        for (uint32_t k = 0; k < node->output_count; k++) {
            const weir_plan__graph_tensor *made = &graph->tensors[outputs[k]];
            if (made->alias_of != WEIR__NO_NAME && reader_of[made->owner] != n + 1)
                return refuse(graph, outputs[k], made->owner, "the node that makes it does not read that",
                              error);
        }
    }
    return WEIR_OK;
}

weir_status weir_plan__graph_check_aliases(weir_graph *graph, weir_error *error) {
    uint32_t count = weir_plan__graph_tensor_count(graph);
    if (!graph->has_aliases)
        return WEIR_OK;
    for (uint32_t i = 0; i < count; i++) {
        weir_plan__graph_tensor *alias = &graph->tensors[i];
        uint64_t end;
        alias->owner = i;
        alias->owner_offset = 0;
        if (alias->alias_of != WEIR__NO_NAME &&
            (__builtin_add_overflow(alias->alias_offset, alias->bytes, &end) ||
             end > graph->tensors[alias->alias_of].bytes))
            return refuse(graph, i, alias->alias_of,
                          "its bytes reach beyond those; give it a place of its own", error);
    }
    for (uint32_t i = 0; i < count; i++)
        WEIR__TRY(find_owner(graph, i, error));
    WEIR__TRY(check_arenas(graph, error));
    uint32_t *reader_of = weir__allocate_zero(graph->env, count, sizeof *reader_of);
    if (!reader_of)
        return weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR, count * sizeof *reader_of);
    weir_status status = check_makers(graph, reader_of, error);
    weir__release(graph->env, reader_of);
    return status;
}

/* ---- Places that are written, where operators run again ------------------------------------------ */

/* Takes the outputs of the node at a place of the order; `current` is what has the bytes of each owner. */
static void add_versions(weir_plan__versions *v, const weir_graph *graph, const weir_plan__node *node,
                         uint32_t place, uint32_t *current) {
    for (uint32_t k = 0; k < node->output_count; k++) {
        uint32_t output = weir_plan__node_outputs(graph, node)[k];
        weir_plan__graph_tensor *made = &v->graph.tensors[output];
        uint32_t owner = graph->tensors[output].owner;
        if (owner == output)
            continue;
        made->owner = current[owner];
        if (!weir_plan__node_overwrites(graph, node, output))
            continue;
        v->is_whole &= node->output_count == 1 && made->owner_offset == 0 &&
                       made->bytes == graph->tensors[owner].bytes && v->ends[owner] != UINT32_MAX;
        v->before[output] = current[owner];
        v->ends[current[owner]] = place + 1;
        made->alias_of = WEIR__NO_NAME;
        made->owner = current[owner] = output;
    }
}

bool weir_plan__versions_make(const weir_env *env, const weir_graph *graph, const uint32_t *order,
                              weir_plan__versions *v) {
    uint32_t count = weir_plan__graph_tensor_count(graph);
    uint32_t *current = weir__allocate(env, count, sizeof *current);
    *v = (weir_plan__versions){.graph = *graph, .is_whole = true};
    v->graph.tensors = weir__allocate(env, count, sizeof *v->graph.tensors);
    v->before = weir__allocate(env, count, sizeof *v->before);
    v->ends = weir__allocate_zero(env, count, sizeof *v->ends);
    bool has_memory = current && v->graph.tensors && v->before && v->ends;
    for (uint32_t i = 0; has_memory && i < count; i++) {
        const weir_plan__graph_tensor *tensor = &graph->tensors[i];
        v->graph.tensors[i] = *tensor;
        v->before[i] = WEIR__NO_NAME;
        current[i] = i;
        if (tensor->role == WEIR_ROLE_PARAMETER || tensor->role == WEIR_ROLE_STATE)
            v->ends[tensor->owner] = UINT32_MAX;
    }
    for (uint32_t place = 0; has_memory && place < weir_plan__node_count(graph); place++)
        add_versions(v, graph, &graph->nodes[order[place]], place, current);
    weir__release(env, current);
    return has_memory;
}

void weir_plan__versions_release(const weir_env *env, weir_plan__versions *v) {
    weir__release(env, v->graph.tensors);
    weir__release(env, v->before);
    weir__release(env, v->ends);
}
