/* Every allocation, open, read, write, sync, rename, map and thread of ingest and of opening a store fails
 * in turn: the error says so, nothing leaks, and there is no store or a whole one. */
#include <ftw.h>

#include "support/database.h"

typedef struct attempt_state {
    char folder[64];
    char source[160];
    char store[160];
    char manifest[160];
    char like[160]; /* or "" */
    uint8_t hash[WEIR_HASH_SIZE];
    bool has_expected;
    uint8_t expected[WEIR_HASH_SIZE]; /* of every store that comes of a sweep */
} attempt_state;

static weir_status ingest(const weir_env *env, void *context, weir_error *error) {
    attempt_state *s = context;
    weir_ingest_report report;
    unlink(s->store);
    unlink(s->manifest);
    weir_status status = ingest_shop(env, s->source, s->store, 2, &report, error);
    if (status == WEIR_OK)
        memcpy(s->hash, report.store_hash, sizeof s->hash);
    return status;
}

/* A source whose first bytes cannot be read is no source: a fault of that file says so in its own way. */
static weir_status as_fault(weir_status status, weir_error *error) {
    if (status == WEIR_SOURCE_ERROR && (strstr(error->message, "is not a source that weir reads") ||
                                        strstr(error->message, "cannot be opened")))
        error->status = status = WEIR_IO_ERROR;
    return status;
}

/* Ingests anew; without a schema it is drafted. */
static weir_status ingest_anew(const weir_env *env, const attempt_state *s, const char *schema,
                               uint32_t threads, weir_error *error) {
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    unlink(s->store);
    unlink(s->manifest);
    options.source = s->source;
    options.output = s->store;
    options.threads = threads;
    options.schema = schema;
    options.schema_size = schema ? strlen(schema) : 0;
    options.like = *s->like ? s->like : NULL;
    return as_fault(weir_ingest(env, &options, NULL, error), error);
}

/* Faults in threads come in any order; a draft on one thread has them in one order. */
static weir_status ingest_drafted(const weir_env *env, void *context, weir_error *error) {
    return ingest_anew(env, context, NULL, 1, error);
}

static bool is_there(const char *path) {
    return access(path, F_OK) == 0;
}

static int refuse_temporary(const char *path, const struct stat *about, int kind, struct FTW *place) {
    (void)about, (void)kind;
    return strstr(path + place->base, ".tmp") ? 1 : 0;
}

/* Whatever failed: where there is a store it is the one that comes without a fault, and nothing temporary is
 * left. */
static void store_is_whole_or_absent(void *context) {
    attempt_state *s = context;
    if (is_there(s->store)) {
        weir_store *store;
        weir_error error;
        assert_ok(weir_store_open(NULL, s->store, &store, &error), &error);
        assert_ok(weir_store_verify(store, 1, &error), &error);
        if (s->has_expected)
            assert_memory_equal(weir_store_describe(store)->store_hash, s->expected, WEIR_HASH_SIZE);
        weir_store_close(store);
    }
    assert_int_equal(nftw(s->folder, refuse_temporary, 8, FTW_PHYS), 0);
}

static uint64_t sweep_ingest(weir_status (*attempt)(const weir_env *env, void *context, weir_error *error),
                             attempt_state *s) {
    weir_store *store;
    weir_error error;
    assert_ok(attempt(NULL, s, &error), &error);
    assert_ok(weir_store_open(NULL, s->store, &store, &error), &error);
    memcpy(s->expected, weir_store_describe(store)->store_hash, WEIR_HASH_SIZE);
    weir_store_close(store);
    s->has_expected = true;
    uint64_t count = sweep_faults(attempt, store_is_whole_or_absent, s);
    s->has_expected = false;
    return count;
}

static int begin(void **state) {
    static attempt_state s;
    make_folder(s.folder);
    make_shop(s.folder, s.source);
    path_in(s.folder, "shop.weir", s.store);
    path_in(s.folder, "shop.manifest.json", s.manifest);
    *state = &s;
    return 0;
}

static int finish(void **state) {
    remove_folder(((attempt_state *)*state)->folder);
    return 0;
}

/* A database that is small enough to fail at every allocation. */
static void make_tiny(attempt_state *s) {
    make_database(
        s->source,
        "CREATE TABLE p (id INTEGER PRIMARY KEY, name TEXT, kind TEXT);"
        "CREATE TABLE c (k TEXT PRIMARY KEY, p_id INTEGER REFERENCES p, x REAL, at DATE);"
        "CREATE TABLE n (x REAL, note TEXT);"
        "INSERT INTO p VALUES (2, 'b', 'x'), (1, 'a', 'y'); INSERT INTO n VALUES (1, 'n'), (0.5, 'm');"
        "INSERT INTO c VALUES ('b', 1, 1.5, '2024-01-02'), ('a', 1, NULL, '2024-01-01'), ('c', 7, 2, NULL);");
}

