/* weir replay: every recorded step is made again from the manifest, written as a record, and compared with
 * the recorded one field by field: what is not compared on purpose is named here, everything else is. */
#include "trace/replay.h"

#include <stdio.h>
#include <string.h>

#include "trace/rebuild.h"

static const char operator_name[] = "weir.trace.replay";

typedef struct open_sampler {
    char *dataset;
    weir_stage stage;
    weir_sampler *sampler;
} open_sampler;

struct weir__replayer {
    const weir_env *env;
    const weir_manifest *manifest;
    const void *token;
    size_t token_size;
    uint32_t world_size;
    uint32_t rank;
    open_sampler *samplers;
    size_t sampler_count;
    size_t sampler_capacity;
    uint64_t *indices;
    size_t index_capacity;
    weir_cbor_writer body;
};

weir_status weir__replayer_open(const weir_env *env, const weir_manifest *manifest, const void *token,
                                size_t token_size, uint32_t world_size, uint32_t rank, weir__replayer **out,
                                weir_error *error) {
    weir__replayer *r = weir__allocate_zero(env, 1, sizeof *r);
    if (!r)
        return weir__out_of_memory(error, operator_name, sizeof *r);
    r->env = env;
    r->manifest = manifest;
    r->token = token;
    r->token_size = token_size;
    r->world_size = world_size;
    r->rank = rank;
    weir_cbor_writer_memory(&r->body, env);
    *out = r;
    return WEIR_OK;
}

void weir__replayer_close(weir__replayer *r) {
    if (!r)
        return;
    for (size_t i = 0; i < r->sampler_count; i++) {
        weir_sampler_close(r->samplers[i].sampler);
        weir__release(r->env, r->samplers[i].dataset);
    }
    weir__release(r->env, r->samplers);
    weir__release(r->env, r->indices);
    weir_cbor_release(&r->body);
    weir__release(r->env, r);
}

static open_sampler *find_sampler(weir__replayer *r, const weir_cbor_value *key, weir_stage stage) {
    for (size_t i = 0; i < r->sampler_count; i++)
        if (r->samplers[i].stage == stage && weir_cbor_is_text(key, r->samplers[i].dataset))
            return &r->samplers[i];
    return NULL;
}

static weir_status sampler_for(weir__replayer *r, const weir_cbor_value *iter, open_sampler **out,
                               weir_error *error) {
    weir_cbor_value key;
    weir_cbor_get(iter, "dataset_key", &key);
    weir_stage stage = weir__trace_stage(iter);
    *out = find_sampler(r, &key, stage);
    if (*out)
        return WEIR_OK;
    void *memory = r->samplers;
    open_sampler opened = {.stage = stage,
                           .dataset = weir__copy_text(r->env, (const char *)key.data, (size_t)key.number)};
    if (!opened.dataset ||
        !weir__grow(r->env, &memory, &r->sampler_capacity, r->sampler_count + 1, sizeof *r->samplers)) {
        weir__release(r->env, opened.dataset);
        return weir__out_of_memory(error, operator_name, (size_t)key.number);
    }
    r->samplers = memory;
    weir_sampler_options options = {.size = sizeof options,
                                    .dataset = opened.dataset,
                                    .stage = stage,
                                    .world_size = r->world_size,
                                    .rank = r->rank,
                                    .token = r->token,
                                    .token_size = r->token_size};
    weir_status status = weir_sampler_open(r->env, r->manifest, &options, &opened.sampler, error);
    if (status != WEIR_OK) {
        weir__release(r->env, opened.dataset);
        return status;
    }
    r->samplers[r->sampler_count] = opened;
    *out = &r->samplers[r->sampler_count++];
    return WEIR_OK;
}

weir_status weir__replayer_step(weir__replayer *r, const weir_cbor_value *iter, weir_step *step,
                                const uint64_t **indices, weir_error *error) {
    open_sampler *opened;
    weir_status status = sampler_for(r, iter, &opened, error);
    if (status == WEIR_OK)
        status = weir_sampler_step(opened->sampler, weir__trace_cursor(iter, "cursor_before"), step, error);
    if (status != WEIR_OK)
        return status;
    void *memory = r->indices;
    if (step->count > SIZE_MAX ||
        !weir__grow(r->env, &memory, &r->index_capacity, (size_t)step->count, sizeof *r->indices))
        return weir__out_of_memory(error, operator_name, (size_t)step->count);
    r->indices = memory;
    if (step->count > 0)
        weir_sampler_indices(opened->sampler, step, r->indices);
    *indices = r->indices;
    return WEIR_OK;
}

weir_status weir__divergence(weir_error *error, uint64_t t, const char *field, const char *recorded,
                             const char *replayed) {
    weir_status status = weir__fail(error, WEIR_REPLAY_DIVERGENCE, operator_name,
                                    "step %llu: %s was recorded as %.240s and is now %.240s",
                                    (unsigned long long)t, field, recorded, replayed);
    weir__note_text(error, "field", field, strlen(field));
    weir__note_text(error, "recorded", recorded, strlen(recorded));
    weir__note_text(error, "replayed", replayed, strlen(replayed));
    if (error)
        error->t = t;
    return status;
}

