/* Reads a weir-graph/1 document in passes, one for each kind of fault, in the order in which faults are
 * reported: format, fields and types, ids, shapes and dtypes, sizes, producers. Within a pass the document
 * is walked from the first tensor to the last node. The document is untrusted; after the first pass its
 * fields have the right types. */

#include <string.h>

#include "base/fields.h"
#include "base/file.h"
#include "plan/document.h"
#include "plan/graph.h"

#define GRAPH_FORMAT "weir-graph/1"

enum { GRAPH_SIZE_MAX_LOG2 = 36 };

/* ---- The document ------------------------------------------------------------------------------ */

typedef struct tensor_document {
    weir_tensor_info info; /* all but type, shape and rank */
    weir_text dtype;
    weir_cbor_value shape;
    bool has_saved, is_saved;
    bool has_offset;
} tensor_document;

typedef struct node_document {
    weir_node_info info; /* all but inputs and outputs */
    weir_cbor_value inputs, outputs;
    bool has_inplace, is_inplace;
} node_document;

typedef struct graph_document {
    weir_text name, step; /* data NULL: not given */
    weir_cbor_value tensors, nodes, outputs, order;
    bool has_order;
} graph_document;

static weir_status read_list(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                             void *object) {
    if (value->type != WEIR_CBOR_ARRAY)
        return weir__refuse(r, field->name, "must be a list");
    return weir__read_plain(r, field, value, object);
}

static weir_status read_ids(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                            void *object) {
    weir_cbor_value item;
    WEIR__TRY(read_list(r, field, value, object));
    weir_cbor_iterator it = weir_cbor_children(value);
    while (weir_cbor_next(&it, NULL, &item))
        if (item.type != WEIR_CBOR_TEXT)
            return weir__refuse(r, field->name, "must be a list of ids, which are strings");
    return WEIR_OK;
}

static weir_choice choice(bool is_given, bool is_true) {
    if (!is_given)
        return WEIR_CHOICE_DEFAULT;
    return is_true ? WEIR_CHOICE_TRUE : WEIR_CHOICE_FALSE;
}

static weir_status check_tensor(weir__reader *r, void *object) {
    tensor_document *tensor = object;
    tensor->info.saved_for_backward = choice(tensor->has_saved, tensor->is_saved);
    if (tensor->info.arena.data &&
        (tensor->info.arena.size == 0 || tensor->info.arena.size > WEIR_PLAN__ARENA_NAME_MAX))
        return weir__refuse(r, "arena", "must be a name of 1 to 64 bytes");
    if (tensor->has_offset && !tensor->info.is_alias)
        return weir__refuse(r, "alias_offset", "goes with alias_of; give both or none");
    return WEIR_OK;
}

static const weir__field tensor_fields[] = {
    {"id", WEIR__VIEW(tensor_document, info.id), .flags = WEIR__REQUIRED},
    {"dtype", WEIR__VIEW(tensor_document, dtype), .flags = WEIR__REQUIRED},
    {"shape", WEIR__VALUE(tensor_document, shape), .read = read_list, .flags = WEIR__REQUIRED},
    {"role", WEIR__WORD(tensor_document, info.role, weir_plan__roles)},
    {"arena", WEIR__VIEW(tensor_document, info.arena)},
    {"saved_for_backward", WEIR__BOOL(tensor_document, is_saved),
     .has = offsetof(tensor_document, has_saved)},
    {"alias_of", WEIR__VIEW(tensor_document, info.alias_of), .has = offsetof(tensor_document, info.is_alias)},
    {"alias_offset", WEIR__UINT(tensor_document, info.alias_offset, 0, INT64_MAX),
     .has = offsetof(tensor_document, has_offset)},
};
static const weir__shape tensor_shape = WEIR__SHAPE(tensor_document, tensor_fields, .check = check_tensor);

static weir_status check_node(weir__reader *r, void *object) {
    node_document *node = object;
    (void)r;
    node->info.inplace = choice(node->has_inplace, node->is_inplace);
    return WEIR_OK;
}