static void faults_of_a_drafted_ingest(void **state) {
    attempt_state *s = *state;
    make_tiny(s);
    assert_true(sweep_ingest(ingest_drafted, s) >= 500);
}

/* Names that fill more than one block of an arena, so that memory also runs out between them. */
static void faults_of_a_drafted_ingest_with_long_names(void **state) {
    enum { COLUMNS = 26, NAME = 5000 };
    static char sql[2 * COLUMNS * (NAME + 16)], name[NAME + 1];
    attempt_state *s = *state;
    size_t size = 0;
    memset(name, 'n', NAME);
    for (int t = 0; t < 2; t++) {
        size += (size_t)sprintf(sql + size, "CREATE TABLE %c (", "pc"[t]);
        for (int c = 0; c < COLUMNS; c++)
            size += (size_t)sprintf(sql + size, "%c%s REAL, ", 'a' + c, name);
        size +=
            (size_t)sprintf(sql + size, "id INTEGER PRIMARY KEY%s);", t ? ", up INTEGER REFERENCES p" : "");
    }
    sprintf(sql + size, "INSERT INTO p (id) VALUES (1); INSERT INTO c (id, up) VALUES (2, 1), (3, 1)");
    make_database(s->source, sql);
    assert_true(sweep_ingest(ingest_drafted, s) >= 500);
}

static uint64_t give_little_memory(void *context) {
    (void)context;
    return 128 << 10;
}

/* Nearly nothing fits into memory. */
static weir_status ingest_spilled(const weir_env *env, void *context, weir_error *error) {
    const attempt_state *s = context;
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    weir_env small = env ? *env : *weir_env_default();
    unlink(s->store);
    unlink(s->manifest);
    options.source = s->source;
    options.output = s->store;
    options.threads = 1;
    small.memory_size = give_little_memory;
    return as_fault(weir_ingest(&small, &options, NULL, error), error);
}

static void faults_of_an_ingest_without_memory(void **state) {
    attempt_state *s = *state;
    make_database(s->source, "CREATE TABLE n (x REAL, t TEXT); INSERT INTO n VALUES (1, 'a'), (0.5, 'b');");
    assert_true(sweep_ingest(ingest_spilled, s) > 100);
}

static weir_status ingest_tasks(const weir_env *env, void *context, weir_error *error) {
    static const char schema[] =
        "{\"tables\": {\"p\": {\"primary_key\": \"id\", \"columns\": {\"kind\": {\"stype\": "
        "\"categorical\"}}}, \"c\": {\"primary_key\": "
        "\"k\", \"temporal_column\": \"at\", \"columns\": {\"at\": {\"stype\": \"timestamp\"}, "
        "\"p_id\": {\"stype\": \"ignored\", "
        "\"foreign_key\": \"p.id\"}, \"x\": {\"stype\": \"numerical\"}}}, \"n\": {\"columns\": {\"note\": "
        "{\"stype\": \"text\"}}}}, \"tasks\": {\"x\": "
        "{\"query\": \"SELECT k, x FROM c\", "
        "\"anchor_table\": \"c\", \"anchor_key\": \"k\", \"target_column\": \"x\", "
        "\"target_stype\": \"numerical\"}, \"y\": {\"query\": "
        "\"SELECT id, kind || id AS y, '2024-01-01' AS at FROM p\", \"anchor_table\": \"p\", "
        "\"anchor_key\": \"id\", \"target_column\": "
        "\"y\", \"target_stype\": \"categorical\", \"observation_time_column\": \"at\", "
        "\"drop_columns\": [\"p.kind\"]}}}";
    return ingest_anew(env, context, schema, 2, error);
}

static void faults_of_an_ingest_with_tasks(void **state) {
    attempt_state *s = *state;
    make_tiny(s);
    assert_true(sweep_ingest(ingest_tasks, s) >= 500);
}

