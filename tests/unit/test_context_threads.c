/* Contexts whose walks several threads take together: for any number of them the bytes that one gives, also
 * of a store that nobody has walked before, whose links threads write while others read them, and of a
 * damaged one; nothing is allocated after open; what cannot be started is told; a child of fork, which has no
 * helpers, does without. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "batch/builder.h"
#include "support/made_store.h"
#include "support/testing.h"

enum { REQUESTS = 6 };

static const char config[] =
    "\"sequence_length\": 500, \"max_rows\": 200, \"max_hops\": 3, \"child_policy\": \"latest\", "
    "\"label_visibility\": \"all\", \"labels\": true, "
    "\"retrieval\": {\"walks\": [3000, 4100], \"length\": 20, \"local_cells\": 12}";

static uint8_t *bytes;
static size_t size;

typedef struct asked {
    weir_store *store;
    weir_manifest *manifest;
    weir_batch_builder *builder;
    weir_batch_buffer *buffer;
} asked;

/* The task of the made store that says when its labels are known. */
static uint32_t task_of(const weir_store *store) {
    const weir_store_info *info = weir_store_describe(store);
    uint32_t task = 0;
    while (task < info->task_count && !info->tasks[task].has_label_times)
        task++;
    assert_true(task < info->task_count);
    return task;
}

static weir_status try_to_open(asked *a, const weir_env *env, weir_store *store, uint32_t threads,
                               weir_error *error) {
    uint32_t task = task_of(store);
    *a = (asked){.store = store, .manifest = make_store_manifest(store, task, WEIR_TRAIN, 1, config)};
    assert_non_null(a->manifest);
    weir_context_options options = {.size = sizeof options,
                                    .store = store,
                                    .manifest = a->manifest,
                                    .task = weir_store_describe(store)->tasks[task].name,
                                    .with_digests = true,
                                    .threads = threads};
    weir_status status = weir_context_builder_open(env, &options, &a->builder, error);
    if (status == WEIR_OK)
        status = weir_batch_buffer_open(&a->builder, 1, NULL, &a->buffer, error);
    return status;
}

static weir_store *open_store(void) {
    weir_store *store;
    weir_error error;
    assert_ok(weir_store_open_memory(NULL, bytes, size, &store, &error), &error);
    return store;
}

static asked open_asked(const weir_env *env, weir_store *store, uint32_t threads) {
    weir_error error;
    asked a;
    assert_ok(try_to_open(&a, env, store, threads, &error), &error);
    return a;
}

static void close_asked(asked *a) {
    weir_batch_buffer_close(a->buffer);
    weir_batch_builder_close(a->builder);
    weir_manifest_close(a->manifest);
}

/* Request number i: a row of the anchor table at the time of a seed, or later. */
static weir_status ask(asked *a, uint32_t i, weir_error *error) {
    const weir_store_info *info = weir_store_describe(a->store);
    const weir_task *task = &info->tasks[task_of(a->store)];
    weir_seed_row seed = {0};
    (void)weir_store_seed(a->store, task_of(a->store), i * 31 % task->seed_count, &seed);
    weir_context_request request = {.row = info->tables[task->anchor_table].first_number + i * 7,
                                    .has_time = i % 2,
                                    .time = seed.observation_time,
                                    .has_seed = true,
                                    .seed = i};
    return weir_context_build(a->builder, &request, 1, a->buffer, error);
}

static void assert_same(const weir_batch *a, const weir_batch *b) {
    assert_int_equal(a->size, b->size);
    assert_int_equal(a->row_count, b->row_count);
    assert_memory_equal(a->visits, b->visits, a->row_count * sizeof *a->visits);
    assert_memory_equal(a->sample_digests, b->sample_digests, sizeof *a->sample_digests);
    for (int id = 0; id < WEIR_BATCH_PARTS; id++)
        assert_memory_equal(a->data + a->tensors[id].offset, b->data + b->tensors[id].offset,
                            (size_t)a->tensors[id].size);
}

