/* The opened store as the reader's own files see it. */
#ifndef WEIR_STORE_READER_H
#define WEIR_STORE_READER_H

#include "store/commons.h"
#include "store/format.h"
#include "store/touch.h"

struct weir_store {
    const weir_env *env;
    const uint8_t *data;
    size_t size; /* of the file */
    bool is_mapped;
    bool reads_ahead;             /* its pages are asked for before they are read */
    bool is_guarded;              /* a page that cannot be read sets touched->unreadable */
    char *path;                   /* as messages call it */
    weir_store__touched *touched; /* what of it was verified; any thread */
    weir_store__commons *commons; /* what its readers share; any thread */
    weir__arena arena;            /* of everything that info points to outside of the file */
    weir_store_info info;
    weir_section sections[WEIR_STORE__SECTIONS_MOST]; /* what is not there is empty */
    const uint8_t *category_offsets;
    const uint8_t *text_offsets;
};

static inline const weir_section *weir_store__section(const weir_store *store,
                                                      weir_store__section_kind kind) {
    return &store->sections[kind - 1];
}

/* Before bytes of a section are used: false if they are damaged, which weir_store_status then says. */
static inline bool weir_store__touch_in(const weir_store *store, weir_store__section_kind kind,
                                        const uint8_t *at, size_t size) {
    return weir_store__check_touched(store->touched, kind, at, size);
}

/* Asks for the page of what will be read soon, or for the block that must be verified first; for stores that
 * read ahead. */
void weir_store__expect(const weir_store *store, const uint8_t *at);

/* Takes what was read of a mapped store out of the process; the system still has it. For who goes through all
 * of one. Any thread. */
void weir_store__let_go(const weir_store *store);

/* Whether all of a section was found whole: then touching it says nothing new. */
static inline bool weir_store__is_whole(const weir_store *store, weir_store__section_kind kind) {
    return atomic_load_explicit(&store->touched->sections[kind - 1].left, memory_order_relaxed) == 0;
}

/* Whether a page of the file could not be read. */
static inline bool weir_store__is_unreadable(const weir_store *store) {
    return __atomic_load_n(&store->touched->unreadable, __ATOMIC_RELAXED) != 0;
}

/* weir_store_find_seed in one split of a task that there is. */
uint64_t weir_store__find_seed_in(const weir_store *store, uint32_t task, weir_split split, uint64_t row,
                                  int64_t observation_time);

/* Text that is cut to a buffer, which it leaves terminated, while its full length is counted. */
typedef struct weir_store__cut_text {
    char *out;
    size_t size;
    size_t length;
} weir_store__cut_text;
void weir_store__cut_text_add(weir_store__cut_text *text, const char *bytes, size_t size);

/* A dataset's identity, of a store that is open or still being written. CBOR_INVALID for a name that is no
 * UTF-8. */
WEIR_CHECKED weir_status weir_store__dataset_hash(const uint8_t store_hash[WEIR_HASH_SIZE], const char *task,
                                                  weir_split split, uint8_t hash[WEIR_HASH_SIZE],
                                                  weir_error *error);

#endif
