/* SQL over a source that has none of its own (CSV files, Arrow tables): the tables that a query reads are
 * loaded into a temporary SQLite database by the source's own `describe` and `scan`. One of these lies in
 * what all sessions of such a source share. */
#ifndef WEIR_INGEST_TABLE_QUERY_H
#define WEIR_INGEST_TABLE_QUERY_H

#include <pthread.h>

#include "ingest/source.h"

typedef struct weir_ingest__table_query {
    pthread_mutex_t lock;
    struct weir_ingest__table_database *database; /* NULL until a query needs it */
    _Atomic(void *) connection;                   /* the database's, for who interrupts */
} weir_ingest__table_query;

void weir_ingest__table_query_init(weir_ingest__table_query *query);
void weir_ingest__table_query_close(weir_ingest__table_query *query);
void weir_ingest__table_query_interrupt(weir_ingest__table_query *query);

/* What a kind's `query` and `describe_query` do. Any thread. */
WEIR_CHECKED weir_status weir_ingest__table_query_run(weir_ingest__table_query *query,
                                                      weir_ingest__source *session, const char *sql,
                                                      weir_ingest__cursor **out, weir_error *error);
WEIR_CHECKED weir_status weir_ingest__table_query_describe(weir_ingest__table_query *query,
                                                           weir_ingest__source *session, const char *sql,
                                                           weir_ingest__catalog *catalog,
                                                           weir_ingest__catalog_table *table,
                                                           weir_error *error);

#endif
