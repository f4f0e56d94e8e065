/* Class-balanced and weighted sampling, the stateless permutation under them and the stateless order of
 * blocks: golden values, exact quotas, any world size and any restart the same, and chi-square tests under
 * fixed seeds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/sampling.h"

/* ---- Golden values --------------------------------------------------------------------------- */

static uint32_t domain_of(const char *name) {
    return (uint32_t)name[0] << 24 | (uint32_t)name[1] << 16 | (uint32_t)name[2] << 8 | (uint32_t)name[3];
}

static void golden_places(void **state) {
    (void)state;
    json_t *golden = load_golden("sampling_modes.json");
    json_t *list = member(golden, "places");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *one = json_array_get(list, i);
        size_t size;
        weir_seed seed = weir_seed_load(bytes_of_hex(member_text(one, "seed"), &size));
        uint64_t m = member_uint(one, "m");
        weir_sampler__place_map map =
            weir_sampler__place_map_make(seed, domain_of(member_text(one, "domain")), member_uint(one, "n"),
                                         (uint32_t)member_uint(one, "j"), m);
        json_t *asked = json_object_get(one, "asked");
        for (size_t k = 0; k < json_array_size(asked); k++)
            assert_true(weir_sampler__place_at(&map, uint_of(json_array_get(asked, k))) ==
                        uint_of(json_array_get(member(one, "found"), k)));
        if (asked)
            continue;
        weir__sha256 sha;
        uint8_t digest[32];
        weir__sha256_init(&sha);
        for (uint64_t x = 0; x < m; x++) {
            uint64_t place = weir_sampler__place_at(&map, x);
            hash_indices(&sha, &place, 1);
        }
        weir__sha256_final(&sha, digest);
        assert_hex_equal(digest, 32, member_text(one, "sha256"));
    }
    json_decref(golden);
}

static double *doubles_of(json_t *list) {
    double *values = malloc((json_array_size(list) + 1) * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < json_array_size(list); i++)
        values[i] = json_number_value(json_array_get(list, i));
    return values;
}

static void golden_weights(void **state) {
    (void)state;
    json_t *golden = load_golden("sampling_modes.json");
    json_t *list = member(golden, "weights");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *integers = member(json_array_get(list, i), "integers");
        double *weights = doubles_of(member(json_array_get(list, i), "weights"));
        weir_population *p = weighted((weir_seed){{1, 2, 3, 4}}, weights, json_array_size(integers));
        for (size_t k = 0; k < p->count; k++)
            assert_true(p->ends[k] - (k ? p->ends[k - 1] : 0) ==
                        uint_of(json_array_get(integers, p->line[k])));
        weir_population_close(p);
        free(weights);
    }
    json_decref(golden);
}

static weir_population *population_of(json_t *run, const weir_manifest *manifest) {
    json_t *classes = json_object_get(run, "classes"), *weights = json_object_get(run, "weights");
    weir_seed seed = weir_sampler__sampling_seed(manifest, "a", NULL, 0);
    weir_population *population = NULL;
    if (weights) {
        double *values = doubles_of(weights);
        population = weighted(seed, values, json_array_size(weights));
        free(values);
    } else if (classes) {
        enum { LIMIT = 65 };
        size_t count = json_array_size(classes);
        uint32_t *numbers = malloc(count * sizeof *numbers);
        assert_non_null(numbers);
        for (size_t i = 0; i < count; i++)
            numbers[i] = json_is_null(json_array_get(classes, i))
                             ? LIMIT - 1
                             : (uint32_t)uint_of(json_array_get(classes, i));
        population = by_class(seed, numbers, count, LIMIT);
        free(numbers);
    }
    return population;
}

