/* When every tensor lives (AnalyzeLiveness_v1): half-open intervals over positions, from one pass over the
 * nodes. A tensor needs only three numbers: where it is made, the largest position that reads it, and the
 * smallest position that saves it, because the backward step of position p is 2n + 1 - p, and so the latest
 * backward step belongs to the smallest position. */
#include <string.h>

#include "plan/planning.h"

#define LIVENESS_OPERATOR "UML_OS.Model.AnalyzeLiveness_v1"

static uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

static bool saves_by_force(const weir_plan__graph_tensor *tensor) {
    return tensor->saved_for_backward == WEIR_CHOICE_TRUE;
}

static void note_saver(const weir_graph *graph, weir_plan__liveness *l, uint32_t tensor, uint32_t position,
                       bool node_saves) {
    const weir_plan__graph_tensor *saved = &graph->tensors[tensor];
    bool saves = saves_by_force(saved) || (node_saves && saved->saved_for_backward != WEIR_CHOICE_FALSE);
    if (saves && (l->first_saver[tensor] == 0 || position < l->first_saver[tensor]))
        l->first_saver[tensor] = position;
}

static void note_uses(const weir_graph *graph, weir_plan__liveness *l) {
    for (uint32_t i = 0; i < weir_plan__node_count(graph); i++) {
        const weir_plan__node *node = &graph->nodes[i];
        const uint32_t *inputs = weir_plan__inputs(graph, node);
        const uint32_t *outputs = weir_plan__node_outputs(graph, node);
        uint32_t position = l->position[i];
        for (uint32_t k = 0; k < node->input_count; k++) {
            uint32_t input = inputs[k];
            l->last_use[input] = larger(l->last_use[input], position);
            if (l->first_use && graph->tensors[input].role == WEIR_ROLE_PARAMETER) {
                uint32_t *first = &l->first_use[weir_plan__owner_of(graph, l, input)];
                *first = *first == 0 || position < *first ? position : *first;
            }
            note_saver(graph, l, input, position, node->saves_inputs);
        }
        for (uint32_t k = 0; k < node->output_count; k++)
            note_saver(graph, l, outputs[k], position, node->saves_output);
    }
}

/* ---- Places that several tensors share ---------------------------------------------------------- */

/* The last position at which a tensor's own value must still be there. */
static uint32_t needed_until(const weir_graph *graph, const weir_plan *plan, const weir_plan__liveness *l,
                             uint32_t tensor) {
    const weir_plan__graph_tensor *t = &graph->tensors[tensor];
    uint32_t nodes = weir_plan__node_count(graph);
    if (t->is_output || (plan->mode == WEIR_PLAN__FORWARD && saves_by_force(t)))
        return UINT32_MAX;
    if (plan->mode == WEIR_PLAN__BACKWARD && l->first_saver[tensor] > 0)
        return 2 * nodes + 1 - l->first_saver[tensor];
    return l->last_use[tensor];
}

static weir_status report_lost(const weir_graph *graph, const weir_plan *plan, const weir_plan__liveness *l,
                               uint32_t node, uint32_t output, weir_error *error) {
    uint32_t position = l->position[node];
    uint32_t lost = 0;
    for (bool found = false; !found; lost += !found) {
        const weir_plan__graph_tensor *t = &graph->tensors[lost];
        found = t->owner == graph->tensors[output].owner && lost != output &&
                (t->producer == WEIR__NO_NAME || l->position[t->producer] <= position) &&
                needed_until(graph, plan, l, lost) > position;
    }
    return weir__fail(
        error, WEIR_INVALID_IR, LIVENESS_OPERATOR,
        "%s: node '%.*s' writes '%.*s' into the place of '%.*s', which is needed afterwards (by "
        "a later node, as an output or by the backward pass); give '%.*s' a place of its own",
        graph->source, WEIR_PLAN__SHOW(weir__name(&graph->node_ids, node)),
        WEIR_PLAN__SHOW(weir__name(&graph->tensor_ids, output)),
        WEIR_PLAN__SHOW(weir__name(&graph->tensor_ids, lost)),
        WEIR_PLAN__SHOW(weir__name(&graph->tensor_ids, output)));
}

