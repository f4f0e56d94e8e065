/* The graph in memory: flat arrays of small structs, names as indexes, inputs and outputs of all nodes in
 * one array of tensor indexes. Built by graph_build.c (directly or for graph_document.c), never
 * changed after weir_graph_finish. */
#ifndef WEIR_PLAN_GRAPH_H
#define WEIR_PLAN_GRAPH_H

#include "base/internal.h"
#include "base/names.h"
#include "weir/plan.h"

#define WEIR_PLAN__PREPARE_OPERATOR "UML_OS.TMMU.PrepareMemory_v2"

/* A text in a message: at most 120 bytes of it, for "%.*s". */
#define WEIR_PLAN__SHOW(name) ((int)((name).size < 120 ? (name).size : 120)), (name).data

/* The names of arenas that roles imply; their indexes in graph->arenas are these. */
enum {
    WEIR_PLAN__ARENA_PARAMETERS,
    WEIR_PLAN__ARENA_ACTIVATIONS,
    WEIR_PLAN__ARENA_GRADIENTS,
    WEIR_PLAN__OWN_ARENAS
};
enum { WEIR_PLAN__ARENA_NAME_MAX = 64 };

static inline uint32_t weir_plan__arena_of_role(weir_tensor_role role) {
    if (role == WEIR_ROLE_PARAMETER || role == WEIR_ROLE_STATE)
        return WEIR_PLAN__ARENA_PARAMETERS;
    return role == WEIR_ROLE_GRADIENT ? WEIR_PLAN__ARENA_GRADIENTS : WEIR_PLAN__ARENA_ACTIVATIONS;
}

typedef struct weir_plan__graph_tensor {
    uint64_t bytes;
    uint64_t first_dimension; /* in graph->dimensions */
    uint64_t alias_offset;    /* in its original */
    uint64_t owner_offset;    /* in its owner */
    uint32_t rank;
    uint32_t arena;
    uint32_t producer; /* node, or WEIR__NO_NAME */
    uint32_t alias_of; /* its original, or WEIR__NO_NAME */
    uint32_t owner;    /* whose place it has: itself if it is no alias; of a finished graph */
    uint8_t type;
    uint8_t role;
    uint8_t saved_for_backward; /* weir_choice */
    bool is_output;
    bool has_arena; /* it was given */
} weir_plan__graph_tensor;

typedef struct weir_plan__node {
    uint64_t first_edge; /* in graph->edges: the inputs, then the outputs */
    uint64_t cost;       /* where has_cost */
    uint32_t input_count;
    uint32_t output_count;
    uint32_t op;
    uint8_t given_inplace; /* weir_choice */
    uint8_t given_saves;   /* weir_saves */
    bool inplace;          /* with the operator table's defaults filled in */
    bool has_cost;
    bool saves_inputs : 1;
    bool saves_output : 1;
} weir_plan__node;

struct weir_graph {
    const weir_env *env;
    char *source; /* what messages call it */
    weir_text name;
    bool is_finished;
    bool has_order;
    bool has_aliases;
    bool steps_in_backward; /* parameters are updated during the backward pass */

    weir__names tensor_ids;
    weir__names node_ids;
    weir__names ops;
    weir__names arenas;

    weir_plan__graph_tensor *tensors;
    size_t tensor_capacity;
    weir_plan__node *nodes;
    size_t node_capacity;
    uint64_t *dimensions;
    size_t dimension_count;
    size_t dimension_capacity;
    uint32_t *edges;
    size_t edge_count;
    size_t edge_capacity;
    uint32_t *outputs;
    size_t output_count;
    weir__names order;       /* node ids as given: they are checked when the order is used */
    uint32_t *order_indexes; /* into `order`, so that an id that stands twice is kept */
    size_t order_count;

    uint8_t hash[WEIR_HASH_SIZE];
};

static inline uint32_t weir_plan__graph_tensor_count(const weir_graph *graph) {
    return graph->tensor_ids.count;
}

static inline uint32_t weir_plan__node_count(const weir_graph *graph) {
    return graph->node_ids.count;
}

static inline const uint32_t *weir_plan__inputs(const weir_graph *graph, const weir_plan__node *node) {
    return graph->edges + node->first_edge;
}

static inline const uint32_t *weir_plan__node_outputs(const weir_graph *graph, const weir_plan__node *node) {
    return graph->edges + node->first_edge + node->input_count;
}

/* ---- Steps that the builder and the reader share, in the order of faults ----------------------- */

/* A document (a graph, an arena configuration, an order): JSON or canonical CBOR, told apart by the first
 * byte, and read as a view of canonical CBOR in both cases. */
typedef struct weir_plan__document {
    weir_cbor_writer converted; /* holds what was JSON */
    weir_cbor_value root;
} weir_plan__document;

/* Text that is refused is INVALID_IR with line and column, bytes that are not canonical are CBOR_INVALID; a
 * file of another kind is said not to be what is wanted, such as "a graph".
 * Release it after success; CBOR bytes are borrowed. */
