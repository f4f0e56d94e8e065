/* Drafting a schema: every column of every table is looked at once, and the contract's draft rules are
 * applied to what was seen. Tables are read in parallel; a column keeps a few flags and at most 101
 * distinct values (all of them only where its name says that it may be an identifier). */
#include <stdlib.h>
#include <string.h>

#include "ingest/state.h"

enum {
    DISTINCT_MAX = 101,
    ADVANCE_EVERY = 4096,
    INTEGER_CATEGORIES = 50,
    TEXT_CATEGORIES = 100,
    ROWS_PER_CATEGORY = 20
};

typedef struct column_profile {
    weir__declared declared;
    bool may_be_identifier; /* by its name */
    bool is_key;
    uint64_t values; /* that are not null */
    bool all_fit;    /* the declared type */
    bool all_integers, all_numbers, all_text, all_blobs, any_blob;
    bool all_iso; /* text that parses as a timestamp */
    bool any_space;
    bool all_distinct;
    weir__dictionary distinct; /* cut at DISTINCT_MAX but for possible identifiers */
} column_profile;

typedef struct table_profile {
    const weir__catalog_table *source;
    column_profile *columns;
    weir_stype *stypes;
    weir__arena strings;
    weir_status status;
    weir_error error;
} table_profile;

typedef struct draft_work {
    weir__ingest *ingest;
    table_profile *tables;
} draft_work;

/* ---- Looking at values ----------------------------------------------------------------------- */

static bool fits_declared(weir__declared declared, const weir__value *value) {
    bool truth;
    int64_t micros;
    switch (declared) {
    case WEIR__DECLARED_BOOLEAN:
        return weir__to_boolean(value, &truth) == WEIR__FITS;
    case WEIR__DECLARED_TIME:
        return weir__to_timestamp(value, WEIR__SECONDS, &micros) == WEIR__FITS;
    case WEIR__DECLARED_INTEGER:
        return value->type == WEIR__INT;
    case WEIR__DECLARED_REAL:
    case WEIR__DECLARED_NUMERIC:
        return value->type == WEIR__INT || value->type == WEIR__REAL;
    case WEIR__DECLARED_TEXT:
        return value->type == WEIR__TEXT;
    case WEIR__DECLARED_BLOB:
        return value->type == WEIR__BLOB;
    default:
        return true;
    }
}

/* False where memory is short. */
static bool look_at_text(column_profile *column, weir__arena *strings, const weir__value *value) {
    char buffer[WEIR__TEXT_FORM_SIZE];
    weir__bytes text;
    int64_t micros;
    uint32_t number;
    bool may_be_identifier = column->may_be_identifier && column->all_distinct;
    bool is_counted = column->distinct.count < DISTINCT_MAX || may_be_identifier;
    if (!column->all_iso && !is_counted)
        return true; /* no value can change the draft any more */
    if (weir__to_text(value, buffer, &text) != WEIR__FITS)
        return true;
    if (column->all_iso)
        column->all_iso = value->type == WEIR__TEXT && weir_timestamp_parse(text.data, text.size, &micros);
    if (may_be_identifier && !column->any_space)
        column->any_space = memchr(text.data, ' ', text.size) != NULL;
    if (!is_counted)
        return true;
    uint32_t before = column->distinct.count;
    if (!weir__dictionary_intern(&column->distinct, strings, text.data, text.size, &number))
        return false;
    if (column->distinct.count == before)
        column->all_distinct = false;
    return true;
}

static bool look_at(column_profile *column, weir__arena *strings, const weir__value *value) {
    weir__value_type type = value->type;
    if (type == WEIR__NULL)
        return true;
    column->values++;
    if (column->is_key)
        return true;
    column->all_fit = column->all_fit && fits_declared(column->declared, value);
    column->all_integers = column->all_integers && type == WEIR__INT;
    column->all_numbers = column->all_numbers && (type == WEIR__INT || type == WEIR__REAL);
    column->all_text = column->all_text && type == WEIR__TEXT;
    column->all_blobs = column->all_blobs && type == WEIR__BLOB;
    column->any_blob = column->any_blob || type == WEIR__BLOB;
    return look_at_text(column, strings, value);
}

/* ---- Rules ----------------------------------------------------------------------------------- */

static bool has_few(const column_profile *column, uint32_t most) {
    return column->distinct.count <= most &&
           column->values >= (uint64_t)column->distinct.count * ROWS_PER_CATEGORY;
}

