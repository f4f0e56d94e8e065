/* A graph as a document again, and its identity: graph_hash covers the whole meaning with all defaults
 * filled in, so two files that say the same have one hash. Keys are written in the order of canonical CBOR.
 */
#include <string.h>

#include "base/stream.h"
#include "plan/graph.h"
#include "weir_tool/plan_tools.h"

static void write_text(weir_cbor_writer *w, weir_text text) {
    weir_cbor_text_n(w, text.data, text.size);
}

static void write_ids(const weir_graph *graph, weir_cbor_writer *w, const uint32_t *indexes, size_t count) {
    weir_cbor_array(w, count);
    for (size_t i = 0; i < count; i++)
        write_text(w, weir__name(&graph->tensor_ids, indexes[i]));
}

/* What a writer puts into the maps: everything, for the hash, or only what is not a default. */
typedef enum which_fields { ALL_FIELDS, GIVEN_FIELDS } which_fields;

static bool has_default_arena(const weir_plan__graph_tensor *tensor) {
    if (tensor->alias_of != WEIR__NO_NAME)
        return true; /* its owner's */
    switch (tensor->role) {
    case WEIR_ROLE_PARAMETER:
    case WEIR_ROLE_STATE:
        return tensor->arena == WEIR_PLAN__ARENA_PARAMETERS;
    case WEIR_ROLE_GRADIENT:
        return tensor->arena == WEIR_PLAN__ARENA_GRADIENTS;
    default:
        return tensor->arena == WEIR_PLAN__ARENA_ACTIVATIONS;
    }
}

static void write_node(const weir_graph *graph, weir_cbor_writer *w, uint32_t index, which_fields which) {
    const weir_plan__node *node = &graph->nodes[index];
    bool with_saves = which == ALL_FIELDS || node->given_saves != WEIR_SAVES_DEFAULT;
    bool with_inplace = which == ALL_FIELDS || node->given_inplace != WEIR_CHOICE_DEFAULT;
    weir_cbor_map(w, 4u + node->has_cost + with_saves + with_inplace);
    weir_cbor_text(w, "id");
    write_text(w, weir__name(&graph->node_ids, index));
    weir_cbor_text(w, "op");
    write_text(w, weir__name(&graph->ops, node->op));
    if (node->has_cost) {
        weir_plan__put(w, "cost", node->cost);
    }
    if (with_saves) {
        weir_cbor_text(w, "saves");
        weir_cbor_text(w, weir_plan__saves_name(node->saves_inputs, node->saves_output));
    }
    weir_cbor_text(w, "inputs");
    write_ids(graph, w, weir_plan__inputs(graph, node), node->input_count);
    if (with_inplace) {
        weir_cbor_text(w, "inplace");
        weir_cbor_bool(w, node->inplace);
    }
    weir_cbor_text(w, "outputs");
    write_ids(graph, w, weir_plan__node_outputs(graph, node), node->output_count);
}

static void write_tensor(const weir_graph *graph, weir_cbor_writer *w, uint32_t index, which_fields which) {
    const weir_plan__graph_tensor *tensor = &graph->tensors[index];
    bool with_role = which == ALL_FIELDS || tensor->role != WEIR_ROLE_ACTIVATION;
    bool with_arena = which == ALL_FIELDS || !has_default_arena(tensor);
    bool with_saved = tensor->saved_for_backward != WEIR_CHOICE_DEFAULT;
    bool is_alias = tensor->alias_of != WEIR__NO_NAME;
    bool with_offset = is_alias && tensor->alias_offset > 0;
    weir_cbor_map(w, 3u + with_role + with_arena + with_saved + is_alias + with_offset);
    weir_cbor_text(w, "id");
    write_text(w, weir__name(&graph->tensor_ids, index));
    if (with_role) {
        weir_cbor_text(w, "role");
        weir_cbor_text(w, weir_tensor_role_name((weir_tensor_role)tensor->role));
    }
    if (with_arena) {
        weir_cbor_text(w, "arena");
        write_text(w, weir__name(&graph->arenas, tensor->arena));
    }
    weir_cbor_text(w, "dtype");
    weir_cbor_text(w, weir_tensor_type_name((weir_tensor_type)tensor->type));
    weir_cbor_text(w, "shape");
    weir_cbor_array(w, tensor->rank);
    for (uint32_t i = 0; i < tensor->rank; i++)
        weir_cbor_uint(w, graph->dimensions[tensor->first_dimension + i]);
    if (is_alias) {
        weir_cbor_text(w, "alias_of");
        write_text(w, weir__name(&graph->tensor_ids, tensor->alias_of));
    }
    if (with_offset) {
        weir_plan__put(w, "alias_offset", tensor->alias_offset);
    }
    if (with_saved) {
        weir_cbor_text(w, "saved_for_backward");
        weir_cbor_bool(w, tensor->saved_for_backward == WEIR_CHOICE_TRUE);
    }
}

