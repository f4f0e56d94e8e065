/* Fields of ONNX messages, with the faults that broken bytes have. */
#include <string.h>

#include "plan/onnx.h"

weir_status weir__onnx_no_memory(weir__onnx *in, size_t size) {
    return weir__out_of_memory(in->error, WEIR__PREPARE_OPERATOR, size);
}

weir_status weir__onnx_broken(weir__onnx *in, const uint8_t *at) {
    weir_status status = weir__fail(in->error, WEIR_INVALID_IR, WEIR__PREPARE_OPERATOR,
                                    "%s is not an ONNX model: the message is broken at byte %zu; export it "
                                    "again, or give a weir-graph/1 file another ending than .onnx",
                                    in->source, (size_t)(at - in->start));
    weir__note_uint(in->error, "offset", (uint64_t)(at - in->start));
    return status;
}

weir_status weir__onnx_next(weir__onnx *in, weir__wire *message, weir__wire_field *field, bool *has) {
    weir__wire_result result = weir__wire_next(message, field);
    *has = result == WEIR__WIRE_FIELD;
    return result == WEIR__WIRE_BROKEN ? weir__onnx_broken(in, message->at) : WEIR_OK;
}

weir_status weir__onnx_expect(weir__onnx *in, const weir__wire *message, const weir__wire_field *field,
                              weir__wire_kind kind) {
    return field->kind == kind ? WEIR_OK : weir__onnx_broken(in, message->at);
}

weir_status weir__onnx_text(weir__onnx *in, const weir__wire *message, const weir__wire_field *field,
                            weir_text *text) {
    size_t size = weir__wire_size(field->bytes);
    if (field->kind != WEIR__WIRE_BYTES || !weir__utf8_is_valid(field->bytes.at, size) ||
        memchr(field->bytes.at, 0, size))
        return weir__onnx_broken(in, message->at);
    *text = (weir_text){(const char *)field->bytes.at, size};
    return WEIR_OK;
}

weir_status weir__onnx_append_text(weir__onnx *in, weir_text text) {
    void *memory = in->texts;
    bool grown = weir__grow(in->env, &memory, &in->text_capacity, in->text_count + 1, sizeof *in->texts);
    in->texts = memory;
    if (!grown)
        return weir__onnx_no_memory(in, in->text_count * sizeof *in->texts);
    in->texts[in->text_count++] = text;
    return WEIR_OK;
}

weir_status weir__onnx_find_text(weir__onnx *in, weir__wire message, uint32_t number, weir_text *text) {
    weir__wire_field field;
    bool has;
    weir_status status = WEIR_OK;
    *text = (weir_text){"", 0};
    while (status == WEIR_OK && (status = weir__onnx_next(in, &message, &field, &has)) == WEIR_OK && has)
        if (field.number == number)
            status = weir__onnx_text(in, &message, &field, text);
    return status;
}

weir_status weir__onnx_find_message(weir__onnx *in, weir__wire message, uint32_t number, weir__wire *out,
                                    bool *found) {
    weir__wire_field field;
    bool has;
    weir_status status = WEIR_OK;
    *found = false;
    while (status == WEIR_OK && (status = weir__onnx_next(in, &message, &field, &has)) == WEIR_OK && has) {
        if (field.number != number)
            continue;
        status = weir__onnx_expect(in, &message, &field, WEIR__WIRE_BYTES);
        *out = field.bytes;
        *found = true;
    }
    return status;
}
