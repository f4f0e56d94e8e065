/* weir/arenas.h: a plan becomes memory, on the host or on a GPU (docs/planner.md, "Arenas").
 *
 *   weir_arenas_open(NULL, plan, NULL, &arenas, &error);
 *   weir_arenas_prepare(arenas, 0, state_hash, &error);          // zero every tensor, commit
 *   weir_arenas_tensor(arenas, "h0", 2, &memory, &size, &error);
 *
 * Each arena of the plan is a range of addresses of its own, with memory mapped in. The memory can be given
 * back, replaced, moved or shared (weir_arenas_remap), and every tensor keeps its address. Pointers are the
 * memory's own: a device's addresses are for the device.
 *
 * A set of arenas copies what it needs of its plan, which may be closed. Any number of threads may call the
 * functions that take it as const; the others are for one thread at a time, with nobody else at work in the
 * memory that they change. Private memory of the host is copied on write in a child of fork, as other memory
 * is; a weir_backing is shared with it.
 *
 * Every call that can fail can also give OUT_OF_MEMORY and the memory's own errors (DEVICE_ERROR). */
#ifndef WEIR_ARENAS_H
#define WEIR_ARENAS_H

#include "weir/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_arenas weir_arenas;

/* Zero what is not wanted. */
typedef struct weir_arenas_options {
    size_t size;               /* of this struct */
    const uint8_t *fill_token; /* if given: DebugFill under it fills every byte at opening */
    size_t fill_token_size;
    weir_memory memory;     /* what they are made of, such as a device's; zeros: the host's */
    bool is_empty;          /* addresses alone: weir_arenas_remap brings the memory */
    bool reserves_capacity; /* an arena's range has its capacity, if the plan gives one, not just its peak */
    const char *only;       /* the one arena that has addresses and memory; NULL: all have */
} weir_arenas_options;

/* Reserves a range of addresses for every arena of the plan and maps zeroed memory for its peak bytes. A
 * range is aligned to the arena's alignment, and to huge pages if it has room for some. Memory without pages
 * of its own (pinned memory, for instance) is taken whole. Options may be NULL. The caller owns *arenas.
 * ALLOCATION_OVERFLOW (more than the address space), CONTRACT_VIOLATION (options). */
WEIR_API WEIR_CHECKED weir_status weir_arenas_open(const weir_env *env, const weir_plan *plan,
                                                   const weir_arenas_options *options, weir_arenas **arenas,
                                                   weir_error *error);
WEIR_API void weir_arenas_close(weir_arenas *arenas);

/* ---- Where things are -------------------------------------------------------------------------- */

/* An arena's memory: base and peak bytes. NULL and 0 for a name that the plan does not have, and for an
 * arena that needs no bytes. */
WEIR_API void *weir_arenas_base(const weir_arenas *arenas, const char *arena, size_t arena_size,
                                size_t *size);

/* Where a tensor lies, by id. CONTRACT_VIOLATION if the plan has none of that id. */
WEIR_API WEIR_CHECKED weir_status weir_arenas_tensor(const weir_arenas *arenas, const char *id,
                                                     size_t id_size, void **memory, size_t *size,
                                                     weir_error *error);

/* The same at a position of the schedule: CONTRACT_VIOLATION also if the tensor is not live then. */
WEIR_API WEIR_CHECKED weir_status weir_arenas_tensor_at(const weir_arenas *arenas, const char *id,
                                                        size_t id_size, uint64_t position, void **memory,
                                                        size_t *size, weir_error *error);

/* Where an address leads at a position: an address names a slot, and the slot's tensor that is live then is
 * meant. `arena` NULL: the arena that has the address. CONTRACT_VIOLATION for an unknown arena or address
 * (or an address that two arenas have), and for an access before birth or after death. */
WEIR_API WEIR_CHECKED weir_status weir_arenas_resolve(const weir_arenas *arenas, const char *arena,
                                                      size_t arena_size, uint64_t address, uint64_t position,
                                                      void **memory, size_t *size, weir_error *error);

/* ---- ZeroTensor_v1, DebugFill, CommitExecution_v1 ----------------------------------------------- */

/* Writes zeros to a tensor's bytes. CONTRACT_VIOLATION: no such tensor, or its memory was given back. */
WEIR_API WEIR_CHECKED weir_status weir_arenas_zero(weir_arenas *arenas, const char *id, size_t id_size,
                                                   weir_error *error);

/* CommitExecution_v1: a barrier over the arenas in name order (all work on their device is done); seals the
 * batch and gives its state hash, SHA-256(CBOR(["tmmu_commit_v1", plan_hash, batch])). Calling it
 * again for the same batch gives the same hash. On the host it cannot fail. */
WEIR_API WEIR_CHECKED weir_status weir_arenas_commit(weir_arenas *arenas, uint64_t batch,
                                                     uint8_t state_hash[WEIR_HASH_SIZE], weir_error *error);

/* A commit at a position of the schedule, which seals what is visible after the batch
 * (docs/spec/03g-commit.md). */
