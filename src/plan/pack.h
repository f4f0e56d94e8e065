/* Packing: every buffer has a fixed lifetime and slides in address; the packer makes the top as low as it
 * can.
 *
 * weir_pack__pack is a pure function of its arguments: the same buffers, options and ranks give the same
 * offsets whatever the thread count and whatever the order of the rows (see `rank`). Effort is counted in
 * steps of work, never in seconds. pack_validate.c shares no code with the packer and checks any layout.
 * docs: "Packing" in docs/planner.md. */
#ifndef WEIR_PLAN_PACK_H
#define WEIR_PLAN_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/plan.h"

#define WEIR_PACK__OPERATOR "UML_OS.TMMU.PackArena_v1"

enum { WEIR_PACK__EFFORT_MAX = 9, WEIR_PACK__EFFORT_DEFAULT = 5, WEIR_PACK__THREADS_MAX = 64 };

typedef struct weir_pack__options {
    uint32_t effort;      /* 0 (one greedy pass) to WEIR_PACK__EFFORT_MAX */
    uint32_t threads;     /* 0 is read as 1; never changes the result */
    uint64_t alignment;   /* 0 is read as 1; must divide every size */
    uint64_t capacity;    /* UINT64_MAX: none. The search stops as soon as the layout fits it */
    const uint32_t *rank; /* order among buffers equal in lifetime and size: a permutation; NULL: by index */
    uint32_t without;     /* strategies that are left out: bits, from weir_pack__choose */
    const uint64_t *initial; /* a valid layout that the result must not exceed; NULL: none */
} weir_pack__options;

typedef struct weir_pack__result {
    uint64_t peak;          /* largest offset + size */
    uint64_t lower_bound;   /* largest sum of live sizes */
    bool optimal;           /* peak is proven to be the least possible */
    bool infeasible_proven; /* a capacity was given and no layout can fit it */
    uint64_t steps;         /* work done, in the packer's own units; the same for every thread count */
} weir_pack__result;

/* The steps that an effort may take over a number of buffers. `steps` passes it by an eighth at most, because
 * a fit or a short search that has begun is finished. */
uint64_t weir_pack__budget(uint32_t effort, size_t count);

/* Reads "name,name": all strategies but these get their bit in *without. NULL: every strategy is wanted.
 * CONTRACT_VIOLATION names one that there is not, and those that there are. */
WEIR_CHECKED weir_status weir_pack__choose(const char *names, uint32_t *without, weir_error *error);

/* Writes an offset for each of `count` buffers (offset 0 for size 0). A capacity that is not met is no
 * error here: the caller compares `peak` with it. Thread-safe; `threads` > 1 starts threads through the env
 * and joins them. CONTRACT_VIOLATION (an empty lifetime, a size off the alignment, effort or count out of
 * range), ALLOCATION_OVERFLOW (the sum of all sizes passes 64 bits), OUT_OF_MEMORY. */
WEIR_CHECKED weir_status weir_pack__pack(const weir_env *env, const weir_buffer *buffers, size_t count,
                                         const weir_pack__options *options, uint64_t *offsets,
                                         weir_pack__result *result, weir_error *error);

/* weir_pack with a rank, as in weir_pack__options. */
WEIR_CHECKED weir_status weir_pack__ranked(const weir_env *env, const weir_buffer *buffers, size_t count,
                                           const uint32_t *rank, const weir_packing_options *options,
                                           uint64_t *offsets, weir_packing_result *result, weir_error *error);

/* A fault of a layout: two buffers that are live together and overlap, or one that is misaligned or passes
 * the end of the address space (then second == first). */
typedef struct weir_pack__fault {
    size_t first;
    size_t second;
} weir_pack__fault;

/* Recomputes overlaps from scratch in O(n log n). WEIR_OK and *valid, *peak; where not valid, *fault names
 * one offending pair. OUT_OF_MEMORY. */
WEIR_CHECKED weir_status weir_pack__validate(const weir_env *env, const weir_buffer *buffers, size_t count,
                                             uint64_t alignment, const uint64_t *offsets, bool *valid,
                                             uint64_t *peak, weir_pack__fault *fault, weir_error *error);

#endif
