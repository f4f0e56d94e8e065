/* Staging: what is read back from the device is the batch that was built, over many steps, for any depth and
 * number of workers, in whatever order the device does its work; a wait that is missing shows; failures come
 * at their step; checkpoints are those of the batches that were given. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "support/fake_driver.h"
#include "support/loading.h"

enum { STEPS = 24, LATE = 3 };

static fake_driver fake;
static loading_batch expected[STEPS];

static void assert_digest(const weir_batch *batch, const uint8_t *data, const uint8_t digest[16]) {
    XXH3_state_t *state = XXH3_createState();
    XXH128_canonical_t canonical;
    assert_non_null(state);
    XXH3_128bits_reset(state);
    for (int id = 0; id < WEIR_TENSORS; id++)
        XXH3_128bits_update(state, data + batch->tensors[id].offset, (size_t)batch->tensors[id].size);
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    XXH3_freeState(state);
    assert_memory_equal(canonical.digest, digest, 16);
}

/* ---- A consumer ---------------------------------------------------------------------------------- */

/* Reads every batch back on a stream of its own and looks at it only LATE steps later, when its place on the
 * device may have been filled again. */
typedef struct consumer {
    weir_device *device;
    weir_staging *staging;
    weir_stream stream;
    size_t seen;
    weir_batch views[LATE];
    uint8_t *data[LATE];
    weir_event read[LATE];
} consumer;

typedef struct trial {
    weir_loader_options loading;
    weir_staging_options options;
} trial;

static trial trial_of(uint32_t workers, uint32_t depth) {
    trial t = {.loading = loading_options(&fixture, manifest)};
    t.loading.workers = workers;
    t.loading.steps = STEPS;
    t.options = (weir_staging_options){.size = sizeof t.options, .depth = depth};
    return t;
}

static void begin(consumer *c, trial *t, weir_device *device) {
    weir_error error;
    *c = (consumer){.device = device};
    t->options.device = device;
    t->options.loader = &t->loading;
    assert_ok(weir_staging_open(NULL, &t->options, &c->staging, &error), &error);
    assert_ok(weir_stream_open(device, &c->stream, &error), &error);
    for (size_t i = 0; i < LATE; i++) {
        assert_ok(weir_event_open(device, &c->read[i], &error), &error);
        c->data[i] = calloc(1, 1 << 20);
        assert_non_null(c->data[i]);
    }
}

static void look_at(consumer *c, size_t step) {
    weir_error error;
    assert_ok(weir_event_sync(c->device, c->read[step % LATE], &error), &error);
    assert_digest(&c->views[step % LATE], c->data[step % LATE], expected[step].digest);
}

static void end(consumer *c) {
    size_t first = c->seen > LATE ? c->seen - LATE : 0;
    for (size_t step = first; step < c->seen; step++)
        look_at(c, step);
    weir_staging_close(c->staging);
    weir_stream_close(c->device, c->stream);
    for (size_t i = 0; i < LATE; i++) {
        weir_event_close(c->device, c->read[i]);
        free(c->data[i]);
    }
    weir_device_close(c->device);
    assert_int_equal(fake.live(), 0);
    assert_int_equal(fake.depth(), 0);
}

/* Takes one batch and reads it back; false at the end of the run. */
static bool consume(consumer *c) {
    weir_error error;
    weir_staged staged;
    size_t at = c->seen % LATE;
    assert_ok(weir_staging_next(c->staging, &staged, &error), &error);
    if (!staged.batch)
        return false;
    if (c->seen >= LATE)
        look_at(c, c->seen - LATE);
    assert_int_equal(staged.step, expected[c->seen].step);
    assert_string_equal(staged.dataset->key, expected[c->seen].dataset);
    assert_memory_equal(staged.batch->batch_digest, expected[c->seen].digest, 16);
    assert_true(staged.batch->size <= 1 << 20);
    c->views[at] = *staged.batch;
    assert_ok(weir_staging_wait(c->staging, &staged, c->stream, &error), &error);
    assert_ok(weir_copy_to_host(c->device, c->data[at], staged.batch->data, (size_t)staged.batch->size,
                                c->stream, &error),
              &error);
    assert_ok(weir_event_record(c->device, c->read[at], c->stream, &error), &error);
    assert_ok(weir_staging_release(c->staging, &staged, c->stream, &error), &error);
    c->seen++;
    return true;
}

static weir_device *fake_device(uint64_t seed) {
    weir_error error;
    weir_device *device;
    fake.reset();
    fake.set_schedule(seed);
    assert_ok(open_fake_device(NULL, &device, &error), &error);
    return device;
}

