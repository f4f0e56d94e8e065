/* Sequences from stores that no database gives easily: of more foreign keys than rows, so that a walk meets
 * every row many times, with lists of children that name rows that do not exist, with damage in what lists
 * are made of, and with ten million children of one row. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "batch/builder.h"
#include "batch/neighbours.h"
#include "support/damage.h"
#include "support/made_store.h"
#include "support/testing.h"

static weir_batch_options options_of(weir_store *store, weir_manifest *manifest) {
    return (weir_batch_options){.size = sizeof(weir_batch_options),
                                .store = store,
                                .manifest = manifest,
                                .dataset = "made/k0/train",
                                .world_size = 1,
                                .any_hash = true};
}

/* Builds the first batch of the first task; `rows` is the most rows of a sequence. */
static weir_status build(const uint8_t *bytes, size_t size, const char *config, uint32_t *rows,
                         weir_error *error) {
    weir_store *store;
    weir_batch_builder *builder;
    weir_batch_buffer *buffer;
    assert_ok(weir_store_open_memory(NULL, bytes, size, &store, error), error);
    weir_manifest *manifest = make_store_manifest(store, 0, WEIR_TRAIN, 8, config);
    assert_non_null(manifest);
    weir_batch_options options = options_of(store, manifest);
    assert_ok(weir_batch_builder_open(NULL, &options, &builder, error), error);
    assert_ok(weir_batch_buffer_open(&builder, 1, NULL, &buffer, error), error);
    weir_status status = weir_batch_build(builder, (weir_cursor){0, 0}, buffer, error);
    *rows = weir_batch_view(buffer)->row_count;
    weir_batch_buffer_close(buffer);
    weir_batch_builder_close(builder);
    weir_manifest_close(manifest);
    weir_store_close(store);
    return status;
}

static uint32_t rows_of(const made_sizes *sizes, const char *config) {
    weir_error error;
    uint32_t rows;
    size_t size;
    uint8_t *bytes = make_store_bytes(1, sizes, &size);
    assert_non_null(bytes);
    assert_ok(build(bytes, size, config, &rows, &error), &error);
    free(bytes);
    return rows;
}

/* All rows of the sequence have their keys looked up at the end, of which there are more than places in the
 * largest table of known rows. */
static void rows_may_have_more_keys_than_there_are_places(void **state) {
    static const made_sizes sizes = {
        .tables = 2, .edges = 3, .rows = 1000, .tasks = 1, .seeds = 4, .is_exact = true};
    (void)state;
    assert_int_equal(rows_of(&sizes, "\"max_rows\": 1900, \"max_hops\": 20, \"child_width\": 64"), 1900);
    assert_int_equal(rows_of(&sizes, "\"max_rows\": 1900, \"max_hops\": 20, \"child_width\": 64,"
                                     " \"child_policy\": \"latest\""),
                     1900);
}

/* The keys of one row are as many as places. */
static void a_row_may_have_more_keys_than_there_are_places(void **state) {
    static const made_sizes sizes = {
        .tables = 2, .edges = 64, .rows = 15, .tasks = 1, .seeds = 4, .is_exact = true};
    (void)state;
    assert_int_equal(rows_of(&sizes, "\"max_rows\": 40, \"max_hops\": 9, \"child_width\": 9"), 30);
}

/* Every other parent has all of an edge type's children. The anchor lists one whole table; a parent of it
 * lists the other one and then, along its second edge type, rows past the end of the store: a row more than
 * the store has for each. */
static void name_rows_that_do_not_exist(uint8_t *bytes, size_t size) {
    weir_error error;
    weir_store *store;
    assert_ok(weir_store_open_memory(NULL, bytes, size, &store, &error), &error);
    const weir_store_info *info = weir_store_describe(store);
    for (uint32_t e = 0; e < info->edge_count; e++) {
        const weir_edge *edge = &info->edges[e];
        uint8_t *starts = bytes + (edge->starts - bytes), *rows = bytes + (edge->child_rows - bytes);
        for (uint32_t i = 0; i <= info->tables[edge->parent_table].row_count; i++)
            weir__store32(starts + 4 * (size_t)i, i % 2 ? (uint32_t)edge->edges : 0);
        for (uint32_t i = 0; e == 1 && i < edge->edges; i++)
            weir__store32(rows + 4 * (size_t)i, (uint32_t)info->row_count + i);
    }
    weir_store_close(store);
    rehash_store(bytes, size);
}