/* Of the tensors in a place that are born, the two that are needed longest. */
typedef struct longest {
    uint32_t first; /* 1 + a tensor; 0: none */
    uint32_t second;
} longest;

static void note_birth(const weir_graph *graph, const weir_plan *plan, const weir_plan__liveness *l,
                       uint32_t tensor, longest *of_place) {
    longest *here = &of_place[graph->tensors[tensor].owner];
    uint32_t needed = needed_until(graph, plan, l, tensor);
    if (here->first == 0 || needed > needed_until(graph, plan, l, here->first - 1)) {
        here->second = here->first;
        here->first = tensor + 1;
    } else if (here->second == 0 || needed > needed_until(graph, plan, l, here->second - 1)) {
        here->second = tensor + 1;
    }
}

/* No value is overwritten that is still needed. */
static weir_status check_writes(const weir_graph *graph, const weir_plan *plan, const weir_plan__liveness *l,
                                weir_error *error) {
    uint32_t tensors = weir_plan__graph_tensor_count(graph);
    longest *of_place = weir__allocate_zero(plan->env, tensors, sizeof *of_place);
    if (!of_place)
        return weir__out_of_memory(error, LIVENESS_OPERATOR, tensors * sizeof *of_place);
    for (uint32_t i = 0; i < tensors; i++)
        if (graph->tensors[i].producer == WEIR__NO_NAME)
            note_birth(graph, plan, l, i, of_place);
    weir_status status = WEIR_OK;
    for (uint32_t place = 0; status == WEIR_OK && place < weir_plan__node_count(graph); place++) {
        uint32_t node = l->order[place];
        const uint32_t *outputs = weir_plan__node_outputs(graph, &graph->nodes[node]);
        uint32_t count = graph->nodes[node].output_count;
        for (uint32_t k = 0; k < count; k++)
            note_birth(graph, plan, l, outputs[k], of_place);
        for (uint32_t k = 0; status == WEIR_OK && k < count; k++) {
            longest here = of_place[graph->tensors[outputs[k]].owner];
            uint32_t other = here.first == outputs[k] + 1 ? here.second : here.first;
            if (weir_plan__node_overwrites(graph, &graph->nodes[node], outputs[k]) && other != 0 &&
                needed_until(graph, plan, l, other - 1) > l->position[node])
                status = report_lost(graph, plan, l, node, outputs[k], error);
        }
    }
    weir__release(plan->env, of_place);
    return status;
}

/* ---- Inference: inputs that are overwritten ---------------------------------------------------- */

/* `seen` counts how often a place stands among the node's inputs; it is all zero before and after. */
static void find_overwritten(const weir_graph *graph, weir_plan__liveness *l, uint32_t index, uint8_t *seen) {
    const weir_plan__node *node = &graph->nodes[index];
    const uint32_t *inputs = weir_plan__inputs(graph, node);
    if (!node->inplace || node->output_count != 1)
        return;
    uint32_t output = weir_plan__node_outputs(graph, node)[0];
    if (weir_plan__owner_of(graph, l, output) != output || l->overwritten[output] != WEIR__NO_NAME)
        return;
    for (uint32_t i = 0; i < node->input_count; i++) {
        uint8_t *here = &seen[weir_plan__owner_of(graph, l, inputs[i])];
        *here = *here == 0 ? 1 : 2;
    }
    const weir_plan__graph_tensor *made = &graph->tensors[output];
    for (uint32_t i = 0; i < node->input_count && l->overwritten[output] == WEIR__NO_NAME; i++) {
        const weir_plan__graph_tensor *old = &graph->tensors[inputs[i]];
        uint32_t owner = weir_plan__owner_of(graph, l, inputs[i]);
        if (seen[owner] == 1 && l->place_last[owner] == l->position[index] && old->bytes == made->bytes &&
            old->type == made->type && old->arena == made->arena &&
            graph->tensors[owner].bytes == made->bytes)
            l->overwritten[output] = inputs[i];
    }
    for (uint32_t i = 0; i < node->input_count; i++)
        seen[weir_plan__owner_of(graph, l, inputs[i])] = 0;
}

