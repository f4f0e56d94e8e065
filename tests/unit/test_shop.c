/* The golden shop, from SQL to store: everything that the vectors say of it, through the C interface. */
#include "support/database.h"

#include "base/bytes.h"
#include "ingest/embed.h"

typedef struct shop {
    char folder[64];
    char source[160];
    char store_path[160];
    weir_store *store;
    json_t *expected;
} shop;

static int open_shop(void **state) {
    static shop s;
    weir_error error;
    make_folder(s.folder);
    make_shop(s.folder, s.source);
    path_in(s.folder, "shop.weir", s.store_path);
    assert_ok(ingest_shop(NULL, s.source, s.store_path, 2, NULL, &error), &error);
    assert_ok(weir_store_open(NULL, s.store_path, &s.store, &error), &error);
    s.expected = load_vectors("shop_small.store.json");
    *state = &s;
    return 0;
}

static int close_shop(void **state) {
    shop *s = *state;
    weir_store_close(s->store);
    json_decref(s->expected);
    remove_folder(s->folder);
    return 0;
}

/* Everything in `expected` is in `given`, with equal values; objects may say more. */
static void assert_contains(json_t *expected, json_t *given, const char *path) {
    char inner[600];
    const char *key;
    json_t *value;
    size_t index;
    if (!given)
        fail_msg("%s is missing", path);
    if (json_is_object(expected)) {
        json_object_foreach(expected, key, value) {
            snprintf(inner, sizeof inner, "%s.%s", path, key);
            assert_contains(value, json_object_get(given, key), inner);
        }
    } else if (json_is_array(expected)) {
        assert_int_equal(json_array_size(expected), json_array_size(given));
        json_array_foreach(expected, index, value) {
            snprintf(inner, sizeof inner, "%s[%zu]", path, index);
            assert_contains(value, json_array_get(given, index), inner);
        }
    } else if (!json_equal(expected, given)) {
        char *a = json_dumps(expected, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
        char *b = json_dumps(given, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
        fail_msg("%s: expected %s, got %s", path, a, b);
    }
}

static void info_is_that_of_the_vectors(void **state) {
    shop *s = *state;
    weir_json_writer w;
    weir_error error;
    json_error_t json_error;
    weir_json_writer_memory(&w, NULL);
    weir_store_info_json(s->store, &w);
    assert_ok(weir_json_finish(&w, &error), &error);
    json_t *given = json_loadb(w.data, w.size, 0, &json_error);
    weir_json_release(&w);
    json_t *expected = json_copy(s->expected);
    json_object_del(expected, "about");
    json_object_del(expected, "draft");
    json_object_del(expected, "more");
    assert_contains(expected, given, "$");
    json_decref(expected);
    json_decref(given);
}

/* The vectors' draft was made by the first rules; draft_changes.json says what is drafted otherwise now. */
static json_t *todays_draft(const shop *s) {
    json_t *draft = json_deep_copy(member(s->expected, "draft")),
           *changes = load_golden("draft_changes.json");
    assert_int_equal(json_object_update_recursive(member(draft, "tables"), member(changes, "tables")), 0);
    json_decref(changes);
    return draft;
}

static void draft_is_that_of_the_vectors(void **state) {
    shop *s = *state;
    weir_bytes draft;
    weir_error error;
    json_error_t json_error;
    const char *key;
    json_t *expected = todays_draft(s), *value;
    for (uint32_t threads = 1; threads <= 3; threads++) {
        weir_ingest_options options = WEIR_INGEST_OPTIONS;
        options.source = s->source;
        options.threads = threads;
        assert_ok(weir_schema_draft(NULL, &options, &draft, &error), &error);
        json_t *given = json_loadb(draft.data, draft.size, 0, &json_error);
        weir_bytes_release(&draft);
        json_object_foreach(expected, key, value) {
            if (!json_equal(value, json_object_get(given, key)))
                fail_msg("the draft's %s is another one", key);
        }
        json_decref(given);
    }
    json_decref(expected);
}

/* "always", "never" or microseconds. */
static int64_t time_of(json_t *value) {
    if (!json_is_string(value))
        return json_integer_value(value);
    return strcmp(json_string_value(value), "always") == 0 ? WEIR_TIME_ALWAYS : WEIR_TIME_NEVER;
}

static void rows_have_their_times(void **state) {
    shop *s = *state;
    const weir_store_info *info = weir_store_describe(s->store);
    json_t *times = member(member(s->expected, "more"), "row_times");
    size_t checked = 0;
    for (uint32_t t = 0; t < info->table_count; t++) {
        json_t *of_table = json_object_get(times, info->tables[t].name);
        size_t index;
        json_t *value;
        json_array_foreach(of_table, index, value) {
            assert_int_equal(weir_store_row_time(s->store, info->tables[t].row_start + (uint32_t)index),
                             time_of(value));
            checked++;
        }
    }
    assert_true(checked > 100);
}

/* The children of one parent, as the vectors list them: all, those known at each edge's own time, and none
 * before. */
static void check_children(const weir_store *store, uint32_t e, uint32_t parent, json_t *expected) {
    const weir_edge *edge = &weir_store_describe(store)->edges[e];
    uint32_t count, known = 0;
    uint32_t start = weir_store_children(store, e, parent, INT64_MAX, &count);
    size_t index;
    json_t *pair;
    json_array_foreach(expected, index, pair) {
        int64_t time = time_of(json_array_get(pair, 0));
        uint32_t child = (uint32_t)json_integer_value(json_array_get(pair, 1));
        assert_int_equal(weir__load32(edge->child_rows + 4 * (start + index)), child);
        if (edge->child_times)
            assert_int_equal((int64_t)weir__load64(edge->child_times + 8 * (start + index)), time);
        else
            assert_int_equal(time, WEIR_TIME_ALWAYS);
        assert_int_equal(weir_store_parent(store, child, e), parent);
        if (time == WEIR_TIME_NEVER)
            continue;
        known++;
        uint32_t up_to, before;
        weir_store_children(store, e, parent, time, &up_to);
        assert_true(up_to >= known);
        if (time != WEIR_TIME_ALWAYS) {
            weir_store_children(store, e, parent, time - 1, &before);
            assert_true(before <= index);
        }
    }
    assert_int_equal(count, known);
}

static void children_are_sorted_by_time(void **state) {
    shop *s = *state;
    const weir_store_info *info = weir_store_describe(s->store);
    json_t *edges = member(member(s->expected, "more"), "edges");
    assert_int_equal(json_array_size(edges), info->edge_count);
    for (uint32_t e = 0; e < info->edge_count; e++) {
        json_t *children = member(json_array_get(edges, e), "children");
        const char *key;
        json_t *list;
        uint64_t total = 0;
        json_object_foreach(children, key, list) {
            check_children(s->store, e, (uint32_t)strtoul(key, NULL, 10), list);
            total += json_array_size(list);
        }
        assert_int_equal(total, info->edges[e].edges);
    }
}

static void check_target(const weir_store *store, const weir_task *task, const weir_cell *target,
                         json_t *expected) {
    const weir_column *column = &weir_store_describe(store)->columns[task->column];
    assert_int_equal(target->stype, task->stype);
    assert_int_equal(target->is_null, json_is_null(expected));
    if (target->is_null)
        return;
    if (task->stype == WEIR_NUMERICAL) {
        float wanted = weir_normalise(json_number_value(expected), &column->statistics);
        assert_memory_equal(&target->number, &wanted, sizeof wanted);
    } else if (task->stype == WEIR_CATEGORICAL) {
        weir_text text = weir_store_category(store, (uint32_t)target->integer);
        assert_int_equal(text.size, json_string_length(expected));
        assert_memory_equal(text.data, json_string_value(expected), text.size);
    } else if (task->stype == WEIR_BOOLEAN) {
        assert_int_equal(target->integer, json_is_true(expected));
    } else {
        assert_int_equal(target->integer, json_integer_value(expected));
    }
}

static void seeds_are_those_of_the_vectors(void **state) {
    shop *s = *state;
    const weir_store_info *info = weir_store_describe(s->store);
    json_t *seeds = member(member(s->expected, "more"), "seeds");
    for (uint32_t t = 0; t < info->task_count; t++) {
        json_t *list = member(seeds, info->tasks[t].name);
        uint64_t next[WEIR_SPLITS];
        size_t index;
        json_t *expected;
        memcpy(next, info->tasks[t].split_start, sizeof next);
        assert_int_equal(json_array_size(list), info->tasks[t].seed_count);
        json_array_foreach(list, index, expected) {
            int split = 0;
            const char *name = json_string_value(json_array_get(expected, 3));
            while (strcmp(name, weir_split_name((weir_split)split)) != 0)
                split++;
            weir_seed_row seed;
            assert_true(weir_store_seed(s->store, t, next[split]++, &seed));
            assert_int_equal(seed.split, split);
            assert_int_equal(seed.row, json_integer_value(json_array_get(expected, 0)));
            assert_int_equal(seed.observation_time, json_integer_value(json_array_get(expected, 1)));
            check_target(s->store, &info->tasks[t], &seed.target, json_array_get(expected, 2));
            if (info->tasks[t].is_cell && split != WEIR_TRAIN)
                assert_true(weir_store_is_held_out(s->store, t, seed.row));
        }
    }
}

static void check_texts(shop *s, const char *key, uint32_t count, const uint8_t *vectors,
                        size_t (*text_of)(const weir_store *, uint32_t, char *, size_t)) {
    json_t *texts = member(member(s->expected, "more"), key);
    uint32_t dim = weir_store_describe(s->store)->embedding_dim;
    int32_t sums[64];
    uint16_t vector[64];
    assert_int_equal(dim, 64);
    assert_int_equal(json_array_size(texts), count);
    for (uint32_t i = 0; i < count; i++) {
        char text[1000];
        json_t *expected = json_array_get(texts, i);
        assert_int_equal(text_of(s->store, i, text, sizeof text), json_string_length(expected));
        assert_string_equal(text, json_string_value(expected));
        weir_ingest__hash_v1(text, strlen(text), dim, sums, vector);
        for (uint32_t k = 0; k < dim; k++)
            assert_int_equal(weir__load16(vectors + 2 * (i * dim + k)), vector[k]);
    }
}

static size_t copy_text(const weir_store *store, uint32_t index, char *out, size_t size) {
    weir_text text = weir_store_text(store, index);
    assert_true(text.size < size);
    memcpy(out, text.data, text.size);
    out[text.size] = 0;
    return text.size;
}

static void embedded_texts_are_those_of_the_vectors(void **state) {
    shop *s = *state;
    const weir_store_info *info = weir_store_describe(s->store);
    check_texts(s, "column_texts", info->column_count, info->column_embeddings, weir_store_column_text);
    check_texts(s, "category_texts", info->category_count, info->category_embeddings,
                weir_store_category_text);
    check_texts(s, "texts", info->text_count, info->text_embeddings, copy_text);
}

static void any_number_of_threads_gives_one_store(void **state) {
    shop *s = *state;
    char path[160];
    for (uint32_t threads = 1; threads <= 8; threads *= 2) {
        weir_error error;
        weir_ingest_report report;
        assert_ok(
            ingest_shop(NULL, s->source, path_in(s->folder, "again.weir", path), threads, &report, &error),
            &error);
        assert_memory_equal(report.store_hash, weir_store_describe(s->store)->store_hash, WEIR_HASH_SIZE);
    }
}

/* A database in WAL mode (read by one session) and one whose text is UTF-16 hold the same rows. */
static void journal_and_encoding_leave_no_trace(void **state) {
    shop *s = *state;
    static const char *const pragmas[] = {"PRAGMA journal_mode=WAL;", "PRAGMA encoding='UTF-16le';"};
    char *rows = golden_text("shop_small.sql", NULL);
    for (int i = 0; i < 2; i++) {
        char source[160], store[160];
        weir_error error;
        weir_ingest_report report;
        size_t size = strlen(pragmas[i]) + strlen(rows) + 1;
        char *sql = malloc(size);
        snprintf(sql, size, "%s%s", pragmas[i], rows);
        make_database(path_in(s->folder, "other.sqlite", source), sql);
        free(sql);
        assert_ok(ingest_shop(NULL, source, path_in(s->folder, "other.weir", store), 4, &report, &error),
                  &error);
        assert_memory_equal(report.store_hash, weir_store_describe(s->store)->store_hash, WEIR_HASH_SIZE);
    }
    free(rows);
}

/* The file's bytes are pinned: this changes with the format's version only, on no machine and with no
 * compiler. */
static void store_hash_is_pinned(void **state) {
    assert_hex_equal(weir_store_describe(((shop *)*state)->store)->store_hash, WEIR_HASH_SIZE,
                     "808ed9c363c4fa28dad92adac26ff3155b18e715aa6cdc129b849fde03fa55c6");
}

static void store_verifies(void **state) {
    weir_error error;
    assert_ok(weir_store_verify(((shop *)*state)->store, 2, &error), &error);
}

static void manifest_is_ready_for_the_sampler(void **state) {
    shop *s = *state;
    char path[160];
    weir_error error;
    json_error_t json_error;
    json_t *manifest = json_load_file(path_in(s->folder, "shop.manifest.json", path), 0, &json_error);
    assert_non_null(manifest);
    assert_int_equal(member_uint(manifest, "global_batch_size"), 32);
    assert_string_equal(member_text(member(manifest, "data"), "intra_block"), "feistel_v1");
    assert_true(json_is_true(member(member(manifest, "data"), "rotate")));
    const char *key;
    json_t *dataset;
    size_t trains = 0;
    json_object_foreach(member(manifest, "datasets"), key, dataset) {
        weir_stored_dataset stored;
        assert_ok(weir_store_dataset(s->store, key, &stored, &error), &error);
        assert_int_equal(member_uint(dataset, "cardinality"), stored.cardinality);
        assert_hex_equal(stored.hash, WEIR_HASH_SIZE, member_text(dataset, "hash"));
        trains += stored.split == WEIR_TRAIN ? 1 : 0;
        if (stored.split == WEIR_TRAIN)
            assert_int_equal(member_uint(member(manifest, "mix"), key), 1);
    }
    assert_int_equal(json_object_size(member(manifest, "mix")), trains);
    json_decref(manifest);
}

static void a_dataset_that_is_none_is_refused(void **state) {
    weir_error error;
    weir_stored_dataset stored;
    assert_fails(weir_store_dataset(((shop *)*state)->store, "shop/churn/trains", &stored, &error),
                 WEIR_INVALID_DATASET_KEY, &error);
    assert_fails(weir_store_dataset(((shop *)*state)->store, "shop", &stored, &error),
                 WEIR_INVALID_DATASET_KEY, &error);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(info_is_that_of_the_vectors),
        cmocka_unit_test(draft_is_that_of_the_vectors),
        cmocka_unit_test(rows_have_their_times),
        cmocka_unit_test(children_are_sorted_by_time),
        cmocka_unit_test(seeds_are_those_of_the_vectors),
        cmocka_unit_test(embedded_texts_are_those_of_the_vectors),
        cmocka_unit_test(any_number_of_threads_gives_one_store),
        cmocka_unit_test(journal_and_encoding_leave_no_trace),
        cmocka_unit_test(store_hash_is_pinned),
        cmocka_unit_test(store_verifies),
        cmocka_unit_test(manifest_is_ready_for_the_sampler),
        cmocka_unit_test(a_dataset_that_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, open_shop, close_shop);
}
