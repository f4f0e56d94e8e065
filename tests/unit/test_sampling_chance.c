/* Chi-square tests of the stateless permutation, of class-balanced and weighted draws, and of the stateless
 * order of blocks, under fixed seeds; and how little memory the last one takes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/sampling.h"

/* That counts differ from what is expected no more than chance allows: six standard deviations of chi-square.
 * The seeds are fixed, so a test either holds for ever or fails for ever. */
static void assert_chance(const char *what, uint64_t m, const double *expected, const uint64_t *found,
                          size_t cells) {
    double chi = 0;
    for (size_t i = 0; i < cells; i++)
        chi += ((double)found[i] - expected[i]) * ((double)found[i] - expected[i]) / expected[i];
    double freedom = (double)(cells - 1);
    if (fabs(chi - freedom) > 6 * sqrt(2 * freedom))
        fail_msg("%s, m %llu: chi-square %.1f of %zu cells", what, (unsigned long long)m, chi, cells);
}

static void assert_even(const char *what, uint64_t m, const uint64_t *found, size_t cells, uint64_t total) {
    double *expected = malloc(cells * sizeof *expected);
    assert_non_null(expected);
    for (size_t i = 0; i < cells; i++)
        expected[i] = (double)total / (double)cells;
    assert_chance(what, m, expected, found, cells);
    free(expected);
}

/* Under many numbers n: where the first place goes, and how far apart two neighbours land. */
static void seeded_places_are_random(void **state) {
    (void)state;
    enum { MOST = 1000 };
    static const uint64_t sizes[] = {2, 3, 4, 5, 6, 7, 8, 10, 16, 31, 32, 33, 40, 64, 100, 257, 1000};
    weir_seed seed = {{11, 22, 33, 44}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t m = sizes[i], rounds = 2000000 / m / test_stride();
        uint64_t firsts[MOST] = {0}, lasts[MOST] = {0}, distances[MOST] = {0};
        for (uint64_t n = 0; n < rounds; n++) {
            weir_sampler__place_map map = weir_sampler__place_map_make(seed, WEIR_DOMAIN_CLASSES, n, 0, m);
            uint64_t before = weir_sampler__place_at(&map, 0);
            firsts[before]++;
            lasts[weir_sampler__place_at(&map, m - 1)]++;
            for (uint64_t x = 1; x < m; x++) {
                uint64_t place = weir_sampler__place_at(&map, x);
                distances[(place + m - before) % m]++;
                before = place;
            }
        }
        assert_even("first place", m, firsts, m, rounds);
        assert_even("last place", m, lasts, m, rounds);
        if (m > 2)
            assert_even("distance of neighbours", m, distances + 1, m - 1, rounds * (m - 1));
    }
}

/* The class at one place of a period says nothing about the class at the same place of the next; and the
 * members of a class come in no pattern. */
static void balanced_draws_are_random(void **state) {
    (void)state;
    enum { N = 600, CLASSES = 5, RUN = 600000, SIZE = N / CLASSES };
    uint32_t classes[N];
    uint64_t pairs[CLASSES * CLASSES] = {0}, steps[SIZE] = {0}, total_steps = 0, before[CLASSES];
    for (uint32_t i = 0; i < N; i++)
        classes[i] = i % CLASSES;
    weir_manifest *manifest = sampling_manifest(N, 10, BALANCED, 7);
    weir_population *p = by_class(weir_sampler__sampling_seed(manifest, "a", NULL, 0), classes, N, CLASSES);
    uint64_t *run = take_run(manifest, p, RUN);
    for (uint64_t i = CLASSES; i < RUN; i++)
        if (i / CLASSES % 2 == 1) /* pairs that do not share a period */
            pairs[run[i - CLASSES] % CLASSES * CLASSES + run[i] % CLASSES]++;
    uint64_t total = 0;
    for (size_t i = 0; i < CLASSES * CLASSES; i++)
        total += pairs[i];
    assert_even("classes of two periods", CLASSES, pairs, CLASSES * CLASSES, total);
    memset(before, 0xff, sizeof before);
    for (uint64_t i = 0; i < RUN; i++) {
        uint64_t c = run[i] % CLASSES, member = run[i] / CLASSES;
        if (before[c] != UINT64_MAX && (i / CLASSES) % SIZE != 0) { /* in one pass */
            steps[(member + SIZE - before[c]) % SIZE]++;
            total_steps++;
        }
        before[c] = member;
    }
    assert_int_equal(steps[0], 0);
    assert_even("members of a class", SIZE, steps + 1, SIZE - 1, total_steps);
    free(run);
    weir_population_close(p);
    weir_manifest_close(manifest);
}

/* Which sample stands at one position, over many epochs, follows the weights; so does the pair of two
 * positions. */
