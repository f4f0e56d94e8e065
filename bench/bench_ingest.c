/* Ingest against the limit: how fast SQLite alone can hand over the same rows (one connection, every cell
 * looked at).
 *
 *   bench_ingest [ROWS …]      default 1000000; a shop of about that many rows is made in a temporary folder
 *
 * Ingest runs in a process of its own, so that its peak memory is its own. Both are held against each other
 * in processor time, all threads together, which other processes do not disturb: on two idle cores ingest is
 * faster than that. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "bench.h"
#include "weir/weir.h"

static const char *const tables[] = {"customers", "products", "orders", "order_items", "reviews"};
enum { TABLES = sizeof tables / sizeof *tables, REPEATS = 3 };

/* A tenth customers and products, three tenths orders, half order lines, the rest reviews; %lld are the
 * tables' sizes. */
static const char shop_sql[] = "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN;"
                               "CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, name TEXT, city "
                               "TEXT, signup_at TEXT, premium BOOLEAN, age "
                               "INTEGER);"
                               "CREATE TABLE products (product_id INTEGER PRIMARY KEY, title TEXT, category "
                               "TEXT, price REAL, released DATE);"
                               "CREATE TABLE orders (order_id INTEGER PRIMARY KEY, customer_id INTEGER "
                               "REFERENCES customers, ordered_at TEXT, status "
                               "TEXT, total REAL, shipped_at TEXT);"
                               "CREATE TABLE order_items (item_id INTEGER PRIMARY KEY, order_id INTEGER "
                               "REFERENCES orders, product_id INTEGER REFERENCES "
                               "products, quantity INTEGER, unit_price REAL);"
                               "CREATE TABLE reviews (review_id INTEGER PRIMARY KEY, customer_id INTEGER "
                               "REFERENCES customers, product_id INTEGER "
                               "REFERENCES products, rating INTEGER, body TEXT, reviewed_at TEXT);"
                               "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < "
                               "%lld) INSERT INTO customers SELECT i, 'Customer '"
                               " || (i * 7919 %% 100003), 'City ' || (i * 31 %% 60), datetime(1500000000 + i "
                               "* 7919 %% 200000000, 'unixepoch'), i %% 3 = 0, "
                               "CASE WHEN i %% 11 THEN 18 + i * 17 %% 70 END FROM n;"
                               "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < "
                               "%lld) INSERT INTO products SELECT i, 'Product '"
                               " || i || ' of the ' || (i * 31 %% 977) || 'th kind', 'Category ' || (i %% "
                               "40), (i * 7919 %% 10000) / 100.0, "
                               "date(1400000000 + i * 86400 %% 300000000, 'unixepoch') FROM n;"
                               "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < "
                               "%lld) INSERT INTO orders SELECT i, "
                               "(i * 2654435761) %% %lld, datetime(1500000000 + i * 104729 %% 250000000, "
                               "'unixepoch'), CASE i %% 4 WHEN 0 THEN 'open' WHEN 1 "
                               "THEN 'paid' WHEN 2 THEN 'shipped' ELSE 'returned' END, (i * 7919 %% 100000) "
                               "/ 100.0, CASE WHEN i %% 4 > 1 THEN "
                               "datetime(1500400000 + i * 104729 %% 250000000, 'unixepoch') END FROM n;"
                               "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < "
                               "%lld) INSERT INTO order_items SELECT i, i * 3 / 5, "
                               "(i * 2654435761) %% %lld, 1 + i %% 5, (i * 104729 %% 10000) / 100.0 FROM n;"
                               "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < "
                               "%lld) INSERT INTO reviews SELECT i, "
                               "(i * 40503) %% %lld, (i * 2654435761) %% %lld, CASE WHEN i %% 9 THEN 1 + i * "
                               "7919 %% 5 END, 'Review ' || i || ' says that it "
                               "was ' || CASE i %% 3 WHEN 0 THEN 'good and that the parcel came early' WHEN "
                               "1 THEN 'bad' ELSE 'as expected, no more' END, "
                               "datetime(1510000000 + i * 104729 %% 250000000, 'unixepoch') FROM n;"
                               "COMMIT;";

