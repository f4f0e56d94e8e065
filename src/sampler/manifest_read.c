/* Reads a manifest: strictly, in a fixed order, with the JSON path of the first thing that is wrong. The
 * document is CBOR here, whichever notation it came in; in the normalised form a hash is bytes, in a file
 * it is hex text, and both are taken. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "sampler/manifest_reader.h"

static const char operator_name[] = "weir.manifest";

enum {
    FILE_SIZE_MAX = 256 << 20,
    DEFAULT_BLOCK_SIZE = 1 << 20,
};

/* MANIFEST_INVALID at a path. */
weir_status weir_sampler__manifest_invalid(const weir_sampler__manifest_reader *r, const char *path,
                                           const char *what) {
    weir_status status =
        weir__fail(r->error, WEIR_MANIFEST_INVALID, operator_name, "%s: %s %s", r->name, path, what);
    weir__note_text(r->error, "path", path, strlen(path));
    return status;
}

void weir_sampler__manifest_join(char out[WEIR_SAMPLER__MANIFEST_PATH], const char *path,
                                 const weir_cbor_value *key) {
    int shown = key->number < 200 ? (int)key->number : 200;
    bool is_plain = key->number > 0;
    for (uint64_t i = 0; i < key->number; i++)
        is_plain = is_plain && ((key->data[i] >= 'a' && key->data[i] <= 'z') || key->data[i] == '_');
    snprintf(out, WEIR_SAMPLER__MANIFEST_PATH, is_plain ? "%s.%.*s" : "%s[\"%.*s\"]", path, shown,
             (const char *)key->data);
}

weir_status weir_sampler__manifest_expect_map(const weir_sampler__manifest_reader *r, const char *path,
                                              const weir_cbor_value *value) {
    return value->type == WEIR_CBOR_MAP ? WEIR_OK
                                        : weir_sampler__manifest_invalid(r, path, "must be an object");
}

/* Refuses every key of a map that is not in the list. */
weir_status weir_sampler__manifest_refuse_unknown(const weir_sampler__manifest_reader *r, const char *path,
                                                  const weir_cbor_value *map, const char *const *known) {
    weir_cbor_iterator it = weir_cbor_children(map);
    weir_cbor_value key, value;
    while (weir_cbor_next(&it, &key, &value)) {
        size_t i = 0;
        while (known[i] && !weir_cbor_is_text(&key, known[i]))
            i++;
        if (!known[i]) {
            char at[WEIR_SAMPLER__MANIFEST_PATH];
            weir_sampler__manifest_join(at, path, &key);
            return weir_sampler__manifest_invalid(
                r, at, "is not a key of a manifest; remove it or correct its spelling");
        }
    }
    return WEIR_OK;
}

/* A member of `map` as `path.key`; absent members leave *out as it is. */
weir_status weir_sampler__manifest_uint(const weir_sampler__manifest_reader *r, const char *path,
                                        const weir_cbor_value *map, const char *key, uint64_t least,
                                        uint64_t most, uint64_t *out) {
    weir_cbor_value value;
    char at[WEIR_SAMPLER__MANIFEST_PATH];
    if (!weir_cbor_get(map, key, &value))
        return WEIR_OK;
    snprintf(at, sizeof at, "%s.%s", path, key);
    if (!weir_cbor_get_uint(&value, out))
        return weir_sampler__manifest_invalid(
            r, at, "must be an integer from 0 to 2^64-1 (above 2^63-1 as a decimal string)");
    if (*out < least || *out > most) {
        char range[96];
        snprintf(range, sizeof range, "is %llu; it must be from %llu to %llu", (unsigned long long)*out,
                 (unsigned long long)least, (unsigned long long)most);
        return weir_sampler__manifest_invalid(r, at, range);
    }
    return WEIR_OK;
}

weir_status weir_sampler__manifest_uint32(const weir_sampler__manifest_reader *r, const char *path,
                                          const weir_cbor_value *map, const char *key, uint64_t least,
                                          uint64_t most, uint32_t *out) {
    uint64_t value = *out;
    weir_status status = weir_sampler__manifest_uint(r, path, map, key, least, most, &value);
    *out = (uint32_t)value;
    return status;
}

