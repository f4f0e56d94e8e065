/* The catalog of a DuckDB source: the tables and views of a database (what a bare name does not find is
 * called schema.table, and hidden from drafts), or the views of a folder's files (one table a file, named as
 * the file without its ending; no keys). DuckDB's own catalog functions are read through the same cursors as
 * everything else. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "ingest/duckdb_api.h"
#include "ingest/sql.h"

/* Runs a statement and calls `take` for each of its rows; false from it means that memory is short. */
static weir_status for_each_row(weir__duck_session *session, const char *statement, const char *what,
                                bool (*take)(void *context, const weir__value *cells), void *context,
                                weir_error *error) {
    weir__cursor *cursor;
    weir__rows rows = {.row_count = 1};
    weir_status status = weir__duck_start(session, statement, false, what, &cursor, error);
    if (status)
        return status;
    while (!status && rows.row_count > 0) {
        status = cursor->next(cursor, &rows, error);
        for (size_t r = 0; !status && r < rows.row_count; r++)
            if (!take(context, rows.cells + r * cursor->column_count))
                status = weir__out_of_memory(error, WEIR__SOURCE_OPERATOR, 1);
    }
    cursor->close(cursor);
    return status;
}

weir_status weir__duck_run(weir__duck_session *session, const char *statement, const char *what,
                           weir_error *error) {
    weir__duck_result result;
    weir_status status = WEIR_OK;
    if (session->api.query(session->connection, statement, &result) != 0)
        status = weir__duck_fail(error, what, session->api.result_error(&result));
    session->api.destroy_result(&result);
    return status;
}

static const weir_env *env_of(const weir__duck_session *session) {
    return session->base.env;
}

static char *copy_cell(const weir_env *env, const weir__value *cell) {
    return weir__copy_text(env, cell->type == WEIR__TEXT ? cell->text.data : "",
                           cell->type == WEIR__TEXT ? cell->text.size : 0);
}

static bool cell_is(const weir__value *cell, const char *text) {
    return cell->type == WEIR__TEXT && cell->text.size == strlen(text) &&
           memcmp(cell->text.data, text, cell->text.size) == 0;
}

/* ---- Files ----------------------------------------------------------------------------------- */

typedef struct data_file {
    char *path;
    char *table;
    bool is_csv;
} data_file;

typedef struct file_list {
    const weir_env *env;
    data_file *files;
    size_t count;
    size_t capacity;
} file_list;

/* The ending that makes a file a table, NULL where it is none. */
static const char *data_ending(const char *name, size_t size) {
    static const char *const endings[] = {".parquet", ".csv", ".csv.gz"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t ending_size = strlen(endings[i]);
        if (size > ending_size && memcmp(name + size - ending_size, endings[i], ending_size) == 0)
            return endings[i];
    }
    return NULL;
}

static bool take_file(void *context, const weir__value *cells) {
    file_list *list = context;
    char *path = copy_cell(list->env, &cells[0]);
    if (!path)
        return false;
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *ending = data_ending(name, strlen(name));
    if (!ending || *name == '.') {
        weir__release(list->env, path);
        return true;
    }
    char *table = weir__copy_text(list->env, name, strlen(name) - strlen(ending));
    if (!table || !weir__grow(list->env, (void **)&list->files, &list->capacity, list->count + 1,
                              sizeof *list->files)) {
        weir__release(list->env, path);
        weir__release(list->env, table);
        return false;
    }
    list->files[list->count++] =
        (data_file){.path = path, .table = table, .is_csv = strcmp(ending, ".parquet") != 0};
    return true;
}

/* A pattern that matches all files of a folder: what would be special in its name is put in brackets. */
static void add_pattern(weir__sql *sql, const char *folder) {
    weir__sql pattern = {.env = sql->env};
    for (const char *at = folder; *at; at++)
        weir__sql_add(&pattern, strchr("*?[", *at) ? "[%c]" : "%c", *at);
    weir__sql_add(&pattern, "/*");
    sql->failed = sql->failed || pattern.failed;
    if (!sql->failed)
        weir__sql_add_literal(sql, pattern.data);
    weir__sql_release(&pattern);
}

