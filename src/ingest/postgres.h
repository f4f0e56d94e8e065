/* What the files of the PostgreSQL source share: the session, the forms that values come in, and
 * statements.
 *
 *   source_postgres.c    sessions: connecting, the snapshot, what the server can do
 *   postgres_wait.c      every wait for the server, and the form of its answers
 *   postgres_catalog.c   tables, columns and keys from the system catalogs
 *   postgres_cursor.c    scans and queries: binary COPY, or rows one by one as text
 *   postgres_values.c    the server's forms of values, binary and text */
#ifndef WEIR_INGEST_POSTGRES_H
#define WEIR_INGEST_POSTGRES_H

#include <libpq-fe.h>
#include <stdatomic.h>

#include "ingest/source.h"
#include "ingest/sql.h"
#include "ingest/text_rows.h"

/* ---- Sessions -------------------------------------------------------------------------------- */

typedef struct weir_ingest__pg_session {
    weir_ingest__source base;
    PGconn *connection;  /* NULL: it has hung up, because of `fault` */
    const char *fault;   /* static */
    char snapshot[64];   /* the exported snapshot's name; empty if the server cannot export one */
    bool can_copy;       /* COPY … TO STDOUT (FORMAT binary) works */
    bool has_savepoints; /* SAVEPOINT works */
    bool can_share;      /* tables can be read in parts by ranges of ctid */
} weir_ingest__pg_session;

/* SOURCE_ERROR with what was tried and the server's own message (of `result`, or of the connection if
 * that is NULL or has none), in one line and without the password. */
weir_status weir_ingest__pg_fail(weir_error *error, const weir_ingest__pg_session *session,
                                 const PGresult *result, const char *what);

/* Closes the connection; from then on `fault` is what is wrong. */
void weir_ingest__pg_hang_up(weir_ingest__pg_session *session, const char *fault);

/* PQgetResult and PQgetCopyData, which wait no longer than they should; NULL and -2 also after hanging up. */
PGresult *weir_ingest__pg_result(weir_ingest__pg_session *session);
int weir_ingest__pg_copy_data(weir_ingest__pg_session *session, char **out);

/* The answer to what was sent: its last result, or the first failure; NULL after hanging up. With wants_copy
 * a copy out is the answer, and what follows it is to be read; any other copy is none. The caller PQclears
 * it. */
PGresult *weir_ingest__pg_answer(weir_ingest__pg_session *session, bool wants_copy);

/* Sends a statement and gives its answer. */
PGresult *weir_ingest__pg_exec(weir_ingest__pg_session *session, const char *statement, bool wants_copy);

/* Runs a statement whose rows do not matter; false if it failed. */
bool weir_ingest__pg_run(weir_ingest__pg_session *session, const char *statement);

/* Runs a statement about the catalog and gives its rows, which have `column_count` columns and end, or it is
 * SOURCE_ERROR. The caller releases them (also rows that are all zero). */
WEIR_CHECKED weir_status weir_ingest__pg_read_rows(weir_ingest__pg_session *session, const char *statement,
                                                   uint32_t column_count, const char *what,
                                                   weir_ingest__text_rows *out, weir_error *error);

/* ---- Values ---------------------------------------------------------------------------------- */

/* How a column's values come over the wire, by its type. */
typedef enum weir_ingest__pg_form {
    WEIR_INGEST__PG_TEXT,        /* the server's text, also where the type has a binary form of its own: see
                                    needs_cast */
    WEIR_INGEST__PG_PADDED_TEXT, /* char(n): the blanks that pad it are no part of the value */
    WEIR_INGEST__PG_BOOL,
    WEIR_INGEST__PG_INT2,
    WEIR_INGEST__PG_INT4,
    WEIR_INGEST__PG_INT8,
    WEIR_INGEST__PG_OID,
    WEIR_INGEST__PG_FLOAT4,
    WEIR_INGEST__PG_FLOAT8,
    WEIR_INGEST__PG_NUMERIC,
    WEIR_INGEST__PG_UUID,
    WEIR_INGEST__PG_DATE,
    WEIR_INGEST__PG_TIMESTAMP,
    WEIR_INGEST__PG_BYTEA,
} weir_ingest__pg_form;

enum { WEIR_INGEST__PG_UUID_SIZE = 36 };

typedef struct weir_ingest__pg_type {
    weir_ingest__pg_form form;
    bool needs_cast; /* to text, by the server, before it is sent in binary */
    weir_ingest__declared declared;
} weir_ingest__pg_type;

/* By a type's number in pg_type; domains must be resolved to their base types. */
weir_ingest__pg_type weir_ingest__pg_type_of(uint32_t type);

/* A field that is not null. Text and bytes borrow `data`; `uuid` is room for WEIR_INGEST__PG_UUID_SIZE bytes
 * that the value may borrow. Returns NULL, or what is wrong with the value, static. */
const char *weir_ingest__pg_decode_binary(weir_ingest__pg_form form, const char *data, size_t size,
                                          char *uuid, weir_ingest__value *out);

/* The same of the server's text form, but for bytea, which the caller unescapes. `data` is terminated. */
const char *weir_ingest__pg_decode_text(weir_ingest__pg_form form, const char *data, size_t size,
                                        weir_ingest__value *out);

/* ---- Tables ---------------------------------------------------------------------------------- */

/* A catalog table's detail. A column's source_type is its type's number, its source_number the attribute's.
 */
typedef struct weir_ingest__pg_table {
    uint32_t oid;
    uint32_t block_count; /* pages that the parts of a scan share out; 0: it cannot be shared */
} weir_ingest__pg_table;

weir_ingest__describe_method weir_ingest__pg_describe;
weir_ingest__scan_method weir_ingest__pg_scan;
weir_ingest__query_method weir_ingest__pg_query;
weir_ingest__describe_query_method weir_ingest__pg_describe_query;

#endif