static void rows_that_do_not_exist_are_refused(void **state) {
    static const made_sizes sizes = {
        .tables = 2, .edges = 2, .rows = 500, .tasks = 1, .seeds = 16, .is_exact = true};
    static const char *const policies[] = {"uniform", "recent", "latest"};
    (void)state;
    for (uint64_t seed = 1; seed < 4; seed++) {
        size_t size;
        uint8_t *bytes = make_store_bytes(seed, &sizes, &size);
        assert_non_null(bytes);
        name_rows_that_do_not_exist(bytes, size);
        for (int p = 0; p < 3; p++) {
            char config[160];
            weir_error error;
            uint32_t rows;
            snprintf(config, sizeof config,
                     "\"max_rows\": 1000, \"max_hops\": 60, \"child_width\": 4096, \"child_policy\": \"%s\"",
                     policies[p]);
            assert_fails(build(bytes, size, config, &rows, &error), WEIR_STORE_CORRUPT, &error);
        }
        free(bytes);
    }
}

/* ---- Lists that are made ----------------------------------------------------------------------- */

/* Bytes of a store that the rules of a task are made of; perhaps numbers of rows. */
typedef struct region {
    size_t at, size;
    bool has_rows;
} region;

enum { REGIONS = 32 };
typedef struct regions {
    region list[REGIONS];
    int count;
    bool of_held_out, of_labels, of_children;
} regions;

static void add_region(regions *r, const uint8_t *bytes, const uint8_t *at, uint64_t size, bool has_rows) {
    assert_true(r->count < REGIONS);
    if (at && size > 0)
        r->list[r->count++] = (region){(size_t)(at - bytes), (size_t)size, has_rows};
}

/* What a builder copies of the store: seeds of splits that are not listed, labels of those that are, and
 * children, if some are not shown. */
static void find_regions(const weir_batch__rules *rules, const uint8_t *bytes, regions *r) {
    const weir_store_info *info = rules->info;
    const weir_task *task = rules->task;
    const weir_table *anchor = &info->tables[task->anchor_table];
    const weir_label_list *labels = &task->labels;
    if (rules->label_visibility == WEIR_LABELS_LISTED && task->is_cell) {
        add_region(r, bytes, task->seed_rows, 4 * task->split_start[WEIR_VAL], true);
        r->of_held_out |= task->split_start[WEIR_VAL] > 0;
    }
    if (rules->label_visibility == WEIR_LABELS_LISTED && rules->has_task_rows) {
        add_region(r, bytes, labels->starts, 4 * ((uint64_t)anchor->row_count + 1), false);
        add_region(r, bytes, labels->rows, 4 * (uint64_t)labels->count, true);
        add_region(r, bytes, labels->times, 8 * (uint64_t)labels->count, false);
        r->of_labels |= labels->count > 0;
    }
    bool has_lists = false;
    for (uint32_t e = 0; rules->omits_blank_rows && e < info->edge_count; e++) {
        const weir_edge *edge = &info->edges[e];
        if (edge->table != task->anchor_table || task->edge_hidden[e])
            continue;
        has_lists = true;
        add_region(r, bytes, edge->starts, 4 * ((uint64_t)info->tables[edge->parent_table].row_count + 1),
                   false);
        add_region(r, bytes, edge->child_rows, 4 * edge->edges, true);
        add_region(r, bytes, edge->child_times, 8 * edge->edges, false);
        r->of_children |= edge->edges > 0;
    }
    if (has_lists && rules->label_visibility == WEIR_LABELS_TRAIN)
        add_region(r, bytes, task->held_out, (anchor->row_count + 7) / 8, false);
}

/* Opens the rules of a task of the store; says what they are made of, if `found` is given. */
static weir_status open_rules(const uint8_t *bytes, size_t size, uint32_t task, const char *config,
                              regions *found, weir_error *error) {
    weir_store_options options = {.size = sizeof options, .data = bytes, .data_size = size};
    weir_batch__rules rules;
    weir_store *store;
    assert_ok(weir_store_open_with(NULL, "made", &options, &store, error), error);
    weir_manifest *manifest = make_store_manifest(store, task, WEIR_TRAIN, 1, config);
    assert_non_null(manifest);
    weir_batch__origin origin = {.store = store};
    weir_status status = weir_batch__rules_open(&rules, weir_env_default(), &origin, task,
                                                weir_manifest_describe(manifest)->batch, error);
    if (found)
        find_regions(&rules, bytes, found);
    weir_batch__rules_close(&rules, weir_env_default());
    weir_manifest_close(manifest);
    weir_store_close(store);
    return status;
}

