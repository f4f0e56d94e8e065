/* Every call of an ingest from a base to the system fails in turn: the error says so, nothing leaks, the base
 * and the store that was there stay whole, and so do their rows. */
#include <dirent.h>
#include <ftw.h>

#include "support/database.h"

static const char schema[] =
    "{\"tables\": {\"c\": {\"primary_key\": \"k\", \"temporal_column\": \"at\", \"columns\": "
    "{\"at\": {\"stype\": \"timestamp\"}, \"x\": {\"stype\": \"numerical\"}}}, \"n\": "
    "{\"columns\": {\"note\": {\"stype\": \"text\"}}}}}";

enum { NOTED_MOST = 64 << 10, NAMES_MOST = 20 };

typedef struct noted_file {
    size_t size;
    uint8_t bytes[NOTED_MOST];
} noted_file;

typedef struct growing {
    char folder[64];
    char before[160], now[160]; /* the database on two days */
    char base[160], rows[160], list[160];
    noted_file noted_store, noted_list; /* the base's */
    char names[NAMES_MOST][500];        /* of its rows' files */
    int name_count;
    char store[160];
    char again[160];
    const char *cut;
    weir_base_check check;
    uint8_t old_hash[WEIR_HASH_SIZE], new_hash[WEIR_HASH_SIZE];
} growing;

static weir_status ingest(const weir_env *env, const growing *g, const char *source, const char *store,
                          const char *base, uint8_t *hash, weir_error *error) {
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    weir_ingest_report report;
    options.source = source;
    options.output = store;
    options.threads = 1;
    options.schema = schema;
    options.schema_size = sizeof schema - 1;
    options.keep_rows = store != g->again;
    options.base = base;
    options.base_cut = base ? g->cut : NULL;
    options.base_check = base ? g->check : WEIR_BASE_COUNT;
    weir_status status = weir_ingest(env, &options, &report, error);
    if (status == WEIR_OK && hash)
        memcpy(hash, report.store_hash, WEIR_HASH_SIZE);
    /* a file whose first bytes cannot be read is no source, and says so in its own way */
    if (status == WEIR_SOURCE_ERROR && (strstr(error->message, "is not a source that weir reads") ||
                                        strstr(error->message, "cannot be opened")))
        error->status = status = WEIR_IO_ERROR;
    return status;
}

static int begin(void **state) {
    static growing g;
    weir_error error;
    make_folder(g.folder);
    path_in(g.folder, "before.sqlite", g.before);
    path_in(g.folder, "now.sqlite", g.now);
    path_in(g.folder, "base.weir", g.base);
    path_in(g.folder, "base.weir.rows", g.rows);
    path_in(g.folder, "base.weir.rows/row-runs.json", g.list);
    path_in(g.folder, "store.weir", g.store);
    path_in(g.folder, "again.weir", g.again);
    static const char tables[] =
        "CREATE TABLE c (k TEXT PRIMARY KEY, x REAL, at TEXT); CREATE TABLE n (x REAL, note TEXT);"
        "INSERT INTO n VALUES (1, 'n'), (0.5, 'm');"
        "INSERT INTO c VALUES ('b', 1.5, '2024-01-02'), ('a', NULL, '2024-01-01'), ('c', 2, NULL);";
    char more[600];
    snprintf(more, sizeof more, "%s INSERT INTO c VALUES ('e', 3, '2024-01-03'), ('d', 1, '2024-01-02');",
             tables);
    make_database(g.before, tables);
    make_database(g.now, more);
    assert_ok(ingest(NULL, &g, g.now, g.again, NULL, g.new_hash, &error), &error);
    *state = &g;
    return 0;
}

static int finish(void **state) {
    remove_folder(((growing *)*state)->folder);
    return 0;
}

/* ---- What is there --------------------------------------------------------------------------- */

static int refuse_temporary(const char *path, const struct stat *about, int kind, struct FTW *place) {
    (void)about, (void)kind;
    return strstr(path + place->base, ".tmp") ? 1 : 0;
}

static void note_file(const char *path, noted_file *out) {
    *out = (noted_file){.size = NOTED_MOST};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    out->size = fread(out->bytes, 1, NOTED_MOST, file);
    assert_true(out->size < NOTED_MOST);
    fclose(file);
}

static bool is_as_noted(const char *path, const noted_file *noted) {
    noted_file now;
    note_file(path, &now);
    return now.size == noted->size && memcmp(now.bytes, noted->bytes, now.size) == 0;
}

static void note_names(growing *g) {
    struct dirent *entry;
    DIR *folder = opendir(g->rows);
    assert_non_null(folder);
    for (g->name_count = 0; (entry = readdir(folder)); g->name_count++) {
        assert_true(g->name_count < NAMES_MOST);
        snprintf(g->names[g->name_count], sizeof g->names[0], "%s/%s", g->rows, entry->d_name);
    }
    closedir(folder);
}

