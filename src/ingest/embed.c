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

static weir_status read_dim(const weir_cbor_value *settings, uint32_t *out, weir_error *error) {
    weir_cbor_value value;
    uint64_t dim = WEIR_INGEST__EMBED_DIM_DEFAULT;
    if (settings && weir_cbor_get(settings, "dim", &value) &&
        (!weir_cbor_get_uint(&value, &dim) || dim < 1 || dim > WEIR_INGEST__EMBED_DIM_MAX))
        return weir__fail(error, WEIR_SCHEMA_INVALID, WEIR_INGEST__EMBED_OPERATOR,
                          "the schema's $.embedding.dim must be a whole number from 1 to %d",
                          WEIR_INGEST__EMBED_DIM_MAX);
    *out = WEIR__NARROW(uint32_t, dim);
    return WEIR_OK;
}

weir_status weir_ingest__embedder_open(const weir_env *env, const weir_cbor_value *settings,
                                       weir_ingest__embedder **out, weir_error *error) {
    const weir_ingest__embedder_kind *kind = &weir_ingest__embedder_hash;
    weir_cbor_value provider;
    uint32_t dim = 0;
    *out = NULL;
    WEIR__TRY(read_dim(settings, &dim, error));
    if (settings && weir_cbor_get(settings, "provider", &provider))
        kind = find_kind(&provider);
    if (!kind)
        return weir__fail(error, WEIR_SCHEMA_INVALID, WEIR_INGEST__EMBED_OPERATOR,
                          "the schema's $.embedding.provider is not one that weir has");
    return kind->open(env, settings, dim, out, error);
}

void weir_ingest__embedder_close(weir_ingest__embedder *embedder) {
    if (embedder)
        embedder->kind->close(embedder);
}
