/* Plans: an independent validator on every plan, restoring, damaged files, and arenas whose tensors stay
 * intact while the plan is "executed". */
#include <stdlib.h>
#include <unistd.h>

#include "base/hash.h"
#include "plan/pack.h"
#include "support/random_graph.h"

enum { GRAPHS = 60 };

static weir_plan *plan_of(const weir_graph *graph, const char *mode) {
    weir_error error;
    weir_plan *plan = NULL;
    weir_plan_options options = options_of(mode);
    assert_ok(weir_plan_make(NULL, graph, &options, &plan, &error), &error);
    return plan;
}

static weir_graph *graph_of(uint64_t seed, unsigned nodes) {
    weir_error error;
    weir_graph *graph = NULL;
    assert_ok(random_graph(NULL, seed, nodes, &graph, &error), &error);
    return graph;
}

static uint64_t rounded(uint64_t size, uint64_t alignment) {
    return (size + alignment - 1) / alignment * alignment;
}

/* ---- The validator: every pair of tensors ---------------------------------------------------- */

static bool live_together(const weir_plan_tensor *a, const weir_plan_tensor *b) {
    return a->birth < b->death && b->birth < a->death;
}

static void validate_pair(const weir_plan *plan, const weir_plan_tensor *a, const weir_plan_tensor *b) {
    if (a->arena != b->arena || !live_together(a, b))
        return;
    uint64_t alignment = weir_plan_arena_at(plan, a->arena).alignment;
    uint64_t a_end = a->offset + rounded(a->size, alignment);
    uint64_t b_end = b->offset + rounded(b->size, alignment);
    assert_true(a->slot != b->slot);
    assert_true(a->address != b->address);
    assert_true(a_end <= b->offset || b_end <= a->offset || a->size == 0 || b->size == 0);
}

static void validate_arena(const weir_plan *plan, size_t index) {
    weir_plan_arena arena = weir_plan_arena_at(plan, index);
    uint64_t end = weir_plan_end(plan);
    uint64_t *bytes = calloc(end, sizeof *bytes);
    uint64_t most = 0;
    uint64_t slot_bytes = 0;
    weir_plan_live_bytes(plan, index, bytes);
    for (uint64_t p = 0; p < end; p++) {
        uint64_t live = 0;
        for (size_t i = 0; i < weir_plan_describe(plan)->tensor_count; i++) {
            weir_plan_tensor t = weir_plan_tensor_at(plan, i);
            if (t.arena == index && t.birth <= p && p < t.death)
                live += rounded(t.size, arena.alignment);
        }
        assert_true(live == bytes[p]);
        most = live > most ? live : most;
    }
    uint64_t fullest = weir_plan_fullest(plan, index);
    assert_true(most == 0 || bytes[fullest] == most);
    for (uint64_t p = 0; p < fullest; p++)
        assert_true(bytes[p] < most);
    for (uint64_t s = 0; s < arena.slots; s++) {
        weir_plan_slot slot = weir_plan_slot_at(plan, index, s);
        assert_true(slot.offset == slot_bytes);
        slot_bytes += slot.size;
    }
    assert_true(most == arena.lower_bound);
    assert_true(slot_bytes == arena.slot_bytes);
    assert_true(arena.lower_bound <= arena.peak_bytes && arena.peak_bytes <= arena.slot_bytes);
    if (memcmp(arena.name.data, "parameters", arena.name.size) != 0)
        assert_true(arena.slots == arena.max_live);
    free(bytes);
}

