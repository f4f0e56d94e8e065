/* Bits in bytes, the lowest first; sizes that are rounded up, and the lesser and the larger of two. */
#ifndef WEIR_BASE_BITS_H
#define WEIR_BASE_BITS_H

#include "base/narrow.h"

#include <stdbool.h>
#include <stdint.h>

static inline uint64_t weir__align(uint64_t value, uint64_t to) {
    return (value + to - 1) / to * to;
}

static inline uint64_t weir__lesser(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static inline uint64_t weir__larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* Bits of `count` items, as whole 8-byte words. */
static inline uint64_t weir__bits_size(uint64_t count) {
    return weir__align(count, 64) / 8;
}

static inline bool weir__bit(const uint8_t *bits, uint64_t index) {
    return (bits[index / 8] >> (index % 8) & 1) != 0;
}

static inline void weir__set_bit(uint8_t *bits, uint64_t index) {
    bits[index / 8] = WEIR__LOW(uint8_t, bits[index / 8] | 1u << index % 8);
}

#endif
