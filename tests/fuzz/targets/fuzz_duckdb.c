/* Fuzzes ingest from DuckDB files: the input is the recipe of a table: types of columns, and cells as texts
 * that DuckDB casts to them (null where it cannot). Ingest must end in a store that verifies, and that is the
 * same for the draft read again, or in a documented error. The library is the real one, as weir finds it
 * (WEIR_DUCKDB); without it the target says that it is skipped. The file is in memory (/dev/shm). */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "ingest/duckdb_api.h"
#include "ingested.h"
#include "recipe.h"

#define STORE "s.weir"

enum { COLUMNS_MAX = 6, ROWS_MAX = 6, TEXT_MAX = 24, SQL_MAX = 8192 };

static const char *const types[] = {
    "BOOLEAN",        "TINYINT",      "SMALLINT",     "INTEGER",       "BIGINT",
    "UTINYINT",       "USMALLINT",    "UINTEGER",     "UBIGINT",       "HUGEINT",
    "UHUGEINT",       "FLOAT",        "DOUBLE",       "DECIMAL(4, 2)", "DECIMAL(18, 3)",
    "DECIMAL(38, 9)", "VARCHAR",      "BLOB",         "DATE",          "TIMESTAMP",
    "TIMESTAMP_S",    "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ",   "TIME",
    "INTERVAL",       "UUID",         "BIT",          "INTEGER[]",     "STRUCT(a INTEGER)",
    "ENUM('a', 'b')"};
static const char *const texts[] = {"0",
                                    "-1",
                                    "1.5",
                                    "1e38",
                                    "nan",
                                    "-inf",
                                    "true",
                                    "[1]",
                                    "{''a'': 1}",
                                    "a",
                                    "101",
                                    "1 day",
                                    "2024-01-01",
                                    "infinity",
                                    "9223372036854775807",
                                    "170141183460469231731687303715884105727",
                                    "290000-01-01",
                                    "30313233-3435-3637-3839-616263646566",
                                    "12:34:56"};

/* ---- The file ------------------------------------------------------------------------------------------ */

typedef struct text {
    char data[SQL_MAX];
    size_t size;
} text;

static void add(text *sql, const char *words) {
    size_t size = strlen(words);
    require(sql->size + size < SQL_MAX);
    memcpy(sql->data + sql->size, words, size + 1);
    sql->size += size;
}

/* A text from the list, or of the recipe's own letters. */
static void add_cell(text *sql, recipe *r, const char *type) {
    char letters[TEXT_MAX + 1];
    uint8_t head = take(r), size = head % TEXT_MAX;
    if (head >= 250) {
        add(sql, "NULL");
        return;
    }
    for (uint8_t i = 0; i < size; i++) {
        uint8_t letter = head < 128 ? 0 : take(r);
        letters[i] = letter < ' ' || letter > '~' || letter == '\'' ? '0' : (char)letter;
    }
    letters[size] = 0;
    add(sql, "TRY_CAST('");
    add(sql, head < 128 ? texts[head % (sizeof texts / sizeof *texts)] : letters);
    add(sql, "' AS ");
    add(sql, type);
    add(sql, ")");
}

static void add_table(text *sql, recipe *r) {
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    const char *chosen[COLUMNS_MAX];
    unsigned columns = 1 + take(r) % COLUMNS_MAX, rows = take(r) % ROWS_MAX;
    bool has_key = take(r) & 1;
    add(sql, "CREATE TABLE t (");
    for (unsigned c = 0; c < columns; c++) {
        chosen[c] = types[take(r) % (sizeof types / sizeof *types)];
        add(sql, c ? ", " : "");
        add(sql, names[c]);
        add(sql, " ");
        add(sql, chosen[c]);
    }
    add(sql, has_key ? ", id INTEGER PRIMARY KEY);" : ", id INTEGER);");
    for (unsigned i = 0; i < rows; i++) {
        char end[16];
        add(sql, "INSERT INTO t VALUES (");
        for (unsigned c = 0; c < columns; c++) {
            add_cell(sql, r, chosen[c]);
            add(sql, ", ");
        }
        snprintf(end, sizeof end, "%u);", i);
        add(sql, end);
    }
}

static bool make_database(const weir_ingest__duck_api *api, const char *path, recipe r) {
    static text sql;
    weir_ingest__duck_database database = NULL;
    weir_ingest__duck_connection connection = NULL;
    weir_ingest__duck_config config = NULL;
    weir_ingest__duck_result result;
    sql.size = 0;
    add_table(&sql, &r);
    require(api->create_config(&config) == 0 && api->set_config(config, "threads", "1") == 0);
    require(api->open_ext(path, &database, config, NULL) == 0 && api->connect(database, &connection) == 0);
    bool is_made = api->query(connection, sql.data, &result) == 0;
    api->destroy_result(&result);
    api->disconnect(&connection);
    api->close(&database);
    api->destroy_config(&config);
    return is_made;
}

/* ---- Ingest -------------------------------------------------------------------------------------------- */

static bool ingest(memory_env *memory, const weir_ingest_options *options, weir_ingest_report *report) {
    weir_error error;
    weir_status status = weir_ingest(&memory->env, options, report, &error);
    return is_ingested(memory, STORE, status, &error);
}

static void ingest_twice(memory_env *memory, weir_ingest_options options) {
    weir_bytes draft;
    weir_ingest_report first, second;
    if (!ingest(memory, &options, &first))
        return;
    require(weir_schema_draft(&memory->env, &options, &draft, NULL) == WEIR_OK);
    options.schema = draft.data;
    options.schema_size = draft.size;
    require(ingest(memory, &options, &second));
    require(memcmp(first.store_hash, second.store_hash, WEIR_HASH_SIZE) == 0);
    weir_bytes_release(&draft);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static memory_env memory;
    static bool is_skipped;
    weir_ingest__duck_api api;
    char path[64];
    if (is_skipped || weir_ingest__duck_load(&api, NULL) != WEIR_OK) {
        if (!is_skipped)
            printf("skipped: there is no DuckDB library; name one with WEIR_DUCKDB\n");
        is_skipped = true;
        return 0;
    }
    snprintf(path, sizeof path, "/dev/shm/weir-fuzz-%ld.duckdb", (long)getpid());
    unlink(path);
    memory_env_init(&memory);
    memory.env.start_thread = refuse_thread;
    memory_env_put(&memory, path, "", 0);
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    options.source = path;
    options.output = STORE;
    options.threads = 1;
    if (make_database(&api, path, (recipe){data, size}))
        ingest_twice(&memory, options);
    memory_env_close(&memory);
    unlink(path);
    return 0;
}
