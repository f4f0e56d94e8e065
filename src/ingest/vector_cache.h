/* Vectors that were paid for, by what they embed: a SQLite file that a later run, or one after an
 * interruption, takes them from. Several processes may share it. A cache belongs to one thread at a time. */
#ifndef WEIR_INGEST_VECTOR_CACHE_H
#define WEIR_INGEST_VECTOR_CACHE_H

#include "ingest/embed.h"

typedef struct weir_ingest__vector_cache weir_ingest__vector_cache;

/* A vector, and the hash of all that it depends on. */
typedef struct weir_ingest__cached_vector {
    uint8_t key[WEIR_HASH_SIZE];
    uint16_t *vector;
} weir_ingest__cached_vector;

/* SOURCE_ERROR with the path where the file cannot be had or is no cache. */
WEIR_CHECKED weir_status weir_ingest__vector_cache_open(const weir_env *env, const char *path, uint32_t dim,
                                                        weir_ingest__vector_cache **out, weir_error *error);
void weir_ingest__vector_cache_close(weir_ingest__vector_cache *cache);

/* Whether the key's vector is there; then it is in `out`. An entry of another size counts as absent. */
WEIR_CHECKED weir_status weir_ingest__vector_cache_get(weir_ingest__vector_cache *cache,
                                                       const uint8_t key[WEIR_HASH_SIZE], uint16_t *out,
                                                       bool *is_found, weir_error *error);

/* Keeps vectors in one transaction. */
WEIR_CHECKED weir_status weir_ingest__vector_cache_put(weir_ingest__vector_cache *cache,
                                                       const weir_ingest__cached_vector *vectors,
                                                       size_t count, weir_error *error);

#endif
