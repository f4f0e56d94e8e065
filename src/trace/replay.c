/* weir replay: every recorded step is made again from the manifest, written as a record, and compared with
 * the recorded one field by field: what is not compared on purpose is named here, everything else is. */
#include "trace/replay.h"
#include "base/options.h"

#include <stdio.h>
#include <string.h>

#include "trace/rebuild.h"
#include "weir_tool/sampler_tools.h"

static const char operator_name[] = "weir.trace.replay";

typedef struct open_sampler {
    char *dataset;
    weir_stage stage;
    weir_sampler *sampler;
    weir_population *population; /* or NULL */
} open_sampler;

struct weir_trace__replayer {
    const weir_env *env;
    const weir_manifest *manifest;
    const weir_trace_info *header;
    weir_trace__replay_stores stores;
    uint32_t world_size;
    uint32_t rank;
    open_sampler *samplers;
    size_t sampler_count;
    size_t sampler_capacity;
    uint64_t *indices;
    size_t index_capacity;
    weir_cbor_writer body;
};

static weir_status check_store(const weir_trace_info *header, const weir_store *store, weir_error *error) {
    const weir_store_info *info = weir_store_describe(store);
    char hex[2 * WEIR_HASH_SIZE + 1];
    for (size_t i = 0; i < header->store_count; i++)
        if (memcmp(header->store_hashes[i], info->store_hash, WEIR_HASH_SIZE) == 0)
            return WEIR_OK;
    weir__hex_encode(info->store_hash, WEIR_HASH_SIZE, hex);
    return weir__fail(error, WEIR_CHECKPOINT_MISMATCH, operator_name,
                      "the store '%s' (hash %s) is not one of those that the trace was recorded with",
                      info->name, hex);
}

weir_status weir_trace__replay_check_stores(const weir_trace_info *header, weir_trace__replay_stores stores,
                                            weir_error *error) {
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < stores.count && status == WEIR_OK; i++)
        status = check_store(header, stores.list[i], error);
    return status;
}

weir_status weir_trace__replayer_open(const weir_env *env, const weir_manifest *manifest,
                                      const weir_trace_info *header, weir_trace__replay_stores stores,
                                      uint32_t world_size, uint32_t rank, weir_trace__replayer **out,
                                      weir_error *error) {
    weir_trace__replayer *r = weir__allocate_zero(env, 1, sizeof *r);
    if (!r)
        return weir__out_of_memory(error, operator_name, sizeof *r);
    r->env = env;
    r->manifest = manifest;
    r->header = header;
    r->stores = stores;
    r->world_size = world_size;
    r->rank = rank;
    weir_cbor_writer_memory(&r->body, env);
    *out = r;
    return WEIR_OK;
}

static void close_sampler(const weir_env *env, open_sampler *opened) {
    weir_sampler_close(opened->sampler);
    weir_population_close(opened->population);
    weir__release(env, opened->dataset);
}

void weir_trace__replayer_close(weir_trace__replayer *r) {
    if (!r)
        return;
    for (size_t i = 0; i < r->sampler_count; i++)
        close_sampler(r->env, &r->samplers[i]);
    weir__release(r->env, r->samplers);
    weir__release(r->env, r->indices);
    weir_cbor_release(&r->body);
    weir__release(r->env, r);
}

/* From the first store that has the dataset; without one the sampler says what is missing. */
static weir_status open_population(weir_trace__replayer *r, open_sampler *opened, weir_error *error) {
    weir_stored_dataset stored;
    for (size_t i = 0; opened->stage == WEIR_STAGE_TRAIN && i < r->stores.count; i++)
        if (weir_store_dataset(r->stores.list[i], opened->dataset, &stored, NULL) == WEIR_OK)
            return weir_population_open(r->env, r->manifest, r->stores.list[i], opened->dataset,
                                        r->header->token, r->header->token_size, &opened->population, error);
    return WEIR_OK;
}

/* The sampler of a dataset, opened when it is first met. Eval and infer take the same samples, so one stage
 * stands for both. */
