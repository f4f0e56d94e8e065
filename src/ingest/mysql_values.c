/* MySQL's types, and its text forms of their values. The session's settings make these the same on every
 * server: UTF-8, the time zone UTC, standard quotes.
 *
 * What must hold: the same number, text or time gives the same value as from the other sources. A BOOLEAN is
 * a TINYINT(1) here, which holds any small integer, so its values are integers; only drafts take it for what
 * it was declared as. A FLOAT's text has six digits, and a GEOMETRY is nobody else's bytes: both are
 * converted by the server where weir writes the statement, and neither is decoded. */
#include <string.h>

#include "ingest/convert.h"
#include "ingest/decimal.h"
#include "ingest/mysql.h"
#include "weir_tool/store_tools.h"

static const char malformed[] = "has a form that is not its type's";

/* ---- Types ----------------------------------------------------------------------------------- */

/* By the number that an answer has, and by the name in information_schema. What is not here is text. */
static const struct {
    const char *name;
    int number; /* -1: answers have another type's */
    weir_ingest__my_type type;
} known[] = {
    {"tinyint", WEIR_INGEST__MY_TINY, {WEIR_INGEST__MY_AS_EXACT, WEIR_INGEST__DECLARED_INTEGER}},
    {"smallint", WEIR_INGEST__MY_SHORT, {WEIR_INGEST__MY_AS_EXACT, WEIR_INGEST__DECLARED_INTEGER}},
    {"mediumint", WEIR_INGEST__MY_INT24, {WEIR_INGEST__MY_AS_EXACT, WEIR_INGEST__DECLARED_INTEGER}},
    {"int", WEIR_INGEST__MY_LONG, {WEIR_INGEST__MY_AS_EXACT, WEIR_INGEST__DECLARED_INTEGER}},
    {"bigint", WEIR_INGEST__MY_LONGLONG, {WEIR_INGEST__MY_AS_EXACT, WEIR_INGEST__DECLARED_INTEGER}},
    {"year", WEIR_INGEST__MY_YEAR, {WEIR_INGEST__MY_AS_EXACT, WEIR_INGEST__DECLARED_INTEGER}},
    {"bit", WEIR_INGEST__MY_BIT, {WEIR_INGEST__MY_AS_BITS, WEIR_INGEST__DECLARED_INTEGER}},
    {"decimal", WEIR_INGEST__MY_NEWDECIMAL, {WEIR_INGEST__MY_AS_EXACT, WEIR_INGEST__DECLARED_NUMERIC}},
    {"decimal", WEIR_INGEST__MY_DECIMAL, {WEIR_INGEST__MY_AS_EXACT, WEIR_INGEST__DECLARED_NUMERIC}},
    {"float", WEIR_INGEST__MY_FLOAT, {WEIR_INGEST__MY_AS_FLOAT, WEIR_INGEST__DECLARED_REAL}},
    {"double", WEIR_INGEST__MY_DOUBLE, {WEIR_INGEST__MY_AS_REAL, WEIR_INGEST__DECLARED_REAL}},
    {"date", WEIR_INGEST__MY_DATE, {WEIR_INGEST__MY_AS_TIME, WEIR_INGEST__DECLARED_TIME}},
    {"datetime", WEIR_INGEST__MY_DATETIME, {WEIR_INGEST__MY_AS_TIME, WEIR_INGEST__DECLARED_TIME}},
    {"timestamp", WEIR_INGEST__MY_TIMESTAMP, {WEIR_INGEST__MY_AS_TIME, WEIR_INGEST__DECLARED_TIME}},
    {"time", WEIR_INGEST__MY_TIME, {WEIR_INGEST__MY_AS_TEXT, WEIR_INGEST__DECLARED_TEXT}}, /* or a span */
    {"json", WEIR_INGEST__MY_JSON, {WEIR_INGEST__MY_AS_TEXT, WEIR_INGEST__DECLARED_TEXT}},
    {"enum", -1, {WEIR_INGEST__MY_AS_TEXT, WEIR_INGEST__DECLARED_ENUM}},
    {"binary", -1, {WEIR_INGEST__MY_AS_BYTES, WEIR_INGEST__DECLARED_BLOB}},
    {"varbinary", -1, {WEIR_INGEST__MY_AS_BYTES, WEIR_INGEST__DECLARED_BLOB}},
    {"tinyblob", -1, {WEIR_INGEST__MY_AS_BYTES, WEIR_INGEST__DECLARED_BLOB}},
    {"blob", -1, {WEIR_INGEST__MY_AS_BYTES, WEIR_INGEST__DECLARED_BLOB}},
    {"mediumblob", -1, {WEIR_INGEST__MY_AS_BYTES, WEIR_INGEST__DECLARED_BLOB}},
    {"longblob", -1, {WEIR_INGEST__MY_AS_BYTES, WEIR_INGEST__DECLARED_BLOB}},
    {"geometry", WEIR_INGEST__MY_GEOMETRY, {WEIR_INGEST__MY_AS_GEOMETRY, WEIR_INGEST__DECLARED_TEXT}},
    {"point", -1, {WEIR_INGEST__MY_AS_GEOMETRY, WEIR_INGEST__DECLARED_TEXT}},
    {"linestring", -1, {WEIR_INGEST__MY_AS_GEOMETRY, WEIR_INGEST__DECLARED_TEXT}},
    {"polygon", -1, {WEIR_INGEST__MY_AS_GEOMETRY, WEIR_INGEST__DECLARED_TEXT}},
    {"multipoint", -1, {WEIR_INGEST__MY_AS_GEOMETRY, WEIR_INGEST__DECLARED_TEXT}},
    {"multilinestring", -1, {WEIR_INGEST__MY_AS_GEOMETRY, WEIR_INGEST__DECLARED_TEXT}},
    {"multipolygon", -1, {WEIR_INGEST__MY_AS_GEOMETRY, WEIR_INGEST__DECLARED_TEXT}},
    {"geometrycollection", -1, {WEIR_INGEST__MY_AS_GEOMETRY, WEIR_INGEST__DECLARED_TEXT}},
    {"geomcollection", -1, {WEIR_INGEST__MY_AS_GEOMETRY, WEIR_INGEST__DECLARED_TEXT}},
};

