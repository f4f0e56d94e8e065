/* Sequences from stores that no database gives easily: of more foreign keys than rows, so that a walk meets
 * every row many times, and with lists of children that name rows that do not exist. */
#include <stdlib.h>

#include "support/damage.h"
#include "support/made_store.h"
#include "support/testing.h"

/* Builds the first batch of the first task; `rows` is the most rows of a sequence. */
static weir_status build(const uint8_t *bytes, size_t size, const char *config, uint32_t *rows,
                         weir_error *error) {
    weir_store *store;
    weir_batch_builder *builder;
    weir_batch_buffer *buffer;
    assert_ok(weir_store_open_memory(NULL, bytes, size, &store, error), error);
    weir_manifest *manifest = make_store_manifest(store, 0, WEIR_TRAIN, 8, config);
    assert_non_null(manifest);
    weir_batch_options options = {.size = sizeof options,
                                  .store = store,
                                  .manifest = manifest,
                                  .dataset = "made/k0/train",
                                  .world_size = 1,
                                  .any_hash = true};
    assert_ok(weir_batch_builder_open(NULL, &options, &builder, error), error);
    assert_ok(weir_batch_buffer_open(&builder, 1, NULL, &buffer, error), error);
    weir_status status = weir_batch_build(builder, (weir_cursor){0, 0}, buffer, error);
    *rows = weir_batch_view(buffer)->row_count;
    weir_batch_buffer_close(buffer);
    weir_batch_builder_close(builder);
    weir_manifest_close(manifest);
    weir_store_close(store);
    return status;
}

static uint32_t rows_of(const made_sizes *sizes, const char *config) {
    weir_error error;
    uint32_t rows;
    size_t size;
    uint8_t *bytes = make_store_bytes(1, sizes, &size);
    assert_non_null(bytes);
    assert_ok(build(bytes, size, config, &rows, &error), &error);
    free(bytes);
    return rows;
}

/* All rows of the sequence have their keys looked up at the end, of which there are more than places in the
 * largest table of known rows. */
static void rows_may_have_more_keys_than_there_are_places(void **state) {
    static const made_sizes sizes = {
        .tables = 2, .edges = 3, .rows = 1000, .tasks = 1, .seeds = 4, .is_exact = true};
    (void)state;
    assert_int_equal(rows_of(&sizes, "\"max_rows\": 1900, \"max_hops\": 20, \"child_width\": 64"), 1900);
    assert_int_equal(rows_of(&sizes, "\"max_rows\": 1900, \"max_hops\": 20, \"child_width\": 64,"
                                     " \"child_policy\": \"latest\""),
                     1900);
}

/* The keys of one row are as many as places. */
static void a_row_may_have_more_keys_than_there_are_places(void **state) {
    static const made_sizes sizes = {
        .tables = 2, .edges = 64, .rows = 15, .tasks = 1, .seeds = 4, .is_exact = true};
    (void)state;
    assert_int_equal(rows_of(&sizes, "\"max_rows\": 40, \"max_hops\": 9, \"child_width\": 9"), 30);
}

/* Every other parent has all of an edge type's children. The anchor lists one whole table; a parent of it
 * lists the other one and then, along its second edge type, rows past the end of the store: a row more than
 * the store has for each. */
static void name_rows_that_do_not_exist(uint8_t *bytes, size_t size) {
    weir_error error;
    weir_store *store;
    assert_ok(weir_store_open_memory(NULL, bytes, size, &store, &error), &error);
    const weir_store_info *info = weir_store_describe(store);
    for (uint32_t e = 0; e < info->edge_count; e++) {
        const weir_edge *edge = &info->edges[e];
        uint8_t *starts = bytes + (edge->starts - bytes), *rows = bytes + (edge->child_rows - bytes);
        for (uint32_t i = 0; i <= info->tables[edge->parent_table].row_count; i++)
            weir__store32(starts + 4 * (size_t)i, i % 2 ? (uint32_t)edge->edges : 0);
        for (uint32_t i = 0; e == 1 && i < edge->edges; i++)
            weir__store32(rows + 4 * (size_t)i, info->row_count + i);
    }
    weir_store_close(store);
    rehash_store(bytes, size);
}

static void rows_that_do_not_exist_are_refused(void **state) {
    static const made_sizes sizes = {
        .tables = 2, .edges = 2, .rows = 500, .tasks = 1, .seeds = 16, .is_exact = true};
    static const char *const policies[] = {"uniform", "recent", "latest"};
    (void)state;
    for (uint64_t seed = 1; seed < 4; seed++) {
        size_t size;
        uint8_t *bytes = make_store_bytes(seed, &sizes, &size);
        assert_non_null(bytes);
        name_rows_that_do_not_exist(bytes, size);
        for (int p = 0; p < 3; p++) {
            char config[160];
            weir_error error;
            uint32_t rows;
            snprintf(config, sizeof config,
                     "\"max_rows\": 1000, \"max_hops\": 60, \"child_width\": 4096, \"child_policy\": \"%s\"",
                     policies[p]);
            assert_fails(build(bytes, size, config, &rows, &error), WEIR_STORE_CORRUPT, &error);
        }
        free(bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_may_have_more_keys_than_there_are_places),
        cmocka_unit_test(a_row_may_have_more_keys_than_there_are_places),
        cmocka_unit_test(rows_that_do_not_exist_are_refused),
    };
    return cmocka_run_group_tests_name("batch_made", tests, NULL, NULL);
}