static void make_shop(const char *path, long long rows) {
    sqlite3 *db;
    long long customers = rows / 20, products = rows / 20, orders = rows * 3 / 10, items = rows / 2;
    long long reviews = rows - customers - products - orders - items;
    char *message = NULL;
    char *sql = sqlite3_mprintf(shop_sql, customers, products, orders, customers, items, products, reviews,
                                customers, products);
    if (sqlite3_open(path, &db) != SQLITE_OK || sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) {
        fprintf(stderr, "bench_ingest: cannot make the shop: %s\n", message ? message : "no file");
        exit(1);
    }
    sqlite3_free(sql);
    sqlite3_close(db);
}

/* Every cell of every row, as a client reads it. */
static uint64_t stream_table(sqlite3 *db, const char *table) {
    char sql[100];
    sqlite3_stmt *statement;
    uint64_t sum = 0;
    snprintf(sql, sizeof sql, "SELECT * FROM %s", table);
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
        exit(1);
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

static double stream_alone(const char *path) {
    double best = 1e9;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        sqlite3 *db;
        double began = bench_now();
        if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
            exit(1);
        for (int t = 0; t < TABLES; t++)
            bench_keep(stream_table(db, tables[t]));
        sqlite3_close(db);
        double spent = bench_now() - began;
        best = spent < best ? spent : best;
    }
    return best;
}

static const char schema[] =
    "{\"name\": \"shop\", \"tables\": {"
    "\"customers\": {\"primary_key\": \"customer_id\", \"temporal_column\": \"signup_at\", \"columns\": "
    "{\"customer_id\": {\"stype\": "
    "\"identifier\"}, \"name\": {\"stype\": \"text\"}, \"city\": {\"stype\": \"categorical\"}, "
    "\"signup_at\": {\"stype\": "
    "\"timestamp\"}, \"premium\": {\"stype\": \"boolean\"}, \"age\": {\"stype\": \"numerical\"}}},"
    "\"products\": {\"primary_key\": \"product_id\", \"temporal_column\": \"released\", \"columns\": "
    "{\"product_id\": {\"stype\": "
    "\"identifier\"}, \"title\": {\"stype\": \"text\"}, \"category\": {\"stype\": \"categorical\"}, "
    "\"price\": {\"stype\": "
    "\"numerical\"}, \"released\": {\"stype\": \"timestamp\"}}},"
    "\"orders\": {\"primary_key\": \"order_id\", \"temporal_column\": \"ordered_at\", \"columns\": "
    "{\"order_id\": {\"stype\": "
    "\"identifier\"}, \"customer_id\": {\"stype\": \"identifier\", \"foreign_key\": "
    "\"customers.customer_id\"}, \"ordered_at\": "
    "{\"stype\": \"timestamp\"}, \"status\": {\"stype\": \"categorical\"}, \"total\": {\"stype\": "
    "\"numerical\"}, \"shipped_at\": "
    "{\"stype\": \"timestamp\"}}},"
    "\"order_items\": {\"primary_key\": \"item_id\", \"columns\": {\"item_id\": {\"stype\": \"identifier\"}, "
    "\"order_id\": {\"stype\": "
    "\"identifier\", \"foreign_key\": \"orders.order_id\"}, \"product_id\": {\"stype\": \"identifier\", "
    "\"foreign_key\": "
    "\"products.product_id\"}, \"quantity\": {\"stype\": \"categorical\"}, \"unit_price\": {\"stype\": "
    "\"numerical\"}}},"
    "\"reviews\": {\"primary_key\": \"review_id\", \"temporal_column\": \"reviewed_at\", \"columns\": "
    "{\"review_id\": {\"stype\": "
    "\"identifier\"}, \"customer_id\": {\"stype\": \"identifier\", \"foreign_key\": "
    "\"customers.customer_id\"}, \"product_id\": "
    "{\"stype\": \"identifier\", \"foreign_key\": \"products.product_id\"}, \"rating\": {\"stype\": "
    "\"categorical\"}, \"body\": "
    "{\"stype\": \"text\"}, \"reviewed_at\": {\"stype\": \"timestamp\"}}}},"
    "\"tasks\": {\"rating\": {\"query\": \"SELECT review_id, rating FROM reviews\", \"anchor_table\": "
    "\"reviews\", \"anchor_key\": "
    "\"review_id\", \"target_column\": \"rating\", \"target_stype\": \"categorical\"}}}";

