/* Runs: for any number of workers and any world the batches are those that are built one by one; memory is
 * planned, limited and laid out as planned; errors come at their step. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/database.h"
#include "support/loading.h"

enum { STEPS = 30 };

/* ---- Order ----------------------------------------------------------------------------------- */

static void test_any_workers_in_any_world(void **state) {
    (void)state;
    static const uint32_t worlds[] = {1, 2, 4};
    loading_batch expected[STEPS], got[STEPS + 1];
    for (size_t w = 0; w < 3; w++)
        for (uint32_t rank = 0; rank < worlds[w]; rank++) {
            weir_run_options options = loading_options(&fixture, manifest);
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

/* Large batches are built by all workers together: the same batches, in slots for few of them. */
static void test_workers_that_share_batches(void **state) {
    (void)state;
    enum { LARGE_STEPS = 9 };
    static const uint32_t sizes[] = {72, 200, 512};
    loading_batch expected[LARGE_STEPS], got[LARGE_STEPS + 1];
    for (size_t i = 0; i < 3; i++) {
        weir_manifest *large = loading_manifest_of(&fixture, sizes[i], SMALL_BATCHES);
        weir_run_options options = loading_options(&fixture, large);
        options.steps = LARGE_STEPS;
        loading_build(&options, 0, LARGE_STEPS, expected);
        for (uint32_t workers = 1; workers <= 9; workers += 2) {
            options.workers = workers;
            options.buffer_size = 1 + workers % 3;
            options.device = workers == 5 ? "host" : NULL;
            options.read_back = workers == 5;
            assert_int_equal(loading_run(&options, LARGE_STEPS + 1, got), LARGE_STEPS);
            assert_batches_equal(expected, got, LARGE_STEPS);
        }
        options.workers = 4;
        for (options.steps = 1; options.steps < 4; options.steps++) { /* fewer steps than lanes */
            assert_int_equal(loading_run(&options, LARGE_STEPS, got), options.steps);
            assert_batches_equal(expected, got, options.steps);
        }
        weir_manifest_close(large);
    }
}

static void test_slots_do_not_grow_with_workers(void **state) {
    (void)state;
    weir_error error;
    weir_run *run;
    size_t last = 0;
    weir_manifest *large = loading_manifest_of(&fixture, 1024, SMALL_BATCHES);
    weir_run_options options = loading_options(&fixture, large);
    for (options.workers = 2; options.workers <= 32; options.workers *= 4) {
        assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
        const weir_plan *plan = weir_run_describe(run)->memory;
        size_t slots = 0, place;
        char name[32];
        do
            snprintf(name, sizeof name, "slot/%zu", slots);
        while (weir_plan_find(plan, name, strlen(name), &place) && ++slots);
        assert_true(last == 0 || slots == last);
        assert_int_equal(slots, 2 * WEIR_RUN_BUFFER + WEIR_RUN_QUEUE);
        last = slots;
        weir_run_close(run);
    }
    weir_manifest_close(large);
}

static void test_one_dataset_by_name(void **state) {
    (void)state;
    loading_batch expected[STEPS], got[STEPS];
    weir_run_options options = loading_options(&fixture, manifest);
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
            weir_run_options options = loading_options(&fixture, manifest);
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
            options.drop_remainder = true;
            size_t full = (size_t)(dataset->cardinality / 8);
            assert_int_equal(full, pass - 1); /* else the test tests nothing */
            assert_int_equal(loading_run(&options, STEPS, got), full);
            assert_batches_equal(expected, got, full);
        }
}

static void test_best_effort_loses_and_repeats_nothing(void **state) {
    (void)state;
    loading_batch expected[STEPS], got[STEPS + 1];
    weir_run_options options = loading_options(&fixture, manifest);
    options.policy = WEIR_POLICY_BEST_EFFORT;
    options.steps = STEPS;
    loading_build(&options, 0, STEPS, expected);
    for (uint32_t workers = 1; workers <= 4; workers++) {
        options.workers = workers;
        assert_int_equal(loading_run(&options, STEPS + 1, got), STEPS);
        loading_sort(got, STEPS);
        assert_batches_equal(expected, got, STEPS);
        options.shard_mode = (weir_shard_mode)(workers % 2);
    }
}

/* Contiguous shards: the first batches of the workers lie a block apart. */
static void test_contiguous_shards(void **state) {
    (void)state;
    loading_batch got[STEPS];
    weir_run_options options = loading_options(&fixture, manifest);
    options.policy = WEIR_POLICY_BEST_EFFORT;
    options.shard_mode = WEIR_SHARD_CONTIGUOUS;
    options.steps = STEPS;
    options.workers = 3;
    options.max_lead = 1;
    assert_int_equal(loading_run(&options, STEPS, got), STEPS);
    for (uint64_t round = 0; round < STEPS / 3; round++) { /* each has given `round` when the round begins */
        loading_sort(got + 3 * round, 3);
        for (uint64_t worker = 0; worker < 3; worker++)
            assert_int_equal(got[3 * round + worker].step, worker * (STEPS / 3) + round);
    }
}

static void test_a_run_that_begins_later(void **state) {
    (void)state;
    weir_error error;
    weir_run *run;
    loading_batch expected[4], got[4];
    static const uint64_t firsts[] = {7, 1000000000000, UINT64_MAX / 2};
    weir_run_options options = loading_options(&fixture, manifest);
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
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_CONTRACT_VIOLATION, &error);
}

