/* The digests of a batch and of its samples: whether two are the same bytes. No security boundary. */
#ifndef WEIR_SRC_BATCH_DIGEST_H
#define WEIR_SRC_BATCH_DIGEST_H

#include "batch/buffer.h"

typedef struct weir__digester {
    bool is_open;
    void *state; /* libxxhash's */
} weir__digester;

WEIR_CHECKED weir_status weir__digester_open(weir__digester *digester, weir_error *error);
void weir__digester_close(weir__digester *digester);

/* Of sequence `index`, while its text numbers are global still. */
uint64_t weir__sample_digest(const weir__digester *digester, weir_batch_buffer *buffer, uint32_t index,
                             uint32_t rows);

/* Of a finished batch, whose bytes may have come back from elsewhere. */
void weir__batch_digest(const weir__digester *digester, const weir_batch *batch, const uint8_t *data,
                        uint8_t digest[16]);

#endif
