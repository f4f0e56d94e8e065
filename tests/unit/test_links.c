/* Link tasks: what a group holds, and stores whose numbers are wrong though their hashes fit: verify names
 * them, and builders give an error or a batch that points into its tables. */
#include "store/link_pairs.h"

#include "support/damage.h"
#include "support/database.h"

static char folder[64];
static uint8_t *original;
static size_t size;

/* Ten things, of which the last three come on the 20th; a, b and c make deals about some of them. */
static const char sql[] =
    "CREATE TABLE people (id TEXT PRIMARY KEY, born TEXT);"
    "CREATE TABLE things (id INTEGER PRIMARY KEY, made TEXT);"
    "CREATE TABLE deals (id INTEGER PRIMARY KEY, person TEXT, thing INTEGER, at TEXT);"
    "INSERT INTO people VALUES ('a', NULL), ('b', '2024-01-01'), ('c', '2024-01-02');"
    "INSERT INTO things VALUES (1, NULL), (2, '2024-01-05'), (3, NULL), (4, '2024-01-03'), (5, NULL), (6, "
    "NULL),"
    " (7, NULL), (8, '2024-01-20'), (9, '2024-01-20'), (10, '2024-01-20');"
    "INSERT INTO deals VALUES (1, 'a', 1, '2024-01-02'), (2, 'a', 1, '2024-01-04'), (3, 'b', 3, "
    "'2024-01-05'),"
    " (4, 'c', 2, '2024-01-08'), (5, 'a', 5, '2024-01-12'), (6, 'a', 2, '2024-01-13'), (7, 'b', 7, "
    "'2024-01-14'),"
    " (8, 'c', 8, '2024-01-21'), (9, 'c', 1, '2024-01-22'), (10, 'b', 3, '2024-01-23');";

static const char schema[] =
    "{\"name\": \"world\", \"keys\": true, \"tables\": {"
    "\"people\": {\"primary_key\": \"id\", \"temporal_column\": \"born\", \"columns\": {\"born\": "
    "{\"stype\": "
    "\"timestamp\"}}}, "
    "\"things\": {\"primary_key\": \"id\", \"temporal_column\": \"made\", \"columns\": {\"made\": "
    "{\"stype\": "
    "\"timestamp\"}}}, "
    "\"deals\": {\"primary_key\": \"id\", \"temporal_column\": \"at\", \"columns\": {\"at\": {\"stype\": "
    "\"timestamp\"}, \"person\": {\"stype\": \"identifier\", \"foreign_key\": \"people.id\"}, \"thing\": "
    "{\"stype\": \"identifier\", \"foreign_key\": \"things.id\"}}}}, "
    "\"tasks\": {\"deal\": {\"kind\": \"link\", \"query\": \"SELECT person, thing, t.seen FROM deals d JOIN "
    "(SELECT '2024-01-10' AS seen UNION ALL SELECT '2024-01-20') t ON d.at > t.seen AND d.at <= date(t.seen, "
    "'+9 days')\", \"anchor_table\": \"people\", \"anchor_key\": \"person\", \"destination_table\": "
    "\"things\", "
    "\"destination_key\": \"thing\", \"observation_time_column\": \"seen\", \"popularity\": \"deals.thing\", "
    "\"split\": {\"method\": \"temporal\", \"val\": \"2024-01-20\", \"test\": \"2024-02-01\"}}}, "
    "\"embedding\": {\"dim\": 4}}";

static int make_store(void **state) {
    (void)state;
    make_folder(folder);
    original = make_store_of(folder, sql, schema, &size);
    return 0;
}

static int remove_store(void **state) {
    (void)state;
    free(original);
    remove_folder(folder);
    return 0;
}

