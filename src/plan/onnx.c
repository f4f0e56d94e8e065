/* A graph from an ONNX model: the nodes, and the shapes and types that the model states for their tensors.
 *
 * The file is mapped, and weights are stepped over by their length without being read. One pass over the
 * graph's fields notes where nodes, inputs, outputs, initializers and stated values lie; then tensors are
 * declared (inputs, initializers as parameters, constants as state, what nodes produce as activations) and
 * nodes added, in the model's order. Nothing is inferred: a tensor whose shape is missing or has a symbolic
 * dimension is refused by name.
 *
 * The bytes are hostile: wire.c checks every length, recursion does not happen, and every array is bounded
 * by the number of fields in the file. The first failure sticks: after it no field is read any more. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "plan/graph.h"
#include "plan/wire.h"

enum { ONNX_STREAM_MAX = INT32_MAX }; /* protobuf's own limit for a message */

/* The numbers of the fields that a plan needs. */
enum {
    ONNX_MODEL_GRAPH = 7,

    ONNX_GRAPH_NODE = 1,
    ONNX_GRAPH_NAME = 2,
    ONNX_GRAPH_INITIALIZER = 5,
    ONNX_GRAPH_INPUT = 11,
    ONNX_GRAPH_OUTPUT = 12,
    ONNX_GRAPH_VALUE_INFO = 13,
    ONNX_GRAPH_SPARSE_INITIALIZER = 15,

    ONNX_NODE_INPUT = 1,
    ONNX_NODE_OUTPUT = 2,
    ONNX_NODE_NAME = 3,
    ONNX_NODE_OP_TYPE = 4,
    ONNX_NODE_ATTRIBUTE = 5,
    ONNX_NODE_DOMAIN = 7,

    ONNX_ATTRIBUTE_NAME = 1,
    ONNX_ATTRIBUTE_TENSOR = 5,
    ONNX_ATTRIBUTE_GRAPH = 6,
    ONNX_ATTRIBUTE_FLOATS = 7,
    ONNX_ATTRIBUTE_INTS = 8,
    ONNX_ATTRIBUTE_GRAPHS = 11,

    ONNX_TENSOR_DIMS = 1,
    ONNX_TENSOR_DATA_TYPE = 2,
    ONNX_TENSOR_NAME = 8,

    ONNX_VALUE_NAME = 1,
    ONNX_VALUE_TYPE = 2,
    ONNX_TYPE_TENSOR = 1,
    ONNX_TENSOR_TYPE_ELEMENT = 1,
    ONNX_TENSOR_TYPE_SHAPE = 2,
    ONNX_SHAPE_DIM = 1,
    ONNX_DIM_VALUE = 1,
    ONNX_DIM_PARAM = 2,
};

/* What the model says about a tensor's shape and type: a ValueInfoProto's type, or a TensorProto. */
typedef struct stated {
    weir_plan__wire body;
    bool is_tensor; /* body is a TensorProto */
    bool is_initializer;
} stated;

/* Names; or messages, as their bytes. */
typedef struct text_list {
    weir_text *items;
    size_t count;
    size_t capacity;
} text_list;

/* An import under way: what the graph states, and the tensor and node in hand. */
typedef struct importer {
    const weir_env *env;
    const char *source;
    const uint8_t *start; /* of the file, for offsets in messages */
    weir_error *error;
    weir_status status; /* the first failure */

    weir_text name;
    text_list nodes; /* messages */
    text_list inputs;
    text_list outputs;
    text_list initializers;
    weir__names value_names;
    stated *values; /* by index in value_names */
    size_t value_capacity;

    weir__names node_ids;
    uint64_t *shape; /* of the tensor in hand */
    size_t rank;
    size_t shape_capacity;
    text_list operands; /* of the node in hand: its inputs, then its outputs */
    char *id;           /* one that was made up */
    size_t id_capacity;

    weir_graph *graph;
} importer;

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

/* ---- Fields ------------------------------------------------------------------------------------- */

static void no_memory(importer *in, size_t size) {
    in->status = weir__out_of_memory(in->error, WEIR_PLAN__PREPARE_OPERATOR, size);
}

static void broken(importer *in, const uint8_t *at) {
    in->status = weir__fail(in->error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                            "%s is not an ONNX model: the message is broken at byte %zu; export it "
                            "again, or give a weir-graph/1 file another ending than .onnx",
                            in->source, (size_t)(at - in->start));
    weir__note_uint(in->error, "offset", (uint64_t)(at - in->start));
}