weir_status weir_sampler__manifest_bool(const weir_sampler__manifest_reader *r, const char *path,
                                        const weir_cbor_value *map, const char *key, bool *out) {
    weir_cbor_value value;
    char at[WEIR_SAMPLER__MANIFEST_PATH];
    if (!weir_cbor_get(map, key, &value))
        return WEIR_OK;
    snprintf(at, sizeof at, "%s.%s", path, key);
    if (value.type != WEIR_CBOR_BOOL)
        return weir_sampler__manifest_invalid(r, at, "must be true or false");
    *out = value.number != 0;
    return WEIR_OK;
}

/* One of `count` names; its number goes to *out. */
weir_status weir_sampler__manifest_choice(const weir_sampler__manifest_reader *r, const char *path,
                                          const weir_cbor_value *map, const char *key,
                                          const char *const *names, unsigned count, unsigned *out) {
    weir_cbor_value value;
    char at[WEIR_SAMPLER__MANIFEST_PATH];
    if (!weir_cbor_get(map, key, &value))
        return WEIR_OK;
    for (unsigned i = 0; i < count; i++)
        if (weir_cbor_is_text(&value, names[i])) {
            *out = i;
            return WEIR_OK;
        }
    char choices[128] = "must be";
    for (unsigned i = 0; i < count; i++) {
        size_t used = strlen(choices);
        snprintf(choices + used, sizeof choices - used, "%s \"%s\"", i ? " or" : "", names[i]);
    }
    snprintf(at, sizeof at, "%s.%s", path, key);
    return weir_sampler__manifest_invalid(r, at, choices);
}

/* A copy of a text, in memory of its own. A NUL inside would end it early for every C caller: refused. */
static weir_status copy_text(const weir_sampler__manifest_reader *r, const char *path,
                             const weir_cbor_value *value, char **out) {
    if (value->type != WEIR_CBOR_TEXT || memchr(value->data, 0, (size_t)value->number))
        return weir_sampler__manifest_invalid(r, path, "must be a string");
    *out = weir__copy_text(r->manifest->env, (const char *)value->data, (size_t)value->number);
    return *out ? WEIR_OK : weir__out_of_memory(r->error, operator_name, (size_t)value->number);
}

/* The datasets that data.sampling is for: all, or those that it lists. */
static weir_status mark_sampled(const weir_sampler__manifest_reader *r, const weir_cbor_value *sampling) {
    static const char path[] = "$.data.sampling.datasets";
    weir_manifest *manifest = r->manifest;
    weir_cbor_value list, key;
    manifest->lists_sampled = weir_cbor_get(sampling, "datasets", &list);
    for (size_t i = 0; !manifest->lists_sampled && i < manifest->dataset_count; i++)
        manifest->datasets[i].sampling = manifest->data.sampling;
    if (!manifest->lists_sampled)
        return WEIR_OK;
    if (list.type != WEIR_CBOR_ARRAY || list.number == 0)
        return weir_sampler__manifest_invalid(r, path, "must be a list of dataset keys, with at least one");
    weir_cbor_iterator it = weir_cbor_children(&list);
    while (weir_cbor_next(&it, NULL, &key)) {
        weir_dataset *dataset = key.type == WEIR_CBOR_TEXT
                                    ? weir_sampler__manifest_find(manifest, key.data, (size_t)key.number)
                                    : NULL;
        if (!dataset)
            return weir_sampler__manifest_invalid(r, path, "names something that is not one of the datasets");
        if (dataset->sampling != WEIR_SAMPLING_SHUFFLED)
            return weir_sampler__manifest_invalid(r, path, "names a dataset twice");
        dataset->sampling = manifest->data.sampling;
    }
    return WEIR_OK;
}

