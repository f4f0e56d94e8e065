/* Requests to a place: what they are signed with, and what S3 says when it refuses one. */
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "remote/remote.h"

enum { TIMEOUT_S = 60, REDIRECTS_MAX = 5, CONCURRENCY = 8, RETRIES = 6, RETRY_MS = 250 };

/* What is sent is signed with its hash. */
static bool set_up(void *context, void *handle, const weir__http_request *request,
                   struct curl_slist **headers) {
    const weir_remote__http *http = context;
    const weir_remote__place *place = http->place;
    uint32_t timeout_s = http->watch->options->timeout_s;
    unsigned failed = CURLE_OK;
    failed |= curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
    failed |= curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, timeout_s ? (long)timeout_s : (long)TIMEOUT_S);
    if (!place->is_s3) {
        failed |= curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 1L);
        failed |= curl_easy_setopt(handle, CURLOPT_MAXREDIRS, (long)REDIRECTS_MAX);
        failed |= curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    }
    if (!place->access_key)
        return failed == CURLE_OK;
    char provider[300], hex[65];
    uint8_t digest[32];
    snprintf(provider, sizeof provider, "aws:amz:%s:s3", place->region);
    failed |= curl_easy_setopt(handle, CURLOPT_AWS_SIGV4, provider);
    failed |= curl_easy_setopt(handle, CURLOPT_USERNAME, place->access_key);
    failed |= curl_easy_setopt(handle, CURLOPT_PASSWORD, place->secret_key);
    bool has_body = request->method == WEIR__HTTP_PUT && request->body;
    weir__sha256_of(has_body ? (const void *)request->body : "", has_body ? request->body_size : 0, digest);
    weir__hex_encode(digest, sizeof digest, hex);
    return failed == CURLE_OK && weir__http_add_header(headers, place->env, "x-amz-content-sha256: ", hex) &&
           (!place->session_token ||
            weir__http_add_header(headers, place->env, "x-amz-security-token: ", place->session_token));
}

static weir_status tell(void *context, weir_error *error) {
    const weir_remote__http *http = context;
    return weir_remote__watch_tell(http->watch, error);
}

weir_status weir_remote__http_open(const weir_remote__place *place, weir_remote__watch *watch,
                                   weir_remote__http *out, weir_error *error) {
    const weir_remote_options *given = watch->options;
    *out = (weir_remote__http){.place = place, .watch = watch};
    const weir__http_options options = {
        .failure_operator = WEIR_REMOTE__OPERATOR,
        .failure = WEIR_IO_ERROR,
        .concurrency = given->concurrency ? given->concurrency : CONCURRENCY,
        .retries = given->retries == UINT32_MAX ? RETRIES : given->retries,
        .retry_ms = given->retry_ms ? given->retry_ms : RETRY_MS,
        .secrets = {place->secret_key, place->session_token, place->access_key},
        .context = out,
        .set_up = set_up,
        .tick = tell};
    return weir__http_open(watch->env, &options, &out->engine, error);
}

/* What lies between <NAME> and </NAME> of S3's answer. */
static void find_element(const weir_remote__http *http, const char *said, const char *name, char out[201]) {
    char mark[40];
    snprintf(mark, sizeof mark, "<%s>", name);
    const char *at = strstr(said, mark);
    at = at ? at + strlen(mark) : "";
    weir__http_show(http->engine, at, strcspn(at, "<"), out, 201);
}

weir_status weir_remote__http_refuse(const weir_remote__http *http, const weir__http_request *request,
                                     weir_error *error) {
    char name[201], message[201];
    long code = request->code;
    const char *hint = !http->place->is_s3 ? ""
                       : code == 401 || code == 403
                           ? "; are AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION right for it?"
                       : code == 301 || code == 307 ? "; is AWS_REGION the bucket's?"
                                                    : "";
    find_element(http, request->said, "Code", name);
    find_element(http, request->said, "Message", message);
    return weir__http_fail(http->engine, request, error, "answers %ld (tries: %u)%s%s%s%s%s", code,
                           request->tries, *name ? ": " : "", name, *message ? ": " : "", message, hint);
}
