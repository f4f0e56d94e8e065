/* Reading protobuf's wire format: a message is a run of fields, each a number, a kind and a value; what a
 * field means is the caller's business. Bytes are hostile: every length is checked against the message that
 * holds it, nothing is copied and nothing is read beyond the end. */
#ifndef WEIR_PLAN_WIRE_H
#define WEIR_PLAN_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is left of a message. */
typedef struct weir_plan__wire {
    const uint8_t *at;
    const uint8_t *end;
} weir_plan__wire;

typedef enum weir_plan__wire_kind {
    WEIR_PLAN__WIRE_VARINT = 0,
    WEIR_PLAN__WIRE_FIXED64 = 1,
    WEIR_PLAN__WIRE_BYTES = 2, /* text, bytes, messages and packed numbers */
    WEIR_PLAN__WIRE_FIXED32 = 5
} weir_plan__wire_kind;

typedef struct weir_plan__wire_field {
    uint32_t number;
    weir_plan__wire_kind kind;
    uint64_t value;        /* of all kinds but bytes */
    weir_plan__wire bytes; /* of bytes; borrowed */
} weir_plan__wire_field;

typedef enum weir_plan__wire_result {
    WEIR_PLAN__WIRE_FIELD,
    WEIR_PLAN__WIRE_END,
    WEIR_PLAN__WIRE_BROKEN /* message->at is where the broken field begins */
} weir_plan__wire_result;

/* Takes the next field off the message. */
weir_plan__wire_result weir_plan__wire_next(weir_plan__wire *message, weir_plan__wire_field *field);

/* Takes one varint of at most 64 bits off it; false if there is none. */
bool weir_plan__wire_varint(weir_plan__wire *message, uint64_t *value);

static inline size_t weir_plan__wire_size(weir_plan__wire message) {
    return (size_t)(message.end - message.at);
}

#endif
