/* The head of a CBOR item: what it is, and a number, in as few bytes as hold that. */
#ifndef WEIR_BASE_CBOR_HEAD_H
#define WEIR_BASE_CBOR_HEAD_H

#include "base/bytes.h"

enum {
    WEIR__HEAD_UINT = 0 << 5,
    WEIR__HEAD_NEGATIVE = 1 << 5,
    WEIR__HEAD_BYTES = 2 << 5,
    WEIR__HEAD_TEXT = 3 << 5,
    WEIR__HEAD_ARRAY = 4 << 5,
    WEIR__HEAD_MAP = 5 << 5,
    WEIR__CBOR_HEAD_MAX = 9,
};

/* Returns the byte behind it. */
uint8_t *weir__cbor_head(uint8_t *at, unsigned major, uint64_t argument);

#endif