static weir_status read_sampling(const weir_sampler__manifest_reader *r, const weir_cbor_value *value) {
    static const char *const keys[] = {"mode", "column", "datasets", NULL};
    static const char path[] = "$.data.sampling";
    weir_manifest *manifest = r->manifest;
    weir_cbor_value mode, column;
    unsigned chosen = 0;
    weir_status status = weir_sampler__manifest_expect_map(r, path, value);
    if (status == WEIR_OK)
        status = weir_sampler__manifest_refuse_unknown(r, path, value, keys);
    if (status == WEIR_OK && !weir_cbor_get(value, "mode", &mode))
        status = weir_sampler__manifest_invalid(r, "$.data.sampling.mode", "is missing");
    if (status == WEIR_OK)
        status = weir_sampler__manifest_choice(r, path, value, "mode", weir_sampler__sampling_names + 1, 2,
                                               &chosen);
    if (status != WEIR_OK)
        return status;
    manifest->data.sampling = (weir_sampling)(chosen + 1);
    bool has_column = weir_cbor_get(value, "column", &column);
    if (has_column != (manifest->data.sampling == WEIR_SAMPLING_WEIGHTED))
        return weir_sampler__manifest_invalid(r, "$.data.sampling.column",
                                              "belongs to the mode \"weighted\", which needs it");
    if (has_column)
        status = copy_text(r, "$.data.sampling.column", &column, &manifest->weight_column);
    manifest->data.weight_column = manifest->weight_column;
    return status == WEIR_OK ? mark_sampled(r, value) : status;
}

/* A preset sets what the file leaves open, and must not be contradicted. */
static weir_status apply_preset(const weir_sampler__manifest_reader *r, const weir_cbor_value *data,
                                unsigned preset) {
    enum { STREAMING_INFINITE = 1, EVAL_SEQUENTIAL = 2 };
    weir_epoch_boundary boundary = preset == STREAMING_INFINITE ? WEIR_BOUNDARY_STREAM : WEIR_BOUNDARY_STRICT;
    weir_cbor_value value;
    if (weir_cbor_get(data, "epoch_boundary", &value) && r->manifest->data.epoch_boundary != boundary)
        return weir_sampler__manifest_invalid(r, "$.data.epoch_boundary",
                                              "contradicts $.data.preset; remove one of the two");
    r->manifest->data.epoch_boundary = boundary;
    r->manifest->stage = preset == EVAL_SEQUENTIAL ? WEIR_STAGE_EVAL : WEIR_STAGE_TRAIN;
    return WEIR_OK;
}

static weir_status read_data(const weir_sampler__manifest_reader *r, const weir_cbor_value *value) {
    static const char *const keys[] = {"sampler_block_size", "drop_last", "epoch_boundary",
                                       "intra_block",        "rotate",    "block_order",
                                       "sampling",           "preset",    NULL};
    static const char *const presets[] = {"train_shuffle", "streaming_infinite", "eval_sequential"};
    static const char path[] = "$.data";
    weir_data_config *data = &r->manifest->data;
    weir_cbor_value member;
    unsigned boundary = data->epoch_boundary, intra = data->intra_block, order = data->block_order;
    unsigned preset = 0;
    weir_status status = weir_sampler__manifest_expect_map(r, path, value);
    if (status == WEIR_OK)
        status = weir_sampler__manifest_refuse_unknown(r, path, value, keys);
    if (status == WEIR_OK)
        status = weir_sampler__manifest_uint(r, path, value, "sampler_block_size", 0, UINT64_MAX,
                                             &data->sampler_block_size);
    if (status == WEIR_OK)
        status = weir_sampler__manifest_bool(r, path, value, "drop_last", &data->drop_last);
    if (status == WEIR_OK)
        status = weir_sampler__manifest_choice(r, path, value, "epoch_boundary",
                                               weir_sampler__epoch_boundary_names, 2, &boundary);
    if (status == WEIR_OK)
        status = weir_sampler__manifest_choice(r, path, value, "intra_block", weir_sampler__intra_block_names,
                                               2, &intra);
    if (status == WEIR_OK)
        status = weir_sampler__manifest_bool(r, path, value, "rotate", &data->rotate);
    if (status == WEIR_OK)
        status = weir_sampler__manifest_choice(r, path, value, "block_order", weir_sampler__block_order_names,
                                               2, &order);
    if (status == WEIR_OK)
        status = weir_sampler__manifest_choice(r, path, value, "preset", presets, 3, &preset);
    data->epoch_boundary = (weir_epoch_boundary)boundary;
    data->intra_block = (weir_intra_block)intra;
    data->block_order = (weir_block_order)order;
    if (status == WEIR_OK && weir_cbor_get(value, "sampling", &member))
        status = read_sampling(r, &member);
    if (status == WEIR_OK && weir_cbor_get(value, "preset", &member))
        status = apply_preset(r, value, preset);
    return status;
}

