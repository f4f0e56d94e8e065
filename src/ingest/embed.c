/* The list of embedders. */

#include "ingest/embed.h"

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
                                       weir_ingest__embedder **out, weir_error *error) {
    const weir_ingest__embedder_kind *kind = &weir_ingest__embedder_hash;
    weir_cbor_value provider;
    *out = NULL;
    if (settings && weir_cbor_get(settings, "provider", &provider))
        kind = find_kind(&provider);
    if (!kind)
        return weir__fail(error, WEIR_SCHEMA_INVALID, WEIR_INGEST__EMBED_OPERATOR,
                          "the schema's $.embedding.provider is not one that weir has");
    return kind->open(env, settings, out, error);
}

void weir_ingest__embedder_close(weir_ingest__embedder *embedder) {
    if (embedder)
        embedder->kind->close(embedder);
}
