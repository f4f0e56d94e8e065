/* Requests to a server, some at once, through one curl multi handle in the calling thread. Each of
 * `concurrency` slots has a handle and buffers that are used again and again.
 *
 * A request that meets a full or broken server (408, 425, 429, 5xx, a timeout, a lost connection), or whose
 * answer the caller calls wrong, is tried again after retry_ms * 2^attempt, or after what Retry-After says if
 * that is longer. A GET that was cut is continued where it was if the caller allows it. All other failures
 * are final and stop the rest. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/http_retry.h"
#include "remote/remote.h"

enum { CONNECT_TIMEOUT_S = 20, TICK_MS = 200, SAID_MAX = 4096, REDIRECTS_MAX = 5 };

typedef enum slot_state { SLOT_FREE, SLOT_WAITING, SLOT_RUNNING } slot_state;

typedef struct slot {
    weir_remote__http *http;
    CURL *handle;
    struct curl_slist *headers;
    slot_state state;
    weir_remote__http_request request;
    uint32_t attempt;
    uint64_t ready_ns;
    size_t sent;    /* of the body */
    bool has_begun; /* the answer of this attempt */
    bool is_too_large;
    bool is_short_of_memory;
    char said[SAID_MAX]; /* the body of a refusal */
    size_t said_size;
    char reason[CURL_ERROR_SIZE];
} slot;

struct weir_remote__http {
    const weir_env *env;
    const weir_remote__place *place;
    weir_remote__watch *watch;
    CURLM *multi;
    slot *slots;
    uint32_t concurrency, retries;
    uint64_t retry_ms;
    long timeout_s;
    bool is_initialised;
};

/* ---- What curl calls ------------------------------------------------------------------------- */

static size_t take_answer(char *data, size_t size, size_t count, void *context) {
    slot *s = context;
    weir_remote__http_request *r = &s->request;
    size_t more = size * count;
    long code = 0;
    curl_easy_getinfo(s->handle, CURLINFO_RESPONSE_CODE, &code);
    if (code != 200 && code != 206) {
        size_t room = SAID_MAX - 1 - s->said_size, kept = more < room ? more : room;
        memcpy(s->said + s->said_size, data, kept);
        s->said_size += kept;
        return more;
    }
    if (!s->has_begun && code == 200)
        r->answer_size = 0; /* from the beginning */
    s->has_begun = true;
    s->is_too_large = more > r->answer_max - r->answer_size;
    s->is_short_of_memory = !s->is_too_large && !weir__grow(s->http->env, (void **)&r->answer,
                                                            &r->answer_capacity, r->answer_size + more, 1);
    if (s->is_too_large || s->is_short_of_memory)
        return 0;
    memcpy(r->answer + r->answer_size, data, more);
    r->answer_size += more;
    return more;
}

static size_t give_body(char *out, size_t size, size_t count, void *context) {
    slot *s = context;
    size_t left = s->request.body_size - s->sent, more = size * count < left ? size * count : left;
    memcpy(out, s->request.body + s->sent, more);
    s->sent += more;
    return more;
}

/* curl begins anew by itself where a kept connection turns out to be dead. */
static int rewind_body(void *context, curl_off_t offset, int origin) {
    slot *s = context;
    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > s->request.body_size)
        return CURL_SEEKFUNC_FAIL;
    s->sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* What all requests share; false if libcurl lacks memory or an option. */
static bool set_up(const weir_remote__http *http, slot *s) {
    const weir_remote__place *place = http->place;
    CURL *handle = s->handle;
    char provider[300];
    unsigned failed = CURLE_OK;
    failed |= curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    failed |= curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    failed |= curl_easy_setopt(handle, CURLOPT_USERAGENT, "weir/" WEIR_VERSION);
    failed |= curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_TIMEOUT_S);
    failed |= curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
    failed |= curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, http->timeout_s);
    failed |= curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, s->reason);
    failed |= curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, take_answer);
    failed |= curl_easy_setopt(handle, CURLOPT_WRITEDATA, s);
    failed |= curl_easy_setopt(handle, CURLOPT_READFUNCTION, give_body);
    failed |= curl_easy_setopt(handle, CURLOPT_READDATA, s);
    failed |= curl_easy_setopt(handle, CURLOPT_SEEKFUNCTION, rewind_body);
    failed |= curl_easy_setopt(handle, CURLOPT_SEEKDATA, s);
    failed |= curl_easy_setopt(handle, CURLOPT_PRIVATE, s);
    if (!place->is_s3) {
        failed |= curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 1L);
        failed |= curl_easy_setopt(handle, CURLOPT_MAXREDIRS, (long)REDIRECTS_MAX);
        failed |= curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    } else if (place->access_key) {
        snprintf(provider, sizeof provider, "aws:amz:%s:s3", place->region);
        failed |= curl_easy_setopt(handle, CURLOPT_AWS_SIGV4, provider);
        failed |= curl_easy_setopt(handle, CURLOPT_USERNAME, place->access_key);
        failed |= curl_easy_setopt(handle, CURLOPT_PASSWORD, place->secret_key);
    }
    return failed == CURLE_OK;
}