static weir_manifest *manifest_with(const char *links) {
    char text[900];
    weir_error error;
    weir_manifest *manifest = NULL;
    snprintf(
        text, sizeof text,
        "{\"global_batch_size\": 2, \"batch\": {\"sequence_length\": 12, \"links\": {%s}}, \"datasets\": "
        "{\"world/deal/train\": {\"id\": \"w\", \"version\": \"1\", \"cardinality\": 3, \"hash\": "
        "\"%064d\"}, "
        "\"world/deal/val\": {\"id\": \"w\", \"version\": \"1\", \"cardinality\": 3, \"hash\": \"%064d\"}}}",
        links, 0, 0);
    assert_ok(weir_manifest_read(NULL, text, strlen(text), "test", &manifest, &error), &error);
    return manifest;
}

/* A number in a field of a sequence. */
static uint64_t field(const weir_batch *batch, weir_tensor_id id, uint32_t index) {
    const weir_tensor *part = &batch->tensors[id];
    size_t width = (size_t)(part->size / part->shape[0]);
    const uint8_t *at = batch->data + part->offset + width * index;
    return width == 8 ? weir__load64(at) : weir__load32(at);
}

typedef struct built {
    weir_batch_builder *builder;
    weir_batch_buffer *buffer;
    const weir_batch *batch;
} built;

static weir_status build(const weir_store *store, const weir_manifest *manifest, const char *dataset,
                         weir_stage stage, built *out, weir_error *error) {
    weir_batch_options options = {.size = sizeof options,
                                  .store = store,
                                  .manifest = manifest,
                                  .dataset = dataset,
                                  .stage = stage,
                                  .world_size = 1,
                                  .any_hash = true,
                                  .with_digests = true};
    *out = (built){0};
    weir_status status = weir_batch_builder_open(NULL, &options, &out->builder, error);
    if (status == WEIR_OK)
        status = weir_batch_buffer_open(&out->builder, 1, NULL, &out->buffer, error);
    if (status == WEIR_OK)
        status = weir_batch_build(out->builder, (weir_cursor){0, 0}, out->buffer, error);
    out->batch = status == WEIR_OK ? weir_batch_view(out->buffer) : NULL;
    return status;
}

static void release(built *b) {
    weir_batch_buffer_close(b->buffer);
    weir_batch_builder_close(b->builder);
}

static weir_store *open_bytes(const uint8_t *bytes) {
    weir_store *store = NULL;
    weir_error error;
    assert_ok(weir_store_open_memory(NULL, bytes, size, &store, &error), &error);
    return store;
}

/* ---- What a group holds ------------------------------------------------------------------------ */

static void a_pair_has_its_list_and_what_existed(void **state) {
    weir_store *store = open_bytes(original);
    const weir_task *task = &weir_store_describe(store)->tasks[0];
    weir_store__link_list list;
    weir_seed_row seed;
    (void)state;
    assert_int_equal(task->seed_count, 6);
    assert_int_equal(task->link.lists, 4);
    assert_string_equal(weir_task_kind(task), "link");
    assert_true(weir_store__link_list_of(store, 0, 1, &list)); /* a on the 10th: 5 and 2 */
    assert_int_equal(list.first, 0);
    assert_int_equal(list.count, 2);
    assert_int_equal(list.existing, 7);
    assert_int_equal(list.references, 4);
    assert_true(weir_store_seed(store, 0, 0, &seed));
    assert_int_equal(seed.destination, weir_store_describe(store)->tables[2].row_start + 4);
    assert_int_equal(seed.target.integer, 1);
    assert_false(seed.target.is_null);
    for (uint32_t candidate = 0; candidate < list.existing - list.count; candidate++) {
        uint32_t place;
        bool is_positive = true;
        assert_true(weir_store__link_candidate(store, 0, &list, candidate, &place));
        assert_true(place < list.existing);
        assert_true(weir_store__link_has(store, 0, &list, place, &is_positive));
        assert_false(is_positive);
    }
    weir_store_close(store);
}

