/* See vector_cache.h. Keys are hashes of all that a vector depends on; vectors are f16 in little-endian
 * order. The write-ahead log makes each put cheap and whole. */
#include <sqlite3.h>
#include <string.h>

#include "base/bytes.h"
#include "ingest/vector_cache.h"

enum { CACHE_APPLICATION = 0x77656972, CACHE_VERSION = 1, BUSY_MS = 30000, BUSY_SLEEP_MS = 10 }; /* "weir" */

#define CACHE_TABLE "weir_vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"

struct weir_ingest__vector_cache {
    const weir_env *env;
    char *path;
    uint32_t dim;
    uint16_t *scratch;
    sqlite3 *database;
    sqlite3_stmt *get;
    sqlite3_stmt *put;
};

static weir_status fail(const weir_ingest__vector_cache *cache, weir_error *error) {
    return weir__fail(error, WEIR_SOURCE_ERROR, WEIR_INGEST__EMBED_OPERATOR,
                      "the embedding cache %s: %s; name another in $.embedding.cache, or delete it",
                      cache->path, cache->database ? sqlite3_errmsg(cache->database) : "out of memory");
}

/* Whether the file is a cache of ours, or empty. Anything else is left alone: also a file that only says
 * that it is one, because a trigger or a view in it would run with every vector. (ANALYZE may have left its
 * tables.) */
static weir_status check_identity(weir_ingest__vector_cache *cache, weir_error *error) {
    sqlite3_stmt *statement = NULL;
    int state = sqlite3_prepare_v2(cache->database,
                                   "SELECT (SELECT application_id FROM pragma_application_id), "
                                   "(SELECT user_version FROM pragma_user_version), count(*), "
                                   "total(sql = 'CREATE TABLE " CACHE_TABLE "') FROM sqlite_master "
                                   "WHERE NOT (type = 'table' AND name LIKE 'sqlite!_stat%' ESCAPE '!')",
                                   -1, &statement, NULL);
    if (state == SQLITE_OK)
        state = sqlite3_step(statement);
    weir_status status = WEIR_OK;
    if (state != SQLITE_ROW) {
        status = fail(cache, error);
    } else {
        int application = sqlite3_column_int(statement, 0);
        int version = sqlite3_column_int(statement, 1);
        int objects = sqlite3_column_int(statement, 2);
        bool is_empty = application == 0 && version == 0 && objects == 0;
        bool is_cache = application == CACHE_APPLICATION && version == CACHE_VERSION && objects == 1 &&
                        sqlite3_column_int(statement, 3) == 1;
        if (!is_empty && !is_cache)
            status =
                weir__fail(error, WEIR_SOURCE_ERROR, WEIR_INGEST__EMBED_OPERATOR,
                           "%s is not an embedding cache of this version; name another in $.embedding.cache",
                           cache->path);
    }
    sqlite3_finalize(statement);
    return status;
}

/* SQLite waits for others by itself, but not here: the step takes a lock for reading first, and two that wait
 * for each other to let go of it would do so for ever. Here each has let go of it before it waits. */
