/* DuckDB as a source: its own database files, and Parquet files (with CSV files beside them), of which each
 * table becomes a view of an in-memory database. All sessions are connections to one database instance.
 *
 * One snapshot: a database file is opened read-only, which keeps writers out for as long as it is open.
 * Files of a folder have no such guard: they must not change while they are read. */
#include <stdio.h>
#include <string.h>

#include "ingest/csv.h"
#include "ingest/duckdb_api.h"
#include "ingest/sql.h"

weir_status weir_ingest__duck_fail(weir_error *error, const char *what, const char *message) {
    char line[512];
    weir__one_line(message ? message : "DuckDB gave no reason", line, sizeof line);
    return WEIR_INGEST__SOURCE_ERROR(error, "%s: %s", what, line);
}

/* ---- Which locations ------------------------------------------------------------------------- */

/* A checksum of 8 bytes, then "DUCK". */
static bool is_database(const weir_env *env, const char *location) {
    char start[12];
    size_t size = strlen(location);
    return (size > 7 && strcmp(location + size - 7, ".duckdb") == 0) ||
           (weir_ingest__file_head(env, location, start, sizeof start) == (ssize_t)sizeof start &&
            memcmp(start + 8, "DUCK", 4) == 0);
}

static bool accepts(const weir_env *env, const char *location) {
    return is_database(env, location) || weir_ingest__is_data_files(env, location);
}

/* ---- Sessions -------------------------------------------------------------------------------- */

static weir_status configure(weir_ingest__duck_session *session, weir_ingest__duck_config *out,
                             weir_error *error) {
    const weir_ingest__duck_api *api = &session->api;
    char memory[40];
    snprintf(memory, sizeof memory, "%lluMiB", (unsigned long long)(session->base.options->memory >> 20));
    bool is_done =
        api->create_config(out) == 0 &&
        (session->base.options->memory == 0 || api->set_config(*out, "memory_limit", memory) == 0) &&
        (session->has_files || api->set_config(*out, "access_mode", "READ_ONLY") == 0) &&
        api->set_config(*out, "autoinstall_known_extensions", "false") == 0;
    return is_done ? WEIR_OK : weir_ingest__duck_fail(error, "cannot configure DuckDB", NULL);
}

static weir_status open_database(weir_ingest__duck_session *session, weir_error *error) {
    const weir_ingest__duck_api *api = &session->api;
    weir_ingest__duck_config config = NULL;
    char what[1024];
    snprintf(what, sizeof what, "cannot open %s", session->base.options->location);
    weir_status status = configure(session, &config, error);
    if (!status) {
        char *message = NULL;
        const char *path = session->has_files ? ":memory:" : session->base.options->location;
        if (api->open_ext(path, &session->database, config, &message) != 0) {
            status = weir_ingest__duck_fail(error, what, message);
            session->database = NULL;
        }
        if (message)
            api->free(message);
    }
    if (config)
        api->destroy_config(&config);
    if (!status && api->connect(session->database, &session->connection) != 0)
        status = weir_ingest__duck_fail(error, what, NULL);
    return status;
}

/* UTC, so that the user's queries give the same rows wherever they run; without the extension for time
 * zones there is nothing to set. */
static void set_time_zone(weir_ingest__duck_session *session) {
    weir_ingest__duck_result result;
    int state = session->api.query(session->connection, "SET TimeZone = 'UTC'", &result);
    (void)state;
    session->api.destroy_result(&result);
}

static void close_session(weir_ingest__source *source) {
    weir_ingest__duck_session *session = (weir_ingest__duck_session *)source;
    if (session->connection)
        session->api.disconnect(&session->connection);
    if (session->database && !session->is_fork)
        session->api.close(&session->database);
    weir_ingest__source_close(session->files);
    weir__release(session->base.env, session);
}

static weir_status make_session(const weir_env *env, const weir_ingest__source_options *options,
                                weir_ingest__duck_session **out, weir_error *error) {
    *out = weir__allocate_zero(env, 1, sizeof **out);
    if (!*out)
        return weir_ingest__source_no_memory(error, sizeof **out);
    (*out)->base = (weir_ingest__source){.kind = &weir_ingest__source_duckdb, .env = env, .options = options};
    return WEIR_OK;
}

/* The names in one literal, with commas between them. */
static weir_status set_search_path(weir_ingest__duck_session *session, weir_error *error) {
    const weir_ingest__source_options *options = session->base.options;
    weir_ingest__sql path = {.env = session->base.env}, sql = {.env = session->base.env};
    if (options->search_path_count == 0)
        return WEIR_OK;
    for (uint32_t i = 0; i < options->search_path_count; i++) {
        weir_ingest__sql_add(&path, i > 0 ? "," : "");
        weir_ingest__sql_add_identifier(&path, options->search_path[i]);
    }
    weir_ingest__sql_add(&sql, "SET search_path = ");
    if (!path.failed)
        weir_ingest__sql_add_literal(&sql, path.data);
    weir_status status = path.failed || sql.failed
                             ? weir_ingest__source_no_memory(error, path.size)
                             : weir_ingest__duck_run(session, sql.data, "cannot set the search path", error);
    weir_ingest__sql_release(&path);
    weir_ingest__sql_release(&sql);
    return status;
}