static weir_stype draft_integer(const column_profile *column) {
    return has_few(column, INTEGER_CATEGORIES) ? WEIR_CATEGORICAL : WEIR_NUMERICAL;
}

static weir_stype draft_text(const column_profile *column) {
    if (column->any_blob)
        return WEIR_IGNORED;
    if (column->all_iso)
        return WEIR_TIMESTAMP;
    if (has_few(column, TEXT_CATEGORIES))
        return WEIR_CATEGORICAL;
    if (column->may_be_identifier && column->all_distinct && !column->any_space)
        return WEIR_IDENTIFIER;
    return WEIR_TEXT;
}

static weir_stype draft_by_values(const column_profile *column) {
    if (column->all_integers)
        return draft_integer(column);
    if (column->all_numbers)
        return WEIR_NUMERICAL;
    return draft_text(column);
}

static weir_stype draft_column(const column_profile *column) {
    if (column->is_key)
        return WEIR_IDENTIFIER;
    if (column->values == 0)
        return WEIR_IGNORED;
    if (!column->all_fit)
        return draft_text(column);
    switch (column->declared) {
    case WEIR__DECLARED_BOOLEAN:
        return WEIR_BOOLEAN;
    case WEIR__DECLARED_TIME:
        return WEIR_TIMESTAMP;
    case WEIR__DECLARED_INTEGER:
        return draft_integer(column);
    case WEIR__DECLARED_REAL:
        return WEIR_NUMERICAL;
    case WEIR__DECLARED_TEXT:
        return draft_text(column);
    case WEIR__DECLARED_BLOB:
        return WEIR_IGNORED;
    default:
        return draft_by_values(column);
    }
}

