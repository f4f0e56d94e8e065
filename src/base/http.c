/* Requests through one curl multi handle. Each of `concurrency` slots has a handle and buffers that are used
 * again and again; a request keeps its slot while it waits to be tried again. */
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

#include "base/http.h"

enum {
    CONNECT_TIMEOUT_S = 20,
    TICK_MS = 200,
    WAIT_MAX_MS = 300 * 1000,
    SAID_MAX = 1 << 20,
    SHOWN_MAX = 1 << 10,
    URL_SHOWN_MAX = 300
};

typedef enum slot_state { SLOT_FREE, SLOT_WAITING, SLOT_RUNNING } slot_state;

typedef struct slot {
    weir__http *http;
    CURL *handle;
    struct curl_slist *headers;
    slot_state state;
    weir__http_request request;
    uint64_t ready_ns;
    size_t sent;    /* of the body */
    bool has_begun; /* the answer of this try */
    bool is_too_large;
    bool is_said_full; /* and the rest is not waited for */
    bool is_short_of_memory;
    char reason[CURL_ERROR_SIZE];
} slot;

struct weir__http {
    const weir_env *env;
    weir__http_options options;
    CURLM *multi;
    slot *slots;
    bool is_initialised;
};

/* ---- What curl calls ------------------------------------------------------------------------- */

static size_t take_answer(char *data, size_t size, size_t count, void *context) {
    slot *s = context;
    weir__http_request *r = &s->request;
    const weir_env *env = s->http->env;
    size_t more = size * count;
    long code = 0;
    curl_easy_getinfo(s->handle, CURLINFO_RESPONSE_CODE, &code);
    if (code != 200 && !(code == 206 && r->has_ranges)) {
        size_t room = SAID_MAX - r->said_size, kept = more < room ? more : room;
        s->is_short_of_memory =
            !weir__grow(env, (void **)&r->said, &r->said_capacity, r->said_size + kept + 1, 1);
        if (s->is_short_of_memory)
            return 0;
        memcpy(r->said + r->said_size, data, kept);
        r->said_size += kept;
        s->is_said_full = kept < more;
        return kept;
    }
    if (!s->has_begun && code == 200)
        r->answer_size = 0; /* from the beginning */
    s->has_begun = true;
    s->is_too_large = more > r->answer_max - r->answer_size;
    s->is_short_of_memory = !s->is_too_large && !weir__grow(env, (void **)&r->answer, &r->answer_capacity,
                                                            r->answer_size + more, 1);
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

/* What is the same for all requests; false if libcurl lacks memory or an option. */
static bool set_up(slot *s) {
    CURL *handle = s->handle;
    unsigned failed = CURLE_OK;
    failed |= curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    failed |= curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    failed |= curl_easy_setopt(handle, CURLOPT_USERAGENT, "weir/" WEIR_VERSION);
    failed |= curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_TIMEOUT_S);
    failed |= curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, s->reason);
    failed |= curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, take_answer);
    failed |= curl_easy_setopt(handle, CURLOPT_WRITEDATA, s);
    failed |= curl_easy_setopt(handle, CURLOPT_READFUNCTION, give_body);
    failed |= curl_easy_setopt(handle, CURLOPT_READDATA, s);
    failed |= curl_easy_setopt(handle, CURLOPT_SEEKFUNCTION, rewind_body);
    failed |= curl_easy_setopt(handle, CURLOPT_SEEKDATA, s);
    failed |= curl_easy_setopt(handle, CURLOPT_PRIVATE, s);
    return failed == CURLE_OK;
}

static weir_status out_of_memory(const weir__http *http, size_t size, weir_error *error) {
    return weir__out_of_memory(error, http->options.failure_operator, size);
}