static void validate(const weir_plan *plan) {
    size_t count = weir_plan_describe(plan)->tensor_count;
    for (size_t i = 0; i < count; i++) {
        weir_plan_tensor a = weir_plan_tensor_at(plan, i);
        weir_plan_arena arena = weir_plan_arena_at(plan, a.arena);
        size_t found;
        assert_true(weir_plan_find(plan, a.id.data, a.id.size, &found) && found == i);
        assert_true(a.offset % arena.alignment == 0);
        assert_true(a.offset + rounded(a.size, arena.alignment) <= arena.peak_bytes);
        for (size_t k = 0; k < i; k++) {
            weir_plan_tensor b = weir_plan_tensor_at(plan, k);
            validate_pair(plan, &a, &b);
        }
    }
    for (size_t i = 0; i < weir_plan_describe(plan)->arena_count; i++)
        validate_arena(plan, i);
}

static void test_every_plan_is_valid(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < GRAPHS; seed++) {
        weir_graph *graph = graph_of(seed, (unsigned)seed);
        for (int mode = 0; mode < 3; mode++) {
            weir_plan *plan = plan_of(graph, plan_modes[mode]);
            validate(plan);
            weir_plan_close(plan);
        }
        weir_graph_close(graph);
    }
}

/* The validator must see what is wrong: a layout in which two live buffers share a byte. */
static void test_the_validator_can_fail(void **state) {
    (void)state;
    weir_error error;
    weir_buffer buffers[] = {{0, 4, 8}, {3, 5, 8}, {4, 6, 8}};
    uint64_t offsets[] = {0, 7, 0};
    weir_pack__fault fault;
    bool is_valid;
    uint64_t peak;
    assert_ok(weir_pack__validate(NULL, buffers, 3, 1, offsets, &is_valid, &peak, &fault, &error), &error);
    assert_false(is_valid);
    offsets[1] = 8;
    assert_ok(weir_pack__validate(NULL, buffers, 3, 1, offsets, &is_valid, &peak, &fault, &error), &error);
    assert_true(is_valid);
}

static void test_options(void **state) {
    (void)state;
    weir_error error;
    weir_plan *plan = NULL;
    weir_graph *graph = graph_of(1, 4);
    weir_plan_options options = options_of("forward");
    options.effort_plus_one = 11;
    assert_fails(weir_plan_make(NULL, graph, &options, &plan, &error), WEIR_CONTRACT_VIOLATION, &error);
    options = options_of("forward");
    options.preset = "train_full";
    assert_fails(weir_plan_make(NULL, graph, &options, &plan, &error), WEIR_INVALID_IR, &error);
    options = options_of(NULL);
    assert_fails(weir_plan_make(NULL, graph, &options, &plan, &error), WEIR_INVALID_IR, &error);
    options = options_of("forward");
    options.size = 0;
    assert_fails(weir_plan_make(NULL, graph, &options, &plan, &error), WEIR_CONTRACT_VIOLATION, &error);
    static const uint8_t token[WEIR_TOKEN_SIZE] = {1};
    options = options_of("forward");
    options.token = token;
    options.token_size = sizeof token - 1;
    assert_fails(weir_plan_make(NULL, graph, &options, &plan, &error), WEIR_CONTRACT_VIOLATION, &error);
    options.token_size = sizeof token;
    assert_ok(weir_plan_make(NULL, graph, &options, &plan, &error), &error);
    weir_plan_close(plan);
    static const uint64_t links[][2] = {{5, 0}, {0, 5}, {(uint64_t)1 << 56, 5}, {5, (uint64_t)1 << 56}};
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        options = options_of("forward");
        options.link = links[i][0];
        options.speed = links[i][1];
        assert_fails(weir_plan_make(NULL, graph, &options, &plan, &error), WEIR_INVALID_IR, &error);
        assert_non_null(strstr(error.message, "give both"));
    }
    weir_graph_close(graph);
}

