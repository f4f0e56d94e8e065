/* An embedder: texts in, f16 vectors out. `hash_v1` is built in; `http` and `file` each are one file that
 * defines a `const weir_ingest__embedder_kind` and is listed in embed.c.
 *
 * What must hold: a vector is a function of (configuration, text) alone, whatever the batches, threads and
 * order. */
#ifndef WEIR_INGEST_EMBED_H
#define WEIR_INGEST_EMBED_H

#include <stdatomic.h>

#include "base/arena.h"
#include "ingest/source.h"
#include "weir_tool/documents.h"

#define WEIR_INGEST__EMBED_OPERATOR "weir.ingest.embed"

enum { WEIR_INGEST__EMBED_DIM_DEFAULT = 256, WEIR_INGEST__EMBED_DIM_MAX = 16384 };

typedef struct weir_ingest__embedder weir_ingest__embedder;

typedef struct weir_ingest__embedder_kind {
    const char *provider; /* the schema's embedding.provider */

    /* What the schema's "embedding" object may say, and the embedder's own struct, which it is read into.
     * Relative paths in it are the process's. NULL: this build lacks the provider, as `open` says. */
    const struct weir__shape *shape;
    size_t batch_max; /* the most texts in a call, unless `open` says otherwise */
    uint32_t callers; /* threads that should call embed at once; 0: as many as ingest has */

    /* After the settings; NULL: there is nothing more to do. */
    weir_status (*open)(weir_ingest__embedder *embedder, weir_error *error);
    /* Of what `open` took, also after its failure; NULL: nothing. */
    void (*close)(weir_ingest__embedder *embedder);

    /* The vectors of `count` texts (at most `batch_max`), row by row into `out` (count * dim, f16 bits in
     * host order). Called from up to `callers` threads at once. SOURCE_ERROR where the provider fails for
     * good; CANCELLED where it waits and is told not to. */
    weir_status (*embed)(weir_ingest__embedder *embedder, const weir_ingest__bytes *texts, size_t count,
                         uint16_t *out, weir_error *error);
} weir_ingest__embedder_kind;

/* The base of every embedder: the first member of its own struct. */
struct weir_ingest__embedder {
    const weir_ingest__embedder_kind *kind;
    const weir_env *env;
    weir__arena arena; /* of its settings' texts */
    uint32_t dim;
    size_t batch_max;                /* the most texts in a call */
    const atomic_bool *is_cancelled; /* set if nobody waits for the vectors any more; or NULL */
};

/* Whether a schema's embedding.provider is one of the list. */
bool weir_ingest__embedder_is_known(const weir_cbor_value *provider);

/* Opens the provider that the settings name (the schema's checked "embedding" object, valid during the call;
 * NULL: hash_v1 of 256 dimensions). An unknown or bad key is SCHEMA_INVALID with its path
 * ("$.embedding.url"). `is_cancelled` is set, by any thread, to end an `embed` that waits, which is CANCELLED
 * then; NULL: nobody does. */
WEIR_CHECKED weir_status weir_ingest__embedder_open(const weir_env *env, const weir_cbor_value *settings,
                                                    const atomic_bool *is_cancelled,
                                                    weir_ingest__embedder **out, weir_error *error);
void weir_ingest__embedder_close(weir_ingest__embedder *embedder);

extern const weir_ingest__embedder_kind weir_ingest__embedder_hash;
extern const weir_ingest__embedder_kind weir_ingest__embedder_http;
extern const weir_ingest__embedder_kind weir_ingest__embedder_file;

/* hash_v1 of one text: f16 bits. `sums` is scratch for dim integers. */
void weir_ingest__hash_v1(const char *text, size_t size, uint32_t dim, int32_t *sums, uint16_t *out);

/* f64 to f16, rounded once to nearest, ties to even; beyond the range the largest finite; any NaN is
 * 0x7E00. */
uint16_t weir_ingest__half_from_double(double value);

#endif