/* Writes the record that this version would have written, with indices where the recorded one has them. */
static weir_status write_expected(weir__replayer *r, const weir_cbor_value *iter, const weir_step *step,
                                  const uint64_t *indices, weir_error *error) {
    weir_cbor_value key, recorded;
    open_sampler *opened;
    weir_cbor_get(iter, "dataset_key", &key);
    weir_status status = sampler_for(r, iter, &opened, error);
    if (status != WEIR_OK)
        return status;
    weir_trace_iter expected = {
        .t = weir__trace_uint(iter, "t"),
        .dataset = opened->dataset,
        .step = step,
        .indices = weir_cbor_get(iter, "indices", &recorded) ? indices : NULL,
    };
    r->body.size = 0;
    weir_cbor_restart(&r->body);
    weir__trace_write_iter(&r->body, &expected);
    return weir_cbor_finish(&r->body, error);
}

weir_status weir__replayer_check(weir__replayer *r, const weir_cbor_value *iter, weir_step *step,
                                 const uint64_t **indices, weir_error *error) {
    static const char *const digests[] = {"batch_digest", "sample_digests", NULL};
    static const uint64_t no_indices[1];
    weir__field_difference difference;
    weir_status status = weir__replayer_step(r, iter, step, indices, error);
    if (status == WEIR_OK)
        status = write_expected(r, iter, step, *indices ? *indices : no_indices, error);
    if (status != WEIR_OK)
        return status;
    weir_cbor_value expected = weir_cbor_view(r->body.data);
    if (weir__trace_compare(r->env, iter, &expected, digests, &difference))
        return weir__divergence(error, weir__trace_uint(iter, "t"), difference.field, difference.left,
                                difference.right);
    return WEIR_OK;
}

/* ---- A whole trace --------------------------------------------------------------------------- */

/* Where the next step must begin: from the mix, or from where the one before ended (of a best-effort run
 * that is not known). */
typedef struct follower {
    weir_mix *mix;
    bool is_best_effort;
    bool has_previous;
    weir_cursor next; /* of a cursor schedule */
} follower;

enum { PLACE_CAPACITY = 96 };

static void describe_cursor(weir_cursor cursor, char out[PLACE_CAPACITY]) {
    snprintf(out, PLACE_CAPACITY, "epoch %llu, global_index %llu", (unsigned long long)cursor.epoch,
             (unsigned long long)cursor.global_index);
}

/* The dataset and cursor that the mix gives step t. */
static weir_status check_dataset(follower *f, const weir_cbor_value *iter, uint64_t t, weir_cursor *expected,
                                 weir_error *error) {
    const weir_dataset *dataset;
    weir_cbor_value key;
    char recorded[PLACE_CAPACITY];
    weir_status status = weir_mix_locate(f->mix, t, &dataset, expected, error);
    if (status != WEIR_OK)
        return status;
    weir_cbor_get(iter, "dataset_key", &key);
    if (weir_cbor_is_text(&key, dataset->key))
        return WEIR_OK;
    int shown = key.number < PLACE_CAPACITY ? (int)key.number : PLACE_CAPACITY - 1;
    snprintf(recorded, sizeof recorded, "%.*s", shown, (const char *)key.data);
    return weir__divergence(error, t, "dataset_key", recorded, dataset->key);
}

static weir_status check_place(follower *f, const weir_cbor_value *iter, weir_error *error) {
    uint64_t t = weir__trace_uint(iter, "t");
    weir_cursor recorded = weir__trace_cursor(iter, "cursor_before");
    weir_cursor expected = f->has_previous && !f->is_best_effort ? f->next : recorded;
    if (f->mix) {
        weir_status status = check_dataset(f, iter, t, &expected, error);
        if (status != WEIR_OK)
            return status;
    }
    if (recorded.epoch != expected.epoch || recorded.global_index != expected.global_index) {
        char was[PLACE_CAPACITY], is[PLACE_CAPACITY];
        describe_cursor(recorded, was);
        describe_cursor(expected, is);
        return weir__divergence(error, t, "cursor_before", was, is);
    }
    f->next = weir__trace_cursor(iter, "cursor_after");
    f->has_previous = true;
    return WEIR_OK;
}

/* Digests are compared where a store is there to build the batch again from, and counted. */
static weir_status check_digests(weir__rebuilder *rebuilder, const weir_cbor_value *iter,
                                 weir_replay_report *report, weir_error *error) {
    weir_cbor_value digest;
    bool is_checked = false;
    bool has_digest = weir_cbor_get(iter, "batch_digest", &digest);
    if (!has_digest && !weir_cbor_get(iter, "sample_digests", &digest))
        return WEIR_OK;
    weir_status status = rebuilder ? weir__rebuilder_check(rebuilder, iter, &is_checked, error) : WEIR_OK;
    report->checked_digests += has_digest && is_checked;
    report->unchecked_digests += has_digest && !is_checked;
    return status;
}

