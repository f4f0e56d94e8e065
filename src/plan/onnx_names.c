/* ONNX's data types and operators in weir's terms. An operator is mapped only where what it must keep for
 * the backward pass, and whether it may overwrite its input, are those of the table's row; every other one
 * keeps its name and is then unknown to the table, which is the cautious choice. */
#include <string.h>

#include "plan/onnx.h"

bool weir_plan__onnx_type(uint64_t data_type, weir_tensor_type *type) {
    static const struct {
        uint8_t onnx;
        uint8_t weir;
    } types[] = {
        {1, WEIR_TENSOR_F32},     {2, WEIR_TENSOR_U8},      {3, WEIR_TENSOR_I8},
        {4, WEIR_TENSOR_U16},     {5, WEIR_TENSOR_I16},     {6, WEIR_TENSOR_I32},
        {7, WEIR_TENSOR_I64},     {9, WEIR_TENSOR_BOOL},    {10, WEIR_TENSOR_F16},
        {11, WEIR_TENSOR_F64},    {12, WEIR_TENSOR_U32},    {13, WEIR_TENSOR_U64},
        {16, WEIR_TENSOR_BF16},   {17, WEIR_TENSOR_F8E4M3}, {18, WEIR_TENSOR_F8E4M3},
        {19, WEIR_TENSOR_F8E5M2}, {20, WEIR_TENSOR_F8E5M2}, {21, WEIR_TENSOR_U4},
        {22, WEIR_TENSOR_I4},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].onnx == data_type) {
            *type = (weir_tensor_type)types[i].weir;
            return true;
        }
    return false;
}

weir_text weir_plan__onnx_operator(weir_text op_type) {
    static const struct {
        const char *onnx;
        const char *weir;
    } operators[] = {
        {"Add", "add"},
        {"Attention", "attention"},
        {"BatchNormalization", "layernorm"},
        {"Cast", "cast"},
        {"Concat", "concat"},
        {"Conv", "conv"},
        {"ConvTranspose", "conv"},
        {"Div", "div"},
        {"Einsum", "matmul"},
        {"Exp", "exp"},
        {"Flatten", "reshape"},
        {"Gather", "embedding"},
        {"Gelu", "gelu"},
        {"Gemm", "matmul"},
        {"GroupNormalization", "layernorm"},
        {"Identity", "reshape"},
        {"InstanceNormalization", "layernorm"},
        {"LayerNormalization", "layernorm"},
        {"LogSoftmax", "softmax"},
        {"MatMul", "matmul"},
        {"Mul", "mul"},
        {"Neg", "neg"},
        {"RMSNormalization", "rmsnorm"},
        {"Relu", "relu"},
        {"Reshape", "reshape"},
        {"Sigmoid", "sigmoid"},
        {"Slice", "slice"},
        {"Softmax", "softmax"},
        {"SoftmaxCrossEntropyLoss", "cross_entropy"},
        {"Split", "slice"},
        {"Sqrt", "sqrt"},
        {"Squeeze", "reshape"},
        {"Sub", "sub"},
        {"Swish", "silu"},
        {"Tanh", "tanh"},
        {"Transpose", "transpose"},
        {"Unsqueeze", "reshape"},
    };
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++)
        if (weir_plan__same_text(op_type, operators[i].onnx))
            return (weir_text){operators[i].weir, strlen(operators[i].weir)};
    return op_type;
}
