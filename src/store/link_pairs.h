/* Reading the pairs of a link task (docs/spec/05f-links.md): the list that a pair belongs to, and which
 * destinations there were by then. Any thread. Everything is verified as it is read; false means damaged, and
 * no number leads outside, whatever the store's bytes are. */
#ifndef WEIR_STORE_LINK_PAIRS_H
#define WEIR_STORE_LINK_PAIRS_H

#include "weir/store.h"

/* What the list of a source and a time is, and what its negatives are drawn from. */
typedef struct weir_store__link_list {
    uint64_t first;      /* its first seed */
    uint32_t count;      /* of seeds */
    uint32_t existing;   /* destinations that were there by then: the first so many places */
    uint32_t references; /* to destinations that were known by then */
} weir_store__link_list;

/* The list of a seed. There are at least as many destinations as it has seeds. */
WEIR_CHECKED bool weir_store__link_list_of(const weir_store *store, uint32_t task, uint64_t seed,
                                           weir_store__link_list *out);

/* The place of a seed's destination, below the number of destinations. */
WEIR_CHECKED bool weir_store__link_place(const weir_store *store, uint32_t task, uint64_t seed,
                                         uint32_t *place);

/* The row at a place. */
WEIR_CHECKED bool weir_store__link_row(const weir_store *store, uint32_t task, uint32_t place, uint64_t *row);

/* The place of the destination that an entry among the references is about; it may be beyond all places. */
WEIR_CHECKED bool weir_store__link_reference(const weir_store *store, uint32_t task, uint32_t entry,
                                             uint32_t *place);

/* The candidate with this number: its place among the first `existing`, those of the list left out.
 * `candidate` is below existing - count. */
WEIR_CHECKED bool weir_store__link_candidate(const weir_store *store, uint32_t task,
                                             const weir_store__link_list *list, uint32_t candidate,
                                             uint32_t *place);

/* Whether a place is one of the list's. */
WEIR_CHECKED bool weir_store__link_has(const weir_store *store, uint32_t task,
                                       const weir_store__link_list *list, uint32_t place, bool *is_positive);

#endif
