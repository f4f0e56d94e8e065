/* Base steps of a graph in one mode: tensors, nodes and what each step needs, makes and overwrites, in flat
 * arrays. Lists of inputs and needs name a tensor once, however often the node does. */
#include <string.h>

#include "plan/steps.h"

typedef unsigned __int128 wide;

#define STEPS_OPERATOR "UML_OS.Model.AnalyzeLiveness_v1"

void weir_plan__steps_release(weir_plan__steps *s) {
    weir__arena_release(&s->memory);
}

/* False: no memory. */
static bool open_steps(const weir_graph *graph, const weir_plan__liveness *l, weir_plan__steps *s,
                       uint32_t gradients) {
    weir__arena *m = &s->memory;
    size_t tensors = s->all_tensors;
    size_t nodes = s->all_nodes;
    size_t reads = graph->edge_count * (l->shares_places ? 2 : 1); /* an alias, and its owner */
    size_t edges = reads + (s->link.bytes ? 4 * (size_t)s->tensor_count : 0);
    s->sizes = weir__arena_take_zero(m, tensors, sizeof *s->sizes);
    s->arena = weir__arena_take_zero(m, tensors, sizeof *s->arena);
    s->producer = weir__arena_take_zero(m, tensors, sizeof *s->producer);
    s->permanent = weir__arena_take_zero(m, tensors, sizeof *s->permanent);
    s->is_output = weir__arena_take_zero(m, s->tensor_count, sizeof *s->is_output);
    s->is_shared = weir__arena_take_zero(m, s->tensor_count, sizeof *s->is_shared);
    s->costs = weir__arena_take_zero(m, nodes, sizeof *s->costs);
    s->is_inplace = weir__arena_take_zero(m, s->node_count, sizeof *s->is_inplace);
    s->kills = weir__arena_take_zero(m, nodes, sizeof *s->kills);
    s->order = weir__arena_take_zero(m, s->node_count, sizeof *s->order);
    s->place = weir__arena_take_zero(m, s->node_count, sizeof *s->place);
    s->inputs.first = weir__arena_take_zero(m, nodes + 1, sizeof *s->inputs.first);
    s->inputs.items = weir__arena_take_zero(m, edges, sizeof *s->inputs.items);
    s->outputs.first = weir__arena_take_zero(m, nodes + 1, sizeof *s->outputs.first);
    s->outputs.items = weir__arena_take_zero(m, edges, sizeof *s->outputs.items);
    s->saved.first = weir__arena_take_zero(m, (size_t)s->node_count + 1, sizeof *s->saved.first);
    s->saved.items = weir__arena_take_zero(m, reads, sizeof *s->saved.items);
    s->needs.first = weir__arena_take_zero(m, (size_t)s->tensor_count + 1, sizeof *s->needs.first);
    s->needs.items = weir__arena_take_zero(m, 2 * reads, sizeof *s->needs.items);
    s->gradients = weir__arena_take_zero(m, gradients, sizeof *s->gradients);
    return !m->is_short;
}

/* ---- Tensors ------------------------------------------------------------------------------------ */

static weir_status too_large(const weir_graph *graph, weir_error *error) {
    return weir__fail(error, WEIR_ALLOCATION_OVERFLOW, STEPS_OPERATOR,
                      "%s: its tensors together pass 2^62 bytes; nothing can be recomputed or reordered",
                      graph->source);
}

static bool add_size(uint64_t size, uint64_t alignment, uint64_t *rounded, uint64_t *sum) {
    return weir_plan__round_up(size, alignment, rounded) && !__builtin_add_overflow(*sum, *rounded, sum) &&
           *sum < (uint64_t)1 << 62;
}

static weir_status fill_tensors(const weir_graph *graph, const weir_plan *plan, const weir_plan__liveness *l,
                                const uint64_t *alignments, weir_plan__steps *s, weir_error *error) {
    uint64_t sum = 0;
    for (uint32_t t = 0; t < s->tensor_count; t++) {
        const weir_plan__graph_tensor *tensor = &graph->tensors[t];
        uint64_t bytes = weir_plan__owner_of(graph, l, t) == t ? tensor->bytes : 0;
        if (!add_size(bytes, alignments[tensor->arena], &s->sizes[t], &sum))
            return too_large(graph, error);
        s->arena[t] = tensor->arena;
        s->producer[t] = tensor->producer;
        s->is_output[t] = tensor->is_output;
        s->permanent[t] = tensor->role == WEIR_ROLE_PARAMETER || tensor->role == WEIR_ROLE_STATE ||
                          tensor->is_output ||
                          (s->mode == WEIR_PLAN__FORWARD && tensor->saved_for_backward == WEIR_CHOICE_TRUE);
    }
    for (uint32_t t = 0; t < s->tensor_count; t++) {
        uint32_t owner = weir_plan__owner_of(graph, l, t);
        s->permanent[owner] |= s->permanent[t];
        s->is_shared[owner] |= owner != t;
    }
    for (uint32_t t = 0, row = s->tensor_count; row < plan->count; t++) {
        if (!l->marks[t])
            continue;
        weir_plan__gradient_life *gradient = &s->gradients[s->gradient_count++];
        *gradient = (weir_plan__gradient_life){
            .tensor = t, .first = plan->rows[row].birth - 1, .last = plan->rows[row].death - 2};
        if (!add_size(plan->rows[row++].size, alignments[WEIR_PLAN__ARENA_GRADIENTS], &gradient->size, &sum))
            return too_large(graph, error);
    }
    return WEIR_OK;
}

