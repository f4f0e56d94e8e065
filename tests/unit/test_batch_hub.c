/* Sequences at the limits: a hub with a million children, rows that do not fit, as many rows and cells as
 * the configuration allows. The store is made from a small SQLite database whose rows SQLite counts up. */
#include "base/bytes.h"
#include "support/database.h"

enum { CHILDREN = 1000000, WIDE_ROWS = 5000, WIDE_CELLS = 20, ANCHORS = 64 };

static char folder[64];
static weir_store *store;

static weir_manifest *manifest_with(const char *dataset, uint32_t batch_size, const char *batch) {
    char text[1024];
    weir_error error;
    weir_manifest *manifest;
    weir_stored_dataset stored;
    assert_ok(weir_store_dataset(store, dataset, &stored, &error), &error);
    int size = snprintf(text, sizeof text,
                        "{\"seed\": 7, \"global_batch_size\": %u, \"batch\": {%s}, \"datasets\": {\"%s\": {"
                        "\"id\": \"hub\", \"version\": \"1\", \"cardinality\": %llu, \"hash\": \"",
                        batch_size, batch, dataset, (unsigned long long)stored.cardinality);
    for (size_t k = 0; k < WEIR_HASH_SIZE; k++)
        size += snprintf(text + size, sizeof text - (size_t)size, "%02x", stored.hash[k]);
    size += snprintf(text + size, sizeof text - (size_t)size, "\"}}}");
    assert_ok(weir_manifest_read(NULL, text, (size_t)size, "test", &manifest, &error), &error);
    return manifest;
}

typedef struct built {
    weir_batch_builder *builder;
    weir_batch_buffer *buffer;
    const weir_batch *batch;
} built;

static built build(const char *dataset, uint32_t batch_size, const char *config) {
    built b;
    weir_error error;
    weir_manifest *manifest = manifest_with(dataset, batch_size, config);
    weir_batch_options options = {.size = sizeof options,
                                  .store = store,
                                  .manifest = manifest,
                                  .dataset = dataset,
                                  .world_size = 1,
                                  .with_digests = true};
    assert_ok(weir_batch_builder_open(NULL, &options, &b.builder, &error), &error);
    assert_ok(weir_batch_buffer_open(&b.builder, 1, NULL, &b.buffer, &error), &error);
    assert_ok(weir_batch_build(b.builder, (weir_cursor){0, 0}, b.buffer, &error), &error);
    b.batch = weir_batch_view(b.buffer);
    weir_manifest_close(manifest);
    return b;
}

static void close_built(built *b) {
    weir_batch_buffer_close(b->buffer);
    weir_batch_builder_close(b->builder);
}

static uint32_t field_of(const weir_batch *batch, weir_tensor_id id, uint32_t i) {
    return weir__load32(batch->data + batch->tensors[id].offset + 4 * (size_t)i);
}

static uint16_t place_at(const weir_batch *batch, weir_tensor_id id, uint32_t i) {
    return weir__load16(batch->data + batch->tensors[id].offset + 2 * (size_t)i);
}

/* From a child through the hub to others, every row once; no two sequences choose alike. */
static void test_a_hub_gives_some_of_its_children(void **state) {
    (void)state;
    const weir_store_info *info = weir_store_describe(store);
    built b = build("hub/narrow/train", ANCHORS, "\"sequence_length\": 256, \"child_width\": 16");
    assert_int_equal(b.batch->sequence_count, ANCHORS);
    for (uint32_t i = 0; i < ANCHORS; i++) {
        const uint64_t *rows = b.batch->rows + (size_t)i * b.batch->row_stride;
        uint32_t count = field_of(b.batch, WEIR_NUM_ROWS, i);
        assert_in_range(count, 17, 18); /* the anchor, the hub, and 16, which the anchor may be among */
        assert_string_equal(info->tables[weir_store_table_of(store, rows[1])].name, "hubs");
        for (uint32_t r = 0; r < count; r++)
            for (uint32_t k = 0; k < r; k++)
                assert_int_not_equal(rows[r], rows[k]);
        assert_int_not_equal(b.batch->sample_digests[i], b.batch->sample_digests[(i + 1) % ANCHORS]);
    }
    close_built(&b);
}

/* As many rows as are allowed, of a hub that would give more; and the most recent ones, which are the last
 * in stored order where none has a time. */
static void test_a_hub_fills_the_rows(void **state) {
    (void)state;
    built b =
        build("hub/narrow/train", 2, "\"sequence_length\": 8192, \"child_width\": 4096, \"max_rows\": 1500");
    assert_int_equal(field_of(b.batch, WEIR_NUM_ROWS, 0), 1500);
    assert_int_equal(b.batch->row_count, 1500);
    close_built(&b);
    b = build("hub/narrow/train", 2, "\"child_width\": 3, \"child_policy\": \"recent\"");
    const uint64_t *rows = b.batch->rows;
    const weir_table *children = &weir_store_describe(store)->tables[weir_store_table_of(store, rows[0])];
    assert_int_equal(field_of(b.batch, WEIR_NUM_ROWS, 0), 5);
    for (uint32_t r = 2; r < 5; r++)
        assert_true(rows[r] >= children->row_start + CHILDREN - 3);
    close_built(&b);
}