weir_status weir_remote__http_open(const weir_env *env, const weir_remote__place *place,
                                   const weir_remote_options *options, weir_remote__watch *watch,
                                   weir_remote__http **out, weir_error *error) {
    weir_remote__http *http = weir__allocate_zero(env, 1, sizeof *http);
    if (!http)
        return weir__out_of_memory(error, WEIR_REMOTE__OPERATOR, sizeof *http);
    *http = (weir_remote__http){.env = env,
                                .place = place,
                                .watch = watch,
                                .concurrency = options->concurrency ? options->concurrency : 8,
                                .retries = options->retries == UINT32_MAX ? 6 : options->retries,
                                .retry_ms = options->retry_ms ? options->retry_ms : 250,
                                .timeout_s = options->timeout_s ? (long)options->timeout_s : 60};
    http->is_initialised = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    http->multi = http->is_initialised ? curl_multi_init() : NULL;
    http->slots = weir__allocate_zero(env, http->concurrency, sizeof *http->slots);
    bool is_fine = http->multi && http->slots;
    for (uint32_t i = 0; i < http->concurrency && is_fine; i++) {
        http->slots[i].http = http;
        http->slots[i].handle = curl_easy_init();
        is_fine = http->slots[i].handle && set_up(http, &http->slots[i]);
    }
    if (!is_fine) {
        weir_remote__http_close(http);
        return weir__out_of_memory(error, WEIR_REMOTE__OPERATOR, 1);
    }
    *out = http;
    return WEIR_OK;
}

void weir_remote__http_close(weir_remote__http *http) {
    if (!http)
        return;
    for (uint32_t i = 0; http->slots && i < http->concurrency; i++) {
        slot *s = &http->slots[i];
        if (s->state == SLOT_RUNNING)
            curl_multi_remove_handle(http->multi, s->handle);
        if (s->handle)
            curl_easy_cleanup(s->handle);
        curl_slist_free_all(s->headers);
        weir__release(http->env, s->request.url);
        weir__release(http->env, s->request.body);
        weir__release(http->env, s->request.answer);
    }
    weir__release(http->env, http->slots);
    if (http->multi)
        curl_multi_cleanup(http->multi);
    if (http->is_initialised)
        curl_global_cleanup();
    weir__release(http->env, http);
}

bool weir_remote__http_body(weir_remote__http_request *request, const weir_env *env, size_t size) {
    request->body_size = size;
    return weir__grow(env, (void **)&request->body, &request->body_capacity, size, 1);
}

/* ---- One request ----------------------------------------------------------------------------- */

static bool add_header(slot *s, const char *name, const char *value) {
    size_t size = strlen(name) + strlen(value) + 3;
    char *line = weir__allocate(s->http->env, size, 1);
    if (!line)
        return false;
    snprintf(line, size, "%s: %s", name, value);
    struct curl_slist *longer = curl_slist_append(s->headers, line);
    explicit_bzero(line, size);
    weir__release(s->http->env, line);
    if (longer)
        s->headers = longer;
    return longer != NULL;
}

