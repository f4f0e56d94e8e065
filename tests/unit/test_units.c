/* One batch built by many: whatever the units, their order and the threads that have them, it is the batch
 * that one thread builds, though its sequences lie in another order in the compact form. */
#include <pthread.h>
#include <stdatomic.h>

#include "batch/build.h"
#include "support/shop_store.h"

enum { WORKERS = 4, SEQUENCES = 41 };

static shop_store shop;

typedef struct shared {
    weir_batch_builder *builders[WORKERS];
    weir_batch_buffer *buffer;
    uint32_t unit; /* sequences of one */
    _Atomic uint32_t next;
    _Atomic uint32_t next_worker;
} shared;

static weir_batch_options options_of(const weir_manifest *manifest) {
    return (weir_batch_options){.size = sizeof(weir_batch_options),
                                .store = shop.store,
                                .manifest = manifest,
                                .dataset = "shop/rating/train",
                                .world_size = 1,
                                .with_digests = true};
}

static void begin(shared *s, const weir_manifest *manifest) {
    weir_error error;
    weir_batch_options options = options_of(manifest);
    *s = (shared){.unit = 1};
    for (int i = 0; i < WORKERS; i++)
        assert_ok(weir_batch_builder_open(NULL, &options, &s->builders[i], &error), &error);
    assert_ok(weir_batch_buffer_open(s->builders, WORKERS, NULL, &s->buffer, &error), &error);
}

static void end(shared *s) {
    weir_batch_buffer_close(s->buffer);
    for (int i = 0; i < WORKERS; i++)
        weir_batch_builder_close(s->builders[i]);
}

/* Takes units from the last to the first. */
static void *take_units(void *context) {
    shared *s = context;
    weir_batch_builder *builder = s->builders[atomic_fetch_add(&s->next_worker, 1)];
    uint32_t count = s->buffer->batch.sequence_count, units = (count + s->unit - 1) / s->unit;
    for (uint32_t i = atomic_fetch_add(&s->next, 1); i < units; i = atomic_fetch_add(&s->next, 1)) {
        uint32_t first = (units - 1 - i) * s->unit;
        weir_batch__walk_unit(builder, s->buffer, first, count - first < s->unit ? count - first : s->unit);
    }
    return NULL;
}

static void *expand_units(void *context) {
    shared *s = context;
    uint32_t count = s->buffer->batch.sequence_count;
    for (uint32_t i = atomic_fetch_add(&s->next, 1); i < count; i = atomic_fetch_add(&s->next, 1))
        weir_batch__expand_sequences(s->buffer, i, 1);
    return NULL;
}

static void run(shared *s, void *(*work)(void *)) {
    pthread_t threads[WORKERS];
    s->next = s->next_worker = 0;
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, s), 0);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
}

static void check_batches(const char *config) {
    static const uint32_t units[] = {1, 3, WEIR_BATCH__UNIT, SEQUENCES};
    weir_error error;
    weir_batch_builder *builder;
    weir_batch_buffer *alone;
    weir_manifest *manifest = shop_manifest(&shop, SEQUENCES, "", config);
    weir_batch_options options = options_of(manifest);
    shared s;
    begin(&s, manifest);
    assert_ok(weir_batch_builder_open(NULL, &options, &builder, &error), &error);
    assert_ok(weir_batch_buffer_open(&builder, 1, NULL, &alone, &error), &error);
    builder->worker.retriever.links = NULL; /* it does not know what they have learnt */
    for (uint64_t i = 0; i < 12; i++) {
        weir_cursor cursor = {i, i % 3};
        weir_batch_builder *lead = s.builders[i % WORKERS];
        s.unit = units[i % 4];
        assert_ok(weir_batch_build(builder, cursor, alone, &error), &error);
        assert_ok(weir_batch__begin(lead, cursor, s.buffer, &error), &error);
        run(&s, take_units);
        assert_ok(weir_batch__finish(lead, cursor, s.buffer, &error), &error);
        run(&s, expand_units);
        weir_batch__digest(lead, s.buffer);
        const weir_batch *a = weir_batch_view(alone), *b = weir_batch_view(s.buffer);
        assert_int_equal(a->size, b->size);
        assert_int_equal(a->compact_size, b->compact_size);
        assert_memory_equal(a->batch_digest, b->batch_digest, 16);
        assert_memory_equal(a->sample_digests, b->sample_digests, a->sequence_count * sizeof(uint64_t));
        for (int id = 0; id < WEIR_BATCH_PARTS; id++)
            assert_memory_equal(a->data + a->tensors[id].offset, b->data + b->tensors[id].offset,
                                (size_t)a->tensors[id].size);
    }
    weir_batch_buffer_close(alone);
    weir_batch_builder_close(builder);
    end(&s);
    weir_manifest_close(manifest);
}

