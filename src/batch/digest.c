/* XXH3 by libxxhash, whose state is made at open (with the system's allocator: the library has no other). */
#include "batch/digest.h"

#include <xxhash.h>

static const char operator_name[] = "weir.batch.digest";

weir_status weir__digester_open(weir__digester *digester, weir_error *error) {
    digester->state = XXH3_createState();
    digester->is_open = digester->state != NULL;
    return digester->is_open ? WEIR_OK : weir__out_of_memory(error, operator_name, 576);
}

void weir__digester_close(weir__digester *digester) {
    if (digester->is_open)
        XXH3_freeState(digester->state);
    *digester = (weir__digester){0};
}

uint64_t weir__sample_digest(const weir__digester *digester, weir_batch_buffer *buffer, uint32_t index,
                             uint32_t rows) {
    const weir_batch *batch = &buffer->batch;
    XXH3_64bits_reset(digester->state);
    for (int id = 0; id < WEIR_FK_ADJ; id++)
        XXH3_64bits_update(digester->state, weir__part_of(buffer, (weir_tensor_id)id, index),
                           (size_t)(batch->tensors[id].size / batch->sequence_count));
    const uint8_t *adjacency = weir__part_of(buffer, WEIR_FK_ADJ, index);
    for (uint32_t r = 0; r < rows; r++)
        XXH3_64bits_update(digester->state, adjacency + (size_t)r * batch->row_count, rows);
    for (int id = WEIR_COL_PERM; id <= WEIR_IN_PERM; id++)
        XXH3_64bits_update(digester->state, weir__part_of(buffer, (weir_tensor_id)id, index),
                           (size_t)(batch->tensors[id].size / batch->sequence_count));
    return XXH3_64bits_digest(digester->state);
}

void weir__batch_digest(const weir__digester *digester, const weir_batch *batch, const uint8_t *data,
                        uint8_t digest[16]) {
    XXH3_128bits_reset(digester->state);
    for (int id = 0; id < WEIR_TENSORS; id++) {
        const weir_tensor *tensor = &batch->tensors[id];
        if (tensor->size > 0)
            XXH3_128bits_update(digester->state, data + tensor->offset, (size_t)tensor->size);
    }
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(digester->state));
    for (size_t i = 0; i < 16; i++)
        digest[i] = canonical.digest[i];
}
