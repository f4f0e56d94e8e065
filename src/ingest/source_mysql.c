/* MySQL and MariaDB, through MariaDB's client library. A session is one connection inside one read-only
 * transaction with a consistent snapshot (REPEATABLE READ) from open to close. These servers cannot give
 * their snapshot to another session, so there is one, and tables are read one after the other.
 *
 * Statements are standard SQL: the session has the modes ANSI_QUOTES and PIPES_AS_CONCAT, so that the tasks
 * of a schema mean the same as on any other source, and backslashes mean nothing in texts.
 *
 * What must hold: passwords never appear in messages; nothing is printed; settings of the session that
 * change the text form of values are fixed, so that the server's and the user's configuration do not
 * matter. */
#include <stdio.h>
#include <string.h>

#include "ingest/mysql.h"

weir_status weir_ingest__my_fail(weir_error *error, const weir_ingest__my_session *session, const char *text,
                                 const char *what) {
    if (session->fault)
        text = session->fault;
    else if (!text)
        text = session->api.mysql_error(session->connection);
    return weir_ingest__source_fail(error, session->base.options->location, what, text);
}

static bool accepts(const weir_env *env, const char *location) {
    (void)env;
    return weir_ingest__my_url_accepts(location);
}

/* ---- Settings and the snapshot --------------------------------------------------------------- */

static weir_status run(weir_ingest__my_session *session, const char *statement, const char *what,
                       weir_error *error) {
    weir_ingest__my_result result = NULL;
    bool is_done = weir_ingest__my_run(session, statement, &result);
    if (result) {
        weir_ingest__my_hang_up(session, "the server answered with rows that nobody asked for");
        weir_ingest__my_leave(session, result, false);
    }
    return is_done && !session->fault ? WEIR_OK : weir_ingest__my_fail(error, session, NULL, what);
}

/* The databases that the user may see, for a message. */
static weir_status fail_without_database(weir_ingest__my_session *session, weir_error *error) {
    weir_ingest__text_rows rows;
    char found[300];
    WEIR__TRY(weir_ingest__my_read_rows(
        session,
        "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME NOT IN ('information_schema', "
        "'performance_schema', 'mysql', 'sys') ORDER BY SCHEMA_NAME",
        1, "cannot list the databases", &rows, error));
    weir_ingest__text_rows_join(&rows, found, sizeof found);
    weir_ingest__text_rows_release(&rows);
    return WEIR_INGEST__SOURCE_ERROR(
        error, "the URL names no database, as in mysql://user@host/database; databases there: %s", found);
}

static weir_status prepare(weir_ingest__my_session *session, weir_error *error) {
    /* ONLY_FULL_GROUP_BY, which refuses queries whose rows depend on the server's mood, stays where it is
     * set; all other modes are ours. */
    static const char *const settings[] = {
        "SET NAMES utf8mb4",
        "SET SESSION time_zone = '+00:00'",
        ("SET SESSION sql_mode = CONCAT('ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES', "
         "IF(FIND_IN_SET('ONLY_FULL_GROUP_BY', @@SESSION.sql_mode), ',ONLY_FULL_GROUP_BY', ''))"),
        "SET SESSION sql_select_limit = 18446744073709551615",
        "SET SESSION group_concat_max_len = 1073741824",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SET SESSION TRANSACTION READ ONLY",
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        WEIR__TRY(run(session, settings[i], "cannot prepare the session", error));
    /* Queries that take long and readers that are slow are not the server's business; not every server has
     * each of these settings. */
    static const char *const limits[] = {
        "SET SESSION net_write_timeout = 86400",    "SET SESSION wait_timeout = 86400",
        "SET SESSION max_statement_time = 0", /* MariaDB */
        "SET SESSION max_execution_time = 0", /* MySQL */
        "SET SESSION idle_transaction_timeout = 0",
    };
    weir_error ignored;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (run(session, limits[i], "", &ignored) != WEIR_OK)
            continue;
    weir_ingest__text_rows rows;
    WEIR__TRY(
        weir_ingest__my_read_rows(session, "SELECT DATABASE()", 1, "cannot find the database", &rows, error));
    if (rows.row_count == 1)
        snprintf(session->database, sizeof session->database, "%s", weir_ingest__text_rows_cell(&rows, 0, 0));
    weir_ingest__text_rows_release(&rows);
    WEIR__TRY(*session->database ? WEIR_OK : fail_without_database(session, error));
    return run(session, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
               "cannot take a snapshot of the database", error);
}

/* ---- Sessions -------------------------------------------------------------------------------- */

static void close_session(weir_ingest__source *source) {
    weir_ingest__my_session *session = (weir_ingest__my_session *)source;
    weir_ingest__my_close(session);
    weir__release(session->base.env, session);
}

static weir_status open_session(const weir_env *env, const weir_ingest__source_options *options,
                                weir_ingest__source **out, weir_error *error) {
    WEIR__TRY(
        weir_ingest__refuse_search_path(options, "the URL of a MySQL server names the database", error));
    weir_ingest__my_session *session = weir__allocate_zero(env, 1, sizeof *session);
    if (!session)
        return weir_ingest__source_no_memory(error, sizeof *session);
    session->base = (weir_ingest__source){.kind = &weir_ingest__source_mysql,
                                          .env = env,
                                          .options = options,
                                          .silence_ns = WEIR_INGEST__SOURCE_OPENING_NS};
    session->server = session->end = -1;
    weir_ingest__my_url url;
    weir_status status =
        weir_ingest__my_url_read(session->base.env, session->base.options->location, &url, error);
    if (!status)
        status = weir_ingest__my_load(&session->api, error);
    if (!status) {
        session->connection = session->api.mysql_init(NULL);
        if (!session->connection)
            status = weir_ingest__source_no_memory(error, sizeof *session);
        else if (!weir_ingest__my_connect(session, &url))
            status = weir_ingest__my_fail(error, session, NULL, "cannot connect to the database");
    }
    weir__release(session->base.env, url.memory);
    if (!status)
        status = prepare(session, error);
    return weir_ingest__source_give(&session->base, status, out);
}

const weir_ingest__source_kind weir_ingest__source_mysql = {
    .name = "mysql",
    .selects = WEIR_INGEST__SELECTS_TYPES,
    .accepts = accepts,
    .open = open_session,
    .close = close_session,
    .describe = weir_ingest__my_describe,
    .scan = weir_ingest__my_scan,
    .query = weir_ingest__my_query,
    .describe_query = weir_ingest__my_describe_query,
    .interrupt = weir_ingest__server_interrupt,
};
