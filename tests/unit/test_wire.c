/* The wire form: what is packed and expanded again is the batch, byte for byte, for every shape of batch,
 * whatever the number of threads, also where columns have large numbers, and where packing would not help. */
#include "batch/buffer.h"
#include "batch/expand_kernel.h"
#include "support/shop_store.h"

static shop_store shop;

static const char *const configs[] = {
    "\"sequence_length\": 64, \"child_width\": 3",
    "\"sequence_length\": 1",
    "\"sequence_length\": 300, \"max_rows\": 17, \"pad_rows\": true",
    "\"sequence_length\": 50, \"max_hops\": 2, \"child_policy\": \"recent\", \"label_visibility\": \"all\"",
    "\"sequence_length\": 700, \"child_width\": 100, \"label_visibility\": \"none\"",
    "\"sequence_length\": 40, \"max_hops\": 0",
};
enum { CONFIGS = sizeof configs / sizeof configs[0], DATASETS = 3 };
static const char *const datasets[DATASETS] = {"shop/churn/train", "shop/rating/train", "shop/spend/train"};

typedef struct trial {
    weir_manifest *manifest;
    weir_batch_builder *builder;
    weir_batch_buffer *buffer;
    const weir_batch *batch;
    uint64_t capacity;
    uint8_t *wire;
    uint8_t *out;
} trial;

static void begin(trial *t, const char *config, const char *dataset, uint64_t batch_size, bool pad) {
    weir_error error;
    t->manifest = shop_manifest(&shop, batch_size, "", config);
    weir_batch_options options = {.size = sizeof options,
                                  .store = shop.store,
                                  .manifest = t->manifest,
                                  .dataset = dataset,
                                  .world_size = 1,
                                  .pad = pad};
    assert_ok(weir_batch_builder_open(NULL, &options, &t->builder, &error), &error);
    assert_ok(weir_batch_buffer_open(&t->builder, 1, NULL, &t->buffer, &error), &error);
    t->batch = weir_batch_view(t->buffer);
    t->capacity = weir_wire_capacity(weir_batch_capacity(&t->builder, 1));
    t->wire = malloc(t->capacity);
    t->out = malloc(t->capacity);
    assert_non_null(t->wire);
    assert_non_null(t->out);
}

static void end(trial *t) {
    free(t->wire);
    free(t->out);
    weir_batch_buffer_close(t->buffer);
    weir_batch_builder_close(t->builder);
    weir_manifest_close(t->manifest);
}

static void build(trial *t, weir_cursor cursor) {
    weir_error error;
    assert_ok(weir_batch_build(t->builder, cursor, t->buffer, &error), &error);
}

static void assert_expanded(const trial *t) {
    for (int id = 0; id < WEIR_BATCH_PARTS; id++) {
        const weir_tensor *tensor = &t->batch->tensors[id];
        if (tensor->size > 0 &&
            memcmp(t->out + tensor->offset, t->batch->data + tensor->offset, (size_t)tensor->size) != 0)
            fail_msg("%s differs", tensor->name);
    }
}

/* Packs, expands and compares; gives the bytes on the wire. */
static uint64_t check(trial *t) {
    weir_error error;
    uint64_t size = 0;
    assert_ok(weir_wire_pack(t->buffer, t->wire, t->capacity, &size, &error), &error);
    assert_true(size <= t->capacity);
    assert_int_equal(weir_wire_batch_size(t->wire), t->batch->size);
    memset(t->out, 0xa5, (size_t)t->capacity);
    weir_wire_expand(t->wire, t->out);
    assert_expanded(t);
    for (uint64_t i = t->batch->size; i < t->capacity; i++)
        assert_int_equal(t->out[i], 0xa5);
    return size;
}

static void test_a_packed_batch_expands_to_itself(void **state) {
    (void)state;
    random_stream random = {5};
    for (size_t c = 0; c < CONFIGS; c++)
        for (size_t d = 0; d < DATASETS; d++) {
            trial t;
            begin(&t, configs[c], datasets[d], 1 + random_below(&random, 7), random_below(&random, 2));
            for (int i = 0; i < 12; i++) {
                build(&t, (weir_cursor){random_below(&random, 3), random_below(&random, 9)});
                (void)check(&t);
            }
            end(&t);
        }
}

/* The last batch of an epoch is not full: with padding it has sequences without a cell. */
static void test_padding_and_nothing(void **state) {
    (void)state;
    for (int pad = 0; pad < 2; pad++) {
        trial t;
        bool was_partial = false;
        begin(&t, configs[0], datasets[0], 7, pad);
        for (weir_cursor cursor = {0, 0}; cursor.epoch < 2; cursor = t.batch->step.cursor_next) {
            build(&t, cursor);
            (void)check(&t);
            was_partial |= t.batch->step.valid_count < 7;
        }
        assert_true(was_partial);
        end(&t);
    }
}

