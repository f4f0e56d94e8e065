/* Cursors of a caller that chooses datasets itself: moved, saved, restored in another world, and refused by
 * name. */
#include <stdlib.h>
#include <string.h>

#include "support/memory_env.h"
#include "support/sampling.h"
#include "weir/cursors.h"

#define DATASET(n)                                                                                           \
    "{\"id\": \"x\", \"version\": \"1\", \"cardinality\": " #n                                               \
    ", \"hash\": \"0000000000000000000000000000000000000000000000000000000000000000\"}"
/* Their order is another in CBOR, where shorter keys come first. */
#define DATASETS                                                                                             \
    "\"global_batch_size\": 12, \"datasets\": {\"bb\": " DATASET(57) ", \"z\": " DATASET(                    \
        101) ", \"none\": " DATASET(0) "}}"

static weir_manifest *manifest;

static weir_cursors *open_cursors(const weir_manifest *of) {
    weir_error error;
    weir_cursors *cursors;
    assert_ok(weir_cursors_open(NULL, of, NULL, 0, &cursors, &error), &error);
    return cursors;
}

static weir_cursor at(const weir_cursors *cursors, const char *dataset) {
    weir_error error;
    weir_cursor cursor;
    assert_ok(weir_cursors_get(cursors, dataset, &cursor, &error), &error);
    return cursor;
}

/* Takes a step of a dataset as a rank of a world, and moves on. */
static void take(weir_cursors *cursors, const char *dataset, uint32_t world_size, uint32_t rank,
                 uint64_t *indices, uint64_t *count) {
    weir_error error;
    weir_sampler *sampler = sampler_of(manifest, dataset, WEIR_STAGE_TRAIN, world_size, rank);
    weir_step step = take_step(sampler, at(cursors, dataset), indices);
    *count = step.count;
    if (rank == world_size - 1)
        assert_ok(weir_cursors_advance(cursors, dataset, &step, &error), &error);
    weir_sampler_close(sampler);
}

static void save(const weir_cursors *cursors, weir_cbor_writer *w) {
    weir_error error;
    weir_cbor_writer_memory(w, NULL);
    weir_cursors_write(cursors, w);
    assert_ok(weir_cbor_finish(w, &error), &error);
}

static const char *choose(int step) {
    return step * step % 7 < 3 ? "bb" : "z";
}

/* A loop that chooses by itself, stopped after every number of steps and resumed with four ranks: the same
 * samples. */
static void a_loop_goes_on_anywhere_with_any_world(void **state) {
    (void)state;
    enum { STEPS = 30 };
    uint64_t whole[STEPS][12], counts[STEPS];
    weir_error error;
    weir_cursors *cursors = open_cursors(manifest);
    for (int i = 0; i < STEPS; i++)
        take(cursors, choose(i), 1, 0, whole[i], &counts[i]);
    weir_cursors_close(cursors);
    for (int stop = 0; stop < STEPS; stop++) {
        weir_cursors *first = open_cursors(manifest), *second = open_cursors(manifest);
        weir_cbor_writer w;
        uint64_t indices[12], count;
        for (int i = 0; i < stop; i++)
            take(first, choose(i), 1, 0, indices, &count);
        save(first, &w);
        assert_ok(weir_cursors_restore(second, w.data, w.size, &error), &error);
        for (int i = stop; i < STEPS && i < stop + 9; i++) {
            uint64_t merged = 0;
            for (uint32_t rank = 0; rank < 4; rank++) {
                take(second, choose(i), 4, rank, indices, &count);
                assert_memory_equal(indices, whole[i] + merged, count * 8);
                merged += count;
            }
            assert_int_equal(merged, counts[i]);
        }
        weir_cbor_release(&w);
        weir_cursors_close(first);
        weir_cursors_close(second);
    }
}

