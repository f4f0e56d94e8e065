/* The catalog of a DuckDB source: the tables and views of a database (what a bare name does not find is
 * called schema.table, and hidden from drafts), or the views of files (duckdb_files.c). DuckDB's own catalog
 * functions are read through the same cursors as everything else. */
#include <string.h>

#include "ingest/csv.h"
#include "ingest/duckdb_api.h"
#include "ingest/sql.h"

/* Runs a statement and calls `take` for each of its rows; false from it means that memory is short. */
static weir_status for_each_row(weir_ingest__duck_session *session, const char *statement, const char *what,
                                bool (*take)(void *context, const weir_ingest__value *cells), void *context,
                                weir_error *error) {
    weir_ingest__cursor *cursor;
    weir_ingest__rows rows = {.row_count = 1};
    weir_status status = weir_ingest__duck_start(session, statement, false, what, &cursor, error);
    if (status)
        return status;
    while (!status && rows.row_count > 0) {
        status = cursor->next(cursor, &rows, error);
        for (size_t r = 0; !status && r < rows.row_count; r++)
            if (!take(context, rows.cells + r * cursor->column_count))
                status = weir__out_of_memory(error, WEIR_INGEST__SOURCE_OPERATOR, 1);
    }
    cursor->close(cursor);
    return status;
}

weir_status weir_ingest__duck_run(weir_ingest__duck_session *session, const char *statement, const char *what,
                                  weir_error *error) {
    weir_ingest__duck_result result;
    weir_status status = WEIR_OK;
    if (session->api.query(session->connection, statement, &result) != 0)
        status = weir_ingest__duck_fail(error, what, session->api.result_error(&result));
    session->api.destroy_result(&result);
    return status;
}

static char *copy_cell(const weir_env *env, const weir_ingest__value *cell) {
    return weir__copy_text(env, cell->type == WEIR_INGEST__TEXT ? cell->text.data : "",
                           cell->type == WEIR_INGEST__TEXT ? cell->text.size : 0);
}

static bool cell_is(const weir_ingest__value *cell, const char *text) {
    return cell->type == WEIR_INGEST__TEXT && cell->text.size == strlen(text) &&
           memcmp(cell->text.data, text, cell->text.size) == 0;
}

/* ---- The catalog ----------------------------------------------------------------------------- */

static const char describing[] = "the catalog";

static weir_ingest__catalog_table *find_table(weir_ingest__catalog *catalog, const weir_ingest__value *schema,
                                              const weir_ingest__value *name) {
    for (uint32_t i = 0; i < catalog->table_count; i++)
        if (cell_is(schema, catalog->tables[i].schema) && cell_is(name, catalog->tables[i].bare))
            return &catalog->tables[i];
    return NULL;
}

static bool find_column(const weir_ingest__catalog_table *table, const weir_ingest__value *name,
                        uint32_t *out) {
    for (uint32_t i = 0; i < table->column_count; i++)
        if (cell_is(name, table->columns[i].name)) {
            *out = i;
            return true;
        }
    return false;
}

/* A row of (name, estimated rows, schema, whether a bare name finds it, whether it is a view to be read as a
 * query). */
static bool take_table(void *context, const weir_ingest__value *cells) {
    weir_ingest__catalog *catalog = context;
    char *name = copy_cell(catalog->env, &cells[0]), *schema = copy_cell(catalog->env, &cells[2]);
    weir_ingest__catalog_table *table =
        name && schema ? weir_ingest__catalog_add_table_of(catalog, schema, name, cells[3].integer == 1)
                       : NULL;
    weir__release(catalog->env, name);
    weir__release(catalog->env, schema);
    if (!table)
        return false;
    table->is_view = cells[4].integer == 1;
    table->is_hidden = table->is_hidden || table->is_view;
    weir_ingest__duck_table *detail = weir__allocate_zero(catalog->env, 1, sizeof *detail);
    table->detail = detail;
    if (detail && cells[1].type == WEIR_INGEST__INT && cells[1].integer > 0)
        detail->shared_rows = table->row_estimate = (uint64_t)cells[1].integer;
    return detail != NULL;
}

