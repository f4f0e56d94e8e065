/* Checkpoints of runs: a run that goes on from one, at any step and with other workers, is the uninterrupted
 * one; one of another run is refused by name; damaged bytes are refused. */
#include <stdlib.h>
#include <string.h>

#include "support/loading.h"

static void test_every_split_point(void **state) {
    (void)state;
    enum { SPLITS = 14 };
    weir_error error;
    loading_batch whole[SPLITS], parts[SPLITS + 1];
    for (int policy = 0; policy < 2; policy++) {
        weir_run_options options = loading_options(&fixture, manifest);
        options.policy = (weir_policy)policy;
        options.steps = SPLITS;
        loading_build(&options, 0, SPLITS, whole);
        for (uint32_t split = 0; split <= SPLITS; split++) {
            weir_run *run;
            size_t size;
            options.workers = 1 + split % 4;
            options.shard_mode = policy == WEIR_POLICY_STRICT ? WEIR_SHARD_INTERLEAVED : split / 4 % 2;
            options.state = NULL;
            assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
            assert_int_equal(loading_take(run, split, parts), split);
            uint8_t *checkpoint = loading_checkpoint(run, &size);
            weir_run_close(run);
            options.state = checkpoint;
            options.state_size = size;
            if (policy == WEIR_POLICY_STRICT)
                options.workers = 1 + (split + 1) % 4;
            assert_int_equal(split + loading_run(&options, SPLITS, parts + split), SPLITS);
            if (policy == WEIR_POLICY_BEST_EFFORT)
                loading_sort(parts, SPLITS);
            assert_batches_equal(whole, parts, SPLITS);
            free(checkpoint);
        }
    }
}

/* How best effort deals steps out is in its checkpoint: another way is refused when the run is opened. */
static void test_other_shards_are_refused(void **state) {
    (void)state;
    weir_error error;
    weir_run *run;
    size_t size;
    loading_batch taken[3];
    weir_run_options options = loading_options(&fixture, manifest);
    options.policy = WEIR_POLICY_BEST_EFFORT;
    options.stage = WEIR_STAGE_EVAL;
    options.dataset = "shop/churn/val";
    options.shard_mode = WEIR_SHARD_CONTIGUOUS;
    options.workers = 2;
    assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
    loading_take(run, 1, taken);
    uint8_t *checkpoint = loading_checkpoint(run, &size);
    weir_run_close(run);
    options.state = checkpoint;
    options.state_size = size;
    options.shard_mode = WEIR_SHARD_INTERLEAVED;
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_CHECKPOINT_MISMATCH, &error);
    assert_string_equal(diagnostic_of_field(&error), "shard_mode");
    options.shard_mode = WEIR_SHARD_CONTIGUOUS;
    options.drop_remainder = true; /* another end */
    assert_fails(weir_run_open(NULL, &options, &run, &error), WEIR_CHECKPOINT_MISMATCH, &error);
    assert_string_equal(diagnostic_of_field(&error), "steps");
    options.drop_remainder = false;
    assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
    weir_run_close(run);
    free(checkpoint);
}

static void test_another_world_goes_on(void **state) {
    (void)state;
    enum { AT = 5, MORE = 6 };
    weir_error error;
    weir_run *run;
    size_t size;
    loading_batch taken[AT], expected[MORE], got[MORE];
    weir_run_options options = loading_options(&fixture, manifest);
    assert_ok(weir_run_open(NULL, &options, &run, &error), &error);
    loading_take(run, AT, taken);
    uint8_t *checkpoint = loading_checkpoint(run, &size);
    weir_run_close(run);
    options.world_size = 4;
    options.rank = 2;
    loading_build(&options, AT, AT + MORE, expected);
    options.state = checkpoint;
    options.state_size = size;
    assert_int_equal(loading_run(&options, MORE, got), MORE);
    assert_batches_equal(expected, got, MORE);
    free(checkpoint);
}

/* A checkpoint at step 5 of the run that the options describe. */
static uint8_t *checkpoint_of(const weir_run_options *options, size_t *size) {
    weir_error error;
    weir_run *run;
    loading_batch taken[5];
    assert_ok(weir_run_open(NULL, options, &run, &error), &error);
    loading_take(run, 5, taken);
    uint8_t *checkpoint = loading_checkpoint(run, size);
    weir_run_close(run);
    return checkpoint;
}

static void assert_mismatch(const weir_run_options *made, weir_run_options other, const char *field) {
    weir_error error;
    weir_run *run;
    size_t size;
    uint8_t *checkpoint = checkpoint_of(made, &size);
    other.state = checkpoint;
    other.state_size = size;
    assert_fails(weir_run_open(NULL, &other, &run, &error), WEIR_CHECKPOINT_MISMATCH, &error);
    assert_string_equal(diagnostic_of_field(&error), field);
    assert_non_null(strstr(error.message, field));
    free(checkpoint);
}