/* ---- Nodes -------------------------------------------------------------------------------------- */

/* Appends a tensor unless the mark has it already. */
static uint32_t append_new(uint32_t tensor, uint32_t mark, uint32_t *marks, uint32_t *to, uint32_t at) {
    if (marks[tensor] != mark) {
        marks[tensor] = mark;
        to[at++] = tensor;
    }
    return at;
}

/* Appends a tensor that is read, and after it the one whose bytes it has. */
static uint32_t append_read(const weir_graph *graph, const weir_plan__liveness *l, uint32_t tensor,
                            uint32_t mark, uint32_t *marks, uint32_t *to, uint32_t at) {
    at = append_new(tensor, mark, marks, to, at);
    return append_new(weir_plan__owner_of(graph, l, tensor), mark, marks, to, at);
}

/* `marks` is all zero; numbers from 1 mark what a list has already. */
static void fill_nodes(const weir_graph *graph, const weir_plan__liveness *l, weir_plan__steps *s,
                       uint32_t *marks) {
    uint32_t mark = 0;
    for (uint32_t i = 0; i < s->node_count; i++) {
        const weir_plan__node *node = &graph->nodes[i];
        const uint32_t *inputs = weir_plan__inputs(graph, node);
        const uint32_t *outputs = weir_plan__node_outputs(graph, node);
        uint32_t at = s->inputs.first[i];
        mark++;
        for (uint32_t k = 0; k < node->input_count; k++)
            at = append_read(graph, l, inputs[k], mark, marks, s->inputs.items, at);
        s->inputs.first[i + 1] = at;
        at = s->outputs.first[i];
        mark++;
        for (uint32_t k = 0; k < node->output_count; k++)
            at = append_new(outputs[k], mark, marks, s->outputs.items, at);
        s->outputs.first[i + 1] = at;
        at = s->saved.first[i];
        mark++;
        for (uint32_t k = 0; s->mode == WEIR_PLAN__BACKWARD && k < node->input_count + node->output_count;
             k++) {
            uint8_t choice = graph->tensors[inputs[k]].saved_for_backward; /* outputs follow the inputs */
            bool node_saves = k < node->input_count ? node->saves_inputs : node->saves_output;
            if (choice == WEIR_CHOICE_TRUE || (node_saves && choice != WEIR_CHOICE_FALSE))
                at = append_read(graph, l, inputs[k], mark, marks, s->saved.items, at);
        }
        s->saved.first[i + 1] = at;
        s->costs[i] = weir_plan__node_cost(graph, i);
        s->is_inplace[i] = node->inplace;
        uint32_t killed =
            l->overwritten && node->output_count == 1 ? l->overwritten[outputs[0]] : WEIR__NO_NAME;
        s->kills[i] = killed == WEIR__NO_NAME ? killed : weir_plan__owner_of(graph, l, killed);
        s->order[i] = l->order[i];
        s->place[i] = l->position[i] - 1;
    }
}

/* ---- Transfers ---------------------------------------------------------------------------------- */

uint64_t weir_plan__move_cost(weir_plan__link link, uint64_t size) {
    wide cost = ((wide)size * link.speed + link.bytes - 1) / link.bytes;
    return cost > WEIR_PLAN__COST_MAX ? WEIR_PLAN__COST_MAX : cost > 0 ? (uint64_t)cost : 1;
}

static void add_transfer(weir_plan__steps *s, uint32_t node, uint32_t from, uint32_t to, uint64_t cost) {
    s->inputs.items[s->inputs.first[node]] = from;
    s->inputs.first[node + 1] = s->inputs.first[node] + 1;
    s->outputs.items[s->outputs.first[node]] = to;
    s->outputs.first[node + 1] = s->outputs.first[node] + 1;
    s->costs[node] = cost;
    s->kills[node] = WEIR__NO_NAME;
}

