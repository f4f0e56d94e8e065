/* Phases of an ingest, each run alone on a stage that is made by hand: rows in the order of their key,
 * foreign keys that become parents and lists of children, and labels by when they are known. */
#include "ingest/like.h"

#include "support/database.h"

/* ---- What phases are given ------------------------------------------------------------------- */

static weir_ingest_options options;
static weir_ingest__context context;
static const weir_ingest__like no_like;

static int begin(void **state) {
    (void)state;
    options = (weir_ingest_options){.size = sizeof options, .threads = 2};
    weir_ingest__context_init(&context, weir_env_default(), weir_env_default(), NULL, &options);
    return 0;
}

static int end(void **state) {
    (void)state;
    weir_ingest__context_release(&context);
    return 0;
}

static void *copy_of(const void *from, size_t count, size_t size) {
    void *to = weir__allocate(context.env, count, size);
    assert_non_null(to);
    memcpy(to, from, count * size);
    return to;
}

/* ---- Order ----------------------------------------------------------------------------------- */

enum { KEY, KIND, NOTE, COLUMNS };

static uint32_t first_column = KEY;
static weir_ingest__column_plan things_columns[COLUMNS] = {
    [KEY] = {.name = "id", .stype = WEIR_IDENTIFIER, .is_primary = true, .column_idx = 0},
    [KIND] = {.name = "kind", .stype = WEIR_CATEGORICAL, .column_idx = 1},
    [NOTE] = {.name = "note", .stype = WEIR_TEXT, .column_idx = 2},
};
static weir_ingest__table_plan things = {.name = "things",
                                         .columns = things_columns,
                                         .column_count = COLUMNS,
                                         .primary_key = &first_column,
                                         .primary_key_count = 1};
static const weir_ingest__plan order_plan = {.like = &no_like, .tables = &things, .table_count = 1};

typedef struct thing {
    int64_t key;
    const char *kind, *note; /* NULL: null */
} thing;

static uint32_t number_of(weir_ingest__dictionary *dictionary, weir__arena *strings, const char *text) {
    uint32_t number = WEIR_NONE;
    if (text)
        assert_true(weir_ingest__dictionary_intern(dictionary, strings, text, strlen(text), &number));
    return number;
}

static void make_part(const thing *rows, uint32_t count, weir__arena *arena, weir_ingest__part *part) {
    const weir_env *env = context.env;
    part->row_count = part->capacity = count;
    part->data = weir__arena_take_zero(arena, COLUMNS, sizeof *part->data);
    part->columns = weir__arena_take_zero(arena, COLUMNS, sizeof *part->columns);
    weir__arena_init(&part->strings, env);
    weir_ingest__dictionary_init(&part->texts, env);
    weir_ingest__dictionary_init(&part->columns[KIND].dictionary, env);
    part->data[KEY].values = weir__allocate(env, count, 1);
    part->data[KEY].keys = weir__allocate(env, count, sizeof(uint64_t));
    uint32_t *kinds = part->data[KIND].values = weir__allocate(env, count, sizeof *kinds);
    uint32_t *notes = part->data[NOTE].values = weir__allocate(env, count, sizeof *notes);
    memset(part->data[KEY].values, 1, count);
    for (uint32_t i = 0; i < count; i++) {
        part->data[KEY].keys[i] = (uint64_t)rows[i].key;
        kinds[i] = number_of(&part->columns[KIND].dictionary, &part->strings, rows[i].kind);
        notes[i] = number_of(&part->texts, &part->strings, rows[i].note);
        part->columns[KIND].nulls += rows[i].kind == NULL;
    }
}

static weir_status order(const thing *first, uint32_t first_count, const thing *second, uint32_t second_count,
                         weir_ingest__ordered *out, weir_error *error) {
    weir_ingest__parts parts = {.plan = &order_plan, .env = context.env};
    weir__arena_init(&parts.arena, context.env);
    parts.tables = weir__arena_take_zero(&parts.arena, 1, sizeof *parts.tables);
    parts.tables->list = weir__arena_take_zero(&parts.arena, 2, sizeof *parts.tables->list);
    parts.tables->count = 2;
    make_part(first, first_count, &parts.arena, &parts.tables->list[0]);
    make_part(second, second_count, &parts.arena, &parts.tables->list[1]);
    return weir_ingest__order_rows(&context, &parts, out, error);
}

