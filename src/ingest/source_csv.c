/* CSV files as a source, without any other library than zlib (and SQLite for queries).
 *
 * Opening reads every file once: the number of fields of every record is checked, rows are counted, and
 * each column gets the type that all of its fields have. Files have no snapshot: they must not change while
 * they are read, and a field that no longer fits its column's type is an error that says so. */
#include <stdio.h>
#include <string.h>

#include "ingest/convert.h"
#include "ingest/csv.h"

static weir_status no_memory(weir_error *error) {
    return weir_ingest__source_no_memory(error, 1);
}

/* ---- Names of columns ------------------------------------------------------------------------ */

static bool is_name_taken(const weir_ingest__csv_table *table, const char *name) {
    for (uint32_t i = 0; i < table->column_count; i++)
        if (strcmp(table->columns[i].name, name) == 0)
            return true;
    return false;
}

static weir_ingest__bytes trimmed(weir_ingest__bytes text) {
    while (text.size > 0 && (text.data[0] == ' ' || text.data[0] == '\t'))
        text = (weir_ingest__bytes){text.data + 1, text.size - 1};
    while (text.size > 0 && (text.data[text.size - 1] == ' ' || text.data[text.size - 1] == '\t'))
        text.size--;
    return text;
}

/* A column of that name, or of the first name that is free. A NUL in a name would end it early. */
static weir_status add_column(weir__arena *memory, weir_ingest__csv_table *table, weir_ingest__bytes name,
                              weir_error *error) {
    size_t capacity = name.size + 24;
    char *copy = weir__arena_take_zero(memory, capacity, 1);
    if (!copy)
        return no_memory(error);
    if (name.size == 0)
        snprintf(copy, capacity, "column%u", table->column_count);
    else
        memcpy(copy, name.data, name.size);
    size_t size = strlen(copy);
    for (unsigned number = 1; is_name_taken(table, copy); number++)
        snprintf(copy + size, capacity - size, "_%u", number);
    table->columns[table->column_count++] = (weir_ingest__csv_column){.name = copy};
    return WEIR_OK;
}

/* The columns that folders' names give come after those of the file. */
static weir_status name_folder_columns(weir__arena *memory, weir_ingest__csv_table *table,
                                       weir_error *error) {
    const weir_ingest__data_file *file = &table->files->files[0];
    table->file_column_count = table->column_count;
    for (uint32_t i = 0; i < file->value_count; i++) {
        const char *name = file->values[i].key;
        WEIR__TRY(add_column(memory, table, (weir_ingest__bytes){name, strlen(name)}, error));
    }
    return WEIR_OK;
}

static weir_status name_columns(weir__arena *memory, weir_ingest__csv_table *table,
                                const weir_ingest__csv_record *first, weir_error *error) {
    const weir_ingest__data_file *file = &table->files->files[0];
    table->columns =
        weir__arena_take_zero(memory, (size_t)first->field_count + file->value_count, sizeof *table->columns);
    if (!table->columns)
        return no_memory(error);
    for (uint32_t i = 0; i < first->field_count; i++) {
        weir_ingest__bytes name =
            table->dialect.has_header ? trimmed(first->fields[i]) : (weir_ingest__bytes){"", 0};
        if (!weir__utf8_is_valid(name.data, name.size) || memchr(name.data, 0, name.size))
            return WEIR_INGEST__SOURCE_ERROR(
                error,
                "%s: the name of column %u is not UTF-8 or has a NUL in it; convert the file, "
                "for example with iconv",
                file->path, i + 1);
        WEIR__TRY(add_column(memory, table, name, error));
    }
    return name_folder_columns(memory, table, error);
}

