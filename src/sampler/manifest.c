/* A manifest's identity: its normal form, in which a default that is spelt out and one that is left out are
 * the same, and the hashes over it. Also the accessors. */
#include "sampler/manifest.h"

#include <stdio.h>
#include <string.h>

const char *const weir_sampler__child_policy_names[3] = {"uniform", "recent", "latest"};
const char *const weir_sampler__label_visibility_names[3] = {"train", "all", "none"};
const char *const weir_sampler__row_order_names[2] = {"rcm", "best"};
const char *const weir_sampler__example_order_names[2] = {"visits", "latest"};
const char *const weir_sampler__negatives_by_names[2] = {"uniform", "popularity"};
const char *const weir_sampler__epoch_boundary_names[2] = {"strict", "stream"};
const char *const weir_sampler__intra_block_names[2] = {"affine_v1", "feistel_v1"};
const char *const weir_sampler__block_order_names[2] = {"fisher_yates_v1", "stateless_v1"};
#define NAME(id, name, ...) #name,
const char *const weir_sampler__optional_tensor_names[] = {WEIR_OPTIONAL_TENSORS(NAME) NULL};
#undef NAME
const char *const weir_sampler__sampling_names[3] = {"shuffled", "class_balanced", "weighted"};

/* The keys of the datasets that are sampled lie in bytewise order already. */
static void write_sampling(const weir_manifest *manifest, weir_cbor_writer *w) {
    const weir_data_config *data = &manifest->data;
    uint64_t count = 0;
    weir_cbor_map(w, 1u + (data->weight_column != NULL) + manifest->lists_sampled);
    weir_cbor_text(w, "mode");
    weir_cbor_text(w, weir_sampler__sampling_names[data->sampling]);
    if (data->weight_column) {
        weir_cbor_text(w, "column");
        weir_cbor_text(w, data->weight_column);
    }
    if (!manifest->lists_sampled)
        return;
    for (size_t i = 0; i < manifest->dataset_count; i++)
        count += manifest->datasets[i].sampling != WEIR_SAMPLING_SHUFFLED;
    weir_cbor_text(w, "datasets");
    weir_cbor_array(w, count);
    for (size_t i = 0; i < manifest->dataset_count; i++)
        if (manifest->datasets[i].sampling != WEIR_SAMPLING_SHUFFLED)
            weir_cbor_text(w, manifest->datasets[i].key);
}

static void write_data(const weir_manifest *manifest, weir_cbor_writer *w) {
    const weir_data_config *data = &manifest->data;
    bool has_boundary = data->epoch_boundary != WEIR_BOUNDARY_STRICT;
    bool has_intra = data->intra_block != WEIR_INTRA_AFFINE_V1;
    bool has_order = data->block_order != WEIR_BLOCKS_FISHER_YATES_V1;
    bool has_sampling = data->sampling != WEIR_SAMPLING_SHUFFLED;
    weir_cbor_map(w, 2u + data->rotate + has_boundary + has_intra + has_order + has_sampling);
    if (data->rotate) {
        weir_cbor_text(w, "rotate");
        weir_cbor_bool(w, true);
    }
    if (has_sampling) {
        weir_cbor_text(w, "sampling");
        write_sampling(manifest, w);
    }
    weir_cbor_text(w, "drop_last");
    weir_cbor_bool(w, data->drop_last);
    if (has_order) {
        weir_cbor_text(w, "block_order");
        weir_cbor_text(w, weir_sampler__block_order_names[data->block_order]);
    }
    if (has_intra) {
        weir_cbor_text(w, "intra_block");
        weir_cbor_text(w, weir_sampler__intra_block_names[data->intra_block]);
    }
    if (has_boundary) {
        weir_cbor_text(w, "epoch_boundary");
        weir_cbor_text(w, weir_sampler__epoch_boundary_names[data->epoch_boundary]);
    }
    weir_cbor_text(w, "sampler_block_size");
    weir_cbor_uint(w, data->sampler_block_size);
}

