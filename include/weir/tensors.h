/* weir/tensors.h: the list of a batch's parts, from which everything else that names them is made: the
 * numbers below, the buffer's layout, the expansion on the host and on a device, what Python and numpy see.
 *
 * X(id, name, dtype, bytes of an item, axes …): B is the number of sequences, S their length, R the rows of
 * the longest, U the texts, D_t the width of a text's embedding, T the floats of a timestamp. Items are
 * little-endian. The order is that of the buffer, and of batch_digest. */
#ifndef WEIR_TENSORS_H
#define WEIR_TENSORS_H

/* Of each cell. 0 if nothing else is said; at padding too. */
#define WEIR_CELL_TENSORS(X)                                                                                 \
    X(SEMANTIC_TYPES, semantic_types, int8, 1, B, S)                                                         \
    X(COLUMN_IDS, column_ids, int32, 4, B, S)                                                                \
    X(SEQ_ROW_IDS, seq_row_ids, uint16, 2, B, S)                                                             \
    X(IS_NULL, is_null, uint8, 1, B, S)                                                                      \
    X(NUMERIC_VALUES, numeric_values, float32, 4, B, S)                                                      \
    X(TIMESTAMP_VALUES, timestamp_values, float32, 4, B, S, T)                                               \
    X(BOOL_VALUES, bool_values, uint8, 1, B, S)                                                              \
    X(CATEGORICAL_EMBED_IDS, categorical_embed_ids, uint32, 4, B, S)                                         \
    X(TEXT_EMBED_IDS, text_embed_ids, uint32, 4, B, S)                                                       \
    X(IS_TARGET, is_target, uint8, 1, B, S)                                                                  \
    X(IS_PADDING, is_padding, uint8, 1, B, S)

#define WEIR_PERMUTATIONS(X)                                                                                 \
    X(COL_PERM, col_perm, uint16, 2, B, S)                                                                   \
    X(OUT_PERM, out_perm, uint16, 2, B, S)                                                                   \
    X(IN_PERM, in_perm, uint16, 2, B, S)

/* Of each cell too, in the batches whose manifest asks for them (docs/spec/05e-more-of-a-context.md). */
#define WEIR_OPTIONAL_TENSORS(X)                                                                             \
    X(EXAMPLE_IDS, example_ids, uint16, 2, B, S)                                                             \
    X(HOPS, hops, int8, 1, B, S)                                                                             \
    X(AGES, ages, float32, 4, B, S)                                                                          \
    X(IS_MASKED, is_masked, uint8, 1, B, S)

#define WEIR_BATCH_TENSORS(X)                                                                                \
    WEIR_CELL_TENSORS(X)                                                                                     \
    X(FK_ADJ, fk_adj, uint8, 1, B, R, R)                                                                     \
    WEIR_PERMUTATIONS(X)                                                                                     \
    X(TEXT_BATCH_EMBEDDINGS, text_batch_embeddings, float16, 2, U, D)                                        \
    WEIR_OPTIONAL_TENSORS(X)

/* Of each sequence. */
#define WEIR_BATCH_FIELDS(X)                                                                                 \
    X(SAMPLE_INDEX, sample_index, uint64, 8, B)                                                              \
    X(POSITION, position, uint64, 8, B)                                                                      \
    X(ANCHOR_ROW, anchor_row, uint32, 4, B)                                                                  \
    X(OBSERVATION_TIME, observation_time, int64, 8, B)                                                       \
    X(NUM_CELLS, num_cells, uint32, 4, B)                                                                    \
    X(NUM_ROWS, num_rows, uint32, 4, B)

/* Of each sequence too, in mixed batches alone (docs/spec/05g-mixed.md). */
#define WEIR_OPTIONAL_FIELDS(X) X(DATASET_IDS, dataset_ids, uint32, 4, B)

#define WEIR_PART_NUMBER(id, ...) WEIR_##id,
typedef enum weir_tensor_id {
    WEIR_BATCH_TENSORS(WEIR_PART_NUMBER) /* WEIR_SEMANTIC_TYPES … WEIR_IS_MASKED */
    WEIR_TENSORS,
    WEIR_FIRST_OPTIONAL = WEIR_TEXT_BATCH_EMBEDDINGS + 1,
    WEIR_BEFORE_FIELDS = WEIR_TENSORS - 1,
    WEIR_BATCH_FIELDS(WEIR_PART_NUMBER)    /* WEIR_SAMPLE_INDEX … WEIR_NUM_ROWS */
    WEIR_OPTIONAL_FIELDS(WEIR_PART_NUMBER) /* WEIR_DATASET_IDS */
    WEIR_BATCH_PARTS,
} weir_tensor_id;

#endif
