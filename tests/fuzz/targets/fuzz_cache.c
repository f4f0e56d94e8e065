/* Fuzzes the cache of vectors: a SQLite file is made as a few bytes say (whose it claims to be, what is
 * called weir_vectors in it, which entries it has), then changed at the places that the rest names. Whatever
 * opens gives vectors of the right size or an error; a file that somebody else has made up is refused; and
 * what is put into a sound one comes out again. */
#include <string.h>

#include "ingest/vector_cache.h"
#include "require.h"
#include "support/memory_sqlite.h"

#define LOCATION "file:/weir-fuzz-cache?vfs=memdb"

enum { KNOBS = 4, DIM_MAX = 8, KEYS = 4, OWN = 0 };

#define OWN_TABLE "CREATE TABLE weir_vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID;"

/* What a file may have under the name that weir looks for. The first is what weir itself makes. */
static const char *const shapes[] = {
    OWN_TABLE,
    "CREATE TABLE weir_vectors (key, vector);",
    "CREATE TABLE weir_vectors (key TEXT PRIMARY KEY, vector REAL, more AS (vector || key));",
    "CREATE TABLE weir_vectors (vector);",
    "CREATE VIEW weir_vectors AS SELECT zeroblob(32) AS key, zeroblob(1000) AS vector;",
    "CREATE VIEW weir_vectors AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
    "SELECT zeroblob(i) AS key, i AS vector FROM n;",
    OWN_TABLE "CREATE TRIGGER t AFTER INSERT ON weir_vectors BEGIN DELETE FROM weir_vectors; END;",
    OWN_TABLE "CREATE TRIGGER t BEFORE INSERT ON weir_vectors BEGIN SELECT raise(ABORT, 'no'); END;",
    OWN_TABLE "CREATE TABLE other (a);",
    "CREATE TABLE other (a);",
};

static void key_of(uint8_t number, uint8_t key[WEIR_HASH_SIZE]) {
    memset(key, number, WEIR_HASH_SIZE);
}

/* Entries are a kind and a size each; what a table refuses is not in it. Returns the bytes that are left. */
static size_t add_entries(sqlite3 *database, unsigned count, const uint8_t **data, size_t size) {
    static const char *const values[] = {"zeroblob(?2)", "randomblob(?2)", "?2",
                                         "'text' || ?2", "?2 + 0.5",       "NULL"};
    enum { ENTRY = 2, VALUES = sizeof values / sizeof *values };
    for (unsigned i = 0; i < count && size >= ENTRY; i++, *data += ENTRY, size -= ENTRY) {
        char sql[96];
        uint8_t key[WEIR_HASH_SIZE];
        sqlite3_stmt *statement = NULL;
        key_of((uint8_t)i, key);
        snprintf(sql, sizeof sql, "INSERT INTO weir_vectors VALUES (?1, %s)", values[(*data)[0] % VALUES]);
        if (sqlite3_prepare_v2(database, sql, -1, &statement, NULL) == SQLITE_OK) {
            sqlite3_bind_blob(statement, 1, key, sizeof key, SQLITE_STATIC);
            sqlite3_bind_int(statement, 2, (*data)[1]);
            sqlite3_step(statement);
        }
        sqlite3_finalize(statement);
    }
    return size;
}

static void use(weir_ingest__vector_cache *cache, uint32_t dim, bool is_sound) {
    uint8_t key[WEIR_HASH_SIZE];
    uint16_t vectors[2][DIM_MAX], found[DIM_MAX];
    weir_ingest__cached_vector given[] = {{.vector = vectors[0]}, {.vector = vectors[1]}};
    bool is_found;
    weir_error error;
    for (uint8_t i = 0; i < KEYS; i++) {
        key_of(i, key);
        weir_status status = weir_ingest__vector_cache_get(cache, key, found, &is_found, &error);
        require(status == WEIR_OK || (status == WEIR_SOURCE_ERROR && !is_sound));
    }
    for (uint16_t i = 0; i < 2 * DIM_MAX; i++)
        vectors[i / DIM_MAX][i % DIM_MAX] = (uint16_t)(0x1234 * i);
    key_of(1, given[0].key);
    key_of(200, given[1].key);
    weir_status status = weir_ingest__vector_cache_put(cache, given, 2, &error);
    require(status == WEIR_OK || (status == WEIR_SOURCE_ERROR && !is_sound));
    for (int i = 0; i < 2; i++) {
        status = weir_ingest__vector_cache_get(cache, given[i].key, found, &is_found, &error);
        require(status == WEIR_OK || (status == WEIR_SOURCE_ERROR && !is_sound));
        require(!is_sound || (is_found && memcmp(found, vectors[i], dim * sizeof *found) == 0));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { SHAPES = sizeof shapes / sizeof *shapes, WRONG_APPLICATION = 1, WRONG_VERSION = 2, WIDE = 4 };
    uint8_t knobs[KNOBS] = {0};
    memcpy(knobs, data, size < KNOBS ? size : KNOBS);
    data += size < KNOBS ? size : KNOBS;
    size -= size < KNOBS ? size : KNOBS;
    unsigned shape = knobs[1] % SHAPES;
    uint32_t dim = 1 + knobs[2] % DIM_MAX;
    bool is_ours = !(knobs[0] & (WRONG_APPLICATION | WRONG_VERSION));
    sqlite3 *database = memory_sqlite_open(LOCATION);
    char sql[1024];
    snprintf(sql, sizeof sql,
             "PRAGMA encoding = '%s'; PRAGMA application_id = %d; PRAGMA user_version = %d; %s",
             knobs[0] & WIDE ? "UTF-16le" : "UTF-8", knobs[0] & WRONG_APPLICATION ? 7 : 0x77656972,
             knobs[0] & WRONG_VERSION ? 2 : 1, shapes[shape]);
    require(sqlite3_exec(database, sql, NULL, NULL, NULL) == SQLITE_OK);
    size = add_entries(database, knobs[3] % KEYS, &data, size);
    memory_sqlite_edit(database, data, size);
    bool is_changed = size >= MEMORY_SQLITE_EDIT;
    weir_ingest__vector_cache *cache = NULL;
    weir_error error;
    weir_status status = weir_ingest__vector_cache_open(weir_env_default(), LOCATION, dim, &cache, &error);
    require(status == WEIR_OK || (status == WEIR_SOURCE_ERROR && error.message[0] != 0));
    require(is_changed || (status == WEIR_OK) == (is_ours && shape == OWN));
    if (status == WEIR_OK)
        use(cache, dim, !is_changed);
    weir_ingest__vector_cache_close(cache);
    sqlite3_close(database);
    return 0;
}
