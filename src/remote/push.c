/* weir_push: a store is verified and cut, the server is asked which chunks it has, those that it lacks are
 * sent, and the index is written last. What was sent of a push that was interrupted is found by the next one.
 */
#include <fcntl.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "remote/remote.h"
#include "weir/store.h"

typedef struct push {
    const weir_env *env;
    const char *path;
    int file;
    weir_remote__place place;
    weir_remote__http http;
    weir_remote__watch watch;
    weir_remote__chunks chunks;
    bool *is_there; /* a chunk: the server has it, or an earlier chunk of this file is the same */
    size_t next;    /* chunk to ask for or to send */
    weir_json_writer index;
    bool is_index_sent;
    weir_remote_report *report;
} push;

/* ---- Asking -------------------------------------------------------------------------------------- */

static weir_status next_missing(push *p, weir__http_request *request, bool *is_there, weir_error *error) {
    while (p->next < p->chunks.count && p->is_there[p->next])
        p->next++;
    *is_there = p->next < p->chunks.count;
    if (!*is_there)
        return WEIR_OK;
    request->number = p->next++;
    request->answer_max = 1 << 16;
    request->has_ranges = false;
    request->url = weir_remote__place_chunk_url(&p->place, p->chunks.list[request->number].hash);
    return request->url ? WEIR_OK : weir__out_of_memory(error, WEIR_REMOTE__OPERATOR, 1);
}

static weir_status ask_next(void *context, weir__http_request *request, bool *is_there, weir_error *error) {
    request->method = WEIR__HTTP_HEAD;
    return next_missing(context, request, is_there, error);
}

static weir_status take_presence(void *context, weir__http_request *request, const char **wrong,
                                 weir_error *error) {
    push *p = context;
    const weir_remote__chunk *chunk = &p->chunks.list[request->number];
    (void)wrong;
    p->watch.state.done++;
    if (request->code == 200) {
        p->is_there[request->number] = request->length == (int64_t)chunk->size;
        return WEIR_OK;
    }
    if (request->code == 404 || request->code == 403)
        return WEIR_OK;
    return weir_remote__http_refuse(&p->http, request, error);
}

/* Chunks of the index that stands there are there; of chunks that are the same, one is sent. */
static weir_status mark_known(push *p, weir_error *error) {
    weir_remote__chunks old = {.env = p->env};
    bool has_old = false;
    weir_status status = weir_remote__index_fetch(&p->http, &old, &has_old, error);
    if (status == WEIR_STORE_CORRUPT) { /* whatever it is, it is replaced */
        weir_remote__chunks_release(&old);
        has_old = false;
        status = WEIR_OK;
    }
    if (status == WEIR_OK && has_old)
        status = weir_remote__chunks_sort(&old, error);
    if (status == WEIR_OK)
        status = weir_remote__chunks_sort(&p->chunks, error);
    for (size_t i = 0; i < p->chunks.count && status == WEIR_OK; i++) {
        const weir_remote__chunk *chunk = &p->chunks.list[i];
        p->is_there[i] = weir_remote__chunks_find(&old, chunk->hash, chunk->size) != NULL;
    }
    for (size_t i = 1; i < p->chunks.count && status == WEIR_OK; i++) {
        uint32_t a = p->chunks.by_hash[i - 1], b = p->chunks.by_hash[i];
        if (memcmp(p->chunks.list[a].hash, p->chunks.list[b].hash, WEIR_HASH_SIZE) == 0)
            p->is_there[b] = true;
    }
    weir_remote__chunks_release(&old);
    return status;
}

/* ---- Sending ------------------------------------------------------------------------------------- */

static weir_status send_next(void *context, weir__http_request *request, bool *is_there, weir_error *error) {
    push *p = context;
    uint8_t digest[WEIR_HASH_SIZE];
    request->method = WEIR__HTTP_PUT;
    weir_status status = next_missing(p, request, is_there, error);
    if (status != WEIR_OK || !*is_there)
        return status;
    const weir_remote__chunk *chunk = &p->chunks.list[request->number];
    if (!weir__http_body(request, p->env, chunk->size))
        return weir__out_of_memory(error, WEIR_REMOTE__OPERATOR, chunk->size);
    if (!weir__read_at(p->env, p->file, request->body, chunk->size, chunk->offset))
        return weir__io_error(error, WEIR_REMOTE__OPERATOR, "read", p->path);
    weir__blake3_of(request->body, chunk->size, digest);
    if (memcmp(digest, chunk->hash, WEIR_HASH_SIZE) != 0)
        return weir__fail(error, WEIR_STORE_CORRUPT, WEIR_REMOTE__OPERATOR,
                          "%s was changed while it was pushed", p->path);
    return WEIR_OK;
}

static bool is_sent(long code) {
    return code == 200 || code == 201 || code == 204;
}

static weir_status take_sent(void *context, weir__http_request *request, const char **wrong,
                             weir_error *error) {
    push *p = context;
    uint32_t size = p->chunks.list[request->number].size;
    (void)wrong;
    if (!is_sent(request->code))
        return weir_remote__http_refuse(&p->http, request, error);
    p->report->moved_chunks++;
    p->report->moved_bytes += size;
    p->watch.state.done++;
    p->watch.state.done_bytes += size;
    return WEIR_OK;
}

