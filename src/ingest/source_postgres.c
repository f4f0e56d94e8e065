/* PostgreSQL, and servers that speak its protocol, through libpq. A session is one connection inside one
 * REPEATABLE READ READ ONLY transaction from open to close. The first session exports its snapshot, and
 * forked sessions import it, so all of them read the same data at once.
 *
 * What a server cannot do is found out at open, while a failed statement (which aborts the transaction)
 * still costs nothing: then the transaction is begun again. Without binary COPY, rows are read one by one
 * as text; without exported snapshots there is one session. (CockroachDB, Redshift and Yugabyte lack one or
 * both.)
 *
 * What must hold: passwords never appear in messages; nothing is printed; settings of the session that
 * change the text form of values are fixed, so that the server's and the user's configuration do not
 * matter. */
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "ingest/postgres.h"

/* ---- Messages -------------------------------------------------------------------------------- */

weir_status weir_ingest__pg_fail(weir_error *error, const weir_ingest__pg_session *session,
                                 const PGresult *result, const char *what) {
    const char *text = result ? PQresultErrorMessage(result) : "";
    if (!*text)
        text = session->fault ? session->fault : PQerrorMessage(session->connection);
    return weir_ingest__source_fail(error, session->base.options->location, what, text);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static bool accepts(const weir_env *env, const char *location) {
    (void)env;
    return weir__begins_with(location, "postgresql://") || weir__begins_with(location, "postgres://");
}

/* libpq would print notices to stderr. */
static void ignore_notice(void *context, const PGresult *result) {
    (void)context;
    (void)result;
}

static weir_status connect_session(weir_ingest__pg_session *session, weir_error *error) {
    char *parse_error = NULL;
    PQconninfoOption *options = PQconninfoParse(session->base.options->location, &parse_error);
    if (!options) {
        weir_status status = weir_ingest__source_fail(error, session->base.options->location,
                                                      "the database's URL cannot be read",
                                                      parse_error ? parse_error : "out of memory");
        PQfreemem(parse_error);
        return status;
    }
    PQconninfoFree(options);
    /* What stands before dbname can be changed by the URL, what stands behind it cannot. */
    const char *names[] = {"connect_timeout", "fallback_application_name", "dbname", "client_encoding", NULL};
    const char *values[] = {"30", "weir", session->base.options->location, "UTF8", NULL};
    session->connection = PQconnectdbParams(names, values, 1);
    if (!session->connection)
        return weir_ingest__source_no_memory(error, sizeof *session);
    PQsetNoticeReceiver(session->connection, ignore_notice, NULL);
    PQsetErrorVerbosity(session->connection, PQERRORS_TERSE);
    if (PQstatus(session->connection) != CONNECTION_OK)
        return weir_ingest__pg_fail(error, session, NULL, "cannot connect to the database");
    return WEIR_OK;
}

static weir_status begin(weir_ingest__pg_session *session, weir_error *error) {
    PGresult *result =
        weir_ingest__pg_exec(session, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", false);
    weir_status status = WEIR_OK;
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        status = weir_ingest__pg_fail(error, session, result, "cannot begin a read-only transaction");
    PQclear(result);
    return status;
}

static weir_status begin_again(weir_ingest__pg_session *session, weir_error *error) {
    if (!weir_ingest__pg_run(session, "ROLLBACK"))
        return weir_ingest__pg_fail(error, session, NULL, "cannot begin a read-only transaction");
    return begin(session, error);
}

static bool can_copy_binary(weir_ingest__pg_session *session) {
    enum { MESSAGES_MAX = 16 }; /* a header, a row, a trailer */
    PGresult *result = weir_ingest__pg_exec(session, "COPY (SELECT 1) TO STDOUT (FORMAT binary)", true);
    bool is_copy = PQresultStatus(result) == PGRES_COPY_OUT;
    PQclear(result);
    if (!is_copy)
        return false;
    int messages = 0;
    for (char *row = NULL; weir_ingest__pg_copy_data(session, &row) > 0; PQfreemem(row))
        if (messages++ == MESSAGES_MAX)
            weir_ingest__pg_hang_up(session, "the server copies more than it was asked for");
    result = weir_ingest__pg_answer(session, false);
    is_copy = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    return is_copy;
}

/* The one cell of a statement's answer, as text, cut to size; false if the answer is another. */
static bool ask(weir_ingest__pg_session *session, const char *statement, char *out, size_t size) {
    PGresult *result = weir_ingest__pg_exec(session, statement, false);
    bool is_cell =
        PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1 && PQnfields(result) == 1;
    if (is_cell)
        snprintf(out, size, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    return is_cell;
}

/* Finds out what the server can do, each in a transaction that may fail; ends in the one that stays. The
 * snapshot is exported last, because it dies with its transaction. */
static weir_status take_snapshot(weir_ingest__pg_session *session, weir_error *error) {
    WEIR__TRY(begin(session, error));
    session->can_copy = can_copy_binary(session);
    if (!session->can_copy)
        WEIR__TRY(begin_again(session, error));
    session->has_savepoints = weir_ingest__pg_run(session, "SAVEPOINT weir_probe") &&
                              weir_ingest__pg_run(session, "RELEASE SAVEPOINT weir_probe");
    if (!session->has_savepoints)
        WEIR__TRY(begin_again(session, error));
    /* A name that is not one could end the text that it will stand in. */
    char *name = session->snapshot;
    if (!ask(session, "SELECT pg_catalog.pg_export_snapshot()", name, sizeof session->snapshot) ||
        name[strspn(name, "0123456789ABCDEFabcdef-")] != 0)
        name[0] = 0;
    if (!name[0])
        WEIR__TRY(begin_again(session, error));
    /* Ranges of ctid are read as such since version 14, and only where tables are heaps in blocks: Yugabyte
     * says that it is PostgreSQL, but its tables are not. */
    char version[1024];
    session->can_share = PQserverVersion(session->connection) >= 140000 && session->snapshot[0] &&
                         ask(session, "SELECT pg_catalog.version()", version, sizeof version) &&
                         !strstr(version, "YB");
    return PQstatus(session->connection) == CONNECTION_OK
               ? WEIR_OK
               : weir_ingest__pg_fail(error, session, NULL, "cannot take a snapshot of the database");
}

/* ---- The search path ------------------------------------------------------------------------- */

/* The schemas that have tables, for a message. */
static weir_status fail_for_schema(weir_ingest__pg_session *session, const char *name, weir_error *error) {
    weir_ingest__text_rows rows;
    char found[300];
    WEIR__TRY(weir_ingest__pg_read_rows(
        session,
        "SELECT DISTINCT n.nspname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n "
        "ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'f', 'm') AND n.nspname "
        "NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg!_%' ESCAPE '!' "
        "ORDER BY n.nspname",
        1, "cannot list the schemas", &rows, error));
    weir_ingest__text_rows_join(&rows, found, sizeof found);
    weir_ingest__text_rows_release(&rows);
    return WEIR_INGEST__SOURCE_ERROR(error, "the database has no schema %s; schemas with tables: %s", name,
                                     found);
}

static weir_status has_schema(weir_ingest__pg_session *session, const char *name, bool *out,
                              weir_error *error) {
    weir_ingest__sql sql = {.env = session->base.env};
    weir_ingest__text_rows rows = {0};
    weir_ingest__sql_add(&sql, "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = ");
    weir_ingest__sql_add_literal(&sql, name);
    weir_status status = sql.failed ? weir_ingest__source_no_memory(error, strlen(name))
                                    : weir_ingest__pg_read_rows(session, sql.data, 1,
                                                                "cannot look for the schema", &rows, error);
    *out = status == WEIR_OK && rows.row_count > 0;
    weir_ingest__text_rows_release(&rows);
    weir_ingest__sql_release(&sql);
    return status;
}

static weir_status set_search_path(weir_ingest__pg_session *session, weir_error *error) {
    const weir_ingest__source_options *options = session->base.options;
    weir_status status = WEIR_OK;
    bool is_there = true;
    if (options->search_path_count == 0)
        return WEIR_OK;
    for (uint32_t i = 0; i < options->search_path_count && status == WEIR_OK; i++) {
        status = has_schema(session, options->search_path[i], &is_there, error);
        if (status == WEIR_OK && !is_there)
            return fail_for_schema(session, options->search_path[i], error);
    }
    weir_ingest__sql sql = {.env = session->base.env};
    weir_ingest__sql_add(&sql, "SET search_path = ");
    for (uint32_t i = 0; i < options->search_path_count; i++) {
        weir_ingest__sql_add(&sql, i > 0 ? ", " : "");
        weir_ingest__sql_add_identifier(&sql, options->search_path[i]);
    }
    if (status == WEIR_OK && sql.failed)
        status = weir_ingest__source_no_memory(error, sql.size);
    if (status == WEIR_OK && !weir_ingest__pg_run(session, sql.data))
        status = weir_ingest__pg_fail(error, session, NULL, "cannot set the search path");
    weir_ingest__sql_release(&sql);
    return status;
}

/* ---- Sessions -------------------------------------------------------------------------------- */

static void close_session(weir_ingest__source *source) {
    weir_ingest__pg_session *session = (weir_ingest__pg_session *)source;
    PQfinish(session->connection);
    weir__release(session->base.env, session);
}

static weir_status make_session(const weir_env *env, const weir_ingest__source_options *options,
                                weir_ingest__pg_session **out, weir_error *error) {
    weir_ingest__pg_session *session = weir__allocate_zero(env, 1, sizeof *session);
    if (!session)
        return weir_ingest__source_no_memory(error, sizeof *session);
    session->base = (weir_ingest__source){.kind = &weir_ingest__source_postgres,
                                          .env = env,
                                          .options = options,
                                          .silence_ns = WEIR_INGEST__SOURCE_OPENING_NS};
    weir_status status = connect_session(session, error);
    if (!status) {
        /* Servers that lack a setting keep the only form they have. The time zone is UTC so that the user's
         * queries give the same rows wherever they run; the origin session waits in its transaction for as
         * long as ingest takes. */
        static const char *const settings[] = {
            "SET TimeZone = 'UTC'",
            "SET DateStyle = 'ISO'",
            "SET IntervalStyle = 'postgres'",
            "SET extra_float_digits = 3",
            "SET bytea_output = 'hex'",
            "SET statement_timeout = 0",
            "SET idle_in_transaction_session_timeout = 0",
            "SET client_connection_check_interval = '10s'", /* a query ends with its reader */
            "SET default_transaction_isolation = 'repeatable read'",
        };
        for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
            if (!weir_ingest__pg_run(session, settings[i]))
                continue;
        status = set_search_path(session, error);
    }
    if (status)
        close_session(&session->base);
    else
        *out = session;
    return status;
}

static weir_status open_session(const weir_env *env, const weir_ingest__source_options *options,
                                weir_ingest__source **out, weir_error *error) {
    weir_ingest__pg_session *session;
    WEIR__TRY(make_session(env, options, &session, error));
    return weir_ingest__source_give(&session->base, take_snapshot(session, error), out);
}

/* A server that has no connection left is not an error: there are fewer sessions then. */
static weir_status fork_session(weir_ingest__source *source, weir_ingest__source **out, weir_error *error) {
    const weir_ingest__pg_session *origin = (const weir_ingest__pg_session *)source;
    weir_ingest__pg_session *session;
    char statement[128];
    *out = NULL;
    if (!origin->snapshot[0])
        return WEIR_OK;
    weir_status status = make_session(source->env, source->options, &session, error);
    if (status)
        return status == WEIR_OUT_OF_MEMORY ? status : WEIR_OK;
    memcpy(session->snapshot, origin->snapshot, sizeof session->snapshot);
    session->can_copy = origin->can_copy;
    session->has_savepoints = origin->has_savepoints;
    session->can_share = origin->can_share;
    snprintf(statement, sizeof statement, "SET TRANSACTION SNAPSHOT '%s'", session->snapshot);
    status = begin(session, error);
    if (!status && !weir_ingest__pg_run(session, statement))
        status = weir_ingest__pg_fail(error, session, NULL, "cannot read from the exported snapshot");
    session->base.silence_ns = source->silence_ns;
    return weir_ingest__source_give(&session->base, status, out);
}

const weir_ingest__source_kind weir_ingest__source_postgres = {
    .name = "postgresql",
    .selects = WEIR_INGEST__SELECTS_TYPES,
    .accepts = accepts,
    .open = open_session,
    .close = close_session,
    .fork = fork_session,
    .describe = weir_ingest__pg_describe,
    .scan = weir_ingest__pg_scan,
    .query = weir_ingest__pg_query,
    .describe_query = weir_ingest__pg_describe_query,
    .interrupt = weir_ingest__server_interrupt,
};
