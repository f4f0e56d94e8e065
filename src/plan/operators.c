/* The closed tables of weir-graph/1: dtypes, roles, `saves`, what each operator does to its operands, and
 * what ONNX calls them. */
#include <string.h>

#include "plan/graph.h"

bool weir_plan__same_text(weir_text text, const char *other) {
    return text.size == strlen(other) && memcmp(text.data, other, text.size) == 0;
}

int weir_plan__compare_texts(weir_text a, weir_text b) {
    int order = memcmp(a.data, b.data, a.size < b.size ? a.size : b.size);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

/* ---- Types and roles --------------------------------------------------------------------------- */

static const struct {
    const char *name;
    uint8_t bits;
    bool is_floating;
} types[] = {
#define ROW(id, name, bits, is_floating) {name, bits, is_floating},
    WEIR_TENSOR_TYPES(ROW)
#undef ROW
};

const char *const weir_plan__roles[] = {"activation", "input", "parameter", "gradient", "state", NULL};

enum {
    TYPES = sizeof types / sizeof types[0],
    ROLES = sizeof weir_plan__roles / sizeof weir_plan__roles[0] - 1,
};

const char *weir_tensor_type_name(weir_tensor_type type) {
    return (unsigned)type < TYPES ? types[type].name : "unknown";
}

const char *weir_tensor_role_name(weir_tensor_role role) {
    return (unsigned)role < ROLES ? weir_plan__roles[role] : "unknown";
}

unsigned weir_plan__type_bits(weir_tensor_type type) {
    return types[type].bits;
}

bool weir_plan__type_is_floating(weir_tensor_type type) {
    return types[type].is_floating;
}

bool weir_plan__type_named(weir_text name, weir_tensor_type *type) {
    for (unsigned i = 0; i < TYPES; i++)
        if (weir_plan__same_text(name, types[i].name)) {
            *type = (weir_tensor_type)i;
            return true;
        }
    return false;
}

bool weir_plan__role_named(weir_text name, weir_tensor_role *role) {
    for (unsigned i = 0; i < ROLES; i++)
        if (weir_plan__same_text(name, weir_plan__roles[i])) {
            *role = (weir_tensor_role)i;
            return true;
        }
    return false;
}

/* ---- What a node saves for its backward step --------------------------------------------------- */

const char *const weir_plan__saves[] = {"", "none", "inputs", "output", "both", NULL};

/* ---- The operator table ------------------------------------------------------------------------ */

typedef struct operator_row {
    const char *name;
    bool inplace;
    weir_saves saves;
} operator_row;

static const operator_row operators[] = {
    {"add", true, WEIR_SAVES_NONE},
    {"sub", true, WEIR_SAVES_NONE},
    {"neg", true, WEIR_SAVES_NONE},
    {"scale", true, WEIR_SAVES_NONE},
    {"bias_add", true, WEIR_SAVES_NONE},
    {"cast", false, WEIR_SAVES_NONE},
    {"reshape", false, WEIR_SAVES_NONE},
    {"transpose", false, WEIR_SAVES_NONE},
    {"concat", false, WEIR_SAVES_NONE},
    {"slice", false, WEIR_SAVES_NONE},
    {"relu", true, WEIR_SAVES_OUTPUT},
    {"tanh", true, WEIR_SAVES_OUTPUT},
    {"sigmoid", true, WEIR_SAVES_OUTPUT},
    {"exp", true, WEIR_SAVES_OUTPUT},
    {"sqrt", true, WEIR_SAVES_OUTPUT},
    {"softmax", false, WEIR_SAVES_OUTPUT},
    {"mul", true, WEIR_SAVES_INPUTS},
    {"div", true, WEIR_SAVES_INPUTS},
    {"gelu", true, WEIR_SAVES_INPUTS},
    {"silu", true, WEIR_SAVES_INPUTS},
    {"layernorm", false, WEIR_SAVES_INPUTS},
    {"rmsnorm", false, WEIR_SAVES_INPUTS},
    {"matmul", false, WEIR_SAVES_INPUTS},
    {"conv", false, WEIR_SAVES_INPUTS},
    {"attention", false, WEIR_SAVES_INPUTS},
    {"embedding", false, WEIR_SAVES_INPUTS},
    {"cross_entropy", false, WEIR_SAVES_INPUTS},
};

static const operator_row unknown_operator = {"", false, WEIR_SAVES_BOTH};

void weir_plan__apply_operator_table(weir_text op, weir_plan__node *node) {
    const operator_row *row = &unknown_operator;
    for (size_t i = 0; i < sizeof operators / sizeof operators[0] && row == &unknown_operator; i++)
        if (weir_plan__same_text(op, operators[i].name))
            row = &operators[i];
    weir_saves saves = node->given_saves == WEIR_SAVES_DEFAULT ? row->saves : (weir_saves)node->given_saves;
    node->inplace =
        node->given_inplace == WEIR_CHOICE_DEFAULT ? row->inplace : node->given_inplace == WEIR_CHOICE_TRUE;
    node->saves_inputs = saves == WEIR_SAVES_INPUTS || saves == WEIR_SAVES_BOTH;
    node->saves_output = saves == WEIR_SAVES_OUTPUT || saves == WEIR_SAVES_BOTH;
}

/* ---- ONNX's names ------------------------------------------------------------------------------ */

bool weir_plan__onnx_type(uint64_t data_type, weir_tensor_type *type) {
    static const struct {
        uint8_t onnx;
        uint8_t weir;
    } onnx_types[] = {
        {1, WEIR_TENSOR_F32},     {2, WEIR_TENSOR_U8},      {3, WEIR_TENSOR_I8},
        {4, WEIR_TENSOR_U16},     {5, WEIR_TENSOR_I16},     {6, WEIR_TENSOR_I32},
        {7, WEIR_TENSOR_I64},     {9, WEIR_TENSOR_BOOL},    {10, WEIR_TENSOR_F16},
        {11, WEIR_TENSOR_F64},    {12, WEIR_TENSOR_U32},    {13, WEIR_TENSOR_U64},
        {16, WEIR_TENSOR_BF16},   {17, WEIR_TENSOR_F8E4M3}, {18, WEIR_TENSOR_F8E4M3},
        {19, WEIR_TENSOR_F8E5M2}, {20, WEIR_TENSOR_F8E5M2}, {21, WEIR_TENSOR_U4},
        {22, WEIR_TENSOR_I4},
    };
    for (size_t i = 0; i < sizeof onnx_types / sizeof onnx_types[0]; i++)
        if (onnx_types[i].onnx == data_type) {
            *type = (weir_tensor_type)onnx_types[i].weir;
            return true;
        }
    return false;
}

/* An operator is mapped only where what it must keep for the backward pass, and whether it may overwrite its
 * input, are those of the table's row; every other one keeps its name and is then unknown to the table, which
 * is the cautious choice. */
weir_text weir_plan__onnx_operator(weir_text op_type) {
    static const struct {
        const char *onnx;
        const char *weir;
    } names[] = {
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
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (weir_plan__same_text(op_type, names[i].onnx))
            return (weir_text){names[i].weir, strlen(names[i].weir)};
    return op_type;
}
