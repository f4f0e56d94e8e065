/* Runs on a device: what is read back from the device is the batch that was built, over many steps, for any
 * depth and number of workers, in whatever order the device does its work; a wait that is missing shows;
 * failures come at their step; checkpoints are those of the batches that were given. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/bytes.h"
#include "support/database.h"
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
    weir_run *run;
    weir_stream stream;
    size_t seen;
    weir_batch views[LATE];
    uint8_t *data[LATE];
    weir_event read[LATE];
} consumer;

/* On the fake driver, which does its work in an order that the seed decides. */
static weir_run_options trial_of(uint32_t workers, uint32_t depth, uint64_t seed) {
    weir_run_options options = loading_options(&fixture, manifest);
    options.workers = workers;
    options.steps = STEPS;
    options.device = WEIR_FAKE_CUDA;
    options.depth = depth;
    fake.reset();
    fake.set_schedule(seed);
    return options;
}

static void begin(consumer *c, const weir_run_options *options) {
    weir_error error;
    *c = (consumer){0};
    assert_ok(weir_run_open(NULL, options, &c->run, &error), &error);
    assert_null(weir_run_describe(c->run)->device);
    assert_ok(weir_run_start(c->run, &error), &error);
    c->device = weir_run_describe(c->run)->device;
    assert_ok(weir_stream_open(c->device, &c->stream, &error), &error);
    for (size_t i = 0; i < LATE; i++) {
        assert_ok(weir_event_open(c->device, &c->read[i], &error), &error);
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
    weir_stream_close(c->device, c->stream);
    for (size_t i = 0; i < LATE; i++) {
        weir_event_close(c->device, c->read[i]);
        free(c->data[i]);
    }
    weir_run_close(c->run);
    assert_int_equal(fake.live(), 0);
    assert_int_equal(fake.depth(), 0);
}

/* Takes one batch and reads it back; false at the end of the run. */
static bool consume(consumer *c) {
    weir_error error;
    weir_taken taken;
    size_t at = c->seen % LATE;
    assert_ok(weir_run_next(c->run, &taken, &error), &error);
    if (!taken.batch)
        return false;
    if (c->seen >= LATE)
        look_at(c, c->seen - LATE);
    assert_int_equal(taken.step, expected[c->seen].step);
    assert_string_equal(taken.dataset->key, expected[c->seen].dataset);
    assert_memory_equal(taken.batch->batch_digest, expected[c->seen].digest, 16);
    assert_true(taken.batch->size <= 1 << 20);
    assert_null(taken.batch->rows); /* what stays on the host is filled again */
    assert_null(taken.batch->visits);
    assert_null(taken.batch->compact);
    c->views[at] = *taken.batch;
    assert_ok(weir_run_wait(c->run, &taken, c->stream, &error), &error);
    assert_ok(weir_copy_to_host(c->device, c->data[at], taken.batch->data, (size_t)taken.batch->size,
                                c->stream, &error),
              &error);
    assert_ok(weir_event_record(c->device, c->read[at], c->stream, &error), &error);
    assert_ok(weir_run_release(c->run, &taken, c->stream, &error), &error);
    c->seen++;
    return true;
}

static void run(const weir_run_options *options) {
    consumer c;
    weir_run_metrics metrics;
    begin(&c, options);
    while (consume(&c)) {
    }
    assert_int_equal(c.seen, STEPS);
    assert_false(consume(&c)); /* the end stays the end */
    weir_run_measure(c.run, &metrics, NULL);
    for (int stage = 0; stage < WEIR_RUN_STAGES; stage++)
        assert_int_equal(metrics.stages[stage].batches,
                         stage == WEIR_RUN_TRANSFORM || stage == WEIR_RUN_READ ? 0 : STEPS);
    assert_int_equal(metrics.stages[WEIR_RUN_TRANSFER].room, weir_run_describe(c.run)->queue_size);
    assert_int_equal(metrics.stages[WEIR_RUN_CONSUME].queued, 0);
    assert_int_equal(metrics.read_back, options->read_back ? STEPS : 0);
    assert_true(metrics.compact_bytes < metrics.tensor_bytes / 2);
    end(&c);
}

static void test_every_batch_arrives(void **state) {
    (void)state;
    for (uint32_t seed = 0; seed < 12; seed++) {
        weir_run_options options = trial_of(1 + seed % 4, 1 + seed % 5, seed);
        options.buffer_size = 1 + seed % 3;
        options.read_back = seed % 4 == 1;
        run(&options);
    }
    weir_run_options options = trial_of(2, 0, 0);
    options.device = "host";
    run(&options);
}

/* ---- Waiting and releasing ------------------------------------------------------------------------- */

/* Without the wait the consumer's copy may come first: the fake shows it. */
static void test_a_missing_wait_shows(void **state) {
    (void)state;
    weir_error error;
    weir_taken taken;
    consumer c;
    weir_run_options options = trial_of(1, 2, 0);
    begin(&c, &options);
    assert_ok(weir_run_next(c.run, &taken, &error), &error);
    assert_ok(weir_copy_to_host(c.device, c.data[0], taken.batch->data, (size_t)taken.batch->size, c.stream,
                                &error),
              &error);
    assert_ok(weir_stream_sync(c.device, c.stream, &error), &error);
    for (size_t i = 0; i < taken.batch->size; i++)
        assert_int_equal(c.data[0][i], 0);
    assert_ok(weir_event_sync(c.device, taken.ready, &error), &error);
    assert_ok(weir_copy_to_host(c.device, c.data[0], taken.batch->data, (size_t)taken.batch->size, c.stream,
                                &error),
              &error);
    assert_ok(weir_stream_sync(c.device, c.stream, &error), &error);
    assert_digest(taken.batch, c.data[0], expected[0].digest);
    end(&c);
}

static void test_batches_are_held_and_released_in_any_order(void **state) {
    (void)state;
    weir_error error;
    weir_taken held[3], more;
    consumer c;
    weir_run_options options = trial_of(2, 3, 5);
    begin(&c, &options);
    for (size_t i = 0; i < 3; i++)
        assert_ok(weir_run_next(c.run, &held[i], &error), &error);
    assert_fails(weir_run_next(c.run, &more, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_ok(weir_run_release(c.run, &held[1], c.stream, &error), &error);
    assert_ok(weir_run_next(c.run, &more, &error), &error);
    assert_int_equal(more.step, 3);
    assert_int_equal(more.slot, held[1].slot);
    assert_ok(weir_run_release(c.run, &held[2], c.stream, &error), &error);
    assert_ok(weir_run_release(c.run, &held[0], c.stream, &error), &error);
    assert_ok(weir_run_release(c.run, &more, c.stream, &error), &error);
    for (uint64_t step = 4; step < 8; step++) {
        assert_ok(weir_run_next(c.run, &more, &error), &error);
        assert_int_equal(more.step, step);
        assert_ok(weir_run_release(c.run, &more, c.stream, &error), &error);
    }
    weir_run_cancel(c.run);
    weir_status status;
    do { /* what was queued before the cancel is given still */
        status = weir_run_next(c.run, &more, &error);
        if (status == WEIR_OK)
            assert_ok(weir_run_release(c.run, &more, c.stream, &error), &error);
    } while (status == WEIR_OK);
    assert_fails(status, WEIR_CANCELLED, &error);
    end(&c);
}

/* ---- Errors ---------------------------------------------------------------------------------------- */

/* A batch that was given back is nobody's: neither again nor after its place has another batch. */
static void test_a_batch_is_released_once(void **state) {
    (void)state;
    weir_error error;
    weir_taken first, second;
    consumer c;
    weir_run_options options = trial_of(1, 1, 5);
    begin(&c, &options);
    assert_ok(weir_run_next(c.run, &first, &error), &error);
    assert_ok(weir_run_release(c.run, &first, c.stream, &error), &error);
    assert_fails(weir_run_release(c.run, &first, c.stream, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_ok(weir_run_next(c.run, &second, &error), &error);
    assert_int_equal(second.slot, first.slot);
    assert_fails(weir_run_release(c.run, &first, c.stream, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_fails(weir_run_next(c.run, &first, &error), WEIR_CONTRACT_VIOLATION, &error); /* still held */
    assert_ok(weir_run_release(c.run, &second, c.stream, &error), &error);
    end(&c);
}

/* The fake does one thing whenever it is asked how far it is: who does not want to wait is not made to. */
static void test_trying_does_not_wait_for_a_copy(void **state) {
    (void)state;
    weir_error error;
    weir_taken taken;
    consumer c;
    bool is_ready;
    weir_run_options options = trial_of(1, 1, 0);
    begin(&c, &options);
    for (uint64_t step = 0; step < STEPS; step++) {
        for (is_ready = false; !is_ready;)
            assert_ok(weir_run_try_next(c.run, &taken, &is_ready, &error), &error);
        assert_int_equal(taken.step, step);
        assert_ok(weir_run_release(c.run, &taken, c.stream, &error), &error);
    }
    assert_int_equal(fake.calls("cuEventSynchronize"), 0);
    end(&c);
}

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
        weir_taken taken;
        consumer c;
        weir_run_options options = trial_of(3, depth, depth);
        options.stores = stores;
        options.any_hash = true;
        begin(&c, &options);
        while (c.seen < sound)
            assert_true(consume(&c));
        assert_fails(weir_run_next(c.run, &taken, &error), WEIR_STORE_CORRUPT, &error);
        assert_int_equal(error.t, sound);
        assert_fails(weir_run_next(c.run, &taken, &error), WEIR_CANCELLED, &error);
        end(&c);
    }
    weir_store_close(damaged);
    free(memory);
}

static void test_a_copy_that_fails(void **state) {
    (void)state;
    weir_error error;
    weir_taken taken;
    consumer c;
    weir_run_options options = trial_of(2, 2, 0);
    begin(&c, &options);
    fake.fail_call("cuMemcpyHtoDAsync_v2", fake.calls("cuMemcpyHtoDAsync_v2") + 4, 700);
    for (int i = 0; i < 3; i++)
        assert_true(consume(&c));
    assert_fails(weir_run_next(c.run, &taken, &error), WEIR_DEVICE_ERROR, &error);
    assert_fails(weir_run_next(c.run, &taken, &error), WEIR_CANCELLED, &error);
    end(&c);
}

/* A batch that is another one on the device is not given: here the kernel of the sixth is left out. */
static void test_reading_back(void **state) {
    (void)state;
    weir_error error;
    weir_taken taken;
    consumer c;
    weir_run_options options = trial_of(2, 4, 0); /* late: a wait that is missing shows */
    options.read_back = true;
    options.with_digests = false; /* it has them all the same */
    begin(&c, &options);
    fake.fail_call("cuLaunchKernel", 6, 0);
    for (uint64_t step = 0; step < 5; step++) {
        assert_ok(weir_run_next(c.run, &taken, &error), &error);
        assert_int_equal(weir_run_step(c.run), step + 1);
        assert_ok(weir_run_release(c.run, &taken, 0, &error), &error);
    }
    assert_fails(weir_run_next(c.run, &taken, &error), WEIR_DEVICE_ERROR, &error);
    assert_int_equal(error.t, 5);
    const void *data;
    size_t size;
    assert_fails(weir_run_next(c.run, &taken, &error), WEIR_CANCELLED, &error); /* though more are queued */
    assert_fails(weir_run_state(c.run, &data, &size, &error), WEIR_CANCELLED, &error);
    assert_fails(weir_run_next(c.run, &taken, &error), WEIR_CANCELLED, &error);
    end(&c);
}

/* What is queued on the device is not given after the files were closed: no trace would have it. */
static void test_a_run_that_was_stopped_gives_nothing(void **state) {
    (void)state;
    weir_error error;
    weir_taken taken;
    consumer c;
    weir_run_options options = trial_of(2, 4, 0);
    begin(&c, &options);
    for (int i = 0; i < 6; i++)
        assert_true(consume(&c));
    assert_ok(weir_run_stop(c.run, &error), &error);
    assert_fails(weir_run_next(c.run, &taken, &error), WEIR_CANCELLED, &error);
    assert_int_equal(weir_run_step(c.run), 6);
    end(&c);
}

/* ---- Transforms -------------------------------------------------------------------------------------- */

static weir_status clear_first(void *context, uint64_t step, const weir_batch *batch, void *data,
                               weir_stream stream, weir_error *error) {
    consumer *c = context;
    assert_ptr_equal(batch->data, data);
    assert_true(stream != 0 && stream != c->stream);
    if (step == 7) {
        *error = (weir_error){.status = WEIR_CONTRACT_VIOLATION, .failure_operator = "test"};
        return WEIR_CONTRACT_VIOLATION;
    }
    return weir_device_clear(weir_run_describe(c->run)->device, data, 8, stream, error);
}

/* What a transform gives the stream is done before the batch is ready. */
static void test_a_transform_on_the_device(void **state) {
    (void)state;
    weir_error error;
    weir_taken taken;
    consumer c;
    static const uint8_t zeros[8];
    weir_run_options options = trial_of(2, 3, 0);
    options.transform = (weir_transform){&c, clear_first};
    begin(&c, &options);
    for (uint64_t step = 0; step < 7; step++) {
        assert_ok(weir_run_next(c.run, &taken, &error), &error);
        assert_ok(weir_run_wait(c.run, &taken, c.stream, &error), &error);
        assert_ok(weir_copy_to_host(c.device, c.data[0], taken.batch->data, 64, c.stream, &error), &error);
        assert_ok(weir_stream_sync(c.device, c.stream, &error), &error);
        assert_memory_equal(c.data[0], zeros, 8);
        assert_ok(weir_run_release(c.run, &taken, c.stream, &error), &error);
    }
    assert_fails(weir_run_next(c.run, &taken, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_int_equal(error.t, 7);
    assert_int_equal(weir_run_step(c.run), 7);
    weir_run_metrics metrics;
    weir_run_measure(c.run, &metrics, NULL);
    assert_int_equal(metrics.stages[WEIR_RUN_TRANSFORM].batches, 7);
    end(&c);
    options.read_back = true;
    assert_fails(weir_run_open(NULL, &options, &c.run, &error), WEIR_CONTRACT_VIOLATION, &error);
}

static void test_what_cannot_be_opened(void **state) {
    (void)state;
    weir_error error;
    weir_run *run;
    weir_run_options options = trial_of(1, 65, 0);
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_CONTRACT_VIOLATION, &error);
    options.depth = 2;
    options.dataset = "no/such/dataset";
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_INVALID_DATASET_KEY, &error);
    options.dataset = NULL;
    static const char *const names[] = {"gpu", "cuda:", "cuda:x", "cuda:1x", "cuda:-1", "cuda:99999999999"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        options.device = names[i];
        assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_CONTRACT_VIOLATION, &error);
    }
    options.device = "/nowhere/libcuda.so";
    assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
    assert_fails(weir_run_start(run, &error), WEIR_DEVICE_ERROR, &error);
    weir_taken taken;
    assert_fails(weir_run_next(run, &taken, &error), WEIR_CANCELLED, &error);
    weir_run_close(run);
    assert_int_equal(fake.live(), 0);
}

/* ---- Tables, memory, checkpoints ---------------------------------------------------------------------- */

static void assert_table(weir_device *device, const void *there, const uint8_t *table, size_t size) {
    weir_error error;
    uint8_t *back = malloc(size);
    assert_non_null(back);
    assert_ok(weir_copy_to_host(device, back, there, size, 0, &error), &error);
    assert_ok(weir_stream_sync(device, 0, &error), &error);
    assert_memory_equal(back, table, size);
    free(back);
}

/* The store's numbers of rows are not for models: they are on the device only if somebody asks. */
static void test_anchors_are_there_if_asked_for(void **state) {
    (void)state;
    weir_error error;
    weir_taken taken;
    consumer c;
    weir_run_options options = trial_of(1, 2, 0);
    for (int asks = 0; asks < 2; asks++) {
        uint8_t there[4 * 8], zeros[4 * 8] = {0};
        options.anchor_rows = asks;
        begin(&c, &options);
        assert_ok(weir_run_next(c.run, &taken, &error), &error);
        assert_ok(weir_run_wait(c.run, &taken, c.stream, &error), &error);
        const weir_tensor *anchors = &taken.batch->tensors[WEIR_ANCHOR_ROW];
        assert_int_equal(taken.batch->sequence_count, 8);
        assert_int_equal(anchors->size, asks ? sizeof there : 0);
        assert_int_equal(anchors->shape[0], asks ? 8 : 0);
        assert_ok(weir_copy_to_host(c.device, there, taken.batch->data + anchors->offset, sizeof there,
                                    c.stream, &error),
                  &error);
        assert_ok(weir_stream_sync(c.device, c.stream, &error), &error);
        assert_memory_not_equal(taken.batch->anchor_rows, zeros, sizeof zeros);
        for (size_t i = 0; i < 8; i++)
            assert_int_equal(weir__load32(there + 4 * i), asks ? taken.batch->anchor_rows[i] : 0);
        end(&c);
    }
}

static void test_tables_are_there(void **state) {
    (void)state;
    weir_error error;
    weir_tables tables;
    consumer c;
    weir_run_options options = trial_of(1, 2, 0);
    begin(&c, &options);
    for (size_t i = 0; i < 2; i++) {
        const weir_store_info *info = weir_store_describe(fixture.stores[i]);
        assert_ok(weir_run_tables(c.run, fixture.stores[i], &tables, &error), &error);
        assert_int_equal(tables.embedding_dim, info->embedding_dim);
        assert_int_equal(tables.column_count, info->column_count);
        assert_int_equal(tables.category_count, info->category_count);
        assert_table(c.device, tables.column_embeddings, info->column_embeddings,
                     2 * (size_t)info->embedding_dim * info->column_count);
        assert_table(c.device, tables.category_embeddings, info->category_embeddings,
                     2 * (size_t)info->embedding_dim * info->category_count);
    }
    assert_fails(weir_run_tables(c.run, NULL, &tables, &error), WEIR_CONTRACT_VIOLATION, &error);
    end(&c);
    assert_ok(weir_run_open(NULL, &options, &c.run, &error), &error);
    assert_fails(weir_run_tables(c.run, fixture.stores[0], &tables, &error), WEIR_CONTRACT_VIOLATION, &error);
    weir_run_close(c.run);
}

static uint64_t peak_of(const weir_plan *plan, const char *arena) {
    for (size_t i = 0; i < weir_plan_describe(plan)->arena_count; i++) {
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
    consumer c;
    weir_run *run;
    weir_run_options options = trial_of(2, 3, 0);
    assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
    const weir_plan *plan = weir_run_describe(run)->memory;
    uint64_t needed = peak_of(plan, "slots") + peak_of(plan, "builders");
    assert_int_equal(peak_of(plan, "tensors"), 0);
    assert_true(peak_of(plan, "device") > peak_of(plan, "slots") / 7 * 3);
    weir_run_close(run);
    options.memory_limit = needed;
    begin(&c, &options);
    end(&c);
    options.memory_limit = needed - 1;
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_ARENA_TOO_SMALL, &error);
    assert_int_equal(fake.live(), 0);
}

/* People of whom the first two dozen have said nothing, and the others much. */
static weir_store *open_talk(const char *folder) {
    static const char sql[] = "CREATE TABLE people (id INTEGER PRIMARY KEY, said TEXT);"
                              "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 64) "
                              "INSERT INTO people SELECT i, CASE WHEN i > 24 THEN 'word ' || i END FROM n;";
    static const char schema[] =
        "{\"name\": \"talk\", \"tables\": {\"people\": {\"primary_key\": \"id\", \"columns\": "
        "{\"said\": {\"stype\": \"text\"}}}}, \"tasks\": {\"age\": {\"query\": \"SELECT id, id * 1.5 AS "
        "age FROM people\", \"anchor_table\": \"people\", \"anchor_key\": \"id\", \"target_column\": "
        "\"age\", \"target_stype\": \"numerical\", \"split\": {\"method\": \"hash\", \"permille\": "
        "[1000, 0, 0]}}}, \"embedding\": {\"dim\": 4096}}";
    char path[160];
    size_t size;
    weir_error error;
    weir_store *store;
    free(make_store_of(folder, sql, schema, &size));
    assert_ok(weir_store_open(NULL, path_in(folder, "small.weir", path), &store, &error), &error);
    return store;
}

/* A slot has room for what the first sequences say; texts beyond that travel from other memory. */
static void test_more_texts_than_slots_have_room_for(void **state) {
    (void)state;
    static const char text[] =
        "{\"global_batch_size\": 8, \"batch\": {\"sequence_length\": 8}, \"datasets\": {\"talk/age/train\": "
        "{\"id\": \"t\", \"version\": \"1\", \"cardinality\": 64, \"hash\": "
        "\"0000000000000000000000000000000000000000000000000000000000000000\"}}}";
    enum { BATCHES = 8 };
    weir_error error;
    weir_run *run;
    weir_run_metrics metrics;
    weir_manifest *over;
    loading_batch built[BATCHES], given[BATCHES];
    weir_store *store = open_talk(fixture.folder);
    assert_ok(weir_manifest_read(NULL, text, strlen(text), "test", &over, &error), &error);
    for (uint64_t seed = 0; seed < 6; seed++) {
        weir_run_options options = trial_of(2, 2, seed);
        options.stores = &store;
        options.store_count = 1;
        options.manifest = over;
        options.dataset = "talk/age/train";
        options.any_hash = true;
        options.stage = WEIR_STAGE_EVAL;
        options.steps = BATCHES;
        options.device = NULL;
        assert_int_equal(loading_run(&options, BATCHES, built), BATCHES);
        options.device = WEIR_FAKE_CUDA;
        options.read_back = true;
        assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
        assert_int_equal(loading_take(run, BATCHES, given), BATCHES);
        assert_batches_equal(built, given, BATCHES);
        weir_run_measure(run, &metrics, NULL);
        assert_int_equal(metrics.read_back, BATCHES);
        assert_true(metrics.unpinned_bytes > 32 * 8192 && metrics.unpinned_bytes < metrics.compact_bytes);
        weir_run_close(run);
        assert_int_equal(fake.live(), 0);
    }
    weir_manifest_close(over);
    weir_store_close(store);
}

/* A run that stops after any number of batches resumes with the next, though more were taken ahead; its state
 * is that of a run without a device. */
static void test_states(void **state) {
    (void)state;
    for (uint32_t stop = 0; stop < 7; stop++) {
        weir_error error;
        size_t size, host_size;
        consumer c;
        weir_taken taken;
        loading_batch batches[7];
        weir_run_options options = trial_of(2, 4, stop);
        options.policy = stop % 3 == 2 ? WEIR_POLICY_BEST_EFFORT : WEIR_POLICY_STRICT;
        options.workers = stop % 3 == 2 ? 1 : 2;
        begin(&c, &options);
        while (c.seen < stop)
            assert_true(consume(&c));
        uint8_t *kept = loading_checkpoint(c.run, &size);
        end(&c);
        options.device = NULL;
        weir_run *host;
        assert_ok(weir_run_open(NULL, &options, &host, &error), &error);
        assert_int_equal(loading_take(host, stop, batches), stop);
        uint8_t *same = loading_checkpoint(host, &host_size);
        assert_int_equal(size, host_size);
        assert_memory_equal(kept, same, size);
        weir_run_close(host);
        weir_run_options on = trial_of(options.workers, 2, stop);
        on.policy = options.policy;
        on.state = kept;
        on.state_size = size;
        begin(&c, &on);
        assert_ok(weir_run_next(c.run, &taken, &error), &error);
        assert_int_equal(taken.step, stop);
        assert_memory_equal(taken.batch->batch_digest, expected[stop].digest, 16);
        end(&c);
        free(kept);
        free(same);
    }
}

/* ---- The steady state ---------------------------------------------------------------------------------- */

static _Atomic uint64_t allocations;

static void *count_allocate(void *context, size_t size) {
    allocations++;
    return weir_env_default()->allocate(context, size);
}

static void *count_resize(void *context, void *memory, size_t size) {
    allocations++;
    return weir_env_default()->resize(context, memory, size);
}

/* With a trace and checkpoints that are saved too, on the host and on a device. */
static void test_the_steady_state_allocates_nothing(void **state) {
    (void)state;
    for (int on_device = 0; on_device < 2; on_device++) {
        char trace[160], checkpoint[160];
        weir_error error;
        weir_run *run;
        weir_taken taken;
        const void *data;
        size_t size;
        weir_env env = *weir_env_default();
        env.allocate = count_allocate;
        env.resize = count_resize;
        weir_run_options options = trial_of(2, 3, 1);
        options.device = on_device ? WEIR_FAKE_CUDA : NULL;
        options.steps = 0;
        options.trace = path_in(fixture.folder, "steady.trace", trace);
        options.checkpoint = path_in(fixture.folder, "steady.checkpoint", checkpoint);
        assert_ok(weir_run_open(&env, &options, &run, &error), &error);
        for (int i = 0; i < 60; i++) {
            if (i == 30)
                allocations = 0;
            assert_ok(weir_run_next(run, &taken, &error), &error);
            assert_ok(weir_run_release(run, &taken, 0, &error), &error);
            assert_ok(weir_run_state(run, &data, &size, &error), &error);
            assert_ok(weir_run_save(run, &error), &error);
        }
        assert_int_equal(allocations, 0);
        weir_run_close(run);
        remove(trace);
        remove(checkpoint);
    }
}

static int set_up(void **state) {
    (void)state;
    fake_driver_open(&fake);
    loading_set_up(NULL);
    weir_run_options options = loading_options(&fixture, manifest);
    loading_build(&options, 0, STEPS, expected);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_batch_arrives),
        cmocka_unit_test(test_a_missing_wait_shows),
        cmocka_unit_test(test_batches_are_held_and_released_in_any_order),
        cmocka_unit_test(test_a_batch_is_released_once),
        cmocka_unit_test(test_trying_does_not_wait_for_a_copy),
        cmocka_unit_test(test_a_failure_comes_at_its_step),
        cmocka_unit_test(test_a_copy_that_fails),
        cmocka_unit_test(test_reading_back),
        cmocka_unit_test(test_a_run_that_was_stopped_gives_nothing),
        cmocka_unit_test(test_a_transform_on_the_device),
        cmocka_unit_test(test_what_cannot_be_opened),
        cmocka_unit_test(test_anchors_are_there_if_asked_for),
        cmocka_unit_test(test_tables_are_there),
        cmocka_unit_test(test_memory_is_planned),
        cmocka_unit_test(test_more_texts_than_slots_have_room_for),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_the_steady_state_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, loading_tear_down);
}
