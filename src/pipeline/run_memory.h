/* The memory of a run: what it needs, the plan of it, and its arenas. */
#ifndef WEIR_PIPELINE_RUN_MEMORY_H
#define WEIR_PIPELINE_RUN_MEMORY_H

#include "pipeline/meter.h"
#include "pipeline/schedule.h"
#include "weir/arenas.h"

/* Of slots, each table of a store, and the rules of each dataset, on a device. */
enum { WEIR_PIPELINE__DEVICE_ALIGNMENT = 256 };

typedef struct weir_pipeline__memory_need {
    uint64_t slots;
    uint64_t slot_size;    /* bytes of a batch in its compact form: the largest; on the way to a device the
                              usual one, and … */
    uint64_t compact_size; /* … the largest in the places there */
    uint64_t tensor_size;  /* and of its tensors: one for each slot, or for each place on a device */
    uint64_t list_size;    /* what a buffer keeps beside its batch, texts that its slot has no room for too */
    uint64_t sequences;    /* the most of a batch */
    uint64_t workers;
    uint64_t builder_size; /* what the builders of one worker keep */

    /* On a device; 0 if there is none. */
    uint64_t places;     /* batches there */
    uint64_t table_size; /* the stores' embeddings */
    uint64_t rules_size; /* by which batches are expanded */
} weir_pipeline__memory_need;

/* Fills the sizes, from the builders of one worker that were opened through the meter; of slots of batches
 * that go to a device if need->places is more than 0. OUT_OF_MEMORY. */
WEIR_CHECKED weir_status weir_pipeline__memory_measure(weir_pipeline__memory_need *need,
                                                       const weir_pipeline__builders *builders,
                                                       const weir_pipeline__meter *meter, weir_error *error);

/* A compact batch for each slot in the arena `slots`, and its tensors in `tensors`, unless they are on a
 * device or there are none; the lists of each slot and the builders of each worker in `builders`; what is on
 * a device in `device`. ARENA_TOO_SMALL if the arenas of the host together need more than `limit` (0: no
 * limit). Addresses are of the token. */
WEIR_CHECKED weir_status weir_pipeline__memory_plan(const weir_env *env,
                                                    const weir_pipeline__memory_need *need, uint64_t limit,
                                                    const uint8_t token[WEIR_TOKEN_SIZE], weir_plan **out,
                                                    weir_error *error);

/* One arena of the plan in memory of a kind. Fails with the memory's own error, or OUT_OF_MEMORY. */
WEIR_CHECKED weir_status weir_pipeline__memory_open(const weir_env *env, const weir_plan *plan,
                                                    const char *arena, const weir_memory *memory,
                                                    weir_arenas **out, weir_error *error);

/* Where the index-th tensor of a kind lies: "slot", "tensors", "place", "place_slot", "tables", "rules". */
void *weir_pipeline__memory_at(const weir_arenas *arenas, const char *kind, uint64_t index);

/* The sets of a run's arenas. */
typedef struct weir_pipeline__sets {
    weir_arenas *compact; /* the arena `slots`; it also keeps what is sealed of all arenas */
    weir_arenas *tensors; /* `tensors`, or NULL … */
    weir_arenas *there;   /* … and `device` */
} weir_pipeline__sets;

/* CommitExecution_v1 of a run's memory before the batch of a step is given (docs/spec/03g-commit.md, "In a
 * run"). A barrier that fails names its arena. */
WEIR_CHECKED weir_status weir_pipeline__memory_commit(const weir_pipeline__sets *sets, uint64_t step,
                                                      bool is_first, weir_commit *commit, weir_error *error);

#endif
