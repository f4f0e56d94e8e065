/* Databases and schemas that are wrong in every way: each gives one clear error that names the place, no
 * store, and no crash; what is odd but allowed gives a store. */
#include "support/database.h"

static char folder[64];

static int begin(void **state) {
    (void)state;
    make_folder(folder);
    return 0;
}

static int finish(void **state) {
    (void)state;
    remove_folder(folder);
    return 0;
}

/* Ingests a database made by `sql` under `schema` (NULL: drafted). */
static weir_status ingest(const char *sql, const char *schema, bool strict, weir_ingest_report *report,
                          weir_error *error) {
    char source[160], store[160];
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    make_database(path_in(folder, "a.sqlite", source), sql);
    unlink(path_in(folder, "a.weir", store));
    options.source = source;
    options.output = store;
    options.schema = schema;
    options.schema_size = schema ? strlen(schema) : 0;
    options.schema_name = "a.schema.json";
    options.threads = 2;
    options.strict = strict;
    return weir_ingest(NULL, &options, report, error);
}

static void refused(const char *sql, const char *schema, weir_status expected, const char *part_of_message) {
    weir_error error = {0};
    char store[160];
    assert_fails(ingest(sql, schema, false, NULL, &error), expected, &error);
    if (!strstr(error.message, part_of_message))
        fail_msg("'%s' is not in the message: %s", part_of_message, error.message);
    assert_int_not_equal(access(path_in(folder, "a.weir", store), F_OK), 0);
}

/* Ingests, verifies, and opens. */
static weir_store *accepted(const char *sql, const char *schema) {
    weir_error error = {0};
    weir_store *store = NULL;
    char path[160];
    assert_ok(ingest(sql, schema, false, NULL, &error), &error);
    assert_ok(weir_store_open(NULL, path_in(folder, "a.weir", path), &store, &error), &error);
    assert_ok(weir_store_verify(store, 1, &error), &error);
    return store;
}

#define ONE_TABLE(columns)                                                                                   \
    "{\"tables\": {\"t\": {\"primary_key\": \"id\", \"columns\": {\"id\": {\"stype\": "                      \
    "\"identifier\"}" columns "}}}}"

static void keys_must_be_there_and_unique(void **state) {
    (void)state;
    const char *schema = ONE_TABLE("");
    refused("CREATE TABLE t (id, x); INSERT INTO t VALUES (1, 1), (NULL, 2);", schema, WEIR_SCHEMA_INVALID,
            "table t, column id");
    refused("CREATE TABLE t (id, x); INSERT INTO t VALUES (5, 1), (7, 2), (5, 3);", schema,
            WEIR_SCHEMA_INVALID, "key 5");
    refused("CREATE TABLE t (id, x); INSERT INTO t VALUES (5, 1), (5.0, 3);", schema, WEIR_SCHEMA_INVALID,
            "key 5");
    refused("CREATE TABLE t (id, x); INSERT INTO t VALUES ('a', 1), ('a', 3);", schema, WEIR_SCHEMA_INVALID,
            "'a'");
    refused("CREATE TABLE t (id, x); INSERT INTO t VALUES (x'00', 1), (x'00', 3);", schema,
            WEIR_SCHEMA_INVALID, "blob");
    refused("CREATE TABLE t (a, b); INSERT INTO t VALUES (1, 'x'), (1, 'y'), (1, 'x');",
            "{\"tables\": {\"t\": {\"primary_key\": [\"a\", \"b\"], \"columns\": {}}}}", WEIR_SCHEMA_INVALID,
            "key (1, 'x')");
}

static void rows_are_in_key_order_whatever_the_types(void **state) {
    (void)state;
    weir_store *store =
        accepted("CREATE TABLE t (id, x TEXT); INSERT INTO t VALUES ('b', 'f'), (2, 'c'), (x'01', 'h'), "
                 "('a', 'e'), (1.5, 'b'), (-9e300, 'a'), (9e300, 'd'), ('ba', 'g'), (x'0100', 'i');",
                 ONE_TABLE(", \"x\": {\"stype\": \"categorical\"}"));
    for (uint32_t row = 0; row < 9; row++) {
        weir_cell cell;
        assert_true(weir_store_cell(store, row, 1, &cell));
        assert_int_equal(cell.integer, row); /* a, b, c … */
    }
    weir_store_close(store);
}