static void find_all_overwritten(const weir_graph *graph, weir_plan__liveness *l) {
    for (uint32_t i = 0; i < weir_plan__graph_tensor_count(graph); i++) {
        const weir_plan__graph_tensor *t = &graph->tensors[i];
        bool stays = t->role == WEIR_ROLE_PARAMETER || t->role == WEIR_ROLE_STATE || t->is_output;
        uint32_t *of_place = &l->place_last[weir_plan__owner_of(graph, l, i)];
        *of_place = larger(*of_place, stays ? UINT32_MAX : l->last_use[i]);
    }
    for (uint32_t i = 0; i < weir_plan__node_count(graph); i++)
        find_overwritten(graph, l, i, l->marks);
}

/* ---- Births and deaths ------------------------------------------------------------------------- */

static uint32_t birth_of(const weir_graph *graph, const weir_plan__liveness *l, uint32_t tensor) {
    uint32_t producer = graph->tensors[tensor].producer;
    return producer == WEIR__NO_NAME ? 0 : l->position[producer];
}

static uint32_t death_of(const weir_graph *graph, const weir_plan *plan, weir_plan__liveness *l,
                         uint32_t tensor, uint32_t birth) {
    const weir_plan__graph_tensor *t = &graph->tensors[tensor];
    uint32_t nodes = weir_plan__node_count(graph);
    uint32_t end = plan->mode == WEIR_PLAN__BACKWARD ? 2 * nodes + 1 : nodes + 1;
    uint32_t death = larger(l->last_use[tensor], birth) + 1;
    if (t->role == WEIR_ROLE_PARAMETER || t->role == WEIR_ROLE_STATE || t->is_output)
        death = larger(end, birth + 1);
    if (plan->mode == WEIR_PLAN__FORWARD && saves_by_force(t))
        return larger(death, end);
    if (plan->mode != WEIR_PLAN__BACKWARD)
        return death;
    uint32_t saver = l->first_saver[tensor];
    uint32_t kept = saver > 0 ? larger(death, 2 * nodes + 2 - saver) : death;
    if (t->role == WEIR_ROLE_ACTIVATION) {
        l->activations++;
        l->retained += kept != death;
    }
    return kept;
}

static void fill_rows(const weir_graph *graph, weir_plan *plan, weir_plan__liveness *l) {
    for (uint32_t i = 0; i < weir_plan__graph_tensor_count(graph); i++) {
        const weir_plan__graph_tensor *tensor = &graph->tensors[i];
        uint32_t birth = birth_of(graph, l, i);
        plan->rows[i] = (weir_plan__row){.size = tensor->bytes,
                                         .offset = l->shares_places ? tensor->owner_offset : 0,
                                         .birth = birth,
                                         .arena = tensor->arena,
                                         .owner = weir_plan__owner_of(graph, l, i)};
        plan->rows[i].death = death_of(graph, plan, l, i, birth);
        uint32_t end = l->versions ? l->versions->ends[plan->rows[i].owner] : 0;
        if (end > 0 && plan->rows[i].death > end)
            plan->rows[i].death = end;
        plan->looks[i] = (weir_plan__look){tensor->first_dimension, tensor->rank, tensor->type, tensor->role};
    }
    for (uint32_t i = 0; l->overwritten && i < weir_plan__graph_tensor_count(graph); i++)
        if (l->overwritten[i] != WEIR__NO_NAME)
            plan->rows[l->overwritten[i]].death = birth_of(graph, l, i);
}

/* ---- Gradients --------------------------------------------------------------------------------- */

static const char gradient_suffix[] = ".grad";
enum { SUFFIX_SIZE = sizeof gradient_suffix - 1 };

