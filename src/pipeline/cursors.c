/* weir_cursors_v1: a cursor for every dataset of a manifest, and their checkpoint. The datasets lie in the
 * order of CBOR keys, so that reading a checkpoint is one pass beside it. */
#include "weir/cursors.h"
#include "weir_tool/pipeline_tools.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "pipeline/checkpoint.h"
#include "pipeline/sealed.h"
#include "sampler/manifest.h"
#include "trace/record.h"

#define CURSORS_VERSION "weir_cursors_v1"

static const char operator_name[] = "weir.cursors";

enum { FILE_SIZE_MAX = 1 << 28 };

typedef struct dataset_cursor {
    const char *key;
    uint64_t cardinality;
    weir_cursor cursor;
} dataset_cursor;

struct weir_cursors {
    const weir_env *env;
    weir__arena kept;     /* of the list and its keys */
    dataset_cursor *list; /* in the order of CBOR keys */
    size_t count;
    const char *weir_version;
    uint8_t manifest_hash[WEIR_HASH_SIZE];
    uint8_t token_hash[WEIR_HASH_SIZE];
};

/* ---- Opening --------------------------------------------------------------------------------- */

weir_status weir_cursors_open(const weir_env *env, const weir_manifest *manifest, const void *token,
                              size_t token_size, weir_cursors **out, weir_error *error) {
    const weir_manifest_info *info = weir_manifest_describe(manifest);
    env = weir__env_or_default(env);
    size_t count = info->dataset_count;
    weir_cursors *c = weir__allocate_zero(env, 1, sizeof *c);
    if (!c)
        return weir__out_of_memory(error, operator_name, sizeof *c);
    c->env = env;
    c->weir_version = weir_version();
    memcpy(c->manifest_hash, info->hash, WEIR_HASH_SIZE);
    weir__sha256_of(token ? token : info->token, token ? token_size : WEIR_TOKEN_SIZE, c->token_hash);
    weir__arena_init(&c->kept, env);
    c->list = weir__arena_take_zero(&c->kept, count, sizeof *c->list);
    for (; c->count < count && c->list; c->count++) {
        const weir_dataset *dataset = &info->datasets[manifest->key_order[c->count]];
        c->list[c->count] =
            (dataset_cursor){.key = weir__arena_text(&c->kept, dataset->key, strlen(dataset->key)),
                             .cardinality = dataset->cardinality};
    }
    if (c->kept.is_short) {
        weir_cursors_close(c);
        return weir__out_of_memory(error, operator_name, count * sizeof *c->list);
    }
    *out = c;
    return WEIR_OK;
}

void weir_cursors_close(weir_cursors *c) {
    if (!c)
        return;
    weir__arena_release(&c->kept);
    weir__release(c->env, c);
}

/* ---- Moving ---------------------------------------------------------------------------------- */

static weir_status find(const weir_cursors *c, const char *dataset, dataset_cursor **out, weir_error *error) {
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->list[i].key, dataset) == 0) {
            *out = &c->list[i];
            return WEIR_OK;
        }
    weir_status status =
        weir__fail(error, WEIR_INVALID_DATASET_KEY, operator_name,
                   "there is no cursor of '%.200s': the manifest has no dataset of that name", dataset);
    weir__note_text(error, "dataset_key", dataset, strlen(dataset));
    return status;
}

static bool is_inside(const dataset_cursor *d, weir_cursor cursor) {
    return cursor.global_index < d->cardinality || cursor.global_index == 0;
}

weir_status weir_cursors_get(const weir_cursors *c, const char *dataset, weir_cursor *out,
                             weir_error *error) {
    dataset_cursor *found = NULL;
    WEIR__TRY(find(c, dataset, &found, error));
    *out = found->cursor;
    return WEIR_OK;
}

weir_status weir_cursors_set(weir_cursors *c, const char *dataset, weir_cursor cursor, weir_error *error) {
    dataset_cursor *found = NULL;
    WEIR__TRY(find(c, dataset, &found, error));
    if (!is_inside(found, cursor)) {
        weir_status status = weir__fail(
            error, WEIR_GLOBAL_POSITION_EXCEEDS_CARDINALITY, operator_name,
            "global_index %llu lies beyond dataset '%.200s', which has %llu samples",
            (unsigned long long)cursor.global_index, dataset, (unsigned long long)found->cardinality);
        weir__note_text(error, "dataset_key", dataset, strlen(dataset));
        return status;
    }
    found->cursor = cursor;
    return WEIR_OK;
}

weir_status weir_cursors_advance(weir_cursors *c, const char *dataset, const weir_step *step,
                                 weir_error *error) {
    dataset_cursor *found = NULL;
    WEIR__TRY(find(c, dataset, &found, error));
    weir_cursor from = step->cursor_before;
    if (from.epoch != found->cursor.epoch || from.global_index != found->cursor.global_index) {
        weir_status status = weir__fail(
            error, WEIR_CONTRACT_VIOLATION, operator_name,
            "the step begins at epoch %llu, global_index %llu, and dataset '%.200s' stands at epoch "
            "%llu, global_index %llu; take the step at its cursor, or set the cursor",
            (unsigned long long)from.epoch, (unsigned long long)from.global_index, dataset,
            (unsigned long long)found->cursor.epoch, (unsigned long long)found->cursor.global_index);
        weir__note_text(error, "dataset_key", dataset, strlen(dataset));
        return status;
    }
    return weir_cursors_set(c, dataset, step->cursor_next, error);
}

