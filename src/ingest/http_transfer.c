/* Many requests at once through one curl multi handle, in the calling thread. Each of `concurrency` slots
 * has a handle and buffers that are used again and again.
 *
 * A request that meets a full or broken server (408, 425, 429, 5xx, a timeout, a lost connection) is tried
 * again after retry_ms * 2^attempt, or after what Retry-After says if that is longer, up to `retries`
 * times. All other failures are final, and stop the rest. */
#include <string.h>

#include "base/http_retry.h"
#include "ingest/http_embed.h"
#include "ingest/sql.h"

enum { ANSWER_MAX_SIZE = 256 << 20, CONNECT_TIMEOUT_S = 20 };

typedef struct request {
    size_t first;
    size_t count;
    uint32_t attempt;
    uint64_t ready_ns;
    bool is_running;
    bool is_done;
} request;

typedef struct weir_ingest__http_slot {
    CURL *handle;
    request *request; /* NULL: free */
    weir_json_writer body;
    const weir_env *env;
    char *answer;
    size_t answer_size;
    size_t answer_capacity;
    bool is_too_large;
    bool is_short_of_memory;
    char reason[CURL_ERROR_SIZE];
} http_slot;

typedef struct transfer {
    weir_ingest__http_embedder *self;
    const weir_ingest__bytes *texts;
    const weir_ingest__cached_vector *vectors;
    request *requests;
    size_t request_count;
    size_t done_count;
    uint32_t running;
} transfer;

/* ---- Slots ----------------------------------------------------------------------------------- */

static size_t take_answer(char *data, size_t size, size_t count, void *context) {
    http_slot *slot = context;
    size_t more = size * count;
    slot->is_too_large = more > ANSWER_MAX_SIZE - slot->answer_size;
    slot->is_short_of_memory =
        !slot->is_too_large &&
        !weir__grow(slot->env, (void **)&slot->answer, &slot->answer_capacity, slot->answer_size + more, 1);
    if (slot->is_too_large || slot->is_short_of_memory)
        return 0;
    memcpy(slot->answer + slot->answer_size, data, more);
    slot->answer_size += more;
    return more;
}

/* What all requests share; false if libcurl lacks memory or an option. */
static bool set_up(const weir_ingest__http_embedder *self, http_slot *slot) {
    CURL *handle = slot->handle;
    unsigned failed = CURLE_OK;
    failed |= curl_easy_setopt(handle, CURLOPT_URL, self->url);
    failed |= curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    failed |= curl_easy_setopt(handle, CURLOPT_HTTPHEADER, self->headers);
    failed |= curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    failed |= curl_easy_setopt(handle, CURLOPT_ACCEPT_ENCODING, "");
    failed |= curl_easy_setopt(handle, CURLOPT_USERAGENT, "weir/" WEIR_VERSION);
    failed |= curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_TIMEOUT_S);
    failed |= curl_easy_setopt(handle, CURLOPT_TIMEOUT, (long)self->timeout_s);
    failed |= curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, slot->reason);
    failed |= curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, take_answer);
    failed |= curl_easy_setopt(handle, CURLOPT_WRITEDATA, slot);
    failed |= curl_easy_setopt(handle, CURLOPT_PRIVATE, slot);
    return failed == CURLE_OK;
}

static weir_status set_headers(weir_ingest__http_embedder *self, weir_error *error) {
    weir_ingest__sql header = {.env = self->base.env};
    self->headers = curl_slist_append(NULL, "Content-Type: application/json");
    bool is_fine = self->headers != NULL;
    if (is_fine && self->key) {
        weir_ingest__sql_add(&header, "Authorization: Bearer %s", self->key);
        struct curl_slist *longer = header.failed ? NULL : curl_slist_append(self->headers, header.data);
        is_fine = longer != NULL;
        if (header.data)
            explicit_bzero(header.data, header.capacity);
    }
    weir_ingest__sql_release(&header);
    return is_fine ? WEIR_OK : weir__out_of_memory(error, WEIR_INGEST__EMBED_OPERATOR, 1);
}