/* The next field of a message; false at its end and after a failure. */
static bool next(importer *in, weir_plan__wire *message, weir_plan__wire_field *field) {
    if (in->status != WEIR_OK)
        return false;
    weir_plan__wire_result result = weir_plan__wire_next(message, field);
    if (result == WEIR_PLAN__WIRE_BROKEN)
        broken(in, message->at);
    return result == WEIR_PLAN__WIRE_FIELD;
}

static bool is_bytes(importer *in, const weir_plan__wire *message, const weir_plan__wire_field *field) {
    if (field->kind != WEIR_PLAN__WIRE_BYTES)
        broken(in, message->at);
    return field->kind == WEIR_PLAN__WIRE_BYTES;
}

static weir_text text_of(weir_plan__wire bytes) {
    return (weir_text){(const char *)bytes.at, weir_plan__wire_size(bytes)};
}

static weir_plan__wire wire_of(weir_text bytes) {
    const uint8_t *at = (const uint8_t *)bytes.data;
    return (weir_plan__wire){at, at + bytes.size};
}

/* Text of the model's: UTF-8 without NUL, so that every notation of the graph can hold it. Size 0 after a
 * failure. */
static weir_text read_text(importer *in, const weir_plan__wire *message, const weir_plan__wire_field *field) {
    weir_text text = text_of(field->bytes);
    if (field->kind == WEIR_PLAN__WIRE_BYTES && weir__utf8_is_valid(text.data, text.size) &&
        !memchr(text.data, 0, text.size))
        return text;
    broken(in, message->at);
    return (weir_text){"", 0};
}

/* A message's text field; size 0 if there is none. */
static weir_text find_text(importer *in, weir_plan__wire message, uint32_t number) {
    weir_plan__wire_field field;
    weir_text text = {"", 0};
    while (next(in, &message, &field))
        if (field.number == number)
            text = read_text(in, &message, &field);
    return text;
}

/* A message's last field of that number, which must be bytes; false if there is none. */
static bool find_message(importer *in, weir_plan__wire message, uint32_t number, weir_plan__wire *out) {
    weir_plan__wire_field field;
    bool found = false;
    while (next(in, &message, &field))
        if (field.number == number && is_bytes(in, &message, &field)) {
            *out = field.bytes;
            found = true;
        }
    return found;
}

static void append(importer *in, text_list *list, weir_text text) {
    if (weir__grow(in->env, (void **)&list->items, &list->capacity, list->count + 1, sizeof *list->items))
        list->items[list->count++] = text;
    else
        no_memory(in, list->count * sizeof *list->items);
}

/* ---- Shapes and types --------------------------------------------------------------------------- */

/* Only full shapes are taken: a dimension that is symbolic, unknown or negative is refused. */
static void refuse_shape(importer *in, weir_text tensor, const char *fault) {
    if (in->status == WEIR_OK)
        in->status = weir__fail(
            in->error, WEIR_INVALID_IR_SHAPES, WEIR_PLAN__PREPARE_OPERATOR,
            "%s: tensor '%.*s' %s; fix the input sizes and run ONNX shape inference on the model first",
            in->source, WEIR_PLAN__SHOW(tensor), fault);
}

/* A dimension more for the tensor in hand. */
static void append_dimension(importer *in, weir_text tensor, uint64_t dimension) {
    if (dimension > INT64_MAX)
        refuse_shape(in, tensor, "has a negative dimension");
    else if (weir__grow(in->env, (void **)&in->shape, &in->shape_capacity, in->rank + 1, sizeof *in->shape))
        in->shape[in->rank++] = dimension;
    else
        no_memory(in, in->rank * sizeof *in->shape);
}

static weir_tensor_type type_of(importer *in, weir_text tensor, uint64_t data_type) {
    weir_tensor_type type = WEIR_TENSOR_UNKNOWN;
    if (!weir_plan__onnx_type(data_type, &type) && in->status == WEIR_OK)
        in->status =
            weir__fail(in->error, WEIR_INVALID_IR_SHAPES, WEIR_PLAN__PREPARE_OPERATOR,
                       "%s: tensor '%.*s' has the ONNX data type %" PRIu64 ", which weir has no dtype for",
                       in->source, WEIR_PLAN__SHOW(tensor), data_type);
    return type;
}

