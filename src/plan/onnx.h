/* What the ONNX importer's files share: the state of an import, the field numbers of the published messages
 * that a plan needs, and the names of ONNX in weir's terms. */
#ifndef WEIR_PLAN_ONNX_H
#define WEIR_PLAN_ONNX_H

#include "plan/graph.h"
#include "plan/wire.h"

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

    ONNX_FLOAT = 1,
    ONNX_INT64 = 7,
};

/* ---- The state of an import (onnx.c) ------------------------------------------------------------ */

/* What the model says about a tensor's shape and type: a ValueInfoProto's type, or a TensorProto. */
typedef struct weir_plan__onnx_value {
    weir_plan__wire body;
    bool is_tensor; /* body is a TensorProto */
    bool is_initializer;
} weir_plan__onnx_value;

typedef struct weir_plan__onnx_list {
    weir_plan__wire *items;
    size_t count;
    size_t capacity;
} weir_plan__onnx_list;

/* An import under way: what the graph states, and the tensor and node in hand. */
typedef struct weir_plan__onnx {
    const weir_env *env;
    const char *source;
    const uint8_t *start; /* of the file, for offsets in messages */
    weir_error *error;

    weir_text name;
    weir_plan__onnx_list nodes;
    weir_plan__onnx_list inputs;
    weir_plan__onnx_list outputs;
    weir_plan__onnx_list initializers;
    weir__names value_names;
    weir_plan__onnx_value *values; /* by index in value_names */
    size_t value_capacity;

    weir__names node_ids;
    uint64_t *shape; /* of the tensor in hand */
    size_t rank;
    size_t shape_capacity;
    weir_text *texts; /* of the node in hand: its inputs, then its outputs */
    size_t text_count;
    size_t text_capacity;
    char *id; /* one that was made up */
    size_t id_capacity;

    weir_graph *graph;
} weir_plan__onnx;

/* ---- Fields (onnx_read.c) ----------------------------------------------------------------------- */

weir_status weir_plan__onnx_no_memory(weir_plan__onnx *in, size_t size);

/* INVALID_IR: these bytes are no ONNX model. */
weir_status weir_plan__onnx_broken(weir_plan__onnx *in, const uint8_t *at);

/* The next field; *has is false at the end. */
weir_status weir_plan__onnx_next(weir_plan__onnx *in, weir_plan__wire *message, weir_plan__wire_field *field,
                                 bool *has);

weir_status weir_plan__onnx_expect(weir_plan__onnx *in, const weir_plan__wire *message,
                                   const weir_plan__wire_field *field, weir_plan__wire_kind kind);

/* Text of the model's: UTF-8 without NUL, so that every notation of the graph can hold it. */
weir_status weir_plan__onnx_text(weir_plan__onnx *in, const weir_plan__wire *message,
                                 const weir_plan__wire_field *field, weir_text *text);

/* A text more for the node in hand. */
weir_status weir_plan__onnx_append_text(weir_plan__onnx *in, weir_text text);

/* A message's text field; size 0 if there is none. */
weir_status weir_plan__onnx_find_text(weir_plan__onnx *in, weir_plan__wire message, uint32_t number,
                                      weir_text *text);

/* A message's last field of that number, which must be bytes; *found says whether there is one. */
weir_status weir_plan__onnx_find_message(weir_plan__onnx *in, weir_plan__wire message, uint32_t number,
                                         weir_plan__wire *out, bool *found);

/* ---- Shapes (onnx_shapes.c) --------------------------------------------------------------------- */

/* INVALID_IR_SHAPES: the tensor `fault`, and what to do about it. */
weir_status weir_plan__onnx_refuse_shape(weir_plan__onnx *in, weir_text tensor, const char *fault);

/* A dimension more for the tensor in hand. */
weir_status weir_plan__onnx_append_dimension(weir_plan__onnx *in, weir_text tensor, uint64_t dimension);

/* Shape (of the tensor in hand) and type from a TensorProto, or from a TypeProto that must be a tensor's. */
weir_status weir_plan__onnx_tensor(weir_plan__onnx *in, weir_text tensor, weir_plan__wire message,
                                   weir_tensor_type *type);
weir_status weir_plan__onnx_value_type(weir_plan__onnx *in, weir_text tensor, weir_plan__wire message,
                                       weir_tensor_type *type);

/* ---- Names (onnx_names.c) ----------------------------------------------------------------------- */

/* TensorProto.DataType in weir's terms; false for strings, complex numbers and what has no size here. */
bool weir_plan__onnx_type(uint64_t data_type, weir_tensor_type *type);

/* The operator table's name for an operator of ONNX's own domain, or the operator's own name. */
weir_text weir_plan__onnx_operator(weir_text op_type);

#endif
