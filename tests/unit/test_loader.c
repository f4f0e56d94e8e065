/* Runs: for any number of workers and any world the batches are those that are built one by one; memory is
 * planned, limited and laid out as planned; errors come at their step. */
#include <stdlib.h>
#include <string.h>

#include "support/loading.h"

enum { STEPS = 30 };

/* ---- Order ----------------------------------------------------------------------------------- */

static void test_any_workers_in_any_world(void **state) {
    (void)state;
    static const uint32_t worlds[] = {1, 2, 4};
    loading_batch expected[STEPS], got[STEPS + 1];
    for (size_t w = 0; w < 3; w++)
        for (uint32_t rank = 0; rank < worlds[w]; rank++) {
            weir_loader_options options = loading_options(&fixture, manifest);
            options.world_size = worlds[w];
            options.rank = rank;
            options.steps = STEPS;
            loading_build(&options, 0, STEPS, expected);
            for (uint32_t workers = 1; workers <= 8; workers++) {
                options.workers = workers;
                options.buffer_size = 1 + workers % 3;
                options.queue_size = 1 + workers % 2;
                assert_int_equal(loading_run(&options, STEPS + 1, got), STEPS);
                assert_batches_equal(expected, got, STEPS);
            }
        }
}

static void test_one_dataset_by_name(void **state) {
    (void)state;
    loading_batch expected[STEPS], got[STEPS];
    weir_loader_options options = loading_options(&fixture, manifest);
    options.dataset = "shop/churn/train";
    options.workers = 3;
    loading_build(&options, 0, STEPS, expected); /* several epochs of it */
    assert_int_equal(loading_run(&options, STEPS, got), STEPS);
    assert_batches_equal(expected, got, STEPS);
}

static void test_eval_is_one_pass(void **state) {
    (void)state;
    static const weir_stage stages[] = {WEIR_STAGE_EVAL, WEIR_STAGE_INFER};
    loading_batch expected[STEPS], got[STEPS];
    const weir_dataset *dataset = weir_manifest_find(manifest, "shop/churn/val");
    size_t pass = (size_t)((dataset->cardinality + 7) / 8);
    assert_in_range(pass, 2, STEPS - 1);
    for (size_t s = 0; s < 2; s++)
        for (int pads = 0; pads < 2; pads++) {
            weir_loader_options options = loading_options(&fixture, manifest);
            options.stage = stages[s];
            options.dataset = dataset->key;
            options.pad = pads;
            options.workers = 2;
            loading_build(&options, 0, pass, expected);
            assert_int_equal(loading_run(&options, STEPS, got), pass);
            assert_batches_equal(expected, got, pass);
            options.steps = pass - 1;
            assert_int_equal(loading_run(&options, STEPS, got), pass - 1);
            options.steps = pass + 5;
            assert_int_equal(loading_run(&options, STEPS, got), pass);
        }
}

static void test_best_effort_loses_and_repeats_nothing(void **state) {
    (void)state;
    loading_batch expected[STEPS], got[STEPS + 1];
    weir_loader_options options = loading_options(&fixture, manifest);
    options.policy = WEIR_POLICY_BEST_EFFORT;
    options.steps = STEPS;
    loading_build(&options, 0, STEPS, expected);
    for (uint32_t workers = 1; workers <= 4; workers++) {
        options.workers = workers;
        assert_int_equal(loading_run(&options, STEPS + 1, got), STEPS);
        loading_sort(got, STEPS);
        assert_batches_equal(expected, got, STEPS);
    }
}

static void test_a_run_that_begins_later(void **state) {
    (void)state;
    weir_error error;
    weir_loader *loader;
    loading_batch expected[4], got[4];
    static const uint64_t firsts[] = {7, 1000000000000, UINT64_MAX / 2};
    weir_loader_options options = loading_options(&fixture, manifest);
    options.workers = 2;
    for (size_t i = 0; i < 3; i++) {
        options.first_step = firsts[i];
        loading_build(&options, firsts[i], firsts[i] + 4, expected);
        assert_int_equal(loading_run(&options, 4, got), 4);
        assert_batches_equal(expected, got, 4);
    }
    options.steps = 10;
    options.first_step = 10;
    assert_int_equal(loading_run(&options, 4, got), 0);
    options.first_step = 11;
    assert_fails(weir_loader_open(NULL, &options, &loader, &error), WEIR_CONTRACT_VIOLATION, &error);
}