/* Damages each region: a byte, which its hash tells, and a number, of which the hashes tell nothing. */
static void damage_regions(uint8_t *bytes, size_t size, uint32_t task, const char *config,
                           const regions *found, random_stream *random) {
    uint8_t *kept = malloc(size);
    assert_non_null(kept);
    memcpy(kept, bytes, size);
    for (int i = 0; i < found->count; i++) {
        const region *r = &found->list[i];
        weir_error error;
        bytes[r->at + random_below(random, r->size)] ^= 0x10;
        assert_fails(open_rules(bytes, size, task, config, NULL, &error), WEIR_STORE_CORRUPT, &error);
        memcpy(bytes, kept, size);
        if (!r->has_rows)
            continue;
        weir__store32(bytes + r->at + 4 * random_below(random, r->size / 4), UINT32_MAX - 1);
        rehash_store(bytes, size);
        assert_fails(open_rules(bytes, size, task, config, NULL, &error), WEIR_STORE_CORRUPT, &error);
        assert_non_null(strstr(error.message, "that is not of its anchor table"));
        memcpy(bytes, kept, size);
    }
    free(kept);
}

static void lists_are_made_of_what_is_whole(void **state) {
    static const made_sizes sizes = {
        .tables = 3, .columns = 2, .edges = 2, .rows = 60, .tasks = 2, .seeds = 20, .has_labels = true};
    static const char *const configs[] = {
        "\"label_visibility\": [\"val\", \"test\"], \"labels\": true",
        "\"label_visibility\": [\"val\", \"test\"], \"identifiers\": \"omit\", \"blank_rows\": \"omit\"",
        "\"label_visibility\": \"train\", \"identifiers\": \"omit\", \"blank_rows\": \"omit\"",
        "\"label_visibility\": \"none\", \"identifiers\": \"omit\", \"blank_rows\": \"omit\""};
    random_stream random = {7};
    int held_out = 0, labels = 0, children = 0;
    (void)state;
    for (uint64_t seed = 1; seed < 120; seed += test_stride()) {
        size_t size;
        weir_error error;
        weir_store *store;
        uint8_t *bytes = make_store_bytes(seed, &sizes, &size);
        assert_non_null(bytes);
        assert_ok(weir_store_open_memory(NULL, bytes, size, &store, &error), &error);
        uint32_t tasks = weir_store_describe(store)->task_count;
        weir_store_close(store);
        for (uint32_t i = 0; i < 4 * tasks; i++) {
            regions found = {0};
            assert_ok(open_rules(bytes, size, i / 4, configs[i % 4], &found, &error), &error);
            damage_regions(bytes, size, i / 4, configs[i % 4], &found, &random);
            held_out += found.of_held_out;
            labels += found.of_labels;
            children += found.of_children;
        }
        free(bytes);
    }
    int least = 20 / (int)test_stride();
    if (held_out < least || labels < least || children < least)
        fail_msg("only %d, %d and %d of them", held_out, labels, children);
}

/* With another anchor for its first seed of val, whose label is held out: what opening a builder says. */
static weir_status open_with_seed(const uint8_t *bytes, uint8_t *copy, size_t size, uint32_t past_end,
                                  bool *is_tried, weir_error *error) {
    weir_store *store;
    weir_batch_builder *builder = NULL;
    assert_ok(weir_store_open_memory(NULL, bytes, size, &store, error), error);
    const weir_task *task = &weir_store_describe(store)->tasks[0];
    const weir_table *anchor = &weir_store_describe(store)->tables[task->anchor_table];
    size_t at = (size_t)(task->seed_rows - bytes) + 4 * (size_t)task->split_start[WEIR_VAL];
    uint32_t number = anchor->first_number + anchor->row_count - 1 + past_end;
    *is_tried = task->is_cell && task->split_start[WEIR_VAL] < task->split_start[WEIR_TEST];
    weir_store_close(store);
    if (!*is_tried)
        return WEIR_OK;
    memcpy(copy, bytes, size);
    weir__store32(copy + at, number);
    rehash_store(copy, size);
    assert_ok(weir_store_open_memory(NULL, copy, size, &store, error), error);
    weir_manifest *manifest =
        make_store_manifest(store, 0, WEIR_TRAIN, 8, "\"label_visibility\": [\"train\", \"test\"]");
    assert_non_null(manifest);
    weir_batch_options options = options_of(store, manifest);
    weir_status status = weir_batch_builder_open(NULL, &options, &builder, error);
    weir_batch_builder_close(builder);
    weir_manifest_close(manifest);
    weir_store_close(store);
    return status;
}

