/* A graph from an ONNX model: the nodes, and the shapes and types that the model states for their tensors.
 *
 * The file is mapped, and weights are stepped over by their length without being read. One pass over the
 * graph's fields notes where nodes, inputs, outputs, initializers and stated values lie; then tensors are
 * declared (inputs, initializers as parameters, constants as state, what nodes produce as activations) and
 * nodes added, in the model's order. Nothing is inferred: a tensor whose shape is missing or has a symbolic
 * dimension is refused by name.
 *
 * The bytes are hostile: wire.c checks every length, recursion does not happen, and every array is bounded
 * by the number of fields in the file. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "plan/onnx.h"

enum { ONNX_STREAM_MAX = INT32_MAX }; /* protobuf's own limit for a message */

typedef struct node_parts {
    weir_text id;
    weir_text op;
    weir_text domain;
    size_t input_count;
    weir_plan__wire constant; /* of a Constant: the TensorProto */
    weir_tensor_type constant_type;
    uint64_t constant_count;
    bool has_tensor; /* constant is there */
    bool has_list;   /* constant_type, constant_count and constant_rank are */
    size_t constant_rank;
} node_parts;

/* ---- Noting what the graph states --------------------------------------------------------------- */

static weir_status append(weir_plan__onnx *in, weir_plan__onnx_list *list, weir_plan__wire item) {
    bool grown =
        weir__grow(in->env, (void **)&list->items, &list->capacity, list->count + 1, sizeof *list->items);
    if (!grown)
        return weir_plan__onnx_no_memory(in, list->count * sizeof *list->items);
    list->items[list->count++] = item;
    return WEIR_OK;
}

static weir_status note_value(weir_plan__onnx *in, weir_text name, weir_plan__onnx_value value) {
    uint32_t index;
    weir__name_result result = weir__names_add(in->env, &in->value_names, name.data, name.size, &index);
    bool grown =
        result != WEIR__NAME_NO_MEMORY &&
        weir__grow(in->env, (void **)&in->values, &in->value_capacity, in->value_names.count, sizeof value);
    if (!grown)
        return weir_plan__onnx_no_memory(in, name.size);
    if (result == WEIR__NAME_ADDED) {
        in->values[index] = value;
        return WEIR_OK;
    }
    /* An initializer that is also listed as an input (as old models do) is an initializer; its own shape
     * counts. */
    weir_plan__onnx_value *known = &in->values[index];
    if (value.is_initializer || (!known->is_tensor && weir_plan__wire_size(value.body) > 0)) {
        known->body = value.body;
        known->is_tensor = value.is_tensor;
    }
    known->is_initializer |= value.is_initializer;
    return WEIR_OK;
}

static weir_status note_named(weir_plan__onnx *in, weir_plan__wire message, uint32_t name_field,
                              weir_plan__onnx_value value, weir_plan__onnx_list *list) {
    weir_text name;
    weir_status status = weir_plan__onnx_find_text(in, message, name_field, &name);
    if (status == WEIR_OK && name.size == 0)
        status = weir__fail(in->error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                            "%s: an input, output, value or initializer has no name", in->source);
    if (status == WEIR_OK)
        status = note_value(in, name, value);
    if (status == WEIR_OK && list)
        status = append(
            in, list, (weir_plan__wire){(const uint8_t *)name.data, (const uint8_t *)name.data + name.size});
    return status;
}

static weir_status note_value_info(weir_plan__onnx *in, weir_plan__wire message, weir_plan__onnx_list *list) {
    weir_plan__onnx_value value = {.body = {message.end, message.end}};
    bool found;
    WEIR__TRY(weir_plan__onnx_find_message(in, message, ONNX_VALUE_TYPE, &value.body, &found));
    return note_named(in, message, ONNX_VALUE_NAME, value, list);
}