static void test_few_bytes_a_cell(void **state) {
    (void)state;
    trial t;
    begin(&t, configs[4], datasets[0], 5, false);
    build(&t, (weir_cursor){0, 0});
    uint64_t size = check(&t) - t.batch->tensors[WEIR_TEXT_BATCH_EMBEDDINGS].size;
    uint64_t cells = 0;
    for (uint32_t i = 0; i < t.batch->sequence_count; i++)
        cells += t.buffer->cell_counts[i];
    assert_true(cells > 100);
    assert_true(size < 20 * cells);
    end(&t);
}

/* Any number of threads, in any order of theirs, writes the same. */
static void test_threads_do_not_matter(void **state) {
    (void)state;
    static const uint32_t counts[] = {2, 7, 256, 1024};
    trial t;
    begin(&t, configs[4], datasets[1], 3, false);
    build(&t, (weir_cursor){1, 2});
    (void)check(&t);
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        memset(t.out, 0, (size_t)t.batch->size);
        for (uint32_t thread = counts[k]; thread-- > 0;)
            for (uint32_t i = 0; i < t.batch->sequence_count; i++)
                expand(t.wire, t.out, i, thread, counts[k]);
        assert_expanded(&t);
    }
    end(&t);
}

/* No store has so many columns or such days in a test: the tensors are changed under the buffer's hands. */
static void test_large_numbers(void **state) {
    (void)state;
    static const int64_t moments[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 951782400000000, INT64_MAX - 1};
    trial t;
    begin(&t, configs[0], datasets[0], 3, false);
    build(&t, (weir_cursor){0, 1});
    uint8_t *columns = t.buffer->data + t.batch->tensors[WEIR_COLUMN_IDS].offset;
    weir__store32(columns, 0xfffe);
    uint64_t narrow = check(&t);
    weir__store32(columns, 0x7ffffffe);
    uint64_t wide = check(&t);
    assert_true(wide > narrow);
    uint32_t seen = 0;
    for (uint32_t i = 0; i < t.batch->sequence_count; i++)
        for (uint32_t k = 0; k < t.buffer->timestamp_counts[i]; k++) {
            size_t at = (size_t)i * t.buffer->limits.length;
            float floats[WEIR_TIMESTAMP_FLOATS];
            int64_t micros = moments[seen++ % 6];
            weir_timestamp_floats(micros, &t.buffer->timestamps_of, floats);
            t.buffer->timestamps[at + k] = micros;
            for (size_t f = 0; f < WEIR_TIMESTAMP_FLOATS; f++)
                weir__store32(
                    t.buffer->data + t.batch->tensors[WEIR_TIMESTAMP_VALUES].offset +
                        4 * ((i * (size_t)t.batch->sequence_length + t.buffer->timestamp_cells[at + k]) *
                                 WEIR_TIMESTAMP_FLOATS +
                             f),
                    bits_of(floats[f]));
        }
    assert_true(seen >= 6);
    (void)check(&t);
    end(&t);
}

/* With more edges than any walk can find, the batch goes as it is. */
static void test_a_batch_that_packing_does_not_help(void **state) {
    (void)state;
    trial t;
    weir_error error;
    uint64_t size;
    begin(&t, configs[1], datasets[0], 1, false);
    build(&t, (weir_cursor){0, 0});
    assert_true(check(&t) < t.batch->size);
    struct weir__local_edge *edges = calloc(t.batch->size, sizeof *edges);
    struct weir__local_edge *kept = t.buffer->edges;
    uint32_t kept_count = t.buffer->edge_counts[0];
    assert_non_null(edges);
    t.buffer->edges = edges;
    t.buffer->edge_counts[0] = (uint32_t)t.batch->size;
    size = check(&t);
    assert_int_equal(weir__load64(t.wire + 8 * (size_t)WIRE_IS_PLAIN), 1);
    assert_int_equal(size, weir_wire_capacity(t.batch->size));
    t.buffer->edges = kept;
    t.buffer->edge_counts[0] = kept_count;
    free(edges);
    assert_fails(weir_wire_pack(t.buffer, t.wire, weir_wire_capacity(t.batch->size) - 1, &size, &error),
                 WEIR_CONTRACT_VIOLATION, &error);
    end(&t);
}

static void test_a_buffer_without_a_batch(void **state) {
    (void)state;
    trial t;
    weir_error error;
    uint64_t size;
    begin(&t, configs[1], datasets[0], 1, false);
    assert_fails(weir_wire_pack(t.buffer, t.wire, t.capacity, &size, &error), WEIR_CONTRACT_VIOLATION,
                 &error);
    end(&t);
}

static int set_up(void **state) {
    (void)state;
    shop_store_open(&shop);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    shop_store_close(&shop);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_packed_batch_expands_to_itself),
        cmocka_unit_test(test_padding_and_nothing),
        cmocka_unit_test(test_few_bytes_a_cell),
        cmocka_unit_test(test_threads_do_not_matter),
        cmocka_unit_test(test_large_numbers),
        cmocka_unit_test(test_a_batch_that_packing_does_not_help),
        cmocka_unit_test(test_a_buffer_without_a_batch),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
