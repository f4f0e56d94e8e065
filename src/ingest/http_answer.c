/* Answers of an OpenAI-style server: {"data": [{"index": 0, "embedding": [numbers]}, …]}, in any order, one
 * for each text; an index that is missing is the place in the array. Failures: {"error": {"message": "…"}},
 * or a text, or anything at all, of which the first line is shown. */
#include "ingest/http_embed.h"

static weir_status refuse(const weir_ingest__http_embedder *self, const char *what, const char *fault,
                          weir_error *error) {
    return weir__fail(error, WEIR_SOURCE_ERROR, WEIR_INGEST__EMBED_OPERATOR,
                      "%s gives an answer that cannot be used: %s%s", self->url, what, fault);
}

static weir_status read_item(weir_ingest__http_embedder *self, const weir_cbor_value *item, uint64_t place,
                             const weir_ingest__cached_vector *vectors, size_t count, bool *is_seen,
                             weir_error *error) {
    weir_cbor_value value, vector;
    uint64_t index = place;
    if (weir_cbor_get(item, "index", &value) && !weir_cbor_get_uint(&value, &index))
        return refuse(self, "an index is no whole number", "", error);
    if (index >= count || is_seen[index])
        return refuse(self, "an index repeats or is that of no text", "", error);
    if (!weir_cbor_get(item, "embedding", &vector))
        return refuse(self, "a part has no embedding", "", error);
    const char *fault =
        weir_ingest__vector_read(&vector, self->base.dim, false, self->numbers, vectors[index].vector);
    if (fault)
        return refuse(self, "an embedding ", fault, error);
    is_seen[index] = true;
    return WEIR_OK;
}

static weir_status read_document(weir_ingest__http_embedder *self, const weir_cbor_value *document,
                                 const weir_ingest__cached_vector *vectors, size_t count, weir_error *error) {
    weir_cbor_value data, item;
    if (!weir_cbor_get(document, "data", &data) || data.type != WEIR_CBOR_ARRAY)
        return refuse(self, "it has no array \"data\"", "", error);
    if (data.number != count)
        return refuse(self, "it does not have as many embeddings as the request had texts", "", error);
    bool *is_seen = weir__allocate_zero(self->base.env, count, sizeof *is_seen);
    if (!is_seen)
        return weir__out_of_memory(error, WEIR_INGEST__EMBED_OPERATOR, count);
    weir_cbor_iterator it = weir_cbor_children(&data);
    weir_status status = WEIR_OK;
    for (uint64_t place = 0; !status && weir_cbor_next(&it, NULL, &item); place++)
        status = read_item(self, &item, place, vectors, count, is_seen, error);
    weir__release(self->base.env, is_seen);
    return status;
}

/* JSON as one checked CBOR item in `w`. */
static weir_status read_json(const weir_env *env, const char *body, size_t size, weir_cbor_writer *w,
                             weir_error *why) {
    weir_cbor_writer_memory(w, env);
    weir_status status = weir_json_read(body, size, "the answer", WEIR_CBOR_INVALID, w, why);
    return status ? status : weir_cbor_finish(w, why);
}

weir_status weir_ingest__http_read_answer(weir_ingest__http_embedder *self, const weir__http_request *request,
                                          const weir_ingest__cached_vector *vectors, size_t count,
                                          weir_error *error) {
    weir_cbor_writer w;
    weir_error why;
    const char *answer = request->answer ? (const char *)request->answer : "";
    weir_status status = read_json(self->base.env, answer, request->answer_size, &w, &why);
    if (status == WEIR_OUT_OF_MEMORY) {
        status = weir__out_of_memory(error, WEIR_INGEST__EMBED_OPERATOR, request->answer_size);
    } else if (status) {
        status = refuse(self, why.message, "", error);
    } else {
        weir_cbor_value document = weir_cbor_view(w.data);
        status = read_document(self, &document, vectors, count, error);
    }
    weir_cbor_release(&w);
    return status;
}

/* The text of "error.message", "error", "message" or "detail"; else *out stays. */
static void find_message(const weir_cbor_value *document, weir_cbor_value *out) {
    static const char *const names[] = {"error", "message", "detail"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        weir_cbor_value value;
        if (!weir_cbor_get(document, names[i], &value))
            continue;
        weir_cbor_value inner;
        if (value.type == WEIR_CBOR_MAP && weir_cbor_get(&value, "message", &inner))
            value = inner;
        if (value.type == WEIR_CBOR_TEXT) {
            *out = value;
            return;
        }
    }
}

weir_status weir_ingest__http_refuse(const weir_ingest__http_embedder *self,
                                     const weir__http_request *request, weir_error *error) {
    char message[256];
    weir_cbor_writer w;
    weir_cbor_value found = {.data = (const uint8_t *)request->said, .number = request->said_size};
    if (read_json(self->base.env, request->said, request->said_size, &w, NULL) == WEIR_OK) {
        weir_cbor_value document = weir_cbor_view(w.data);
        find_message(&document, &found);
    }
    weir__http_show(self->http, (const char *)found.data, (size_t)found.number, message, sizeof message);
    weir_cbor_release(&w);
    return weir__http_fail(self->http, request, error, "answers %ld (tries: %u)%s%s", request->code,
                           request->tries, *message ? ": " : "", message);
}