static void run(trial *t, weir_device *device) {
    consumer c;
    weir_staging_metrics metrics;
    begin(&c, t, device);
    while (consume(&c)) {
    }
    assert_int_equal(c.seen, STEPS);
    assert_false(consume(&c)); /* the end stays the end */
    weir_staging_measure(c.staging, &metrics);
    assert_int_equal(metrics.batches, STEPS);
    assert_true(metrics.compact_bytes < metrics.bytes / 2);
    end(&c);
}

static void test_every_batch_arrives(void **state) {
    (void)state;
    weir_error error;
    for (uint32_t seed = 0; seed < 12; seed++) {
        trial t = trial_of(1 + seed % 4, 1 + seed % 5);
        t.loading.buffer_size = 1 + seed % 3;
        run(&t, fake_device(seed));
    }
    trial t = trial_of(2, 0);
    weir_device *host;
    assert_ok(open_host_device(NULL, &host, &error), &error);
    run(&t, host);
}

/* ---- Waiting and releasing ------------------------------------------------------------------------- */

/* Without the wait the consumer's copy may come first: the fake shows it. */
static void test_a_missing_wait_shows(void **state) {
    (void)state;
    weir_error error;
    weir_staged staged;
    consumer c;
    trial t = trial_of(1, 2);
    begin(&c, &t, fake_device(0));
    assert_ok(weir_staging_next(c.staging, &staged, &error), &error);
    assert_ok(weir_copy_to_host(c.device, c.data[0], staged.batch->data, (size_t)staged.batch->size, c.stream,
                                &error),
              &error);
    assert_ok(weir_stream_sync(c.device, c.stream, &error), &error);
    for (size_t i = 0; i < staged.batch->size; i++)
        assert_int_equal(c.data[0][i], 0);
    assert_ok(weir_event_sync(c.device, staged.ready, &error), &error);
    assert_ok(weir_copy_to_host(c.device, c.data[0], staged.batch->data, (size_t)staged.batch->size, c.stream,
                                &error),
              &error);
    assert_ok(weir_stream_sync(c.device, c.stream, &error), &error);
    assert_digest(staged.batch, c.data[0], expected[0].digest);
    end(&c);
}