static void test_any_number_of_threads_gives_the_same_bytes(void **state) {
    static const uint32_t threads[] = {2, 3, 8};
    (void)state;
    weir_error error;
    uint32_t examples = 0;
    weir_store *own = open_store();
    asked alone = open_asked(NULL, own, 1);
    assert_null(alone.builder->worker.retriever.team);
    for (uint32_t round = 0; round < 60; round += test_stride()) {
        weir_store *store = open_store(); /* of which nothing is known */
        asked together = open_asked(NULL, store, threads[round % 3]);
        assert_int_equal(together.builder->team.crew.helper_count, threads[round % 3] - 1);
        for (uint32_t i = round; i < round + REQUESTS; i++) {
            assert_ok(ask(&alone, i, &error), &error);
            assert_ok(ask(&together, i, &error), &error);
            const weir_batch *batch = weir_batch_view(alone.buffer);
            assert_same(batch, weir_batch_view(together.buffer));
            for (uint32_t k = 0; k < batch->row_count; k++)
                examples += batch->visits[k] != WEIR_NONE && batch->visits[k] > 1;
        }
        close_asked(&together);
        weir_store_close(store);
    }
    assert_true(examples > 100);
    close_asked(&alone);
    weir_store_close(own);
}

static void test_nothing_is_allocated_after_open(void **state) {
    (void)state;
    fault_env faults;
    weir_error error;
    uint64_t before[FAULT_KINDS];
    fault_env_init(&faults);
    weir_store *store = open_store();
    asked a = open_asked(&faults.env, store, 3);
    memcpy(before, faults.calls, sizeof before);
    for (uint32_t i = 0; i < REQUESTS; i++)
        assert_ok(ask(&a, i, &error), &error);
    assert_memory_equal(before, faults.calls, sizeof before);
    close_asked(&a);
    weir_store_close(store);
    assert_int_equal(faults.live_allocations, 0);
    assert_int_equal(faults.live_maps, 0);
}

static weir_status open_and_ask(const weir_env *env, void *store, weir_error *error) {
    asked a;
    weir_status status = try_to_open(&a, env, store, 3, error);
    if (status == WEIR_OK)
        status = ask(&a, 1, error);
    close_asked(&a);
    return status;
}

static void test_opening_survives_faults(void **state) {
    (void)state;
    weir_store *store = open_store();
    assert_true(sweep_faults(open_and_ask, NULL, store) > 5);
    weir_store_close(store);
}

static int start_no_thread(void *context, void *(*run)(void *), void *argument, uintptr_t *thread) {
    (void)context;
    (void)run;
    (void)argument;
    (void)thread;
    return 11;
}

