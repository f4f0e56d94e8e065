/* Reads a weir-graph/1 document in passes, one for each kind of fault, in the order in which faults are
 * reported: format, fields and types, ids, shapes and dtypes, sizes, producers. Within a pass the document
 * is walked from the first tensor to the last node. The document is untrusted; after the first pass its
 * fields have the right types. */

#include "base/file.h"
#include "plan/document.h"
#include "plan/graph.h"

enum { GRAPH_SIZE_MAX_LOG2 = 36 };

typedef struct reader {
    const weir_env *env;
    const char *name;
    weir_cbor_value tensors;
    weir_cbor_value nodes;
    weir_cbor_value outputs;
    weir_cbor_value order;
    bool has_order;
    bool has_aliases;
    weir_text graph_name;
    weir_text step;   /* data NULL: not given */
    weir_text *texts; /* scratch for the ids of one node */
    size_t text_capacity;
    uint64_t *shape; /* scratch for the dimensions of one tensor */
    size_t shape_capacity;
} reader;

/* ---- Maps with known keys ---------------------------------------------------------------------- */

typedef struct field {
    const char *key;
    weir_cbor_type type;
    bool is_required;
} field;

static const char *type_in_words(weir_cbor_type type) {
    switch (type) {
    case WEIR_CBOR_TEXT:
        return "text";
    case WEIR_CBOR_ARRAY:
        return "a list";
    case WEIR_CBOR_BOOL:
        return "true or false";
    case WEIR_CBOR_UINT:
        return "an integer from 0 on";
    default:
        return "another type";
    }
}

/* Where a map stands: "tensor 3" or, once its id is known, "tensor 'x'". */
typedef struct place {
    const char *kind; /* "tensor", "node", "graph" */
    size_t number;
    weir_text id;
} place;

static weir_status fault_at(const reader *r, const place *at, const char *what, weir_text detail,
                            weir_error *error) {
    if (at->id.data)
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR, "%s: %s '%.*s': %s%.*s",
                          r->name, at->kind, WEIR_PLAN__SHOW(at->id), what, WEIR_PLAN__SHOW(detail));
    if (at->number != SIZE_MAX)
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR, "%s: %s number %zu: %s%.*s",
                          r->name, at->kind, at->number + 1, what, WEIR_PLAN__SHOW(detail));
    return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR, "%s: the graph: %s%.*s", r->name,
                      what, WEIR_PLAN__SHOW(detail));
}

static weir_text literal(const char *text) {
    return (weir_text){text, __builtin_strlen(text)};
}

/* Fills values[i] for fields[i] of a map; absent ones get type WEIR_CBOR_NULL, which no field has. */
static weir_status read_fields(const reader *r, const weir_cbor_value *map, const field *fields, size_t count,
                               place *at, weir_cbor_value *values, weir_error *error) {
    weir_cbor_iterator it = weir_cbor_children(map);
    weir_cbor_value key;
    weir_cbor_value child;
    for (size_t i = 0; i < count; i++)
        values[i] = (weir_cbor_value){.type = WEIR_CBOR_NULL};
    if (map->type != WEIR_CBOR_MAP)
        return fault_at(r, at, "must be an object", literal(""), error);
    if (weir_cbor_get(map, "id", &child) && child.type == WEIR_CBOR_TEXT)
        at->id = weir_plan__text_of(&child);
    while (weir_cbor_next(&it, &key, &child)) {
        size_t i = 0;
        while (i < count && !weir_cbor_is_text(&key, fields[i].key))
            i++;
        if (i == count)
            return fault_at(r, at, "unknown key ", weir_plan__text_of(&key), error);
        if (child.type != fields[i].type) {
            weir_status status = fault_at(r, at, "wrong type for the key ", weir_plan__text_of(&key), error);
            const char *wanted = type_in_words(fields[i].type);
            weir__note_text(error, "wanted", wanted, __builtin_strlen(wanted));
            return status;
        }
        values[i] = child;
    }
    for (size_t i = 0; i < count; i++)
        if (fields[i].is_required && values[i].type == WEIR_CBOR_NULL)
            return fault_at(r, at, "missing key ", literal(fields[i].key), error);
    return WEIR_OK;
}

