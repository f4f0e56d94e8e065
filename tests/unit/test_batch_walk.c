/* The parts of a walk, each against the plain way to do it: known rows against an array, a level against
 * sorting, the choice among children against Floyd's method as it is written down. */
#include "support/testing.h"

#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "batch/choose.h"
#include "batch/known.h"
#include "batch/levels.h"

static const weir_seed seed = {{1, 2, 3, 4}};

static weir_random drawn(uint64_t position, uint32_t d) {
    weir_seed with_d = seed;
    with_d.word[2] ^= d;
    return weir__philox(with_d, WEIR_DOMAIN_WALK, position);
}

static weir__walk_draws draws_at(uint64_t position) {
    weir__walk_draws draws = {.philox = weir__philox_many_best()};
    weir__draws_begin(&draws, seed, position);
    return draws;
}

/* Rows are numbered in the order in which they are first met; some stay without a number. Walks of all
 * sizes, more of them than there are generations. */
static void test_known_rows_are_found_again(void **state) {
    (void)state;
    enum { ROWS = 20000, WALKS = 2 * WEIR__GENERATION_MAX };
    static uint16_t local[ROWS];
    random_stream random = {3};
    weir__known_rows known;
    assert_true(weir__known_open(&known, weir__env(NULL), ROWS));
    for (int walk = 0; walk < WALKS; walk++) {
        uint32_t count = walk % 1000 == 0 ? 15000 : walk % 97 == 0 ? 3000 : 5; /* grows, or does not */
        weir__known_begin(&known);
        memset(local, 0xFF, sizeof local);
        for (uint16_t i = 0; i < count; i++) {
            uint32_t row = (uint32_t)random_below(&random, ROWS);
            weir__known_reserve(&known, 1);
            uint64_t *entry = weir__know(&known, row);
            assert_int_equal((uint16_t)*entry, local[row]);
            if (i % 3 == 0)
                continue;
            *entry = (*entry & ~(uint64_t)WEIR__UNVISITED) | i;
            local[row] = i;
        }
        for (uint32_t row = 0; row < ROWS; row += walk % 1000 == 0 ? 1 : 997)
            assert_int_equal(weir__local_of(&known, row), local[row]);
    }
    weir__known_close(&known, weir__env(NULL));
}

