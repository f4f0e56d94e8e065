/* A sequence next to a hub: what it costs must not depend on how many children the hub has. One table holds a
 * million children of a thousand hubs, a million of a hundred hubs, and so on to a single hub (and ten
 * million of another one with WEIR_BENCH_LARGE=1), strewn over it alike, so that caches help none of them
 * more than the others. A task each starts at some of the children, and walks through their hub to 16 more.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "batches.h"
#include "bench.h"

enum { LEAST_POWER = 3, ANCHORS = 640, ROUNDS = 200, SQL_MAX = 2048 };

static uint64_t power_of_ten(int n) {
    return n == 0 ? 1 : 10 * power_of_ten(n - 1);
}

/* Children with k from 0 on: a million for each power up to 6, then ten million. Hub numbers are the power
 * and three digits. */
static void make_database(const char *path, int most) {
    sqlite3 *db;
    char sql[SQL_MAX];
    unsigned long long children = 4 * power_of_ten(6) + (most == 7 ? power_of_ten(7) : 0);
    snprintf(
        sql, sizeof sql,
        "CREATE TABLE hubs (id INTEGER PRIMARY KEY, size REAL);"
        "CREATE TABLE children (id INTEGER PRIMARY KEY, hub INTEGER REFERENCES hubs (id), x REAL, y REAL);"
        "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < %llu),"
        " strewn (i, k) AS (SELECT i, i * 7919 %% %llu FROM n),"
        " powers (i, k, p) AS (SELECT i, k, min(3 + k / 1000000, %d) FROM strewn)"
        " INSERT INTO children SELECT i, 1000 * p +"
        " k %% (CASE p WHEN 3 THEN 1000 WHEN 4 THEN 100 WHEN 5 THEN 10 ELSE 1 END), i %% 97, i %% 89"
        " FROM powers;"
        "INSERT INTO hubs SELECT hub, count(*) FROM children GROUP BY hub;",
        children, children, most);
    remove(path);
    if (sqlite3_open(path, &db) != SQLITE_OK || sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", path, sqlite3_errmsg(db));
        exit(1);
    }
    sqlite3_close(db);
}

static void make_schema(const char *path, int most) {
    FILE *file = fopen(path, "w");
    if (!file)
        exit(1);
    fprintf(file, "{\"name\": \"hub\", \"tables\": {"
                  "\"hubs\": {\"primary_key\": \"id\", \"columns\": {\"id\": {\"stype\": \"identifier\"},"
                  " \"size\": {\"stype\": \"numerical\"}}},"
                  "\"children\": {\"primary_key\": \"id\", \"columns\": {\"id\": {\"stype\": \"identifier\"},"
                  " \"hub\": {\"stype\": \"identifier\", \"foreign_key\": \"hubs.id\"},"
                  " \"x\": {\"stype\": \"numerical\"}, \"y\": {\"stype\": \"numerical\"}}}}, \"tasks\": {");
    for (int i = LEAST_POWER; i <= most; i++)
        fprintf(file,
                "%s\"power_%d\": {\"query\": \"SELECT id, x > 50 AS large FROM children WHERE hub / 1000 = "
                "%d LIMIT "
                "%d\","
                " \"anchor_table\": \"children\", \"anchor_key\": \"id\", \"target_column\": \"large\","
                " \"target_stype\": \"boolean\","
                " \"split\": {\"method\": \"hash\", \"permille\": [1000, 0, 0], \"seed\": 1}}",
                i == LEAST_POWER ? "" : ", ", i, i, ANCHORS);
    fprintf(file, "}}\n");
    fclose(file);
}

static batches_store make_hubs(const char *program, int most) {
    char name[32], database[600], schema[600];
    snprintf(name, sizeof name, "hub_%d", most);
    batches_store at = batches_locate(program, name);
    if (batches_exists(&at))
        return at;
    snprintf(database, sizeof database, "%s.sqlite", at.store);
    snprintf(schema, sizeof schema, "%s.schema.json", at.store);
    batches_make_folder(program);
    make_database(database, most);
    make_schema(schema, most);
    batches_run_weir(program, "ingest '%s' --schema '%s' -o '%s' --manifest '%s' --json > /dev/null",
                     database, schema, at.store, at.manifest);
    remove(database);
    return at;
}

int main(int argc, char **argv) {
    (void)argc;
    int most = batches_want_large() ? 7 : 6;
    batches_store store = make_hubs(argv[0], most);
    double least = 0;
    for (int i = LEAST_POWER; i <= most; i++) {
        batches b;
        char dataset[64], name[64];
        snprintf(dataset, sizeof dataset, "hub/power_%d/train", i);
        batches_open(&b, &store, dataset, 1024, "rcm", ANCHORS / 32);
        batches_build(&b);
        double micros = bench_best(ROUNDS, batches_build, &b) / (double)b.sequences * 1e6;
        snprintf(name, sizeof name, "a sequence at a hub of 10^%d children, %.0f rows", i,
                 (double)b.rows / (double)b.sequences);
        bench_report(name, micros, "us", "10^3 children", least, least > 0 ? "1.2 x" : NULL);
        least = least > 0 ? least : micros;
        batches_close(&b);
    }
    return 0;
}
