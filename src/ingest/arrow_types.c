/* Arrow's formats: the letters that say a column's type. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/arrow_source.h"

enum { SECONDS = 1, MILLIS = 1000, MICROS = 1000000, NANOS = 1000000000, MILLIS_A_DAY = 86400000 };

typedef struct known_format {
    const char *format;
    weir_ingest__arrow_type type;
} known_format;

#define FIXED(meaning_, width_, unit_)                                                                       \
    { .layout = WEIR_INGEST__ARROW_FIXED, .meaning = (meaning_), .width = (width_), .unit = (unit_) }
#define BYTES(layout_, is_text_)                                                                             \
    { .layout = (layout_), .meaning = WEIR_INGEST__ARROW_BYTES, .is_text = (is_text_) }

static const known_format known[] = {
    {"n", {.layout = WEIR_INGEST__ARROW_NOTHING}},
    {"b", {.layout = WEIR_INGEST__ARROW_BITS}},
    {"c", FIXED(WEIR_INGEST__ARROW_SIGNED, 1, 0)},
    {"s", FIXED(WEIR_INGEST__ARROW_SIGNED, 2, 0)},
    {"i", FIXED(WEIR_INGEST__ARROW_SIGNED, 4, 0)},
    {"l", FIXED(WEIR_INGEST__ARROW_SIGNED, 8, 0)},
    {"C", FIXED(WEIR_INGEST__ARROW_UNSIGNED, 1, 0)},
    {"S", FIXED(WEIR_INGEST__ARROW_UNSIGNED, 2, 0)},
    {"I", FIXED(WEIR_INGEST__ARROW_UNSIGNED, 4, 0)},
    {"L", FIXED(WEIR_INGEST__ARROW_UNSIGNED, 8, 0)},
    {"e", FIXED(WEIR_INGEST__ARROW_FLOAT, 2, 0)},
    {"f", FIXED(WEIR_INGEST__ARROW_FLOAT, 4, 0)},
    {"g", FIXED(WEIR_INGEST__ARROW_FLOAT, 8, 0)},
    {"u", BYTES(WEIR_INGEST__ARROW_OFFSETS32, true)},
    {"U", BYTES(WEIR_INGEST__ARROW_OFFSETS64, true)},
    {"vu", BYTES(WEIR_INGEST__ARROW_VIEWS, true)},
    {"z", BYTES(WEIR_INGEST__ARROW_OFFSETS32, false)},
    {"Z", BYTES(WEIR_INGEST__ARROW_OFFSETS64, false)},
    {"vz", BYTES(WEIR_INGEST__ARROW_VIEWS, false)},
    {"tdD",
     {.layout = WEIR_INGEST__ARROW_FIXED,
      .meaning = WEIR_INGEST__ARROW_TIME,
      .is_date = true,
      .width = 4,
      .unit = 1}},
    {"tdm",
     {.layout = WEIR_INGEST__ARROW_FIXED,
      .meaning = WEIR_INGEST__ARROW_TIME,
      .is_date = true,
      .width = 8,
      .unit = MILLIS_A_DAY}},
    {"tts", FIXED(WEIR_INGEST__ARROW_CLOCK, 4, SECONDS)},
    {"ttm", FIXED(WEIR_INGEST__ARROW_CLOCK, 4, MILLIS)},
    {"ttu", FIXED(WEIR_INGEST__ARROW_CLOCK, 8, MICROS)},
    {"ttn", FIXED(WEIR_INGEST__ARROW_CLOCK, 8, NANOS)},
    {"tDs", FIXED(WEIR_INGEST__ARROW_SIGNED, 8, 0)}, /* durations, as Parquet files keep them */
    {"tDm", FIXED(WEIR_INGEST__ARROW_SIGNED, 8, 0)},
    {"tDu", FIXED(WEIR_INGEST__ARROW_SIGNED, 8, 0)},
    {"tDn", FIXED(WEIR_INGEST__ARROW_SIGNED, 8, 0)},
};