static void test_the_step_and_the_end(void **state) {
    (void)state;
    weir_error error;
    weir_loader *loader;
    weir_loaded loaded;
    bool is_ready = false;
    weir_loader_options options = loading_options(&fixture, manifest);
    assert_ok(weir_loader_open(NULL, &options, &loader, &error), &error);
    assert_true(weir_loader_end(loader) == WEIR_ENDLESS);
    weir_loader_close(loader);
    options.steps = 2;
    assert_ok(weir_loader_open(NULL, &options, &loader, &error), &error);
    assert_int_equal(weir_loader_end(loader), 2);
    assert_int_equal(weir_loader_step(loader), 0);
    while (!is_ready)
        assert_ok(weir_loader_try_next(loader, &loaded, &is_ready, &error), &error);
    assert_int_equal(weir_loader_step(loader), 1);
    weir_loader_release(loader, &loaded);
    assert_ok(weir_loader_next(loader, &loaded, &error), &error);
    weir_loader_release(loader, &loaded);
    for (int i = 0; i < 2; i++) {
        assert_ok(weir_loader_next(loader, &loaded, &error), &error);
        assert_null(loaded.batch);
        assert_int_equal(loaded.step, 2);
        weir_loader_release(loader, &loaded);
    }
    weir_loader_cancel(loader);
    assert_fails(weir_loader_next(loader, &loaded, &error), WEIR_CANCELLED, &error);
    weir_loader_close(loader);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static uint64_t bytes_of_plan(const weir_plan *plan) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < weir_plan_arena_count(plan); i++)
        bytes += weir_plan_arena_at(plan, i).peak_bytes;
    return bytes;
}

static void test_memory_is_planned_and_limited(void **state) {
    (void)state;
    weir_error error;
    weir_plan *plan;
    weir_loader *loader;
    weir_plan_hashes planned, used;
    weir_loader_options options = loading_options(&fixture, manifest);
    options.workers = 3;
    options.buffer_size = 4;
    options.queue_size = 5;
    assert_ok(weir_loader_plan(NULL, &options, &plan, &error), &error);
    assert_int_equal(weir_loader_slot_count(&options), 17);
    assert_int_equal(weir_plan_tensor_count(plan), 17 + 17 + 17 + 3);
    options.memory_limit = bytes_of_plan(plan);
    assert_ok(weir_loader_open(NULL, &options, &loader, &error), &error);
    weir_plan_get_hashes(plan, &planned);
    weir_plan_get_hashes(weir_loader_memory(loader), &used);
    assert_memory_equal(planned.plan, used.plan, WEIR_HASH_SIZE);
    weir_loader_close(loader);
    options.memory_limit--;
    assert_fails(weir_loader_open(NULL, &options, &loader, &error), WEIR_ARENA_TOO_SMALL, &error);
    assert_string_equal(error.diagnostics[0].name, "required");
    assert_true(error.diagnostics[0].number == options.memory_limit + 1);
    assert_string_equal(error.diagnostics[1].name, "limit");
    assert_true(error.diagnostics[1].number == options.memory_limit);
    weir_plan *refused;
    assert_fails(weir_loader_plan(NULL, &options, &refused, &error), WEIR_ARENA_TOO_SMALL, &error);
    weir_plan_close(plan);
}

/* What opening would refuse, the plan refuses before anything is started. */
static void test_a_plan_knows_where_the_run_begins(void **state) {
    (void)state;
    weir_error error;
    weir_plan *plan;
    weir_loader_options options = loading_options(&fixture, manifest);
    options.steps = 10;
    options.first_step = 11;
    assert_fails(weir_loader_plan(NULL, &options, &plan, &error), WEIR_CONTRACT_VIOLATION, &error);
    options.checkpoint = "\xa0"; /* an empty map */
    options.checkpoint_size = 1;
    assert_fails(weir_loader_plan(NULL, &options, &plan, &error), WEIR_CHECKPOINT_MISMATCH, &error);
}