/* What is sent is signed with its hash. */
static bool set_request(slot *s) {
    const weir_remote__http_request *r = &s->request;
    const weir_remote__place *place = s->http->place;
    char range[40], hex[65];
    uint8_t digest[32];
    bool is_put = r->method == WEIR_REMOTE__HTTP_PUT, fits = true;
    bool is_rest = r->method == WEIR_REMOTE__HTTP_GET && r->has_ranges && r->answer_size > 0;
    unsigned failed = CURLE_OK;
    snprintf(range, sizeof range, "%zu-", r->answer_size);
    failed |= curl_easy_setopt(s->handle, CURLOPT_URL, r->url);
    failed |= curl_easy_setopt(s->handle, CURLOPT_HTTPGET, 1L);
    failed |= curl_easy_setopt(s->handle, CURLOPT_NOBODY, r->method == WEIR_REMOTE__HTTP_HEAD ? 1L : 0L);
    failed |= curl_easy_setopt(s->handle, CURLOPT_UPLOAD, is_put ? 1L : 0L);
    failed |= curl_easy_setopt(s->handle, CURLOPT_RANGE, is_rest ? range : NULL);
    if (is_put)
        failed |= curl_easy_setopt(s->handle, CURLOPT_INFILESIZE_LARGE, (curl_off_t)r->body_size);
    curl_slist_free_all(s->headers);
    s->headers = NULL;
    if (place->access_key) {
        weir__sha256_of(r->body ? (const void *)r->body : "", is_put ? r->body_size : 0, digest);
        weir__hex_encode(digest, sizeof digest, hex);
        fits = add_header(s, "x-amz-content-sha256", hex) &&
               (!place->session_token || add_header(s, "x-amz-security-token", place->session_token));
    }
    failed |= curl_easy_setopt(s->handle, CURLOPT_HTTPHEADER, s->headers);
    return fits && failed == CURLE_OK;
}

static weir_status start(slot *s, weir_error *error) {
    if (!s->request.has_ranges)
        s->request.answer_size = 0;
    s->sent = s->said_size = 0;
    s->has_begun = s->is_too_large = s->is_short_of_memory = false;
    s->reason[0] = '\0';
    if (!set_request(s) || curl_multi_add_handle(s->http->multi, s->handle) != CURLM_OK)
        return weir__out_of_memory(error, WEIR_REMOTE__OPERATOR, 1);
    s->state = SLOT_RUNNING;
    return WEIR_OK;
}

/* ---- Refusals -------------------------------------------------------------------------------- */

/* What lies between <NAME> and </NAME> of S3's answer. */
static void find_element(const char *said, const char *name, char *out, size_t capacity) {
    char mark[40];
    snprintf(mark, sizeof mark, "<%s>", name);
    const char *at = strstr(said, mark);
    at = at ? at + strlen(mark) : NULL;
    size_t size = at ? strcspn(at, "<") : 0;
    snprintf(out, capacity, "%.*s", WEIR__NARROW(int, size < 200 ? size : 200), at ? at : "");
}

static weir_status fail_with(const slot *s, const char *what, weir_error *error) {
    char message[1000], line[1000];
    snprintf(message, sizeof message, "%.300s %s", s->request.url, what);
    weir__one_line(message, line, sizeof line);
    weir_remote__place_redact(s->http->place, line, sizeof line);
    return weir__fail(error, WEIR_IO_ERROR, WEIR_REMOTE__OPERATOR, "%s", line);
}

static weir_status refuse_answer(const slot *s, long code, weir_error *error) {
    char name[201], message[201], what[500];
    const char *hint = code == 401 || code == 403
                           ? "; are AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION right for it?"
                       : code == 301 || code == 307 ? "; is AWS_REGION the bucket's?"
                                                    : "";
    find_element(s->said, "Code", name, sizeof name);
    find_element(s->said, "Message", message, sizeof message);
    snprintf(what, sizeof what, "answers %ld (tries: %u)%s%s%s%s%s", code, s->attempt + 1, *name ? ": " : "",
             name, *message ? ": " : "", message, s->http->place->is_s3 ? hint : "");
    return fail_with(s, what, error);
}

weir_status weir_remote__http_refuse(const weir_remote__http_request *request, weir_error *error) {
    const slot *s = (const slot *)(const void *)((const char *)request - offsetof(slot, request));
    return refuse_answer(s, request->code, error);
}

static weir_status give_up(const slot *s, CURLcode result, const char *wrong, weir_error *error) {
    char what[400];
    if (s->is_short_of_memory)
        return weir__out_of_memory(error, WEIR_REMOTE__OPERATOR, s->request.answer_size);
    if (wrong)
        snprintf(what, sizeof what, "%s (tries: %u)", wrong, s->attempt + 1);
    else if (result != CURLE_OK)
        snprintf(what, sizeof what, "cannot be reached (tries: %u): %s", s->attempt + 1,
                 s->reason[0] ? s->reason : curl_easy_strerror(result));
    else
        return refuse_answer(s, s->request.code, error);
    return fail_with(s, what, error);
}

/* ---- All requests ---------------------------------------------------------------------------- */

static void end_request(slot *s) {
    weir__release(s->http->env, s->request.url);
    s->request.url = NULL;
    s->request.answer_size = s->request.body_size = 0;
    s->state = SLOT_FREE;
}