/* A row of (schema, table, column). */
static bool take_primary_key(void *context, const weir_ingest__value *cells) {
    weir_ingest__catalog *catalog = context;
    weir_ingest__catalog_table *table = find_table(catalog, &cells[0], &cells[1]);
    uint32_t column;
    return !table || !find_column(table, &cells[2], &column) ||
           weir_ingest__catalog_add_primary_key(catalog, table, column);
}

/* A row of (schema, table, column, parent table, parent column, place in the key); the key begins at place
 * 1. A parent is in its child's schema. */
static bool take_foreign_key(void *context, const weir_ingest__value *cells) {
    weir_ingest__catalog *catalog = context;
    weir_ingest__catalog_table *table = find_table(catalog, &cells[0], &cells[1]);
    weir_ingest__catalog_table *parent = find_table(catalog, &cells[0], &cells[3]);
    uint32_t column = UINT32_MAX, parent_column = UINT32_MAX;
    if (!table || !parent)
        return true;
    bool is_there = find_column(table, &cells[2], &column) && find_column(parent, &cells[4], &parent_column);
    if (cells[5].integer == 1 && !weir_ingest__catalog_add_foreign_key(catalog, table, parent->name))
        return false;
    weir_ingest__catalog_key *key = &table->foreign_keys[table->foreign_key_count - 1];
    return weir_ingest__catalog_add_key_columns(catalog, key, is_there ? column : UINT32_MAX,
                                                is_there ? parent->columns[parent_column].name : "");
}

/* Names and types of a table's columns, from a result without rows. */
static weir_status add_columns(weir_ingest__duck_session *session, weir_ingest__catalog *catalog,
                               weir_ingest__catalog_table *table, weir_error *error) {
    const weir_ingest__duck_api *api = &session->api;
    weir_ingest__sql sql = {.env = catalog->env};
    weir_ingest__sql_add(&sql, "SELECT * FROM %s LIMIT 0", table->sql_name);
    if (sql.failed) {
        weir_ingest__sql_release(&sql);
        return weir__out_of_memory(error, WEIR_INGEST__SOURCE_OPERATOR, sql.size);
    }
    weir_ingest__duck_result result;
    weir_status status = WEIR_OK;
    if (api->query(session->connection, sql.data, &result) != 0)
        status = weir_ingest__duck_fail(error, table->name, api->result_error(&result));
    uint64_t count = status ? 0 : api->column_count(&result);
    for (uint64_t i = 0; i < count && !status; i++)
        if (!weir_ingest__catalog_add_column(catalog, table, api->column_name(&result, i),
                                             weir_ingest__duck_declared(api->column_type(&result, i))))
            status = weir__out_of_memory(error, WEIR_INGEST__SOURCE_OPERATOR, 1);
    api->destroy_result(&result);
    weir_ingest__sql_release(&sql);
    return status;
}

typedef struct described_query {
    weir_ingest__catalog *catalog;
    weir_ingest__catalog_table *table;
} described_query;

/* A row of DESCRIBE begins with the column's name. */
static bool take_column(void *context, const weir_ingest__value *cells) {
    described_query *query = context;
    char *name = copy_cell(query->catalog->env, &cells[0]);
    bool is_added = name && weir_ingest__catalog_add_column(query->catalog, query->table, name,
                                                            WEIR_INGEST__DECLARED_NOTHING);
    weir__release(query->catalog->env, name);
    return is_added;
}

/* DESCRIBE only binds the query. It has the names as they are, where a subquery would make repeated ones
 * different. */
weir_status weir_ingest__duck_describe_query(weir_ingest__source *source, const char *query,
                                             weir_ingest__catalog *catalog, weir_ingest__catalog_table *table,
                                             weir_error *error) {
    weir_ingest__sql sql = {.env = catalog->env};
    described_query described = {catalog, table};
    weir_ingest__sql_add(&sql, "DESCRIBE ");
    weir_ingest__sql_add_text(&sql, query, weir_ingest__sql_trimmed_size(query));
    weir_status status = sql.failed ? weir__out_of_memory(error, WEIR_INGEST__SOURCE_OPERATOR, sql.size)
                                    : for_each_row((weir_ingest__duck_session *)source, sql.data, "the query",
                                                   take_column, &described, error);
    weir_ingest__sql_release(&sql);
    return status;
}

