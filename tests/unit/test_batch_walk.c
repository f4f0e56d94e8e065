/* The parts of a walk, each against the plain way to do it: known rows against an array, a level against
 * sorting, the choice among children against Floyd's method as it is written down. */
#include "support/testing.h"

#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "base/vectors.h"
#include "batch/choose.h"
#include "batch/known.h"
#include "batch/levels.h"

static const weir_seed seed = {{1, 2, 3, 4}};

static weir_random drawn(uint64_t position, uint32_t d) {
    weir_seed with_d = seed;
    with_d.word[2] ^= d;
    return weir__philox_block(with_d, WEIR_DOMAIN_WALK, position);
}

static weir_batch__walk_draws draws_at(uint64_t position) {
    weir_batch__walk_draws draws = {.philox = weir__philox_many_best()};
    weir_batch__draws_begin(&draws, seed, position);
    return draws;
}

/* Rows of some tables; the last of each is where the numbers of 32 bits end. */
static uint32_t table_of(uint32_t row) {
    return row % 7 * 9362; /* the last is 56,172 */
}

static uint32_t place_of(uint32_t row) {
    return row % 2 ? row / 7 : WEIR_NONE - 1 - row / 7;
}

/* Rows are numbered in the order in which they are first met; some stay without a number, some are queued,
 * some listed. Walks of all sizes, up to a table without a vacant place. */
static void check_known_rows(bool needs_tables) {
    enum { ROWS = 20000, WALKS = 2000, BITS = 15 };
    static uint32_t expected[ROWS];
    random_stream random = {3};
    weir_batch__known_rows known;
    weir__block memory = {0};
    weir_batch__known_carve(&known, &memory, ROWS, needs_tables);
    assert_true(weir__block_open(&memory, weir__env_or_default(NULL)));
    weir_batch__known_carve(&known, &memory, ROWS, needs_tables);
    assert_true(known.bits_max >= BITS);
    for (uint32_t walk = 0; walk < WALKS; walk++) {
        uint32_t bits = 6 + walk % (BITS - 5);
        uint32_t count = (1u << bits) < 15000 ? (1u << bits) : 15000, met = 0;
        weir_batch__known_empty(&known, bits);
        memset(expected, 0, sizeof expected);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t row = (uint32_t)random_below(&random, ROWS);
            uint32_t table = table_of(row), key = needs_tables ? place_of(row) : row;
            uint32_t *known_state = weir_batch__know(&known, table, key);
            uint32_t place = weir_batch__place_of(&known, table, key);
            assert_ptr_equal(weir_batch__state_at(&known, place), known_state);
            assert_true(!needs_tables || known.tables[place] == table);
            assert_int_equal(known.words[place], key);
            assert_int_equal(*known_state, expected[row] ? expected[row] : WEIR_BATCH__FRESH);
            met += expected[row] == 0;
            assert_int_equal(known.count, met);
            if (i % 4 == 0)
                *known_state &= ~WEIR_BATCH__UNQUEUED;
            if (i % 4 == 1)
                *known_state &= ~WEIR_BATCH__UNLISTED;
            if (i % 4 == 2)
                *known_state = weir_batch__numbered(*known_state, i % WEIR_BATCH__UNVISITED);
            expected[row] = *known_state;
        }
        for (uint32_t row = 0; row < ROWS && walk % 100 == 0; row++)
            if (expected[row])
                assert_int_equal(*weir_batch__know(&known, table_of(row), needs_tables ? place_of(row) : row),
                                 expected[row]);
    }
    weir__block_close(&memory, weir__env_or_default(NULL));
}

static void test_known_rows_are_found_again(void **state) {
    (void)state;
    check_known_rows(false);
    check_known_rows(true);
}

/* Who may list a row: rows that were visited before it was, and nobody twice. */
static void test_rows_are_listable_as_they_were_then(void **state) {
    (void)state;
    uint32_t unvisited = WEIR_BATCH__FRESH, visited = weir_batch__numbered(WEIR_BATCH__FRESH, 7);
    uint32_t listed = unvisited & ~WEIR_BATCH__UNLISTED;
    assert_int_equal(weir_batch__local_of(unvisited), WEIR_BATCH__UNVISITED);
    assert_true(weir_batch__is_listable(unvisited, UINT16_MAX - 1));
    assert_true(weir_batch__is_listable(unvisited & ~WEIR_BATCH__UNQUEUED, UINT16_MAX - 1));
    assert_int_equal(weir_batch__local_of(visited), 7);
    assert_true(weir_batch__is_listable(visited, 6));
    assert_false(weir_batch__is_listable(visited, 7));
    assert_false(weir_batch__is_listable(weir_batch__numbered(WEIR_BATCH__FRESH, 0), 0));
    assert_false(weir_batch__is_listable(listed, 0));
    assert_false(weir_batch__is_listable(weir_batch__numbered(listed, 9), 0));
    assert_int_equal(weir_batch__local_of(weir_batch__numbered(listed, 9)), 9);
    assert_false(weir_batch__numbered(unvisited & ~WEIR_BATCH__UNQUEUED, 9) & WEIR_BATCH__UNQUEUED);
    assert_true(weir_batch__numbered(unvisited, UINT16_MAX - 1) & WEIR_BATCH__UNQUEUED);
}