static weir_choice choice_of(const weir_cbor_value *value) {
    if (value->type != WEIR_CBOR_BOOL)
        return WEIR_CHOICE_DEFAULT;
    return value->number ? WEIR_CHOICE_TRUE : WEIR_CHOICE_FALSE;
}

/* ---- Fields of a tensor and of a node ---------------------------------------------------------- */

typedef struct read_tensor {
    weir_tensor_info info; /* all but type, shape and rank */
    weir_cbor_value dtype;
    weir_cbor_value shape;
} read_tensor;

static weir_status tensor_fields(const reader *r, const weir_cbor_value *map, size_t number,
                                 read_tensor *tensor, weir_error *error) {
    enum { ID, DTYPE, SHAPE, ROLE, ARENA, SAVED, ALIAS_OF, ALIAS_OFFSET, FIELDS };
    static const field fields[FIELDS] = {
        {"id", WEIR_CBOR_TEXT, true},        {"dtype", WEIR_CBOR_TEXT, true},
        {"shape", WEIR_CBOR_ARRAY, true},    {"role", WEIR_CBOR_TEXT, false},
        {"arena", WEIR_CBOR_TEXT, false},    {"saved_for_backward", WEIR_CBOR_BOOL, false},
        {"alias_of", WEIR_CBOR_TEXT, false}, {"alias_offset", WEIR_CBOR_UINT, false},
    };
    weir_cbor_value values[FIELDS];
    place at = {"tensor", number, {0}};
    WEIR__TRY(read_fields(r, map, fields, FIELDS, &at, values, error));
    *tensor = (read_tensor){.dtype = values[DTYPE], .shape = values[SHAPE]};
    tensor->info.id = at.id;
    tensor->info.saved_for_backward = choice_of(&values[SAVED]);
    if (values[ROLE].type == WEIR_CBOR_TEXT &&
        !weir_plan__role_named(weir_plan__text_of(&values[ROLE]), &tensor->info.role))
        return fault_at(r, &at, "unknown role ", weir_plan__text_of(&values[ROLE]), error);
    if (values[ARENA].type == WEIR_CBOR_TEXT) {
        tensor->info.arena = weir_plan__text_of(&values[ARENA]);
        if (tensor->info.arena.size == 0 || tensor->info.arena.size > WEIR_PLAN__ARENA_NAME_MAX)
            return fault_at(r, &at, "an arena's name has 1 to 64 bytes, not ", tensor->info.arena, error);
    }
    tensor->info.is_alias = values[ALIAS_OF].type == WEIR_CBOR_TEXT;
    if (tensor->info.is_alias)
        tensor->info.alias_of = weir_plan__text_of(&values[ALIAS_OF]);
    if (values[ALIAS_OFFSET].type != WEIR_CBOR_NULL) {
        tensor->info.alias_offset = values[ALIAS_OFFSET].number;
        if (!tensor->info.is_alias || tensor->info.alias_offset > INT64_MAX)
            return fault_at(r, &at, "alias_offset goes with alias_of, and is at most 2^63 - 1", literal(""),
                            error);
    }
    return WEIR_OK;
}

typedef struct read_node {
    weir_node_info info; /* all but inputs and outputs */
    weir_cbor_value inputs;
    weir_cbor_value outputs;
} read_node;

static bool is_text_list(const weir_cbor_value *list) {
    weir_cbor_iterator it = weir_cbor_children(list);
    weir_cbor_value item;
    while (weir_cbor_next(&it, NULL, &item))
        if (item.type != WEIR_CBOR_TEXT)
            return false;
    return true;
}

