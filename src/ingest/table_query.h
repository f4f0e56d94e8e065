/* Sources that have all of their tables at hand and no SQL of their own (CSV files, Arrow tables, runs of
 * rows): what their sessions share, and SQL over them. The tables that a query reads are loaded into a
 * temporary SQLite database by the source's own `describe` and `scan`. */
#ifndef WEIR_INGEST_TABLE_QUERY_H
#define WEIR_INGEST_TABLE_QUERY_H

#include <pthread.h>

#include "ingest/source.h"

/* What all sessions of such a source share: the first member of its own struct. */
typedef struct weir_ingest__table_source {
    weir__arena memory; /* of this struct, and of what the source keeps until it is closed */
    const weir_ingest__source_options *options;
    void (*release)(struct weir_ingest__table_source *source); /* what is not in that memory; or NULL */
    pthread_mutex_t lock;
    struct weir_ingest__table_database *database; /* NULL until a query needs it */
    _Atomic(void *) connection;                   /* the database's, for who interrupts */
    atomic_bool is_interrupted;                   /* the source's scans end when they see it */
} weir_ingest__table_source;

/* A source in a struct of `size` bytes, zeroed but for its base, with its first session; `nature` says why it
 * has no search path. SCHEMA_INVALID, OUT_OF_MEMORY. */
WEIR_CHECKED weir_status weir_ingest__table_source_make(const weir_env *env,
                                                        const weir_ingest__source_options *options,
                                                        const weir_ingest__source_kind *kind, size_t size,
                                                        void (*release)(weir_ingest__table_source *source),
                                                        const char *nature, weir_ingest__source **out,
                                                        weir_error *error);

/* A kind's `fork`, and its `close`, which releases what is shared with the first session. */
WEIR_CHECKED weir_status weir_ingest__table_session_fork(weir_ingest__source *session,
                                                         weir_ingest__source **out, weir_error *error);
void weir_ingest__table_session_close(weir_ingest__source *session);

/* What a session shares with the others. */
void *weir_ingest__table_shared(const weir_ingest__source *session);

static inline bool weir_ingest__table_is_interrupted(const weir_ingest__table_source *source) {
    return atomic_load_explicit(&source->is_interrupted, memory_order_relaxed);
}

/* A kind's `query`, `describe_query` and `interrupt`, of sessions as above. Any thread. All sessions end
 * together when one is interrupted. */
weir_ingest__query_method weir_ingest__table_query_run;
weir_ingest__describe_query_method weir_ingest__table_query_describe;
void weir_ingest__table_query_interrupt(weir_ingest__source *session);

#endif