static weir_status list_files(weir__duck_session *session, file_list *list, weir_error *error) {
    weir__sql sql = {.env = env_of(session)};
    weir__sql_add(&sql, "SELECT file FROM glob(");
    add_pattern(&sql, session->options->location);
    weir__sql_add(&sql, ") ORDER BY file");
    weir_status status =
        sql.failed ? weir__out_of_memory(error, WEIR__SOURCE_OPERATOR, sql.size)
                   : for_each_row(session, sql.data, session->options->location, take_file, list, error);
    weir__sql_release(&sql);
    if (!status && list->count == 0)
        status = weir__fail(error, WEIR_SOURCE_ERROR, WEIR__SOURCE_OPERATOR,
                            "%s has no .parquet, .csv or .csv.gz file", session->options->location);
    for (size_t i = 0; i < list->count && !status; i++)
        for (size_t j = 0; j < i && !status; j++)
            if (strcmp(list->files[i].table, list->files[j].table) == 0)
                status = weir__fail(error, WEIR_SOURCE_ERROR, WEIR__SOURCE_OPERATOR,
                                    "%s and %s would both be table %s; rename one", list->files[j].path,
                                    list->files[i].path, list->files[i].table);
    return status;
}

static bool take_text(void *context, const weir__value *cells) {
    weir__sql *sql = context;
    if (cells[0].type == WEIR__TEXT)
        weir__sql_add_text(sql, cells[0].text.data, cells[0].text.size);
    return !sql->failed;
}

/* The arguments of read_csv that a file's whole content asks for (dialect, names and types), so that no row
 * can contradict them and every scan reads it alike. (The call that sniff_csv itself proposes does not
 * quote names.) */
static const char csv_arguments[] =
    "SELECT 'auto_detect = false, delim = ' || weir_literal(Delimiter) || ', quote = ' || "
    "weir_literal(Quote) "
    "|| ', escape = ' || weir_literal(Escape) || ', new_line = ' || weir_literal(NewLineDelimiter) "
    "|| ', comment = ' || weir_literal(Comment) || ', skip = ' || SkipRows || ', header = ' || HasHeader "
    "|| coalesce(', dateformat = ' || weir_literal(DateFormat), '') "
    "|| coalesce(', timestampformat = ' || weir_literal(TimestampFormat), '') || ', columns = {' "
    "|| array_to_string([weir_literal(c.name) || ': ' || weir_literal(c.type) "
    "for c in Columns], ', ') || '}' FROM sniff_csv(";
static const char literal_macro[] =
    "CREATE OR REPLACE TEMP MACRO weir_literal(t) AS "
    "'''' || replace(CASE t WHEN '(empty)' THEN '' ELSE t END, '''', '''''') || ''''";

static weir_status add_csv_arguments(weir__duck_session *session, weir__sql *sql, const char *path,
                                     weir_error *error) {
    weir__sql sniff = {.env = env_of(session)};
    weir__sql_add_text(&sniff, csv_arguments, sizeof csv_arguments - 1);
    weir__sql_add_literal(&sniff, path);
    weir__sql_add(&sniff, ", sample_size = -1)");
    weir_status status = sniff.failed ? weir__out_of_memory(error, WEIR__SOURCE_OPERATOR, sniff.size)
                                      : weir__duck_run(session, literal_macro, path, error);
    if (!status)
        status = for_each_row(session, sniff.data, path, take_text, sql, error);
    weir__sql_release(&sniff);
    return status;
}

static weir_status add_reader(weir__duck_session *session, weir__sql *sql, const data_file *file,
                              weir_error *error) {
    weir_status status = WEIR_OK;
    weir__sql_add(sql, file->is_csv ? "read_csv(" : "read_parquet(");
    weir__sql_add_literal(sql, file->path);
    weir__sql_add(sql, ", ");
    if (file->is_csv)
        status = add_csv_arguments(session, sql, file->path, error);
    else
        weir__sql_add(sql, "hive_partitioning = false");
    weir__sql_add(sql, ")");
    return status;
}

static weir_status view_file(weir__duck_session *session, const data_file *file, weir_error *error) {
    weir__sql sql = {.env = env_of(session)};
    weir__sql_add(&sql, "CREATE VIEW ");
    weir__sql_add_identifier(&sql, file->table);
    weir__sql_add(&sql, " AS SELECT * FROM ");
    weir_status status = add_reader(session, &sql, file, error);
    if (!status && sql.failed)
        status = weir__out_of_memory(error, WEIR__SOURCE_OPERATOR, sql.size);
    if (!status)
        status = weir__duck_run(session, sql.data, file->path, error);
    weir__sql_release(&sql);
    return status;
}

weir_status weir__duck_view_files(weir__duck_session *session, weir_error *error) {
    file_list list = {.env = env_of(session)};
    weir_status status = list_files(session, &list, error);
    for (size_t i = 0; i < list.count; i++) {
        if (!status)
            status = view_file(session, &list.files[i], error);
        weir__release(list.env, list.files[i].path);
        weir__release(list.env, list.files[i].table);
    }
    weir__release(list.env, list.files);
    return status;
}

/* ---- The catalog ----------------------------------------------------------------------------- */

static const char describing[] = "the catalog";