static weir_status send_index(void *context, weir__http_request *request, bool *is_there, weir_error *error) {
    push *p = context;
    *is_there = !p->is_index_sent;
    if (p->is_index_sent)
        return WEIR_OK;
    p->is_index_sent = true;
    request->method = WEIR__HTTP_PUT;
    request->answer_max = 1 << 16;
    request->url = weir__copy_text(p->env, p->place.index_url, strlen(p->place.index_url));
    if (!request->url || !weir__http_body(request, p->env, p->index.size))
        return weir__out_of_memory(error, WEIR_REMOTE__OPERATOR, p->index.size);
    memcpy(request->body, p->index.data, p->index.size);
    return WEIR_OK;
}

static weir_status take_index(void *context, weir__http_request *request, const char **wrong,
                              weir_error *error) {
    const push *p = context;
    (void)wrong;
    return is_sent(request->code) ? WEIR_OK : weir_remote__http_refuse(&p->http, request, error);
}

/* Opens and verifies the store. What is wrong with it or the URL is said first: verifying takes a while. */
static weir_status check(push *p, const char *url, const weir_remote_options *options, weir_error *error) {
    const char *slash = strrchr(p->path, '/');
    weir_store *store = NULL;
    weir_status status = weir_store_open(p->env, p->path, &store, error);
    if (status == WEIR_OK)
        status = weir_remote__place_read(&p->place, p->env, url, slash ? slash + 1 : p->path, error);
    if (status == WEIR_OK) {
        weir_remote__watch_phase(&p->watch, "verify", 0, 0);
        status = weir_remote__watch_tell(&p->watch, error);
    }
    if (status == WEIR_OK)
        status = weir_store_verify(store, options->threads, error);
    if (status == WEIR_OK)
        memcpy(p->chunks.store_hash, weir_store_describe(store)->store_hash, WEIR_HASH_SIZE);
    if (status == WEIR_OK)
        status = weir__file_open(p->env, p->path, &p->file, WEIR_REMOTE__OPERATOR, error);
    weir_store_close(store);
    return status;
}

static weir_status run(push *p, const char *url, const weir_remote_options *options, weir_error *error) {
    WEIR__TRY(check(p, url, options, error));
    if (p->env->size(p->env->context, p->file, &p->chunks.size) != 0)
        return weir__io_error(error, WEIR_REMOTE__OPERATOR, "read", p->path);
    p->chunks.bits = options->chunk_bits ? options->chunk_bits : WEIR_REMOTE__CHUNK_BITS;
    weir_remote__watch_phase(&p->watch, "cut", 0, p->chunks.size);
    WEIR__TRY(weir_remote__chunks_cut(&p->chunks, p->file, p->path, &p->watch, error));
    p->is_there = weir__allocate_zero(p->env, p->chunks.count, sizeof *p->is_there);
    if (!p->is_there)
        return weir__out_of_memory(error, WEIR_REMOTE__OPERATOR, p->chunks.count);
    WEIR__TRY(weir_remote__http_open(&p->place, &p->watch, &p->http, error));
    WEIR__TRY(mark_known(p, error));
    weir_remote__watch_phase(&p->watch, "ask", p->chunks.count, 0);
    WEIR__TRY(weir__http_run(p->http.engine, &(weir__http_work){p, ask_next, take_presence}, error));
    uint64_t missing = 0, bytes = 0;
    for (size_t i = 0; i < p->chunks.count; i++) {
        missing += !p->is_there[i];
        bytes += p->is_there[i] ? 0 : p->chunks.list[i].size;
    }
    p->next = 0;
    weir_remote__watch_phase(&p->watch, "send", missing, bytes);
    WEIR__TRY(weir__http_run(p->http.engine, &(weir__http_work){p, send_next, take_sent}, error));
    weir_remote__chunks_write(&p->chunks, &p->index);
    WEIR__TRY(weir_json_finish(&p->index, error));
    return weir__http_run(p->http.engine, &(weir__http_work){p, send_index, take_index}, error);
}

weir_status weir_push(const weir_env *env, const char *store, const char *url,
                      const weir_remote_options *given, weir_remote_report *report, weir_error *error) {
    weir_remote_options options;
    weir_remote_report own = {0};
    WEIR__TRY(weir_remote__take_options(&options, given, error));
    env = weir__env_or_default(env);
    push p = {.env = env, .path = store, .file = -1, .chunks = {.env = env}, .report = &own};
    weir_json_writer_memory(&p.index, env);
    weir_remote__watch_begin(&p.watch, env, &options);
    weir_status status = run(&p, url, &options, error);
    if (status == WEIR_OK && report) {
        weir_remote__complete_report(&own, &p.chunks, &p.watch);
        *report = own;
    }
    weir__http_close(p.http.engine);
    weir_json_release(&p.index);
    weir__release(env, p.is_there);
    weir_remote__chunks_release(&p.chunks);
    weir_remote__place_release(&p.place);
    if (p.file >= 0)
        env->close(env->context, p.file);
    return status;
}