static const weir__field node_fields[] = {
    {"id", WEIR__VIEW(node_document, info.id), .flags = WEIR__REQUIRED},
    {"op", WEIR__VIEW(node_document, info.op), .flags = WEIR__REQUIRED},
    {"inputs", WEIR__VALUE(node_document, inputs), .read = read_ids, .flags = WEIR__REQUIRED},
    {"outputs", WEIR__VALUE(node_document, outputs), .read = read_ids, .flags = WEIR__REQUIRED},
    {"inplace", WEIR__BOOL(node_document, is_inplace), .has = offsetof(node_document, has_inplace)},
    {"saves", WEIR__WORD(node_document, info.saves, weir_plan__saves), .least = WEIR_SAVES_NONE},
    {"cost", WEIR__UINT(node_document, info.cost, 0, ((uint64_t)1 << 56) - 1),
     .has = offsetof(node_document, info.has_cost)},
};
static const weir__shape node_shape = WEIR__SHAPE(node_document, node_fields, .check = check_node);

static const weir__field graph_fields[] = {
    {"format", WEIR__CONSTANT(GRAPH_FORMAT), .flags = WEIR__REQUIRED},
    {"name", WEIR__VIEW(graph_document, name)},
    {"tensors", WEIR__VALUE(graph_document, tensors), .read = read_list, .flags = WEIR__REQUIRED},
    {"nodes", WEIR__VALUE(graph_document, nodes), .read = read_list, .flags = WEIR__REQUIRED},
    {"outputs", WEIR__VALUE(graph_document, outputs), .read = read_ids, .flags = WEIR__REQUIRED},
    {"order", WEIR__VALUE(graph_document, order), .read = read_ids,
     .has = offsetof(graph_document, has_order)},
    {"step", WEIR__VIEW(graph_document, step)},
};
static const weir__shape graph_shape = WEIR__SHAPE(graph_document, graph_fields);

typedef struct reader {
    const weir_env *env;
    const char *name;
    weir__reader fields;
    graph_document graph;
    weir_text *texts; /* scratch for the ids of one node */
    size_t text_capacity;
    uint64_t *shape; /* scratch for the dimensions of one tensor */
    size_t shape_capacity;
} reader;

/* ---- Pass 1: format, then fields and types ----------------------------------------------------- */

static weir_status check_format(const reader *r, const weir_cbor_value *root, weir_error *error) {
    weir_cbor_value format;
    if (!weir_cbor_get(root, "format", &format))
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "%s is not a graph: it must be an object with \"format\": \"" GRAPH_FORMAT "\"",
                          r->name);
    if (weir_cbor_is_text(&format, "weir-plan/1"))
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "%s is a saved plan, not a graph: 'weir plan FILE --html OUT' shows it, without a "
                          "mode or preset",
                          r->name);
    if (!weir_cbor_is_text(&format, GRAPH_FORMAT))
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "%s: unknown format; this version reads " GRAPH_FORMAT, r->name);
    return WEIR_OK;
}

static weir_status read_tensor(reader *r, const weir_cbor_value *map, tensor_document *tensor) {
    *tensor = (tensor_document){0};
    return weir__read(&r->fields, map, &tensor_shape, tensor);
}

static weir_status read_node(reader *r, const weir_cbor_value *map, node_document *node) {
    *node = (node_document){0};
    return weir__read(&r->fields, map, &node_shape, node);
}

/* Every field once, for its faults; the passes after this one read them again, without any. */
static weir_status check_fields(reader *r, const weir_cbor_value *root) {
    weir_cbor_value item;
    tensor_document tensor;
    node_document node;
    WEIR__TRY(weir__read(&r->fields, root, &graph_shape, &r->graph));
    size_t top = weir__enter(&r->fields, "tensors", strlen("tensors"));
    weir_cbor_iterator it = weir_cbor_children(&r->graph.tensors);
    for (uint64_t i = 0; weir_cbor_next(&it, NULL, &item); i++) {
        size_t list = weir__enter_item(&r->fields, i);
        WEIR__TRY(read_tensor(r, &item, &tensor));
        weir__leave(&r->fields, list);
    }
    weir__leave(&r->fields, top);
    (void)weir__enter(&r->fields, "nodes", strlen("nodes"));
    it = weir_cbor_children(&r->graph.nodes);
    for (uint64_t i = 0; weir_cbor_next(&it, NULL, &item); i++) {
        size_t list = weir__enter_item(&r->fields, i);
        WEIR__TRY(read_node(r, &item, &node));
        weir__leave(&r->fields, list);
    }
    weir__leave(&r->fields, top);
    return WEIR_OK;
}

