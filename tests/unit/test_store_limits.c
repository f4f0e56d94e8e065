/* What a store may have at most: beyond it a store is refused when it is opened, whatever its hashes say, and
 * up to it batches are built. The numbers that a batch's memory is computed from cannot overflow. */
#include "base/bytes.h"
#include "support/damage.h"
#include "support/made_store.h"
#include "support/testing.h"

#include <stdlib.h>
#include <string.h>

static weir_status open_made(const made_sizes *sizes, weir_store **store, uint8_t **bytes,
                             weir_error *error) {
    size_t size = 0;
    *bytes = make_store_bytes(1, sizes, &size);
    assert_non_null(*bytes);
    *store = NULL;
    return weir_store_open_memory(NULL, *bytes, size, store, error);
}

/* Builds the first batch of task 0; the number of rows of its first sequence. */
static weir_status build_first(const weir_store *store, uint64_t batch_size, const char *config,
                               uint32_t *rows, weir_error *error) {
    weir_manifest *manifest = make_store_manifest(store, 0, WEIR_TRAIN, batch_size, config);
    weir_batch_builder *builder = NULL;
    weir_batch_buffer *buffer = NULL;
    assert_non_null(manifest);
    weir_batch_options options = {.size = sizeof options,
                                  .store = store,
                                  .manifest = manifest,
                                  .dataset = "made/k0/train",
                                  .stage = WEIR_STAGE_INFER,
                                  .world_size = 1,
                                  .any_hash = true};
    weir_status status = weir_batch_builder_open(NULL, &options, &builder, error);
    if (status == WEIR_OK)
        status = weir_batch_buffer_open(&builder, 1, NULL, &buffer, error);
    if (status == WEIR_OK)
        status = weir_batch_build(builder, (weir_cursor){0, 0}, buffer, error);
    if (status == WEIR_OK) {
        const weir_batch *batch = weir_batch_view(buffer);
        *rows = weir__load32(batch->data + batch->tensors[WEIR_NUM_ROWS].offset);
    }
    weir_batch_buffer_close(buffer);
    weir_batch_builder_close(builder);
    weir_manifest_close(manifest);
    return status;
}

static void more_tables_than_a_store_may_have_are_refused(void **state) {
    weir_store *store;
    weir_error error;
    uint8_t *bytes;
    (void)state;
    made_sizes sizes = {.tables = 65537, .edges = 1, .rows = 1, .tasks = 1, .seeds = 1, .is_exact = true};
    assert_fails(open_made(&sizes, &store, &bytes, &error), WEIR_STORE_CORRUPT, &error);
    assert_non_null(strstr(error.message, "tables"));
    free(bytes);
}

static void as_many_tables_as_a_store_may_have_give_batches(void **state) {
    weir_store *store;
    weir_error error;
    uint8_t *bytes;
    uint32_t rows = 0;
    (void)state;
    made_sizes sizes = {.tables = 65535, .edges = 1, .rows = 1, .tasks = 1, .seeds = 1, .is_exact = true};
    assert_ok(open_made(&sizes, &store, &bytes, &error), &error);
    assert_ok(weir_store_verify(store, 1, &error), &error);
    assert_ok(build_first(store, 1, "\"max_hops\": 2, \"child_width\": 1", &rows, &error), &error);
    assert_int_equal(rows, 5); /* the anchor, two parents, two children */
    weir_store_close(store);
    free(bytes);
}

static void more_foreign_keys_than_a_table_may_have_are_refused(void **state) {
    weir_store *store;
    weir_error error;
    uint8_t *bytes;
    (void)state;
    made_sizes sizes = {.tables = 2, .edges = 32767, .rows = 2, .tasks = 1, .seeds = 1, .is_exact = true};
    assert_ok(open_made(&sizes, &store, &bytes, &error), &error);
    weir_store_close(store);
    free(bytes);
    sizes.edges++;
    size_t size = 0;
    assert_null(make_store_bytes(1, &sizes, &size));
}

static void batches_beyond_any_memory_are_refused(void **state) {
    static const char *const configs[] = {
        "\"sequence_length\": 1, \"max_rows\": 65535, \"pad_rows\": true",
        "\"sequence_length\": 1, \"max_rows\": 65535, \"pad_rows\": true, \"max_hops\": 0",
        "\"sequence_length\": 65536",
    };
    weir_store *store;
    weir_error error;
    uint8_t *bytes;
    uint32_t rows;
    (void)state;
    made_sizes sizes = {
        .tables = 2, .edges = 1, .rows = 2, .tasks = 1, .seeds = 2, .dim = 4, .is_exact = true};
    assert_ok(open_made(&sizes, &store, &bytes, &error), &error);
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        assert_fails(build_first(store, UINT32_MAX, configs[i], &rows, &error), WEIR_OUT_OF_MEMORY, &error);
        assert_non_null(strstr(error.message, "beyond any memory"));
    }
    weir_store_close(store);
    free(bytes);
}

