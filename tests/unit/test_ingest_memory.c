/* A store is the same file for any size of memory and any number of threads, also if nearly nothing fits. */
#include "support/database.h"

static uint8_t *read_all(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *size = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(*size);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *size, file), *size);
    fclose(file);
    return data;
}

static uint64_t machine_memory;

static uint64_t give_memory_size(void *context) {
    (void)context;
    return machine_memory;
}

static size_t most_written;

static ssize_t keep_most_written(void *context, int file, const void *data, size_t size) {
    most_written = size > most_written ? size : most_written;
    return weir_env_default()->write(context, file, data, size);
}

static bool keep_most_spilled(void *context, const weir_progress *progress) {
    uint64_t *most = context;
    *most = progress->spilled_bytes > *most ? progress->spilled_bytes : *most;
    return true;
}

/* With a memory of 0: of a machine that has twice as much. Less than the least is not taken otherwise. */
static uint8_t *ingest(const char *folder, const char *source, const char *schema, uint64_t memory,
                       uint32_t threads, size_t *size, weir_ingest_report *report) {
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    weir_env env = *weir_env_default();
    weir_error error;
    char store[160];
    uint64_t most_spilled = 0;
    options.source = source;
    options.output = path_in(folder, "shop.weir", store);
    options.schema = schema;
    options.schema_size = strlen(schema);
    options.threads = threads;
    options.memory = memory < WEIR_INGEST_MEMORY_LEAST ? 0 : memory;
    options.progress = keep_most_spilled;
    options.progress_context = &most_spilled;
    machine_memory = 2 * memory;
    most_written = 0;
    env.write = keep_most_written;
    if (memory > 0)
        env.memory_size = give_memory_size;
    assert_ok(weir_ingest(&env, &options, report, &error), &error);
    assert_true(most_spilled <= report->spilled_bytes && (most_spilled > 0) == (report->spilled_bytes > 0));
    return read_all(store, size);
}

/* If memory is not enough, the store is written in pieces that the system can map alone. */
enum { SMALL_PIECE = 64 * 1024 };

static void check_sizes(const char *folder, const char *source, const char *schema,
                        weir_ingest_report *plenty) {
    static const uint64_t sizes[] = {64 << 10, 512 << 10, 64 << 20};
    weir_ingest_report report;
    size_t size, found_size;
    uint8_t *expected = ingest(folder, source, schema, 0, 2, &size, plenty);
    assert_int_equal(plenty->spilled_bytes, 0);
    assert_true(size > SMALL_PIECE && most_written > SMALL_PIECE);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            uint8_t *found = ingest(folder, source, schema, sizes[i], threads, &found_size, &report);
            assert_int_equal(found_size, size);
            assert_memory_equal(found, expected, size);
            assert_true((report.spilled_bytes > 0) == (sizes[i] < 64 << 20));
            assert_true((report.spilled_bytes > 0) == (most_written <= SMALL_PIECE));
            free(found);
        }
    free(expected);
}

static void any_memory_gives_one_store(void **state) {
    char folder[64], source[160];
    weir_ingest_report report;
    (void)state;
    make_folder(folder);
    make_shop(folder, source);
    char *schema = golden_text("shop_small.schema.json", NULL);
    check_sizes(folder, source, schema, &report);
    free(schema);
    remove_folder(folder);
}

static void too_little_memory_is_refused(void **state) {
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    weir_error error;
    (void)state;
    options.source = "none.sqlite";
    options.memory = WEIR_INGEST_MEMORY_LEAST - 1;
    assert_int_equal(weir_ingest(NULL, &options, NULL, &error), WEIR_CONTRACT_VIOLATION);
    assert_non_null(strstr(error.message, "memory is 67108863 bytes, but must be at least 64 MiB"));
    options.memory = WEIR_INGEST_MEMORY_LEAST;
    assert_int_equal(weir_ingest(NULL, &options, NULL, &error), WEIR_SOURCE_ERROR);
}

