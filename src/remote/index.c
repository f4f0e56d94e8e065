/* Fetching the index of a place: one request, whose answer is read as one. */
#include <string.h>

#include "remote/remote.h"

typedef struct index_fetch {
    weir__http *http;
    const weir__remote_place *place;
    weir__chunks *out;
    bool is_asked, is_there;
} index_fetch;

static weir_status ask(void *context, weir__http_request *request, bool *is_there, weir_error *error) {
    index_fetch *fetch = context;
    *is_there = !fetch->is_asked;
    if (fetch->is_asked)
        return WEIR_OK;
    fetch->is_asked = true;
    request->method = WEIR__HTTP_GET;
    request->answer_max = WEIR__INDEX_SIZE_MOST;
    request->has_ranges = false;
    request->url =
        weir__copy_text(fetch->place->env, fetch->place->index_url, strlen(fetch->place->index_url));
    return request->url ? WEIR_OK : weir__out_of_memory(error, WEIR__REMOTE_OPERATOR, 1);
}

static weir_status take(void *context, weir__http_request *request, const char **wrong, weir_error *error) {
    static const char magic[] = "\x89WEIR";
    index_fetch *fetch = context;
    (void)wrong;
    if (request->code == 404 || request->code == 410)
        return WEIR_OK;
    if (request->code != 200)
        return weir__http_refuse(fetch->http, request, error);
    fetch->is_there = true;
    if (request->answer_size >= strlen(magic) && memcmp(request->answer, magic, strlen(magic)) == 0)
        return weir__fail(
            error, WEIR_CONTRACT_VIOLATION, WEIR__REMOTE_OPERATOR,
            "%.300s is a store itself, not what weir push wrote; download it, and check it with weir "
            "verify",
            fetch->place->index_url);
    return weir__chunks_read(fetch->out, (const char *)request->answer, request->answer_size,
                             fetch->place->index_url, error);
}

weir_status weir__index_fetch(weir__http *http, const weir__remote_place *place, weir__chunks *out,
                              bool *is_there, weir_error *error) {
    index_fetch fetch = {.http = http, .place = place, .out = out};
    weir_status status = weir__http_run(http, &(weir__http_work){&fetch, ask, take}, error);
    *is_there = fetch.is_there;
    return status;
}
