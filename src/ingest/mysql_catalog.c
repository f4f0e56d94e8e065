/* The catalog of a MySQL database: its tables and views, their columns in declared order, and their keys,
 * from information_schema. Tables of other databases on the same server are not listed; a query may read
 * them. Sequences, which MariaDB keeps as tables, are not listed either. Of views only the names are taken
 * down.
 *
 * Answers come in the order of the tables' names by bytes, so that a table is found by bisection; a server
 * that gives another order is refused. */
#include <stdio.h>
#include <string.h>

#include "ingest/mysql.h"

static const char describing[] = "cannot read the database's catalog";

static weir_status bad_answer(weir_error *error) {
    return WEIR_INGEST__SOURCE_ERROR(
        error, "%s: the server's lists of tables, columns and keys are not in order", describing);
}

static weir_status out_of_memory(weir_error *error) {
    return weir_ingest__source_no_memory(error, sizeof(weir_ingest__catalog_table));
}

static weir_ingest__catalog_table *find_table(const weir_ingest__catalog *catalog, const char *name) {
    uint32_t low = 0, high = catalog->table_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (strcmp(catalog->tables[middle].bare, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    bool is_found = low < catalog->table_count && strcmp(catalog->tables[low].bare, name) == 0;
    return is_found ? &catalog->tables[low] : NULL;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static weir_status add_table(weir_ingest__catalog *catalog, const weir_ingest__text_rows *rows, size_t row,
                             weir_error *error) {
    const char *name = weir_ingest__text_rows_cell(rows, row, 0);
    const char *kind = weir_ingest__text_rows_cell(rows, row, 1);
    if (catalog->table_count > 0 && strcmp(catalog->tables[catalog->table_count - 1].bare, name) >= 0)
        return bad_answer(error);
    weir_ingest__catalog_table *table = weir_ingest__catalog_add_table_of(catalog, catalog->name, name, true);
    if (!table)
        return out_of_memory(error);
    table->is_view = table->is_hidden = strstr(kind, "VIEW") != NULL;
    table->row_estimate = weir_ingest__text_rows_estimate(rows, row, 4);
    catalog->size_bytes += weir_ingest__text_rows_estimate(rows, row, 5);
    weir_ingest__my_table *detail = table->detail =
        weir__arena_take_zero(&catalog->memory, 1, sizeof *detail);
    if (!detail)
        return out_of_memory(error);
    detail->has_snapshots = strcmp(weir_ingest__text_rows_cell(rows, row, 3), "YES") == 0;
    snprintf(detail->engine, sizeof detail->engine, "%s", weir_ingest__text_rows_cell(rows, row, 2));
    return WEIR_OK;
}

/* ---- Columns --------------------------------------------------------------------------------- */

enum { COLUMNS_MAX = 4096 }; /* of a table, in MySQL */

static weir_status add_column(weir_ingest__catalog *catalog, const weir_ingest__text_rows *rows, size_t row,
                              weir_error *error) {
    weir_ingest__catalog_table *table = find_table(catalog, weir_ingest__text_rows_cell(rows, row, 0));
    if (!table || table->is_view)
        return WEIR_OK;
    if (table->column_count == COLUMNS_MAX)
        return bad_answer(error);
    weir_ingest__my_type type = weir_ingest__my_type_named(weir_ingest__text_rows_cell(rows, row, 2),
                                                           weir_ingest__text_rows_cell(rows, row, 3));
    weir_ingest__catalog_column *column = weir_ingest__catalog_add_column(
        catalog, table, weir_ingest__text_rows_cell(rows, row, 1), type.declared);
    if (!column)
        return out_of_memory(error);
    column->source_type = type.form;
    return WEIR_OK;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

/* A row of (table, constraint, column, place, parent table, parent column); the parent is "" in a primary
 * key. A foreign key begins at place 1. */
static weir_status add_key_column(weir_ingest__catalog *catalog, const weir_ingest__text_rows *rows,
                                  size_t row, weir_error *error) {
    weir_ingest__catalog_table *table = find_table(catalog, weir_ingest__text_rows_cell(rows, row, 0));
    const char *parent_name = weir_ingest__text_rows_cell(rows, row, 4);
    const weir_ingest__catalog_table *parent = find_table(catalog, parent_name);
    if (!table)
        return WEIR_OK;
    uint32_t column = weir_ingest__catalog_find_column(table, weir_ingest__text_rows_cell(rows, row, 2));
    if (!*parent_name && column != UINT32_MAX)
        weir_ingest__catalog_add_primary_key(catalog, table, column);
    if (!*parent_name || !parent)
        return WEIR_OK;
    bool is_first = strcmp(weir_ingest__text_rows_cell(rows, row, 3), "1") == 0;
    if (is_first && !weir_ingest__catalog_add_foreign_key(catalog, table, parent->name))
        return out_of_memory(error);
    if (table->foreign_key_count == 0)
        return bad_answer(error);
    weir_ingest__catalog_key *key = &table->foreign_keys[table->foreign_key_count - 1];
    weir_ingest__catalog_add_key_columns(catalog, key, column, weir_ingest__text_rows_cell(rows, row, 5));
    return WEIR_OK;
}

/* ---- The whole ------------------------------------------------------------------------------- */

#define HERE "TABLE_SCHEMA = DATABASE() "

static const char tables_statement[] =
    "SELECT t.TABLE_NAME, t.TABLE_TYPE, t.ENGINE, e.TRANSACTIONS, t.TABLE_ROWS, t.DATA_LENGTH "
    "FROM information_schema.TABLES t LEFT JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE "
    "WHERE t." HERE "AND t.TABLE_TYPE <> 'SEQUENCE' ORDER BY CAST(t.TABLE_NAME AS BINARY)";

static const char columns_statement[] =
    "SELECT TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE FROM information_schema.COLUMNS WHERE " HERE
    "ORDER BY CAST(TABLE_NAME AS BINARY), ORDINAL_POSITION";

static const char keys_statement[] =
    "SELECT TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME, ORDINAL_POSITION, REFERENCED_TABLE_NAME, "
    "REFERENCED_COLUMN_NAME FROM information_schema.KEY_COLUMN_USAGE WHERE " HERE
    "AND (CONSTRAINT_NAME = 'PRIMARY' OR REFERENCED_TABLE_SCHEMA = DATABASE()) "
    "ORDER BY CAST(TABLE_NAME AS BINARY), CAST(CONSTRAINT_NAME AS BINARY), ORDINAL_POSITION";

enum { TABLE_CELLS = 6, COLUMN_CELLS = 4, KEY_CELLS = 6 };

/* Adds every row of an answer. */
static weir_status add_all(weir_ingest__my_session *session, const char *statement, uint32_t cells,
                           weir_status (*add)(weir_ingest__catalog *catalog,
                                              const weir_ingest__text_rows *rows, size_t row,
                                              weir_error *error),
                           weir_ingest__catalog *catalog, weir_error *error) {
    weir_ingest__text_rows rows;
    WEIR__TRY(weir_ingest__my_read_rows(session, statement, cells, describing, &rows, error));
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < rows.row_count && !status; i++)
        status = catalog->memory.is_short ? out_of_memory(error) : add(catalog, &rows, i, error);
    weir_ingest__text_rows_release(&rows);
    return status;
}

weir_status weir_ingest__my_describe(weir_ingest__source *source, weir_ingest__catalog *out,
                                     weir_error *error) {
    weir_ingest__my_session *session = (weir_ingest__my_session *)source;
    weir_ingest__catalog_set_name(out, session->database);
    WEIR__TRY(add_all(session, tables_statement, TABLE_CELLS, add_table, out, error));
    WEIR__TRY(add_all(session, columns_statement, COLUMN_CELLS, add_column, out, error));
    WEIR__TRY(add_all(session, keys_statement, KEY_CELLS, add_key_column, out, error));
    weir_ingest__catalog_resolve_keys(out, strcmp);
    return WEIR_OK;
}