/* Shape (of the tensor in hand) and type from a TensorProto, whose dims stand one a field or packed. */
static weir_tensor_type read_tensor(importer *in, weir_text tensor, weir_plan__wire message) {
    weir_plan__wire_field field;
    uint64_t data_type = 0, dimension;
    in->rank = 0;
    while (next(in, &message, &field)) {
        if (field.number == ONNX_TENSOR_DATA_TYPE)
            data_type = field.kind == WEIR_PLAN__WIRE_VARINT ? field.value : 0;
        if (field.number != ONNX_TENSOR_DIMS)
            continue;
        if (field.kind == WEIR_PLAN__WIRE_VARINT) {
            append_dimension(in, tensor, field.value);
            continue;
        }
        bool is_packed = is_bytes(in, &message, &field);
        while (is_packed && in->status == WEIR_OK && weir_plan__wire_size(field.bytes) > 0) {
            if (weir_plan__wire_varint(&field.bytes, &dimension))
                append_dimension(in, tensor, dimension);
            else
                broken(in, field.bytes.at);
        }
    }
    return type_of(in, tensor, data_type);
}

static void read_dimension(importer *in, weir_text tensor, weir_plan__wire message) {
    weir_plan__wire_field field;
    bool is_known = false;
    uint64_t value = 0;
    weir_text symbol = {"", 0};
    char fault[192];
    while (next(in, &message, &field)) {
        if (field.number == ONNX_DIM_VALUE && field.kind == WEIR_PLAN__WIRE_VARINT) {
            is_known = true;
            value = field.value;
        } else if (field.number == ONNX_DIM_PARAM) {
            is_known = false;
            symbol = read_text(in, &message, &field);
        }
    }
    if (is_known && in->status == WEIR_OK) {
        append_dimension(in, tensor, value);
        return;
    }
    snprintf(fault, sizeof fault, "has a dynamic dimension %zu ('%.*s')", in->rank, WEIR_PLAN__SHOW(symbol));
    refuse_shape(in, tensor, symbol.size > 0 ? fault : "has a dimension of unknown size");
}

/* Shape (of the tensor in hand) and type from a TypeProto, which must be a tensor's. */
static weir_tensor_type read_type(importer *in, weir_text tensor, weir_plan__wire message) {
    weir_plan__wire tensor_type = {0}, shape = {0};
    weir_plan__wire_field field;
    uint64_t element = 0;
    in->rank = 0;
    if (!find_message(in, message, ONNX_TYPE_TENSOR, &tensor_type))
        refuse_shape(in, tensor,
                     weir_plan__wire_size(message) > 0 ? "is not a tensor (a sequence, map or optional)"
                                                       : "has no shape in the model");
    if (!find_message(in, tensor_type, ONNX_TENSOR_TYPE_SHAPE, &shape))
        refuse_shape(in, tensor, "has no shape in the model");
    while (next(in, &shape, &field))
        if (field.number == ONNX_SHAPE_DIM && is_bytes(in, &shape, &field))
            read_dimension(in, tensor, field.bytes);
    while (next(in, &tensor_type, &field))
        if (field.number == ONNX_TENSOR_TYPE_ELEMENT && field.kind == WEIR_PLAN__WIRE_VARINT)
            element = field.value;
    return type_of(in, tensor, element);
}

/* ---- Noting what the graph states --------------------------------------------------------------- */

static void note_value(importer *in, weir_text name, stated value) {
    uint32_t index;
    weir__name_result result = weir__names_add(in->env, &in->value_names, name.data, name.size, &index);
    if (result == WEIR__NAME_NO_MEMORY || !weir__grow(in->env, (void **)&in->values, &in->value_capacity,
                                                      in->value_names.count, sizeof value)) {
        no_memory(in, name.size);
        return;
    }
    if (result == WEIR__NAME_ADDED) {
        in->values[index] = value;
        return;
    }
    /* An initializer that is also listed as an input (as old models do) is an initializer; its own shape
     * counts. */
    stated *known = &in->values[index];
    if (value.is_initializer || (!known->is_tensor && weir_plan__wire_size(value.body) > 0)) {
        known->body = value.body;
        known->is_tensor = value.is_tensor;
    }
    known->is_initializer |= value.is_initializer;
}