static void unfit_values_name_the_first_row(void **state) {
    (void)state;
    const char *sql =
        "CREATE TABLE t (id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (9, 'zzz'), (3, 'bad'), (1, "
        "NULL), (2, '1'), (4, 'worse');";
    refused(sql, ONE_TABLE(", \"x\": {\"stype\": \"numerical\"}"), WEIR_SCHEMA_INVALID,
            "table t, column x, key 3: 'bad' is not a number");
    refused(sql, ONE_TABLE(", \"x\": {\"stype\": \"timestamp\"}"), WEIR_SCHEMA_INVALID, "key 2");
    refused(sql, ONE_TABLE(", \"x\": {\"stype\": \"boolean\"}"), WEIR_SCHEMA_INVALID, "key 3");
    refused("CREATE TABLE t (id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, x'0102');",
            ONE_TABLE(", \"x\": {\"stype\": \"text\"}"), WEIR_SCHEMA_INVALID, "blob");
    refused("CREATE TABLE t (id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, '2024-02-30');",
            ONE_TABLE(", \"x\": {\"stype\": \"timestamp\"}"), WEIR_SCHEMA_INVALID, "'2024-02-30'");
    refused("CREATE TABLE t (id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, 9223372036854775807);",
            ONE_TABLE(", \"x\": {\"stype\": \"timestamp\"}"), WEIR_SCHEMA_INVALID, "9223372036854775807");
    refused("CREATE TABLE t (id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, 2.5);",
            ONE_TABLE(", \"x\": {\"stype\": \"timestamp\"}"), WEIR_SCHEMA_INVALID, "2.5");
}

static void text_must_be_utf8(void **state) {
    (void)state;
    const char *sql =
        "CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT); INSERT INTO t VALUES (1, 'ok'), (2, CAST(x'41ff' "
        "AS TEXT));";
    const char *stypes[] = {"text", "categorical", "identifier"};
    for (int i = 0; i < 3; i++) {
        char schema[300];
        snprintf(schema, sizeof schema, ONE_TABLE(", \"x\": {\"stype\": \"%s\"}"), stypes[i]);
        refused(sql, schema, WEIR_SOURCE_ERROR, "key 2");
    }
    refused("CREATE TABLE t (x TEXT); INSERT INTO t VALUES (CAST(x'c3' AS TEXT));",
            "{\"tables\": {\"t\": {\"columns\": {\"x\": {\"stype\": \"identifier\"}}}}}", WEIR_SOURCE_ERROR,
            "UTF-8");
    weir_store_close(accepted(sql, ONE_TABLE(""))); /* what is not read is not looked at */
}

static void values_that_are_not_finite_are_null(void **state) {
    (void)state;
    weir_store *store =
        accepted("CREATE TABLE t (id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, 9e999), (2, -9e999), "
                 "(3, 'nan'), (4, 'Infinity'), (5, 1), (6, 3), (7, NULL), (8, '1e400');",
                 ONE_TABLE(", \"x\": {\"stype\": \"numerical\"}"));
    const weir_column *column = &weir_store_describe(store)->columns[1];
    assert_int_equal(column->not_finite, 5);
    assert_int_equal(column->nulls, 6);
    assert_int_equal(column->statistics.count, 2);
    assert_true(column->statistics.mean == 2 && column->statistics.std == 1);
    weir_store_close(store);
}

static void empty_databases_give_stores(void **state) {
    (void)state;
    weir_store *store =
        accepted("CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT); CREATE TABLE u (y);", NULL);
    assert_int_equal(weir_store_describe(store)->row_count, 0);
    assert_int_equal(weir_store_table_of(store, 0), WEIR_NONE);
    weir_store_close(store);
    store = accepted("CREATE TABLE t (x); INSERT INTO t VALUES (1), (1), (2);",
                     "{\"tables\": {\"t\": {\"columns\": {}}}}");
    assert_int_equal(weir_store_describe(store)->row_count, 3); /* rows without a cell */
    weir_store_close(store);
}

