/* What the ONNX importer's files share: the field numbers of the published messages that a plan needs, and
 * the names of ONNX in weir's terms. */
#ifndef WEIR_PLAN_ONNX_H
#define WEIR_PLAN_ONNX_H

#include "plan/graph.h"

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

/* TensorProto.DataType in weir's terms; false for strings, complex numbers and what has no size here. */
bool weir__onnx_type(uint64_t data_type, weir_tensor_type *type);

/* The operator table's name for an operator of ONNX's own domain, or the operator's own name. */
weir_text weir__onnx_operator(weir_text op_type);

#endif
