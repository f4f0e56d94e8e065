/* Graphs: what the builder accepts and refuses, that a refused call changes nothing, that documents survive
 * a round trip, and the order of execution. */
#include <stdlib.h>

#include "support/random_graph.h"

static weir_graph *new_graph(void) {
    weir_error error;
    weir_graph *graph;
    assert_ok(weir_graph_create(NULL, text("g"), &graph, &error), &error);
    return graph;
}

static weir_status add(weir_graph *graph, const char *id, weir_tensor_role role, weir_error *error) {
    uint64_t shape[] = {4, 8};
    weir_tensor_info info = {
        .id = text(id), .type = WEIR_TENSOR_F32, .role = role, .shape = shape, .rank = 2};
    return weir_graph_add_tensor(graph, &info, error);
}

static weir_status apply(weir_graph *graph, const char *id, const char *input, const char *output,
                         weir_error *error) {
    weir_text in = text(input);
    weir_text out = text(output);
    weir_node_info node = {.id = text(id),
                           .op = text("relu"),
                           .inputs = &in,
                           .input_count = 1,
                           .outputs = &out,
                           .output_count = 1};
    return weir_graph_add_node(graph, &node, error);
}

/* ---- Builder --------------------------------------------------------------------------------- */

static void test_builder_refuses(void **state) {
    (void)state;
    weir_error error;
    weir_graph *graph = new_graph();
    uint64_t huge[] = {UINT64_MAX, 2};
    weir_tensor_info bad = {.id = text("bad"), .type = WEIR_TENSOR_F32, .shape = huge, .rank = 2};
    assert_ok(add(graph, "x", WEIR_ROLE_INPUT, &error), &error);
    assert_fails(weir_graph_add_tensor(graph, &bad, &error), WEIR_ALLOCATION_OVERFLOW, &error);
    bad.rank = 0;
    bad.type = WEIR_TENSOR_UNKNOWN;
    assert_fails(weir_graph_add_tensor(graph, &bad, &error), WEIR_INVALID_IR_SHAPES, &error);
    bad.type = WEIR_TENSOR_F32;
    bad.role = WEIR_ROLE_UNKNOWN;
    assert_fails(weir_graph_add_tensor(graph, &bad, &error), WEIR_INVALID_IR, &error);
    bad.role = WEIR_ROLE_INPUT;
    bad.arena = text("an arena whose name is longer than sixty-four bytes, which is all it may");
    assert_fails(weir_graph_add_tensor(graph, &bad, &error), WEIR_INVALID_IR, &error);
    bad.arena = (weir_text){0};
    bad.id = (weir_text){"\xff", 1};
    assert_fails(weir_graph_add_tensor(graph, &bad, &error), WEIR_INVALID_IR, &error);
    assert_fails(add(graph, "x", WEIR_ROLE_INPUT, &error), WEIR_INVALID_IR, &error);
    assert_int_equal(weir_graph_tensor_count(graph), 1);

    assert_ok(add(graph, "y", WEIR_ROLE_ACTIVATION, &error), &error);
    assert_fails(apply(graph, "n", "x", "nowhere", &error), WEIR_INVALID_IR, &error);
    assert_non_null(strstr(error.message, "nowhere"));
    assert_ok(apply(graph, "n", "x", "y", &error), &error);
    assert_fails(apply(graph, "n", "x", "y", &error), WEIR_INVALID_IR, &error);
    assert_int_equal(weir_graph_node_count(graph), 1);
    weir_text twice[] = {text("y"), text("y")};
    assert_fails(weir_graph_set_outputs(graph, twice, 2, &error), WEIR_INVALID_IR, &error);
    assert_ok(weir_graph_set_outputs(graph, twice, 1, &error), &error);
    assert_ok(weir_graph_finish(graph, &error), &error);
    assert_fails(add(graph, "z", WEIR_ROLE_INPUT, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_fails(weir_graph_finish(graph, &error), WEIR_CONTRACT_VIOLATION, &error);
    weir_graph_close(graph);
}

/* A model may pass on what it was given; an activation that nobody makes is not a result. */
static weir_status add_alias(weir_graph *graph, const char *id, const char *original, uint64_t offset,
                             uint64_t elements, weir_error *error) {
    weir_tensor_info info = {.id = text(id),
                             .type = WEIR_TENSOR_F32,
                             .shape = &elements,
                             .rank = 1,
                             .is_alias = true,
                             .alias_of = text(original),
                             .alias_offset = offset};
    return weir_graph_add_tensor(graph, &info, error);
}

static void test_aliases(void **state) {
    (void)state;
    weir_error error;
    weir_graph *graph = new_graph();
    weir_plan *plan = NULL;
    weir_plan_options options = {.size = sizeof options, .mode = "forward"};
    size_t place;
    assert_ok(add(graph, "x", WEIR_ROLE_INPUT, &error), &error);
    assert_fails(add_alias(graph, "v", "later", 0, 8, &error), WEIR_INVALID_IR, &error);
    assert_fails(add_alias(graph, "v", "x", (uint64_t)1 << 63, 8, &error), WEIR_INVALID_IR, &error);
    weir_tensor_info bad = {.id = text("v"), .type = WEIR_TENSOR_F32, .alias_offset = 4};
    assert_fails(weir_graph_add_tensor(graph, &bad, &error), WEIR_INVALID_IR, &error);
    assert_int_equal(weir_graph_tensor_count(graph), 1);
    assert_ok(add_alias(graph, "v", "x", 32, 8, &error), &error);
    assert_ok(apply(graph, "n", "x", "v", &error), &error); /* relu: it writes there */
    assert_ok(weir_graph_finish(graph, &error), &error);
    assert_ok(weir_plan_make(NULL, graph, &options, &plan, &error), &error);
    assert_true(weir_plan_find(plan, "v", 1, &place));
    weir_plan_tensor alias = weir_plan_tensor_at(plan, place);
    assert_true(alias.is_alias && alias.alias_of.size == 1 && alias.alias_of.data[0] == 'x');
    assert_int_equal(alias.offset, 32);
    assert_int_equal(weir_plan_arena_at(plan, 0).tensors, 1);
    weir_plan_close(plan);
    weir_graph_close(graph);

    graph = new_graph();
    assert_ok(add(graph, "x", WEIR_ROLE_INPUT, &error), &error);
    assert_ok(add_alias(graph, "v", "x", 32, 25, &error), &error);
    assert_ok(apply(graph, "n", "x", "v", &error), &error);
    assert_fails(weir_graph_finish(graph, &error), WEIR_INVALID_IR, &error);
    weir_graph_close(graph);
}

static void test_outputs_that_no_node_writes(void **state) {
    (void)state;
    static const struct {
        weir_tensor_role role;
        bool is_valid;
    } cases[] = {{WEIR_ROLE_INPUT, true},
                 {WEIR_ROLE_PARAMETER, true},
                 {WEIR_ROLE_STATE, true},
                 {WEIR_ROLE_ACTIVATION, false},
                 {WEIR_ROLE_GRADIENT, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weir_error error;
        weir_plan *plan;
        size_t place;
        weir_graph *graph = new_graph();
        weir_text outputs[] = {text("y"), text("given")};
        assert_ok(add(graph, "x", WEIR_ROLE_INPUT, &error), &error);
        assert_ok(add(graph, "given", cases[i].role, &error), &error);
        assert_ok(add(graph, "y", WEIR_ROLE_ACTIVATION, &error), &error);
        assert_ok(apply(graph, "n", "x", "y", &error), &error);
        assert_ok(weir_graph_set_outputs(graph, outputs, 2, &error), &error);
        if (cases[i].is_valid) {
            weir_plan_options options = options_of("inference");
            assert_ok(weir_graph_finish(graph, &error), &error);
            assert_ok(weir_plan_make(NULL, graph, &options, &plan, &error), &error);
            assert_true(weir_plan_find(plan, "given", 5, &place));
            assert_int_equal(weir_plan_tensor_at(plan, place).birth, 0);
            assert_int_equal(weir_plan_tensor_at(plan, place).death, 2);
            weir_plan_close(plan);
        } else {
            assert_fails(weir_graph_finish(graph, &error), WEIR_INVALID_IR, &error);
            assert_non_null(strstr(error.message, "given"));
        }
        weir_graph_close(graph);
    }
}

/* Outputs that were refused leave those that were set before. */
static void test_refused_outputs_change_nothing(void **state) {
    (void)state;
    weir_error error;
    weir_graph *graph = new_graph();
    weir_plan *plan;
    assert_ok(add(graph, "x", WEIR_ROLE_INPUT, &error), &error);
    assert_ok(add(graph, "y", WEIR_ROLE_ACTIVATION, &error), &error);
    assert_ok(add(graph, "z", WEIR_ROLE_ACTIVATION, &error), &error);
    assert_ok(apply(graph, "n", "x", "y", &error), &error);
    assert_ok(apply(graph, "o", "y", "z", &error), &error);
    weir_text good = text("y");
    weir_text bad[] = {text("z"), text("z")};
    assert_ok(weir_graph_set_outputs(graph, &good, 1, &error), &error);
    assert_fails(weir_graph_set_outputs(graph, bad, 2, &error), WEIR_INVALID_IR, &error);
    assert_ok(weir_graph_finish(graph, &error), &error);
    weir_plan_options options = options_of("forward");
    assert_ok(weir_plan_make(NULL, graph, &options, &plan, &error), &error);
    size_t place;
    assert_true(weir_plan_find(plan, "y", 1, &place));
    assert_int_equal(weir_plan_tensor_at(plan, place).death, 3);
    assert_true(weir_plan_find(plan, "z", 1, &place));
    assert_int_equal(weir_plan_tensor_at(plan, place).death, 3);
    weir_plan_close(plan);
    weir_graph_close(graph);
}

static void test_sizes(void **state) {
    (void)state;
    static const struct {
        weir_tensor_type type;
        uint64_t shape[3];
        size_t rank;
        weir_status status;
        uint64_t size;
    } cases[] = {
        {WEIR_TENSOR_F64, {0}, 0, WEIR_OK, 8},
        {WEIR_TENSOR_I4, {0}, 0, WEIR_OK, 1},
        {WEIR_TENSOR_U4, {3, 3}, 2, WEIR_OK, 5},
        {WEIR_TENSOR_U4, {UINT64_MAX, 2}, 2, WEIR_OK, UINT64_MAX},
        {WEIR_TENSOR_U4, {UINT64_MAX, 3}, 2, WEIR_ALLOCATION_OVERFLOW, 0},
        {WEIR_TENSOR_U8, {UINT64_MAX}, 1, WEIR_OK, UINT64_MAX},
        {WEIR_TENSOR_U8, {UINT64_MAX, UINT64_MAX, UINT64_MAX}, 3, WEIR_ALLOCATION_OVERFLOW, 0},
        {WEIR_TENSOR_F64, {UINT64_MAX, 0, UINT64_MAX}, 3, WEIR_OK, 0},
        {WEIR_TENSOR_F16, {(uint64_t)1 << 63}, 1, WEIR_ALLOCATION_OVERFLOW, 0},
        {WEIR_TENSOR_F16, {((uint64_t)1 << 63) - 1, 1, 1}, 3, WEIR_OK, UINT64_MAX - 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weir_error error;
        weir_graph *graph = new_graph();
        weir_tensor_info info = {.id = text("t"),
                                 .type = cases[i].type,
                                 .role = WEIR_ROLE_INPUT,
                                 .shape = cases[i].shape,
                                 .rank = cases[i].rank};
        assert_fails(weir_graph_add_tensor(graph, &info, &error), cases[i].status, &error);
        assert_ok(weir_graph_finish(graph, &error), &error);
        if (cases[i].status == WEIR_OK) {
            weir_plan *plan;
            weir_plan_options options = options_of("forward");
            static const char arenas[] = "{\"activations\": {\"alignment_bytes\": 1}}";
            options.arenas = (weir_document){arenas, strlen(arenas), NULL};
            assert_ok(weir_plan_make(NULL, graph, &options, &plan, &error), &error);
            assert_true(weir_plan_tensor_at(plan, 0).size == cases[i].size);
            weir_plan_close(plan);
        }
        weir_graph_close(graph);
    }
}

/* ---- Documents ------------------------------------------------------------------------------- */

static void test_round_trip(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 30; seed++) {
        weir_error error;
        weir_graph *graph = NULL;
        weir_graph *from_json = NULL;
        weir_graph *from_cbor = NULL;
        uint8_t hashes[3][WEIR_HASH_SIZE];
        weir_json_writer json;
        weir_cbor_writer cbor;
        assert_ok(random_graph(NULL, seed, (unsigned)seed, &graph, &error), &error);
        weir_json_writer_memory(&json, NULL);
        weir_graph_write_json(graph, &json);
        assert_ok(weir_json_finish(&json, &error), &error);
        weir_cbor_writer_memory(&cbor, NULL);
        weir_graph_write_cbor(graph, &cbor);
        assert_ok(weir_cbor_finish(&cbor, &error), &error);
        assert_ok(weir_graph_read(NULL, json.data, json.size, "json", &from_json, &error), &error);
        assert_ok(weir_graph_read(NULL, cbor.data, cbor.size, "cbor", &from_cbor, &error), &error);
        weir_graph_hash(graph, hashes[0]);
        weir_graph_hash(from_json, hashes[1]);
        weir_graph_hash(from_cbor, hashes[2]);
        assert_memory_equal(hashes[0], hashes[1], WEIR_HASH_SIZE);
        assert_memory_equal(hashes[0], hashes[2], WEIR_HASH_SIZE);
        weir_json_release(&json);
        weir_cbor_release(&cbor);
        weir_graph_close(graph);
        weir_graph_close(from_json);
        weir_graph_close(from_cbor);
    }
}

/* What is written is what was given, without defaults, in the order in which people read it. */
static void test_written_document(void **state) {
    static const char given[] =
        "{\"order\": [\"a\", \"b\", \"c\"], \"step\": \"backward\", \"outputs\": [\"y\"], \"nodes\": ["
        "{\"outputs\": [\"v\"], \"inputs\": [\"x\"], \"op\": \"reshape\", \"id\": \"a\", \"inplace\": false},"
        "{\"cost\": 0, \"saves\": \"both\", \"id\": \"b\", \"op\": \"own\", \"inputs\": [\"x\", \"w\"],"
        " \"outputs\": [\"z\"]},"
        "{\"id\": \"c\", \"op\": \"mul\", \"inputs\": [\"v\", \"z\"], \"outputs\": [\"y\", \"e\"], "
        "\"inplace\": true,"
        " \"saves\": \"output\"}],"
        "\"tensors\": ["
        "{\"role\": \"input\", \"dtype\": \"f32\", \"shape\": [4], \"id\": \"x\", \"arena\": \"scratch\"},"
        "{\"role\": \"parameter\", \"id\": \"w\", \"dtype\": \"bf16\", \"shape\": [2, 2], \"arena\": "
        "\"parameters\"},"
        "{\"id\": \"v\", \"dtype\": \"f32\", \"shape\": [2, 2], \"alias_of\": \"x\", \"alias_offset\": 0,"
        " \"arena\": \"scratch\", \"role\": \"activation\"},"
        "{\"id\": \"z\", \"dtype\": \"f32\", \"shape\": [2], \"alias_of\": \"x\", \"alias_offset\": 8,"
        " \"saved_for_backward\": true},"
        "{\"id\": \"y\", \"dtype\": \"f32\", \"shape\": [], \"saved_for_backward\": false},"
        "{\"id\": \"e\", \"dtype\": \"i4\", \"shape\": [\"9223372036854775808\", 0], \"role\": \"gradient\","
        " \"arena\": \"activations\"}],"
        "\"name\": \"\", \"format\": \"weir-graph/1\"}";
    static const char expected[] =
        "{\"format\": \"weir-graph/1\", \"name\": \"\", \"tensors\": ["
        "{\"id\": \"x\", \"shape\": [4], \"dtype\": \"f32\", \"role\": \"input\", \"arena\": \"scratch\"}, "
        "{\"id\": \"w\", \"shape\": [2, 2], \"dtype\": \"bf16\", \"role\": \"parameter\"}, "
        "{\"id\": \"v\", \"shape\": [2, 2], \"dtype\": \"f32\", \"alias_of\": \"x\"}, "
        "{\"id\": \"z\", \"shape\": [2], \"dtype\": \"f32\", \"alias_of\": \"x\", \"alias_offset\": 8, "
        "\"saved_for_backward\": true}, "
        "{\"id\": \"y\", \"shape\": [], \"dtype\": \"f32\", \"saved_for_backward\": false}, "
        "{\"id\": \"e\", \"shape\": [\"9223372036854775808\", 0], \"dtype\": \"i4\", \"role\": \"gradient\","
        " \"arena\": \"activations\"}], \"nodes\": ["
        "{\"id\": \"a\", \"op\": \"reshape\", \"inputs\": [\"x\"], \"outputs\": [\"v\"], \"inplace\": "
        "false}, "
        "{\"id\": \"b\", \"op\": \"own\", \"inputs\": [\"x\", \"w\"], \"outputs\": [\"z\"], \"saves\": "
        "\"both\", \"cost\": 0}, "
        "{\"id\": \"c\", \"op\": \"mul\", \"inputs\": [\"v\", \"z\"], \"outputs\": [\"y\", \"e\"], "
        "\"inplace\": true,"
        " \"saves\": \"output\"}], \"outputs\": [\"y\"], \"step\": \"backward\", \"order\": [\"a\", \"b\", "
        "\"c\"]}";
    weir_error error;
    weir_graph *graph;
    weir_json_writer json;
    (void)state;
    assert_ok(weir_graph_read(NULL, given, sizeof given - 1, "given", &graph, &error), &error);
    weir_json_writer_memory(&json, NULL);
    weir_graph_write_json(graph, &json);
    assert_ok(weir_json_finish(&json, &error), &error);
    assert_string_equal(json.data, expected);
    weir_json_release(&json);
    weir_graph_close(graph);
}

static void test_an_empty_order_is_one_that_lacks_nodes(void **state) {
    (void)state;
    static const char given[] = "{\"format\": \"weir-graph/1\", \"tensors\": [{\"id\": \"x\", \"shape\": [], "
                                "\"dtype\": \"u8\", \"role\": \"input\"}, "
                                "{\"id\": \"y\", \"shape\": [], \"dtype\": \"u8\"}], \"nodes\": [{\"id\": "
                                "\"a\", \"op\": \"relu\", \"inputs\": [\"x\"], "
                                "\"outputs\": [\"y\"]}], \"outputs\": [\"y\"], \"order\": []}";
    weir_error error;
    weir_graph *graph;
    weir_plan *plan;
    weir_plan_options options = options_of("forward");
    assert_ok(weir_graph_read(NULL, given, strlen(given), "given", &graph, &error), &error);
    assert_fails(weir_plan_make(NULL, graph, &options, &plan, &error), WEIR_INVALID_IR, &error);
    assert_non_null(strstr(error.message, "order"));
    weir_graph_close(graph);
}

/* Every prefix of a document is refused, and every single changed byte is refused or read as a graph. */
static void test_damaged_documents(void **state) {
    (void)state;
    weir_error error;
    weir_graph *graph;
    weir_cbor_writer cbor;
    assert_ok(random_graph(NULL, 5, 4, &graph, &error), &error);
    weir_cbor_writer_memory(&cbor, NULL);
    weir_graph_write_cbor(graph, &cbor);
    assert_ok(weir_cbor_finish(&cbor, &error), &error);
    weir_graph_close(graph);
    for (size_t size = 0; size < cbor.size; size++)
        assert_int_not_equal(weir_graph_read(NULL, cbor.data, size, "cut", &graph, &error), WEIR_OK);
    for (size_t bit = 0; bit < 8 * cbor.size; bit++) {
        cbor.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (weir_graph_read(NULL, cbor.data, cbor.size, "flipped", &graph, &error) == WEIR_OK)
            weir_graph_close(graph);
        else
            assert_true(error.message[0] != 0);
        cbor.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    weir_cbor_release(&cbor);
}

/* ---- Order ----------------------------------------------------------------------------------- */

/* Nodes declared backwards: Kahn must find the only order; one more edge closes a cycle. */
static void test_reversed_declaration(void **state) {
    (void)state;
    enum { NODES = 3000 };
    for (int with_cycle = 0; with_cycle < 2; with_cycle++) {
        weir_error error;
        weir_graph *graph = new_graph();
        weir_plan *plan;
        char id[16];
        char input[16];
        char output[16];
        assert_ok(add(graph, "t0", with_cycle ? WEIR_ROLE_ACTIVATION : WEIR_ROLE_INPUT, &error), &error);
        for (int i = 1; i <= NODES; i++) {
            snprintf(output, sizeof output, "t%d", i);
            assert_ok(add(graph, output, WEIR_ROLE_ACTIVATION, &error), &error);
        }
        for (int i = NODES; i >= 1; i--) {
            snprintf(id, sizeof id, "n%d", i);
            snprintf(input, sizeof input, "t%d", i - 1);
            snprintf(output, sizeof output, "t%d", i);
            assert_ok(apply(graph, id, input, output, &error), &error);
        }
        if (with_cycle) {
            snprintf(input, sizeof input, "t%d", NODES);
            assert_ok(apply(graph, "back", input, "t0", &error), &error);
        }
        assert_ok(weir_graph_finish(graph, &error), &error);
        weir_plan_options options = options_of("forward");
        assert_fails(weir_plan_make(NULL, graph, &options, &plan, &error),
                     with_cycle ? WEIR_LIVENESS_CYCLE : WEIR_OK, &error);
        if (with_cycle) {
            assert_non_null(strstr(error.message, "needs"));
        } else {
            size_t place;
            assert_true(weir_plan_find(plan, output, strlen(output), &place));
            assert_int_equal(weir_plan_tensor_at(plan, place).birth, 1);
            weir_plan_close(plan);
        }
        weir_graph_close(graph);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_builder_refuses),
        cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_outputs_that_no_node_writes),
        cmocka_unit_test(test_refused_outputs_change_nothing),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_written_document),
        cmocka_unit_test(test_an_empty_order_is_one_that_lacks_nodes),
        cmocka_unit_test(test_damaged_documents),
        cmocka_unit_test(test_reversed_declaration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
