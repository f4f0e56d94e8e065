/* SQLite as a source: a file, read through libsqlite3.
 *
 * A session is a read-only connection inside a transaction. In the rollback journal modes its shared lock
 * keeps writers from committing, so that sessions that join it see the same data; in WAL mode that does not
 * hold, and the source has one session only. A table with a rowid is shared out by ranges of it. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "ingest/source.h"
#include "ingest/sql.h"
#include "ingest/sqlite_source.h"

enum { SMALLEST_ROW = 4 }; /* bytes in the file, about */

typedef struct sqlite_source {
    weir_ingest__source base;
    sqlite3 *connection;
    const char *path;  /* for messages too; borrowed */
    bool is_shareable; /* other sessions see the same snapshot */
} sqlite_source;

typedef struct sqlite_cursor {
    weir_ingest__cursor base;
    sqlite_source *source;   /* outlives the cursor */
    sqlite3_stmt *statement; /* NULL: no rows at all */
    weir_ingest__value *row;
} sqlite_cursor;

/* In WAL mode even a reader writes beside the file; bytes 18 and 19 of the file say that it is in that
 * mode. */
static bool is_in_wal_mode(const weir_env *env, const char *path) {
    uint8_t head[20];
    return weir_ingest__file_head(env, path, head, sizeof head) == (ssize_t)sizeof head && head[18] == 2 &&
           head[19] == 2;
}

/* Every message names the file: a caller may read many. */
static weir_status fail_with_message(const sqlite_source *self, const char *verb, const char *what,
                                     weir_error *error) {
    int code = sqlite3_errcode(self->connection);
    if (code == SQLITE_NOMEM)
        return weir_ingest__source_no_memory(error, 0);
    bool is_kept_from_writing = code == SQLITE_CANTOPEN || code == SQLITE_READONLY;
    const char *advice = is_kept_from_writing && is_in_wal_mode(self->base.env, self->path)
                             ? "; it is in WAL mode, which needs a folder that can be written: copy it to "
                               "one, or run PRAGMA journal_mode=DELETE on it first"
                             : "";
    return WEIR_INGEST__SOURCE_ERROR(error, "%s: SQLite cannot %s %s: %s%s", self->path, verb, what,
                                     sqlite3_errmsg(self->connection), advice);
}

/* ---- Sessions -------------------------------------------------------------------------------- */

static bool accepts(const weir_env *env, const char *location) {
    char magic[16];
    ssize_t got = weir_ingest__file_head(env, location, magic, sizeof magic);
    return got == 0 || (got == (ssize_t)sizeof magic && memcmp(magic, "SQLite format 3", 16) == 0);
}

static void close_source(weir_ingest__source *source) {
    sqlite_source *self = (sqlite_source *)source;
    sqlite3_close_v2(self->connection);
    weir__release(source->env, self);
}

/* Whether SQLite itself finds nothing but white space, comments and semicolons. */
static bool is_blank(sqlite3 *connection, const char *sql) {
    while (*sql) {
        sqlite3_stmt *statement = NULL;
        const char *rest = NULL;
        int result = sqlite3_prepare_v2(connection, sql, -1, &statement, &rest);
        sqlite3_finalize(statement);
        if (result != SQLITE_OK || statement || rest == sql)
            return false;
        sql = rest;
    }
    return true;
}

/* Whether a view fails with these words. */
static bool view_fails(const sqlite_source *self, const char *view, const char *fault) {
    sqlite3_stmt *statement = NULL;
    char *sql = sqlite3_mprintf("SELECT * FROM \"%w\"", view);
    bool fails = sql && sqlite3_prepare_v2(self->connection, sql, -1, &statement, NULL) != SQLITE_OK &&
                 strcmp(sqlite3_errmsg(self->connection), fault) == 0;
    sqlite3_finalize(statement);
    sqlite3_free(sql);
    return fails;
}

