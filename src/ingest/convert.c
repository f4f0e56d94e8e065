/* See convert.h. Decimal text is read by the classic fast path (up to 15 digits and a power of ten up to
 * 10^22 are exact in binary64, so one multiplication or division rounds once) and else by the C library in
 * the "C" locale, of a form that we have checked and cut to a bounded length. */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "ingest/convert.h"
#include "weir/store.h"
#include "weir_tool/store_tools.h"

/* ---- Real numbers as text -------------------------------------------------------------------- */

/* glibc's "C" locale is static: nothing is allocated, and freeing it does nothing. */
static locale_t c_locale(void) {
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* A number as written: (its digits as an integer) * 10^(exponent - fraction_digits). */
typedef struct decimal {
    bool is_negative;
    const char *digits; /* from the first that is not zero; the point may lie among them */
    const char *digits_end;
    uint64_t mantissa; /* the digits as an integer, right while there are at most 15 */
    int64_t significant;
    int64_t fraction_digits;
    int64_t exponent; /* clamped */
} decimal;

/* Reads digits and a point; false if there is no digit. */
static bool scan_mantissa(const char **at, const char *end, decimal *d) {
    bool any = false, after_point = false;
    for (; *at < end; ++*at) {
        char c = **at;
        if (c == '.' && !after_point) {
            after_point = true;
            continue;
        }
        if (c < '0' || c > '9')
            break;
        any = true;
        d->fraction_digits += after_point ? 1 : 0;
        if (!d->digits && c == '0')
            continue;
        if (!d->digits)
            d->digits = *at;
        d->digits_end = *at + 1;
        d->significant++;
        if (d->significant <= 15)
            d->mantissa = d->mantissa * 10 + (uint64_t)(c - '0');
    }
    return any;
}

static bool scan_exponent(const char **at, const char *end, decimal *d) {
    if (*at == end)
        return true;
    if (**at != 'e' && **at != 'E')
        return false;
    ++*at;
    bool is_negative = *at < end && **at == '-';
    if (*at < end && (**at == '-' || **at == '+'))
        ++*at;
    if (*at == end)
        return false;
    for (; *at < end && weir__is_digit(**at); ++*at)
        if (d->exponent < 100000000)
            d->exponent = d->exponent * 10 + (**at - '0');
    if (is_negative)
        d->exponent = -d->exponent;
    return *at == end;
}

/* The slow path: up to 800 significant digits decide any rounding, where a last 1 stands for all that
 * follow. */
static double convert_exactly(const decimal *d) {
    enum { DIGITS_MAX = 800 };
    char buffer[DIGITS_MAX + 40];
    size_t used = 0;
    int64_t exponent = d->exponent - d->fraction_digits;
    bool is_inexact = false;
    for (const char *at = d->digits; at < d->digits_end; at++) {
        if (*at == '.')
            continue;
        if (used < DIGITS_MAX) {
            buffer[used++] = *at;
        } else {
            is_inexact = is_inexact || *at != '0';
            exponent++;
        }
    }
    if (is_inexact) {
        buffer[used++] = '1';
        exponent--;
    }
    snprintf(buffer + used, sizeof buffer - used, "e%lld", (long long)exponent);
    return strtod_l(buffer, NULL, c_locale());
}

static bool equals_lowercased(const char *text, size_t size, const char *word) {
    if (strlen(word) != size)
        return false;
    for (size_t i = 0; i < size; i++)
        if (weir__lower(text[i]) != word[i])
            return false;
    return true;
}

bool weir_ingest__parse_real(const char *text, size_t size, double *out) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *at = text;
    const char *end = text + size;
    decimal d = {0};
    if (at < end && (*at == '-' || *at == '+'))
        d.is_negative = *at++ == '-';
    size_t left = (size_t)(end - at);
    bool is_infinite = equals_lowercased(at, left, "inf") || equals_lowercased(at, left, "infinity");
    if (is_infinite || equals_lowercased(at, left, "nan")) {
        *out = is_infinite ? INFINITY : NAN;
        *out = d.is_negative ? -*out : *out;
        return true;
    }
    if (!scan_mantissa(&at, end, &d) || !scan_exponent(&at, end, &d))
        return false;
    int64_t exponent = d.exponent - d.fraction_digits;
    double value;
    if (d.significant == 0)
        value = 0;
    else if (d.significant <= 15 && exponent >= 0 && exponent <= 22)
        value = (double)d.mantissa * powers[exponent];
    else if (d.significant <= 15 && exponent < 0 && exponent >= -22)
        value = (double)d.mantissa / powers[-exponent];
    else
        value = convert_exactly(&d);
    *out = d.is_negative ? -value : value;
    return true;
}

