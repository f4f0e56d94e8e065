/* Fusion of buffers into larger rectangles, and the way back. See pack_fuse.c. */
#ifndef WEIR_PLAN_PACK_FUSE_H
#define WEIR_PLAN_PACK_FUSE_H

#include "plan/pack_internal.h"

typedef enum weir_pack__fuse_key {
    WEIR_PACK__FUSE_LIFETIME, /* (first, last) */
    WEIR_PACK__FUSE_BIRTH,    /* (first, size) */
    WEIR_PACK__FUSE_DEATH,    /* (last, size) */
    WEIR_PACK__FUSE_KEYS
} weir_pack__fuse_key;

/* A rectangle: a row of the sweep, or two rectangles, stacked or end to end. */
typedef struct weir_pack__fused {
    uint64_t size;
    uint64_t offset;
    uint32_t first, last;
    uint32_t children[2]; /* WEIR_PACK__NO_INDEX for a row */
    uint32_t barred;      /* what it must not be joined to, from its end */
    bool stacked;
    bool gone;   /* fused into another, or apart */
    bool apart;  /* was taken apart again: its halves are live or in others */
    bool queued; /* is to be looked at */
    uint32_t next[WEIR_PACK__FUSE_KEYS], previous[WEIR_PACK__FUSE_KEYS]; /* chains of what has one hash */
} weir_pack__fused;

typedef struct weir_pack__fusion {
    weir__arena memory;      /* of all arrays */
    weir_pack__fused *nodes; /* the rows come first */
    uint32_t count;          /* of these */
    uint32_t node_count;
    uint32_t capacity;
    uint32_t live_count; /* nodes that are not gone */
    uint32_t *heads[WEIR_PACK__FUSE_KEYS];
    unsigned hash_bits;
    uint32_t *queue; /* a ring */
    uint32_t queue_mask;
    uint32_t queue_from, queue_to;
    uint64_t steps;
} weir_pack__fusion;

/* Fuses the rows of a sweep. OUT_OF_MEMORY only. */
weir_status weir_pack__fuse(const weir_env *env, const weir_pack__sweep *sweep, weir_pack__fusion *fusion,
                            weir_error *error);
/* The problem over the live rectangles: their lifetimes are sections. `buffers` has live_count entries. */
void weir_pack__fusion_buffers(const weir_pack__fusion *fusion, weir_buffer *buffers);
/* Offsets of the rows from those of the buffers that weir_pack__fusion_buffers gave. */
void weir_pack__fusion_expand(weir_pack__fusion *fusion, const uint64_t *offsets, uint64_t *expanded);
void weir_pack__fusion_close(weir_pack__fusion *fusion);

#endif
