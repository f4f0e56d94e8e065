/* The sequence that a sampler gives, as a whole: every epoch is a bijection, world size and restarts do not
 * change it, the caches do not show, and it is the one that the contract's procedure spells. */
#include <stdlib.h>
#include <string.h>

#include "sampler/manifest.h"
#include "support/sampling.h"

/* ---- Bijection ------------------------------------------------------------------------------- */

/* One stamp a value: a value that was seen in this round has the round's number. */
typedef struct stamps {
    uint32_t *seen;
    uint64_t *values;
    uint32_t round;
} stamps;

static stamps stamps_make(uint64_t limit) {
    stamps s = {calloc(limit, sizeof(uint32_t)), malloc(limit * sizeof(uint64_t)), 0};
    assert_true(s.seen && s.values);
    return s;
}

static void stamps_free(stamps *s) {
    free(s->seen);
    free(s->values);
}

/* Opening 200,000 manifests from text would take most of the time, so these tests change the numbers of one
 * in place. Its hash stays, which is as good a seed as any. */
static void assert_epoch_is_bijective(weir_manifest *manifest, stamps *s, uint64_t n,
                                      const weir_data_config *data) {
    manifest->datasets[0].cardinality = n;
    manifest->data = *data;
    weir_sampler *sampler = sampler_of(manifest, "a", WEIR_STAGE_TRAIN, 1, 0);
    weir_error error;
    bool is_bijective = true;
    assert_ok(weir_sampler_range(sampler, n, 0, n, s->values, &error), &error);
    s->round++;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t value = s->values[i];
        is_bijective &= value < n && s->seen[value] != s->round;
        if (value < n)
            s->seen[value] = s->round;
    }
    weir_sampler_close(sampler);
    if (!is_bijective)
        fail_msg("N %llu, block size %llu, intra_block %d, rotate %d", (unsigned long long)n,
                 (unsigned long long)data->sampler_block_size, (int)data->intra_block, data->rotate);
}

/* Both maps, one with and one without rotation, in turns. */
static void assert_bijective_two_ways(weir_manifest *manifest, stamps *s, uint64_t n, uint64_t block_size,
                                      bool rotate) {
    weir_data_config affine = {.sampler_block_size = block_size, .rotate = rotate};
    weir_data_config feistel = {.sampler_block_size = block_size,
                                .rotate = !rotate,
                                .intra_block = WEIR_INTRA_FEISTEL_V1,
                                .block_order = WEIR_BLOCKS_STATELESS_V1};
    assert_epoch_is_bijective(manifest, s, n, &affine);
    assert_epoch_is_bijective(manifest, s, n, &feistel);
}

static void assert_bijective_all_ways(weir_manifest *manifest, stamps *s, uint64_t n, uint64_t block_size) {
    assert_bijective_two_ways(manifest, s, n, block_size, false);
    assert_bijective_two_ways(manifest, s, n, block_size, true);
}

static uint64_t square_root(uint64_t n) {
    uint64_t root = 1;
    while (root * root < n)
        root++;
    return root;
}

static void every_epoch_to_5000_is_a_bijection(void **state) {
    (void)state;
    weir_manifest *manifest = manifest_of_numbers(1, 1, &(weir_data_config){.sampler_block_size = 1}, 1);
    stamps s = stamps_make(5000);
    for (uint64_t n = 1; n <= 5000; n += test_stride()) {
        const uint64_t sizes[] = {1 + n % 3, square_root(n), n / 2 + 1, n - 1, n, n + 1};
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            if (sizes[i] > 0)
                assert_bijective_two_ways(manifest, &s, n, sizes[i], (n + i) % 2);
    }
    stamps_free(&s);
    weir_manifest_close(manifest);
}

static void small_epochs_are_bijections_for_every_block_size(void **state) {
    (void)state;
    weir_manifest *manifest = manifest_of_numbers(1, 1, &(weir_data_config){.sampler_block_size = 1}, 2);
    stamps s = stamps_make(130);
    for (uint64_t n = 1; n <= 130; n += test_stride())
        for (uint64_t block_size = 1; block_size <= n + 2; block_size++)
            assert_bijective_all_ways(manifest, &s, n, block_size);
    stamps_free(&s);
    weir_manifest_close(manifest);
}

