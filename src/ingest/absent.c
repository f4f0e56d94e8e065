/* Sources and embedders that this build leaves out (CMake options WEIR_POSTGRES and WEIR_HTTP). They stay
 * in the lists, so that their users read what is missing, not that the thing is unknown. */
#include "base/ascii.h"
#include "ingest/embed.h"

#ifdef WEIR_WITHOUT_POSTGRES

static bool accepts_postgres(const weir_env *env, const char *location) {
    (void)env;
    return weir__begins_with(location, "postgresql://") || weir__begins_with(location, "postgres://");
}

static weir_status open_postgres(const weir_env *env, const weir_ingest__source_options *options,
                                 weir_ingest__source **out, weir_error *error) {
    (void)env;
    (void)options;
    *out = NULL;
    return WEIR_INGEST__SOURCE_ERROR(
        error, "this weir was built without PostgreSQL; install libpq (Debian: libpq-dev) and build it with "
               "-DWEIR_POSTGRES=ON");
}

const weir_ingest__source_kind weir_ingest__source_postgres = {
    .name = "postgresql", .accepts = accepts_postgres, .open = open_postgres};

#endif

#ifdef WEIR_WITHOUT_HTTP

static weir_status open_http(weir_ingest__embedder *embedder, weir_error *error) {
    (void)embedder;
    return weir__fail(
        error, WEIR_SOURCE_ERROR, WEIR_INGEST__EMBED_OPERATOR,
        "this weir was built without HTTP; use a build with WEIR_HTTP=ON, or the provider hash_v1 "
        "or file");
}

const weir_ingest__embedder_kind weir_ingest__embedder_http = {.provider = "http", .open = open_http};

#endif
