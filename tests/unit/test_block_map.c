/* The maps inside a block and the order of blocks: golden vectors, bijection at every size, the vector
 * kernels against the scalar map, and how random feistel_v1 looks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/block_map.h"
#include "sampler/epoch.h"
#include "sampler/fill.h"
#include "support/testing.h"

static weir_seed seed_of_hex(const char *hex) {
    size_t size;
    const uint8_t *bytes = bytes_of_hex(hex, &size);
    assert_int_equal(size, 16);
    return weir_seed_load(bytes);
}

static weir_seed random_seed(random_stream *random) {
    uint64_t low = random_next(random), high = random_next(random);
    return (weir_seed){{(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)}};
}

static weir_intra_block kind_of(json_t *vector) {
    return strcmp(member_text(vector, "kind"), "feistel_v1") == 0 ? WEIR_INTRA_FEISTEL_V1
                                                                  : WEIR_INTRA_AFFINE_V1;
}

/* ---- Golden vectors -------------------------------------------------------------------------- */

static void golden_blocks_are_mapped(void **state) {
    (void)state;
    json_t *vectors = load_vectors("intra_block.json");
    json_t *list = member(vectors, "blocks");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *vector = json_array_get(list, i);
        json_t *indices = member(vector, "indices");
        weir_seed seed = seed_of_hex(member_text(vector, "seed"));
        for (size_t k = 0; k < json_array_size(indices); k++) {
            weir_error error;
            uint64_t index;
            assert_ok(weir_intra_block_map(kind_of(vector), seed, member_uint(vector, "block_id"),
                                           member_uint(vector, "block_size"), member_uint(vector, "n"), k,
                                           &index, &error),
                      &error);
            assert_true(index == uint_of(json_array_get(indices, k)));
        }
        /* The list is the whole block: the position behind it does not exist. */
        uint64_t index;
        assert_int_equal(weir_intra_block_map(kind_of(vector), seed, member_uint(vector, "block_id"),
                                              member_uint(vector, "block_size"), member_uint(vector, "n"),
                                              json_array_size(indices), &index, NULL),
                         WEIR_CONTRACT_VIOLATION);
    }
    json_decref(vectors);
}

static void golden_positions_are_mapped(void **state) {
    (void)state;
    json_t *vectors = load_vectors("intra_block.json");
    json_t *list = member(vectors, "positions");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *vector = json_array_get(list, i);
        weir_error error;
        uint64_t index;
        assert_ok(weir_intra_block_map(kind_of(vector), seed_of_hex(member_text(vector, "seed")),
                                       member_uint(vector, "block_id"), member_uint(vector, "block_size"),
                                       member_uint(vector, "n"), member_uint(vector, "local_pos"), &index,
                                       &error),
                  &error);
        assert_true(index == member_uint(vector, "index"));
    }
    json_decref(vectors);
}

static void places_that_do_not_exist_are_refused(void **state) {
    (void)state;
    static const struct {
        uint64_t block_id, block_size, cardinality, position;
    } cases[] = {
        {0, 0, 10, 0},
        {0, 4, 0, 0},
        {0, 4, 10, 4},
        {2, 4, 10, 2},
        {3, 4, 10, 0},
        {UINT64_MAX, 2, 10, 0},
        {1, UINT64_MAX, UINT64_MAX, 0},
        {(uint64_t)1 << 63, 2, UINT64_MAX, 0},
    };
    weir_seed seed = {{1, 2, 3, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int kind = 0; kind < 2; kind++) {
            weir_error error;
            uint64_t index;
            assert_fails(weir_intra_block_map((weir_intra_block)kind, seed, cases[i].block_id,
                                              cases[i].block_size, cases[i].cardinality, cases[i].position,
                                              &index, &error),
                         WEIR_CONTRACT_VIOLATION, &error);
            assert_string_equal(error.failure_operator, "UML_OS.Data.SeededIntraBlockMap_v1");
        }
}

static void assert_order(json_t *list, const uint64_t *order, size_t from) {
    for (size_t i = 0; i < json_array_size(list); i++)
        assert_true(order[from + i] == uint_of(json_array_get(list, i)));
}

static void assert_order_hash(const uint64_t *order, size_t count, const char *hex) {
    weir__sha256 sha;
    uint8_t digest[32];
    weir__sha256_init(&sha);
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[8];
        for (int k = 0; k < 8; k++)
            bytes[k] = (uint8_t)(order[i] >> 8 * k);
        weir__sha256_update(&sha, bytes, 8);
    }
    weir__sha256_final(&sha, digest);
    assert_hex_equal(digest, 32, hex);
}

