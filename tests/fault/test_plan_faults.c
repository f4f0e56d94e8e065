/* The planner under faults: every allocation, mapping and file operation fails once and from then on. */
#include <stdlib.h>
#include <unistd.h>

#include "support/random_graph.h"

static char path[] = "/tmp/weir-plan-faults-XXXXXX";
static weir_graph *graph;
static weir_plan *plan;
static uint8_t *saved;
static size_t saved_size;
static uint8_t *document;
static size_t document_size;

static weir_status build(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    weir_graph *built;
    weir_status status = random_graph(env, 4, 10, &built, error);
    if (status == WEIR_OK)
        weir_graph_close(built);
    return status;
}

static weir_status read_document(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    weir_graph *read;
    weir_status status = weir_graph_read(env, document, document_size, "document", &read, error);
    if (status == WEIR_OK)
        weir_graph_close(read);
    return status;
}

static weir_status make(const weir_env *env, void *context, weir_error *error) {
    static const char arenas[] = "{\"activations\": {\"alignment_bytes\": 64}}";
    weir_plan *made;
    weir_plan_options options = options_of(context);
    options.arenas = (weir_document){arenas, strlen(arenas), NULL};
    if (strcmp(context, "backward") == 0) {
        options.optimizer = "adam:bf16";
        options.step = "backward";
    }
    weir_status status = weir_plan_make(env, graph, &options, &made, error);
    if (status == WEIR_OK)
        weir_plan_close(made);
    return status;
}

/* Tensors that share a place, read and planned. */
static weir_status share(const weir_env *env, void *context, weir_error *error) {
    static const char text_of_graph[] =
        "{\"format\": \"weir-graph/1\", \"tensors\": ["
        "{\"id\": \"x\", \"shape\": [8], \"dtype\": \"f32\", \"role\": \"input\"},"
        "{\"id\": \"v\", \"shape\": [4], \"dtype\": \"f32\", \"alias_of\": \"x\", \"alias_offset\": 16},"
        "{\"id\": \"r\", \"shape\": [4], \"dtype\": \"f32\", \"alias_of\": \"v\"}],"
        "\"nodes\": [{\"id\": \"n\", \"op\": \"slice\", \"inputs\": [\"x\"], \"outputs\": [\"v\"]},"
        "{\"id\": \"w\", \"op\": \"relu\", \"inputs\": [\"v\"], \"outputs\": [\"r\"]}], \"outputs\": "
        "[\"r\"]}";
    weir_graph *shared;
    weir_plan *made;
    weir_plan_options options = options_of(context);
    weir_status status =
        weir_graph_read(env, text_of_graph, sizeof text_of_graph - 1, "shared", &shared, error);
    if (status != WEIR_OK)
        return status;
    status = weir_plan_make(env, shared, &options, &made, error);
    weir_graph_close(shared);
    if (status == WEIR_OK)
        weir_plan_close(made);
    return status;
}

/* A graph that writes into a place, where room is so short that the write runs again. */
static weir_status write_again(const weir_env *env, void *context, weir_error *error) {
    static const char text_of_graph[] =
        "{\"format\": \"weir-graph/1\", \"tensors\": ["
        "{\"id\": \"x\", \"shape\": [32], \"dtype\": \"f32\", \"role\": \"input\"},"
        "{\"id\": \"a\", \"shape\": [64], \"dtype\": \"f32\"},"
        "{\"id\": \"r\", \"shape\": [64], \"dtype\": \"f32\", \"alias_of\": \"a\"},"
        "{\"id\": \"b\", \"shape\": [96], \"dtype\": \"f32\"},"
        "{\"id\": \"c\", \"shape\": [64], \"dtype\": \"f32\"}],"
        "\"nodes\": ["
        "{\"id\": \"m\", \"op\": \"y\", \"inputs\": [\"x\"], \"outputs\": [\"a\"], \"saves\": \"none\"},"
        "{\"id\": \"w\", \"op\": \"relu\", \"inputs\": [\"a\"], \"outputs\": [\"r\"], \"saves\": \"output\"},"
        "{\"id\": \"u\", \"op\": \"y\", \"inputs\": [\"r\"], \"outputs\": [\"b\"], \"saves\": \"none\"},"
        "{\"id\": \"e\", \"op\": \"y\", \"inputs\": [\"b\"], \"outputs\": [\"c\"], \"saves\": \"none\"}],"
        "\"outputs\": [\"c\"]}";
    static const char arenas[] = "{\"activations\": {\"capacity_bytes\": 768}}";
    weir_graph *writing;
    weir_plan *made = NULL;
    weir_plan_options options = options_of(NULL);
    (void)context;
    options.preset = "remat_enabled";
    options.arenas = (weir_document){arenas, sizeof arenas - 1, NULL};
    weir_status status =
        weir_graph_read(env, text_of_graph, sizeof text_of_graph - 1, "writing", &writing, error);
    if (status != WEIR_OK)
        return status;
    status = weir_plan_make(env, writing, &options, &made, error);
    weir_graph_close(writing);
    if (status == WEIR_OK) {
        assert_int_equal(weir_plan_describe(made)->remat->runs_again, 2);
        assert_int_equal(weir_plan_describe(made)->tensor_count, 7);
        weir_plan_close(made);
    }
    return status;
}

