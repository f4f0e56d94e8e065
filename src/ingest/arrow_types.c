/* Arrow's formats: the letters that say a column's type. */
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "ingest/arrow_source.h"

enum { SECONDS = 1, MILLIS = 1000, MICROS = 1000000, NANOS = 1000000000, MILLIS_A_DAY = 86400000 };

typedef struct known_format {
    const char *format;
    weir_ingest__arrow_type type;
} known_format;

#define NUMBER(number_, width_)                                                                              \
    { .layout = WEIR_INGEST__ARROW_FIXED, .number = WEIR_INGEST__NUMBER_##number_, .width = (width_) }
#define TIME(meaning_, width_, unit_, ...)                                                                   \
    {                                                                                                        \
        .layout = WEIR_INGEST__ARROW_FIXED, .meaning = WEIR_INGEST__ARROW_##meaning_, .width = (width_),     \
        .unit = (unit_), __VA_ARGS__                                                                         \
    }
#define BYTES(layout_, is_text_)                                                                             \
    { .layout = WEIR_INGEST__ARROW_##layout_, .meaning = WEIR_INGEST__ARROW_BYTES, .is_text = (is_text_) }

static const known_format known[] = {
    {"n", {.layout = WEIR_INGEST__ARROW_NOTHING}},
    {"b", {.layout = WEIR_INGEST__ARROW_BITS}},
    {"c", NUMBER(SIGNED, 1)},
    {"s", NUMBER(SIGNED, 2)},
    {"i", NUMBER(SIGNED, 4)},
    {"l", NUMBER(SIGNED, 8)},
    {"C", NUMBER(UNSIGNED, 1)},
    {"S", NUMBER(UNSIGNED, 2)},
    {"I", NUMBER(UNSIGNED, 4)},
    {"L", NUMBER(UNSIGNED, 8)},
    {"e", NUMBER(FLOAT, 2)},
    {"f", NUMBER(FLOAT, 4)},
    {"g", NUMBER(FLOAT, 8)},
    {"u", BYTES(OFFSETS32, true)},
    {"U", BYTES(OFFSETS64, true)},
    {"vu", BYTES(VIEWS, true)},
    {"z", BYTES(OFFSETS32, false)},
    {"Z", BYTES(OFFSETS64, false)},
    {"vz", BYTES(VIEWS, false)},
    {"tdD", TIME(TIME, 4, 1, .is_date = true)},
    {"tdm", TIME(TIME, 8, MILLIS_A_DAY, .is_date = true)},
    {"tts", TIME(CLOCK, 4, SECONDS)},
    {"ttm", TIME(CLOCK, 4, MILLIS)},
    {"ttu", TIME(CLOCK, 8, MICROS)},
    {"ttn", TIME(CLOCK, 8, NANOS)},
    {"tDs", NUMBER(SIGNED, 8)}, /* durations, as Parquet files keep them */
    {"tDm", NUMBER(SIGNED, 8)},
    {"tDu", NUMBER(SIGNED, 8)},
    {"tDn", NUMBER(SIGNED, 8)},
    {"tss:", TIME(TIME, 8, SECONDS)}, /* what ends in a colon goes on with a time zone */
    {"tsm:", TIME(TIME, 8, MILLIS)},
    {"tsu:", TIME(TIME, 8, MICROS)},
    {"tsn:", TIME(TIME, 8, NANOS)},
};

/* A decimal integer of at most six digits; NULL, or where it ends. */
static const char *read_number(const char *text, int32_t *out) {
    bool is_negative = *text == '-';
    const char *digits = text + (is_negative ? 1 : 0), *at = digits;
    int32_t value = 0;
    for (; weir__is_digit(*at) && at - digits < 6; at++)
        value = value * 10 + (*at - '0');
    *out = is_negative ? -value : value;
    return at > digits ? at : NULL;
}

/* d:precision,scale and, unless it is 128, the width in bits. The precision does not matter here. */
static weir_ingest__arrow_type decimal_type(const char *text) {
    int32_t precision, scale = 0, bits = 128;
    const char *at = read_number(text, &precision);
    at = at && *at == ',' ? read_number(at + 1, &scale) : NULL;
    if (at && *at == ',')
        at = read_number(at + 1, &bits);
    bool is_known = at && *at == 0 && scale >= -WEIR_INGEST__SCALE_MAX && scale <= WEIR_INGEST__SCALE_MAX &&
                    (bits == 32 || bits == 64 || bits == 128 || bits == 256);
    if (!is_known)
        return (weir_ingest__arrow_type){.layout = WEIR_INGEST__ARROW_REFUSED};
    return (weir_ingest__arrow_type){.layout = WEIR_INGEST__ARROW_FIXED,
                                     .number = WEIR_INGEST__NUMBER_DECIMAL,
                                     .width = WEIR__NARROW(uint32_t, bits / 8),
                                     .scale = scale};
}

weir_ingest__arrow_type weir_ingest__arrow_type_of(const char *format) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].format, format) == 0 ||
            (strchr(known[i].format, ':') && weir__begins_with(format, known[i].format)))
            return known[i].type;
    if (weir__begins_with(format, "d:"))
        return decimal_type(format + 2);
    uint64_t width;
    if (weir__begins_with(format, "w:") && weir__decimal_parse(format + 2, strlen(format + 2), &width) &&
        width <= INT32_MAX)
        return (weir_ingest__arrow_type){.layout = WEIR_INGEST__ARROW_FIXED,
                                         .meaning = WEIR_INGEST__ARROW_BYTES,
                                         .width = WEIR__NARROW(uint32_t, width)};
    return (weir_ingest__arrow_type){.layout = WEIR_INGEST__ARROW_REFUSED};
}