#define TASK(members)                                                                                        \
    "{\"tables\": {\"t\": {\"primary_key\": \"id\", \"columns\": {\"id\": {\"stype\": \"identifier\"}, "     \
    "\"x\": {\"stype\": "                                                                                    \
    "\"numerical\"}}}}, \"tasks\": {\"k\": {" members "}}}"
#define KEYS                                                                                                 \
    "\"anchor_table\": \"t\", \"anchor_key\": \"id\", \"target_column\": \"y\", \"target_stype\": "          \
    "\"numerical\""

static void bad_tasks_are_refused(void **state) {
    (void)state;
    const char *sql = "CREATE TABLE t (id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, 1), (2, 2);";
    refused(sql, TASK(KEYS ", \"query\": \"SELECT nonsense FROM\""), WEIR_TASK_INVALID,
            "task k: the query failed");
    refused(sql, TASK(KEYS ", \"query\": \"\""), WEIR_TASK_INVALID, "task k");
    refused(sql, TASK(KEYS ", \"query\": \"SELECT id FROM t\""), WEIR_TASK_INVALID, "no column y");
    refused(sql, TASK(KEYS ", \"query\": \"SELECT id, 'abc' AS y FROM t\""), WEIR_TASK_INVALID, "'abc'");
    refused(sql, TASK(KEYS ", \"query\": \"DELETE FROM t RETURNING id, x AS y\""), WEIR_TASK_INVALID,
            "task k");
    refused(
        sql,
        TASK(KEYS
             ", \"query\": \"SELECT id, x AS y, 'soon' AS at FROM t\", \"observation_time_column\": \"at\""),
        WEIR_TASK_INVALID, "'soon'");
    refused(sql,
            TASK(KEYS ", \"query\": \"SELECT id, x AS y, 'other' AS s FROM t\", \"split\": {\"method\": "
                      "\"column\", \"column\": "
                      "\"s\"}"),
            WEIR_TASK_INVALID, "'other'");
    refused(sql, TASK(KEYS ", \"query\": \"SELECT 1\", \"split\": {\"permille\": [1, 2, 3]}"),
            WEIR_TASK_INVALID, "$.tasks.k.split.permille");
    refused(sql, TASK(KEYS ", \"query\": \"SELECT 1\", \"split\": {\"method\": \"random\"}"),
            WEIR_TASK_INVALID, "$.tasks.k.split.method");
    refused(sql, TASK(KEYS ", \"query\": \"SELECT 1\", \"kind\": \"row\""), WEIR_TASK_INVALID,
            "$.tasks.k.kind");
    refused(sql, TASK(KEYS ", \"query\": \"SELECT id, x AS y FROM t\", \"kind\": \"cell\""),
            WEIR_TASK_INVALID, "$.tasks.k.target_column");
    refused(sql, TASK(KEYS ", \"query\": \"SELECT 1\", \"drop_columns\": [\"t.z\"]"), WEIR_TASK_INVALID,
            "t.z");
    refused(sql,
            TASK("\"anchor_table\": \"u\", \"anchor_key\": \"id\", \"target_column\": \"y\", "
                 "\"target_stype\": \"boolean\", "
                 "\"query\": \"\""),
            WEIR_TASK_INVALID, "$.tasks.k.anchor_table");
    refused(sql,
            TASK("\"anchor_table\": \"t\", \"anchor_key\": \"id\", \"target_column\": \"y\", "
                 "\"target_stype\": \"text\", "
                 "\"query\": \"\""),
            WEIR_TASK_INVALID, "$.tasks.k.target_stype");
}