static void test_another_manifest_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *more;
        const char *field;
    } others[] = {
        {", \"seed\": 4, \"batch\": {\"sequence_length\": 24, \"max_rows\": 8}", "manifest_hash"},
        {", \"seed\": 3, \"batch\": {\"sequence_length\": 25, \"max_rows\": 8}", "batch_config_hash"},
        {SMALL_BATCHES ", \"data\": {\"rotate\": true}", "manifest_hash"},
    };
    weir_run_options made = loading_options(&fixture, manifest);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        weir_manifest *other = loading_manifest(&fixture, others[i].more);
        assert_mismatch(&made, loading_options(&fixture, other), others[i].field);
        weir_manifest_close(other);
    }
}

static void test_another_run_is_refused(void **state) {
    (void)state;
    static const uint8_t token[64] = {1};
    const weir_run_options made = loading_options(&fixture, manifest);
    weir_run_options other = made;
    other.token = token;
    other.token_size = sizeof token;
    assert_mismatch(&made, other, "token_hash");
    other = made;
    other.policy = WEIR_POLICY_BEST_EFFORT;
    assert_mismatch(&made, other, "policy");
    other = made;
    other.pad = true;
    assert_mismatch(&made, other, "pad");
    other = made;
    other.dataset = "oth/rating/train"; /* of one store alone */
    assert_mismatch(&made, other, "store_hashes");
    weir_run_options one = made;
    one.dataset = "shop/churn/train";
    other = one;
    other.dataset = "shop/spend/train";
    assert_mismatch(&one, other, "dataset");
    one.stage = WEIR_STAGE_EVAL;
    other = one;
    other.stage = WEIR_STAGE_INFER;
    assert_mismatch(&one, other, "stage");
}

static void test_best_effort_keeps_its_place_in_the_world(void **state) {
    (void)state;
    weir_run_options made = loading_options(&fixture, manifest);
    made.policy = WEIR_POLICY_BEST_EFFORT;
    made.world_size = 2;
    made.workers = 2;
    weir_run_options other = made;
    other.rank = 1;
    assert_mismatch(&made, other, "rank");
    other = made;
    other.world_size = 4;
    assert_mismatch(&made, other, "world_size");
    other = made;
    other.workers = 3;
    assert_mismatch(&made, other, "workers");
}

/* Every bit flipped and every cut: refused. */
static void test_damaged_checkpoints(void **state) {
    (void)state;
    weir_error error;
    size_t size;
    weir_run_options options = loading_options(&fixture, manifest);
    uint8_t *checkpoint = checkpoint_of(&options, &size);
    uint8_t *damaged = malloc(size);
    weir_checkpoint read;
    assert_ok(weir_checkpoint_read(checkpoint, size, &read, &error), &error);
    assert_int_equal(read.step, 5);
    assert_int_equal(read.workers, 1);
    assert_int_equal(read.world_size, 1);
    assert_memory_equal(read.manifest_hash, weir_manifest_describe(manifest)->hash, WEIR_HASH_SIZE);
    options.state = damaged;
    options.steps = 6;
    for (size_t bit = 0; bit < 8 * size; bit++) {
        memcpy(damaged, checkpoint, size);
        damaged[bit / 8] ^= (uint8_t)(1 << bit % 8);
        weir_status status = weir_checkpoint_read(damaged, size, &read, &error);
        if (status != WEIR_CBOR_INVALID && status != WEIR_CHECKPOINT_MISMATCH)
            fail_msg("flipping bit %zu of byte %zu went unnoticed", bit % 8, bit / 8);
    }
    for (size_t cut = 0; cut < size; cut++)
        assert_fails(weir_checkpoint_read(checkpoint, cut, &read, &error), WEIR_CBOR_INVALID, &error);
    for (size_t i = 0; i < size; i += 7) { /* and a run is not opened from it */
        weir_run *run;
        memcpy(damaged, checkpoint, size);
        damaged[i] ^= 1;
        options.state_size = size;
        weir_status status = weir_run_open(NULL, &options, &run, &error);
        assert_true(status == WEIR_CBOR_INVALID || status == WEIR_CHECKPOINT_MISMATCH);
    }
    free(damaged);
    free(checkpoint);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_split_point),
        cmocka_unit_test(test_other_shards_are_refused),
        cmocka_unit_test(test_another_world_goes_on),
        cmocka_unit_test(test_another_manifest_is_refused),
        cmocka_unit_test(test_another_run_is_refused),
        cmocka_unit_test(test_best_effort_keeps_its_place_in_the_world),
        cmocka_unit_test(test_damaged_checkpoints),
    };
    return cmocka_run_group_tests(tests, loading_set_up, loading_tear_down);
}
