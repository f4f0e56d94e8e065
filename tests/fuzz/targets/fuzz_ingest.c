/* Fuzzes ingest: a schema (up to the first zero byte; nothing: drafted) and the recipe of a SQLite database:
 * its tables, columns, keys and cells, then places where its file is changed. Either there is an error of the
 * kinds that are documented and no output, or a store that verifies and a manifest that is read; drafted and
 * read again, a schema gives the same store. All is in memory, on one thread. */
#include <string.h>

#include "ingested.h"
#include "recipe.h"
#include "support/memory_sqlite.h"

#define LOCATION "file:/weir-fuzz-source?vfs=memdb"
#define STORE    "s.weir"
#define MANIFEST "s.manifest.json"

enum { TABLES_MAX = 3, COLUMNS_MAX = 5, ROWS_MAX = 12, TEXT_MAX = 40, LONG_TAG = 15 };

/* ---- The database -------------------------------------------------------------------------------------- */

static const char *take_name(recipe *r, const char *plain) {
    static const char *const odd[] = {"a\"b",     "a.b",    "\033[2J", "a b", "rowid",
                                      "\xff\xfe", "SELECT", "%s%n",    "é"};
    uint8_t byte = take(r);
    return byte < 240 ? plain : odd[(byte - 240u) % (sizeof odd / sizeof *odd)];
}

static void add_table(sqlite3_str *sql, recipe *r, unsigned number, unsigned *columns) {
    static const char *const types[] = {"INTEGER", "TEXT",      "REAL",    "BLOB", "BOOLEAN",
                                        "DATE",    "TIMESTAMP", "NUMERIC", "",     "VARCHAR(3)"};
    static const char *const tables[] = {"t", "u", "v"}, *const names[] = {"a", "b", "c", "d", "e"};
    enum { IS_KEY = 1, IS_FOREIGN = 2, IS_UNIQUE = 4 };
    bool has_key = false;
    uint8_t head = take(r);
    *columns = 1 + head % COLUMNS_MAX;
    sqlite3_str_appendf(sql, "CREATE TABLE \"%w\" (", take_name(r, tables[number]));
    for (unsigned c = 0; c < *columns; c++) {
        uint8_t type = take(r), flags = take(r);
        sqlite3_str_appendf(sql, "%s\"%w\" %s", c ? ", " : "", take_name(r, names[c]),
                            types[type % (sizeof types / sizeof *types)]);
        if ((flags & IS_KEY) && !has_key) {
            sqlite3_str_appendall(sql, " PRIMARY KEY");
            has_key = true;
        } else if (flags & IS_FOREIGN) {
            sqlite3_str_appendf(sql, " REFERENCES %s", tables[(flags >> 3) % TABLES_MAX]);
        } else if (flags & IS_UNIQUE) {
            sqlite3_str_appendall(sql, " UNIQUE");
        }
    }
    sqlite3_str_appendall(sql, has_key && head >= 128 ? ") WITHOUT ROWID;" : ");");
}

static void add_cell(sqlite3_str *sql, recipe *r) {
    static const char *const texts[] = {
        "2024-01-01", "2024-02-29T12:34:56.789Z", "9999-12-31 23:59:59", "1e308", "2024-02-30", "nan", "true",
        "1970"};
    static const char *const numbers[] = {"9223372036854775807",
                                          "-9223372036854775808",
                                          "1e999",
                                          "-1e-320",
                                          "0.1",
                                          "9007199254740993",
                                          "1e19",
                                          "-1e999"};
    uint8_t tag = take(r);
    uint8_t size = tag % TEXT_MAX;
    switch (tag >> 5) {
    case 0:
        sqlite3_str_appendall(sql, "NULL");
        return;
    case 1:
    case 2:
        sqlite3_str_appendf(sql, "%d", tag % 16);
        return;
    case 3:
        sqlite3_str_appendall(sql, numbers[tag % 8]);
        return;
    case 4:
        sqlite3_str_appendf(sql, "'%q'", texts[tag % 8]);
        return;
    case 5:
        sqlite3_str_appendf(sql, "%d.%d", take(r) - 128, take(r));
        return;
    case 7:
        if (size == LONG_TAG) { /* a text: the next byte says its size, the one after it its letter */
            unsigned long_size = take(r) * 64u + 1000;
            sqlite3_str_appendf(sql, "'%.*c'", (int)long_size, 'a' + take(r) % 26);
            return;
        } /* fall through */
    default:
        sqlite3_str_appendall(sql, tag >> 5 == 6 ? "CAST(x'" : "(x'");
        for (uint8_t i = 0; i < size; i++)
            sqlite3_str_appendf(sql, "%02x", take(r));
        sqlite3_str_appendall(sql, tag >> 5 == 6 ? "' AS TEXT)" : "')");
    }
}

