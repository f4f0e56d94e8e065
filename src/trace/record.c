/* See record.h. Keys are written in canonical order: by length, then bytewise. */
#include "trace/record.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "sampler/manifest.h"
#include "sampler/sampler.h"
#include "weir_tool/sampler_tools.h"

/* ---- The chain ------------------------------------------------------------------------------- */

void weir_trace__link(const uint8_t *previous, const void *body, size_t size, uint8_t link[WEIR_HASH_SIZE]) {
    weir__sha256 sha;
    weir_cbor_writer w;
    weir__sha256_init(&sha);
    weir__cbor_writer_hash(&w, &sha);
    weir_cbor_array(&w, 2);
    if (previous)
        weir_cbor_bytes(&w, previous, WEIR_HASH_SIZE);
    else
        weir_cbor_text(&w, WEIR_TRACE_VERSION);
    weir_cbor_raw(&w, body, size);
    weir__sha256_final(&sha, link);
}

/* The map's pairs are copied as they are: `w` sees a whole value made of a head and raw items. */
static void write_pairs(weir_cbor_writer *w, const weir_cbor_value *map, const uint8_t *end) {
    weir_cbor_iterator it = weir_cbor_children(map);
    weir_cbor_value key, value;
    while (weir_cbor_next(&it, &key, &value)) {
        if (weir_cbor_is_text(&key, "h"))
            continue;
        const uint8_t *after = it.remaining ? it.next : end;
        weir_cbor_text_n(w, (const char *)key.data, (size_t)key.number);
        weir_cbor_raw(w, value.item, (size_t)(after - value.item));
    }
}

void weir_trace__seal(weir_cbor_writer *w, const void *body, size_t size,
                      const uint8_t link[WEIR_HASH_SIZE]) {
    weir_cbor_value map = weir_cbor_view(body);
    assert(map.type == WEIR_CBOR_MAP && "a body that is not a map");
    weir_cbor_map(w, map.number + 1);
    weir_cbor_pair_bytes(w, "h", link, WEIR_HASH_SIZE);
    write_pairs(w, &map, (const uint8_t *)body + size);
}

bool weir_trace__unseal(const weir_env *env, const weir_cbor_value *record, size_t record_size,
                        uint8_t **body, size_t *size) {
    weir_cbor_writer w;
    assert(record->type == WEIR_CBOR_MAP && record->number > 0 && "a record without a link");
    weir_cbor_writer_memory(&w, env);
    weir_cbor_map(&w, record->number - 1);
    write_pairs(&w, record, record->item + record_size);
    if (weir_cbor_finish(&w, NULL) != WEIR_OK) {
        weir_cbor_release(&w);
        return false;
    }
    *body = w.data;
    *size = w.size;
    return true;
}

/* ---- Bodies ---------------------------------------------------------------------------------- */

void weir_trace__write_header(weir_cbor_writer *w, const weir_trace_run *run) {
    static const char *const schedules[] = {"cursor", "mix"};
    const weir_manifest *manifest = run->manifest;
    const weir_manifest_info *info = weir_manifest_describe(manifest);
    const char *operator_name = weir_manifest_operator(manifest, run->stage);
    bool is_v3 = strcmp(operator_name, WEIR_SAMPLER__NEXT_BATCH) != 0;
    weir_cbor_map(w, 17u + run->is_best_effort + (run->build != NULL) + is_v3);
    weir_cbor_text(w, "mix");
    weir_manifest_write_mix(manifest, w);
    weir_cbor_pair_uint(w, "rank", run->rank);
    weir_cbor_pair_text(w, "type", "run_header");
    weir_cbor_text(w, "batch");
    weir_manifest_write_batch(manifest, w);
    if (run->build) {
        weir_cbor_text(w, "build");
        weir_cbor_map(w, run->build_count);
        for (size_t i = 0; i < run->build_count; i++) {
            weir_cbor_text(w, run->build[i].name);
            weir_cbor_text(w, run->build[i].version);
        }
    }
    if (run->is_best_effort)
        weir_cbor_pair_text(w, "policy", "best_effort");
    weir_cbor_text(w, "datasets");
    weir_cbor_map(w, manifest->dataset_count);
    for (size_t i = 0; i < manifest->dataset_count; i++) {
        const weir_dataset *dataset = &manifest->datasets[manifest->key_order[i]];
        weir_cbor_text(w, dataset->key);
        weir_cbor_uint(w, dataset->cardinality);
    }
    weir_cbor_text(w, "manifest");
    weir_cbor_raw(w, info->normalised, info->normalised_size);
    weir_cbor_pair_bytes(w, "mix_hash", info->mix_hash, WEIR_HASH_SIZE);
    if (is_v3)
        weir_cbor_pair_text(w, "operator", operator_name);
    weir_cbor_pair_text(w, "schedule", schedules[run->schedule]);
    weir_cbor_pair_uint(w, "world_size", run->world_size);
    weir_cbor_pair_bytes(w, "replay_token", run->token ? run->token : info->token,
                         run->token ? run->token_size : WEIR_TOKEN_SIZE);
    weir_cbor_text(w, "store_hashes");
    weir_cbor_array(w, run->store_count);
    for (size_t i = 0; i < run->store_count; i++)
        weir_cbor_bytes(w, run->store_hashes[i], WEIR_HASH_SIZE);
    weir_cbor_pair_text(w, "weir_version", weir_version());
    weir_cbor_pair_bytes(w, "manifest_hash", info->hash, WEIR_HASH_SIZE);
    weir_cbor_pair_text(w, "trace_version", WEIR_TRACE_VERSION);
    weir_cbor_pair_bytes(w, "batch_config_hash", info->batch_config_hash, WEIR_HASH_SIZE);
    weir_cbor_pair_uint(w, "sampler_block_size", info->data->sampler_block_size);
    weir_cbor_text(w, "is_shuffled_per_stage");
    weir_cbor_map(w, 3);
    weir_cbor_pair_bool(w, "eval", false);
    weir_cbor_pair_bool(w, "infer", false);
    weir_cbor_pair_bool(w, "train", true);
}