static weir_status read_accountant(const weir_sampler__manifest_reader *r, const weir_cbor_value *value) {
    static const char *const keys[] = {"subsampling_mode", "effective_q", NULL};
    static const char path[] = "$.accountant";
    weir_sampler__accountant *accountant = &r->manifest->accountant;
    weir_cbor_value member;
    weir_status status = weir_sampler__manifest_expect_map(r, path, value);
    if (status == WEIR_OK)
        status = weir_sampler__manifest_refuse_unknown(r, path, value, keys);
    if (status == WEIR_OK && value->number == 0)
        status = weir_sampler__manifest_invalid(r, path,
                                                "is empty; leave it out, or say what the accountant assumes");
    if (status == WEIR_OK && weir_cbor_get(value, "subsampling_mode", &member))
        status = copy_text(r, "$.accountant.subsampling_mode", &member, &accountant->subsampling_mode);
    if (status != WEIR_OK || !weir_cbor_get(value, "effective_q", &member))
        return status;
    if (member.type == WEIR_CBOR_FLOAT)
        accountant->effective_q = member.real;
    else if (member.type == WEIR_CBOR_UINT)
        accountant->effective_q = (double)member.number;
    else if (member.type == WEIR_CBOR_NEGATIVE)
        accountant->effective_q = -1 - (double)member.number;
    else
        return weir_sampler__manifest_invalid(r, "$.accountant.effective_q", "must be a number");
    accountant->has_effective_q = true;
    return WEIR_OK;
}

/* Copies text into the manifest's own memory. A NUL inside would end it early for every C caller: refused. */
static const char *keep_text(weir_sampler__manifest_reader *r, const weir_cbor_value *text) {
    if (memchr(text->data, 0, (size_t)text->number))
        return NULL;
    char *copy = r->next_text;
    memcpy(copy, text->data, (size_t)text->number);
    copy[text->number] = 0;
    r->next_text += text->number + 1;
    return copy;
}

static weir_status read_name(weir_sampler__manifest_reader *r, const char *path, const weir_cbor_value *map,
                             const char *key, const char **out) {
    weir_cbor_value value;
    char at[WEIR_SAMPLER__MANIFEST_PATH];
    snprintf(at, sizeof at, "%s.%s", path, key);
    if (!weir_cbor_get(map, key, &value))
        return weir_sampler__manifest_invalid(r, at, "is missing");
    if (value.type != WEIR_CBOR_TEXT || !(*out = keep_text(r, &value)))
        return weir_sampler__manifest_invalid(r, at, "must be a string");
    return WEIR_OK;
}

static weir_status read_hash(const weir_sampler__manifest_reader *r, const char *path,
                             const weir_cbor_value *map, uint8_t out[WEIR_HASH_SIZE]) {
    weir_cbor_value value;
    char at[WEIR_SAMPLER__MANIFEST_PATH];
    snprintf(at, sizeof at, "%s.hash", path);
    if (!weir_cbor_get(map, "hash", &value))
        return weir_sampler__manifest_invalid(r, at, "is missing");
    if (value.type == WEIR_CBOR_BYTES && value.number == WEIR_HASH_SIZE) {
        memcpy(out, value.data, WEIR_HASH_SIZE);
        return WEIR_OK;
    }
    if (value.type != WEIR_CBOR_TEXT ||
        !weir__hex_decode((const char *)value.data, (size_t)value.number, out, WEIR_HASH_SIZE))
        return weir_sampler__manifest_invalid(r, at, "must be 64 hex digits");
    return WEIR_OK;
}

static weir_status read_dataset(weir_sampler__manifest_reader *r, const weir_cbor_value *key,
                                const weir_cbor_value *value, weir_dataset *dataset) {
    static const char *const keys[] = {"id", "version", "hash", "cardinality", NULL};
    char path[WEIR_SAMPLER__MANIFEST_PATH];
    weir_cbor_value cardinality;
    weir_sampler__manifest_join(path, "$.datasets", key);
    dataset->key = keep_text(r, key);
    if (!dataset->key)
        return weir_sampler__manifest_invalid(r, path, "has a NUL in its name");
    weir_status status = weir_sampler__manifest_expect_map(r, path, value);
    if (status == WEIR_OK)
        status = weir_sampler__manifest_refuse_unknown(r, path, value, keys);
    if (status == WEIR_OK)
        status = read_name(r, path, value, "id", &dataset->id);
    if (status == WEIR_OK)
        status = read_name(r, path, value, "version", &dataset->version);
    if (status == WEIR_OK)
        status = read_hash(r, path, value, dataset->hash);
    if (status == WEIR_OK && !weir_cbor_get(value, "cardinality", &cardinality)) {
        strncat(path, ".cardinality", sizeof path - strlen(path) - 1);
        return weir_sampler__manifest_invalid(r, path, "is missing");
    }
    if (status == WEIR_OK)
        status =
            weir_sampler__manifest_uint(r, path, value, "cardinality", 0, UINT64_MAX, &dataset->cardinality);
    return status;
}