static void test_a_batch_does_not_depend_on_who_builds_it(void **state) {
    (void)state;
    check_batches("\"sequence_length\": 90, \"child_width\": 5");
}

/* Threads tell each other where rows lead. */
static void test_walks_do_not_depend_on_what_others_remember(void **state) {
    (void)state;
    check_batches("\"sequence_length\": 90, \"labels\": true, "
                  "\"retrieval\": {\"walks\": 300, \"length\": 7, \"local_cells\": 9}");
}

/* Slots of every size, from one that has room for no text: what lies in it and beyond is the batch. */
static void test_texts_that_a_slot_has_no_room_for(void **state) {
    (void)state;
    weir_error error;
    weir_batch_builder *builder;
    weir_batch_buffer *whole, *slot;
    weir_manifest *manifest = shop_manifest(&shop, SEQUENCES, "", "\"sequence_length\": 90");
    weir_batch_options options = options_of(manifest);
    weir_batch_memory at = {.without_tensors = true};
    uint64_t divided = 0, last = 0;
    assert_ok(weir_batch_builder_open(NULL, &options, &builder, &error), &error);
    assert_ok(weir_batch_buffer_open(&builder, 1, &at, &whole, &error), &error);
    const weir_batch__limits *limits = &builder->recipe.limits;
    uint64_t usual = weir_batch__usual_room(&builder, 1, whole);
    assert_in_range(usual, limits->blobs, limits->room.compact);
    memset(whole->compact, 0, (size_t)whole->room.compact); /* bytes between two parts are not written */
    assert_ok(weir_batch_build(builder, (weir_cursor){0}, whole, &error), &error);
    assert_int_equal(whole->here, whole->batch.compact_size);
    assert_true(whole->here <= usual);
    /* The batch in the smallest room that holds it, and in those below. */
    for (uint64_t room = whole->here; room >= whole->here - 2000; room -= 40) {
        at.compact = calloc(1, room); /* a byte beyond it is found by the sanitizer */
        assert_non_null(at.compact);
        assert_ok(weir_batch__slot_open(&builder, 1, &at, room, &slot, &error), &error);
        assert_ok(weir_batch_build(builder, (weir_cursor){0}, slot, &error), &error);
        uint64_t beyond = slot->batch.compact_size - slot->here;
        assert_true(slot->here <= room && room - slot->here < 2 * limits->dim);
        assert_true(beyond >= last);
        assert_int_equal(slot->batch.compact_size, whole->here);
        assert_memory_equal(slot->compact, whole->compact, (size_t)slot->here);
        assert_memory_equal(slot->beyond, whole->compact + slot->here, (size_t)beyond);
        assert_memory_equal(slot->batch.batch_digest, whole->batch.batch_digest, 16);
        divided += beyond > 0;
        last = beyond;
        weir_batch_buffer_close(slot);
        free(at.compact);
    }
    assert_int_equal(divided, 50);
    weir_batch_buffer_close(whole);
    weir_batch_builder_close(builder);
    weir_manifest_close(manifest);
}

static int set_up(void **state) {
    (void)state;
    shop_store_open(&shop);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    shop_store_close(&shop);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_batch_does_not_depend_on_who_builds_it),
        cmocka_unit_test(test_walks_do_not_depend_on_what_others_remember),
        cmocka_unit_test(test_texts_that_a_slot_has_no_room_for),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