static void a_task_without_rows_is_empty(void **state) {
    (void)state;
    weir_store *store = accepted("CREATE TABLE t (id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, 1);",
                                 TASK(KEYS ", \"query\": \"SELECT id, x AS y FROM t WHERE id > 5\""));
    assert_int_equal(weir_store_describe(store)->tasks[0].seed_count, 0);
    assert_true(weir_store_describe(store)->columns[2].statistics.std == 1);
    weir_store_close(store);
}

static void bad_schemas_name_the_path(void **state) {
    (void)state;
    const char *sql = "CREATE TABLE t (id INTEGER PRIMARY KEY, x); CREATE TABLE u (id INTEGER PRIMARY KEY, "
                      "t_id, y); INSERT "
                      "INTO t VALUES (1, 7), (2, 7); INSERT INTO u VALUES (1, 7, 1);";
    refused(sql, "{\"tables\": {\"v\": {\"columns\": {}}}}", WEIR_SCHEMA_INVALID, "$.tables.v");
    refused(sql, ONE_TABLE(", \"z\": {\"stype\": \"text\"}"), WEIR_SCHEMA_INVALID, "$.tables.t.columns.z");
    refused(sql, ONE_TABLE(", \"x\": {\"stype\": \"number\"}"), WEIR_SCHEMA_INVALID,
            "$.tables.t.columns.x.stype");
    refused(sql, ONE_TABLE(", \"x\": {\"stype\": \"text\", \"colour\": 1}"), WEIR_SCHEMA_INVALID,
            "$.tables.t.columns.x.colour");
    refused(sql, ONE_TABLE(", \"x\": {\"stype\": \"text\", \"known_at\": \"id\"}"), WEIR_SCHEMA_INVALID,
            "$.tables.t.columns.x.known_at");
    refused(sql, ONE_TABLE(", \"x\": {\"stype\": \"text\", \"foreign_key\": \"id\"}"), WEIR_SCHEMA_INVALID,
            "foreign_key");
    refused(sql, ONE_TABLE(", \"x\": {\"stype\": \"text\", \"foreign_key\": \"u.id\"}"), WEIR_SCHEMA_INVALID,
            "$.tables.t.columns.x.foreign_key");
    refused(sql, "{\"tables\": {\"t\": {\"primary_key\": \"nope\", \"columns\": {}}}}", WEIR_SCHEMA_INVALID,
            "$.tables.t.primary_key");
    refused(sql,
            "{\"tables\": {\"t\": {\"temporal_column\": \"x\", \"columns\": {\"x\": {\"stype\": "
            "\"numerical\"}}}}}",
            WEIR_SCHEMA_INVALID, "$.tables.t.temporal_column");
    refused(sql, "{\"tables\": {}}", WEIR_SCHEMA_INVALID, "$.tables has no table");
    refused(sql, "{\"tables\": {}, \"colour\": 1}", WEIR_SCHEMA_INVALID, "$.colour");
    refused(sql, "{\"tables\": {\"t\": {\"columns\": {}}}, \"name\": \"a/b\"}", WEIR_SCHEMA_INVALID,
            "$.name");
    refused(sql, "{\"tables\": {\"t\": {\"columns\": {}}}, \"embedding\": {\"dim\": 0}}", WEIR_SCHEMA_INVALID,
            "$.embedding.dim");
    refused(sql, "{\"tables\": {\"t\": {\"columns\": {}}}, \"embedding\": {\"provider\": \"magic\"}}",
            WEIR_SCHEMA_INVALID, "$.embedding.provider");
    refused(sql, "{\"tables\": {\"t\": {\"columns\": {}}}, \"statistics_until\": \"soon\"}",
            WEIR_SCHEMA_INVALID, "$.statistics_until");
    refused(sql, "{\"tables\": []}", WEIR_SCHEMA_INVALID, "$.tables");
    refused(sql, "{\"tables\": {}", WEIR_SCHEMA_INVALID, "a.schema.json");
    refused(sql,
            "{\"tables\": {\"t\": {\"columns\": {}}, \"u\": {\"columns\": {\"t_id\": {\"stype\": "
            "\"ignored\", \"foreign_key\": "
            "\"t.x\"}}}}}",
            WEIR_SCHEMA_INVALID, "the value 7 twice");
}