/* SQLite's words do not say that it is a view that has a text in double quotes. */
static weir_status fail_to_prepare(const sqlite_source *self, weir_error *error) {
    static const char lacks[] = "no such column: ";
    char fault[300], quoted[300];
    sqlite3_stmt *views = NULL;
    weir_status status = fail_with_message(self, "prepare", "a statement", error);
    snprintf(fault, sizeof fault, "%s", sqlite3_errmsg(self->connection));
    if (strncmp(fault, lacks, strlen(lacks)) != 0)
        return status;
    const char *name = fault + strlen(lacks);
    name += *name == '"'; /* later versions quote it and say more */
    snprintf(quoted, sizeof quoted, "\"%.*s\"", WEIR__NARROW(int, strcspn(name, "\"")), name);
    sqlite3_prepare_v2(self->connection,
                       "SELECT name FROM sqlite_master WHERE type = 'view' AND instr(sql, ?) ORDER BY name",
                       -1, &views, NULL);
    sqlite3_bind_text(views, 1, quoted, -1, SQLITE_STATIC);
    while (views && sqlite3_step(views) == SQLITE_ROW) {
        const char *view = (const char *)sqlite3_column_text(views, 0);
        if (!view || !view_fails(self, view, fault))
            continue;
        status = WEIR_INGEST__SOURCE_ERROR(
            error, "%s: view %s has no column %s: a name is in double quotes, a text in single ones",
            self->path, view, quoted);
        break;
    }
    sqlite3_finalize(views);
    return status;
}

static weir_status prepare(sqlite_source *self, const char *sql, sqlite3_stmt **out, weir_error *error) {
    const char *rest = NULL;
    if (sqlite3_prepare_v2(self->connection, sql, -1, out, &rest) != SQLITE_OK)
        return fail_to_prepare(self, error);
    if (!*out)
        return WEIR_INGEST__SOURCE_ERROR(error, "%s: the query is empty", self->path);
    if (!is_blank(self->connection, rest)) {
        sqlite3_finalize(*out);
        *out = NULL;
        return WEIR_INGEST__SOURCE_ERROR(
            error, "%s: there is more than one statement; what follows the first is: %.60s", self->path,
            rest);
    }
    return WEIR_OK;
}

/* A misspelled name in double quotes is an error, as in all other databases; SQLite's own rule takes it for a
 * text, and a condition on it is then true or false for all rows. The schemas of files keep that rule, so
 * that old ones can be opened; their views do not. */
static void keep_texts_in_single_quotes(sqlite3 *connection) {
    sqlite3_db_config(connection, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
}

/* Begins the transaction by a first read, which takes the lock. */
static weir_status take_snapshot(sqlite_source *self, weir_error *error) {
    static const char *const steps[] = {"PRAGMA query_only=1", "PRAGMA mmap_size=0; PRAGMA cache_size=-8192",
                                        "BEGIN", "SELECT count(*) FROM sqlite_master"};
    sqlite3_stmt *statement = NULL;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (sqlite3_exec(self->connection, steps[i], NULL, NULL, NULL) != SQLITE_OK)
            return fail_with_message(self, "run", steps[i], error);
    WEIR__TRY(prepare(self, "PRAGMA journal_mode", &statement, error));
    if (sqlite3_step(statement) == SQLITE_ROW) {
        const char *mode = (const char *)sqlite3_column_text(statement, 0);
        self->is_shareable = mode && strcmp(mode, "wal") != 0 && strcmp(mode, "memory") != 0;
    }
    sqlite3_finalize(statement);
    return WEIR_OK;
}

static weir_status open_file(const weir_env *env, const char *location, weir_ingest__source **out,
                             weir_error *error) {
    sqlite_source *self = weir__allocate_zero(env, 1, sizeof *self);
    if (!self)
        return weir_ingest__source_no_memory(error, sizeof *self);
    *self = (sqlite_source){.base = {.kind = &weir_ingest__source_sqlite, .env = env}, .path = location};
    weir_status status;
    int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(location, &self->connection, flags, NULL) == SQLITE_OK) {
        sqlite3_busy_timeout(self->connection, 10000);
        keep_texts_in_single_quotes(self->connection);
        status = take_snapshot(self, error);
    } else {
        status = fail_with_message(self, "open", "it", error);
    }
    return weir_ingest__source_give(&self->base, status, out);
}

weir_status weir_ingest__sqlite_adopt(const weir_env *env, sqlite3 *connection, const char *name,
                                      weir_ingest__source **out, weir_error *error) {
    sqlite_source *self = weir__allocate_zero(env, 1, sizeof *self);
    if (!self) {
        sqlite3_close_v2(connection);
        return weir_ingest__source_no_memory(error, sizeof *self);
    }
    *self = (sqlite_source){
        .base = {.kind = &weir_ingest__source_sqlite, .env = env}, .connection = connection, .path = name};
    keep_texts_in_single_quotes(connection);
    *out = &self->base;
    return WEIR_OK;
}

