/* Ingest of Arrow tables, one a stream and one that is opened, with a query over them and a draft: every call
 * of the environment fails in turn, and nothing that the producers handed out is left. */
#include "support/arrow_stream.h"
#include "support/database.h"

typedef struct attempt_state {
    char folder[64];
    char store[160];
    bool is_drafted;
    made_table a, b;
} attempt_state;

static const int64_t keys[] = {1, 2, 3, 4, 5, 6}, clocks[] = {0, 1, 2, 3, 4, 5};
static const int32_t ends[] = {0, 1, 3, 6, 6, 7, 9};
static const made_column columns[] = {
    {.format = "l", .name = "id", .length = 6, .n_buffers = 2, .buffers = {NULL, keys}},
    {.format = "u", .name = "word", .length = 6, .n_buffers = 3, .buffers = {NULL, ends, "abcdefghi"}},
    {.format = "ttu", .name = "at", .length = 6, .n_buffers = 2, .buffers = {NULL, clocks}},
    {.format = "l",
     .name = "t_id",
     .length = 6,
     .n_buffers = 2,
     .buffers = {NULL, keys},
     .dictionary = &(made_column){.format = "l",
                                  .name = "",
                                  .length = 7,
                                  .n_buffers = 2,
                                  .buffers = {NULL, (const int64_t[]){1, 2, 3, 4, 5, 6, 6}}}},
};

static weir_status ingest(const weir_env *env, void *context, weir_error *error) {
    attempt_state *s = context;
    const made_table table = {.columns = columns, .column_count = 4, .length = 6, .batch_count = 1};
    struct ArrowArrayStream stream;
    weir_arrow_table tables[] = {{.name = "a", .stream = &stream},
                                 {.name = "b", .open = made_open, .context = &s->b}};
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    s->a = s->b = table;
    assert_int_equal(made_open(&s->a, &stream), 0);
    unlink(s->store);
    options.arrow_tables = tables;
    options.arrow_table_count = 2;
    options.output = s->store;
    options.threads = 1;
    if (!s->is_drafted) {
        options.schema = "{\"tables\": {\"a\": {\"primary_key\": \"id\", \"columns\": {\"word\": {\"stype\": "
                         "\"categorical\"}, "
                         "\"at\": {\"stype\": \"text\"}}}, \"q\": {\"query\": \"SELECT b.id, a.id AS a_id "
                         "FROM b JOIN a ON a.id = "
                         "b.t_id\", \"primary_key\": \"id\", \"columns\": {\"a_id\": {\"stype\": "
                         "\"ignored\", \"foreign_key\": "
                         "\"a.id\"}}}}}";
        options.schema_size = strlen(options.schema);
    }
    weir_status status = weir_ingest(env, &options, NULL, error);
    stream.release(&stream);
    return status;
}

static void nothing_is_left(void *context) {
    attempt_state *s = context;
    const made_table *tables[] = {&s->a, &s->b};
    for (int i = 0; i < 2; i++)
        assert_int_equal(tables[i]->live_schemas + tables[i]->live_batches + tables[i]->live_streams, 0);
}

static void faults_of_arrow_tables(void **state) {
    attempt_state *s = *state;
    for (int i = 0; i < 2; i++) {
        s->is_drafted = i > 0;
        assert_true(sweep_faults(ingest, nothing_is_left, s) > 50);
    }
}

static int begin(void **state) {
    static attempt_state s;
    make_folder(s.folder);
    path_in(s.folder, "a.weir", s.store);
    *state = &s;
    return 0;
}

static int finish(void **state) {
    remove_folder(((attempt_state *)*state)->folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(faults_of_arrow_tables)};
    return cmocka_run_group_tests(tests, begin, finish);
}
