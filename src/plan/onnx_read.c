/* Fields of ONNX messages, with the faults that broken bytes have. */
#include <string.h>

#include "plan/onnx.h"

weir_status weir_plan__onnx_no_memory(weir_plan__onnx *in, size_t size) {
    return weir__out_of_memory(in->error, WEIR_PLAN__PREPARE_OPERATOR, size);
}

weir_status weir_plan__onnx_broken(weir_plan__onnx *in, const uint8_t *at) {
    weir_status status = weir__fail(in->error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR,
                                    "%s is not an ONNX model: the message is broken at byte %zu; export it "
                                    "again, or give a weir-graph/1 file another ending than .onnx",
                                    in->source, (size_t)(at - in->start));
    weir__note_uint(in->error, "offset", (uint64_t)(at - in->start));
    return status;
}

weir_status weir_plan__onnx_next(weir_plan__onnx *in, weir_plan__wire *message, weir_plan__wire_field *field,
                                 bool *has) {
    weir_plan__wire_result result = weir_plan__wire_next(message, field);
    *has = result == WEIR_PLAN__WIRE_FIELD;
    return result == WEIR_PLAN__WIRE_BROKEN ? weir_plan__onnx_broken(in, message->at) : WEIR_OK;
}

weir_status weir_plan__onnx_expect(weir_plan__onnx *in, const weir_plan__wire *message,
                                   const weir_plan__wire_field *field, weir_plan__wire_kind kind) {
    return field->kind == kind ? WEIR_OK : weir_plan__onnx_broken(in, message->at);
}

weir_status weir_plan__onnx_text(weir_plan__onnx *in, const weir_plan__wire *message,
                                 const weir_plan__wire_field *field, weir_text *text) {
    size_t size = weir_plan__wire_size(field->bytes);
    if (field->kind != WEIR_PLAN__WIRE_BYTES || !weir__utf8_is_valid(field->bytes.at, size) ||
        memchr(field->bytes.at, 0, size))
        return weir_plan__onnx_broken(in, message->at);
    *text = (weir_text){(const char *)field->bytes.at, size};
    return WEIR_OK;
}

weir_status weir_plan__onnx_append_text(weir_plan__onnx *in, weir_text text) {
    bool grown =
        weir__grow(in->env, (void **)&in->texts, &in->text_capacity, in->text_count + 1, sizeof *in->texts);
    if (!grown)
        return weir_plan__onnx_no_memory(in, in->text_count * sizeof *in->texts);
    in->texts[in->text_count++] = text;
    return WEIR_OK;
}

weir_status weir_plan__onnx_find_text(weir_plan__onnx *in, weir_plan__wire message, uint32_t number,
                                      weir_text *text) {
    weir_plan__wire_field field;
    bool has;
    weir_status status = WEIR_OK;
    *text = (weir_text){"", 0};
    while (status == WEIR_OK && (status = weir_plan__onnx_next(in, &message, &field, &has)) == WEIR_OK && has)
        if (field.number == number)
            status = weir_plan__onnx_text(in, &message, &field, text);
    return status;
}

weir_status weir_plan__onnx_find_message(weir_plan__onnx *in, weir_plan__wire message, uint32_t number,
                                         weir_plan__wire *out, bool *found) {
    weir_plan__wire_field field;
    bool has;
    weir_status status = WEIR_OK;
    *found = false;
    while (status == WEIR_OK && (status = weir_plan__onnx_next(in, &message, &field, &has)) == WEIR_OK &&
           has) {
        if (field.number != number)
            continue;
        status = weir_plan__onnx_expect(in, &message, &field, WEIR_PLAN__WIRE_BYTES);
        *out = field.bytes;
        *found = true;
    }
    return status;
}