/* The run in a world of this size, rank after rank. */
static void assert_golden_run(json_t *run, const weir_manifest *manifest, const weir_population *population,
                              uint32_t world_size) {
    weir_sampler *ranks[64];
    weir__sha256 sha;
    uint8_t digest[32];
    uint64_t indices[64], samples = 0;
    weir_cursor cursor = {member_uint(run, "epoch"), 0};
    weir_step step = {0};
    weir__sha256_init(&sha);
    for (uint32_t rank = 0; rank < world_size; rank++)
        ranks[rank] = drawing(manifest, population, world_size, rank);
    for (uint64_t i = 0; i < member_uint(run, "steps"); i++) {
        for (uint32_t rank = 0; rank < world_size; rank++) {
            step = take_step(ranks[rank], cursor, indices);
            hash_indices(&sha, indices, step.count);
            samples += step.count;
        }
        cursor = step.cursor_next;
    }
    weir__sha256_final(&sha, digest);
    assert_hex_equal(digest, 32, member_text(run, "sha256"));
    assert_string_equal(step.sampling_mode, member_text(run, "sampling_mode"));
    assert_string_equal(step.subsampling_mode, member_text(run, "subsampling_mode"));
    assert_hex_equal(step.sampler_config_hash, 32, member_text(run, "sampler_config_hash"));
    assert_true(samples == member_uint(run, "samples"));
    assert_true(cursor.epoch == uint_of(json_array_get(member(run, "end"), 0)));
    assert_true(cursor.global_index == uint_of(json_array_get(member(run, "end"), 1)));
    for (uint32_t rank = 0; rank < world_size; rank++)
        weir_sampler_close(ranks[rank]);
}

static void golden_runs(void **state) {
    (void)state;
    json_t *golden = load_golden("sampling_modes.json");
    json_t *list = member(golden, "runs");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *run = json_array_get(list, i);
        weir_manifest *manifest = manifest_of_text(member_text(run, "manifest"));
        weir_population *population = population_of(run, manifest);
        uint64_t batch = weir_manifest_describe(manifest)->global_batch_size;
        assert_string_equal(weir_manifest_operator(manifest, WEIR_STAGE_TRAIN), "UML_OS.Data.NextBatch_v3");
        for (uint32_t world_size = 1; world_size <= batch; world_size++)
            if (batch % world_size == 0)
                assert_golden_run(run, manifest, population, world_size);
        weir_population_close(population);
        weir_manifest_close(manifest);
    }
    json_decref(golden);
}

/* ---- Quotas ---------------------------------------------------------------------------------- */

/* Every C positions hold each class once; every n_c draws of a class hold each member once; through the ends
 * of epochs, whatever they do. */
static void classes_have_exact_quotas(void **state) {
    (void)state;
    enum { N = 90, CLASSES = 4, RUN = 4000 };
    static const char *const boundaries[] = {"", ", \"drop_last\": true", ", \"epoch_boundary\": \"stream\""};
    uint32_t classes[N];
    for (uint32_t i = 0; i < N; i++) /* scattered over the samples; number 4 of the five is empty */
        classes[i] = i % 45 == 0 ? 0 : i == 7 ? 1 : i % 3 == 1 && i != 7 ? 4 : 2;
    for (size_t b = 0; b < 3; b++) {
        char data[128];
        snprintf(data, sizeof data, BALANCED "%s", boundaries[b]);
        weir_manifest *manifest = sampling_manifest(N, 7, data, b);
        weir_population *p = by_class(weir_sampler__sampling_seed(manifest, "a", NULL, 0), classes, N, 6);
        assert_int_equal(p->class_count, CLASSES);
        for (uint32_t c = 0; c < CLASSES; c++)
            assert_in_range(p->starts[c + 1] - p->starts[c], 1, N);
        uint64_t *run = take_run(manifest, p, RUN);
        uint32_t drawn[CLASSES] = {0}, times[N] = {0};
        for (uint32_t i = 0; i < RUN; i++) {
            uint32_t c = classes[run[i]] == 4 ? 3 : classes[run[i]];
            uint32_t size = p->starts[c + 1] - p->starts[c];
            assert_int_equal(drawn[c], i / CLASSES); /* not met before in this period */
            assert_int_equal(times[run[i]], drawn[c] / size);
            drawn[c]++;
            times[run[i]]++;
        }
        free(run);
        weir_population_close(p);
        weir_manifest_close(manifest);
    }
}