static uint64_t link_bytes; /* of the plans that run operators again; 0: no paging */

/* Runs operators again in a better order, by all searches: the graph is small and the effort the default. */
static weir_status make_again(const weir_env *env, void *context, weir_error *error) {
    weir_plan *made;
    weir_plan_options options = options_of(NULL);
    options.preset = "remat_enabled";
    options.effort_plus_one = 6;
    options.reorder = true;
    options.link = link_bytes;
    options.speed = link_bytes > 0;
    options.arenas = (weir_document){context, strlen(context), NULL};
    weir_status status = weir_plan_make(env, graph, &options, &made, error);
    if (status == WEIR_OK)
        weir_plan_close(made);
    return status;
}

static weir_status save(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    return weir_plan_save(env, plan, path, error);
}

static weir_status restore(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    weir_plan *restored;
    weir_status status = weir_plan_restore_file(env, path, &restored, error);
    if (status == WEIR_OK)
        weir_plan_close(restored);
    return status;
}

static weir_status open_arenas(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    weir_arenas *arenas;
    weir_status status = weir_arenas_open(env, plan, NULL, &arenas, error);
    if (status == WEIR_OK)
        weir_arenas_close(arenas);
    return status;
}

static weir_status remap_arenas(const weir_env *env, void *context, weir_error *error) {
    static const weir_remap_target targets[] = {WEIR_REMAP_NEW, WEIR_REMAP_NOTHING, WEIR_REMAP_BACKING,
                                                WEIR_REMAP_NEW, WEIR_REMAP_BACKING};
    (void)context;
    weir_arenas *arenas;
    weir_backing *backing = NULL;
    weir_status status = weir_arenas_open(env, plan, NULL, &arenas, error);
    if (status != WEIR_OK)
        return status;
    weir_plan_arena arena = weir_plan_arena_at(plan, 0);
    weir_arena_pages pages = weir_arenas_pages(arenas, arena.name.data, arena.name.size);
    status = weir_backing_open(env, NULL, (size_t)pages.range_bytes, &backing, error);
    for (size_t i = 0; i < sizeof targets / sizeof targets[0] && status == WEIR_OK; i++) {
        weir_remap remap = {
            .size = sizeof remap, .target = targets[i], .backing = backing, .keeps = i != 2 && i != 1};
        status = weir_arenas_remap(arenas, arena.name.data, arena.name.size, &remap, error);
    }
    weir_commit_options commit = {.size = sizeof commit, .with_contents = true};
    weir_commit sealed;
    if (status == WEIR_OK)
        status = weir_arenas_seal(arenas, &commit, &sealed, error);
    weir_backing_close(backing);
    weir_arenas_close(arenas);
    return status;
}

static weir_status pack_csv(const weir_env *env, void *context, weir_error *error) {
    static const char csv[] = "id,lower,upper,size\na,0,2,3\nb,1,3,4\nc,2,4,5\nd,0,4,1\n";
    (void)context;
    weir_packing *packing;
    weir_packing_options options = {.size = sizeof options};
    weir_packing_result result;
    const char *out;
    size_t size;
    weir_status status = weir_packing_read_csv(env, csv, strlen(csv), "csv", &packing, error);
    if (status != WEIR_OK)
        return status;
    status = weir_packing_solve(packing, &options, &result, error);
    if (status == WEIR_OK)
        status = weir_packing_csv(packing, &out, &size, error);
    weir_packing_close(packing);
    return status;
}

static weir_status pack_aligned(const weir_env *env, void *context, weir_error *error) {
    static const weir_buffer buffers[] = {{0, 2, 3}, {1, 3, 4}, {2, 4, 5}, {0, 4, 1}};
    (void)context;
    uint64_t offsets[4];
    weir_packing_options options = {.size = sizeof options, .alignment = 8};
    weir_packing_result result;
    return weir_pack(env, buffers, 4, &options, offsets, &result, error);
}

