/* PostgreSQL's values. The binary forms are those of each type's send function: big-endian integers and
 * floats, microseconds or days since 2000-01-01, numerics as digits to the base 10000, text in the client's
 * encoding (UTF-8). Types whose binary form is their own affair (jsonb, intervals, ranges, arrays, enums,
 * …) are cast to text by the server. In text form (servers without binary COPY) the same values come out of
 * the same rows.
 *
 * What must hold: a value that int64 microseconds cannot hold (infinity, years beyond 294246) is refused,
 * never clamped. */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "ingest/convert.h"
#include "ingest/decimal.h"
#include "ingest/postgres.h"
#include "weir/store.h"
#include "weir_tool/store_tools.h"

static const char malformed[] = "has a form that is not its type's";
static const char infinite_time[] = "is an infinite time, which has no microseconds";
static const char far_time[] = "is a time beyond what int64 microseconds hold";

/* ---- Types ----------------------------------------------------------------------------------- */

weir_ingest__pg_type weir_ingest__pg_type_of(uint32_t type) {
    static const struct {
        uint32_t number;
        weir_ingest__pg_form form;
        weir_ingest__declared declared;
    } known[] = {
        {16, WEIR_INGEST__PG_BOOL, WEIR_INGEST__DECLARED_BOOLEAN},       /* boolean */
        {17, WEIR_INGEST__PG_BYTEA, WEIR_INGEST__DECLARED_BLOB},         /* bytea */
        {19, WEIR_INGEST__PG_TEXT, WEIR_INGEST__DECLARED_TEXT},          /* name */
        {20, WEIR_INGEST__PG_INT8, WEIR_INGEST__DECLARED_INTEGER},       /* bigint */
        {21, WEIR_INGEST__PG_INT2, WEIR_INGEST__DECLARED_INTEGER},       /* smallint */
        {23, WEIR_INGEST__PG_INT4, WEIR_INGEST__DECLARED_INTEGER},       /* integer */
        {25, WEIR_INGEST__PG_TEXT, WEIR_INGEST__DECLARED_TEXT},          /* text */
        {26, WEIR_INGEST__PG_OID, WEIR_INGEST__DECLARED_INTEGER},        /* oid */
        {114, WEIR_INGEST__PG_TEXT, WEIR_INGEST__DECLARED_TEXT},         /* json */
        {700, WEIR_INGEST__PG_FLOAT4, WEIR_INGEST__DECLARED_REAL},       /* real */
        {701, WEIR_INGEST__PG_FLOAT8, WEIR_INGEST__DECLARED_REAL},       /* double precision */
        {1042, WEIR_INGEST__PG_PADDED_TEXT, WEIR_INGEST__DECLARED_TEXT}, /* character(n) */
        {1043, WEIR_INGEST__PG_TEXT, WEIR_INGEST__DECLARED_TEXT},        /* character varying */
        {1082, WEIR_INGEST__PG_DATE, WEIR_INGEST__DECLARED_TIME},        /* date */
        {1114, WEIR_INGEST__PG_TIMESTAMP, WEIR_INGEST__DECLARED_TIME},   /* timestamp */
        {1184, WEIR_INGEST__PG_TIMESTAMP, WEIR_INGEST__DECLARED_TIME},   /* timestamp with time zone */
        {1700, WEIR_INGEST__PG_NUMERIC, WEIR_INGEST__DECLARED_NUMERIC},  /* numeric */
        {2950, WEIR_INGEST__PG_UUID, WEIR_INGEST__DECLARED_TEXT},        /* uuid */
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].number == type)
            return (weir_ingest__pg_type){.form = known[i].form, .declared = known[i].declared};
    return (weir_ingest__pg_type){
        .form = WEIR_INGEST__PG_TEXT, .needs_cast = true, .declared = WEIR_INGEST__DECLARED_TEXT};
}

/* ---- Binary ---------------------------------------------------------------------------------- */

/* A numeric: digit i weighs 10000^(weight - i). */
typedef struct numeric {
    int32_t digit_count;
    int32_t weight;
    bool is_negative;
    const char *digits; /* big-endian uint16, each below 10000 */
} numeric;

static uint32_t numeric_digit(const numeric *n, int32_t index) {
    return weir__load16be(n->digits + 2 * index);
}

/* The value where it is an integer in int64: no digit below the point but zeros, and at most five above. */
static bool numeric_is_integer(const numeric *n, int64_t *out) {
    for (int32_t i = n->weight < 0 ? 0 : n->weight + 1; i < n->digit_count; i++)
        if (numeric_digit(n, i) != 0)
            return false;
    __int128 value = 0;
    if (n->weight > 4)
        return false;
    for (int32_t i = 0; i <= n->weight; i++)
        value = value * 10000 + (i < n->digit_count ? WEIR__LOW(int32_t, numeric_digit(n, i)) : 0);
    value = n->is_negative ? -value : value;
    *out = (int64_t)value;
    return value >= INT64_MIN && value <= INT64_MAX;
}

/* The nearest binary64. 200 digits to the base 10000 decide any rounding if a last 1 stands for what
 * follows. */
