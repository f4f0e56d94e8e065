/* DuckDB's C API, as far as it is used here, declared by its binary interface: opaque pointers, a result
 * struct of six words that is passed by value, 16-byte strings, and the numbers of the types. The library
 * is found at run time (dlopen), so weir needs nothing of DuckDB to be built. */
#ifndef WEIR_INGEST_DUCKDB_API_H
#define WEIR_INGEST_DUCKDB_API_H

#include <assert.h>

#include "ingest/source.h"

typedef struct weir_ingest__duck_database_handle *weir_ingest__duck_database;
typedef struct weir_ingest__duck_connection_handle *weir_ingest__duck_connection;
typedef struct weir_ingest__duck_config_handle *weir_ingest__duck_config;
typedef struct weir_ingest__duck_statement_handle *weir_ingest__duck_statement;
typedef struct weir_ingest__duck_chunk_handle *weir_ingest__duck_chunk;
typedef struct weir_ingest__duck_vector_handle *weir_ingest__duck_vector;
typedef struct weir_ingest__duck_type_handle *weir_ingest__duck_logical_type;

typedef struct weir_ingest__duck_result {
    uint64_t unused[3];
    void *unused_pointers[2];
    void *internal;
} weir_ingest__duck_result;

/* Up to 12 bytes lie in the string itself, from `prefix` on; longer text is elsewhere. */
typedef struct weir_ingest__duck_string {
    uint32_t size;
    char prefix[4];
    const char *data;
} weir_ingest__duck_string;
enum { WEIR_INGEST__DUCK_INLINE_MAX = 12 };

static_assert(sizeof(weir_ingest__duck_string) == 16, "DuckDB's strings have 16 bytes");
static_assert(sizeof(weir_ingest__duck_result) == 48, "DuckDB's results have 48 bytes");

enum {
    WEIR_INGEST__DUCK_BOOLEAN = 1,
    WEIR_INGEST__DUCK_TINYINT = 2,
    WEIR_INGEST__DUCK_SMALLINT = 3,
    WEIR_INGEST__DUCK_INTEGER = 4,
    WEIR_INGEST__DUCK_BIGINT = 5,
    WEIR_INGEST__DUCK_UTINYINT = 6,
    WEIR_INGEST__DUCK_USMALLINT = 7,
    WEIR_INGEST__DUCK_UINTEGER = 8,
    WEIR_INGEST__DUCK_UBIGINT = 9,
    WEIR_INGEST__DUCK_FLOAT = 10,
    WEIR_INGEST__DUCK_DOUBLE = 11,
    WEIR_INGEST__DUCK_TIMESTAMP = 12, /* microseconds */
    WEIR_INGEST__DUCK_DATE = 13,
    WEIR_INGEST__DUCK_HUGEINT = 16,
    WEIR_INGEST__DUCK_VARCHAR = 17,
    WEIR_INGEST__DUCK_BLOB = 18,
    WEIR_INGEST__DUCK_DECIMAL = 19,
    WEIR_INGEST__DUCK_TIMESTAMP_S = 20,
    WEIR_INGEST__DUCK_TIMESTAMP_MS = 21,
    WEIR_INGEST__DUCK_TIMESTAMP_NS = 22,
    WEIR_INGEST__DUCK_ENUM = 23,
    WEIR_INGEST__DUCK_TIMESTAMP_TZ = 31, /* microseconds, UTC */
    WEIR_INGEST__DUCK_UHUGEINT = 32,
};

enum { WEIR_INGEST__DUCK_SELECT_STATEMENT = 1 };