/* In every epoch, and in every 2^k epochs from a multiple of 2^k on, floor or ceil of what the weight asks
 * for. */
static void weights_have_exact_quotas(void **state) {
    (void)state;
    enum { N = 200, EPOCHS = 64 };
    double weights[N];
    random_stream random = {41};
    for (int i = 0; i < N; i++)
        weights[i] = i % 10 == 0 ? 0 : (double)(1 + random_below(&random, 1000)) * (i % 17 == 0 ? 40 : 0.25);
    for (int drops = 0; drops < 2; drops++) {
        weir_manifest *manifest =
            sampling_manifest(N, 9, drops ? WEIGHTED ", \"drop_last\": true" : WEIGHTED, (uint64_t)drops);
        weir_population *p = weighted(weir_sampler__sampling_seed(manifest, "a", NULL, 0), weights, N);
        uint64_t used = drops ? N / 9 * 9 : N;
        uint64_t *run = take_run(manifest, p, EPOCHS * used);
        static uint64_t counts[EPOCHS][N];
        memset(counts, 0, sizeof counts);
        for (uint64_t i = 0; i < EPOCHS * used; i++)
            counts[i / used][run[i]]++;
        for (uint64_t group = 1; group <= EPOCHS; group *= 2)
            for (uint64_t first = 0; first < EPOCHS; first += group)
                for (uint64_t k = 0; k < N; k++) {
                    uint64_t found = 0, weight = p->ends[k] - (k ? p->ends[k - 1] : 0);
                    for (uint64_t e = first; e < first + group; e++)
                        found += counts[e][p->line[k]];
                    unsigned __int128 asked = (unsigned __int128)group * used * weight;
                    uint64_t floor = (uint64_t)(asked / p->total);
                    assert_in_range(found, floor, floor + (asked % p->total != 0));
                }
        free(run);
        weir_population_close(p);
        weir_manifest_close(manifest);
    }
}

static void equal_weights_give_each_sample_once(void **state) {
    (void)state;
    enum { N = 130 };
    double weights[N];
    for (int i = 0; i < N; i++)
        weights[i] = 0.3;
    weir_manifest *manifest = sampling_manifest(N, 13, WEIGHTED, 1);
    weir_population *p = weighted(weir_sampler__sampling_seed(manifest, "a", NULL, 0), weights, N);
    uint64_t *run = take_run(manifest, p, 5 * N);
    for (int epoch = 0; epoch < 5; epoch++) {
        bool seen[N] = {false};
        for (int i = 0; i < N; i++) {
            assert_false(seen[run[epoch * N + i]]);
            seen[run[epoch * N + i]] = true;
        }
    }
    free(run);
    weir_population_close(p);
    weir_manifest_close(manifest);
}

/* One sample outweighs all: it is nearly all of an epoch, and the rest still comes in its turn. */
static void a_sample_may_outweigh_all_others(void **state) {
    (void)state;
    enum { N = 64, EPOCHS = 4096 };
    double weights[N] = {0};
    uint64_t counts[N] = {0}, indices[N];
    weir_error error;
    weights[5] = 1e6;
    weights[9] = 1e-30; /* rounds to the least weight that there is */
    for (int i = 10; i < N; i++)
        weights[i] = 100;
    weir_manifest *manifest = sampling_manifest(N, 8, WEIGHTED, 3);
    weir_population *p = weighted(weir_sampler__sampling_seed(manifest, "a", NULL, 0), weights, N);
    weir_sampler *sampler = drawing(manifest, p, 1, 0);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        assert_ok(weir_sampler_range(sampler, epoch, 0, N, indices, &error), &error);
        for (int i = 0; i < N; i++)
            counts[indices[i]]++;
    }
    assert_int_equal(counts[0], 0);
    assert_in_range(counts[9], 0, 1);
    for (int i = 10; i < N; i++) /* 4096 * 64 * 100 / 1005400 */
        assert_in_range(counts[i], 26, 27);
    weir_sampler_close(sampler);
    weir_population_close(p);
    weir_manifest_close(manifest);
}

