/* See sampling.h. */
#include "support/sampling.h"
#include "base/philox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

weir_sampler *sampler_of(const weir_manifest *manifest, const char *dataset, weir_stage stage,
                         uint32_t world_size, uint32_t rank) {
    weir_error error;
    weir_sampler *sampler = NULL;
    weir_sampler_options options = {
        .size = sizeof options, .dataset = dataset, .stage = stage, .world_size = world_size, .rank = rank};
    assert_ok(weir_sampler_open(NULL, manifest, &options, &sampler, &error), &error);
    return sampler;
}

weir_step take_step(weir_sampler *sampler, weir_cursor cursor, uint64_t *indices) {
    weir_error error;
    weir_step step;
    assert_ok(weir_sampler_step(sampler, cursor, &step, &error), &error);
    weir_sampler_indices(sampler, &step, indices);
    return step;
}

bool cursors_equal(weir_cursor a, weir_cursor b) {
    return a.epoch == b.epoch && a.global_index == b.global_index;
}

void hash_indices(weir__sha256 *sha, const uint64_t *indices, uint64_t count) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ /* they lie in memory as they are hashed */
    weir__sha256_update(sha, indices, (size_t)count * sizeof *indices);
    return;
#endif
    uint8_t bytes[8 * 512];
    for (uint64_t done = 0; done < count;) {
        uint64_t piece = count - done < 512 ? count - done : 512;
        for (uint64_t i = 0; i < piece; i++)
            for (unsigned k = 0; k < 8; k++)
                bytes[8 * i + k] = (uint8_t)(indices[done + i] >> 8 * k);
        weir__sha256_update(sha, bytes, 8 * piece);
        done += piece;
    }
}

/* ---- The procedure, slowly ------------------------------------------------------------------- */

static weir_seed slow_epoch_seed(const weir_manifest *manifest, uint64_t epoch) {
    weir_error error;
    weir_cbor_writer w;
    uint8_t digest[32];
    weir_cbor_writer_memory(&w, NULL);
    weir_cbor_array(&w, 5);
    weir_cbor_text(&w, "nextbatch_epoch_seed_v2");
    weir_cbor_bytes(&w, weir_manifest_describe(manifest)->token, WEIR_TOKEN_SIZE);
    weir_cbor_bytes(&w, weir_manifest_describe(manifest)->hash, WEIR_HASH_SIZE);
    weir_cbor_text(&w, "a");
    weir_cbor_uint(&w, epoch);
    assert_ok(weir_cbor_finish(&w, &error), &error);
    weir__sha256_of(w.data, w.size, digest);
    weir_cbor_release(&w);
    return weir_seed_load(digest);
}

/* One position of one epoch. */
static uint64_t slow_index(const weir_manifest *manifest, uint64_t epoch, uint64_t position) {
    const weir_data_config *data = weir_manifest_describe(manifest)->data;
    uint64_t n = weir_manifest_find(manifest, "a")->cardinality;
    uint64_t block_size = data->sampler_block_size, full_blocks = n / block_size;
    weir_seed seed = slow_epoch_seed(manifest, epoch);
    weir_error error;
    if (data->rotate)
        position = (uint64_t)(((unsigned __int128)position +
                               weir__scale(weir_philox(seed, WEIR_DOMAIN_ROTATION, 0), n)) %
                              n);
    uint64_t block_id = position / block_size, index;
    if (block_id < full_blocks && data->block_order == WEIR_BLOCKS_STATELESS_V1) {
        weir_sampler__place_map map =
            weir_sampler__place_map_make(seed, WEIR_DOMAIN_BLOCKS, 0, 0, full_blocks);
        block_id = weir_sampler__place_at(&map, block_id);
    } else if (block_id < full_blocks) {
        uint64_t *order = malloc(full_blocks * sizeof *order);
        assert_non_null(order);
        assert_ok(weir_block_permute(seed, full_blocks, order, &error), &error);
        block_id = order[block_id];
        free(order);
    }
    assert_ok(weir_intra_block_map(data->intra_block, seed, block_id, block_size, n, position % block_size,
                                   &index, &error),
              &error);
    return index;
}