static int compare_datasets(const void *a, const void *b) {
    return strcmp(((const weir_dataset *)a)->key, ((const weir_dataset *)b)->key);
}

/* CBOR keeps keys in its own order; ours is bytewise. key_order leads back. */
static void sort_datasets(weir_manifest *manifest, const weir_cbor_value *map) {
    qsort(manifest->datasets, manifest->dataset_count, sizeof *manifest->datasets, compare_datasets);
    weir_cbor_iterator it = weir_cbor_children(map);
    weir_cbor_value key, value;
    for (size_t i = 0; weir_cbor_next(&it, &key, &value); i++) {
        const weir_dataset *dataset = weir_sampler__manifest_find(manifest, key.data, (size_t)key.number);
        manifest->key_order[i] = (size_t)(dataset - manifest->datasets);
    }
}

static weir_status read_datasets(weir_sampler__manifest_reader *r, const weir_cbor_value *map) {
    weir_manifest *manifest = r->manifest;
    weir_status status = weir_sampler__manifest_expect_map(r, "$.datasets", map);
    if (status != WEIR_OK)
        return status;
    size_t count = (size_t)map->number;
    size_t text_size = (size_t)(weir_cbor_skip(map->item) - map->item) + 3 * count;
    manifest->datasets = weir__allocate_zero(manifest->env, count, sizeof *manifest->datasets);
    manifest->key_order = weir__allocate_zero(manifest->env, count, sizeof *manifest->key_order);
    manifest->texts = weir__allocate(manifest->env, text_size, 1);
    if (!manifest->datasets || !manifest->key_order || !manifest->texts)
        return weir__out_of_memory(r->error, operator_name, text_size);
    r->next_text = manifest->texts;
    weir_cbor_iterator it = weir_cbor_children(map);
    weir_cbor_value key, value;
    while (weir_cbor_next(&it, &key, &value)) {
        WEIR__TRY(read_dataset(r, &key, &value, &manifest->datasets[manifest->dataset_count]));
        manifest->dataset_count++;
    }
    sort_datasets(manifest, map);
    return WEIR_OK;
}

/* An empty map is refused in a file, but is what a trace keeps if there is no mix. */
static weir_status read_mix(const weir_sampler__manifest_reader *r, const weir_cbor_value *map) {
    weir_status status = weir_sampler__manifest_expect_map(r, "$.mix", map);
    weir_cbor_iterator it = weir_cbor_children(map);
    weir_cbor_value key, value;
    uint64_t total = 0;
    while (status == WEIR_OK && weir_cbor_next(&it, &key, &value)) {
        char path[WEIR_SAMPLER__MANIFEST_PATH];
        uint64_t weight;
        weir_sampler__manifest_join(path, "$.mix", &key);
        weir_dataset *dataset = weir_sampler__manifest_find(r->manifest, key.data, (size_t)key.number);
        if (!dataset)
            return weir_sampler__manifest_invalid(r, path, "is not one of the datasets");
        if (!weir_cbor_get_uint(&value, &weight) || weight < 1)
            return weir_sampler__manifest_invalid(r, path, "must be an integer weight of at least 1");
        if (weight > WEIR_SAMPLER__MIX_TOTAL_MAX || (total += weight) > WEIR_SAMPLER__MIX_TOTAL_MAX)
            return weir_sampler__manifest_invalid(
                r, "$.mix", "has weights that sum to more than 65536; divide them all by a common factor");
        dataset->weight = (uint32_t)weight;
    }
    r->manifest->mix_total = (uint32_t)total;
    return status;
}