/* Where the columns of a further file are. Its names must be those of the first. */
static weir_status place_columns(weir__arena *memory, weir_ingest__csv_table *table, uint32_t number,
                                 const weir_ingest__csv_record *header, weir_error *error) {
    const weir_ingest__data_file *file = &table->files->files[number];
    weir_ingest__csv_table own = {.files = table->files, .dialect = table->dialect};
    weir__arena of_own;
    weir__arena_init(&of_own, memory->env);
    uint32_t *places = weir__arena_take_zero(memory, table->file_column_count, sizeof *places);
    weir_status status = places ? name_columns(&of_own, &own, header, error) : no_memory(error);
    for (uint32_t i = 0; i < table->file_column_count && status == WEIR_OK; i++) {
        uint32_t found = 0;
        while (found < own.file_column_count && strcmp(own.columns[found].name, table->columns[i].name) != 0)
            found++;
        if (found == own.file_column_count || own.file_column_count != table->file_column_count)
            status = WEIR_INGEST__SOURCE_ERROR(
                error, "%s and %s are parts of table %s but have other columns (%s)",
                table->files->files[0].path, file->path, table->files->name, table->columns[i].name);
        else
            places[i] = found;
    }
    weir__arena_release(&of_own);
    table->places[number] = places;
    return status;
}

/* ---- Looking at all of a table --------------------------------------------------------------- */

static weir_status check_count(const weir_ingest__csv_table *table, const char *path,
                               const weir_ingest__csv_record *record, weir_error *error) {
    if (record->field_count == table->file_column_count)
        return WEIR_OK;
    return WEIR_INGEST__SOURCE_ERROR(
        error,
        "%s, line %llu: %u fields, but the first record has %u (delimiter '%s%c', quote '%c'; say which "
        "with --delimiter and --quote, or \"csv\" in the schema)",
        path, (unsigned long long)record->line, record->field_count, table->file_column_count,
        table->dialect.delimiter == '\t' ? "\\" : "",
        table->dialect.delimiter == '\t' ? 't' : table->dialect.delimiter,
        table->dialect.quote ? table->dialect.quote : ' ');
}

static void see_folders(weir_ingest__csv_table *table, const weir_ingest__data_file *file) {
    for (size_t i = 0; i < file->value_count; i++) {
        const char *value = file->values[i].value ? file->values[i].value : "";
        weir_ingest__csv_profile_see(&table->columns[table->file_column_count + i].profile,
                                     (weir_ingest__bytes){value, strlen(value)}, &table->options);
    }
}

/* What was asked to end, while it is opened or read. */
static weir_status interrupted(const weir_ingest__csv_source *source, weir_error *error) {
    return WEIR_INGEST__SOURCE_ERROR(error, "reading %s was interrupted", source->files.name);
}

static weir_status look_at_file(weir_ingest__csv_source *source, weir_ingest__csv_table *table,
                                uint32_t number, weir_error *error) {
    weir__arena *memory = &source->base.memory;
    const weir_ingest__data_file *file = &table->files->files[number];
    weir_ingest__csv_reader *reader;
    weir_ingest__csv_record record = {0};
    WEIR__TRY(weir_ingest__csv_open(memory->env, file->path, &table->dialect, &reader, error));
    weir_status status = weir_ingest__csv_next(reader, &record, error);
    if (status == WEIR_OK && record.field_count == 0)
        status = WEIR_INGEST__SOURCE_ERROR(
            error, "%s is empty; delete it, or give it a line with the names of its columns", file->path);
    if (status == WEIR_OK && number == 0)
        status = name_columns(memory, table, &record, error);
    else if (status == WEIR_OK && table->dialect.has_header)
        status = place_columns(memory, table, number, &record, error);
    if (status == WEIR_OK && table->dialect.has_header)
        status = weir_ingest__csv_next(reader, &record, error);
    while (status == WEIR_OK && record.field_count > 0) {
        status = weir_ingest__source_is_cancelled(source->base.options)
                     ? interrupted(source, error)
                     : check_count(table, file->path, &record, error);
        if (status == WEIR_OK) {
            const uint32_t *places = table->places[number];
            for (uint32_t i = 0; i < table->file_column_count; i++)
                weir_ingest__csv_profile_see(&table->columns[i].profile,
                                             record.fields[places ? places[i] : i], &table->options);
            table->row_count++;
            status = weir_ingest__csv_next(reader, &record, error);
        }
    }
    weir_ingest__csv_close(reader);
    if (status == WEIR_OK)
        see_folders(table, file);
    return status;
}

