/* Any bytes as a manifest. One that is accepted comes back the same from the documents that a trace keeps,
 * and its datasets can be located and sampled without a fault. */
#include "require.h"

#include <string.h>

#include "weir/sampler.h"
#include "weir_tool/sampler_tools.h"

enum { BLOCKS_MAX = 100000, BATCH_MAX = 4096, STEPS = 3 };

static weir_cbor_value finish(weir_cbor_writer *w) {
    require(weir_cbor_finish(w, NULL) == WEIR_OK);
    require(weir_cbor_check(w->data, w->size, NULL, NULL) == WEIR_OK);
    return weir_cbor_view(w->data);
}

static void require_restorable(const weir_manifest *manifest) {
    weir_cbor_writer mix, batch;
    weir_manifest *restored = NULL;
    const weir_manifest_info *info = weir_manifest_describe(manifest);
    const uint8_t *normalised = info->normalised;
    require(weir_cbor_check(normalised, info->normalised_size, NULL, NULL) == WEIR_OK);
    weir_cbor_writer_memory(&mix, NULL);
    weir_cbor_writer_memory(&batch, NULL);
    weir_manifest_write_mix(manifest, &mix);
    weir_manifest_write_batch(manifest, &batch);
    weir_cbor_value document = weir_cbor_view(normalised);
    weir_cbor_value mix_document = finish(&mix), batch_document = finish(&batch);
    require(weir_manifest_restore(NULL, &document, &mix_document, &batch_document, &restored, NULL) ==
            WEIR_OK);
    require(memcmp(weir_manifest_describe(manifest)->hash, weir_manifest_describe(restored)->hash, 32) == 0);
    require(memcmp(weir_manifest_describe(manifest)->token, weir_manifest_describe(restored)->token, 64) ==
            0);
    require(memcmp(weir_manifest_describe(manifest)->mix_hash, weir_manifest_describe(restored)->mix_hash,
                   32) == 0);
    require(memcmp(weir_manifest_describe(manifest)->batch_config_hash,
                   weir_manifest_describe(restored)->batch_config_hash, 32) == 0);
    weir_manifest_close(restored);
    weir_cbor_release(&mix);
    weir_cbor_release(&batch);
}

static void try_locate(const weir_manifest *manifest) {
    static const uint64_t steps[] = {0, 1, 1000000007, UINT64_MAX};
    weir_mix *mix = NULL;
    if (weir_mix_open(NULL, manifest, NULL, 0, &mix, NULL) != WEIR_OK)
        return;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        const weir_dataset *dataset = NULL;
        weir_cursor cursor = {0, UINT64_MAX};
        if (weir_mix_locate(mix, steps[i], &dataset, &cursor, NULL) == WEIR_OK)
            require(dataset && cursor.global_index < dataset->cardinality);
    }
    weir_mix_close(mix);
}

static void try_steps(weir_sampler *sampler, const weir_dataset *dataset, uint64_t *indices) {
    const weir_cursor starts[] = {{0, 0}, {7, dataset->cardinality - 1}, {UINT64_MAX, 0}};
    for (size_t k = 0; k < sizeof starts / sizeof starts[0]; k++) {
        weir_cursor cursor = starts[k];
        weir_step step;
        for (int i = 0; i < STEPS; i++) {
            if (weir_sampler_step(sampler, cursor, &step, NULL) != WEIR_OK)
                break;
            require(step.valid_count <= step.count && step.count <= BATCH_MAX);
            require(step.cursor_next.global_index < dataset->cardinality);
            weir_sampler_indices(sampler, &step, indices);
            for (uint64_t p = 0; p < step.count; p++)
                require(indices[p] < dataset->cardinality);
            cursor = step.cursor_next;
        }
    }
}

static void try_dataset(const weir_manifest *manifest, const weir_dataset *dataset, weir_stage stage) {
    static uint64_t indices[BATCH_MAX];
    uint64_t block_size = weir_manifest_describe(manifest)->data->sampler_block_size;
    if (weir_manifest_describe(manifest)->global_batch_size > BATCH_MAX ||
        (block_size > 0 && dataset->cardinality / block_size > BLOCKS_MAX))
        return;
    weir_sampler_options options = {
        .size = sizeof options, .dataset = dataset->key, .stage = stage, .world_size = 1};
    weir_sampler *sampler = NULL;
    if (weir_sampler_open(NULL, manifest, &options, &sampler, NULL) == WEIR_OK)
        try_steps(sampler, dataset, indices);
    weir_sampler_close(sampler);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    weir_error error;
    weir_manifest *manifest = NULL;
    weir_status status = weir_manifest_read(NULL, (const char *)data, size, "input", &manifest, &error);
    if (status != WEIR_OK) {
        require(status == WEIR_MANIFEST_INVALID && manifest == NULL && error.status == status);
        return 0;
    }
    require_restorable(manifest);
    try_locate(manifest);
    for (size_t i = 0; i < weir_manifest_describe(manifest)->dataset_count && i < 4; i++)
        for (int stage = 0; stage < 2; stage++)
            try_dataset(manifest, &weir_manifest_describe(manifest)->datasets[i], (weir_stage)stage);
    weir_manifest_close(manifest);
    return 0;
}
