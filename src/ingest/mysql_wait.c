/* Every wait for a MySQL server, and what its answers must look like before anything is read from them.
 *
 * The library's calls that do not block give the thread back if a socket has nothing to read, and only then:
 * under a server that sends without end they would never come back. So once it is connected, the library's
 * socket is exchanged for one end of a pair, and what passes between the other end and the server passes
 * through here, a piece at a time. Before each piece is asked whether to go on: a session that is
 * interrupted, that has got no row and no answer for as long as a source may be silent, or that has got
 * more bytes of an answer's head than any answer has, hangs up. Hanging up closes both sockets, so the
 * library finds the end of its stream wherever it is, and all its calls return.
 *
 * A server may be wrong, hostile or gone: the library is also kept from sending files to it, from asking the
 * user for passwords, and from connecting again (which would lose the snapshot). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ingest/mysql.h"

enum {
    POLL_MS = 100,
    CONNECT_S = 30,
    STACK_SIZE = 1 << 20,      /* of a call that is under way; hosts are looked up on it */
    HEAD_BYTES_MAX = 16 << 20, /* columns of an answer: MySQL has at most 4096 */
    ROW_BYTES_MAX = 256 << 20,
    LEFT_BYTES_MAX = 64 << 20, /* what a statement may still send that is left before its end */
};

static const char strange_answer[] = "the server answered what MySQL does not";

static void close_sockets(weir_ingest__my_session *session) {
    if (session->server >= 0)
        close(session->server);
    if (session->end >= 0)
        close(session->end);
    session->server = session->end = -1;
}

void weir_ingest__my_hang_up(weir_ingest__my_session *session, const char *fault) {
    session->fault = session->fault ? session->fault : fault;
    close_sockets(session);
}

/* ---- Passing on ------------------------------------------------------------------------------ */