static const weir__field cursor_fields[] = {
    {"epoch", WEIR__UINT(weir_cursor, epoch, 0, UINT64_MAX), .flags = WEIR__REQUIRED},
    {"global_index", WEIR__UINT(weir_cursor, global_index, 0, UINT64_MAX), .flags = WEIR__REQUIRED},
};
const weir__shape weir_trace__cursor_shape = WEIR__SHAPE(weir_cursor, cursor_fields);

void weir_trace__write_iter(weir_cbor_writer *w, const weir_trace_iter *iter) {
    const weir_step *step = iter->step;
    weir_cbor_map(w, 18u + (iter->indices != NULL) + (iter->batch_digest != NULL) +
                         (iter->sample_digests != NULL));
    weir_cbor_pair_uint(w, "t", iter->t);
    weir_cbor_pair_text(w, "type", "iter");
    weir_cbor_pair_uint(w, "epoch", step->cursor_before.epoch);
    if (iter->indices) {
        weir_cbor_text(w, "indices");
        weir_cbor_array(w, step->count);
        for (uint64_t i = 0; i < step->count; i++)
            weir_cbor_uint(w, iter->indices[i]);
    }
    weir_cbor_pair_text(w, "dataset_key", iter->dataset);
    weir_cbor_text(w, "effective_q");
    weir_cbor_double(w, step->effective_q);
    weir_cbor_pair_bool(w, "is_shuffled", step->is_shuffled);
    weir_cbor_pair_uint(w, "valid_count", step->valid_count);
    if (iter->batch_digest)
        weir_cbor_pair_bytes(w, "batch_digest", iter->batch_digest, 16);
    weir_cbor_text(w, "cursor_after");
    weir__write(w, &weir_trace__cursor_shape, &step->cursor_next);
    weir_cbor_text(w, "cursor_before");
    weir__write(w, &weir_trace__cursor_shape, &step->cursor_before);
    weir_cbor_pair_bytes(w, "data_replay_t", step->data_replay_t, WEIR_HASH_SIZE);
    weir_cbor_pair_text(w, "sampling_mode", step->sampling_mode);
    if (iter->sample_digests) {
        weir_cbor_text(w, "sample_digests");
        weir_cbor_array(w, step->valid_count);
        for (uint64_t i = 0; i < step->valid_count; i++) {
            uint8_t digest[8]; /* XXH3-64 in its canonical, big-endian form */
            weir__store64be(digest, iter->sample_digests[i]);
            weir_cbor_bytes(w, digest, sizeof digest);
        }
    }
    weir_cbor_pair_bytes(w, "epoch_seed_hash", step->epoch_seed_hash, WEIR_HASH_SIZE);
    weir_cbor_pair_uint(w, "global_position", step->cursor_before.global_index);
    weir_cbor_pair_uint(w, "micro_batch_size", step->micro_batch_size);
    weir_cbor_pair_text(w, "subsampling_mode", step->subsampling_mode);
    weir_cbor_pair_uint(w, "global_batch_size", step->global_batch_size);
    weir_cbor_pair_bytes(w, "sampler_config_hash", step->sampler_config_hash, WEIR_HASH_SIZE);
    weir_cbor_pair_uint(w, "effective_batch_size", step->effective_batch_size);
}

