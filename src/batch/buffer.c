/* See buffer.h. Parts lie one after the other, each at a multiple of 256 bytes. */
#include "batch/buffer.h"

#include <string.h>

static const char operator_name[] = "weir.batch.buffer";

enum { ALIGNMENT = 256 };

typedef enum axis { NO_AXIS, AXIS_B, AXIS_S, AXIS_R, AXIS_U, AXIS_D, AXIS_15 } axis;

typedef struct part {
    const char *name;
    const char *dtype;
    uint32_t item_size;
    axis axes[3];
} part;

static const part parts[WEIR_BATCH_PARTS] = {
    {"semantic_types", "int8", 1, {AXIS_B, AXIS_S}},
    {"column_ids", "int32", 4, {AXIS_B, AXIS_S}},
    {"seq_row_ids", "uint16", 2, {AXIS_B, AXIS_S}},
    {"is_null", "uint8", 1, {AXIS_B, AXIS_S}},
    {"numeric_values", "float32", 4, {AXIS_B, AXIS_S}},
    {"timestamp_values", "float32", 4, {AXIS_B, AXIS_S, AXIS_15}},
    {"bool_values", "uint8", 1, {AXIS_B, AXIS_S}},
    {"categorical_embed_ids", "uint32", 4, {AXIS_B, AXIS_S}},
    {"text_embed_ids", "uint32", 4, {AXIS_B, AXIS_S}},
    {"is_target", "uint8", 1, {AXIS_B, AXIS_S}},
    {"is_padding", "uint8", 1, {AXIS_B, AXIS_S}},
    {"fk_adj", "uint8", 1, {AXIS_B, AXIS_R, AXIS_R}},
    {"col_perm", "uint16", 2, {AXIS_B, AXIS_S}},
    {"out_perm", "uint16", 2, {AXIS_B, AXIS_S}},
    {"in_perm", "uint16", 2, {AXIS_B, AXIS_S}},
    {"text_batch_embeddings", "float16", 2, {AXIS_U, AXIS_D}},
    {"sample_index", "uint64", 8, {AXIS_B}},
    {"position", "uint64", 8, {AXIS_B}},
    {"anchor_row", "uint32", 4, {AXIS_B}},
    {"observation_time", "int64", 8, {AXIS_B}},
    {"num_cells", "uint32", 4, {AXIS_B}},
    {"num_rows", "uint32", 4, {AXIS_B}},
};

static uint64_t extent(const weir_batch *batch, axis a) {
    switch (a) {
    case AXIS_B:
        return batch->sequence_count;
    case AXIS_S:
        return batch->sequence_length;
    case AXIS_R:
        return batch->row_count;
    case AXIS_U:
        return batch->text_count;
    case AXIS_D:
        return batch->embedding_dim;
    default:
        return WEIR_TIMESTAMP_FLOATS;
    }
}