size_t weir_ingest__format_real(double value, char out[WEIR_INGEST__TEXT_FORM_SIZE]) {
    locale_t before = uselocale(c_locale());
    int size = 0;
    for (int precision = 1; precision <= 17; precision++) {
        size = snprintf(out, WEIR_INGEST__TEXT_FORM_SIZE, "%.*g", precision, value);
        if (!isfinite(value) || strtod_l(out, NULL, c_locale()) == value)
            break;
    }
    uselocale(before);
    return (size_t)size;
}

/* ---- Conversions ----------------------------------------------------------------------------- */

weir_ingest__fit weir_ingest__to_number(const weir_ingest__value *value, double *out) {
    switch (value->type) {
    case WEIR_INGEST__NULL:
        return WEIR_INGEST__IS_NULL;
    case WEIR_INGEST__INT:
    case WEIR_INGEST__BOOL:
    case WEIR_INGEST__TIMESTAMP:
        *out = (double)value->integer;
        return WEIR_INGEST__FITS;
    case WEIR_INGEST__REAL:
        *out = value->real;
        break;
    case WEIR_INGEST__TEXT:
        if (!weir_ingest__parse_real(value->text.data, value->text.size, out))
            return WEIR_INGEST__UNFIT;
        break;
    default:
        return WEIR_INGEST__UNFIT;
    }
    return isfinite(*out) ? WEIR_INGEST__FITS : WEIR_INGEST__NOT_FINITE;
}

static size_t format_integer(int64_t value, char out[WEIR_INGEST__TEXT_FORM_SIZE]) {
    char reversed[24];
    size_t count = 0, size = 0;
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    do
        reversed[count++] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0)
        out[size++] = '-';
    while (count > 0)
        out[size++] = reversed[--count];
    return size;
}

/* An integer, or a real that is one. */
static bool to_integer(const weir_ingest__value *value, int64_t *out) {
    if (value->type == WEIR_INGEST__INT) {
        *out = value->integer;
        return true;
    }
    bool is_integer = value->type == WEIR_INGEST__REAL && weir_ingest__is_whole(value->real);
    *out = is_integer ? (int64_t)value->real : 0;
    return is_integer;
}

weir_ingest__fit weir_ingest__to_timestamp(const weir_ingest__value *value, weir_ingest__unit unit,
                                           int64_t *out) {
    static const int64_t factors[] = {1000000, 1000, 1}; /* but for nanoseconds */
    switch (value->type) {
    case WEIR_INGEST__NULL:
        return WEIR_INGEST__IS_NULL;
    case WEIR_INGEST__INT:
        if (unit == WEIR_INGEST__NANOSECONDS)
            *out = value->integer / 1000 - (value->integer % 1000 < 0 ? 1 : 0);
        else if (__builtin_mul_overflow(value->integer, factors[unit], out))
            return WEIR_INGEST__UNFIT;
        break;
    case WEIR_INGEST__TIMESTAMP:
        *out = value->integer;
        break;
    case WEIR_INGEST__TEXT:
        if (!weir_timestamp_parse(value->text.data, value->text.size, out))
            return WEIR_INGEST__UNFIT;
        break;
    default:
        return WEIR_INGEST__UNFIT;
    }
    return *out == INT64_MIN || *out == INT64_MAX ? WEIR_INGEST__UNFIT : WEIR_INGEST__FITS;
}

