/* Every wait for a PostgreSQL server, and what its answers must look like before anything is read from them.
 *
 * A server may be wrong, hostile or gone. So nothing here waits without end: a session that is interrupted,
 * or that has got no row and no answer for as long as a source may be silent, hangs up. It also hangs up on
 * answers that the protocol has but weir did not ask for (copies in either direction), on answers without
 * end, and on catalogs beyond any database. After that the session gives the one reason for whatever it is
 * asked.
 *
 * Hanging up is also how a long statement is left before its end: the server is told to look for that while
 * it works (client_connection_check_interval, since version 14). */
#include <poll.h>
#include <string.h>

#include "ingest/postgres.h"

enum {
    POLL_MS = 100,
    RESULTS_MAX = 256, /* of one statement */
};

static const char strange_answer[] = "the server answered what PostgreSQL does not";

void weir_ingest__pg_hang_up(weir_ingest__pg_session *session, const char *fault) {
    session->fault = session->fault ? session->fault : fault;
    PQfinish(session->connection);
    session->connection = NULL;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* Takes in what the server has sent, or waits for it. `began_ns` is when the wait for a row or an answer
 * began: what else the server sends meanwhile is not progress. False after hanging up or a lost connection.
 */
static bool take_in(weir_ingest__pg_session *session, uint64_t began_ns) {
    struct pollfd socket = {.fd = PQsocket(session->connection), .events = POLLIN};
    while (socket.fd >= 0) {
        const char *fault = weir_ingest__server_why_to_end(&session->base, began_ns);
        if (fault) {
            weir_ingest__pg_hang_up(session, fault);
            return false;
        }
        if (poll(&socket, 1, POLL_MS) > 0)
            break;
    }
    bool is_read = socket.fd >= 0 && PQconsumeInput(session->connection) == 1;
    for (PGnotify *news; is_read && (news = PQnotifies(session->connection)) != NULL;)
        PQfreemem(news); /* nobody listens */
    return is_read;
}

PGresult *weir_ingest__pg_result(weir_ingest__pg_session *session) {
    uint64_t began_ns = weir_ingest__source_now(&session->base);
    while (session->connection && PQisBusy(session->connection))
        if (!take_in(session, began_ns))
            break;
    return session->connection ? PQgetResult(session->connection) : NULL;
}

int weir_ingest__pg_copy_data(weir_ingest__pg_session *session, char **out) {
    uint64_t began_ns = weir_ingest__source_now(&session->base);
    for (;;) {
        int size = session->connection ? PQgetCopyData(session->connection, out, 1) : -2;
        if (size != 0)
            return size;
        if (!take_in(session, began_ns))
            return -2;
    }
}

/* ---- Statements ------------------------------------------------------------------------------ */

static bool is_copy(const PGresult *result) {
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH;
}

PGresult *weir_ingest__pg_answer(weir_ingest__pg_session *session, bool wants_copy) {
    PGresult *answer = NULL;
    for (int i = 0; i < RESULTS_MAX; i++) {
        PGresult *result = weir_ingest__pg_result(session);
        if (!result)
            return answer;
        bool is_failure = answer && PQresultStatus(answer) == PGRES_FATAL_ERROR;
        if (is_failure)
            PQclear(result); /* the first failure is the answer */
        else
            PQclear(answer), answer = result;
        if (!is_copy(answer))
            continue;
        if (wants_copy && PQresultStatus(answer) == PGRES_COPY_OUT)
            return answer;
        break;
    }
    PQclear(answer);
    weir_ingest__pg_hang_up(session, strange_answer);
    return NULL;
}

PGresult *weir_ingest__pg_exec(weir_ingest__pg_session *session, const char *statement, bool wants_copy) {
    if (!session->connection || PQsendQuery(session->connection, statement) != 1)
        return NULL;
    return weir_ingest__pg_answer(session, wants_copy);
}

bool weir_ingest__pg_run(weir_ingest__pg_session *session, const char *statement) {
    PGresult *result = weir_ingest__pg_exec(session, statement, false);
    ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

/* ---- Rows of the catalog --------------------------------------------------------------------- */

static weir_status add_row(weir_ingest__pg_session *session, weir_ingest__text_rows *rows,
                           const PGresult *result, const char *what, weir_error *error) {
    int column_count = WEIR__NARROW(int, rows->column_count);
    bool is_strange = PQnfields(result) != column_count || PQntuples(result) != 1;
    if (is_strange || weir_ingest__text_rows_are_full(rows)) {
        weir_ingest__pg_hang_up(session, is_strange ? strange_answer : WEIR_INGEST__TEXT_ROWS_FULL);
        return weir_ingest__pg_fail(error, session, NULL, what);
    }
    for (int i = 0; i < column_count; i++)
        WEIR__TRY(weir_ingest__text_rows_add(rows, PQgetvalue(result, 0, i),
                                             (size_t)PQgetlength(result, 0, i), error));
    rows->row_count++;
    return WEIR_OK;
}

/* Row by row, so that an answer without end is noticed before memory is. */
weir_status weir_ingest__pg_read_rows(weir_ingest__pg_session *session, const char *statement,
                                      uint32_t column_count, const char *what, weir_ingest__text_rows *out,
                                      weir_error *error) {
    *out = (weir_ingest__text_rows){.memory = {.env = session->base.env}, .column_count = column_count};
    weir_status status = WEIR_OK;
    bool is_complete = false;
    if (!session->connection || PQsendQuery(session->connection, statement) != 1 ||
        PQsetSingleRowMode(session->connection) != 1)
        return weir_ingest__pg_fail(error, session, NULL, what);
    for (PGresult *result; !status && (result = weir_ingest__pg_result(session)) != NULL; PQclear(result)) {
        ExecStatusType kind = PQresultStatus(result);
        if (kind == PGRES_SINGLE_TUPLE) {
            status = add_row(session, out, result, what, error);
        } else if (kind == PGRES_TUPLES_OK && !is_complete) {
            is_complete = true;
        } else {
            status = weir_ingest__pg_fail(error, session, result, what);
            weir_ingest__pg_hang_up(session, strange_answer); /* what else it has to say is not asked for */
        }
    }
    if (!status && !is_complete)
        status = weir_ingest__pg_fail(error, session, NULL, what);
    if (status)
        weir_ingest__text_rows_release(out);
    return status;
}