static void write_datasets(const weir_manifest *manifest, weir_cbor_writer *w) {
    weir_cbor_map(w, manifest->dataset_count);
    for (size_t i = 0; i < manifest->dataset_count; i++) {
        const weir_dataset *dataset = &manifest->datasets[manifest->key_order[i]];
        weir_cbor_text(w, dataset->key);
        weir_cbor_map(w, 4);
        weir_cbor_text(w, "id");
        weir_cbor_text(w, dataset->id);
        weir_cbor_text(w, "hash");
        weir_cbor_bytes(w, dataset->hash, sizeof dataset->hash);
        weir_cbor_text(w, "version");
        weir_cbor_text(w, dataset->version);
        weir_cbor_text(w, "cardinality");
        weir_cbor_uint(w, dataset->cardinality);
    }
}

static void write_normalised(const weir_manifest *manifest, weir_cbor_writer *w) {
    weir_cbor_map(w, 4);
    weir_cbor_text(w, "data");
    write_data(manifest, w);
    weir_cbor_text(w, "seed");
    weir_cbor_uint(w, manifest->seed);
    weir_cbor_text(w, "datasets");
    write_datasets(manifest, w);
    weir_cbor_text(w, "global_batch_size");
    weir_cbor_uint(w, manifest->global_batch_size);
}

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

static void write_label_visibility(const weir_batch_config *batch, weir_cbor_writer *w) {
    if (batch->label_visibility != WEIR_LABELS_LISTED) {
        weir_cbor_text(w, weir_sampler__label_visibility_names[batch->label_visibility]);
        return;
    }
    weir_cbor_array(w, (uint64_t)__builtin_popcount(batch->label_splits));
    for (int split = 0; split < WEIR_SPLITS; split++)
        if (batch->label_splits >> split & 1)
            weir_cbor_text(w, weir_split_name((weir_split)split));
}

static void write_numbers(const weir_choices *choices, weir_cbor_writer *w) {
    if (choices->count > 1)
        weir_cbor_array(w, choices->count);
    for (uint32_t i = 0; i < choices->count; i++)
        weir_cbor_uint(w, choices->values[i]);
}

static void write_choices(const char *key, const weir_choices *choices, weir_cbor_writer *w) {
    weir_cbor_text(w, key);
    write_numbers(choices, w);
}

static void write_retrieval(const weir_batch_config *batch, weir_cbor_writer *w) {
    const weir_retrieval_config *retrieval = &batch->retrieval;
    weir_cbor_map(w, batch->width_count ? 5 : 6);
    weir_cbor_text(w, "fill");
    weir_cbor_bool(w, retrieval->fill);
    weir_cbor_text(w, "order");
    weir_cbor_text(w, weir_sampler__example_order_names[retrieval->order]);
    write_choices("walks", &retrieval->walks, w);
    if (batch->width_count == 0)
        write_choices("width", &retrieval->width, w);
    write_choices("length", &retrieval->length, w);
    write_choices("local_cells", &retrieval->local_cells, w);
}

static void write_widths(const weir_batch_config *batch, weir_cbor_writer *w) {
    if (batch->width_count == 0)
        weir_cbor_uint(w, batch->child_width);
    else
        weir_cbor_map(w, batch->width_count);
    for (uint32_t i = 0; i < batch->width_count; i++)
        write_choices(batch->widths[i].edge_type, &batch->widths[i].widths, w);
}

static void write_since(const weir_batch_config *batch, weir_cbor_writer *w) {
    char text[32];
    weir_cbor_text(w, "since");
    if (batch->since_is == WEIR_SINCE_TIME) {
        weir_cbor_int(w, batch->since);
        return;
    }
    snprintf(text, sizeof text, "%lldus", (long long)batch->since);
    weir_cbor_text(w, text);
}

/* The optional tensors that a list asks for: is_masked follows from another key. */
static uint32_t listed_tensors(const weir_batch_config *batch) {
    return batch->tensors & ~((uint32_t)1 << WEIR_IS_MASKED);
}

static void write_tensors(const weir_batch_config *batch, weir_cbor_writer *w) {
    weir_cbor_text(w, "tensors");
    weir_cbor_array(w, (uint64_t)__builtin_popcount(listed_tensors(batch)));
    for (int i = 0; weir_sampler__optional_tensor_names[i]; i++)
        if (listed_tensors(batch) >> (WEIR_FIRST_OPTIONAL + i) & 1)
            weir_cbor_text(w, weir_sampler__optional_tensor_names[i]);
}