/* A task has a byte for every column: a few megabytes of metadata would ask for any memory. */
static void more_marks_than_a_store_may_have_are_refused(void **state) {
    enum { TABLES = 64, COLUMNS = 16384, TASKS = WEIR_STORE__MARKS_MAX / COLUMNS };
    static weir_table tables[TABLES];
    static weir_column columns[COLUMNS];
    static weir_task tasks[TASKS + 1];
    static uint8_t marks[COLUMNS];
    static char names[TABLES][8];
    weir_store_info info = {.format = 1,
                            .name = "wide",
                            .embedding_provider = "",
                            .timestamps.std = 1,
                            .tables = tables,
                            .table_count = TABLES,
                            .columns = columns,
                            .column_count = COLUMNS,
                            .table_column_count = COLUMNS,
                            .tasks = tasks},
                    read = {.format = 1};
    weir_error error;
    weir_cbor_writer w;
    weir__arena arena;
    (void)state;
    for (uint32_t t = 0; t < TABLES; t++) {
        snprintf(names[t], sizeof names[t], "t%05u", t);
        tables[t] = (weir_table){.name = names[t],
                                 .column_count = COLUMNS / TABLES,
                                 .temporal_column = WEIR_NONE,
                                 .temporal_time = WEIR_NONE};
    }
    for (uint32_t c = 0; c < COLUMNS; c++)
        columns[c] = (weir_column){.name = "c",
                                   .description = "",
                                   .stype = WEIR_NUMERICAL,
                                   .statistics.std = 1,
                                   .known_at = WEIR_NONE,
                                   .known_time = WEIR_NONE};
    for (uint32_t i = 0; i <= TASKS; i++)
        tasks[i] = (weir_task){.name = "k",
                               .target_column = "c",
                               .stype = WEIR_NUMERICAL,
                               .is_cell = true,
                               .column_dropped = marks,
                               .edge_hidden = marks};
    info.task_count = TASKS;
    assert_true(weir_store__marks_fit(&info));
    info.task_count++;
    weir_cbor_writer_memory(&w, NULL);
    weir_store__metadata_write(&info, &w);
    assert_ok(weir_cbor_finish(&w, &error), &error);
    weir_cbor_value value = weir_cbor_view(w.data);
    weir__arena_init(&arena, weir_env_default());
    assert_fails(weir_store__metadata_read(&value, &arena, &read, &error), WEIR_STORE_CORRUPT, &error);
    assert_non_null(strstr(error.message, "$.tasks has too many items for as many columns and foreign keys"));
    weir__arena_release(&arena);
    weir_cbor_release(&w);
}

/* Hashes that fit do not help: a name would stand for two tables. */
static void two_tables_of_one_name_are_refused(void **state) {
    weir_store *store = NULL;
    weir_error error;
    size_t size = 0;
    (void)state;
    made_sizes sizes = {.tables = 3, .rows = 2, .tasks = 1, .seeds = 1, .is_exact = true};
    uint8_t *bytes = make_store_bytes(1, &sizes, &size);
    assert_non_null(bytes);
    for (uint8_t *at = memmem(bytes, size, "t00002", 6); at;
         at = memmem(at, size - (size_t)(at - bytes), "t00002", 6))
        at[5] = '1';
    rehash_store(bytes, size);
    assert_fails(weir_store_open_memory(NULL, bytes, size, &store, &error), WEIR_STORE_CORRUPT, &error);
    assert_non_null(strstr(error.message, "tables[2].name"));
    free(bytes);
}

/* A section that only some stores have is there if it is needed, not for nothing: a store has one notation.
 */
static void a_section_for_nothing_is_refused(void **state) {
    weir_store *store = NULL;
    weir_error error;
    size_t size = 0;
    (void)state;
    made_sizes sizes = {.tables = 2, .rows = 2, .tasks = 1, .seeds = 1, .is_exact = true};
    uint8_t *bytes = make_store_bytes(1, &sizes, &size);
    assert_non_null(bytes);
    uint32_t count = weir__load32(bytes + 12);
    assert_int_equal(weir__load64(bytes + 16), size); /* no tail */
    for (; count < WEIR_STORE__SECTIONS_MOST; count++) {
        uint8_t *entry = bytes + WEIR_STORE__HEADER_SIZE + count * WEIR_STORE__SECTION_ENTRY_SIZE;
        weir__store32(entry, count + 1);
        weir__store64(entry + 8, size); /* empty */
        weir__store32(bytes + 12, count + 1);
        rehash_store(bytes, size);
        assert_fails(weir_store_open_memory(NULL, bytes, size, &store, &error), WEIR_STORE_CORRUPT, &error);
        assert_non_null(strstr(error.message, "does not fit its sections"));
    }
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_tables_of_one_name_are_refused),
        cmocka_unit_test(a_section_for_nothing_is_refused),
        cmocka_unit_test(more_tables_than_a_store_may_have_are_refused),
        cmocka_unit_test(more_marks_than_a_store_may_have_are_refused),
        cmocka_unit_test(as_many_tables_as_a_store_may_have_give_batches),
        cmocka_unit_test(more_foreign_keys_than_a_table_may_have_are_refused),
        cmocka_unit_test(batches_beyond_any_memory_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