/* A graph with far more nodes than tensors: time is long, memory must not be. */
static void test_more_nodes_than_tensors(void **state) {
    (void)state;
    enum { NODES = 200000 };
    weir_error error;
    weir_graph *graph = NULL;
    uint64_t shape = 16;
    weir_text x = text("x");
    weir_tensor_info info = {
        .id = x, .type = WEIR_TENSOR_F32, .role = WEIR_ROLE_PARAMETER, .shape = &shape, .rank = 1};
    assert_ok(weir_graph_create(NULL, text("readers"), &graph, &error), &error);
    assert_ok(weir_graph_add_tensor(graph, &info, &error), &error);
    for (unsigned i = 0; i < NODES; i++) {
        char id[16];
        snprintf(id, sizeof id, "n%u", i);
        weir_node_info node = {.id = text(id), .op = text("custom"), .inputs = &x, .input_count = 1};
        assert_ok(weir_graph_add_node(graph, &node, &error), &error);
    }
    assert_ok(weir_graph_finish(graph, &error), &error);
    weir_plan *plan = plan_of(graph, "backward");
    assert_int_equal(weir_plan_end(plan), 2 * NODES + 1);
    weir_plan_close(plan);
    weir_graph_close(graph);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void encode(const weir_plan *plan, weir_cbor_writer *w) {
    weir_error error;
    weir_cbor_writer_memory(w, NULL);
    weir_plan_write(plan, w);
    assert_ok(weir_cbor_finish(w, &error), &error);
}

static void assert_same_looks(const weir_plan *plan, const weir_plan *restored) {
    for (size_t i = 0; i < weir_plan_describe(plan)->tensor_count; i++) {
        weir_plan_tensor a = weir_plan_tensor_at(plan, i), b = weir_plan_tensor_at(restored, i);
        assert_true(a.type == b.type && a.role == b.role && a.rank == b.rank);
        assert_true(a.type != WEIR_TENSOR_UNKNOWN && a.role != WEIR_ROLE_UNKNOWN);
        assert_memory_equal(a.shape, b.shape, a.rank * sizeof *a.shape);
    }
}

static void test_restore(void **state) {
    (void)state;
    char path[] = "/tmp/weir-plan-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    for (uint64_t seed = 0; seed < GRAPHS; seed++) {
        weir_error error;
        weir_graph *graph = graph_of(seed, (unsigned)seed);
        for (int mode = 0; mode < 3; mode++) {
            weir_plan *plan = plan_of(graph, plan_modes[mode]);
            weir_plan *restored;
            weir_cbor_writer bytes[2];
            assert_ok(weir_plan_save(NULL, plan, path, &error), &error);
            assert_ok(weir_plan_restore_file(NULL, path, &restored, &error), &error);
            assert_memory_equal(weir_plan_describe(plan)->hashes, weir_plan_describe(restored)->hashes,
                                sizeof(weir_plan_hashes));
            encode(plan, &bytes[0]);
            encode(restored, &bytes[1]);
            assert_int_equal(bytes[0].size, bytes[1].size);
            assert_memory_equal(bytes[0].data, bytes[1].data, bytes[0].size);
            assert_null(weir_plan_describe(restored)->token);
            validate(restored);
            assert_same_looks(plan, restored);
            weir_cbor_release(&bytes[0]);
            weir_cbor_release(&bytes[1]);
            weir_plan_close(plan);
            weir_plan_close(restored);
        }
        weir_graph_close(graph);
    }
    unlink(path);
}

/* What tensors are is refused if it is another plan's, or does not fit the plan; alone the plan is restored
 * without. */
