/* The manifest that ingest writes beside a store. One that somebody has edited is not replaced: what ingest
 * itself would have written for the store that stands there tells whether it was. Then the differences are
 * told, and the file stays, or takes the new datasets and keeps the rest, or is replaced, as the caller says.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ingest/stages.h"
#include "store/manifest_write.h"

enum { FILE_SIZE_MAX = 256 << 20, CHANGES_TOLD = 20 };

/* ---- Presets --------------------------------------------------------------------------------- */

static const char *const presets[] = {"train_shuffle", "eval_sequential", "streaming_infinite"};

weir_status weir_ingest__check_preset(const char *preset, weir_error *error) {
    bool is_known = !preset;
    for (size_t i = 0; !is_known && i < sizeof presets / sizeof *presets; i++)
        is_known = strcmp(preset, presets[i]) == 0;
    if (is_known)
        return WEIR_OK;
    return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_INGEST__OPERATOR,
                      "there is no preset '%.100s'; use train_shuffle, eval_sequential or streaming_infinite",
                      preset);
}

/* The preset that a manifest names, or NULL. */
static const char *preset_of(const weir_cbor_value *document) {
    weir_cbor_value data, preset;
    if (!weir_cbor_get(document, "data", &data) || !weir_cbor_get(&data, "preset", &preset) ||
        preset.type != WEIR_CBOR_TEXT)
        return NULL;
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (preset.number == strlen(presets[i]) && memcmp(preset.data, presets[i], preset.number) == 0)
            return presets[i];
    return NULL;
}

/* ---- Documents ------------------------------------------------------------------------------- */

/* JSON text as canonical CBOR, in which two notations of one value are the same. */
static weir_status read_json(const weir_env *env, const char *text, size_t size, const char *name,
                             weir_cbor_writer *out, weir_error *error) {
    weir_cbor_writer_memory(out, env);
    WEIR__TRY(weir_json_read(text, size, name, WEIR_MANIFEST_INVALID, out, error));
    return weir_cbor_finish(out, error);
}

static weir_status compare_with_default(const weir_env *env, const weir_store_info *info,
                                        const weir_store__manifest_settings *settings,
                                        const weir_cbor_writer *found, bool *is_default, weir_error *error) {
    weir_bytes text;
    weir_cbor_writer expected;
    WEIR__TRY(weir_store__manifest_write(env, info, settings, &text, error));
    weir_status status = read_json(env, text.data, text.size, "a manifest", &expected, error);
    *is_default = status == WEIR_OK && expected.size == found->size &&
                  memcmp(expected.data, found->data, found->size) == 0;
    weir_bytes_release(&text);
    weir_cbor_release(&expected);
    return status;
}

/* Whether the manifest that stands there is not what ingest wrote, for the store beside it or for the new
 * one. A store that cannot be opened tells nothing. */
static weir_status look_for_edits(const weir_env *env, const weir_store_info *info, const char *store_path,
                                  const weir_cbor_writer *found, bool *is_edited, weir_error *error) {
    weir_cbor_value document = weir_cbor_view(found->data), size;
    weir_store__manifest_settings settings = {.preset = preset_of(&document)};
    weir_store *old = NULL;
    bool is_default = false;
    weir_status status = WEIR_OK;
    if (weir_cbor_get(&document, "global_batch_size", &size) &&
        weir_cbor_get_uint(&size, &settings.batch_size)) {
        status = compare_with_default(env, info, &settings, found, &is_default, error);
        if (status == WEIR_OK && !is_default)
            status = weir_store_open(env, store_path, &old, error);
        if (old)
            status =
                compare_with_default(env, weir_store_describe(old), &settings, found, &is_default, error);
        weir_store_close(old);
    }
    *is_edited = !is_default;
    return status;
}

/* ---- What would change ----------------------------------------------------------------------- */

static void tell(weir_ingest__context *context, const char *path, const char *what,
                 const weir_cbor_value *key) {
    char message[512];
    snprintf(message, sizeof message, "%s %.*s", what,
             key->number < 300 ? WEIR__NARROW(int, key->number) : 300, (const char *)key->data);
    weir_ingest__note(context, "manifest_kept", "%s: %s", path, message);
}

/* The member of a list that has the key of a member of another. */
static bool find_member(const weir_cbor_value *list, const weir_cbor_value *key, weir_cbor_value *out) {
    char name[512];
    snprintf(name, sizeof name, "%.*s", key->number < 500 ? WEIR__NARROW(int, key->number) : 500,
             (const char *)key->data);
    return weir_cbor_get(list, name, out);
}

