/* Golden runs over 10^6 and 10^9 samples (tests/golden/sampler_hashes.json) and whole epochs of as many
 * (epoch_digests.json), made by Python programs that share nothing with the library: the same hash for every
 * world size, compiler, optimisation and machine. Whole epochs of 10^9 samples take minutes: they are for
 * `make soak`. */
#include <stdlib.h>
#include <string.h>

#include "support/sampling.h"

static weir_manifest *manifest_of_case(json_t *vector) {
    weir_data_config data = {.sampler_block_size = member_uint(vector, "block_size"),
                             .drop_last = json_is_true(member(vector, "drop_last")),
                             .rotate = json_is_true(member(vector, "rotate"))};
    if (strcmp(member_text(vector, "intra_block"), "feistel_v1") == 0)
        data.intra_block = WEIR_INTRA_FEISTEL_V1;
    if (strcmp(member_text(vector, "epoch_boundary"), "stream") == 0)
        data.epoch_boundary = WEIR_BOUNDARY_STREAM;
    return manifest_of_numbers(member_uint(vector, "n"), member_uint(vector, "batch"), &data,
                               member_uint(vector, "seed"));
}

static void assert_run(json_t *vector, const weir_manifest *manifest, uint32_t world_size,
                       uint64_t *indices) {
    weir_sampler *ranks[64];
    weir__sha256 sha;
    uint8_t digest[32];
    uint64_t samples = 0;
    weir_cursor cursor = {member_uint(vector, "epoch"), member_uint(vector, "position")}, next = cursor;
    for (uint32_t rank = 0; rank < world_size; rank++)
        ranks[rank] = sampler_of(manifest, "a", WEIR_STAGE_TRAIN, world_size, rank);
    weir__sha256_init(&sha);
    for (uint64_t i = 0; i < member_uint(vector, "steps"); i++, cursor = next)
        for (uint32_t rank = 0; rank < world_size; rank++) {
            weir_step step = take_step(ranks[rank], cursor, indices);
            hash_indices(&sha, indices, step.count);
            samples += step.count;
            next = step.cursor_next;
        }
    weir__sha256_final(&sha, digest);
    assert_true(samples == member_uint(vector, "samples"));
    json_t *end = member(vector, "cursor_end");
    assert_true(
        cursors_equal(cursor, (weir_cursor){member_uint(end, "epoch"), member_uint(end, "global_index")}));
    assert_hex_equal(digest, 32, member_text(vector, "sha256"));
    for (uint32_t rank = 0; rank < world_size; rank++)
        weir_sampler_close(ranks[rank]);
}

static void runs_have_their_hash(uint64_t n) {
    json_t *golden = load_golden("sampler_hashes.json");
    json_t *list = member(golden, "cases");
    size_t seen = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *vector = json_array_get(list, i);
        if (member_uint(vector, "n") != n)
            continue;
        weir_manifest *manifest = manifest_of_case(vector);
        uint64_t *indices = malloc(member_uint(vector, "batch") * sizeof *indices);
        assert_non_null(indices);
        json_t *worlds = member(vector, "world_sizes");
        for (size_t w = 0; w < json_array_size(worlds); w++)
            assert_run(vector, manifest, (uint32_t)uint_of(json_array_get(worlds, w)), indices);
        free(indices);
        weir_manifest_close(manifest);
        seen++;
    }
    assert_true(seen >= 4);
    json_decref(golden);
}

static void golden_runs_over_a_million(void **state) {
    (void)state;
    runs_have_their_hash(1000000);
}

static void golden_runs_over_a_billion(void **state) {
    (void)state;
    runs_have_their_hash(1000000000);
}

/* ---- Whole epochs ---------------------------------------------------------------------------- */

static bool is_text(json_t *vector, const char *key, const char *text) {
    json_t *value = json_object_get(vector, key);
    return value && strcmp(json_string_value(value), text) == 0;
}

/* All steps of an epoch, all ranks of each. */
static void assert_epoch(json_t *vector, const weir_manifest *manifest, uint32_t world_size,
                         uint64_t *indices) {
    weir_sampler *ranks[64];
    weir__sha256 sha;
    uint8_t digest[32];
    uint64_t count = 0;
    weir_stage stage = is_text(vector, "stage", "eval") ? WEIR_STAGE_EVAL : WEIR_STAGE_TRAIN;
    weir_cursor cursor = {member_uint(vector, "epoch"), 0}, next = cursor;
    for (uint32_t rank = 0; rank < world_size; rank++)
        ranks[rank] = sampler_of(manifest, "a", stage, world_size, rank);
    weir__sha256_init(&sha);
    for (; cursor.epoch == member_uint(vector, "epoch"); cursor = next)
        for (uint32_t rank = 0; rank < world_size; rank++) {
            weir_step step = take_step(ranks[rank], cursor, indices);
            hash_indices(&sha, indices, step.count);
            count += step.count;
            next = step.cursor_next;
        }
    weir__sha256_final(&sha, digest);
    assert_true(count == member_uint(vector, "indices"));
    assert_hex_equal(digest, 32, member_text(vector, "sha256"));
    for (uint32_t rank = 0; rank < world_size; rank++)
        weir_sampler_close(ranks[rank]);
}

static void epochs_have_their_hash(uint64_t n) {
    json_t *golden = load_golden("epoch_digests.json");
    json_t *list = member(golden, "cases");
    size_t seen = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *vector = json_array_get(list, i);
        if (member_uint(vector, "n") != n)
            continue;
        weir_data_config data = {.sampler_block_size = member_uint(vector, "block_size"),
                                 .rotate = json_is_true(json_object_get(vector, "rotate"))};
        if (is_text(vector, "intra_block", "feistel_v1"))
            data.intra_block = WEIR_INTRA_FEISTEL_V1;
        if (is_text(vector, "block_order", "stateless_v1"))
            data.block_order = WEIR_BLOCKS_STATELESS_V1;
        weir_manifest *manifest =
            manifest_of_numbers(n, member_uint(vector, "batch"), &data, member_uint(vector, "seed"));
        uint64_t *indices = malloc(member_uint(vector, "batch") * sizeof *indices);
        assert_non_null(indices);
        json_t *worlds = member(vector, "world_sizes");
        for (size_t w = 0; w < json_array_size(worlds); w++)
            assert_epoch(vector, manifest, (uint32_t)uint_of(json_array_get(worlds, w)), indices);
        free(indices);
        weir_manifest_close(manifest);
        seen++;
    }
    assert_int_equal(seen, 4);
    json_decref(golden);
}

static void golden_epochs_of_a_million(void **state) {
    (void)state;
    epochs_have_their_hash(1000000);
}

static void golden_epochs_of_a_billion(void **state) {
    (void)state;
    epochs_have_their_hash(1000000000);
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
