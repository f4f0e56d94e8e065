/* The tables of a manifest's file and of its normalised form, in which a default that is spelt out and one
 * that is left out are the same. A document from a trace is read by the same tables: there a hash is bytes,
 * in a file it is hex text, and both are taken. */
#include "sampler/manifest_fields.h"

#include <string.h>

#include "base/sort.h"

enum { DEFAULT_BLOCK_SIZE = 1 << 20 };

/* ---- datasets -------------------------------------------------------------------------------- */

static const weir__field dataset_fields[] = {
    {"id", WEIR__TEXT(weir_dataset, id), .flags = WEIR__REQUIRED},
    {"version", WEIR__TEXT(weir_dataset, version), .flags = WEIR__REQUIRED},
    {"hash", WEIR__BYTES(weir_dataset, hash), .flags = WEIR__REQUIRED},
    {"cardinality", WEIR__UINT(weir_dataset, cardinality, 0, UINT64_MAX), .flags = WEIR__REQUIRED},
};
static const weir__shape dataset_shape = WEIR__SHAPE(weir_dataset, dataset_fields);

/* CBOR keeps keys in its own order; ours is bytewise. key_order leads back. */
static weir_status read_datasets(weir__reader *r, const weir__field *field, const weir_cbor_value *map,
                                 void *object) {
    weir_manifest *manifest = object;
    WEIR__TRY(weir__read_plain(r, field, map, object));
    WEIR__TRY(
        weir__reader_take(r, manifest->dataset_count, sizeof *manifest->key_order, &manifest->key_order));
    weir__sort_by_name(manifest->datasets, manifest->dataset_count, sizeof *manifest->datasets);
    weir_cbor_iterator it = weir_cbor_children(map);
    weir_cbor_value key, value;
    for (size_t i = 0; weir_cbor_next(&it, &key, &value); i++) {
        const weir_dataset *dataset = weir_sampler__manifest_find(manifest, key.data, (size_t)key.number);
        assert(dataset && "a dataset that was read is not found again");
        manifest->key_order[i] = (size_t)(dataset - manifest->datasets);
    }
    return WEIR_OK;
}

static void write_datasets(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const weir_manifest *manifest = object;
    weir_cbor_map(w, manifest->dataset_count);
    for (size_t i = 0; i < manifest->dataset_count; i++) {
        const weir_dataset *dataset = &manifest->datasets[manifest->key_order[i]];
        weir_cbor_text(w, dataset->key);
        weir__write(w, field->shape, dataset);
    }
}

/* ---- data.sampling --------------------------------------------------------------------------- */

static const char *const sampling_names[] = {"shuffled", "class_balanced", "weighted", NULL};

const char *weir_sampler__sampling_name(weir_sampling sampling) {
    return sampling_names[sampling];
}

/* The datasets that are sampled so, if not all are. */
static weir_status read_sampled(weir__reader *r, const weir__field *field, const weir_cbor_value *list,
                                void *object) {
    weir_manifest *manifest = object;
    weir_cbor_value key;
    if (list->type != WEIR_CBOR_ARRAY || list->number == 0)
        return weir__refuse(r, field->name, "must be a list of dataset keys, with at least one");
    weir_cbor_iterator it = weir_cbor_children(list);
    while (weir_cbor_next(&it, NULL, &key)) {
        weir_dataset *dataset = key.type == WEIR_CBOR_TEXT
                                    ? weir_sampler__manifest_find(manifest, key.data, (size_t)key.number)
                                    : NULL;
        if (!dataset)
            return weir__refuse(r, field->name, "names something that is not one of the datasets");
        if (dataset->sampling != WEIR_SAMPLING_SHUFFLED)
            return weir__refuse(r, field->name, "names a dataset twice");
        dataset->sampling = manifest->data.sampling;
    }
    return WEIR_OK;
}

/* Their keys lie in bytewise order already. */
static void write_sampled(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const weir_manifest *manifest = object;
    uint64_t count = 0;
    (void)field;
    for (size_t i = 0; i < manifest->dataset_count; i++)
        count += manifest->datasets[i].sampling != WEIR_SAMPLING_SHUFFLED;
    weir_cbor_array(w, count);
    for (size_t i = 0; i < manifest->dataset_count; i++)
        if (manifest->datasets[i].sampling != WEIR_SAMPLING_SHUFFLED)
            weir_cbor_text(w, manifest->datasets[i].key);
}

static weir_status check_sampling(weir__reader *r, void *object) {
    weir_manifest *manifest = object;
    if ((manifest->data.weight_column != NULL) != (manifest->data.sampling == WEIR_SAMPLING_WEIGHTED))
        return weir__refuse(r, "column", "belongs to the mode \"weighted\", which needs it");
    for (size_t i = 0; !manifest->lists_sampled && i < manifest->dataset_count; i++)
        manifest->datasets[i].sampling = manifest->data.sampling;
    return WEIR_OK;
}