static void groups_are_whole_and_the_rest_is_padding(void **state) {
    static const char *const ways[] = {"uniform", "popularity"};
    weir_store *store = open_bytes(original);
    weir_error error;
    (void)state;
    for (int way = 0; way < 2; way++) {
        char links[80];
        built b;
        snprintf(links, sizeof links, "\"candidates\": 12, \"by\": \"%s\"", ways[way]);
        weir_manifest *manifest = manifest_with(links);
        assert_ok(build(store, manifest, "world/deal/val", WEIR_STAGE_EVAL, &b, &error), &error);
        assert_int_equal(b.batch->group_size, 14);
        assert_int_equal(b.batch->sequence_count, 28);
        uint32_t rows[14];
        for (uint32_t i = 0; i < 28; i++) {
            uint32_t place = i % 14, in_list = i < 14 ? 1 : 2; /* b, then c, on the 20th */
            bool is_there = place < 2 + 10 - in_list;
            assert_int_equal(field(b.batch, WEIR_NUM_ROWS, i) > 0, is_there);
            assert_int_equal(weir_batch_role(b.batch, i), place == 0   ? WEIR_ROLE_SOURCE
                                                          : place == 1 ? WEIR_ROLE_DESTINATION
                                                                       : WEIR_ROLE_NEGATIVE);
            rows[place] = (uint32_t)field(b.batch, WEIR_ANCHOR_ROW, i);
            for (uint32_t k = 1; k < place && is_there; k++)
                assert_int_not_equal(rows[k], rows[place]);
        }
        assert_true(b.batch->group_digests != b.batch->sample_digests);
        assert_true(b.batch->group_digests[0] != b.batch->group_digests[1]);
        release(&b);
        weir_manifest_close(manifest);
    }
    weir_store_close(store);
}

/* ---- Stores that are wrong ----------------------------------------------------------------------- */

/* Builds what can be built: each an error that says so, or rows that exist. */
static void build_all(const weir_store *store) {
    static const char *const links[] = {"\"negatives\": 3, \"by\": \"popularity\"", "\"candidates\": 40"};
    static const char *const datasets[] = {"world/deal/train", "world/deal/val"};
    const weir_store_info *info = weir_store_describe(store);
    for (int i = 0; i < 2; i++) {
        weir_manifest *manifest = manifest_with(links[i]);
        for (int stage = 0; stage < 2; stage++) {
            built b;
            weir_error error;
            weir_status status = build(store, manifest, datasets[stage],
                                       stage ? WEIR_STAGE_EVAL : WEIR_STAGE_TRAIN, &b, &error);
            if (status != WEIR_OK && status != WEIR_STORE_CORRUPT && status != WEIR_CARDINALITY_MISMATCH &&
                status != WEIR_INVALID_DATASET_KEY && status != WEIR_CONTRACT_VIOLATION)
                fail_msg("%s: %s", weir_status_name(status), error.message);
            for (uint32_t k = 0; b.batch && k < b.batch->sequence_count; k++)
                assert_true(field(b.batch, WEIR_ANCHOR_ROW, k) < info->row_count);
            release(&b);
        }
        weir_manifest_close(manifest);
    }
}

/* What a change of the section's arrays is called by verify; builders survive it. */
static void check_refused(uint8_t *copy, const char *named) {
    weir_error error;
    rehash_store(copy, size);
    weir_store *store = open_bytes(copy);
    assert_fails(weir_store_verify(store, 1, &error), WEIR_STORE_CORRUPT, &error);
    if (!strstr(error.message, named))
        fail_msg("'%s' is not in the message: %s", named, error.message);
    weir_store_close(store);
    store = open_bytes(copy);
    build_all(store);
    weir_store_close(store);
    memcpy(copy, original, size);
}