static weir_status open_source(const weir_env *env, const weir_ingest__source_options *options,
                               weir_ingest__source **out, weir_error *error) {
    WEIR__TRY(weir_ingest__refuse_search_path(options, "SQLite has no schemas", error));
    return open_file(env, options->location, out, error);
}

static weir_status fork_source(weir_ingest__source *source, weir_ingest__source **out, weir_error *error) {
    sqlite_source *self = (sqlite_source *)source;
    *out = NULL;
    return self->is_shareable ? open_file(source->env, self->path, out, error) : WEIR_OK;
}

/* ---- The catalog ----------------------------------------------------------------------------- */

static bool contains(const char *upper, const char *word) {
    return strstr(upper, word) != NULL;
}

/* SQLite's own rules of affinity, after those of the contract for booleans and times. */
static weir_ingest__declared declared_as(const char *type) {
    char upper[128];
    size_t size = 0;
    for (; type && type[size] && size + 1 < sizeof upper; size++)
        upper[size] = (char)(type[size] >= 'a' && type[size] <= 'z' ? type[size] - 'a' + 'A' : type[size]);
    upper[size] = 0;
    if (size == 0)
        return WEIR_INGEST__DECLARED_NOTHING;
    if (contains(upper, "BOOL"))
        return WEIR_INGEST__DECLARED_BOOLEAN;
    if (contains(upper, "DATE") || contains(upper, "TIME"))
        return WEIR_INGEST__DECLARED_TIME;
    if (contains(upper, "INT"))
        return WEIR_INGEST__DECLARED_INTEGER;
    if (contains(upper, "CHAR") || contains(upper, "CLOB") || contains(upper, "TEXT"))
        return WEIR_INGEST__DECLARED_TEXT;
    if (contains(upper, "BLOB"))
        return WEIR_INGEST__DECLARED_BLOB;
    if (contains(upper, "REAL") || contains(upper, "FLOA") || contains(upper, "DOUB"))
        return WEIR_INGEST__DECLARED_REAL;
    return WEIR_INGEST__DECLARED_NUMERIC;
}

/* SQLite's names differ in case only by mistake. */
static int compare_without_case(const char *a, const char *b) {
    return sqlite3_stricmp(a, b);
}

/* The first rowid name that no column hides; NULL if all are hidden. */
static const char *rowid_name(const weir_ingest__catalog_table *table) {
    static const char *const names[] = {"rowid", "_rowid_", "oid"};
    for (int n = 0; n < 3; n++)
        if (weir_ingest__catalog_find_named(table, names[n], compare_without_case) == UINT32_MAX)
            return names[n];
    return NULL;
}

/* What is known of a table with a rowid: its detail in the catalog. */
typedef struct rowid_range {
    const char *name;
    int64_t first;
    int64_t last;
    bool is_empty;
} rowid_range;

typedef struct catalog_builder {
    sqlite_source *self;
    weir_ingest__catalog *catalog;
    weir_error *error;
} catalog_builder;

static weir_status no_memory(catalog_builder *builder) {
    return weir_ingest__source_no_memory(builder->error, 1);
}

/* Calls `each` for every row of a statement about a table. */
static weir_status for_each_row(catalog_builder *builder, weir_ingest__catalog_table *table,
                                const char *format,
                                weir_status (*each)(catalog_builder *builder,
                                                    weir_ingest__catalog_table *table, sqlite3_stmt *row)) {
    sqlite3_stmt *statement = NULL;
    char *sql = sqlite3_mprintf(format, table ? table->name : "");
    if (!sql)
        return weir_ingest__source_no_memory(builder->error, 1);
    weir_status status = prepare(builder->self, sql, &statement, builder->error);
    sqlite3_free(sql);
    int step = SQLITE_DONE;
    while (status == WEIR_OK && (step = sqlite3_step(statement)) == SQLITE_ROW) {
        status = each(builder, table, statement);
        if (status == WEIR_OK && builder->catalog->memory.is_short)
            status = no_memory(builder);
    }
    if (status == WEIR_OK && step != SQLITE_DONE)
        status = fail_with_message(builder->self, "list", "the tables", builder->error);
    sqlite3_finalize(statement);
    return status;
}