/* Sizes that no memory holds become the largest number, which no allocation grants. */
static uint64_t times(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t end_of(const weir_tensor *tensor) {
    uint64_t end;
    return __builtin_add_overflow(tensor->offset, tensor->size, &end) ? UINT64_MAX : end;
}

static uint64_t aligned(uint64_t offset) {
    return offset > UINT64_MAX - ALIGNMENT ? UINT64_MAX
                                           : (offset + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
}

static void place_parts(weir_batch *batch, uint32_t begin, uint32_t end) {
    uint64_t offset = begin ? end_of(&batch->tensors[begin - 1]) : 0;
    for (uint32_t i = begin; i < end; i++) {
        weir_tensor *tensor = &batch->tensors[i];
        *tensor = (weir_tensor){.name = parts[i].name, .dtype = parts[i].dtype, .size = parts[i].item_size};
        for (uint32_t k = 0; k < 3 && parts[i].axes[k] != NO_AXIS; k++) {
            tensor->shape[tensor->rank++] = extent(batch, parts[i].axes[k]);
            tensor->size = times(tensor->size, extent(batch, parts[i].axes[k]));
        }
        tensor->offset = aligned(offset);
        offset = end_of(tensor);
    }
    batch->size = offset;
}

void weir__batch_place_cells(weir_batch *batch, uint32_t sequences, uint32_t length) {
    batch->sequence_count = sequences;
    batch->sequence_length = length;
    place_parts(batch, 0, WEIR_FK_ADJ);
}

void weir__batch_place_rest(weir_batch *batch, uint32_t rows, uint32_t texts, uint32_t dim) {
    batch->row_count = rows;
    batch->text_count = texts;
    batch->embedding_dim = dim;
    place_parts(batch, WEIR_FK_ADJ, WEIR_BATCH_PARTS);
}

uint64_t weir__batch_capacity(const weir__batch_limits *limits) {
    weir_batch batch = {0};
    weir__batch_place_cells(&batch, limits->sequences, limits->length);
    weir__batch_place_rest(&batch, limits->rows, limits->texts, limits->dim);
    return aligned(batch.size);
}

static bool allocate_lists(weir_batch_buffer *b) {
    const weir_env *env = b->env;
    const weir__batch_limits *l = &b->limits;
    b->epochs = weir__allocate_zero(env, l->sequences, sizeof *b->epochs);
    b->digests = weir__allocate_zero(env, l->sequences, sizeof *b->digests);
    b->rows = weir__allocate(env, (size_t)l->sequences * l->rows, sizeof *b->rows);
    b->cell_counts = weir__allocate_zero(env, l->sequences, sizeof *b->cell_counts);
    b->timestamp_counts = weir__allocate_zero(env, l->sequences, sizeof *b->timestamp_counts);
    b->timestamp_cells = weir__allocate(env, (size_t)l->sequences * l->length, sizeof *b->timestamp_cells);
    b->timestamps = weir__allocate(env, (size_t)l->sequences * l->length, sizeof *b->timestamps);
    b->edge_counts = weir__allocate_zero(env, l->sequences, sizeof *b->edge_counts);
    b->edges = weir__allocate(env, (size_t)l->sequences * l->edges, sizeof *b->edges);
    b->column_orders = weir__allocate(env, (size_t)l->sequences * l->length, 2);
    b->row_starts = weir__allocate(env, (size_t)l->sequences * (l->rows + 1), sizeof *b->row_starts);
    b->row_orders = weir__allocate(env, 2 * (size_t)l->sequences * l->rows, sizeof *b->row_orders);
    return b->epochs && b->digests && b->rows && b->cell_counts && b->timestamp_counts &&
           b->timestamp_cells && b->timestamps && b->edge_counts && b->edges && b->column_orders &&
           b->row_starts && b->row_orders;
}

weir_status weir__batch_buffer_open(const weir_env *env, const weir__batch_limits *limits, void *memory,
                                    weir_batch_buffer **out, weir_error *error) {
    weir_batch_buffer *b = weir__allocate_zero(env, 1, sizeof *b);
    if (!b)
        return weir__out_of_memory(error, operator_name, sizeof *b);
    b->env = env;
    b->limits = *limits;
    b->capacity = weir__batch_capacity(limits);
    b->owns_data = memory == NULL;
    b->data = memory                      ? memory
              : b->capacity > PTRDIFF_MAX ? NULL
                                          : env->map(env->context, -1, (size_t)b->capacity);
    if (!b->data || !allocate_lists(b)) {
        weir_status status =
            weir__fail(error, WEIR_OUT_OF_MEMORY, operator_name,
                       "no memory for a batch of %llu bytes (%u sequences of %u cells); use more ranks, a "
                       "smaller batch or shorter sequences",
                       (unsigned long long)b->capacity, limits->sequences, limits->length);
        weir__note_uint(error, "bytes", b->capacity);
        weir_batch_buffer_close(b);
        return status;
    }
    *out = b;
    return WEIR_OK;
}

void weir_batch_buffer_close(weir_batch_buffer *b) {
    if (!b)
        return;
    const weir_env *env = b->env;
    if (b->owns_data && b->data)
        env->unmap(env->context, b->data, (size_t)b->capacity);
    weir__release(env, b->epochs);
    weir__release(env, b->digests);
    weir__release(env, b->rows);
    weir__release(env, b->cell_counts);
    weir__release(env, b->timestamp_counts);
    weir__release(env, b->timestamp_cells);
    weir__release(env, b->timestamps);
    weir__release(env, b->edge_counts);
    weir__release(env, b->edges);
    weir__release(env, b->column_orders);
    weir__release(env, b->row_starts);
    weir__release(env, b->row_orders);
    weir__release(env, b);
}

const weir_batch *weir_batch_view(const weir_batch_buffer *buffer) {
    return &buffer->batch;
}