/* Marks what needs a gradient; returns how many do, and the bytes of their ids. */
static uint32_t find_gradients(const weir_graph *graph, weir_plan__liveness *l, size_t *id_bytes) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < weir_plan__graph_tensor_count(graph); i++)
        l->marks[i] = graph->tensors[i].role == WEIR_ROLE_PARAMETER &&
                      weir_plan__type_is_floating((weir_tensor_type)graph->tensors[i].type);
    for (uint32_t place = 0; place < weir_plan__node_count(graph); place++) {
        const weir_plan__node *node = &graph->nodes[l->order[place]];
        const uint32_t *inputs = weir_plan__inputs(graph, node);
        const uint32_t *outputs = weir_plan__node_outputs(graph, node);
        bool any = false;
        for (uint32_t i = 0; i < node->input_count && !any; i++)
            any = l->marks[inputs[i]];
        for (uint32_t i = 0; any && i < node->output_count; i++)
            l->marks[outputs[i]] =
                weir_plan__type_is_floating((weir_tensor_type)graph->tensors[outputs[i]].type);
    }
    *id_bytes = 0;
    for (uint32_t i = 0; i < weir_plan__graph_tensor_count(graph); i++)
        if (l->marks[i]) {
            count++;
            *id_bytes += weir__name(&graph->tensor_ids, i).size + SUFFIX_SIZE;
        }
    return count;
}

static weir_plan__row gradient_row(const weir_graph *graph, const weir_plan__liveness *l, uint32_t tensor) {
    uint32_t nodes = weir_plan__node_count(graph);
    const weir_plan__graph_tensor *t = &graph->tensors[tensor];
    uint32_t first = t->is_output || l->last_use[tensor] == 0 ? nodes : l->last_use[tensor];
    weir_plan__row row = {
        .size = t->bytes, .arena = WEIR_PLAN__ARENA_GRADIENTS, .birth = 2 * nodes + 1 - first};
    uint32_t death = t->producer == WEIR__NO_NAME ? 2 * nodes + 1 : 2 * nodes + 2 - l->position[t->producer];
    if (l->first_use && t->role == WEIR_ROLE_PARAMETER) {
        uint32_t first_use = l->first_use[weir_plan__owner_of(graph, l, tensor)];
        death = first_use > 0 ? 2 * nodes + 2 - first_use : 0;
    }
    row.death = larger(death, row.birth + 1);
    return row;
}

static weir_status add_gradients(const weir_graph *graph, weir_plan *plan, const weir_plan__liveness *l,
                                 weir_error *error) {
    uint32_t at = weir_plan__graph_tensor_count(graph);
    for (uint32_t i = 0; i < weir_plan__graph_tensor_count(graph); i++) {
        if (!l->marks[i])
            continue;
        uint64_t begin = plan->id_ends[at - 1];
        weir_text id = weir__name(&graph->tensor_ids, i);
        memcpy(plan->id_text + begin, id.data, id.size);
        memcpy(plan->id_text + begin + id.size, gradient_suffix, SUFFIX_SIZE);
        plan->id_ends[at] = begin + id.size + SUFFIX_SIZE;
        weir_text own = weir_plan__id(plan, at);
        if (weir__names_find(&graph->tensor_ids, own.data, own.size) != WEIR__NO_NAME)
            return weir__fail(
                error, WEIR_INVALID_IR, LIVENESS_OPERATOR,
                "%s: tensor '%.*s' needs a gradient called '%.*s', but the graph has a tensor of that id; "
                "rename it",
                graph->source, WEIR_PLAN__SHOW(id), WEIR_PLAN__SHOW(own));
        plan->rows[at] = gradient_row(graph, l, i);
        plan->rows[at].owner = at;
        plan->looks[at] = plan->looks[i];
        plan->looks[at].role = WEIR_ROLE_GRADIENT;
        at++;
    }
    assert(at == plan->count && "as many gradients as were counted");
    return WEIR_OK;
}

/* ---- All of it --------------------------------------------------------------------------------- */

