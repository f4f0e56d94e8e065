/* See table_query.h. The database lives in memory and, where that is short, in a file without a name. Which
 * tables a query reads, SQLite says itself while it prepares it. All sessions share one connection, which
 * SQLite guards. */
#include <string.h>

#include "ingest/query_indexes.h"
#include "ingest/sql.h"
#include "ingest/sqlite_source.h"
#include "ingest/table_query.h"
#include "weir/store.h"
#include "weir_tool/store_tools.h"

struct weir_ingest__table_database {
    weir_ingest__source *sqlite;
    sqlite3 *connection;          /* the source's */
    weir_ingest__catalog catalog; /* in whose memory is the rest of this */
    bool *is_loaded;              /* a table */
    bool *is_wanted;
};

typedef struct weir_ingest__table_database database;

static weir_status fail(const database *d, sqlite3 *connection, const char *what, weir_error *error) {
    if (sqlite3_errcode(connection) == SQLITE_NOMEM)
        return weir_ingest__source_no_memory(error, 0);
    return WEIR_INGEST__SOURCE_ERROR(error, "%s: SQLite cannot %s: %s", d->catalog.name, what,
                                     sqlite3_errmsg(connection));
}

/* ---- Tables ---------------------------------------------------------------------------------- */

/* Types that SQLite takes for what they are, and gives again when it describes a query. */
static const char *type_name(const weir_ingest__catalog_column *column) {
    switch (column->declared) {
    case WEIR_INGEST__DECLARED_INTEGER:
        return " INTEGER";
    case WEIR_INGEST__DECLARED_REAL:
        return " REAL";
    case WEIR_INGEST__DECLARED_BOOLEAN:
        return " BOOLEAN";
    case WEIR_INGEST__DECLARED_NUMERIC:
        return " NUMERIC";
    case WEIR_INGEST__DECLARED_TIME:
        return column->is_date ? " DATE" : " TIMESTAMP";
    case WEIR_INGEST__DECLARED_BLOB:
        return " BLOB";
    case WEIR_INGEST__DECLARED_NOTHING:
        return "";
    case WEIR_INGEST__DECLARED_TEXT:
    case WEIR_INGEST__DECLARED_ENUM:
        break;
    }
    return " TEXT";
}

/* A time as SQLite's own functions write it: 2013-01-31, or 2013-01-31 10:00:00 and decimals. */
static int bind_time(sqlite3_stmt *statement, int place, int64_t micros, bool is_date) {
    enum { DATE_SIZE = 10 };
    static const int64_t year_0 = -62167219200000000, year_10000 = 253402300800000000;
    char text[40];
    if (micros < year_0 || micros >= year_10000)
        return SQLITE_RANGE;
    weir_timestamp_format(micros, text);
    text[DATE_SIZE] = ' ';
    size_t size = is_date ? DATE_SIZE : strlen(text) - 1; /* without the Z */
    return sqlite3_bind_text64(statement, place, text, size, SQLITE_TRANSIENT, SQLITE_UTF8);
}

static int bind(sqlite3_stmt *statement, int place, const weir_ingest__value *value, bool is_date) {
    switch (value->type) {
    case WEIR_INGEST__INT:
    case WEIR_INGEST__BOOL:
        return sqlite3_bind_int64(statement, place, value->integer);
    case WEIR_INGEST__REAL:
        return sqlite3_bind_double(statement, place, value->real);
    case WEIR_INGEST__TEXT:
        return sqlite3_bind_text64(statement, place, value->text.data, value->text.size, SQLITE_TRANSIENT,
                                   SQLITE_UTF8);
    case WEIR_INGEST__BLOB:
        return sqlite3_bind_blob64(statement, place, value->text.data, value->text.size, SQLITE_TRANSIENT);
    case WEIR_INGEST__TIMESTAMP:
        return bind_time(statement, place, value->integer, is_date);
    case WEIR_INGEST__NULL:
        break;
    }
    return sqlite3_bind_null(statement, place);
}

