/* weir/batch.h: TrainingBatches from a store: the seeds that the sampler names, walked along foreign keys,
 * as tensors in one buffer (docs/batch.md).
 *
 *   weir_batch_options options = {.size = sizeof options, .store = store, .manifest = manifest,
 *                                 .dataset = "shop/churn/train", .world_size = 8, .rank = 3};
 *   weir_batch_builder_open(NULL, &options, &builder, &error);
 *   weir_batch_buffer_open(&builder, 1, NULL, &buffer, &error);
 *   const weir_batch *batch = weir_batch_view(buffer);
 *   for (weir_cursor cursor = {0, 0};; cursor = batch->step.cursor_next) {
 *       weir_batch_build(builder, cursor, buffer, &error);
 *       use(batch->data + batch->tensors[WEIR_COLUMN_IDS].offset);
 *   }
 *
 * A sequence is a function of (store, manifest, token, dataset, epoch, position) alone. A batch is built in a
 * compact form, a tenth of its tensors' bytes, in which it travels; the tensors are that form's expansion, on
 * the host or on a device. Every byte of them is written for every batch: what a consumer does to them in
 * place harms no later one.
 *
 * A builder belongs to one thread; builders share the store. All memory is taken at open: building allocates
 * nothing. Once the store's blocks that it reads are verified (weir_store_options.verify) it takes no lock
 * and makes no system call either; the first use of a block may wait for another thread that verifies it. */
#ifndef WEIR_BATCH_H
#define WEIR_BATCH_H

#include "weir/sampler.h"
#include "weir/store.h"
#include "weir/tensors.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_tensor {
    const char *name;  /* "semantic_types" …; NULL: an optional one that the manifest does not ask for */
    const char *dtype; /* "int8", "uint8", "float16" … as numpy names them */
    uint32_t rank;
    uint64_t shape[3];
    uint64_t offset; /* from weir_batch.data, a multiple of 256 */
    uint64_t size;   /* bytes */
} weir_tensor;

/* A dataset whose sequences a mixed batch has. The stores of a mixed batch have one numbering of columns, one
 * of categories and one of texts: each store's own numbers, from where it begins. */
typedef struct weir_batch_source {
    const char *dataset;
    const weir_store *store;
    uint32_t first_column;   /* of its store … */
    uint32_t first_category; /* … among those of all stores */
    uint32_t task;           /* task_idx in its store */
    weir_stype target_stype;
    uint32_t category_start; /* cat_emb_start, in the numbering of all; 0 unless the target is categorical */
    uint32_t category_count; /* cat_emb_count */
} weir_batch_source;

/* What a buffer holds. Bytes are little-endian on every machine. */
typedef struct weir_batch {
    weir_step step;
    uint32_t sequence_count;  /* B */
    uint32_t group_size;      /* sequences of a sample, one after the other: 1, in a link task the source, the
                                 destination and its negatives (weir_batch_role) */
    uint32_t sequence_length; /* S */
    uint32_t row_count;       /* R */
    uint32_t text_count;      /* U */
    uint32_t embedding_dim;   /* D_t */
    uint32_t task;            /* task_idx; it and what follows of the task is 0 if the batch is mixed */
    weir_stype target_stype;
    uint32_t category_start; /* cat_emb_start, 0 unless the target is categorical */
    uint32_t category_count; /* cat_emb_count */
    const uint8_t *data;     /* the parts; NULL: the buffer has no tensors */
    uint64_t size;           /* of all parts, padding between them included */
    const void *compact;     /* the compact form … */
    uint64_t compact_size;   /* … bytes */
    const void *rules;       /* what it takes to expand it; the builder's, the same for all its batches */
    uint64_t rules_size;
    const uint64_t *epochs;  /* of each sequence */
    const uint64_t *indices; /* sample_index of each sample, those of padding left out; in a mixed batch its
                                number in the mix, and the tensor sample_index has that in its dataset */
    const uint32_t *anchor_rows; /* the store's number of the row that each sequence is about
                                    (weir_store_row_of): the tensor anchor_row, on the host */
    const uint64_t *rows; /* RowIdx of each sequence's rows, in visit order: from rows[i * row_stride] on; it
                             and visits are NULL if the batch is on a device */
    uint32_t row_stride;
    const uint32_t *visits; /* beside rows: how often walks came to a row that starts a part of its sequence,
                               0 if it was drawn; WEIR_NONE of all others */
    const weir_batch_source *sources; /* of a mixed batch: the datasets of the mix, in bytewise order; … */
    uint32_t source_count;            /* … 0: all sequences are of one dataset */
    const uint32_t
        *dataset_ids; /* of each sequence, a place in `sources`: the tensor, on the host; or NULL */
    weir_tensor tensors[WEIR_BATCH_PARTS];
    bool has_digests;
    uint8_t batch_digest[16];       /* XXH3-128, canonical form */
    const uint64_t *sample_digests; /* XXH3-64, one per sequence */
    const uint64_t
        *group_digests; /* one per sample: the same, or over those of its group; what a trace keeps */
} weir_batch;