/* ---- Pass 2: ids ------------------------------------------------------------------------------- */

static void copy_ids(const weir_cbor_value *list, weir_text *out) {
    weir_cbor_iterator it = weir_cbor_children(list);
    weir_cbor_value item;
    while (weir_cbor_next(&it, NULL, &item))
        *out++ = weir_plan__text_of(&item);
}

static weir_status declare_nodes(reader *r, weir_graph *graph, weir_error *error) {
    weir_cbor_iterator it = weir_cbor_children(&r->graph.nodes);
    weir_cbor_value item;
    node_document node;
    while (weir_cbor_next(&it, NULL, &item)) {
        WEIR__TRY(read_node(r, &item, &node));
        size_t inputs = (size_t)node.inputs.number;
        size_t outputs = (size_t)node.outputs.number;
        if (!weir__grow(r->env, (void **)&r->texts, &r->text_capacity, inputs + outputs + 1,
                        sizeof *r->texts))
            return weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR,
                                       (inputs + outputs) * sizeof *r->texts);
        copy_ids(&node.inputs, r->texts);
        copy_ids(&node.outputs, r->texts + inputs);
        node.info.inputs = r->texts;
        node.info.input_count = inputs;
        node.info.outputs = r->texts + inputs;
        node.info.output_count = outputs;
        WEIR__TRY(weir_plan__graph_declare_node(graph, &node.info, error));
    }
    return WEIR_OK;
}

/* Tensors, then their originals, which may come after them. */
static weir_status declare_tensors(reader *r, weir_graph *graph, weir_error *error) {
    weir_cbor_iterator it = weir_cbor_children(&r->graph.tensors);
    weir_cbor_value item;
    tensor_document tensor;
    bool has_aliases = false;
    while (weir_cbor_next(&it, NULL, &item)) {
        WEIR__TRY(read_tensor(r, &item, &tensor));
        WEIR__TRY(weir_plan__graph_declare_tensor(graph, &tensor.info, error));
        has_aliases |= tensor.info.is_alias;
    }
    it = weir_cbor_children(&r->graph.tensors);
    for (uint32_t i = 0; has_aliases && weir_cbor_next(&it, NULL, &item); i++) {
        WEIR__TRY(read_tensor(r, &item, &tensor));
        if (tensor.info.is_alias)
            WEIR__TRY(weir_plan__graph_set_original(graph, i, tensor.info.alias_of, tensor.info.alias_offset,
                                                    error));
    }
    return WEIR_OK;
}

typedef weir_status take_ids(weir_graph *graph, const weir_text *ids, size_t count, weir_error *error);

static weir_status declare_list(reader *r, weir_graph *graph, const weir_cbor_value *list, take_ids *take,
                                weir_error *error) {
    weir_text *ids;
    size_t count;
    WEIR__TRY(weir_plan__text_list(r->env, list, r->name, "outputs and order", &ids, &count, error));
    weir_status status = take(graph, ids, count, error);
    weir__release(r->env, ids);
    return status;
}

/* ---- Pass 3: shapes and dtypes ----------------------------------------------------------------- */

static weir_status set_shapes(reader *r, weir_graph *graph, weir_error *error) {
    weir_cbor_iterator it = weir_cbor_children(&r->graph.tensors);
    weir_cbor_value item, dimension;
    tensor_document tensor;
    weir_tensor_type type;
    for (uint32_t i = 0; weir_cbor_next(&it, NULL, &item); i++) {
        WEIR__TRY(read_tensor(r, &item, &tensor));
        size_t rank = (size_t)tensor.shape.number;
        if (!weir__grow(r->env, (void **)&r->shape, &r->shape_capacity, rank, sizeof *r->shape))
            return weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR, rank * sizeof *r->shape);
        weir_cbor_iterator shape = weir_cbor_children(&tensor.shape);
        for (size_t k = 0; weir_cbor_next(&shape, NULL, &dimension); k++)
            if (!weir_cbor_get_uint(&dimension, &r->shape[k]))
                return weir__fail(
                    error, WEIR_INVALID_IR_SHAPES, WEIR_PLAN__PREPARE_OPERATOR,
                    "%s: tensor '%.*s': dimension %zu is not an integer from 0 to 2^64-1; every dimension "
                    "must be known",
                    r->name, WEIR_PLAN__SHOW(tensor.info.id), k);
        if (!weir_plan__type_named(tensor.dtype, &type))
            return weir__fail(error, WEIR_INVALID_IR_SHAPES, WEIR_PLAN__PREPARE_OPERATOR,
                              "%s: tensor '%.*s': unknown dtype '%.*s'", r->name,
                              WEIR_PLAN__SHOW(tensor.info.id), WEIR_PLAN__SHOW(tensor.dtype));
        WEIR__TRY(weir_plan__graph_set_shape(graph, i, type, r->shape, rank, error));
    }
    return WEIR_OK;
}

