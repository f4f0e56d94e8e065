/* Ingest against the limit: how fast SQLite alone can hand over the same rows (one connection, every cell
 * looked at).
 *
 *   bench_ingest [ROWS …]      default 1000000; a demo shop of about that many rows in a temporary folder
 *
 * Ingest runs in a process of its own, so that its peak memory is its own. Both are held against each other
 * in processor time, all threads together, which other processes do not disturb: on two idle cores ingest
 * is faster than that; what it took on the wall stands beside it. Tasks are queries that the source runs
 * itself, so there are two limits: the tables alone, and the tables and the tasks' queries. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "bench.h"
#include "demo_shop.h"
#include "weir/weir.h"

enum { REPEATS = 3, QUERY_MAX = 4096 };

/* The demo shop's schema, with its tasks or without any. */
typedef struct shop_schema {
    char text[16384];
    size_t size;
} shop_schema;

static void fail(const char *message) {
    fprintf(stderr, "bench_ingest: %s\n", message);
    exit(1);
}

static shop_schema schema_of_shop(bool has_tasks) {
    shop_schema schema = {.size = cli_demo_schema_size};
    if (cli_demo_schema_size >= sizeof schema.text)
        fail("the demo shop's schema is too long");
    memcpy(schema.text, cli_demo_schema, cli_demo_schema_size);
    if (has_tasks)
        return schema;
    char *tasks = strstr(schema.text, "\"tasks\": {");
    char *after = tasks ? strstr(tasks, "\"statistics_until\"") : NULL;
    if (!after)
        fail("the demo shop's schema has no tasks");
    static const char none[] = "\"tasks\": {}, ";
    size_t rest = (size_t)(schema.text + schema.size - after);
    memcpy(tasks, none, sizeof none - 1);
    memmove(tasks + sizeof none - 1, after, rest);
    schema.size = (size_t)(tasks - schema.text) + sizeof none - 1 + rest;
    return schema;
}

static uint64_t make_shop(const char *path, uint64_t rows) {
    demo_counts counts;
    weir_error error;
    if (demo_shop_write(path, rows, NULL, NULL, &counts, &error) != WEIR_OK)
        fail(error.message);
    return counts.total;
}

/* ---- SQLite alone -------------------------------------------------------------------------------------- */

/* Every cell of every row, as a client reads it. */
static uint64_t stream_query(sqlite3 *db, const char *sql) {
    sqlite3_stmt *statement;
    uint64_t sum = 0;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
        fail(sqlite3_errmsg(db));
    int columns = sqlite3_column_count(statement);
    while (sqlite3_step(statement) == SQLITE_ROW)
        for (int c = 0; c < columns; c++)
            switch (sqlite3_column_type(statement, c)) {
            case SQLITE_INTEGER:
                sum += (uint64_t)sqlite3_column_int64(statement, c);
                break;
            case SQLITE_FLOAT:
                sum += sqlite3_column_double(statement, c) > 0;
                break;
            case SQLITE_TEXT:
                sum += *sqlite3_column_text(statement, c) + (uint64_t)sqlite3_column_bytes(statement, c);
                break;
            default:
                break;
            }
    sqlite3_finalize(statement);
    return sum;
}

static void stream_tables(sqlite3 *db) {
    for (int table = 0; table < DEMO_TABLES; table++) {
        char sql[100];
        snprintf(sql, sizeof sql, "SELECT * FROM %s", demo_table_names[table]);
        bench_keep(stream_query(db, sql));
    }
}

/* Runs the tasks' queries as the schema has them. */
static void stream_tasks(sqlite3 *db) {
    shop_schema schema = schema_of_shop(true);
    weir_cbor_writer document;
    weir_error error;
    weir_cbor_value tasks, task, query;
    weir_cbor_writer_memory(&document, NULL);
    if (weir_json_read(schema.text, schema.size, "schema", WEIR_SCHEMA_INVALID, &document, &error) !=
            WEIR_OK ||
        weir_cbor_finish(&document, &error) != WEIR_OK)
        fail(error.message);
    weir_cbor_value root = weir_cbor_view(document.data);
    if (!weir_cbor_get(&root, "tasks", &tasks))
        fail("the demo shop's schema has no tasks");
    weir_cbor_iterator it = weir_cbor_children(&tasks);
    while (weir_cbor_next(&it, NULL, &task)) {
        char sql[QUERY_MAX];
        if (!weir_cbor_get(&task, "query", &query) || query.number >= sizeof sql)
            fail("a task has no query that fits");
        snprintf(sql, sizeof sql, "%.*s", (int)query.number, (const char *)query.data);
        bench_keep(stream_query(db, sql));
    }
    weir_cbor_release(&document);
}

/* Processor seconds of reading all tables, and the tasks' queries where asked for. */
static double stream_alone(const char *path, bool has_tasks) {
    double best = 1e9;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        sqlite3 *db;
        double began = bench_now();
        if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
            fail("cannot open the shop");
        stream_tables(db);
        if (has_tasks)
            stream_tasks(db);
        sqlite3_close(db);
        double spent = bench_now() - began;
        best = spent < best ? spent : best;
    }
    return best;
}

/* ---- Ingest ---------------------------------------------------------------------------------- */

/* What an ingest cost. */
typedef struct cost {
    double processor_s, wall_s;
    long peak_kib;
} cost;

static void print_phases(const weir_ingest_report *report) {
    const uint64_t phases[] = {report->read_ns,  report->order_ns, report->match_ns, report->tasks_ns,
                               report->write_ns, report->embed_ns, report->total_ns};
    static const char *const names[] = {"read", "order", "match", "tasks", "write", "embed", "total"};
    for (int i = 0; i < 7; i++)
        fprintf(stderr, "%s %.2f%s", names[i], (double)phases[i] * 1e-9, i < 6 ? " " : "\n");
}

