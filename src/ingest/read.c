/* Reading: every table's rows into columns of converted values.
 *
 * A table is shared out in parts; each part is read by one worker into memory of its own, so that workers
 * never meet. A value that does not fit is remembered, not reported at once: of all parts the one of the
 * first row (in key order), then column, is the error, whoever met it first.
 *
 * Rows are stored one by one. Of a source that has columns as arrays, some rows are stored column by column
 * (read_arrays.h); if one of them has a fault, they are stored again one by one, which says which it is. */
#define XXH_INLINE_ALL
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/bytes.h"
#include "ingest/base_rows.h"
#include "ingest/kept_rows.h"
#include "ingest/read_arrays.h"
#include "ingest/row_run.h"
#include "ingest/stages.h"

enum { PART_ROWS_MIN = 50000, FIRST_CAPACITY = 1024, SMALL_CAPACITY = 65536 };

/* ---- A part's memory ------------------------------------------------------------------------- */

size_t weir_ingest__value_size(weir_stype stype) {
    static const size_t sizes[] = {[WEIR_VALUE_NOTHING] = 0,
                                   [WEIR_VALUE_PRESENCE] = sizeof(uint8_t),
                                   [WEIR_VALUE_NUMBER] = sizeof(double),
                                   [WEIR_VALUE_TIME] = sizeof(int64_t),
                                   [WEIR_VALUE_TRUTH] = sizeof(uint8_t),
                                   [WEIR_VALUE_CATEGORY] = sizeof(uint32_t),
                                   [WEIR_VALUE_TEXT] = sizeof(uint32_t)};
    return sizes[weir_value_of(stype)];
}

void weir_ingest__column_data_release(const weir_env *env, weir_ingest__column_data *column) {
    weir__release(env, column->values);
    weir__release(env, column->keys);
    weir__release(env, column->tags);
    *column = (weir_ingest__column_data){0};
}

void weir_ingest__parts_release(weir_ingest__parts *parts) {
    for (uint32_t t = 0; parts->tables && t < parts->plan->table_count; t++)
        for (uint32_t p = 0; p < parts->tables[t].count; p++) {
            weir_ingest__part *part = &parts->tables[t].list[p];
            for (uint32_t c = 0; c < parts->plan->tables[t].column_count; c++) {
                weir_ingest__column_data_release(parts->env, &part->data[c]);
                weir_ingest__dictionary_release(&part->columns[c].dictionary);
            }
            weir_ingest__dictionary_release(&part->texts);
            weir_ingest__text_sets_release(parts->env, part);
            weir__release(parts->env, part->row_keys);
            weir_cbor_release(&part->row_writer);
            weir__arena_release(&part->strings);
        }
    weir__arena_release(&parts->arena);
    *parts = (weir_ingest__parts){0};
}

static bool grow_array(const weir_env *env, void *array, size_t capacity, size_t size) {
    void *grown = env->resize(env->context, *(void **)array, capacity * size);
    if (grown)
        *(void **)array = grown;
    return grown != NULL;
}

/* Room for some more rows in every array: in small steps if they lie in a file, whose room is the disk's. */
static bool make_room(const weir_ingest__context *context, const weir_ingest__table_plan *table,
                      weir_ingest__part *part, size_t more) {
    const weir_env *env = context->env;
    size_t wanted = part->row_count + more, capacity = part->capacity;
    if (wanted <= capacity)
        return true;
    bool is_in_file = weir__spill_is_used(context->spill);
    capacity += capacity < SMALL_CAPACITY ? 3 * capacity + FIRST_CAPACITY : capacity / (is_in_file ? 8 : 1);
    capacity = capacity > wanted ? capacity : wanted;
    capacity = capacity < WEIR_STORE__ROWS_MAX ? capacity : WEIR_STORE__ROWS_MAX;
    if (capacity < wanted)
        return false;
    bool fits =
        table->primary_key_count > 0 || grow_array(env, &part->row_keys, capacity, sizeof *part->row_keys);
    for (uint32_t c = 0; c < table->column_count && fits; c++) {
        weir_ingest__column_data *column = &part->data[c];
        size_t size = weir_ingest__value_size(table->columns[c].stype);
        fits = size == 0 || grow_array(env, &column->values, capacity, size);
        if (fits && weir_ingest__keeps_keys(&table->columns[c]))
            fits = grow_array(env, &column->keys, capacity, sizeof *column->keys) &&
                   (!column->tags || grow_array(env, &column->tags, capacity, 1));
    }
    if (fits)
        part->capacity = WEIR__NARROW(uint32_t, capacity);
    return fits;
}

