/* Fuzzes growing data: a database is made of the input and ingested with its rows kept; then it grows or
 * changes as the input says, and is ingested from that base, with or without a cut and a full check, under
 * the same schema or another. The result is the store of a full ingest, or a documented refusal; and serves
 * as the next base. What the specification says is not found is not asked for. At the end, edits: of the
 * base's store, list and rows, hashes made right again if the input wants it; then the result is a store that
 * verifies, or a documented error. All is in memory, on one thread. */
#include <string.h>

#include "batches.h"
#include "ingest/row_run.h"
#include "ingested.h"
#include "recipe.h"
#include "support/memory_sqlite.h"

#define LOCATION "file:/weir-fuzz-growing?vfs=memdb"
#define BASE     "base.weir"
#define FULL     "full.weir"
#define GROWN    "grown.weir"
#define NEXT     "next.weir"

enum { ROWS_MAX = 14, CHANGES_MAX = 10, LONG_TEXT = 3000 };

/* What the first byte asks for, and the second. */
enum {
    IS_FULL_CHECK = 1,
    HAS_CUT = 2,
    IS_OTHER_SCHEMA = 4,
    IS_ODD_TIME = 8,
    IN_PLACE = 16,
    IS_FORMAT_2 = 32
};
enum { IS_REHASHED = 1 };

typedef struct growth {
    sqlite3 *database;
    memory_env memory;
    uint8_t flags, schema;
    const char *cut;
    bool is_regular;                       /* all times are days, as text or as seconds */
    bool has_insert, has_loss, has_update; /* rows came, are gone, are others */
    bool is_late;                          /* all new rows are of days after all old ones */
    uint64_t next_random;
} growth;

/* Names of files do not depend on chance, so that an input does the same thing twice. */
static int count_random(void *context, void *out, size_t size) {
    growth *g = (growth *)((char *)context - offsetof(growth, memory));
    memset(out, 0, size);
    g->next_random++;
    memcpy(out, &g->next_random, size < sizeof g->next_random ? size : sizeof g->next_random);
    return 0;
}

/* ---- The database -------------------------------------------------------------------------------------- */

static void run_sql(growth *g, sqlite3_str *sql) {
    char *text = sqlite3_str_finish(sql);
    sqlite3_exec(g->database, text, NULL, NULL, NULL); /* a row that is refused is not there */
    sqlite3_free(text);
}

static void add_text_time(growth *g, sqlite3_str *sql, recipe *r, unsigned day) {
    static const char *const odd[] = {
        "NULL",         "5",  "1.5",    "x'32303234'",         "'2024-01-05T10:00:00+05:00'", "''",
        "'2024-13-01'", "-1", "'2024'", "9223372036854775807", "'2024-01-05 23:30:00-01:00'", "1e300"};
    unsigned kind = g->flags & IS_ODD_TIME ? take(r) : 255;
    if (kind < 2 * sizeof odd / sizeof *odd) {
        g->is_regular = false;
        sqlite3_str_appendall(sql, odd[kind / 2]);
    } else {
        sqlite3_str_appendf(sql, "'2024-%02u-%02u'", 1 + day / 28 % 12, 1 + day % 28);
    }
}

/* A row of c, whose time is a text, or of v, whose time is a number of seconds. */
static void add_row(growth *g, recipe *r, unsigned first_day) {
    uint8_t head = take(r), value = take(r);
    unsigned day = first_day + head / 4 % 32;
    sqlite3_str *sql = sqlite3_str_new(g->database);
    if (head % 4 < 2) {
        sqlite3_str_appendf(sql, "INSERT INTO c VALUES (%s, ", head % 4 ? "NULL" : value % 2 ? "7" : "8");
        add_text_time(g, sql, r, day);
        sqlite3_str_appendf(sql, ", %d, ", value / 16);
        if (value % 16 == 9)
            sqlite3_str_appendf(sql, "'%.*c')", LONG_TEXT + value, 'a' + value % 26);
        else
            sqlite3_str_appendf(sql, value % 16 == 8 ? "CAST(x'ff' AS TEXT))" : "'n%d')", value % 4);
    } else if (head % 4 == 2) {
        sqlite3_str_appendf(sql, "INSERT INTO v VALUES (%lld, %d)", 1704067200 + 86400LL * day + value / 16,
                            value % 4);
    } else {
        sqlite3_str_appendf(sql, "INSERT INTO n VALUES ('m%d')", value);
    }
    run_sql(g, sql);
}

static void change_row(growth *g, recipe *r, uint8_t kind) {
    static const char *const tables[] = {"c", "v"}, *const columns[] = {"x", "w"};
    uint8_t table = take(r) % 2, place = take(r) % ROWS_MAX;
    sqlite3_str *sql = sqlite3_str_new(g->database);
    if (kind == 0) {
        sqlite3_str_appendf(sql, "DELETE FROM %s", tables[table]);
    } else if (kind == 1) {
        sqlite3_str_appendf(sql, "UPDATE %s SET %s = %d", tables[table], columns[table], take(r));
    } else {
        sqlite3_str_appendf(sql, "UPDATE %s SET at = ", tables[table]);
        if (table == 0)
            add_text_time(g, sql, r, take(r) % 64);
        else
            sqlite3_str_appendf(sql, "%d", 1704067200 + 86400 * (take(r) % 64));
    }
    sqlite3_str_appendf(sql, " WHERE rowid = (SELECT rowid FROM %s LIMIT 1 OFFSET %d)", tables[table], place);
    *(kind == 0 ? &g->has_loss : &g->has_update) = true;
    run_sql(g, sql);
}

