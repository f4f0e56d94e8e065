/* SQL over CSV files: a query reads the files of the tables that it names, once, and no others, and has the
 * indexes that its subqueries need. */
#include <sqlite3.h>

#include "ingest/source.h"
#include "ingest/table_query.h"
#include "support/database.h"

/* How often the files a.csv and b.csv were opened. */
typedef struct opened {
    int a, b;
} opened;

static int count_opens(void *context, const char *path, int flags, unsigned mode) {
    opened *count = context;
    size_t size = strlen(path);
    count->a += size > 6 && strcmp(path + size - 6, "/a.csv") == 0;
    count->b += size > 6 && strcmp(path + size - 6, "/b.csv") == 0;
    return weir_env_default()->open(NULL, path, flags, mode);
}

static void read_all(weir_ingest__source *source, const char *sql, size_t row_count) {
    weir_error error;
    weir_ingest__cursor *cursor;
    weir_ingest__rows rows;
    size_t found = 0;
    assert_ok(source->kind->query(source, sql, &cursor, &error), &error);
    do {
        assert_ok(cursor->next(cursor, &rows, &error), &error);
        found += rows.row_count;
    } while (rows.row_count > 0);
    cursor->close(cursor);
    assert_int_equal(found, row_count);
}

static void a_query_reads_what_it_names(void **state) {
    char folder[64], path[160];
    opened count = {0};
    weir_env env = *weir_env_default();
    weir_ingest__source *source;
    weir_ingest__catalog catalog;
    weir_error error;
    (void)state;
    make_folder(folder);
    write_whole_file(path_in(folder, "a.csv", path), "x\n1\n2\n", 6);
    write_whole_file(path_in(folder, "b.csv", path), "y\n1\n2\n3\n", 8);
    env.context = &count;
    env.open = count_opens;
    weir_ingest__source_options options = {.location = folder};
    assert_ok(weir_ingest__source_open(&env, &options, &source, &error), &error);
    assert_ok(weir_ingest__source_describe(source, &catalog, &error), &error);
    assert_ok(weir_ingest__catalog_add_query(source, &catalog, "c", "SELECT y FROM b", &error), &error);
    opened before = count;
    read_all(source, "SELECT x FROM a", 2);
    assert_int_equal(count.a, before.a + 1);
    assert_int_equal(count.b, before.b); /* it was described, not read */
    read_all(source, "SELECT x, y FROM a, b", 6);
    assert_int_equal(count.a, before.a + 1);
    assert_int_equal(count.b, before.b + 1);
    weir_ingest__catalog_release(&catalog);
    weir_ingest__source_close(source);
    remove_folder(folder);
}

/* The indexes that SQLite has after a query, as "table(column, column)" joined by spaces. */
static void indexes_after(weir_ingest__source *source, const char *sql, size_t row_count, char *out,
                          size_t size) {
    sqlite3 *connection = NULL;
    sqlite3_stmt *statement = NULL;
    read_all(source, sql, row_count);
    connection = atomic_load(&((weir_ingest__table_source *)weir_ingest__table_shared(source))->connection);
    assert_non_null(connection);
    const char *list =
        "SELECT coalesce(group_concat(one, ' '), '') FROM (SELECT m.tbl_name || '(' || "
        "group_concat(i.name, ', ') || ')' AS one FROM sqlite_master m, pragma_index_info(m.name) i "
        "WHERE m.type = 'index' GROUP BY m.name ORDER BY m.name)";
    assert_int_equal(sqlite3_prepare_v2(connection, list, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    snprintf(out, size, "%s", (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
}

/* A query of its own over two tables, its rows, and the indexes that it is given. */
static const struct {
    const char *sql;
    size_t row_count;
    const char *indexes;
} INDEXED[] = {
    {"SELECT id FROM people WHERE id IN (SELECT person FROM deals)", 2, ""},
    {"SELECT p.id, count(*) FROM people p LEFT JOIN deals d ON d.person = p.id GROUP BY 1", 3, ""},
    {"SELECT id FROM people WHERE EXISTS (SELECT 1 FROM deals WHERE person = people.id)", 2, "deals(person)"},
    {"SELECT p.id, (SELECT sum(d.size) FROM deals d WHERE d.person = p.id AND d.at < p.born) FROM people p",
     3, "deals(person)"},
    {"SELECT p.id FROM people p WHERE NOT EXISTS (SELECT 1 FROM deals d WHERE d.state = 'done' AND d.person "
     "= p.id)",
     2, "deals(person, state)"},
    {"SELECT d.at FROM deals d WHERE d.at > (SELECT born FROM people WHERE people.id = d.person)", 3,
     "people(id)"},
    {"SELECT p.id FROM people p WHERE EXISTS (SELECT 1 FROM deals d WHERE d.at > p.born)", 3, ""},
};

static void a_query_has_the_indexes_that_it_needs(void **state) {
    char folder[64], path[160], found[256];
    const char *people = "id,born\n1,5\n2,6\n3,7\n";
    const char *deals = "person,at,state,size\n1,9,done,.5\n1,10,new,2\n2,11,new,1\n";
    weir_ingest__source *source;
    weir_error error;
    (void)state;
    make_folder(folder);
    write_whole_file(path_in(folder, "people.csv", path), people, strlen(people));
    write_whole_file(path_in(folder, "deals.csv", path), deals, strlen(deals));
    for (size_t i = 0; i < sizeof INDEXED / sizeof INDEXED[0]; i++) {
        weir_ingest__source_options options = {.location = folder};
        assert_ok(weir_ingest__source_open(weir_env_default(), &options, &source, &error), &error);
        indexes_after(source, INDEXED[i].sql, INDEXED[i].row_count, found, sizeof found);
        assert_string_equal(found, INDEXED[i].indexes);
        weir_ingest__source_close(source);
    }
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_query_reads_what_it_names),
                                       cmocka_unit_test(a_query_has_the_indexes_that_it_needs)};
    return cmocka_run_group_tests_name("csv_query", tests, NULL, NULL);
}
