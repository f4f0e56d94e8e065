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

static weir_ingest__my_type text_or_bytes(bool is_text) {
    return is_text ? (weir_ingest__my_type){WEIR_INGEST__MY_AS_TEXT, WEIR_INGEST__DECLARED_TEXT}
                   : (weir_ingest__my_type){WEIR_INGEST__MY_AS_BYTES, WEIR_INGEST__DECLARED_BLOB};
}

weir_ingest__my_type weir_ingest__my_type_of(const weir_ingest__my_field *field) {
    bool is_boolean = field->length == 1; /* TINYINT(1), BIT(1) */
    switch (field->type) {
    case WEIR_INGEST__MY_TINY:
        return (weir_ingest__my_type){WEIR_INGEST__MY_AS_EXACT, is_boolean ? WEIR_INGEST__DECLARED_BOOLEAN
                                                                           : WEIR_INGEST__DECLARED_INTEGER};
    case WEIR_INGEST__MY_BIT:
        return (weir_ingest__my_type){WEIR_INGEST__MY_AS_BITS, is_boolean ? WEIR_INGEST__DECLARED_BOOLEAN
                                                                          : WEIR_INGEST__DECLARED_INTEGER};
    case WEIR_INGEST__MY_SHORT:
    case WEIR_INGEST__MY_INT24:
    case WEIR_INGEST__MY_LONG:
    case WEIR_INGEST__MY_LONGLONG:
    case WEIR_INGEST__MY_YEAR:
        return (weir_ingest__my_type){WEIR_INGEST__MY_AS_EXACT, WEIR_INGEST__DECLARED_INTEGER};
    case WEIR_INGEST__MY_DECIMAL:
    case WEIR_INGEST__MY_NEWDECIMAL:
        return (weir_ingest__my_type){WEIR_INGEST__MY_AS_EXACT, WEIR_INGEST__DECLARED_NUMERIC};
    case WEIR_INGEST__MY_FLOAT:
        return (weir_ingest__my_type){WEIR_INGEST__MY_AS_FLOAT, WEIR_INGEST__DECLARED_REAL};
    case WEIR_INGEST__MY_DOUBLE:
        return (weir_ingest__my_type){WEIR_INGEST__MY_AS_REAL, WEIR_INGEST__DECLARED_REAL};
    case WEIR_INGEST__MY_DATE:
    case WEIR_INGEST__MY_DATETIME:
    case WEIR_INGEST__MY_TIMESTAMP:
        return (weir_ingest__my_type){WEIR_INGEST__MY_AS_TIME, WEIR_INGEST__DECLARED_TIME};
    case WEIR_INGEST__MY_GEOMETRY:
        return (weir_ingest__my_type){WEIR_INGEST__MY_AS_GEOMETRY, WEIR_INGEST__DECLARED_TEXT};
    case WEIR_INGEST__MY_TIME: /* of day, or a span */
    case WEIR_INGEST__MY_JSON:
        return text_or_bytes(true);
    default:
        if (field->flags & WEIR_INGEST__MY_ENUM_FLAG)
            return (weir_ingest__my_type){WEIR_INGEST__MY_AS_TEXT, WEIR_INGEST__DECLARED_ENUM};
        return text_or_bytes(field->charsetnr != WEIR_INGEST__MY_BINARY_CHARSET);
    }
}

weir_ingest__my_type weir_ingest__my_type_named(const char *name, const char *whole) {
    static const struct {
        const char *name;
        weir_ingest__my_type type;
    } known[] = {
        {"tinyint", {WEIR_INGEST__MY_AS_EXACT, WEIR_INGEST__DECLARED_INTEGER}},
        {"smallint", {WEIR_INGEST__MY_AS_EXACT, WEIR_INGEST__DECLARED_INTEGER}},
        {"mediumint", {WEIR_INGEST__MY_AS_EXACT, WEIR_INGEST__DECLARED_INTEGER}},
        {"int", {WEIR_INGEST__MY_AS_EXACT, WEIR_INGEST__DECLARED_INTEGER}},
        {"bigint", {WEIR_INGEST__MY_AS_EXACT, WEIR_INGEST__DECLARED_INTEGER}},
        {"year", {WEIR_INGEST__MY_AS_EXACT, WEIR_INGEST__DECLARED_INTEGER}},
        {"bit", {WEIR_INGEST__MY_AS_BITS, WEIR_INGEST__DECLARED_INTEGER}},
        {"decimal", {WEIR_INGEST__MY_AS_EXACT, WEIR_INGEST__DECLARED_NUMERIC}},
        {"float", {WEIR_INGEST__MY_AS_FLOAT, WEIR_INGEST__DECLARED_REAL}},
        {"double", {WEIR_INGEST__MY_AS_REAL, WEIR_INGEST__DECLARED_REAL}},
        {"date", {WEIR_INGEST__MY_AS_TIME, WEIR_INGEST__DECLARED_TIME}},
        {"datetime", {WEIR_INGEST__MY_AS_TIME, WEIR_INGEST__DECLARED_TIME}},
        {"timestamp", {WEIR_INGEST__MY_AS_TIME, WEIR_INGEST__DECLARED_TIME}},
        {"enum", {WEIR_INGEST__MY_AS_TEXT, WEIR_INGEST__DECLARED_ENUM}},
        {"binary", {WEIR_INGEST__MY_AS_BYTES, WEIR_INGEST__DECLARED_BLOB}},
        {"varbinary", {WEIR_INGEST__MY_AS_BYTES, WEIR_INGEST__DECLARED_BLOB}},
        {"tinyblob", {WEIR_INGEST__MY_AS_BYTES, WEIR_INGEST__DECLARED_BLOB}},
        {"blob", {WEIR_INGEST__MY_AS_BYTES, WEIR_INGEST__DECLARED_BLOB}},
        {"mediumblob", {WEIR_INGEST__MY_AS_BYTES, WEIR_INGEST__DECLARED_BLOB}},
        {"longblob", {WEIR_INGEST__MY_AS_BYTES, WEIR_INGEST__DECLARED_BLOB}},
        {"geometry", {WEIR_INGEST__MY_AS_GEOMETRY, WEIR_INGEST__DECLARED_TEXT}},
        {"point", {WEIR_INGEST__MY_AS_GEOMETRY, WEIR_INGEST__DECLARED_TEXT}},
        {"linestring", {WEIR_INGEST__MY_AS_GEOMETRY, WEIR_INGEST__DECLARED_TEXT}},
        {"polygon", {WEIR_INGEST__MY_AS_GEOMETRY, WEIR_INGEST__DECLARED_TEXT}},
        {"multipoint", {WEIR_INGEST__MY_AS_GEOMETRY, WEIR_INGEST__DECLARED_TEXT}},
        {"multilinestring", {WEIR_INGEST__MY_AS_GEOMETRY, WEIR_INGEST__DECLARED_TEXT}},
        {"multipolygon", {WEIR_INGEST__MY_AS_GEOMETRY, WEIR_INGEST__DECLARED_TEXT}},
        {"geometrycollection", {WEIR_INGEST__MY_AS_GEOMETRY, WEIR_INGEST__DECLARED_TEXT}},
        {"geomcollection", {WEIR_INGEST__MY_AS_GEOMETRY, WEIR_INGEST__DECLARED_TEXT}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) {
            weir_ingest__my_type type = known[i].type;
            if (strcmp(whole, "tinyint(1)") == 0 || strcmp(whole, "bit(1)") == 0)
                type.declared = WEIR_INGEST__DECLARED_BOOLEAN;
            return type;
        }
    return text_or_bytes(true);
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