/* The sampler keeps orders in 4 bytes and makes them in instalments: the same numbers must come out. */
static void assert_instalments_agree(weir_seed seed, const uint64_t *order, uint64_t count) {
    static const uint64_t instalments[] = {1, 7, 64, 65, 1000, UINT64_MAX};
    weir_sampler__block_order made;
    assert_true(weir_sampler__block_order_open(&made, weir_env_default(), count, false));
    for (size_t k = 0; k < sizeof instalments / sizeof instalments[0]; k++) {
        uint64_t done = 0;
        weir_sampler__block_order_restart(&made, seed);
        while (made.shuffled < count) {
            weir_sampler__block_order_advance(&made, seed, instalments[k]);
            uint64_t progress = made.filled + made.shuffled;
            assert_true(progress > done && progress - done <= instalments[k]);
            done = progress;
        }
        for (uint64_t i = 0; i < count; i++)
            assert_true(weir_sampler__block_order_at(&made, i) == order[i]);
    }
    weir_sampler__block_order_close(&made, weir_env_default());
}

static void golden_block_orders(void **state) {
    (void)state;
    json_t *vectors = load_vectors("block_permute.json");
    json_t *list = member(vectors, "cases");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *vector = json_array_get(list, i);
        weir_seed seed = seed_of_hex(member_text(vector, "seed"));
        uint64_t count = member_uint(vector, "blocks");
        uint64_t *order = malloc(count * sizeof *order);
        weir_error error;
        assert_non_null(order);
        assert_ok(weir_block_permute(seed, count, order, &error), &error);
        json_t *whole = json_object_get(vector, "block_order");
        if (whole) {
            assert_int_equal(json_array_size(whole), count);
            assert_order(whole, order, 0);
        } else {
            assert_order(member(vector, "first"), order, 0);
            assert_order(member(vector, "last"), order, count - json_array_size(member(vector, "last")));
            assert_order_hash(order, count, member_text(vector, "sha256_le64"));
        }
        if (count <= 100000)
            assert_instalments_agree(seed, order, count);
        free(order);
    }
    json_t *errors = member(vectors, "errors");
    for (size_t i = 0; i < json_array_size(errors); i++) {
        json_t *vector = json_array_get(errors, i);
        weir_error error;
        uint64_t out;
        weir_status status = weir_block_permute(seed_of_hex(member_text(vector, "seed")),
                                                member_uint(vector, "blocks"), &out, &error);
        assert_int_equal(status, member_uint(vector, "numeric_code"));
        assert_string_equal(weir_status_name(status), member_text(vector, "code_id"));
    }
    json_decref(vectors);
}

/* ---- Bijection ------------------------------------------------------------------------------- */

/* One stamp a value: a value that was seen in this round has the round's number. */
typedef struct stamps {
    uint32_t *seen;
    uint32_t round;
} stamps;

static bool is_new(stamps *s, uint64_t value, uint64_t limit) {
    if (value >= limit || s->seen[value] == s->round)
        return false;
    s->seen[value] = s->round;
    return true;
}

static void assert_bijective(stamps *s, const weir_sampler__block_shape *shape, weir_seed seed,
                             uint64_t block_id) {
    weir_sampler__affine affine = weir_sampler__affine_make(shape, seed, block_id);
    weir_sampler__feistel feistel = weir_sampler__feistel_make(seed, block_id);
    bool is_bijective = true;
    s->round++;
    for (uint64_t p = 0; p < shape->m; p++)
        is_bijective &= is_new(s, weir_sampler__affine_at(shape, &affine, p), shape->m);
    assert_true(is_bijective);
    s->round++;
    for (uint64_t p = 0; p < shape->m; p++)
        is_bijective &= is_new(s, weir_sampler__feistel_at(shape, &feistel, p), shape->m);
    assert_true(is_bijective);
}

static void both_maps_are_bijections_at_every_size_to_5000(void **state) {
    (void)state;
    random_stream random = {5};
    weir_seed seeds[2] = {random_seed(&random), random_seed(&random)};
    stamps s = {calloc(5000, sizeof(uint32_t)), 0};
    assert_non_null(s.seen);
    for (uint64_t m = 2; m <= 5000; m += test_stride()) {
        weir_sampler__block_shape shape;
        weir_sampler__block_shape_init(&shape, m);
        for (int k = 0; k < 2; k++)
            assert_bijective(&s, &shape, seeds[k], m * 3);
    }
    free(s.seen);
}