static void moves_are_checked(void **state) {
    (void)state;
    weir_error error;
    weir_cursor cursor;
    weir_cursors *cursors = open_cursors(manifest);
    weir_step step = {.cursor_before = {0, 12}, .cursor_next = {0, 24}};
    assert_fails(weir_cursors_get(cursors, "c", &cursor, &error), WEIR_INVALID_DATASET_KEY, &error);
    assert_fails(weir_cursors_advance(cursors, "c", &step, &error), WEIR_INVALID_DATASET_KEY, &error);
    assert_fails(weir_cursors_advance(cursors, "z", &step, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_fails(weir_cursors_set(cursors, "z", (weir_cursor){3, 101}, &error),
                 WEIR_GLOBAL_POSITION_EXCEEDS_CARDINALITY, &error);
    assert_ok(weir_cursors_set(cursors, "z", (weir_cursor){0, 12}, &error), &error);
    assert_ok(weir_cursors_advance(cursors, "z", &step, &error), &error);
    assert_true(cursors_equal(at(cursors, "z"), (weir_cursor){0, 24}));
    assert_true(cursors_equal(at(cursors, "bb"), (weir_cursor){0, 0}));
    assert_ok(weir_cursors_set(cursors, "none", (weir_cursor){7, 0}, &error), &error);
    weir_cursors_close(cursors);
}

static void assert_refused(weir_cursors *cursors, const void *data, size_t size, const char *field) {
    weir_error error;
    weir_cursor before = at(cursors, "z");
    weir_status status = weir_cursors_restore(cursors, data, size, &error);
    assert_true(status == WEIR_CHECKPOINT_MISMATCH || (!field && status == WEIR_CBOR_INVALID));
    if (field)
        assert_string_equal(error.diagnostics[0].text, field);
    assert_true(cursors_equal(at(cursors, "z"), before));
}

/* Every bit flipped, every cut, another manifest and another token: refused, and nothing moves. */
static void other_and_damaged_cursors_are_refused(void **state) {
    (void)state;
    static const uint8_t token[64] = {1};
    weir_error error;
    weir_cbor_writer w;
    weir_cursors *cursors = open_cursors(manifest), *other;
    assert_ok(weir_cursors_set(cursors, "z", (weir_cursor){5, 60}, &error), &error);
    save(cursors, &w);
    for (size_t bit = 0; bit < 8 * w.size; bit++) {
        w.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_refused(cursors, w.data, w.size, NULL);
        w.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t cut = 0; cut < w.size; cut++)
        assert_refused(cursors, w.data, cut, NULL);
    weir_manifest *reseeded = manifest_of_text("{\"seed\": 8, " DATASETS);
    other = open_cursors(reseeded);
    assert_refused(other, w.data, w.size, "manifest_hash");
    weir_cursors_close(other);
    weir_manifest_close(reseeded);
    assert_ok(weir_cursors_open(NULL, manifest, token, sizeof token, &other, &error), &error);
    assert_refused(other, w.data, w.size, "token_hash");
    weir_cursors_close(other);
    weir_cbor_release(&w);
    weir_cursors_close(cursors);
}

static void they_are_kept_in_a_file(void **state) {
    (void)state;
    memory_env memory;
    weir_error error;
    uint8_t hash[WEIR_HASH_SIZE], digest[WEIR_HASH_SIZE];
    weir_cursors *cursors, *loaded;
    memory_env_init(&memory);
    assert_ok(weir_cursors_open(&memory.env, manifest, NULL, 0, &cursors, &error), &error);
    assert_ok(weir_cursors_open(&memory.env, manifest, NULL, 0, &loaded, &error), &error);
    assert_ok(weir_cursors_set(cursors, "bb", (weir_cursor){UINT64_MAX, 56}, &error), &error);
    assert_fails(weir_cursors_load(loaded, "run.cursors", &error), WEIR_IO_ERROR, &error);
    assert_ok(weir_cursors_save(cursors, "run.cursors", hash, &error), &error);
    memory_file *file = memory_env_file(&memory, "run.cursors");
    weir__sha256_of(file->data, file->size, digest);
    assert_memory_equal(hash, digest, WEIR_HASH_SIZE);
    assert_ok(weir_cursors_load(loaded, "run.cursors", &error), &error);
    assert_true(cursors_equal(at(loaded, "bb"), (weir_cursor){UINT64_MAX, 56}));
    weir_cursors_close(cursors);
    weir_cursors_close(loaded);
    memory_env_close(&memory);
}

static weir_status use(const weir_env *env, void *context, weir_error *error) {
    weir_cursors *cursors = NULL;
    const char *path = context;
    weir_status status = weir_cursors_open(env, manifest, NULL, 0, &cursors, error);
    if (status == WEIR_OK)
        status = weir_cursors_set(cursors, "z", (weir_cursor){1, 2}, error);
    if (status == WEIR_OK)
        status = weir_cursors_save(cursors, path, NULL, error);
    if (status == WEIR_OK)
        status = weir_cursors_load(cursors, path, error);
    weir_cursors_close(cursors);
    return status;
}

static void faults_leave_nothing(void **state) {
    (void)state;
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 16];
    scratch_make(folder);
    snprintf(path, sizeof path, "%s/run.cursors", folder);
    assert_true(sweep_faults(use, NULL, path) > 10);
    scratch_remove(folder);
}

static int set_up(void **state) {
    (void)state;
    manifest = manifest_of_text("{" DATASETS);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    weir_manifest_close(manifest);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_goes_on_anywhere_with_any_world),
        cmocka_unit_test(moves_are_checked),
        cmocka_unit_test(other_and_damaged_cursors_are_refused),
        cmocka_unit_test(they_are_kept_in_a_file),
        cmocka_unit_test(faults_leave_nothing),
    };
    return cmocka_run_group_tests_name("cursors", tests, set_up, tear_down);
}
