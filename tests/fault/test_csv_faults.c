/* Ingest of CSV files, with a query over them: every call of the environment fails in turn; and SQLite's
 * temporary database, which goes to a file when memory is short, fails at every write and read. */
#include <sys/stat.h>

#include "support/database.h"

/* ---- A file system for SQLite whose temporary files fail ------------------------------------- */

typedef struct temporary_file {
    sqlite3_file base;
    sqlite3_file *real; /* after it */
} temporary_file;

static struct {
    sqlite3_vfs vfs;
    sqlite3_vfs *real;
    unsigned calls;   /* writes and reads of temporary files so far */
    unsigned fail_at; /* 1 is the first; 0 never */
} disk;

static bool disk_fails(void) {
    return ++disk.calls == disk.fail_at;
}

static sqlite3_file *real_of(sqlite3_file *file) {
    return ((temporary_file *)(void *)file)->real;
}

static int close_file(sqlite3_file *file) {
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int read_file(sqlite3_file *file, void *data, int size, sqlite3_int64 at) {
    return disk_fails() ? SQLITE_IOERR_READ : real_of(file)->pMethods->xRead(real_of(file), data, size, at);
}

static int write_file(sqlite3_file *file, const void *data, int size, sqlite3_int64 at) {
    return disk_fails() ? SQLITE_FULL : real_of(file)->pMethods->xWrite(real_of(file), data, size, at);
}

static int truncate_file(sqlite3_file *file, sqlite3_int64 size) {
    return real_of(file)->pMethods->xTruncate(real_of(file), size);
}

static int sync_file(sqlite3_file *file, int flags) {
    return real_of(file)->pMethods->xSync(real_of(file), flags);
}

static int size_of_file(sqlite3_file *file, sqlite3_int64 *size) {
    return real_of(file)->pMethods->xFileSize(real_of(file), size);
}

static int lock_file(sqlite3_file *file, int lock) {
    return real_of(file)->pMethods->xLock(real_of(file), lock);
}

static int unlock_file(sqlite3_file *file, int lock) {
    return real_of(file)->pMethods->xUnlock(real_of(file), lock);
}

static int is_reserved(sqlite3_file *file, int *answer) {
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), answer);
}

static int control_file(sqlite3_file *file, int operation, void *argument) {
    return real_of(file)->pMethods->xFileControl(real_of(file), operation, argument);
}