/* What the caller is given lies in the caller's memory, not in that which ends with the ingest. */
static void reasons_outlive_the_ingest(void **state) {
    char folder[64], source[160], store[160];
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    weir_bytes reasons;
    weir_error error;
    (void)state;
    make_folder(folder);
    make_shop(folder, source);
    options.source = source;
    options.output = path_in(folder, "shop.weir", store);
    options.reasons = &reasons;
    assert_ok(weir_ingest(NULL, &options, NULL, &error), &error);
    assert_true(reasons.size > 0 && ((const char *)reasons.data)[0] == '[');
    weir_bytes_release(&reasons);
    remove_folder(folder);
}

/* Keys with gaps, of one column and of two, some of them null or without a row; texts that come again much
 * later; children in no order. With little memory all of this is done in ranges and sets. */
static const char parts_sql[] =
    "CREATE TABLE maker (k INTEGER PRIMARY KEY, name TEXT);"
    "CREATE TABLE part (a INTEGER, b INTEGER, note TEXT, PRIMARY KEY (a, b));"
    "CREATE TABLE use (id INTEGER PRIMARY KEY, k INTEGER, a INTEGER, b INTEGER, at TEXT, note TEXT);"
    "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 2999) "
    "INSERT INTO maker SELECT i * 7 - 9000, 'maker ' || (i % 1100) FROM n;"
    "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1999) "
    "INSERT INTO part SELECT i / 40 * 3, i % 40 - 20, 'part ' || (i * 7 % 900) FROM n;"
    "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 5999) "
    "INSERT INTO use SELECT i, CASE WHEN i % 17 THEN i * 7919 % 3100 * 7 - 9100 END, i * 31 % 52 * 3, "
    "i * 17 % 43 - 20, date('2020-01-01', (i * 13 % 700) || ' days'), 'part ' || (i * 11 % 2000) FROM n;";

static const char parts_schema[] =
    "{\"name\": \"parts\", \"keys\": true, \"tables\": {"
    "\"maker\": {\"primary_key\": \"k\", \"columns\": {\"k\": {\"stype\": \"identifier\"}, "
    "\"name\": {\"stype\": \"text\"}}}, "
    "\"part\": {\"primary_key\": [\"a\", \"b\"], \"columns\": {\"a\": {\"stype\": \"numerical\"}, "
    "\"b\": {\"stype\": \"numerical\"}, \"note\": {\"stype\": \"text\"}}}, "
    "\"use\": {\"primary_key\": \"id\", \"temporal_column\": \"at\", \"columns\": {"
    "\"id\": {\"stype\": \"identifier\"}, \"k\": {\"stype\": \"identifier\"}, "
    "\"a\": {\"stype\": \"identifier\"}, \"b\": {\"stype\": \"identifier\"}, "
    "\"at\": {\"stype\": \"timestamp\"}, \"note\": {\"stype\": \"text\"}}, "
    "\"foreign_keys\": [{\"columns\": [\"k\"], \"table\": \"maker\", \"to\": [\"k\"]}, "
    "{\"columns\": [\"a\", \"b\"], \"table\": \"part\", \"to\": [\"a\", \"b\"]}]}}, \"tasks\": {}}";

static uint64_t count_of(const char *path, const char *sql) {
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    uint64_t count = (uint64_t)sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return count;
}

static void keys_and_texts_are_found_in_ranges(void **state) {
    char folder[64], source[160];
    weir_ingest_report report;
    (void)state;
    make_folder(folder);
    make_database(path_in(folder, "parts.sqlite", source), parts_sql);
    check_sizes(folder, source, parts_schema, &report);
    uint64_t edges = count_of(source, "SELECT (SELECT count(*) FROM use JOIN maker USING (k)) + "
                                      "(SELECT count(*) FROM use JOIN part USING (a, b))");
    assert_int_equal(report.edges, edges);
    assert_int_equal(report.dangling, count_of(source, "SELECT count(k) + count(*) FROM use") - edges);
    assert_true(report.dangling > 0);
    assert_int_equal(report.texts, count_of(source, "SELECT count(*) FROM (SELECT name FROM maker UNION "
                                                    "SELECT note FROM part UNION SELECT note FROM use)"));
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_memory_gives_one_store), cmocka_unit_test(too_little_memory_is_refused),
        cmocka_unit_test(reasons_outlive_the_ingest), cmocka_unit_test(keys_and_texts_are_found_in_ranges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
