/* Any server with the OpenAI-style /v1/embeddings interface:
 *
 *   {"provider": "http", "url": "http://localhost:8080", "model": "…", "dim": 256}
 *
 * Vectors are cut to dim, normalised again and rounded once to f16. Each is kept in a SQLite file by the
 * hash of all that it depends on (url, model, dim, text), so an interrupted ingest goes on where it was and
 * a second one asks for nothing. The key of the interface is read from WEIR_EMBED_KEY at open and appears
 * in no message; a URL with a password in it is refused, because URLs do appear.
 *
 * An empty text is not sent (servers refuse it): its vector is zero. A long one is cut at text_bytes,
 * between characters. */
#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "ingest/http_embed.h"
#include "ingest/phase_context.h"

enum { ANSWER_MAX_SIZE = 256 << 20 };

static const char key_variable[] = "WEIR_EMBED_KEY";

/* ---- Opening --------------------------------------------------------------------------------- */

/* The address of the interface: the URL itself if it ends in /embeddings, else below it. */
static weir_status complete_url(weir_ingest__http_embedder *self, weir_error *error) {
    static const char below[] = "/v1/embeddings";
    size_t size = strlen(self->url);
    while (size > 0 && self->url[size - 1] == '/')
        size--;
    char *whole = weir__arena_take(&self->base.arena, size + sizeof below);
    if (!whole)
        return weir__out_of_memory(error, WEIR_INGEST__EMBED_OPERATOR, size);
    memcpy(whole, self->url, size);
    whole[size] = 0;
    if (weir__ends_with(whole, "/v1"))
        strcpy(whole + size, "/embeddings");
    else if (!weir__ends_with(whole, "/embeddings"))
        strcpy(whole + size, below);
    self->url = whole;
    return WEIR_OK;
}

static weir_status read_key(weir_ingest__http_embedder *self, weir_error *error) {
    const char *key = getenv(key_variable);
    if (!key || !*key)
        return WEIR_OK;
    for (const char *at = key; *at; at++)
        if (*at <= ' ' || *at > '~')
            return weir__fail(error, WEIR_SOURCE_ERROR, WEIR_INGEST__EMBED_OPERATOR,
                              "%s has a character that a key cannot have", key_variable);
    self->key = weir__copy_text(self->base.env, key, strlen(key));
    return self->key ? WEIR_OK : weir__out_of_memory(error, WEIR_INGEST__EMBED_OPERATOR, strlen(key));
}

static weir_status check_url(weir__reader *r, void *object) {
    const char *url = ((const weir_ingest__http_embedder *)object)->url;
    bool is_http = weir__begins_with(url, "http://") || weir__begins_with(url, "https://");
    const char *host = is_http ? strstr(url, "//") + 2 : url;
    size_t host_size = strcspn(host, "/?#");
    if (is_http && host_size > 0 && !memchr(host, '@', host_size))
        return WEIR_OK;
    return weir__refuse(
        r, "url", "must begin with http:// or https:// and have no user or password; a key is given in %s",
        key_variable);
}

/* Null is no cache; if nothing is said, there is one. */
static weir_status read_cache(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                              void *object) {
    return value->type == WEIR_CBOR_NULL ? WEIR_OK : weir__read_plain(r, field, value, object);
}

#define TEXT(member)        WEIR__TEXT(weir_ingest__http_embedder, member), .least = 1
#define NUMBER(member, ...) WEIR__UINT(weir_ingest__http_embedder, member, __VA_ARGS__)

static const weir__field fields[] = {
    WEIR_INGEST__EMBED_FIELDS,
    {"url", TEXT(url), .flags = WEIR__REQUIRED},
    {"model", TEXT(model), .flags = WEIR__REQUIRED},
    {"cache", TEXT(cache_path), .read = read_cache, .has = offsetof(weir_ingest__http_embedder, says_cache)},
    {"batch_size", NUMBER(texts_a_request, 1, 2048), .otherwise = 64},
    {"concurrency", NUMBER(concurrency, 1, 64), .otherwise = 8},
    {"text_bytes", NUMBER(text_bytes_max, 4, 1 << 24), .otherwise = 8192},
    {"timeout_s", NUMBER(timeout_s, 1, 3600), .otherwise = 60},
    {"retries", NUMBER(retries, 0, 100), .otherwise = 8},
    {"retry_ms", NUMBER(retry_ms, 1, 60000), .otherwise = 500},
};
static const weir__shape shape = WEIR__SHAPE(weir_ingest__http_embedder, fields, .check = check_url);

