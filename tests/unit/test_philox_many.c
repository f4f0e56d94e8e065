/* Philox side by side gives the numbers of Philox one by one, with every kernel that this processor can
 * run. */
#include "base/philox.h"
#include "base/philox_many.h"
#include "support/testing.h"

static void check_kernel(weir__philox_kernel *kernel) {
    random_stream random = {3};
    for (int i = 0; i < 2000; i++) {
        weir__draws draws;
        weir_seed seed;
        for (int word = 0; word < 4; word++)
            seed.word[word] = (uint32_t)random_next(&random);
        uint32_t domain = (uint32_t)random_next(&random);
        uint64_t n = random_next(&random);
        uint32_t first =
            i % 2 ? (uint32_t)random_next(&random) : UINT32_MAX - 7; /* the count may wrap around */
        kernel(seed, domain, n, first, &draws);
        for (uint32_t d = 0; d < WEIR__DRAWS; d++) {
            weir_seed one = seed;
            one.word[2] ^= first + d;
            weir_random expected = weir__philox_block(one, domain, n);
            weir_random lean = weir__philox_lean(one, domain, n);
            assert_true(draws.k0[d] == expected.k0 && draws.k1[d] == expected.k1);
            assert_true(lean.k0 == expected.k0 && lean.k1 == expected.k1);
        }
    }
}

static void test_every_kernel(void **state) {
    (void)state;
    check_kernel(weir__philox_many_baseline);
    check_kernel(weir__philox_many_best());
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        check_kernel(weir__philox_many_avx2);
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_kernel)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
