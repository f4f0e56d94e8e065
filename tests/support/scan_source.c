/* Prints what a source gives, for the Python tests that start servers: its catalog and every row of every
 * table and view, or of one query, as JSON Lines. Values carry their type, as one letter.
 *
 *   scan_source LOCATION [--sessions N] [--query SQL]… [--stop-early] [--count] | --sweep
 *
 * With several sessions every table is read in as many parts, part i by session i. --stop-early first
 * starts a scan of each table and closes it after one batch. --count prints counts of rows instead of rows.
 * --sweep reads everything again and again while allocations fail, and prints how many did. A failure
 * prints the error record's line to stderr and exits with 1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/csv.h"
#include "support/testing.h"
#include "weir/weir.h"

enum { SESSIONS_MAX = 16 };

typedef struct scanner {
    weir_ingest__source *sessions[SESSIONS_MAX];
    uint32_t session_count;
    weir_ingest__catalog catalog;
    bool counts_only;
} scanner;

static void stop_if(weir_status status, const weir_error *error) {
    if (!status)
        return;
    char line[2048];
    weir_error_line(error, line, sizeof line);
    fprintf(stderr, "%s\n", line);
    exit(1);
}

static void write_value(weir_json_writer *w, const weir_ingest__value *value) {
    static const char *const letters[] = {"n", "i", "r", "t", "x", "b", "@"};
    char text[40];
    weir_json_array(w);
    weir_json_text(w, letters[value->type]);
    switch (value->type) {
    case WEIR_INGEST__NULL:
        break;
    case WEIR_INGEST__REAL:
        snprintf(text, sizeof text, "%a", value->real);
        weir_json_text(w, text);
        break;
    case WEIR_INGEST__TEXT:
        weir_json_text_n(w, value->text.data, value->text.size);
        break;
    case WEIR_INGEST__BLOB:
        weir_json_hex(w, value->text.data, value->text.size);
        break;
    default:
        weir_json_int(w, value->integer);
    }
    weir_json_end_array(w);
}

static void print_line(weir_json_writer *w) {
    weir_error error;
    stop_if(weir_json_finish(w, &error), &error);
    puts(w->data);
    weir_json_release(w);
}

static void print_count(const char *name, uint64_t count) {
    weir_json_writer w;
    weir_json_writer_memory(&w, NULL);
    weir_json_object(&w);
    weir_json_key(&w, "of");
    weir_json_text(&w, name);
    weir_json_key(&w, "rows");
    weir_json_uint(&w, count);
    weir_json_end_object(&w);
    print_line(&w);
}

static uint64_t print_rows(const scanner *s, const char *name, weir_ingest__cursor *cursor) {
    weir_error error;
    weir_ingest__rows rows;
    uint64_t count = 0;
    for (;;) {
        stop_if(cursor->next(cursor, &rows, &error), &error);
        if (rows.row_count == 0)
            return count;
        count += rows.row_count;
        for (size_t r = 0; r < rows.row_count && !s->counts_only; r++) {
            weir_json_writer w;
            weir_json_writer_memory(&w, NULL);
            weir_json_object(&w);
            weir_json_key(&w, "of");
            weir_json_text(&w, name);
            weir_json_key(&w, "row");
            weir_json_array(&w);
            for (uint32_t c = 0; c < cursor->column_count; c++)
                write_value(&w, &rows.cells[r * cursor->column_count + c]);
            weir_json_end_array(&w);
            weir_json_end_object(&w);
            print_line(&w);
        }
    }
}

static void write_table(weir_json_writer *w, const weir_ingest__catalog_table *table) {
    weir_json_object(w);
    weir_json_key(w, "columns");
    weir_json_array(w);
    for (uint32_t i = 0; i < table->column_count; i++) {
        weir_json_array(w);
        weir_json_text(w, table->columns[i].name);
        weir_json_uint(w, table->columns[i].declared);
        weir_json_end_array(w);
    }
    weir_json_end_array(w);
    weir_json_key(w, "primary_key");
    weir_json_array(w);
    for (uint32_t i = 0; i < table->primary_key_count; i++)
        weir_json_text(w, table->columns[table->primary_key[i]].name);
    weir_json_end_array(w);
    weir_json_key(w, "foreign_keys");
    weir_json_object(w);
    for (uint32_t i = 0; i < table->foreign_key_count; i++) {
        const weir_ingest__catalog_key *key = &table->foreign_keys[i];
        char name[512] = "", target[512];
        snprintf(target, sizeof target, "%s.", key->parent_table);
        for (uint32_t k = 0; k < key->column_count; k++) {
            size_t used = strlen(name), target_used = strlen(target);
            snprintf(name + used, sizeof name - used, "%s%s", k ? "+" : "",
                     table->columns[key->columns[k]].name);
            snprintf(target + target_used, sizeof target - target_used, "%s%s", k ? "+" : "",
                     key->parent_columns[k]);
        }
        weir_json_key(w, name);
        weir_json_text(w, target);
    }
    weir_json_end_object(w);
    weir_json_end_object(w);
}

static void print_catalog(const scanner *s) {
    weir_json_writer w;
    weir_json_writer_memory(&w, NULL);
    weir_json_object(&w);
    weir_json_key(&w, "name");
    weir_json_text(&w, s->catalog.name);
    weir_json_key(&w, "sessions");
    weir_json_uint(&w, s->session_count);
    weir_json_key(&w, "tables");
    weir_json_object(&w);
    for (uint32_t i = 0; i < s->catalog.table_count; i++) {
        if (s->catalog.tables[i].is_hidden)
            continue;
        weir_json_key(&w, s->catalog.tables[i].name);
        write_table(&w, &s->catalog.tables[i]);
    }
    weir_json_end_object(&w);
    weir_json_key(&w, "estimates");
    weir_json_object(&w);
    for (uint32_t i = 0; i < s->catalog.table_count; i++) {
        weir_json_key(&w, s->catalog.tables[i].name);
        weir_json_uint(&w, s->catalog.tables[i].row_estimate);
    }
    weir_json_end_object(&w);
    weir_json_key(&w, "skipped");
    weir_json_array(&w);
    for (uint32_t i = 0; i < s->catalog.skipped_count; i++)
        weir_json_text(&w, s->catalog.skipped[i]);
    weir_json_end_array(&w);
    weir_json_key(&w, "hidden");
    weir_json_array(&w);
    for (uint32_t i = 0; i < s->catalog.table_count; i++)
        if (s->catalog.tables[i].is_hidden)
            weir_json_text(&w, s->catalog.tables[i].name);
    weir_json_end_array(&w);
    weir_json_end_object(&w);
    print_line(&w);
}

static weir_ingest__cursor *open_scan(const scanner *s, const weir_ingest__catalog_table *table,
                                      uint32_t part, uint32_t part_count) {
    weir_error error;
    weir_ingest__cursor *cursor;
    uint32_t *columns = calloc(table->column_count + 1, sizeof *columns);
    for (uint32_t i = 0; i < table->column_count; i++)
        columns[i] = i;
    weir_ingest__source *session = s->sessions[part];
    stop_if(weir_ingest__source_scan(session, table, columns, table->column_count, part, part_count, &cursor,
                                     &error),
            &error);
    free(columns);
    return cursor;
}

static void scan_tables(const scanner *s) {
    for (uint32_t t = 0; t < s->catalog.table_count; t++) {
        const weir_ingest__catalog_table *table = &s->catalog.tables[t];
        for (uint32_t part = 0; part < s->session_count; part++) {
            weir_ingest__cursor *cursor = open_scan(s, table, part, s->session_count);
            uint64_t count = print_rows(s, table->name, cursor);
            if (s->counts_only)
                print_count(table->name, count);
            cursor->close(cursor);
        }
    }
}

static void start_and_stop(const scanner *s) {
    weir_error error;
    weir_ingest__rows rows;
    for (uint32_t t = 0; t < s->catalog.table_count; t++) {
        weir_ingest__cursor *cursor = open_scan(s, &s->catalog.tables[t], 0, 1);
        stop_if(cursor->next(cursor, &rows, &error), &error);
        cursor->close(cursor);
    }
}

static void run_query(const scanner *s, const char *sql) {
    weir_error error;
    weir_ingest__cursor *cursor;
    weir_ingest__source *session = s->sessions[0];
    stop_if(session->kind->query(session, sql, &cursor, &error), &error);
    weir_json_writer w;
    weir_json_writer_memory(&w, NULL);
    weir_json_array(&w);
    for (uint32_t i = 0; i < cursor->column_count; i++)
        weir_json_text(&w, cursor->column_names[i]);
    weir_json_end_array(&w);
    print_line(&w);
    uint64_t count = print_rows(s, "query", cursor);
    if (s->counts_only)
        print_count("query", count);
    cursor->close(cursor);
}

static weir_status complete_views(weir_ingest__source *session, weir_ingest__catalog *catalog,
                                  weir_error *error) {
    weir_status status = WEIR_OK;
    for (uint32_t t = 0; t < catalog->table_count && !status; t++)
        status = weir_ingest__catalog_complete(session, catalog, &catalog->tables[t], error);
    return status;
}

static void open_sessions(scanner *s, const char *location, uint32_t count) {
    weir_error error;
    static weir_ingest__source_options options;
    options.location = location;
    stop_if(weir_ingest__source_open(weir_env_default(), &options, &s->sessions[0], &error), &error);
    s->session_count = 1;
    while (s->session_count < count && s->sessions[0]->kind->fork) {
        weir_ingest__source *session;
        stop_if(s->sessions[0]->kind->fork(s->sessions[0], &session, &error), &error);
        if (!session)
            break;
        s->sessions[s->session_count++] = session;
    }
    stop_if(weir_ingest__source_describe(s->sessions[0], &s->catalog, &error), &error);
    stop_if(complete_views(s->sessions[0], &s->catalog, &error), &error);
}

static void close_sessions(scanner *s) {
    weir_ingest__catalog_release(&s->catalog);
    while (s->session_count > 0)
        weir_ingest__source_close(s->sessions[--s->session_count]);
}

/* ---- Faults ---------------------------------------------------------------------------------- */