static void close_http(weir_ingest__embedder *base) {
    weir_ingest__http_embedder *self = (weir_ingest__http_embedder *)base;
    weir__http_close(self->http);
    weir_ingest__vector_cache_close(self->cache);
    if (self->key)
        explicit_bzero(self->key, strlen(self->key));
    weir__release(base->env, self->key);
    weir__release(base->env, self->numbers);
}

static bool set_up(void *context, void *handle, const weir__http_request *request,
                   struct curl_slist **headers) {
    const weir_ingest__http_embedder *self = context;
    const weir_env *env = self->base.env;
    unsigned failed = CURLE_OK;
    (void)request;
    failed |= curl_easy_setopt(handle, CURLOPT_ACCEPT_ENCODING, "");
    failed |= curl_easy_setopt(handle, CURLOPT_TIMEOUT, (long)self->timeout_s);
    return failed == CURLE_OK && weir__http_add_header(headers, env, "Content-Type: ", "application/json") &&
           (!self->key || weir__http_add_header(headers, env, "Authorization: Bearer ", self->key));
}

/* A full server may ask to be left alone for minutes, which nobody who has cancelled the ingest waits for. */
static weir_status check_cancelled(void *context, weir_error *error) {
    const weir_ingest__http_embedder *self = context;
    const atomic_bool *flag = self->base.is_cancelled;
    bool is_cancelled = flag && atomic_load_explicit(flag, memory_order_relaxed);
    return is_cancelled ? weir_ingest__cancelled(error) : WEIR_OK;
}

static weir_status open_http(weir_ingest__embedder *base, weir_error *error) {
    weir_ingest__http_embedder *self = (weir_ingest__http_embedder *)base;
    const char *cache = self->says_cache ? self->cache_path : "weir-embeddings.sqlite";
    base->batch_max = 4 * self->texts_a_request * self->concurrency;
    WEIR__TRY(complete_url(self, error));
    WEIR__TRY(read_key(self, error));
    if (cache)
        WEIR__TRY(weir_ingest__vector_cache_open(base->env, cache, base->dim, &self->cache, error));
    self->numbers = weir__allocate(base->env, base->dim, sizeof *self->numbers);
    if (!self->numbers)
        return weir__out_of_memory(error, WEIR_INGEST__EMBED_OPERATOR, base->dim);
    const weir__http_options options = {
        .failure_operator = WEIR_INGEST__EMBED_OPERATOR,
        .failure = WEIR_SOURCE_ERROR,
        .concurrency = self->concurrency,
        .retries = self->retries,
        .retry_ms = self->retry_ms,
        .secrets = {self->key},
        .too_large = "gives an answer of more than 256 MiB; make $.embedding.batch_size smaller",
        .context = self,
        .set_up = set_up,
        .tick = check_cancelled};
    return weir__http_open(base->env, &options, &self->http, error);
}

/* ---- Embedding ------------------------------------------------------------------------------- */

/* The text as it is sent: at most text_bytes_max bytes, whole characters. */
static weir_ingest__bytes cut(const weir_ingest__http_embedder *self, weir_ingest__bytes text) {
    if (text.size <= self->text_bytes_max)
        return text;
    text.size = self->text_bytes_max;
    while (text.size > 0 && (WEIR__LOW(uint8_t, text.data[text.size]) & 0xC0) == 0x80)
        text.size--;
    return text;
}

/* Whether the text needs no request: it is empty, or in the cache. Else it has its key then. */
static weir_status is_known(weir_ingest__http_embedder *self, weir_ingest__bytes text,
                            weir_ingest__cached_vector *vector, bool *out, weir_error *error) {
    *out = text.size == 0;
    if (*out)
        memset(vector->vector, 0, self->base.dim * sizeof *vector->vector);
    if (*out || !self->cache)
        return WEIR_OK;
    weir__sha256 sha;
    weir_cbor_writer w;
    weir__sha256_init(&sha);
    weir__cbor_writer_hash(&w, &sha);
    weir_cbor_array(&w, 5);
    weir_cbor_text(&w, "embedding_v1");
    weir_cbor_text(&w, self->url);
    weir_cbor_text(&w, self->model);
    weir_cbor_uint(&w, self->base.dim);
    weir_cbor_text_n(&w, text.data, text.size);
    WEIR__TRY(weir_cbor_finish(&w, error));
    weir__sha256_final(&sha, vector->key);
    return weir_ingest__vector_cache_get(self->cache, vector->key, vector->vector, out, error);
}

