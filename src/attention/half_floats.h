/* Numbers of 16 bits: read as floats, and rounded to the nearest (ties to even) when they are written. */
#ifndef WEIR_ATTENTION_HALF_FLOATS_H
#define WEIR_ATTENTION_HALF_FLOATS_H

#include <stdint.h>
#include <string.h>

#include "base/narrow.h"

static inline float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float read_bfloat16(uint16_t stored) {
    uint32_t bits = stored;
    return float_of(bits << 16);
}

static inline uint16_t write_bfloat16(float value) {
    uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return WEIR__LOW(uint16_t, bits >> 16 | 0x40); /* not a number, and quiet */
    return WEIR__LOW(uint16_t, (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* The exponent is moved by a product, which is exact also for numbers near zero. */
static inline float read_float16(uint16_t stored) {
    uint32_t bits = stored, sign = (bits & 0x8000) << 16, magnitude = (bits & 0x7fff) << 13;
    float value = float_of(magnitude) * 0x1p112f;
    return float_of((magnitude >= 0x7c00u << 13 ? magnitude | 0x7f800000 : bits_of(value)) | sign);
}

/* Adding a number whose last place is the result's rounds it to the nearest, ties to even. */
static inline uint16_t write_float16(float value) {
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000)
        return WEIR__LOW(uint16_t, sign | 0x7e00);
    if (bits >= 0x47800000) /* 65,536 */
        return WEIR__LOW(uint16_t, sign | 0x7c00);
    if (bits < 0x38800000) /* 2^-14: its last place is 2^-24 */
        return WEIR__LOW(uint16_t, sign | (bits_of(float_of(bits) + 0.5f) - bits_of(0.5f)));
    return WEIR__LOW(uint16_t, sign | ((bits + 0xfff + (bits >> 13 & 1) - (112u << 23)) >> 13));
}

#endif