static void test_the_step_and_the_end(void **state) {
    (void)state;
    weir_error error;
    weir_run *run;
    weir_taken taken;
    bool is_ready = false;
    weir_run_options options = loading_options(&fixture, manifest);
    assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
    assert_true(weir_run_describe(run)->end == WEIR_ENDLESS);
    weir_run_close(run);
    options.steps = 2;
    assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
    assert_int_equal(weir_run_describe(run)->end, 2);
    assert_int_equal(weir_run_step(run), 0);
    while (!is_ready)
        assert_ok(weir_run_try_next(run, &taken, &is_ready, &error), &error);
    assert_int_equal(weir_run_step(run), 1);
    assert_ok(weir_run_release(run, &taken, 0, &error), &error);
    assert_ok(weir_run_next(run, &taken, &error), &error);
    assert_ok(weir_run_release(run, &taken, 0, &error), &error);
    for (int i = 0; i < 2; i++) {
        assert_ok(weir_run_next(run, &taken, &error), &error);
        assert_null(taken.batch);
        assert_int_equal(taken.step, 2);
        assert_ok(weir_run_release(run, &taken, 0, &error), &error);
    }
    weir_run_cancel(run);
    assert_fails(weir_run_next(run, &taken, &error), WEIR_CANCELLED, &error);
    weir_run_close(run);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static uint64_t bytes_of_plan(const weir_plan *plan) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < weir_plan_describe(plan)->arena_count; i++)
        bytes += weir_plan_arena_at(plan, i).peak_bytes;
    return bytes;
}

static void test_memory_is_planned_and_limited(void **state) {
    (void)state;
    weir_error error;
    weir_run *run;
    weir_run_options options = loading_options(&fixture, manifest);
    options.workers = 3;
    options.buffer_size = 4;
    options.queue_size = 5;
    assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
    const weir_plan *plan = weir_run_describe(run)->memory;
    assert_int_equal(weir_plan_describe(plan)->tensor_count, 17 + 17 + 17 + 3);
    options.memory_limit = bytes_of_plan(plan);
    weir_run_close(run);
    assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
    weir_run_close(run);
    options.memory_limit--;
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_ARENA_TOO_SMALL, &error);
    assert_string_equal(error.diagnostics[0].name, "required");
    assert_true(error.diagnostics[0].number == options.memory_limit + 1);
    assert_string_equal(error.diagnostics[1].name, "limit");
    assert_true(error.diagnostics[1].number == options.memory_limit);
}

/* Opening says all that can be wrong: nothing is started, and no file is made. */
static void test_opening_starts_nothing(void **state) {
    (void)state;
    char path[160];
    weir_error error;
    weir_run *run;
    weir_run_metrics metrics;
    weir_worker_metrics workers[3];
    size_t entries = count_entries(fixture.folder);
    weir_run_options options = loading_options(&fixture, manifest);
    options.workers = 3;
    options.trace = options.checkpoint = path_in(fixture.folder, "unstarted", path);
    assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
    weir_run_measure(run, &metrics, workers);
    assert_int_equal(metrics.prefetch.produced, 0);
    assert_int_equal(metrics.prefetch.workers, 3);
    assert_int_equal(weir_run_step(run), 0);
    assert_ok(weir_run_save(run, &error), &error);
    assert_ok(weir_run_stop(run, &error), &error);
    weir_run_close(run);
    assert_int_equal(count_entries(fixture.folder), entries);
    options.trace = options.checkpoint = NULL;
    options.steps = 10;
    options.first_step = 11;
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_CONTRACT_VIOLATION, &error);
    options.state = "\xa0"; /* an empty map */
    options.state_size = 1;
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_CHECKPOINT_MISMATCH, &error);
}

