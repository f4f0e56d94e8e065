/* Arenas: addresses that stay while the memory behind them is given back, replaced, moved and shared, on the
 * host and on a device; what is refused; positions; a child of fork. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/fake_driver.h"
#include "support/random_graph.h"

static fake_driver fake;

/* A plan of one arena: `count` tensors of `size` bytes, all live together. */
static weir_plan *plan_of_tensors(unsigned count, uint64_t size, const char *settings) {
    weir_error error;
    weir_graph *graph = NULL;
    weir_plan *plan = NULL;
    weir_plan_options options = {.size = sizeof options, .mode = "forward"};
    options.arenas = (weir_document){settings, settings ? strlen(settings) : 0, NULL};
    assert_ok(weir_graph_create(NULL, (weir_text){"g", 1}, &graph, &error), &error);
    for (unsigned i = 0; i < count; i++) {
        char id = (char)('a' + i);
        weir_tensor_info tensor = {
            .id = {&id, 1}, .type = WEIR_TENSOR_U8, .role = WEIR_ROLE_INPUT, .shape = &size, .rank = 1};
        assert_ok(weir_graph_add_tensor(graph, &tensor, &error), &error);
    }
    assert_ok(weir_graph_finish(graph, &error), &error);
    assert_ok(weir_plan_make(NULL, graph, &options, &plan, &error), &error);
    weir_graph_close(graph);
    return plan;
}

static const char arena[] = "activations";
enum { ARENA_NAME = sizeof arena - 1, TENSORS = 4, BYTES = 1 << 16 };

static weir_arenas *open_on(const weir_plan *plan, weir_device *device, bool is_empty) {
    weir_error error;
    weir_arenas *arenas;
    weir_arenas_options options = {.size = sizeof options, .is_empty = is_empty, .reserves_capacity = true};
    if (device)
        options.memory = weir_device_memory(device);
    assert_ok(weir_arenas_open(NULL, plan, &options, &arenas, &error), &error);
    return arenas;
}

static uint8_t *at(const weir_arenas *arenas, unsigned tensor) {
    weir_error error;
    void *memory;
    size_t size;
    char id = (char)('a' + tensor);
    assert_ok(weir_arenas_tensor(arenas, &id, 1, &memory, &size, &error), &error);
    assert_int_equal(size, BYTES);
    return memory;
}

static void put(weir_device *device, uint8_t *to, uint8_t byte) {
    weir_error error;
    uint8_t bytes[BYTES];
    memset(bytes, byte, sizeof bytes);
    if (!device) {
        memcpy(to, bytes, sizeof bytes);
        return;
    }
    assert_ok(weir_copy_to_device(device, to, bytes, sizeof bytes, 0, &error), &error);
    assert_ok(weir_stream_sync(device, 0, &error), &error);
}

static void assert_bytes(weir_device *device, const uint8_t *from, uint8_t byte) {
    weir_error error;
    static uint8_t bytes[BYTES], expected[BYTES];
    memset(expected, byte, sizeof expected);
    if (device) {
        assert_ok(weir_copy_to_host(device, bytes, from, sizeof bytes, 0, &error), &error);
        assert_ok(weir_stream_sync(device, 0, &error), &error);
    } else {
        memcpy(bytes, from, sizeof bytes);
    }
    assert_memory_equal(bytes, expected, sizeof bytes);
}

static weir_status remap(weir_arenas *arenas, weir_remap_target target, uint64_t offset, uint64_t bytes,
                         const weir_backing *backing, bool keeps, weir_error *error) {
    weir_remap request = {.size = sizeof request,
                          .target = target,
                          .offset = offset,
                          .bytes = bytes,
                          .backing = backing,
                          .keeps = keeps};
    return weir_arenas_remap(arenas, arena, ARENA_NAME, &request, error);
}

static weir_backing *backing_on(weir_device *device, size_t size) {
    weir_error error;
    weir_backing *backing;
    weir_memory memory = device ? weir_device_memory(device) : (weir_memory){0};
    assert_ok(weir_backing_open(NULL, &memory, size, &backing, &error), &error);
    assert_int_equal(weir_backing_size(backing), size);
    return backing;
}

/* ---- On every kind of memory ------------------------------------------------------------------- */

static void fill_all(weir_device *device, weir_arenas *arenas) {
    for (unsigned i = 0; i < TENSORS; i++)
        put(device, at(arenas, i), (uint8_t)(0x11 * (i + 1)));
}