static weir__catalog_table *find_table(weir__catalog *catalog, const weir__value *schema,
                                       const weir__value *name) {
    for (uint32_t i = 0; i < catalog->table_count; i++)
        if (cell_is(schema, catalog->tables[i].schema) && cell_is(name, catalog->tables[i].bare))
            return &catalog->tables[i];
    return NULL;
}

static bool find_column(const weir__catalog_table *table, const weir__value *name, uint32_t *out) {
    for (uint32_t i = 0; i < table->column_count; i++)
        if (cell_is(name, table->columns[i].name)) {
            *out = i;
            return true;
        }
    return false;
}

/* A row of (name, estimated rows, schema, whether a bare name finds it, whether it is a view to be read as a
 * query). */
static bool take_table(void *context, const weir__value *cells) {
    weir__catalog *catalog = context;
    char *name = copy_cell(catalog->env, &cells[0]), *schema = copy_cell(catalog->env, &cells[2]);
    weir__catalog_table *table =
        name && schema ? weir__catalog_add_table_of(catalog, schema, name, cells[3].integer == 1) : NULL;
    weir__release(catalog->env, name);
    weir__release(catalog->env, schema);
    if (!table)
        return false;
    table->is_view = cells[4].integer == 1;
    table->is_hidden = table->is_hidden || table->is_view;
    weir__duck_table *detail = weir__allocate_zero(catalog->env, 1, sizeof *detail);
    table->detail = detail;
    if (detail && cells[1].type == WEIR__INT && cells[1].integer > 0)
        detail->shared_rows = table->row_estimate = (uint64_t)cells[1].integer;
    return detail != NULL;
}

/* A row of (schema, table, column). */
static bool take_primary_key(void *context, const weir__value *cells) {
    weir__catalog *catalog = context;
    weir__catalog_table *table = find_table(catalog, &cells[0], &cells[1]);
    uint32_t column;
    return !table || !find_column(table, &cells[2], &column) ||
           weir__catalog_add_primary_key(catalog, table, column);
}

/* A row of (schema, table, column, parent table, parent column, place in the key); the key begins at place
 * 1. A parent is in its child's schema. */
static bool take_foreign_key(void *context, const weir__value *cells) {
    weir__catalog *catalog = context;
    weir__catalog_table *table = find_table(catalog, &cells[0], &cells[1]);
    weir__catalog_table *parent = find_table(catalog, &cells[0], &cells[3]);
    uint32_t column = UINT32_MAX, parent_column = UINT32_MAX;
    if (!table || !parent)
        return true;
    bool is_there = find_column(table, &cells[2], &column) && find_column(parent, &cells[4], &parent_column);
    if (cells[5].integer == 1 && !weir__catalog_add_foreign_key(catalog, table, parent->name))
        return false;
    weir__catalog_key *key = &table->foreign_keys[table->foreign_key_count - 1];
    return weir__catalog_add_key_columns(catalog, key, is_there ? column : UINT32_MAX,
                                         is_there ? parent->columns[parent_column].name : "");
}

/* Names and types of a table's columns, from a result without rows. */
static weir_status add_columns(weir__duck_session *session, weir__catalog *catalog,
                               weir__catalog_table *table, weir_error *error) {
    const weir__duck_api *api = &session->api;
    weir__sql sql = {.env = catalog->env};
    weir__sql_add(&sql, "SELECT * FROM %s LIMIT 0", table->sql_name);
    if (sql.failed) {
        weir__sql_release(&sql);
        return weir__out_of_memory(error, WEIR__SOURCE_OPERATOR, sql.size);
    }
    weir__duck_result result;
    weir_status status = WEIR_OK;
    if (api->query(session->connection, sql.data, &result) != 0)
        status = weir__duck_fail(error, table->name, api->result_error(&result));
    uint64_t count = status ? 0 : api->column_count(&result);
    for (uint64_t i = 0; i < count && !status; i++)
        if (!weir__catalog_add_column(catalog, table, api->column_name(&result, i),
                                      weir__duck_declared(api->column_type(&result, i))))
            status = weir__out_of_memory(error, WEIR__SOURCE_OPERATOR, 1);
    api->destroy_result(&result);
    weir__sql_release(&sql);
    return status;
}

typedef struct described_query {
    weir__catalog *catalog;
    weir__catalog_table *table;
} described_query;

/* A row of DESCRIBE begins with the column's name. */
static bool take_column(void *context, const weir__value *cells) {
    described_query *query = context;
    char *name = copy_cell(query->catalog->env, &cells[0]);
    bool is_added =
        name && weir__catalog_add_column(query->catalog, query->table, name, WEIR__DECLARED_NOTHING);
    weir__release(query->catalog->env, name);
    return is_added;
}

/* DESCRIBE only binds the query. It has the names as they are, where a subquery would make repeated ones
 * different. */