/* Tables, columns, keys and rows that a use of the source has seen, and that there are. */
static uint64_t seen, there;

static weir_status read_all(weir_ingest__cursor *cursor, weir_error *error) {
    weir_ingest__rows rows;
    weir_status status;
    do {
        status = cursor->next(cursor, &rows, error);
        seen += status ? 0 : rows.row_count;
    } while (!status && rows.row_count > 0);
    cursor->close(cursor);
    return status;
}

static weir_status scan_all(weir_ingest__source *session, const weir_ingest__catalog *catalog,
                            weir_error *error) {
    enum { COLUMNS_MAX = 1024 };
    uint32_t columns[COLUMNS_MAX];
    weir_ingest__cursor *cursor;
    weir_status status = WEIR_OK;
    for (uint32_t i = 0; i < COLUMNS_MAX; i++)
        columns[i] = i;
    for (uint32_t t = 0; t < catalog->table_count && !status; t++) {
        const weir_ingest__catalog_table *table = &catalog->tables[t];
        seen += 1 + table->column_count + table->primary_key_count + table->foreign_key_count;
        status = weir_ingest__source_scan(session, table, columns, table->column_count, 0, 1, &cursor, error);
        if (!status)
            status = read_all(cursor, error);
    }
    return status;
}

/* One whole use of a source: two sessions, the catalog, all rows, a query. A fault must not hide a part. */
static weir_status use_source(const weir_env *env, void *location, weir_error *error) {
    weir_ingest__source *session = NULL, *second = NULL;
    weir_ingest__catalog catalog = {0};
    weir_ingest__cursor *cursor;
    weir_ingest__source_options options = {.location = location};
    seen = 0;
    weir_status status = weir_ingest__source_open(env, &options, &session, error);
    if (!status && session->kind->fork)
        status = session->kind->fork(session, &second, error);
    if (!status)
        status = weir_ingest__source_describe(session, &catalog, error);
    if (!status)
        status = complete_views(session, &catalog, error);
    if (!status)
        status = weir_ingest__catalog_add_query(session, &catalog, "asked", "SELECT 1 AS a, 'x' AS b", error);
    if (!status)
        status = scan_all(second ? second : session, &catalog, error);
    if (!status)
        status = session->kind->query(session, "SELECT 1 AS a, 'x' AS b", &cursor, error);
    if (!status)
        status = read_all(cursor, error);
    weir_ingest__catalog_release(&catalog);
    weir_ingest__source_close(second);
    weir_ingest__source_close(session);
    /* Files that cannot be opened or read are the source's to report, or look like another source. */
    if (status == WEIR_SOURCE_ERROR && weir_ingest__is_data_files(NULL, location))
        error->status = status = WEIR_IO_ERROR;
    if (!status && there && seen != there)
        stop_if(weir__fail(error, WEIR_CONTRACT_VIOLATION, "scan_source", "a fault hid something"), error);
    return status;
}