/* Texts on their way: a request takes the next texts_a_request of them, and has the first one's number. */
typedef struct transfer {
    weir_ingest__http_embedder *self;
    const weir_ingest__bytes *texts;
    const weir_ingest__cached_vector *vectors;
    size_t count, next;
} transfer;

static size_t request_size(const transfer *all, size_t first) {
    size_t left = all->count - first;
    return left < all->self->texts_a_request ? left : all->self->texts_a_request;
}

static weir_status ask_next(void *context, weir__http_request *request, bool *is_there, weir_error *error) {
    transfer *all = context;
    const weir_env *env = all->self->base.env;
    weir_json_writer w;
    *is_there = all->next < all->count;
    if (!*is_there)
        return WEIR_OK;
    request->number = all->next;
    request->method = WEIR__HTTP_POST;
    request->answer_max = ANSWER_MAX_SIZE;
    all->next += request_size(all, all->next);
    weir_json_writer_memory(&w, env);
    weir_json_object(&w);
    weir_json_pair_text(&w, "model", all->self->model);
    weir_json_pair_array(&w, "input");
    for (size_t i = request->number; i < all->next; i++)
        weir_json_text_n(&w, all->texts[i].data, all->texts[i].size);
    weir_json_end_array(&w);
    weir_json_pair_text(&w, "encoding_format", "float");
    weir_json_end_object(&w);
    weir_status status = weir_json_finish(&w, error);
    if (status == WEIR_OK) {
        request->url = weir__copy_text(env, all->self->url, strlen(all->self->url));
        if (request->url && weir__http_body(request, env, w.size))
            memcpy(request->body, w.data, w.size);
        else
            status = weir__out_of_memory(error, WEIR_INGEST__EMBED_OPERATOR, w.size);
    }
    weir_json_release(&w);
    return status;
}

static weir_status take_vectors(void *context, weir__http_request *request, const char **wrong,
                                weir_error *error) {
    const transfer *all = context;
    weir_ingest__http_embedder *self = all->self;
    const weir_ingest__cached_vector *vectors = all->vectors + request->number;
    size_t count = request_size(all, request->number);
    (void)wrong;
    if (request->code != 200)
        return weir_ingest__http_refuse(self, request, error);
    WEIR__TRY(weir_ingest__http_read_answer(self, request, vectors, count, error));
    /* At once, so that nobody pays for them twice. */
    return self->cache ? weir_ingest__vector_cache_put(self->cache, vectors, count, error) : WEIR_OK;
}

static weir_status embed_by_http(weir_ingest__embedder *base, const weir_ingest__bytes *texts, size_t count,
                                 uint16_t *out, weir_error *error) {
    weir_ingest__http_embedder *self = (weir_ingest__http_embedder *)base;
    weir_ingest__bytes *asked = weir__allocate(base->env, count, sizeof *asked);
    weir_ingest__cached_vector *vectors = weir__allocate(base->env, count, sizeof *vectors);
    size_t asked_count = 0;
    weir_status status = WEIR_OK;
    if (!asked || !vectors)
        status = weir__out_of_memory(error, WEIR_INGEST__EMBED_OPERATOR, count * sizeof *vectors);
    for (size_t i = 0; i < count && !status; i++) {
        bool known = false;
        asked[asked_count] = cut(self, texts[i]);
        vectors[asked_count].vector = out + i * base->dim;
        status = is_known(self, asked[asked_count], &vectors[asked_count], &known, error);
        asked_count += known ? 0 : 1;
    }
    transfer all = {.self = self, .texts = asked, .vectors = vectors, .count = asked_count};
    if (!status && asked_count > 0)
        status = weir__http_run(self->http, &(weir__http_work){&all, ask_next, take_vectors}, error);
    weir__release(base->env, asked);
    weir__release(base->env, vectors);
    return status;
}

const weir_ingest__embedder_kind weir_ingest__embedder_http = {.provider = "http",
                                                               .shape = &shape,
                                                               .callers = 1,
                                                               .open = open_http,
                                                               .close = close_http,
                                                               .embed = embed_by_http};
