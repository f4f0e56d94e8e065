/* XXH3 by libxxhash, whose states are made at open (with the system's allocator: the library has no other).
 *
 * A batch's digest is of its tensors, one after the other; a sample's of its own part of them. Both are made
 * in one pass. A buffer that has no tensors gives the same bytes: a part of a sequence is expanded from the
 * compact form, hashed by both, and forgotten. */
#include "batch/digest.h"

#include <xxhash.h>

#include "base/narrow.h"
#include "batch/expand.h"
#include "batch/expand_kernel.h"
#include "batch/recipe.h"
#include "weir_tool/store_tools.h"

static const char operator_name[] = "weir.batch.digest";

enum { CELL_BYTES_MOST = 4 * WEIR_TIMESTAMP_FLOATS };

/* ---- Opening --------------------------------------------------------------------------------- */

weir_status weir_batch__digester_open(weir_batch__digester *d, const weir_env *env,
                                      const weir_batch__limits *limits, weir_error *error) {
    uint64_t cells = CELL_BYTES_MOST * limits->length;
    *d = (weir_batch__digester){.part_size = cells > limits->rows ? cells : limits->rows};
    d->batch = XXH3_createState();
    d->part = weir__allocate(env, (size_t)d->part_size, 1);
    d->samples = weir__allocate_zero(env, (size_t)limits->sequences, sizeof *d->samples);
    while (d->samples && d->count < limits->sequences && (d->samples[d->count] = XXH3_createState()))
        d->count++;
    if (d->batch && d->part && d->samples && d->count == limits->sequences)
        return WEIR_OK;
    weir_batch__digester_close(d, env);
    return weir__out_of_memory(error, operator_name, (size_t)d->part_size);
}

void weir_batch__digester_close(weir_batch__digester *d, const weir_env *env) {
    XXH3_freeState(d->batch);
    for (uint64_t i = 0; i < d->count; i++)
        XXH3_freeState(d->samples[i]);
    weir__release(env, d->samples);
    weir__release(env, d->part);
    *d = (weir_batch__digester){0};
}

/* ---- Digesting ------------------------------------------------------------------------------- */

/* A part of all sequences, as it is in the tensors. */
static void digest_cells(const weir_batch__digester *d, const weir_batch__rules *const *rules,
                         const weir_batch_buffer *b, weir_tensor_id id) {
    const weir_batch *batch = &b->batch;
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        size_t size = (size_t)(batch->tensors[id].size / batch->sequence_count);
        const uint8_t *part = b->tensors ? b->tensors + batch->tensors[id].offset + i * size : d->part;
        if (!b->tensors)
            weir_batch__expand_part(batch->rules, b->compact, i, id, d->part);
        XXH3_128bits_update(d->batch, part, size);
        if (id == WEIR_TEXT_EMBED_IDS) { /* a sample has the store's numbers, which no neighbour changes */
            weir_batch__expand_texts(batch->rules, rules[b->samples[i].member], b->compact, i, b->texts,
                                     d->part);
            part = d->part;
        }
        XXH3_64bits_update(d->samples[i], part, size);
    }
}

/* Rows [begin, end) of the matrix. A sample has its own rows alone. */
static void digest_rows(const weir_batch__digester *d, const weir_batch_buffer *b, uint32_t index,
                        uint32_t begin, uint32_t end, const uint8_t *matrix) {
    uint32_t width = b->batch.row_count;
    uint32_t rows = weir__load32(b->compact + sequence_offset(index) + SEQUENCE_ROWS);
    XXH3_128bits_update(d->batch, matrix, (size_t)(end - begin) * width);
    for (uint32_t r = begin; r < end && r < rows; r++)
        XXH3_64bits_update(d->samples[index], matrix + (size_t)(r - begin) * width, rows);
}

static void digest_edges(const weir_batch__digester *d, const weir_batch_buffer *b, uint32_t index) {
    uint32_t width = b->batch.row_count;
    if (width == 0)
        return;
    if (b->tensors) {
        uint64_t offset = b->batch.tensors[WEIR_FK_ADJ].offset + (uint64_t)index * width * width;
        digest_rows(d, b, index, 0, width, b->tensors + offset);
        return;
    }
    uint32_t step = WEIR__LOW(uint32_t, d->part_size / width);
    for (uint32_t begin = 0; begin < width; begin += step) {
        uint32_t end = width - begin < step ? width : begin + step;
        weir_batch__expand_edges(b->compact, index, width, begin, end, d->part);
        digest_rows(d, b, index, begin, end, d->part);
    }
}

static void store_digest(void *state, uint8_t digest[16]) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    memcpy(digest, canonical.digest, 16);
}

void weir_batch__digest_batch(const weir_batch__digester *d, const weir_batch__rules *const *rules,
                              weir_batch_buffer *b) {
    weir_batch *batch = &b->batch;
    XXH3_128bits_reset(d->batch);
    for (uint32_t i = 0; i < batch->sequence_count; i++)
        XXH3_64bits_reset(d->samples[i]);
#define DIGEST(id, ...) digest_cells(d, rules, b, WEIR_##id);
    WEIR_CELL_TENSORS(DIGEST)
    for (uint32_t i = 0; i < batch->sequence_count; i++)
        digest_edges(d, b, i);
    WEIR_PERMUTATIONS(DIGEST)
#undef DIGEST
    uint64_t beyond = batch->compact_size - b->here;
    uint64_t texts_here = batch->tensors[WEIR_TEXT_BATCH_EMBEDDINGS].size - beyond;
    XXH3_128bits_update(d->batch, b->compact + b->here - texts_here, (size_t)texts_here);
    XXH3_128bits_update(d->batch, b->beyond, (size_t)beyond);
#define DIGEST_OPTIONAL(id, ...)                                                                             \
    if (batch->tensors[WEIR_##id].name)                                                                      \
        digest_cells(d, rules, b, WEIR_##id);
    WEIR_OPTIONAL_TENSORS(DIGEST_OPTIONAL)
#undef DIGEST_OPTIONAL
    for (uint32_t i = 0; i < batch->sequence_count; i++)
        b->digests[i] = XXH3_64bits_digest(d->samples[i]);
    uint32_t size = batch->group_size; /* the digest of a group is over those of its sequences */
    for (uint32_t i = 0; size > 1 && i < batch->sequence_count / size; i++) {
        XXH3_state_t *state = d->samples[i];
        XXH3_64bits_reset(state);
        for (uint32_t k = 0; k < size; k++) {
            uint8_t bytes[8];
            weir__store64(bytes, b->digests[(size_t)i * size + k]);
            XXH3_64bits_update(state, bytes, sizeof bytes);
        }
        b->group_digests[i] = XXH3_64bits_digest(state);
    }
    store_digest(d->batch, batch->batch_digest);
}

void weir_batch__digest_tensors(const weir_batch__digester *d, const weir_batch *batch, const uint8_t *data,
                                uint8_t digest[16]) {
    XXH3_128bits_reset(d->batch);
    for (int id = 0; id < WEIR_TENSORS; id++)
        if (batch->tensors[id].size > 0)
            XXH3_128bits_update(d->batch, data + batch->tensors[id].offset, (size_t)batch->tensors[id].size);
    store_digest(d->batch, digest);
}