static const weir__field sampling_fields[] = {
    {"mode", WEIR__WORD(weir_manifest, data.sampling, sampling_names), .least = WEIR_SAMPLING_CLASS_BALANCED,
     .flags = WEIR__REQUIRED},
    {"column", WEIR__TEXT(weir_manifest, data.weight_column), .flags = WEIR__SPARSE},
    {"datasets", WEIR__OTHER(read_sampled, write_sampled), .has = offsetof(weir_manifest, lists_sampled),
     .flags = WEIR__SPARSE},
};
static const weir__shape sampling_shape =
    WEIR__SHAPE(weir_manifest, sampling_fields, .check = check_sampling);

/* ---- data ------------------------------------------------------------------------------------ */

static bool is_shuffled(const void *object) {
    return ((const weir_manifest *)object)->data.sampling == WEIR_SAMPLING_SHUFFLED;
}

enum { NO_PRESET, TRAIN_SHUFFLE, STREAMING_INFINITE, EVAL_SEQUENTIAL };

/* A preset sets what the file leaves open, and must not be contradicted. */
static weir_status check_data(weir__reader *r, void *object) {
    weir_manifest *manifest = object;
    weir_cbor_value value;
    if (manifest->preset == NO_PRESET)
        return WEIR_OK;
    weir_epoch_boundary boundary =
        manifest->preset == STREAMING_INFINITE ? WEIR_BOUNDARY_STREAM : WEIR_BOUNDARY_STRICT;
    if (weir_cbor_get(r->map, "epoch_boundary", &value) && manifest->data.epoch_boundary != boundary)
        return weir__refuse(r, "epoch_boundary", "contradicts $.data.preset; remove one of the two");
    manifest->data.epoch_boundary = boundary;
    manifest->stage = manifest->preset == EVAL_SEQUENTIAL ? WEIR_STAGE_EVAL : WEIR_STAGE_TRAIN;
    return WEIR_OK;
}

static const char *const epoch_boundaries[] = {"strict", "stream", NULL};
static const char *const intra_blocks[] = {"affine_v1", "feistel_v1", NULL};
static const char *const block_orders[] = {"fisher_yates_v1", "stateless_v1", NULL};
static const char *const presets[] = {"", "train_shuffle", "streaming_infinite", "eval_sequential", NULL};

static const weir__field data_fields[] = {
    {"sampler_block_size", WEIR__UINT(weir_manifest, data.sampler_block_size, 0, UINT64_MAX),
     .otherwise = DEFAULT_BLOCK_SIZE},
    {"drop_last", WEIR__BOOL(weir_manifest, data.drop_last)},
    {"epoch_boundary", WEIR__WORD(weir_manifest, data.epoch_boundary, epoch_boundaries),
     .flags = WEIR__SPARSE},
    {"intra_block", WEIR__WORD(weir_manifest, data.intra_block, intra_blocks), .flags = WEIR__SPARSE},
    {"rotate", WEIR__BOOL(weir_manifest, data.rotate), .flags = WEIR__SPARSE},
    {"block_order", WEIR__WORD(weir_manifest, data.block_order, block_orders), .flags = WEIR__SPARSE},
    {"preset", WEIR__WORD(weir_manifest, preset, presets), .least = TRAIN_SHUFFLE, .flags = WEIR__READ_ONLY},
    {"sampling", WEIR__SPREAD(&sampling_shape), .is_absent = is_shuffled},
};
static const weir__shape data_shape = WEIR__SHAPE(weir_manifest, data_fields, .check = check_data);

/* ---- mix ------------------------------------------------------------------------------------- */

weir_status weir_sampler__read_mix(weir__reader *r, const weir_cbor_value *map, weir_manifest *manifest) {
    weir_cbor_iterator it = weir_cbor_children(map);
    weir_cbor_value key, value;
    uint64_t total = 0;
    if (map->type != WEIR_CBOR_MAP)
        return weir__refuse(r, "mix", "must be an object");
    size_t outer = weir__enter(r, "mix", strlen("mix"));
    while (weir_cbor_next(&it, &key, &value)) {
        size_t inner = weir__enter(r, key.data, (size_t)key.number);
        uint64_t weight;
        weir_dataset *dataset = weir_sampler__manifest_find(manifest, key.data, (size_t)key.number);
        if (!dataset)
            return weir__refuse(r, NULL, "is not one of the datasets");
        if (!weir_cbor_get_uint(&value, &weight) || weight < 1)
            return weir__refuse(r, NULL, "must be an integer weight of at least 1");
        weir__leave(r, inner);
        if (weight > WEIR_SAMPLER__MIX_TOTAL_MAX || (total += weight) > WEIR_SAMPLER__MIX_TOTAL_MAX)
            return weir__refuse(
                r, NULL, "has weights that sum to more than 65536; divide them all by a common factor");
        dataset->weight = WEIR__NARROW(uint32_t, weight);
    }
    weir__leave(r, outer);
    manifest->mix_total = WEIR__NARROW(uint32_t, total);
    return WEIR_OK;
}