static weir_status note_graph(weir_plan__onnx *in, weir_plan__wire graph) {
    weir_plan__wire_field field;
    bool has;
    weir_status status = WEIR_OK;
    in->name = (weir_text){"", 0};
    while (status == WEIR_OK && (status = weir_plan__onnx_next(in, &graph, &field, &has)) == WEIR_OK && has) {
        bool is_known = field.number <= ONNX_GRAPH_INITIALIZER ||
                        (field.number >= ONNX_GRAPH_INPUT && field.number <= ONNX_GRAPH_SPARSE_INITIALIZER);
        if (!is_known)
            continue;
        WEIR__TRY(weir_plan__onnx_expect(in, &graph, &field, WEIR_PLAN__WIRE_BYTES));
        weir_plan__onnx_value initializer = {.body = field.bytes, .is_tensor = true, .is_initializer = true};
        switch (field.number) {
        case ONNX_GRAPH_NODE:
            status = append(in, &in->nodes, field.bytes);
            break;
        case ONNX_GRAPH_NAME:
            status = weir_plan__onnx_text(in, &graph, &field, &in->name);
            break;
        case ONNX_GRAPH_INITIALIZER:
            status = note_named(in, field.bytes, ONNX_TENSOR_NAME, initializer, &in->initializers);
            break;
        case ONNX_GRAPH_INPUT:
            status = note_value_info(in, field.bytes, &in->inputs);
            break;
        case ONNX_GRAPH_OUTPUT:
            status = note_value_info(in, field.bytes, &in->outputs);
            break;
        case ONNX_GRAPH_VALUE_INFO:
            status = note_value_info(in, field.bytes, NULL);
            break;
        case ONNX_GRAPH_SPARSE_INITIALIZER:
            return weir__fail(in->error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                              "%s: the graph has sparse initializers, whose size no shape tells; make them "
                              "dense",
                              in->source);
        }
    }
    return status;
}

/* ---- Tensors ------------------------------------------------------------------------------------ */

static weir_status add_tensor(weir_plan__onnx *in, weir_text id, weir_tensor_type type,
                              weir_tensor_role role) {
    weir_tensor_info info = {.id = id, .type = type, .role = role, .shape = in->shape, .rank = in->rank};
    return weir_graph_add_tensor(in->graph, &info, in->error);
}

static weir_status add_stated_tensor(weir_plan__onnx *in, weir_text id, weir_tensor_role role) {
    weir_tensor_type type = WEIR_TENSOR_UNKNOWN;
    uint32_t index = weir__names_find(&in->value_names, id.data, id.size);
    if (index == WEIR__NO_NAME)
        return weir_plan__onnx_refuse_shape(in, id, "has no shape in the model");
    const weir_plan__onnx_value *value = &in->values[index];
    WEIR__TRY(value->is_tensor ? weir_plan__onnx_tensor(in, id, value->body, &type)
                               : weir_plan__onnx_value_type(in, id, value->body, &type));
    return add_tensor(in, id, type, role);
}

static weir_text text_of(weir_plan__wire bytes) {
    return (weir_text){(const char *)bytes.at, weir_plan__wire_size(bytes)};
}

static bool is_initializer(const weir_plan__onnx *in, weir_text name) {
    uint32_t index = weir__names_find(&in->value_names, name.data, name.size);
    return index != WEIR__NO_NAME && in->values[index].is_initializer;
}

/* ---- Nodes -------------------------------------------------------------------------------------- */

/* How many numbers an attribute's list has, packed or not, added to *count. */
static weir_status count_numbers(weir_plan__onnx *in, const weir_plan__wire *message,
                                 weir_plan__wire_field *field, uint64_t *count) {
    uint64_t value;
    bool is_packed = field->kind == WEIR_PLAN__WIRE_BYTES;
    if (is_packed && field->number == ONNX_ATTRIBUTE_FLOATS) {
        *count += weir_plan__wire_size(field->bytes) / 4;
        return WEIR_OK;
    }
    while (is_packed && weir_plan__wire_size(field->bytes) > 0) {
        if (!weir_plan__wire_varint(&field->bytes, &value))
            return weir_plan__onnx_broken(in, message->at);
        *count += 1;
    }
    *count += !is_packed;
    return WEIR_OK;
}

