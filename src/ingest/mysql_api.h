/* The client library of MariaDB (libmariadb), as far as it is used here, declared by its binary interface:
 * opaque pointers, rows as arrays of texts, one struct for a column, and the numbers of options and types.
 * The library is found at run time (dlopen), so weir needs nothing of MySQL to be built. It reads MySQL
 * servers as well. A test compares what is declared here with the library's own header. */
#ifndef WEIR_INGEST_MYSQL_API_H
#define WEIR_INGEST_MYSQL_API_H

#include <assert.h>

#include "ingest/source.h"

typedef struct weir_ingest__my_connection_handle *weir_ingest__my_connection;
typedef struct weir_ingest__my_result_handle *weir_ingest__my_result;
typedef struct weir_ingest__my_statement_handle *weir_ingest__my_statement;
typedef char **weir_ingest__my_row;

typedef struct weir_ingest__my_field {
    const char *name;
    const char *org_name; /* the column's in its table; empty if it is computed */
    const char *table;
    const char *org_table;
    const char *db;
    const char *catalog;
    const char *def;
    unsigned long length; /* the most bytes, or digits, or bits */
    unsigned long max_length;
    unsigned int name_length;
    unsigned int org_name_length;
    unsigned int table_length;
    unsigned int org_table_length;
    unsigned int db_length;
    unsigned int catalog_length;
    unsigned int def_length;
    unsigned int flags;
    unsigned int decimals;
    unsigned int charsetnr;
    int type;
    void *extension;
} weir_ingest__my_field;

static_assert(sizeof(void *) != 8 || sizeof(weir_ingest__my_field) == 128, "a MYSQL_FIELD has 128 bytes");

enum { /* types */
       WEIR_INGEST__MY_DECIMAL = 0,
       WEIR_INGEST__MY_TINY = 1,
       WEIR_INGEST__MY_SHORT = 2,
       WEIR_INGEST__MY_LONG = 3,
       WEIR_INGEST__MY_FLOAT = 4,
       WEIR_INGEST__MY_DOUBLE = 5,
       WEIR_INGEST__MY_TIMESTAMP = 7,
       WEIR_INGEST__MY_LONGLONG = 8,
       WEIR_INGEST__MY_INT24 = 9,
       WEIR_INGEST__MY_DATE = 10,
       WEIR_INGEST__MY_TIME = 11,
       WEIR_INGEST__MY_DATETIME = 12,
       WEIR_INGEST__MY_YEAR = 13,
       WEIR_INGEST__MY_BIT = 16,
       WEIR_INGEST__MY_JSON = 245,
       WEIR_INGEST__MY_NEWDECIMAL = 246,
       WEIR_INGEST__MY_GEOMETRY = 255,
};
enum { WEIR_INGEST__MY_ENUM_FLAG = 256, WEIR_INGEST__MY_BINARY_CHARSET = 63 };

enum { /* options */
       WEIR_INGEST__MY_OPT_CONNECT_TIMEOUT = 0,
       WEIR_INGEST__MY_READ_DEFAULT_GROUP = 5,
       WEIR_INGEST__MY_SET_CHARSET_NAME = 7,
       WEIR_INGEST__MY_OPT_LOCAL_INFILE = 8,
       WEIR_INGEST__MY_OPT_RECONNECT = 20,
       WEIR_INGEST__MY_OPT_SSL_VERIFY = 21,
       WEIR_INGEST__MY_OPT_SSL_KEY = 25,
       WEIR_INGEST__MY_OPT_SSL_CERT = 26,
       WEIR_INGEST__MY_OPT_SSL_CA = 27,
       WEIR_INGEST__MY_OPT_SSL_ENFORCE = 38,
       WEIR_INGEST__MY_OPT_MAX_ALLOWED_PACKET = 39,
       WEIR_INGEST__MY_OPT_NONBLOCK = 6000,
       WEIR_INGEST__MY_OPT_RESTRICTED_AUTH = 7026,
};

enum { WEIR_INGEST__MY_TLS_LIBRARY = 22 }; /* what the library may be asked */