/* ---- Checkpoints ----------------------------------------------------------------------------- */

static void write_list(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const weir_cursors *c = object;
    (void)field;
    weir_cbor_map(w, c->count);
    for (size_t i = 0; i < c->count; i++) {
        weir_cbor_text(w, c->list[i].key);
        weir__write(w, &weir_trace__cursor_shape, &c->list[i].cursor);
    }
}

static const weir__field fields[] = {
    {"token_hash", WEIR__BYTES(weir_cursors, token_hash)},
    {"data_cursors", WEIR__OTHER(NULL, write_list)},
    {"weir_version", WEIR__TEXT(weir_cursors, weir_version)},
    {"manifest_hash", WEIR__BYTES(weir_cursors, manifest_hash)},
    {"cursors_version", WEIR__CONSTANT(CURSORS_VERSION)},
};
static const weir__shape shape = WEIR__SHAPE(weir_cursors, fields);

void weir_cursors_write(const weir_cursors *c, weir_cbor_writer *w) {
    weir_pipeline__sealed_write(w, CURSORS_VERSION, &shape, c);
}

static weir_status mismatch(weir_error *error, const char *field, const char *why) {
    weir_status status = weir__fail(error, WEIR_CHECKPOINT_MISMATCH, operator_name,
                                    "these cursors cannot be restored: %s", why);
    weir__note_text(error, "field", field, strlen(field));
    return status;
}

static bool is_hash(const weir_cbor_value *map, const char *key, const uint8_t hash[WEIR_HASH_SIZE]) {
    weir_cbor_value value;
    return weir_cbor_get(map, key, &value) && value.type == WEIR_CBOR_BYTES &&
           value.number == WEIR_HASH_SIZE && memcmp(value.data, hash, WEIR_HASH_SIZE) == 0;
}

weir_status weir_cursors_restore(weir_cursors *c, const void *data, size_t size, weir_error *error) {
    weir_cbor_value version, list, key, value;
    weir__reader r = {.family = WEIR_CHECKPOINT_MISMATCH};
    WEIR__TRY(weir_cbor_check(data, size, NULL, error));
    weir_cbor_value map = weir_cbor_view(data);
    if (!weir_cbor_get(&map, "cursors_version", &version) || !weir_cbor_is_text(&version, CURSORS_VERSION))
        return mismatch(error, "cursors_version",
                        "they are not cursors of this version (" CURSORS_VERSION ")");
    if (!weir_pipeline__sealed_is_whole(&map, CURSORS_VERSION))
        return mismatch(error, "h",
                        "they are damaged, their bytes are not those that their hash was made of");
    if (!is_hash(&map, "manifest_hash", c->manifest_hash))
        return mismatch(error, "manifest_hash", "they are of another manifest");
    if (!is_hash(&map, "token_hash", c->token_hash))
        return mismatch(error, "token_hash", "they are of another replay token");
    bool fits =
        weir_cbor_get(&map, "data_cursors", &list) && list.type == WEIR_CBOR_MAP && list.number == c->count;
    for (int pass = 0; pass < 2 && fits; pass++) { /* nothing is taken over before all of it was read */
        weir_cbor_iterator it = weir_cbor_children(&list);
        for (size_t i = 0; i < c->count && fits; i++) {
            weir_cursor cursor;
            fits = weir_cbor_next(&it, &key, &value) && weir_cbor_is_text(&key, c->list[i].key) &&
                   weir__read(&r, &value, &weir_trace__cursor_shape, &cursor) == WEIR_OK &&
                   is_inside(&c->list[i], cursor);
            if (fits && pass == 1)
                c->list[i].cursor = cursor;
        }
    }
    return fits ? WEIR_OK : mismatch(error, "data_cursors", "they are not those of this manifest's datasets");
}

weir_status weir_cursors_save(const weir_cursors *c, const char *path, uint8_t hash[WEIR_HASH_SIZE],
                              weir_error *error) {
    weir_cbor_writer w;
    weir_cbor_writer_memory(&w, c->env);
    weir_cursors_write(c, &w);
    weir_status status = weir_cbor_finish(&w, error);
    if (status == WEIR_OK)
        status = weir_pipeline__checkpoint_save(c->env, w.data, w.size, path, false, error);
    if (status == WEIR_OK && hash)
        weir__sha256_of(w.data, w.size, hash);
    weir_cbor_release(&w);
    return status;
}

weir_status weir_cursors_load(weir_cursors *c, const char *path, weir_error *error) {
    uint8_t *data;
    size_t size;
    WEIR__TRY(weir__file_read(c->env, path, FILE_SIZE_MAX, &data, &size, operator_name, error));
    weir_status status = weir_cursors_restore(c, data, size, error);
    weir__release(c->env, data);
    return status;
}