weir_status weir__duck_describe_query(weir__source *source, const char *query, weir__catalog *catalog,
                                      weir__catalog_table *table, weir_error *error) {
    weir__sql sql = {.env = catalog->env};
    described_query described = {catalog, table};
    weir__sql_add(&sql, "DESCRIBE ");
    weir__sql_add_text(&sql, query, weir__sql_trimmed_size(query));
    weir_status status = sql.failed ? weir__out_of_memory(error, WEIR__SOURCE_OPERATOR, sql.size)
                                    : for_each_row((weir__duck_session *)source, sql.data, "the query",
                                                   take_column, &described, error);
    weir__sql_release(&sql);
    return status;
}

static weir_status add_keys(weir__duck_session *session, weir__catalog *catalog, weir_error *error) {
    weir_status status = for_each_row(session,
                                      "SELECT schema_name, table_name, unnest(constraint_column_names) "
                                      "FROM duckdb_constraints() WHERE database_name = current_database() "
                                      "AND constraint_type = 'PRIMARY KEY'",
                                      describing, take_primary_key, catalog, error);
    if (status)
        return status;
    status = for_each_row(session,
                          "SELECT schema_name, table_name, constraint_column_names[place], "
                          "referenced_table, referenced_column_names[place], place FROM (SELECT *, "
                          "unnest(range(1, len(constraint_column_names) + 1)) AS place "
                          "FROM duckdb_constraints() WHERE database_name = current_database() "
                          "AND constraint_type = 'FOREIGN KEY') "
                          "ORDER BY schema_name, table_name, constraint_index, place",
                          describing, take_foreign_key, catalog, error);
    return status ? status : weir__catalog_resolve_keys(catalog, strcmp, error);
}

/* What a draft calls the source: the last part of the path without its ending. */
static char *name_of(const weir_env *env, const char *location) {
    size_t size = strlen(location);
    while (size > 1 && location[size - 1] == '/')
        size--;
    size_t start = size;
    while (start > 0 && location[start - 1] != '/')
        start--;
    const char *point = memrchr(location + start, '.', size - start);
    size_t end = point && point > location + start ? (size_t)(point - location) : size;
    return weir__copy_text(env, location + start, end - start);
}

static void add_size(const weir__duck_session *session, weir__catalog *catalog) {
    const weir_env *env = catalog->env;
    int file = session->is_directory ? -1 : env->open(env->context, session->options->location, O_RDONLY, 0);
    if (file < 0)
        return;
    if (env->size(env->context, file, &catalog->size_bytes) != 0)
        catalog->size_bytes = 0;
    env->close(env->context, file);
}

static weir_status fill(weir__duck_session *session, weir__catalog *out, weir_error *error) {
    out->name = name_of(out->env, session->options->location);
    if (!out->name)
        return weir__out_of_memory(error, WEIR__SOURCE_OPERATOR, strlen(session->options->location));
    add_size(session, out);
    /* Bare names find what is first on the search path. The files of a folder are views that are read as
     * tables. */
    static const char tables[] =
        "WITH given AS (SELECT CASE WHEN len(current_schemas(false)) = 0 THEN [current_schema()] "
        "ELSE current_schemas(false) END AS schemas), path AS (SELECT unnest(schemas) AS schema, "
        "generate_subscripts(schemas, 1) AS place FROM given), all_tables AS (SELECT table_name AS name, "
        "estimated_size AS rows, schema_name AS schema, 0 AS is_view FROM duckdb_tables() WHERE NOT internal "
        "AND database_name = current_database() UNION ALL SELECT view_name, NULL, schema_name, 1 "
        "FROM duckdb_views() WHERE NOT internal AND database_name = current_database()), placed AS "
        "(SELECT *, (SELECT min(place) FROM path WHERE path.schema = all_tables.schema) AS place "
        "FROM all_tables) SELECT name, rows, schema, CASE WHEN place = min(place) OVER (PARTITION BY name) "
        "THEN 1 ELSE 0 END, is_view FROM placed ORDER BY schema, name";
    weir_status status = for_each_row(session, tables, describing, take_table, out, error);
    for (uint32_t i = 0; i < out->table_count && !status; i++) {
        weir__catalog_table *table = &out->tables[i];
        if (session->is_directory)
            table->is_view = table->is_hidden = false;
        if (!table->is_view)
            status = add_columns(session, out, table, error);
    }
    return status ? status : add_keys(session, out, error);
}

weir_status weir__duck_describe(weir__source *source, weir__catalog *out, weir_error *error) {
    *out = (weir__catalog){.env = source->env};
    weir_status status = fill((weir__duck_session *)source, out, error);
    if (status)
        weir__catalog_release(out);
    return status;
}