static weir_status ingest_kept(const weir_env *env, void *context, weir_error *error) {
    static const char schema[] =
        "{\"tables\": {\"c\": {\"primary_key\": \"k\", \"temporal_column\": \"at\", \"columns\": "
        "{\"at\": {\"stype\": \"timestamp\"}, \"x\": {\"stype\": \"numerical\"}}}, \"n\": "
        "{\"columns\": {\"note\": {\"stype\": \"text\"}}}}}";
    const attempt_state *s = context;
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    unlink(s->store);
    unlink(s->manifest);
    options.source = s->source;
    options.output = s->store;
    options.threads = 1;
    options.schema = schema;
    options.schema_size = strlen(schema);
    options.keep_rows = true;
    return as_fault(weir_ingest(env, &options, NULL, error), error);
}

static void faults_of_an_ingest_that_keeps_its_rows(void **state) {
    attempt_state *s = *state;
    make_tiny(s);
    assert_true(sweep_ingest(ingest_kept, s) >= 300);
}

/* Keys of several columns, kept; times through them; a view and a query; seeds that move. */
static weir_status ingest_forms(const weir_env *env, void *context, weir_error *error) {
    static const char schema[] =
        "{\"keys\": true, \"statistics_until\": \"train\", \"tables\": {\"p\": "
        "{\"primary_key\": \"id\", \"temporal_column\": \"at\", "
        "\"columns\": {\"at\": {\"stype\": \"timestamp\"}}}, \"l\": {\"primary_key\": [\"k\", "
        "\"n\"], \"temporal_column\": "
        "\"p_id -> p.at\", \"columns\": {\"p_id\": {\"stype\": \"ignored\", \"foreign_key\": "
        "[\"p\", \"id\"]}, \"done\": {\"stype\": "
        "\"timestamp\"}}}, \"v\": {\"foreign_keys\": [{\"columns\": [\"k\", \"n\"], \"table\": "
        "\"l\", \"known_at\": [\"k+n\", "
        "\"done\"]}], \"columns\": {\"x\": {\"stype\": \"numerical\"}}}, \"q\": {\"query\": "
        "\"SELECT id, at FROM p\", \"primary_key\": "
        "\"id\", \"columns\": {\"at\": {\"stype\": \"timestamp\"}}}}, \"tasks\": {\"t\": "
        "{\"query\": \"SELECT k, n, 1.5 AS y, "
        "'2024-01-01' AS seen FROM l\", \"anchor_table\": \"l\", \"anchor_key\": [\"k\", "
        "\"n\"], \"target_column\": \"y\", "
        "\"target_stype\": \"numerical\", \"observation_time_column\": \"seen\", "
        "\"before_anchor\": \"move\", \"target_statistics\": "
        "\"train\", \"split\": {\"method\": \"temporal\", \"val\": \"2024-01-02\", \"test\": "
        "\"2024-01-03\"}}}}";
    return ingest_anew(env, context, schema, 2, error);
}

static void faults_of_an_ingest_with_every_form(void **state) {
    attempt_state *s = *state;
    make_database(
        s->source,
        "CREATE TABLE p (id INTEGER PRIMARY KEY, at TEXT); INSERT INTO p VALUES (1, '2024-01-02'), (5, NULL);"
        "CREATE TABLE l (k TEXT, n INTEGER, p_id INTEGER, done TEXT, x REAL, PRIMARY KEY (k, n));"
        "INSERT INTO l VALUES ('a', 1, 1, NULL, 2), ('a', 2, 5, '2024-02-01', 3), ('b', 1, NULL, NULL, 4);"
        "CREATE VIEW v AS SELECT k, n, x FROM l;");
    assert_true(sweep_ingest(ingest_forms, s) >= 500);
}

/* The same again, like the store that it gives. */
/* Pairs, the places of their destinations, and references. */
static weir_status ingest_links(const weir_env *env, void *context, weir_error *error) {
    static const char schema[] =
        "{\"tables\": {\"p\": {\"primary_key\": \"id\", \"columns\": {\"kind\": {\"stype\": "
        "\"categorical\"}}}, \"c\": {\"primary_key\": \"k\", \"temporal_column\": \"at\", \"columns\": "
        "{\"at\": {\"stype\": \"timestamp\"}, \"p_id\": {\"stype\": \"ignored\", \"foreign_key\": "
        "\"p.id\"}}}}, \"tasks\": {\"l\": {\"kind\": \"link\", \"query\": \"SELECT k, p_id, '2024-01-02' AS "
        "seen FROM c UNION ALL SELECT 'b', 2, '2024-01-02' UNION ALL SELECT 'b', 2, '2024-01-02'\", "
        "\"anchor_table\": \"c\", \"anchor_key\": \"k\", \"destination_table\": \"p\", \"destination_key\": "
        "\"p_id\", \"observation_time_column\": \"seen\", \"popularity\": \"c.p_id\"}}}";
    return ingest_anew(env, context, schema, 1, error);
}

