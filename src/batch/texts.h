/* Texts of a batch: the global numbers that its cells use, each once and ascending, and the cells' numbers
 * among those. */
#ifndef WEIR_SRC_BATCH_TEXTS_H
#define WEIR_SRC_BATCH_TEXTS_H

#include "base/internal.h"
#include "weir/store.h"

typedef struct weir__text_gatherer {
    uint64_t *uses; /* global number << 32 | cell of the batch */
    uint64_t *scratch;
    uint32_t *counts;
    uint32_t use_count;
} weir__text_gatherer;

WEIR_CHECKED weir_status weir__text_gatherer_open(weir__text_gatherer *texts, const weir_env *env,
                                                  uint32_t cells, weir_error *error);
void weir__text_gatherer_close(weir__text_gatherer *texts, const weir_env *env);

/* Notes that a cell uses a text, or, without a branch, that it does not. */
static inline void weir__use_text(weir__text_gatherer *texts, uint32_t text, uint32_t cell, bool is_used) {
    texts->uses[texts->use_count] = (uint64_t)text << 32 | cell;
    texts->use_count += is_used;
}

/* Sorts the uses by text; returns how many texts there are. Numbers are below text_count. */
uint32_t weir__gather_texts(weir__text_gatherer *texts, uint32_t text_count);

/* After that: writes every use's batch-local number into the tensor, and each text's embedding, in order;
 * false if one of these is damaged. */
void weir__localise_texts(const weir__text_gatherer *texts, uint8_t *text_embed_ids);
bool weir__copy_texts(const weir__text_gatherer *texts, const weir_store *store, uint8_t *out);

#endif