static weir_status require(const weir_sampler__manifest_reader *r, const weir_cbor_value *map,
                           const char *key, weir_cbor_value *value) {
    char path[WEIR_SAMPLER__MANIFEST_PATH];
    if (weir_cbor_get(map, key, value))
        return WEIR_OK;
    snprintf(path, sizeof path, "$.%s", key);
    return weir_sampler__manifest_invalid(r, path, "is missing");
}

/* What the normalised form holds. */
static weir_status read_core(weir_sampler__manifest_reader *r, const weir_cbor_value *document) {
    weir_manifest *manifest = r->manifest;
    weir_cbor_value value;
    weir_status status =
        weir_sampler__manifest_uint(r, "$", document, "seed", 0, UINT64_MAX, &manifest->seed);
    if (status == WEIR_OK)
        status = require(r, document, "global_batch_size", &value);
    if (status == WEIR_OK)
        status = weir_sampler__manifest_uint(r, "$", document, "global_batch_size", 0, UINT64_MAX,
                                             &manifest->global_batch_size);
    if (status == WEIR_OK)
        status = require(r, document, "datasets", &value);
    if (status == WEIR_OK)
        status = read_datasets(r, &value);
    if (status == WEIR_OK && weir_cbor_get(document, "data", &value))
        status = read_data(r, &value);
    return status;
}

static weir_status read_document(weir_sampler__manifest_reader *r, const weir_cbor_value *document) {
    static const char *const keys[] = {"seed",  "global_batch_size", "datasets", "data", "mix",
                                       "batch", "accountant",        NULL};
    weir_cbor_value value;
    weir_status status = weir_sampler__manifest_expect_map(r, "$", document);
    if (status == WEIR_OK)
        status = weir_sampler__manifest_refuse_unknown(r, "$", document, keys);
    if (status == WEIR_OK)
        status = read_core(r, document);
    if (status == WEIR_OK && weir_cbor_get(document, "mix", &value)) {
        status = read_mix(r, &value);
        if (status == WEIR_OK && value.number == 0)
            status = weir_sampler__manifest_invalid(
                r, "$.mix", "is empty; leave it out or name the datasets to train on");
    }
    if (status == WEIR_OK && weir_cbor_get(document, "batch", &value))
        status = weir_sampler__manifest_read_batch(r, &value);
    if (status == WEIR_OK && weir_cbor_get(document, "accountant", &value))
        status = read_accountant(r, &value);
    return status;
}

static weir_manifest *new_manifest(const weir_env *env) {
    weir_manifest *manifest = weir__allocate_zero(env, 1, sizeof *manifest);
    if (!manifest)
        return NULL;
    manifest->env = env;
    manifest->data.sampler_block_size = DEFAULT_BLOCK_SIZE;
    manifest->batch =
        (weir_batch_config){.sequence_length = 1024, .max_hops = 4, .child_width = 16, .max_rows = 256};
    manifest->batch.links =
        (weir_links_config){WEIR_SAMPLER__NEGATIVES, WEIR_SAMPLER__CANDIDATES, WEIR_NEGATIVES_UNIFORM};
    return manifest;
}

/* Hands the manifest over where all went well, else frees it. */
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
    if (status == WEIR_OK) {
        weir_sampler__manifest_reader r = {.manifest = new_manifest(env), .name = name, .error = error};
        weir_cbor_value document = weir_cbor_view(w.data);
        status = r.manifest ? complete(r.manifest, read_document(&r, &document), out, error)
                            : weir__out_of_memory(error, operator_name, sizeof *r.manifest);
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
    static const char *const keys[] = {"seed", "global_batch_size", "datasets", "data", NULL};
    env = weir__env_or_default(env);
    weir_sampler__manifest_reader r = {
        .manifest = new_manifest(env), .name = "recorded manifest", .error = error};
    if (!r.manifest)
        return weir__out_of_memory(error, operator_name, sizeof *r.manifest);
    weir_status status = weir_sampler__manifest_expect_map(&r, "$", normalised);
    if (status == WEIR_OK)
        status = weir_sampler__manifest_refuse_unknown(&r, "$", normalised, keys);
    if (status == WEIR_OK)
        status = read_core(&r, normalised);
    if (status == WEIR_OK)
        status = read_mix(&r, mix);
    if (status == WEIR_OK)
        status = weir_sampler__manifest_read_batch(&r, batch);
    return complete(r.manifest, status, out, error);
}