typedef struct weir_commit_options {
    size_t size; /* of this struct */
    uint64_t batch;
    uint64_t position;  /* whose live tensors are sealed */
    bool with_contents; /* also a hash of their bytes: all of them are read */
} weir_commit_options;

typedef struct weir_commit {
    uint8_t state_hash[WEIR_HASH_SIZE]; /* as weir_arenas_commit's */
    uint8_t visibility_hash[WEIR_HASH_SIZE];
    const uint8_t *state; /* canonical CBOR; lives until another batch is sealed, or the arenas are closed */
    size_t state_size;
} weir_commit;

/* CONTRACT_VIOLATION: the batch was sealed at another position or without contents, or contents without
 * memory. If a barrier fails, the diagnostic `arena` names its arena, and nothing is sealed. */
WEIR_API WEIR_CHECKED weir_status weir_arenas_seal(weir_arenas *arenas, const weir_commit_options *options,
                                                   weir_commit *commit, weir_error *error);

/* Says that a tensor was written through its pointer: the next sealed batch counts its bytes.
 * CONTRACT_VIOLATION: no such tensor. */
WEIR_API WEIR_CHECKED weir_status weir_arenas_written(weir_arenas *arenas, const char *id, size_t id_size,
                                                      weir_error *error);

/* The last steps of PrepareMemory_v2 in one call: zeros every tensor in the order of the plan's tensor map,
 * then commits. Errors as of the two; if a tensor has no memory, nothing is zeroed. */
WEIR_API WEIR_CHECKED weir_status weir_arenas_prepare(weir_arenas *arenas, uint64_t batch,
                                                      uint8_t state_hash[WEIR_HASH_SIZE], weir_error *error);

/* ---- Memory at the addresses -------------------------------------------------------------------- */

/* Bytes that have a handle and no address: they can be mapped into several arenas at once (two models that
 * never run at the same time share them), and into other processes. */
typedef struct weir_backing weir_backing;

/* Makes zeroed memory of `size` bytes, rounded up to a page; `memory` NULL: the host's. Closing it leaves
 * what is mapped in place. CONTRACT_VIOLATION if the memory has no pages. The caller owns *backing. */
WEIR_API WEIR_CHECKED weir_status weir_backing_open(const weir_env *env, const weir_memory *memory,
                                                    size_t size, weir_backing **backing, weir_error *error);
WEIR_API void weir_backing_close(weir_backing *backing);
WEIR_API size_t weir_backing_size(const weir_backing *backing);

/* The system's own name of it: the file's number on the host (a memfd, to be sent to another process), the
 * driver's allocation handle (CUmemGenericAllocationHandle) on a GPU. */
WEIR_API uint64_t weir_backing_handle(const weir_backing *backing);

/* What an arena's range has. */
typedef struct weir_arena_pages {
    uint64_t page_size;    /* what remapping counts in: the arena's, at least that of the memory; 0: none */
    uint64_t range_bytes;  /* reserved */
    uint64_t backed_bytes; /* that have memory now */
} weir_arena_pages;

/* All zeros for an arena that the plan does not have or that needs no bytes; a page size of 0 if it cannot
 * be remapped. */
WEIR_API weir_arena_pages weir_arenas_pages(const weir_arenas *arenas, const char *arena, size_t arena_size);

/* Whether all these bytes of an arena have memory now. */
WEIR_API bool weir_arenas_has_memory(const weir_arenas *arenas, const void *memory, size_t size);

typedef enum weir_remap_target {
    WEIR_REMAP_NEW,     /* new memory: zeroed, or with what was there */
    WEIR_REMAP_BACKING, /* the backing's */
    WEIR_REMAP_NOTHING  /* none: the memory is given back, and the addresses stay reserved */
} weir_remap_target;

/* Zero what is not wanted. */
typedef struct weir_remap {
    size_t size; /* of this struct */
    weir_remap_target target;
    uint64_t offset; /* in the arena; a multiple of its page size, as all offsets and sizes here */
    uint64_t bytes;  /* 0: up to the range's end */
    const weir_backing *backing;
    uint64_t backing_offset; /* a GPU's driver takes 0 alone */
    bool keeps; /* NEW and BACKING: the bytes that are there are copied; pages without memory give nothing */
} weir_remap;

/* Replaces the memory at a part of an arena's range, after all work on the device is done. Addresses stay.
 * Memory of NEW is replaced page by page, so after an error each page has either its old memory or its new
 * one, both with what was there if `keeps` is set; a driver that fails in the middle may leave the page at
 * hand without memory. On a GPU what was mapped from a backing is replaced whole or not at all.
 * CONTRACT_VIOLATION: no such arena, numbers that are not multiples or that reach past the range or the
 * backing, a part of a mapping, memory without pages. */
WEIR_API WEIR_CHECKED weir_status weir_arenas_remap(weir_arenas *arenas, const char *arena, size_t arena_size,
                                                    const weir_remap *remap, weir_error *error);

#ifdef __cplusplus
}
#endif
#endif