static void test_batches_are_held_and_released_in_any_order(void **state) {
    (void)state;
    weir_error error;
    weir_staged held[3], more;
    consumer c;
    trial t = trial_of(2, 3);
    begin(&c, &t, fake_device(5));
    for (size_t i = 0; i < 3; i++)
        assert_ok(weir_staging_next(c.staging, &held[i], &error), &error);
    assert_fails(weir_staging_next(c.staging, &more, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_ok(weir_staging_release(c.staging, &held[1], c.stream, &error), &error);
    assert_ok(weir_staging_next(c.staging, &more, &error), &error);
    assert_int_equal(more.step, 3);
    assert_int_equal(more.slot, held[1].slot);
    assert_ok(weir_staging_release(c.staging, &held[2], c.stream, &error), &error);
    assert_ok(weir_staging_release(c.staging, &held[0], c.stream, &error), &error);
    assert_ok(weir_staging_release(c.staging, &more, c.stream, &error), &error);
    for (uint64_t step = 4; step < 8; step++) {
        assert_ok(weir_staging_next(c.staging, &more, &error), &error);
        assert_int_equal(more.step, step);
        assert_ok(weir_staging_release(c.staging, &more, c.stream, &error), &error);
    }
    weir_staging_cancel(c.staging);
    weir_status status;
    do { /* what was queued before the cancel is given still */
        status = weir_staging_next(c.staging, &more, &error);
        if (status == WEIR_OK)
            assert_ok(weir_staging_release(c.staging, &more, c.stream, &error), &error);
    } while (status == WEIR_OK);
    assert_fails(status, WEIR_CANCELLED, &error);
    end(&c);
}

/* ---- Errors ---------------------------------------------------------------------------------------- */

static void test_a_failure_comes_at_its_step(void **state) {
    (void)state;
    uint8_t *memory;
    weir_store *damaged = loading_damage(&fixture, &memory);
    weir_store *stores[] = {damaged, fixture.stores[1]};
    size_t sound = 0;
    while (strcmp(expected[sound].dataset, "shop/spend/train") != 0)
        sound++;
    for (uint32_t depth = 1; depth <= 4; depth++) {
        weir_error error;
        weir_staged staged;
        consumer c;
        trial t = trial_of(3, depth);
        t.loading.stores = stores;
        t.loading.any_hash = true;
        begin(&c, &t, fake_device(depth));
        while (c.seen < sound)
            assert_true(consume(&c));
        assert_fails(weir_staging_next(c.staging, &staged, &error), WEIR_STORE_CORRUPT, &error);
        assert_int_equal(error.t, sound);
        assert_fails(weir_staging_next(c.staging, &staged, &error), WEIR_CANCELLED, &error);
        end(&c);
    }
    weir_store_close(damaged);
    free(memory);
}

static void test_a_copy_that_fails(void **state) {
    (void)state;
    weir_error error;
    weir_staged staged;
    consumer c;
    trial t = trial_of(2, 2);
    begin(&c, &t, fake_device(0));
    fake.fail_call("cuMemcpyHtoDAsync_v2", fake.calls("cuMemcpyHtoDAsync_v2") + 4, 700);
    for (int i = 0; i < 3; i++)
        assert_true(consume(&c));
    assert_fails(weir_staging_next(c.staging, &staged, &error), WEIR_DEVICE_ERROR, &error);
    assert_fails(weir_staging_next(c.staging, &staged, &error), WEIR_CANCELLED, &error);
    end(&c);
}

static void test_verifying(void **state) {
    (void)state;
    weir_error error;
    weir_staged staged;
    consumer c;
    trial t = trial_of(2, 2);
    begin(&c, &t, fake_device(0)); /* late: a wait that is missing shows */
    for (uint64_t step = 0; step < 5; step++) {
        assert_ok(weir_staging_next(c.staging, &staged, &error), &error);
        assert_int_equal(weir_staging_step(c.staging), step + 1);
        assert_ok(weir_staging_verify(c.staging, &staged, &error), &error);
        assert_ok(weir_staging_release(c.staging, &staged, 0, &error), &error);
    }
    assert_ok(weir_staging_next(c.staging, &staged, &error), &error);
    assert_ok(weir_event_sync(c.device, staged.ready, &error), &error);
    assert_ok(weir_device_clear(c.device, (void *)(uintptr_t)staged.batch->data, 64, 0, &error), &error);
    assert_ok(weir_stream_sync(c.device, 0, &error), &error);
    assert_fails(weir_staging_verify(c.staging, &staged, &error), WEIR_DEVICE_ERROR, &error);
    assert_int_equal(error.t, 5);
    end(&c);
    t.loading.with_digests = false;
    begin(&c, &t, fake_device(0));
    assert_ok(weir_staging_next(c.staging, &staged, &error), &error);
    assert_fails(weir_staging_verify(c.staging, &staged, &error), WEIR_CONTRACT_VIOLATION, &error);
    end(&c);
}

static void test_what_cannot_be_opened(void **state) {
    (void)state;
    weir_error error;
    weir_staging *staging;
    weir_device *device = fake_device(0);
    trial t = trial_of(1, 65);
    t.options.device = device;
    t.options.loader = &t.loading;
    assert_fails(weir_staging_open(NULL, &t.options, &staging, &error), WEIR_CONTRACT_VIOLATION, &error);
    t.options.depth = 2;
    t.loading.dataset = "no/such/dataset";
    assert_fails(weir_staging_open(NULL, &t.options, &staging, &error), WEIR_INVALID_DATASET_KEY, &error);
    weir_device_close(device);
    assert_int_equal(fake.live(), 0);
}

/* ---- Kernel, tables, checkpoints -------------------------------------------------------------------- */

static void test_no_compiler(void **state) {
    (void)state;
    weir_error error;
    weir_device *device;
    weir_staging *staging;
    weir_device_options options = {.size = sizeof options, .library = WEIR_FAKE_CUDA, .compiler = "/nowhere"};
    trial t = trial_of(1, 2);
    fake.reset();
    assert_ok(weir_device_open(NULL, &options, &device, &error), &error);
    t.options.device = device;
    t.options.loader = &t.loading;
    assert_fails(weir_staging_open(NULL, &t.options, &staging, &error), WEIR_DEVICE_ERROR, &error);
    assert_non_null(strstr(error.message, "libnvrtc"));
    weir_device_close(device);
    assert_int_equal(fake.live(), 0);
}

static void assert_table(weir_device *device, const void *there, const uint8_t *table, size_t size) {
    weir_error error;
    uint8_t *back = malloc(size);
    assert_non_null(back);
    assert_ok(weir_copy_to_host(device, back, there, size, 0, &error), &error);
    assert_ok(weir_stream_sync(device, 0, &error), &error);
    assert_memory_equal(back, table, size);
    free(back);
}

static void test_tables_are_there(void **state) {
    (void)state;
    consumer c;
    trial t = trial_of(1, 2);
    begin(&c, &t, fake_device(0));
    for (size_t i = 0; i < 2; i++) {
        const weir_store_info *info = weir_store_describe(fixture.stores[i]);
        weir_staged_tables tables = weir_staging_tables(c.staging, fixture.stores[i]);
        assert_int_equal(tables.embedding_dim, info->embedding_dim);
        assert_int_equal(tables.column_count, info->column_count);
        assert_int_equal(tables.category_count, info->category_count);
        assert_table(c.device, tables.column_embeddings, info->column_embeddings,
                     2 * (size_t)info->embedding_dim * info->column_count);
        assert_table(c.device, tables.category_embeddings, info->category_embeddings,
                     2 * (size_t)info->embedding_dim * info->category_count);
    }
    assert_null(weir_staging_tables(c.staging, NULL).column_embeddings);
    end(&c);
}

static uint64_t peak_of(const weir_plan *plan, const char *arena) {
    for (size_t i = 0; i < weir_plan_arena_count(plan); i++) {
        weir_plan_arena found = weir_plan_arena_at(plan, i);
        if (found.name.size == strlen(arena) && memcmp(found.name.data, arena, found.name.size) == 0)
            return found.peak_bytes;
    }
    return 0;
}

/* All memory is planned, on both sides; the limit is the host's. */
static void test_memory_is_planned(void **state) {
    (void)state;
    weir_error error;
    weir_plan *plan = NULL;
    weir_plan_hashes before, during;
    consumer c;
    trial t = trial_of(2, 3);
    t.options.loader = &t.loading;
    assert_ok(weir_staging_plan(NULL, &t.options, &plan, &error), &error);
    weir_plan_get_hashes(plan, &before);
    uint64_t needed = peak_of(plan, "slots") + peak_of(plan, "builders");
    assert_int_equal(peak_of(plan, "tensors"), 0);
    assert_true(peak_of(plan, "device") > peak_of(plan, "slots") / 7 * 3);
    weir_plan_close(plan);
    t.loading.memory_limit = needed;
    begin(&c, &t, fake_device(0));
    weir_plan_get_hashes(weir_staging_memory(c.staging), &during);
    assert_memory_equal(before.plan, during.plan, WEIR_HASH_SIZE);
    end(&c);
    t.loading.memory_limit = needed - 1;
    t.options.device = fake_device(0);
    assert_fails(weir_staging_open(NULL, &t.options, &c.staging, &error), WEIR_ARENA_TOO_SMALL, &error);
    weir_device_close(t.options.device);
    assert_int_equal(fake.live(), 0);
}

/* A run that stops after any number of batches goes on with the next, though more were taken ahead. */
static void test_checkpoints(void **state) {
    (void)state;
    for (size_t stop = 0; stop < 7; stop++) {
        weir_error error;
        const void *data;
        size_t size;
        consumer c;
        trial t = trial_of(2, 4);
        t.options.with_checkpoints = true;
        begin(&c, &t, fake_device(stop));
        while (c.seen < stop)
            assert_true(consume(&c));
        assert_ok(weir_staging_checkpoint(c.staging, &data, &size, &error), &error);
        uint8_t *kept = malloc(size);
        assert_non_null(kept);
        memcpy(kept, data, size);
        end(&c);
        trial on = trial_of(3, 2);
        on.loading.checkpoint = kept;
        on.loading.checkpoint_size = size;
        begin(&c, &on, fake_device(stop));
        c.seen = stop;
        weir_staged staged;
        assert_ok(weir_staging_next(c.staging, &staged, &error), &error);
        assert_int_equal(staged.step, stop);
        assert_memory_equal(staged.batch->batch_digest, expected[stop].digest, 16);
        assert_fails(weir_staging_checkpoint(c.staging, &data, &size, &error), WEIR_CONTRACT_VIOLATION,
                     &error);
        c.seen = 0;
        end(&c);
        free(kept);
    }
}

static int set_up(void **state) {
    (void)state;
    fake_driver_open(&fake);
    loading_set_up(NULL);
    weir_loader_options options = loading_options(&fixture, manifest);
    loading_build(&options, 0, STEPS, expected);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_batch_arrives),
        cmocka_unit_test(test_a_missing_wait_shows),
        cmocka_unit_test(test_batches_are_held_and_released_in_any_order),
        cmocka_unit_test(test_a_failure_comes_at_its_step),
        cmocka_unit_test(test_a_copy_that_fails),
        cmocka_unit_test(test_verifying),
        cmocka_unit_test(test_what_cannot_be_opened),
        cmocka_unit_test(test_no_compiler),
        cmocka_unit_test(test_tables_are_there),
        cmocka_unit_test(test_memory_is_planned),
        cmocka_unit_test(test_checkpoints),
    };
    return cmocka_run_group_tests(tests, set_up, loading_tear_down);
}