static void test_too_many_slots(void **state) {
    (void)state;
    weir_error error;
    weir_loader *loader;
    weir_loader_options options = loading_options(&fixture, manifest);
    options.buffer_size = UINT32_MAX;
    assert_fails(weir_loader_open(NULL, &options, &loader, &error), WEIR_CONTRACT_VIOLATION, &error);
    options.buffer_size = 1;
    options.workers = 5000;
    assert_fails(weir_loader_open(NULL, &options, &loader, &error), WEIR_CONTRACT_VIOLATION, &error);
}

typedef struct test_memory {
    uint8_t *memory;
    size_t size;
    int released;
} test_memory;

static void *allocate_slots(void *context, size_t size, weir_error *error) {
    test_memory *m = context;
    if (!m->memory) {
        *error = (weir_error){.status = WEIR_DEVICE_ERROR, .failure_operator = "test"};
        return NULL;
    }
    m->size = size;
    return m->memory;
}

static void release_slots(void *context, void *memory, size_t size) {
    test_memory *m = context;
    assert_ptr_equal(memory, m->memory);
    assert_int_equal(size, m->size);
    m->released++;
}

static void test_slots_lie_in_given_memory(void **state) {
    (void)state;
    enum { SIZE = 8 << 20 };
    weir_error error;
    weir_loader *loader;
    weir_loaded loaded;
    test_memory memory = {0};
    weir_loader_options options = loading_options(&fixture, manifest);
    options.memory = (weir_memory){.context = &memory, .allocate = allocate_slots, .release = release_slots};
    assert_fails(weir_loader_open(NULL, &options, &loader, &error), WEIR_DEVICE_ERROR, &error);
    memory.memory = aligned_alloc(4096, SIZE);
    memset(memory.memory, 0, SIZE);
    assert_ok(weir_loader_open(NULL, &options, &loader, &error), &error);
    assert_in_range(memory.size, 1, SIZE);
    for (int i = 0; i < 20; i++) {
        assert_ok(weir_loader_next(loader, &loaded, &error), &error);
        size_t offset = (size_t)((const uint8_t *)loaded.batch->compact - memory.memory);
        size_t place;
        char name[32];
        snprintf(name, sizeof name, "slot/%u", loaded.item.slot_index);
        assert_true(weir_plan_find(weir_loader_memory(loader), name, strlen(name), &place));
        assert_int_equal(offset, weir_plan_tensor_at(weir_loader_memory(loader), place).offset);
        assert_int_equal(offset % 256, 0);
        weir_loader_release(loader, &loaded);
    }
    weir_loader_close(loader);
    assert_int_equal(memory.released, 1);
    free(memory.memory);
}

/* ---- Hooks and errors ------------------------------------------------------------------------ */

enum { FAILING_STEP = 9 };

static weir_status fail_at_nine(void *context, const weir_item *item, const weir_batch_buffer *buffer,
                                weir_error *error) {
    _Atomic uint32_t *built = context;
    (*built)++;
    assert_non_null(weir_batch_view(buffer)->data);
    if (item->position != FAILING_STEP)
        return WEIR_OK;
    *error = (weir_error){.status = WEIR_DEVICE_ERROR, .failure_operator = "test"};
    return WEIR_DEVICE_ERROR;
}

static void test_a_failure_comes_at_its_step(void **state) {
    (void)state;
    for (uint32_t workers = 1; workers <= 4; workers++) {
        weir_error error;
        weir_loader *loader;
        weir_loaded loaded;
        loading_batch got[FAILING_STEP];
        _Atomic uint32_t built = 0;
        weir_loader_options options = loading_options(&fixture, manifest);
        options.workers = workers;
        options.world_size = 2;
        options.rank = 1;
        options.hook = (weir_loader_hook){&built, fail_at_nine};
        assert_ok(weir_loader_open(NULL, &options, &loader, &error), &error);
        assert_int_equal(loading_take(loader, FAILING_STEP, got), FAILING_STEP);
        assert_fails(weir_loader_next(loader, &loaded, &error), WEIR_DEVICE_ERROR, &error);
        assert_int_equal(error.t, FAILING_STEP);
        assert_int_equal(error.rank, 1);
        assert_int_equal(weir_loader_step(loader), FAILING_STEP);
        assert_fails(weir_loader_next(loader, &loaded, &error), WEIR_CANCELLED, &error);
        assert_true(built > FAILING_STEP);
        weir_loader_close(loader);
    }
}