static int begin_log(const weir_ingest__vector_cache *cache) {
    const weir_env *env = cache->env;
    const uint32_t nobody_wakes = 0;
    uint64_t until_ns = env->now_ns(env->context) + (uint64_t)BUSY_MS * 1000000;
    for (;;) {
        int state = sqlite3_exec(cache->database, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
        if (state != SQLITE_BUSY || env->now_ns(env->context) >= until_ns)
            return state;
        env->wait(env->context, &nobody_wakes, 0, (uint64_t)BUSY_SLEEP_MS * 1000000);
    }
}

static weir_status prepare(weir_ingest__vector_cache *cache, weir_error *error) {
    sqlite3_busy_timeout(cache->database, BUSY_MS);
    WEIR__TRY(check_identity(cache, error));
    bool is_ready = begin_log(cache) == SQLITE_OK &&
                    sqlite3_exec(cache->database,
                                 "PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE; "
                                 "PRAGMA application_id = 0x77656972; PRAGMA user_version = 1; "
                                 "CREATE TABLE IF NOT EXISTS " CACHE_TABLE "; COMMIT",
                                 NULL, NULL, NULL) == SQLITE_OK &&
                    sqlite3_prepare_v2(cache->database, "SELECT vector FROM weir_vectors WHERE key = ?", -1,
                                       &cache->get, NULL) == SQLITE_OK &&
                    sqlite3_prepare_v2(cache->database, "INSERT OR REPLACE INTO weir_vectors VALUES (?, ?)",
                                       -1, &cache->put, NULL) == SQLITE_OK;
    return is_ready ? WEIR_OK : fail(cache, error);
}

weir_status weir_ingest__vector_cache_open(const weir_env *env, const char *path, uint32_t dim,
                                           weir_ingest__vector_cache **out, weir_error *error) {
    weir_ingest__vector_cache *cache = weir__allocate_zero(env, 1, sizeof *cache);
    if (!cache)
        return weir__out_of_memory(error, WEIR_INGEST__EMBED_OPERATOR, sizeof *cache);
    cache->env = env;
    cache->dim = dim;
    cache->path = weir__copy_text(env, path, strlen(path));
    cache->scratch = weir__allocate(env, dim, sizeof *cache->scratch);
    weir_status status = WEIR_OK;
    if (!cache->path || !cache->scratch)
        status = weir__out_of_memory(error, WEIR_INGEST__EMBED_OPERATOR, dim);
    else if (sqlite3_open_v2(path, &cache->database,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX,
                             NULL) != SQLITE_OK)
        status = fail(cache, error);
    else
        status = prepare(cache, error);
    if (status) {
        weir_ingest__vector_cache_close(cache);
        return status;
    }
    *out = cache;
    return WEIR_OK;
}

void weir_ingest__vector_cache_close(weir_ingest__vector_cache *cache) {
    if (!cache)
        return;
    sqlite3_finalize(cache->get);
    sqlite3_finalize(cache->put);
    sqlite3_close(cache->database);
    weir__release(cache->env, cache->scratch);
    weir__release(cache->env, cache->path);
    weir__release(cache->env, cache);
}

weir_status weir_ingest__vector_cache_get(weir_ingest__vector_cache *cache, const uint8_t key[WEIR_HASH_SIZE],
                                          uint16_t *out, bool *is_found, weir_error *error) {
    size_t size = cache->dim * sizeof *out;
    *is_found = false;
    sqlite3_bind_blob(cache->get, 1, key, WEIR_HASH_SIZE, SQLITE_STATIC);
    int step = sqlite3_step(cache->get);
    const uint8_t *vector = step == SQLITE_ROW ? sqlite3_column_blob(cache->get, 0) : NULL;
    if (vector && (size_t)sqlite3_column_bytes(cache->get, 0) == size) {
        for (uint32_t i = 0; i < cache->dim; i++)
            out[i] = weir__load16(vector + 2 * (size_t)i);
        *is_found = true;
    }
    weir_status status = step == SQLITE_ROW || step == SQLITE_DONE ? WEIR_OK : fail(cache, error);
    sqlite3_reset(cache->get);
    return status;
}

weir_status weir_ingest__vector_cache_put(weir_ingest__vector_cache *cache,
                                          const weir_ingest__cached_vector *vectors, size_t count,
                                          weir_error *error) {
    if (sqlite3_exec(cache->database, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        return fail(cache, error);
    int size = WEIR__NARROW(int, cache->dim * sizeof *cache->scratch);
    bool is_fine = true;
    for (size_t i = 0; i < count && is_fine; i++) {
        for (uint32_t d = 0; d < cache->dim; d++)
            weir__store16(&cache->scratch[d], vectors[i].vector[d]);
        sqlite3_bind_blob(cache->put, 1, vectors[i].key, WEIR_HASH_SIZE, SQLITE_STATIC);
        sqlite3_bind_blob(cache->put, 2, cache->scratch, size, SQLITE_STATIC);
        is_fine = sqlite3_step(cache->put) == SQLITE_DONE;
        sqlite3_reset(cache->put);
    }
    if (is_fine && sqlite3_exec(cache->database, "COMMIT", NULL, NULL, NULL) == SQLITE_OK)
        return WEIR_OK;
    weir_status status = fail(cache, error);
    sqlite3_exec(cache->database, "ROLLBACK", NULL, NULL, NULL);
    return status;
}
