/* SQL over CSV files: a query reads the files of the tables that it names, once, and no others. */
#include "ingest/source.h"
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
    assert_ok(source->kind->describe(source, &catalog, &error), &error);
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_query_reads_what_it_names)};
    return cmocka_run_group_tests_name("csv_query", tests, NULL, NULL);
}