static weir_status copy_rows(database *d, const weir_ingest__catalog_table *table,
                             weir_ingest__cursor *cursor, sqlite3_stmt *insert, weir_error *error) {
    weir_ingest__rows rows = {.row_count = 1};
    while (rows.row_count > 0) {
        WEIR__TRY(cursor->next(cursor, &rows, error));
        for (size_t r = 0; r < rows.row_count; r++) {
            const weir_ingest__value *row = rows.cells + r * cursor->column_count;
            int result = SQLITE_OK;
            for (uint32_t c = 0; c < table->column_count && result == SQLITE_OK; c++) {
                result = bind(insert, WEIR__NARROW(int, c + 1), &row[c], table->columns[c].is_date);
                if (result == SQLITE_RANGE)
                    return WEIR_INGEST__SOURCE_ERROR(
                        error,
                        "table %s, column %s has a time outside the years 0000 to 9999, which queries "
                        "cannot have",
                        table->name, table->columns[c].name);
            }
            if (result != SQLITE_OK || sqlite3_step(insert) != SQLITE_DONE)
                return fail(d, d->connection, "keep the rows of a table", error);
            sqlite3_reset(insert);
        }
    }
    return WEIR_OK;
}

/* All in one transaction: the end of each looks at every page that was written before. There is no journal
 * to go back by, so it ends in the same way after a failure, when nobody reads what it left. */
static weir_status copy_all(database *d, const weir_ingest__catalog_table *table, weir_ingest__cursor *cursor,
                            sqlite3_stmt *insert, weir_error *error) {
    if (sqlite3_exec(d->connection, "BEGIN", NULL, NULL, NULL) != SQLITE_OK)
        return fail(d, d->connection, "load a table", error);
    weir_status status = copy_rows(d, table, cursor, insert, error);
    if (sqlite3_exec(d->connection, "COMMIT", NULL, NULL, NULL) != SQLITE_OK && status == WEIR_OK)
        status = fail(d, d->connection, "load a table", error);
    return status;
}

static weir_status load_table(database *d, weir_ingest__source *session, uint32_t number, weir_error *error) {
    const weir_ingest__catalog_table *table = &d->catalog.tables[number];
    sqlite3_stmt *insert = NULL;
    weir_ingest__cursor *cursor = NULL;
    uint32_t *columns = weir__allocate(session->env, table->column_count, sizeof *columns);
    if (!columns)
        return weir_ingest__source_no_memory(error, table->column_count * sizeof *columns);
    for (uint32_t c = 0; c < table->column_count; c++)
        columns[c] = c;
    weir_ingest__sql sql = {.env = session->env};
    weir_status status = WEIR_OK;
    weir_ingest__sql_add(&sql, "INSERT INTO ");
    weir_ingest__sql_add_identifier(&sql, table->name);
    for (uint32_t c = 0; c < table->column_count; c++)
        weir_ingest__sql_add(&sql, c ? ", ?" : " VALUES (?");
    weir_ingest__sql_add(&sql, ")");
    if (sql.failed)
        status = weir_ingest__source_no_memory(error, sql.size);
    else if (sqlite3_prepare_v2(d->connection, sql.data, -1, &insert, NULL) != SQLITE_OK)
        status = fail(d, d->connection, "load a table", error);
    weir_ingest__sql_release(&sql);
    if (status == WEIR_OK)
        status = session->kind->scan(session, table, columns, table->column_count, 0, 1, &cursor, error);
    if (status == WEIR_OK)
        status = copy_all(d, table, cursor, insert, error);
    if (cursor)
        cursor->close(cursor);
    sqlite3_finalize(insert);
    weir__release(session->env, columns);
    d->is_loaded[number] = status == WEIR_OK;
    return status;
}

/* ---- The database ---------------------------------------------------------------------------- */

static void close_database(database *d) {
    weir_ingest__source_close(d->sqlite);
    weir_ingest__catalog_release(&d->catalog);
}

static weir_status connect(database *d, weir_error *error) {
    sqlite3 *connection = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
    if (sqlite3_open_v2("", &connection, flags, NULL) != SQLITE_OK) {
        weir_status status = fail(d, connection, "make a temporary database", error);
        sqlite3_close_v2(connection);
        return status;
    }
    d->connection = connection;
    return weir_ingest__sqlite_adopt(d->catalog.memory.env, connection, d->catalog.name, &d->sqlite, error);
}