static void seeds_past_the_anchors_table_are_refused(void **state) {
    static const made_sizes sizes = {
        .tables = 2, .columns = 2, .rows = 20, .tasks = 1, .seeds = 4, .is_exact = true};
    unsigned tried = 0;
    (void)state;
    for (uint64_t seed = 1; seed < 20; seed++) {
        weir_error error;
        size_t size;
        bool is_tried;
        uint8_t *bytes = make_store_bytes(seed, &sizes, &size),
                *copy = aligned_alloc(4096, (size | 4095) + 1);
        assert_true(bytes && copy);
        assert_ok(open_with_seed(bytes, copy, size, 0, &is_tried, &error), &error);
        for (uint32_t past_end = 1; past_end < 3 && is_tried; past_end++) {
            assert_fails(open_with_seed(bytes, copy, size, past_end, &is_tried, &error), WEIR_STORE_CORRUPT,
                         &error);
            assert_non_null(strstr(error.message, "not of its anchor table"));
        }
        tried += is_tried;
        free(bytes);
        free(copy);
    }
    assert_true(tried >= 5);
}

/* ---- A hub ------------------------------------------------------------------------------------- */

/* Contexts of the hub, found by 20,000 walks that leave it ten times each. */
typedef struct hub_contexts {
    weir_manifest *manifest;
    weir_batch_builder *builder;
    weir_batch_buffer *buffer;
} hub_contexts;

static hub_contexts open_hub_contexts(const weir_store *store, uint32_t threads) {
    weir_error error;
    hub_contexts c = {
        .manifest = make_store_manifest(
            store, 0, WEIR_TRAIN, 1,
            "\"sequence_length\": 8192, \"max_rows\": 4096, \"labels\": true, "
            "\"label_visibility\": \"all\", \"child_policy\": \"latest\", \"child_width\": 0, \"retrieval\": "
            "{\"walks\": 20000, \"length\": 20, \"local_cells\": 1, \"width\": 0, "
            "\"fill\": false}")};
    assert_non_null(c.manifest);
    weir_context_options options = {.size = sizeof options,
                                    .store = store,
                                    .manifest = c.manifest,
                                    .task = "k0",
                                    .with_digests = true,
                                    .threads = threads};
    assert_ok(weir_context_builder_open(NULL, &options, &c.builder, &error), &error);
    assert_ok(weir_batch_buffer_open(&c.builder, 1, NULL, &c.buffer, &error), &error);
    return c;
}

static void close_hub_contexts(hub_contexts *c) {
    weir_batch_buffer_close(c->buffer);
    weir_batch_builder_close(c->builder);
    weir_manifest_close(c->manifest);
}

static double count_up_to(const uint8_t *times, uint64_t count, int64_t time) {
    double found = 0;
    for (uint64_t i = 0; i < count; i++)
        found += (int64_t)weir__load64(times + 8 * i) <= time;
    return found;
}

static double visits_of(const weir_batch *batch) {
    double visits = 0;
    for (uint32_t i = 1; i < batch->row_count; i++)
        visits += batch->visits[i] == WEIR_NONE ? 0 : batch->visits[i];
    return visits;
}

/* Walks that leave a hub come to its labels as often as these are among all that it shows at that time; for
 * one thread that remembers what rows lead to as for two that do not. */