static void test_a_run_that_was_cancelled_before_it_began(void **state) {
    (void)state;
    weir_error error;
    weir_run *run;
    weir_taken taken;
    weir_run_options options = loading_options(&fixture, manifest);
    assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
    weir_run_cancel(run);
    assert_fails(weir_run_next(run, &taken, &error), WEIR_CANCELLED, &error);
    weir_run_close(run);
}

static void test_too_many_slots(void **state) {
    (void)state;
    weir_error error;
    weir_run *run;
    weir_run_options options = loading_options(&fixture, manifest);
    options.buffer_size = UINT32_MAX;
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_CONTRACT_VIOLATION, &error);
    options.buffer_size = 1;
    options.workers = 5000;
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_CONTRACT_VIOLATION, &error);
}

/* The compact batches of all slots lie in one stretch, as the plan says. */
static void test_slots_lie_as_planned(void **state) {
    (void)state;
    weir_error error;
    weir_run *run;
    weir_taken taken;
    const uint8_t *base = NULL;
    weir_run_options options = loading_options(&fixture, manifest);
    assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
    const weir_plan *plan = weir_run_describe(run)->memory;
    for (int i = 0; i < 20; i++) {
        size_t place;
        char name[32];
        assert_ok(weir_run_next(run, &taken, &error), &error);
        snprintf(name, sizeof name, "slot/%u", taken.slot);
        assert_true(weir_plan_find(plan, name, strlen(name), &place));
        const uint8_t *begin =
            (const uint8_t *)taken.batch->compact - weir_plan_tensor_at(plan, place).offset;
        assert_true(!base || begin == base);
        assert_int_equal((uintptr_t)begin % 256, 0);
        base = begin;
        assert_ok(weir_run_release(run, &taken, 0, &error), &error);
    }
    weir_run_close(run);
}

/* ---- Transforms and errors ------------------------------------------------------------------------ */

enum { FAILING_STEP = 9 };

/* Writes the step over the first tensor, and fails at nine. */
static weir_status fail_at_nine(void *context, uint64_t step, const weir_batch *batch, void *data,
                                weir_stream stream, weir_error *error) {
    _Atomic uint32_t *built = context;
    (*built)++;
    assert_ptr_equal(batch->data, data);
    assert_true(stream == 0 && batch->has_digests);
    memcpy(data, &step, sizeof step);
    if (step != FAILING_STEP)
        return WEIR_OK;
    *error = (weir_error){.status = WEIR_DEVICE_ERROR, .failure_operator = "test"};
    return WEIR_DEVICE_ERROR;
}

static void test_a_failure_comes_at_its_step(void **state) {
    (void)state;
    for (uint32_t workers = 1; workers <= 4; workers++) {
        weir_error error;
        weir_run *run;
        weir_taken taken;
        _Atomic uint32_t built = 0;
        weir_run_options options = loading_options(&fixture, manifest);
        options.workers = workers;
        options.world_size = 2;
        options.rank = 1;
        options.transform = (weir_transform){&built, fail_at_nine};
        assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
        for (uint64_t step = 0; step < FAILING_STEP; step++) {
            assert_ok(weir_run_next(run, &taken, &error), &error);
            assert_memory_equal(taken.batch->data, &step, sizeof step);
            assert_ok(weir_run_release(run, &taken, 0, &error), &error);
        }
        assert_fails(weir_run_next(run, &taken, &error), WEIR_DEVICE_ERROR, &error);
        assert_int_equal(error.t, FAILING_STEP);
        assert_int_equal(error.rank, 1);
        assert_int_equal(weir_run_step(run), FAILING_STEP);
        assert_fails(weir_run_next(run, &taken, &error), WEIR_CANCELLED, &error);
        assert_true(built > FAILING_STEP);
        weir_run_close(run);
    }
}