/* ---- Random access --------------------------------------------------------------------------- */

static void every_way_to_a_position_is_the_same(void **state) {
    (void)state;
    enum { N = 211, BATCH = 24 };
    static const char *const boundaries[] = {"", ", \"drop_last\": true", ", \"epoch_boundary\": \"stream\""};
    static const uint32_t worlds[] = {1, 2, 3, 8, 24};
    uint32_t classes[N];
    double weights[N];
    random_stream random = {42};
    for (uint32_t i = 0; i < N; i++) {
        classes[i] = (uint32_t)random_below(&random, 5);
        weights[i] = (double)random_below(&random, 50);
    }
    for (int mode = 0; mode < 2; mode++)
        for (size_t b = 0; b < 3; b++) {
            char data[128];
            snprintf(data, sizeof data, "%s%s", mode ? WEIGHTED : BALANCED, boundaries[b]);
            weir_manifest *manifest = sampling_manifest(N, BATCH, data, b);
            weir_seed seed = weir_sampler__sampling_seed(manifest, "a", NULL, 0);
            weir_population *p = mode ? weighted(seed, weights, N) : by_class(seed, classes, N, 5);
            weir_sampler *access = drawing(manifest, p, 1, 0);
            for (int round = 0; round < 60; round++) {
                weir_cursor cursor = {random_below(&random, 1000), random_below(&random, N)};
                uint64_t whole[BATCH], share[BATCH], index, done = 0;
                weir_error error;
                weir_sampler *fresh = drawing(manifest, p, 1, 0);
                weir_step step = take_step(fresh, cursor, whole);
                weir_sampler_close(fresh);
                for (uint64_t i = 0; i < step.count; i++) {
                    uint64_t position = cursor.global_index + i, epoch = cursor.epoch + position / N;
                    assert_ok(weir_sampler_index_at(access, epoch, position % N, &index, &error), &error);
                    assert_int_equal(index, whole[i]);
                }
                uint32_t world = worlds[round % 5];
                for (uint32_t rank = 0; rank < world; rank++) {
                    weir_sampler *one = drawing(manifest, p, world, rank);
                    weir_step part = take_step(one, cursor, share);
                    assert_memory_equal(share, whole + done, part.count * 8);
                    assert_int_equal(part.blocks_materialized + part.blocks_materialized_this_epoch, 0);
                    assert_true(cursors_equal(part.cursor_next, step.cursor_next));
                    done += part.count;
                    weir_sampler_close(one);
                }
                assert_int_equal(done, step.count);
            }
            weir_sampler_close(access);
            weir_population_close(p);
            weir_manifest_close(manifest);
        }
}