static double seconds_of(struct timeval time) {
    return (double)time.tv_sec + (double)time.tv_usec * 1e-6;
}

/* Ingest in a child; the system says what it used. */
static double ingest_once(const char *source, const char *store, bool embeds, long *peak_kib) {
    pid_t child = fork();
    if (child == 0) {
        weir_error error;
        weir_ingest_report report;
        weir_ingest_options options = WEIR_INGEST_OPTIONS;
        options.source = source;
        options.output = store;
        options.schema = schema;
        options.schema_size = sizeof schema - 1;
        options.threads = 2;
        options.no_embeddings = !embeds;
        weir_status status = weir_ingest(NULL, &options, &report, &error);
        if (status != WEIR_OK)
            fprintf(stderr, "bench_ingest: %s\n", error.message);
        else if (getenv("BENCH_PHASES"))
            fprintf(stderr, "read %.2f order %.2f match %.2f tasks %.2f write %.2f embed %.2f total %.2f\n",
                    (double)report.read_ns * 1e-9, (double)report.order_ns * 1e-9,
                    (double)report.match_ns * 1e-9, (double)report.tasks_ns * 1e-9,
                    (double)report.write_ns * 1e-9, (double)report.embed_ns * 1e-9,
                    (double)report.total_ns * 1e-9);
        _exit(status == WEIR_OK ? 0 : 1);
    }
    int result;
    struct rusage usage;
    if (wait4(child, &result, 0, &usage) != child || result != 0)
        exit(1);
    *peak_kib = usage.ru_maxrss;
    return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
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

static void measure(const char *folder, long long rows) {
    char source[300], store[300], manifest[300], name[100];
    long peak = 0, ignored;
    snprintf(source, sizeof source, "%s/shop.sqlite", folder);
    snprintf(store, sizeof store, "%s/shop.weir", folder);
    snprintf(manifest, sizeof manifest, "%s/shop.manifest.json", folder);
    make_shop(source, rows);
    double alone = stream_alone(source);
    double plain = ingest_once(source, store, false, &peak);
    for (int repeat = 1; repeat < REPEATS; repeat++) {
        double spent = ingest_once(source, store, false, &ignored);
        plain = spent < plain ? spent : plain;
    }
    double source_size = file_size(source), store_size = file_size(store);
    snprintf(name, sizeof name, "ingest %lld rows, SQLite, 2 threads", rows);
    bench_report(name, (double)rows / plain, "rows/s", "SQLite alone", (double)rows / alone, "at least 0.3");
    snprintf(name, sizeof name, "ingest %lld rows, source bytes", rows);
    bench_report(name, source_size / plain / 1e6, "MB/s", "SQLite alone", source_size / alone / 1e6,
                 "at least 0.3");
    snprintf(name, sizeof name, "store of %lld rows without embeddings", rows);
    bench_report(name, store_size / 1e6, "MB", "SQLite file", source_size / 1e6, "at most 1.5");
    snprintf(name, sizeof name, "peak memory of ingesting %lld rows", rows);
    bench_report(name, (double)peak / 1e3, "MB", "store", store_size / 1e6, "");
    bench_report("opening a store", open_once(store) * 1e3, "ms", "", 0, "below 10");
    double embedded = ingest_once(source, store, true, &ignored);
    snprintf(name, sizeof name, "ingest %lld rows with embeddings (hash_v1, 256)", rows);
    bench_report(name, (double)rows / embedded, "rows/s", "SQLite alone", (double)rows / alone, "");
    unlink(source);
    unlink(store);
    unlink(manifest);
}

int main(int argc, char **argv) {
    char folder[] = "/var/tmp/weir-bench-XXXXXX";
    if (!mkdtemp(folder))
        return 1;
    if (argc < 2)
        measure(folder, 1000000);
    for (int i = 1; i < argc; i++)
        measure(folder, strtoll(argv[i], NULL, 10));
    rmdir(folder);
    return 0;
}