static void both_maps_are_bijections_around_powers_of_two_and_squares(void **state) {
    (void)state;
    random_stream random = {6};
    stamps s = {calloc(((size_t)1 << 20) + 2, sizeof(uint32_t)), 0};
    assert_non_null(s.seen);
    for (int k = 13; k <= 20; k++)
        for (int delta = -1; delta <= 1; delta++) {
            weir_sampler__block_shape shape;
            weir_sampler__block_shape_init(&shape, ((uint64_t)1 << k) + (uint64_t)delta);
            assert_bijective(&s, &shape, random_seed(&random), random_next(&random) >> 20);
        }
    for (uint64_t side = 100; side < 700; side += 97)
        for (int delta = -1; delta <= 1; delta++) {
            weir_sampler__block_shape shape;
            weir_sampler__block_shape_init(&shape, side * side + (uint64_t)delta);
            assert_bijective(&s, &shape, random_seed(&random), random_next(&random) >> 20);
        }
    free(s.seen);
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

static uint64_t gcd(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The contract's own words. */
static weir_sampler__affine affine_slowly(uint64_t m, weir_seed seed, uint64_t block_id) {
    weir_random k = weir_philox(seed, WEIR_DOMAIN_INTRA_AFFINE, block_id);
    uint64_t a = 1 + k.k0 % (m - 1);
    for (uint64_t i = 0;; i++) {
        uint64_t candidate = 1 + (uint64_t)(((unsigned __int128)(a - 1) + i) % (m - 1));
        if (gcd(candidate, m) == 1)
            return (weir_sampler__affine){candidate, k.k1 % m};
    }
}

static void assert_shape(uint64_t m, random_stream *random) {
    weir_sampler__block_shape shape;
    weir_sampler__block_shape_init(&shape, m);
    assert_true((unsigned __int128)shape.side_a * shape.side_a >= m);
    assert_true((unsigned __int128)(shape.side_a - 1) * (shape.side_a - 1) < m);
    assert_true((unsigned __int128)shape.side_b * shape.side_a >= m);
    assert_true((unsigned __int128)(shape.side_b - 1) * shape.side_a < m);
    for (int i = 0; i < 8; i++) {
        weir_seed seed = random_seed(random);
        uint64_t block_id = random_next(random) >> 1;
        weir_sampler__affine made = weir_sampler__affine_make(&shape, seed, block_id);
        weir_sampler__affine expected = affine_slowly(m, seed, block_id);
        assert_true(made.a == expected.a && made.c == expected.c);
    }
}

static void coprimality_is_what_gcd_says(void **state) {
    (void)state;
    static const uint64_t sizes[] = {
        16294579238595022365u, /* the first 15 odd primes, one each */
        614889782588491410u,   /* the first 15 primes */
        65521u * 65521ull,     /* the largest prime below 2^16, squared */
        65537u * 65537ull,     /* the smallest above, squared */
        65537u * 65539ull,
        4294967291ull, /* the largest prime below 2^32 */
        4294967311ull, /* the smallest above */
        4294967291ull * 4294967279ull,
        4294967291ull * 2,
        18446744073709551557ull, /* the largest prime below 2^64 */
        UINT64_MAX,
        UINT64_MAX - 1,
        (uint64_t)1 << 63,
        6148914691236517205ull * 3,
        12157665459056928801ull, /* 3^40 */
    };
    random_stream random = {7};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        assert_shape(sizes[i], &random);
    for (uint64_t m = 2; m < 1000; m++)
        assert_shape(m, &random);
    for (int i = 0; i < 300; i++) {
        uint64_t m = random_next(&random) >> random_below(&random, 62);
        assert_shape(m < 2 ? 2 : m, &random);
    }
}

/* Only one candidate in thousands is a multiple of a large factor: enough blocks are tried to meet some. */
static void multiples_of_large_factors_are_passed_over(void **state) {
    (void)state;
    static const struct {
        uint64_t m, factor;
    } sizes[] = {
        {65521u * 65521ull, 65521},      {65519u * 65521ull, 65519},     {65537u * 65537ull, 65537},
        {65537u * 65539ull, 65539},      {32749u * 65521ull * 2, 65521}, {65537u * 3ull, 65537},
        {20011u * 4294967291ull, 20011},
    };
    random_stream random = {14};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        weir_sampler__block_shape shape;
        weir_seed seed = random_seed(&random);
        weir_sampler__block_shape_init(&shape, sizes[i].m);
        unsigned met = 0;
        for (uint64_t block_id = 0; met < 2; block_id++) {
            weir_random k = weir_philox(seed, WEIR_DOMAIN_INTRA_AFFINE, block_id);
            if ((1 + k.k0 % (sizes[i].m - 1)) % sizes[i].factor != 0)
                continue;
            weir_sampler__affine made = weir_sampler__affine_make(&shape, seed, block_id);
            assert_true(made.a == affine_slowly(sizes[i].m, seed, block_id).a);
            met++;
        }
    }
}

/* ---- Kernels --------------------------------------------------------------------------------- */

static size_t usable_kernels(const weir_sampler__fill_kernels *out[3]) {
    size_t count = 0;
    out[count++] = &weir_sampler__fill_baseline;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2"))
        out[count++] = &weir_sampler__fill_avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        out[count++] = &weir_sampler__fill_avx512;
#endif
    return count;
}

enum { RUN_MAX = 700 };
static const uint64_t guard = 0x5A5A5A5A5A5A5A5Au;

static void assert_affine_run(const weir_sampler__fill_kernels *kernels,
                              const weir_sampler__block_shape *shape, const weir_sampler__affine *map,
                              uint64_t start, uint64_t position, size_t count) {
    uint64_t out[RUN_MAX + 1];
    bool is_equal = true;
    out[count] = guard;
    kernels->affine(out, count, start, weir_sampler__affine_at(shape, map, position), map->a, shape->m);
    for (size_t i = 0; i < count; i++)
        is_equal &= out[i] == start + weir_sampler__affine_at(shape, map, position + i);
    if (!is_equal || out[count] != guard)
        fail_msg("affine %s: m %llu, start %llu, position %llu, count %zu", kernels->name,
                 (unsigned long long)shape->m, (unsigned long long)start, (unsigned long long)position,
                 count);
}

/* The kernel does one pass of six rounds: what came out at or above m is walked on here, and it must have
 * said that there is such a value. */
static void assert_feistel_run(const weir_sampler__fill_kernels *kernels,
                               const weir_sampler__block_shape *shape, const weir_sampler__feistel *map,
                               uint64_t start, uint64_t position, size_t count) {
    uint64_t out[RUN_MAX + 1];
    bool is_equal = true, has_beyond = false;
    out[count] = guard;
    bool says_beyond = kernels->feistel(shape, map, start, position, count, out);
    for (size_t i = 0; i < count; i++) {
        uint64_t offset = out[i] - start;
        has_beyond |= offset >= shape->m;
        if (offset >= shape->m)
            offset = weir_sampler__feistel_at(shape, map, offset);
        is_equal &= offset == weir_sampler__feistel_at(shape, map, position + i);
    }
    if (!is_equal || out[count] != guard || (has_beyond && !says_beyond))
        fail_msg("feistel %s: m %llu, start %llu, position %llu, count %zu", kernels->name,
                 (unsigned long long)shape->m, (unsigned long long)start, (unsigned long long)position,
                 count);
}

/* All counts to 200, which is beyond twice the largest step of a kernel, and a long one. */
static void assert_runs(uint64_t m, random_stream *random) {
    const weir_sampler__fill_kernels *kernels[3];
    size_t kernel_count = usable_kernels(kernels);
    weir_sampler__block_shape shape;
    weir_sampler__block_shape_init(&shape, m);
    for (size_t count = 0; count <= 201; count++) {
        size_t length = count <= 200 ? count : RUN_MAX;
        if (length > m)
            break;
        weir_seed seed = random_seed(random);
        uint64_t block_id = random_next(random) >> 4;
        weir_sampler__affine affine = weir_sampler__affine_make(&shape, seed, block_id);
        weir_sampler__feistel feistel = weir_sampler__feistel_make(seed, block_id);
        uint64_t last = m - length;
        uint64_t positions[3] = {0, last, random_below(random, last + 1)};
        uint64_t start = count % 4 == 0 ? (uint64_t)1 << 60 : random_next(random) >> 4;
        for (size_t k = 0; k < kernel_count; k++)
            for (int p = 0; p < 3; p++) {
                assert_affine_run(kernels[k], &shape, &affine, start, positions[p], length);
                if (shape.side_a >= 64)
                    assert_feistel_run(kernels[k], &shape, &feistel, start, positions[p], length);
            }
    }
}

static void kernels_equal_the_scalar_map(void **state) {
    (void)state;
    random_stream random = {8};
    static const uint64_t sizes[] = {2,       3,       5,           63,          64,         65,
                                     200,     1000,    3970,        4095,        4096,       4097,
                                     65535,   65536,   65537,       99999,       1048575,    1048576,
                                     1048577, 1000003, 4294967295u, 4294967296u, 4294967297u};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        assert_runs(sizes[i], &random);
    for (int k = 33; k <= 60; k += 3)
        for (int delta = -1; delta <= (k < 60); delta++)
            assert_runs(((uint64_t)1 << k) + (uint64_t)delta, &random);
    for (uint64_t side = 64; side < (uint64_t)1 << 30; side = side * 7 + 3)
        for (int delta = -1; delta <= 1; delta++)
            assert_runs(side * side + (uint64_t)delta, &random);
}

/* The fill that the sampler calls, at sizes where it uses a kernel and where it must not. */
static void fills_equal_the_scalar_map(void **state) {
    (void)state;
    random_stream random = {9};
    static const uint64_t sizes[] = {1,
                                     2,
                                     17,
                                     4096,
                                     1000003,
                                     ((uint64_t)1 << 60) - 1,
                                     (uint64_t)1 << 60,
                                     ((uint64_t)1 << 60) + 1,
                                     (uint64_t)1 << 63,
                                     UINT64_MAX};
    static uint64_t out[3001];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int round = 0; round < 60; round++) {
            uint64_t m = sizes[i];
            weir_sampler__block_shape shape;
            weir_sampler__block_shape_init(&shape, m);
            weir_intra_block kind = round % 2 ? WEIR_INTRA_FEISTEL_V1 : WEIR_INTRA_AFFINE_V1;
            weir_seed seed = random_seed(&random);
            uint64_t block_id = random_next(&random) >> 1;
            uint64_t room = UINT64_MAX - m;
            uint64_t start = round % 3 == 0 ? room : random_below(&random, room + (room != UINT64_MAX));
            size_t count = (size_t)random_below(&random, m < 3000 ? m + 1 : 3001);
            uint64_t position = random_below(&random, m - count + 1);
            bool is_equal = true;
            if (m == 1)
                count = 1, position = 0;
            out[count] = guard;
            weir_sampler__block_fill(&shape, kind, seed, block_id, start, position, count, out);
            for (size_t p = 0; p < count; p++)
                is_equal &=
                    out[p] == weir_sampler__block_index(&shape, kind, seed, block_id, start, position + p);
            assert_true(is_equal && out[count] == guard);
        }
}