static weir_status node_fields(const reader *r, const weir_cbor_value *map, size_t number, read_node *node,
                               weir_error *error) {
    enum { ID, OP, INPUTS, OUTPUTS, INPLACE, SAVES, COST, FIELDS };
    static const field fields[FIELDS] = {
        {"id", WEIR_CBOR_TEXT, true},       {"op", WEIR_CBOR_TEXT, true},
        {"inputs", WEIR_CBOR_ARRAY, true},  {"outputs", WEIR_CBOR_ARRAY, true},
        {"inplace", WEIR_CBOR_BOOL, false}, {"saves", WEIR_CBOR_TEXT, false},
        {"cost", WEIR_CBOR_UINT, false},
    };
    weir_cbor_value values[FIELDS];
    place at = {"node", number, {0}};
    WEIR__TRY(read_fields(r, map, fields, FIELDS, &at, values, error));
    *node = (read_node){.inputs = values[INPUTS], .outputs = values[OUTPUTS]};
    node->info.id = at.id;
    node->info.op = weir_plan__text_of(&values[OP]);
    node->info.inplace = choice_of(&values[INPLACE]);
    if (values[SAVES].type == WEIR_CBOR_TEXT &&
        !weir_plan__saves_named(weir_plan__text_of(&values[SAVES]), &node->info.saves))
        return fault_at(r, &at, "saves must be inputs, output, both or none, not ",
                        weir_plan__text_of(&values[SAVES]), error);
    node->info.has_cost = values[COST].type == WEIR_CBOR_UINT;
    node->info.cost = node->info.has_cost ? values[COST].number : 0;
    if (node->info.cost >= (uint64_t)1 << 56)
        return fault_at(r, &at, "its cost must be an integer from 0 to 2^56 - 1", literal(""), error);
    if (!is_text_list(&values[INPUTS]) || !is_text_list(&values[OUTPUTS]))
        return fault_at(r, &at, "inputs and outputs must be lists of tensor ids", literal(""), error);
    return WEIR_OK;
}

/* ---- Pass 1: format, then fields and types ----------------------------------------------------- */

static weir_status check_format(const reader *r, const weir_cbor_value *root, weir_error *error) {
    weir_cbor_value format;
    if (!weir_cbor_get(root, "format", &format))
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "%s is not a graph: it must be an object with \"format\": \"weir-graph/1\"",
                          r->name);
    if (weir_cbor_is_text(&format, "weir-plan/1"))
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "%s is a saved plan, not a graph: 'weir plan FILE --html OUT' shows it, without a "
                          "mode or preset",
                          r->name);
    if (!weir_cbor_is_text(&format, "weir-graph/1"))
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                          "%s: unknown format; this version reads weir-graph/1", r->name);
    return WEIR_OK;
}

static weir_status check_graph_fields(reader *r, const weir_cbor_value *root, weir_error *error) {
    enum { FORMAT, NAME, TENSORS, NODES, OUTPUTS, ORDER, STEP, FIELDS };
    static const field fields[FIELDS] = {
        {"format", WEIR_CBOR_TEXT, true},   {"name", WEIR_CBOR_TEXT, false},
        {"tensors", WEIR_CBOR_ARRAY, true}, {"nodes", WEIR_CBOR_ARRAY, true},
        {"outputs", WEIR_CBOR_ARRAY, true}, {"order", WEIR_CBOR_ARRAY, false},
        {"step", WEIR_CBOR_TEXT, false},
    };
    weir_cbor_value values[FIELDS];
    place at = {"graph", SIZE_MAX, {0}};
    WEIR__TRY(read_fields(r, root, fields, FIELDS, &at, values, error));
    r->tensors = values[TENSORS];
    r->nodes = values[NODES];
    r->outputs = values[OUTPUTS];
    r->order = values[ORDER];
    r->has_order = values[ORDER].type == WEIR_CBOR_ARRAY;
    if (values[STEP].type == WEIR_CBOR_TEXT)
        r->step = weir_plan__text_of(&values[STEP]);
    if (values[NAME].type == WEIR_CBOR_TEXT)
        r->graph_name = weir_plan__text_of(&values[NAME]);
    if (!is_text_list(&r->outputs) || (r->has_order && !is_text_list(&r->order)))
        return fault_at(r, &at, "outputs and order must be lists of ids", literal(""), error);
    return WEIR_OK;
}