static double numeric_nearest(const numeric *n) {
    enum { DIGITS_MAX = 200 };
    char text[4 * DIGITS_MAX + 32];
    size_t used = 0;
    int32_t taken = n->digit_count < DIGITS_MAX ? n->digit_count : DIGITS_MAX;
    if (n->is_negative)
        text[used++] = '-';
    for (int32_t i = 0; i < taken; i++) {
        uint32_t digit = numeric_digit(n, i);
        text[used++] = (char)('0' + digit / 1000);
        text[used++] = (char)('0' + digit / 100 % 10);
        text[used++] = (char)('0' + digit / 10 % 10);
        text[used++] = (char)('0' + digit % 10);
    }
    bool has_more = false;
    for (int32_t i = taken; i < n->digit_count; i++)
        has_more = has_more || numeric_digit(n, i) != 0;
    if (has_more)
        text[used++] = '1';
    int32_t exponent = 4 * (n->weight + 1 - taken) - (has_more ? 1 : 0);
    used += (size_t)snprintf(text + used, sizeof text - used, "e%d", exponent);
    double value = 0;
    bool is_number = weir_ingest__parse_real(text, used, &value);
    return is_number ? value : 0;
}

static const char *decode_numeric(const char *data, size_t size, weir_ingest__value *out) {
    enum { HEADER_SIZE = 8, NEGATIVE = 0x4000, NOT_A_NUMBER = 0xC000, PLUS_INFINITY = 0xD000 };
    enum { MINUS_INFINITY = 0xF000 };
    if (size < HEADER_SIZE)
        return malformed;
    numeric n = {.digit_count = weir__load16be(data),
                 .weight = WEIR__LOW(int16_t, weir__load16be(data + 2)),
                 .digits = data + HEADER_SIZE};
    uint16_t sign = weir__load16be(data + 4);
    n.is_negative = sign == NEGATIVE;
    if (size != HEADER_SIZE + 2 * (size_t)n.digit_count)
        return malformed;
    for (int32_t i = 0; i < n.digit_count; i++)
        if (numeric_digit(&n, i) > 9999)
            return malformed;
    out->type = WEIR_INGEST__REAL;
    switch (sign) {
    case NOT_A_NUMBER:
        out->real = __builtin_nan("");
        return NULL;
    case PLUS_INFINITY:
        out->real = __builtin_inf();
        return NULL;
    case MINUS_INFINITY:
        out->real = -__builtin_inf();
        return NULL;
    case NEGATIVE:
    case 0:
        break;
    default:
        return malformed;
    }
    if (numeric_is_integer(&n, &out->integer))
        out->type = WEIR_INGEST__INT;
    else
        out->real = numeric_nearest(&n);
    return NULL;
}

static void format_uuid(const char *data, char *out) {
    static const char hex[] = "0123456789abcdef";
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *out++ = '-';
        *out++ = hex[WEIR__LOW(uint8_t, data[i]) >> 4];
        *out++ = hex[WEIR__LOW(uint8_t, data[i]) & 15];
    }
}

enum { DAYS_TO_2000 = 10957 };
static const int64_t micros_a_day = 86400000000;

static const char *decode_date(int32_t days_since_2000, weir_ingest__value *out) {
    if (days_since_2000 == INT32_MIN || days_since_2000 == INT32_MAX)
        return infinite_time;
    out->type = WEIR_INGEST__TIMESTAMP;
    return __builtin_mul_overflow((int64_t)days_since_2000 + DAYS_TO_2000, micros_a_day, &out->integer)
               ? far_time
               : NULL;
}

static const char *decode_timestamp(int64_t micros_since_2000, weir_ingest__value *out) {
    if (micros_since_2000 == INT64_MIN || micros_since_2000 == INT64_MAX)
        return infinite_time;
    out->type = WEIR_INGEST__TIMESTAMP;
    return __builtin_add_overflow(micros_since_2000, DAYS_TO_2000 * micros_a_day, &out->integer) ? far_time
                                                                                                 : NULL;
}

/* What is the same in both forms; false for all other types. */
static bool decode_bytes(weir_ingest__pg_form form, const char *data, size_t size, weir_ingest__value *out) {
    if (form != WEIR_INGEST__PG_TEXT && form != WEIR_INGEST__PG_PADDED_TEXT && form != WEIR_INGEST__PG_BYTEA)
        return false;
    while (form == WEIR_INGEST__PG_PADDED_TEXT && size > 0 && data[size - 1] == ' ')
        size--;
    *out = (weir_ingest__value){.type = form == WEIR_INGEST__PG_BYTEA ? WEIR_INGEST__BLOB : WEIR_INGEST__TEXT,
                                .text = {.data = data, .size = size}};
    return true;
}

static void set_integer(weir_ingest__value *out, int64_t integer) {
    *out = (weir_ingest__value){.type = WEIR_INGEST__INT, .integer = integer};
}