uint64_t slow_step(const weir_manifest *manifest, weir_stage stage, uint32_t world_size, uint32_t rank,
                   weir_cursor cursor, uint64_t *indices, weir_cursor *cursor_next) {
    const weir_data_config *data = weir_manifest_describe(manifest)->data;
    uint64_t n = weir_manifest_find(manifest, "a")->cardinality;
    uint64_t batch = weir_manifest_describe(manifest)->global_batch_size;
    bool is_train = stage == WEIR_STAGE_TRAIN;
    bool is_stream = is_train && data->epoch_boundary == WEIR_BOUNDARY_STREAM;
    uint64_t micro = batch / world_size, count = 0, limit = n;
    if (is_train && !is_stream && data->drop_last)
        limit = n / batch * batch;
    for (uint64_t i = 0; i < micro; i++) {
        uint64_t p = cursor.global_index + rank * micro + i;
        if (!is_train)
            indices[count++] = p % n;
        else if (is_stream)
            indices[count++] = slow_index(manifest, cursor.epoch + p / n, p % n);
        else if (p < limit)
            indices[count++] = slow_index(manifest, cursor.epoch, p);
    }
    *cursor_next = (weir_cursor){cursor.epoch, cursor.global_index + batch};
    if (is_stream)
        *cursor_next =
            (weir_cursor){cursor.epoch + cursor_next->global_index / n, cursor_next->global_index % n};
    else if (cursor_next->global_index >= limit)
        *cursor_next = (weir_cursor){cursor.epoch + 1, 0};
    return count;
}

/* ---- Populations ------------------------------------------------------------------------------ */

weir_population *weighted(weir_seed seed, const double *weights, uint64_t count) {
    weir_error error;
    weir_population *population = NULL;
    assert_ok(weir_sampler__population_of_weights(weir_env_default(), seed, "test", weights, count,
                                                  &population, &error),
              &error);
    return population;
}

weir_population *by_class(weir_seed seed, const uint32_t *classes, uint64_t count, uint64_t limit) {
    weir_error error;
    weir_population *population = NULL;
    assert_ok(weir_sampler__population_of_classes(weir_env_default(), seed, "test", classes, count, limit,
                                                  &population, &error),
              &error);
    return population;
}

weir_sampler *drawing(const weir_manifest *manifest, const weir_population *population, uint32_t world_size,
                      uint32_t rank) {
    weir_error error;
    weir_sampler *sampler = NULL;
    weir_sampler_options options = {.size = sizeof options,
                                    .dataset = "a",
                                    .world_size = world_size,
                                    .rank = rank,
                                    .population = population};
    assert_ok(weir_sampler_open(NULL, manifest, &options, &sampler, &error), &error);
    return sampler;
}

weir_manifest *sampling_manifest(uint64_t n, uint64_t batch, const char *data, uint64_t seed) {
    char text[512];
    snprintf(text, sizeof text,
             "{\"seed\": %llu, \"global_batch_size\": %llu, \"datasets\": {\"a\": {\"id\": \"a\", "
             "\"version\": \"1\", "
             "\"hash\": \"%064d\", \"cardinality\": %llu}}, \"data\": {%s}}",
             (unsigned long long)seed, (unsigned long long)batch, 0, (unsigned long long)n, data);
    return manifest_of_text(text);
}

uint64_t *take_run(const weir_manifest *manifest, const weir_population *population, uint64_t count) {
    weir_sampler *sampler = drawing(manifest, population, 1, 0);
    uint64_t *run = malloc((count + weir_manifest_describe(manifest)->global_batch_size) * sizeof *run);
    weir_cursor cursor = {0, 0};
    assert_non_null(run);
    for (uint64_t done = 0; done < count;) {
        weir_step step = take_step(sampler, cursor, run + done);
        done += step.count;
        cursor = step.cursor_next;
    }
    weir_sampler_close(sampler);
    return run;
}