/* Members of `datasets` that differ: added, gone, or with another hash or number of samples. */
static uint32_t tell_datasets(weir_ingest__context *context, const char *path, const weir_cbor_value *kept,
                              const weir_cbor_value *fresh) {
    weir_cbor_value old_list = {0}, new_list = {0}, key, value, other;
    uint32_t count = 0;
    bool has_old = weir_cbor_get(kept, "datasets", &old_list) && old_list.type == WEIR_CBOR_MAP;
    bool has_new = weir_cbor_get(fresh, "datasets", &new_list);
    weir_cbor_iterator it = weir_cbor_children(&new_list);
    while (has_new && weir_cbor_next(&it, &key, &value)) {
        bool is_there = has_old && find_member(&old_list, &key, &other);
        if (!(is_there && weir_cbor_is_same(&value, &other)) && count++ < CHANGES_TOLD)
            tell(context, path, is_there ? "another hash or number of samples in" : "a new dataset,", &key);
    }
    it = weir_cbor_children(&old_list);
    while (has_old && weir_cbor_next(&it, &key, &value)) {
        if (!(has_new && find_member(&new_list, &key, &other)) && count++ < CHANGES_TOLD)
            tell(context, path, "the store no longer has", &key);
    }
    return count;
}

/* ---- All of it ------------------------------------------------------------------------------- */

/* What stands at the manifest's path. */
typedef struct standing {
    bool is_readable;
    bool is_edited;
    uint8_t *text;
    weir_cbor_writer document;
} standing;

/* One that is there but cannot be read is an error: it may have been edited. */
static weir_status look_at_standing(const weir_env *env, const weir_store_info *info, const char *store_path,
                                    const char *path, standing *out, weir_error *error) {
    size_t size = 0;
    weir_error unread;
    *out = (standing){0};
    weir_status status =
        weir__file_read(env, path, FILE_SIZE_MAX, &out->text, &size, WEIR_INGEST__OPERATOR, &unread);
    if (status != WEIR_OK) {
        if (error)
            *error = unread;
        bool is_absent = unread.diagnostic_count > 0 && strcmp(unread.diagnostics[0].name, "errno") == 0 &&
                         unread.diagnostics[0].number == ENOENT;
        return is_absent ? WEIR_OK : status;
    }
    status = read_json(env, (const char *)out->text, size, path, &out->document, error);
    out->is_readable = status == WEIR_OK;
    out->is_edited = true;
    if (out->is_readable)
        status = look_for_edits(env, info, store_path, &out->document, &out->is_edited, error);
    return status == WEIR_OUT_OF_MEMORY ? status : WEIR_OK;
}

static weir_status keep(weir_ingest__context *context, const char *path, const standing *old,
                        const weir_bytes *text, weir_error *error) {
    weir_cbor_writer fresh = {0};
    weir_status status = WEIR_OK;
    if (!old->is_readable) {
        weir_ingest__note(
            context, "manifest_kept",
            "%s is not JSON that can be read, and is kept as it is; --replace-manifest writes it anew", path);
        return WEIR_OK;
    }
    status = read_json(context->env, text->data, text->size, "a manifest", &fresh, error);
    if (status == WEIR_OK) {
        weir_cbor_value kept = weir_cbor_view(old->document.data), made = weir_cbor_view(fresh.data);
        weir_ingest__note(context, "manifest_kept",
                          "%s was edited, or made for another store, and is kept as it is", path);
        if (tell_datasets(context, path, &kept, &made) > 0)
            weir_ingest__note(context, "manifest_kept",
                              "%s does not fit the new store; --update-manifest brings its datasets up to "
                              "date and keeps the rest, --replace-manifest writes it anew",
                              path);
    }
    weir_cbor_release(&fresh);
    return status;
}

weir_status weir_ingest__prepare_manifest(weir_ingest__context *context, const weir_store_info *info,
                                          const char *store_path, const char *path, weir_bytes *text,
                                          bool *is_kept, weir_error *error) {
    weir_manifest_mode mode = context->options->manifest_mode;
    weir_store__manifest_settings settings = {.batch_size = context->options->batch_size,
                                              .preset = context->options->preset};
    weir_cbor_value document = {0}, size;
    standing old = {0};
    weir_status status = mode == WEIR_MANIFEST_REPLACE
                             ? WEIR_OK
                             : look_at_standing(context->env, info, store_path, path, &old, error);
    if (status == WEIR_OK && old.is_readable) {
        document = weir_cbor_view(old.document.data);
        if (settings.batch_size == 0 && weir_cbor_get(&document, "global_batch_size", &size))
            (void)weir_cbor_get_uint(&size, &settings.batch_size);
        if (!settings.preset)
            settings.preset = preset_of(&document);
        settings.given = old.is_edited && mode == WEIR_MANIFEST_UPDATE ? &document : NULL;
    }
    if (status == WEIR_OK)
        status = weir_store__manifest_write(context->env, info, &settings, text, error);
    *is_kept = status == WEIR_OK && old.is_edited && (mode == WEIR_MANIFEST_KEEP || !old.is_readable);
    if (*is_kept)
        status = keep(context, path, &old, text, error);
    if (old.document.env)
        weir_cbor_release(&old.document);
    weir__release(context->env, old.text);
    return status;
}