weir_status weir__http_open(const weir_env *env, const weir__http_options *options, weir__http **out,
                            weir_error *error) {
    weir__http *http = weir__allocate_zero(env, 1, sizeof *http);
    if (!http)
        return weir__out_of_memory(error, options->failure_operator, sizeof *http);
    *http = (weir__http){.env = env, .options = *options};
    http->is_initialised = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    http->multi = http->is_initialised ? curl_multi_init() : NULL;
    http->slots = weir__allocate_zero(env, options->concurrency, sizeof *http->slots);
    bool is_fine = http->multi && http->slots;
    for (uint32_t i = 0; i < options->concurrency && is_fine; i++) {
        http->slots[i].http = http;
        http->slots[i].handle = curl_easy_init();
        is_fine = http->slots[i].handle && set_up(&http->slots[i]);
    }
    if (is_fine) {
        *out = http;
        return WEIR_OK;
    }
    weir_status status = http->is_initialised ? out_of_memory(http, options->concurrency, error)
                                              : weir__fail(error, options->failure, options->failure_operator,
                                                           "libcurl cannot be used");
    weir__http_close(http);
    return status;
}

void weir__http_close(weir__http *http) {
    if (!http)
        return;
    for (uint32_t i = 0; http->slots && i < http->options.concurrency; i++) {
        slot *s = &http->slots[i];
        if (s->handle)
            curl_easy_cleanup(s->handle);
        curl_slist_free_all(s->headers);
        weir__release(http->env, s->request.body);
        weir__release(http->env, s->request.answer);
        weir__release(http->env, s->request.said);
    }
    weir__release(http->env, http->slots);
    if (http->multi)
        curl_multi_cleanup(http->multi);
    if (http->is_initialised)
        curl_global_cleanup();
    weir__release(http->env, http);
}

/* ---- One request ----------------------------------------------------------------------------- */

bool weir__http_body(weir__http_request *request, const weir_env *env, size_t size) {
    request->body_size = size;
    return weir__grow(env, (void **)&request->body, &request->body_capacity, size, 1);
}

bool weir__http_add_header(struct curl_slist **headers, const weir_env *env, const char *name,
                           const char *value) {
    size_t size = strlen(name) + strlen(value) + 1;
    char *line = weir__allocate(env, size, 1);
    if (!line)
        return false;
    snprintf(line, size, "%s%s", name, value);
    struct curl_slist *longer = curl_slist_append(*headers, line);
    explicit_bzero(line, size);
    weir__release(env, line);
    if (longer)
        *headers = longer;
    return longer != NULL;
}

static bool set_request(slot *s) {
    const weir__http_request *r = &s->request;
    const weir__http_options *options = &s->http->options;
    bool is_put = r->method == WEIR__HTTP_PUT;
    bool is_rest = r->method == WEIR__HTTP_GET && r->has_ranges && r->answer_size > 0;
    char range[40];
    unsigned failed = CURLE_OK;
    snprintf(range, sizeof range, "%zu-", r->answer_size);
    failed |= curl_easy_setopt(s->handle, CURLOPT_URL, r->url);
    failed |= curl_easy_setopt(s->handle, CURLOPT_HTTPGET, 1L);
    failed |= curl_easy_setopt(s->handle, CURLOPT_NOBODY, r->method == WEIR__HTTP_HEAD ? 1L : 0L);
    failed |= curl_easy_setopt(s->handle, CURLOPT_UPLOAD, is_put ? 1L : 0L);
    failed |= curl_easy_setopt(s->handle, CURLOPT_RANGE, is_rest ? range : NULL);
    if (is_put)
        failed |= curl_easy_setopt(s->handle, CURLOPT_INFILESIZE_LARGE, (curl_off_t)r->body_size);
    if (r->method == WEIR__HTTP_POST) {
        failed |= curl_easy_setopt(s->handle, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body_size);
        failed |= curl_easy_setopt(s->handle, CURLOPT_POSTFIELDS, r->body);
    }
    curl_slist_free_all(s->headers);
    s->headers = NULL;
    bool is_fine = options->set_up(options->context, s->handle, r, &s->headers);
    failed |= curl_easy_setopt(s->handle, CURLOPT_HTTPHEADER, s->headers);
    return is_fine && failed == CURLE_OK;
}