/* `list` may be NULL. */
static void note_named(importer *in, weir_text name, stated value, text_list *list) {
    if (in->status == WEIR_OK && name.size == 0)
        in->status = weir__fail(in->error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                                "%s: an input, output, value or initializer has no name", in->source);
    if (in->status == WEIR_OK)
        note_value(in, name, value);
    if (in->status == WEIR_OK && list)
        append(in, list, name);
}

static void note_value_info(importer *in, weir_plan__wire message, text_list *list) {
    stated value = {.body = {message.end, message.end}};
    find_message(in, message, ONNX_VALUE_TYPE, &value.body);
    note_named(in, find_text(in, message, ONNX_VALUE_NAME), value, list);
}

static void note_graph(importer *in, weir_plan__wire graph) {
    weir_plan__wire_field field;
    in->name = (weir_text){"", 0};
    while (next(in, &graph, &field)) {
        bool is_known = field.number <= ONNX_GRAPH_INITIALIZER ||
                        (field.number >= ONNX_GRAPH_INPUT && field.number <= ONNX_GRAPH_SPARSE_INITIALIZER);
        if (!is_known || !is_bytes(in, &graph, &field))
            continue;
        stated initializer = {.body = field.bytes, .is_tensor = true, .is_initializer = true};
        switch (field.number) {
        case ONNX_GRAPH_NODE:
            append(in, &in->nodes, text_of(field.bytes));
            break;
        case ONNX_GRAPH_NAME:
            in->name = read_text(in, &graph, &field);
            break;
        case ONNX_GRAPH_INITIALIZER:
            note_named(in, find_text(in, field.bytes, ONNX_TENSOR_NAME), initializer, &in->initializers);
            break;
        case ONNX_GRAPH_INPUT:
            note_value_info(in, field.bytes, &in->inputs);
            break;
        case ONNX_GRAPH_OUTPUT:
            note_value_info(in, field.bytes, &in->outputs);
            break;
        case ONNX_GRAPH_VALUE_INFO:
            note_value_info(in, field.bytes, NULL);
            break;
        case ONNX_GRAPH_SPARSE_INITIALIZER:
            in->status = weir__fail(in->error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                                    "%s: the graph has sparse initializers, whose size no shape tells; make "
                                    "them dense",
                                    in->source);
            break;
        }
    }
}

/* ---- Tensors ------------------------------------------------------------------------------------ */

static const stated *find_value(const importer *in, weir_text name) {
    uint32_t index = weir__names_find(&in->value_names, name.data, name.size);
    return index == WEIR__NO_NAME ? NULL : &in->values[index];
}

/* The tensor in hand, with its shape. */
static void add_tensor(importer *in, weir_text id, weir_tensor_type type, weir_tensor_role role) {
    weir_tensor_info info = {.id = id, .type = type, .role = role, .shape = in->shape, .rank = in->rank};
    if (in->status == WEIR_OK)
        in->status = weir_graph_add_tensor(in->graph, &info, in->error);
}

static void add_stated_tensor(importer *in, weir_text id, weir_tensor_role role) {
    const stated *value = find_value(in, id);
    if (!value)
        refuse_shape(in, id, "has no shape in the model");
    else
        add_tensor(in, id,
                   value->is_tensor ? read_tensor(in, id, value->body) : read_type(in, id, value->body),
                   role);
}

/* A Constant's output is data that the model carries, like an initializer, but nothing to train. */
static void add_constant(importer *in, const node_parts *node, weir_text output) {
    weir_tensor_type type = node->constant_type;
    in->rank = 0;
    if (!node->has_tensor && !node->has_list) {
        add_stated_tensor(in, output, WEIR_ROLE_STATE);
        return;
    }
    if (node->has_tensor)
        type = read_tensor(in, output, node->constant);
    else if (node->constant_rank == 1)
        append_dimension(in, output, node->constant_count);
    add_tensor(in, output, type, WEIR_ROLE_STATE);
}

/* ---- Nodes -------------------------------------------------------------------------------------- */

/* How many numbers an attribute's list has, packed or not. */
static uint64_t count_numbers(importer *in, const weir_plan__wire *message, weir_plan__wire_field *field) {
    uint64_t value, count = 0;
    if (field->kind != WEIR_PLAN__WIRE_BYTES)
        return 1;
    if (field->number == ONNX_ATTRIBUTE_FLOATS)
        return weir_plan__wire_size(field->bytes) / 4;
    for (; weir_plan__wire_size(field->bytes) > 0; count++)
        if (!weir_plan__wire_varint(&field->bytes, &value)) {
            broken(in, message->at);
            break;
        }
    return count;
}