static void fail_at_damage(weir_manifest *over) {
    weir_error error;
    weir_run *run;
    weir_taken taken;
    loading_batch whole[STEPS], got[STEPS];
    uint8_t *memory;
    weir_store *damaged = loading_damage(&fixture, &memory);
    weir_store *stores[] = {damaged, fixture.stores[1]};
    weir_run_options options = loading_options(&fixture, over);
    loading_build(&options, 0, STEPS, whole);
    options.stores = stores;
    options.any_hash = true;
    options.workers = 3;
    size_t sound = 0;
    while (strcmp(whole[sound].dataset, "shop/spend/train") != 0)
        sound++;
    assert_in_range(sound, 1, STEPS - 1);
    assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
    assert_int_equal(loading_take(run, sound, got), sound);
    assert_fails(weir_run_next(run, &taken, &error), WEIR_STORE_CORRUPT, &error);
    assert_int_equal(error.t, sound);
    weir_run_close(run);
    weir_store_close(damaged);
    free(memory);
}

static void test_a_damaged_store_fails_at_its_step(void **state) {
    (void)state;
    weir_manifest *large = loading_manifest_of(&fixture, 128, SMALL_BATCHES);
    fail_at_damage(manifest);
    fail_at_damage(large);
    weir_manifest_close(large);
}

static uint32_t *unreadable;

static int keep_flag(void *context, const void *memory, size_t size, uint32_t *failed) {
    unreadable = failed;
    return weir_env_default()->guard(context, memory, size, failed);
}

/* A page that cannot be read gives zeros: no batch that was built from then on is given. */
static void test_a_store_that_is_cut_under_a_run(void **state) {
    (void)state;
    char path[160];
    weir_error error;
    weir_run *run;
    weir_store *store;
    weir_taken taken;
    weir_env env = *weir_env_default();
    env.guard = keep_flag;
    assert_ok(weir_store_open(&env, path_in(fixture.folder, "shop.weir", path), &store, &error), &error);
    weir_run_options options = loading_options(&fixture, manifest);
    options.stores = &store;
    options.store_count = 1;
    options.dataset = "shop/churn/train";
    options.workers = 2;
    assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
    assert_ok(weir_run_next(run, &taken, &error), &error);
    assert_ok(weir_run_release(run, &taken, 0, &error), &error);
    __atomic_store_n(unreadable, 1, __ATOMIC_RELAXED);
    weir_status status = WEIR_OK;
    for (int i = 0; i < 20 && status == WEIR_OK; i++) {
        status = weir_run_next(run, &taken, &error);
        if (status == WEIR_OK)
            assert_ok(weir_run_release(run, &taken, 0, &error), &error);
    }
    assert_fails(status, WEIR_IO_ERROR, &error);
    weir_run_close(run);
    weir_store_close(store);
}

static void test_what_cannot_be_opened(void **state) {
    (void)state;
    weir_error error;
    weir_run *run;
    const weir_run_options good = loading_options(&fixture, manifest);
    weir_run_options options = good;
    options.store_count = 1; /* the mix has a dataset of the other store */
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_INVALID_DATASET_KEY, &error);
    assert_non_null(strstr(error.message, "oth/rating/train"));
    options = good;
    options.dataset = "shop/nothing/train";
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_INVALID_DATASET_KEY, &error);
    options = good;
    options.stage = WEIR_STAGE_EVAL;
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_CONTRACT_VIOLATION, &error);
    options.stage = (weir_stage)7;
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_INVALID_STAGE_TYPE, &error);
    options = good;
    options.world_size = 3;
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_BATCH_SIZE_INCONSISTENT, &error);
    options.world_size = 2;
    options.rank = 2;
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_CONTRACT_VIOLATION, &error);
    options = good;
    options.policy = (weir_policy)9;
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_CONTRACT_VIOLATION, &error);
    options.policy = WEIR_POLICY_STRICT;
    options.shard_mode = WEIR_SHARD_CONTIGUOUS;
    options.steps = 9;
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_CONTRACT_VIOLATION, &error);
    options.policy = WEIR_POLICY_BEST_EFFORT;
    options.steps = 0; /* without an end there are no blocks */
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_CONTRACT_VIOLATION, &error);
    options.shard_mode = (weir_shard_mode)2;
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_CONTRACT_VIOLATION, &error);
    options = good;
    options.drop_remainder = true; /* in train the manifest says it */
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_non_null(strstr(error.message, "drop_last"));
    options = good;
    options.read_back = true;
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_CONTRACT_VIOLATION, &error);
    options.read_back = false;
    options.size = 0;
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_CONTRACT_VIOLATION, &error);
}

