/* The catalog of a DuckDB source: the tables and views of a database (what a bare name does not find is
 * called schema.table, and hidden from drafts), or the views of files (duckdb_files.c). DuckDB's own catalog
 * functions are read through the same cursors as everything else. */
#include <string.h>

#include "ingest/csv.h"
#include "ingest/duckdb_api.h"
#include "ingest/sql.h"

/* What the rows of a statement are for. */
typedef struct row_taker {
    weir_ingest__catalog *catalog;
    weir_ingest__catalog_table *table; /* of columns */
    uint64_t count;                    /* of rows, that one of them says */
} row_taker;

/* Runs a statement and calls `take` for each of its rows. */
static weir_status for_each_row(weir_ingest__duck_session *session, const char *statement, const char *what,
                                void (*take)(row_taker *taker, const weir_ingest__value *cells),
                                row_taker *taker, weir_error *error) {
    weir_ingest__cursor *cursor;
    weir_ingest__rows rows = {.row_count = 1};
    WEIR__TRY(weir_ingest__duck_start(session, statement, false, what, "", &cursor, error));
    weir_status status = WEIR_OK;
    while (!status && rows.row_count > 0) {
        status = cursor->next(cursor, &rows, error);
        for (size_t r = 0; !status && r < rows.row_count; r++) {
            take(taker, rows.cells + r * cursor->column_count);
            if (taker->catalog->memory.is_short)
                status = weir_ingest__source_no_memory(error, 0);
        }
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

/* The text of a cell, terminated; NULL if memory is short. */
static const char *copy_cell(weir_ingest__catalog *catalog, const weir_ingest__value *cell) {
    bool is_text = cell->type == WEIR_INGEST__TEXT;
    return weir__arena_text(&catalog->memory, is_text ? cell->text.data : "", is_text ? cell->text.size : 0);
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
static void take_table(row_taker *taker, const weir_ingest__value *cells) {
    weir_ingest__catalog *catalog = taker->catalog;
    const char *name = copy_cell(catalog, &cells[0]), *schema = copy_cell(catalog, &cells[2]);
    weir_ingest__catalog_table *table =
        name && schema ? weir_ingest__catalog_add_table_of(catalog, schema, name, cells[3].integer == 1)
                       : NULL;
    weir_ingest__duck_table *detail = weir__arena_take_zero(&catalog->memory, 1, sizeof *detail);
    if (!table || !detail)
        return;
    table->is_view = cells[4].integer == 1;
    table->is_hidden = table->is_hidden || table->is_view;
    table->detail = detail;
    if (cells[1].type == WEIR_INGEST__INT && cells[1].integer > 0)
        detail->shared_rows = table->row_estimate = (uint64_t)cells[1].integer;
}

/* A row of (schema, table, column). */
static void take_primary_key(row_taker *taker, const weir_ingest__value *cells) {
    weir_ingest__catalog_table *table = find_table(taker->catalog, &cells[0], &cells[1]);
    uint32_t column;
    if (table && find_column(table, &cells[2], &column))
        weir_ingest__catalog_add_primary_key(taker->catalog, table, column);
}

/* A row of (schema, table, column, parent table, parent column, place in the key); the key begins at place
 * 1. A parent is in its child's schema. */
static void take_foreign_key(row_taker *taker, const weir_ingest__value *cells) {
    weir_ingest__catalog *catalog = taker->catalog;
    weir_ingest__catalog_table *table = find_table(catalog, &cells[0], &cells[1]);
    weir_ingest__catalog_table *parent = find_table(catalog, &cells[0], &cells[3]);
    uint32_t column = UINT32_MAX, parent_column = UINT32_MAX;
    if (!table || !parent)
        return;
    bool is_there = find_column(table, &cells[2], &column) && find_column(parent, &cells[4], &parent_column);
    if (cells[5].integer == 1 && !weir_ingest__catalog_add_foreign_key(catalog, table, parent->name))
        return;
    weir_ingest__catalog_key *key = &table->foreign_keys[table->foreign_key_count - 1];
    weir_ingest__catalog_add_key_columns(catalog, key, is_there ? column : UINT32_MAX,
                                         is_there ? parent->columns[parent_column].name : "");
}

/* Names and types of a table's columns, from a result without rows. */
static weir_status add_columns(weir_ingest__duck_session *session, weir_ingest__catalog *catalog,
                               weir_ingest__catalog_table *table, weir_error *error) {
    const weir_ingest__duck_api *api = &session->api;
    weir_ingest__sql sql = {.env = session->base.env};
    weir_ingest__sql_add(&sql, "SELECT * FROM %s LIMIT 0", table->sql_name);
    if (sql.failed) {
        weir_ingest__sql_release(&sql);
        return weir_ingest__source_no_memory(error, sql.size);
    }
    weir_ingest__duck_result result;
    weir_status status = WEIR_OK;
    if (api->query(session->connection, sql.data, &result) != 0)
        status = weir_ingest__duck_fail(error, table->name, api->result_error(&result));
    uint64_t count = status ? 0 : api->column_count(&result);
    for (uint64_t i = 0; i < count; i++)
        weir_ingest__catalog_add_column(catalog, table, api->column_name(&result, i),
                                        weir_ingest__duck_declared(api->column_type(&result, i)));
    if (!status && catalog->memory.is_short)
        status = weir_ingest__source_no_memory(error, count);
    api->destroy_result(&result);
    weir_ingest__sql_release(&sql);
    return status;
}

/* A row of DESCRIBE begins with the column's name. */
static void take_column(row_taker *taker, const weir_ingest__value *cells) {
    const char *name = copy_cell(taker->catalog, &cells[0]);
    if (name)
        weir_ingest__catalog_add_column(taker->catalog, taker->table, name, WEIR_INGEST__DECLARED_NOTHING);
}

/* DESCRIBE only binds the query. It has the names as they are, where a subquery would make repeated ones
 * different. */
weir_status weir_ingest__duck_describe_query(weir_ingest__source *source, const char *query,
                                             weir_ingest__catalog *catalog, weir_ingest__catalog_table *table,
                                             weir_error *error) {
    weir_ingest__sql sql = {.env = source->env};
    row_taker columns = {.catalog = catalog, .table = table};
    weir_ingest__sql_add(&sql, "DESCRIBE ");
    weir_ingest__sql_add_text(&sql, query, weir_ingest__sql_trimmed_size(query));
    weir_status status = sql.failed ? weir_ingest__source_no_memory(error, sql.size)
                                    : for_each_row((weir_ingest__duck_session *)source, sql.data, "the query",
                                                   take_column, &columns, error);
    weir_ingest__sql_release(&sql);
    return status;
}

static weir_status add_keys(weir_ingest__duck_session *session, row_taker *keys, weir_error *error) {
    WEIR__TRY(for_each_row(session,
                           "SELECT schema_name, table_name, unnest(constraint_column_names) "
                           "FROM duckdb_constraints() WHERE database_name = current_database() "
                           "AND constraint_type = 'PRIMARY KEY'",
                           describing, take_primary_key, keys, error));
    WEIR__TRY(for_each_row(session,
                           "SELECT schema_name, table_name, constraint_column_names[place], "
                           "referenced_table, referenced_column_names[place], place FROM (SELECT *, "
                           "unnest(range(1, len(constraint_column_names) + 1)) AS place "
                           "FROM duckdb_constraints() WHERE database_name = current_database() "
                           "AND constraint_type = 'FOREIGN KEY') "
                           "ORDER BY schema_name, table_name, constraint_index, place",
                           describing, take_foreign_key, keys, error));
    weir_ingest__catalog_resolve_keys(keys->catalog, strcmp);
    return WEIR_OK;
}

/* A row of (number of rows). */
static void take_count(row_taker *taker, const weir_ingest__value *cells) {
    taker->count = cells[0].type == WEIR_INGEST__INT ? (uint64_t)cells[0].integer : 0;
}

/* The rows of Parquet files, which say it at their ends. It only shows progress: what cannot be counted is
 * not known, and a file that is damaged is refused when it is read. */
static uint64_t count_rows(weir_ingest__duck_session *session, weir_ingest__catalog *catalog,
                           const weir_ingest__catalog_table *table) {
    weir_ingest__sql sql = {.env = session->base.env};
    row_taker rows = {.catalog = catalog};
    weir_ingest__sql_add(&sql, "SELECT count(*) FROM %s", table->sql_name);
    bool is_counted =
        !sql.failed && for_each_row(session, sql.data, table->name, take_count, &rows, NULL) == WEIR_OK;
    weir_ingest__sql_release(&sql);
    return is_counted ? rows.count : 0;
}

static const weir_ingest__csv_source *files_of(const weir_ingest__duck_session *session) {
    return weir_ingest__table_shared(session->files);
}

/* A view of files is read as a table. */
static void take_as_files(weir_ingest__duck_session *session, weir_ingest__catalog *catalog,
                          weir_ingest__catalog_table *table) {
    const weir_ingest__csv_source *files = files_of(session);
    table->is_view = table->is_hidden = false;
    table->is_one_part = true;
    for (size_t t = 0; t < files->files.count; t++)
        if (files->files.tables[t].is_csv && strcmp(files->files.tables[t].name, table->name) == 0)
            table->csv = &files->tables[t];
    table->row_estimate = table->csv ? table->csv->row_count : count_rows(session, catalog, table);
}

weir_status weir_ingest__duck_describe(weir_ingest__source *source, weir_ingest__catalog *out,
                                       weir_error *error) {
    /* Bare names find what is first on the search path. */
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
    weir_ingest__duck_session *session = (weir_ingest__duck_session *)source;
    row_taker rows = {.catalog = out};
    if (session->has_files)
        weir_ingest__data_files_describe(&files_of(session)->files, out);
    else
        weir_ingest__catalog_set_file(out, session->base.options->location);
    WEIR__TRY(for_each_row(session, tables, describing, take_table, &rows, error));
    for (uint32_t i = 0; i < out->table_count; i++) {
        weir_ingest__catalog_table *table = &out->tables[i];
        if (session->has_files)
            take_as_files(session, out, table);
        if (!table->is_view)
            WEIR__TRY(add_columns(session, out, table, error));
    }
    return add_keys(session, &rows, error);
}