static weir_status open_database(weir_ingest__table_source *source, weir_ingest__source *session,
                                 weir_error *error) {
    database *d = weir__arena_take_zero(&source->memory, 1, sizeof *d);
    if (!d)
        return weir_ingest__source_no_memory(error, sizeof *d);
    WEIR__TRY(weir_ingest__source_describe(session, &d->catalog, error));
    uint32_t count = d->catalog.table_count;
    d->is_loaded = weir__arena_take_zero(&d->catalog.memory, count, sizeof *d->is_loaded);
    d->is_wanted = weir__arena_take_zero(&d->catalog.memory, count, sizeof *d->is_wanted);
    weir_status status =
        d->catalog.memory.is_short ? weir_ingest__source_no_memory(error, count) : connect(d, error);
    if (status == WEIR_OK &&
        sqlite3_exec(d->connection,
                     "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536", NULL,
                     NULL, NULL) != SQLITE_OK)
        status = fail(d, d->connection, "set up a temporary database", error);
    for (uint32_t t = 0; t < count && status == WEIR_OK; t++) {
        const weir_ingest__catalog_table *table = &d->catalog.tables[t];
        weir_ingest__sql sql = {.env = session->env};
        weir_ingest__sql_add(&sql, "CREATE TABLE ");
        weir_ingest__sql_add_identifier(&sql, table->name);
        for (uint32_t c = 0; c < table->column_count; c++) {
            weir_ingest__sql_add(&sql, c ? ", " : " (");
            weir_ingest__sql_add_identifier(&sql, table->columns[c].name);
            weir_ingest__sql_add(&sql, "%s", type_name(&table->columns[c]));
        }
        weir_ingest__sql_add(&sql, ")");
        if (sql.failed)
            status = weir_ingest__source_no_memory(error, sql.size);
        else if (sqlite3_exec(d->connection, sql.data, NULL, NULL, NULL) != SQLITE_OK)
            status = fail(d, d->connection, "make a table", error);
        weir_ingest__sql_release(&sql);
    }
    if (status != WEIR_OK) {
        close_database(d);
        return status;
    }
    source->database = d;
    atomic_store(&source->connection, d->connection);
    return WEIR_OK;
}

/* ---- Sources and sessions -------------------------------------------------------------------- */

typedef struct table_session {
    weir_ingest__source base;
    weir_ingest__table_source *shared; /* released with the first session */
    bool is_fork;                      /* it is not the first */
} table_session;

static weir_status make_session(const table_session *like, weir_ingest__source **out, weir_error *error) {
    table_session *session = weir__allocate_zero(like->base.env, 1, sizeof *session);
    if (!session)
        return weir_ingest__source_no_memory(error, sizeof *session);
    *session = *like;
    *out = &session->base;
    return WEIR_OK;
}

static void release_source(weir_ingest__table_source *source) {
    if (source->database)
        close_database(source->database);
    pthread_mutex_destroy(&source->lock);
    if (source->release)
        source->release(source);
    weir__arena memory = source->memory;
    weir__arena_release(&memory);
}

weir_status weir_ingest__table_source_make(const weir_env *env, const weir_ingest__source_options *options,
                                           const weir_ingest__source_kind *kind, size_t size,
                                           void (*release)(weir_ingest__table_source *source),
                                           const char *nature, weir_ingest__source **out, weir_error *error) {
    weir__arena memory;
    WEIR__TRY(weir_ingest__refuse_search_path(options, nature, error));
    weir__arena_init(&memory, env);
    weir_ingest__table_source *source = weir__arena_take_zero(&memory, 1, size);
    if (!source)
        return weir_ingest__source_no_memory(error, size);
    source->memory = memory;
    source->options = options;
    source->release = release;
    pthread_mutex_init(&source->lock, NULL);
    table_session first = {.base = {.kind = kind, .env = env}, .shared = source};
    weir_status status = make_session(&first, out, error);
    if (status != WEIR_OK)
        release_source(source);
    return status;
}