/* Without a world size the launcher's variables say it; with one they are not looked at. */
static void test_a_launcher_says_the_rank(void **state) {
    (void)state;
    weir_error error;
    weir_run *run;
    weir_run_options options = loading_options(&fixture, manifest);
    options.world_size = 0;
    setenv("SLURM_PROCID", "3", 1);
    setenv("SLURM_NTASKS", "4", 1);
    assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
    assert_int_equal(weir_run_describe(run)->rank, 3);
    assert_int_equal(weir_run_describe(run)->world_size, 4);
    weir_run_close(run);
    setenv("SLURM_PROCID", "4", 1);
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_CONTRACT_VIOLATION, &error);
    options.world_size = 1;
    assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
    weir_run_close(run);
    unsetenv("SLURM_PROCID");
    unsetenv("SLURM_NTASKS");
}

/* ---- Stages -----------------------------------------------------------------------------------  */

static weir_status wait_a_while(void *context, uint64_t step, const weir_batch *batch, void *data,
                                weir_stream stream, weir_error *error) {
    (void)context, (void)step, (void)batch, (void)data, (void)stream, (void)error;
    usleep(2000);
    return WEIR_OK;
}

/* A consumer that holds batches while the workers fill all the room there is: it is not waited for there. */
static void test_the_stages_say_who_waits(void **state) {
    (void)state;
    weir_error error;
    weir_run *run;
    weir_taken taken[2];
    weir_run_metrics metrics;
    const weir_stage_metrics *stages = metrics.stages;
    weir_run_options options = loading_options(&fixture, manifest);
    options.workers = 2;
    options.buffer_size = 1; /* a worker whose buffer was full sleeps until half of it is free */
    options.queue_size = 2;
    options.transform.apply = wait_a_while;
    assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
    assert_ok(weir_run_next(run, &taken[0], &error), &error);
    assert_ok(weir_run_next(run, &taken[1], &error), &error);
    do {
        usleep(1000);
        weir_run_measure(run, &metrics, NULL);
    } while (stages[WEIR_RUN_BUILD].queued < 2);
    assert_int_equal(stages[WEIR_RUN_BUILD].batches, 4);
    assert_int_equal(stages[WEIR_RUN_BUILD].room, 2);
    assert_int_equal(stages[WEIR_RUN_TRANSFORM].batches, 4);
    assert_true(stages[WEIR_RUN_TRANSFORM].busy_ns >= 4 * 2000000u);
    assert_int_equal(stages[WEIR_RUN_TRANSFER].batches, 0);
    assert_int_equal(stages[WEIR_RUN_CONSUME].batches, 2);
    assert_int_equal(stages[WEIR_RUN_CONSUME].queued, 2);
    assert_int_equal(stages[WEIR_RUN_CONSUME].room, 2);
    assert_true(stages[WEIR_RUN_CONSUME].input_wait_ns > 0);
    for (int i = 0; i < 2; i++)
        assert_ok(weir_run_release(run, &taken[i], 0, &error), &error);
    assert_ok(weir_run_next(run, &taken[0], &error), &error);
    weir_run_measure(run, &metrics, NULL);
    assert_true(stages[WEIR_RUN_CONSUME].busy_ns > 0);
    assert_true(stages[WEIR_RUN_BUILD].busy_ns > 0);
    assert_string_equal(weir_run_stage_name(WEIR_RUN_TRANSFER), "transfer");
    weir_run_close(run);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static void test_tables_without_a_device_are_the_stores(void **state) {
    (void)state;
    weir_error error;
    weir_run *run;
    weir_tables tables;
    weir_run_options options = loading_options(&fixture, manifest);
    options.store_count = 1;
    options.dataset = "shop/churn/train";
    assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
    const weir_store_info *info = weir_store_describe(fixture.stores[0]);
    assert_ok(weir_run_tables(run, fixture.stores[0], &tables, &error), &error);
    assert_ptr_equal(tables.column_embeddings, info->column_embeddings);
    assert_ptr_equal(tables.category_embeddings, info->category_embeddings);
    assert_int_equal(tables.embedding_dim, info->embedding_dim);
    assert_fails(weir_run_tables(run, fixture.stores[1], &tables, &error), WEIR_CONTRACT_VIOLATION, &error);
    weir_run_close(run);
}

/* ---- Reading ahead --------------------------------------------------------------------------- */

static _Atomic uint64_t expected_pages;

static bool count_expected(void *context, const void *memory, size_t size) {
    (void)context;
    assert_non_null(memory);
    assert_in_range(size, 1, 1 << 16);
    return atomic_fetch_add(&expected_pages, 1) % 2;
}

static uint64_t say_little_memory(void *context) {
    (void)context;
    return 4096;
}

/* A store that is larger than memory, or of which it is asked, has its pages asked for, and gives the same.
 */
static void test_pages_are_asked_for_ahead(void **state) {
    (void)state;
    weir_error error;
    weir_run *run;
    weir_store *store;
    weir_run_metrics metrics;
    weir_env env = *weir_env_default();
    loading_batch expected[STEPS], got[STEPS];
    char path[128];
    snprintf(path, sizeof path, "%s/shop.weir", fixture.folder);
    weir_run_options options = loading_options(&fixture, manifest);
    options.dataset = "shop/churn/train";
    options.steps = STEPS;
    options.workers = 2;
    loading_build(&options, 0, STEPS, expected);
    env.expect = count_expected;
    for (int trial = 0; trial < 3; trial++) { /* neither, larger than memory, asked for */
        weir_store_options opening = {.size = sizeof opening, .reads_ahead = trial == 2};
        env.memory_size = trial == 1 ? say_little_memory : weir_env_default()->memory_size;
        atomic_store(&expected_pages, 0);
        assert_ok(weir_store_open_with(&env, path, &opening, &store, &error), &error);
        options.stores = &store;
        options.store_count = 1;
        assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
        assert_int_equal(loading_take(run, STEPS, got), STEPS);
        assert_batches_equal(expected, got, STEPS);
        weir_run_measure(run, &metrics, NULL);
        uint64_t asked = atomic_load(&expected_pages);
        assert_true(trial == 0 ? asked == 0 : asked > STEPS * 8);
        assert_int_equal(metrics.pages_read, asked / 2);
        assert_int_equal(metrics.stages[WEIR_RUN_READ].batches, trial ? STEPS : 0);
        assert_int_equal(metrics.stages[WEIR_RUN_READ].busy_ns > 0, trial > 0);
        weir_run_close(run);
        weir_store_close(store);
    }
    unsigned char *page = env.map(NULL, -1, 4096); /* what is there is not asked for */
    assert_non_null(page);
    page[0] = 1;
    assert_false(weir_env_default()->expect(NULL, page, 1));
    env.unmap(NULL, page, 4096);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_workers_in_any_world),
        cmocka_unit_test(test_workers_that_share_batches),
        cmocka_unit_test(test_slots_do_not_grow_with_workers),
        cmocka_unit_test(test_one_dataset_by_name),
        cmocka_unit_test(test_eval_is_one_pass),
        cmocka_unit_test(test_best_effort_loses_and_repeats_nothing),
        cmocka_unit_test(test_contiguous_shards),
        cmocka_unit_test(test_a_run_that_begins_later),
        cmocka_unit_test(test_the_step_and_the_end),
        cmocka_unit_test(test_memory_is_planned_and_limited),
        cmocka_unit_test(test_opening_starts_nothing),
        cmocka_unit_test(test_a_run_that_was_cancelled_before_it_began),
        cmocka_unit_test(test_too_many_slots),
        cmocka_unit_test(test_slots_lie_as_planned),
        cmocka_unit_test(test_a_failure_comes_at_its_step),
        cmocka_unit_test(test_a_damaged_store_fails_at_its_step),
        cmocka_unit_test(test_a_store_that_is_cut_under_a_run),
        cmocka_unit_test(test_what_cannot_be_opened),
        cmocka_unit_test(test_a_launcher_says_the_rank),
        cmocka_unit_test(test_the_stages_say_who_waits),
        cmocka_unit_test(test_tables_without_a_device_are_the_stores),
        cmocka_unit_test(test_pages_are_asked_for_ahead),
    };
    return cmocka_run_group_tests(tests, loading_set_up, loading_tear_down);
}
