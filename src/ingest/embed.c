/* The list of embedders, and how each is opened. */

#include "ingest/settings.h"

static const weir_ingest__embedder_kind *const kinds[] = {
    &weir_ingest__embedder_hash,
    &weir_ingest__embedder_http,
    &weir_ingest__embedder_file,
};

static const weir_ingest__embedder_kind *find_kind(const weir_cbor_value *provider) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (weir_cbor_is_text(provider, kinds[i]->provider))
            return kinds[i];
    return NULL;
}

bool weir_ingest__embedder_is_known(const weir_cbor_value *provider) {
    return find_kind(provider) != NULL;
}

weir_status weir_ingest__embedder_open(const weir_env *env, const weir_cbor_value *settings,
                                       const atomic_bool *is_cancelled, weir_ingest__embedder **out,
                                       weir_error *error) {
    const weir_ingest__embedder_kind *kind = &weir_ingest__embedder_hash;
    weir_cbor_value provider;
    *out = NULL;
    if (settings && weir_cbor_get(settings, "provider", &provider))
        kind = find_kind(&provider);
    if (!kind)
        return weir__fail(error, WEIR_SCHEMA_INVALID, WEIR_INGEST__EMBED_OPERATOR,
                          "the schema's $.embedding.provider is not one that weir has");
    size_t size = kind->shape ? kind->shape->size : sizeof(weir_ingest__embedder);
    weir_ingest__embedder *self = weir__allocate_zero(env, 1, size);
    if (!self)
        return weir__out_of_memory(error, WEIR_INGEST__EMBED_OPERATOR, size);
    *self = (weir_ingest__embedder){
        .kind = kind, .env = env, .batch_max = kind->batch_max, .is_cancelled = is_cancelled};
    weir_status status = WEIR_OK;
    if (kind->shape)
        status = weir_ingest__settings_read(self, settings, kind->shape, error);
    if (!status && kind->open)
        status = kind->open(self, error);
    if (status)
        weir_ingest__embedder_close(self);
    else
        *out = self;
    return status;
}

void weir_ingest__embedder_close(weir_ingest__embedder *embedder) {
    if (!embedder)
        return;
    const weir_env *env = embedder->env;
    if (embedder->kind->close)
        embedder->kind->close(embedder);
    weir__arena_release(&embedder->arena);
    weir__release(env, embedder);
}
