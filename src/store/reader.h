/* The opened store as the reader's own files see it. */
#ifndef WEIR_SRC_STORE_READER_H
#define WEIR_SRC_STORE_READER_H

#include "store/format.h"

struct weir_store {
    const weir_env *env;
    const uint8_t *data;
    size_t size;
    bool is_mapped;
    weir__arena arena; /* of everything that info points to outside of the file */
    weir_store_info info;
    weir_section sections[WEIR__SECTION_COUNT];
    const uint8_t *category_offsets;
    const uint8_t *category_bytes;
    const uint8_t *text_offsets;
    const uint8_t *text_bytes;
};

static inline const weir_section *weir__section(const weir_store *store, weir__section_kind kind) {
    return &store->sections[kind - 1];
}

#endif