/* The file is the old plan or the new one, which are the same here: whole in any case. */
static void check_file(void *context) {
    (void)context;
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(saved_size + 1);
    assert_non_null(file);
    assert_int_equal(fread(data, 1, saved_size + 1, file), saved_size);
    assert_memory_equal(data, saved, saved_size);
    fclose(file);
    free(data);
}

static void test_build(void **state) {
    (void)state;
    assert_true(sweep_faults(build, NULL, NULL) >= 78);
    assert_true(sweep_faults(read_document, NULL, NULL) >= 88);
}

static void test_make(void **state) {
    (void)state;
    for (int mode = 0; mode < 3; mode++)
        assert_true(sweep_faults(make, NULL, (void *)plan_modes[mode]) >= 108);
    for (int mode = 0; mode < 3; mode++)
        assert_true(sweep_faults(share, NULL, (void *)plan_modes[mode]) >= 100);
}

static void test_make_again(void **state) {
    weir_error error;
    weir_plan *made = NULL;
    weir_plan_remat remat = {0};
    char arenas[80];
    (void)state;
    uint64_t bytes = 0;
    for (size_t i = 0; i < weir_plan_describe(plan)->arena_count; i++)
        if (weir_plan_arena_at(plan, i).name.size == strlen("activations"))
            bytes = weir_plan_arena_at(plan, i).peak_bytes;
    snprintf(arenas, sizeof arenas, "{\"activations\": {\"capacity_bytes\": %llu}}",
             (unsigned long long)(bytes - bytes / 16));
    weir_plan_options options = options_of(NULL);
    options.preset = "remat_enabled";
    options.arenas = (weir_document){arenas, strlen(arenas), NULL};
    assert_ok(weir_plan_make(NULL, graph, &options, &made, &error), &error);
    remat = *weir_plan_describe(made)->remat;
    weir_plan_close(made);
    assert_true(remat.runs_again > 0);
    assert_true(sweep_faults(make_again, NULL, arenas) >= 130);
    link_bytes = 1 << 20;
    assert_true(sweep_faults(make_again, NULL, arenas) >= 130);
    options.link = link_bytes;
    options.speed = 1;
    assert_ok(weir_plan_make(NULL, graph, &options, &made, &error), &error);
    assert_ok(weir_plan_save(NULL, made, path, &error), &error);
    assert_true(weir_plan_describe(made)->paging->overlaps);
    weir_plan_close(made);
    assert_true(sweep_faults(restore, NULL, NULL) >= 124);
    assert_ok(weir_plan_save(NULL, plan, path, &error), &error);
    assert_true(sweep_faults(write_again, NULL, NULL) >= 130);
}

static void test_files(void **state) {
    (void)state;
    assert_true(sweep_faults(save, check_file, NULL) >= 54);
    assert_true(sweep_faults(restore, NULL, NULL) >= 124);
}

static void test_arenas(void **state) {
    (void)state;
    assert_true(sweep_faults(open_arenas, NULL, NULL) >= 32);
    assert_true(sweep_faults(remap_arenas, NULL, NULL) >= 52);
}

static void test_csv(void **state) {
    (void)state;
    assert_true(sweep_faults(pack_csv, NULL, NULL) >= 40);
    assert_true(sweep_faults(pack_aligned, NULL, NULL) >= 20);
}

static int set_up(void **state) {
    (void)state;
    weir_error error;
    weir_cbor_writer w;
    weir_plan_options options = options_of("backward");
    int file = mkstemp(path);
    close(file);
    assert_ok(random_graph(NULL, 11, 12, &graph, &error), &error);
    assert_ok(weir_plan_make(NULL, graph, &options, &plan, &error), &error);
    assert_ok(weir_plan_save(NULL, plan, path, &error), &error);
    weir_cbor_writer_memory(&w, NULL);
    weir_plan_write(plan, &w);
    weir_plan_write_tensors(plan, &w);
    weir_plan_write_metrics(plan, &w);
    assert_ok(weir_cbor_finish(&w, &error), &error);
    saved = w.data;
    saved_size = w.size;
    weir_cbor_writer_memory(&w, NULL);
    weir_graph_write_cbor(graph, &w);
    assert_ok(weir_cbor_finish(&w, &error), &error);
    document = w.data;
    document_size = w.size;
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    weir_plan_close(plan);
    weir_graph_close(graph);
    free(saved);
    free(document);
    unlink(path);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build), cmocka_unit_test(test_make),   cmocka_unit_test(test_make_again),
        cmocka_unit_test(test_files), cmocka_unit_test(test_arenas), cmocka_unit_test(test_csv),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