static void write_links(const weir_links_config *links, weir_cbor_writer *w) {
    weir_cbor_text(w, "links");
    weir_cbor_map(w, 3);
    weir_cbor_text(w, "by");
    weir_cbor_text(w, weir_sampler__negatives_by_names[links->by]);
    weir_cbor_text(w, "negatives");
    weir_cbor_uint(w, links->negatives);
    weir_cbor_text(w, "candidates");
    weir_cbor_uint(w, links->candidates);
}

void weir_manifest_write_batch(const weir_manifest *manifest, weir_cbor_writer *w) {
    const weir_batch_config *batch = &manifest->batch;
    bool has_row_order = batch->row_order != WEIR_ROWS_RCM; /* else the map is as before there was a choice */
    bool has_links = batch->links.negatives != WEIR_SAMPLER__NEGATIVES ||
                     batch->links.candidates != WEIR_SAMPLER__CANDIDATES ||
                     batch->links.by != WEIR_NEGATIVES_UNIFORM;
    weir_cbor_map(w, 7u + has_row_order + batch->omit_identifiers + batch->has_context_until +
                         batch->strictly_before + batch->labels + batch->has_retrieval +
                         (batch->context_seed != 0) + (batch->since_is != WEIR_SINCE_EVER) +
                         (listed_tensors(batch) != 0) + (batch->mask_permille > 0) + has_links);
    if (has_links)
        write_links(&batch->links, w);
    if (batch->since_is != WEIR_SINCE_EVER)
        write_since(batch, w);
    if (batch->labels) {
        weir_cbor_text(w, "labels");
        weir_cbor_bool(w, true);
    }
    if (listed_tensors(batch))
        write_tensors(batch, w);
    weir_cbor_text(w, "max_hops");
    weir_cbor_uint(w, batch->max_hops);
    weir_cbor_text(w, "max_rows");
    weir_cbor_uint(w, batch->max_rows);
    weir_cbor_text(w, "pad_rows");
    weir_cbor_bool(w, batch->pad_rows);
    if (batch->has_retrieval) {
        weir_cbor_text(w, "retrieval");
        write_retrieval(batch, w);
    }
    if (has_row_order) {
        weir_cbor_text(w, "row_order");
        weir_cbor_text(w, weir_sampler__row_order_names[batch->row_order]);
    }
    weir_cbor_text(w, "child_width");
    write_widths(batch, w);
    if (batch->omit_identifiers) {
        weir_cbor_text(w, "identifiers");
        weir_cbor_text(w, "omit");
    }
    weir_cbor_text(w, "child_policy");
    weir_cbor_text(w, weir_sampler__child_policy_names[batch->child_policy]);
    if (batch->context_seed != 0) {
        weir_cbor_text(w, "context_seed");
        weir_cbor_uint(w, batch->context_seed);
    }
    if (batch->has_context_until) {
        weir_cbor_text(w, "context_until");
        weir_cbor_int(w, batch->context_until);
    }
    if (batch->mask_permille > 0) {
        weir_cbor_text(w, "mask_permille");
        weir_cbor_uint(w, batch->mask_permille);
    }
    weir_cbor_text(w, "sequence_length");
    weir_cbor_uint(w, batch->sequence_length);
    if (batch->strictly_before) {
        weir_cbor_text(w, "strictly_before");
        weir_cbor_bool(w, true);
    }
    weir_cbor_text(w, "label_visibility");
    write_label_visibility(batch, w);
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
    write_normalised(manifest, &w);
    weir_status status = weir_cbor_finish(&w, error);
    manifest->normalised = w.data;
    manifest->normalised_size = w.size;
    if (status != WEIR_OK)
        return status;
    weir__sha256_of(w.data, w.size, manifest->hash);
    status = make_token(manifest, error);
    if (status == WEIR_OK)
        status = hash_document(manifest, weir_manifest_write_mix, manifest->mix_hash, error);
    if (status == WEIR_OK)
        status = hash_document(manifest, weir_manifest_write_batch, manifest->batch_config_hash, error);
    return status;
}

