/* Files that DuckDB reads: a view of an in-memory database for each table. Parquet files say what they hold;
 * CSV files beside them are read with the dialect, types and nulls that weir finds itself, so that they give
 * the same values with and without DuckDB. So are columns from folders' names: DuckDB gives them as text. */

#include "ingest/csv.h"
#include "ingest/duckdb_api.h"
#include "ingest/sql.h"

static const char *type_name(weir_ingest__csv_type type) {
    static const char *const names[] = {"BIGINT", "DOUBLE", "VARCHAR"};
    return names[type];
}

static void add_character(weir_ingest__sql *sql, const char *key, char character) {
    char text[2] = {character, 0};
    weir_ingest__sql_add(sql, ", %s = ", key);
    weir_ingest__sql_add_literal(sql, text);
}

/* The texts that stand for null. */
static void add_nulls(weir_ingest__sql *sql, const weir_ingest__csv_table *table) {
    weir_ingest__sql_add(sql, "''");
    for (uint32_t i = 0; i < table->options.null_count; i++) {
        weir_ingest__sql_add(sql, ", ");
        weir_ingest__sql_add_literal(sql, table->options.nulls[i]);
    }
}

static void add_csv_arguments(weir_ingest__sql *sql, const weir_ingest__csv_table *table) {
    weir_ingest__sql_add(sql, ", auto_detect = false, header = %s",
                         table->dialect.has_header ? "true" : "false");
    add_character(sql, "delim", table->dialect.delimiter);
    add_character(sql, "quote", table->dialect.quote);
    add_character(sql, "escape", table->dialect.quote);
    weir_ingest__sql_add(sql, ", nullstr = [");
    add_nulls(sql, table);
    weir_ingest__sql_add(sql, "], columns = {");
    for (uint32_t c = 0; c < table->file_column_count; c++) {
        weir_ingest__sql_add(sql, c ? ", " : "");
        weir_ingest__sql_add_literal(sql, table->columns[c].name);
        weir_ingest__sql_add(sql, ": '%s'", type_name(table->columns[c].type));
    }
    weir_ingest__sql_add(sql, "}");
}

static void add_reader(weir_ingest__sql *sql, const weir_ingest__csv_table *table) {
    const weir_ingest__data_file *first = &table->files->files[0];
    weir_ingest__sql_add(sql, table->files->is_csv ? "read_csv([" : "read_parquet([");
    for (size_t i = 0; i < table->files->file_count; i++) {
        weir_ingest__sql_add(sql, i ? ", " : "");
        weir_ingest__sql_add_literal(sql, table->files->files[i].path);
    }
    weir_ingest__sql_add(sql, "]");
    if (table->files->file_count > 1)
        weir_ingest__sql_add(sql, ", union_by_name = true");
    if (table->files->is_csv)
        add_csv_arguments(sql, table);
    weir_ingest__sql_add(sql, ", hive_partitioning = %s", first->value_count > 0 ? "true" : "false");
    for (size_t v = 0; v < first->value_count; v++) {
        weir_ingest__sql_add(sql, v ? ", " : ", hive_types = {");
        weir_ingest__sql_add_literal(sql, first->values[v].key);
        weir_ingest__sql_add(sql, ": VARCHAR");
    }
    weir_ingest__sql_add(sql, first->value_count > 0 ? "})" : ")");
}

/* What the view says of the reader's columns: those of folders come last, with nulls and types. */
static void add_columns(weir_ingest__sql *sql, const weir_ingest__csv_table *table) {
    const weir_ingest__data_file *first = &table->files->files[0];
    weir_ingest__sql_add(sql, "*");
    for (size_t v = 0; v < first->value_count; v++) {
        weir_ingest__sql_add(sql, v ? ", " : " EXCLUDE (");
        weir_ingest__sql_add_identifier(sql, first->values[v].key);
    }
    weir_ingest__sql_add(sql, first->value_count > 0 ? ")" : "");
    for (size_t v = 0; v < first->value_count; v++) {
        weir_ingest__sql_add(sql, ", CAST(CASE WHEN ");
        weir_ingest__sql_add_identifier(sql, first->values[v].key);
        weir_ingest__sql_add(sql, " NOT IN (");
        add_nulls(sql, table);
        weir_ingest__sql_add(sql, ") THEN ");
        weir_ingest__sql_add_identifier(sql, first->values[v].key);
        weir_ingest__sql_add(sql, " END AS %s) AS ",
                             type_name(table->columns[table->file_column_count + v].type));
        weir_ingest__sql_add_identifier(sql, first->values[v].key);
    }
}

static weir_status view_table(weir_ingest__duck_session *session, const weir_ingest__csv_table *table,
                              weir_error *error) {
    weir_ingest__sql sql = {.env = session->base.env};
    weir_ingest__sql_add(&sql, "CREATE VIEW ");
    weir_ingest__sql_add_identifier(&sql, table->files->name);
    weir_ingest__sql_add(&sql, " AS SELECT ");
    add_columns(&sql, table);
    weir_ingest__sql_add(&sql, " FROM ");
    add_reader(&sql, table);
    weir_status status = sql.failed
                             ? weir_ingest__source_no_memory(error, sql.size)
                             : weir_ingest__duck_run(session, sql.data, table->files->files[0].path, error);
    weir_ingest__sql_release(&sql);
    return status;
}

weir_status weir_ingest__duck_view_files(weir_ingest__duck_session *session, weir_error *error) {
    weir_status status =
        weir_ingest__csv_source_open(session->base.env, session->base.options, &session->files, error);
    if (status)
        return status;
    const weir_ingest__csv_source *files = weir_ingest__table_shared(session->files);
    for (size_t t = 0; t < files->files.count && !status; t++)
        status = view_table(session, &files->tables[t], error);
    return status;
}
