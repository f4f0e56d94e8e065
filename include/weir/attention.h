/* weir/attention.h: attention that follows the foreign keys (docs/attention.md): a cell sees the cells of its
 * column, of its row and its parents, or of its children, and nothing else is computed.
 *
 *   weir_attention_open(NULL, NULL, &attention, &error);             // on the host; or a device's
 *   weir_attention_lists_size(batch.sequences, batch.length, batch.rows, &size, &error);
 *   weir_attention_lists(attention, &batch, lists, 0, &error);       // once per batch: who sees whom
 *   weir_attention_call call = {.size = sizeof call, .pattern = WEIR_ATTENTION_COLUMN, …};
 *   weir_attention_forward(attention, &call, 0, &error);
 *   weir_attention_backward(attention, &call, 0, &error);
 *
 * On a device all pointers are the device's, and work is given to a stream: nothing waits for it, and no
 * number of the device is read. The kernels are compiled when they are needed first, a few seconds each.
 *
 * The same inputs give the same bits, whatever the number of threads: every sum has one order. A cell that
 * sees nothing gets zeros, and so does padding. */
#ifndef WEIR_ATTENTION_H
#define WEIR_ATTENTION_H

#include "weir/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weir_attention_pattern {
    WEIR_ATTENTION_COLUMN,   /* a cell sees the cells of its column */
    WEIR_ATTENTION_OUTBOUND, /* those of its row and of the rows that it has a foreign key to */
    WEIR_ATTENTION_INBOUND,  /* those of the rows that have a foreign key to its row */
} weir_attention_pattern;

/* Of q, k, v and what is made of them. Sums are float32, and float64 of float64. */
typedef enum weir_attention_dtype {
    WEIR_ATTENTION_FLOAT64, /* on the host only */
    WEIR_ATTENTION_FLOAT32,
    WEIR_ATTENTION_FLOAT16,
    WEIR_ATTENTION_BFLOAT16,
} weir_attention_dtype;

typedef struct weir_attention weir_attention;

/* With a device (that must outlive it) or without (NULL: the host's threads). One thread at a time may use
 * it; on the host, any. */
WEIR_API WEIR_CHECKED weir_status weir_attention_open(const weir_env *env, weir_device *device,
                                                      weir_attention **out, weir_error *error);
WEIR_API void weir_attention_close(weir_attention *attention);

/* ---- Lists ------------------------------------------------------------------------------------- */

/* Tensors of a batch, with the bytes that they have in it (weir/tensors.h). */
typedef struct weir_attention_batch {
    uint32_t sequences; /* B */
    uint32_t length;    /* S, at most 65,536 */
    uint32_t rows;      /* R, at most 65,535 */
    uint32_t threads;   /* on the host; 0: the processors */
    const void *seq_row_ids;
    const void *column_ids;
    const void *is_padding;
    const void *fk_adj;
    const void *col_perm;
} weir_attention_batch;

/* The bytes of the lists of such batches. CONTRACT_VIOLATION: no batch has such a shape, or they would be too
 * many. */
WEIR_API WEIR_CHECKED weir_status weir_attention_lists_size(uint32_t sequences, uint32_t length,
                                                            uint32_t rows, uint64_t *out, weir_error *error);

/* Makes the lists in the caller's memory (aligned to 4 bytes). CONTRACT_VIOLATION if a tensor or the memory
 * is NULL (tensors without elements may be). On the host tensors that are not of a batch are
 * CONTRACT_VIOLATION too; on a device they harm nothing but the result. The lists have room for 64 foreign
 * keys per row, on average over a sequence: with more, the host says so, and a device's results are NaN. */
WEIR_API WEIR_CHECKED weir_status weir_attention_lists(weir_attention *attention,
                                                       const weir_attention_batch *batch, void *lists,
                                                       weir_stream stream, weir_error *error);

/* Whether cells see cells, as bytes (0 or 1) of [B, S, S] in the caller's memory, from lists that the host
 * has made for this shape: for attentions that want masks. Any thread. CONTRACT_VIOLATION: a pattern that
 * there is not, or something that is missing. */
WEIR_API WEIR_CHECKED weir_status weir_attention_mask(const void *lists, uint32_t sequences, uint32_t length,
                                                      uint32_t rows, weir_attention_pattern pattern,
                                                      uint8_t *out, weir_error *error);

/* ---- Attention --------------------------------------------------------------------------------- */

/* A tensor [B, H, S, D]: strides in elements of the first three; the last is 1. */
typedef struct weir_attention_tensor {
    void *data;
    int64_t strides[3];
} weir_attention_tensor;

typedef struct weir_attention_call {
    size_t size; /* sizeof(weir_attention_call) */
    weir_attention_pattern pattern;
    weir_attention_dtype dtype;
    uint32_t sequences; /* B, S, R: those of the lists */
    uint32_t length;
    uint32_t rows;
    uint32_t heads;     /* H */
    uint32_t head_size; /* D: 16 to 128 in steps of 16 */
    uint32_t threads;   /* on the host; 0: the processors */
    double scale;       /* of q.k; 0: 1/sqrt(D) */
    const void *lists;
    weir_attention_tensor q, k, v;
    weir_attention_tensor o; /* written by forward, read by backward */
    void *lse;               /* [B, H, S] of float (of double for float64): forward's, for backward */
    weir_attention_tensor o_gradient;
    weir_attention_tensor q_gradient, k_gradient, v_gradient; /* written by backward */
    void *delta;                                              /* [B, H, S] of the same: backward's own */
} weir_attention_call;

/* o = softmax(scale q k^T) v over what each cell sees. On a device rows of tensors are aligned to 16 bytes
 * (data and strides). CONTRACT_VIOLATION names the argument that is wrong. */
WEIR_API WEIR_CHECKED weir_status weir_attention_forward(weir_attention *attention,
                                                         const weir_attention_call *call, weir_stream stream,
                                                         weir_error *error);

/* The gradients of q, k and v. */
WEIR_API WEIR_CHECKED weir_status weir_attention_backward(weir_attention *attention,
                                                          const weir_attention_call *call, weir_stream stream,
                                                          weir_error *error);

#ifdef __cplusplus
}
#endif
#endif
