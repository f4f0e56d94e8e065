/* See wire.h. */
#include "plan/wire.h"

#include "base/bytes.h"

enum { LAST_FIELD_NUMBER = (1 << 29) - 1 };

bool weir_plan__wire_varint(weir_plan__wire *message, uint64_t *value) {
    uint64_t sum = 0;
    for (unsigned shift = 0; shift < 64 && message->at < message->end; shift += 7) {
        uint8_t byte = *message->at++;
        if (shift == 63 && byte > 1)
            return false;
        sum |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *value = sum;
            return true;
        }
    }
    return false;
}

static bool take(weir_plan__wire *message, uint64_t size, weir_plan__wire *taken) {
    if (size > weir_plan__wire_size(*message))
        return false;
    taken->at = message->at;
    taken->end = message->at += size;
    return true;
}

weir_plan__wire_result weir_plan__wire_next(weir_plan__wire *message, weir_plan__wire_field *field) {
    const uint8_t *start = message->at;
    weir_plan__wire taken;
    uint64_t tag, size;
    bool is_whole = false;
    if (message->at == message->end)
        return WEIR_PLAN__WIRE_END;
    if (weir_plan__wire_varint(message, &tag) && tag >> 3 >= 1 && tag >> 3 <= LAST_FIELD_NUMBER) {
        *field =
            (weir_plan__wire_field){.number = (uint32_t)(tag >> 3), .kind = (weir_plan__wire_kind)(tag & 7)};
        switch (field->kind) {
        case WEIR_PLAN__WIRE_VARINT:
            is_whole = weir_plan__wire_varint(message, &field->value);
            break;
        case WEIR_PLAN__WIRE_FIXED64:
            is_whole = take(message, 8, &taken);
            field->value = is_whole ? weir__load64(taken.at) : 0;
            break;
        case WEIR_PLAN__WIRE_BYTES:
            is_whole = weir_plan__wire_varint(message, &size) && take(message, size, &field->bytes);
            break;
        case WEIR_PLAN__WIRE_FIXED32:
            is_whole = take(message, 4, &taken);
            field->value = is_whole ? weir__load32(taken.at) : 0;
            break;
        }
    }
    if (is_whole)
        return WEIR_PLAN__WIRE_FIELD;
    message->at = start;
    return WEIR_PLAN__WIRE_BROKEN;
}