static weir_status start(slot *s, weir_error *error) {
    weir__http_request *r = &s->request;
    if (!r->has_ranges)
        r->answer_size = 0;
    s->sent = r->said_size = 0;
    s->has_begun = s->is_too_large = s->is_said_full = s->is_short_of_memory = false;
    s->reason[0] = '\0';
    r->tries++;
    if (!set_request(s) || curl_multi_add_handle(s->http->multi, s->handle) != CURLM_OK)
        return out_of_memory(s->http, r->body_size, error);
    s->state = SLOT_RUNNING;
    return WEIR_OK;
}

/* ---- Failures -------------------------------------------------------------------------------- */

static size_t longest_secret(const weir__http *http) {
    const char *const *secrets = http->options.secrets;
    size_t longest = 0;
    for (size_t i = 0; i < sizeof http->options.secrets / sizeof *secrets; i++)
        if (secrets[i] && strlen(secrets[i]) > longest)
            longest = strlen(secrets[i]);
    return longest;
}

static void hide_secrets(const weir__http *http, char *text, size_t capacity) {
    const char *const *secrets = http->options.secrets;
    for (size_t i = 0; i < sizeof http->options.secrets / sizeof *secrets; i++)
        if (secrets[i])
            weir__redact(text, capacity, secrets[i], strlen(secrets[i]));
}

void weir__http_show(const weir__http *http, const char *text, size_t size, char *out, size_t capacity) {
    char kept[SHOWN_MAX];
    size_t shown = size < sizeof kept ? size : sizeof kept - 1, longest = longest_secret(http);
    memcpy(kept, text, shown);
    kept[shown] = '\0';
    hide_secrets(http, kept, sizeof kept);
    size_t left = strlen(kept);
    if (shown < size)
        kept[left > longest ? left - longest : 0] = '\0';
    weir__one_line(kept, out, capacity);
}

/* A URL without secrets, and then cut. */
static void show_url(const weir__http *http, const char *url, char out[URL_SHOWN_MAX + 1]) {
    size_t size = strlen(url) + 1;
    char *copy = weir__allocate(http->env, size, 1);
    snprintf(out, URL_SHOWN_MAX + 1, "a server");
    if (!copy)
        return;
    memcpy(copy, url, size);
    hide_secrets(http, copy, size);
    snprintf(out, URL_SHOWN_MAX + 1, "%s", copy);
    weir__release(http->env, copy);
}

weir_status weir__http_fail(const weir__http *http, const weir__http_request *request, weir_error *error,
                            const char *format, ...) {
    char what[1000], url[URL_SHOWN_MAX + 1], message[sizeof what + sizeof url + 1], line[sizeof message];
    WEIR__FORMAT(what, format);
    show_url(http, request->url, url);
    snprintf(message, sizeof message, "%s %s", url, what);
    weir__one_line(message, line, sizeof line);
    hide_secrets(http, line, sizeof line);
    return weir__fail(error, http->options.failure, http->options.failure_operator, "%s", line);
}

/* Whether what went wrong passes by itself. */
static bool is_passing(CURLcode result, long code) {
    switch (result) {
    case CURLE_OK:
        return code == 408 || code == 425 || code == 429 || code >= 500;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        return true;
    default:
        return false;
    }
}

/* How long to wait for the next try: retry_ms, then twice as long each time, and at least what the server's
 * Retry-After says, up to five minutes. */
static uint64_t find_wait_ns(const slot *s) {
    uint32_t doubled = s->request.tries - 1;
    uint64_t wait_ms = s->http->options.retry_ms << (doubled < 20 ? doubled : 20);
    curl_off_t asked_s = 0;
    if (curl_easy_getinfo(s->handle, CURLINFO_RETRY_AFTER, &asked_s) != CURLE_OK || asked_s < 0)
        asked_s = 0;
    if (wait_ms < (uint64_t)asked_s * 1000)
        wait_ms = (uint64_t)asked_s * 1000;
    return (wait_ms < WAIT_MAX_MS ? wait_ms : WAIT_MAX_MS) * 1000000;
}