static void rows_of_all_parts_by_key(void **state) {
    static const thing first[] = {{7, "b", "x"}, {-2, NULL, "y"}, {9, "a", "z"}};
    static const thing second[] = {{3, "c", "y"}, {8, "b", NULL}};
    static const int64_t keys[] = {-2, 3, 7, 8, 9};
    static const uint32_t kinds[] = {WEIR_NONE, 2, 1, 1, 0}; /* in bytewise order: a, b, c */
    static const uint32_t notes[] = {0, 0, 1, WEIR_NONE, 2}; /* by first appearance: y, x, z */
    weir_ingest__ordered out;
    (void)state;
    assert_int_equal(order(first, 3, second, 2, &out, NULL), WEIR_OK);
    const weir_ingest__table *table = out.tables;
    assert_int_equal(out.row_count, 5);
    assert_int_equal(table->row_count, 5);
    assert_memory_equal(table->data[KEY].keys, keys, sizeof keys);
    assert_memory_equal(table->data[KIND].values, kinds, sizeof kinds);
    assert_memory_equal(table->data[NOTE].values, notes, sizeof notes);
    assert_int_equal(table->columns[KIND].nulls, 1);
    assert_int_equal(out.text_count, 3);
    assert_int_equal(*out.texts.strings[out.text_order[0]]->bytes, 'y');
    assert_int_equal(*out.texts.strings[out.text_order[2]]->bytes, 'z');
    weir_ingest__ordered_release(&out);
}

static void a_key_that_two_parts_have(void **state) {
    static const thing first[] = {{7, "b", "x"}, {5, "b", "x"}}, second[] = {{7, "a", "y"}};
    weir_ingest__ordered out;
    weir_error error;
    (void)state;
    assert_int_equal(order(first, 2, second, 1, &out, &error), WEIR_SCHEMA_INVALID);
    assert_string_equal(error.message, "table things has two rows with one primary key, key 7");
    weir_ingest__ordered_release(&out);
}

/* ---- Links ----------------------------------------------------------------------------------- */

enum { OWNER = 1, WHEN };

static weir_ingest__column_plan owners_columns[] = {
    {.name = "id", .stype = WEIR_IDENTIFIER, .is_primary = true, .is_target = true}};
static weir_ingest__column_plan pets_columns[] = {
    {.name = "id", .stype = WEIR_IDENTIFIER, .is_primary = true},
    {.name = "owner", .stype = WEIR_IDENTIFIER, .is_foreign = true},
    {.name = "born", .stype = WEIR_TIMESTAMP},
};
static weir_ingest__table_plan link_tables[] = {
    {.name = "owners",
     .columns = owners_columns,
     .column_count = 1,
     .primary_key = &first_column,
     .primary_key_count = 1,
     .temporal = {WEIR_NONE, WEIR_NONE}},
    {.name = "pets",
     .columns = pets_columns,
     .column_count = 3,
     .primary_key = &first_column,
     .primary_key_count = 1,
     .temporal = {WHEN, WEIR_NONE}},
};
static const char *const owner_name = "owner", *const id_name = "id";
static const weir_ingest__schema_key owner_key = {
    .name = "owner", .columns = &owner_name, .column_count = 1, .table = "owners", .to = &id_name};
static uint32_t owner_column = OWNER;
static weir_ingest__edge_plan owner_edge = {.key = &owner_key,
                                            .table = 1,
                                            .columns = &owner_column,
                                            .parent_columns = &first_column,
                                            .known = {WEIR_NONE, WEIR_NONE}};
static const weir_ingest__plan link_plan = {
    .like = &no_like, .tables = link_tables, .table_count = 2, .edges = &owner_edge, .edge_count = 1};

/* Four owners; five pets, of which one has none and one an owner that is not there. */
static void make_rows(weir_ingest__table tables[2], weir_ingest__column_data data[4],
                      weir_ingest__ordered *out) {
    static const uint64_t owners[] = {10, 20, 40, 50}, pets[] = {1, 2, 3, 4, 5};
    static const uint64_t owner_of[] = {40, 10, 40, 0, 99};
    static const uint8_t tags[] = {WEIR_INGEST__KEY_INT, WEIR_INGEST__KEY_INT, WEIR_INGEST__KEY_INT,
                                   WEIR_INGEST__KEY_NULL, WEIR_INGEST__KEY_INT};
    static const int64_t born[] = {300, 200, 100, 50, 60};
    data[0].keys = copy_of(owners, 4, sizeof *owners);
    data[1].keys = copy_of(pets, 5, sizeof *pets);
    data[1 + OWNER].keys = copy_of(owner_of, 5, sizeof *owner_of);
    data[1 + OWNER].tags = copy_of(tags, 5, sizeof *tags);
    data[1 + WHEN].values = copy_of(born, 5, sizeof *born);
    tables[0] = (weir_ingest__table){.plan = &link_tables[0], .row_count = 4, .data = data};
    tables[1] = (weir_ingest__table){.plan = &link_tables[1], .row_count = 5, .data = data + 1};
    *out = (weir_ingest__ordered){.plan = &link_plan, .env = context.env, .tables = tables};
    weir_ingest__dictionary_init(&out->texts, context.env);
    weir__arena_init(&out->arena, context.env);
}