static void a_hub_of_ten_million_children_is_walked(void **state) {
    (void)state;
    made_sizes sizes = {.tables = 3,
                        .columns = 1,
                        .edges = 1,
                        .rows = 30,
                        .children = 10000000 / (test_stride() * test_stride()),
                        .tasks = 2,
                        .seeds = 100000 / test_stride(),
                        .hubs = 1,
                        .has_labels = true,
                        .is_exact = true};
    size_t size;
    weir_error error;
    weir_store *store;
    uint8_t *bytes = make_store_bytes(135, &sizes, &size);
    assert_non_null(bytes);
    assert_ok(weir_store_open_memory(NULL, bytes, size, &store, &error), &error);
    const weir_store_info *info = weir_store_describe(store);
    const weir_label_list *labels = &info->tasks[0].labels;
    assert_true(info->tasks[0].has_label_times && info->edges[0].child_times != NULL);
    assert_int_equal(info->edges[0].edges, sizes.children);
    hub_contexts roomy = open_hub_contexts(store, 1), cramped = open_hub_contexts(store, 2);
    weir_batch__retriever *retrievers[] = {&cramped.builder->worker.retriever, cramped.builder->team.helpers};
    for (int i = 0; i < 2; i++) {
        retrievers[i]->memo_bits = 1;
        retrievers[i]->links = NULL;
    }
    uint32_t few = retrievers[0]->few;
    for (int64_t time = 9; time <= 49; time += 20) {
        /* As of a store whose rows are too many for 32 bits. */
        for (int i = 0; i < 2; i++)
            retrievers[i]->few = time == 29 ? 0 : few;
        weir_context_request request = {
            .row = info->tables[1].first_number, .has_time = true, .time = time, .has_seed = true};
        assert_ok(weir_context_build(roomy.builder, &request, 1, roomy.buffer, &error), &error);
        assert_ok(weir_context_build(cramped.builder, &request, 1, cramped.buffer, &error), &error);
        const weir_batch *batch = weir_batch_view(roomy.buffer), *same = weir_batch_view(cramped.buffer);
        assert_int_equal(batch->sample_digests[0], same->sample_digests[0]);
        double known = count_up_to(labels->times, weir__load32(labels->starts + 4), time);
        double children = count_up_to(info->edges[0].child_times, info->edges[0].edges, time);
        double expected = 20000 * 10 * known / (known + children + 1), visits = visits_of(batch);
        assert_true(known > 100 / test_stride() && children > sizes.children / 10);
        assert_true(visits > 0.7 * expected && visits < 1.3 * expected);
        assert_true(visits_of(same) == visits);
    }
    close_hub_contexts(&roomy);
    close_hub_contexts(&cramped);
    weir_store_close(store);
    free(bytes);
}

/* Damages a byte of each block that has nothing else in it. */
static void damage_blocks(uint8_t *bytes, size_t section, const uint8_t *from, uint64_t size) {
    size_t block = section, at = (size_t)(from - bytes);
    for (; block + ((size_t)1 << WEIR_STORE__BLOCK_SHIFT) <= at + size;
         block += (size_t)1 << WEIR_STORE__BLOCK_SHIFT)
        if (block >= at)
            bytes[block] ^= 1;
}

/* The rows of labels lie in blocks of their own: their times, which are read before, do not vouch for them.
 */
static void the_rows_of_labels_are_verified(void **state) {
    (void)state;
    static const made_sizes sizes = {.tables = 3,
                                     .columns = 1,
                                     .edges = 1,
                                     .rows = 30,
                                     .children = 100,
                                     .tasks = 2,
                                     .seeds = 60000,
                                     .hubs = 1,
                                     .has_labels = true,
                                     .is_exact = true};
    size_t size;
    weir_error error;
    uint8_t *bytes = make_store_bytes(135, &sizes, &size);
    assert_non_null(bytes);
    for (int is_damaged = 0; is_damaged < 2; is_damaged++) {
        weir_store *store;
        assert_ok(weir_store_open_memory(NULL, bytes, size, &store, &error), &error);
        const weir_store_info *info = weir_store_describe(store);
        const weir_label_list *labels = &info->tasks[0].labels;
        hub_contexts contexts = open_hub_contexts(store, 1);
        if (is_damaged)
            damage_blocks(bytes, (size_t)info->sections[WEIR_STORE__SECTION_LABELS - 1].offset, labels->rows,
                          4 * (uint64_t)labels->count);
        weir_context_request request = {
            .row = info->tables[1].first_number, .has_time = true, .time = 49, .has_seed = true};
        weir_status status = weir_context_build(contexts.builder, &request, 1, contexts.buffer, &error);
        assert_int_equal(status, is_damaged ? WEIR_STORE_CORRUPT : WEIR_OK);
        close_hub_contexts(&contexts);
        weir_store_close(store);
    }
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_may_have_more_keys_than_there_are_places),
        cmocka_unit_test(a_row_may_have_more_keys_than_there_are_places),
        cmocka_unit_test(rows_that_do_not_exist_are_refused),
        cmocka_unit_test(lists_are_made_of_what_is_whole),
        cmocka_unit_test(seeds_past_the_anchors_table_are_refused),
        cmocka_unit_test(a_hub_of_ten_million_children_is_walked),
        cmocka_unit_test(the_rows_of_labels_are_verified),
    };
    return cmocka_run_group_tests_name("batch_made", tests, NULL, NULL);
}
