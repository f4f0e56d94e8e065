/* A manifest's identity: its normal form, in which a default that is spelt out and one that is left out are
 * the same, and the hashes over it. Also the accessors. */
#include "sampler/manifest.h"
#include "weir_tool/sampler_tools.h"

#include <stdio.h>
#include <string.h>

#include "sampler/manifest_fields.h"

void weir_manifest_write_mix(const weir_manifest *manifest, weir_cbor_writer *w) {
    uint64_t count = 0;
    for (size_t i = 0; i < manifest->dataset_count; i++)
        count += manifest->datasets[i].weight != 0;
    weir_cbor_map(w, count);
    for (size_t i = 0; i < manifest->dataset_count; i++) {
        const weir_dataset *dataset = &manifest->datasets[manifest->key_order[i]];
        if (dataset->weight == 0)
            continue;
        weir_cbor_text(w, dataset->key);
        weir_cbor_uint(w, dataset->weight);
    }
}

void weir_manifest_write_batch(const weir_manifest *manifest, weir_cbor_writer *w) {
    weir__write(w, &weir_sampler__batch_shape, manifest);
}

static weir_status hash_document(const weir_manifest *manifest,
                                 void (*encode)(const weir_manifest *manifest, weir_cbor_writer *w),
                                 uint8_t digest[WEIR_HASH_SIZE], weir_error *error) {
    weir__sha256 sha;
    weir_cbor_writer w;
    weir__sha256_init(&sha);
    weir__cbor_writer_hash(&w, &sha);
    encode(manifest, &w);
    weir_status status = weir_cbor_finish(&w, error);
    weir__sha256_final(&sha, digest);
    return status;
}

static weir_status make_token(weir_manifest *manifest, weir_error *error) {
    uint8_t buffer[128];
    weir_cbor_writer w;
    weir_cbor_writer_fixed(&w, buffer, sizeof buffer);
    weir_cbor_array(&w, 3);
    weir_cbor_text(&w, "replay_token_v1");
    weir_cbor_bytes(&w, manifest->hash, sizeof manifest->hash);
    weir_cbor_uint(&w, manifest->seed);
    weir_status status = weir_cbor_finish(&w, error);
    weir__sha512_of(w.data, w.size, manifest->token);
    return status;
}

weir_status weir_sampler__manifest_identify(weir_manifest *manifest, weir_error *error) {
    weir_cbor_writer w;
    weir_cbor_writer_memory(&w, manifest->env);
    weir__write(&w, &weir_sampler__normalised_shape, manifest);
    weir_status status = weir_cbor_finish(&w, error);
    manifest->normalised = w.data;
    manifest->normalised_size = w.size;
    if (status != WEIR_OK)
        return status;
    weir__sha256_of(w.data, w.size, manifest->hash);
    status = make_token(manifest, error);
    if (status == WEIR_OK)
        status = hash_document(manifest, weir_manifest_write_mix, manifest->mix_hash, error);
    memcpy(manifest->blend.hash, manifest->mix_hash, WEIR_HASH_SIZE);
    if (status == WEIR_OK)
        status = hash_document(manifest, weir_manifest_write_batch, manifest->batch_config_hash, error);
    manifest->info = (weir_manifest_info){.seed = manifest->seed,
                                          .global_batch_size = manifest->global_batch_size,
                                          .stage = manifest->stage,
                                          .data = &manifest->data,
                                          .batch = &manifest->batch,
                                          .datasets = manifest->datasets,
                                          .dataset_count = manifest->dataset_count,
                                          .hash = manifest->hash,
                                          .mix_hash = manifest->mix_hash,
                                          .batch_config_hash = manifest->batch_config_hash,
                                          .token = manifest->token,
                                          .normalised = manifest->normalised,
                                          .normalised_size = manifest->normalised_size};
    return status;
}

void weir_manifest_close(weir_manifest *manifest) {
    if (!manifest)
        return;
    const weir_env *env = manifest->env;
    weir__arena_release(&manifest->arena);
    weir__release(env, manifest->normalised);
    weir__release(env, manifest);
}

const weir_manifest_info *weir_manifest_describe(const weir_manifest *manifest) {
    return &manifest->info;
}

uint64_t weir_sampler__most_samples(const weir_manifest *manifest, weir_stage stage) {
    return stage == WEIR_STAGE_TRAIN ? weir_sampler__largest_turn(&manifest->turns)
                                     : manifest->global_batch_size;
}

const char *weir_manifest_operator(const weir_manifest *manifest, weir_stage stage) {
    const weir_data_config *data = &manifest->data;
    bool is_literal = data->intra_block == WEIR_INTRA_AFFINE_V1 && !data->rotate &&
                      data->block_order == WEIR_BLOCKS_FISHER_YATES_V1 &&
                      data->sampling == WEIR_SAMPLING_SHUFFLED && manifest->batch.lengths.count == 1;
    bool is_sequential = stage == WEIR_STAGE_EVAL || stage == WEIR_STAGE_INFER;
    bool is_v2 = is_sequential || (stage == WEIR_STAGE_TRAIN && is_literal);
    return is_v2 ? WEIR_SAMPLER__NEXT_BATCH : "UML_OS.Data.NextBatch_v3";
}

static int compare_key(const char *name, const void *key, size_t size) {
    size_t name_size = strlen(name);
    size_t shared = name_size < size ? name_size : size;
    int order = memcmp(name, key, shared);
    return order != 0 ? order : (name_size > size) - (name_size < size);
}

weir_dataset *weir_sampler__manifest_find(const weir_manifest *manifest, const void *key, size_t size) {
    size_t low = 0;
    size_t high = manifest->dataset_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare_key(manifest->datasets[middle].key, key, size);
        if (order == 0)
            return &manifest->datasets[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const weir_dataset *weir_manifest_find(const weir_manifest *manifest, const char *key) {
    if (manifest->batch.mixed && strcmp(key, WEIR_MIX_KEY) == 0)
        return &manifest->blend;
    return weir_sampler__manifest_find(manifest, key, strlen(key));
}

void weir_sampler__list_keys(const weir_manifest *manifest, char *out, size_t size) {
    const weir_dataset *list = manifest->datasets;
    weir__list_names(out, size, list ? &list->key : NULL, sizeof *list, manifest->dataset_count);
}

weir_status weir_sampler__manifest_require(const weir_manifest *manifest, const char *key,
                                           const char *failure_operator, const weir_dataset **out,
                                           weir_error *error) {
    char keys[640];
    *out = weir_manifest_find(manifest, key);
    if (*out)
        return WEIR_OK;
    weir_sampler__list_keys(manifest, keys, sizeof keys);
    bool is_mix = strcmp(key, WEIR_MIX_KEY) == 0;
    weir_status status =
        weir__fail(error, WEIR_INVALID_DATASET_KEY, failure_operator,
                   "the manifest has no dataset '%.200s'; it has %s%s", key, keys,
                   is_mix ? ". '" WEIR_MIX_KEY "' is the mix if a batch has samples of several datasets: set "
                            "batch.mixed to true in the manifest, or name a dataset"
                          : "");
    weir__note_text(error, "dataset_key", key, strlen(key));
    return status;
}

uint32_t weir_manifest_mix_total(const weir_manifest *manifest) {
    return manifest->mix_total;
}