static const weir_ingest__my_type as_text = {WEIR_INGEST__MY_AS_TEXT, WEIR_INGEST__DECLARED_TEXT};

/* TINYINT(1) and BIT(1) are declared for booleans. */
static weir_ingest__my_type with_booleans(weir_ingest__my_type type, bool is_one_digit) {
    if (is_one_digit)
        type.declared = WEIR_INGEST__DECLARED_BOOLEAN;
    return type;
}

weir_ingest__my_type weir_ingest__my_type_of(const weir_ingest__my_field *field) {
    bool may_be_boolean = field->type == WEIR_INGEST__MY_TINY || field->type == WEIR_INGEST__MY_BIT;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].number == field->type)
            return with_booleans(known[i].type, may_be_boolean && field->length == 1);
    if (field->flags & WEIR_INGEST__MY_ENUM_FLAG)
        return (weir_ingest__my_type){WEIR_INGEST__MY_AS_TEXT, WEIR_INGEST__DECLARED_ENUM};
    if (field->charsetnr == WEIR_INGEST__MY_BINARY_CHARSET)
        return (weir_ingest__my_type){WEIR_INGEST__MY_AS_BYTES, WEIR_INGEST__DECLARED_BLOB};
    return as_text;
}

weir_ingest__my_type weir_ingest__my_type_named(const char *name, const char *whole) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0)
            return with_booleans(known[i].type,
                                 strcmp(whole, "tinyint(1)") == 0 || strcmp(whole, "bit(1)") == 0);
    return as_text;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static const char *decode_bits(const char *data, size_t size, weir_ingest__value *out) {
    uint64_t bits = 0;
    if (size > sizeof bits)
        return malformed;
    for (size_t i = 0; i < size; i++)
        bits = bits << 8 | WEIR__LOW(uint8_t, data[i]);
    weir_ingest__unsigned_value(bits, out);
    return NULL;
}

const char *weir_ingest__my_decode(weir_ingest__my_form form, const char *data, size_t size,
                                   weir_ingest__value *out) {
    switch (form) {
    case WEIR_INGEST__MY_AS_TEXT:
    case WEIR_INGEST__MY_AS_BYTES:
        *out = (weir_ingest__value){.type = form == WEIR_INGEST__MY_AS_TEXT ? WEIR_INGEST__TEXT
                                                                            : WEIR_INGEST__BLOB,
                                    .text = {.data = data, .size = size}};
        return NULL;
    case WEIR_INGEST__MY_AS_EXACT:
        return weir_ingest__decimal_value(data, size, out) ? NULL : malformed;
    case WEIR_INGEST__MY_AS_REAL:
        out->type = WEIR_INGEST__REAL;
        return weir_ingest__parse_real(data, size, &out->real) ? NULL : malformed;
    case WEIR_INGEST__MY_AS_TIME:
        out->type = WEIR_INGEST__TIMESTAMP;
        return weir_timestamp_parse(data, size, &out->integer)
                   ? NULL
                   : "is a time that no calendar has, such as 0000-00-00";
    case WEIR_INGEST__MY_AS_BITS:
        return decode_bits(data, size, out);
    case WEIR_INGEST__MY_AS_FLOAT:
    case WEIR_INGEST__MY_AS_GEOMETRY:
        break;
    }
    return malformed;
}