static void check_giving_back(weir_device *device, weir_arenas *arenas) {
    weir_error error;
    uint8_t *first = at(arenas, 0), *second = at(arenas, 1);
    fill_all(device, arenas);
    assert_ok(remap(arenas, WEIR_REMAP_NOTHING, BYTES, BYTES, NULL, false, &error), &error);
    assert_int_equal(weir_arenas_pages(arenas, arena, ARENA_NAME).backed_bytes, (TENSORS - 1) * BYTES);
    assert_ptr_equal(at(arenas, 1), second); /* the address stays */
    assert_false(weir_arenas_has_memory(arenas, second, 1));
    assert_true(weir_arenas_has_memory(arenas, first, BYTES));
    assert_false(weir_arenas_has_memory(arenas, first, BYTES + 1));
    assert_fails(weir_arenas_zero(arenas, "b", 1, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_non_null(strstr(error.message, "'b'"));
    uint8_t hash[WEIR_HASH_SIZE];
    assert_fails(weir_arenas_prepare(arenas, 1, hash, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_ok(remap(arenas, WEIR_REMAP_NEW, BYTES, BYTES, NULL, false, &error), &error);
    assert_bytes(device, first, 0x11);
    assert_bytes(device, second, 0);
}

static void check_moving(weir_device *device, weir_arenas *arenas) {
    weir_error error;
    fill_all(device, arenas);
    assert_ok(remap(arenas, WEIR_REMAP_NOTHING, 0, BYTES, NULL, false, &error), &error);
    assert_ok(remap(arenas, WEIR_REMAP_NEW, 0, 3 * BYTES, NULL, true, &error), &error);
    assert_bytes(device, at(arenas, 0), 0); /* it had nothing to keep */
    for (unsigned i = 1; i < TENSORS; i++)
        assert_bytes(device, at(arenas, i), (uint8_t)(0x11 * (i + 1)));
    assert_ok(remap(arenas, WEIR_REMAP_NEW, 0, 0, NULL, false, &error), &error);
    for (unsigned i = 0; i < TENSORS; i++)
        assert_bytes(device, at(arenas, i), 0);
}

/* Two sets over one backing see each other's bytes, before and after the backing is closed. */
static void check_sharing(weir_device *device, weir_arenas *arenas, weir_arenas *other) {
    weir_error error;
    weir_backing *backing = backing_on(device, 2 * BYTES);
    fill_all(device, arenas);
    assert_ok(remap(arenas, WEIR_REMAP_BACKING, 0, 2 * BYTES, backing, true, &error), &error);
    assert_bytes(device, at(arenas, 0), 0x11);
    assert_ok(remap(other, WEIR_REMAP_BACKING, 2 * BYTES, 2 * BYTES, backing, false, &error), &error);
    assert_bytes(device, at(other, 3), 0x22);
    weir_backing_close(backing);
    put(device, at(other, 2), 0x77);
    assert_bytes(device, at(arenas, 0), 0x77);
    assert_bytes(device, at(arenas, 2), 0x33);

    weir_status cut = remap(arenas, WEIR_REMAP_NOTHING, BYTES, BYTES, NULL, false, &error);
    assert_int_equal(cut,
                     device && !weir_device_describe(device)->is_host ? WEIR_CONTRACT_VIOLATION : WEIR_OK);
    assert_ok(remap(arenas, WEIR_REMAP_NEW, 0, 2 * BYTES, NULL, true, &error), &error);
    put(device, at(other, 2), 0x78);
    assert_bytes(device, at(arenas, 0), 0x77); /* its own again */
}

static void check_refusals(weir_device *device, weir_arenas *arenas) {
    weir_error error;
    weir_backing *backing = backing_on(device, BYTES);
    static const weir_remap wrong[] = {
        {.size = sizeof wrong[0], .offset = 1, .bytes = BYTES},
        {.size = sizeof wrong[0], .offset = 0, .bytes = 1},
        {.size = sizeof wrong[0], .offset = (uint64_t)1 << 40, .bytes = BYTES},
        {.size = sizeof wrong[0], .offset = (uint64_t)1 << 40},
        {.size = sizeof wrong[0], .offset = BYTES, .bytes = UINT64_MAX - BYTES + 1},
        {.size = sizeof wrong[0], .target = WEIR_REMAP_BACKING, .bytes = BYTES},
        {.size = sizeof wrong[0], .target = (weir_remap_target)9, .bytes = BYTES},
        {.target = WEIR_REMAP_NEW},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_fails(weir_arenas_remap(arenas, arena, ARENA_NAME, &wrong[i], &error), WEIR_CONTRACT_VIOLATION,
                     &error);
    assert_fails(remap(arenas, WEIR_REMAP_BACKING, 0, 2 * BYTES, backing, false, &error),
                 WEIR_CONTRACT_VIOLATION, &error);
    weir_remap beyond = {.size = sizeof beyond,
                         .target = WEIR_REMAP_BACKING,
                         .bytes = BYTES,
                         .backing = backing,
                         .backing_offset = BYTES};
    assert_fails(weir_arenas_remap(arenas, arena, ARENA_NAME, &beyond, &error), WEIR_CONTRACT_VIOLATION,
                 &error);
    weir_remap fine = {.size = sizeof fine};
    assert_fails(weir_arenas_remap(arenas, "none", 4, &fine, &error), WEIR_CONTRACT_VIOLATION, &error);
    weir_backing_close(backing);
    assert_int_equal(weir_arenas_pages(arenas, "none", 4).range_bytes, 0);
    assert_false(weir_arenas_has_memory(arenas, &fine, 1));
    assert_true(weir_arenas_has_memory(arenas, &fine, 0));
}

static void check_kind(weir_device *device) {
    static const char settings[] =
        "{\"activations\": {\"page_size\": 65536, \"capacity_bytes\": 524288, \"alignment_bytes\": 256}}";
    weir_error error;
    weir_plan *plan = plan_of_tensors(TENSORS, BYTES, settings);
    weir_arenas *arenas = open_on(plan, device, false), *other = open_on(plan, device, true);
    weir_plan_close(plan);
    weir_arena_pages pages = weir_arenas_pages(arenas, arena, ARENA_NAME);
    assert_int_equal(pages.page_size, BYTES);
    assert_int_equal(pages.range_bytes, 8 * BYTES); /* the capacity is reserved, the peak has memory */
    assert_int_equal(pages.backed_bytes, TENSORS * BYTES);
    assert_int_equal(weir_arenas_pages(other, arena, ARENA_NAME).backed_bytes, 0);
    assert_ok(remap(other, WEIR_REMAP_NEW, 0, TENSORS * BYTES, NULL, false, &error), &error);
    assert_ok(remap(other, WEIR_REMAP_NEW, TENSORS * BYTES, 0, NULL, false, &error), &error); /* it grows */
    assert_int_equal(weir_arenas_pages(other, arena, ARENA_NAME).backed_bytes, 8 * BYTES);
    check_giving_back(device, arenas);
    check_moving(device, arenas);
    check_sharing(device, arenas, other);
    check_refusals(device, arenas);
    uint8_t hash[WEIR_HASH_SIZE];
    assert_ok(weir_arenas_prepare(arenas, 3, hash, &error), &error);
    for (unsigned i = 0; i < TENSORS; i++)
        assert_bytes(device, at(arenas, i), 0);
    weir_arenas_close(other);
    weir_arenas_close(arenas);
}

static void test_remapping(void **state) {
    (void)state;
    check_kind(NULL);
    weir_status (*opens[])(const weir_env *, weir_device **, weir_error *) = {open_fake_device,
                                                                              open_host_device};
    for (size_t k = 0; k < 2; k++) {
        weir_error error;
        weir_device *device;
        fake.reset();
        assert_ok(opens[k](NULL, &device, &error), &error);
        check_kind(device);
        weir_device_close(device);
        assert_int_equal(fake.live(), 0);
    }
}

/* Work that was given to a stream is done before its memory goes. */
static void test_remapping_waits(void **state) {
    (void)state;
    weir_error error;
    weir_device *device;
    weir_stream stream;
    uint8_t bytes[BYTES];
    fake.reset();
    assert_ok(open_fake_device(NULL, &device, &error), &error);
    weir_plan *plan = plan_of_tensors(TENSORS, BYTES, "{\"activations\": {\"page_size\": 65536}}");
    weir_arenas *arenas = open_on(plan, device, false);
    memset(bytes, 0x5a, sizeof bytes);
    assert_ok(weir_stream_open(device, &stream, &error), &error);
    assert_ok(weir_copy_to_device(device, at(arenas, 0), bytes, sizeof bytes, stream, &error), &error);
    assert_ok(remap(arenas, WEIR_REMAP_NEW, 0, BYTES, NULL, true, &error), &error);
    assert_bytes(device, at(arenas, 0), 0x5a);
    weir_stream_close(device, stream);
    weir_arenas_close(arenas);
    weir_plan_close(plan);
    weir_device_close(device);
    assert_int_equal(fake.live(), 0);
}

/* A driver that cannot map, and memory that is pinned: arenas work, and say that they cannot be remapped. */
static void test_memory_without_pages(void **state) {
    (void)state;
    weir_error error;
    weir_device *device;
    weir_backing *backing;
    fake.reset();
    fake.set_pages(false);
    assert_ok(open_fake_device(NULL, &device, &error), &error);
    weir_memory memory = weir_device_memory(device);
    weir_plan *plan = plan_of_tensors(TENSORS, BYTES, NULL);
    weir_arenas *arenas = open_on(plan, device, false);
    put(device, at(arenas, 1), 9);
    assert_bytes(device, at(arenas, 1), 9);
    assert_true(weir_arenas_has_memory(arenas, at(arenas, 0), TENSORS * BYTES));
    assert_int_equal(weir_arenas_pages(arenas, arena, ARENA_NAME).page_size, 0);
    assert_fails(remap(arenas, WEIR_REMAP_NEW, 0, 0, NULL, false, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_fails(weir_backing_open(NULL, &memory, BYTES, &backing, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_fails(weir_backing_open(NULL, NULL, 0, &backing, &error), WEIR_CONTRACT_VIOLATION, &error);
    weir_arenas_close(arenas);
    weir_plan_close(plan);
    weir_device_close(device);
    assert_int_equal(fake.live(), 0);
}

/* ---- On the host ------------------------------------------------------------------------------- */

static void test_positions(void **state) {
    (void)state;
    weir_error error;
    weir_arenas *arenas;
    weir_graph *graph = NULL;
    weir_plan *plan = NULL;
    weir_plan_options options = options_of("inference");
    assert_ok(random_graph(NULL, 5, 20, &graph, &error), &error);
    assert_ok(weir_plan_make(NULL, graph, &options, &plan, &error), &error);
    assert_ok(weir_arenas_open(NULL, plan, NULL, &arenas, &error), &error);
    for (size_t i = 0; i < weir_plan_describe(plan)->tensor_count; i++) {
        weir_plan_tensor tensor = weir_plan_tensor_at(plan, i);
        void *memory, *there;
        size_t size;
        assert_ok(weir_arenas_tensor(arenas, tensor.id.data, tensor.id.size, &memory, &size, &error), &error);
        uint64_t positions[] = {tensor.birth, tensor.death - 1, tensor.death, tensor.birth - 1, UINT64_MAX};
        for (size_t k = 0; k < 5; k++) {
            bool is_live = positions[k] >= tensor.birth && positions[k] < tensor.death;
            weir_status status = weir_arenas_tensor_at(arenas, tensor.id.data, tensor.id.size, positions[k],
                                                       &there, &size, &error);
            assert_int_equal(status, is_live ? WEIR_OK : WEIR_CONTRACT_VIOLATION);
            assert_true(!is_live || there == memory);
            if (!is_live)
                continue;
            assert_ok(
                weir_arenas_resolve(arenas, NULL, 0, tensor.address, positions[k], &there, &size, &error),
                &error);
            assert_ptr_equal(there, memory);
        }
    }
    void *memory;
    size_t size;
    assert_fails(weir_arenas_resolve(arenas, NULL, 0, 1, 0, &memory, &size, &error), WEIR_CONTRACT_VIOLATION,
                 &error);
    assert_fails(weir_arenas_tensor_at(arenas, "none", 4, 0, &memory, &size, &error), WEIR_CONTRACT_VIOLATION,
                 &error);
    weir_arenas_close(arenas);
    weir_plan_close(plan);
    weir_graph_close(graph);
}

static void test_nothing_to_hold(void **state) {
    (void)state;
    weir_error error;
    uint8_t hash[WEIR_HASH_SIZE];
    size_t size = 1;
    weir_plan *plan = plan_of_tensors(2, 0, NULL);
    weir_arenas *arenas = open_on(plan, NULL, false);
    assert_null(weir_arenas_base(arenas, arena, ARENA_NAME, &size));
    assert_int_equal(size, 0);
    assert_ok(weir_arenas_prepare(arenas, 0, hash, &error), &error);
    assert_fails(remap(arenas, WEIR_REMAP_NEW, 0, 0, NULL, false, &error), WEIR_CONTRACT_VIOLATION, &error);
    weir_arenas_close(arenas);
    weir_plan_close(plan);
}

/* A child has its own copy of private memory, and shares a backing. Closing in the child harms nobody. */
static void test_fork(void **state) {
    (void)state;
    weir_error error;
    weir_plan *plan = plan_of_tensors(TENSORS, BYTES, "{\"activations\": {\"page_size\": 65536}}");
    weir_arenas *arenas = open_on(plan, NULL, false);
    weir_backing *backing = backing_on(NULL, BYTES);
    assert_ok(remap(arenas, WEIR_REMAP_BACKING, BYTES, BYTES, backing, false, &error), &error);
    fill_all(NULL, arenas);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        memset(at(arenas, 0), 1, BYTES);
        memset(at(arenas, 1), 2, BYTES);
        weir_arenas_close(arenas);
        weir_backing_close(backing);
        _exit(0);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    assert_bytes(NULL, at(arenas, 0), 0x11);
    assert_bytes(NULL, at(arenas, 1), 2);
    weir_backing_close(backing);
    weir_arenas_close(arenas);
    weir_plan_close(plan);
}

static int set_up(void **state) {
    (void)state;
    fake_driver_open(&fake);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_remapping),
        cmocka_unit_test(test_remapping_waits),
        cmocka_unit_test(test_memory_without_pages),
        cmocka_unit_test(test_positions),
        cmocka_unit_test(test_nothing_to_hold),
        cmocka_unit_test(test_fork),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