static void lowercase(const char *name, char *out, size_t size) {
    size_t i = 0;
    for (; name[i] && i + 1 < size; i++)
        out[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
    out[i] = 0;
}

static bool ends_with(const char *text, const char *end) {
    size_t size = strlen(text), end_size = strlen(end);
    return size >= end_size && memcmp(text + size - end_size, end, end_size) == 0;
}

static bool name_may_be_identifier(const char *name) {
    static const char *const ends[] = {"id", "uuid", "email", "url", "phone", "hash", "code", NULL};
    char lower[256];
    lowercase(name, lower, sizeof lower);
    for (int i = 0; ends[i]; i++)
        if (ends_with(lower, ends[i]))
            return true;
    return false;
}

static bool name_says_time(const char *name) {
    static const char *const words[] = {"created", "date", "time", "at", "timestamp", "on", NULL};
    char lower[256];
    lowercase(name, lower, sizeof lower);
    for (int i = 0; words[i]; i++)
        if (ends_with(lower, words[i]) || strncmp(lower, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static bool is_key_column(const weir__catalog *catalog, const weir__catalog_table *table, uint32_t column) {
    for (uint32_t i = 0; i < table->primary_key_count; i++)
        if (table->primary_key[i] == column)
            return true;
    for (uint32_t i = 0; i < table->foreign_key_count; i++)
        for (uint32_t k = 0; k < table->foreign_keys[i].column_count; k++)
            if (table->foreign_keys[i].columns[k] == column)
                return true;
    for (uint32_t t = 0; t < catalog->table_count; t++)
        for (uint32_t i = 0; i < catalog->tables[t].foreign_key_count; i++) {
            const weir__catalog_key *key = &catalog->tables[t].foreign_keys[i];
            for (uint32_t k = 0; k < key->column_count && strcmp(key->parent_table, table->name) == 0; k++)
                if (strcmp(key->parent_columns[k], table->columns[column].name) == 0)
                    return true;
        }
    return false;
}

static weir_status profile_init(weir__ingest *ingest, table_profile *table, weir_error *error) {
    uint32_t count = table->source->column_count;
    weir__arena_init(&table->strings, ingest->env);
    table->columns = weir__allocate_zero(ingest->env, count, sizeof *table->columns);
    table->stypes = weir__allocate_zero(ingest->env, count, sizeof *table->stypes);
    if (!table->columns || !table->stypes)
        return weir__out_of_memory(error, WEIR__INGEST_OPERATOR, count * sizeof *table->columns);
    for (uint32_t c = 0; c < count; c++) {
        column_profile *column = &table->columns[c];
        *column =
            (column_profile){.declared = table->source->columns[c].declared,
                             .may_be_identifier = name_may_be_identifier(table->source->columns[c].name),
                             .is_key = is_key_column(&ingest->catalog, table->source, c),
                             .all_fit = true,
                             .all_integers = true,
                             .all_numbers = true,
                             .all_text = true,
                             .all_blobs = true,
                             .all_iso = true,
                             .all_distinct = true};
        weir__dictionary_init(&column->distinct, ingest->env);
    }
    return WEIR_OK;
}

static void profile_release(weir__ingest *ingest, table_profile *table) {
    for (uint32_t c = 0; table->columns && c < table->source->column_count; c++)
        weir__dictionary_release(&table->columns[c].distinct);
    weir__release(ingest->env, table->columns);
    weir__release(ingest->env, table->stypes);
    weir__arena_release(&table->strings);
}

static weir_status look_at_rows(weir__ingest *ingest, table_profile *table, weir__cursor *cursor,
                                weir_error *error) {
    weir__rows rows;
    weir_status status;
    uint32_t count = table->source->column_count;
    uint64_t unreported = 0;
    while ((status = cursor->next(cursor, &rows, error)) == WEIR_OK && rows.row_count > 0) {
        for (size_t i = 0; i < rows.row_count * count; i++)
            if (!look_at(&table->columns[i % count], &table->strings, &rows.cells[i]))
                return weir__out_of_memory(error, WEIR__INGEST_OPERATOR, 1);
        unreported += rows.row_count;
        if (unreported < ADVANCE_EVERY)
            continue;
        if (!weir__advance(ingest, unreported))
            return weir__cancelled(error);
        unreported = 0;
    }
    return status;
}

static weir_status profile_table(weir__ingest *ingest, weir__source *session, table_profile *table,
                                 weir_error *error) {
    weir_status status = profile_init(ingest, table, error);
    if (status != WEIR_OK)
        return status;
    uint32_t count = table->source->column_count;
    uint32_t *positions = weir__allocate(ingest->env, count, sizeof *positions);
    if (!positions)
        return weir__out_of_memory(error, WEIR__INGEST_OPERATOR, count * sizeof *positions);
    for (uint32_t c = 0; c < count; c++)
        positions[c] = c;
    weir__cursor *cursor = NULL;
    status = weir__source_scan(session, table->source, positions, count, 0, 1, &cursor, error);
    if (status == WEIR_OK) {
        status = look_at_rows(ingest, table, cursor, error);
        cursor->close(cursor);
    }
    weir__release(ingest->env, positions);
    for (uint32_t c = 0; c < count && status == WEIR_OK; c++)
        table->stypes[c] = draft_column(&table->columns[c]);
    return status;
}

static void run_table(void *context, size_t index, uint32_t worker) {
    draft_work *work = context;
    table_profile *table = &work->tables[index];
    table->status = profile_table(work->ingest, work->ingest->sessions[worker], table, &table->error);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void put_primary_key(weir_json_writer *w, const weir__catalog_table *table) {
    if (table->primary_key_count == 0)
        return;
    weir_json_key(w, "primary_key");
    if (table->primary_key_count > 1)
        weir_json_array(w);
    for (uint32_t i = 0; i < table->primary_key_count; i++)
        weir_json_text(w, table->columns[table->primary_key[i]].name);
    if (table->primary_key_count > 1)
        weir_json_end_array(w);
}

static bool is_table(const void *context, const char *name, size_t size) {
    const weir__catalog *catalog = context;
    for (uint32_t t = 0; t < catalog->table_count; t++)
        if (strlen(catalog->tables[t].name) == size && memcmp(catalog->tables[t].name, name, size) == 0)
            return true;
    return false;
}

/* A key of one column stands at its column. */
static bool put_column(weir__ingest *ingest, weir_json_writer *w, const table_profile *table, uint32_t c) {
    bool is_fine = true;
    weir_json_key(w, table->source->columns[c].name);
    weir_json_object(w);
    weir_json_key(w, "stype");
    weir_json_text(w, weir_stype_name(table->stypes[c]));
    for (uint32_t i = 0; i < table->source->foreign_key_count && is_fine; i++) {
        const weir__catalog_key *key = &table->source->foreign_keys[i];
        if (key->column_count != 1 || key->columns[0] != c)
            continue;
        weir_json_key(w, "foreign_key");
        is_fine = weir__json_joined_name(w, ingest->env, key->parent_table, key->parent_columns[0], is_table,
                                         &ingest->catalog);
    }
    weir_json_end_object(w);
    return is_fine;
}

/* Keys of several columns. */
static void put_foreign_keys(weir_json_writer *w, const weir__catalog_table *table) {
    bool has_begun = false;
    for (uint32_t i = 0; i < table->foreign_key_count; i++) {
        const weir__catalog_key *key = &table->foreign_keys[i];
        if (key->column_count == 1)
            continue;
        if (!has_begun) {
            weir_json_key(w, "foreign_keys");
            weir_json_array(w);
        }
        has_begun = true;
        weir_json_object(w);
        weir_json_key(w, "columns");
        weir_json_array(w);
        for (uint32_t k = 0; k < key->column_count; k++)
            weir_json_text(w, table->columns[key->columns[k]].name);
        weir_json_end_array(w);
        weir_json_key(w, "table");
        weir_json_text(w, key->parent_table);
        weir_json_key(w, "to");
        weir_json_array(w);
        for (uint32_t k = 0; k < key->column_count; k++)
            weir_json_text(w, key->parent_columns[k]);
        weir_json_end_array(w);
        weir_json_end_object(w);
    }
    if (has_begun)
        weir_json_end_array(w);
}

static bool put_table(weir__ingest *ingest, weir_json_writer *w, const table_profile *table) {
    const weir__catalog_table *source = table->source;
    weir_json_key(w, source->name);
    weir_json_object(w);
    put_primary_key(w, source);
    for (uint32_t c = 0; c < source->column_count; c++)
        if (table->stypes[c] == WEIR_TIMESTAMP && name_says_time(source->columns[c].name)) {
            weir_json_key(w, "temporal_column");
            weir_json_text(w, source->columns[c].name);
            break;
        }
    put_foreign_keys(w, source);
    weir_json_key(w, "columns");
    weir_json_object(w);
    for (uint32_t c = 0; c < source->column_count; c++)
        if (!put_column(ingest, w, table, c))
            return false;
    weir_json_end_object(w);
    weir_json_end_object(w);
    return true;
}

static bool put_draft(weir__ingest *ingest, weir_json_writer *w, const table_profile *tables) {
    weir_json_object(w);
    weir_json_key(w, "name");
    weir_json_text(w, ingest->catalog.name);
    if (ingest->source.search_path_count > 0) {
        weir_json_key(w, "search_path");
        weir_json_array(w);
        for (uint32_t i = 0; i < ingest->source.search_path_count; i++)
            weir_json_text(w, ingest->source.search_path[i]);
        weir_json_end_array(w);
    }
    weir_json_key(w, "tables");
    weir_json_object(w);
    for (uint32_t t = 0; t < ingest->catalog.table_count; t++)
        if (!put_table(ingest, w, &tables[t]))
            return false;
    weir_json_end_object(w);
    weir_json_key(w, "embedding");
    weir_json_object(w);
    weir_json_key(w, "provider");
    weir_json_text(w, "hash_v1");
    weir_json_key(w, "dim");
    weir_json_uint(w, 256);
    weir_json_end_object(w);
    weir_json_end_object(w);
    return true;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(((const table_profile *)a)->source->name, ((const table_profile *)b)->source->name);
}

weir_status weir__draft_schema(weir__ingest *ingest, weir_json_writer *w, weir_error *error) {
    uint32_t count = ingest->catalog.table_count;
    uint64_t total = 0;
    weir_status status = WEIR_OK;
    draft_work work = {ingest, weir__allocate_zero(ingest->env, count, sizeof *work.tables)};
    if (!work.tables)
        return weir__out_of_memory(error, WEIR__INGEST_OPERATOR, count * sizeof *work.tables);
    for (uint32_t t = 0; t < count; t++) {
        work.tables[t].source = &ingest->catalog.tables[t];
        weir__arena_init(&work.tables[t].strings, ingest->env);
        total += ingest->catalog.tables[t].row_estimate;
    }
    if (count > 0)
        qsort(work.tables, count, sizeof *work.tables, compare_names);
    weir__begin_phase(ingest, "draft", total, ingest->catalog.size_bytes);
    weir__parallel(ingest->env, ingest->session_count, count, run_table, &work);
    for (uint32_t t = 0; t < count && status == WEIR_OK; t++) {
        status = work.tables[t].status;
        if (status != WEIR_OK && error)
            *error = work.tables[t].error;
    }
    if (status == WEIR_OK && !put_draft(ingest, w, work.tables))
        status = weir__out_of_memory(error, WEIR__INGEST_OPERATOR, 1);
    for (uint32_t t = 0; t < count; t++)
        profile_release(ingest, &work.tables[t]);
    weir__release(ingest->env, work.tables);
    return status;
}
