/* What a pass over records is given: one struct, by value, for the host's functions and for the kernels
 * (tensor_cores.cu, floats.cu). */
#ifndef WEIR_ATTENTION_PASS_KERNEL_H
#define WEIR_ATTENTION_PASS_KERNEL_H

#include "attention/records_kernel.h"

/* FORWARD writes o and lse; QUERIES, of the backward pass, delta and q's gradient; KEYS, after it, those of k
 * and v. */
typedef enum weir_attention__pass {
    WEIR_ATTENTION__FORWARD,
    WEIR_ATTENTION__QUERIES,
    WEIR_ATTENTION__KEYS,
    WEIR_ATTENTION__PASSES
} weir_attention__pass;

typedef struct weir_attention__strided {
    uint8_t *data;
    int64_t b, h, s; /* strides in elements */
} weir_attention__strided;

typedef struct weir_attention__arguments {
    weir_attention__strided q, k, v, o, g, dq, dk, dv;
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
} weir_attention__arguments;

#endif
