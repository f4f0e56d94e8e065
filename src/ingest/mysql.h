/* What the files of the MySQL source share: the session, the forms that values come in, and statements.
 *
 *   source_mysql.c    sessions: connecting, settings, the snapshot
 *   mysql_url.c       what a mysql:// URL says
 *   mysql_api.c       finding the library
 *   mysql_wait.c      every wait for the server, and the form of its answers
 *   mysql_catalog.c   tables, columns and keys from information_schema
 *   mysql_cursor.c    scans and queries, row by row
 *   mysql_values.c    the server's types and its text forms of values */
#ifndef WEIR_INGEST_MYSQL_H
#define WEIR_INGEST_MYSQL_H

#include "ingest/mysql_api.h"
#include "ingest/sql.h"
#include "ingest/text_rows.h"

/* ---- URLs ------------------------------------------------------------------------------------ */

/* Texts are NULL if the URL does not say them: the library then looks into the user's files. */
typedef struct weir_ingest__my_url {
    char *host;
    char *user;
    char *password;
    char *database;
    char *socket;
    char *ssl_ca;
    char *ssl_cert;
    char *ssl_key;
    unsigned port;     /* 0: not said */
    bool needs_tls;    /* ssl-mode=required, or */
    bool verifies_tls; /* verify_identity */
    char *memory;      /* under the texts */
} weir_ingest__my_url;

bool weir_ingest__my_url_accepts(const char *location);
/* SOURCE_ERROR if it cannot be read. The caller releases `memory`, also then. */
WEIR_CHECKED weir_status weir_ingest__my_url_read(const weir_env *env, const char *location,
                                                  weir_ingest__my_url *out, weir_error *error);

/* ---- Sessions -------------------------------------------------------------------------------- */

enum { WEIR_INGEST__MY_RELAY_SIZE = 65536, WEIR_INGEST__MY_NAME_MAX = 64 * 4 + 1 };

/* Bytes on their way between the library and the server (mysql_wait.c). */
typedef struct weir_ingest__my_bytes {
    char data[WEIR_INGEST__MY_RELAY_SIZE];
    size_t offset, size; /* what is still to be passed on */
} weir_ingest__my_bytes;

typedef struct weir_ingest__my_session {
    weir_ingest__source base;
    weir_ingest__my_api api;
    weir_ingest__my_connection connection;
    const char *fault; /* static; why it has hung up, NULL while it has not */
    char database[WEIR_INGEST__MY_NAME_MAX];
    int server; /* the socket to the server, and */
    int end;    /* the other end of the library's; both -1 while it connects, and after hanging up */
    uint64_t received;
    weir_ingest__my_bytes in, out;
} weir_ingest__my_session;

/* SOURCE_ERROR with what was tried and why it failed: the session's fault, else `text` (NULL: the
 * connection's last error). */
weir_status weir_ingest__my_fail(weir_error *error, const weir_ingest__my_session *session, const char *text,
                                 const char *what);

/* Ends the connection; from then on `fault` is what is wrong, and nothing waits any more. */
void weir_ingest__my_hang_up(weir_ingest__my_session *session, const char *fault);

/* Connects, and takes over what passes between the library and the server. False if it failed. */
bool weir_ingest__my_connect(weir_ingest__my_session *session, const weir_ingest__my_url *url);

/* Says goodbye, as far as the server listens, and closes the connection. */
void weir_ingest__my_close(weir_ingest__my_session *session);

/* Runs a statement; *out has its rows, NULL if it has none. False if it failed. */
bool weir_ingest__my_run(weir_ingest__my_session *session, const char *statement,
                         weir_ingest__my_result *out);

/* The next row, NULL at the end. It is valid until the next call, and so are its sizes. False if it failed.
 */
bool weir_ingest__my_fetch(weir_ingest__my_session *session, weir_ingest__my_result result,
                           weir_ingest__my_row *out);

/* Leaves rows: what the statement still sends is read if that is little, else the session hangs up. */
void weir_ingest__my_leave(weir_ingest__my_session *session, weir_ingest__my_result result, bool is_ended);

/* The columns of a query, which is not run. */
typedef struct weir_ingest__my_columns {
    weir_ingest__my_statement statement;
    weir_ingest__my_result result; /* NULL if the query has none */
    uint32_t count;
    const weir_ingest__my_field *fields;
} weir_ingest__my_columns;

/* The caller releases them if it succeeds. */
WEIR_CHECKED weir_status weir_ingest__my_columns_read(weir_ingest__my_session *session, const char *query,
                                                      weir_ingest__my_columns *out, weir_error *error);
void weir_ingest__my_columns_release(weir_ingest__my_session *session, weir_ingest__my_columns *columns);

/* Runs a statement about the catalog and gives its rows, which have `column_count` columns and end, or it is
 * SOURCE_ERROR. The caller releases them. */
WEIR_CHECKED weir_status weir_ingest__my_read_rows(weir_ingest__my_session *session, const char *statement,
                                                   uint32_t column_count, const char *what,
                                                   weir_ingest__text_rows *out, weir_error *error);

/* ---- Values ---------------------------------------------------------------------------------- */

/* How a column's values come over the wire: as text, by its type. */
typedef enum weir_ingest__my_form {
    WEIR_INGEST__MY_AS_TEXT,
    WEIR_INGEST__MY_AS_BYTES,
    WEIR_INGEST__MY_AS_EXACT,    /* integers and decimals */
    WEIR_INGEST__MY_AS_REAL,     /* all digits of a double */
    WEIR_INGEST__MY_AS_FLOAT,    /* six digits of a float, which lose the rest: is not read so */
    WEIR_INGEST__MY_AS_TIME,     /* dates and datetimes */
    WEIR_INGEST__MY_AS_BITS,     /* an unsigned integer, big-endian */
    WEIR_INGEST__MY_AS_GEOMETRY, /* is not read */
} weir_ingest__my_form;

typedef struct weir_ingest__my_type {
    weir_ingest__my_form form;
    weir_ingest__declared declared;
} weir_ingest__my_type;

/* Of a column of an answer. */
weir_ingest__my_type weir_ingest__my_type_of(const weir_ingest__my_field *field);

/* Of a column in information_schema: by its type's name ("tinyint") and the whole of it ("tinyint(1)"). */
weir_ingest__my_type weir_ingest__my_type_named(const char *name, const char *whole);

/* A value that is not null; text and bytes borrow `data`, which need not be terminated. Returns NULL, or what
 * is wrong with the value, static. */
const char *weir_ingest__my_decode(weir_ingest__my_form form, const char *data, size_t size,
                                   weir_ingest__value *out);

/* ---- Tables ---------------------------------------------------------------------------------- */

/* A catalog table's detail. The forms of its columns are their source_type. */
typedef struct weir_ingest__my_table {
    bool has_snapshots; /* its engine has transactions */
    char engine[32];
} weir_ingest__my_table;

weir_ingest__describe_method weir_ingest__my_describe;
weir_ingest__scan_method weir_ingest__my_scan;
weir_ingest__query_method weir_ingest__my_query;
weir_ingest__describe_query_method weir_ingest__my_describe_query;

#endif
