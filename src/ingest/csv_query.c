/* SQL over CSV files: the tables that a query reads are loaded into a temporary SQLite database, which lives
 * in memory and, where that is short, in a file without a name. Which tables those are, SQLite says itself
 * while it prepares the query. All sessions share one connection, which SQLite guards. */
#include <string.h>

#include "ingest/csv.h"
#include "ingest/sql.h"
#include "ingest/sqlite_source.h"

struct weir__csv_database {
    weir__source *sqlite;
    sqlite3 *connection; /* the source's */
    bool *is_loaded;     /* a table */
    bool *is_wanted;
    const weir__csv_source *source;
};

typedef struct weir__csv_database database;

static weir_status fail(const weir__csv_source *source, sqlite3 *connection, const char *what,
                        weir_error *error) {
    if (sqlite3_errcode(connection) == SQLITE_NOMEM)
        return weir__out_of_memory(error, WEIR__SOURCE_OPERATOR, 0);
    return weir__fail(error, WEIR_SOURCE_ERROR, WEIR__SOURCE_OPERATOR, "%s: SQLite cannot %s: %s",
                      source->files.name, what, sqlite3_errmsg(connection));
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static weir_status run(database *d, weir__sql *sql, const char *what, weir_error *error) {
    weir_status status = WEIR_OK;
    if (sql->failed)
        status = weir__out_of_memory(error, WEIR__SOURCE_OPERATOR, sql->size);
    else if (sqlite3_exec(d->connection, sql->data, NULL, NULL, NULL) != SQLITE_OK)
        status = fail(d->source, d->connection, what, error);
    weir__sql_release(sql);
    return status;
}

static weir_status create_table(database *d, const weir__csv_table *table, weir_error *error) {
    static const char *const types[] = {" INTEGER", " REAL", " TEXT"};
    weir__sql sql = {.env = d->source->env};
    weir__sql_add(&sql, "CREATE TABLE ");
    weir__sql_add_identifier(&sql, table->files->name);
    for (uint32_t c = 0; c < table->column_count; c++) {
        weir__sql_add(&sql, c ? ", " : " (");
        weir__sql_add_identifier(&sql, table->columns[c].name);
        weir__sql_add(&sql, "%s", types[table->columns[c].type]);
    }
    weir__sql_add(&sql, ")");
    return run(d, &sql, "make a table", error);
}

static int bind(sqlite3_stmt *statement, int place, const weir__value *value) {
    switch (value->type) {
    case WEIR__INT:
        return sqlite3_bind_int64(statement, place, value->integer);
    case WEIR__REAL:
        return sqlite3_bind_double(statement, place, value->real);
    case WEIR__TEXT:
        return sqlite3_bind_text64(statement, place, value->text.data, value->text.size, SQLITE_TRANSIENT,
                                   SQLITE_UTF8);
    default:
        return sqlite3_bind_null(statement, place);
    }
}

static weir_status copy_rows(database *d, weir__cursor *cursor, sqlite3_stmt *insert, weir_error *error) {
    weir__rows rows;
    weir_status status;
    while ((status = cursor->next(cursor, &rows, error)) == WEIR_OK && rows.row_count > 0)
        for (size_t r = 0; r < rows.row_count; r++) {
            int result = SQLITE_OK;
            for (uint32_t c = 0; c < cursor->column_count && result == SQLITE_OK; c++)
                result = bind(insert, WEIR__NARROW(int, c + 1), &rows.cells[r * cursor->column_count + c]);
            if (result != SQLITE_OK || sqlite3_step(insert) != SQLITE_DONE)
                return fail(d->source, d->connection, "keep the rows of a CSV file", error);
            sqlite3_reset(insert);
        }
    return status;
}

static weir_status prepare_insert(database *d, const weir__csv_table *table, sqlite3_stmt **out,
                                  weir_error *error) {
    weir__sql sql = {.env = d->source->env};
    weir_status status = WEIR_OK;
    weir__sql_add(&sql, "INSERT INTO ");
    weir__sql_add_identifier(&sql, table->files->name);
    for (uint32_t c = 0; c < table->column_count; c++)
        weir__sql_add(&sql, c ? ", ?" : " VALUES (?");
    weir__sql_add(&sql, ")");
    if (sql.failed)
        status = weir__out_of_memory(error, WEIR__SOURCE_OPERATOR, sql.size);
    else if (sqlite3_prepare_v2(d->connection, sql.data, -1, out, NULL) != SQLITE_OK)
        status = fail(d->source, d->connection, "load a table", error);
    weir__sql_release(&sql);
    return status;
}

static weir_status load_table(database *d, uint32_t number, weir_error *error) {
    const weir__csv_source *source = d->source;
    const weir__csv_table *table = &source->tables[number];
    sqlite3_stmt *insert = NULL;
    weir__cursor *cursor = NULL;
    uint32_t *columns = weir__allocate(source->env, table->column_count, sizeof *columns);
    if (!columns)
        return weir__out_of_memory(error, WEIR__SOURCE_OPERATOR, table->column_count * sizeof *columns);
    for (uint32_t c = 0; c < table->column_count; c++)
        columns[c] = c;
    weir_status status = prepare_insert(d, table, &insert, error);
    if (status == WEIR_OK)
        status = weir__csv_scan(source, number, columns, table->column_count, 0, 1, &cursor, error);
    if (status == WEIR_OK)
        status = copy_rows(d, cursor, insert, error);
    if (cursor)
        cursor->close(cursor);
    sqlite3_finalize(insert);
    weir__release(source->env, columns);
    d->is_loaded[number] = status == WEIR_OK;
    return status;
}

/* ---- The database ---------------------------------------------------------------------------- */

static void close_database(database *d) {
    const weir_env *env = d->source->env;
    weir__source_close(d->sqlite);
    weir__release(env, d->is_loaded);
    weir__release(env, d->is_wanted);
    weir__release(env, d);
}

void weir__csv_database_close(weir__csv_source *source) {
    if (source->database)
        close_database(source->database);
    source->database = NULL;
}

void weir__csv_database_interrupt(weir__csv_source *source) {
    sqlite3 *connection = atomic_load(&source->connection);
    if (connection)
        sqlite3_interrupt(connection);
}

static weir_status connect(database *d, weir_error *error) {
    sqlite3 *connection = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
    if (sqlite3_open_v2("", &connection, flags, NULL) != SQLITE_OK) {
        weir_status status = fail(d->source, connection, "make a temporary database", error);
        sqlite3_close_v2(connection);
        return status;
    }
    d->connection = connection;
    return weir__sqlite_adopt(d->source->env, connection, d->source->files.name, &d->sqlite, error);
}

static weir_status open_database(weir__csv_source *source, weir_error *error) {
    size_t count = source->files.count;
    database *d = weir__allocate_zero(source->env, 1, sizeof *d);
    if (!d)
        return weir__out_of_memory(error, WEIR__SOURCE_OPERATOR, sizeof *d);
    d->source = source;
    d->is_loaded = weir__allocate_zero(source->env, count, sizeof *d->is_loaded);
    d->is_wanted = weir__allocate_zero(source->env, count, sizeof *d->is_wanted);
    weir_status status = d->is_loaded && d->is_wanted
                             ? connect(d, error)
                             : weir__out_of_memory(error, WEIR__SOURCE_OPERATOR, count);
    if (status == WEIR_OK &&
        sqlite3_exec(d->connection,
                     "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536", NULL,
                     NULL, NULL) != SQLITE_OK)
        status = fail(source, d->connection, "set up a temporary database", error);
    for (size_t t = 0; t < count && status == WEIR_OK; t++)
        status = create_table(d, &source->tables[t], error);
    if (status != WEIR_OK) {
        close_database(d);
        return status;
    }
    source->database = d;
    atomic_store(&source->connection, d->connection);
    return WEIR_OK;
}

/* ---- Queries --------------------------------------------------------------------------------- */

/* Called by SQLite for everything that a query would do: reading is noted, all else is refused. */
static int authorize(void *context, int action, const char *table, const char *column, const char *place,
                     const char *trigger) {
    database *d = context;
    (void)column;
    (void)place;
    (void)trigger;
    for (size_t t = 0; action == SQLITE_READ && t < d->source->files.count; t++)
        if (table && strcmp(table, d->source->files.tables[t].name) == 0)
            d->is_wanted[t] = true;
    bool is_allowed = action == SQLITE_READ || action == SQLITE_SELECT || action == SQLITE_FUNCTION ||
                      action == SQLITE_RECURSIVE;
    return is_allowed ? SQLITE_OK : SQLITE_DENY;
}

static weir_status find_wanted(database *d, const char *sql, weir_error *error) {
    sqlite3_stmt *statement = NULL;
    memset(d->is_wanted, 0, d->source->files.count * sizeof *d->is_wanted);
    sqlite3_set_authorizer(d->connection, authorize, d);
    int result = sqlite3_prepare_v2(d->connection, sql, -1, &statement, NULL);
    sqlite3_set_authorizer(d->connection, NULL, NULL);
    sqlite3_finalize(statement);
    return result == SQLITE_OK ? WEIR_OK : fail(d->source, d->connection, "prepare a statement", error);
}

static weir_status load_wanted(database *d, weir_error *error) {
    weir_status status = WEIR_OK;
    for (uint32_t t = 0; t < d->source->files.count && status == WEIR_OK; t++)
        if (d->is_wanted[t] && !d->is_loaded[t])
            status = load_table(d, t, error);
    return status;
}

/* A database that is ready for a query: with all tables, and the rows of those that it reads. */
static weir_status prepare(weir__csv_source *source, const char *sql, bool needs_rows, weir_error *error) {
    weir_status status = source->database ? WEIR_OK : open_database(source, error);
    if (status == WEIR_OK)
        status = find_wanted(source->database, sql, error);
    return status == WEIR_OK && needs_rows ? load_wanted(source->database, error) : status;
}

weir_status weir__csv_query(weir__csv_source *source, const char *sql, weir__cursor **out,
                            weir_error *error) {
    pthread_mutex_lock(&source->lock);
    weir_status status = prepare(source, sql, true, error);
    if (status == WEIR_OK)
        status = source->database->sqlite->kind->query(source->database->sqlite, sql, out, error);
    pthread_mutex_unlock(&source->lock);
    return status;
}

weir_status weir__csv_describe_query(weir__csv_source *source, const char *sql, weir__catalog *catalog,
                                     weir__catalog_table *table, weir_error *error) {
    pthread_mutex_lock(&source->lock);
    weir_status status = prepare(source, sql, false, error);
    if (status == WEIR_OK)
        status = source->database->sqlite->kind->describe_query(source->database->sqlite, sql, catalog, table,
                                                                error);
    pthread_mutex_unlock(&source->lock);
    return status;
}
