/* See decimal.h. Whether a decimal is an integer is decided on its digits, never on a float. */
#include <stdio.h>

#include "base/ascii.h"
#include "ingest/convert.h"
#include "ingest/decimal.h"

/* The integer of [digits, end) with a sign; false if it does not fit int64. */
static bool fits_int64(bool is_negative, const char *digits, const char *end, int64_t *out) {
    int64_t value = 0;
    for (; digits < end; digits++) {
        int64_t digit = is_negative ? '0' - *digits : *digits - '0';
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, digit, &value))
            return false;
    }
    *out = value;
    return true;
}

static const char *skip_digits(const char *at, const char *end) {
    while (at < end && weir__is_digit(*at))
        at++;
    return at;
}

static bool is_all_zeros(const char *at, const char *end) {
    while (at < end && *at == '0')
        at++;
    return at == end;
}

bool weir_ingest__decimal_value(const char *text, size_t size, weir_ingest__value *out) {
    const char *end = text + size;
    bool is_negative = size > 0 && *text == '-';
    const char *whole = text + (is_negative ? 1 : 0);
    const char *point = skip_digits(whole, end);
    const char *fraction = point < end && *point == '.' ? point + 1 : point;
    bool is_plain = point > whole && skip_digits(fraction, end) == end;
    if (is_plain && is_all_zeros(fraction, end) && fits_int64(is_negative, whole, point, &out->integer)) {
        out->type = WEIR_INGEST__INT;
        return true;
    }
    out->type = WEIR_INGEST__REAL;
    return weir_ingest__parse_real(text, size, &out->real);
}

/* A magnitude and a power of ten that binary64 holds exactly need one division, which rounds once. */
static double nearest_real(bool is_negative, unsigned __int128 magnitude, uint32_t scale) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (magnitude <= (uint64_t)1 << 53 && scale < sizeof powers / sizeof *powers) {
        double value = (double)(uint64_t)magnitude / powers[scale];
        return is_negative ? -value : value;
    }
    char text[64];
    char *end = text + 48, *start = end;
    do {
        *--start = (char)('0' + WEIR__NARROW(int, magnitude % 10));
        magnitude /= 10;
    } while (magnitude != 0);
    if (is_negative)
        *--start = '-';
    size_t size = (size_t)(end - start) + (size_t)snprintf(end, 16, "e-%u", scale);
    double value = 0;
    bool is_number = weir_ingest__parse_real(start, size, &value);
    return is_number ? value : 0;
}

void weir_ingest__scaled_value(__int128 unscaled, uint32_t scale, weir_ingest__value *out) {
    bool is_negative = unscaled < 0;
    unsigned __int128 magnitude = is_negative ? -(unsigned __int128)unscaled : (unsigned __int128)unscaled;
    __int128 whole = unscaled;
    uint32_t left = scale;
    while (left > 0 && whole % 10 == 0 && whole != 0) {
        whole /= 10;
        left--;
    }
    if ((left == 0 || whole == 0) && whole >= INT64_MIN && whole <= INT64_MAX) {
        *out = (weir_ingest__value){.type = WEIR_INGEST__INT, .integer = (int64_t)whole};
        return;
    }
    *out =
        (weir_ingest__value){.type = WEIR_INGEST__REAL, .real = nearest_real(is_negative, magnitude, scale)};
}

void weir_ingest__unsigned_value(unsigned __int128 integer, weir_ingest__value *out) {
    if (integer <= INT64_MAX)
        *out = (weir_ingest__value){.type = WEIR_INGEST__INT, .integer = (int64_t)integer};
    else
        *out = (weir_ingest__value){.type = WEIR_INGEST__REAL, .real = nearest_real(false, integer, 0)};
}
