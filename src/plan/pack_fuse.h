/* Fusion of buffers into larger rectangles, and the way back. See pack_fuse.c. */
#ifndef WEIR_PLAN_PACK_FUSE_H
#define WEIR_PLAN_PACK_FUSE_H

#include "plan/pack_internal.h"

typedef enum weir__fuse_mode {
    WEIR__FUSE_STACK_FIRST,
    WEIR__FUSE_JOIN_FIRST,
    WEIR__FUSE_LOOSE,
    WEIR__FUSE_MODES
} weir__fuse_mode;

/* A rectangle: a buffer of the part, or two rectangles, stacked or end to end. */
typedef struct weir__fused {
    uint64_t size;
    uint64_t offset;
    uint32_t first, last;
    uint32_t children[2];
    bool stacked;
    bool gone; /* fused into another */
} weir__fused;

typedef struct weir__fusion {
    weir__fused *nodes; /* the part's buffers come first */
    uint32_t count;     /* of these */
    uint32_t node_count;
    uint32_t *live; /* nodes that are not gone, in canonical order in the end */
    uint32_t live_count;
    uint32_t *spare;
    uint32_t capacity;
} weir__fusion;

weir_status weir__fuse(const weir_env *env, const weir__part *part, weir__fuse_mode mode,
                       weir__fusion *fusion, weir_error *error);
/* The problem over the live rectangles; origin is their node. */
weir_status weir__fusion_part(const weir_env *env, const weir__fusion *fusion, weir__part *part,
                              weir_error *error);
/* Offsets of the part's buffers from those of the fused part. */
void weir__fusion_expand(weir__fusion *fusion, const weir__part *fused, const uint64_t *offsets,
                         uint64_t *expanded);
void weir__fusion_close(const weir_env *env, weir__fusion *fusion);

#endif