weir_status weir_ingest__table_session_fork(weir_ingest__source *session, weir_ingest__source **out,
                                            weir_error *error) {
    table_session fork = {.base = {.kind = session->kind, .env = session->env},
                          .shared = weir_ingest__table_shared(session),
                          .is_fork = true};
    return make_session(&fork, out, error);
}

void weir_ingest__table_session_close(weir_ingest__source *session) {
    if (!((table_session *)session)->is_fork)
        release_source(weir_ingest__table_shared(session));
    weir__release(session->env, session);
}

void *weir_ingest__table_shared(const weir_ingest__source *session) {
    return ((const table_session *)session)->shared;
}

/* ---- Queries --------------------------------------------------------------------------------- */

/* Called by SQLite for everything that a query would do: reading is noted, all else is refused. */
static int authorize(void *context, int action, const char *table, const char *column, const char *place,
                     const char *trigger) {
    database *d = context;
    (void)column;
    (void)place;
    (void)trigger;
    for (size_t t = 0; action == SQLITE_READ && t < d->catalog.table_count; t++)
        if (table && strcmp(table, d->catalog.tables[t].name) == 0)
            d->is_wanted[t] = true;
    bool is_allowed = action == SQLITE_READ || action == SQLITE_SELECT || action == SQLITE_FUNCTION ||
                      action == SQLITE_RECURSIVE;
    return is_allowed ? SQLITE_OK : SQLITE_DENY;
}

/* A database that is ready for a query: with all tables, and the rows and indexes of those that it reads. */
static weir_status prepare(weir_ingest__table_source *source, weir_ingest__source *session, const char *sql,
                           bool needs_rows, weir_error *error) {
    sqlite3_stmt *statement = NULL;
    if (!source->database)
        WEIR__TRY(open_database(source, session, error));
    database *d = source->database;
    memset(d->is_wanted, 0, d->catalog.table_count * sizeof *d->is_wanted);
    sqlite3_set_authorizer(d->connection, authorize, d);
    int result = sqlite3_prepare_v2(d->connection, sql, -1, &statement, NULL);
    sqlite3_set_authorizer(d->connection, NULL, NULL);
    sqlite3_finalize(statement);
    if (result != SQLITE_OK)
        return fail(d, d->connection, "prepare a statement", error);
    if (!needs_rows)
        return WEIR_OK;
    for (uint32_t t = 0; t < d->catalog.table_count; t++)
        if (d->is_wanted[t] && !d->is_loaded[t])
            WEIR__TRY(load_table(d, session, t, error));
    return weir_ingest__query_indexes_make(session->env, d->connection, &d->catalog, sql, error);
}

weir_status weir_ingest__table_query_run(weir_ingest__source *session, const char *sql,
                                         weir_ingest__cursor **out, weir_error *error) {
    weir_ingest__table_source *source = weir_ingest__table_shared(session);
    pthread_mutex_lock(&source->lock);
    weir_status status = prepare(source, session, sql, true, error);
    if (status == WEIR_OK)
        status = source->database->sqlite->kind->query(source->database->sqlite, sql, out, error);
    pthread_mutex_unlock(&source->lock);
    return status;
}

weir_status weir_ingest__table_query_describe(weir_ingest__source *session, const char *sql,
                                              weir_ingest__catalog *catalog,
                                              weir_ingest__catalog_table *table, weir_error *error) {
    weir_ingest__table_source *source = weir_ingest__table_shared(session);
    pthread_mutex_lock(&source->lock);
    weir_status status = prepare(source, session, sql, false, error);
    if (status == WEIR_OK)
        status = source->database->sqlite->kind->describe_query(source->database->sqlite, sql, catalog, table,
                                                                error);
    pthread_mutex_unlock(&source->lock);
    return status;
}

void weir_ingest__table_query_interrupt(weir_ingest__source *session) {
    weir_ingest__table_source *source = weir_ingest__table_shared(session);
    atomic_store_explicit(&source->is_interrupted, true, memory_order_relaxed);
    sqlite3 *connection = atomic_load(&source->connection);
    if (connection)
        sqlite3_interrupt(connection);
}