static const char *text_of(sqlite3_stmt *row, int column) {
    const char *text = (const char *)sqlite3_column_text(row, column);
    return text ? text : "";
}

static weir_status add_column(catalog_builder *builder, weir_ingest__catalog_table *table,
                              sqlite3_stmt *row) {
    weir_ingest__catalog_add_column(builder->catalog, table, text_of(row, 0), declared_as(text_of(row, 1)));
    return WEIR_OK;
}

static weir_status add_primary_key(catalog_builder *builder, weir_ingest__catalog_table *table,
                                   sqlite3_stmt *row) {
    uint32_t column = weir_ingest__catalog_find_named(table, text_of(row, 0), compare_without_case);
    if (column != UINT32_MAX)
        weir_ingest__catalog_add_primary_key(builder->catalog, table, column);
    return WEIR_OK;
}

/* One column of a key; the key itself begins at its first. */
static weir_status add_foreign_key(catalog_builder *builder, weir_ingest__catalog_table *table,
                                   sqlite3_stmt *row) {
    uint32_t column = weir_ingest__catalog_find_named(table, text_of(row, 0), compare_without_case);
    const char *parent_column = sqlite3_column_type(row, 2) != SQLITE_NULL ? text_of(row, 2) : NULL;
    bool is_first = sqlite3_column_int(row, 3) == 0;
    if (is_first && !weir_ingest__catalog_add_foreign_key(builder->catalog, table, text_of(row, 1)))
        return no_memory(builder);
    weir_ingest__catalog_key *key = &table->foreign_keys[table->foreign_key_count - 1];
    weir_ingest__catalog_add_key_columns(builder->catalog, key, column, parent_column);
    return WEIR_OK;
}

/* Both ends of the rowids, each found without reading the table. */
static weir_status find_range(catalog_builder *builder, weir_ingest__catalog_table *table) {
    char format[128];
    const char *name = rowid_name(table);
    if (!name)
        return WEIR_OK;
    snprintf(format, sizeof format, "SELECT (SELECT min(%s) FROM \"%%w\"), (SELECT max(%s) FROM \"%%w\")",
             name, name);
    sqlite3_stmt *statement = NULL;
    char *sql = sqlite3_mprintf(format, table->name, table->name);
    if (!sql)
        return no_memory(builder);
    weir_status status = prepare(builder->self, sql, &statement, builder->error);
    sqlite3_free(sql);
    rowid_range *range = NULL;
    if (status == WEIR_OK && sqlite3_step(statement) == SQLITE_ROW)
        range = weir__arena_take_zero(&builder->catalog->memory, 1, sizeof *range);
    if (range) {
        range->name = name;
        range->is_empty = sqlite3_column_type(statement, 0) == SQLITE_NULL;
        range->first = sqlite3_column_int64(statement, 0);
        range->last = sqlite3_column_int64(statement, 1);
        uint64_t rowids = (uint64_t)range->last - (uint64_t)range->first;
        uint64_t most = builder->catalog->size_bytes / SMALLEST_ROW;
        if (!range->is_empty)
            table->row_estimate = rowids < most ? rowids + 1 : most; /* rowids may have any gaps */
        table->detail = range;
    }
    sqlite3_finalize(statement);
    return status;
}

/* Of a view only the name is taken down: it may be broken, and only a schema that names it wants it. */
static weir_status add_table(catalog_builder *builder, weir_ingest__catalog_table *unused,
                             sqlite3_stmt *row) {
    (void)unused;
    bool has_rowid = sqlite3_column_int(row, 1) == 0;
    weir_ingest__catalog_table *table = weir_ingest__catalog_add_table(builder->catalog, text_of(row, 0));
    weir_ingest__sql name = {.env = builder->self->base.env};
    if (!table)
        return no_memory(builder);
    weir_ingest__sql_add_identifier(&name, table->name);
    table->sql_name = weir_ingest__sql_keep(&name, &builder->catalog->memory);
    if (!table->sql_name)
        return no_memory(builder);
    table->is_view = table->is_hidden = strcmp(text_of(row, 2), "view") == 0;
    if (table->is_view)
        return WEIR_OK;
    WEIR__TRY(for_each_row(builder, table,
                           "SELECT name, type FROM pragma_table_xinfo(%Q) WHERE hidden <> 1 ORDER BY cid",
                           add_column));
    WEIR__TRY(for_each_row(builder, table, "SELECT name FROM pragma_table_xinfo(%Q) WHERE pk > 0 ORDER BY pk",
                           add_primary_key));
    WEIR__TRY(for_each_row(builder, table,
                           "SELECT \"from\", \"table\", \"to\", seq FROM pragma_foreign_key_list(%Q) "
                           "ORDER BY id DESC, seq", /* the last one declared has id 0 */
                           add_foreign_key));
    return has_rowid ? find_range(builder, table) : WEIR_OK;
}

