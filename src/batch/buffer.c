/* See buffer.h. Parts lie one after the other, each at a multiple of 256 bytes. */
#include "batch/buffer.h"

#include <string.h>

#include "base/bits.h"
#include "batch/expand_kernel.h"
#include "weir_tool/store_tools.h"

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

static const part parts[WEIR_BATCH_PARTS] = {WEIR_BATCH_TENSORS(PART) WEIR_BATCH_FIELDS(PART)
                                                 WEIR_OPTIONAL_FIELDS(PART)};

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

/* Sizes that no memory holds become the largest number, which no allocation grants. */
static uint64_t times(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t plus(uint64_t a, uint64_t b) {
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static uint64_t aligned(uint64_t offset) {
    return plus(offset, ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
}

void weir_batch__place(weir_batch *batch, uint64_t tensors) {
    uint64_t end = 0;
    for (uint32_t i = 0; i < WEIR_BATCH_PARTS; i++) {
        weir_tensor *tensor = &batch->tensors[i];
        bool is_optional = (i >= WEIR_FIRST_OPTIONAL && i < WEIR_TENSORS) || i == WEIR_DATASET_IDS;
        bool is_absent = is_optional && !(tensors >> i & 1);
        *tensor = (weir_tensor){0};
        if (is_absent)
            continue;
        *tensor = (weir_tensor){.name = parts[i].name, .dtype = parts[i].dtype, .size = parts[i].item_size};
        for (uint32_t k = 0; k < 3 && parts[i].axes[k] != NO_AXIS; k++) {
            tensor->shape[tensor->rank++] = extent(batch, parts[i].axes[k]);
            tensor->size = times(tensor->size, extent(batch, parts[i].axes[k]));
        }
        tensor->offset = aligned(end);
        end = plus(tensor->offset, tensor->size);
    }
    batch->size = end;
}

void weir_batch__limit_sums(weir_batch__limits *l) {
    weir_batch batch = {.sequence_count = WEIR__NARROW(uint32_t, l->sequences),
                        .sequence_length = WEIR__NARROW(uint32_t, l->length),
                        .row_count = WEIR__NARROW(uint32_t, l->rows),
                        .text_count = WEIR__NARROW(uint32_t, l->texts),
                        .embedding_dim = WEIR__NARROW(uint32_t, l->dim)};
    weir_batch__place(&batch, l->tensors);
    uint64_t before = plus(8 * (uint64_t)COMPACT_WORDS, times(l->sequences, SEQUENCE_SIZE));
    l->blobs = aligned(plus(before, times(l->sequences, l->blob)));
    l->room = (weir_batch_room){
        .compact = aligned(plus(l->blobs, times(l->texts, 2 * l->dim))),
        .tensors = aligned(batch.size),
    };
    l->all_rows = times(l->sequences, l->walked_rows);
    l->all_texts = times(l->sequences, l->walked_texts);
}

/* All are numbers of which the larger is enough for both, but for the set of tensors. */
weir_batch__limits weir_batch__limits_of_both(const weir_batch__limits *a, const weir_batch__limits *b) {
    enum { COUNT = sizeof(weir_batch__limits) / sizeof(uint64_t) };
    static_assert(COUNT * sizeof(uint64_t) == sizeof(weir_batch__limits), "all are of 64 bits");
    uint64_t numbers[COUNT], others[COUNT];
    weir_batch__limits both;
    memcpy(numbers, a, sizeof numbers);
    memcpy(others, b, sizeof others);
    for (size_t i = 0; i < COUNT; i++)
        numbers[i] = weir__larger(numbers[i], others[i]);
    memcpy(&both, numbers, sizeof both);
    both.tensors = a->tensors | b->tensors;
    return both;
}

static void carve_lists(weir_batch_buffer *b) {
    const weir_batch__limits *l = &b->limits;
    b->samples = weir__carve(&b->lists, l->sequences, sizeof *b->samples);
    b->indices = weir__carve(&b->lists, l->sequences, sizeof *b->indices);
    b->epochs = weir__carve(&b->lists, l->sequences, sizeof *b->epochs);
    b->digests = weir__carve(&b->lists, l->sequences, sizeof *b->digests);
    b->anchors = weir__carve(&b->lists, l->sequences, sizeof *b->anchors);
    b->dataset_ids =
        weir__carve(&b->lists, l->tensors >> WEIR_DATASET_IDS & 1 ? l->sequences : 0, sizeof *b->dataset_ids);
    b->group_digests = weir__carve(&b->lists, l->sequences, sizeof *b->group_digests);
    b->rows = weir__carve(&b->lists, l->all_rows, sizeof *b->rows);
    b->visits = weir__carve(&b->lists, l->all_rows, sizeof *b->visits);
    b->uses = weir__carve(&b->lists, l->all_texts, sizeof *b->uses);
    b->texts = weir__carve(&b->lists, l->texts, sizeof *b->texts);
    if (b->room.compact < l->room.compact) /* a text is not divided: it may leave some of the room empty */
        b->beyond = weir__carve(&b->lists, l->room.compact - b->room.compact + 2 * l->dim, 1);
}

static uint8_t *map(const weir_env *env, uint64_t size) {
    return size > PTRDIFF_MAX ? NULL : env->map(env->context, -1, (size_t)size);
}

weir_status weir_batch__open_buffer(const weir_env *env, const weir_batch__limits *limits,
                                    const weir_batch_memory *memory, uint64_t compact_room,
                                    weir_batch_buffer **out, weir_error *error) {
    static const weir_batch_memory own = {0};
    weir_batch_buffer *b = weir__allocate_zero(env, 1, sizeof *b);
    if (!b)
        return weir__out_of_memory(error, operator_name, sizeof *b);
    memory = memory ? memory : &own;
    b->env = env;
    b->limits = *limits;
    b->room = limits->room;
    b->room.compact = compact_room;
    b->hides_anchors = memory->without_anchors;
    b->owns_compact = !memory->compact;
    b->owns_tensors = !memory->tensors && !memory->without_tensors;
    b->compact = memory->compact ? memory->compact : map(env, b->room.compact);
    b->tensors = b->owns_tensors ? map(env, b->room.tensors) : memory->tensors;
    carve_lists(b);
    if (!b->compact || (b->owns_tensors && !b->tensors) || !weir__block_open(&b->lists, env)) {
        uint64_t size = plus(b->room.compact, b->room.tensors);
        weir_status status = weir__fail(
            error, WEIR_OUT_OF_MEMORY, operator_name,
            "no memory for a batch of %llu bytes (%llu sequences of %llu cells); use more ranks, a "
            "smaller batch or shorter sequences",
            (unsigned long long)size, (unsigned long long)limits->sequences,
            (unsigned long long)limits->length);
        weir__note_uint(error, "bytes", size);
        weir_batch_buffer_close(b);
        return status;
    }
    carve_lists(b);
    *out = b;
    return WEIR_OK;
}

void weir_batch_buffer_close(weir_batch_buffer *b) {
    if (!b)
        return;
    const weir_env *env = b->env;
    if (b->owns_compact && b->compact)
        env->unmap(env->context, b->compact, (size_t)b->room.compact);
    if (b->owns_tensors && b->tensors)
        env->unmap(env->context, b->tensors, (size_t)b->room.tensors);
    weir__block_close(&b->lists, env);
    weir__release(env, b);
}

const weir_batch *weir_batch_view(const weir_batch_buffer *buffer) {
    return &buffer->batch;
}
