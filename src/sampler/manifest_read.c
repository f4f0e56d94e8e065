/* Reads a manifest: strictly, in a fixed order, with the JSON path of the first thing that is wrong. The
 * document is CBOR here, whichever notation it came in; what it may hold is in manifest_fields.c. */
#include <string.h>

#include "base/file.h"
#include "sampler/manifest_fields.h"
#include "weir_tool/sampler_tools.h"

static const char operator_name[] = "weir.manifest";

enum { FILE_SIZE_MAX = 256 << 20 };

static weir__reader reader_of(weir_manifest *manifest, const char *name, weir_error *error) {
    return (weir__reader){.arena = &manifest->arena,
                          .error = error,
                          .family = WEIR_MANIFEST_INVALID,
                          .failure_operator = operator_name,
                          .name = name,
                          .unknown = "is not a key of a manifest; remove it or correct its spelling",
                          .is_json = true,
                          .path = "$"};
}

static weir_status new_manifest(const weir_env *env, weir_manifest **out, weir_error *error) {
    weir_manifest *manifest = weir__allocate_zero(env, 1, sizeof *manifest);
    if (!manifest)
        return weir__out_of_memory(error, operator_name, sizeof *manifest);
    manifest->env = env;
    weir__arena_init(&manifest->arena, env);
    *out = manifest;
    return WEIR_OK;
}

/* Hands the manifest over if all went well, else frees it. */
static weir_status complete(weir_manifest *manifest, weir_status status, weir_manifest **out,
                            weir_error *error) {
    if (status == WEIR_OK)
        status = weir_sampler__manifest_identify(manifest, error);
    if (status == WEIR_OK)
        *out = manifest;
    else
        weir_manifest_close(manifest);
    return status;
}

weir_status weir_manifest_read(const weir_env *env, const char *json, size_t size, const char *name,
                               weir_manifest **out, weir_error *error) {
    env = weir__env_or_default(env);
    weir_cbor_writer w;
    weir_cbor_writer_memory(&w, env);
    weir_status status = weir_json_read(json, size, name, WEIR_MANIFEST_INVALID, &w, error);
    weir_manifest *manifest = NULL;
    if (status == WEIR_OK)
        status = new_manifest(env, &manifest, error);
    if (status == WEIR_OK) {
        weir__reader r = reader_of(manifest, name, error);
        weir_cbor_value document = weir_cbor_view(w.data);
        status = complete(manifest, weir__read(&r, &document, &weir_sampler__manifest_shape, manifest), out,
                          error);
    }
    weir_cbor_release(&w);
    return status;
}

weir_status weir_manifest_open(const weir_env *env, const char *path, weir_manifest **out,
                               weir_error *error) {
    env = weir__env_or_default(env);
    uint8_t *text;
    size_t size;
    WEIR__TRY(weir__file_read(env, path, FILE_SIZE_MAX, &text, &size, operator_name, error));
    weir_status status = weir_manifest_read(env, (const char *)text, size, path, out, error);
    weir__release(env, text);
    return status;
}

weir_status weir_manifest_restore(const weir_env *env, const weir_cbor_value *normalised,
                                  const weir_cbor_value *mix, const weir_cbor_value *batch,
                                  weir_manifest **out, weir_error *error) {
    weir_manifest *manifest = NULL;
    WEIR__TRY(new_manifest(weir__env_or_default(env), &manifest, error));
    weir__reader r = reader_of(manifest, "recorded manifest", error);
    weir_status status = weir__read(&r, normalised, &weir_sampler__normalised_shape, manifest);
    if (status == WEIR_OK)
        status = weir_sampler__read_mix(&r, mix, manifest);
    if (status == WEIR_OK) {
        size_t outer = weir__enter(&r, "batch", strlen("batch"));
        status = weir__read(&r, batch, &weir_sampler__batch_shape, manifest);
        weir__leave(&r, outer);
    }
    if (status == WEIR_OK)
        status = weir_sampler__check_manifest(&r, manifest);
    return complete(manifest, status, out, error);
}
