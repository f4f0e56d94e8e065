/* The memory of a run: what it needs, the plan of it, and the slots' arena. */
#ifndef WEIR_SRC_PIPELINE_MEMORY_H
#define WEIR_SRC_PIPELINE_MEMORY_H

#include "pipeline/meter.h"
#include "pipeline/run.h"

typedef struct weir__memory_need {
    uint64_t slots;
    uint64_t slot_size; /* bytes of the largest batch */
    uint64_t list_size; /* what a buffer keeps beside its batch */
    uint64_t workers;
    uint64_t builder_size; /* what the builders of one worker keep */

    /* On the way to a device; 0 where there is none. */
    uint64_t wire_size;  /* a packed batch: one for each slot, and for each place */
    uint64_t places;     /* batches on the device */
    uint64_t table_size; /* the stores' embeddings there */
} weir__memory_need;

/* Fills the sizes, from the builders of one worker that were opened through the meter. OUT_OF_MEMORY. */
WEIR_CHECKED weir_status weir__memory_measure(weir__memory_need *need, const weir__builders *builders,
                                              const weir__meter *meter, weir_error *error);

/* One tensor a slot in the arena `slots`; the lists of each slot and the builders of each worker in the
 * arena `builders`; packed batches in `wires`; what is on a device in `device`. ARENA_TOO_SMALL where the
 * arenas of the host together need more than `limit` (0: no limit). */
WEIR_CHECKED weir_status weir__memory_plan(const weir_env *env, const weir__memory_need *need, uint64_t limit,
                                           weir_plan **out, weir_error *error);

/* What a plan was made for. */
weir__memory_need weir__memory_need_of(const weir_plan *plan);

/* Bytes of an arena, 0 where the plan has none of that name; and where in its arena the index-th tensor of a
 * kind lies: "slot", "wire", "place", "place_wire", "tables". */
uint64_t weir__memory_arena_size(const weir_plan *plan, const char *arena);
uint64_t weir__memory_offset(const weir_plan *plan, const char *kind, uint64_t index);

#endif
