/* What the writer and the reader of runs share. A header and an end have one encoding, so a reader compares
 * bytes with what it would have written itself. */
#include <math.h>
#include <string.h>

#include "ingest/row_run.h"
#include "store/keys.h"

/* ---- Types ----------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    weir_ingest__declared declared;
    bool is_date;
} types[] = {
    {"nothing", WEIR_INGEST__DECLARED_NOTHING, false}, {"boolean", WEIR_INGEST__DECLARED_BOOLEAN, false},
    {"time", WEIR_INGEST__DECLARED_TIME, false},       {"date", WEIR_INGEST__DECLARED_TIME, true},
    {"integer", WEIR_INGEST__DECLARED_INTEGER, false}, {"real", WEIR_INGEST__DECLARED_REAL, false},
    {"numeric", WEIR_INGEST__DECLARED_NUMERIC, false}, {"text", WEIR_INGEST__DECLARED_TEXT, false},
    {"blob", WEIR_INGEST__DECLARED_BLOB, false},       {"enum", WEIR_INGEST__DECLARED_ENUM, false},
};
enum { TYPES = sizeof types / sizeof *types };

const char *weir_ingest__run_type_name(const weir_ingest__catalog_column *column) {
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].declared == column->declared && types[i].is_date == column->is_date)
            return types[i].name;
    return types[0].name;
}

bool weir_ingest__run_type_read(const weir_cbor_value *name, weir_ingest__catalog_column *out) {
    for (size_t i = 0; i < TYPES; i++)
        if (weir_cbor_is_text(name, types[i].name)) {
            out->declared = types[i].declared;
            out->is_date = types[i].is_date;
            return true;
        }
    return false;
}

/* ---- Frames ---------------------------------------------------------------------------------- */

void weir_ingest__run_write_header(weir_cbor_writer *w, const weir_ingest__run_table *table) {
    weir_cbor_map(w, 4);
    weir_cbor_text(w, "key");
    weir_cbor_array(w, table->key_count);
    for (uint32_t i = 0; i < table->key_count; i++)
        weir_cbor_text(w, table->columns[table->key[i]].name);
    weir_cbor_text(w, "table");
    weir_cbor_text(w, table->name);
    weir_cbor_text(w, "format");
    weir_cbor_text(w, WEIR_INGEST__RUN_FORMAT);
    weir_cbor_text(w, "columns");
    weir_cbor_array(w, table->column_count);
    for (uint32_t i = 0; i < table->column_count; i++) {
        weir_cbor_array(w, 2);
        weir_cbor_text(w, table->columns[i].name);
        weir_cbor_text(w, weir_ingest__run_type_name(&table->columns[i]));
    }
}

static void write_key(weir_cbor_writer *w, const weir_ingest__run_table *table,
                      const weir_ingest__value *row) {
    if (!row || table->key_count == 0) {
        weir_cbor_null(w);
        return;
    }
    weir_cbor_array(w, table->key_count);
    for (uint32_t i = 0; i < table->key_count; i++)
        weir_ingest__run_write_value(w, &row[table->key[i]]);
}

void weir_ingest__run_write_end(weir_cbor_writer *w, const weir_ingest__run_table *table,
                                const weir_ingest__value *first, const weir_ingest__value *last,
                                uint64_t rows) {
    weir_cbor_map(w, 3);
    weir_cbor_text(w, "last");
    write_key(w, table, last);
    weir_cbor_text(w, "rows");
    weir_cbor_uint(w, rows);
    weir_cbor_text(w, "first");
    write_key(w, table, first);
}

/* ---- Values ---------------------------------------------------------------------------------- */

void weir_ingest__run_write_value(weir_cbor_writer *w, const weir_ingest__value *value) {
    switch (value->type) {
    case WEIR_INGEST__INT:
        weir_cbor_int(w, value->integer);
        break;
    case WEIR_INGEST__REAL:
        weir_cbor_double(w, value->real);
        break;
    case WEIR_INGEST__TEXT:
        weir_cbor_text_n(w, value->text.data, value->text.size);
        break;
    case WEIR_INGEST__BLOB:
        weir_cbor_bytes(w, value->text.data, value->text.size);
        break;
    case WEIR_INGEST__BOOL:
        weir_cbor_bool(w, value->integer != 0);
        break;
    case WEIR_INGEST__TIMESTAMP:
        weir_cbor_array(w, 1);
        weir_cbor_int(w, value->integer);
        break;
    case WEIR_INGEST__NULL:
        weir_cbor_null(w);
    }
}

void weir_ingest__run_write_row(weir_cbor_writer *w, const weir_ingest__value *row, uint32_t column_count) {
    weir_cbor_array(w, column_count);
    for (uint32_t c = 0; c < column_count; c++)
        weir_ingest__run_write_value(w, &row[c]);
}

static bool read_integer(const weir_cbor_value *from, int64_t *out) {
    if (from->number > INT64_MAX)
        return false;
    *out = from->type == WEIR_CBOR_NEGATIVE ? -1 - (int64_t)from->number : (int64_t)from->number;
    return from->type == WEIR_CBOR_UINT || from->type == WEIR_CBOR_NEGATIVE;
}