/* ---- How random it looks --------------------------------------------------------------------- */

enum { SIDE = 32, CELLS = SIDE * SIDE };

/* How many standard deviations a chi-square over equal cells lies from its mean. */
static double deviation(const uint32_t *cells, size_t cell_count, size_t samples) {
    double expected = (double)samples / (double)cell_count, chi_square = 0;
    for (size_t i = 0; i < cell_count; i++)
        chi_square += (cells[i] - expected) * (cells[i] - expected) / expected;
    double freedom = (double)cell_count - 1;
    return (chi_square - freedom) / sqrt(2 * freedom);
}

static uint32_t cell_of(uint64_t value, uint64_t m, uint32_t cells) {
    return (uint32_t)((unsigned __int128)value * cells / m);
}

/* Values `lag` apart, each used once, as pairs in a grid and as differences in bins. */
static void measure(const uint64_t *values, uint64_t m, size_t lag, double *pairs, double *differences) {
    static uint32_t grid[CELLS], bins[CELLS];
    size_t samples = 0;
    memset(grid, 0, sizeof grid);
    memset(bins, 0, sizeof bins);
    for (size_t base = 0; base + 2 * lag <= m; base += 2 * lag)
        for (size_t i = base; i < base + lag; i++, samples++) {
            uint64_t x = values[i], y = values[i + lag];
            grid[cell_of(x, m, SIDE) * SIDE + cell_of(y, m, SIDE)]++;
            bins[cell_of(y >= x ? y - x : y + m - x, m, CELLS)]++;
        }
    *pairs = deviation(grid, CELLS, samples);
    *differences = deviation(bins, CELLS, samples);
}

