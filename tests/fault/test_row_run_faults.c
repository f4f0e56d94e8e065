/* Runs of rows are written and assembled while every call of the environment fails in turn, and nothing is
 * left. Also, that a scan gives the rows of files that overlap in the order of their keys. */
#include <stdio.h>
#include <sys/stat.h>

#include "ingest/row_run.h"
#include "support/arrow_stream.h"
#include "support/database.h"

enum { ROWS = 6, FILES_MAX = 8 };

typedef struct attempt_state {
    char folder[64], runs[80], store[160];
    made_table table;
    /* What is written. */
    FILE *file;
    weir_row_run_file files[FILES_MAX];
    int file_count;
} attempt_state;

static const int64_t keys[ROWS] = {1, 3, 9, 2, 4, 5};
static const int32_t ends[ROWS + 1] = {0, 1, 3, 6, 6, 7, 9};
static const made_column columns[] = {
    {.format = "l", .name = "id", .length = ROWS, .n_buffers = 2, .buffers = {NULL, keys}},
    {.format = "u", .name = "word", .length = ROWS, .n_buffers = 3, .buffers = {NULL, ends, "abcdefghi"}},
};

static void name_of(const attempt_state *s, int number, char out[256]) {
    snprintf(out, 256, "%s/t-%d.rows", s->runs, number);
}

static int take(void *context, const void *data, size_t size) {
    attempt_state *s = context;
    char path[256];
    if (!s->file) {
        name_of(s, s->file_count, path);
        s->file = fopen(path, "wb");
    }
    return fwrite(data, 1, size, s->file) == size ? 0 : EIO;
}

static int end(void *context, const weir_row_run_file *file) {
    attempt_state *s = context;
    s->files[s->file_count++] = *file;
    fclose(s->file);
    s->file = NULL;
    return s->file_count == FILES_MAX ? ENOSPC : 0;
}

static weir_status write_runs(const weir_env *env, void *context, weir_error *error) {
    attempt_state *s = context;
    struct ArrowArrayStream stream;
    const weir_arrow_table table = {.name = "t", .stream = &stream};
    weir_row_run_options options = WEIR_ROW_RUN_OPTIONS;
    s->table = (made_table){.columns = columns, .column_count = 2, .length = ROWS, .batch_count = 1};
    assert_int_equal(made_open(&s->table, &stream), 0);
    s->file_count = 0;
    options.table = &table;
    options.key = (const char *[]){"id"};
    options.key_count = 1;
    options.frame_size = 8;
    options.write = take;
    options.end = end;
    options.context = s;
    weir_status status = weir_row_run_write(env, &options, error);
    if (s->file)
        fclose(s->file);
    s->file = NULL;
    stream.release(&stream);
    return status;
}

static void nothing_is_left(void *context) {
    attempt_state *s = context;
    assert_int_equal(s->table.live_schemas + s->table.live_batches + s->table.live_streams, 0);
}

static void put_list(const attempt_state *s) {
    char path[256], hash[2 * WEIR_HASH_SIZE + 1];
    snprintf(path, sizeof path, "%s/%s", s->runs, WEIR_ROW_RUN_LIST);
    FILE *list = fopen(path, "w");
    fprintf(list, "{\"format\": \"weir-run/1\", \"name\": \"t\", \"tables\": {\"t\": {\"columns\": [[\"id\", "
                  "\"integer\"], [\"word\", \"text\"]], \"key\": [\"id\"], \"files\": [");
    for (int i = 0; i < s->file_count; i++) {
        weir__hex_encode(s->files[i].hash, WEIR_HASH_SIZE, hash);
        fprintf(list, "%s{\"path\": \"t-%d.rows\", \"rows\": %llu, \"size\": %llu, \"hash\": \"%s\"}",
                i ? ", " : "", i, (unsigned long long)s->files[i].rows, (unsigned long long)s->files[i].size,
                hash);
    }
    fprintf(list, "]}}}");
    fclose(list);
}