static void make_database(growth *g, recipe *r) {
    static const char *const types[] = {"TEXT", "", "DATE", "BLOB"};
    sqlite3_str *sql = sqlite3_str_new(g->database);
    sqlite3_str_appendf(sql,
                        "CREATE TABLE c (k INTEGER PRIMARY KEY, at %s, x REAL, note TEXT);"
                        "CREATE TABLE v (at INTEGER, w); CREATE TABLE n (note TEXT)",
                        types[take(r) % 4]);
    run_sql(g, sql);
    for (unsigned rows = take(r) % ROWS_MAX; rows > 0 && r->size > 0; rows--)
        add_row(g, r, 0);
}

static void change_database(growth *g, recipe *r) {
    for (unsigned changes = take(r) % CHANGES_MAX; changes > 0 && r->size > 0; changes--) {
        uint8_t kind = take(r);
        if (kind < 48) {
            change_row(g, r, kind % 3);
        } else {
            g->is_late = g->is_late && kind >= 128;
            g->has_insert = true;
            add_row(g, r, kind < 128 ? 0 : 40);
        }
    }
}

/* ---- Ingest -------------------------------------------------------------------------------------------- */

static const char *schema_of(uint8_t number) {
    static char text[512];
    static const char *const times[] = {"\"temporal_column\": \"at\", ", ""};
    static const char *const notes[] = {"text", "categorical"}, *const units[] = {"s", "ms", "us", "ns"};
    snprintf(
        text, sizeof text,
        "{\"embedding\": {\"dim\": 2}, \"tables\": {\"c\": {\"primary_key\": \"k\", %s\"columns\": {\"at\": "
        "{\"stype\": \"timestamp\"}, \"x\": {\"stype\": \"numerical\"}%s%s%s}}, \"v\": {%s%s\"columns\": "
        "{\"at\": {\"stype\": \"timestamp\", \"unit\": \"%s\"}, \"w\": {\"stype\": \"numerical\"}}}, \"n\": "
        "{\"columns\": {\"note\": {\"stype\": \"text\"}}}}}",
        times[number & 1], number & 2 ? "" : ", \"note\": {\"stype\": \"",
        number & 2 ? "" : notes[number >> 2 & 1], number & 2 ? "" : "\"}", times[number >> 3 & 1],
        number & 16 ? "\"query\": \"SELECT at, w FROM v\", " : "", units[number >> 5 & 3]);
    return text;
}

static weir_status ingest(growth *g, uint8_t schema, const char *output, const char *base, weir_error *error,
                          uint8_t hash[WEIR_HASH_SIZE]) {
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    weir_ingest_report report;
    bool is_new = !memory_env_file(&g->memory, output);
    options.source = LOCATION;
    options.output = output;
    options.threads = 1;
    options.schema = schema_of(schema);
    options.schema_size = strlen(options.schema);
    options.format = g->flags & IS_FORMAT_2 ? 2 : 0;
    options.keep_rows = strcmp(output, FULL) != 0;
    options.base = base;
    options.base_cut = base ? g->cut : NULL;
    options.base_check = base && g->flags & IS_FULL_CHECK ? WEIR_BASE_FULL : WEIR_BASE_COUNT;
    weir_status status = weir_ingest(&g->memory.env, &options, &report, error);
    if (status == WEIR_OK) {
        require_sound(&g->memory, output);
        memcpy(hash, report.store_hash, WEIR_HASH_SIZE);
        return status;
    }
    require(error->status == status && error->message[0] != 0);
    require(status == WEIR_SCHEMA_INVALID || status == WEIR_SOURCE_ERROR || status == WEIR_TASK_INVALID ||
            base);
    require(!is_new || !memory_env_file(&g->memory, output));
    return status;
}

/* The grown data from its base, and by itself. */
static void grow(growth *g) {
    uint8_t full[WEIR_HASH_SIZE], grown[WEIR_HASH_SIZE], next[WEIR_HASH_SIZE];
    const char *output = g->flags & IN_PLACE ? BASE : GROWN;
    weir_error error;
    uint8_t schema = g->flags & IS_OTHER_SCHEMA ? g->schema : 0;
    weir_status alone = ingest(g, schema, FULL, NULL, &error, full);
    weir_status status = ingest(g, schema, output, BASE, &error, grown);
    bool is_found = g->flags & IS_FULL_CHECK || (!g->has_update && !(g->has_loss && g->has_insert));
    require(status == WEIR_OK || status == WEIR_SOURCE_ERROR || status == WEIR_SCHEMA_INVALID);
    if (status == WEIR_OK && is_found)
        require(alone == WEIR_OK && memcmp(full, grown, WEIR_HASH_SIZE) == 0);
    if (alone == WEIR_OK && g->is_regular && g->is_late && !g->has_loss && !g->has_update &&
        !(g->flags & IS_OTHER_SCHEMA))
        require(status == WEIR_OK);
    if (status != WEIR_OK)
        return;
    status = ingest(g, schema, NEXT, output, &error, next);
    require(status == WEIR_OK || !is_found || !g->is_regular);
    require(status != WEIR_OK || !is_found || memcmp(grown, next, WEIR_HASH_SIZE) == 0);
}