static weir_status find_sampler(weir_trace__replayer *r, weir_text key, weir_stage stage, open_sampler **out,
                                weir_error *error) {
    for (size_t i = 0; i < r->sampler_count; i++)
        if (r->samplers[i].stage == stage && strlen(r->samplers[i].dataset) == key.size &&
            memcmp(r->samplers[i].dataset, key.data, key.size) == 0) {
            *out = &r->samplers[i];
            return WEIR_OK;
        }
    void *memory = r->samplers;
    open_sampler opened = {.stage = stage, .dataset = weir__copy_text(r->env, key.data, key.size)};
    weir_status status = WEIR_OK;
    if (!opened.dataset ||
        !weir__grow(r->env, &memory, &r->sampler_capacity, r->sampler_count + 1, sizeof *r->samplers))
        status = weir__out_of_memory(error, operator_name, key.size);
    r->samplers = memory;
    if (status == WEIR_OK)
        status = open_population(r, &opened, error);
    weir_sampler_options options = {.size = sizeof options,
                                    .dataset = opened.dataset,
                                    .stage = stage,
                                    .world_size = r->world_size,
                                    .rank = r->rank,
                                    .token = r->header->token,
                                    .token_size = r->header->token_size,
                                    .population = opened.population};
    if (status == WEIR_OK)
        status = weir_sampler_open(r->env, r->manifest, &options, &opened.sampler, error);
    if (status != WEIR_OK) {
        close_sampler(r->env, &opened);
        return status;
    }
    r->samplers[r->sampler_count] = opened;
    *out = &r->samplers[r->sampler_count++];
    return WEIR_OK;
}