static weir_status open_session(const weir_env *env, const weir_ingest__source_options *options,
                                weir_ingest__source **out, weir_error *error) {
    weir_ingest__duck_session *session;
    WEIR__TRY(make_session(env, options, &session, error));
    session->has_files = !is_database(env, options->location);
    weir_status status = weir_ingest__duck_load(&session->api, error);
    if (!status)
        status = open_database(session, error);
    if (!status)
        set_time_zone(session);
    if (!status && session->has_files)
        status = weir_ingest__duck_view_files(session, error);
    if (!status)
        status = set_search_path(session, error);
    return weir_ingest__source_give(&session->base, status, out);
}

static weir_status fork_session(weir_ingest__source *source, weir_ingest__source **out, weir_error *error) {
    const weir_ingest__duck_session *origin = (const weir_ingest__duck_session *)source;
    weir_ingest__duck_session *session;
    *out = NULL;
    WEIR__TRY(make_session(source->env, source->options, &session, error));
    session->api = origin->api;
    session->database = origin->database;
    session->is_fork = true;
    session->has_files = origin->has_files;
    if (session->api.connect(session->database, &session->connection) != 0) {
        session->connection = NULL;
        close_session(&session->base);
        return weir_ingest__duck_fail(error, "cannot connect to DuckDB again", NULL);
    }
    set_time_zone(session);
    return weir_ingest__source_give(&session->base, set_search_path(session, error), out);
}

/* ---- Scans and queries ----------------------------------------------------------------------- */

/* Parts are ranges of rowid; the first has no lower end and the last no upper one. */
static void add_scan(weir_ingest__sql *sql, const weir_ingest__catalog_table *table, const uint32_t *columns,
                     uint32_t column_count, uint32_t part, uint32_t part_count) {
    const weir_ingest__duck_table *detail = table->detail;
    weir_ingest__sql_add(sql, "SELECT ");
    for (uint32_t i = 0; i < column_count; i++) {
        weir_ingest__sql_add(sql, i > 0 ? ", " : "");
        weir_ingest__sql_add_identifier(sql, table->columns[columns[i]].name);
    }
    weir_ingest__sql_add(sql, "%s FROM %s", column_count == 0 ? "1" : "", table->sql_name);
    if (detail->shared_rows > 0) {
        unsigned __int128 rows = detail->shared_rows;
        uint64_t first = (uint64_t)(rows * part / part_count);
        uint64_t end = (uint64_t)(rows * (part + 1) / part_count);
        if (part > 0)
            weir_ingest__sql_add(sql, " WHERE rowid >= %llu", (unsigned long long)first);
        if (part + 1 < part_count)
            weir_ingest__sql_add(sql, "%s rowid < %llu", part > 0 ? " AND" : " WHERE",
                                 (unsigned long long)end);
    } else if (part > 0) {
        weir_ingest__sql_add(sql, " WHERE false");
    }
}

static weir_status scan(weir_ingest__source *source, const weir_ingest__catalog_table *table,
                        const uint32_t *columns, uint32_t column_count, uint32_t part, uint32_t part_count,
                        weir_ingest__cursor **out, weir_error *error) {
    weir_ingest__sql sql = {.env = source->env};
    add_scan(&sql, table, columns, column_count, part, part_count);
    weir_status status = sql.failed ? weir_ingest__source_no_memory(error, sql.size)
                                    : weir_ingest__duck_start((weir_ingest__duck_session *)source, sql.data,
                                                              false, "table", table->name, out, error);
    weir_ingest__sql_release(&sql);
    if (!status)
        (*out)->column_count = column_count;
    return status;
}

static weir_status query(weir_ingest__source *source, const char *sql, weir_ingest__cursor **out,
                         weir_error *error) {
    return weir_ingest__duck_start((weir_ingest__duck_session *)source, sql, true, "the query", "", out,
                                   error);
}

static void interrupt(weir_ingest__source *source) {
    weir_ingest__duck_session *session = (weir_ingest__duck_session *)source;
    weir_ingest__server_interrupt(source);
    session->api.interrupt(session->connection);
}

const weir_ingest__source_kind weir_ingest__source_duckdb = {
    .name = "duckdb",
    .selects = WEIR_INGEST__SELECTS_TYPES,
    .accepts = accepts,
    .open = open_session,
    .close = close_session,
    .fork = fork_session,
    .describe = weir_ingest__duck_describe,
    .scan = scan,
    .query = query,
    .describe_query = weir_ingest__duck_describe_query,
    .interrupt = interrupt,
};