void weir_manifest_close(weir_manifest *manifest) {
    if (!manifest)
        return;
    const weir_env *env = manifest->env;
    weir__release(env, manifest->datasets);
    weir__release(env, manifest->key_order);
    weir__release(env, manifest->texts);
    weir__release(env, manifest->weight_column);
    weir__release(env, manifest->widths);
    weir__release(env, manifest->width_texts);
    weir__release(env, manifest->accountant.subsampling_mode);
    weir__release(env, manifest->normalised);
    weir__release(env, manifest);
}

uint64_t weir_manifest_seed(const weir_manifest *manifest) {
    return manifest->seed;
}

uint64_t weir_manifest_global_batch_size(const weir_manifest *manifest) {
    return manifest->global_batch_size;
}

const weir_data_config *weir_manifest_data(const weir_manifest *manifest) {
    return &manifest->data;
}

const weir_batch_config *weir_manifest_batch(const weir_manifest *manifest) {
    return &manifest->batch;
}

weir_stage weir_manifest_stage(const weir_manifest *manifest) {
    return manifest->stage;
}

const char *weir_manifest_operator(const weir_manifest *manifest, weir_stage stage) {
    const weir_data_config *data = &manifest->data;
    bool is_literal = data->intra_block == WEIR_INTRA_AFFINE_V1 && !data->rotate &&
                      data->block_order == WEIR_BLOCKS_FISHER_YATES_V1 &&
                      data->sampling == WEIR_SAMPLING_SHUFFLED;
    bool is_sequential = stage == WEIR_STAGE_EVAL || stage == WEIR_STAGE_INFER;
    bool is_v2 = is_sequential || (stage == WEIR_STAGE_TRAIN && is_literal);
    return is_v2 ? WEIR_SAMPLER__NEXT_BATCH : "UML_OS.Data.NextBatch_v3";
}

size_t weir_manifest_dataset_count(const weir_manifest *manifest) {
    return manifest->dataset_count;
}

const weir_dataset *weir_manifest_dataset(const weir_manifest *manifest, size_t index) {
    return &manifest->datasets[index];
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
    return weir_sampler__manifest_find(manifest, key, strlen(key));
}

/* As many keys as fit, the rest as a number. */
static void list_keys(const weir_manifest *manifest, char *out, size_t size) {
    size_t used = 0, i = 0;
    for (; i < manifest->dataset_count; i++) {
        const char *key = manifest->datasets[i].key;
        if (used + strlen(key) + 32 > size)
            break;
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "", key);
    }
    if (i < manifest->dataset_count)
        used += (size_t)snprintf(out + used, size - used, "%s%zu more", i ? ", " : "",
                                 manifest->dataset_count - i);
    if (used == 0)
        snprintf(out, size, "none");
}

weir_status weir_sampler__manifest_require(const weir_manifest *manifest, const char *key,
                                           const char *failure_operator, const weir_dataset **out,
                                           weir_error *error) {
    char keys[640];
    *out = weir_manifest_find(manifest, key);
    if (*out)
        return WEIR_OK;
    list_keys(manifest, keys, sizeof keys);
    weir_status status = weir__fail(error, WEIR_INVALID_DATASET_KEY, failure_operator,
                                    "the manifest has no dataset '%.200s'; it has %s", key, keys);
    weir__note_text(error, "dataset_key", key, strlen(key));
    return status;
}

uint32_t weir_manifest_mix_total(const weir_manifest *manifest) {
    return manifest->mix_total;
}

const uint8_t *weir_manifest_hash(const weir_manifest *manifest) {
    return manifest->hash;
}

const uint8_t *weir_manifest_token(const weir_manifest *manifest) {
    return manifest->token;
}

const uint8_t *weir_manifest_mix_hash(const weir_manifest *manifest) {
    return manifest->mix_hash;
}

const uint8_t *weir_manifest_batch_config_hash(const weir_manifest *manifest) {
    return manifest->batch_config_hash;
}

const uint8_t *weir_manifest_normalised(const weir_manifest *manifest, size_t *size) {
    *size = manifest->normalised_size;
    return manifest->normalised;
}