static int by_priority(const void *a, const void *b) {
    const weir__ranked_row *x = a, *y = b;
    if (x->priority != y->priority)
        return x->priority < y->priority ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* Visits a row of the generation's own, so that what its last turn left would be taken for this one's. */
static void visit_by_generation(weir__known_rows *known) {
    uint32_t row = known->generation * 2654435761u;
    uint64_t *entry = weir__know(known, row);
    if ((uint16_t)*entry != WEIR__UNVISITED)
        fail_msg("row %u is known in generation %u", row, known->generation);
    *entry = (*entry & ~(uint64_t)WEIR__UNVISITED) | 7;
}

/* Every walk grows its table twice and so takes three generations, a third of which are 5461 walks: after so
 * many, each has the same size of table again as in its last turn. */
static void test_no_generation_is_taken_for_its_last_turn(void **state) {
    (void)state;
    enum { ROWS = 8000, WALKS = 3 * 5461 };
    weir__known_rows known;
    assert_true(weir__known_open(&known, weir__env(NULL), ROWS));
    for (uint32_t walk = 0; walk < WALKS; walk++) {
        weir__known_begin(&known);
        visit_by_generation(&known);
        for (; known.bits < known.bits_max; visit_by_generation(&known))
            weir__known_grow(&known);
    }
    assert_int_equal(known.generation, WEIR__GENERATION_MAX);
    weir__known_close(&known, weir__env(NULL));
}

/* Emptying a large table is shared out over all walks: none clears more than its part, together they clear
 * all that was ever used, and nothing else is touched. */
static void test_known_rows_are_cleared_in_instalments(void **state) {
    (void)state;
    enum { ROWS = 300000, GROWN = 4, SHARE = 128 };
    weir__known_rows known;
    assert_true(weir__known_open(&known, weir__env(NULL), ROWS));
    size_t places = (size_t)1 << known.bits_max;
    assert_int_equal(2 * places >> 14, SHARE);
    weir__known_begin(&known);
    for (int i = 0; i < GROWN; i++)
        weir__known_grow(&known);
    size_t used = (size_t)1 << known.bits;
    assert_true(used < places);
    memset(known.memory, 0xFF, 2 * places * sizeof *known.memory);
    size_t cleared = 0;
    for (int walk = 0; walk < WEIR__GENERATION_MAX; walk++) {
        weir__known_begin(&known);
        if (walk % 500 > 1 && walk < WEIR__GENERATION_MAX - 4)
            continue;
        size_t now = 0;
        for (size_t i = 0; i < 2 * places; i++)
            now += known.memory[i] == 0;
        assert_true(walk % 500 == 0 || now - cleared <= 2 * SHARE);
        cleared = now;
    }
    for (size_t i = 0; i < places; i++) {
        assert_true((known.memory[i] == 0) == (i < used));
        assert_true((known.memory[places + i] == 0) == (i < used));
    }
    weir__known_close(&known, weir__env(NULL));
}

/* Runs into two levels, with a level between them that stays empty. */
static void test_levels_come_in_order(void **state) {
    (void)state;
    enum { ROWS = 3000 };
    static weir__ranked_row expected[2][ROWS];
    weir__levels levels;
    assert_true(weir__levels_open(&levels, weir__env(NULL), ROWS, ROWS, 4));
    for (uint32_t round = 0; round < 40; round++) {
        random_stream random = {round};
        uint32_t counts[2] = {0};
        weir__walk_draws draws = draws_at(round);
        weir__levels_begin(&levels);
        for (uint32_t listed = 0; listed < round * round;) {
            uint32_t level = (uint32_t)random_below(&random, 2);
            uint32_t count = (uint32_t)random_below(&random, 20);
            uint32_t first_draw = draws.next + (uint32_t)random_below(&random, 30);
            for (uint32_t i = 0; i < count; i++) {
                uint32_t row = (uint32_t)random_below(&random, 1000);
                levels.rows[levels.row_count + i] = row;
                expected[level][counts[level]++] = (weir__ranked_row){
                    .priority = drawn(round, first_draw + i).k0, .row = row, .table = round};
            }
            weir__list_run(&levels, 1 + 2 * level, count, round, first_draw);
            draws.next = first_draw + count;
            listed += count + 1;
        }
        for (uint32_t level = 0; level < 2; level++) {
            qsort(expected[level], counts[level], sizeof expected[level][0], by_priority);
            for (uint32_t i = 0; i < counts[level]; i++) {
                weir__ranked_row child;
                assert_true(weir__take_child(&levels, &draws, &child));
                assert_int_equal(levels.current, 1 + 2 * level);
                assert_memory_equal(&child, &expected[level][i], sizeof child);
            }
        }
        weir__ranked_row none;
        assert_false(weir__take_child(&levels, &draws, &none));
    }
    weir__levels_close(&levels, weir__env(NULL));
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

static void test_choices_are_floyds(void **state) {
    (void)state;
    static const uint32_t widths[] = {1, 2, 7, 15, 16, 17, 32, 33, 100, 4096};
    static const uint64_t beyond[] = {1, 2, 5, 40, 1000, 1000000, UINT32_MAX - 4096};
    static uint32_t taken[4096];
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        weir__chooser chooser;
        assert_true(weir__chooser_open(&chooser, weir__env(NULL), widths[w]));
        for (size_t b = 0; b < sizeof beyond / sizeof beyond[0]; b++)
            for (uint64_t position = 0; position < (widths[w] > 100 ? 1 : 50); position++) {
                uint32_t n = (uint32_t)(widths[w] + beyond[b]);
                weir__walk_draws draws = draws_at(position);
                draws.next = (uint32_t)position;
                for (uint32_t i = 0; i < widths[w]; i++) {
                    uint32_t j = n - widths[w] + i;
                    uint32_t t = (uint32_t)weir__scale(drawn(position, draws.next + i), (uint64_t)j + 1);
                    taken[i] = is_taken(taken, i, t) ? j : t;
                }
                qsort(taken, widths[w], sizeof taken[0], ascending);
                weir__choose(&chooser, &draws, n);
                assert_memory_equal(chooser.taken, taken, widths[w] * sizeof taken[0]);
                assert_int_equal(draws.next, position + widths[w]);
            }
        weir__chooser_close(&chooser, weir__env(NULL));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_rows_are_found_again),
        cmocka_unit_test(test_no_generation_is_taken_for_its_last_turn),
        cmocka_unit_test(test_known_rows_are_cleared_in_instalments),
        cmocka_unit_test(test_levels_come_in_order),
        cmocka_unit_test(test_choices_are_floyds),
    };
    return cmocka_run_group_tests_name("batch_walk", tests, NULL, NULL);
}