WEIR_CHECKED weir_status weir_plan__document_load(const weir_env *env, const void *data, size_t size,
                                                  const char *name, const char *wanted,
                                                  weir_plan__document *document, weir_error *error);
void weir_plan__document_release(weir_plan__document *document);

static inline weir_text weir_plan__text_of(const weir_cbor_value *value) {
    return (weir_text){(const char *)value->data, (size_t)value->number};
}

/* An empty graph that holds the arenas of the roles. */
weir_status weir_plan__graph_new(const weir_env *env, const char *source, weir_text name, weir_graph **graph,
                                 weir_error *error);

/* The id of a new tensor, without shape and type yet. */
weir_status weir_plan__graph_declare_tensor(weir_graph *graph, const weir_tensor_info *info,
                                            weir_error *error);

/* The original of the tensor declared as number `index`; all tensors are declared. */
weir_status weir_plan__graph_set_original(weir_graph *graph, uint32_t index, weir_text original,
                                          uint64_t offset, weir_error *error);

/* "end" or "backward"; else INVALID_IR. */
weir_status weir_plan__graph_set_step(weir_graph *graph, weir_text step, weir_error *error);

/* The graph with the optimizer's state and its step, either of which may be NULL (optimizer.c). */
weir_status weir_plan__graph_with_optimizer(const weir_env *env, const weir_graph *graph,
                                            const char *optimizer, const char *step, weir_graph **with,
                                            weir_error *error);

/* Shape and type of the tensor declared as number `index`. */
weir_status weir_plan__graph_set_shape(weir_graph *graph, uint32_t index, weir_tensor_type type,
                                       const uint64_t *shape, size_t rank, weir_error *error);

/* What was given of a tensor, and of a node but for its inputs and outputs; texts and shape are the graph's.
 */
weir_tensor_info weir_plan__graph_tensor_info(const weir_graph *graph, uint32_t index);
weir_node_info weir_plan__graph_node_info(const weir_graph *graph, uint32_t index);

/* Sizes: the tensor's bytes. ALLOCATION_OVERFLOW. */
weir_status weir_plan__graph_measure(weir_graph *graph, uint32_t index, weir_error *error);

/* Aliases (graph_aliases.c): owners of all tensors, and whether they can share a place. */
weir_status weir_plan__graph_check_aliases(weir_graph *graph, weir_error *error);

/* Whether the node writes into the place of the output, which is an alias: else it only views it. */
static inline bool weir_plan__node_overwrites(const weir_graph *graph, const weir_plan__node *node,
                                              uint32_t output) {
    return node->inplace && graph->tensors[output].alias_of != WEIR__NO_NAME;
}

/* The graph as recomputing sees it if nodes write into places: what a write makes is an owner from there on,
 * and has what is made in the place after it (docs/spec/03h-aliases.md). */
typedef struct weir_plan__versions {
    weir_graph graph; /* its tensors are of its own, all else is the other graph's */
    uint32_t *before; /* what a write made: the owner that it overwrites; else WEIR__NO_NAME */
    uint32_t *ends;   /* an owner: the position at which it is overwritten; 0 or UINT32_MAX if it is not */
    bool is_whole;    /* else a write does not fill its place, and the rest is void */
} weir_plan__versions;

/* False: no memory. Release in any case. */
WEIR_CHECKED bool weir_plan__versions_make(const weir_env *env, const weir_graph *graph,
                                           const uint32_t *order, weir_plan__versions *versions);
void weir_plan__versions_release(const weir_env *env, weir_plan__versions *versions);

/* ---- Names of things (operators.c) ------------------------------------------------------------- */

unsigned weir_plan__type_bits(weir_tensor_type type);

/* The bytes of a shape; false beyond 2^64-1. A dimension of 0 makes it 0, whatever the others are. */
bool weir_plan__shape_bytes(weir_tensor_type type, const uint64_t *shape, size_t rank, uint64_t *bytes);
bool weir_plan__type_is_floating(weir_tensor_type type);
bool weir_plan__type_named(weir_text name, weir_tensor_type *type);
bool weir_plan__role_named(weir_text name, weir_tensor_role *role);
extern const char *const weir_plan__roles[]; /* NULL ends them */
extern const char *const weir_plan__saves[]; /* the first, WEIR_SAVES_DEFAULT, is in no document */
bool weir_plan__same_text(weir_text text, const char *other);
int weir_plan__compare_texts(weir_text a, weir_text b); /* bytewise; not in the order of CBOR keys */

/* The operator table: fills in what the node leaves to it. */
void weir_plan__apply_operator_table(weir_text op, weir_plan__node *node);

/* TensorProto.DataType in weir's terms; false for strings, complex numbers and what has no size here. */
bool weir_plan__onnx_type(uint64_t data_type, weir_tensor_type *type);

/* The operator table's name for an operator of ONNX's own domain, or the operator's own name. */
weir_text weir_plan__onnx_operator(weir_text op_type);

/* What running the node costs (costs.c). */
uint64_t weir_plan__node_cost(const weir_graph *graph, uint32_t index);

WEIR_CHECKED weir_status weir_plan__graph_compute_hash(weir_graph *graph, weir_error *error);

#endif
