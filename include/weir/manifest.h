/* weir/manifest.h: what a run is made of: datasets, batch size, shuffling, mix; and its identity hashes.
 *
 * The file is JSON (docs/manifest.md). A manifest is immutable once read: any number of threads may use it.
 */
#ifndef WEIR_MANIFEST_H
#define WEIR_MANIFEST_H

#include "weir/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_manifest weir_manifest;

typedef enum weir_epoch_boundary { WEIR_BOUNDARY_STRICT, WEIR_BOUNDARY_STREAM } weir_epoch_boundary;
typedef enum weir_intra_block { WEIR_INTRA_AFFINE_V1, WEIR_INTRA_FEISTEL_V1 } weir_intra_block;
typedef enum weir_block_order { WEIR_BLOCKS_FISHER_YATES_V1, WEIR_BLOCKS_STATELESS_V1 } weir_block_order;

/* How training draws from a dataset: each sample once per epoch, or by class, or by weight
 * (docs/spec/02-sampling-modes.md). */
typedef enum weir_sampling {
    WEIR_SAMPLING_SHUFFLED,
    WEIR_SAMPLING_CLASS_BALANCED,
    WEIR_SAMPLING_WEIGHTED
} weir_sampling;

typedef enum weir_stage {
    WEIR_STAGE_TRAIN,
    WEIR_STAGE_EVAL,
    WEIR_STAGE_INFER,
    WEIR_STAGE_EVAL_SEEDED,
    WEIR_STAGES,
} weir_stage;
typedef enum weir_child_policy {
    WEIR_CHILDREN_UNIFORM,
    WEIR_CHILDREN_RECENT,
    WEIR_CHILDREN_LATEST
} weir_child_policy;
typedef enum weir_label_visibility {
    WEIR_LABELS_TRAIN,
    WEIR_LABELS_ALL,
    WEIR_LABELS_NONE,
    WEIR_LABELS_LISTED /* of the splits in label_splits */
} weir_label_visibility;
typedef enum weir_since { WEIR_SINCE_EVER, WEIR_SINCE_TIME, WEIR_SINCE_DURATION } weir_since;
typedef enum weir_row_order { WEIR_ROWS_RCM, WEIR_ROWS_BEST } weir_row_order;

/* The manifest's `data`. The text belongs to the manifest. */
typedef struct weir_data_config {
    uint64_t sampler_block_size;
    weir_epoch_boundary epoch_boundary;
    weir_intra_block intra_block;
    weir_block_order block_order;
    weir_sampling sampling;    /* of the datasets that say so themselves */
    const char *weight_column; /* of WEIR_SAMPLING_WEIGHTED; else NULL */
    bool drop_last;
    bool rotate;
} weir_data_config;

/* Several values of a number: of `sequence_length`, whose steps take them in turn; of `retrieval`, where one
 * is drawn for each sequence; of a width, by hop. */
enum { WEIR_CHOICES_MAX = 64 };
typedef struct weir_choices {
    uint32_t count; /* at least 1 */
    uint32_t values[WEIR_CHOICES_MAX];
} weir_choices;

typedef enum weir_example_order { WEIR_EXAMPLES_BY_VISITS, WEIR_EXAMPLES_LATEST } weir_example_order;

/* The manifest's `batch.retrieval`. */
typedef struct weir_retrieval_config {
    weir_choices walks;
    weir_choices length; /* steps of a walk */
    weir_choices local_cells;
    weir_choices width;
    weir_example_order order;
    bool fill;
} weir_retrieval_config;

typedef enum weir_negatives_by { WEIR_NEGATIVES_UNIFORM, WEIR_NEGATIVES_BY_POPULARITY } weir_negatives_by;

/* The manifest's `batch.links`: the negatives of a pair of a link task. */
typedef struct weir_links_config {
    uint32_t negatives;  /* in train */
    uint32_t candidates; /* in all other stages */
    weir_negatives_by by;
} weir_links_config;

/* How many children a row lists along an edge type, by its hop; the last holds for all that follow. */
typedef struct weir_edge_width {
    const char *edge_type; /* "child table.foreign key", a task's name, or "*" for all others */
    weir_choices widths;
} weir_edge_width;