static bool open_liveness(const weir_env *env, const weir_graph *graph, weir_plan__graph_mode mode,
                          weir_plan__liveness *l) {
    uint32_t tensors = weir_plan__graph_tensor_count(graph);
    weir__arena *memory = &l->memory;
    weir__arena_init(memory, env);
    l->last_use = weir__arena_take_zero(memory, tensors, sizeof *l->last_use);
    l->first_saver = weir__arena_take_zero(memory, tensors, sizeof *l->first_saver);
    l->marks = weir__arena_take_zero(memory, tensors, 1);
    if (graph->steps_in_backward && mode == WEIR_PLAN__BACKWARD)
        l->first_use = weir__arena_take_zero(memory, tensors, sizeof *l->first_use);
    if (mode == WEIR_PLAN__INFERENCE)
        l->place_last = weir__arena_take_zero(memory, tensors, sizeof *l->place_last);
    if (mode == WEIR_PLAN__INFERENCE || l->versions)
        l->overwritten = weir__arena_take(memory, tensors * sizeof *l->overwritten);
    for (uint32_t i = 0; l->overwritten && i < tensors; i++)
        l->overwritten[i] = l->versions ? l->versions->before[i] : WEIR__NO_NAME;
    return !memory->is_short;
}

/* Room for all tensors and gradients, with the graph's ids and dimensions copied. */
static bool open_tensors(const weir_graph *graph, weir_plan *plan, uint32_t gradients, size_t id_bytes) {
    weir__arena *memory = &plan->memory;
    uint32_t tensors = weir_plan__graph_tensor_count(graph);
    size_t text = tensors ? (size_t)graph->tensor_ids.ends[tensors - 1] : 0;
    size_t total = (size_t)tensors + gradients;
    if (total >= WEIR__NO_NAME)
        return false;
    plan->count = (uint32_t)total;
    plan->id_text = weir__arena_take(memory, text + id_bytes);
    plan->id_ends = weir__arena_take(memory, total * sizeof *plan->id_ends);
    plan->rows = weir__arena_take(memory, total * sizeof *plan->rows);
    plan->looks = weir__arena_take(memory, total * sizeof *plan->looks);
    plan->dimensions = weir__arena_take(memory, graph->dimension_count * sizeof *plan->dimensions);
    if (memory->is_short)
        return false;
    if (tensors > 0) {
        memcpy(plan->id_text, graph->tensor_ids.text, text);
        memcpy(plan->id_ends, graph->tensor_ids.ends, tensors * sizeof *plan->id_ends);
    }
    if (graph->dimension_count > 0)
        memcpy(plan->dimensions, graph->dimensions, graph->dimension_count * sizeof *plan->dimensions);
    return true;
}

weir_status weir_plan__analyze_liveness(const weir_graph *graph, weir_plan *plan, weir_plan__liveness *l,
                                        weir_error *error) {
    uint32_t gradients = 0;
    size_t id_bytes = 0;
    if (weir_plan__node_count(graph) > (UINT32_MAX - 4) / 2)
        return weir__fail(error, WEIR_ALLOCATION_OVERFLOW, LIVENESS_OPERATOR, "%s has more than 2^31 nodes",
                          graph->source);
    if (!open_liveness(plan->env, graph, plan->mode, l))
        return weir__out_of_memory(error, LIVENESS_OPERATOR,
                                   weir_plan__graph_tensor_count(graph) * sizeof *l->last_use);
    note_uses(graph, l);
    if (plan->mode == WEIR_PLAN__BACKWARD)
        gradients = find_gradients(graph, l, &id_bytes);
    if (plan->mode == WEIR_PLAN__INFERENCE)
        find_all_overwritten(graph, l);
    if (!open_tensors(graph, plan, gradients, id_bytes))
        return weir__out_of_memory(error, LIVENESS_OPERATOR,
                                   weir_plan__graph_tensor_count(graph) * sizeof *plan->rows);
    fill_rows(graph, plan, l);
    if (gradients > 0)
        WEIR__TRY(add_gradients(graph, plan, l, error));
    if (l->shares_places)
        WEIR__TRY(check_writes(graph, plan, l, error));
    for (uint32_t i = 0; i < plan->count; i++) { /* owners live as long as what lies in their place */
        weir_plan__row *owner = &plan->rows[plan->rows[i].owner];
        owner->death = larger(owner->death, plan->rows[i].death);
        plan->alias_count += weir_plan__is_alias(plan, i);
        plan->end = larger(plan->end, plan->rows[i].death);
    }
    return WEIR_OK;
}
