/* When a request to a server is tried again: what passes by itself is, after a wait that doubles, or that the
 * server asked for. */
#ifndef WEIR_BASE_HTTP_RETRY_H
#define WEIR_BASE_HTTP_RETRY_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

static inline bool weir__http_is_passing(CURLcode result, long code) {
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

/* How long to wait before attempt + 1: first_ms at 0, then twice as long each time, and at least what the
 * server's Retry-After says, up to five minutes. */
static inline uint64_t weir__http_wait_ns(CURL *handle, uint64_t first_ms, uint32_t attempt) {
    const uint64_t longest_ms = 300 * 1000;
    curl_off_t asked_s = 0;
    if (curl_easy_getinfo(handle, CURLINFO_RETRY_AFTER, &asked_s) != CURLE_OK || asked_s < 0)
        asked_s = 0;
    uint64_t wait_ms = first_ms << (attempt < 20 ? attempt : 20);
    if (wait_ms < (uint64_t)asked_s * 1000)
        wait_ms = (uint64_t)asked_s * 1000;
    return (wait_ms < longest_ms ? wait_ms : longest_ms) * 1000000;
}

#endif
