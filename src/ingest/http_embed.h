/* What the files of the HTTP embedder share.
 *
 *   embed_http.c       the embedder: settings, cache, texts into requests
 *   http_answer.c      what an answer says: vectors, or a message */
#ifndef WEIR_INGEST_HTTP_EMBED_H
#define WEIR_INGEST_HTTP_EMBED_H

#include "base/http.h"
#include "ingest/settings.h"
#include "ingest/vector_cache.h"

typedef struct weir_ingest__http_embedder {
    weir_ingest__embedder base;
    const char *url;
    const char *model;
    const char *cache_path; /* NULL: none, if that is said */
    bool says_cache;
    char *key; /* of the server's interface, from the environment; NULL: none */
    size_t texts_a_request;
    uint32_t concurrency;
    uint32_t retries;
    uint64_t retry_ms;
    uint64_t timeout_s;
    size_t text_bytes_max;
    weir_ingest__vector_cache *cache; /* NULL: none */
    weir__http *http;
    double *numbers; /* room for a vector */
} weir_ingest__http_embedder;

/* The vectors of an answer to a request of `count` texts. SOURCE_ERROR if it is not what the interface
 * gives. */
WEIR_CHECKED weir_status weir_ingest__http_read_answer(weir_ingest__http_embedder *self,
                                                       const weir__http_request *request,
                                                       const weir_ingest__cached_vector *vectors,
                                                       size_t count, weir_error *error);

/* SOURCE_ERROR with what the server says of a failure. */
WEIR_CHECKED weir_status weir_ingest__http_refuse(const weir_ingest__http_embedder *self,
                                                  const weir__http_request *request, weir_error *error);

#endif
