/* Attention on the host: host_kernel.h for each type. Numbers of 16 bits are read as floats and rounded to
 * the nearest (ties to even) when they are written. */
#include <math.h>
#include <string.h>

#include "attention/attention.h"
#include "base/bytes.h"

/* ---- Numbers of 16 bits --------------------------------------------------------------------------- */

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

/* ---- Types ---------------------------------------------------------------------------------------- */

#define SAME(x) (x)

#define NAME(x) double_##x
#define REAL    double
#define STORED  double
#define READ    SAME
#define WRITE   SAME
#define EXP     exp
#define LOG     log
#include "attention/host_kernel.h"
#undef NAME
#undef REAL
#undef STORED
#undef EXP
#undef LOG

#define REAL    float
#define EXP     expf
#define LOG     logf
#define NAME(x) float_##x
#define STORED  float
#include "attention/host_kernel.h"
#undef NAME
#undef STORED
#undef READ
#undef WRITE

#define STORED  uint16_t
#define NAME(x) half_##x
#define READ    read_float16
#define WRITE   write_float16
#include "attention/host_kernel.h"
#undef NAME
#undef READ
#undef WRITE

#define NAME(x) brain_##x
#define READ    read_bfloat16
#define WRITE   write_bfloat16
#include "attention/host_kernel.h"

size_t weir_attention__room(weir_attention_dtype dtype) {
    return dtype == WEIR_ATTENTION_FLOAT64 ? sizeof(double_room) : sizeof(float_room);
}

void weir_attention__record(weir_attention_dtype dtype, uint32_t head_size, weir_attention__pass pass,
                            const weir_attention__arguments *a, const uint32_t *record, uint32_t head,
                            void *room) {
    switch (dtype) {
    case WEIR_ATTENTION_FLOAT64:
        double_record(head_size, pass, a, record, head, room);
        return;
    case WEIR_ATTENTION_FLOAT32:
        float_record(head_size, pass, a, record, head, room);
        return;
    case WEIR_ATTENTION_FLOAT16:
        half_record(head_size, pass, a, record, head, room);
        return;
    case WEIR_ATTENTION_BFLOAT16:
        brain_record(head_size, pass, a, record, head, room);
        return;
    }
}