static weir_status finish(slot *s, CURLcode result, const weir_remote__http_work *work, weir_error *error) {
    weir_remote__http_request *r = &s->request;
    const char *wrong = NULL;
    curl_off_t length = -1;
    curl_multi_remove_handle(s->http->multi, s->handle);
    s->state = SLOT_FREE;
    s->said[s->said_size] = '\0';
    r->code = 0;
    curl_easy_getinfo(s->handle, CURLINFO_RESPONSE_CODE, &r->code);
    curl_easy_getinfo(s->handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    r->length = length;
    if (r->code == 416 || s->is_too_large) { /* what is kept is not the beginning of what is there */
        wrong = "gives more bytes than it should";
        r->answer_size = 0;
    } else if (result == CURLE_OK && !weir__http_is_passing(result, r->code)) {
        weir_status status = work->done(work->context, r, &wrong, error);
        if (status != WEIR_OK || !wrong) {
            end_request(s);
            return status;
        }
        r->answer_size = 0;
    } else if (!weir__http_is_passing(result, r->code)) {
        return give_up(s, result, NULL, error);
    }
    if (s->is_short_of_memory || s->attempt >= s->http->retries)
        return give_up(s, result, wrong, error);
    uint64_t wait_ns = weir__http_wait_ns(s->handle, s->http->retry_ms, s->attempt);
    s->attempt++;
    s->ready_ns = s->http->env->now_ns(s->http->env->context) + wait_ns;
    s->state = SLOT_WAITING;
    return WEIR_OK;
}

/* Starts what can be started; *busy says how many are not free. */
static weir_status start_ready(weir_remote__http *http, const weir_remote__http_work *work, bool *has_more,
                               uint32_t *busy, int *wait_ms, weir_error *error) {
    uint64_t now = http->env->now_ns(http->env->context);
    *busy = 0;
    *wait_ms = TICK_MS;
    for (uint32_t i = 0; i < http->concurrency; i++) {
        slot *s = &http->slots[i];
        weir_status status = WEIR_OK;
        if (s->state == SLOT_FREE && *has_more) {
            s->attempt = 0;
            status = work->next(work->context, &s->request, has_more, error);
            if (status == WEIR_OK && *has_more)
                status = start(s, error);
        } else if (s->state == SLOT_WAITING && s->ready_ns <= now) {
            status = start(s, error);
        } else if (s->state == SLOT_WAITING && (s->ready_ns - now) / 1000000 + 1 < (uint64_t)*wait_ms) {
            *wait_ms = WEIR__NARROW(int, (s->ready_ns - now) / 1000000 + 1);
        }
        if (status != WEIR_OK)
            return status;
        *busy += s->state != SLOT_FREE;
    }
    return WEIR_OK;
}

static weir_status run(weir_remote__http *http, const weir_remote__http_work *work, weir_error *error) {
    bool has_more = true;
    for (;;) {
        uint32_t busy;
        int wait_ms, running, left;
        WEIR__TRY(start_ready(http, work, &has_more, &busy, &wait_ms, error));
        if (busy == 0 && !has_more)
            return WEIR_OK;
        CURLMcode code = curl_multi_perform(http->multi, &running);
        bool has_ended = false;
        CURLMsg *message;
        while ((message = curl_multi_info_read(http->multi, &left)) != NULL) {
            slot *s = NULL;
            CURLcode result = message->data.result;
            if (message->msg != CURLMSG_DONE ||
                curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&s) != CURLE_OK || !s)
                continue;
            has_ended = true;
            WEIR__TRY(finish(s, result, work, error));
        }
        WEIR__TRY(weir_remote__watch_tell(http->watch, error));
        if (code == CURLM_OK && !has_ended)
            code = curl_multi_poll(http->multi, NULL, 0, wait_ms, NULL);
        if (code != CURLM_OK)
            return weir__fail(error, WEIR_IO_ERROR, WEIR_REMOTE__OPERATOR, "%.300s cannot be reached: %s",
                              http->place->index_url, curl_multi_strerror(code));
    }
}

weir_status weir_remote__http_run(weir_remote__http *http, const weir_remote__http_work *work,
                                  weir_error *error) {
    weir_status status = run(http, work, error);
    for (uint32_t i = 0; i < http->concurrency; i++) {
        slot *s = &http->slots[i];
        if (s->state == SLOT_RUNNING)
            curl_multi_remove_handle(http->multi, s->handle);
        end_request(s);
    }
    return status;
}