bool weir_ingest__run_read_value(const weir_cbor_value *from, weir_ingest__value *out) {
    *out = (weir_ingest__value){.type = WEIR_INGEST__NULL};
    switch (from->type) {
    case WEIR_CBOR_NULL:
        return true;
    case WEIR_CBOR_UINT:
    case WEIR_CBOR_NEGATIVE:
        out->type = WEIR_INGEST__INT;
        return read_integer(from, &out->integer);
    case WEIR_CBOR_FLOAT:
        *out = (weir_ingest__value){.type = WEIR_INGEST__REAL, .real = from->real};
        return true;
    case WEIR_CBOR_TEXT:
    case WEIR_CBOR_BYTES:
        *out = (weir_ingest__value){
            .type = from->type == WEIR_CBOR_TEXT ? WEIR_INGEST__TEXT : WEIR_INGEST__BLOB,
            .text = {from->number > 0 ? (const char *)from->data : "", (size_t)from->number}};
        return true;
    case WEIR_CBOR_BOOL:
        *out = (weir_ingest__value){.type = WEIR_INGEST__BOOL, .integer = from->number != 0};
        return true;
    case WEIR_CBOR_ARRAY: {
        out->type = WEIR_INGEST__TIMESTAMP;
        if (from->number != 1)
            return false;
        weir_cbor_value inside = weir_cbor_view(from->data);
        return read_integer(&inside, &out->integer);
    }
    case WEIR_CBOR_MAP:
        break;
    }
    return false;
}

/* ---- Order ----------------------------------------------------------------------------------- */

typedef enum value_class { CLASS_NULL, CLASS_INTEGER, CLASS_REAL, CLASS_TEXT, CLASS_BLOB } value_class;

/* A real that is an integer of 64 bits counts as that integer, which `whole` takes. */
static value_class class_of(const weir_ingest__value *value, int64_t *whole) {
    switch (value->type) {
    case WEIR_INGEST__INT:
    case WEIR_INGEST__BOOL:
    case WEIR_INGEST__TIMESTAMP:
        *whole = value->integer;
        return CLASS_INTEGER;
    case WEIR_INGEST__REAL:
        if (isnan(value->real))
            return CLASS_NULL;
        if (!(value->real >= -0x1p63 && value->real < 0x1p63) || (double)(int64_t)value->real != value->real)
            return CLASS_REAL;
        *whole = (int64_t)value->real;
        return CLASS_INTEGER;
    case WEIR_INGEST__TEXT:
        return CLASS_TEXT;
    case WEIR_INGEST__BLOB:
        return CLASS_BLOB;
    case WEIR_INGEST__NULL:
        break;
    }
    return CLASS_NULL;
}

int weir_ingest__run_compare_values(const weir_ingest__value *a, const weir_ingest__value *b) {
    int64_t x = 0, y = 0;
    value_class of_a = class_of(a, &x), of_b = class_of(b, &y);
    if (of_a == CLASS_INTEGER && of_b == CLASS_INTEGER)
        return (x > y) - (x < y);
    if (of_a == CLASS_INTEGER && of_b == CLASS_REAL)
        return weir_store__compare_integer_with_real(x, b->real);
    if (of_a == CLASS_REAL && of_b == CLASS_INTEGER)
        return -weir_store__compare_integer_with_real(y, a->real);
    if (of_a != of_b)
        return of_a < of_b ? -1 : 1;
    if (of_a == CLASS_REAL)
        return (a->real > b->real) - (a->real < b->real);
    if (of_a == CLASS_NULL)
        return 0;
    int order = memcmp(a->text.data, b->text.data, a->text.size < b->text.size ? a->text.size : b->text.size);
    return order != 0 ? order : (a->text.size > b->text.size) - (a->text.size < b->text.size);
}

int weir_ingest__run_compare_rows(const weir_ingest__run_table *table, const weir_ingest__value *a,
                                  const weir_ingest__value *b) {
    int order = 0;
    for (uint32_t i = 0; i < table->key_count && order == 0; i++)
        order = weir_ingest__run_compare_values(&a[table->key[i]], &b[table->key[i]]);
    return order;
}

bool weir_ingest__run_can_be_latest(const weir_ingest__value *value) {
    enum { TEXT_MAX = 1000 };
    switch (value->type) {
    case WEIR_INGEST__NULL:
    case WEIR_INGEST__INT:
    case WEIR_INGEST__TIMESTAMP:
        return true;
    case WEIR_INGEST__TEXT:
        return value->text.size <= TEXT_MAX && !memchr(value->text.data, 0, value->text.size);
    case WEIR_INGEST__REAL:
    case WEIR_INGEST__BLOB:
    case WEIR_INGEST__BOOL:
        break;
    }
    return false;
}

/* ---- A key that is kept ------------------------------------------------------------------------ */

static bool is_text(const weir_ingest__value *value) {
    return value->type == WEIR_INGEST__TEXT || value->type == WEIR_INGEST__BLOB;
}

bool weir_ingest__run_keep_key(weir_ingest__kept_key *kept, const weir_ingest__run_table *table,
                               const weir_ingest__value *row) {
    size_t size = 0;
    for (uint32_t i = 0; i < table->key_count; i++)
        size += is_text(&row[table->key[i]]) ? row[table->key[i]].text.size : 0;
    if (!kept->row)
        kept->row = weir__allocate_zero(kept->env, table->column_count, sizeof *kept->row);
    if (!kept->row || !weir__grow(kept->env, (void **)&kept->texts, &kept->text_capacity, size + 1, 1))
        return false;
    char *at = kept->texts;
    for (uint32_t i = 0; i < table->key_count; i++) {
        weir_ingest__value *value = &kept->row[table->key[i]];
        *value = row[table->key[i]];
        if (!is_text(value))
            continue;
        memcpy(at, value->text.data, value->text.size);
        value->text.data = at;
        at += value->text.size;
    }
    return true;
}

void weir_ingest__run_release_key(weir_ingest__kept_key *kept) {
    weir__release(kept->env, kept->row);
    weir__release(kept->env, kept->texts);
    kept->row = NULL;
    kept->texts = NULL;
}