/* An attribute: of any node that it holds no graph, of a Constant what its value is like. */
static weir_status read_attribute(weir_plan__onnx *in, weir_plan__wire message, node_parts *node) {
    weir_text name;
    weir_plan__wire_field field;
    bool has;
    uint64_t count = 0;
    weir_status status = weir_plan__onnx_find_text(in, message, ONNX_ATTRIBUTE_NAME, &name);
    while (status == WEIR_OK && (status = weir_plan__onnx_next(in, &message, &field, &has)) == WEIR_OK &&
           has) {
        if (field.number == ONNX_ATTRIBUTE_GRAPH || field.number == ONNX_ATTRIBUTE_GRAPHS) {
            return weir__fail(
                in->error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                "%s: node '%.*s' (%.*s) holds a graph of its own, whose tensors cannot be planned; unroll it",
                in->source, WEIR_PLAN__SHOW(node->id), WEIR_PLAN__SHOW(node->op));
        } else if (field.number == ONNX_ATTRIBUTE_TENSOR && weir_plan__same_text(name, "value")) {
            status = weir_plan__onnx_expect(in, &message, &field, WEIR_PLAN__WIRE_BYTES);
            node->constant = field.bytes;
            node->has_tensor = true;
        } else if (field.number == ONNX_ATTRIBUTE_FLOATS || field.number == ONNX_ATTRIBUTE_INTS) {
            status = count_numbers(in, &message, &field, &count);
        }
    }
    bool is_ints = weir_plan__same_text(name, "value_ints") || weir_plan__same_text(name, "value_int");
    bool is_list = weir_plan__same_text(name, "value_ints") || weir_plan__same_text(name, "value_floats");
    if (is_ints || is_list || weir_plan__same_text(name, "value_float")) {
        node->has_list = true;
        node->constant_type = is_ints ? WEIR_TENSOR_I64 : WEIR_TENSOR_F32;
        node->constant_count = count;
        node->constant_rank = is_list ? 1 : 0;
    }
    return status;
}

static weir_status read_node_field(weir_plan__onnx *in, const weir_plan__wire *message,
                                   const weir_plan__wire_field *field, node_parts *node) {
    weir_text text = {"", 0};
    weir_status status = WEIR_OK;
    switch (field->number) {
    case ONNX_NODE_NAME:
        return weir_plan__onnx_text(in, message, field, &node->id);
    case ONNX_NODE_OP_TYPE:
        return weir_plan__onnx_text(in, message, field, &node->op);
    case ONNX_NODE_DOMAIN:
        return weir_plan__onnx_text(in, message, field, &node->domain);
    case ONNX_NODE_INPUT:
        /* An empty name is an optional input or output that is left out. */
        status = weir_plan__onnx_text(in, message, field, &text);
        if (status == WEIR_OK && text.size > 0) {
            status = weir_plan__onnx_append_text(in, text);
            node->input_count += status == WEIR_OK;
        }
        return status;
    default:
        return WEIR_OK;
    }
}

/* Inputs, names and operator first; then outputs, which follow the inputs in in->texts; then attributes,
 * whose faults name the node. */
static weir_status read_node(weir_plan__onnx *in, weir_plan__wire message, node_parts *node) {
    weir_plan__wire_field field;
    bool has;
    weir_text text = {"", 0};
    weir_plan__wire rest = message;
    weir_status status = WEIR_OK;
    in->text_count = 0;
    *node = (node_parts){.id = {"", 0}, .op = {"", 0}, .domain = {"", 0}};
    while (status == WEIR_OK && (status = weir_plan__onnx_next(in, &rest, &field, &has)) == WEIR_OK && has)
        status = read_node_field(in, &rest, &field, node);
    rest = message;
    while (status == WEIR_OK && (status = weir_plan__onnx_next(in, &rest, &field, &has)) == WEIR_OK && has) {
        if (field.number != ONNX_NODE_OUTPUT)
            continue;
        status = weir_plan__onnx_text(in, &rest, &field, &text);
        if (status == WEIR_OK && text.size > 0)
            status = weir_plan__onnx_append_text(in, text);
    }
    rest = message;
    while (status == WEIR_OK && (status = weir_plan__onnx_next(in, &rest, &field, &has)) == WEIR_OK && has) {
        if (field.number != ONNX_NODE_ATTRIBUTE)
            continue;
        status = weir_plan__onnx_expect(in, &rest, &field, WEIR_PLAN__WIRE_BYTES);
        if (status == WEIR_OK)
            status = read_attribute(in, field.bytes, node);
    }
    return status;
}

static bool is_own_domain(weir_text domain) {
    return domain.size == 0 || weir_plan__same_text(domain, "ai.onnx");
}