/* Of a Parquet file only the folders are looked at: it says itself what is in it. */
static weir_status look_at_table(weir_ingest__csv_source *source, weir_ingest__csv_table *table,
                                 weir_error *error) {
    weir__arena *memory = &source->base.memory;
    const weir_ingest__data_table *files = table->files;
    if (!files->is_csv) {
        table->columns = weir__arena_take_zero(memory, files->files[0].value_count, sizeof *table->columns);
        WEIR__TRY(table->columns ? name_folder_columns(memory, table, error) : no_memory(error));
        for (uint32_t i = 0; i < files->file_count; i++)
            see_folders(table, &files->files[i]);
        return WEIR_OK;
    }
    table->places = weir__arena_take_zero(memory, files->file_count, sizeof *table->places);
    if (!table->places)
        return no_memory(error);
    WEIR__TRY(weir_ingest__csv_find_dialect(memory->env, files->files[0].path, &table->options,
                                            &table->dialect, error));
    for (uint32_t i = 0; i < files->file_count; i++)
        WEIR__TRY(look_at_file(source, table, i, error));
    return WEIR_OK;
}

/* What stands for null in all tables that do not say it, by what some column of them proves; then types. */
static void find_types(weir_ingest__csv_source *source, bool looks_for_nulls) {
    uint32_t proven = 0;
    for (size_t t = 0; t < source->files.count; t++)
        for (uint32_t c = 0; c < source->tables[t].column_count; c++)
            if (!source->tables[t].options.says_nulls && looks_for_nulls)
                proven |= weir_ingest__csv_proven_markers(&source->tables[t].columns[c].profile);
    for (int i = 0; i < WEIR_INGEST__CSV_MARKERS; i++)
        if (proven >> i & 1)
            source->found_nulls[source->found_null_count++] = weir_ingest__csv_markers[i];
    for (size_t t = 0; t < source->files.count; t++) {
        weir_ingest__csv_table *table = &source->tables[t];
        bool takes_found = !table->options.says_nulls;
        for (uint32_t c = 0; c < table->column_count; c++)
            table->columns[c].type =
                weir_ingest__csv_type_of(&table->columns[c].profile, takes_found ? proven : 0);
        if (takes_found) {
            table->options.nulls = source->found_nulls;
            table->options.null_count = source->found_null_count;
        }
    }
}

/* ---- Sessions -------------------------------------------------------------------------------- */

static void release(weir_ingest__table_source *source) {
    weir_ingest__data_files_release(&((weir_ingest__csv_source *)source)->files);
}

static weir_status look_at_all(weir_ingest__csv_source *source, const weir_ingest__csv_settings *settings,
                               weir_error *error) {
    source->tables = weir__arena_take_zero(&source->base.memory, source->files.count, sizeof *source->tables);
    if (!source->tables)
        return no_memory(error);
    for (size_t t = 0; t < source->files.count; t++) {
        source->tables[t].files = &source->files.tables[t];
        weir_ingest__csv_options options = settings->schema;
        for (uint32_t i = 0; i < settings->table_count; i++)
            if (strcmp(settings->tables[i].table, source->files.tables[t].name) == 0)
                options = weir_ingest__csv_options_join(&settings->tables[i].options, &options);
        source->tables[t].options = weir_ingest__csv_options_join(&settings->line, &options);
    }
    for (size_t t = 0; t < source->files.count; t++)
        WEIR__TRY(look_at_table(source, &source->tables[t], error));
    find_types(source, !settings->has_schema);
    return WEIR_OK;
}

