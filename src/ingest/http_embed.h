/* What the files of the HTTP embedder share.
 *
 *   embed_http.c       the embedder: settings, cache, texts into requests
 *   http_transfer.c    requests at once through libcurl, with retries
 *   http_answer.c      what an answer says: vectors, or a message */
#ifndef WEIR_INGEST_HTTP_EMBED_H
#define WEIR_INGEST_HTTP_EMBED_H

#include <curl/curl.h>

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
    bool has_curl;                    /* it was prepared */
    CURLM *multi;
    struct curl_slist *headers;
    struct weir_ingest__http_slot *slots; /* `concurrency` of them */
    double *numbers;                      /* room for a vector */
} weir_ingest__http_embedder;

enum { WEIR_INGEST__HTTP_MESSAGE_SIZE = 256 };

/* Makes and frees the handles that requests use. */
WEIR_CHECKED weir_status weir_ingest__http_open_slots(weir_ingest__http_embedder *self, weir_error *error);
void weir_ingest__http_close_slots(weir_ingest__http_embedder *self);

/* Embeds the texts in requests of texts_a_request each; each answer goes to the cache at once, by the keys of
 * the vectors. Returns after all are done, or after the first that fails for good. */
WEIR_CHECKED weir_status weir_ingest__http_embed(weir_ingest__http_embedder *self,
                                                 const weir_ingest__bytes *texts,
                                                 const weir_ingest__cached_vector *vectors, size_t count,
                                                 weir_error *error);

/* The vectors of an answer to a request of `count` texts. SOURCE_ERROR if it is not what the interface
 * gives. */
WEIR_CHECKED weir_status weir_ingest__http_read_answer(weir_ingest__http_embedder *self, const char *body,
                                                       size_t size, const weir_ingest__cached_vector *vectors,
                                                       size_t count, weir_error *error);

/* What the server says of a failure, in one line, without the key. */
void weir_ingest__http_read_message(const weir_ingest__http_embedder *self, const char *body, size_t size,
                                    char out[WEIR_INGEST__HTTP_MESSAGE_SIZE]);

#endif