static bool is_constant(const node_parts *node) {
    return is_own_domain(node->domain) && weir_plan__same_text(node->op, "Constant") &&
           node->input_count == 0;
}

/* A Constant's output is data that the model carries, like an initializer, but nothing to train. */
static weir_status add_constant(weir_plan__onnx *in, const node_parts *node, weir_text output) {
    weir_tensor_type type = node->constant_type;
    weir_status status = WEIR_OK;
    in->rank = 0;
    if (node->has_tensor)
        status = weir_plan__onnx_tensor(in, output, node->constant, &type);
    else if (!node->has_list)
        return add_stated_tensor(in, output, WEIR_ROLE_STATE);
    else if (node->constant_rank == 1)
        status = weir_plan__onnx_append_dimension(in, output, node->constant_count);
    return status == WEIR_OK ? add_tensor(in, output, type, WEIR_ROLE_STATE) : status;
}

/* The node's name where it has one that no node before it has; else one made of it and the node's number. */
static weir_status choose_id(weir_plan__onnx *in, size_t number, node_parts *node) {
    uint32_t index;
    size_t tries = 0;
    weir__name_result result = WEIR__NAME_PRESENT;
    if (node->id.size > 0)
        result = weir__names_add(in->env, &in->node_ids, node->id.data, node->id.size, &index);
    weir_text stem = node->id.size > 0 ? node->id : node->op;
    while (result == WEIR__NAME_PRESENT) {
        size_t room = stem.size + 24 + ++tries;
        bool grown = weir__grow(in->env, (void **)&in->id, &in->id_capacity, room, 1);
        if (!grown)
            return weir_plan__onnx_no_memory(in, room);
        memcpy(in->id, stem.data, stem.size);
        size_t size = stem.size;
        for (size_t i = 0; i < tries; i++)
            in->id[size++] = '#';
        size += (size_t)snprintf(in->id + size, 22, "%zu", number);
        node->id = (weir_text){in->id, size};
        result = weir__names_add(in->env, &in->node_ids, in->id, size, &index);
    }
    return result == WEIR__NAME_ADDED ? WEIR_OK : weir_plan__onnx_no_memory(in, node->id.size);
}

static weir_status add_node(weir_plan__onnx *in, size_t number, node_parts *node) {
    char *made = NULL;
    WEIR__TRY(choose_id(in, number, node));
    if (node->op.size == 0)
        return weir__fail(in->error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "%s: node '%.*s' has no op_type", in->source, WEIR_PLAN__SHOW(node->id));
    if (is_own_domain(node->domain)) {
        node->op = weir_plan__onnx_operator(node->op);
    } else { /* "domain.Operator", which the table does not know */
        size_t size = node->domain.size + 1 + node->op.size;
        made = weir__allocate(in->env, size, 1);
        if (!made)
            return weir_plan__onnx_no_memory(in, size);
        memcpy(made, node->domain.data, node->domain.size);
        made[node->domain.size] = '.';
        memcpy(made + node->domain.size + 1, node->op.data, node->op.size);
        node->op = (weir_text){made, size};
    }
    weir_node_info info = {.id = node->id,
                           .op = node->op,
                           .inputs = in->texts,
                           .input_count = node->input_count,
                           .outputs = node->input_count > 0 ? in->texts + node->input_count : in->texts,
                           .output_count = in->text_count - node->input_count};
    weir_status status = weir_graph_add_node(in->graph, &info, in->error);
    weir__release(in->env, made);
    return status;
}

/* ---- The import --------------------------------------------------------------------------------- */

/* The graph's name; where an exporter has put its own word there instead of the model's, the file's name
 * without folder and ending. */
static weir_text title_of(const weir_plan__onnx *in) {
    static const char *const words[] = {"", "main_graph", "main", "graph", "torch_jit", "torch-jit-export"};
    const char *file = strrchr(in->source, '/') ? strrchr(in->source, '/') + 1 : in->source;
    size_t size = strlen(file);
    if (size <= 5 || strcmp(file + size - 5, ".onnx") != 0)
        return in->name;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (weir_plan__same_text(in->name, words[i]))
            return (weir_text){file, size - 5};
    return in->name;
}

