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
} weir__memory_need;

/* Fills the sizes, from the builders of one worker that were opened through the meter. OUT_OF_MEMORY. */
WEIR_CHECKED weir_status weir__memory_measure(weir__memory_need *need, const weir__builders *builders,
                                              const weir__meter *meter, weir_error *error);

/* One tensor a slot in the arena `slots`; the lists of each slot and the builders of each worker in the
 * arena `builders`. ARENA_TOO_SMALL where all arenas together need more than `limit` (0: no limit). */
WEIR_CHECKED weir_status weir__memory_plan(const weir_env *env, const weir__memory_need *need, uint64_t limit,
                                           weir_plan **out, weir_error *error);

/* Bytes of the arena `slots`, and where in it a slot lies. */
uint64_t weir__memory_arena_size(const weir_plan *plan);
uint64_t weir__memory_slot_offset(const weir_plan *plan, uint64_t slot);

#endif
