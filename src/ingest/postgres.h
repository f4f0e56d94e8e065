/* What the files of the PostgreSQL source share: the session, the forms that values come in, and
 * statements.
 *
 *   source_postgres.c    sessions: connecting, the snapshot, what the server can do
 *   postgres_catalog.c   tables, columns and keys from the system catalogs
 *   postgres_cursor.c    scans and queries: binary COPY, or rows one by one as text
 *   postgres_values.c    the server's forms of values, binary and text */
#ifndef WEIR_SRC_INGEST_POSTGRES_H
#define WEIR_SRC_INGEST_POSTGRES_H

#include <libpq-fe.h>

#include "ingest/source.h"
#include "ingest/sql.h"

/* ---- Sessions -------------------------------------------------------------------------------- */

typedef struct weir__pg_session {
    weir__source base;
    PGconn *connection;
    const weir__source_options *options;
    char snapshot[64];   /* the exported snapshot's name; empty where the server cannot export one */
    bool can_copy;       /* COPY … TO STDOUT (FORMAT binary) works */
    bool has_savepoints; /* SAVEPOINT works */
    bool can_share;      /* tables can be read in parts by ranges of ctid */
    bool is_reading;     /* a cursor is open: one at a time a session, as the protocol has it */
} weir__pg_session;

/* SOURCE_ERROR with what was tried and the server's own message (of `result`, or of the connection where
 * that is NULL or has none), in one line and without the password. */
weir_status weir__pg_fail(weir_error *error, const weir__pg_session *session, const PGresult *result,
                          const char *what);

/* Runs a statement and gives its rows as text; on success the caller PQclears *out. */
WEIR_CHECKED weir_status weir__pg_rows(weir__pg_session *session, const char *statement, const char *what,
                                       PGresult **out, weir_error *error);

/* Runs a statement whose rows do not matter; false where it failed. */
bool weir__pg_run(weir__pg_session *session, const char *statement);

/* ---- Values ---------------------------------------------------------------------------------- */

/* How a column's values come over the wire, by its type. */
typedef enum weir__pg_form {
    WEIR__PG_TEXT, /* the server's text, also where the type has a binary form of its own: see needs_cast */
    WEIR__PG_PADDED_TEXT, /* char(n): the blanks that pad it are no part of the value */
    WEIR__PG_BOOL,
    WEIR__PG_INT2,
    WEIR__PG_INT4,
    WEIR__PG_INT8,
    WEIR__PG_OID,
    WEIR__PG_FLOAT4,
    WEIR__PG_FLOAT8,
    WEIR__PG_NUMERIC,
    WEIR__PG_UUID,
    WEIR__PG_DATE,
    WEIR__PG_TIMESTAMP,
    WEIR__PG_BYTEA,
} weir__pg_form;

enum { WEIR__PG_UUID_SIZE = 36 };

typedef struct weir__pg_type {
    weir__pg_form form;
    bool needs_cast; /* to text, by the server, before it is sent in binary */
    weir__declared declared;
} weir__pg_type;

/* By a type's number in pg_type; domains must be resolved to their base types. */
weir__pg_type weir__pg_type_of(uint32_t type);

/* A field that is not null. Text and bytes borrow `data`; `uuid` is room for WEIR__PG_UUID_SIZE bytes that
 * the value may borrow. Returns NULL, or what is wrong with the value, static. */
const char *weir__pg_decode_binary(weir__pg_form form, const char *data, size_t size, char *uuid,
                                   weir__value *out);

/* The same of the server's text form, but for bytea, which the caller unescapes. `data` is terminated. */
const char *weir__pg_decode_text(weir__pg_form form, const char *data, size_t size, weir__value *out);

/* ---- Tables ---------------------------------------------------------------------------------- */

/* A catalog table's detail. */
typedef struct weir__pg_table {
    uint32_t oid;
    uint32_t block_count; /* pages that the parts of a scan share out; 0: it cannot be shared */
    struct {
        uint32_t type; /* its number */
        uint32_t attribute;
    } columns[];
} weir__pg_table;

WEIR_CHECKED weir_status weir__pg_describe(weir__source *source, weir__catalog *out, weir_error *error);
WEIR_CHECKED weir_status weir__pg_scan(weir__source *source, const weir__catalog_table *table,
                                       const uint32_t *columns, uint32_t column_count, uint32_t part,
                                       uint32_t part_count, weir__cursor **out, weir_error *error);
WEIR_CHECKED weir_status weir__pg_query(weir__source *source, const char *sql, weir__cursor **out,
                                        weir_error *error);
WEIR_CHECKED weir_status weir__pg_describe_query(weir__source *source, const char *sql,
                                                 weir__catalog *catalog, weir__catalog_table *table,
                                                 weir_error *error);

#endif
