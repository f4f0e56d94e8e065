/* DuckDB's C API, as far as it is used here, declared by its binary interface: opaque pointers, a result
 * struct of six words that is passed by value, 16-byte strings, and the numbers of the types. The library
 * is found at run time (dlopen), so weir needs nothing of DuckDB to be built. */
#ifndef WEIR_INGEST_DUCKDB_API_H
#define WEIR_INGEST_DUCKDB_API_H

#include <assert.h>

#include "ingest/source.h"

typedef struct weir__duck_database_handle *weir__duck_database;
typedef struct weir__duck_connection_handle *weir__duck_connection;
typedef struct weir__duck_config_handle *weir__duck_config;
typedef struct weir__duck_statement_handle *weir__duck_statement;
typedef struct weir__duck_chunk_handle *weir__duck_chunk;
typedef struct weir__duck_vector_handle *weir__duck_vector;
typedef struct weir__duck_type_handle *weir__duck_logical_type;

typedef struct weir__duck_result {
    uint64_t unused[3];
    void *unused_pointers[2];
    void *internal;
} weir__duck_result;

/* Up to 12 bytes lie in the string itself, from `prefix` on; longer text is elsewhere. */
typedef struct weir__duck_string {
    uint32_t size;
    char prefix[4];
    const char *data;
} weir__duck_string;
enum { WEIR__DUCK_INLINE_MAX = 12 };

static_assert(sizeof(weir__duck_string) == 16, "DuckDB's strings have 16 bytes");
static_assert(sizeof(weir__duck_result) == 48, "DuckDB's results have 48 bytes");

enum {
    WEIR__DUCK_BOOLEAN = 1,
    WEIR__DUCK_TINYINT = 2,
    WEIR__DUCK_SMALLINT = 3,
    WEIR__DUCK_INTEGER = 4,
    WEIR__DUCK_BIGINT = 5,
    WEIR__DUCK_UTINYINT = 6,
    WEIR__DUCK_USMALLINT = 7,
    WEIR__DUCK_UINTEGER = 8,
    WEIR__DUCK_UBIGINT = 9,
    WEIR__DUCK_FLOAT = 10,
    WEIR__DUCK_DOUBLE = 11,
    WEIR__DUCK_TIMESTAMP = 12, /* microseconds */
    WEIR__DUCK_DATE = 13,
    WEIR__DUCK_HUGEINT = 16,
    WEIR__DUCK_VARCHAR = 17,
    WEIR__DUCK_BLOB = 18,
    WEIR__DUCK_DECIMAL = 19,
    WEIR__DUCK_TIMESTAMP_S = 20,
    WEIR__DUCK_TIMESTAMP_MS = 21,
    WEIR__DUCK_TIMESTAMP_NS = 22,
    WEIR__DUCK_ENUM = 23,
    WEIR__DUCK_TIMESTAMP_TZ = 31, /* microseconds, UTC */
    WEIR__DUCK_UHUGEINT = 32,
};

enum { WEIR__DUCK_SELECT_STATEMENT = 1 };