/* Rows one by one, so that one that is refused costs no other. */
static void add_rows(sqlite3 *database, recipe *r, unsigned table, unsigned columns) {
    static const char *const tables[] = {"t", "u", "v"};
    unsigned rows = take(r) % ROWS_MAX;
    for (unsigned i = 0; i < rows && r->size > 0; i++) {
        sqlite3_str *sql = sqlite3_str_new(database);
        sqlite3_str_appendf(sql, "INSERT INTO %s VALUES (", tables[table]);
        for (unsigned c = 0; c < columns; c++) {
            sqlite3_str_appendall(sql, c ? ", " : "");
            add_cell(sql, r);
        }
        sqlite3_str_appendall(sql, ")");
        char *text = sqlite3_str_finish(sql);
        sqlite3_exec(database, text, NULL, NULL, NULL);
        sqlite3_free(text);
    }
}

static void make_database(sqlite3 *database, recipe r) {
    unsigned columns[TABLES_MAX], tables = 1 + take(&r) % TABLES_MAX;
    for (unsigned t = 0; t < tables; t++) {
        sqlite3_str *sql = sqlite3_str_new(database);
        add_table(sql, &r, t, &columns[t]);
        char *text = sqlite3_str_finish(sql);
        sqlite3_exec(database, text, NULL, NULL, NULL);
        sqlite3_free(text);
    }
    for (unsigned t = 0; t < tables; t++)
        add_rows(database, &r, t, columns[t]);
    memory_sqlite_edit(database, r.data, r.size);
}

/* ---- Ingest -------------------------------------------------------------------------------------------- */

static bool contains(const uint8_t *data, size_t size, const char *word) {
    return memmem(data, size, word, strlen(word)) != NULL;
}

static void check_outputs(memory_env *memory, const weir_ingest_report *report) {
    const memory_file *text = memory_env_file(memory, MANIFEST);
    weir_manifest *manifest = NULL;
    require_sound(memory, STORE);
    require(memory_env_file(memory, STORE)->size == report->store_bytes);
    if (report->seeds > 0) {
        require(text && weir_manifest_read(NULL, (const char *)text->data, text->size, MANIFEST, &manifest,
                                           NULL) == WEIR_OK);
        weir_manifest_close(manifest);
    }
}

static bool ingest(memory_env *memory, weir_ingest_options *options, weir_ingest_report *report) {
    weir_error error;
    weir_status status = weir_ingest(&memory->env, options, report, &error);
    if (status == WEIR_OK) {
        check_outputs(memory, report);
        return true;
    }
    require(status == WEIR_SCHEMA_INVALID || status == WEIR_SOURCE_ERROR || status == WEIR_TASK_INVALID);
    require(error.status == status && error.message[0] != 0);
    require(!memory_env_file(memory, STORE) && !memory_env_file(memory, MANIFEST));
    return false;
}

/* What is drafted inside ingest and what is drafted beforehand are one schema. */
static void ingest_draft(memory_env *memory, weir_ingest_options options,
                         const uint8_t hash[WEIR_HASH_SIZE]) {
    weir_bytes draft;
    weir_ingest_report report;
    require(weir_schema_draft(&memory->env, &options, &draft, NULL) == WEIR_OK);
    options.schema = draft.data;
    options.schema_size = draft.size;
    require(ingest(memory, &options, &report));
    require(memcmp(report.store_hash, hash, WEIR_HASH_SIZE) == 0);
    weir_bytes_release(&draft);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char magic[16] = "SQLite format 3";
    static memory_env memory;
    const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
    size_t schema_size = zero ? (size_t)(zero - data) : 0;
    sqlite3 *database = memory_sqlite_open(LOCATION);
    make_database(database, zero ? (recipe){zero + 1, size - schema_size - 1} : (recipe){data, size});
    memory_env_init(&memory);
    memory.env.start_thread = refuse_thread;
    memory_env_put(&memory, LOCATION, magic, sizeof magic);
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    weir_ingest_report report;
    options.source = LOCATION;
    options.output = STORE;
    options.threads = 1;
    options.no_embeddings = contains(data, schema_size, "http") || contains(data, schema_size, "\\");
    if (schema_size > 0) {
        options.schema = (const char *)data;
        options.schema_size = schema_size;
    }
    if (ingest(&memory, &options, &report) && schema_size == 0)
        ingest_draft(&memory, options, report.store_hash);
    memory_env_close(&memory);
    sqlite3_close(database);
    return 0;
}
