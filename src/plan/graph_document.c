/* Graphs as weir-graph/1 documents. One table each for a graph, a tensor and a node says what there is to
 * read and to write, and in which order people read it in JSON.
 *
 * A document is read in passes, one for each kind of fault, in the order in which faults are reported:
 * format, fields and types, ids, shapes and dtypes, sizes, producers. Within a pass the document is walked
 * from the first tensor to the last node. It is untrusted; after the first pass its fields have the right
 * types.
 *
 * What is written is what was given, without defaults. graph_hash covers the whole meaning with all defaults
 * filled in, so two files that say the same have one hash. */
#include <string.h>

#include "base/fields.h"
#include "base/file.h"
#include "base/stream.h"
#include "plan/graph.h"
#include "weir_tool/plan_tools.h"

#define GRAPH_FORMAT "weir-graph/1"

enum { GRAPH_SIZE_MAX_LOG2 = 36 };

/* ---- Two notations ----------------------------------------------------------------------------- */

/* A canonical CBOR map or array begins with a byte of 0x80 or above, which no JSON text does. */
weir_status weir_plan__document_load(const weir_env *env, const void *data, size_t size, const char *name,
                                     const char *wanted, weir_plan__document *document, weir_error *error) {
    const uint8_t *bytes = data;
    weir_cbor_writer_memory(&document->converted, env);
    if (size > 0 && bytes[0] >= 0x80) {
        weir_status status = weir__cbor_check_in(name, data, size, NULL, error);
        if (status == WEIR_OK)
            document->root = weir_cbor_view(data);
        return weir__explain_format(status, data, size, name, wanted, error);
    }
    weir_status status = weir_json_read(data, size, name, WEIR_INVALID_IR, &document->converted, error);
    if (status == WEIR_OK)
        status = weir_cbor_finish(&document->converted, error);
    if (status != WEIR_OK) {
        weir_cbor_release(&document->converted);
        return status;
    }
    document->root = weir_cbor_view(document->converted.data);
    return WEIR_OK;
}

void weir_plan__document_release(weir_plan__document *document) {
    weir_cbor_release(&document->converted);
}

/* ---- The document ------------------------------------------------------------------------------ */

/* Ids: a list of texts that is read; or some of `names`, to be written. */
typedef struct id_list {
    weir_cbor_value given;
    const weir__names *names;
    const uint32_t *indexes;
    size_t count;
} id_list;

typedef struct tensor_document {
    weir_tensor_info info; /* what is read has no type, shape and rank yet */
    weir_text dtype;
    weir_cbor_value shape;
    bool has_role, has_offset;
} tensor_document;

typedef struct node_document {
    weir_node_info info; /* all but inputs and outputs */
    id_list inputs, outputs;
} node_document;