void weir_trace__write_resume(weir_cbor_writer *w, const weir_trace_start *start) {
    weir_cbor_map(w, 2u + (start->checkpoint_hash != NULL));
    weir_cbor_pair_uint(w, "step", start->step);
    weir_cbor_pair_text(w, "type", "resume");
    if (start->checkpoint_hash)
        weir_cbor_pair_bytes(w, "checkpoint_hash", start->checkpoint_hash, WEIR_HASH_SIZE);
}

void weir_trace__write_memory(weir_cbor_writer *w, const weir_trace_memory *memory) {
    weir_cbor_map(w, 5u + (memory->contents != NULL));
    weir_cbor_pair_uint(w, "t", memory->t);
    weir_cbor_pair_text(w, "type", "memory");
    weir_cbor_text(w, "state");
    weir_cbor_raw(w, memory->state, memory->state_size);
    if (memory->contents)
        weir_cbor_pair_bytes(w, "contents", memory->contents, WEIR_TRACE__CONTENTS_SIZE);
    weir_cbor_pair_bytes(w, "state_hash", memory->state_hash, WEIR_HASH_SIZE);
    weir_cbor_pair_bytes(w, "visibility_hash", memory->visibility_hash, WEIR_HASH_SIZE);
}

/* The diagnostics are taken from the error's own CBOR form. */
static void write_diagnostics(weir_cbor_writer *w, const weir_error *error) {
    uint8_t buffer[8192];
    weir_cbor_writer whole;
    weir_cbor_writer_fixed(&whole, buffer, sizeof buffer);
    weir_error_cbor(error, &whole);
    if (weir_cbor_finish(&whole, NULL) != WEIR_OK) {
        weir_cbor_map(w, 0);
        return;
    }
    weir_cbor_value record = weir_cbor_view(buffer);
    weir_cbor_value diagnostics = weir_trace__get(&record, "diagnostics");
    weir_cbor_raw(w, diagnostics.item, weir_cbor_size(&diagnostics));
}

void weir_trace__write_failure(weir_cbor_writer *w, const weir_trace_failure *failure, const void *token,
                               size_t token_size) {
    const weir_error *error = failure->error;
    weir_cbor_map(w, 10);
    weir_cbor_pair_uint(w, "t", failure->t);
    weir_cbor_pair_text(w, "type", "failure");
    weir_cbor_pair_text(w, "message", error->message);
    weir_cbor_text(w, "dataset_key");
    if (failure->dataset)
        weir_cbor_text(w, failure->dataset);
    else
        weir_cbor_null(w);
    weir_cbor_text(w, "diagnostics");
    write_diagnostics(w, error);
    weir_cbor_pair_text(w, "failure_code", weir_status_name(error->status));
    weir_cbor_pair_bytes(w, "replay_token", token, token_size);
    weir_cbor_text(w, "cursor_before");
    if (failure->cursor)
        weir__write(w, &weir_trace__cursor_shape, failure->cursor);
    else
        weir_cbor_null(w);
    weir_cbor_text(w, "data_replay_t");
    if (failure->data_replay_t)
        weir_cbor_bytes(w, failure->data_replay_t, WEIR_HASH_SIZE);
    else
        weir_cbor_null(w);
    weir_cbor_pair_text(w, "failure_operator", error->failure_operator ? error->failure_operator : "");
}

/* ---- Members --------------------------------------------------------------------------------- */

const char *weir_run_status_name(weir_run_status status) {
    static const char *const names[] = {"cut", "success", "failed"};
    return (unsigned)status < 3 ? names[status] : "unknown";
}

weir_cbor_value weir_trace__map(const weir_trace_record *record) {
    return record->data ? weir_cbor_view(record->data) : (weir_cbor_value){.type = WEIR_CBOR_MAP};
}

weir_cbor_value weir_trace__get(const weir_cbor_value *map, const char *key) {
    weir_cbor_value value;
    bool is_there = weir_cbor_get(map, key, &value);
    assert(is_there && "a record without a field that was checked");
    return value;
}

bool weir_trace__has(const weir_cbor_value *map, const char *key, weir_cbor_type type) {
    weir_cbor_value value;
    return weir_cbor_get(map, key, &value) && value.type == type;
}

bool weir_trace__digests(const weir_trace_record *record, weir_cbor_value *out) {
    weir_cbor_value map = weir_trace__map(record);
    return weir_cbor_get(&map, "sample_digests", out) && out->type == WEIR_CBOR_ARRAY;
}

uint64_t weir_trace__uint(const weir_cbor_value *map, const char *key) {
    weir_cbor_value value;
    return weir_cbor_get(map, key, &value) && value.type == WEIR_CBOR_UINT ? value.number : 0;
}
