/* What must hold for every batch, and damage to stores: for targets that build batches of what they damaged.
 */
#ifndef WEIR_TESTS_FUZZ_BATCHES_H
#define WEIR_TESTS_FUZZ_BATCHES_H

#include <stdlib.h>

#include "require.h"
#include "support/damage.h"
#include "weir/weir.h"
#include "weir_tool/batch_tools.h"

enum { EDIT = 5 };

/* Numbers below a tensor's bound, little-endian, `width` bytes each. */
static inline void require_below(const weir_batch *batch, weir_tensor_id id, uint32_t width, uint64_t bound) {
    const weir_tensor *tensor = &batch->tensors[id];
    for (uint64_t at = 0; at < tensor->size; at += width) {
        uint64_t value = 0;
        memcpy(&value, batch->data + tensor->offset + at, width);
        require(value < bound);
    }
}

static inline void check_batch(const weir_store_info *info, const weir_batch *batch) {
    require_below(batch, WEIR_SEMANTIC_TYPES, 1, WEIR_IGNORED);
    require_below(batch, WEIR_COLUMN_IDS, 4, info->column_count ? info->column_count : 1);
    require_below(batch, WEIR_SEQ_ROW_IDS, 2, batch->row_count ? batch->row_count : 1);
    require_below(batch, WEIR_CATEGORICAL_EMBED_IDS, 4, info->category_count ? info->category_count : 1);
    require_below(batch, WEIR_TEXT_EMBED_IDS, 4, batch->text_count ? batch->text_count : 1);
    require_below(batch, WEIR_FK_ADJ, 1, 2);
    require_below(batch, WEIR_IS_NULL, 1, 2);
    require_below(batch, WEIR_BOOL_VALUES, 1, 2);
    require_below(batch, WEIR_COL_PERM, 2, batch->sequence_length);
    require_below(batch, WEIR_OUT_PERM, 2, batch->sequence_length);
    require_below(batch, WEIR_IN_PERM, 2, batch->sequence_length);
}

/* That the compact form, as it lies in the batch or elsewhere, expands to the batch's tensors. */
static inline void check_expansion_of(const weir_batch *batch, const void *compact) {
    uint8_t *out = malloc(batch->size ? (size_t)batch->size : 1);
    require(out);
    weir_batch_expand(batch->rules, compact, out);
    for (int id = 0; id < WEIR_BATCH_PARTS; id++) { /* what lies between them is nobody's */
        const weir_tensor *part = &batch->tensors[id];
        require(part->size == 0 ||
                memcmp(out + part->offset, batch->data + part->offset, (size_t)part->size) == 0);
    }
    free(out);
}

static inline void check_expansion(const weir_batch *batch) {
    check_expansion_of(batch, batch->compact);
}

/* Each edit is a place (4 bytes, modulo the size) and what to turn there. */
static inline void damage(uint8_t *bytes, size_t size, const uint8_t *edits, size_t edits_size) {
    for (; edits_size >= EDIT; edits += EDIT, edits_size -= EDIT)
        bytes[weir__load32(edits) % size] ^= edits[4];
}

#endif