/* Every function that is used: X(result, name without "duckdb_", parameters). States are 0 for success. */
#define WEIR__DUCK_FUNCTIONS(X)                                                                              \
    X(const char *, library_version, (void))                                                                 \
    X(int, create_config, (weir__duck_config *))                                                             \
    X(int, set_config, (weir__duck_config, const char *, const char *))                                      \
    X(void, destroy_config, (weir__duck_config *))                                                           \
    X(int, open_ext, (const char *, weir__duck_database *, weir__duck_config, char **))                      \
    X(void, close, (weir__duck_database *))                                                                  \
    X(int, connect, (weir__duck_database, weir__duck_connection *))                                          \
    X(void, disconnect, (weir__duck_connection *))                                                           \
    X(void, interrupt, (weir__duck_connection))                                                              \
    X(void, free, (void *))                                                                                  \
    X(int, query, (weir__duck_connection, const char *, weir__duck_result *))                                \
    X(int, prepare, (weir__duck_connection, const char *, weir__duck_statement *))                           \
    X(const char *, prepare_error, (weir__duck_statement))                                                   \
    X(int, prepared_statement_type, (weir__duck_statement))                                                  \
    X(void, destroy_prepare, (weir__duck_statement *))                                                       \
    X(int, execute_prepared, (weir__duck_statement, weir__duck_result *))                                    \
    X(int, execute_prepared_streaming, (weir__duck_statement, weir__duck_result *))                          \
    X(const char *, result_error, (weir__duck_result *))                                                     \
    X(void, destroy_result, (weir__duck_result *))                                                           \
    X(uint64_t, column_count, (weir__duck_result *))                                                         \
    X(const char *, column_name, (weir__duck_result *, uint64_t))                                            \
    X(int, column_type, (weir__duck_result *, uint64_t))                                                     \
    X(weir__duck_logical_type, column_logical_type, (weir__duck_result *, uint64_t))                         \
    X(uint8_t, decimal_scale, (weir__duck_logical_type))                                                     \
    X(int, decimal_internal_type, (weir__duck_logical_type))                                                 \
    X(void, destroy_logical_type, (weir__duck_logical_type *))                                               \
    X(weir__duck_chunk, fetch_chunk, (weir__duck_result))                                                    \
    X(void, destroy_data_chunk, (weir__duck_chunk *))                                                        \
    X(uint64_t, data_chunk_get_size, (weir__duck_chunk))                                                     \
    X(weir__duck_vector, data_chunk_get_vector, (weir__duck_chunk, uint64_t))                                \
    X(void *, vector_get_data, (weir__duck_vector))                                                          \
    X(uint64_t *, vector_get_validity, (weir__duck_vector))

typedef struct weir__duck_api {
#define WEIR__DUCK_MEMBER(result, name, parameters) result(*name) parameters;
    WEIR__DUCK_FUNCTIONS(WEIR__DUCK_MEMBER)
#undef WEIR__DUCK_MEMBER
} weir__duck_api;

/* Finds, loads and checks the library; it stays loaded. SOURCE_ERROR says where it was looked for and how
 * to get it. */
WEIR_CHECKED weir_status weir__duck_load(weir__duck_api *out, weir_error *error);

/* ---- Sessions -------------------------------------------------------------------------------- */

typedef struct weir__duck_session {
    weir__source base;
    weir__duck_api api;
    weir__duck_database database;
    weir__duck_connection connection;
    atomic_bool is_interrupted;
    bool is_fork;        /* the database is the origin's to close */
    bool has_files;      /* views of files in an in-memory database; else a database file */
    weir__source *files; /* what is known of them; NULL in a fork */
    const weir__source_options *options;
} weir__duck_session;

/* A catalog table's detail: rows that the parts of a scan share out by rowid; 0: it cannot be shared. */
typedef struct weir__duck_table {
    uint64_t shared_rows;
} weir__duck_table;

/* Starts a statement that gives rows, one of the user's where `is_query`. `what` is for messages and
 * copied. */
WEIR_CHECKED weir_status weir__duck_start(weir__duck_session *session, const char *statement, bool is_query,
                                          const char *what, weir__cursor **out, weir_error *error);

WEIR_CHECKED weir_status weir__duck_describe(weir__source *source, weir__catalog *out, weir_error *error);
WEIR_CHECKED weir_status weir__duck_describe_query(weir__source *source, const char *sql,
                                                   weir__catalog *catalog, weir__catalog_table *table,
                                                   weir_error *error);
/* Runs a statement whose rows do not matter. `what` is for messages. */
WEIR_CHECKED weir_status weir__duck_run(weir__duck_session *session, const char *statement, const char *what,
                                        weir_error *error);

/* What a column of a type is declared as. */
weir__declared weir__duck_declared(int type);

/* SOURCE_ERROR: "<what>: <DuckDB's message in one line>". */
weir_status weir__duck_fail(weir_error *error, const char *what, const char *message);

/* Makes a view for each table of files (duckdb_files.c). */
WEIR_CHECKED weir_status weir__duck_view_files(weir__duck_session *session, weir_error *error);

#endif