static void dangling_keys_are_counted_or_refused(void **state) {
    (void)state;
    weir_error error;
    weir_ingest_report report;
    const char *sql =
        "CREATE TABLE t (id INTEGER PRIMARY KEY); CREATE TABLE u (id INTEGER PRIMARY KEY, t_id INTEGER "
        "REFERENCES t); INSERT INTO t VALUES (1), (5); INSERT INTO u VALUES (1, 1), (2, NULL), (3, 4), (4, "
        "5);";
    assert_ok(ingest(sql, NULL, false, &report, &error), &error);
    assert_int_equal(report.edges, 2);
    assert_int_equal(report.dangling, 1);
    assert_fails(ingest(sql, NULL, true, &report, &error), WEIR_SCHEMA_INVALID, &error);
    assert_non_null(strstr(error.message, "key 3"));
}

static void sources_that_are_none_are_refused(void **state) {
    (void)state;
    char path[160];
    weir_error error;
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    options.source = path_in(folder, "missing.sqlite", path);
    assert_fails(weir_ingest(NULL, &options, NULL, &error), WEIR_SOURCE_ERROR, &error);
    FILE *file = fopen(path, "wb");
    fputs("SQLite format 3 but not quite", file);
    fclose(file);
    assert_fails(weir_ingest(NULL, &options, NULL, &error), WEIR_SOURCE_ERROR, &error);
}

/* A database whose pages are overwritten with noise: any answer but a crash is right. */
static void damaged_databases_do_no_harm(void **state) {
    (void)state;
    char path[160], output[160];
    random_stream stream = {3};
    make_shop(folder, path);
    FILE *file = fopen(path, "rb");
    static uint8_t bytes[400000];
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    for (int round = 0; round < 60; round++) {
        char damaged[160];
        file = fopen(path_in(folder, "damaged.sqlite", damaged), "wb");
        fwrite(bytes, 1, size, file);
        for (int i = 0; i < 20; i++) {
            fseek(file, (long)(100 + random_below(&stream, size - 100)), SEEK_SET);
            fputc((int)random_below(&stream, 256), file);
        }
        fclose(file);
        weir_error error;
        (void)!ingest_shop(NULL, damaged, path_in(folder, "damaged.weir", output), 2, NULL, &error);
    }
}

static bool stop_at_once(void *context, const weir_progress *progress) {
    ++*(int *)context;
    return strcmp(progress->phase, "order") != 0;
}

static void ingest_can_be_cancelled(void **state) {
    (void)state;
    char source[160], store[160];
    int calls = 0;
    weir_error error;
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    make_database(path_in(folder, "a.sqlite", source),
                  "CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1);");
    unlink(path_in(folder, "c.weir", store));
    options.source = source;
    options.output = store;
    options.progress = stop_at_once;
    options.progress_context = &calls;
    assert_fails(weir_ingest(NULL, &options, NULL, &error), WEIR_CANCELLED, &error);
    assert_true(calls > 0);
    assert_int_not_equal(access(store, F_OK), 0);
}

/* Reads the file, and then lines without end. */
static ssize_t read_endlessly(void *context, int file, void *out, size_t size) {
    ssize_t count = weir_env_default()->read(context, file, out, size);
    for (size_t i = 0; count == 0 && i < size / 4; i++)
        memcpy((char *)out + 4 * i, "1,2\n", 4);
    return count == 0 ? (ssize_t)(size / 4 * 4) : count;
}

static bool stop_now(void *context, const weir_progress *progress) {
    ++*(int *)context;
    assert_string_equal(progress->phase, "open");
    return false;
}

/* All of a CSV file is read when it is opened, before there is a session to interrupt. */
static void ingest_can_be_cancelled_while_files_are_opened(void **state) {
    (void)state;
    char source[160], store[160];
    int calls = 0;
    weir_error error;
    weir_env env = *weir_env_default();
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    env.read = read_endlessly;
    write_whole_file(path_in(folder, "endless.csv", source), "a,b\n", 4);
    options.source = source;
    options.output = path_in(folder, "c.weir", store);
    options.progress = stop_now;
    options.progress_context = &calls;
    assert_fails(weir_ingest(&env, &options, NULL, &error), WEIR_CANCELLED, &error);
    assert_int_equal(calls, 1);
    assert_int_not_equal(access(store, F_OK), 0);
}