/* What a call that was started waits for, and what has come. */
enum {
    WEIR_INGEST__MY_WAIT_READ = 1,
    WEIR_INGEST__MY_WAIT_WRITE = 2,
    WEIR_INGEST__MY_WAIT_EXCEPT = 4,
    WEIR_INGEST__MY_WAIT_TIMEOUT = 8,
};

/* Every function that is used: X(result, name, parameters). Those that wait for a server
 * come in pairs: _start gives what it waits for (0: it has ended), _cont goes on. */
#define WEIR_INGEST__MY_FUNCTIONS(X)                                                                         \
    X(int, mysql_server_init, (int, char **, char **))                                                       \
    X(weir_ingest__my_connection, mysql_init, (weir_ingest__my_connection))                                  \
    X(int, mysql_options, (weir_ingest__my_connection, int, const void *))                                   \
    X(void, mysql_set_local_infile_handler,                                                                  \
      (weir_ingest__my_connection, int (*)(void **, const char *, void *),                                   \
       int (*)(void *, char *, unsigned int), void (*)(void *), int (*)(void *, char *, unsigned int),       \
       void *))                                                                                              \
    X(int, mysql_real_connect_start,                                                                         \
      (weir_ingest__my_connection *, weir_ingest__my_connection, const char *, const char *, const char *,   \
       const char *, unsigned int, const char *, unsigned long))                                             \
    X(int, mysql_real_connect_cont, (weir_ingest__my_connection *, weir_ingest__my_connection, int))         \
    X(void, mysql_close, (weir_ingest__my_connection))                                                       \
    X(int, mysql_get_socket, (weir_ingest__my_connection))                                                   \
    X(char, mariadb_get_infov, (weir_ingest__my_connection, int, void *, ...))                               \
    X(const char *, mysql_get_ssl_cipher, (weir_ingest__my_connection))                                      \
    X(unsigned int, mysql_errno, (weir_ingest__my_connection))                                               \
    X(const char *, mysql_error, (weir_ingest__my_connection))                                               \
    X(int, mysql_real_query_start, (int *, weir_ingest__my_connection, const char *, unsigned long))         \
    X(int, mysql_real_query_cont, (int *, weir_ingest__my_connection, int))                                  \
    X(weir_ingest__my_result, mysql_use_result, (weir_ingest__my_connection))                                \
    X(char, mysql_more_results, (weir_ingest__my_connection))                                                \
    X(int, mysql_fetch_row_start, (weir_ingest__my_row *, weir_ingest__my_result))                           \
    X(int, mysql_fetch_row_cont, (weir_ingest__my_row *, weir_ingest__my_result, int))                       \
    X(unsigned long *, mysql_fetch_lengths, (weir_ingest__my_result))                                        \
    X(unsigned int, mysql_num_fields, (weir_ingest__my_result))                                              \
    X(weir_ingest__my_field *, mysql_fetch_fields, (weir_ingest__my_result))                                 \
    X(void, mysql_free_result, (weir_ingest__my_result))                                                     \
    X(weir_ingest__my_statement, mysql_stmt_init, (weir_ingest__my_connection))                              \
    X(int, mysql_stmt_prepare_start, (int *, weir_ingest__my_statement, const char *, unsigned long))        \
    X(int, mysql_stmt_prepare_cont, (int *, weir_ingest__my_statement, int))                                 \
    X(weir_ingest__my_result, mysql_stmt_result_metadata, (weir_ingest__my_statement))                       \
    X(const char *, mysql_stmt_error, (weir_ingest__my_statement))                                           \
    X(int, mysql_stmt_close_start, (char *, weir_ingest__my_statement))                                      \
    X(int, mysql_stmt_close_cont, (char *, weir_ingest__my_statement, int))

typedef struct weir_ingest__my_api {
#define WEIR_INGEST__MY_MEMBER(result, name, parameters) result(*name) parameters;
    WEIR_INGEST__MY_FUNCTIONS(WEIR_INGEST__MY_MEMBER)
#undef WEIR_INGEST__MY_MEMBER
} weir_ingest__my_api;

/* Finds and loads the library; it stays loaded. SOURCE_ERROR says how to get it. */
WEIR_CHECKED weir_status weir_ingest__my_load(weir_ingest__my_api *out, weir_error *error);

#endif
