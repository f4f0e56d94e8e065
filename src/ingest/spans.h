/* Values that lie side by side, as Arrow's arrays and DuckDB's vectors have them, on their way into cells. */
#ifndef WEIR_INGEST_SPANS_H
#define WEIR_INGEST_SPANS_H

#include "ingest/source.h"

typedef struct weir_ingest__span {
    const char *values;      /* the first, at any address */
    const uint8_t *validity; /* bits; NULL: no value is null */
    size_t first;            /* the bit of the first value */
    bool is_in_words; /* bits lie in 64-bit words of the machine's order, not in bytes; and of wider numbers
                       * the lowest word is first on every machine */
    size_t count;
    weir_ingest__value *cells; /* `stride` apart */
    size_t stride;
} weir_ingest__span;

/* What a number of fixed width is. */
typedef enum weir_ingest__number {
    WEIR_INGEST__NUMBER_SIGNED,   /* 1, 2, 4 or 8 bytes */
    WEIR_INGEST__NUMBER_UNSIGNED, /* or 16 */
    WEIR_INGEST__NUMBER_FLOAT,    /* 2, 4 or 8 */
    WEIR_INGEST__NUMBER_DECIMAL,  /* 2, 4, 8, 16 or 32, signed */
} weir_ingest__number;

enum { WEIR_INGEST__SCALE_MAX = 400 };

/* Numbers of `width` bytes; a decimal is its integer / 10^scale, where |scale| is at most
 * WEIR_INGEST__SCALE_MAX. */
void weir_ingest__span_numbers(const weir_ingest__span *s, weir_ingest__number kind, uint32_t width,
                               int32_t scale);

static inline bool weir_ingest__bit_at(const uint8_t *bits, size_t position) {
    return bits[position / 8] >> (position % 8) & 1;
}

static inline bool weir_ingest__span_is_null(const weir_ingest__span *s, size_t row) {
    size_t position = s->first + row, byte = position / 8;
    if (s->is_in_words && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
        byte ^= 7;
    return s->validity && !(s->validity[byte] >> (position % 8) & 1);
}

/* Runs `statement` for each value that is not null, with `row` its number, `out` its cell, and `values` the
 * span's; the others become null. (The span is a copy, which no cell that is written can change.) */
#define WEIR_INGEST__FOR_EACH_VALUE(s, statement)                                                            \
    {                                                                                                        \
        const weir_ingest__span span_ = *(s);                                                                \
        const char *const values = span_.values;                                                             \
        (void)values;                                                                                        \
        for (size_t row = 0; row < span_.count; row++) {                                                     \
            weir_ingest__value *out = &span_.cells[row * span_.stride];                                      \
            if (weir_ingest__span_is_null(&span_, row))                                                      \
                *out = (weir_ingest__value){.type = WEIR_INGEST__NULL};                                      \
            else                                                                                             \
                statement;                                                                                   \
        }                                                                                                    \
    }

/* Value `row` of values of a type, which may lie anywhere. */
#define WEIR_INGEST__LOAD(type_name, values, row)                                                            \
    ({                                                                                                       \
        type_name loaded_;                                                                                   \
        memcpy(&loaded_, (values) + (row) * sizeof loaded_, sizeof loaded_);                                 \
        loaded_;                                                                                             \
    })

#endif