/* Every function that is used: X(result, name without "duckdb_", parameters). States are 0 for success. */
#define WEIR_INGEST__DUCK_FUNCTIONS(X)                                                                       \
    X(const char *, library_version, (void))                                                                 \
    X(int, create_config, (weir_ingest__duck_config *))                                                      \
    X(int, set_config, (weir_ingest__duck_config, const char *, const char *))                               \
    X(void, destroy_config, (weir_ingest__duck_config *))                                                    \
    X(int, open_ext, (const char *, weir_ingest__duck_database *, weir_ingest__duck_config, char **))        \
    X(void, close, (weir_ingest__duck_database *))                                                           \
    X(int, connect, (weir_ingest__duck_database, weir_ingest__duck_connection *))                            \
    X(void, disconnect, (weir_ingest__duck_connection *))                                                    \
    X(void, interrupt, (weir_ingest__duck_connection))                                                       \
    X(void, free, (void *))                                                                                  \
    X(int, query, (weir_ingest__duck_connection, const char *, weir_ingest__duck_result *))                  \
    X(int, prepare, (weir_ingest__duck_connection, const char *, weir_ingest__duck_statement *))             \
    X(const char *, prepare_error, (weir_ingest__duck_statement))                                            \
    X(int, prepared_statement_type, (weir_ingest__duck_statement))                                           \
    X(void, destroy_prepare, (weir_ingest__duck_statement *))                                                \
    X(int, execute_prepared, (weir_ingest__duck_statement, weir_ingest__duck_result *))                      \
    X(int, execute_prepared_streaming, (weir_ingest__duck_statement, weir_ingest__duck_result *))            \
    X(const char *, result_error, (weir_ingest__duck_result *))                                              \
    X(void, destroy_result, (weir_ingest__duck_result *))                                                    \
    X(uint64_t, column_count, (weir_ingest__duck_result *))                                                  \
    X(const char *, column_name, (weir_ingest__duck_result *, uint64_t))                                     \
    X(int, column_type, (weir_ingest__duck_result *, uint64_t))                                              \
    X(weir_ingest__duck_logical_type, column_logical_type, (weir_ingest__duck_result *, uint64_t))           \
    X(uint8_t, decimal_scale, (weir_ingest__duck_logical_type))                                              \
    X(int, decimal_internal_type, (weir_ingest__duck_logical_type))                                          \
    X(void, destroy_logical_type, (weir_ingest__duck_logical_type *))                                        \
    X(weir_ingest__duck_chunk, fetch_chunk, (weir_ingest__duck_result))                                      \
    X(void, destroy_data_chunk, (weir_ingest__duck_chunk *))                                                 \
    X(uint64_t, data_chunk_get_size, (weir_ingest__duck_chunk))                                              \
    X(weir_ingest__duck_vector, data_chunk_get_vector, (weir_ingest__duck_chunk, uint64_t))                  \
    X(void *, vector_get_data, (weir_ingest__duck_vector))                                                   \
    X(uint64_t *, vector_get_validity, (weir_ingest__duck_vector))

typedef struct weir_ingest__duck_api {
#define WEIR_INGEST__DUCK_MEMBER(result, name, parameters) result(*name) parameters;
    WEIR_INGEST__DUCK_FUNCTIONS(WEIR_INGEST__DUCK_MEMBER)
#undef WEIR_INGEST__DUCK_MEMBER
} weir_ingest__duck_api;

/* Finds, loads and checks the library; it stays loaded. SOURCE_ERROR says where it was looked for and how
 * to get it. */
WEIR_CHECKED weir_status weir_ingest__duck_load(weir_ingest__duck_api *out, weir_error *error);

/* ---- Sessions -------------------------------------------------------------------------------- */

typedef struct weir_ingest__duck_session {
    weir_ingest__source base;
    weir_ingest__duck_api api;
    weir_ingest__duck_database database;
    weir_ingest__duck_connection connection;
    bool is_fork;               /* the database is the origin's to close */
    bool has_files;             /* views of files in an in-memory database; else a database file */
    weir_ingest__source *files; /* what is known of them; NULL in a fork */
} weir_ingest__duck_session;

/* A catalog table's detail: rows that the parts of a scan share out by rowid; 0: it cannot be shared. */
typedef struct weir_ingest__duck_table {
    uint64_t shared_rows;
} weir_ingest__duck_table;

/* Starts a statement that gives rows, one of the user's where `is_query`. Messages call it "KIND NAME". */
WEIR_CHECKED weir_status weir_ingest__duck_start(weir_ingest__duck_session *session, const char *statement,
                                                 bool is_query, const char *kind, const char *name,
                                                 weir_ingest__cursor **out, weir_error *error);

weir_ingest__describe_method weir_ingest__duck_describe;
weir_ingest__describe_query_method weir_ingest__duck_describe_query;
/* Runs a statement whose rows do not matter. `what` is for messages. */
WEIR_CHECKED weir_status weir_ingest__duck_run(weir_ingest__duck_session *session, const char *statement,
                                               const char *what, weir_error *error);

/* What a column of a type is declared as. */
weir_ingest__declared weir_ingest__duck_declared(int type);

/* SOURCE_ERROR: "<what>: <DuckDB's message in one line>". */
weir_status weir_ingest__duck_fail(weir_error *error, const char *what, const char *message);

/* Makes a view for each table of files (duckdb_files.c). */
WEIR_CHECKED weir_status weir_ingest__duck_view_files(weir_ingest__duck_session *session, weir_error *error);

#endif
