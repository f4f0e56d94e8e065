/* The digests of a batch and of its samples: whether two are the same bytes. No security boundary. */
#ifndef WEIR_BATCH_DIGEST_H
#define WEIR_BATCH_DIGEST_H

#include "batch/buffer.h"
#include "batch/rules.h"

typedef struct weir_batch__digester {
    void *batch;    /* libxxhash's states … */
    void **samples; /* … one per sequence */
    uint64_t count; /* of them */
    uint8_t *part;  /* room for one part of one sequence, or some rows of its matrix */
    uint64_t part_size;
} weir_batch__digester;

/* With limits of 0 it digests tensors alone. */
WEIR_CHECKED weir_status weir_batch__digester_open(weir_batch__digester *digester, const weir_env *env,
                                                   const weir_batch__limits *limits, weir_error *error);
void weir_batch__digester_close(weir_batch__digester *digester, const weir_env *env);

/* Those of a batch that is complete but for them: from its tensors, or, if the buffer has none, from the
 * compact form. `rules` are those of each dataset that it has sequences of. */
void weir_batch__digest_batch(const weir_batch__digester *digester, const weir_batch__rules *const *rules,
                              weir_batch_buffer *buffer);

/* Of tensors that may have come back from elsewhere. */
void weir_batch__digest_tensors(const weir_batch__digester *digester, const weir_batch *batch,
                                const uint8_t *data, uint8_t digest[16]);

#endif
