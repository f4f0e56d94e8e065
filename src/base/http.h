/* Requests to an HTTP server, some at once, in the calling thread: for stores on servers and for embeddings.
 *
 * A request that meets a full or broken server (408, 425, 429, 5xx, a timeout, a lost connection), or whose
 * answer the caller calls wrong, is tried again after retry_ms, twice as long each time, or after what
 * Retry-After says if that is longer. A GET that was cut is continued where it was if the caller allows it.
 * All other failures are final and stop the rest. */
#ifndef WEIR_BASE_HTTP_H
#define WEIR_BASE_HTTP_H

#include "base/internal.h"

struct curl_slist;

typedef enum weir__http_method {
    WEIR__HTTP_GET,
    WEIR__HTTP_HEAD,
    WEIR__HTTP_PUT,
    WEIR__HTTP_POST
} weir__http_method;

/* One request at a time; its buffers are used again. */
typedef struct weir__http_request {
    weir__http_method method;
    char *url;       /* released by the engine */
    uint64_t number; /* the caller's */
    uint8_t *body;   /* of a PUT or a POST: room that weir__http_body made */
    size_t body_size, body_capacity;
    size_t answer_max; /* a longer answer is a failure */
    bool has_ranges;   /* what was cut may be continued */
    /* After it was done: */
    long code;
    uint32_t tries;
    uint8_t *answer; /* with code 200, or 206 if it has ranges */
    size_t answer_size, answer_capacity;
    char *said; /* with any other code; terminated, and its end may be missing */
    size_t said_size, said_capacity;
    int64_t length; /* that a HEAD says; -1: it does not */
} weir__http_request;

/* What to do, one request after the other. */
typedef struct weir__http_work {
    void *context;
    /* Fills the next request; *is_there false if there is none. */
    weir_status (*next)(void *context, weir__http_request *request, bool *is_there, weir_error *error);
    /* Takes an answer of any code. If it sets *wrong, which says why, the request is tried again. */
    weir_status (*done)(void *context, weir__http_request *request, const char **wrong, weir_error *error);
} weir__http_work;

/* What all requests share. Its pointers stay valid until the engine is closed. */
typedef struct weir__http_options {
    const char *failure_operator;
    weir_status failure; /* what a server's fault is */
    uint32_t concurrency, retries;
    uint64_t retry_ms;
    const char *secrets[3]; /* what no message may show, or NULL */
    const char *too_large;  /* what is said of an answer beyond its limit; NULL: that is tried again */
    void *context;
    /* Sets the caller's own options of a CURL, and adds headers, before each try; false: memory is short. */
    bool (*set_up)(void *context, void *handle, const weir__http_request *request,
                   struct curl_slist **headers);
    /* Called several times per second; a failure stops all. NULL: nothing. */
    weir_status (*tick)(void *context, weir_error *error);
} weir__http_options;

typedef struct weir__http weir__http;

WEIR_CHECKED weir_status weir__http_open(const weir_env *env, const weir__http_options *options,
                                         weir__http **out, weir_error *error);
void weir__http_close(weir__http *http);
/* Returns after all is done, or after the first failure. */
WEIR_CHECKED weir_status weir__http_run(weir__http *http, const weir__http_work *work, weir_error *error);

/* For `next`: room for a body; false if memory is short. */
bool weir__http_body(weir__http_request *request, const weir_env *env, size_t size);
/* For `set_up`: "NAME: " and its value, which leaves no copy but the list's; false if memory is short. */
bool weir__http_add_header(struct curl_slist **headers, const weir_env *env, const char *name,
                           const char *value);

/* A server's text in one line without secrets; where it is cut, what may be the start of one goes too. */
void weir__http_show(const weir__http *http, const char *text, size_t size, char *out, size_t capacity);
/* "URL …" in one line without secrets, as a server's fault. */
weir_status weir__http_fail(const weir__http *http, const weir__http_request *request, weir_error *error,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