static void weighted_draws_are_random(void **state) {
    (void)state;
    enum { N = 40, EPOCHS = 80000 };
    double weights[N], expected[N];
    uint64_t found[N] = {0};
    weir_error error;
    for (int i = 0; i < N; i++)
        weights[i] = i + 1;
    weir_manifest *manifest = sampling_manifest(N, 8, WEIGHTED, 9);
    weir_population *p = weighted(weir_sampler__sampling_seed(manifest, "a", NULL, 0), weights, N);
    weir_sampler *sampler = drawing(manifest, p, 1, 0);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        uint64_t index;
        assert_ok(weir_sampler_index_at(sampler, epoch, 3, &index, &error), &error);
        found[index]++;
    }
    for (int i = 0; i < N; i++)
        expected[i] = EPOCHS * weights[i] / (N * (N + 1) / 2.0);
    assert_chance("a position's sample", N, expected, found, N);
    weir_sampler_close(sampler);
    weir_population_close(p);
    weir_manifest_close(manifest);
}

/* ---- Stateless blocks ------------------------------------------------------------------------ */

static void stateless_blocks_are_random(void **state) {
    (void)state;
    enum { BLOCKS = 50, EPOCHS = 20000 };
    uint64_t firsts[BLOCKS] = {0}, distances[BLOCKS] = {0};
    weir_data_config data = {.sampler_block_size = 4, .block_order = WEIR_BLOCKS_STATELESS_V1};
    weir_manifest *manifest = manifest_of_numbers(4 * BLOCKS, 4, &data, 1);
    weir_sampler *sampler = sampler_of(manifest, "a", WEIR_STAGE_TRAIN, 1, 0);
    uint64_t epochs = EPOCHS / test_stride();
    for (uint64_t epoch = 0; epoch < epochs; epoch++) {
        uint64_t first, second;
        weir_error error;
        assert_ok(weir_sampler_index_at(sampler, epoch, 0, &first, &error), &error);
        assert_ok(weir_sampler_index_at(sampler, epoch, 4, &second, &error), &error);
        firsts[first / 4]++;
        distances[(second / 4 + BLOCKS - first / 4) % BLOCKS]++;
    }
    assert_even("first block", BLOCKS, firsts, BLOCKS, epochs);
    assert_even("second block", BLOCKS, distances + 1, BLOCKS - 1, epochs);
    weir_sampler_close(sampler);
    weir_manifest_close(manifest);
}

static size_t allocated; /* by the environment below */

static void *count_bytes(void *context, size_t size) {
    allocated += size;
    return weir_env_default()->allocate(context, size);
}

static int compare_numbers(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* 10^14 samples, in blocks of 2^20 and even in blocks of 1: less than 1 MiB, and positions are distinct. */
static void stateless_blocks_take_no_memory(void **state) {
    (void)state;
    enum { ASKED = 20000 };
    static const uint64_t sizes[] = {1 << 20, 1};
    uint64_t n = 100000000000000u;
    uint64_t *found = malloc(ASKED * sizeof *found);
    weir_env env = *weir_env_default();
    env.allocate = count_bytes;
    assert_non_null(found);
    for (size_t i = 0; i < 2; i++) {
        weir_data_config data = {.sampler_block_size = sizes[i],
                                 .rotate = true,
                                 .intra_block = WEIR_INTRA_FEISTEL_V1,
                                 .block_order = WEIR_BLOCKS_STATELESS_V1};
        weir_manifest *manifest = manifest_of_numbers(n, 1000, &data, 1);
        weir_sampler_options options = {.size = sizeof options, .dataset = "a", .world_size = 1};
        weir_sampler *sampler = NULL;
        weir_error error;
        allocated = 0;
        assert_ok(weir_sampler_open(&env, manifest, &options, &sampler, &error), &error);
        for (uint64_t k = 0; k < ASKED; k++)
            assert_ok(weir_sampler_index_at(sampler, 5, k * (n / ASKED) + k % 7, &found[k], &error), &error);
        assert_true(allocated < 1 << 20);
        qsort(found, ASKED, sizeof *found, compare_numbers);
        for (size_t k = 1; k < ASKED; k++)
            assert_true(found[k - 1] < found[k]);
        assert_true(found[ASKED - 1] < n);
        weir_sampler_close(sampler);
        weir_manifest_close(manifest);
    }
    free(found);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seeded_places_are_random),        cmocka_unit_test(balanced_draws_are_random),
        cmocka_unit_test(weighted_draws_are_random),       cmocka_unit_test(stateless_blocks_are_random),
        cmocka_unit_test(stateless_blocks_take_no_memory),
    };
    return cmocka_run_group_tests_name("sampling chance", tests, NULL, NULL);
}