typedef struct weir_batch_options {
    size_t size; /* sizeof(weir_batch_options) */
    const weir_store *store;
    const weir_manifest *manifest;
    const char *dataset; /* WEIR_MIX_KEY: mixed batches, if the manifest asks for them */
    weir_stage stage;
    uint32_t world_size;
    uint32_t rank;
    const void *token; /* NULL: the manifest's own */
    size_t token_size;
    bool any_hash; /* take a dataset whose hash is not the store's; the cardinality is checked all the same */
    bool pad;      /* fill a partial batch up with sequences of padding */
    bool with_digests;                 /* compute the digests of every batch */
    const weir_population *population; /* of the dataset, shared by builders; NULL: the builder reads its own
                                          from the store if training draws from one */
    weir_store *const *stores;         /* of mixed batches: those that serve the datasets of the mix; … */
    size_t store_count;                /* … 0: `store` serves all of them */
    const weir_population *const *populations; /* of mixed batches: `population` of each of the manifest's
                                                  datasets, by its number; NULL: none are shared */
} weir_batch_options;

typedef struct weir_batch_builder weir_batch_builder;
typedef struct weir_batch_buffer weir_batch_buffer;

/* The store and the population must outlive the builder; the manifest may be closed after. The sampler's
 * errors in its order, with the store's cardinality; a dataset that the store does not have is
 * INVALID_DATASET_KEY, one with another hash CARDINALITY_MISMATCH; weir_population_open's errors;
 * CONTRACT_VIOLATION if datasets cannot be mixed (a link task, stores whose embeddings differ in width);
 * STORE_CORRUPT, IO_ERROR, OUT_OF_MEMORY. */
WEIR_API WEIR_CHECKED weir_status weir_batch_builder_open(const weir_env *env,
                                                          const weir_batch_options *options,
                                                          weir_batch_builder **out, weir_error *error);
WEIR_API void weir_batch_builder_close(weir_batch_builder *builder);

/* The bytes of the largest batch that any of the builders can make, in both forms. The builders must agree in
 * batch size and sequence length; their stores may differ. */
typedef struct weir_batch_room {
    uint64_t compact;
    uint64_t tensors;
} weir_batch_room;
WEIR_API weir_batch_room weir_batch_capacity(weir_batch_builder *const *builders, size_t count);

/* Where a buffer keeps its batch: memory of the caller, as much as weir_batch_capacity says and 256-byte
 * aligned, or its own if that is NULL. */
typedef struct weir_batch_memory {
    void *compact;
    void *tensors;
    bool without_tensors; /* batches are built and not expanded */
    bool without_anchors; /* the tensor anchor_row is empty, and the compact form does not have it */
} weir_batch_memory;

/* A buffer for batches of these builders, and of others of the same datasets and manifest. `memory` may be
 * NULL: all is its own. */
WEIR_API WEIR_CHECKED weir_status weir_batch_buffer_open(weir_batch_builder *const *builders, size_t count,
                                                         const weir_batch_memory *memory,
                                                         weir_batch_buffer **out, weir_error *error);
WEIR_API void weir_batch_buffer_close(weir_batch_buffer *buffer);

/* Builds the batch at a cursor. The sampler's errors; STORE_CORRUPT if a block of the store that it reads is
 * damaged, or a number in it leads nowhere; IO_ERROR if the store cannot be read any more. After an error the
 * buffer holds no batch. */
WEIR_API WEIR_CHECKED weir_status weir_batch_build(weir_batch_builder *builder, weir_cursor cursor,
                                                   weir_batch_buffer *buffer, weir_error *error);

/* The batch that was built last; valid until the next build into the buffer. It refers to the buffer and to
 * the builder. If the buffer holds none, all of it is 0. */
WEIR_API const weir_batch *weir_batch_view(const weir_batch_buffer *buffer);

/* What a sequence is in its group. */
typedef enum weir_role {
    WEIR_ROLE_SAMPLE, /* of a task that is not about links */
    WEIR_ROLE_SOURCE,
    WEIR_ROLE_DESTINATION,
    WEIR_ROLE_NEGATIVE,
} weir_role;

/* The role of a sequence, by its place in its group, also of one that is padding. Of a view without a batch:
 * WEIR_ROLE_SAMPLE. */
WEIR_API weir_role weir_batch_role(const weir_batch *batch, uint32_t sequence);

#ifdef __cplusplus
}
#endif
#endif