/* ---- All passes -------------------------------------------------------------------------------- */

/* The passes after the first, over a new graph. */
static weir_status fill_graph(reader *r, weir_graph *graph, weir_error *error) {
    if (r->graph.step.data)
        WEIR__TRY(weir_plan__graph_set_step(graph, r->graph.step, error));
    WEIR__TRY(declare_tensors(r, graph, error));
    WEIR__TRY(declare_nodes(r, graph, error));
    WEIR__TRY(declare_list(r, graph, &r->graph.outputs, weir_plan__graph_declare_outputs, error));
    if (r->graph.has_order)
        WEIR__TRY(declare_list(r, graph, &r->graph.order, weir_plan__graph_keep_order, error));
    WEIR__TRY(set_shapes(r, graph, error));
    for (uint32_t i = 0; i < weir_plan__graph_tensor_count(graph); i++)
        WEIR__TRY(weir_plan__graph_measure(graph, i, error));
    return weir_graph_finish(graph, error);
}

static weir_status read_document(reader *r, const weir_cbor_value *root, weir_graph **graph,
                                 weir_error *error) {
    weir_graph *made;
    WEIR__TRY(check_format(r, root, error));
    WEIR__TRY(check_fields(r, root));
    WEIR__TRY(weir_plan__graph_new(r->env, r->name, r->graph.name, &made, error));
    weir_status status = fill_graph(r, made, error);
    weir__release(r->env, r->texts);
    weir__release(r->env, r->shape);
    if (status == WEIR_OK)
        *graph = made;
    else
        weir_graph_close(made);
    return status;
}

weir_status weir_graph_read(const weir_env *env, const void *data, size_t size, const char *name,
                            weir_graph **graph, weir_error *error) {
    reader r = {.env = weir__env_or_default(env), .name = name ? name : "graph"};
    r.fields = (weir__reader){.error = error,
                              .family = WEIR_INVALID_IR,
                              .failure_operator = WEIR_PLAN__PREPARE_OPERATOR,
                              .name = r.name,
                              .unknown = "is not a key of " GRAPH_FORMAT,
                              .label = "id",
                              .path = "$"};
    /* No JSON text begins with a control character, and CBOR begins above all of them. */
    uint8_t first = size > 0 ? *(const uint8_t *)data : '{';
    if ((first < ' ' && first != '\t' && first != '\n' && first != '\r') || first == 0x7F)
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "%s is not a graph: it is neither JSON nor CBOR; an ONNX model is read if its name "
                          "ends in .onnx, a PyTorch model by weir.plan(model, inputs) in Python",
                          r.name);
    weir_plan__document document;
    WEIR__TRY(weir_plan__document_load(r.env, data, size, r.name, &document, error));
    weir_status status = read_document(&r, &document.root, graph, error);
    weir_plan__document_release(&document);
    return status;
}

weir_status weir_graph_read_file(const weir_env *env, const char *path, weir_graph **graph,
                                 weir_error *error) {
    uint8_t *data;
    size_t size;
    env = weir__env_or_default(env);
    WEIR__TRY(weir__file_read(env, path, (size_t)1 << GRAPH_SIZE_MAX_LOG2, &data, &size,
                              WEIR_PLAN__PREPARE_OPERATOR, error));
    weir_status status = weir_graph_read(env, data, size, path, graph, error);
    weir__release(env, data);
    return status;
}
