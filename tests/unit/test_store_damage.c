/* A store that is cut or changed: every truncation is refused when it is opened, every flipped bit is found
 * when it is verified, and no damage, also with hashes made to fit, lets a reader stray. */
#include "support/damage.h"
#include "support/database.h"

static char folder[64];
static uint8_t *original;
static size_t size;

/* Keys of every form: p has a range, c gaps, l texts of several columns; l's time is that of its p. */
static const char sql[] =
    "CREATE TABLE p (id INTEGER PRIMARY KEY, name TEXT, kind TEXT, at TEXT);"
    "CREATE TABLE c (id INTEGER PRIMARY KEY, p_id INTEGER REFERENCES p, x REAL, ok BOOLEAN, at TEXT, note "
    "TEXT);"
    "CREATE TABLE l (k TEXT, n INTEGER, p_id INTEGER, m INTEGER, done TEXT, PRIMARY KEY (k, n));"
    "INSERT INTO p VALUES (1, 'one', 'a', '2024-01-01'), (2, 'two', 'b', NULL), (3, NULL, 'a', '2024-02-01');"
    "INSERT INTO c VALUES (1, 1, 0.5, 1, '2024-01-02', 'n'), (2, 1, NULL, 0, '2024-01-01', NULL), (3, 3, 2, "
    "NULL, NULL, 'm'),"
    " (400, 9, 1, 1, '2024-03-01', 'n');"
    "INSERT INTO l VALUES ('a', 1, 1, 2, '2024-02-02'), ('a', 2, 3, NULL, NULL), ('b', 1, NULL, 1, NULL);";

static const char schema[] =
    "{\"name\": \"small\", \"keys\": true, \"tables\": {\"p\": {\"primary_key\": \"id\", "
    "\"temporal_column\": \"at\", "
    "\"columns\": {\"id\": {\"stype\": \"identifier\"}, \"name\": {\"stype\": \"text\"}, \"kind\": "
    "{\"stype\": "
    "\"categorical\"}, \"at\": {\"stype\": \"timestamp\"}}}, "
    "\"c\": {\"primary_key\": \"id\", \"temporal_column\": \"at\", \"columns\": {\"id\": {\"stype\": "
    "\"identifier\"}, \"p_id\": {\"stype\": \"identifier\", \"foreign_key\": \"p.id\"}, \"x\": {\"stype\": "
    "\"numerical\"}, \"ok\": {\"stype\": \"boolean\"}, \"at\": {\"stype\": \"timestamp\"}, \"note\": "
    "{\"stype\": "
    "\"text\"}}}, \"l\": {\"primary_key\": [\"k\", \"n\"], \"temporal_column\": \"p_id -> p.at\", "
    "\"foreign_keys\": "
    "[{\"columns\": [\"k\", \"m\"], \"table\": \"l\", \"name\": \"next\"}], \"columns\": {\"p_id\": "
    "{\"stype\": "
    "\"identifier\", \"foreign_key\": \"p.id\"}, \"m\": {\"stype\": \"identifier\", \"known_at\": \"next -> "
    "l.done\"}, "
    "\"done\": {\"stype\": \"timestamp\"}}}}, \"tasks\": {\"ok\": {\"query\": \"SELECT id, ok FROM c\", "
    "\"anchor_table\": \"c\", \"anchor_key\": \"id\", \"target_column\": \"ok\", \"target_stype\": "
    "\"boolean\"}, \"k\": {\"query\": \"SELECT id, kind AS y, '2024-01-05' AS at FROM p UNION ALL "
    "SELECT id, kind, '2024-01-07' FROM p\", \"anchor_table\": "
    "\"p\", "
    "\"anchor_key\": \"id\", \"target_column\": \"y\", \"target_stype\": \"categorical\", "
    "\"observation_time_column\": \"at\", \"before_anchor\": \"show_known\", \"horizon\": \"1d\"}}, "
    "\"embedding\": {\"dim\": 4}}";

static int make_store(void **state) {
    (void)state;
    make_folder(folder);
    original = make_store_of(folder, sql, schema, &size);
    return 0;
}

static int remove_store(void **state) {
    (void)state;
    free(original);
    remove_folder(folder);
    return 0;
}

static weir_status open_and_verify(const uint8_t *data, size_t length, uint64_t *sum) {
    weir_store *store;
    weir_error error;
    weir_status status = weir_store_open_memory(NULL, data, length, &store, &error);
    if (status != WEIR_OK)
        return status;
    *sum += read_everything(store, 100);
    status = weir_store_verify(store, 1, &error);
    weir_store_close(store);
    return status;
}

static void the_store_itself_is_sound(void **state) {
    uint64_t sum = 0;
    (void)state;
    assert_int_equal(open_and_verify(original, size, &sum), WEIR_OK);
}