static weir_status check_all_fields(reader *r, const weir_cbor_value *root, weir_error *error) {
    weir_cbor_value item;
    read_tensor tensor;
    read_node node;
    size_t number = 0;
    weir_status status = check_graph_fields(r, root, error);
    if (status != WEIR_OK)
        return status;
    weir_cbor_iterator it = weir_cbor_children(&r->tensors);
    for (; status == WEIR_OK && weir_cbor_next(&it, NULL, &item); number++)
        status = tensor_fields(r, &item, number, &tensor, error);
    it = weir_cbor_children(&r->nodes);
    for (number = 0; status == WEIR_OK && weir_cbor_next(&it, NULL, &item); number++)
        status = node_fields(r, &item, number, &node, error);
    return status;
}

/* ---- Pass 2: ids ------------------------------------------------------------------------------- */

static weir_status declare_tensors(reader *r, weir_graph *graph, weir_error *error) {
    weir_cbor_iterator it = weir_cbor_children(&r->tensors);
    weir_cbor_value item;
    read_tensor tensor;
    weir_status status = WEIR_OK;
    for (size_t number = 0; status == WEIR_OK && weir_cbor_next(&it, NULL, &item); number++) {
        status = tensor_fields(r, &item, number, &tensor, error);
        if (status == WEIR_OK)
            status = weir_plan__graph_declare_tensor(graph, &tensor.info, error);
        r->has_aliases |= status == WEIR_OK && tensor.info.is_alias;
    }
    return status;
}

static weir_status find_originals(reader *r, weir_graph *graph, weir_error *error) {
    weir_cbor_iterator it = weir_cbor_children(&r->tensors);
    weir_cbor_value item;
    read_tensor tensor;
    for (uint32_t i = 0; weir_cbor_next(&it, NULL, &item); i++) {
        WEIR__TRY(tensor_fields(r, &item, i, &tensor, error));
        if (tensor.info.is_alias)
            WEIR__TRY(weir_plan__graph_set_original(graph, i, tensor.info.alias_of, tensor.info.alias_offset,
                                                    error));
    }
    return WEIR_OK;
}

static void copy_ids(const weir_cbor_value *list, weir_text *out) {
    weir_cbor_iterator it = weir_cbor_children(list);
    weir_cbor_value item;
    while (weir_cbor_next(&it, NULL, &item))
        *out++ = weir_plan__text_of(&item);
}

static weir_status declare_node(reader *r, weir_graph *graph, read_node *node, weir_error *error) {
    size_t inputs = (size_t)node->inputs.number;
    size_t outputs = (size_t)node->outputs.number;
    void *memory = r->texts;
    bool grown = weir__grow(r->env, &memory, &r->text_capacity, inputs + outputs + 1, sizeof *r->texts);
    r->texts = memory;
    if (!grown)
        return weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR, (inputs + outputs) * sizeof *r->texts);
    copy_ids(&node->inputs, r->texts);
    copy_ids(&node->outputs, r->texts + inputs);
    node->info.inputs = r->texts;
    node->info.input_count = inputs;
    node->info.outputs = r->texts + inputs;
    node->info.output_count = outputs;
    return weir_plan__graph_declare_node(graph, &node->info, error);
}

static weir_status declare_nodes(reader *r, weir_graph *graph, weir_error *error) {
    weir_cbor_iterator it = weir_cbor_children(&r->nodes);
    weir_cbor_value item;
    read_node node;
    weir_status status = WEIR_OK;
    for (size_t number = 0; status == WEIR_OK && weir_cbor_next(&it, NULL, &item); number++) {
        status = node_fields(r, &item, number, &node, error);
        if (status == WEIR_OK)
            status = declare_node(r, graph, &node, error);
    }
    return status;
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

static weir_status declare_ids(reader *r, weir_graph *graph, weir_error *error) {
    weir_status status = declare_tensors(r, graph, error);
    if (status == WEIR_OK && r->has_aliases)
        status = find_originals(r, graph, error);
    if (status == WEIR_OK)
        status = declare_nodes(r, graph, error);
    if (status == WEIR_OK)
        status = declare_list(r, graph, &r->outputs, weir_plan__graph_declare_outputs, error);
    if (status == WEIR_OK && r->has_order)
        status = declare_list(r, graph, &r->order, weir_plan__graph_keep_order, error);
    return status;
}

/* ---- Pass 3: shapes and dtypes ----------------------------------------------------------------- */

static weir_status read_shape(reader *r, const read_tensor *tensor, weir_error *error) {
    weir_cbor_iterator it = weir_cbor_children(&tensor->shape);
    weir_cbor_value item;
    void *memory = r->shape;
    bool grown =
        weir__grow(r->env, &memory, &r->shape_capacity, (size_t)tensor->shape.number, sizeof *r->shape);
    r->shape = memory;
    if (!grown)
        return weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR,
                                   (size_t)tensor->shape.number * sizeof *r->shape);
    for (size_t i = 0; weir_cbor_next(&it, NULL, &item); i++)
        if (!weir_cbor_get_uint(&item, &r->shape[i]))
            return weir__fail(
                error, WEIR_INVALID_IR_SHAPES, WEIR_PLAN__PREPARE_OPERATOR,
                "%s: tensor '%.*s': dimension %zu is not an integer from 0 to 2^64-1; every dimension "
                "must be known",
                r->name, WEIR_PLAN__SHOW(tensor->info.id), i);
    return WEIR_OK;
}