/* Takes in up to a piece, if nothing is left of the last; false at the end of the stream. */
static bool take_in(weir_ingest__my_bytes *bytes, int from) {
    if (bytes->size > 0)
        return true;
    ssize_t size = recv(from, bytes->data, sizeof bytes->data, MSG_DONTWAIT);
    bytes->offset = 0;
    bytes->size = size > 0 ? (size_t)size : 0;
    return size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Gives as much as is taken; *given says how much that was. False at the end of the stream. */
static bool give(weir_ingest__my_bytes *bytes, int to, size_t *given) {
    *given = 0;
    if (bytes->size == 0)
        return true;
    ssize_t size = send(to, bytes->data + bytes->offset, bytes->size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size < 0)
        return errno == EAGAIN || errno == EINTR;
    *given = (size_t)size;
    bytes->offset += *given;
    bytes->size -= *given;
    return true;
}

/* Waits for a moment, and passes on what there is. Gives what has happened of what the library waits for. */
static int pass_on(weir_ingest__my_session *session, int waiting) {
    struct pollfd sockets[] = {{.fd = session->server}, {.fd = session->end}};
    size_t given = 0, sent = 0;
    sockets[0].events = WEIR__LOW(short, (session->in.size ? 0 : POLLIN) | (session->out.size ? POLLOUT : 0));
    sockets[1].events = WEIR__LOW(short, (session->out.size ? 0 : POLLIN) | (session->in.size ? POLLOUT : 0));
    if (poll(sockets, 2, POLL_MS) <= 0)
        return 0;
    bool is_open = true;
    if (sockets[1].revents)
        is_open = take_in(&session->out, session->end);
    is_open = is_open && give(&session->out, session->server, &sent);
    if (is_open && sockets[0].revents) {
        size_t before = session->in.size;
        is_open = take_in(&session->in, session->server);
        session->received += session->in.size - before;
    }
    is_open = is_open && give(&session->in, session->end, &given);
    if (!is_open) {
        close_sockets(session);
        return waiting;
    }
    return (given > 0 ? waiting & WEIR_INGEST__MY_WAIT_READ : 0) |
           (sent > 0 ? waiting & WEIR_INGEST__MY_WAIT_WRITE : 0);
}

/* The same while the library connects, with a socket of its own. */
static int poll_socket(weir_ingest__my_session *session, int waiting) {
    struct pollfd socket = {.fd = session->api.mysql_get_socket(session->connection)};
    socket.events = WEIR__LOW(short, (waiting & WEIR_INGEST__MY_WAIT_READ ? POLLIN : 0) |
                                         (waiting & WEIR_INGEST__MY_WAIT_WRITE ? POLLOUT : 0));
    if (poll(&socket, 1, POLL_MS) <= 0)
        return 0;
    return waiting & (WEIR_INGEST__MY_WAIT_READ | WEIR_INGEST__MY_WAIT_WRITE | WEIR_INGEST__MY_WAIT_EXCEPT);
}

/* Whether the library's calls return if they wait inside TLS. Over GnuTLS they do not: then the library
 * keeps its own socket, and what is said above of servers without end holds only without TLS. */
static bool can_take_over(const weir_ingest__my_session *session) {
    const char *library = NULL;
    return !session->api.mysql_get_ssl_cipher(session->connection) ||
           (session->api.mariadb_get_infov(session->connection, WEIR_INGEST__MY_TLS_LIBRARY, &library) == 0 &&
            library && strstr(library, "OpenSSL"));
}

/* The library goes on as the only one who talks to the server, but over us. */
static bool take_over(weir_ingest__my_session *session) {
    int pair[2] = {-1, -1}, theirs = session->api.mysql_get_socket(session->connection);
    session->server = fcntl(theirs, F_DUPFD_CLOEXEC, 0);
    bool is_done =
        session->server >= 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0;
    is_done = is_done && dup3(pair[0], theirs, O_CLOEXEC) >= 0;
    if (pair[0] >= 0)
        close(pair[0]);
    session->end = pair[1];
    if (!is_done)
        weir_ingest__my_hang_up(session, "no more sockets can be opened");
    return is_done;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* One call of the library, from the first time that it waits. */
typedef struct call {
    bool has_waited;
    uint64_t began_ns;
    uint64_t began_bytes;
    uint64_t most_bytes;
} call;

/* Waits until something has happened that a call waits for, and gives it; after hanging up, that the time is
 * over, with which every call returns. */
static int await(weir_ingest__my_session *session, int waiting, call *c) {
    if (!c->has_waited)
        *c = (call){true, weir_ingest__source_now(&session->base), session->received, c->most_bytes};
    for (int events = 0; !session->fault; events = 0) {
        const char *fault = weir_ingest__server_why_to_end(&session->base, c->began_ns);
        if (!fault && session->received - c->began_bytes > c->most_bytes)
            fault = strange_answer;
        if (fault)
            weir_ingest__my_hang_up(session, fault);
        else if (session->end >= 0)
            events = pass_on(session, waiting);
        else
            events = poll_socket(session, waiting);
        if (events)
            return events;
    }
    return WEIR_INGEST__MY_WAIT_TIMEOUT;
}

/* ---- Connecting ------------------------------------------------------------------------------ */

/* Answers to a server that asks for a file. */
static int refuse_file(void **out, const char *name, void *context) {
    (void)name, (void)context;
    *out = NULL;
    return 1;
}

static int read_nothing(void *file, char *out, unsigned int size) {
    (void)file, (void)out, (void)size;
    return 0;
}

static void end_nothing(void *file) {
    (void)file;
}

static int say_refused(void *file, char *out, unsigned int size) {
    (void)file;
    static const char reason[] = "the server asked for a file, which weir does not send";
    if (size > 0)
        memcpy(out, reason, size < sizeof reason ? size : sizeof reason);
    return 1;
}

bool weir_ingest__my_connect(weir_ingest__my_session *session, const weir_ingest__my_url *url) {
    const weir_ingest__my_api *api = &session->api;
    weir_ingest__my_connection connected = NULL;
    const char no = 0;
    call c = {.most_bytes = UINT64_MAX};
    static const unsigned connect_s = CONNECT_S, no_files = 0;
    static const size_t stack_size = STACK_SIZE, row_size = ROW_BYTES_MAX;
    const char yes = 1;
    const struct {
        int option;
        const void *value;
    } all[] = {
        {WEIR_INGEST__MY_OPT_NONBLOCK, &stack_size},
        {WEIR_INGEST__MY_OPT_CONNECT_TIMEOUT, &connect_s},
        {WEIR_INGEST__MY_OPT_MAX_ALLOWED_PACKET, &row_size},
        {WEIR_INGEST__MY_OPT_LOCAL_INFILE, &no_files},
        {WEIR_INGEST__MY_SET_CHARSET_NAME, "utf8mb4"},
        {WEIR_INGEST__MY_READ_DEFAULT_GROUP, "client"},
        /* not the one that asks the user, nor the one that sends the password as it is */
        {WEIR_INGEST__MY_OPT_RESTRICTED_AUTH, "mysql_native_password,client_ed25519,caching_sha2_password,"
                                              "sha256_password,parsec,auth_gssapi_client"},
        {WEIR_INGEST__MY_OPT_SSL_CA, url->ssl_ca},
        {WEIR_INGEST__MY_OPT_SSL_CERT, url->ssl_cert},
        {WEIR_INGEST__MY_OPT_SSL_KEY, url->ssl_key},
        {WEIR_INGEST__MY_OPT_SSL_ENFORCE, url->needs_tls ? &yes : NULL},
        {WEIR_INGEST__MY_OPT_SSL_VERIFY, url->verifies_tls ? &yes : NULL},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].value)
            session->api.mysql_options(session->connection, all[i].option, all[i].value);
    int waiting = api->mysql_real_connect_start(&connected, session->connection, url->host, url->user,
                                                url->password, url->database, url->port, url->socket, 0);
    while (waiting)
        waiting = api->mysql_real_connect_cont(&connected, session->connection, await(session, waiting, &c));
    if (!connected || session->fault || (can_take_over(session) && !take_over(session)))
        return false;
    /* Again, because the user's files may say otherwise. */
    api->mysql_options(session->connection, WEIR_INGEST__MY_OPT_RECONNECT, &no);
    api->mysql_set_local_infile_handler(session->connection, refuse_file, read_nothing, end_nothing,
                                        say_refused, NULL);
    if (url->needs_tls && !api->mysql_get_ssl_cipher(session->connection))
        weir_ingest__my_hang_up(session, "the connection is not encrypted, as ssl-mode wants it");
    return !session->fault;
}

void weir_ingest__my_close(weir_ingest__my_session *session) {
    size_t sent;
    bool is_open = session->end >= 0;
    if (session->connection)
        session->api.mysql_close(session->connection);
    if (is_open && take_in(&session->out, session->end))
        give(&session->out, session->server, &sent);
    close_sockets(session);
}

/* ---- Statements ------------------------------------------------------------------------------ */

bool weir_ingest__my_run(weir_ingest__my_session *session, const char *statement,
                         weir_ingest__my_result *out) {
    const weir_ingest__my_api *api = &session->api;
    int failed = 1;
    call c = {.most_bytes = HEAD_BYTES_MAX};
    *out = NULL;
    if (session->fault)
        return false;
    int waiting = api->mysql_real_query_start(&failed, session->connection, statement, strlen(statement));
    while (waiting)
        waiting = api->mysql_real_query_cont(&failed, session->connection, await(session, waiting, &c));
    if (failed || session->fault)
        return false;
    *out = api->mysql_use_result(session->connection);
    return *out || api->mysql_errno(session->connection) == 0;
}

bool weir_ingest__my_fetch(weir_ingest__my_session *session, weir_ingest__my_result result,
                           weir_ingest__my_row *out) {
    const weir_ingest__my_api *api = &session->api;
    call c = {.most_bytes = UINT64_MAX}; /* the library has a limit for rows */
    *out = NULL;
    int waiting = api->mysql_fetch_row_start(out, result);
    while (waiting)
        waiting = api->mysql_fetch_row_cont(out, result, await(session, waiting, &c));
    if (session->fault || (!*out && api->mysql_errno(session->connection) != 0))
        return false;
    if (!*out && api->mysql_more_results(session->connection))
        weir_ingest__my_hang_up(session, strange_answer);
    return !session->fault;
}

void weir_ingest__my_leave(weir_ingest__my_session *session, weir_ingest__my_result result, bool is_ended) {
    uint64_t began = session->received;
    weir_ingest__my_row row = NULL;
    while (!is_ended && !session->fault) {
        is_ended = !weir_ingest__my_fetch(session, result, &row) || !row;
        if (!is_ended && session->received - began > LEFT_BYTES_MAX)
            weir_ingest__my_hang_up(session, "a statement was left before its end");
    }
    session->api.mysql_free_result(result);
}

weir_status weir_ingest__my_columns_read(weir_ingest__my_session *session, const char *query,
                                         weir_ingest__my_columns *out, weir_error *error) {
    const weir_ingest__my_api *api = &session->api;
    static const char what[] = "cannot read the query";
    int failed = 1;
    call c = {.most_bytes = HEAD_BYTES_MAX};
    *out = (weir_ingest__my_columns){0};
    out->statement = session->fault ? NULL : api->mysql_stmt_init(session->connection);
    if (!out->statement)
        return weir_ingest__my_fail(error, session, NULL, what);
    int waiting = api->mysql_stmt_prepare_start(&failed, out->statement, query, strlen(query));
    while (waiting)
        waiting = api->mysql_stmt_prepare_cont(&failed, out->statement, await(session, waiting, &c));
    if (failed || session->fault) {
        weir_status status =
            weir_ingest__my_fail(error, session, api->mysql_stmt_error(out->statement), what);
        weir_ingest__my_columns_release(session, out);
        return status;
    }
    out->result = api->mysql_stmt_result_metadata(out->statement);
    out->count = out->result ? api->mysql_num_fields(out->result) : 0;
    out->fields = out->result ? api->mysql_fetch_fields(out->result) : NULL;
    return WEIR_OK;
}

void weir_ingest__my_columns_release(weir_ingest__my_session *session, weir_ingest__my_columns *columns) {
    const weir_ingest__my_api *api = &session->api;
    char unused;
    call c = {.most_bytes = HEAD_BYTES_MAX};
    if (columns->result)
        api->mysql_free_result(columns->result);
    int waiting = api->mysql_stmt_close_start(&unused, columns->statement);
    while (waiting)
        waiting = api->mysql_stmt_close_cont(&unused, columns->statement, await(session, waiting, &c));
    *columns = (weir_ingest__my_columns){0};
}

/* ---- Rows of the catalog --------------------------------------------------------------------- */

weir_status weir_ingest__my_read_rows(weir_ingest__my_session *session, const char *statement,
                                      uint32_t column_count, const char *what, weir_ingest__text_rows *out,
                                      weir_error *error) {
    *out = (weir_ingest__text_rows){.memory = {.env = session->base.env}, .column_count = column_count};
    weir_ingest__my_result result;
    weir_ingest__my_row row = NULL;
    bool is_fine = weir_ingest__my_run(session, statement, &result);
    if (is_fine && (!result || session->api.mysql_num_fields(result) != column_count))
        weir_ingest__my_hang_up(session, strange_answer);
    weir_status status = WEIR_OK;
    while (is_fine && !session->fault && !status) {
        is_fine = weir_ingest__my_fetch(session, result, &row);
        if (!is_fine || !row)
            break;
        const unsigned long *sizes = session->api.mysql_fetch_lengths(result);
        for (uint32_t i = 0; i < out->column_count && !status; i++) {
            if (row[i] && !weir__utf8_is_valid(row[i], sizes[i]))
                weir_ingest__my_hang_up(session,
                                        "the server sent a name that is not UTF-8, which it was told to use");
            status = weir_ingest__text_rows_add(out, row[i], row[i] ? sizes[i] : 0, error);
        }
        out->row_count++;
        if (!status && weir_ingest__text_rows_are_full(out))
            weir_ingest__my_hang_up(session, WEIR_INGEST__TEXT_ROWS_FULL);
    }
    if (!status && (!is_fine || session->fault))
        status = weir_ingest__my_fail(error, session, NULL, what);
    if (result)
        weir_ingest__my_leave(session, result, is_fine && !row);
    if (status)
        weir_ingest__text_rows_release(out);
    return status;
}