weir_ingest__fit weir_ingest__to_time(const weir_ingest__value *value, const weir_ingest__time_form *form,
                                      weir_ingest__unsaid *unsaid, int64_t *out) {
    char digits[WEIR_INGEST__TEXT_FORM_SIZE];
    weir_ingest__value integer = {.type = WEIR_INGEST__INT};
    bool is_integer = value->type == WEIR_INGEST__INT ||
                      (value->type == WEIR_INGEST__REAL && (form->says_unit || form->format));
    if (is_integer && !to_integer(value, &integer.integer))
        return WEIR_INGEST__UNFIT;
    if (form->format && (is_integer || value->type == WEIR_INGEST__TEXT)) {
        weir_ingest__bytes text = value->text;
        if (is_integer)
            text = (weir_ingest__bytes){digits, format_integer(integer.integer, digits)};
        return weir_ingest__time_format_read(form->format, text.data, text.size, out) ? WEIR_INGEST__FITS
                                                                                      : WEIR_INGEST__UNFIT;
    }
    if (is_integer && !form->says_unit && unsaid)
        weir_ingest__unsaid_join(unsaid, &(weir_ingest__unsaid){1, integer.integer, integer.integer});
    return weir_ingest__to_timestamp(is_integer ? &integer : value, form->unit, out);
}

void weir_ingest__unsaid_join(weir_ingest__unsaid *unsaid, const weir_ingest__unsaid *other) {
    if (other->count == 0)
        return;
    if (unsaid->count == 0 || other->least < unsaid->least)
        unsaid->least = other->least;
    if (unsaid->count == 0 || other->most > unsaid->most)
        unsaid->most = other->most;
    unsaid->count += other->count;
}

void weir_ingest__unsaid_span(const weir_ingest__unsaid *unsaid, char *out, size_t size) {
    const int64_t values[] = {unsaid->least, unsaid->most};
    char times[2][40];
    for (int i = 0; i < 2; i++) {
        int64_t micros;
        if (__builtin_mul_overflow(values[i], 1000000, &micros))
            micros = 0;
        weir_timestamp_format(micros, times[i]);
    }
    snprintf(out, size, "%s to %s", times[0], times[1]);
}

const char *weir_ingest__unsaid_doubt(const weir_ingest__unsaid *unsaid) {
    const int64_t year_2100 = 4102444800;
    if (unsaid->count == 0)
        return NULL;
    if (unsaid->least >= 19000101 && unsaid->most <= 21001231)
        return "the integers look like dates such as 20130102: write \"format\": \"%Y%m%d\"";
    if (unsaid->least <= year_2100)
        return NULL;
    if (unsaid->least <= year_2100 * 1000)
        return "the integers look like milliseconds: write \"unit\": \"ms\"";
    if (unsaid->least <= year_2100 * 1000000)
        return "the integers look like microseconds: write \"unit\": \"us\"";
    return "the integers look like nanoseconds: write \"unit\": \"ns\"";
}

static weir_ingest__fit text_to_boolean(weir_ingest__bytes text, bool *out) {
    static const char *const words[2][4] = {{"false", "f", "no", "0"}, {"true", "t", "yes", "1"}};
    for (int value = 0; value < 2; value++)
        for (int i = 0; i < 4; i++)
            if (equals_lowercased(text.data, text.size, words[value][i])) {
                *out = value == 1;
                return WEIR_INGEST__FITS;
            }
    return WEIR_INGEST__UNFIT;
}

weir_ingest__fit weir_ingest__to_boolean(const weir_ingest__value *value, bool *out) {
    switch (value->type) {
    case WEIR_INGEST__NULL:
        return WEIR_INGEST__IS_NULL;
    case WEIR_INGEST__INT:
    case WEIR_INGEST__BOOL:
        *out = value->integer == 1;
        return value->integer == 0 || value->integer == 1 ? WEIR_INGEST__FITS : WEIR_INGEST__UNFIT;
    case WEIR_INGEST__REAL:
        *out = value->real == 1;
        return value->real == 0 || value->real == 1 ? WEIR_INGEST__FITS : WEIR_INGEST__UNFIT;
    case WEIR_INGEST__TEXT:
        return text_to_boolean(value->text, out);
    default:
        return WEIR_INGEST__UNFIT;
    }
}

weir_ingest__fit weir_ingest__to_text(const weir_ingest__value *value,
                                      char buffer[WEIR_INGEST__TEXT_FORM_SIZE], weir_ingest__bytes *out) {
    switch (value->type) {
    case WEIR_INGEST__NULL:
        return WEIR_INGEST__IS_NULL;
    case WEIR_INGEST__TEXT:
        *out = value->text;
        return WEIR_INGEST__FITS;
    case WEIR_INGEST__INT:
    case WEIR_INGEST__BOOL:
        *out = (weir_ingest__bytes){buffer, format_integer(value->integer, buffer)};
        return WEIR_INGEST__FITS;
    case WEIR_INGEST__REAL:
        *out = (weir_ingest__bytes){buffer, weir_ingest__format_real(value->real, buffer)};
        return WEIR_INGEST__FITS;
    case WEIR_INGEST__TIMESTAMP:
        weir_timestamp_format(value->integer, buffer);
        *out = (weir_ingest__bytes){buffer, strlen(buffer)};
        return WEIR_INGEST__FITS;
    default:
        return WEIR_INGEST__UNFIT;
    }
}