weir_status weir_ingest__http_open_slots(weir_ingest__http_embedder *self, weir_error *error) {
    WEIR__TRY(set_headers(self, error));
    self->multi = curl_multi_init();
    self->slots = weir__allocate_zero(self->base.env, self->concurrency, sizeof *self->slots);
    bool is_fine = self->multi && self->slots;
    for (uint32_t i = 0; i < self->concurrency && is_fine; i++) {
        self->slots[i].env = self->base.env;
        self->slots[i].handle = curl_easy_init();
        is_fine = self->slots[i].handle && set_up(self, &self->slots[i]);
    }
    return is_fine ? WEIR_OK : weir__out_of_memory(error, WEIR_INGEST__EMBED_OPERATOR, self->concurrency);
}

void weir_ingest__http_close_slots(weir_ingest__http_embedder *self) {
    for (uint32_t i = 0; self->slots && i < self->concurrency; i++) {
        if (self->slots[i].handle)
            curl_easy_cleanup(self->slots[i].handle);
        weir__release(self->base.env, self->slots[i].answer);
    }
    weir__release(self->base.env, self->slots);
    if (self->multi)
        curl_multi_cleanup(self->multi);
    curl_slist_free_all(self->headers);
}

/* ---- One request ----------------------------------------------------------------------------- */

static weir_status start(transfer *all, http_slot *slot, request *r, weir_error *error) {
    slot->request = r;
    slot->answer_size = 0;
    slot->is_too_large = slot->is_short_of_memory = false;
    slot->reason[0] = '\0';
    r->is_running = true;
    all->running++;
    weir_json_writer *w = &slot->body;
    weir_json_writer_memory(w, all->self->base.env);
    weir_json_object(w);
    weir_json_pair_text(w, "model", all->self->model);
    weir_json_pair_array(w, "input");
    for (size_t i = 0; i < r->count; i++)
        weir_json_text_n(w, all->texts[r->first + i].data, all->texts[r->first + i].size);
    weir_json_end_array(w);
    weir_json_pair_text(w, "encoding_format", "float");
    weir_json_end_object(w);
    WEIR__TRY(weir_json_finish(w, error));
    unsigned failed =
        curl_easy_setopt(slot->handle, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)slot->body.size);
    failed |= curl_easy_setopt(slot->handle, CURLOPT_POSTFIELDS, slot->body.data);
    if (failed != CURLE_OK || curl_multi_add_handle(all->self->multi, slot->handle) != CURLM_OK)
        return weir__out_of_memory(error, WEIR_INGEST__EMBED_OPERATOR, slot->body.size);
    return WEIR_OK;
}

static void stop(transfer *all, http_slot *slot) {
    curl_multi_remove_handle(all->self->multi, slot->handle);
    weir_json_release(&slot->body);
    slot->request->is_running = false;
    slot->request = NULL;
    all->running--;
}

static weir_status give_up(const transfer *all, const http_slot *slot, CURLcode result, long code,
                           weir_error *error) {
    const weir_ingest__http_embedder *self = all->self;
    char message[WEIR_INGEST__HTTP_MESSAGE_SIZE];
    uint32_t tries = slot->request->attempt + 1;
    if (slot->is_short_of_memory)
        return weir__out_of_memory(error, WEIR_INGEST__EMBED_OPERATOR, slot->answer_size);
    if (slot->is_too_large)
        return weir__fail(error, WEIR_SOURCE_ERROR, WEIR_INGEST__EMBED_OPERATOR,
                          "%s gives an answer of more than 256 MiB; make $.embedding.batch_size smaller",
                          self->url);
    if (result != CURLE_OK)
        return weir__fail(error, WEIR_SOURCE_ERROR, WEIR_INGEST__EMBED_OPERATOR,
                          "%s cannot be reached (tries: %u): %s", self->url, tries,
                          slot->reason[0] ? slot->reason : curl_easy_strerror(result));
    weir_ingest__http_read_message(self, slot->answer ? slot->answer : "", slot->answer_size, message);
    return weir__fail(error, WEIR_SOURCE_ERROR, WEIR_INGEST__EMBED_OPERATOR, "%s answers %ld (tries: %u): %s",
                      self->url, code, tries, message);
}