/* Formats that go on after these letters: with a time zone. */
static const known_format zoned[] = {
    {"tss:", FIXED(WEIR_INGEST__ARROW_TIME, 8, SECONDS)},
    {"tsm:", FIXED(WEIR_INGEST__ARROW_TIME, 8, MILLIS)},
    {"tsu:", FIXED(WEIR_INGEST__ARROW_TIME, 8, MICROS)},
    {"tsn:", FIXED(WEIR_INGEST__ARROW_TIME, 8, NANOS)},
};

static bool begins_with(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

/* A decimal integer of at most six digits; NULL, or where it ends. */
static const char *read_number(const char *text, int32_t *out) {
    bool is_negative = *text == '-';
    const char *digits = text + (is_negative ? 1 : 0), *at = digits;
    int32_t value = 0;
    for (; *at >= '0' && *at <= '9' && at - digits < 6; at++)
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
    bool is_known = at && *at == 0 && scale >= -WEIR_INGEST__ARROW_SCALE_MAX &&
                    scale <= WEIR_INGEST__ARROW_SCALE_MAX &&
                    (bits == 32 || bits == 64 || bits == 128 || bits == 256);
    if (!is_known)
        return (weir_ingest__arrow_type){.layout = WEIR_INGEST__ARROW_REFUSED};
    return (weir_ingest__arrow_type){.layout = WEIR_INGEST__ARROW_FIXED,
                                     .meaning = WEIR_INGEST__ARROW_DECIMAL,
                                     .width = WEIR__NARROW(uint32_t, bits / 8),
                                     .scale = scale};
}

static weir_ingest__arrow_type fixed_bytes_type(const char *text) {
    uint64_t size;
    uint32_t width;
    if (!weir__decimal_parse(text, strlen(text), &size) || size > INT32_MAX || !weir__fits(size, &width))
        return (weir_ingest__arrow_type){.layout = WEIR_INGEST__ARROW_REFUSED};
    return (weir_ingest__arrow_type){
        .layout = WEIR_INGEST__ARROW_FIXED, .meaning = WEIR_INGEST__ARROW_BYTES, .width = width};
}

weir_ingest__arrow_type weir_ingest__arrow_type_of(const char *format) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].format, format) == 0)
            return known[i].type;
    for (size_t i = 0; i < sizeof zoned / sizeof *zoned; i++)
        if (begins_with(format, zoned[i].format))
            return zoned[i].type;
    if (begins_with(format, "d:"))
        return decimal_type(format + 2);
    if (begins_with(format, "w:"))
        return fixed_bytes_type(format + 2);
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
        if (begins_with(format, names[i].start))
            return names[i].name;
    return "of a type that is not known";
}

weir_ingest__declared weir_ingest__arrow_declared(const weir_ingest__arrow_type *type) {
    if (type->layout == WEIR_INGEST__ARROW_NOTHING)
        return WEIR_INGEST__DECLARED_NOTHING;
    if (type->layout == WEIR_INGEST__ARROW_BITS)
        return WEIR_INGEST__DECLARED_BOOLEAN;
    if (type->layout == WEIR_INGEST__ARROW_REFUSED)
        return WEIR_INGEST__DECLARED_TEXT;
    switch (type->meaning) {
    case WEIR_INGEST__ARROW_SIGNED:
    case WEIR_INGEST__ARROW_UNSIGNED:
        return WEIR_INGEST__DECLARED_INTEGER;
    case WEIR_INGEST__ARROW_FLOAT:
        return WEIR_INGEST__DECLARED_REAL;
    case WEIR_INGEST__ARROW_DECIMAL:
        return WEIR_INGEST__DECLARED_NUMERIC;
    case WEIR_INGEST__ARROW_TIME:
        return WEIR_INGEST__DECLARED_TIME;
    case WEIR_INGEST__ARROW_CLOCK:
        return WEIR_INGEST__DECLARED_TEXT;
    case WEIR_INGEST__ARROW_BYTES:
        break;
    }
    return type->is_text ? WEIR_INGEST__DECLARED_TEXT : WEIR_INGEST__DECLARED_BLOB;
}
