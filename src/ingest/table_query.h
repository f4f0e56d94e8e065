/* SQL over a source that has none of its own (CSV files, Arrow tables): the tables that a query reads are
 * loaded into a temporary SQLite database by the source's own `describe` and `scan`. */
#ifndef WEIR_INGEST_TABLE_QUERY_H
#define WEIR_INGEST_TABLE_QUERY_H

#include <pthread.h>

#include "ingest/source.h"

/* Lies in what all sessions of such a source share. */
typedef struct weir_ingest__table_query {
    pthread_mutex_t lock;
    struct weir_ingest__table_database *database; /* NULL until a query needs it */
    _Atomic(void *) connection;                   /* the database's, for who interrupts */
    atomic_bool is_interrupted;                   /* the source's scans end when they see it */
} weir_ingest__table_query;

/* What a session of such a source begins with. */
typedef struct weir_ingest__table_session {
    weir_ingest__source base;
    weir_ingest__table_query *query;
} weir_ingest__table_session;

void weir_ingest__table_query_init(weir_ingest__table_query *query);
void weir_ingest__table_query_close(weir_ingest__table_query *query);

/* A kind's `query`, `describe_query` and `interrupt`, of sessions as above. Any thread. All sessions end
 * together when one is interrupted. */
WEIR_CHECKED weir_status weir_ingest__table_query_run(weir_ingest__source *session, const char *sql,
                                                      weir_ingest__cursor **out, weir_error *error);
WEIR_CHECKED weir_status weir_ingest__table_query_describe(weir_ingest__source *session, const char *sql,
                                                           weir_ingest__catalog *catalog,
                                                           weir_ingest__catalog_table *table,
                                                           weir_error *error);
void weir_ingest__table_query_interrupt(weir_ingest__source *session);

#endif
