/* SQL over a source that has none of its own (CSV files, Arrow tables, runs of rows): the tables that a query
 * reads are loaded into a temporary SQLite database by the source's own `describe` and `scan`. */
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

/* What such a source does with what its sessions share. */
typedef struct weir_ingest__table_methods {
    void (*release)(void *shared);
    void (*fill)(const void *shared, weir_ingest__catalog *out); /* a kind's describe, which cannot fail */
} weir_ingest__table_methods;

/* What a session of such a source begins with. */
typedef struct weir_ingest__table_session {
    weir_ingest__source base;
    const weir_ingest__table_methods *methods;
    weir_ingest__table_query *query;
    void *shared; /* by all sessions of the source, and with the query in it; released with the first one */
    bool is_fork; /* it is not the first */
} weir_ingest__table_session;

/* A source's first session, or one more like `source` (a kind's `fork`). OUT_OF_MEMORY. */
WEIR_CHECKED weir_status weir_ingest__table_session_open(const weir_env *env,
                                                         const weir_ingest__source_kind *kind,
                                                         const weir_ingest__table_methods *methods,
                                                         void *shared, weir_ingest__table_query *query,
                                                         weir_ingest__source **out, weir_error *error);
WEIR_CHECKED weir_status weir_ingest__table_session_fork(weir_ingest__source *source,
                                                         weir_ingest__source **out, weir_error *error);
/* A kind's `close`, which releases what is shared with the first session, and `describe`. */
void weir_ingest__table_session_close(weir_ingest__source *source);
weir_ingest__describe_method weir_ingest__table_session_describe;

static inline void *weir_ingest__table_shared(const weir_ingest__source *source) {
    return ((const weir_ingest__table_session *)(const void *)source)->shared;
}

void weir_ingest__table_query_init(weir_ingest__table_query *query);
void weir_ingest__table_query_close(weir_ingest__table_query *query);

/* A kind's `query`, `describe_query` and `interrupt`, of sessions as above. Any thread. All sessions end
 * together when one is interrupted. */
weir_ingest__query_method weir_ingest__table_query_run;
weir_ingest__describe_query_method weir_ingest__table_query_describe;
void weir_ingest__table_query_interrupt(weir_ingest__source *session);

#endif