static void epochs_around_powers_of_two_are_bijections(void **state) {
    (void)state;
    weir_manifest *manifest = manifest_of_numbers(1, 1, &(weir_data_config){.sampler_block_size = 1}, 3);
    stamps s = stamps_make(((uint64_t)1 << 18) + 2);
    for (int k = 13; k <= (test_stride() > 1 ? 15 : 18); k++)
        for (int delta = -1; delta <= 1; delta++) {
            uint64_t power = (uint64_t)1 << k, n = power + (uint64_t)delta;
            const uint64_t sizes[] = {power / 8 - 1, power / 8, power / 8 + 1, n - 1, n, 64};
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
                assert_bijective_all_ways(manifest, &s, n, sizes[i]);
        }
    stamps_free(&s);
    weir_manifest_close(manifest);
}

static int compare_numbers(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* Too many samples to visit: whole stretches at random places, which must be distinct and in range. */
static void sampled_positions_of_large_epochs_are_distinct(void **state) {
    (void)state;
    enum { STRETCHES = 200, LENGTH = 1000 };
    static const uint64_t sizes[] = {1000000000u, 1000000000000u, (uint64_t)1 << 40, ((uint64_t)1 << 40) + 1};
    uint64_t *values = malloc(STRETCHES * LENGTH * sizeof *values);
    random_stream random = {30};
    assert_non_null(values);
    for (size_t i = 0; i < 4; i++)
        for (int way = 0; way < 4; way++) {
            uint64_t n = sizes[i];
            weir_data_config data = {.sampler_block_size = 1 << 20,
                                     .intra_block = way & 1 ? WEIR_INTRA_FEISTEL_V1 : WEIR_INTRA_AFFINE_V1,
                                     .rotate = way & 2};
            weir_manifest *manifest = manifest_of_numbers(n, 8, &data, 4);
            weir_sampler *sampler = sampler_of(manifest, "a", WEIR_STAGE_TRAIN, 1, 0);
            weir_error error;
            uint64_t window = n / STRETCHES;
            for (uint64_t k = 0; k < STRETCHES; k++) {
                uint64_t last = k == STRETCHES - 1;
                uint64_t position = last ? n - LENGTH : k * window + random_below(&random, window - LENGTH);
                assert_ok(weir_sampler_range(sampler, 3, position, LENGTH, values + k * LENGTH, &error),
                          &error);
            }
            qsort(values, STRETCHES * LENGTH, sizeof *values, compare_numbers);
            for (size_t k = 1; k < STRETCHES * LENGTH; k++)
                assert_true(values[k - 1] < values[k]);
            assert_true(values[STRETCHES * LENGTH - 1] < n);
            weir_sampler_close(sampler);
            weir_manifest_close(manifest);
        }
    free(values);
}

/* ---- World sizes ----------------------------------------------------------------------------- */

enum { ALL_CONFIGS = 24 };

/* Both maps, rotation, boundary and drop_last in all their combinations; the last third with stateless
 * blocks. */
static weir_data_config config_of(unsigned number, uint64_t block_size) {
    return (weir_data_config){.sampler_block_size = block_size,
                              .intra_block = number & 1 ? WEIR_INTRA_FEISTEL_V1 : WEIR_INTRA_AFFINE_V1,
                              .rotate = number >> 1 & 1,
                              .epoch_boundary = number & 4 ? WEIR_BOUNDARY_STREAM : WEIR_BOUNDARY_STRICT,
                              .drop_last = number < 16 ? number >> 3 & 1 : number & 1,
                              .block_order =
                                  number < 16 ? WEIR_BLOCKS_FISHER_YATES_V1 : WEIR_BLOCKS_STATELESS_V1};
}

/* The ranks of a step, put one behind the other, are the step of a world of one. Returns the next cursor. */
static weir_cursor assert_ranks_make_one(weir_sampler *one, weir_sampler **ranks, uint32_t world_size,
                                         weir_cursor cursor) {
    uint64_t whole[512], share[512], done = 0, valid = 0;
    weir_step expected = take_step(one, cursor, whole);
    for (uint32_t rank = 0; rank < world_size; rank++) {
        weir_step step = take_step(ranks[rank], cursor, share);
        assert_true(cursors_equal(step.cursor_next, expected.cursor_next));
        assert_true(step.effective_batch_size == expected.effective_batch_size);
        assert_true(done + step.count <= expected.count);
        assert_memory_equal(share, whole + done, step.count * 8);
        done += step.count;
        valid += step.valid_count;
    }
    assert_int_equal(done, expected.count);
    assert_int_equal(valid, expected.valid_count);
    return expected.cursor_next;
}

static void assert_world_agrees(const weir_manifest *manifest, weir_stage stage, uint32_t world_size,
                                weir_cursor cursor, int steps) {
    weir_sampler *ranks[64];
    weir_sampler *one = sampler_of(manifest, "a", stage, 1, 0);
    for (uint32_t rank = 0; rank < world_size; rank++)
        ranks[rank] = sampler_of(manifest, "a", stage, world_size, rank);
    for (int i = 0; i < steps; i++)
        cursor = assert_ranks_make_one(one, ranks, world_size, cursor);
    for (uint32_t rank = 0; rank < world_size; rank++)
        weir_sampler_close(ranks[rank]);
    weir_sampler_close(one);
}

/* The batch size is part of the manifest, so each world size is compared with a world of one at its own. */
static void worlds_of_1_to_64_make_one_sequence(void **state) {
    (void)state;
    for (uint32_t world_size = 1; world_size <= 64; world_size += test_stride())
        for (unsigned number = 0; number < ALL_CONFIGS; number++) {
            weir_data_config data = config_of(number, 37);
            weir_manifest *manifest = manifest_of_numbers(1003, world_size * 5, &data, world_size);
            int steps = (int)(2 * 1003 / (world_size * 5)) + 4;
            assert_world_agrees(manifest, WEIR_STAGE_TRAIN, world_size, (weir_cursor){0, 0}, steps);
            if (number == 0) {
                assert_world_agrees(manifest, WEIR_STAGE_EVAL, world_size, (weir_cursor){0, 0}, steps);
                assert_world_agrees(manifest, WEIR_STAGE_INFER, world_size, (weir_cursor){7, 990}, steps);
            }
            weir_manifest_close(manifest);
        }
}

static void worlds_agree_on_large_datasets(void **state) {
    (void)state;
    static const uint64_t sizes[] = {1000000000u, 1000000000000u};
    static const uint64_t block_sizes[] = {1 << 20, 1 << 26};
    static const uint32_t worlds[] = {2, 3, 8, 64};
    random_stream random = {31};
    for (size_t i = 0; i < 2; i++)
        for (unsigned number = 0; number < ALL_CONFIGS; number += 3)
            for (size_t w = 0; w < 4; w++) {
                weir_data_config data = config_of(number, block_sizes[i]);
                weir_manifest *manifest = manifest_of_numbers(sizes[i], 384, &data, i);
                weir_cursor cursor = {random_next(&random), random_below(&random, sizes[i])};
                cursor.global_index = w == 3 ? sizes[i] - 1000 : cursor.global_index;
                assert_world_agrees(manifest, WEIR_STAGE_TRAIN, worlds[w], cursor, 4);
                weir_manifest_close(manifest);
            }
}

/* ---- Restart --------------------------------------------------------------------------------- */

enum { RUN_STEPS = 60, RUN_BATCH = 24 };

typedef struct recorded_step {
    weir_step step;
    uint64_t indices[RUN_BATCH];
} recorded_step;

static void assert_same_step(const recorded_step *expected, const weir_step *step, const uint64_t *indices) {
    assert_memory_equal(&expected->step, step, sizeof *step);
    assert_memory_equal(expected->indices, indices, step->count * 8);
}

static void a_run_can_be_resumed_at_every_cursor(void **state) {
    (void)state;
    static recorded_step run[RUN_STEPS];
    for (unsigned number = 0; number < ALL_CONFIGS; number++)
        for (int stage = 0; stage < 2; stage++) {
            weir_data_config data = config_of(number, 50);
            weir_manifest *manifest = manifest_of_numbers(401, RUN_BATCH, &data, number);
            weir_sampler *sampler = sampler_of(manifest, "a", (weir_stage)stage, 3, 1);
            weir_cursor cursor = {0, 0};
            for (int i = 0; i < RUN_STEPS; i++) {
                run[i].step = take_step(sampler, cursor, run[i].indices);
                cursor = run[i].step.cursor_next;
            }
            assert_true(cursor.epoch >= 3);
            weir_sampler_close(sampler);
            for (int start = 0; start < RUN_STEPS; start++) {
                weir_sampler *resumed = sampler_of(manifest, "a", (weir_stage)stage, 3, 1);
                uint64_t indices[RUN_BATCH];
                cursor = run[start].step.cursor_before;
                for (int i = start; i < RUN_STEPS && i < start + 20; i++) {
                    weir_step step = take_step(resumed, cursor, indices);
                    assert_same_step(&run[i], &step, indices);
                    cursor = step.cursor_next;
                }
                weir_sampler_close(resumed);
            }
            weir_manifest_close(manifest);
        }
}

/* The orders of two epochs are cached and made in instalments: whatever was asked before, and however far
 * the next order was made, must not show. */
static void jumping_between_epochs_changes_nothing(void **state) {
    (void)state;
    random_stream random = {32};
    for (unsigned number = 0; number < ALL_CONFIGS; number++) {
        weir_data_config data = config_of(number, 3);
        weir_manifest *manifest = manifest_of_numbers(2003, 30, &data, number);
        weir_sampler *traveller = sampler_of(manifest, "a", WEIR_STAGE_TRAIN, 1, 0);
        weir_cursor cursor = {0, 0};
        uint64_t expected[64], found[64], at;
        for (unsigned i = 0; i < 400; i += test_stride()) {
            weir_error error;
            if (random_below(&random, 3) == 0)
                cursor = (weir_cursor){random_below(&random, 4), random_below(&random, 2003)};
            if (random_below(&random, 8) == 0)
                cursor.global_index = 2003 - 1 - random_below(&random, 40);
            weir_sampler *fresh = sampler_of(manifest, "a", WEIR_STAGE_TRAIN, 1, 0);
            recorded_step made;
            made.step = take_step(fresh, cursor, expected);
            weir_step step = take_step(traveller, cursor, found);
            assert_memory_equal(&made.step, &step, sizeof step);
            assert_memory_equal(expected, found, step.count * 8);
            weir_sampler_close(fresh);
            if (random_below(&random, 4) == 0)
                assert_ok(weir_sampler_index_at(traveller, random_below(&random, 5), 11, &at, &error),
                          &error);
            cursor = step.cursor_next;
        }
        weir_sampler_close(traveller);
        weir_manifest_close(manifest);
    }
}

/* Asking for steps without taking their indices changes nothing either. */
static void steps_can_be_asked_for_ahead_of_their_indices(void **state) {
    (void)state;
    for (unsigned number = 0; number < ALL_CONFIGS; number++) {
        weir_data_config data = config_of(number, 10);
        weir_manifest *manifest = manifest_of_numbers(205, RUN_BATCH, &data, number);
        weir_sampler *ahead = sampler_of(manifest, "a", WEIR_STAGE_TRAIN, 1, 0);
        weir_sampler *along = sampler_of(manifest, "a", WEIR_STAGE_TRAIN, 1, 0);
        weir_step steps[40];
        weir_cursor cursor = {0, 0};
        uint64_t expected[RUN_BATCH], found[RUN_BATCH];
        weir_error error;
        for (int i = 0; i < 40; i++) {
            assert_ok(weir_sampler_step(ahead, cursor, &steps[i], &error), &error);
            cursor = steps[i].cursor_next;
        }
        for (int i = 40; i-- > 0;) {
            weir_sampler_indices(ahead, &steps[i], found);
            weir_step step = take_step(along, steps[i].cursor_before, expected);
            assert_memory_equal(&step, &steps[i], sizeof step);
            assert_memory_equal(expected, found, step.count * 8);
        }
        weir_sampler_close(ahead);
        weir_sampler_close(along);
        weir_manifest_close(manifest);
    }
}

/* ---- Equivalence ----------------------------------------------------------------------------- */

/* Section 9 of the seed: 5 seeds, 3 world sizes, 2 modes; and all configurations, because they are there. */
static void the_sequence_is_the_one_that_the_procedure_spells(void **state) {
    (void)state;
    static const uint32_t worlds[] = {1, 3, 8};
    for (uint64_t seed = 0; seed < 5; seed++)
        for (int w = 0; w < 3; w++)
            for (int stage = 0; stage < 2; stage++)
                for (unsigned number = 0; number < ALL_CONFIGS; number++) {
                    weir_data_config data = config_of(number, 16 + seed);
                    weir_manifest *manifest = manifest_of_numbers(150 + seed, 24, &data, seed);
                    uint32_t rank = (uint32_t)(seed + number) % worlds[w];
                    weir_sampler *sampler = sampler_of(manifest, "a", (weir_stage)stage, worlds[w], rank);
                    weir_cursor cursor = {0, 0};
                    for (int i = 0; i < 16; i++) {
                        uint64_t expected[24], found[24];
                        weir_cursor next;
                        uint64_t count =
                            slow_step(manifest, (weir_stage)stage, worlds[w], rank, cursor, expected, &next);
                        weir_step step = take_step(sampler, cursor, found);
                        assert_int_equal(step.count, count);
                        assert_memory_equal(expected, found, count * 8);
                        assert_true(cursors_equal(step.cursor_next, next));
                        cursor = next;
                    }
                    weir_sampler_close(sampler);
                    weir_manifest_close(manifest);
                }
}

/* Blocks counted one index at a time, by where each came from. */
static uint64_t count_blocks_slowly(const weir_manifest *manifest, const weir_step *step,
                                    const uint64_t *indices, uint64_t first) {
    uint64_t n = weir_manifest_find(manifest, "a")->cardinality, pairs[64], found = 0;
    for (uint64_t i = 0; i < step->count; i++) {
        uint64_t epoch = (first + i) / n;
        uint64_t pair = epoch << 32 | indices[i] / step->sampler_block_size;
        uint64_t k = 0;
        while (k < found && pairs[k] != pair)
            k++;
        if (k == found)
            pairs[found++] = pair;
    }
    return found;
}

static void blocks_are_counted_rightly(void **state) {
    (void)state;
    random_stream random = {33};
    for (unsigned round = 0; round < 3000; round += test_stride()) {
        unsigned number = (unsigned)random_below(&random, ALL_CONFIGS);
        weir_data_config data = config_of(number, 1 + random_below(&random, 40));
        uint64_t n = 1 + random_below(&random, 100);
        uint64_t micro = 1 + random_below(&random, 15);
        bool has_no_batch = data.drop_last && data.epoch_boundary == WEIR_BOUNDARY_STRICT && 4 * micro > n;
        if (has_no_batch)
            continue;
        weir_manifest *manifest = manifest_of_numbers(n, 4 * micro, &data, number);
        uint32_t rank = (uint32_t)random_below(&random, 4);
        weir_sampler *sampler = sampler_of(manifest, "a", WEIR_STAGE_TRAIN, 4, rank);
        uint64_t indices[64];
        weir_cursor cursor = {5, random_below(&random, n)};
        weir_step step = take_step(sampler, cursor, indices);
        uint64_t first = cursor.global_index + rank * micro;
        assert_int_equal(step.blocks_materialized, count_blocks_slowly(manifest, &step, indices, first));
        weir_sampler_close(sampler);
        weir_manifest_close(manifest);
    }
}

/* The blocks of an epoch's steps up to a cursor, one sample at a time. In stream mode the first batch may
 * have begun in the epoch before. */
static uint64_t count_epoch_blocks_slowly(weir_sampler *sampler, const weir_manifest *manifest,
                                          weir_cursor cursor, uint32_t rank, uint64_t micro) {
    const weir_data_config *data = weir_manifest_describe(manifest)->data;
    uint64_t n = weir_manifest_find(manifest, "a")->cardinality;
    bool is_stream = data->epoch_boundary == WEIR_BOUNDARY_STREAM;
    int64_t batch = (int64_t)weir_manifest_describe(manifest)->global_batch_size,
            at = (int64_t)cursor.global_index;
    int64_t limit = data->drop_last && !is_stream ? (int64_t)n / batch * batch : (int64_t)n;
    bool seen[128] = {false};
    uint64_t found = 0;
    for (int64_t start = at % batch - (is_stream ? batch : 0); start <= at; start += batch)
        for (int64_t i = 0; i < (int64_t)micro; i++) {
            int64_t position = start + (int64_t)(rank * micro) + i;
            uint64_t index;
            weir_error error;
            if (position < 0 || position >= limit)
                continue;
            assert_ok(weir_sampler_index_at(sampler, cursor.epoch, (uint64_t)position, &index, &error),
                      &error);
            found += !seen[index / data->sampler_block_size];
            seen[index / data->sampler_block_size] = true;
        }
    return found;
}

static void blocks_of_an_epoch_are_counted_once(void **state) {
    (void)state;
    random_stream random = {34};
    for (unsigned round = 0; round < 6000; round += test_stride()) {
        unsigned number = (unsigned)random_below(&random, ALL_CONFIGS);
        weir_data_config data = config_of(number, 1 + random_below(&random, round % 2 ? 40 : 4));
        uint64_t n = 1 + random_below(&random, 100), micro = 1 + random_below(&random, 6);
        uint32_t world = (uint32_t)(1 + random_below(&random, 6));
        if (data.drop_last && data.epoch_boundary == WEIR_BOUNDARY_STRICT && world * micro > n)
            continue;
        weir_manifest *manifest = manifest_of_numbers(n, world * micro, &data, number);
        uint32_t rank = (uint32_t)random_below(&random, world);
        weir_sampler *sampler = sampler_of(manifest, "a", WEIR_STAGE_TRAIN, world, rank);
        uint64_t indices[64];
        weir_cursor cursor = {5, random_below(&random, n)};
        weir_step step = take_step(sampler, cursor, indices);
        assert_int_equal(step.blocks_materialized_this_epoch,
                         count_epoch_blocks_slowly(sampler, manifest, cursor, rank, micro));
        weir_sampler_close(sampler);
        weir_manifest_close(manifest);
    }
}

/* At sizes where nobody could count: a whole epoch has every block, and a rank of many has its part. */
static void blocks_of_a_large_epoch_are_counted(void **state) {
    (void)state;
    uint64_t n = 1000000000000u, indices[64];
    weir_data_config data = {.sampler_block_size = 1 << 20, .rotate = true};
    weir_manifest *manifest = manifest_of_numbers(n, 64, &data, 1);
    weir_sampler *sampler = sampler_of(manifest, "a", WEIR_STAGE_TRAIN, 1, 0);
    assert_true(take_step(sampler, (weir_cursor){3, n - 64}, indices).blocks_materialized_this_epoch ==
                n / (1 << 20) + 1);
    weir_sampler_close(sampler);
    weir_manifest_close(manifest);
    data = (weir_data_config){.sampler_block_size = 4};
    n = test_stride() > 1 ? 1u << 26 : 1u << 30;
    manifest = manifest_of_numbers(n, 64, &data, 1); /* each of 16 ranks takes every 16th block */
    sampler = sampler_of(manifest, "a", WEIR_STAGE_TRAIN, 16, 7);
    assert_int_equal(take_step(sampler, (weir_cursor){3, n - 64}, indices).blocks_materialized_this_epoch,
                     n / 64);
    weir_sampler_close(sampler);
    weir_manifest_close(manifest);
}

/* The tail block of 10 comes last and is dropped in every epoch; with rotation no sample is left out for
 * ever. */
static void rotation_drops_other_samples_in_every_epoch(void **state) {
    (void)state;
    for (int rotate = 0; rotate < 2; rotate++) {
        weir_data_config data = {.sampler_block_size = 90, .drop_last = true, .rotate = rotate};
        weir_manifest *manifest = manifest_of_numbers(100, 30, &data, 1);
        weir_sampler *sampler = sampler_of(manifest, "a", WEIR_STAGE_TRAIN, 1, 0);
        bool seen[100] = {false};
        weir_cursor cursor = {0, 0};
        uint64_t indices[30], missing = 0;
        for (int i = 0; i < 3 * 40; i++) {
            weir_step step = take_step(sampler, cursor, indices);
            for (uint64_t k = 0; k < step.count; k++)
                seen[indices[k]] = true;
            cursor = step.cursor_next;
        }
        assert_true(cursor.epoch == 40 && cursor.global_index == 0);
        for (int i = 0; i < 100; i++)
            missing += !seen[i];
        assert_int_equal(missing, rotate ? 0 : 10);
        weir_sampler_close(sampler);
        weir_manifest_close(manifest);
    }
}

/* ---- Evaluations ------------------------------------------------------------------------------ */

/* One permutation for all epochs and block sizes, dealt out to ranks as eval's order is; its beginning is a
 * sample of the whole. */
static void a_seeded_evaluation_visits_every_sample_once(void **state) {
    (void)state;
    static const uint64_t sizes[] = {1, 2, 25, 1000, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t n = sizes[i], batch = 24, *order = calloc(n, 8), *found = calloc(n, 8),
                 *again = calloc(batch, 8);
        weir_data_config one = {.sampler_block_size = 7, .rotate = true, .drop_last = true};
        weir_manifest *manifest = manifest_of_numbers(n, batch, &one, 1);
        weir_sampler *whole = sampler_of(manifest, "a", WEIR_STAGE_EVAL_SEEDED, 1, 0);
        weir_error error;
        assert_ok(weir_sampler_range(whole, 5, 0, n, order, &error), &error);
        for (uint64_t p = 0; p < n; p++) {
            uint64_t index;
            found[order[p]]++;
            assert_ok(weir_sampler_index_at(whole, 9, p, &index, &error), &error);
            assert_int_equal(index, order[p]);
        }
        uint64_t low = 0;
        for (uint64_t p = 0; p < n; p++) {
            assert_int_equal(found[p], 1);
            low += p < n / 10 && order[p] < n / 2;
        }
        if (n > 1000) /* half of the first tenth, within five deviations */
            assert_true(low > n / 20 - 250 && low < n / 20 + 250);
        for (uint32_t rank = 0; rank < 4; rank++) {
            weir_sampler *part = sampler_of(manifest, "a", WEIR_STAGE_EVAL_SEEDED, 4, rank);
            weir_step step = take_step(part, (weir_cursor){2, n - 1}, again);
            assert_true(step.is_shuffled && step.count == 6 && step.blocks_materialized == 0);
            for (uint64_t k = 0; k < 6; k++)
                assert_int_equal(again[k], order[(n - 1 + rank * 6 + k) % n]);
            weir_sampler_close(part);
        }
        weir_sampler_close(whole);
        weir_manifest_close(manifest);
        free(order), free(found), free(again);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_epoch_to_5000_is_a_bijection),
        cmocka_unit_test(small_epochs_are_bijections_for_every_block_size),
        cmocka_unit_test(epochs_around_powers_of_two_are_bijections),
        cmocka_unit_test(sampled_positions_of_large_epochs_are_distinct),
        cmocka_unit_test(worlds_of_1_to_64_make_one_sequence),
        cmocka_unit_test(worlds_agree_on_large_datasets),
        cmocka_unit_test(a_run_can_be_resumed_at_every_cursor),
        cmocka_unit_test(jumping_between_epochs_changes_nothing),
        cmocka_unit_test(steps_can_be_asked_for_ahead_of_their_indices),
        cmocka_unit_test(the_sequence_is_the_one_that_the_procedure_spells),
        cmocka_unit_test(blocks_are_counted_rightly),
        cmocka_unit_test(blocks_of_an_epoch_are_counted_once),
        cmocka_unit_test(blocks_of_a_large_epoch_are_counted),
        cmocka_unit_test(rotation_drops_other_samples_in_every_epoch),
        cmocka_unit_test(a_seeded_evaluation_visits_every_sample_once),
    };
    return cmocka_run_group_tests_name("sampler sequence", tests, NULL, NULL);
}