typedef struct graph_document {
    weir_text name, step; /* data NULL: not given */
    weir_cbor_value tensors, nodes;
    id_list outputs, order;
    bool has_order;
    const weir_graph *graph; /* that is written */
    bool is_whole;           /* with all defaults */
    weir__cbor_stream *stream;
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

static void write_ids(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const id_list *list = (const void *)((const char *)object + field->offset);
    weir_cbor_array(w, list->count);
    for (size_t i = 0; i < list->count; i++) {
        weir_text id = weir__name(list->names, list->indexes[i]);
        weir_cbor_text_n(w, id.data, id.size);
    }
}

static weir_status read_choice(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                               void *object) {
    if (value->type != WEIR_CBOR_BOOL)
        return weir__refuse(r, field->name, "must be true or false");
    weir_choice choice = value->number ? WEIR_CHOICE_TRUE : WEIR_CHOICE_FALSE;
    memcpy((char *)object + field->offset, &choice, sizeof choice);
    return WEIR_OK;
}

static void write_choice(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const weir_choice *choice = (const void *)((const char *)object + field->offset);
    weir_cbor_bool(w, *choice == WEIR_CHOICE_TRUE);
}

static void write_shape(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const weir_tensor_info *tensor = &((const tensor_document *)object)->info;
    (void)field;
    weir_cbor_array(w, tensor->rank);
    for (size_t i = 0; i < tensor->rank; i++)
        weir_cbor_uint(w, tensor->shape[i]);
}

static weir_status check_tensor(weir__reader *r, void *object) {
    const tensor_document *tensor = object;
    if (tensor->info.arena.data &&
        (tensor->info.arena.size == 0 || tensor->info.arena.size > WEIR_PLAN__ARENA_NAME_MAX))
        return weir__refuse(r, "arena", "must be a name of 1 to 64 bytes");
    if (tensor->has_offset && !tensor->info.is_alias)
        return weir__refuse(r, "alias_offset", "goes with alias_of; give both or none");
    return WEIR_OK;
}

static void write_tensors(weir_cbor_writer *w, const weir__field *field, const void *object);
static void write_nodes(weir_cbor_writer *w, const weir__field *field, const void *object);

#define IDS(type, member) WEIR__VALUE(type, member.given), .read = read_ids, .write = write_ids
#define CHOICE(type, member)                                                                                 \
    WEIR__UINT(type, member, 0, WEIR_CHOICE_TRUE), .read = read_choice, .write = write_choice,               \
                                                   .flags = WEIR__SPARSE
#define ITEMS(type, member, of, writes)                                                                      \
    WEIR__VALUE(type, member), .read = read_list, .write = (writes), .shape = (of)

static const weir__field tensor_fields[] = {
    {"id", WEIR__VIEW(tensor_document, info.id), .flags = WEIR__REQUIRED},
    {"shape", WEIR__VALUE(tensor_document, shape), .read = read_list, .write = write_shape,
     .flags = WEIR__REQUIRED},
    {"dtype", WEIR__VIEW(tensor_document, dtype), .flags = WEIR__REQUIRED},
    {"role", WEIR__WORD(tensor_document, info.role, weir_plan__roles),
     .has = offsetof(tensor_document, has_role), .flags = WEIR__SPARSE},
    {"arena", WEIR__VIEW(tensor_document, info.arena), .flags = WEIR__SPARSE},
    {"alias_of", WEIR__VIEW(tensor_document, info.alias_of), .has = offsetof(tensor_document, info.is_alias),
     .flags = WEIR__SPARSE},
    {"alias_offset", WEIR__UINT(tensor_document, info.alias_offset, 0, INT64_MAX),
     .has = offsetof(tensor_document, has_offset), .flags = WEIR__SPARSE},
    {"saved_for_backward", CHOICE(tensor_document, info.saved_for_backward)},
};
static const weir__shape tensor_shape = WEIR__SHAPE(tensor_document, tensor_fields, .check = check_tensor);

static const weir__field node_fields[] = {
    {"id", WEIR__VIEW(node_document, info.id), .flags = WEIR__REQUIRED},
    {"op", WEIR__VIEW(node_document, info.op), .flags = WEIR__REQUIRED},
    {"inputs", IDS(node_document, inputs), .flags = WEIR__REQUIRED},
    {"outputs", IDS(node_document, outputs), .flags = WEIR__REQUIRED},
    {"inplace", CHOICE(node_document, info.inplace)},
    {"saves", WEIR__WORD(node_document, info.saves, weir_plan__saves), .least = WEIR_SAVES_NONE,
     .flags = WEIR__SPARSE},
    {"cost", WEIR__UINT(node_document, info.cost, 0, ((uint64_t)1 << 56) - 1),
     .has = offsetof(node_document, info.has_cost), .flags = WEIR__SPARSE},
};
static const weir__shape node_shape = WEIR__SHAPE(node_document, node_fields);

static const weir__field graph_fields[] = {
    {"format", WEIR__CONSTANT(GRAPH_FORMAT), .flags = WEIR__REQUIRED},
    {"name", WEIR__VIEW(graph_document, name)},
    {"tensors", ITEMS(graph_document, tensors, &tensor_shape, write_tensors), .flags = WEIR__REQUIRED},
    {"nodes", ITEMS(graph_document, nodes, &node_shape, write_nodes), .flags = WEIR__REQUIRED},
    {"outputs", IDS(graph_document, outputs), .flags = WEIR__REQUIRED},
    {"step", WEIR__VIEW(graph_document, step), .flags = WEIR__SPARSE},
    {"order", IDS(graph_document, order), .has = offsetof(graph_document, has_order), .flags = WEIR__SPARSE},
};
static const weir__shape graph_shape = WEIR__SHAPE(graph_document, graph_fields);

/* ---- Reading, pass 1: format, then fields and types --------------------------------------------- */

typedef struct reader {
    const weir_env *env;
    const char *name;
    weir_error *error;
    weir__reader fields;
    graph_document graph;
    weir_text *texts; /* scratch for ids */
    size_t text_capacity;
    uint64_t *shape; /* scratch for the dimensions of one tensor */
    size_t shape_capacity;
} reader;

static weir_status check_format(const reader *r, const weir_cbor_value *root) {
    weir_cbor_value format;
    if (!weir_cbor_get(root, "format", &format))
        return weir__fail(r->error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "%s is not a graph: it must be an object with \"format\": \"" GRAPH_FORMAT "\"",
                          r->name);
    if (weir_cbor_is_text(&format, "weir-plan/1"))
        return weir__fail(r->error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "%s is a saved plan, not a graph: 'weir plan FILE --html OUT' shows it, without a "
                          "mode or preset",
                          r->name);
    if (!weir_cbor_is_text(&format, GRAPH_FORMAT))
        return weir__fail(r->error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "%s: unknown format; this version reads " GRAPH_FORMAT, r->name);
    return WEIR_OK;
}

/* A tensor or a node. */
static weir_status read_item(reader *r, const weir_cbor_value *map, const weir__shape *shape,
                             void *document) {
    memset(document, 0, shape->size);
    return weir__read(&r->fields, map, shape, document);
}

/* Every field once, for its faults; the passes after this one read them again, without any. `document` has
 * room for an item. */
static weir_status check_items(reader *r, const char *name, const weir_cbor_value *list,
                               const weir__shape *shape, void *document) {
    weir_cbor_iterator it = weir_cbor_children(list);
    weir_cbor_value item;
    size_t top = weir__enter(&r->fields, name, strlen(name));
    for (uint64_t i = 0; weir_cbor_next(&it, NULL, &item); i++) {
        size_t length = weir__enter_item(&r->fields, i);
        WEIR__TRY(read_item(r, &item, shape, document));
        weir__leave(&r->fields, length);
    }
    weir__leave(&r->fields, top);
    return WEIR_OK;
}

/* ---- Pass 2: ids ------------------------------------------------------------------------------- */

/* The ids as r->texts, from `at` on. */
static weir_status copy_ids(reader *r, const id_list *list, size_t at) {
    weir_cbor_iterator it = weir_cbor_children(&list->given);
    weir_cbor_value item;
    size_t end = at + (size_t)list->given.number;
    if (!weir__grow(r->env, (void **)&r->texts, &r->text_capacity, end + 1, sizeof *r->texts))
        return weir__out_of_memory(r->error, WEIR_PLAN__PREPARE_OPERATOR, end * sizeof *r->texts);
    while (weir_cbor_next(&it, NULL, &item))
        r->texts[at++] = weir_plan__text_of(&item);
    return WEIR_OK;
}

/* Tensors, then their originals, which may come after them. */
static weir_status declare_tensors(reader *r, weir_graph *graph) {
    weir_cbor_iterator it = weir_cbor_children(&r->graph.tensors);
    weir_cbor_value item;
    tensor_document tensor;
    bool has_aliases = false;
    while (weir_cbor_next(&it, NULL, &item)) {
        WEIR__TRY(read_item(r, &item, &tensor_shape, &tensor));
        WEIR__TRY(weir_plan__graph_declare_tensor(graph, &tensor.info, r->error));
        has_aliases |= tensor.info.is_alias;
    }
    it = weir_cbor_children(&r->graph.tensors);
    for (uint32_t i = 0; has_aliases && weir_cbor_next(&it, NULL, &item); i++) {
        WEIR__TRY(read_item(r, &item, &tensor_shape, &tensor));
        if (tensor.info.is_alias)
            WEIR__TRY(weir_plan__graph_set_original(graph, i, tensor.info.alias_of, tensor.info.alias_offset,
                                                    r->error));
    }
    return WEIR_OK;
}

static weir_status declare_nodes(reader *r, weir_graph *graph) {
    weir_cbor_iterator it = weir_cbor_children(&r->graph.nodes);
    weir_cbor_value item;
    node_document node;
    while (weir_cbor_next(&it, NULL, &item)) {
        WEIR__TRY(read_item(r, &item, &node_shape, &node));
        node.info.input_count = (size_t)node.inputs.given.number;
        node.info.output_count = (size_t)node.outputs.given.number;
        WEIR__TRY(copy_ids(r, &node.inputs, 0));
        WEIR__TRY(copy_ids(r, &node.outputs, node.info.input_count));
        node.info.inputs = r->texts;
        node.info.outputs = r->texts + node.info.input_count;
        WEIR__TRY(weir_graph_add_node(graph, &node.info, r->error));
    }
    return WEIR_OK;
}

/* ---- Pass 3: shapes and dtypes ----------------------------------------------------------------- */

static weir_status set_shapes(reader *r, weir_graph *graph) {
    weir_cbor_iterator it = weir_cbor_children(&r->graph.tensors);
    weir_cbor_value item, dimension;
    tensor_document tensor;
    weir_tensor_type type;
    for (uint32_t i = 0; weir_cbor_next(&it, NULL, &item); i++) {
        WEIR__TRY(read_item(r, &item, &tensor_shape, &tensor));
        size_t rank = (size_t)tensor.shape.number;
        if (!weir__grow(r->env, (void **)&r->shape, &r->shape_capacity, rank, sizeof *r->shape))
            return weir__out_of_memory(r->error, WEIR_PLAN__PREPARE_OPERATOR, rank * sizeof *r->shape);
        weir_cbor_iterator shape = weir_cbor_children(&tensor.shape);
        for (size_t k = 0; weir_cbor_next(&shape, NULL, &dimension); k++)
            if (!weir_cbor_get_uint(&dimension, &r->shape[k]))
                return weir__fail(
                    r->error, WEIR_INVALID_IR_SHAPES, WEIR_PLAN__PREPARE_OPERATOR,
                    "%s: tensor '%.*s': dimension %zu is not an integer from 0 to 2^64-1; every dimension "
                    "must be known",
                    r->name, WEIR_PLAN__SHOW(tensor.info.id), k);
        if (!weir_plan__type_named(tensor.dtype, &type))
            return weir__fail(r->error, WEIR_INVALID_IR_SHAPES, WEIR_PLAN__PREPARE_OPERATOR,
                              "%s: tensor '%.*s': unknown dtype '%.*s'", r->name,
                              WEIR_PLAN__SHOW(tensor.info.id), WEIR_PLAN__SHOW(tensor.dtype));
        WEIR__TRY(weir_plan__graph_set_shape(graph, i, type, r->shape, rank, r->error));
    }
    return WEIR_OK;
}

/* ---- All passes -------------------------------------------------------------------------------- */

/* The passes after the first, over a new graph. */
static weir_status fill_graph(reader *r, weir_graph *graph) {
    const graph_document *given = &r->graph;
    if (given->step.data)
        WEIR__TRY(weir_plan__graph_set_step(graph, given->step, r->error));
    WEIR__TRY(declare_tensors(r, graph));
    WEIR__TRY(declare_nodes(r, graph));
    WEIR__TRY(copy_ids(r, &given->outputs, 0));
    WEIR__TRY(weir_graph_set_outputs(graph, r->texts, (size_t)given->outputs.given.number, r->error));
    if (given->has_order) {
        WEIR__TRY(copy_ids(r, &given->order, 0));
        WEIR__TRY(weir_graph_set_order(graph, r->texts, (size_t)given->order.given.number, r->error));
    }
    WEIR__TRY(set_shapes(r, graph));
    for (uint32_t i = 0; i < weir_plan__graph_tensor_count(graph); i++)
        WEIR__TRY(weir_plan__graph_measure(graph, i, r->error));
    return weir_graph_finish(graph, r->error);
}

static weir_status read_document(reader *r, const weir_cbor_value *root, weir_graph **graph) {
    weir_graph *made;
    tensor_document tensor;
    node_document node;
    WEIR__TRY(check_format(r, root));
    WEIR__TRY(weir__read(&r->fields, root, &graph_shape, &r->graph));
    WEIR__TRY(check_items(r, "tensors", &r->graph.tensors, &tensor_shape, &tensor));
    WEIR__TRY(check_items(r, "nodes", &r->graph.nodes, &node_shape, &node));
    WEIR__TRY(weir_plan__graph_new(r->env, r->name, r->graph.name, &made, r->error));
    weir_status status = fill_graph(r, made);
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
    reader r = {.env = weir__env_or_default(env), .name = name ? name : "graph", .error = error};
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
    WEIR__TRY(weir_plan__document_load(r.env, data, size, r.name, "a graph", &document, error));
    weir_status status = read_document(&r, &document.root, graph);
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

/* ---- Writing ----------------------------------------------------------------------------------- */

static void write_tensors(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const graph_document *document = object;
    const weir_graph *graph = document->graph;
    (void)field;
    weir_cbor_array(w, weir_plan__graph_tensor_count(graph));
    for (uint32_t i = 0; i < weir_plan__graph_tensor_count(graph); i++) {
        tensor_document tensor = {.info = weir_plan__graph_tensor_info(graph, i)};
        const char *dtype = weir_tensor_type_name(tensor.info.type);
        uint32_t arena = graph->tensors[i].arena;
        tensor.dtype = (weir_text){dtype, strlen(dtype)};
        tensor.has_role = document->is_whole || tensor.info.role != WEIR_ROLE_ACTIVATION;
        tensor.has_offset = tensor.info.alias_offset > 0;
        if (document->is_whole)
            tensor.info.arena = weir__name(&graph->arenas, arena);
        else if (tensor.info.is_alias || arena == weir_plan__arena_of_role(tensor.info.role))
            tensor.info.arena = (weir_text){0};
        weir__write(w, &tensor_shape, &tensor);
        weir__cbor_stream_drain(document->stream);
    }
}

static void write_nodes(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const graph_document *document = object;
    const weir_graph *graph = document->graph;
    (void)field;
    weir_cbor_array(w, weir_plan__node_count(graph));
    for (uint32_t i = 0; i < weir_plan__node_count(graph); i++) {
        const weir_plan__node *from = &graph->nodes[i];
        node_document node = {
            .info = weir_plan__graph_node_info(graph, i),
            .inputs = {.names = &graph->tensor_ids,
                       .indexes = weir_plan__inputs(graph, from),
                       .count = from->input_count},
            .outputs = {.names = &graph->tensor_ids,
                        .indexes = weir_plan__node_outputs(graph, from),
                        .count = from->output_count},
        };
        if (document->is_whole) {
            node.info.inplace = from->inplace ? WEIR_CHOICE_TRUE : WEIR_CHOICE_FALSE;
            node.info.saves = (weir_saves)(WEIR_SAVES_NONE + from->saves_inputs + 2 * from->saves_output);
        }
        weir__write(w, &node_shape, &node);
        weir__cbor_stream_drain(document->stream);
    }
}

/* `stream` may be NULL. */
static void write_graph(const weir_graph *graph, bool is_whole, weir__cbor_stream *stream,
                        weir_cbor_writer *w) {
    graph_document document = {
        .name = graph->name,
        .outputs = {.names = &graph->tensor_ids, .indexes = graph->outputs, .count = graph->output_count},
        .order = {.names = &graph->order, .indexes = graph->order_indexes, .count = graph->order_count},
        .has_order = graph->has_order && !is_whole,
        .graph = graph,
        .is_whole = is_whole,
        .stream = stream,
    };
    if (graph->steps_in_backward)
        document.step = (weir_text){"backward", strlen("backward")};
    weir__write(w, &graph_shape, &document);
}

weir_status weir_plan__graph_compute_hash(weir_graph *graph, weir_error *error) {
    weir__cbor_stream stream;
    weir__cbor_stream_to_hash(&stream, graph->env);
    write_graph(graph, true, &stream, &stream.writer);
    return weir__cbor_stream_finish_hash(&stream, graph->hash, error);
}

void weir_graph_write_cbor(const weir_graph *graph, weir_cbor_writer *w) {
    write_graph(graph, false, NULL, w);
}

/* ---- JSON -------------------------------------------------------------------------------------- */

/* A dimension that JSON readers may not take for an integer is a text. */
static void json_dimension(weir_json_writer *w, const weir_cbor_value *dimension) {
    if (dimension->number > INT64_MAX)
        weir_json_uint_text(w, dimension->number);
    else
        weir_json_uint(w, dimension->number);
}

/* A map with its keys in the order of the table. */
static void json_map(weir_json_writer *w, const weir_cbor_value *map, const weir__shape *shape) {
    weir_cbor_value value, item;
    weir_json_object(w);
    for (const weir__field *field = shape->fields; field < shape->fields + shape->count; field++) {
        if (!weir_cbor_get(map, field->name, &value))
            continue;
        weir_json_key(w, field->name);
        if (!field->shape && field->write != write_shape) {
            weir_json_value(w, &value);
            continue;
        }
        weir_cbor_iterator it = weir_cbor_children(&value);
        weir_json_array(w);
        while (weir_cbor_next(&it, NULL, &item)) {
            if (field->shape)
                json_map(w, &item, field->shape);
            else
                json_dimension(w, &item);
        }
        weir_json_end_array(w);
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
        json_map(w, &root, &graph_shape);
    } else
        w->status = status;
    weir_cbor_release(&cbor);
}