static void foreign_keys_become_rows(void **state) {
    static const uint32_t parents[] = {2, 0, 2, WEIR_NONE, WEIR_NONE}, starts[] = {0, 1, 1, 3, 3};
    static const uint32_t children[] = {1, 2, 0}; /* of one owner by when they were born */
    static const int64_t times[] = {200, 100, 300};
    weir_ingest__table tables[2];
    weir_ingest__column_data data[4] = {{0}};
    weir_ingest__ordered ordered;
    weir_ingest__linked out;
    (void)state;
    make_rows(tables, data, &ordered);
    assert_int_equal(weir_ingest__link_rows(&context, &ordered, &out, NULL), WEIR_OK);
    assert_memory_equal(out.edges->parents, parents, sizeof parents);
    assert_memory_equal(out.edges->starts, starts, sizeof starts);
    assert_memory_equal(out.edges->child_rows, children, sizeof children);
    assert_memory_equal(out.edges->child_times, times, sizeof times);
    assert_int_equal(out.edges->count, 3);
    assert_int_equal(out.edges->dangling, 1);
    assert_int_equal(weir_ingest__row_time(&out, 1, 2), 100);
    assert_int_equal(weir_ingest__row_time(&out, 0, 2), WEIR_TIME_ALWAYS);
    weir_ingest__linked_release(&out);
    weir_ingest__ordered_drop_foreign_keys(&ordered);
    assert_null(data[1 + OWNER].keys);
    assert_non_null(data[1].keys); /* a primary key is still looked up */
    weir_ingest__ordered_release(&ordered);
}

static void strict_refuses_what_leads_nowhere(void **state) {
    weir_ingest__table tables[2];
    weir_ingest__column_data data[4] = {{0}};
    weir_ingest__ordered ordered;
    weir_ingest__linked out;
    weir_error error;
    (void)state;
    options.strict = true;
    make_rows(tables, data, &ordered);
    assert_int_equal(weir_ingest__link_rows(&context, &ordered, &out, &error), WEIR_SCHEMA_INVALID);
    assert_string_equal(error.message,
                        "table pets, column owner, key 5: there is no row with the key 99 (--strict)");
    weir_ingest__linked_release(&out);
    weir_ingest__ordered_release(&ordered);
}

/* ---- Labels ---------------------------------------------------------------------------------- */

static void labels_by_anchor_and_time(void **state) {
    /* Five seeds of three anchors: the first three are train's. The label of one is never known. */
    static uint32_t rows[] = {2, 0, 2, 0, 2};
    static int64_t known[] = {50, 30, 40, WEIR_TIME_NEVER, 10};
    static const uint32_t all_starts[] = {0, 1, 1, 4}, all_rows[] = {1, 4, 2, 0};
    static const uint32_t train_starts[] = {0, 1, 1, 3}, train_rows[] = {1, 2, 0};
    weir_ingest__task task = {.seed_count = 5, .split_start = {0, 3, 4, 5}, .rows = rows, .known = known};
    (void)state;
    weir__arena_init(&task.memory, context.env);
    assert_int_equal(weir_ingest__make_label_lists(3, &task, NULL), WEIR_OK);
    assert_int_equal(task.labels[0].count, 4);
    assert_memory_equal(task.labels[0].starts, all_starts, sizeof all_starts);
    assert_memory_equal(task.labels[0].rows, all_rows, sizeof all_rows);
    assert_int_equal(task.labels[1].count, 3);
    assert_memory_equal(task.labels[1].starts, train_starts, sizeof train_starts);
    assert_memory_equal(task.labels[1].rows, train_rows, sizeof train_rows);
    weir__arena_release(&task.memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_of_all_parts_by_key, begin, end),
        cmocka_unit_test_setup_teardown(a_key_that_two_parts_have, begin, end),
        cmocka_unit_test_setup_teardown(foreign_keys_become_rows, begin, end),
        cmocka_unit_test_setup_teardown(strict_refuses_what_leads_nowhere, begin, end),
        cmocka_unit_test_setup_teardown(labels_by_anchor_and_time, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