static weir_status replay_records(weir_trace_reader *reader, weir__replayer *replayer,
                                  weir__rebuilder *rebuilder, follower *f, weir_replay_report *report,
                                  weir_error *error) {
    for (;;) {
        weir_trace_record record;
        weir_step step;
        const uint64_t *indices;
        weir_status status = weir_trace_next(reader, &record, error);
        if (status != WEIR_OK || record.kind == WEIR_TRACE_EOF)
            return status;
        report->is_complete = record.kind == WEIR_TRACE_END;
        if (record.kind != WEIR_TRACE_ITER)
            continue;
        status = check_place(f, &record.map, error);
        if (status == WEIR_OK)
            status = weir__replayer_check(replayer, &record.map, &step, &indices, error);
        if (status == WEIR_OK)
            status = check_digests(rebuilder, &record.map, report, error);
        if (status != WEIR_OK)
            return status;
        report->steps++;
        report->samples += step.effective_batch_size;
    }
}

/* The batch config matters where batches are built again. */
static weir_status check_given_manifest(const weir_trace_reader *reader, const weir_replay_options *options,
                                        weir_error *error) {
    const weir_cbor_value *header = weir_trace_header(reader);
    const weir_manifest *manifest = options->manifest;
    weir_cbor_value hash;
    weir_cbor_get(header, "manifest_hash", &hash);
    if (memcmp(hash.data, weir_manifest_hash(manifest), WEIR_HASH_SIZE) != 0)
        return weir__fail(
            error, WEIR_CHECKPOINT_MISMATCH, operator_name,
            "the trace was recorded with another manifest than the one given; its manifest_hash differs");
    weir_cbor_get(header, "mix_hash", &hash);
    if (memcmp(hash.data, weir_manifest_mix_hash(manifest), WEIR_HASH_SIZE) != 0)
        return weir__fail(
            error, WEIR_CHECKPOINT_MISMATCH, operator_name,
            "the trace was recorded with another mix than the manifest's; its mix_hash differs");
    weir_cbor_get(header, "batch_config_hash", &hash);
    if (options->store_count > 0 &&
        memcmp(hash.data, weir_manifest_batch_config_hash(manifest), WEIR_HASH_SIZE) != 0)
        return weir__fail(error, WEIR_CHECKPOINT_MISMATCH, operator_name,
                          "the trace was recorded with another batch config than the manifest's; its "
                          "batch_config_hash differs");
    return WEIR_OK;
}

static weir_status replay_with(const weir_env *env, weir_trace_reader *reader, const weir_manifest *manifest,
                               const weir_replay_options *options, weir_replay_report *report,
                               weir_error *error) {
    const weir_cbor_value *header = weir_trace_header(reader);
    weir_cbor_value token, schedule;
    weir__replayer *replayer = NULL;
    weir__rebuilder *rebuilder = NULL;
    follower f = {.is_best_effort = weir__trace_is_best_effort(header)};
    weir_cbor_get(header, "replay_token", &token);
    weir_cbor_get(header, "schedule", &schedule);
    weir_status status = WEIR_OK;
    if (weir_cbor_is_text(&schedule, "mix"))
        status = weir_mix_open(env, manifest, token.data, (size_t)token.number, &f.mix, error);
    if (status == WEIR_OK)
        status = weir__replayer_open(env, manifest, token.data, (size_t)token.number,
                                     (uint32_t)weir__trace_uint(header, "world_size"),
                                     (uint32_t)weir__trace_uint(header, "rank"), &replayer, error);
    if (status == WEIR_OK && options->store_count > 0)
        status = weir__rebuilder_open(env, manifest, header, options->stores, options->store_count,
                                      &rebuilder, error);
    if (status == WEIR_OK)
        status = replay_records(reader, replayer, rebuilder, &f, report, error);
    weir__rebuilder_close(rebuilder);
    weir__replayer_close(replayer);
    weir_mix_close(f.mix);
    return status;
}

weir_status weir_trace_replay(const weir_env *env, const char *path, const weir_replay_options *options,
                              weir_replay_report *report, weir_error *error) {
    static const weir_replay_options no_options;
    env = weir__env(env);
    options = options ? options : &no_options;
    weir_trace_reader *reader = NULL;
    weir_manifest *recorded = NULL;
    *report = (weir_replay_report){0};
    weir_status status = weir_trace_open(env, path, &reader, error);
    if (status == WEIR_OK)
        status = options->manifest ? check_given_manifest(reader, options, error)
                                   : weir_trace_manifest(reader, &recorded, error);
    if (status == WEIR_OK)
        status = replay_with(env, reader, options->manifest ? options->manifest : recorded, options, report,
                             error);
    weir_manifest_close(recorded);
    weir_trace_close(reader);
    return status;
}