static weir_status ingest_here(const char *source, const char *store, bool has_tasks, bool embeds) {
    weir_error error;
    weir_ingest_report report;
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    shop_schema schema = schema_of_shop(has_tasks);
    options.source = source;
    options.output = store;
    options.schema = schema.text;
    options.schema_size = schema.size;
    options.threads = 2;
    options.no_embeddings = !embeds;
    weir_status status = weir_ingest(NULL, &options, &report, &error);
    if (status != WEIR_OK)
        fprintf(stderr, "bench_ingest: %s\n", error.message);
    else if (getenv("BENCH_PHASES"))
        print_phases(&report);
    return status;
}

static double seconds_of(struct timeval time) {
    return (double)time.tv_sec + (double)time.tv_usec * 1e-6;
}

/* Ingest in a child; the system says what it used. */
static cost ingest_once(const char *source, const char *store, bool has_tasks, bool embeds) {
    double began = bench_wall();
    pid_t child = fork();
    if (child == 0)
        _exit(ingest_here(source, store, has_tasks, embeds) == WEIR_OK ? 0 : 1);
    int result;
    struct rusage usage;
    if (wait4(child, &result, 0, &usage) != child || result != 0)
        exit(1);
    return (cost){
        .processor_s = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime),
        .wall_s = bench_wall() - began,
        .peak_kib = usage.ru_maxrss,
    };
}

/* The best of several, each figure by itself. */
static cost ingest_best(const char *source, const char *store, bool has_tasks) {
    cost best = ingest_once(source, store, has_tasks, false);
    for (int repeat = 1; repeat < REPEATS; repeat++) {
        cost next = ingest_once(source, store, has_tasks, false);
        best.processor_s = next.processor_s < best.processor_s ? next.processor_s : best.processor_s;
        best.wall_s = next.wall_s < best.wall_s ? next.wall_s : best.wall_s;
    }
    return best;
}

static double file_size(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 ? (double)status.st_size : 0;
}

static double open_once(const char *store) {
    weir_store *opened;
    double began = bench_wall();
    if (weir_store_open(NULL, store, &opened, NULL) != WEIR_OK)
        exit(1);
    double spent = bench_wall() - began;
    weir_store_close(opened);
    return spent;
}

/* ---- The table ------------------------------------------------------------------------------- */

typedef struct paths {
    char source[300], store[300], manifest[300];
} paths;

static void report_speed(const char *what, uint64_t rows, double source_bytes, cost spent, double alone_s) {
    char name[100];
    snprintf(name, sizeof name, "ingest %" PRIu64 " rows, %s", rows, what);
    bench_report(name, (double)rows / spent.processor_s, "rows/s", "SQLite alone", (double)rows / alone_s,
                 "at least 0.3");
    snprintf(name, sizeof name, "ingest %" PRIu64 " rows, %s, source", rows, what);
    bench_report(name, source_bytes / spent.processor_s / 1e6, "MB/s", "SQLite alone",
                 source_bytes / alone_s / 1e6, "at least 0.3");
    snprintf(name, sizeof name, "ingest %" PRIu64 " rows, %s, on the wall", rows, what);
    bench_report(name, (double)rows / spent.wall_s, "rows/s", "", 0, "");
}

static void report_sizes(const paths *p, uint64_t rows, double source_bytes, cost spent) {
    char name[100];
    double store_bytes = file_size(p->store);
    snprintf(name, sizeof name, "store of %" PRIu64 " rows without embeddings", rows);
    bench_report(name, store_bytes / 1e6, "MB", "SQLite file", source_bytes / 1e6, "at most 1.5");
    snprintf(name, sizeof name, "peak memory of ingesting %" PRIu64 " rows", rows);
    bench_report(name, (double)spent.peak_kib * 1.024e-3, "MB", "store", store_bytes / 1e6, "");
    bench_report("opening a store", open_once(p->store) * 1e3, "ms", "", 0, "below 10");
}

static void measure(const char *folder, uint64_t scale) {
    paths p;
    char name[100];
    snprintf(p.source, sizeof p.source, "%s/shop.sqlite", folder);
    snprintf(p.store, sizeof p.store, "%s/shop.weir", folder);
    snprintf(p.manifest, sizeof p.manifest, "%s/shop.manifest.json", folder);
    double began = bench_now();
    uint64_t rows = make_shop(p.source, scale);
    snprintf(name, sizeof name, "making a shop of %" PRIu64 " rows", rows);
    bench_report(name, (double)rows / (bench_now() - began), "rows/s", "", 0, "at least 300000");
    double source_bytes = file_size(p.source);
    double tables_alone_s = stream_alone(p.source, false), all_alone_s = stream_alone(p.source, true);
    cost tables = ingest_best(p.source, p.store, false);
    report_speed("no tasks", rows, source_bytes, tables, tables_alone_s);
    cost all = ingest_best(p.source, p.store, true);
    report_speed("5 tasks", rows, source_bytes, all, all_alone_s);
    report_sizes(&p, rows, source_bytes, all);
    cost embedded = ingest_once(p.source, p.store, true, true);
    report_speed("5 tasks, hash_v1 of 64", rows, source_bytes, embedded, all_alone_s);
    unlink(p.source);
    unlink(p.store);
    unlink(p.manifest);
}

int main(int argc, char **argv) {
    char folder[] = "/var/tmp/weir-bench-XXXXXX";
    if (!mkdtemp(folder))
        return 1;
    if (argc < 2)
        measure(folder, 1000000);
    for (int i = 1; i < argc; i++)
        measure(folder, strtoull(argv[i], NULL, 10));
    rmdir(folder);
    return 0;
}