/* ---- By type --------------------------------------------------------------------------------- */

weir_ingest__fit weir_ingest__convert(const weir_ingest__value *value, weir_stype stype,
                                      const weir_ingest__time_form *form, weir_ingest__unsaid *unsaid,
                                      weir_ingest__converted *out) {
    bool truth = false;
    weir_ingest__fit fit = value->type == WEIR_INGEST__NULL ? WEIR_INGEST__IS_NULL : WEIR_INGEST__FITS;
    switch (stype) {
    case WEIR_NUMERICAL:
        return weir_ingest__to_number(value, &out->number);
    case WEIR_TIMESTAMP:
        return weir_ingest__to_time(value, form, unsaid, &out->integer);
    case WEIR_BOOLEAN:
        fit = weir_ingest__to_boolean(value, &truth);
        out->integer = truth;
        return fit;
    case WEIR_CATEGORICAL:
    case WEIR_TEXT:
        return weir_ingest__to_text(value, out->form, &out->text);
    case WEIR_IDENTIFIER:
    case WEIR_IGNORED:
        break;
    }
    return fit;
}

const char *weir_ingest__unfit_reason(weir_stype stype, const weir_ingest__time_form *form,
                                      char buffer[WEIR_INGEST__REASON_SIZE]) {
    switch (stype) {
    case WEIR_NUMERICAL:
        return "is not a number; if it stands for null, say so with --null or \"csv\": {\"null\": [\"NA\"]} "
               "(CSV files), "
               "or with a \"query\" that makes it NULL; or make the column categorical or text";
    case WEIR_TIMESTAMP:
        if (form->format) {
            snprintf(buffer, WEIR_INGEST__REASON_SIZE,
                     "is not of the form %s, the column's \"format\"; if it stands for null, say so with "
                     "--null (CSV files), or with a \"query\" that makes it NULL",
                     form->format->pattern);
            return buffer;
        }
        if (form->says_unit)
            return "is not a time that is read here: that is an integer of the column's \"unit\", from the "
                   "year 1 to 9999, or 2013-01-31T10:00:00Z; a \"query\" can make it one, such as "
                   "CAST(1e6 * seconds AS INTEGER) with the unit us";
        return "is not a time that is read here: that is 2013-01-31, 2013-01-31T10:00:00Z (up to 6 "
               "decimals), or an "
               "integer with \"unit\"; for any other form give the column a \"format\", such as \"%d/%m/%Y\"";
    case WEIR_BOOLEAN:
        return "is not a boolean: that is true or false, t or f, yes or no, 1 or 0; make the column "
               "categorical, or turn it into one of these with a \"query\"";
    case WEIR_IDENTIFIER:
    case WEIR_CATEGORICAL:
    case WEIR_TEXT:
    case WEIR_IGNORED:
        break;
    }
    return "has no text form";
}

/* ---- Messages -------------------------------------------------------------------------------- */

void weir_ingest__describe_value(const weir_ingest__value *value, char out[96]) {
    char buffer[WEIR_INGEST__TEXT_FORM_SIZE];
    weir_ingest__bytes text = {"", 0};
    if (value->type == WEIR_INGEST__BLOB) {
        snprintf(out, 96, "a blob of %zu bytes", value->text.size);
        return;
    }
    if (weir_ingest__to_text(value, buffer, &text) != WEIR_INGEST__FITS) {
        snprintf(out, 96, "null");
        return;
    }
    bool is_text = value->type == WEIR_INGEST__TEXT;
    int shown = text.size > 60 ? 60 : WEIR__NARROW(int, text.size);
    snprintf(out, 96, "%s%.*s%s%s", is_text ? "'" : "", shown, text.data, text.size > 60 ? "…" : "",
             is_text ? "'" : "");
}