static weir_status set_shapes(reader *r, weir_graph *graph, weir_error *error) {
    weir_cbor_iterator it = weir_cbor_children(&r->tensors);
    weir_cbor_value item;
    for (uint32_t i = 0; weir_cbor_next(&it, NULL, &item); i++) {
        read_tensor tensor;
        weir_tensor_type type;
        weir_status status = tensor_fields(r, &item, i, &tensor, error);
        if (status == WEIR_OK)
            status = read_shape(r, &tensor, error);
        if (status != WEIR_OK)
            return status;
        if (!weir_plan__type_named(weir_plan__text_of(&tensor.dtype), &type))
            return weir__fail(error, WEIR_INVALID_IR_SHAPES, WEIR_PLAN__PREPARE_OPERATOR,
                              "%s: tensor '%.*s': unknown dtype '%.*s'", r->name,
                              WEIR_PLAN__SHOW(tensor.info.id),
                              WEIR_PLAN__SHOW(weir_plan__text_of(&tensor.dtype)));
        WEIR__TRY(weir_plan__graph_set_shape(graph, i, type, r->shape, (size_t)tensor.shape.number, error));
    }
    return WEIR_OK;
}

/* ---- All passes -------------------------------------------------------------------------------- */

static weir_status fill_graph(reader *r, weir_graph *graph, weir_error *error) {
    weir_status status = declare_ids(r, graph, error);
    if (status == WEIR_OK)
        status = set_shapes(r, graph, error);
    for (uint32_t i = 0; status == WEIR_OK && i < weir_plan__graph_tensor_count(graph); i++)
        status = weir_plan__graph_measure(graph, i, error);
    if (status == WEIR_OK)
        status = weir_graph_finish(graph, error);
    return status;
}

static weir_status read_document(reader *r, const weir_cbor_value *root, weir_graph **graph,
                                 weir_error *error) {
    weir_graph *made;
    weir_status status = check_format(r, root, error);
    if (status == WEIR_OK)
        status = check_all_fields(r, root, error);
    if (status == WEIR_OK)
        status = weir_plan__graph_new(r->env, r->name, r->graph_name, &made, error);
    if (status != WEIR_OK)
        return status;
    if (r->step.data)
        status = weir_plan__graph_set_step(made, r->step, error);
    if (status == WEIR_OK)
        status = fill_graph(r, made, error);
    weir__release(r->env, r->texts);
    weir__release(r->env, r->shape);
    if (status != WEIR_OK) {
        weir_graph_close(made);
        return status;
    }
    *graph = made;
    return WEIR_OK;
}

/* No JSON text begins with a control character, and CBOR begins above all of them. */
static bool is_other_binary(const uint8_t *data, size_t size) {
    bool is_space = size > 0 && (data[0] == '\t' || data[0] == '\n' || data[0] == '\r');
    return size > 0 && !is_space && (data[0] < ' ' || data[0] == 0x7F);
}

weir_status weir_graph_read(const weir_env *env, const void *data, size_t size, const char *name,
                            weir_graph **graph, weir_error *error) {
    reader r = {.env = weir__env_or_default(env), .name = name ? name : "graph"};
    if (is_other_binary(data, size))
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
