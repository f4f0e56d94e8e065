/* The inside of a manifest, shared by its reader and its encoder. */
#ifndef WEIR_SAMPLER_MANIFEST_H
#define WEIR_SAMPLER_MANIFEST_H

#include "base/arena.h"
#include "sampler/turns.h"
#include "weir/manifest.h"
#include "weir/store.h"
#include "weir/tensors.h"

#define WEIR_SAMPLER__NEXT_BATCH "UML_OS.Data.NextBatch_v2"

enum { WEIR_SAMPLER__MIX_TOTAL_MAX = 65536 };

/* What a privacy accountant takes for granted about a run; either may be left out. */
typedef struct weir_sampler__accountant {
    const char *subsampling_mode; /* or NULL */
    bool has_effective_q;
    double effective_q;
} weir_sampler__accountant;

struct weir_manifest {
    const weir_env *env;
    uint64_t seed;
    uint64_t global_batch_size;
    weir_data_config data;
    weir_batch_config batch;
    weir_sampler__turns turns; /* of training batches */
    weir__arena arena;         /* of what was read: datasets, texts, lists */
    weir_dataset *datasets;    /* bytewise by key */
    weir_dataset blend;        /* the mix as a dataset, if its batches are mixed */
    size_t *key_order;         /* indices of datasets in CBOR key order */
    uint32_t dataset_count;
    uint32_t mix_total;
    uint8_t preset;     /* of `data`, 0: none */
    bool lists_sampled; /* data.sampling names the datasets that it is for */
    weir_stage stage;   /* of a run that names none */
    weir_sampler__accountant accountant;
    uint8_t *normalised;
    size_t normalised_size;
    uint8_t hash[WEIR_HASH_SIZE];
    uint8_t token[WEIR_TOKEN_SIZE];
    uint8_t mix_hash[WEIR_HASH_SIZE];
    uint8_t batch_config_hash[WEIR_HASH_SIZE];
    weir_manifest_info info; /* refers to the above */
};

/* Fills normalised, the four identities and the info from the fields. */
WEIR_CHECKED weir_status weir_sampler__manifest_identify(weir_manifest *manifest, weir_error *error);

/* The dataset of that key (which need not be terminated), or NULL. */
weir_dataset *weir_sampler__manifest_find(const weir_manifest *manifest, const void *key, size_t size);

/* The same, INVALID_DATASET_KEY with the keys that there are where it is none. */
WEIR_CHECKED weir_status weir_sampler__manifest_require(const weir_manifest *manifest, const char *key,
                                                        const char *failure_operator,
                                                        const weir_dataset **out, weir_error *error);

/* The datasets' keys for a message: as many as fit, the rest as a number. */
void weir_sampler__list_keys(const weir_manifest *manifest, char *out, size_t size);

/* The most samples that a step of a stage has, over all ranks. */
uint64_t weir_sampler__most_samples(const weir_manifest *manifest, weir_stage stage);

/* As in the file; the first, "shuffled", is what a manifest without data.sampling has. */
const char *weir_sampler__sampling_name(weir_sampling sampling);

#endif