/* ---- All requests ---------------------------------------------------------------------------- */

static void end_request(slot *s) {
    if (s->state == SLOT_RUNNING)
        curl_multi_remove_handle(s->http->multi, s->handle);
    weir__release(s->http->env, s->request.url);
    s->request.url = NULL;
    s->request.answer_size = s->request.body_size = 0;
    s->state = SLOT_FREE;
}

static weir_status finish(slot *s, CURLcode result, const weir__http_work *work, weir_error *error) {
    weir__http *http = s->http;
    weir__http_request *r = &s->request;
    bool is_last = r->tries > http->options.retries;
    const char *wrong = NULL;
    curl_off_t length = -1;
    curl_multi_remove_handle(http->multi, s->handle);
    s->state = SLOT_WAITING;
    r->code = 0;
    curl_easy_getinfo(s->handle, CURLINFO_RESPONSE_CODE, &r->code);
    curl_easy_getinfo(s->handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    r->length = length;
    if (s->is_short_of_memory ||
        !weir__grow(http->env, (void **)&r->said, &r->said_capacity, r->said_size + 1, 1))
        return out_of_memory(http, r->answer_size, error);
    if (s->is_said_full) { /* with what may be the start of a secret */
        size_t longest = longest_secret(http);
        r->said_size -= longest < r->said_size ? longest : r->said_size;
        result = CURLE_OK;
    }
    r->said[r->said_size] = '\0';
    if (s->is_too_large && http->options.too_large)
        return weir__http_fail(http, r, error, "%s", http->options.too_large);
    if (s->is_too_large || (r->code == 416 && r->has_ranges)) {
        wrong = "gives more bytes than it should"; /* what is kept is not the beginning of what is there */
    } else if (result != CURLE_OK && (is_last || !is_passing(result, r->code))) {
        return weir__http_fail(http, r, error, "cannot be reached (tries: %u): %s", r->tries,
                               s->reason[0] ? s->reason : curl_easy_strerror(result));
    } else if (result == CURLE_OK && (is_last || !is_passing(result, r->code))) {
        weir_status status = work->done(work->context, r, &wrong, error);
        if (status != WEIR_OK || !wrong) {
            end_request(s);
            return status;
        }
    }
    if (wrong)
        r->answer_size = 0;
    if (wrong && is_last)
        return weir__http_fail(http, r, error, "%s (tries: %u)", wrong, r->tries);
    s->ready_ns = http->env->now_ns(http->env->context) + find_wait_ns(s);
    return WEIR_OK;
}

/* Starts what can be started; *busy says how many are not free, *wait_ms how long to wait at most. */
static weir_status start_ready(weir__http *http, const weir__http_work *work, bool *has_more, uint32_t *busy,
                               int *wait_ms, weir_error *error) {
    uint64_t now = http->env->now_ns(http->env->context);
    *busy = 0;
    *wait_ms = TICK_MS;
    for (uint32_t i = 0; i < http->options.concurrency; i++) {
        slot *s = &http->slots[i];
        weir_status status = WEIR_OK;
        if (s->state == SLOT_FREE && *has_more) {
            s->request.tries = 0;
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

static weir_status run(weir__http *http, const weir__http_work *work, weir_error *error) {
    const weir__http_options *options = &http->options;
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
        if (options->tick)
            WEIR__TRY(options->tick(options->context, error));
        if (code == CURLM_OK && !has_ended)
            code = curl_multi_poll(http->multi, NULL, 0, wait_ms, NULL);
        if (code != CURLM_OK)
            return weir__fail(error, options->failure, options->failure_operator,
                              "the server cannot be reached: %s", curl_multi_strerror(code));
    }
}

weir_status weir__http_run(weir__http *http, const weir__http_work *work, weir_error *error) {
    weir_status status = run(http, work, error);
    for (uint32_t i = 0; i < http->options.concurrency; i++)
        end_request(&http->slots[i]);
    return status;
}