static void test_damaged_looks(void **state) {
    (void)state;
    weir_error error;
    weir_graph *graph = graph_of(3, 6), *other_graph = graph_of(4, 6);
    weir_plan *plan = plan_of(graph, "backward"), *other = plan_of(other_graph, "backward"), *restored;
    weir_cbor_writer w, foreign;
    encode(plan, &w);
    encode(plan, &foreign);
    size_t plan_size = w.size;
    assert_ok(weir_plan_restore(NULL, w.data, plan_size, "bare", &restored, &error), &error);
    assert_int_equal(weir_plan_tensor_at(restored, 0).type, WEIR_TENSOR_UNKNOWN);
    weir_plan_write_tensors(restored, &w);
    assert_int_equal(w.size, plan_size);
    weir_plan_close(restored);
    weir_plan_write_tensors(plan, &w);
    weir_plan_write_tensors(other, &foreign);
    assert_ok(weir_cbor_finish(&w, &error), &error);
    assert_fails(weir_plan_restore(NULL, foreign.data, foreign.size, "foreign", &restored, &error),
                 WEIR_INVALID_IR, &error);
    for (size_t size = plan_size + 1; size < w.size; size++)
        assert_fails(weir_plan_restore(NULL, w.data, size, "cut", &restored, &error), WEIR_CBOR_INVALID,
                     &error);
    uint64_t refused = 0;
    for (size_t bit = 8 * plan_size; bit < 8 * w.size; bit++) {
        w.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        weir_status status = weir_plan_restore(NULL, w.data, w.size, "flipped", &restored, &error);
        refused += status != WEIR_OK;
        if (status == WEIR_OK) { /* another role, or a dimension that comes to the same size */
            validate(restored);
            weir_plan_close(restored);
        }
        w.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_true(refused > 7 * (w.size - plan_size));
    weir_cbor_release(&w);
    weir_cbor_release(&foreign);
    weir_plan_close(plan);
    weir_plan_close(other);
    weir_graph_close(graph);
    weir_graph_close(other_graph);
}

/* A changed plan is refused, or is a valid plan again: one that says another offset, say, that is free too.
 */
static void test_damaged_plans(void **state) {
    (void)state;
    weir_error error;
    weir_graph *graph = graph_of(3, 6);
    weir_plan *plan = plan_of(graph, "backward");
    weir_plan *restored;
    weir_cbor_writer w;
    uint64_t refused = 0;
    encode(plan, &w);
    for (size_t size = 0; size < w.size; size++)
        assert_fails(weir_plan_restore(NULL, w.data, size, "cut", &restored, &error), WEIR_CBOR_INVALID,
                     &error);
    for (size_t bit = 0; bit < 8 * w.size; bit++) {
        w.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        weir_status status = weir_plan_restore(NULL, w.data, w.size, "flipped", &restored, &error);
        refused += status != WEIR_OK;
        if (status == WEIR_OK) {
            validate(restored);
            weir_plan_close(restored);
        }
        w.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_true(refused > 4 * w.size);
    weir_cbor_release(&w);
    weir_plan_close(plan);
    weir_graph_close(graph);
}

/* ---- Arenas ---------------------------------------------------------------------------------- */

static uint8_t pattern(size_t tensor, size_t at) {
    return (uint8_t)(17 * tensor + 5 * at + (at >> 8) + 1);
}

static uint8_t *memory_of(const weir_arenas *arenas, const weir_plan_tensor *tensor, size_t *size) {
    weir_error error;
    void *memory;
    assert_ok(weir_arenas_tensor(arenas, tensor->id.data, tensor->id.size, &memory, size, &error), &error);
    assert_true(*size == tensor->size);
    return memory;
}

static void check_resolves(const weir_plan *plan, const weir_arenas *arenas, const weir_plan_tensor *tensor,
                           uint64_t position) {
    weir_error error;
    void *memory;
    size_t size;
    size_t own_size;
    weir_text arena = weir_plan_arena_at(plan, tensor->arena).name;
    weir_status status = weir_arenas_resolve(arenas, arena.data, arena.size, tensor->address, position,
                                             &memory, &size, &error);
    bool is_live = tensor->birth <= position && position < tensor->death;
    if (is_live) {
        assert_ok(status, &error);
        assert_ptr_equal(memory, memory_of(arenas, tensor, &own_size));
        assert_int_equal(size, own_size);
    } else if (status != WEIR_OK) {
        assert_int_equal(status, WEIR_CONTRACT_VIOLATION);
    }
}

/* At each position: what is born is written, then all that is live must hold what it was given. */
static void execute(const weir_plan *plan, const weir_arenas *arenas) {
    size_t count = weir_plan_describe(plan)->tensor_count;
    for (uint64_t p = 0; p < weir_plan_end(plan); p++) {
        for (size_t i = 0; i < count; i++) {
            weir_plan_tensor tensor = weir_plan_tensor_at(plan, i);
            size_t size;
            uint8_t *memory = memory_of(arenas, &tensor, &size);
            for (size_t at = 0; tensor.birth == p && at < size; at++)
                memory[at] = pattern(i, at);
        }
        for (size_t i = 0; i < count; i++) {
            weir_plan_tensor tensor = weir_plan_tensor_at(plan, i);
            size_t size;
            uint8_t *memory = memory_of(arenas, &tensor, &size);
            check_resolves(plan, arenas, &tensor, p);
            for (size_t at = 0; tensor.birth <= p && p < tensor.death && at < size; at++)
                assert_int_equal(memory[at], pattern(i, at));
        }
    }
}

static void test_tensors_stay_intact(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 24; seed++) {
        weir_graph *graph = graph_of(seed, 2 + (unsigned)seed);
        for (int mode = 0; mode < 3; mode++) {
            weir_error error;
            weir_arenas *arenas;
            weir_plan *plan = plan_of(graph, plan_modes[mode]);
            assert_ok(weir_arenas_open(NULL, plan, NULL, &arenas, &error), &error);
            execute(plan, arenas);
            weir_arenas_close(arenas);
            weir_plan_close(plan);
        }
        weir_graph_close(graph);
    }
}

static void test_memory_is_zeroed_and_aligned(void **state) {
    (void)state;
    static const char settings[] = "{\"activations\": {\"alignment_bytes\": 4194304}}";
    weir_error error;
    weir_arenas *arenas;
    weir_plan *plan = NULL;
    weir_graph *graph = graph_of(8, 12);
    weir_plan_options options = options_of("backward");
    options.arenas = (weir_document){settings, strlen(settings), NULL};
    assert_ok(weir_plan_make(NULL, graph, &options, &plan, &error), &error);
    assert_ok(weir_arenas_open(NULL, plan, NULL, &arenas, &error), &error);
    weir_plan_arena last = {0};
    for (size_t i = 0; i < weir_plan_describe(plan)->arena_count; i++) {
        weir_plan_arena arena = weir_plan_arena_at(plan, i);
        size_t size;
        uint8_t *base = weir_arenas_base(arenas, arena.name.data, arena.name.size, &size);
        assert_true(size == arena.peak_bytes);
        assert_true((uintptr_t)base % arena.alignment == 0);
        for (size_t at = 0; at < size; at += 61)
            assert_int_equal(base[at], 0);
        last = arena;
    }
    size_t size;
    assert_null(weir_arenas_base(arenas, "none", 4, &size));
    void *memory;
    assert_fails(weir_arenas_resolve(arenas, last.name.data, last.name.size, 1, 0, &memory, &size, &error),
                 WEIR_CONTRACT_VIOLATION, &error);
    assert_fails(weir_arenas_tensor(arenas, "none", 4, &memory, &size, &error), WEIR_CONTRACT_VIOLATION,
                 &error);
    weir_arenas_close(arenas);
    weir_plan_close(plan);
    weir_graph_close(graph);
}

static void test_zero_and_fill(void **state) {
    (void)state;
    weir_error error;
    weir_arenas *arenas;
    weir_graph *graph = graph_of(9, 5);
    weir_plan *plan = plan_of(graph, "forward");
    const weir_plan_info *info = weir_plan_describe(plan);
    weir_arenas_options options = {
        .size = sizeof options, .fill_token = info->token, .fill_token_size = info->token_size};
    assert_ok(weir_arenas_open(NULL, plan, &options, &arenas, &error), &error);
    weir_plan_tensor tensor = weir_plan_tensor_at(plan, 0);
    for (size_t i = 1; i < weir_plan_describe(plan)->tensor_count; i++)
        if (weir_plan_tensor_at(plan, i).size > tensor.size)
            tensor = weir_plan_tensor_at(plan, i);
    size_t size;
    uint8_t *memory = memory_of(arenas, &tensor, &size);
    assert_true(size > 8);

    assert_ok(
        weir_arenas_debug_fill(arenas, tensor.id.data, tensor.id.size, info->token, info->token_size, &error),
        &error);
    uint8_t *expected = malloc(size);
    uint8_t key[32];
    uint8_t message[17] = "tmmu_fill";
    weir__blake3 hasher;
    weir__blake3_of(info->token, info->token_size, key);
    for (unsigned i = 0; i < 8; i++)
        message[9 + i] = (uint8_t)(tensor.address >> 8 * i);
    weir__blake3_init_keyed(&hasher, key);
    weir__blake3_update(&hasher, message, sizeof message);
    weir__blake3_final(&hasher, expected, size);
    assert_memory_equal(memory, expected, size);

    assert_ok(weir_arenas_zero(arenas, tensor.id.data, tensor.id.size, &error), &error);
    memset(expected, 0, size);
    assert_memory_equal(memory, expected, size);
    assert_fails(weir_arenas_debug_fill(arenas, tensor.id.data, tensor.id.size, info->token, 63, &error),
                 WEIR_CONTRACT_VIOLATION, &error);
    assert_fails(weir_arenas_zero(arenas, "none", 4, &error), WEIR_CONTRACT_VIOLATION, &error);
    free(expected);
    weir_arenas_close(arenas);
    weir_plan_close(plan);
    weir_graph_close(graph);
}

static void test_commit(void **state) {
    (void)state;
    weir_error error;
    weir_arenas *arenas;
    weir_graph *graph = graph_of(2, 3);
    weir_plan *plan = plan_of(graph, "inference");
    uint8_t commits[3][WEIR_HASH_SIZE];
    uint8_t expected[WEIR_HASH_SIZE];
    weir_cbor_writer w;
    weir_plan_hashes hashes = *weir_plan_describe(plan)->hashes; /* the plan is closed before the arenas */
    assert_ok(weir_arenas_open(NULL, plan, NULL, &arenas, &error), &error);
    weir_plan_close(plan);
    assert_ok(weir_arenas_commit(arenas, 7, commits[0], &error), &error);
    assert_ok(weir_arenas_commit(arenas, 8, commits[1], &error), &error);
    assert_ok(weir_arenas_commit(arenas, 7, commits[2], &error), &error);
    assert_memory_equal(commits[0], commits[2], WEIR_HASH_SIZE);
    assert_memory_not_equal(commits[0], commits[1], WEIR_HASH_SIZE);
    weir_cbor_writer_memory(&w, NULL);
    weir_cbor_array(&w, 3);
    weir_cbor_text(&w, "tmmu_commit_v1");
    weir_cbor_bytes(&w, hashes.plan, WEIR_HASH_SIZE);
    weir_cbor_uint(&w, 7);
    assert_ok(weir_cbor_finish(&w, &error), &error);
    weir__sha256_of(w.data, w.size, expected);
    assert_memory_equal(commits[0], expected, WEIR_HASH_SIZE);
    weir_cbor_release(&w);
    weir_arenas_close(arenas);
    weir_graph_close(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_plan_is_valid),
        cmocka_unit_test(test_the_validator_can_fail),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_more_nodes_than_tensors),
        cmocka_unit_test(test_restore),
        cmocka_unit_test(test_damaged_plans),
        cmocka_unit_test(test_damaged_looks),
        cmocka_unit_test(test_tensors_stay_intact),
        cmocka_unit_test(test_memory_is_zeroed_and_aligned),
        cmocka_unit_test(test_zero_and_fill),
        cmocka_unit_test(test_commit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