weir_status weir_trace__replayer_step(weir_trace__replayer *r, const weir_trace_record *iter, weir_step *step,
                                      const uint64_t **indices, weir_error *error) {
    open_sampler *opened;
    WEIR__TRY(find_sampler(r, iter->dataset, iter->stage, &opened, error));
    WEIR__TRY(weir_sampler_step(opened->sampler, iter->cursor_before, step, error));
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

weir_status weir_trace__divergence(weir_error *error, const weir_trace_info *header,
                                   const weir_trace_record *record, uint64_t t, const char *field,
                                   const char *recorded, const char *replayed) {
    weir_status status = weir__fail(error, WEIR_REPLAY_DIVERGENCE, operator_name,
                                    "step %llu: %s was recorded as %.240s and is now %.240s",
                                    (unsigned long long)t, field, recorded, replayed);
    weir__note_text(error, "field", field, strlen(field));
    weir__note_text(error, "recorded", recorded, strlen(recorded));
    weir__note_text(error, "replayed", replayed, strlen(replayed));
    if (!error)
        return status;
    error->t = t;
    error->rank = header->rank;
    if (record && record->data_replay_t) {
        error->replay_token_size = WEIR_HASH_SIZE;
        memcpy(error->replay_token, record->data_replay_t, WEIR_HASH_SIZE);
    }
    return status;
}

static bool is_code(const weir_trace_record *failure, weir_status status) {
    const char *name = weir_status_name(status);
    return failure->failure_code.size == strlen(name) &&
           memcmp(failure->failure_code.data, name, failure->failure_code.size) == 0;
}

weir_status weir_trace__replayer_check_failure(weir_trace__replayer *r, const weir_trace_record *failure,
                                               const weir_trace__place_of_step *place, weir_error *error) {
    open_sampler *opened;
    weir_step step;
    char was[64];
    bool is_of_cursor =
        is_code(failure, WEIR_GLOBAL_POSITION_EXCEEDS_CARDINALITY) || is_code(failure, WEIR_COUNTER_OVERFLOW);
    if (!is_of_cursor || !place->is_known)
        return WEIR_OK;
    weir_status found = place->status;
    if (found == WEIR_OK) {
        WEIR__TRY(find_sampler(r, (weir_text){place->dataset, strlen(place->dataset)}, place->stage, &opened,
                               error));
        found = weir_sampler_step(opened->sampler, place->cursor, &step, NULL);
    }
    if (is_code(failure, found))
        return WEIR_OK;
    snprintf(was, sizeof was, "%.*s",
             failure->failure_code.size < sizeof was ? (int)failure->failure_code.size : 63,
             failure->failure_code.data);
    return weir_trace__divergence(error, r->header, failure, failure->t, "failure_code", was,
                                  found == WEIR_OK ? "a step that does not fail" : weir_status_name(found));
}

/* Writes the record that this version would have written, with indices where the recorded one has them. */
static weir_status write_expected(weir_trace__replayer *r, const weir_trace_record *iter,
                                  const weir_step *step, const uint64_t *indices, weir_error *error) {
    weir_cbor_value map = weir_trace__map(iter), recorded;
    open_sampler *opened;
    WEIR__TRY(find_sampler(r, iter->dataset, iter->stage, &opened, error));
    weir_trace_iter expected = {
        .t = iter->t,
        .dataset = opened->dataset,
        .step = step,
        .indices = weir_cbor_get(&map, "indices", &recorded) ? indices : NULL,
    };
    r->body.size = 0;
    weir_cbor_restart(&r->body);
    weir_trace__write_iter(&r->body, &expected);
    return weir_cbor_finish(&r->body, error);
}

weir_status weir_trace__replayer_check(weir_trace__replayer *r, const weir_trace_record *iter,
                                       weir_step *step, const uint64_t **indices, weir_error *error) {
    static const char *const digests[] = {"h", "batch_digest", "sample_digests", NULL};
    static const uint64_t no_indices[1];
    weir__difference difference;
    WEIR__TRY(weir_trace__replayer_step(r, iter, step, indices, error));
    WEIR__TRY(write_expected(r, iter, step, *indices ? *indices : no_indices, error));
    weir_cbor_value map = weir_trace__map(iter), expected = weir_cbor_view(r->body.data);
    if (weir__compare(r->env, &map, &expected, digests, &difference))
        return weir_trace__divergence(error, r->header, iter, iter->t, difference.field, difference.left,
                                      difference.right);
    return WEIR_OK;
}

/* ---- A whole trace --------------------------------------------------------------------------- */

/* What a trace is replayed with. */
typedef struct replay {
    weir_trace_reader *reader;
    weir_trace__replayer *replayer;
    weir_trace__rebuilder *rebuilder; /* NULL: no store is given */
    weir_trace__judge judge;
    weir_replay_report *report;
} replay;

/* Digests are compared if a store is there to build the batch again from, and counted either way. */
static weir_status check_digests(replay *p, const weir_trace_record *iter, weir_error *error) {
    weir_cbor_value map = weir_trace__map(iter), batch, samples;
    weir_replay_report *report = p->report;
    bool is_checked = false;
    bool has_batch = weir_cbor_get(&map, "batch_digest", &batch);
    bool has_samples = weir_cbor_get(&map, "sample_digests", &samples) && samples.type == WEIR_CBOR_ARRAY;
    if (!has_batch && !has_samples)
        return WEIR_OK;
    weir_status status =
        p->rebuilder ? weir_trace__rebuilder_check(p->rebuilder, iter, &is_checked, error) : WEIR_OK;
    uint64_t sample_count = has_samples ? samples.number : 0;
    report->checked_digests += has_batch && is_checked;
    report->unchecked_digests += has_batch && !is_checked;
    report->checked_sample_digests += is_checked ? sample_count : 0;
    report->unchecked_sample_digests += is_checked ? 0 : sample_count;
    return status;
}

static weir_status replay_records(replay *p, weir_error *error) {
    for (;;) {
        weir_trace_record record;
        weir_trace__place_of_step place = {0};
        WEIR__TRY(weir_trace_next(p->reader, &record, error));
        if (record.kind == WEIR_TRACE_EOF)
            return WEIR_OK;
        if (record.kind == WEIR_TRACE_FAILURE)
            place = weir_trace__judge_locate(&p->judge, record.t);
        WEIR__TRY(weir_trace__judge_take(&p->judge, &record, error));
        p->report->memory_records += record.kind == WEIR_TRACE_MEMORY;
        if (record.kind == WEIR_TRACE_FAILURE)
            WEIR__TRY(weir_trace__replayer_check_failure(p->replayer, &record, &place, error));
        if (record.kind != WEIR_TRACE_ITER)
            continue;
        weir_step step;
        const uint64_t *indices;
        WEIR__TRY(weir_trace__replayer_check(p->replayer, &record, &step, &indices, error));
        WEIR__TRY(check_digests(p, &record, error));
        p->report->steps++;
        p->report->samples += step.effective_batch_size;
        p->report->indices += record.index_count;
    }
}

/* The batch config matters where batches are built again. */
static weir_status check_given_manifest(const weir_trace_reader *reader, const weir_replay_options *options,
                                        weir_error *error) {
    const weir_trace_info *header = weir_trace_describe(reader);
    const weir_manifest_info *manifest = weir_manifest_describe(options->manifest);
    if (memcmp(header->manifest_hash, manifest->hash, WEIR_HASH_SIZE) != 0)
        return weir__fail(
            error, WEIR_CHECKPOINT_MISMATCH, operator_name,
            "the trace was recorded with another manifest than the one given; its manifest_hash differs");
    if (memcmp(header->mix_hash, manifest->mix_hash, WEIR_HASH_SIZE) != 0)
        return weir__fail(
            error, WEIR_CHECKPOINT_MISMATCH, operator_name,
            "the trace was recorded with another mix than the manifest's; its mix_hash differs");
    if (options->store_count > 0 &&
        memcmp(header->batch_config_hash, manifest->batch_config_hash, WEIR_HASH_SIZE) != 0)
        return weir__fail(error, WEIR_CHECKPOINT_MISMATCH, operator_name,
                          "the trace was recorded with another batch config than the manifest's; its "
                          "batch_config_hash differs");
    return WEIR_OK;
}

/* The header names the operator that the manifest's stage runs; only a step says which stage that is. */
static weir_status check_operator(const weir_trace_reader *reader, const weir_manifest *manifest,
                                  weir_error *error) {
    weir_cbor_value named;
    const char *expected = weir_manifest_operator(manifest, WEIR_STAGE_TRAIN);
    if (!weir_cbor_get(weir_trace__header(reader), "operator", &named) || weir_cbor_is_text(&named, expected))
        return WEIR_OK;
    return weir_trace__divergence(error, weir_trace_describe(reader), NULL, 0, "operator", "another operator",
                                  expected);
}

static weir_status replay_with(const weir_env *env, replay *p, const weir_manifest *manifest,
                               const weir_replay_options *options, weir_error *error) {
    const weir_trace_info *header = weir_trace_describe(p->reader);
    weir_trace__replay_stores stores = {options->stores, options->store_count};
    weir_status status = check_operator(p->reader, manifest, error);
    if (status == WEIR_OK)
        status = weir_trace__judge_open(&p->judge, env, header, manifest, error);
    if (status == WEIR_OK)
        status = weir_trace__replayer_open(env, manifest, header, stores, header->world_size, header->rank,
                                           &p->replayer, error);
    if (status == WEIR_OK && options->store_count > 0)
        status = weir_trace__rebuilder_open(env, manifest, header, options->stores, options->store_count,
                                            &p->rebuilder, error);
    if (status == WEIR_OK)
        status = replay_records(p, error);
    p->report->status = p->judge.status;
    p->report->is_complete = p->judge.status != WEIR_RUN_CUT;
    p->report->failed_step = p->judge.failed_step;
    memcpy(p->report->failure_code, p->judge.failure_code, sizeof p->report->failure_code);
    weir_trace__rebuilder_close(p->rebuilder);
    weir_trace__replayer_close(p->replayer);
    weir_trace__judge_close(&p->judge);
    return status;
}

weir_status weir_trace_replay(const weir_env *env, const char *path, const weir_replay_options *given,
                              weir_replay_report *report, weir_error *error) {
    weir_replay_options options;
    WEIR__TRY(WEIR__TAKE_OPTIONS(options, given, weir_replay_options, operator_name, error));
    env = weir__env_or_default(env);
    replay p = {.report = report};
    weir_manifest *recorded = NULL;
    *report = (weir_replay_report){0};
    weir_status status = weir_trace_open(env, path, &p.reader, error);
    if (status == WEIR_OK)
        status = options.manifest ? check_given_manifest(p.reader, &options, error)
                                  : weir_trace_manifest(p.reader, &recorded, error);
    if (status == WEIR_OK)
        status = replay_with(env, &p, options.manifest ? options.manifest : recorded, &options, error);
    weir_manifest_close(recorded);
    weir_trace_close(p.reader);
    return status;
}
