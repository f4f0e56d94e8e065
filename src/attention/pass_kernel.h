/* What a pass over records is given: one struct, by value, for the host's functions and for the kernels
 * (tensor_cores.cu, floats.cu). */
#ifndef WEIR_ATTENTION_PASS_KERNEL_H
#define WEIR_ATTENTION_PASS_KERNEL_H

#include "attention/lists_kernel.h"

/* FORWARD writes o and lse; QUERIES, of the backward pass, delta and q's gradient; KEYS, after it, those of k
 * and v. */
typedef enum weir__attention_pass {
    WEIR__ATTENTION_FORWARD,
    WEIR__ATTENTION_QUERIES,
    WEIR__ATTENTION_KEYS,
    WEIR__ATTENTION_PASSES
} weir__attention_pass;

typedef struct weir__attention_tensor {
    uint8_t *data;
    int64_t b, h, s; /* strides in elements */
} weir__attention_tensor;

typedef struct weir__attention_arguments {
    weir__attention_tensor q, k, v, o, g, dq, dk, dv;
    uint8_t *lse, *delta; /* [B, H, S] */
    const uint32_t *words;
    uint64_t counts;  /* of the list's records, by kind */
    uint64_t records; /* where they begin */
    attention_layout at;
    uint32_t heads;
    uint32_t is_column;
    uint32_t pass, dtype, head_size; /* what a kernel was compiled for */
    uint32_t done;                   /* units of work that an earlier launch has taken */
    uint32_t skips_long;             /* the records of kind LONG are taken by warp_groups.cu */
    double scale;
} weir__attention_arguments;

#endif