static void fill_block(weir_intra_block kind, uint64_t m, weir_seed seed, uint64_t block_id, uint64_t *out) {
    weir_sampler__block_shape shape;
    weir_sampler__block_shape_init(&shape, m);
    weir_sampler__block_fill(&shape, kind, seed, block_id, 0, 0, (size_t)m, out);
}

static void feistel_looks_random_within_a_block(void **state) {
    (void)state;
    static const uint64_t sizes[] = {1 << 18, 262139, 300000, 1 << 20};
    static const size_t lags[] = {1, 2, 3, 64, 512, 1024};
    random_stream random = {10};
    uint64_t *values = malloc(((size_t)1 << 20) * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (uint64_t block_id = 0; block_id < 3; block_id++) {
            fill_block(WEIR_INTRA_FEISTEL_V1, sizes[i], random_seed(&random), block_id, values);
            for (size_t k = 0; k < sizeof lags / sizeof lags[0]; k++) {
                double pairs, differences;
                measure(values, sizes[i], lags[k], &pairs, &differences);
                if (fabs(pairs) > 5 || fabs(differences) > 5)
                    fail_msg("m %llu, lag %zu: pairs %.1f, differences %.1f sigma",
                             (unsigned long long)sizes[i], lags[k], pairs, differences);
            }
        }
    free(values);
}

/* The same position of neighbouring blocks, and of one block under neighbouring seeds. */
static void feistel_looks_random_across_blocks_and_seeds(void **state) {
    (void)state;
    enum { SIZE = 1 << 18 };
    random_stream random = {11};
    uint64_t *values = malloc(2 * SIZE * sizeof *values);
    assert_non_null(values);
    for (int round = 0; round < 8; round++) {
        weir_seed seed = random_seed(&random), other = seed;
        uint64_t block_id = random_next(&random) >> 30;
        if (round % 2)
            other.word[round / 2] ^= 1;
        fill_block(WEIR_INTRA_FEISTEL_V1, SIZE, seed, block_id, values);
        fill_block(WEIR_INTRA_FEISTEL_V1, SIZE, other, block_id + (round % 2 == 0), values + SIZE);
        static uint32_t grid[CELLS];
        memset(grid, 0, sizeof grid);
        for (size_t i = 0; i < SIZE; i++)
            grid[cell_of(values[i], SIZE, SIDE) * SIDE + cell_of(values[SIZE + i], SIZE, SIDE)]++;
        double found = deviation(grid, CELLS, SIZE);
        if (fabs(found) > 5)
            fail_msg("round %d: %.1f sigma", round, found);
    }
    free(values);
}

/* The measure itself: the affine map, whose stride is constant, must fail it by far. */
static void the_measure_catches_a_constant_stride(void **state) {
    (void)state;
    enum { SIZE = 1 << 18 };
    random_stream random = {12};
    uint64_t *values = malloc(SIZE * sizeof *values);
    double pairs, differences;
    assert_non_null(values);
    fill_block(WEIR_INTRA_AFFINE_V1, SIZE, random_seed(&random), 0, values);
    measure(values, SIZE, 1, &pairs, &differences);
    assert_true(pairs > 100 && differences > 100);
    free(values);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_blocks_are_mapped),
        cmocka_unit_test(golden_positions_are_mapped),
        cmocka_unit_test(places_that_do_not_exist_are_refused),
        cmocka_unit_test(golden_block_orders),
        cmocka_unit_test(both_maps_are_bijections_at_every_size_to_5000),
        cmocka_unit_test(both_maps_are_bijections_around_powers_of_two_and_squares),
        cmocka_unit_test(coprimality_is_what_gcd_says),
        cmocka_unit_test(multiples_of_large_factors_are_passed_over),
        cmocka_unit_test(kernels_equal_the_scalar_map),
        cmocka_unit_test(fills_equal_the_scalar_map),
        cmocka_unit_test(feistel_looks_random_within_a_block),
        cmocka_unit_test(feistel_looks_random_across_blocks_and_seeds),
        cmocka_unit_test(the_measure_catches_a_constant_stride),
    };
    return cmocka_run_group_tests_name("block map", tests, NULL, NULL);
}
