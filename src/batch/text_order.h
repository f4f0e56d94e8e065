/* The texts of a batch: the store's numbers that its cells use, each once and ascending, and the cells'
 * numbers among those. */
#ifndef WEIR_BATCH_TEXT_ORDER_H
#define WEIR_BATCH_TEXT_ORDER_H

#include "base/block.h"
#include "weir/store.h"

/* A use of a text: the store's number << 32 | where in the compact form it stands, in units of 4 bytes. */
typedef uint64_t weir_batch__text_use;

/* Scratch to sort them. */
typedef struct weir_batch__text_sorter {
    weir_batch__text_use *uses;
    uint32_t *counts;
} weir_batch__text_sorter;

/* For at most that many. */
void weir_batch__text_sorter_carve(weir_batch__text_sorter *sorter, weir__block *block, uint64_t uses);

/* Sorts the uses by text, lists the texts, and puts each one's place in that list where it is used. Returns
 * how many they are. The store's numbers are below text_count. */
uint32_t weir_batch__localise_texts(const weir_batch__text_sorter *sorter, weir_batch__text_use *uses,
                                    uint32_t use_count, uint32_t text_count, uint32_t *texts,
                                    uint8_t *compact);

/* Writes their embeddings, in order; false if one of them is damaged. The store's numbers are counted from
 * `first` on. */
bool weir_batch__copy_texts(const weir_store *store, const uint32_t *texts, uint32_t count, uint32_t first,
                            uint8_t *out);

#endif
