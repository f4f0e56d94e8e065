/* Every call to the system fails in turn while a manifest is opened, restored, sampled from and mixed: an
 * error record, nothing left behind, and the next try works. */
#include <stdlib.h>
#include <string.h>

#include "sampler/population.h"
#include "support/testing.h"

#define DATASET                                                                                              \
    "{\"id\": \"shop\", \"version\": \"1\", \"cardinality\": 1000, \"hash\": "                               \
    "\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"}"

static const char manifest_text[] =
    "{\"seed\": 7, \"global_batch_size\": 16, \"datasets\": {\"shop/churn/train\": " DATASET
    ", \"shop/rating/train\": " DATASET ", \"b\": " DATASET ", \"a\": " DATASET "}, \"data\": "
    "{\"sampler_block_size\": 64, \"rotate\": true, \"intra_block\": \"feistel_v1\", \"sampling\": "
    "{\"mode\": "
    "\"weighted\", \"column\": \"w\", \"datasets\": [\"b\"]}}, \"accountant\": {\"subsampling_mode\": "
    "\"SHUFFLE_WITHOUT_REPLACEMENT\"}, \"mix\": {\"a\": 3, "
    "\"shop/churn/train\": 2}, \"batch\": {\"max_hops\": 3, \"child_policy\": \"recent\"}}";

/* ---- Opening a manifest ---------------------------------------------------------------------- */

typedef struct manifest_case {
    char folder[SCRATCH_PATH];
    char path[SCRATCH_PATH + 16];
    uint8_t hash[WEIR_HASH_SIZE];
} manifest_case;

static weir_status open_manifest(const weir_env *env, void *context, weir_error *error) {
    manifest_case *c = context;
    weir_manifest *manifest = NULL;
    weir_status status = weir_manifest_open(env, c->path, &manifest, error);
    if (status == WEIR_OK)
        assert_memory_equal(weir_manifest_describe(manifest)->hash, c->hash, WEIR_HASH_SIZE);
    else
        assert_null(manifest);
    weir_manifest_close(manifest);
    return status;
}

/* After any failure the same call succeeds. */
static void open_manifest_again(void *context) {
    weir_error error;
    assert_ok(open_manifest(weir_env_default(), context, &error), &error);
}

static void opening_a_manifest_fails_cleanly(void **state) {
    (void)state;
    manifest_case c;
    scratch_make(c.folder);
    snprintf(c.path, sizeof c.path, "%s/manifest.json", c.folder);
    write_whole_file(c.path, manifest_text, strlen(manifest_text));
    weir_manifest *manifest = manifest_of_text(manifest_text);
    memcpy(c.hash, weir_manifest_describe(manifest)->hash, WEIR_HASH_SIZE);
    weir_manifest_close(manifest);
    assert_true(sweep_faults(open_manifest, open_manifest_again, &c) >= 88);
    scratch_remove(c.folder);
}

/* ---- Everything from a manifest -------------------------------------------------------------- */

static weir_status restore_manifest(const weir_env *env, void *context, weir_error *error) {
    const weir_manifest *manifest = context;
    weir_cbor_writer mix, batch;
    weir_manifest *restored = NULL;
    weir_cbor_writer_memory(&mix, env);
    weir_cbor_writer_memory(&batch, env);
    weir_manifest_write_mix(manifest, &mix);
    weir_manifest_write_batch(manifest, &batch);
    weir_status status = weir_cbor_finish(&mix, error);
    if (status == WEIR_OK)
        status = weir_cbor_finish(&batch, error);
    if (status == WEIR_OK) {
        weir_cbor_value normalised = weir_cbor_view(weir_manifest_describe(manifest)->normalised);
        weir_cbor_value mix_value = weir_cbor_view(mix.data), batch_value = weir_cbor_view(batch.data);
        status = weir_manifest_restore(env, &normalised, &mix_value, &batch_value, &restored, error);
    }
    if (status == WEIR_OK)
        assert_memory_equal(weir_manifest_describe(restored)->mix_hash,
                            weir_manifest_describe(manifest)->mix_hash, 32);
    weir_manifest_close(restored);
    weir_cbor_release(&mix);
    weir_cbor_release(&batch);
    return status;
}

static weir_status open_sampler(const weir_env *env, void *context, weir_error *error) {
    weir_sampler_options options = {.size = sizeof options, .dataset = "a", .world_size = 2, .rank = 1};
    weir_sampler *sampler = NULL;
    uint64_t indices[8];
    weir_step step;
    weir_status status = weir_sampler_open(env, context, &options, &sampler, error);
    if (status == WEIR_OK)
        status = weir_sampler_step(sampler, (weir_cursor){0, 0}, &step, error);
    else
        assert_null(sampler);
    if (status == WEIR_OK)
        weir_sampler_indices(sampler, &step, indices);
    weir_sampler_close(sampler);
    return status;
}

/* Both kinds of population; the weighted one is drawn from. */
static weir_status open_populations(const weir_env *env, void *context, weir_error *error) {
    enum { N = 1000 };
    static uint32_t classes[N];
    static double weights[N];
    weir_population *by_class = NULL, *by_weight = NULL;
    weir_sampler *sampler = NULL;
    for (uint32_t i = 0; i < N; i++) {
        classes[i] = i % 7;
        weights[i] = i;
    }
    weir_seed seed = weir_sampler__sampling_seed(context, "b", NULL, 0);
    weir_status status = weir_sampler__population_of_classes(env, seed, "t", classes, N, 7, &by_class, error);
    if (status == WEIR_OK)
        status = weir_sampler__population_of_weights(env, seed, "t", weights, N, &by_weight, error);
    weir_sampler_options options = {
        .size = sizeof options, .dataset = "b", .world_size = 1, .population = by_weight};
    if (status == WEIR_OK)
        status = weir_sampler_open(env, context, &options, &sampler, error);
    weir_sampler_close(sampler);
    weir_population_close(by_class);
    weir_population_close(by_weight);
    return status;
}

static weir_status open_mix(const weir_env *env, void *context, weir_error *error) {
    weir_mix *mix = NULL;
    const weir_dataset *dataset;
    weir_cursor cursor;
    weir_status status = weir_mix_open(env, context, NULL, 0, &mix, error);
    if (status == WEIR_OK)
        status = weir_mix_locate(mix, 123456, &dataset, &cursor, error);
    else
        assert_null(mix);
    weir_mix_close(mix);
    return status;
}

static void everything_from_a_manifest_fails_cleanly(void **state) {
    (void)state;
    weir_manifest *manifest = manifest_of_text(manifest_text);
    assert_true(sweep_faults(restore_manifest, NULL, manifest) >= 40);
    assert_true(sweep_faults(open_sampler, NULL, manifest) >= 8);
    assert_true(sweep_faults(open_mix, NULL, manifest) >= 6);
    weir_manifest_close(manifest);
    manifest = manifest_of_text("{\"global_batch_size\": 16, \"datasets\": {\"b\": " DATASET
                                "}, \"data\": {\"sampling\": {\"mode\": \"weighted\", \"column\": \"w\"}}}");
    assert_true(sweep_faults(open_populations, NULL, manifest) >= 20);
    weir_manifest_close(manifest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_a_manifest_fails_cleanly),
        cmocka_unit_test(everything_from_a_manifest_fails_cleanly),
    };
    return cmocka_run_group_tests_name("sampler faults", tests, NULL, NULL);
}