static weir_status assemble(const weir_env *env, void *context, weir_error *error) {
    attempt_state *s = context;
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    unlink(s->store);
    options.source = s->runs;
    options.output = s->store;
    options.threads = 1;
    return weir_ingest(env, &options, NULL, error);
}

static void faults_of_writing(void **state) {
    attempt_state *s = *state;
    assert_true(sweep_faults(write_runs, nothing_is_left, s) > 15);
    assert_int_equal(s->file_count, 2);
}

static void faults_of_assembling(void **state) {
    attempt_state *s = *state;
    assert_int_equal(write_runs(NULL, s, NULL), WEIR_OK);
    put_list(s);
    assert_true(sweep_faults(assemble, nothing_is_left, s) > 50);
}

static void a_scan_merges(void **state) {
    attempt_state *s = *state;
    static const int64_t sorted[ROWS] = {1, 2, 3, 4, 5, 9};
    weir_ingest__source *source;
    weir_ingest__catalog catalog;
    weir_ingest__cursor *cursor;
    weir_ingest__rows rows;
    int count = 0;
    assert_int_equal(write_runs(NULL, s, NULL), WEIR_OK);
    put_list(s);
    const weir_ingest__source_options options = {.location = s->runs};
    assert_int_equal(weir_ingest__source_open(weir_env_default(), &options, &source, NULL), WEIR_OK);
    assert_string_equal(source->kind->name, "runs");
    assert_int_equal(weir_ingest__source_describe(source, &catalog, NULL), WEIR_OK);
    assert_int_equal(catalog.tables[0].row_estimate, ROWS);
    assert_int_equal(weir_ingest__source_scan(source, &catalog.tables[0], (const uint32_t[]){1, 0}, 2, 0, 1,
                                              &cursor, NULL),
                     WEIR_OK);
    do {
        assert_int_equal(cursor->next(cursor, &rows, NULL), WEIR_OK);
        for (size_t r = 0; r < rows.row_count; r++) {
            const weir_ingest__value *id = &rows.cells[2 * r + 1], *word = &rows.cells[2 * r];
            int from = 0;
            while (keys[from] != sorted[count])
                from++;
            assert_int_equal(id->integer, sorted[count]);
            assert_int_equal(word->text.size, ends[from + 1] - ends[from]);
            assert_memory_equal(word->text.data, &"abcdefghi"[ends[from]], word -> text.size);
            count++;
        }
    } while (rows.row_count > 0);
    assert_int_equal(count, ROWS);
    cursor->close(cursor);
    weir_ingest__catalog_release(&catalog);
    weir_ingest__source_close(source);
}

static void what_is_not_given(void **state) {
    attempt_state *s = *state;
    weir_error error;
    weir_row_run_options options = WEIR_ROW_RUN_OPTIONS;
    assert_int_equal(weir_row_run_write(NULL, &options, &error), WEIR_CONTRACT_VIOLATION);
    const weir_arrow_table table = {.name = "t", .open = made_open, .context = &s->table};
    s->table = (made_table){.columns = columns, .column_count = 2, .length = ROWS, .batch_count = 99};
    options.table = &table;
    options.key = (const char *[]){"id"};
    options.key_count = 1;
    options.write = take;
    options.end = end;
    options.context = s;
    s->file_count = 0;
    assert_int_equal(weir_row_run_write(NULL, &options, &error), WEIR_IO_ERROR);
    assert_string_equal(error.message, "a file of table t cannot be ended: No space left on device");
    nothing_is_left(s);
}

static int begin(void **state) {
    static attempt_state s;
    make_folder(s.folder);
    path_in(s.folder, "t.weir", s.store);
    snprintf(s.runs, sizeof s.runs, "%s/runs", s.folder);
    *state = &s;
    return mkdir(s.runs, 0700);
}

static int finish(void **state) {
    remove_folder(((attempt_state *)*state)->folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(faults_of_writing),
                                       cmocka_unit_test(faults_of_assembling),
                                       cmocka_unit_test(a_scan_merges), cmocka_unit_test(what_is_not_given)};
    return cmocka_run_group_tests(tests, begin, finish);
}
