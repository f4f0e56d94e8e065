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

static bool take_value(weir_plan__wire *message, weir_plan__wire_field *field) {
    weir_plan__wire taken;
    uint64_t size;
    switch (field->kind) {
    case WEIR_PLAN__WIRE_VARINT:
        return weir_plan__wire_varint(message, &field->value);
    case WEIR_PLAN__WIRE_FIXED64:
        if (!take(message, 8, &taken))
            return false;
        field->value = weir__load64(taken.at);
        return true;
    case WEIR_PLAN__WIRE_BYTES:
        return weir_plan__wire_varint(message, &size) && take(message, size, &field->bytes);
    case WEIR_PLAN__WIRE_FIXED32:
        if (!take(message, 4, &taken))
            return false;
        field->value = weir__load32(taken.at);
        return true;
    }
    return false;
}

weir_plan__wire_result weir_plan__wire_next(weir_plan__wire *message, weir_plan__wire_field *field) {
    const uint8_t *start = message->at;
    uint64_t tag;
    if (message->at == message->end)
        return WEIR_PLAN__WIRE_END;
    if (weir_plan__wire_varint(message, &tag) && tag >> 3 >= 1 && tag >> 3 <= LAST_FIELD_NUMBER) {
        *field =
            (weir_plan__wire_field){.number = (uint32_t)(tag >> 3), .kind = (weir_plan__wire_kind)(tag & 7)};
        if (take_value(message, field))
            return WEIR_PLAN__WIRE_FIELD;
    }
    message->at = start;
    return WEIR_PLAN__WIRE_BROKEN;
}