static void evaluation_stays_in_order(void **state) {
    (void)state;
    weir_manifest *manifest = sampling_manifest(10, 4, BALANCED, 1);
    weir_sampler *sampler = sampler_of(manifest, "a", WEIR_STAGE_EVAL, 1, 0); /* without a population */
    uint64_t indices[4];
    weir_step step = take_step(sampler, (weir_cursor){0, 4}, indices);
    assert_string_equal(step.sampling_mode, "SEQUENTIAL_V1");
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(indices[i], 4 + i);
    weir_sampler_close(sampler);
    weir_manifest_close(manifest);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void populations_are_checked(void **state) {
    (void)state;
    static const uint32_t classes[] = {0, 1, 1, 0};
    static const double none[] = {0, 0}, bad[][2] = {{1, -1}, {NAN, 1}, {1, INFINITY}};
    weir_error error;
    weir_sampler *sampler;
    weir_population *p;
    weir_seed seed = {{1, 2, 3, 4}};
    const weir_env *env = weir_env_default();
    assert_fails(weir_sampler__population_of_weights(env, seed, "t", none, 2, &p, &error), WEIR_TASK_INVALID,
                 &error);
    for (int i = 0; i < 3; i++)
        assert_fails(weir_sampler__population_of_weights(env, seed, "t", bad[i], 2, &p, &error),
                     WEIR_STORE_CORRUPT, &error);
    uint64_t too_many = (uint64_t)UINT32_MAX + 1; /* samples have numbers of 32 bits: nothing is read */
    assert_fails(weir_sampler__population_of_weights(env, seed, "t", none, too_many, &p, &error),
                 WEIR_TASK_INVALID, &error);
    assert_fails(weir_sampler__population_of_classes(env, seed, "t", classes, too_many, 2, &p, &error),
                 WEIR_TASK_INVALID, &error);
    weir_manifest *manifest = sampling_manifest(4, 2, BALANCED, 1);
    weir_sampler_options options = {.size = sizeof options, .dataset = "a", .world_size = 1};
    assert_fails(weir_sampler_open(NULL, manifest, &options, &sampler, &error), WEIR_CONTRACT_VIOLATION,
                 &error);
    assert_non_null(strstr(error.message, "store"));
    p = by_class(seed, classes, 4, 2); /* of another seed */
    options.population = p;
    assert_fails(weir_sampler_open(NULL, manifest, &options, &sampler, &error), WEIR_CONTRACT_VIOLATION,
                 &error);
    weir_population_close(p);
    p = by_class(weir_sampler__sampling_seed(manifest, "a", NULL, 0), classes, 3, 2); /* of another size */
    options.population = p;
    assert_fails(weir_sampler_open(NULL, manifest, &options, &sampler, &error), WEIR_CONTRACT_VIOLATION,
                 &error);
    weir_population_close(p);
    weir_manifest_close(manifest);
}

/* Two classes take a period for every two samples: the periods run out before the epochs do. */
static void periods_do_not_overflow(void **state) {
    (void)state;
    static const uint32_t classes[] = {0, 1, 1, 0, 1, 1};
    weir_error error;
    weir_step step;
    uint64_t index;
    weir_manifest *manifest = sampling_manifest(6, 2, BALANCED, 1);
    weir_population *p = by_class(weir_sampler__sampling_seed(manifest, "a", NULL, 0), classes, 6, 2);
    weir_sampler *sampler = drawing(manifest, p, 1, 0);
    uint64_t last = UINT64_MAX / 3; /* 3 periods an epoch */
    assert_ok(weir_sampler_step(sampler, (weir_cursor){last - 1, 4}, &step, &error), &error);
    assert_ok(weir_sampler_index_at(sampler, last, 1, &index, &error), &error);
    assert_fails(weir_sampler_index_at(sampler, last, 2, &index, &error), WEIR_COUNTER_OVERFLOW, &error);
    assert_fails(weir_sampler_range(sampler, last, 1, 2, &index, &error), WEIR_COUNTER_OVERFLOW, &error);
    assert_fails(weir_sampler_step(sampler, (weir_cursor){last, 2}, &step, &error), WEIR_COUNTER_OVERFLOW,
                 &error);
    assert_string_equal(error.failure_operator, "UML_OS.Data.NextBatch_v3");
    assert_fails(weir_sampler_step(sampler, (weir_cursor){UINT64_MAX, 0}, &step, &error),
                 WEIR_COUNTER_OVERFLOW, &error);
    weir_sampler_close(sampler);
    weir_population_close(p);
    weir_manifest_close(manifest);
}

/* ---- What the manifest assumes -------------------------------------------------------------- */

#define OF_TEN                                                                                               \
    "{\"global_batch_size\": 4, \"datasets\": {\"a\": {\"id\": \"a\", \"version\": \"1\", \"cardinality\": " \
    "10, "                                                                                                   \
    "\"hash\": \"0000000000000000000000000000000000000000000000000000000000000000\"}}"

/* A run whose sampler does not do what its accountant assumes is refused; the error says both. */
static void an_accountant_must_be_right(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool is_right;
    } cases[] = {
        {", \"accountant\": {\"subsampling_mode\": \"SHUFFLE_WITHOUT_REPLACEMENT\", \"effective_q\": 0.4}}",
         true},
        {", \"accountant\": {\"effective_q\": 0.4}}", true},
        {", \"accountant\": {\"effective_q\": 0.40000000000000008}}", false},
        {", \"accountant\": {\"effective_q\": 1}}", false},
        {", \"accountant\": {\"subsampling_mode\": \"POISSON\"}}", false},
        {", \"data\": {\"epoch_boundary\": \"stream\"}, \"accountant\": {\"subsampling_mode\": "
         "\"SHUFFLE_WITHOUT_REPLACEMENT\"}}",
         false},
        {", \"data\": {\"epoch_boundary\": \"stream\"}, \"accountant\": {\"subsampling_mode\": "
         "\"SHUFFLE_STREAMING\"}}",
         true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[512];
        weir_error error;
        weir_sampler *sampler = NULL;
        snprintf(text, sizeof text, OF_TEN "%s", cases[i].text);
        weir_manifest *manifest = manifest_of_text(text);
        weir_sampler_options options = {.size = sizeof options, .dataset = "a", .world_size = 1};
        weir_status status = weir_sampler_open(NULL, manifest, &options, &sampler, &error);
        if (cases[i].is_right) {
            assert_ok(status, &error);
        } else {
            assert_fails(status, WEIR_CONTRACT_VIOLATION, &error);
            assert_string_equal(error.diagnostics[0].name, "accountant");
            assert_string_equal(error.diagnostics[1].name, "sampler");
            assert_non_null(strstr(error.message, error.diagnostics[1].text));
        }
        weir_sampler_close(sampler);
        options.stage = WEIR_STAGE_EVAL; /* which no accountant looks at */
        assert_ok(weir_sampler_open(NULL, manifest, &options, &sampler, &error), &error);
        weir_sampler_close(sampler);
        weir_manifest_close(manifest);
    }
}

static void a_sequential_preset_does_not_train(void **state) {
    (void)state;
    weir_error error;
    weir_sampler *sampler = NULL;
    weir_manifest *manifest = manifest_of_text(OF_TEN ", \"data\": {\"preset\": \"eval_sequential\"}}");
    weir_sampler_options options = {.size = sizeof options, .dataset = "none", .world_size = 0};
    assert_fails(weir_sampler_open(NULL, manifest, &options, &sampler, &error), WEIR_INVALID_STAGE_TYPE,
                 &error);
    options = (weir_sampler_options){
        .size = sizeof options, .dataset = "a", .stage = WEIR_STAGE_INFER, .world_size = 1};
    assert_ok(weir_sampler_open(NULL, manifest, &options, &sampler, &error), &error);
    weir_sampler_close(sampler);
    weir_manifest_close(manifest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_places),
        cmocka_unit_test(golden_weights),
        cmocka_unit_test(golden_runs),
        cmocka_unit_test(classes_have_exact_quotas),
        cmocka_unit_test(weights_have_exact_quotas),
        cmocka_unit_test(equal_weights_give_each_sample_once),
        cmocka_unit_test(a_sample_may_outweigh_all_others),
        cmocka_unit_test(every_way_to_a_position_is_the_same),
        cmocka_unit_test(evaluation_stays_in_order),
        cmocka_unit_test(populations_are_checked),
        cmocka_unit_test(periods_do_not_overflow),
        cmocka_unit_test(an_accountant_must_be_right),
        cmocka_unit_test(a_sequential_preset_does_not_train),
    };
    return cmocka_run_group_tests_name("sampling modes", tests, NULL, NULL);
}