/* ---- Damage -------------------------------------------------------------------------------------------- */

/* Puts a hash into the list in the place of another. */
static void exchange(memory_file *list, const uint8_t was[WEIR_HASH_SIZE], const uint8_t is[WEIR_HASH_SIZE]) {
    char old[2 * WEIR_HASH_SIZE + 1], new[2 * WEIR_HASH_SIZE + 1];
    weir__hex_encode(was, WEIR_HASH_SIZE, old);
    weir__hex_encode(is, WEIR_HASH_SIZE, new);
    uint8_t *at = memmem(list->data, list->size, old, sizeof old - 1);
    if (at)
        memcpy(at, new, sizeof new - 1);
}

static void hash_frames(memory_file *file, bool mends, uint8_t out[WEIR_HASH_SIZE]) {
    weir__blake3 heads;
    weir__blake3_init(&heads);
    for (size_t at = WEIR_INGEST__RUN_MAGIC_SIZE; at + WEIR_INGEST__RUN_HEAD_SIZE < file->size;) {
        uint32_t size = weir__load32(file->data + at);
        uint8_t *payload = file->data + at + WEIR_INGEST__RUN_HEAD_SIZE;
        if (size > file->size - at - WEIR_INGEST__RUN_HEAD_SIZE)
            break;
        if (mends)
            weir__blake3_of(payload, size, file->data + at + 4);
        weir__blake3_update(&heads, file->data + at, WEIR_INGEST__RUN_HEAD_SIZE);
        at += WEIR_INGEST__RUN_HEAD_SIZE + size;
    }
    weir__blake3_final(&heads, out, WEIR_HASH_SIZE);
}

/* Edits one of the base's files: a store, a list or rows. */
static void damage_base(growth *g, recipe *r) {
    memory_file *mine[MEMORY_FILES], *list = memory_env_file(&g->memory, BASE ".rows/" WEIR_ROW_RUN_LIST);
    size_t count = 0;
    for (size_t i = 0; i < MEMORY_FILES; i++)
        if (g->memory.files[i].exists && strncmp(g->memory.files[i].name, BASE, strlen(BASE)) == 0)
            mine[count++] = &g->memory.files[i];
    uint8_t how = take(r), was[WEIR_HASH_SIZE], is[WEIR_HASH_SIZE];
    memory_file *file = mine[take(r) % count];
    bool is_store = strcmp(file->name, BASE) == 0, mends = how & IS_REHASHED && list && file != list;
    if (is_store)
        memcpy(was, file->data + WEIR_STORE__ROOT_OFFSET, sizeof was);
    else if (mends)
        hash_frames(file, false, was);
    damage(file->data, file->size, r->data, r->size);
    if (!mends)
        return;
    if (is_store) {
        rehash_store(file->data, file->size);
        memcpy(is, file->data + WEIR_STORE__ROOT_OFFSET, sizeof is);
    } else {
        hash_frames(file, true, is);
    }
    exchange(list, was, is);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char magic[16] = "SQLite format 3";
    static const char *const cuts[] = {"2024-01-10", "2024-01-20T10:00:00Z", "2024-02-15", "1969-12-31",
                                       "soon"};
    static growth g;
    recipe r = {data, size};
    weir_error error;
    uint8_t hash[WEIR_HASH_SIZE];
    g = (growth){.is_regular = true, .is_late = true, .flags = take(&r)};
    g.schema = take(&r);
    g.cut = g.flags & HAS_CUT ? cuts[take(&r) % (sizeof cuts / sizeof *cuts)] : NULL;
    g.database = memory_sqlite_open(LOCATION);
    memory_env_init(&g.memory);
    g.memory.env.start_thread = refuse_thread;
    g.memory.env.random = count_random;
    memory_env_put(&g.memory, LOCATION, magic, sizeof magic);
    make_database(&g, &r);
    if (ingest(&g, 0, BASE, NULL, &error, hash) == WEIR_OK) {
        change_database(&g, &r);
        if (r.size >= 2 + EDIT) {
            damage_base(&g, &r);
            (void)!ingest(&g, g.flags & IS_OTHER_SCHEMA ? g.schema : 0, GROWN, BASE, &error, hash);
        } else if (!g.cut || strcmp(g.cut, "soon") != 0) {
            grow(&g);
        } else {
            require(ingest(&g, 0, GROWN, BASE, &error, hash) == WEIR_CONTRACT_VIOLATION);
        }
    }
    memory_env_close(&g.memory);
    sqlite3_close(g.database);
    return 0;
}