static void verify_finds_pairs_that_are_wrong(void **state) {
    uint8_t *copy = malloc(size);
    (void)state;
    memcpy(copy, original, size);
    weir_store *store = open_bytes(copy);
    const weir_task *task = &weir_store_describe(store)->tasks[0];
    uint8_t *targets = (uint8_t *)task->seed_targets, *times = (uint8_t *)task->link.times;
    uint8_t *rows = (uint8_t *)task->link.rows, *references = (uint8_t *)task->link.reference_places;
    uint8_t *reference_times = (uint8_t *)task->link.reference_times;
    uint8_t *seed_times = (uint8_t *)task->seed_times;
    uint32_t places = weir_store_describe(store)->tables[task->link.table].row_count;
    weir_store_close(store);
    weir__store64(targets, places); /* no such place */
    check_refused(copy, "the pairs of task deal");
    weir__store64(targets, UINT64_MAX);
    check_refused(copy, "the pairs of task deal");
    weir__store64(targets, weir__load64(targets + 8)); /* twice */
    check_refused(copy, "the pairs of task deal");
    weir__store64(targets, 9); /* not there yet */
    check_refused(copy, "the pairs of task deal");
    weir__store64(seed_times + 8, (uint64_t)INT64_MIN + 1); /* before everything */
    check_refused(copy, "the pairs of task deal");
    weir__store32(rows, 0); /* a row of another table */
    check_refused(copy, "the destinations of task deal");
    weir__store32(rows, UINT32_MAX);
    check_refused(copy, "the destinations of task deal");
    weir__store64(times, 5); /* not the row's */
    check_refused(copy, "the destinations of task deal");
    weir__store32(references, places);
    check_refused(copy, "the references to destinations of task deal");
    weir__store64(reference_times, INT64_MAX); /* they do not ascend */
    check_refused(copy, "the references to destinations of task deal");
    free(copy);
}

static void builders_survive_damage_that_the_hashes_hide(void **state) {
    random_stream stream = {18};
    uint8_t *copy = malloc(size);
    uint32_t opened = 0;
    (void)state;
    for (unsigned round = 0; round < 3000; round += test_stride()) {
        weir_store *store = NULL;
        memcpy(copy, original, size);
        uint64_t count = 1 + random_below(&stream, 4);
        uint64_t links =
            weir__load64(copy + WEIR_STORE__HEADER_SIZE + 18 * WEIR_STORE__SECTION_ENTRY_SIZE + 8);
        for (uint64_t i = 0; i < count; i++) {
            bool is_near = random_below(&stream, 2) == 0;
            uint64_t at = is_near ? links + random_below(&stream, 300) : random_below(&stream, size);
            copy[at] = (uint8_t)random_next(&stream);
        }
        rehash_store(copy, size);
        if (weir_store_open_memory(NULL, copy, size, &store, NULL) != WEIR_OK)
            continue;
        opened++;
        (void)read_everything(store, 50);
        if (weir_store_describe(store)->task_count > 0)
            build_all(store);
        weir_store_close(store);
    }
    free(copy);
    assert_true(opened > 500 / test_stride());
}

/* A section that is too short, or that no task has. */
static void the_section_must_fit_the_tasks(void **state) {
    uint8_t *copy = malloc(size);
    weir_store *store;
    weir_error error;
    (void)state;
    memcpy(copy, original, size);
    uint8_t *entry = copy + WEIR_STORE__HEADER_SIZE + 18 * WEIR_STORE__SECTION_ENTRY_SIZE;
    weir__store64(entry + 16, weir__load64(entry + 16) - 4);
    rehash_store(copy, size);
    assert_fails(weir_store_open_memory(NULL, copy, size, &store, &error), WEIR_STORE_CORRUPT, &error);
    free(copy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_has_its_list_and_what_existed),
        cmocka_unit_test(groups_are_whole_and_the_rest_is_padding),
        cmocka_unit_test(verify_finds_pairs_that_are_wrong),
        cmocka_unit_test(builders_survive_damage_that_the_hashes_hide),
        cmocka_unit_test(the_section_must_fit_the_tasks),
    };
    return cmocka_run_group_tests(tests, make_store, remove_store);
}
