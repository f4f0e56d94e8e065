/* See buffer.h. Parts lie one after the other, each at a multiple of 256 bytes. */
#include "batch/buffer.h"

#include <string.h>

static const char operator_name[] = "weir.batch.buffer";

enum { ALIGNMENT = 256 };

typedef enum axis { NO_AXIS, AXIS_B, AXIS_S, AXIS_R, AXIS_U, AXIS_D, AXIS_T } axis;

typedef struct part {
    const char *name;
    const char *dtype;
    uint32_t item_size;
    axis axes[3];
} part;

#define AXES_1(a)                        AXIS_##a
#define AXES_2(a, b)                     AXIS_##a, AXIS_##b
#define AXES_3(a, b, c)                  AXIS_##a, AXIS_##b, AXIS_##c
#define NTH_OF_4(a, b, c, n, ...)        n
#define AXES(...)                        NTH_OF_4(__VA_ARGS__, AXES_3, AXES_2, AXES_1, none)(__VA_ARGS__)
#define PART(id, name, dtype, size, ...) {#name, #dtype, size, {AXES(__VA_ARGS__)}},

static const part parts[WEIR_BATCH_PARTS] = {WEIR_BATCH_TENSORS(PART) WEIR_BATCH_FIELDS(PART)};

static uint64_t extent(const weir_batch *batch, axis a) {
    switch (a) {
    case NO_AXIS:
        return 1;
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
    case AXIS_T:
        return WEIR_TIMESTAMP_FLOATS;
    }
    return 1;
}

static void place_parts(weir_batch *batch, uint32_t begin, uint32_t end) {
    uint64_t offset = begin ? batch->tensors[begin - 1].offset + batch->tensors[begin - 1].size : 0;
    for (uint32_t i = begin; i < end; i++) {
        weir_tensor *tensor = &batch->tensors[i];
        *tensor = (weir_tensor){.name = parts[i].name, .dtype = parts[i].dtype, .size = parts[i].item_size};
        for (uint32_t k = 0; k < 3 && parts[i].axes[k] != NO_AXIS; k++) {
            tensor->shape[tensor->rank++] = extent(batch, parts[i].axes[k]);
            tensor->size *= extent(batch, parts[i].axes[k]);
        }
        tensor->offset = (offset + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
        offset = tensor->offset + tensor->size;
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
    return (batch.size + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
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
    b->data = memory                   ? memory
              : b->capacity > SIZE_MAX ? NULL
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