static void write_graph(const weir_graph *graph, weir__cbor_stream *stream, weir_cbor_writer *w,
                        which_fields which) {
    bool with_order = which == GIVEN_FIELDS && graph->has_order;
    weir_cbor_map(w, 5u + with_order + graph->steps_in_backward);
    weir_cbor_text(w, "name");
    write_text(w, graph->name);
    if (graph->steps_in_backward) {
        weir_cbor_text(w, "step");
        weir_cbor_text(w, "backward");
    }
    weir_cbor_text(w, "nodes");
    weir_cbor_array(w, weir_plan__node_count(graph));
    for (uint32_t i = 0; i < weir_plan__node_count(graph); i++) {
        write_node(graph, w, i, which);
        weir__cbor_stream_drain(stream);
    }
    if (with_order) {
        weir_cbor_text(w, "order");
        weir_cbor_array(w, graph->order_count);
        for (size_t i = 0; i < graph->order_count; i++)
            write_text(w, weir__name(&graph->order, graph->order_indexes[i]));
    }
    weir_cbor_text(w, "format");
    weir_cbor_text(w, "weir-graph/1");
    weir_cbor_text(w, "outputs");
    write_ids(graph, w, graph->outputs, graph->output_count);
    weir_cbor_text(w, "tensors");
    weir_cbor_array(w, weir_plan__graph_tensor_count(graph));
    for (uint32_t i = 0; i < weir_plan__graph_tensor_count(graph); i++) {
        write_tensor(graph, w, i, which);
        weir__cbor_stream_drain(stream);
    }
}

weir_status weir_plan__graph_compute_hash(weir_graph *graph, weir_error *error) {
    weir__cbor_stream stream;
    weir__cbor_stream_to_hash(&stream, graph->env);
    write_graph(graph, &stream, &stream.writer, ALL_FIELDS);
    return weir__cbor_stream_finish_hash(&stream, graph->hash, error);
}

void weir_graph_write_cbor(const weir_graph *graph, weir_cbor_writer *w) {
    write_graph(graph, NULL, w, GIVEN_FIELDS);
}

/* ---- JSON -------------------------------------------------------------------------------------- */

/* The keys in the order in which people read them. */
static const char *const graph_keys[] = {"format",  "name", "tensors", "nodes",
                                         "outputs", "step", "order",   NULL};
static const char *const tensor_keys[] = {
    "id", "shape", "dtype", "role", "arena", "alias_of", "alias_offset", "saved_for_backward", NULL};
static const char *const node_keys[] = {"id", "op", "inputs", "outputs", "inplace", "saves", "cost", NULL};

/* A dimension that JSON readers may not take for an integer is a text. */
static void json_shape(weir_json_writer *w, const weir_cbor_value *shape) {
    weir_cbor_iterator it = weir_cbor_children(shape);
    weir_cbor_value item;
    weir_json_array(w);
    while (weir_cbor_next(&it, NULL, &item)) {
        if (item.number > INT64_MAX)
            weir_json_uint_text(w, item.number);
        else
            weir_json_uint(w, item.number);
    }
    weir_json_end_array(w);
}

static void json_map(weir_json_writer *w, const weir_cbor_value *map, const char *const *keys) {
    weir_cbor_value value, item;
    weir_json_object(w);
    for (; *keys; keys++) {
        if (!weir_cbor_get(map, *keys, &value))
            continue;
        bool is_tensors = strcmp(*keys, "tensors") == 0;
        weir_json_key(w, *keys);
        if (is_tensors || strcmp(*keys, "nodes") == 0) {
            weir_cbor_iterator it = weir_cbor_children(&value);
            weir_json_array(w);
            while (weir_cbor_next(&it, NULL, &item))
                json_map(w, &item, is_tensors ? tensor_keys : node_keys);
            weir_json_end_array(w);
        } else if (strcmp(*keys, "shape") == 0)
            json_shape(w, &value);
        else
            weir_json_value(w, &value);
    }
    weir_json_end_object(w);
}

void weir_graph_write_json(const weir_graph *graph, weir_json_writer *w) {
    weir_cbor_writer cbor;
    weir_cbor_writer_memory(&cbor, graph->env);
    weir_graph_write_cbor(graph, &cbor);
    weir_status status = weir_cbor_finish(&cbor, NULL);
    if (status == WEIR_OK) {
        weir_cbor_value root = weir_cbor_view(cbor.data);
        json_map(w, &root, graph_keys);
    } else
        w->status = status;
    weir_cbor_release(&cbor);
}
