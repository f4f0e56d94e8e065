/* A sequence next to a hub: what it costs must not depend on how many children the hub has. One table holds
 * the children of hubs with 10^3, 10^4, 10^5 and 10^6 of them (10^7 too with WEIR_BENCH_LARGE=1), strewn
 * over it alike, so that cache misses are the same for all; a task a hub starts at some of its children, and
 * walks through the hub to 16 others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "batches.h"
#include "bench.h"

enum { LEAST_POWER = 3, ANCHORS = 640, ROUNDS = 12, SQL_MAX = 2048 };

/* 10^3 + 10^4 + … + 10^most */
static uint64_t child_count(int most) {
    uint64_t count = 0, power = 1000;
    for (int i = LEAST_POWER; i <= most; i++, power *= 10)
        count += power;
    return count;
}

static void make_database(const char *path, int most) {
    sqlite3 *db;
    char sql[SQL_MAX], hub[512] = "3";
    unsigned long long children = child_count(most);
    for (int i = LEAST_POWER; i < most; i++)
        snprintf(hub + strlen(hub), sizeof hub - strlen(hub), " + (i * 7919 %% %llu >= %llu)", children,
                 (unsigned long long)child_count(i));
    snprintf(
        sql, sizeof sql,
        "CREATE TABLE hubs (id INTEGER PRIMARY KEY, size REAL);"
        "CREATE TABLE children (id INTEGER PRIMARY KEY, hub INTEGER REFERENCES hubs (id), x REAL, y REAL);"
        "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < %llu)"
        " INSERT INTO children SELECT i, %s, i %% 97, i %% 89 FROM n;"
        "INSERT INTO hubs SELECT DISTINCT hub, hub FROM children;",
        children, hub);
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
                "%s\"power_%d\": {\"query\": \"SELECT id, x > 50 AS large FROM children WHERE hub = %d LIMIT "
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
        batches_open(&b, &store, dataset, 1024, ANCHORS / 32);
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