weir_status weir_ingest__csv_source_open(const weir_env *env, const weir_ingest__source_options *options,
                                         weir_ingest__source **out, weir_error *error) {
    static const weir_ingest__csv_settings nothing;
    weir_ingest__source *session;
    WEIR__TRY(weir_ingest__table_source_make(env, options, &weir_ingest__source_csv,
                                             sizeof(weir_ingest__csv_source), release,
                                             "files have no schemas", &session, error));
    weir_ingest__csv_source *self = weir_ingest__table_shared(session);
    weir_status status = weir_ingest__find_data_files(env, options->location, &self->files, error);
    if (status == WEIR_OK)
        status = look_at_all(self, options->csv ? options->csv : &nothing, error);
    return weir_ingest__source_give(session, status, out);
}

/* Parquet files, and CSV files beside them, are DuckDB's. */
static bool accepts(const weir_env *env, const char *location) {
    weir_ingest__data_files files;
    if (!weir_ingest__is_data_files(env, location))
        return false;
    weir_status status = weir_ingest__find_data_files(env, location, &files, NULL);
    bool has_parquet = files.has_parquet;
    weir_ingest__data_files_release(&files);
    return status != WEIR_OK || !has_parquet;
}

/* Files that could not be listed when they were asked for may turn out to be DuckDB's: memory was short then.
 */
static weir_status open_files(const weir_env *env, const weir_ingest__source_options *options,
                              weir_ingest__source **out, weir_error *error) {
    WEIR__TRY(weir_ingest__csv_source_open(env, options, out, error));
    const weir_ingest__csv_source *source = weir_ingest__table_shared(*out);
    if (!source->files.has_parquet)
        return WEIR_OK;
    weir_ingest__source_close(*out);
    *out = NULL;
    return weir_ingest__source_duckdb.open(env, options, out, error);
}

/* ---- The catalog ----------------------------------------------------------------------------- */