/* Files of rows may be removed, and are never written again. */
static bool is_base_as_it_was(const growing *g) {
    bool is_there = true;
    for (int i = 0; i < g->name_count; i++)
        is_there = is_there && access(g->names[i], F_OK) == 0;
    return is_there && is_as_noted(g->base, &g->noted_store) && is_as_noted(g->list, &g->noted_list);
}

static bool is_old_or_new(const growing *g, const uint8_t hash[WEIR_HASH_SIZE]) {
    return memcmp(hash, g->old_hash, WEIR_HASH_SIZE) == 0 || memcmp(hash, g->new_hash, WEIR_HASH_SIZE) == 0;
}

/* The store is whole, and its rows make a store: the old ones, or the new ones. */
static void old_or_new(void *context) {
    growing *g = context;
    weir_store *store;
    weir_error error;
    uint8_t hash[WEIR_HASH_SIZE];
    assert_int_equal(nftw(g->folder, refuse_temporary, 8, FTW_PHYS), 0);
    if (is_base_as_it_was(g))
        return;
    assert_ok(weir_store_open(NULL, g->base, &store, &error), &error);
    assert_ok(weir_store_verify(store, 1, &error), &error);
    assert_true(is_old_or_new(g, weir_store_describe(store)->store_hash));
    weir_store_close(store);
    assert_ok(ingest(NULL, g, g->rows, g->again, NULL, hash, &error), &error);
    assert_true(is_old_or_new(g, hash));
}

static void base_is_untouched(void *context) {
    assert_true(is_base_as_it_was(context));
    assert_int_equal(nftw(((growing *)context)->folder, refuse_temporary, 8, FTW_PHYS), 0);
}

/* ---- Sweeps ---------------------------------------------------------------------------------- */

static void make_base(growing *g) {
    weir_error error;
    assert_ok(ingest(NULL, g, g->before, g->base, NULL, g->old_hash, &error), &error);
    note_file(g->base, &g->noted_store);
    note_file(g->list, &g->noted_list);
    note_names(g);
}

/* The store is its own base. */
static weir_status grow_in_place(const weir_env *env, void *context, weir_error *error) {
    growing *g = context;
    if (!is_base_as_it_was(g))
        make_base(g);
    return ingest(env, g, g->now, g->base, g->base, NULL, error);
}

static weir_status grow_elsewhere(const weir_env *env, void *context, weir_error *error) {
    growing *g = context;
    uint8_t hash[WEIR_HASH_SIZE];
    unlink(g->store);
    weir_status status = ingest(env, g, g->now, g->store, g->base, hash, error);
    if (status == WEIR_OK)
        assert_memory_equal(hash, g->new_hash, sizeof hash);
    return status;
}

static void faults_in_place(void **state) {
    make_base(*state);
    assert_true(sweep_faults(grow_in_place, old_or_new, *state) >= 300);
}

static void faults_elsewhere(void **state) {
    make_base(*state);
    assert_true(sweep_faults(grow_elsewhere, base_is_untouched, *state) >= 300);
}

/* Rows of the base are compared, some are set aside, and the others are written again. */
static void faults_with_a_cut_and_a_full_check(void **state) {
    growing *g = *state;
    make_base(g);
    g->cut = "2024-01-03";
    g->check = WEIR_BASE_FULL;
    assert_true(sweep_faults(grow_elsewhere, base_is_untouched, g) >= 300);
}

/* ---- Others ---------------------------------------------------------------------------------- */

/* Another ingest, of other tables, replaces the base when its list is read for the second time: two opens a
 * reading. */
static const growing *replaced;
static int list_opens;

static int open_late(void *context, const char *path, int flags, unsigned mode) {
    if (strcmp(path, replaced->list) == 0 && ++list_opens == 3) {
        static const char other[] = "{\"tables\": {\"n\": {\"columns\": {\"note\": {\"stype\": \"text\"}}}}}";
        weir_ingest_options options = WEIR_INGEST_OPTIONS;
        weir_error error;
        options.source = replaced->now;
        options.output = replaced->base;
        options.schema = other;
        options.schema_size = sizeof other - 1;
        options.keep_rows = true;
        assert_ok(weir_ingest(NULL, &options, NULL, &error), &error);
    }
    return weir_env_default()->open(context, path, flags, mode);
}

static void rows_that_are_replaced_meanwhile(void **state) {
    growing *g = *state;
    weir_env env = *weir_env_default();
    weir_error error;
    g->cut = NULL;
    make_base(g);
    replaced = g;
    list_opens = 0;
    env.open = open_late;
    unlink(g->store);
    assert_fails(ingest(&env, g, g->now, g->store, g->base, NULL, &error), WEIR_SOURCE_ERROR, &error);
    assert_non_null(strstr(error.message, "was not kept with"));
    assert_int_equal(list_opens, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_in_place),
        cmocka_unit_test(faults_elsewhere),
        cmocka_unit_test(faults_with_a_cut_and_a_full_check),
        cmocka_unit_test(rows_that_are_replaced_meanwhile),
    };
    return cmocka_run_group_tests(tests, begin, finish);
}