/* ---- Cells ----------------------------------------------------------------------------------- */

typedef struct row_reader {
    const weir_ingest__context *context;
    const weir_ingest__table_plan *table;
    weir_ingest__part *part;
    weir_ingest__value *room; /* of a row whose cells lie in arrays */
    bool is_short_of_memory;
} row_reader;

/* The order of two rows of parts in their table. */
static int compare_rows(const weir_ingest__table_plan *table, const weir_ingest__part *a, uint32_t row_a,
                        const weir_ingest__part *b, uint32_t row_b) {
    if (table->primary_key_count == 0)
        return weir_ingest__string_compare(a->row_keys[row_a], b->row_keys[row_b]);
    return weir_ingest__key_compare_rows(a->data, row_a, b->data, row_b, table->primary_key,
                                         table->primary_key_count);
}

/* Remembers a fault of a row; the first column counts. */
static void note_fault(uint32_t row, uint32_t column, weir_status status, const weir_ingest__value *value,
                       const char *what, weir_ingest__row_fault *fault) {
    char shown[96];
    if (fault->is_set)
        return;
    weir_ingest__describe_value(value, shown);
    *fault = (weir_ingest__row_fault){.is_set = true, .row = row, .column = column, .status = status};
    snprintf(fault->what, sizeof fault->what, "%s %s", shown, what);
}

static bool store_key(row_reader *r, uint32_t row, uint32_t c, const weir_ingest__value *value) {
    const weir_ingest__column_plan *plan = &r->table->columns[c];
    weir_ingest__column_data *column = &r->part->data[c];
    weir_ingest__key key;
    weir_ingest__dictionary *dictionary = plan->is_foreign ? &r->part->columns[c].dictionary : NULL;
    if (plan->is_foreign && weir_value_of(plan->stype) == WEIR_VALUE_CATEGORY)
        dictionary = NULL; /* that one is the categories' */
    if (!weir_ingest__key_from_value(value, &r->part->strings, dictionary, &key))
        return false;
    if (key.tag != WEIR_INGEST__KEY_INT && !column->tags) {
        const weir_env *env = r->context->env;
        column->tags = env->allocate(env->context, r->part->capacity);
        if (!column->tags)
            return false;
        memset(column->tags, WEIR_INGEST__KEY_INT, row);
    }
    column->keys[row] = key.payload;
    if (column->tags)
        column->tags[row] = WEIR__LOW(uint8_t, key.tag);
    return true;
}

/* The number of a text in a dictionary. */
static uint32_t store_text(row_reader *r, weir_ingest__dictionary *dictionary, weir_ingest__bytes text) {
    uint32_t number = WEIR_NONE;
    if (!weir_ingest__dictionary_intern(dictionary, &r->part->strings, text.data, text.size, &number))
        r->is_short_of_memory = true;
    return number;
}