/* A trace keeps an empty map if there is no mix; in a file it is a mistake. */
static weir_status read_mix(weir__reader *r, const weir__field *field, const weir_cbor_value *map,
                            void *object) {
    if (map->type == WEIR_CBOR_MAP && map->number == 0)
        return weir__refuse(r, field->name, "is empty; leave it out or name the datasets to train on");
    return weir_sampler__read_mix(r, map, object);
}

/* ---- accountant ------------------------------------------------------------------------------ */

static weir_status check_accountant(weir__reader *r, void *object) {
    (void)object;
    return r->map->number > 0
               ? WEIR_OK
               : weir__refuse(r, NULL, "is empty; leave it out, or say what the accountant assumes");
}

static const weir__field accountant_fields[] = {
    {"subsampling_mode", WEIR__TEXT(weir_sampler__accountant, subsampling_mode)},
    {"effective_q", WEIR__REAL(weir_sampler__accountant, effective_q),
     .has = offsetof(weir_sampler__accountant, has_effective_q)},
};
static const weir__shape accountant_shape =
    WEIR__SHAPE(weir_sampler__accountant, accountant_fields, .check = check_accountant);

/* ---- The document ---------------------------------------------------------------------------- */

/* What mixed batches need of the other parts; sets the dataset that stands for the mix. */
static weir_status check_mixed(weir__reader *r, weir_manifest *manifest) {
    const weir_sampler__accountant *accountant = &manifest->accountant;
    if (manifest->mix_total == 0)
        return weir__refuse(r, "batch.mixed",
                            "needs a mix, whose weights say how often a dataset has a sequence; add \"mix\"");
    if (manifest->data.epoch_boundary != WEIR_BOUNDARY_STREAM)
        return weir__refuse(
            r, "batch.mixed",
            "needs \"epoch_boundary\": \"stream\" in data: datasets end at different steps, so "
            "each goes on in its next epoch");
    if (accountant->subsampling_mode || accountant->has_effective_q)
        return weir__refuse(
            r, "batch.mixed",
            "cannot stand beside an accountant, who counts the batches of one dataset; remove "
            "one of the two");
    if (weir_sampler__manifest_find(manifest, WEIR_MIX_KEY, strlen(WEIR_MIX_KEY)))
        return weir__refuse(r, "batch.mixed",
                            "cannot stand beside a dataset that is called \"" WEIR_MIX_KEY
                            "\", which is the mix's own key; rename it");
    manifest->blend = (weir_dataset){
        .key = WEIR_MIX_KEY, .id = WEIR_MIX_KEY, .version = "", .cardinality = manifest->mix_total};
    return WEIR_OK;
}

/* Across its parts: the batch size must be whole for every length. */
weir_status weir_sampler__check_manifest(weir__reader *r, void *object) {
    weir_manifest *manifest = object;
    weir_batch_config *batch = &manifest->batch;
    if (batch->mixed)
        WEIR__TRY(check_mixed(r, manifest));
    batch->sequence_length = 0;
    for (uint32_t i = 0; i < batch->lengths.count; i++)
        if (batch->lengths.values[i] > batch->sequence_length)
            batch->sequence_length = batch->lengths.values[i];
    if (weir_sampler__turns_make(&manifest->turns, manifest->global_batch_size, &batch->lengths))
        return WEIR_OK;
    return weir__refuse(
        r, "batch.sequence_length",
        "gives batches of a size that is not whole, or too large: a step of length s has global_batch_size * "
        "%u / s samples; use lengths that divide the longest one",
        batch->sequence_length);
}

enum { NORMALISED = 4 };

static const weir__field fields[] = {
    {"seed", WEIR__UINT(weir_manifest, seed, 0, UINT64_MAX)},
    {"global_batch_size", WEIR__UINT(weir_manifest, global_batch_size, 0, UINT64_MAX),
     .flags = WEIR__REQUIRED},
    {"datasets", WEIR__MAP(weir_manifest, datasets, dataset_count, &dataset_shape), .flags = WEIR__REQUIRED,
     .read = read_datasets, .write = write_datasets},
    {"data", WEIR__SPREAD(&data_shape)},
    /* The others are not in the normalised form. */
    {"mix", WEIR__OTHER(read_mix, NULL)},
    {"batch", WEIR__SPREAD(&weir_sampler__batch_shape)},
    {"accountant", WEIR__OBJECT(weir_manifest, accountant, &accountant_shape)},
};
const weir__shape weir_sampler__manifest_shape =
    WEIR__SHAPE(weir_manifest, fields, .check = weir_sampler__check_manifest);
const weir__shape weir_sampler__normalised_shape = {
    .fields = fields, .count = NORMALISED, .size = sizeof(weir_manifest)};