/* A sequence that is shorter than its first row has the target and the row's first cells. */
static void test_a_sequence_may_end_within_its_first_row(void **state) {
    (void)state;
    for (uint32_t length = 1; length <= WIDE_CELLS; length++) {
        char config[64];
        snprintf(config, sizeof config, "\"sequence_length\": %u", length);
        built b = build("hub/wide/train", 1, config);
        assert_int_equal(field_of(b.batch, WEIR_NUM_CELLS, 0), length);
        assert_int_equal(field_of(b.batch, WEIR_NUM_ROWS, 0), 1);
        assert_int_equal(b.batch->data[b.batch->tensors[WEIR_IS_TARGET].offset], 1);
        for (uint32_t i = 0; i < length; i++)
            assert_int_equal(place_at(b.batch, WEIR_OUT_PERM, i), i);
        assert_int_equal(place_at(b.batch, WEIR_COL_PERM, length - 1), 0); /* the target's column is last */
        close_built(&b);
    }
}

/* 65,536 cells: every position of a uint16 stands once in each permutation. */
static void test_a_sequence_may_have_65536_cells(void **state) {
    (void)state;
    enum { LONGEST = 65536 };
    static uint8_t seen[LONGEST];
    static const weir_tensor_id ids[] = {WEIR_COL_PERM, WEIR_OUT_PERM, WEIR_IN_PERM};
    built b =
        build("hub/wide/train", 1, "\"sequence_length\": 65536, \"child_width\": 4096, \"max_rows\": 4000");
    assert_int_equal(field_of(b.batch, WEIR_NUM_CELLS, 0), LONGEST);
    for (size_t p = 0; p < 3; p++) {
        memset(seen, 0, sizeof seen);
        for (uint32_t i = 0; i < LONGEST; i++)
            assert_int_equal(seen[place_at(b.batch, ids[p], i)]++, 0);
    }
    close_built(&b);
}

/* ---- The store ------------------------------------------------------------------------------- */

static const char database[] =
    "CREATE TABLE hubs (id INTEGER PRIMARY KEY);"
    "INSERT INTO hubs VALUES (1), (2);"
    "CREATE TABLE narrow (id INTEGER PRIMARY KEY, hub INTEGER);"
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000)"
    " INSERT INTO narrow SELECT i, 1 FROM n;";

static void make_wide_table(char *sql, size_t size) {
    size_t at =
        (size_t)snprintf(sql, size, "%s CREATE TABLE wide (id INTEGER PRIMARY KEY, hub INTEGER", database);
    for (int i = 2; i < WIDE_CELLS; i++)
        at += (size_t)snprintf(sql + at, size - at, ", x%d REAL", i);
    at += (size_t)snprintf(sql + at, size - at,
                           "); INSERT INTO wide (id, hub, x2) SELECT id, 2, id FROM narrow "
                           "WHERE id <= %d;",
                           WIDE_ROWS);
    assert_true(at < size);
}

static size_t make_schema(char *text, size_t size) {
    static const char task[] =
        "\"%s\": {\"query\": \"SELECT id, id %% 2 AS odd FROM %s WHERE id <= %d\","
        " \"anchor_table\": \"%s\", \"anchor_key\": \"id\", \"target_column\": \"odd\","
        " \"target_stype\": \"boolean\", \"split\": {\"method\": \"hash\","
        " \"permille\": [1000, 0, 0], \"seed\": 1}}";
    static const char key[] = "\"primary_key\": \"id\", \"columns\": {\"id\": {\"stype\": \"identifier\"}";
    static const char hub[] = ", \"hub\": {\"stype\": \"identifier\", \"foreign_key\": \"hubs.id\"}";
    size_t at =
        (size_t)snprintf(text, size,
                         "{\"name\": \"hub\", \"tables\": {\"hubs\": {%s}}, \"narrow\": {%s%s}}, \"wide\": "
                         "{%s%s",
                         key, key, hub, key, hub);
    for (int i = 2; i < WIDE_CELLS; i++)
        at += (size_t)snprintf(text + at, size - at, ", \"x%d\": {\"stype\": \"numerical\"}", i);
    at += (size_t)snprintf(text + at, size - at, "}}}, \"tasks\": {");
    at += (size_t)snprintf(text + at, size - at, task, "narrow", "narrow", ANCHORS, "narrow");
    at += (size_t)snprintf(text + at, size - at, ", ");
    at += (size_t)snprintf(text + at, size - at, task, "wide", "wide", ANCHORS, "wide");
    at += (size_t)snprintf(text + at, size - at, "}}");
    assert_true(at < size);
    return at;
}

static int set_up(void **state) {
    (void)state;
    static char sql[4096], schema[4096];
    char source[160], path[160];
    weir_error error;
    weir_ingest_report report;
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    make_folder(folder);
    make_wide_table(sql, sizeof sql);
    make_database(path_in(folder, "hub.sqlite", source), sql);
    options.source = source;
    options.output = path_in(folder, "hub.weir", path);
    options.schema_size = make_schema(schema, sizeof schema);
    options.schema = schema;
    options.threads = 2;
    assert_ok(weir_ingest(NULL, &options, &report, &error), &error);
    assert_ok(weir_store_open(NULL, path, &store, &error), &error);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    weir_store_close(store);
    remove_folder(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_hub_gives_some_of_its_children),
        cmocka_unit_test(test_a_hub_fills_the_rows),
        cmocka_unit_test(test_a_sequence_may_end_within_its_first_row),
        cmocka_unit_test(test_a_sequence_may_have_65536_cells),
    };
    return cmocka_run_group_tests_name("batch_hub", tests, set_up, tear_down);
}
