/* Shapes and types as ONNX states them. Only full shapes are taken: a dimension that is symbolic, unknown
 * or negative is refused with the tensor's name. */
#include <inttypes.h>
#include <stdio.h>

#include "plan/onnx.h"

weir_status weir_plan__onnx_refuse_shape(weir_plan__onnx *in, weir_text tensor, const char *fault) {
    return weir__fail(
        in->error, WEIR_INVALID_IR_SHAPES, WEIR_PLAN__PREPARE_OPERATOR,
        "%s: tensor '%.*s' %s; fix the input sizes and run ONNX shape inference on the model first",
        in->source, WEIR_PLAN__SHOW(tensor), fault);
}

weir_status weir_plan__onnx_append_dimension(weir_plan__onnx *in, weir_text tensor, uint64_t dimension) {
    if (dimension > INT64_MAX)
        return weir_plan__onnx_refuse_shape(in, tensor, "has a negative dimension");
    bool grown =
        weir__grow(in->env, (void **)&in->shape, &in->shape_capacity, in->rank + 1, sizeof *in->shape);
    if (!grown)
        return weir_plan__onnx_no_memory(in, in->rank * sizeof *in->shape);
    in->shape[in->rank++] = dimension;
    return WEIR_OK;
}

static weir_status set_type(weir_plan__onnx *in, weir_text tensor, uint64_t data_type,
                            weir_tensor_type *type) {
    if (weir_plan__onnx_type(data_type, type))
        return WEIR_OK;
    return weir__fail(in->error, WEIR_INVALID_IR_SHAPES, WEIR_PLAN__PREPARE_OPERATOR,
                      "%s: tensor '%.*s' has the ONNX data type %" PRIu64 ", which weir has no dtype for",
                      in->source, WEIR_PLAN__SHOW(tensor), data_type);
}

/* TensorProto's dims, one a field or packed. */
static weir_status read_dims(weir_plan__onnx *in, weir_text tensor, const weir_plan__wire *message,
                             weir_plan__wire_field *field) {
    uint64_t dimension;
    if (field->kind == WEIR_PLAN__WIRE_VARINT)
        return weir_plan__onnx_append_dimension(in, tensor, field->value);
    weir_status status = weir_plan__onnx_expect(in, message, field, WEIR_PLAN__WIRE_BYTES);
    while (status == WEIR_OK && weir_plan__wire_size(field->bytes) > 0)
        status = weir_plan__wire_varint(&field->bytes, &dimension)
                     ? weir_plan__onnx_append_dimension(in, tensor, dimension)
                     : weir_plan__onnx_broken(in, field->bytes.at);
    return status;
}

weir_status weir_plan__onnx_tensor(weir_plan__onnx *in, weir_text tensor, weir_plan__wire message,
                                   weir_tensor_type *type) {
    weir_plan__wire_field field;
    bool has;
    uint64_t data_type = 0;
    weir_status status = WEIR_OK;
    in->rank = 0;
    while (status == WEIR_OK && (status = weir_plan__onnx_next(in, &message, &field, &has)) == WEIR_OK &&
           has) {
        if (field.number == ONNX_TENSOR_DIMS)
            status = read_dims(in, tensor, &message, &field);
        else if (field.number == ONNX_TENSOR_DATA_TYPE)
            data_type = field.kind == WEIR_PLAN__WIRE_VARINT ? field.value : 0;
    }
    return status == WEIR_OK ? set_type(in, tensor, data_type, type) : status;
}

static weir_status read_dimension(weir_plan__onnx *in, weir_text tensor, weir_plan__wire message) {
    weir_plan__wire_field field;
    bool has;
    bool is_known = false;
    uint64_t value = 0;
    weir_text symbol = {"", 0};
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && (status = weir_plan__onnx_next(in, &message, &field, &has)) == WEIR_OK &&
           has) {
        if (field.number == ONNX_DIM_VALUE && field.kind == WEIR_PLAN__WIRE_VARINT) {
            is_known = true;
            value = field.value;
        } else if (field.number == ONNX_DIM_PARAM) {
            is_known = false;
            status = weir_plan__onnx_text(in, &message, &field, &symbol);
        }
    }
    if (status != WEIR_OK)
        return status;
    if (is_known)
        return weir_plan__onnx_append_dimension(in, tensor, value);
    char fault[192];
    snprintf(fault, sizeof fault, "has a dynamic dimension %zu ('%.*s')", in->rank, WEIR_PLAN__SHOW(symbol));
    return weir_plan__onnx_refuse_shape(in, tensor,
                                        symbol.size > 0 ? fault : "has a dimension of unknown size");
}

weir_status weir_plan__onnx_value_type(weir_plan__onnx *in, weir_text tensor, weir_plan__wire message,
                                       weir_tensor_type *type) {
    weir_plan__wire tensor_type;
    weir_plan__wire shape;
    weir_plan__wire_field field;
    bool found;
    bool has;
    uint64_t element = 0;
    in->rank = 0;
    weir_status status = weir_plan__onnx_find_message(in, message, ONNX_TYPE_TENSOR, &tensor_type, &found);
    if (status == WEIR_OK && !found)
        status = weir_plan__onnx_refuse_shape(in, tensor,
                                              weir_plan__wire_size(message) > 0
                                                  ? "is not a tensor (a sequence, map or optional)"
                                                  : "has no shape in the model");
    if (status == WEIR_OK)
        status = weir_plan__onnx_find_message(in, tensor_type, ONNX_TENSOR_TYPE_SHAPE, &shape, &found);
    if (status == WEIR_OK && !found)
        status = weir_plan__onnx_refuse_shape(in, tensor, "has no shape in the model");
    while (status == WEIR_OK && (status = weir_plan__onnx_next(in, &shape, &field, &has)) == WEIR_OK && has) {
        if (field.number != ONNX_SHAPE_DIM)
            continue;
        status = weir_plan__onnx_expect(in, &shape, &field, WEIR_PLAN__WIRE_BYTES);
        if (status == WEIR_OK)
            status = read_dimension(in, tensor, field.bytes);
    }
    while (status == WEIR_OK && (status = weir_plan__onnx_next(in, &tensor_type, &field, &has)) == WEIR_OK &&
           has)
        if (field.number == ONNX_TENSOR_TYPE_ELEMENT && field.kind == WEIR_PLAN__WIRE_VARINT)
            element = field.value;
    return status == WEIR_OK ? set_type(in, tensor, element, type) : status;
}