static weir_status add_keys(weir_ingest__duck_session *session, weir_ingest__catalog *catalog,
                            weir_error *error) {
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
    return status ? status : weir_ingest__catalog_resolve_keys(catalog, strcmp, error);
}

/* What a draft calls a database: the last part of its path without its ending. */
static weir_status describe_files(const weir_ingest__duck_session *session, weir_ingest__catalog *out,
                                  weir_error *error) {
    const weir_ingest__data_files *files = &weir_ingest__csv_source_of(session->files)->files;
    out->name = weir__copy_text(out->env, files->name, strlen(files->name));
    bool is_fine = out->name != NULL;
    for (size_t i = 0; i < files->skipped_count && is_fine; i++)
        is_fine = weir_ingest__catalog_add_skipped(out, files->skipped[i]);
    for (size_t t = 0; t < files->count; t++)
        for (size_t i = 0; i < files->tables[t].file_count; i++)
            out->size_bytes += weir_ingest__file_size(out->env, files->tables[t].files[i].path);
    return is_fine ? WEIR_OK : weir__out_of_memory(error, WEIR_INGEST__SOURCE_OPERATOR, 1);
}

static weir_status describe_database(const weir_ingest__duck_session *session, weir_ingest__catalog *out,
                                     weir_error *error) {
    out->name = weir_ingest__file_stem(out->env, session->options->location);
    out->size_bytes = weir_ingest__file_size(out->env, session->options->location);
    return out->name
               ? WEIR_OK
               : weir__out_of_memory(error, WEIR_INGEST__SOURCE_OPERATOR, strlen(session->options->location));
}

/* A row of (number of rows). */
static bool take_count(void *context, const weir_ingest__value *cells) {
    *(uint64_t *)context = cells[0].type == WEIR_INGEST__INT ? (uint64_t)cells[0].integer : 0;
    return true;
}

/* The rows of Parquet files, which say it at their ends. It only shows progress: what cannot be counted is
 * not known, and a file that is damaged is refused when it is read. */
static uint64_t count_rows(weir_ingest__duck_session *session, const weir_ingest__catalog_table *table) {
    weir_ingest__sql sql = {.env = session->base.env};
    uint64_t count = 0;
    weir_ingest__sql_add(&sql, "SELECT count(*) FROM %s", table->sql_name);
    bool is_counted =
        !sql.failed && for_each_row(session, sql.data, table->name, take_count, &count, NULL) == WEIR_OK;
    weir_ingest__sql_release(&sql);
    return is_counted ? count : 0;
}

/* A view of files is read as a table. */
static void take_as_files(weir_ingest__duck_session *session, weir_ingest__catalog_table *table) {
    const weir_ingest__csv_source *files = weir_ingest__csv_source_of(session->files);
    table->is_view = table->is_hidden = false;
    table->is_one_part = true;
    for (size_t t = 0; t < files->files.count; t++)
        if (files->files.tables[t].is_csv && strcmp(files->files.tables[t].name, table->name) == 0)
            table->csv = &files->tables[t];
    table->row_estimate = table->csv ? table->csv->row_count : count_rows(session, table);
}

static weir_status fill(weir_ingest__duck_session *session, weir_ingest__catalog *out, weir_error *error) {
    weir_status status =
        session->has_files ? describe_files(session, out, error) : describe_database(session, out, error);
    if (status)
        return status;
    /* Bare names find what is first on the search path. Views of files are read as
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
    status = for_each_row(session, tables, describing, take_table, out, error);
    for (uint32_t i = 0; i < out->table_count && !status; i++) {
        weir_ingest__catalog_table *table = &out->tables[i];
        if (session->has_files)
            take_as_files(session, table);
        if (!table->is_view)
            status = add_columns(session, out, table, error);
    }
    return status ? status : add_keys(session, out, error);
}

weir_status weir_ingest__duck_describe(weir_ingest__source *source, weir_ingest__catalog *out,
                                       weir_error *error) {
    *out = (weir_ingest__catalog){.env = source->env};
    weir_status status = fill((weir_ingest__duck_session *)source, out, error);
    if (status)
        weir_ingest__catalog_release(out);
    return status;
}
