/* Small SQLite databases and stores for tests, in a folder of their own. */
#ifndef WEIR_TESTS_DATABASE_H
#define WEIR_TESTS_DATABASE_H

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/testing.h"

/* A new folder; remove_folder takes it away with the files that were made with path_in. */
static inline void make_folder(char folder[64]) {
    snprintf(folder, 64, "%s/weir-test-XXXXXX", scratch_root());
    assert_non_null(mkdtemp(folder));
}

static inline void remove_folder(const char *folder) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf -- '%s'", folder);
    assert_int_equal(system(command), 0);
}

static inline const char *path_in(const char *folder, const char *name, char path[160]) {
    snprintf(path, 160, "%s/%s", folder, name);
    return path;
}

static inline void make_database(const char *path, const char *sql) {
    sqlite3 *db;
    char *message = NULL;
    unlink(path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s: %s", path, message);
    sqlite3_close(db);
}

/* The bytes of the store of a database, which the caller frees. Its file is small.weir in the folder. */
static inline uint8_t *make_store_of(const char *folder, const char *sql, const char *schema, size_t *size) {
    char source[160], path[160];
    weir_error error;
    weir_ingest_report report;
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    make_database(path_in(folder, "small.sqlite", source), sql);
    options.source = source;
    options.output = path_in(folder, "small.weir", path);
    options.schema = schema;
    options.schema_size = strlen(schema);
    options.threads = 1;
    assert_ok(weir_ingest(NULL, &options, &report, &error), &error);
    *size = (size_t)report.store_bytes;
    uint8_t *data = malloc(*size);
    FILE *file = fopen(path, "rb");
    assert_true(data && file);
    assert_int_equal(fread(data, 1, *size, file), *size);
    fclose(file);
    return data;
}

/* A golden file as text that the caller frees. */
static inline char *golden_text(const char *name, size_t *size) {
    char path[512];
    snprintf(path, sizeof path, "%s/vectors/%s", WEIR_GOLDEN_DIR, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long length = ftell(file);
    rewind(file);
    char *text = malloc((size_t)length + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)length, file), (size_t)length);
    text[length] = 0;
    fclose(file);
    if (size)
        *size = (size_t)length;
    return text;
}

/* The shop of the golden vectors: shop_small.sqlite in the folder. */
static inline void make_shop(const char *folder, char path[160]) {
    char *sql = golden_text("shop_small.sql", NULL);
    make_database(path_in(folder, "shop_small.sqlite", path), sql);
    free(sql);
}

static inline weir_status ingest_shop(const weir_env *env, const char *source, const char *store,
                                      uint32_t threads, weir_ingest_report *report, weir_error *error) {
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    char *schema = golden_text("shop_small.schema.json", &options.schema_size);
    options.source = source;
    options.output = store;
    options.schema = schema;
    options.threads = threads;
    weir_status status = weir_ingest(env, &options, report, error);
    free(schema);
    return status;
}

#endif