/* Converts and stores a cell as its semantic type wants it. */
static weir_ingest__fit store_value(row_reader *r, uint32_t row, uint32_t c,
                                    const weir_ingest__value *value) {
    const weir_ingest__column_plan *plan = &r->table->columns[c];
    weir_ingest__part *part = r->part;
    void *values = part->data[c].values;
    weir_ingest__converted cell;
    weir_ingest__fit fit =
        weir_ingest__convert(value, plan->stype, &plan->form, &part->columns[c].unsaid, &cell);
    bool fits = fit == WEIR_INGEST__FITS;
    switch (weir_value_of(plan->stype)) {
    case WEIR_VALUE_PRESENCE:
        ((uint8_t *)values)[row] = fits;
        break;
    case WEIR_VALUE_NUMBER:
        ((double *)values)[row] = fits ? cell.number : NAN;
        break;
    case WEIR_VALUE_TIME:
        ((int64_t *)values)[row] = fits ? cell.integer : WEIR_TIME_ALWAYS;
        break;
    case WEIR_VALUE_TRUTH:
        ((uint8_t *)values)[row] = fits ? cell.integer == 1 : 2;
        break;
    case WEIR_VALUE_CATEGORY:
        ((uint32_t *)values)[row] = fits ? store_text(r, &part->columns[c].dictionary, cell.text) : WEIR_NONE;
        break;
    case WEIR_VALUE_TEXT:
        ((uint32_t *)values)[row] = fits ? store_text(r, &part->texts, cell.text) : WEIR_NONE;
        break;
    case WEIR_VALUE_NOTHING:
        break;
    }
    return fit;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* A cell of the row's CBOR: the converted value, or what has none as it is stored. Text that is not UTF-8 is
 * a fault already, and stands as null here. */
static void write_cell(weir_cbor_writer *w, weir_stype stype, const void *values, uint32_t row,
                       const weir_ingest__value *value, bool has_bad_text) {
    weir_ingest__value cell = *value;
    bool is_null = false;
    switch (weir_value_of(stype)) {
    case WEIR_VALUE_NUMBER:
        cell = (weir_ingest__value){.type = WEIR_INGEST__REAL, .real = ((const double *)values)[row]};
        is_null = isnan(cell.real);
        break;
    case WEIR_VALUE_TIME:
        cell = (weir_ingest__value){.type = WEIR_INGEST__INT, .integer = ((const int64_t *)values)[row]};
        is_null = cell.integer == WEIR_TIME_ALWAYS;
        break;
    case WEIR_VALUE_TRUTH:
        cell = (weir_ingest__value){.type = WEIR_INGEST__BOOL, .integer = ((const uint8_t *)values)[row]};
        is_null = cell.integer == 2;
        break;
    case WEIR_VALUE_NOTHING:
    case WEIR_VALUE_PRESENCE:
    case WEIR_VALUE_CATEGORY:
    case WEIR_VALUE_TEXT:
        if (cell.type == WEIR_INGEST__BOOL || cell.type == WEIR_INGEST__TIMESTAMP)
            cell.type = WEIR_INGEST__INT;
        is_null = has_bad_text && cell.type == WEIR_INGEST__TEXT &&
                  !weir__utf8_is_valid(cell.text.data, cell.text.size);
    }
    if (is_null)
        weir_cbor_null(w);
    else
        weir_ingest__run_write_value(w, &cell);
}

static bool is_in_row_key(const weir_ingest__column_plan *column) {
    return column->stype != WEIR_IGNORED || weir_ingest__keeps_keys(column);
}

/* The CBOR of the row's converted values, by which a table without a primary key is sorted. */
static bool store_row_key(row_reader *r, const weir_ingest__value *cells, bool has_bad_text) {
    weir_ingest__part *part = r->part;
    const weir_ingest__table_plan *table = r->table;
    weir_cbor_writer *w = &part->row_writer;
    uint32_t count = 0;
    for (uint32_t c = 0; c < table->column_count; c++)
        count += is_in_row_key(&table->columns[c]) ? 1 : 0;
    weir_cbor_restart(w);
    w->size = 0;
    weir_cbor_array(w, count);
    for (uint32_t c = 0; c < table->column_count; c++)
        if (is_in_row_key(&table->columns[c]))
            write_cell(w, table->columns[c].stype, part->data[c].values, part->row_count, &cells[c],
                       has_bad_text);
    if (weir_cbor_finish(w, NULL) != WEIR_OK)
        return false;
    weir_ingest__string *key = weir_ingest__string_new(&part->strings, (const char *)w->data, w->size);
    if (!key)
        return false;
    key->hash = XXH64(w->data, w->size, 0);
    part->row_keys[part->row_count] = key;
    return true;
}

/* What of a cell is stored. */
typedef enum cell_part { ITS_VALUE = 1, ITS_KEY = 2 } cell_part;

static bool store_cell(row_reader *r, uint32_t row, uint32_t c, const weir_ingest__value *value,
                       unsigned parts, weir_ingest__row_fault *fault) {
    static const weir_ingest__value null = {.type = WEIR_INGEST__NULL};
    const weir_ingest__column_plan *plan = &r->table->columns[c];
    weir_ingest__part *part = r->part;
    if (value->type == WEIR_INGEST__TEXT && !weir__utf8_is_valid(value->text.data, value->text.size)) {
        note_fault(row, c, WEIR_SOURCE_ERROR, value,
                   "is text that is not UTF-8; convert the source (a file: iconv -f LATIN1 -t UTF-8)", fault);
        value = &null; /* from here on */
    }
    if (parts & ITS_VALUE) {
        weir_ingest__fit fit = store_value(r, row, c, value);
        char reason[WEIR_INGEST__REASON_SIZE];
        if (fit == WEIR_INGEST__UNFIT)
            note_fault(row, c, WEIR_SCHEMA_INVALID, value,
                       weir_ingest__unfit_reason(plan->stype, &plan->form, reason), fault);
        if (fit != WEIR_INGEST__FITS)
            part->columns[c].nulls++;
        if (fit == WEIR_INGEST__NOT_FINITE)
            part->columns[c].not_finite++;
    }
    if (!(parts & ITS_KEY) || !weir_ingest__keeps_keys(plan))
        return !r->is_short_of_memory;
    if (!store_key(r, row, c, value))
        return false;
    if (plan->is_primary && weir_ingest__key_at(&part->data[c], row).tag == WEIR_INGEST__KEY_NULL)
        note_fault(row, c, WEIR_SCHEMA_INVALID, value,
                   "is no primary key; leave such rows out with a \"query\", or choose another primary_key",
                   fault);
    return !r->is_short_of_memory;
}

static bool store_row(row_reader *r, const weir_ingest__value *cells) {
    const weir_ingest__table_plan *table = r->table;
    weir_ingest__part *part = r->part;
    weir_ingest__row_fault fault = {0};
    if (!make_room(r->context, table, part, 1))
        return false;
    for (uint32_t c = 0; c < table->column_count; c++)
        if (!store_cell(r, part->row_count, c, &cells[c], ITS_VALUE | ITS_KEY, &fault))
            return false;
    if (table->primary_key_count == 0 && !store_row_key(r, cells, fault.is_set))
        return false;
    if (fault.is_set &&
        (!part->fault.is_set || compare_rows(table, part, fault.row, part, part->fault.row) < 0))
        part->fault = fault;
    part->row_count++;
    return true;
}

/* ---- Columns --------------------------------------------------------------------------------- */

/* Cell (row, c), wherever it is. */
static const weir_ingest__value *cell_of(const weir_ingest__rows *rows, uint32_t column_count, size_t row,
                                         uint32_t c, weir_ingest__value *room) {
    if (!rows->arrays || rows->arrays[c].form == WEIR_INGEST__ARRAY_NONE)
        return &rows->cells[row * column_count + c];
    weir_ingest__array_value(&rows->arrays[c], row, room);
    return room;
}

/* Stores some rows column by column: at once what can be, and the rest cell by cell. False if memory is short
 * or one of them has a fault. */
static bool store_columns(row_reader *r, const weir_ingest__rows *rows) {
    weir_ingest__row_fault fault = {0};
    uint32_t first = r->part->row_count, count = WEIR__NARROW(uint32_t, rows->row_count);
    if (!make_room(r->context, r->table, r->part, count))
        return false;
    for (uint32_t c = 0; c < r->table->column_count; c++) {
        const weir_ingest__column_plan *plan = &r->table->columns[c];
        const weir_ingest__array *array = &rows->arrays[c];
        bool is_array = array->form != WEIR_INGEST__ARRAY_NONE;
        unsigned left = ITS_VALUE | (weir_ingest__keeps_keys(plan) ? ITS_KEY : 0);
        if (is_array && weir_ingest__array_store(r->part, c, plan->stype, array, first, count))
            left &= ~(unsigned)ITS_VALUE;
        if (is_array && (left & ITS_KEY) &&
            weir_ingest__array_store_keys(&r->part->data[c], plan->is_primary, array, first, count))
            left &= ~(unsigned)ITS_KEY;
        for (uint32_t i = 0; left != 0 && i < count; i++) {
            const weir_ingest__value *value = cell_of(rows, r->table->column_count, i, c, &r->room[c]);
            if (!store_cell(r, first + i, c, value, left, &fault) || fault.is_set)
                return false;
        }
    }
    r->part->row_count += count;
    return true;
}

/* A row as cells. */
static inline const weir_ingest__value *row_of(const row_reader *r, const weir_ingest__rows *rows,
                                               size_t row) {
    uint32_t count = r->table->column_count;
    for (uint32_t c = 0; rows->arrays && c < count; c++)
        r->room[c] = *cell_of(rows, count, row, c, &r->room[c]);
    return rows->arrays ? r->room : rows->cells + row * count;
}

static weir_status store_rows(row_reader *r, const weir_ingest__rows *rows, weir_error *error) {
    bool fits = true;
    if (rows->arrays && !r->part->fault.is_set && store_columns(r, rows))
        return WEIR_OK;
    for (size_t i = 0; i < rows->row_count && fits; i++)
        fits = store_row(r, row_of(r, rows, i));
    if (fits)
        return WEIR_OK;
    if (r->part->row_count >= WEIR_STORE__ROWS_MAX)
        return weir_ingest__too_many_rows(r->table->name, error);
    return weir_ingest__no_memory(error, r->part->capacity);
}

/* ---- Parts ----------------------------------------------------------------------------------- */

typedef struct read_piece {
    uint32_t table;
    uint32_t part;
    uint64_t rows; /* an estimate, to begin with the largest */
    bool is_kept;  /* not the source's */
} read_piece;

typedef struct read_work {
    weir_ingest__context *context;
    struct weir_ingest__base *base;
    struct weir_ingest__keeper *keeper;
    weir_ingest__parts *parts;
    const read_piece *pieces;
    atomic_bool *has_failed; /* a worker has: the others stop early */
} read_work;

static weir_status read_part(const read_work *work, uint32_t worker, const read_piece *piece,
                             weir_ingest__part *part, weir_error *error) {
    weir_ingest__context *context = work->context;
    const weir_ingest__table_plan *table = &work->parts->plan->tables[piece->table];
    weir_ingest__cursor *cursor = NULL;
    weir_ingest__rows rows;
    uint64_t uncounted = 0;
    row_reader reader = {.context = context, .table = table, .part = part};
    reader.room = weir__allocate(context->env, table->column_count, sizeof *reader.room);
    if (!reader.room)
        return weir_ingest__no_memory(error, table->column_count * sizeof *reader.room);
    /* Kept rows come first, and of a table that has some, the source's new ones. */
    weir_status status;
    if (piece->is_kept)
        status = weir_ingest__base_scan_kept(work->base, piece->table, piece->part, &cursor, error);
    else if (weir_ingest__base_parts(work->base, piece->table) > 0)
        status =
            weir_ingest__base_scan_new(work->base, context->sessions[worker], piece->table, &cursor, error);
    else
        status = weir_ingest__source_scan(context->sessions[worker], table->source, table->positions,
                                          table->column_count, piece->part,
                                          work->parts->tables[piece->table].count, &cursor, error);
    if (status == WEIR_OK)
        cursor->takes_arrays = table->primary_key_count > 0; /* else each row's CBOR is made, of its cells */
    while (status == WEIR_OK && !atomic_load_explicit(work->has_failed, memory_order_relaxed)) {
        status = weir_ingest__next_rows(context, cursor, &uncounted, &rows, error);
        if (status != WEIR_OK || rows.row_count == 0)
            break;
        status = store_rows(&reader, &rows, error);
        /* A fault makes all of this end in an error: nothing is kept. */
        bool is_kept = work->keeper && !part->fault.is_set;
        for (size_t i = 0; i < rows.row_count && is_kept && status == WEIR_OK; i++)
            status = weir_ingest__keep_row(work->keeper, piece->table, piece->part, row_of(&reader, &rows, i),
                                           error);
        if (status == WEIR_OK)
            status = weir_ingest__put_texts_aside(context, part, false, error);
    }
    if (cursor)
        cursor->close(cursor);
    weir__release(context->env, reader.room);
    if (status == WEIR_OK)
        status = weir_ingest__keep_end(work->keeper, piece->table, piece->part, error);
    if (status == WEIR_OK)
        status = weir_ingest__put_texts_aside(context, part, true, error);
    return weir_ingest__plan_blame_query(table->source, status, error);
}

static void run_piece(void *argument, size_t index, uint32_t worker) {
    const read_work *work = argument;
    const read_piece *piece = &work->pieces[index];
    weir_ingest__part *part = &work->parts->tables[piece->table].list[piece->part];
    if (atomic_load_explicit(work->has_failed, memory_order_relaxed))
        return;
    part->status = read_part(work, worker, piece, part, &part->error);
    if (part->status != WEIR_OK)
        atomic_store_explicit(work->has_failed, true, memory_order_relaxed);
}

/* Kept rows first: they say which of the source's are new. */
static int larger_first(const void *a, const void *b) {
    const read_piece *x = a, *y = b;
    if (x->is_kept != y->is_kept)
        return x->is_kept ? -1 : 1;
    if (x->rows != y->rows)
        return x->rows > y->rows ? -1 : 1;
    if (x->table != y->table)
        return x->table < y->table ? -1 : 1;
    return x->part < y->part ? -1 : x->part > y->part;
}

/* The fault of the first row over all parts of a table, as an error. */
static weir_status report_fault(const weir_ingest__table_plan *table, const weir_ingest__table_parts *parts,
                                weir_error *error) {
    const weir_ingest__part *first = NULL;
    char key[200];
    for (uint32_t p = 0; p < parts->count; p++) {
        const weir_ingest__part *part = &parts->list[p];
        if (part->fault.is_set &&
            (!first || compare_rows(table, part, part->fault.row, first, first->fault.row) < 0))
            first = part;
    }
    if (!first)
        return WEIR_OK;
    const weir_ingest__row_fault *fault = &first->fault;
    weir_ingest__row_key_describe(first->data, table->primary_key, table->primary_key_count, fault->row, key,
                                  sizeof key);
    weir_status status = weir__fail(error, fault->status, WEIR_INGEST__OPERATOR, "table %s, column %s%s: %s",
                                    table->name, table->columns[fault->column].name, key, fault->what);
    weir__note_text(error, "table", table->name, strlen(table->name));
    weir__note_text(error, "column", table->columns[fault->column].name,
                    strlen(table->columns[fault->column].name));
    return status;
}

/* Integers of times that count seconds because the schema does not say otherwise: what cannot be is refused,
 * what can is said. */
static weir_status check_units(weir_ingest__context *context, const weir_ingest__table_plan *table,
                               const weir_ingest__table_parts *parts, weir_error *error) {
    for (uint32_t c = 0; c < table->column_count; c++) {
        weir_ingest__unsaid unsaid = {0};
        char span[100];
        for (uint32_t p = 0; p < parts->count; p++)
            weir_ingest__unsaid_join(&unsaid, &parts->list[p].columns[c].unsaid);
        if (unsaid.count == 0)
            continue;
        const char *doubt = weir_ingest__unsaid_doubt(&unsaid);
        if (doubt)
            return weir_ingest__plan_refuse(error, WEIR_SCHEMA_INVALID, doubt,
                                            "$.tables.%s.columns.%s:", table->name, table->columns[c].name);
        weir_ingest__unsaid_span(&unsaid, span, sizeof span);
        weir_ingest__warn(
            context, "unit_not_given", table->name, table->columns[c].name, NULL,
            "%s.%s holds integers and the schema does not say their \"unit\": taken as seconds, they are %s; "
            "write \"unit\": \"s\" if that is right",
            table->name, table->columns[c].name, span);
    }
    return WEIR_OK;
}

/* Failures of the source first, in the order of tables and parts; then faults of rows. */
static weir_status report(weir_ingest__context *context, const weir_ingest__parts *parts, weir_error *error) {
    const weir_ingest__plan *plan = parts->plan;
    for (uint32_t t = 0; t < plan->table_count; t++)
        for (uint32_t p = 0; p < parts->tables[t].count; p++) {
            const weir_ingest__part *part = &parts->tables[t].list[p];
            if (part->status == WEIR_OK)
                continue;
            if (error)
                *error = part->error;
            return part->status;
        }
    for (uint32_t t = 0; t < plan->table_count; t++) {
        WEIR__TRY(report_fault(&plan->tables[t], &parts->tables[t], error));
        WEIR__TRY(check_units(context, &plan->tables[t], &parts->tables[t], error));
    }
    return WEIR_OK;
}

static weir_status make_parts(const weir_ingest__context *context, const weir_ingest__plan *plan,
                              const struct weir_ingest__base *base, weir_ingest__parts *out, size_t *count,
                              weir_error *error) {
    weir__arena *arena = &out->arena;
    *out = (weir_ingest__parts){.plan = plan, .env = context->env};
    weir__arena_init(arena, context->env);
    out->tables = weir__arena_take_zero(arena, plan->table_count, sizeof *out->tables);
    for (uint32_t t = 0; t < plan->table_count && !arena->is_short; t++) {
        weir_ingest__table_parts *parts = &out->tables[t];
        uint32_t kept = weir_ingest__base_parts(base, t), column_count = plan->tables[t].column_count;
        const weir_ingest__catalog_table *source = plan->tables[t].source;
        bool is_shared = source->row_estimate >= PART_ROWS_MIN && !source->is_one_part;
        uint32_t wanted = kept > 0 ? kept + 1 : is_shared ? context->session_count : 1;
        parts->list = weir__arena_take_zero(arena, wanted, sizeof *parts->list);
        for (; parts->count < wanted && !arena->is_short; parts->count += !arena->is_short) {
            weir_ingest__part *part = &parts->list[parts->count];
            part->data = weir__arena_take_zero(arena, column_count, sizeof *part->data);
            part->columns = weir__arena_take_zero(arena, column_count, sizeof *part->columns);
            for (uint32_t c = 0; c < column_count && !arena->is_short; c++)
                weir_ingest__dictionary_init(&part->columns[c].dictionary, context->env);
            weir__arena_init(&part->strings, context->env);
            weir_ingest__dictionary_init(&part->texts, weir__spill_memory_env(context->spill));
            weir_cbor_writer_memory(&part->row_writer, context->env);
        }
        *count += parts->count;
    }
    return arena->is_short ? weir_ingest__no_memory(error, plan->table_count * sizeof *out->tables) : WEIR_OK;
}

/* What there is to read, in the order in which it is begun; *kept_count of it are parts of kept rows. */
static void list_pieces(const weir_ingest__parts *parts, const struct weir_ingest__base *base,
                        read_piece *pieces, size_t *kept_count, uint64_t *total) {
    size_t count = 0;
    for (uint32_t t = 0; t < parts->plan->table_count; t++) {
        uint32_t kept = weir_ingest__base_parts(base, t), part_count = parts->tables[t].count;
        uint64_t kept_rows = weir_ingest__base_rows(base, t);
        uint64_t rows = parts->plan->tables[t].source->row_estimate;
        rows = rows > kept_rows ? rows - kept_rows : 0;
        *total += kept_rows + rows;
        for (uint32_t p = 0; p < part_count; p++) {
            bool is_kept = p < kept;
            uint64_t share = is_kept ? kept_rows / kept : rows / (part_count - kept);
            pieces[count++] = (read_piece){.table = t, .part = p, .rows = share, .is_kept = is_kept};
            *kept_count += is_kept;
        }
    }
    if (count > 0)
        qsort(pieces, count, sizeof *pieces, larger_first);
}

weir_status weir_ingest__read_rows(weir_ingest__context *context, const weir_ingest__plan *plan,
                                   struct weir_ingest__base *base, struct weir_ingest__keeper *keeper,
                                   weir_ingest__parts *out, weir_error *error) {
    size_t count = 0, kept_count = 0;
    uint64_t total = 0;
    atomic_bool has_failed = false;
    WEIR__TRY(make_parts(context, plan, base, out, &count, error));
    read_piece *pieces = weir__allocate_zero(context->env, count, sizeof *pieces);
    if (!pieces)
        return weir__out_of_memory(error, WEIR_INGEST__OPERATOR, count * sizeof *pieces);
    list_pieces(out, base, pieces, &kept_count, &total);
    weir_ingest__begin_phase(context, "read", total, plan->catalog->size_bytes);
    read_work work = {context, base, keeper, out, pieces, &has_failed};
    weir_status status = weir_ingest__keep_tables(keeper, base, out, error);
    if (status == WEIR_OK) {
        weir__parallel(context->env, context->threads, kept_count, run_piece, &work);
        status = weir_ingest__base_join(base, error);
    }
    work.pieces = pieces + kept_count;
    if (status == WEIR_OK) {
        weir__parallel(context->env, context->session_count, count - kept_count, run_piece, &work);
        status = report(context, out, error);
    }
    if (status == WEIR_OK)
        status = weir_ingest__base_check(base, error);
    weir__release(context->env, pieces);
    return status;
}
