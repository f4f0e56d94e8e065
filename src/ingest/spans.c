/* See spans.h. A loop for each width, so that nothing is decided anew for each value. */
#include <math.h>
#include <string.h>

#include "ingest/decimal.h"
#include "ingest/spans.h"

#define FOR_EACH_VALUE  WEIR_INGEST__FOR_EACH_VALUE
#define LOAD(type_name) WEIR_INGEST__LOAD(type_name, values, row)

/* ---- Integers and floats --------------------------------------------------------------------- */

#define DEFINE_INTEGERS(name, type_name)                                                                     \
    static void name(const weir_ingest__span *s) {                                                           \
        FOR_EACH_VALUE(s,                                                                                    \
                       (*out = (weir_ingest__value){.type = WEIR_INGEST__INT, .integer = LOAD(type_name)}))  \
    }
DEFINE_INTEGERS(read_int8, int8_t)
DEFINE_INTEGERS(read_int16, int16_t)
DEFINE_INTEGERS(read_int32, int32_t)
DEFINE_INTEGERS(read_int64, int64_t)
DEFINE_INTEGERS(read_uint8, uint8_t)
DEFINE_INTEGERS(read_uint16, uint16_t)
DEFINE_INTEGERS(read_uint32, uint32_t)

static double half_value(uint16_t bits) {
    uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
    double magnitude = exponent == 31  ? (fraction ? (double)NAN : (double)INFINITY)
                       : exponent == 0 ? (double)fraction * 0x1p-24
                                       : (double)((uint64_t)(1024 + fraction) << exponent) * 0x1p-25;
    return bits >> 15 ? -magnitude : magnitude;
}

static void read_floats(const weir_ingest__span *s, uint32_t width) {
    if (width == 2)
        FOR_EACH_VALUE(
            s, (*out = (weir_ingest__value){.type = WEIR_INGEST__REAL, .real = half_value(LOAD(uint16_t))}))
    else if (width == 4)
        FOR_EACH_VALUE(s,
                       (*out = (weir_ingest__value){.type = WEIR_INGEST__REAL, .real = (double)LOAD(float)}))
    else
        FOR_EACH_VALUE(s, (*out = (weir_ingest__value){.type = WEIR_INGEST__REAL, .real = LOAD(double)}))
}

/* ---- Decimals -------------------------------------------------------------------------------- */

enum { WORDS = 8, DIGITS_MAX = 80, DECIMAL_TEXT_MAX = 2 * WEIR_INGEST__SCALE_MAX + DIGITS_MAX };

/* The decimal digits of a magnitude in 32-bit words, the lowest first, ending at `end`; returns the first. */
static char *write_digits(uint32_t words[WORDS], char *end) {
    bool is_zero;
    do {
        uint64_t rest = 0;
        is_zero = true;
        for (int i = WORDS - 1; i >= 0; i--) {
            uint64_t part = rest << 32 | words[i];
            words[i] = WEIR__LOW(uint32_t, part / 10);
            rest = part % 10;
            is_zero = is_zero && words[i] == 0;
        }
        *--end = (char)('0' + WEIR__LOW(int, rest));
    } while (!is_zero);
    return end;
}

/* A decimal that weir_ingest__scaled_value does not take, through its text. */
static void read_wide_decimal(uint64_t parts[4], int32_t scale, weir_ingest__value *out) {
    char digits[DIGITS_MAX], text[DECIMAL_TEXT_MAX + 8];
    uint32_t words[WORDS];
    bool is_negative = parts[3] >> 63;
    uint64_t carry = is_negative;
    for (int i = 0; i < 4; i++) { /* two's complement */
        uint64_t part = is_negative ? ~parts[i] : parts[i];
        carry = __builtin_add_overflow(part, carry, &part);
        words[2 * i] = WEIR__LOW(uint32_t, part);
        words[2 * i + 1] = WEIR__LOW(uint32_t, part >> 32);
    }
    char *end = digits + sizeof digits, *start = write_digits(words, end);
    size_t count = (size_t)(end - start), size = 0;
    size_t decimals = scale > 0 ? (size_t)scale : 0, zeros = scale < 0 ? (size_t)-scale : 0;
    if (is_negative)
        text[size++] = '-';
    size_t whole = count > decimals ? count - decimals : 0;
    if (whole == 0)
        text[size++] = '0';
    memcpy(text + size, start, whole);
    size += whole;
    memset(text + size, '0', zeros);
    size += zeros;
    if (decimals > 0)
        text[size++] = '.';
    for (size_t i = count; i < decimals; i++)
        text[size++] = '0';
    memcpy(text + size, start + whole, count - whole);
    size += count - whole;
    bool is_number = weir_ingest__decimal_value(text, size, out);
    if (!is_number)
        *out = (weir_ingest__value){.type = WEIR_INGEST__NULL};
}

/* The words of a number, the lowest first, with its sign in those that it has not. */
static void load_words(const weir_ingest__span *s, size_t row, uint32_t width, uint64_t words[4]) {
    const char *values = s->values;
    memset(words, 0, 4 * sizeof *words);
    if (width == 2)
        words[0] = (uint64_t)(int64_t)LOAD(int16_t);
    else if (width == 4)
        words[0] = (uint64_t)(int64_t)LOAD(int32_t);
    else
        memcpy(words, values + row * width, width);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (uint32_t i = 0, k = width / 8; !s->is_in_words && k > 1 && i < k - 1; i++, k--) {
        uint64_t kept = words[i];
        words[i] = words[k - 1];
        words[k - 1] = kept;
    }
#endif
    for (uint32_t i = width > 8 ? width / 8 : 1; i < 4; i++)
        words[i] = words[i - 1] >> 63 ? UINT64_MAX : 0;
}

static void read_decimal(const weir_ingest__span *s, size_t row, uint32_t width, int32_t scale,
                         weir_ingest__value *out) {
    uint64_t words[4];
    load_words(s, row, width, words);
    uint64_t sign = words[1] >> 63 ? UINT64_MAX : 0;
    if (scale >= 0 && words[2] == sign && words[3] == sign)
        weir_ingest__scaled_value((__int128)((unsigned __int128)words[1] << 64 | words[0]),
                                  WEIR__NARROW(uint32_t, scale), out);
    else
        read_wide_decimal(words, scale, out);
}

static void read_wide_unsigned(const weir_ingest__span *s) {
    FOR_EACH_VALUE(s, ({
                       uint64_t words[4];
                       load_words(s, row, 16, words);
                       weir_ingest__unsigned_value((unsigned __int128)words[1] << 64 | words[0], out);
                   }))
}

void weir_ingest__span_numbers(const weir_ingest__span *s, weir_ingest__number kind, uint32_t width,
                               int32_t scale) {
    bool is_signed = kind == WEIR_INGEST__NUMBER_SIGNED;
    if (kind == WEIR_INGEST__NUMBER_FLOAT) {
        read_floats(s, width);
        return;
    }
    if (kind == WEIR_INGEST__NUMBER_DECIMAL) {
        FOR_EACH_VALUE(s, read_decimal(s, row, width, scale, out))
        return;
    }
    switch (width) {
    case 1:
        (is_signed ? read_int8 : read_uint8)(s);
        break;
    case 2:
        (is_signed ? read_int16 : read_uint16)(s);
        break;
    case 4:
        (is_signed ? read_int32 : read_uint32)(s);
        break;
    case 16:
        read_wide_unsigned(s);
        break;
    default:
        if (is_signed)
            read_int64(s);
        else
            FOR_EACH_VALUE(s, weir_ingest__unsigned_value(LOAD(uint64_t), out))
    }
}