/* The manifest's `batch`. Texts and lists belong to the manifest. */
typedef struct weir_batch_config {
    uint32_t sequence_length; /* the longest of … */
    weir_choices lengths;     /* … those that training steps have in turn (docs/spec/02c-lengths.md) */
    uint32_t max_hops;
    uint32_t child_width;
    const weir_edge_width *widths; /* instead of child_width; … */
    uint32_t width_count;          /* … 0: that holds */
    uint32_t max_rows;
    weir_child_policy child_policy;
    weir_label_visibility label_visibility;
    uint8_t label_splits; /* of WEIR_LABELS_LISTED: bit s for split s */
    bool pad_rows;
    bool omit_identifiers;
    bool omit_blank_rows; /* those whose only news would be a hidden label */
    bool strictly_before;
    bool has_context_until;
    bool labels;              /* seeds of the task are rows */
    bool mixed;               /* training batches hold sequences of all datasets of the mix */
    bool has_retrieval;       /* examples are found by walks */
    weir_since since_is;      /* what `since` is */
    int64_t since;            /* microseconds: since 1970, or before the observation time */
    uint32_t tensors;         /* that are wanted of the optional ones: bit i for weir_tensor_id i */
    uint32_t mask_permille;   /* of the cells of a sequence that are further targets in training */
    int64_t context_until;    /* microseconds since 1970 */
    uint64_t context_seed;    /* 0: the contexts that there were before it */
    weir_row_order row_order; /* of out_perm and in_perm */
    weir_retrieval_config retrieval;
    weir_links_config links;
} weir_batch_config;

/* The key of the mix, if its batches are mixed (docs/spec/05g-mixed.md): a dataset of as many samples as its
 * weights sum to, each of which stands for the next sample of one of its datasets. */
#define WEIR_MIX_KEY "*"

/* One of `datasets`. Texts belong to the manifest. */
typedef struct weir_dataset {
    const char *key;
    const char *id;
    const char *version;
    uint64_t cardinality;
    uint32_t weight; /* in the mix; 0 if it is not in it */
    weir_sampling sampling;
    uint8_t hash[WEIR_HASH_SIZE];
} weir_dataset;

/* Reads a manifest from a file, or from JSON text (`name` is what messages call it). The caller closes it.
 * MANIFEST_INVALID naming the JSON path, IO_ERROR, OUT_OF_MEMORY. */
WEIR_API WEIR_CHECKED weir_status weir_manifest_open(const weir_env *env, const char *path,
                                                     weir_manifest **out, weir_error *error);
WEIR_API WEIR_CHECKED weir_status weir_manifest_read(const weir_env *env, const char *json, size_t size,
                                                     const char *name, weir_manifest **out,
                                                     weir_error *error);
WEIR_API void weir_manifest_close(weir_manifest *manifest);

/* What a manifest says, and its identities; it lives as long as the manifest. */
typedef struct weir_manifest_info {
    uint64_t seed;
    uint64_t global_batch_size; /* samples of a step, over all ranks; of a training step of the longest
                                   sequences if it has several lengths */
    weir_stage stage; /* of a run that names none: eval under the preset eval_sequential, else train */
    const weir_data_config *data;
    const weir_batch_config *batch;
    const weir_dataset *datasets; /* in bytewise order of their keys */
    size_t dataset_count;
    const uint8_t *hash;              /* WEIR_HASH_SIZE bytes */
    const uint8_t *mix_hash;          /* likewise */
    const uint8_t *batch_config_hash; /* likewise */
    const uint8_t *token;             /* the default replay token: WEIR_TOKEN_SIZE bytes */
    const uint8_t *normalised;        /* what `hash` is the hash of: canonical CBOR */
    size_t normalised_size;
} weir_manifest_info;
WEIR_API const weir_manifest_info *weir_manifest_describe(const weir_manifest *manifest);

/* The dataset of a key, or NULL. The mix has WEIR_MIX_KEY if its batches are mixed; it is not among the
 * others. */
WEIR_API const weir_dataset *weir_manifest_find(const weir_manifest *manifest, const char *key);

#ifdef __cplusplus
}
#endif
#endif