static void test_wrong_numbers_of_threads_are_refused(void **state) {
    (void)state;
    weir_error error;
    asked a;
    weir_env env = *weir_env_default();
    weir_store *store = open_store();
    env.start_thread = start_no_thread;
    assert_fails(try_to_open(&a, NULL, store, 257, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_non_null(strstr(error.message, "256"));
    close_asked(&a);
    assert_fails(try_to_open(&a, &env, store, 2, &error), WEIR_OUT_OF_MEMORY, &error);
    assert_non_null(strstr(error.message, "thread 2 of 2"));
    close_asked(&a);
    assert_ok(try_to_open(&a, &env, store, 1, &error), &error);
    close_asked(&a);
    weir_store_close(store);
}

/* By default two threads where there are two processors: 4,100 walks of 20 steps are many. */
static void test_the_default_follows_the_walks(void **state) {
    (void)state;
    weir_store *store = open_store();
    asked a = open_asked(NULL, store, 0);
    uint32_t expected = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 2 : 1;
    assert_int_equal(weir_batch__team_size(&a.builder->recipe, 0), expected);
    a.builder->recipe.config.retrieval.walks.count = 1;
    a.builder->recipe.config.retrieval.walks.values[0] = 2499;
    assert_int_equal(weir_batch__team_size(&a.builder->recipe, 0), 1);
    a.builder->recipe.config.retrieval.walks.values[0] = 2500;
    assert_int_equal(weir_batch__team_size(&a.builder->recipe, 0), expected);
    assert_int_equal(weir_batch__team_size(&a.builder->recipe, 5), 5);
    a.builder->recipe.config.has_retrieval = false;
    assert_int_equal(weir_batch__team_size(&a.builder->recipe, 5), 1);
    close_asked(&a);
    weir_store_close(store);
}

static void test_a_child_of_fork_does_without(void **state) {
    (void)state;
    weir_error error;
    weir_store *store = open_store();
    asked a = open_asked(NULL, store, 2);
    assert_ok(ask(&a, 3, &error), &error);
    uint64_t digest = weir_batch_view(a.buffer)->sample_digests[0];
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool is_same = ask(&a, 4, &error) == WEIR_OK && ask(&a, 3, &error) == WEIR_OK &&
                       weir_batch_view(a.buffer)->sample_digests[0] == digest;
        close_asked(&a);
        _exit(is_same ? 0 : 1);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    assert_ok(ask(&a, 3, &error), &error);
    assert_int_equal(weir_batch_view(a.buffer)->sample_digests[0], digest);
    close_asked(&a);
    weir_store_close(store);
}

/* Random damage after the metadata: a context or STORE_CORRUPT, never a stray access, and what one thread
 * says three say. */
static void test_a_damaged_store_is_damaged_for_all(void **state) {
    (void)state;
    random_stream random = {23};
    weir_error error;
    uint32_t refused = 0;
    uint8_t *copy = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    assert_non_null(copy);
    for (uint32_t round = 0; round < 40; round += (test_stride() + 1) / 2) {
        weir_store_options opening = {.size = sizeof opening,
                                      .verify = round % 4 ? WEIR_VERIFY_NONE : WEIR_VERIFY_TOUCHED,
                                      .data = copy,
                                      .data_size = size};
        weir_store *damaged;
        memcpy(copy, bytes, size);
        for (uint64_t i = 0; i < 20; i++)
            copy[8192 + random_below(&random, size - 8192)] = (uint8_t)random_next(&random);
        if (weir_store_open_with(NULL, "the store", &opening, &damaged, NULL) != WEIR_OK)
            continue;
        asked alone = open_asked(NULL, damaged, 1), together = open_asked(NULL, damaged, 3);
        for (uint32_t i = 0; i < REQUESTS; i++) {
            weir_status status = ask(&together, i, &error);
            assert_true(status == WEIR_OK || status == WEIR_STORE_CORRUPT);
            assert_int_equal(ask(&alone, i, &error), status);
            refused += status != WEIR_OK;
            if (status == WEIR_OK)
                assert_same(weir_batch_view(alone.buffer), weir_batch_view(together.buffer));
        }
        close_asked(&alone);
        close_asked(&together);
        weir_store_close(damaged);
    }
    assert_true(refused > 0);
    free(copy);
}

static int set_up(void **state) {
    static const made_sizes sizes = {.tables = 4,
                                     .columns = 3,
                                     .edges = 2,
                                     .rows = 4000,
                                     .tasks = 4,
                                     .seeds = 3000,
                                     .dim = 4,
                                     .has_labels = true,
                                     .is_exact = true};
    (void)state;
    bytes = make_store_bytes(9, &sizes, &size);
    return bytes ? 0 : 1;
}

static int tear_down(void **state) {
    (void)state;
    free(bytes);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_number_of_threads_gives_the_same_bytes),
        cmocka_unit_test(test_nothing_is_allocated_after_open),
        cmocka_unit_test(test_opening_survives_faults),
        cmocka_unit_test(test_wrong_numbers_of_threads_are_refused),
        cmocka_unit_test(test_the_default_follows_the_walks),
        cmocka_unit_test(test_a_child_of_fork_does_without),
        cmocka_unit_test(test_a_damaged_store_is_damaged_for_all),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