static void faults_of_an_ingest_with_links(void **state) {
    attempt_state *s = *state;
    make_tiny(s);
    assert_true(sweep_ingest(ingest_links, s) >= 300);
}

static void faults_of_an_ingest_like_another(void **state) {
    attempt_state *s = *state;
    weir_error error;
    char earlier[160];
    path_in(s->folder, "earlier.weir", earlier);
    assert_ok(ingest_forms(NULL, s, &error), &error);
    assert_int_equal(rename(s->store, earlier), 0);
    strcpy(s->like, earlier);
    assert_true(sweep_ingest(ingest_forms, s) > 200);
    *s->like = 0;
    unlink(earlier);
}

/* The whole shop: only the kinds that come rarely, memory at every 37th call. */
static void faults_of_the_shop(void **state) {
    attempt_state *s = *state;
    uint8_t hash[WEIR_HASH_SIZE];
    make_shop(s->folder, s->source);
    weir_error error;
    assert_ok(ingest(NULL, s, &error), &error);
    memcpy(hash, s->hash, sizeof hash);
    for (uint64_t fail_at = 1;; fail_at += 37) {
        fault_env faults;
        fault_env_init(&faults);
        faults.kind = FAULT_MEMORY;
        faults.fail_at = fail_at;
        weir_status status = ingest(&faults.env, s, &error);
        assert_int_equal(faults.live_allocations, 0);
        assert_int_equal(faults.live_files, 0);
        store_is_whole_or_absent(s);
        if (faults.calls[FAULT_MEMORY] < fail_at)
            break;
        assert_int_equal(status, WEIR_OUT_OF_MEMORY);
    }
    assert_ok(ingest(NULL, s, &error), &error);
    assert_memory_equal(s->hash, hash, sizeof hash);
}

static const char edited[] = "{\"global_batch_size\": 32, \"seed\": 7}";

static weir_status ingest_beside_an_edit(const weir_env *env, void *context, weir_error *error) {
    static const char schema[] = "{\"tables\": {\"n\": {\"columns\": {\"x\": {\"stype\": \"numerical\"}}}}}";
    const attempt_state *s = context;
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    write_whole_file(s->manifest, edited, sizeof edited - 1);
    options.source = s->source;
    options.output = s->store;
    options.threads = 1;
    options.schema = schema;
    options.schema_size = sizeof schema - 1;
    return as_fault(weir_ingest(env, &options, NULL, error), error);
}

static void edit_is_there(void *context) {
    const attempt_state *s = context;
    char text[sizeof edited] = "";
    FILE *file = fopen(s->manifest, "r");
    assert_non_null(file);
    (void)!fread(text, 1, sizeof text - 1, file);
    fclose(file);
    assert_string_equal(text, edited);
}

/* A manifest that somebody has edited is kept, also if it cannot be read. */
static void faults_beside_an_edited_manifest(void **state) {
    attempt_state *s = *state;
    make_database(s->source, "CREATE TABLE n (x REAL); INSERT INTO n VALUES (1), (0.5);");
    assert_true(sweep_faults(ingest_beside_an_edit, edit_is_there, s) >= 100);
}

static weir_status open_store(const weir_env *env, void *context, weir_error *error) {
    weir_store *store;
    weir_status status = weir_store_open(env, ((attempt_state *)context)->store, &store, error);
    if (status == WEIR_OK)
        status = weir_store_verify(store, 2, error);
    weir_store_close(store);
    return status;
}

static void faults_of_opening(void **state) {
    attempt_state *s = *state;
    weir_error error;
    assert_ok(ingest(NULL, s, &error), &error);
    assert_true(sweep_faults(open_store, NULL, s) >= 14);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_of_the_shop),
        cmocka_unit_test(faults_of_opening),
        cmocka_unit_test(faults_of_a_drafted_ingest),
        cmocka_unit_test(faults_of_a_drafted_ingest_with_long_names),
        cmocka_unit_test(faults_of_an_ingest_without_memory),
        cmocka_unit_test(faults_of_an_ingest_with_tasks),
        cmocka_unit_test(faults_of_an_ingest_that_keeps_its_rows),
        cmocka_unit_test(faults_of_an_ingest_with_links),
        cmocka_unit_test(faults_of_an_ingest_with_every_form),
        cmocka_unit_test(faults_of_an_ingest_like_another),
        cmocka_unit_test(faults_beside_an_edited_manifest),
    };
    return cmocka_run_group_tests(tests, begin, finish);
}