static weir_status describe(weir_ingest__source *source, weir_ingest__catalog *out, weir_error *error) {
    sqlite_source *self = (sqlite_source *)source;
    catalog_builder builder = {self, out, error};
    weir_ingest__catalog_set_file(out, self->path);
    WEIR__TRY(for_each_row(&builder, NULL,
                           "SELECT name, wr, type FROM pragma_table_list WHERE schema = 'main' "
                           "AND type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%%' ESCAPE '\\' AND "
                           "%Q = '' ORDER BY name",
                           add_table));
    weir_ingest__catalog_resolve_keys(out, compare_without_case);
    if (out->table_count == 0)
        return WEIR_INGEST__SOURCE_ERROR(error, "%s has no tables", self->path);
    return WEIR_OK;
}

/* ---- Cursors --------------------------------------------------------------------------------- */

static void read_cell(sqlite3_stmt *statement, int column, weir_ingest__value *out) {
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
        out->type = WEIR_INGEST__INT;
        out->integer = sqlite3_column_int64(statement, column);
        return;
    case SQLITE_FLOAT:
        out->type = WEIR_INGEST__REAL;
        out->real = sqlite3_column_double(statement, column);
        return;
    case SQLITE_TEXT:
        out->type = WEIR_INGEST__TEXT;
        out->text.data = (const char *)sqlite3_column_text(statement, column);
        break;
    case SQLITE_BLOB:
        out->type = WEIR_INGEST__BLOB;
        out->text.data = sqlite3_column_blob(statement, column);
        break;
    default:
        out->type = WEIR_INGEST__NULL;
        return;
    }
    out->text.size = (size_t)sqlite3_column_bytes(statement, column);
    if (!out->text.data)
        out->text = (weir_ingest__bytes){"", 0};
}

static weir_status next_row(weir_ingest__cursor *cursor, weir_ingest__rows *rows, weir_error *error) {
    sqlite_cursor *self = (sqlite_cursor *)cursor;
    int step = self->statement ? sqlite3_step(self->statement) : SQLITE_DONE;
    *rows = (weir_ingest__rows){.row_count = step == SQLITE_ROW ? 1 : 0, .cells = self->row};
    if (step == SQLITE_DONE)
        return WEIR_OK;
    if (step != SQLITE_ROW)
        return fail_with_message(self->source, "read", "the rows", error);
    for (uint32_t c = 0; c < cursor->column_count; c++)
        read_cell(self->statement, WEIR__NARROW(int, c), &self->row[c]);
    return WEIR_OK;
}

static void close_cursor(weir_ingest__cursor *cursor) {
    sqlite_cursor *self = (sqlite_cursor *)cursor;
    sqlite3_finalize(self->statement);
    weir_ingest__cursor_free(cursor);
}

/* Debian's SQLite knows columns' origins; one that was built without that lacks the functions. */
#pragma weak sqlite3_column_table_name
#pragma weak sqlite3_column_origin_name

static bool origin_of(const weir_ingest__cursor *cursor, uint32_t number, const weir_ingest__catalog *catalog,
                      weir_ingest__origin *out) {
    sqlite3_stmt *statement = ((const sqlite_cursor *)cursor)->statement;
    if (!sqlite3_column_table_name || !sqlite3_column_origin_name)
        return false;
    const char *table = sqlite3_column_table_name(statement, WEIR__NARROW(int, number));
    const char *column = sqlite3_column_origin_name(statement, WEIR__NARROW(int, number));
    return weir_ingest__catalog_find_origin(catalog, table, column, compare_without_case, out);
}

