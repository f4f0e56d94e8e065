/* Fetching the index of a place: one request, whose answer is read as one. */
#include <string.h>

#include "remote/remote.h"
#include "store/format.h"

typedef struct index_fetch {
    const weir_remote__http *http;
    weir_remote__chunks *out;
    bool is_asked, is_there;
} index_fetch;

static weir_status ask(void *context, weir__http_request *request, bool *is_there, weir_error *error) {
    index_fetch *fetch = context;
    const weir_remote__place *place = fetch->http->place;
    *is_there = !fetch->is_asked;
    if (fetch->is_asked)
        return WEIR_OK;
    fetch->is_asked = true;
    request->method = WEIR__HTTP_GET;
    request->answer_max = WEIR_REMOTE__INDEX_SIZE_MOST;
    request->has_ranges = false;
    request->url = weir__copy_text(place->env, place->index_url, strlen(place->index_url));
    return request->url ? WEIR_OK : weir__out_of_memory(error, WEIR_REMOTE__OPERATOR, 1);
}

static weir_status take(void *context, weir__http_request *request, const char **wrong, weir_error *error) {
    enum { MAGIC_SIZE = sizeof WEIR_STORE__MAGIC - 1 };
    index_fetch *fetch = context;
    (void)wrong;
    if (request->code == 404 || request->code == 410)
        return WEIR_OK;
    if (request->code != 200)
        return weir_remote__http_refuse(fetch->http, request, error);
    fetch->is_there = true;
    if (request->answer_size >= MAGIC_SIZE && memcmp(request->answer, WEIR_STORE__MAGIC, MAGIC_SIZE) == 0)
        return weir__fail(
            error, WEIR_CONTRACT_VIOLATION, WEIR_REMOTE__OPERATOR,
            "%.300s is a store itself, not what weir push wrote; download it, and check it with weir "
            "verify",
            fetch->http->place->index_url);
    return weir_remote__chunks_read(fetch->out, (const char *)request->answer, request->answer_size,
                                    fetch->http->place->index_url, error);
}

weir_status weir_remote__index_fetch(const weir_remote__http *http, weir_remote__chunks *out, bool *is_there,
                                     weir_error *error) {
    index_fetch fetch = {.http = http, .out = out};
    weir_status status = weir__http_run(http->engine, &(weir__http_work){&fetch, ask, take}, error);
    *is_there = fetch.is_there;
    return status;
}