int main(int argc, char **argv) {
    scanner s = {0};
    uint32_t sessions = 1;
    bool stops_early = false, has_query = false;
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--sessions") == 0 && i + 1 < argc)
            sessions = (uint32_t)atoi(argv[i + 1]);
        stops_early = stops_early || strcmp(argv[i], "--stop-early") == 0;
        has_query = has_query || strcmp(argv[i], "--query") == 0;
        s.counts_only = s.counts_only || strcmp(argv[i], "--count") == 0;
    }
    if (argc < 2 || sessions < 1 || sessions > SESSIONS_MAX)
        return 2;
    if (argc == 3 && strcmp(argv[2], "--sweep") == 0) {
        weir_error error;
        stop_if(use_source(weir_env_default(), argv[1], &error), &error);
        there = seen;
        printf("%llu\n", (unsigned long long)sweep_faults(use_source, NULL, argv[1]));
        return 0;
    }
    open_sessions(&s, argv[1], sessions);
    print_catalog(&s);
    if (stops_early)
        start_and_stop(&s);
    for (int i = 2; i + 1 < argc; i++)
        if (strcmp(argv[i], "--query") == 0)
            run_query(&s, argv[i + 1]);
    if (!has_query)
        scan_tables(&s);
    close_sessions(&s);
    return 0;
}