static int by_priority(const void *a, const void *b) {
    const weir_batch__ranked_row *x = a, *y = b;
    if (x->priority != y->priority)
        return x->priority < y->priority ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* Runs into two levels, with a level between them that stays empty. */
static void test_levels_come_in_order(void **state) {
    (void)state;
    enum { ROWS = 3000 };
    static weir_batch__ranked_row expected[2][ROWS];
    weir_batch__levels levels;
    weir__block memory = {0};
    weir_batch__levels_carve(&levels, &memory, ROWS, ROWS, false);
    assert_true(weir__block_open(&memory, weir__env_or_default(NULL)));
    weir_batch__levels_carve(&levels, &memory, ROWS, ROWS, false);
    for (uint32_t round = 0; round < 40; round++) {
        random_stream random = {round};
        uint32_t counts[2] = {0};
        weir_batch__walk_draws draws = draws_at(round);
        weir_batch__levels_begin(&levels, 4);
        for (uint32_t listed = 0; listed < round * round;) {
            uint32_t level = (uint32_t)random_below(&random, 2);
            uint32_t count = (uint32_t)random_below(&random, 20);
            uint32_t first_draw = draws.next + (uint32_t)random_below(&random, 30);
            for (uint32_t i = 0; i < count; i++) {
                uint32_t row = (uint32_t)random_below(&random, 1000);
                levels.rows[levels.row_count + i] = row;
                expected[level][counts[level]++] = (weir_batch__ranked_row){
                    .priority = drawn(round, first_draw + i).k0, .row = row, .table = round};
            }
            weir_batch__list_run(&levels, 1 + 2 * level, count, round, first_draw);
            draws.next = first_draw + count;
            listed += count + 1;
        }
        for (uint32_t level = 0; level < 2; level++) {
            qsort(expected[level], counts[level], sizeof expected[level][0], by_priority);
            if (counts[level] > 0)
                assert_true(weir_batch__reach_level(&levels, &draws));
            for (uint32_t i = 0; i < counts[level]; i++) {
                weir_batch__ranked_row child;
                if (levels.ahead_begin == levels.ahead_end || random_below(&random, 3) == 0)
                    weir_batch__look_ahead(&levels);
                for (uint32_t k = levels.ahead_begin; k < levels.ahead_end; k++)
                    assert_memory_equal(&levels.ahead[k % WEIR_BATCH__AHEAD],
                                        &expected[level][i + k - levels.ahead_begin], sizeof child);
                assert_true(weir_batch__take_child(&levels, &child));
                assert_int_equal(levels.current, 1 + 2 * level);
                assert_memory_equal(&child, &expected[level][i], sizeof child);
            }
            weir_batch__ranked_row none;
            weir_batch__look_ahead(&levels);
            assert_false(weir_batch__take_child(&levels, &none));
        }
        assert_false(weir_batch__reach_level(&levels, &draws));
    }
    weir__block_close(&memory, weir__env_or_default(NULL));
}

static bool is_taken(const uint32_t *taken, uint32_t count, uint32_t number) {
    for (uint32_t i = 0; i < count; i++)
        if (taken[i] == number)
            return true;
    return false;
}

static int ascending(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void assert_choice(weir_batch__chooser *chooser, uint64_t position, uint32_t n) {
    static uint32_t taken[4096];
    uint32_t width = chooser->width;
    weir_batch__walk_draws draws = draws_at(position);
    draws.next = (uint32_t)position;
    for (uint32_t i = 0; i < width; i++) {
        uint32_t j = n - width + i;
        uint32_t t = (uint32_t)weir__scale(drawn(position, draws.next + i), (uint64_t)j + 1);
        taken[i] = is_taken(taken, i, t) ? j : t;
    }
    qsort(taken, width, sizeof taken[0], ascending);
    weir_batch__choose(chooser, &draws, n);
    assert_memory_equal(chooser->taken, taken, width * sizeof taken[0]);
    assert_int_equal(draws.next, position + width);
}

/* In every form that this machine can run. */
static void test_choices_are_floyds(void **state) {
    (void)state;
    static const uint32_t widths[] = {1, 2, 7, 15, 16, 17, 32, 33, 100, 4096};
    static const uint64_t beyond[] = {1, 2, 5, 40, 1000, 1000000, UINT32_MAX - 4096};
    weir_batch__narrow_choice *forms[3] = {weir_batch__choose_narrow_baseline};
    size_t form_count = 1;
#if defined(__x86_64__)
    if (weir__vectors_of_this_machine() >= WEIR__AVX2)
        forms[form_count++] = weir_batch__choose_narrow_avx2;
    if (weir__vectors_of_this_machine() >= WEIR__AVX512)
        forms[form_count++] = weir_batch__choose_narrow_avx512;
#endif
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        weir_batch__chooser chooser;
        weir__block memory = {0};
        weir_batch__chooser_carve(&chooser, &memory, widths[w]);
        assert_true(weir__block_open(&memory, weir__env_or_default(NULL)));
        weir_batch__chooser_carve(&chooser, &memory, widths[w]);
        for (size_t form = 0; form < form_count; form++)
            for (size_t b = 0; b < sizeof beyond / sizeof beyond[0]; b++)
                for (uint64_t position = 0; position < (widths[w] > 100 ? 1 : 50); position++) {
                    chooser.narrow = forms[form];
                    assert_choice(&chooser, position, (uint32_t)(widths[w] + beyond[b]));
                }
        weir__block_close(&memory, weir__env_or_default(NULL));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_rows_are_found_again),
        cmocka_unit_test(test_rows_are_listable_as_they_were_then),
        cmocka_unit_test(test_levels_come_in_order),
        cmocka_unit_test(test_choices_are_floyds),
    };
    return cmocka_run_group_tests_name("batch_walk", tests, NULL, NULL);
}