static weir_status finish(transfer *all, http_slot *slot, CURLcode result, weir_error *error) {
    const weir_env *env = all->self->base.env;
    request *r = slot->request;
    long code = 0;
    curl_easy_getinfo(slot->handle, CURLINFO_RESPONSE_CODE, &code);
    if (weir__http_is_passing(result, code) && r->attempt < all->self->retries) {
        uint64_t wait_ns = weir__http_wait_ns(slot->handle, all->self->retry_ms, r->attempt++);
        r->ready_ns = env->now_ns(env->context) + wait_ns;
        return WEIR_OK;
    }
    if (result != CURLE_OK || code != 200)
        return give_up(all, slot, result, code, error);
    const weir_ingest__cached_vector *vectors = all->vectors + r->first;
    WEIR__TRY(weir_ingest__http_read_answer(all->self, slot->answer ? slot->answer : "", slot->answer_size,
                                            vectors, r->count, error));
    if (all->self->cache) /* at once, so that nobody pays for them twice */
        WEIR__TRY(weir_ingest__vector_cache_put(all->self->cache, vectors, r->count, error));
    r->is_done = true;
    all->done_count++;
    return WEIR_OK;
}

/* ---- All requests ---------------------------------------------------------------------------- */

/* The first request that may be sent now; else NULL, with the time to wait for one in *wait_ms (lowered). */
static request *next_ready(const transfer *all, uint64_t now_ns, int *wait_ms) {
    for (size_t i = 0; i < all->request_count; i++) {
        request *r = &all->requests[i];
        if (r->is_running || r->is_done)
            continue;
        if (r->ready_ns <= now_ns)
            return r;
        uint64_t left_ms = (r->ready_ns - now_ns) / 1000000 + 1;
        if (left_ms < (uint64_t)*wait_ms)
            *wait_ms = WEIR__NARROW(int, left_ms);
    }
    return NULL;
}

/* Fills the free slots, waits for something to happen, and takes what has. */
static weir_status run(transfer *all, weir_error *error) {
    weir_ingest__http_embedder *self = all->self;
    const weir_env *env = self->base.env;
    while (all->done_count < all->request_count) {
        int wait_ms = 1000 /* at most */, running, left;
        for (uint32_t i = 0; i < self->concurrency; i++) {
            if (self->slots[i].request)
                continue;
            request *r = next_ready(all, env->now_ns(env->context), &wait_ms);
            if (!r)
                break;
            WEIR__TRY(start(all, &self->slots[i], r, error));
        }
        CURLMcode code = curl_multi_perform(self->multi, &running);
        if (code == CURLM_OK && WEIR__NARROW(uint32_t, running) == all->running)
            code = curl_multi_poll(self->multi, NULL, 0, wait_ms, NULL);
        if (code != CURLM_OK)
            return weir__fail(error, WEIR_SOURCE_ERROR, WEIR_INGEST__EMBED_OPERATOR,
                              "%s cannot be reached: %s", self->url, curl_multi_strerror(code));
        for (CURLMsg *message; (message = curl_multi_info_read(self->multi, &left)) != NULL;) {
            http_slot *slot = NULL;
            if (message->msg != CURLMSG_DONE ||
                curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&slot) != CURLE_OK ||
                !slot)
                continue;
            weir_status status = finish(all, slot, message->data.result, error);
            stop(all, slot);
            WEIR__TRY(status);
        }
    }
    return WEIR_OK;
}

weir_status weir_ingest__http_embed(weir_ingest__http_embedder *self, const weir_ingest__bytes *texts,
                                    const weir_ingest__cached_vector *vectors, size_t count,
                                    weir_error *error) {
    transfer all = {.self = self, .texts = texts, .vectors = vectors};
    all.request_count = (count + self->texts_a_request - 1) / self->texts_a_request;
    all.requests = weir__allocate_zero(self->base.env, all.request_count, sizeof *all.requests);
    if (!all.requests)
        return weir__out_of_memory(error, WEIR_INGEST__EMBED_OPERATOR, all.request_count);
    for (size_t i = 0; i < all.request_count; i++) {
        size_t first = i * self->texts_a_request, left = count - first;
        all.requests[i] =
            (request){.first = first, .count = left < self->texts_a_request ? left : self->texts_a_request};
    }
    weir_status status = run(&all, error);
    for (uint32_t i = 0; i < self->concurrency; i++)
        if (self->slots[i].request)
            stop(&all, &self->slots[i]);
    weir__release(self->base.env, all.requests);
    return status;
}
