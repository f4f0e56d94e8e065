/* Golden runs over 10^6 and 10^9 samples (tests/golden/sampler_hashes.json) and whole epochs of as many
 * (epoch_digests.json), made by Python programs that share nothing with the library: the same hash for every
 * world size, compiler, optimisation and machine. Whole epochs of 10^9 samples take minutes: they are for
 * `make soak`. */
#include <stdlib.h>
#include <string.h>

#include "support/sampling.h"

/* A case of a golden file: what its manifest says, and whether its steps and what they end with are right. */
typedef weir_data_config case_data(json_t *vector);
typedef void case_check(json_t *vector, const weir_manifest *manifest, uint32_t world_size,
                        uint64_t *indices);

/* Checks the cases of n samples at all of their world sizes; returns how many there are. */
static size_t check_cases(const char *file, uint64_t n, case_data *data_of, case_check *check) {
    json_t *golden = load_golden(file), *list = member(golden, "cases");
    size_t seen = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *vector = json_array_get(list, i), *worlds = member(vector, "world_sizes");
        if (member_uint(vector, "n") != n)
            continue;
        weir_data_config data = data_of(vector);
        weir_manifest *manifest =
            manifest_of_numbers(n, member_uint(vector, "batch"), &data, member_uint(vector, "seed"));
        uint64_t *indices = malloc(member_uint(vector, "batch") * sizeof *indices);
        assert_non_null(indices);
        for (size_t w = 0; w < json_array_size(worlds); w++)
            check(vector, manifest, (uint32_t)uint_of(json_array_get(worlds, w)), indices);
        free(indices);
        weir_manifest_close(manifest);
        seen++;
    }
    json_decref(golden);
    return seen;
}

/* Takes steps of all ranks, at most so many and at most to the end of the epoch, and compares their hash;
 * returns how many samples they had. */
static uint64_t assert_steps(json_t *vector, const weir_manifest *manifest, weir_stage stage,
                             uint32_t world_size, uint64_t steps, uint64_t last_epoch, weir_cursor *cursor,
                             uint64_t *indices) {
    weir_sampler *ranks[64];
    weir__sha256 sha;
    uint8_t digest[32];
    uint64_t samples = 0;
    weir_cursor next = *cursor;
    for (uint32_t rank = 0; rank < world_size; rank++)
        ranks[rank] = sampler_of(manifest, "a", stage, world_size, rank);
    weir__sha256_init(&sha);
    for (uint64_t i = 0; i < steps && cursor->epoch <= last_epoch; i++, *cursor = next)
        for (uint32_t rank = 0; rank < world_size; rank++) {
            weir_step step = take_step(ranks[rank], *cursor, indices);
            hash_indices(&sha, indices, step.count);
            samples += step.count;
            next = step.cursor_next;
        }
    weir__sha256_final(&sha, digest);
    assert_hex_equal(digest, 32, member_text(vector, "sha256"));
    for (uint32_t rank = 0; rank < world_size; rank++)
        weir_sampler_close(ranks[rank]);
    return samples;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static weir_data_config data_of_run(json_t *vector) {
    weir_data_config data = {.sampler_block_size = member_uint(vector, "block_size"),
                             .drop_last = json_is_true(member(vector, "drop_last")),
                             .rotate = json_is_true(member(vector, "rotate"))};
    if (strcmp(member_text(vector, "intra_block"), "feistel_v1") == 0)
        data.intra_block = WEIR_INTRA_FEISTEL_V1;
    if (strcmp(member_text(vector, "epoch_boundary"), "stream") == 0)
        data.epoch_boundary = WEIR_BOUNDARY_STREAM;
    return data;
}

static void check_run(json_t *vector, const weir_manifest *manifest, uint32_t world_size, uint64_t *indices) {
    weir_cursor cursor = {member_uint(vector, "epoch"), member_uint(vector, "position")};
    json_t *end = member(vector, "cursor_end");
    uint64_t samples = assert_steps(vector, manifest, WEIR_STAGE_TRAIN, world_size,
                                    member_uint(vector, "steps"), UINT64_MAX, &cursor, indices);
    assert_true(samples == member_uint(vector, "samples"));
    assert_true(
        cursors_equal(cursor, (weir_cursor){member_uint(end, "epoch"), member_uint(end, "global_index")}));
}

static void golden_runs_over_a_million(void **state) {
    (void)state;
    assert_true(check_cases("sampler_hashes.json", 1000000, data_of_run, check_run) >= 4);
}

static void golden_runs_over_a_billion(void **state) {
    (void)state;
    assert_true(check_cases("sampler_hashes.json", 1000000000, data_of_run, check_run) >= 4);
}

/* ---- Whole epochs ---------------------------------------------------------------------------- */

static bool is_text(json_t *vector, const char *key, const char *text) {
    json_t *value = json_object_get(vector, key);
    return value && strcmp(json_string_value(value), text) == 0;
}

static weir_data_config data_of_epoch(json_t *vector) {
    weir_data_config data = {.sampler_block_size = member_uint(vector, "block_size"),
                             .rotate = json_is_true(json_object_get(vector, "rotate"))};
    if (is_text(vector, "intra_block", "feistel_v1"))
        data.intra_block = WEIR_INTRA_FEISTEL_V1;
    if (is_text(vector, "block_order", "stateless_v1"))
        data.block_order = WEIR_BLOCKS_STATELESS_V1;
    return data;
}

static void check_epoch(json_t *vector, const weir_manifest *manifest, uint32_t world_size,
                        uint64_t *indices) {
    weir_stage stage = is_text(vector, "stage", "eval") ? WEIR_STAGE_EVAL : WEIR_STAGE_TRAIN;
    weir_cursor cursor = {member_uint(vector, "epoch"), 0};
    uint64_t samples =
        assert_steps(vector, manifest, stage, world_size, UINT64_MAX, cursor.epoch, &cursor, indices);
    assert_true(samples == member_uint(vector, "indices"));
}

static void golden_epochs_of_a_million(void **state) {
    (void)state;
    assert_int_equal(check_cases("epoch_digests.json", 1000000, data_of_epoch, check_epoch), 4);
}

static void golden_epochs_of_a_billion(void **state) {
    (void)state;
    assert_int_equal(check_cases("epoch_digests.json", 1000000000, data_of_epoch, check_epoch), 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_runs_over_a_million),
        cmocka_unit_test(golden_runs_over_a_billion),
        cmocka_unit_test(golden_epochs_of_a_million),
    };
    const struct CMUnitTest long_tests[] = {cmocka_unit_test(golden_epochs_of_a_billion)};
    if (getenv("WEIR_SOAK"))
        return cmocka_run_group_tests_name("sampler golden, whole epochs of 10^9", long_tests, NULL, NULL);
    return cmocka_run_group_tests_name("sampler golden", tests, NULL, NULL);
}
