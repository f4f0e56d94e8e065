/* The search over one part of a packing, by itself. */
#include <string.h>

#include "plan/pack_internal.h"
#include "support/testing.h"

/* As many steps as five searches of a part take: whichever worker was first, the first of the best is kept.
 */
static void of_equal_layouts_the_first_is_kept(void **state) {
    enum { COUNT = 40, DIVES = 5 };
    (void)state;
    random_stream random = {9};
    unsigned ties = 0;
    for (unsigned round = 0; round < 200; round++) {
        weir_buffer buffers[COUNT];
        weir_pack__sweep sweep;
        weir_pack__part_search search;
        weir_error error;
        uint64_t times = 5 + random_below(&random, 40);
        for (size_t i = 0; i < COUNT; i++) {
            uint64_t lower = random_below(&random, times);
            buffers[i] = (weir_buffer){lower, lower + 1 + random_below(&random, times - lower),
                                       random_below(&random, 30)};
        }
        assert_ok(weir_pack__sweep_open(weir_env_default(), buffers, COUNT, NULL, &sweep, &error), &error);
        assert_ok(weir_pack__search_open(weir_env_default(), sweep.rows, sweep.count, 1 + round % 2, &search,
                                         &error),
                  &error);
        uint32_t count = search.part.count;
        uint64_t memberships = search.part.members_at[search.part.section_count];
        search.peak = UINT64_MAX;
        assert_ok(weir_pack__search_part(&search, DIVES * (100 * memberships + 1), false, &error), &error);
        unsigned best = 0, last = DIVES - 1;
        for (unsigned i = 1; i < DIVES; i++)
            best = search.outcomes[i].peak < search.outcomes[best].peak ? i : best;
        if (search.number == DIVES) {
            const uint64_t *kept = search.layouts + (size_t)best * count;
            const uint64_t *other = search.layouts + (size_t)last * count;
            assert_int_equal(search.peak, search.outcomes[best].peak);
            assert_memory_equal(search.offsets, kept, count * sizeof *kept);
            ties += best != last && search.outcomes[last].peak == search.peak &&
                    memcmp(kept, other, count * sizeof *kept) != 0;
        }
        weir_pack__search_close(&search);
        weir_pack__sweep_close(weir_env_default(), &sweep);
    }
    assert_true(ties > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_equal_layouts_the_first_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
