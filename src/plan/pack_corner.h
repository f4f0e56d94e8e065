/* The state of a corner search: what pack_corner.c keeps and pack_exact.c branches over.
 *
 * Buffers are placed from the ground up. For each unplaced buffer `floor_of` is the least offset that the
 * placements so far leave it; for each section `level` is the least of these over its unplaced buffers, and
 * `rest` the sum of their sizes. Nothing unplaced can lie below `level`, so level + rest > capacity refutes
 * the state. Every change is on the trail and is undone in reverse. */
#ifndef WEIR_PLAN_PACK_CORNER_H
#define WEIR_PLAN_PACK_CORNER_H

#include "plan/pack_internal.h"

typedef enum weir_pack__trail_kind {
    WEIR_PACK__TRAIL_FLOOR,
    WEIR_PACK__TRAIL_LEVEL,
    WEIR_PACK__TRAIL_PLACED
} weir_pack__trail_kind;

typedef struct weir_pack__trail_entry {
    uint64_t value;
    uint32_t index;
    uint32_t witness : 30;
    uint32_t kind : 2;
} weir_pack__trail_entry;

/* A node of the tree: either a range of sections whose components are solved in turn, or a corner and its
 * choices. */
typedef struct weir_pack__frame {
    size_t mark;         /* trail size to return to */
    uint64_t height;     /* corner: where the chosen buffer goes */
    uint64_t hash;       /* corner: of the component's state */
    uint32_t from, to;   /* sections; of a split: those not yet entered */
    uint32_t section;    /* corner: the section to cover */
    uint32_t choices_at; /* corner: in `choices` */
    uint32_t choice_count;
    uint32_t next;
    bool is_split;
    bool is_forced; /* corner: the single choice loses nothing */
} weir_pack__frame;

typedef struct weir_pack__refuted {
    uint64_t hash;
    uint32_t generation;
    uint32_t words_at;
    uint32_t word_count;
} weir_pack__refuted;

struct weir_pack__corner {
    const weir_env *env;
    weir__arena memory; /* of what is by buffer, section or membership */
    const weir_pack__part *part;
    const weir_pack__search_task *task;
    uint64_t capacity;
    uint64_t steps;
    uint64_t budget;
    unsigned shift; /* capacity >> shift has at most 20 bits */

    uint64_t *floor_of;  /* by buffer; UINT64_MAX once placed */
    uint64_t *offset;    /* by buffer, once placed */
    uint64_t *limit;     /* by buffer: the largest offset that fits */
    uint64_t *key;       /* by buffer: larger is tried first */
    uint32_t *witnessed; /* by buffer: how many sections name it as witness */
    uint64_t *level;     /* by section */
    uint64_t *rest;      /* by section */
    uint32_t *unplaced;  /* by section */
    uint32_t *crossing;  /* by section: unplaced buffers that are also in the next one */
    uint32_t *witness;   /* by section: an unplaced buffer at `level` */
    uint32_t *members;   /* as in the part, but each section's unplaced buffers come first */
    uint32_t *place_of;  /* by membership, in buffer order: where in its section's list it stands */
    uint32_t *moved;     /* sections whose witness moved */
    uint32_t *moved_in;  /* by section: the change in which it was noted */
    uint32_t moved_count;
    uint32_t change;
    uint64_t *lowest; /* tournament over levels, NULL if the part is small */
    uint32_t leaves;
    uint32_t last_section; /* middle of the last placement */

    weir_pack__trail_entry *trail;
    size_t trail_count, trail_capacity;
    weir_pack__frame *frames;
    size_t frame_count, frame_capacity;
    uint32_t *choices;
    size_t choice_count, choice_capacity;

    weir_pack__refuted *refuted;
    uint64_t *words;
    size_t word_count;
    uint32_t generation;
    bool out_of_memory;
};

void weir_pack__corner_reset(weir_pack__corner *corner, const weir_pack__search_task *task);
void weir_pack__corner_set_capacity(weir_pack__corner *corner, uint64_t capacity);
/* Both return false if the state is refuted; the caller undoes to its mark in any case. */
bool weir_pack__corner_place(weir_pack__corner *corner, uint32_t buffer);
bool weir_pack__corner_leave(weir_pack__corner *corner, uint32_t section, uint64_t height);
void weir_pack__corner_undo(weir_pack__corner *corner, size_t mark);
/* The leftmost of the lowest sections in [from, to). Needs the tournament. */
uint32_t weir_pack__corner_lowest(const weir_pack__corner *corner, uint32_t from, uint32_t to);

/* Every bit of the result depends on every bit of `x`. */
static inline uint64_t weir_pack__mix(uint64_t x) {
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 33;
}

#endif