/* All bits of bytes that hold something; of padding one bit a byte, a different one each time. */
static void every_flipped_bit_is_found(void **state) {
    uint64_t sum = 0;
    uint8_t *copy = malloc(size);
    (void)state;
    memcpy(copy, original, size);
    for (size_t at = 0; at < size; at += test_stride())
        for (unsigned bit = 0; bit < 8; bit++) {
            if (original[at] == 0 && bit != at % 8)
                continue;
            copy[at] ^= (uint8_t)(1u << bit);
            weir_status status = open_and_verify(copy, size, &sum);
            if (status != WEIR_STORE_CORRUPT && status != WEIR_STORE_VERSION)
                fail_msg("bit %u of byte %zu: %s", bit, at, weir_status_name(status));
            copy[at] = original[at];
        }
    free(copy);
}

static void every_truncation_is_refused(void **state) {
    (void)state;
    for (size_t length = 0; length < size; length += test_stride()) {
        weir_store *store;
        weir_error error;
        bool is_exact = length % 97 == 0 || length % WEIR_STORE__PAGE < 2;
        uint8_t *copy = is_exact ? malloc(length ? length : 1) : original;
        if (is_exact)
            memcpy(copy, original, length);
        assert_fails(weir_store_open_memory(NULL, copy, length, &store, &error), WEIR_STORE_CORRUPT, &error);
        if (is_exact)
            free(copy);
    }
}

static void a_cut_file_is_refused(void **state) {
    char path[160];
    weir_store *store;
    weir_error error;
    (void)state;
    path_in(folder, "small.weir", path);
    assert_int_equal(truncate(path, (off_t)size - 1), 0);
    assert_fails(weir_store_open(NULL, path, &store, &error), WEIR_STORE_CORRUPT, &error);
    assert_int_equal(truncate(path, 100), 0);
    assert_fails(weir_store_open(NULL, path, &store, &error), WEIR_STORE_CORRUPT, &error);
    assert_fails(weir_store_open(NULL, folder, &store, &error), WEIR_IO_ERROR, &error);
    assert_fails(weir_store_open(NULL, "/no/such/file", &store, &error), WEIR_IO_ERROR, &error);
}

static void another_version_is_named(void **state) {
    uint8_t *copy = malloc(size);
    weir_store *store;
    weir_error error;
    (void)state;
    for (uint32_t version = 0; version <= 3; version += 3) {
        memcpy(copy, original, size);
        weir__store32(copy + 8, version);
        rehash_store(copy, size);
        assert_fails(weir_store_open_memory(NULL, copy, size, &store, &error), WEIR_STORE_VERSION, &error);
    }
    free(copy);
}

/* The same bytes as another version: numbers of rows that are not in their tables. */
static void numbers_of_another_version_are_wrong(void **state) {
    uint8_t *copy = malloc(size);
    uint64_t sum = 0;
    weir_store *store;
    weir_error error;
    (void)state;
    memcpy(copy, original, size);
    weir__store32(copy + 8, 2);
    rehash_store(copy, size);
    assert_ok(weir_store_open_memory(NULL, copy, size, &store, &error), &error);
    const weir_store_info *info = weir_store_describe(store);
    assert_int_equal(info->format, 2);
    for (uint32_t t = 0; t < info->table_count; t++)
        assert_int_equal(info->tables[t].first_number, 0);
    weir_store_close(store);
    assert_int_equal(open_and_verify(copy, size, &sum), WEIR_STORE_CORRUPT);
    free(copy);
}

/* Damage with hashes that fit: verify finds numbers that lead nowhere, and readers survive all of it. */
static void readers_survive_damage_that_the_hashes_hide(void **state) {
    random_stream stream = {11};
    uint8_t *copy = malloc(size);
    uint64_t sum = 0;
    uint32_t refused = 0;
    (void)state;
    for (unsigned round = 0; round < 20000; round += test_stride()) {
        memcpy(copy, original, size);
        weir__store32(copy + 8, 1 + round / test_stride() % 2); /* numbers that mean something else */
        uint64_t count = 1 + random_below(&stream, 4);
        for (uint64_t i = 0; i < count; i++)
            copy[random_below(&stream, size)] = (uint8_t)random_next(&stream);
        rehash_store(copy, size);
        refused += open_and_verify(copy, size, &sum) != WEIR_OK;
    }
    free(copy);
    assert_true(refused > 1000 / test_stride());
}

