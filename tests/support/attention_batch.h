/* The tensors of batches that attention is given, by chance and a few rules. */
#ifndef WEIR_TESTS_ATTENTION_BATCH_H
#define WEIR_TESTS_ATTENTION_BATCH_H

#include "support/testing.h"
#include "weir/attention.h"

typedef struct made_batch {
    uint32_t sequences, length, rows;
    uint8_t *seq_row_ids, *column_ids, *is_padding, *fk_adj, *col_perm;
} made_batch;

typedef struct batch_rules {
    uint32_t sequences, length, rows;
    uint32_t widest;  /* cells of a row, at most */
    uint32_t columns; /* of the database */
    uint32_t parents; /* of a row, at most */
    uint32_t cells;   /* of the first sequence, and of the others at most; 0: as many as there is room for */
    bool has_hub;     /* all rows refer to the first */
} batch_rules;

made_batch make_batch(const batch_rules *rules, uint64_t seed);
void free_batch(made_batch *m);
weir_attention_batch given_batch(const made_batch *m, uint32_t threads);

/* By the definition. */
bool sees(const made_batch *m, weir_attention_pattern pattern, uint32_t b, uint32_t i, uint32_t j);

#endif