/* An attribute: of any node that it holds no graph, of a Constant what its value is like. */
static void read_attribute(importer *in, weir_plan__wire message, node_parts *node) {
    weir_plan__wire_field field;
    uint64_t count = 0;
    weir_text name = find_text(in, message, ONNX_ATTRIBUTE_NAME);
    while (next(in, &message, &field)) {
        if (field.number == ONNX_ATTRIBUTE_GRAPH || field.number == ONNX_ATTRIBUTE_GRAPHS) {
            in->status = weir__fail(
                in->error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                "%s: node '%.*s' (%.*s) holds a graph of its own, whose tensors cannot be planned; unroll it",
                in->source, WEIR_PLAN__SHOW(node->id), WEIR_PLAN__SHOW(node->op));
        } else if (field.number == ONNX_ATTRIBUTE_TENSOR && weir_plan__same_text(name, "value")) {
            node->has_tensor = is_bytes(in, &message, &field);
            node->constant = field.bytes;
        } else if (field.number == ONNX_ATTRIBUTE_FLOATS || field.number == ONNX_ATTRIBUTE_INTS) {
            count += count_numbers(in, &message, &field);
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
}

/* An empty name is an optional input or output that is left out. */
static void append_operand(importer *in, const weir_plan__wire *message, const weir_plan__wire_field *field) {
    weir_text text = read_text(in, message, field);
    if (text.size > 0)
        append(in, &in->operands, text);
}

/* Inputs, names and operator first; then outputs, which follow the inputs in in->operands; then attributes,
 * whose faults name the node. */
static void read_node(importer *in, weir_text bytes, node_parts *node) {
    weir_plan__wire message = wire_of(bytes), rest = message;
    weir_plan__wire_field field;
    in->operands.count = 0;
    *node = (node_parts){.id = {"", 0}, .op = {"", 0}, .domain = {"", 0}};
    while (next(in, &rest, &field)) {
        if (field.number == ONNX_NODE_NAME)
            node->id = read_text(in, &rest, &field);
        else if (field.number == ONNX_NODE_OP_TYPE)
            node->op = read_text(in, &rest, &field);
        else if (field.number == ONNX_NODE_DOMAIN)
            node->domain = read_text(in, &rest, &field);
        else if (field.number == ONNX_NODE_INPUT)
            append_operand(in, &rest, &field);
    }
    node->input_count = in->operands.count;
    rest = message;
    while (next(in, &rest, &field))
        if (field.number == ONNX_NODE_OUTPUT)
            append_operand(in, &rest, &field);
    rest = message;
    while (next(in, &rest, &field))
        if (field.number == ONNX_NODE_ATTRIBUTE && is_bytes(in, &rest, &field))
            read_attribute(in, field.bytes, node);
}

static bool is_own_domain(weir_text domain) {
    return domain.size == 0 || weir_plan__same_text(domain, "ai.onnx");
}

static bool is_constant(const node_parts *node) {
    return is_own_domain(node->domain) && weir_plan__same_text(node->op, "Constant") &&
           node->input_count == 0;
}

/* The node's name where it has one that no node before it has; else one made of it and the node's number. */
static void choose_id(importer *in, size_t number, node_parts *node) {
    uint32_t index;
    size_t tries = 0;
    weir__name_result result = WEIR__NAME_PRESENT;
    if (node->id.size > 0)
        result = weir__names_add(in->env, &in->node_ids, node->id.data, node->id.size, &index);
    weir_text stem = node->id.size > 0 ? node->id : node->op;
    while (result == WEIR__NAME_PRESENT) {
        size_t size = stem.size;
        if (!weir__grow(in->env, (void **)&in->id, &in->id_capacity, size + 24 + ++tries, 1))
            break;
        memcpy(in->id, stem.data, size);
        for (size_t i = 0; i < tries; i++)
            in->id[size++] = '#';
        size += (size_t)snprintf(in->id + size, 22, "%zu", number);
        node->id = (weir_text){in->id, size};
        result = weir__names_add(in->env, &in->node_ids, in->id, size, &index);
    }
    if (result != WEIR__NAME_ADDED)
        no_memory(in, node->id.size);
}

static void add_node(importer *in, size_t number, node_parts *node) {
    char *made = NULL;
    choose_id(in, number, node);
    if (in->status == WEIR_OK && node->op.size == 0)
        in->status = weir__fail(in->error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                                "%s: node '%.*s' has no op_type", in->source, WEIR_PLAN__SHOW(node->id));
    if (in->status != WEIR_OK)
        return;
    if (is_own_domain(node->domain)) {
        node->op = weir_plan__onnx_operator(node->op);
    } else { /* "domain.Operator", which the table does not know */
        size_t size = node->domain.size + 1 + node->op.size;
        made = weir__allocate(in->env, size, 1);
        if (!made) {
            no_memory(in, size);
            return;
        }
        memcpy(made, node->domain.data, node->domain.size);
        made[node->domain.size] = '.';
        memcpy(made + node->domain.size + 1, node->op.data, node->op.size);
        node->op = (weir_text){made, size};
    }
    const weir_text *operands = in->operands.items;
    weir_node_info info = {.id = node->id,
                           .op = node->op,
                           .inputs = operands,
                           .input_count = node->input_count,
                           .outputs = node->input_count > 0 ? operands + node->input_count : operands,
                           .output_count = in->operands.count - node->input_count};
    in->status = weir_graph_add_node(in->graph, &info, in->error);
    weir__release(in->env, made);
}

/* ---- The import --------------------------------------------------------------------------------- */

/* The graph's name; where an exporter has put its own word there instead of the model's, the file's name
 * without folder and ending. */
static weir_text title_of(const importer *in) {
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

static void build(importer *in, weir_plan__wire graph) {
    node_parts node;
    note_graph(in, graph);
    if (in->status == WEIR_OK)
        in->status = weir_plan__graph_new(in->env, in->source, title_of(in), &in->graph, in->error);
    for (size_t i = 0; i < in->inputs.count && in->status == WEIR_OK; i++)
        if (!find_value(in, in->inputs.items[i])->is_initializer)
            add_stated_tensor(in, in->inputs.items[i], WEIR_ROLE_INPUT);
    for (size_t i = 0; i < in->initializers.count && in->status == WEIR_OK; i++)
        add_stated_tensor(in, in->initializers.items[i], WEIR_ROLE_PARAMETER);
    for (size_t i = 0; i < in->nodes.count && in->status == WEIR_OK; i++) {
        read_node(in, in->nodes.items[i], &node);
        for (size_t k = node.input_count; k < in->operands.count && in->status == WEIR_OK; k++) {
            if (is_constant(&node))
                add_constant(in, &node, in->operands.items[k]);
            else
                add_stated_tensor(in, in->operands.items[k], WEIR_ROLE_ACTIVATION);
        }
    }
    for (size_t i = 0; i < in->nodes.count && in->status == WEIR_OK; i++) {
        read_node(in, in->nodes.items[i], &node);
        if (in->status == WEIR_OK && !is_constant(&node))
            add_node(in, i, &node);
    }
    if (in->status == WEIR_OK)
        in->status = weir_graph_set_outputs(in->graph, in->outputs.items, in->outputs.count, in->error);
    if (in->status == WEIR_OK)
        in->status = weir_graph_finish(in->graph, in->error);
}

weir_status weir_graph_import_onnx(const weir_env *env, const void *data, size_t size, const char *name,
                                   weir_graph **graph, weir_error *error) {
    importer in = {.env = weir__env_or_default(env), .source = name, .start = data, .error = error};
    weir_plan__wire model = {data, (const uint8_t *)data + size};
    weir_plan__wire body = {0};
    if (find_message(&in, model, ONNX_MODEL_GRAPH, &body))
        build(&in, body);
    else if (in.status == WEIR_OK)
        in.status = weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                               "%s is not an ONNX model: it has no graph; export the model again, with "
                               "its graph",
                               name);
    weir__release(in.env, in.nodes.items);
    weir__release(in.env, in.inputs.items);
    weir__release(in.env, in.outputs.items);
    weir__release(in.env, in.initializers.items);
    weir__release(in.env, in.operands.items);
    weir__release(in.env, in.values);
    weir__release(in.env, in.shape);
    weir__release(in.env, in.id);
    weir__names_release(in.env, &in.value_names);
    weir__names_release(in.env, &in.node_ids);
    if (in.status != WEIR_OK) {
        weir_graph_close(in.graph);
        return in.status;
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