/* The size of a binary form; 0 if it varies. */
static size_t fixed_size(weir_ingest__pg_form form) {
    static const uint8_t sizes[] = {
        [WEIR_INGEST__PG_BOOL] = 1,      [WEIR_INGEST__PG_INT2] = 2,  [WEIR_INGEST__PG_INT4] = 4,
        [WEIR_INGEST__PG_INT8] = 8,      [WEIR_INGEST__PG_OID] = 4,   [WEIR_INGEST__PG_FLOAT4] = 4,
        [WEIR_INGEST__PG_FLOAT8] = 8,    [WEIR_INGEST__PG_UUID] = 16, [WEIR_INGEST__PG_DATE] = 4,
        [WEIR_INGEST__PG_TIMESTAMP] = 8, [WEIR_INGEST__PG_BYTEA] = 0};
    return sizes[form];
}

const char *weir_ingest__pg_decode_binary(weir_ingest__pg_form form, const char *data, size_t size,
                                          char *uuid, weir_ingest__value *out) {
    uint64_t bits64;
    uint32_t bits32;
    float narrow;
    if (decode_bytes(form, data, size, out))
        return NULL;
    if (fixed_size(form) != 0 && fixed_size(form) != size)
        return malformed;
    switch (form) {
    case WEIR_INGEST__PG_UUID:
        format_uuid(data, uuid);
        *out = (weir_ingest__value){.type = WEIR_INGEST__TEXT,
                                    .text = {.data = uuid, .size = WEIR_INGEST__PG_UUID_SIZE}};
        return NULL;
    case WEIR_INGEST__PG_BOOL:
        *out = (weir_ingest__value){.type = WEIR_INGEST__BOOL, .integer = *data != 0};
        return NULL;
    case WEIR_INGEST__PG_INT2:
        set_integer(out, WEIR__LOW(int16_t, weir__load16be(data)));
        return NULL;
    case WEIR_INGEST__PG_INT4:
        set_integer(out, WEIR__LOW(int32_t, weir__load32be(data)));
        return NULL;
    case WEIR_INGEST__PG_OID:
        set_integer(out, weir__load32be(data));
        return NULL;
    case WEIR_INGEST__PG_INT8:
        set_integer(out, (int64_t)weir__load64be(data));
        return NULL;
    case WEIR_INGEST__PG_FLOAT4:
        bits32 = weir__load32be(data);
        memcpy(&narrow, &bits32, sizeof narrow);
        *out = (weir_ingest__value){.type = WEIR_INGEST__REAL, .real = (double)narrow};
        return NULL;
    case WEIR_INGEST__PG_FLOAT8:
        bits64 = weir__load64be(data);
        out->type = WEIR_INGEST__REAL;
        memcpy(&out->real, &bits64, sizeof bits64);
        return NULL;
    case WEIR_INGEST__PG_NUMERIC:
        return decode_numeric(data, size, out);
    case WEIR_INGEST__PG_DATE:
        return decode_date(WEIR__LOW(int32_t, weir__load32be(data)), out);
    case WEIR_INGEST__PG_TIMESTAMP:
        return decode_timestamp((int64_t)weir__load64be(data), out);
    default:
        return malformed;
    }
}

/* ---- Text ------------------------------------------------------------------------------------ */

const char *weir_ingest__pg_decode_text(weir_ingest__pg_form form, const char *data, size_t size,
                                        weir_ingest__value *out) {
    if (decode_bytes(form == WEIR_INGEST__PG_UUID ? WEIR_INGEST__PG_TEXT : form, data, size, out))
        return NULL;
    switch (form) {
    case WEIR_INGEST__PG_BOOL:
        *out = (weir_ingest__value){.type = WEIR_INGEST__BOOL, .integer = *data == 't'};
        return *data == 't' || *data == 'f' ? NULL : malformed;
    case WEIR_INGEST__PG_INT2:
    case WEIR_INGEST__PG_INT4:
    case WEIR_INGEST__PG_INT8:
    case WEIR_INGEST__PG_OID:
        return weir_ingest__decimal_value(data, size, out) && out->type == WEIR_INGEST__INT ? NULL
                                                                                            : malformed;
    case WEIR_INGEST__PG_FLOAT4:
    case WEIR_INGEST__PG_FLOAT8:
        out->type = WEIR_INGEST__REAL;
        if (!weir_ingest__parse_real(data, size, &out->real))
            return malformed;
        if (form == WEIR_INGEST__PG_FLOAT4) /* a real, which is a binary32 */
            out->real = (double)(float)out->real;
        return NULL;
    case WEIR_INGEST__PG_NUMERIC:
        return weir_ingest__decimal_value(data, size, out) ? NULL : malformed;
    case WEIR_INGEST__PG_DATE:
    case WEIR_INGEST__PG_TIMESTAMP:
        /* ISO text, as DateStyle ISO writes it; "infinity", "… BC" and five-digit years are none. */
        out->type = WEIR_INGEST__TIMESTAMP;
        if (strstr(data, "infinity"))
            return infinite_time;
        return weir_timestamp_parse(data, size, &out->integer) ? NULL
                                                               : "is a time outside the years 0000 to 9999";
    default:
        return malformed;
    }
}