static weir_status add_transfers(const weir_graph *graph, const uint64_t *alignments, weir_plan__steps *s,
                                 weir_error *error) {
    uint64_t sum = 0;
    for (uint32_t t = 0; t < s->tensor_count; t++) {
        uint32_t copy = s->tensor_count + t;
        if (!add_size(graph->tensors[t].bytes, alignments[s->host], &s->sizes[copy], &sum))
            return too_large(graph, error);
        s->arena[copy] = s->host;
        s->producer[copy] = weir_plan__out_of(s, t);
        add_transfer(s, weir_plan__out_of(s, t), t, copy, weir_plan__move_cost(s->link, s->sizes[t]));
    }
    for (uint32_t t = 0; t < s->tensor_count; t++)
        add_transfer(s, weir_plan__in_of(s, t), s->tensor_count + t, t, weir_plan__move_of(s, t));
    for (uint32_t t = 0; t < s->tensor_count; t++) { /* both ends are there until it is complete */
        uint32_t node = weir_plan__wait_of(s, t);
        uint32_t at = s->inputs.first[node];
        s->inputs.items[at] = t;
        s->inputs.items[at + 1] = s->tensor_count + t;
        s->inputs.first[node + 1] = at + 2;
        s->outputs.first[node + 1] = s->outputs.first[node];
        s->kills[node] = WEIR__NO_NAME;
    }
    return WEIR_OK;
}

/* The base steps that need each tensor, counted, then listed. `cursors` has room for all tensors. */
static void list_needs(weir_plan__steps *s, uint32_t *cursors) {
    for (uint32_t i = 0; i < s->step_count; i++) {
        weir_plan__list needs = weir_plan__reads_of(s, weir_plan__base_step(s, i));
        for (uint32_t k = 0; k < needs.count; k++)
            s->needs.first[needs.items[k] + 1]++;
    }
    for (uint32_t t = 0; t < s->tensor_count; t++) {
        s->needs.first[t + 1] += s->needs.first[t];
        cursors[t] = s->needs.first[t];
    }
    for (uint32_t i = 0; i < s->step_count; i++) {
        weir_plan__list needs = weir_plan__reads_of(s, weir_plan__base_step(s, i));
        for (uint32_t k = 0; k < needs.count; k++)
            s->needs.items[cursors[needs.items[k]]++] = i;
    }
}

/* ---- All of it ---------------------------------------------------------------------------------- */

uint32_t weir_plan__arena_of_setting(const weir_graph *graph, const weir_plan__arena_setting *setting) {
    uint32_t arena = weir__names_find(&graph->arenas, setting->name.data, setting->name.size);
    bool is_host = arena == WEIR__NO_NAME && weir_plan__same_text(setting->name, WEIR_PLAN__HOST);
    return is_host ? graph->arenas.count : arena;
}

weir_status weir_plan__steps_make(const weir_graph *graph, const weir_plan *plan,
                                  const weir_plan__liveness *l, const weir_plan__limits *limits,
                                  weir_plan__steps *s, weir_error *error) {
    weir_plan__link link = limits->link;
    size_t arenas = (size_t)graph->arenas.count + 1; /* and the host's */
    *s = (weir_plan__steps){.env = plan->env,
                            .mode = plan->mode,
                            .tensor_count = weir_plan__graph_tensor_count(graph),
                            .node_count = weir_plan__node_count(graph),
                            .arena_count = graph->arenas.count,
                            .link = link,
                            .host = graph->arenas.count};
    s->step_count = plan->mode == WEIR_PLAN__BACKWARD ? 2 * s->node_count : s->node_count;
    if (graph->edge_count > UINT32_MAX / 4 || s->node_count > UINT32_MAX / 4 ||
        s->tensor_count > UINT32_MAX / 16)
        return too_large(graph, error);
    s->all_tensors = link.bytes ? 2 * s->tensor_count : s->tensor_count;
    s->all_nodes = link.bytes ? s->node_count + 3 * s->tensor_count : s->node_count;
    weir__arena_init(&s->memory, plan->env);
    bool has_memory = open_steps(graph, l, s, plan->count - s->tensor_count);
    uint32_t *marks = weir__arena_take_zero(&s->memory, s->tensor_count, sizeof *marks);
    uint64_t *alignments = weir__arena_take(&s->memory, arenas * sizeof *alignments);
    if (!has_memory || !marks || !alignments)
        return weir__out_of_memory(error, STEPS_OPERATOR, s->tensor_count * sizeof *s->sizes);
    for (size_t a = 0; a < arenas; a++)
        alignments[a] = WEIR_ALIGNMENT_DEFAULT;
    for (size_t i = 0; i < limits->setting_count; i++) {
        uint32_t arena = weir_plan__arena_of_setting(graph, &limits->settings[i]);
        if (arena != WEIR__NO_NAME && limits->settings[i].has_alignment)
            alignments[arena] = limits->settings[i].alignment;
    }
    WEIR__TRY(fill_tensors(graph, plan, l, alignments, s, error));
    fill_nodes(graph, l, s, marks);
    if (link.bytes)
        WEIR__TRY(add_transfers(graph, alignments, s, error));
    list_needs(s, marks);
    return WEIR_OK;
}