static int sector_size(sqlite3_file *file) {
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int traits_of_file(sqlite3_file *file) {
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out_flags) {
    static const sqlite3_io_methods methods = {.iVersion = 1,
                                               .xClose = close_file,
                                               .xRead = read_file,
                                               .xWrite = write_file,
                                               .xTruncate = truncate_file,
                                               .xSync = sync_file,
                                               .xFileSize = size_of_file,
                                               .xLock = lock_file,
                                               .xUnlock = unlock_file,
                                               .xCheckReservedLock = is_reserved,
                                               .xFileControl = control_file,
                                               .xSectorSize = sector_size,
                                               .xDeviceCharacteristics = traits_of_file};
    temporary_file *temporary = (temporary_file *)(void *)file;
    (void)vfs;
    temporary->base.pMethods = NULL;
    temporary->real = (sqlite3_file *)(void *)(temporary + 1);
    int result = disk.real->xOpen(disk.real, name, temporary->real, flags, out_flags);
    if (result == SQLITE_OK)
        temporary->base.pMethods = &methods;
    return result;
}

/* ---- Ingest ---------------------------------------------------------------------------------- */

typedef struct attempt_state {
    char folder[64];
    char source[160];
    char store[160];
    char manifest[160];
    uint8_t hash[WEIR_HASH_SIZE];
} attempt_state;

/* Two tables, the second a query over both files. */
static weir_status ingest(const weir_env *env, void *context, weir_error *error) {
    attempt_state *s = context;
    weir_ingest_report report;
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    unlink(s->store);
    unlink(s->manifest);
    options.source = s->source;
    options.output = s->store;
    options.threads = 1;
    options.schema =
        "{\"tables\": {\"a\": {\"primary_key\": \"id\", \"columns\": {\"name\": {\"stype\": "
        "\"categorical\"}}}, \"q\": {\"query\": \"SELECT b.id, a_id, a.name || b.note AS note "
        "FROM b JOIN a ON a.id = a_id WHERE EXISTS (SELECT 1 FROM a c WHERE c.id = a_id) ORDER BY "
        "b.note\", \"primary_key\": \"id\", \"columns\": "
        "{\"a_id\": {\"stype\": \"ignored\", \"foreign_key\": \"a.id\"}, \"note\": {\"stype\": "
        "\"text\"}}}}}";
    options.schema_size = strlen(options.schema);
    weir_status status = weir_ingest(env, &options, &report, error);
    if (status == WEIR_OK)
        memcpy(s->hash, report.store_hash, sizeof s->hash);
    return status;
}

/* Files that cannot be opened once are no CSV files, and others say why they cannot be read. */
static weir_status ingest_with_faults(const weir_env *env, void *context, weir_error *error) {
    static const char *const said[] = {"is not a source that weir reads", "needs the DuckDB library",
                                       "cannot be opened", "cannot be read", "cannot be listed"};
    weir_status status = ingest(env, context, error);
    bool is_source = status == WEIR_SOURCE_ERROR || status == WEIR_SCHEMA_INVALID; /* of its query */
    for (size_t i = 0; is_source && i < sizeof said / sizeof *said; i++)
        if (strstr(error->message, said[i]))
            error->status = status = WEIR_IO_ERROR;
    return status;
}

static void nothing_temporary_is_left(void *context) {
    attempt_state *s = context;
    bool has_store = access(s->store, F_OK) == 0, has_manifest = access(s->manifest, F_OK) == 0;
    assert_int_equal(count_entries(s->folder), 1 + has_store + has_manifest); /* and the source */
}

static void write_files(const attempt_state *s, unsigned row_count) {
    char path[200], *text = malloc((size_t)row_count * 100 + 100);
    assert_non_null(text);
    size_t size = (size_t)sprintf(text, "id,name\n1,one\n2,two\n3,\n");
    snprintf(path, sizeof path, "%s/a.csv", s->source);
    write_whole_file(path, text, size);
    size = (size_t)sprintf(text, "id,a_id,note\n");
    for (unsigned i = 0; i < row_count; i++)
        size += (size_t)sprintf(text + size, "%u,%u,\"%040u of many\"\n", i, 1 + i % 3, i * 2654435761u);
    snprintf(path, sizeof path, "%s/b.csv", s->source);
    write_whole_file(path, text, size);
    free(text);
}

static int begin(void **state) {
    static attempt_state s;
    setenv("WEIR_DUCKDB", "/nowhere", 1); /* CSV files alone */
    disk.real = sqlite3_vfs_find(NULL);
    disk.vfs = *disk.real;
    disk.vfs.pNext = NULL;
    disk.vfs.zName = "failing";
    disk.vfs.szOsFile += (int)sizeof(temporary_file);
    disk.vfs.xOpen = open_file;
    make_folder(s.folder);
    path_in(s.folder, "files", s.source);
    path_in(s.folder, "a.weir", s.store);
    path_in(s.folder, "a.manifest.json", s.manifest);
    assert_int_equal(mkdir(s.source, 0777), 0);
    *state = &s;
    return 0;
}

static int finish(void **state) {
    remove_folder(((attempt_state *)*state)->folder);
    return 0;
}

static void faults_of_csv_files(void **state) {
    attempt_state *s = *state;
    write_files(s, 3);
    assert_true(sweep_faults(ingest_with_faults, nothing_temporary_is_left, s) > 100);
}

/* Parquet files are DuckDB's, which is not here, also if memory was short when it was asked whose they are.
 */
static weir_status ingest_parquet(const weir_env *env, void *context, weir_error *error) {
    weir_status status = ingest_with_faults(env, context, error);
    bool is_said = status == WEIR_IO_ERROR || status == WEIR_OUT_OF_MEMORY;
    if (!is_said)
        fail_msg("%s: %s", weir_status_name(status), error->message);
    return strstr(error->message, "DuckDB library") ? WEIR_OK : status;
}

static void faults_of_parquet_files(void **state) {
    attempt_state *s = *state;
    char path[200];
    write_files(s, 3);
    snprintf(path, sizeof path, "%s/p.parquet", s->source);
    write_whole_file(path, "PAR1 and no more", 16);
    assert_true(sweep_faults(ingest_parquet, nothing_temporary_is_left, s) > 10);
    unlink(path);
}

/* With 40 KiB of memory SQLite has to write its temporary database, and to sort in files. */
static void faults_of_the_temporary_database(void **state) {
    attempt_state *s = *state;
    weir_error error;
    uint8_t hash[WEIR_HASH_SIZE];
    unsigned failed = 0;
    write_files(s, 3000);
    assert_ok(ingest(NULL, s, &error), &error);
    memcpy(hash, s->hash, sizeof hash);
    assert_int_equal(sqlite3_vfs_register(&disk.vfs, 1), SQLITE_OK);
    sqlite3_soft_heap_limit64(40 << 10);
    disk.calls = disk.fail_at = 0;
    assert_ok(ingest(NULL, s, &error), &error);
    assert_memory_equal(s->hash, hash, sizeof hash); /* spilling changes nothing */
    unsigned calls = disk.calls;
    assert_true(calls > 50);
    for (unsigned at = 1; at <= calls; at += (calls / 60 + 1) * test_stride()) {
        disk.calls = 0;
        disk.fail_at = at;
        weir_status status = ingest(NULL, s, &error);
        nothing_temporary_is_left(s);
        if (status == WEIR_OK) { /* SQLite could do without that one */
            assert_memory_equal(s->hash, hash, sizeof hash);
            continue;
        }
        failed++;
        if (status != WEIR_SOURCE_ERROR && status != WEIR_SCHEMA_INVALID) /* its query failed */
            fail_msg("%s: %s", weir_status_name(status), error.message);
        if (!strstr(error.message, "full") && !strstr(error.message, "I/O error"))
            fail_msg("%s", error.message);
    }
    assert_true(failed > 0);
    sqlite3_soft_heap_limit64(0);
    sqlite3_vfs_unregister(&disk.vfs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_of_csv_files),
        cmocka_unit_test(faults_of_parquet_files),
        cmocka_unit_test(faults_of_the_temporary_database),
    };
    return cmocka_run_group_tests(tests, begin, finish);
}