const char *weir_ingest__arrow_type_name(const char *format) {
    static const struct {
        const char *start, *name;
    } names[] = {{"+l", "a list"},
                 {"+L", "a list"},
                 {"+w", "a list of fixed size"},
                 {"+v", "a list"},
                 {"+s", "a struct"},
                 {"+m", "a map"},
                 {"+u", "a union"},
                 {"+r", "run-end encoded"},
                 {"ti", "an interval"},
                 {"d:", "a decimal of a width or scale that is not known"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (weir__begins_with(format, names[i].start))
            return names[i].name;
    return "of a type that is not known";
}

weir_ingest__declared weir_ingest__arrow_declared(const weir_ingest__arrow_type *type) {
    static const weir_ingest__declared numbers[] = {
        [WEIR_INGEST__NUMBER_SIGNED] = WEIR_INGEST__DECLARED_INTEGER,
        [WEIR_INGEST__NUMBER_UNSIGNED] = WEIR_INGEST__DECLARED_INTEGER,
        [WEIR_INGEST__NUMBER_FLOAT] = WEIR_INGEST__DECLARED_REAL,
        [WEIR_INGEST__NUMBER_DECIMAL] = WEIR_INGEST__DECLARED_NUMERIC,
    };
    if (type->layout == WEIR_INGEST__ARROW_NOTHING)
        return WEIR_INGEST__DECLARED_NOTHING;
    if (type->layout == WEIR_INGEST__ARROW_BITS)
        return WEIR_INGEST__DECLARED_BOOLEAN;
    if (type->layout == WEIR_INGEST__ARROW_REFUSED)
        return WEIR_INGEST__DECLARED_TEXT;
    switch (type->meaning) {
    case WEIR_INGEST__ARROW_NUMBER:
        return numbers[type->number];
    case WEIR_INGEST__ARROW_TIME:
        return WEIR_INGEST__DECLARED_TIME;
    case WEIR_INGEST__ARROW_CLOCK:
        return WEIR_INGEST__DECLARED_TEXT;
    case WEIR_INGEST__ARROW_BYTES:
        break;
    }
    return type->is_text ? WEIR_INGEST__DECLARED_TEXT : WEIR_INGEST__DECLARED_BLOB;
}