static void verify_finds_rows_that_do_not_exist(void **state) {
    weir_store *store;
    weir_error error;
    (void)state;
    uint8_t *copy = malloc(size);
    memcpy(copy, original, size);
    assert_ok(weir_store_open_memory(NULL, copy, size, &store, &error), &error);
    const weir_store_info *info = weir_store_describe(store);
    const weir_edge *edge = &info->edges[0];
    uint8_t *slot = (uint8_t *)info->tables[edge->table].records + edge->parent_slot;
    weir__store32(slot, (uint32_t)info->row_count);
    assert_int_equal(weir_store_parent(store, info->tables[edge->table].row_start, 0), WEIR_NO_ROW);
    weir_store_close(store);
    rehash_store(copy, size);
    assert_ok(weir_store_open_memory(NULL, copy, size, &store, &error), &error);
    assert_fails(weir_store_verify(store, 1, &error), WEIR_STORE_CORRUPT, &error);
    weir_store_close(store);
    free(copy);
}

/* A key that does not ascend, one that is not there, and a first one of which a part is not there. */
static void verify_finds_keys_that_are_wrong(void **state) {
    weir_store *store;
    weir_error error;
    (void)state;
    uint8_t *copy = malloc(size);
    for (uint32_t fault = 0; fault < 3; fault++) {
        memcpy(copy, original, size);
        assert_ok(weir_store_open_memory(NULL, copy, size, &store, &error), &error);
        const weir_table *tables = weir_store_describe(store)->tables, *table = &tables[fault > 0];
        assert_int_equal(tables[0].key_form, WEIR_KEYS_PACKED);
        assert_int_equal(tables[1].key_form, WEIR_KEYS_CBOR);
        assert_int_equal(tables[2].key_form, WEIR_KEYS_RANGE);
        uint8_t *keys = (uint8_t *)table->keys;
        weir_store_close(store);
        if (fault == 0)
            weir__store16(keys + 2, 0); /* the second is the first again */
        else if (fault == 1)
            keys[16] = 0x80; /* an array without values, in place of one with two */
        else
            keys[17] = 0xF6; /* null and a text, in place of a text and a number */
        rehash_store(copy, size);
        assert_ok(weir_store_open_memory(NULL, copy, size, &store, &error), &error);
        assert_fails(weir_store_verify(store, 1, &error), WEIR_STORE_CORRUPT, &error);
        assert_non_null(strstr(error.message, "the keys of table"));
        weir_store_close(store);
    }
    free(copy);
}

/* Labels whose order, time, anchor or split is not that of their seeds. */
static void verify_finds_labels_that_are_wrong(void **state) {
    weir_store *store;
    weir_error error;
    uint8_t *copy = malloc(size);
    (void)state;
    for (int fault = 0; fault < 6; fault++) {
        memcpy(copy, original, size);
        assert_ok(weir_store_open_memory(NULL, copy, size, &store, &error), &error);
        const weir_store_info *info = weir_store_describe(store);
        const weir_task *task = &info->tasks[0];
        assert_true(task->has_label_times && task->labels.count == 6);
        uint8_t *times = (uint8_t *)task->labels.times, *starts = (uint8_t *)task->labels.starts;
        uint8_t *rows = (uint8_t *)task->labels.rows;
        uint32_t row_count = (uint32_t)info->row_count, seed_count = (uint32_t)task->seed_count;
        weir_store_close(store);
        if (fault == 0)
            weir__store64(times, weir__load64(times) - 1); /* it is known before its horizon */
        else if (fault == 1)
            weir__store32(rows, row_count + seed_count); /* a seed that is none */
        else if (fault == 2)
            weir__store32(starts + 4, weir__load32(starts + 4) - 1); /* of another anchor */
        else if (fault == 3)
            weir__store32(starts + 4, 7); /* beyond the end */
        else if (fault == 4)
            weir__store64(times, (uint64_t)INT64_MIN); /* no time is a horizon before it */
        else
            weir__store32(rows + 4, weir__load32(rows)); /* twice */
        rehash_store(copy, size);
        assert_ok(weir_store_open_memory(NULL, copy, size, &store, &error), &error);
        assert_fails(weir_store_verify(store, 1, &error), WEIR_STORE_CORRUPT, &error);
        assert_non_null(strstr(error.message, "the labels of task k"));
        weir_store_close(store);
    }
    free(copy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_store_itself_is_sound),
        cmocka_unit_test(every_flipped_bit_is_found),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(another_version_is_named),
        cmocka_unit_test(numbers_of_another_version_are_wrong),
        cmocka_unit_test(readers_survive_damage_that_the_hashes_hide),
        cmocka_unit_test(verify_finds_rows_that_do_not_exist),
        cmocka_unit_test(verify_finds_keys_that_are_wrong),
        cmocka_unit_test(verify_finds_labels_that_are_wrong),
        cmocka_unit_test(a_cut_file_is_refused),
    };
    return cmocka_run_group_tests(tests, make_store, remove_store);
}