/* Takes the statement over, also on failure. */
static weir_status open_cursor(sqlite_source *source, sqlite3_stmt *statement, uint32_t column_count,
                               bool is_query, weir_ingest__cursor **out, weir_error *error) {
    sqlite_cursor *self =
        weir_ingest__cursor_make(source->base.env, sizeof *self, NULL, column_count, next_row, close_cursor);
    if (!self) {
        sqlite3_finalize(statement);
        return weir_ingest__source_no_memory(error, sizeof *self);
    }
    self->source = source;
    self->statement = statement;
    self->row = weir__arena_take_zero(&self->base.memory, column_count, sizeof *self->row);
    const char **names =
        is_query ? weir__arena_take_zero(&self->base.memory, column_count, sizeof *names) : NULL;
    for (uint32_t c = 0; names && c < column_count; c++)
        names[c] = sqlite3_column_name(statement, WEIR__NARROW(int, c));
    self->base.column_names = names;
    self->base.origin = is_query ? origin_of : NULL;
    return weir_ingest__cursor_give(&self->base, WEIR_OK, out, error);
}

static weir_status query(weir_ingest__source *source, const char *sql, weir_ingest__cursor **out,
                         weir_error *error) {
    sqlite_source *self = (sqlite_source *)source;
    sqlite3_stmt *statement = NULL;
    WEIR__TRY(prepare(self, sql, &statement, error));
    return open_cursor(self, statement, WEIR__NARROW(uint32_t, sqlite3_column_count(statement)), true, out,
                       error);
}

static weir_status describe_query(weir_ingest__source *source, const char *sql, weir_ingest__catalog *catalog,
                                  weir_ingest__catalog_table *table, weir_error *error) {
    sqlite_source *self = (sqlite_source *)source;
    sqlite3_stmt *statement = NULL;
    weir_status status = prepare(self, sql, &statement, error);
    for (int c = 0; status == WEIR_OK && c < sqlite3_column_count(statement); c++)
        weir_ingest__catalog_add_column(catalog, table, sqlite3_column_name(statement, c),
                                        declared_as(sqlite3_column_decltype(statement, c)));
    sqlite3_finalize(statement);
    return status;
}

/* Part p of n of [first, last], whose width may be anything up to 2^64. */
static int64_t part_start(const rowid_range *range, uint32_t part, uint32_t part_count) {
    unsigned __int128 width = (unsigned __int128)((uint64_t)range->last - (uint64_t)range->first) + 1;
    return (int64_t)((uint64_t)range->first + (uint64_t)(width * part / part_count));
}

static weir_status scan(weir_ingest__source *source, const weir_ingest__catalog_table *table,
                        const uint32_t *columns, uint32_t column_count, uint32_t part, uint32_t part_count,
                        weir_ingest__cursor **out, weir_error *error) {
    sqlite_source *self = (sqlite_source *)source;
    const rowid_range *range = table->detail;
    bool is_shared = part_count > 1 && range && range->name && !range->is_empty;
    if (part > 0 && !is_shared)
        return open_cursor(self, NULL, column_count, false, out, error);
    sqlite3_str *text = sqlite3_str_new(self->connection);
    sqlite3_str_appendall(text, "SELECT ");
    for (uint32_t i = 0; i < column_count; i++)
        sqlite3_str_appendf(text, "%s\"%w\"", i ? ", " : "", table->columns[columns[i]].name);
    sqlite3_str_appendf(text, "%s FROM \"%w\"", column_count ? "" : "1", table->name);
    if (is_shared) {
        sqlite3_str_appendf(text, " WHERE %s >= %lld", range->name,
                            (long long)part_start(range, part, part_count));
        if (part + 1 < part_count)
            sqlite3_str_appendf(text, " AND %s < %lld", range->name,
                                (long long)part_start(range, part + 1, part_count));
    }
    char *sql = sqlite3_str_finish(text);
    if (!sql)
        return weir_ingest__source_no_memory(error, 1);
    sqlite3_stmt *statement = NULL;
    weir_status status = prepare(self, sql, &statement, error);
    sqlite3_free(sql);
    return status == WEIR_OK ? open_cursor(self, statement, column_count, false, out, error) : status;
}

static void interrupt(weir_ingest__source *source) {
    sqlite3_interrupt(((sqlite_source *)source)->connection);
}

const weir_ingest__source_kind weir_ingest__source_sqlite = {
    .name = "sqlite",
    .selects = WEIR_INGEST__SELECTS_BYTES,
    .accepts = accepts,
    .open = open_source,
    .close = close_source,
    .fork = fork_source,
    .describe = describe,
    .scan = scan,
    .query = query,
    .describe_query = describe_query,
    .interrupt = interrupt,
};