/* More rows than a block of statistics and than a part: order, texts and statistics do not depend on the
 * threads. */
static void large_tables_are_shared_out_without_a_trace(void **state) {
    (void)state;
    uint8_t hash[WEIR_HASH_SIZE];
    char source[160], store[160];
    make_database(
        path_in(folder, "big.sqlite", source),
        "CREATE TABLE p (k TEXT PRIMARY KEY, v REAL) WITHOUT ROWID;"
        "CREATE TABLE c (a INTEGER, p TEXT REFERENCES p(k), note TEXT, at INTEGER, x REAL, kind TEXT);"
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999) INSERT INTO p SELECT "
        "'key ' || i, "
        "i * 0.37 FROM n;"
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 119999) INSERT INTO c "
        "SELECT i * 7919 % 10007, "
        "'key ' || (i * 31 % 1100), 'note ' || (i * 104729 % 5003), 1500000000 + i * 7919 % 100000, i * 0.1, "
        "'k' || i % 7 "
        "FROM n;");
    for (uint32_t threads = 1; threads <= 4; threads++) {
        weir_error error;
        weir_ingest_report report;
        weir_ingest_options options = WEIR_INGEST_OPTIONS;
        options.source = source;
        options.output = path_in(folder, "big.weir", store);
        options.threads = threads;
        options.schema = "{\"tables\": {\"p\": {\"primary_key\": \"k\", \"columns\": {\"k\": {\"stype\": "
                         "\"identifier\"}, \"v\": {\"stype\": "
                         "\"numerical\"}}}, \"c\": {\"temporal_column\": \"at\", \"columns\": {\"a\": "
                         "{\"stype\": \"numerical\"}, \"p\": {\"stype\": "
                         "\"identifier\", \"foreign_key\": \"p.k\"}, \"note\": {\"stype\": \"text\"}, "
                         "\"at\": {\"stype\": \"timestamp\"}, \"x\": "
                         "{\"stype\": \"numerical\"}, \"kind\": {\"stype\": \"categorical\"}}}}}";
        options.schema_size = strlen(options.schema);
        assert_ok(weir_ingest(NULL, &options, &report, &error), &error);
        assert_int_equal(report.rows, 121000);
        assert_true(report.dangling > 0 && report.edges > 100000);
        if (threads == 1)
            memcpy(hash, report.store_hash, sizeof hash);
        assert_memory_equal(report.store_hash, hash, sizeof hash);
    }
    weir_error error;
    weir_store *opened;
    assert_ok(weir_store_open(NULL, store, &opened, &error), &error);
    assert_ok(weir_store_verify(opened, 2, &error), &error);
    weir_store_close(opened);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_must_be_there_and_unique),
        cmocka_unit_test(rows_are_in_key_order_whatever_the_types),
        cmocka_unit_test(unfit_values_name_the_first_row),
        cmocka_unit_test(text_must_be_utf8),
        cmocka_unit_test(values_that_are_not_finite_are_null),
        cmocka_unit_test(empty_databases_give_stores),
        cmocka_unit_test(bad_tasks_are_refused),
        cmocka_unit_test(a_task_without_rows_is_empty),
        cmocka_unit_test(bad_schemas_name_the_path),
        cmocka_unit_test(dangling_keys_are_counted_or_refused),
        cmocka_unit_test(sources_that_are_none_are_refused),
        cmocka_unit_test(damaged_databases_do_no_harm),
        cmocka_unit_test(ingest_can_be_cancelled),
        cmocka_unit_test(ingest_can_be_cancelled_while_files_are_opened),
        cmocka_unit_test(large_tables_are_shared_out_without_a_trace),
    };
    return cmocka_run_group_tests(tests, begin, finish);
}