static weir_status build(weir_plan__onnx *in, weir_plan__wire graph) {
    node_parts node;
    WEIR__TRY(note_graph(in, graph));
    WEIR__TRY(weir_plan__graph_new(in->env, in->source, title_of(in), &in->graph, in->error));
    for (size_t i = 0; i < in->inputs.count; i++)
        if (!is_initializer(in, text_of(in->inputs.items[i])))
            WEIR__TRY(add_stated_tensor(in, text_of(in->inputs.items[i]), WEIR_ROLE_INPUT));
    for (size_t i = 0; i < in->initializers.count; i++)
        WEIR__TRY(add_stated_tensor(in, text_of(in->initializers.items[i]), WEIR_ROLE_PARAMETER));
    for (size_t i = 0; i < in->nodes.count; i++) {
        WEIR__TRY(read_node(in, in->nodes.items[i], &node));
        for (size_t k = node.input_count; k < in->text_count; k++)
            WEIR__TRY(is_constant(&node) ? add_constant(in, &node, in->texts[k])
                                         : add_stated_tensor(in, in->texts[k], WEIR_ROLE_ACTIVATION));
    }
    for (size_t i = 0; i < in->nodes.count; i++) {
        WEIR__TRY(read_node(in, in->nodes.items[i], &node));
        if (!is_constant(&node))
            WEIR__TRY(add_node(in, i, &node));
    }
    in->text_count = 0;
    for (size_t i = 0; i < in->outputs.count; i++)
        WEIR__TRY(weir_plan__onnx_append_text(in, text_of(in->outputs.items[i])));
    WEIR__TRY(weir_graph_set_outputs(in->graph, in->texts, in->text_count, in->error));
    return weir_graph_finish(in->graph, in->error);
}

weir_status weir_graph_import_onnx(const weir_env *env, const void *data, size_t size, const char *name,
                                   weir_graph **graph, weir_error *error) {
    weir_plan__onnx in = {.env = weir__env_or_default(env), .source = name, .start = data, .error = error};
    weir_plan__wire model = {data, (const uint8_t *)data + size};
    weir_plan__wire body = {0};
    bool found;
    weir_status status = weir_plan__onnx_find_message(&in, model, ONNX_MODEL_GRAPH, &body, &found);
    if (status == WEIR_OK && !found)
        status = weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                            "%s is not an ONNX model: it has no graph; export the model again, with "
                            "its graph",
                            name);
    if (status == WEIR_OK)
        status = build(&in, body);
    weir__release(in.env, in.nodes.items);
    weir__release(in.env, in.inputs.items);
    weir__release(in.env, in.outputs.items);
    weir__release(in.env, in.initializers.items);
    weir__release(in.env, in.values);
    weir__release(in.env, in.shape);
    weir__release(in.env, in.texts);
    weir__release(in.env, in.id);
    weir__names_release(in.env, &in.value_names);
    weir__names_release(in.env, &in.node_ids);
    if (status != WEIR_OK) {
        weir_graph_close(in.graph);
        return status;
    }
    *graph = in.graph;
    return WEIR_OK;
}

weir_status weir_graph_import_onnx_file(const weir_env *env, const char *path, weir_graph **graph,
                                        weir_error *error) {
    uint64_t size;
    int file;
    void *data = NULL;
    weir_status status;
    env = weir__env_or_default(env);
    if (strcmp(path, "-") == 0) { /* a stream cannot be mapped */
        uint8_t *bytes;
        size_t count;
        WEIR__TRY(
            weir__file_read(env, "-", ONNX_STREAM_MAX, &bytes, &count, WEIR_PLAN__PREPARE_OPERATOR, error));
        status = weir_graph_import_onnx(env, bytes, count, "standard input", graph, error);
        weir__release(env, bytes);
        return status;
    }
    WEIR__TRY(weir__file_open(env, path, &file, WEIR_PLAN__PREPARE_OPERATOR, error));
    bool is_sized = env->size(env->context, file, &size) == 0;
    if (is_sized && size > 0)
        data = env->map(env->context, file, (size_t)size);
    if (!is_sized || (size > 0 && !data))
        status = weir__io_error(error, WEIR_PLAN__PREPARE_OPERATOR, "map", path);
    else
        status = weir_graph_import_onnx(env, data ? data : "", (size_t)size, path, graph, error);
    if (data)
        env->unmap(env->context, data, (size_t)size);
    env->close(env->context, file);
    return status;
}