static void test_a_damaged_store_fails_at_its_step(void **state) {
    (void)state;
    weir_error error;
    weir_loader *loader;
    weir_loaded loaded;
    loading_batch whole[STEPS], got[STEPS];
    uint8_t *memory;
    weir_store *damaged = loading_damage(&fixture, &memory);
    weir_store *stores[] = {damaged, fixture.stores[1]};
    weir_loader_options options = loading_options(&fixture, manifest);
    loading_build(&options, 0, STEPS, whole);
    options.stores = stores;
    options.any_hash = true;
    options.workers = 3;
    size_t sound = 0;
    while (strcmp(whole[sound].dataset, "shop/spend/train") != 0)
        sound++;
    assert_in_range(sound, 1, STEPS - 1);
    assert_ok(weir_loader_open(NULL, &options, &loader, &error), &error);
    assert_int_equal(loading_take(loader, sound, got), sound);
    assert_fails(weir_loader_next(loader, &loaded, &error), WEIR_STORE_CORRUPT, &error);
    assert_int_equal(error.t, sound);
    weir_loader_close(loader);
    weir_store_close(damaged);
    free(memory);
}

static void test_what_cannot_be_opened(void **state) {
    (void)state;
    weir_error error;
    weir_loader *loader;
    const weir_loader_options good = loading_options(&fixture, manifest);
    weir_loader_options options = good;
    options.store_count = 1; /* the mix has a dataset of the other store */
    assert_fails(weir_loader_open(NULL, &options, &loader, &error), WEIR_INVALID_DATASET_KEY, &error);
    assert_non_null(strstr(error.message, "oth/rating/train"));
    options = good;
    options.dataset = "shop/nothing/train";
    assert_fails(weir_loader_open(NULL, &options, &loader, &error), WEIR_INVALID_DATASET_KEY, &error);
    options = good;
    options.stage = WEIR_STAGE_EVAL;
    assert_fails(weir_loader_open(NULL, &options, &loader, &error), WEIR_CONTRACT_VIOLATION, &error);
    options.stage = (weir_stage)7;
    assert_fails(weir_loader_open(NULL, &options, &loader, &error), WEIR_INVALID_STAGE_TYPE, &error);
    options = good;
    options.world_size = 0;
    assert_fails(weir_loader_open(NULL, &options, &loader, &error), WEIR_BATCH_SIZE_INCONSISTENT, &error);
    options.world_size = 3;
    assert_fails(weir_loader_open(NULL, &options, &loader, &error), WEIR_BATCH_SIZE_INCONSISTENT, &error);
    options.world_size = 2;
    options.rank = 2;
    assert_fails(weir_loader_open(NULL, &options, &loader, &error), WEIR_CONTRACT_VIOLATION, &error);
    options = good;
    options.policy = (weir_policy)9;
    assert_fails(weir_loader_open(NULL, &options, &loader, &error), WEIR_CONTRACT_VIOLATION, &error);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_workers_in_any_world),
        cmocka_unit_test(test_one_dataset_by_name),
        cmocka_unit_test(test_eval_is_one_pass),
        cmocka_unit_test(test_best_effort_loses_and_repeats_nothing),
        cmocka_unit_test(test_a_run_that_begins_later),
        cmocka_unit_test(test_the_step_and_the_end),
        cmocka_unit_test(test_memory_is_planned_and_limited),
        cmocka_unit_test(test_a_plan_knows_where_the_run_begins),
        cmocka_unit_test(test_too_many_slots),
        cmocka_unit_test(test_slots_lie_in_given_memory),
        cmocka_unit_test(test_a_failure_comes_at_its_step),
        cmocka_unit_test(test_a_damaged_store_fails_at_its_step),
        cmocka_unit_test(test_what_cannot_be_opened),
    };
    return cmocka_run_group_tests(tests, loading_set_up, loading_tear_down);
}
