/* A set of arenas as its files see it: arenas.c (what lies where), arena_pages.c (how memory comes to its
 * addresses), arena_commit.c (what a batch seals). */
#ifndef WEIR_PLAN_ARENAS_H
#define WEIR_PLAN_ARENAS_H

#include "plan/planning.h"
#include "weir/arenas.h"

#define WEIR_PLAN__ARENA_OPERATOR "UML_OS.TMMU.ResolveAddress_v1"

/* An arena with its addresses. Of memory with pages, `mapping` is a reserved range and `extents` says what
 * is mapped in it: at a page where a mapping begins, how many pages it has; 0 at a page without memory. */
typedef struct weir_plan__mapped {
    weir_text name;
    void *mapping; /* as it was reserved or allocated */
    size_t mapping_size;
    uint8_t *base; /* aligned, in the mapping */
    size_t size;   /* the plan's peak */
    size_t page;   /* 0: the memory has no pages */
    size_t page_count;
    uint32_t *extents;
    weir__record *addresses; /* sorted: address, slot */
    uint32_t slot_count;
    size_t first_slot; /* in slot_starts */
    uint64_t written;  /* bytes, since the last sealed batch */
    uint64_t epoch;    /* sealed batches in which some were */
} weir_plan__mapped;

#define WEIR_PLAN__INSIDE UINT32_MAX /* an extent: the page belongs to a mapping that begins before it */

struct weir_arenas {
    const weir_env *env;
    weir_memory memory;
    weir_plan *plan; /* a copy of its own: ids, rows, arenas, slots */
    weir_plan__mapped *arenas;
    uint32_t arena_count;
    weir__record *addresses; /* of all arenas */
    uint32_t *slot_starts;   /* where each slot's tensors begin in slot_tensors; one more at the end */
    uint32_t *slot_tensors;  /* slot after slot, by birth */

    weir_cbor_writer sealed; /* the state of the last batch */
    bool is_sealed;
    weir_commit_options sealed_as;
};

/* NULL: there is none of that name. */
weir_plan__mapped *weir_plan__arena_find(const weir_arenas *arenas, const char *name, size_t size);

/* Addresses and memory of an arena. After a failure, and at the end, weir_plan__arena_unmap. */
WEIR_CHECKED weir_status weir_plan__arena_map(weir_arenas *set, uint32_t index,
                                              const weir_arenas_options *options, weir_error *error);
void weir_plan__arena_unmap(weir_arenas *set, weir_plan__mapped *arena);

/* The tensor of an id; CONTRACT_VIOLATION. */
WEIR_CHECKED weir_status weir_plan__arena_tensor(const weir_arenas *arenas, const char *id, size_t id_size,
                                                 const char *operator_name, uint32_t *tensor,
                                                 weir_error *error);

/* All work on each arena's memory is done, in name order. A failure names the arena. */
WEIR_CHECKED weir_status weir_plan__arena_barriers(const weir_arenas *arenas, weir_error *error);

/* Notes that a tensor was written. */
void weir_plan__arena_note_write(weir_arenas *arenas, uint32_t tensor);

/* Whether all bytes of a part of an arena have memory. */
bool weir_plan__arena_is_backed(const weir_plan__mapped *arena, uint64_t offset, uint64_t size);

#endif