static weir_status describe(weir_ingest__source *session, weir_ingest__catalog *out, weir_error *error) {
    static const weir_ingest__declared declared[] = {WEIR_INGEST__DECLARED_INTEGER,
                                                     WEIR_INGEST__DECLARED_REAL, WEIR_INGEST__DECLARED_TEXT};
    const weir_ingest__csv_source *source = weir_ingest__table_shared(session);
    weir_ingest__data_files_describe(&source->files, out);
    for (uint32_t t = 0; t < source->files.count; t++) {
        const weir_ingest__csv_table *from = &source->tables[t];
        weir_ingest__catalog_table *table = weir_ingest__catalog_add_numbered(out, from->files->name, t);
        if (!table)
            return no_memory(error);
        table->row_estimate = from->row_count;
        table->csv = from;
        for (uint32_t c = 0; c < from->column_count; c++)
            weir_ingest__catalog_add_column(out, table, from->columns[c].name,
                                            declared[from->columns[c].type]);
    }
    return WEIR_OK;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

typedef struct csv_cursor {
    weir_ingest__cursor base;
    const weir_ingest__csv_source *source;
    const weir_ingest__csv_table *table;
    size_t file; /* that is read, or the next one */
    size_t step;
    weir_ingest__csv_reader *reader; /* NULL between files */
    weir_ingest__value *row;
} csv_cursor;

static void close_cursor(weir_ingest__cursor *cursor) {
    weir_ingest__csv_close(((csv_cursor *)cursor)->reader);
    weir_ingest__cursor_free(cursor);
}

static bool read_integer(weir_ingest__bytes field, int64_t *out) {
    size_t sign = field.data[0] == '-' ? 1 : 0;
    uint64_t value = 0;
    if (field.size == sign)
        return false;
    for (size_t i = sign; i < field.size; i++)
        if (field.data[i] < '0' || field.data[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(field.data[i] - '0'), &value))
            return false;
    *out = (int64_t)(sign ? -value : value);
    return value <= (uint64_t)INT64_MAX + sign;
}

/* False if the field does not fit the type that the column had when it was opened. */
static bool to_value(const weir_ingest__csv_options *options, weir_ingest__csv_type type,
                     weir_ingest__bytes field, weir_ingest__value *out) {
    if (weir_ingest__csv_is_null(options, field)) {
        out->type = WEIR_INGEST__NULL;
        return true;
    }
    switch (type) {
    case WEIR_INGEST__CSV_INTEGER:
        out->type = WEIR_INGEST__INT;
        return read_integer(field, &out->integer);
    case WEIR_INGEST__CSV_REAL:
        out->type = WEIR_INGEST__REAL;
        return weir_ingest__parse_real(field.data, field.size, &out->real);
    default:
        *out = (weir_ingest__value){.type = WEIR_INGEST__TEXT, .text = field};
        return true;
    }
}

static weir_status fill_row(csv_cursor *self, const weir_ingest__csv_record *record, weir_error *error) {
    const weir_ingest__csv_table *table = self->table;
    const weir_ingest__data_file *file = &table->files->files[self->file];
    const uint32_t *places = table->places[self->file];
    bool fits = record->field_count == table->file_column_count;
    for (uint32_t i = 0; i < self->base.column_count && fits; i++) {
        uint32_t c = self->base.columns[i];
        weir_ingest__bytes field;
        if (c < table->file_column_count) {
            field = record->fields[places ? places[c] : c];
        } else {
            const char *value = file->values[c - table->file_column_count].value;
            field = (weir_ingest__bytes){value ? value : "", value ? strlen(value) : 0};
        }
        fits = to_value(&table->options, table->columns[c].type, field, &self->row[i]);
    }
    if (fits)
        return WEIR_OK;
    return WEIR_INGEST__SOURCE_ERROR(error, "%s, line %llu: the file was changed while it was read",
                                     file->path, (unsigned long long)record->line);
}

static weir_status next_row(weir_ingest__cursor *cursor, weir_ingest__rows *rows, weir_error *error) {
    csv_cursor *self = (csv_cursor *)cursor;
    const weir_ingest__csv_table *table = self->table;
    weir_ingest__csv_record record = {0};
    *rows = (weir_ingest__rows){.cells = self->row};
    if (weir_ingest__table_is_interrupted(&self->source->base))
        return interrupted(self->source, error);
    while (self->file < table->files->file_count) {
        if (!self->reader) {
            WEIR__TRY(weir_ingest__csv_open(cursor->memory.env, table->files->files[self->file].path,
                                            &table->dialect, &self->reader, error));
            if (table->dialect.has_header)
                WEIR__TRY(weir_ingest__csv_next(self->reader, &record, error));
        }
        WEIR__TRY(weir_ingest__csv_next(self->reader, &record, error));
        if (record.field_count > 0) {
            rows->row_count = 1;
            return fill_row(self, &record, error);
        }
        weir_ingest__csv_close(self->reader);
        self->reader = NULL;
        self->file += self->step;
    }
    return WEIR_OK;
}

/* Files `part`, `part + part_count`, … of the table. */
static weir_status scan(weir_ingest__source *source, const weir_ingest__catalog_table *table,
                        const uint32_t *columns, uint32_t column_count, uint32_t part, uint32_t part_count,
                        weir_ingest__cursor **out, weir_error *error) {
    const weir_ingest__csv_source *from = weir_ingest__table_shared(source);
    csv_cursor *self = weir_ingest__cursor_make(from->base.memory.env, sizeof *self, columns, column_count,
                                                next_row, close_cursor);
    if (!self)
        return no_memory(error);
    self->source = from;
    self->table = &from->tables[*(const uint32_t *)table->detail];
    self->file = part;
    self->step = part_count;
    self->row = weir__arena_take_zero(&self->base.memory, column_count, sizeof *self->row);
    return weir_ingest__cursor_give(&self->base, WEIR_OK, out, error);
}

const weir_ingest__source_kind weir_ingest__source_csv = {
    .name = "csv",
    .accepts = accepts,
    .open = open_files,
    .close = weir_ingest__table_session_close,
    .fork = weir_ingest__table_session_fork,
    .describe = describe,
    .scan = scan,
    .query = weir_ingest__table_query_run,
    .describe_query = weir_ingest__table_query_describe,
    .interrupt = weir_ingest__table_query_interrupt,
};
