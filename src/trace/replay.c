/* weir replay: every recorded step is made again from the manifest, written as a record, and compared with
 * the recorded one field by field: what is not compared on purpose is named here, everything else is. Where
 * its store is given, a batch is built again, and its digests are compared. */
#include "trace/replay.h"
#include "base/options.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "weir/batch.h"
#include "weir_tool/sampler_tools.h"

static const char operator_name[] = "weir.trace.replay";

/* A dataset in a stage that the trace names, opened when it is first met. */
typedef struct opened_dataset {
    char *key;
    weir_stage stage;
    weir_sampler *sampler;
    weir_population *population; /* or NULL */
    bool has_looked;             /* for a store to build batches from */
    weir_batch_builder *builder; /* NULL if no store has the dataset */
    weir_batch_buffer *buffer;
} opened_dataset;

struct weir_trace__replayer {
    const weir_env *env;
    const weir_manifest *manifest;
    const weir_trace_info *header;
    weir_trace__replay_stores stores;
    uint32_t world_size;
    uint32_t rank;
    opened_dataset *datasets;
    size_t dataset_count;
    size_t dataset_capacity;
    uint64_t *indices;
    size_t index_capacity;
    weir_cbor_writer body;
};

weir_status weir_trace__replay_check_stores(const weir_trace_info *header, weir_trace__replay_stores stores,
                                            weir_error *error) {
    for (size_t i = 0; i < stores.count; i++) {
        const weir_store_info *info = weir_store_describe(stores.list[i]);
        char hex[2 * WEIR_HASH_SIZE + 1];
        size_t k = 0;
        while (k < header->store_count &&
               memcmp(header->store_hashes[k], info->store_hash, WEIR_HASH_SIZE) != 0)
            k++;
        if (k < header->store_count)
            continue;
        weir__hex_encode(info->store_hash, WEIR_HASH_SIZE, hex);
        return weir__fail(error, WEIR_CHECKPOINT_MISMATCH, operator_name,
                          "the store '%s' (hash %s) is not one of those that the trace was recorded with",
                          info->name, hex);
    }
    return WEIR_OK;
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

static void close_dataset(const weir_env *env, opened_dataset *opened) {
    weir_sampler_close(opened->sampler);
    weir_population_close(opened->population);
    weir_batch_buffer_close(opened->buffer);
    weir_batch_builder_close(opened->builder);
    weir__release(env, opened->key);
}

void weir_trace__replayer_close(weir_trace__replayer *r) {
    if (!r)
        return;
    for (size_t i = 0; i < r->dataset_count; i++)
        close_dataset(r->env, &r->datasets[i]);
    weir__release(r->env, r->datasets);
    weir__release(r->env, r->indices);
    weir_cbor_release(&r->body);
    weir__release(r->env, r);
}

/* The first store that has a dataset, or NULL. */
static const weir_store *store_of(const weir_trace__replayer *r, const char *key) {
    weir_stored_dataset stored;
    for (size_t i = 0; i < r->stores.count; i++)
        if (weir_store_dataset(r->stores.list[i], key, &stored, NULL) == WEIR_OK)
            return r->stores.list[i];
    return NULL;
}

/* The dataset, with its sampler. Eval and infer take the same samples, so one stage stands for both. */
static weir_status find_dataset(weir_trace__replayer *r, weir_text key, weir_stage stage,
                                opened_dataset **out, weir_error *error) {
    for (size_t i = 0; i < r->dataset_count; i++)
        if (r->datasets[i].stage == stage && strlen(r->datasets[i].key) == key.size &&
            memcmp(r->datasets[i].key, key.data, key.size) == 0) {
            *out = &r->datasets[i];
            return WEIR_OK;
        }
    void *memory = r->datasets;
    opened_dataset opened = {.stage = stage, .key = weir__copy_text(r->env, key.data, key.size)};
    weir_status status = WEIR_OK;
    if (!opened.key ||
        !weir__grow(r->env, &memory, &r->dataset_capacity, r->dataset_count + 1, sizeof *r->datasets))
        status = weir__out_of_memory(error, operator_name, key.size);
    r->datasets = memory;
    /* Without a store the sampler says what is missing. */
    const weir_store *store = status == WEIR_OK && stage == WEIR_STAGE_TRAIN ? store_of(r, opened.key) : NULL;
    if (store)
        status = weir_population_open(r->env, r->manifest, store, opened.key, r->header->token,
                                      r->header->token_size, &opened.population, error);
    weir_sampler_options options = {.size = sizeof options,
                                    .dataset = opened.key,
                                    .stage = stage,
                                    .world_size = r->world_size,
                                    .rank = r->rank,
                                    .token = r->header->token,
                                    .token_size = r->header->token_size,
                                    .population = opened.population};
    if (status == WEIR_OK)
        status = weir_sampler_open(r->env, r->manifest, &options, &opened.sampler, error);
    if (status != WEIR_OK) {
        close_dataset(r->env, &opened);
        return status;
    }
    r->datasets[r->dataset_count] = opened;
    *out = &r->datasets[r->dataset_count++];
    return WEIR_OK;
}

weir_status weir_trace__replayer_step(weir_trace__replayer *r, const weir_trace_record *iter, weir_step *step,
                                      weir_sampler **sampler, weir_error *error) {
    opened_dataset *opened;
    WEIR__TRY(find_dataset(r, iter->dataset, iter->stage, &opened, error));
    *sampler = opened->sampler;
    return weir_sampler_step(opened->sampler, iter->cursor_before, step, error);
}

static weir_status make_indices(weir_trace__replayer *r, weir_sampler *sampler, const weir_step *step,
                                weir_error *error) {
    void *memory = r->indices;
    if (step->count >= SIZE_MAX ||
        !weir__grow(r->env, &memory, &r->index_capacity, (size_t)step->count + 1, sizeof *r->indices))
        return weir__out_of_memory(error, operator_name, (size_t)step->count);
    r->indices = memory;
    if (step->count > 0)
        weir_sampler_indices(sampler, step, r->indices);
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
    opened_dataset *opened;
    weir_step step;
    char was[64];
    bool is_of_cursor =
        is_code(failure, WEIR_GLOBAL_POSITION_EXCEEDS_CARDINALITY) || is_code(failure, WEIR_COUNTER_OVERFLOW);
    if (!is_of_cursor || !place->is_known)
        return WEIR_OK;
    weir_status found = place->status;
    if (found == WEIR_OK) {
        WEIR__TRY(find_dataset(r, (weir_text){place->dataset, strlen(place->dataset)}, place->stage, &opened,
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

/* Of what there is one for each sample, and not so many were recorded. */
static weir_status differ_in_number(const weir_trace__replayer *r, const weir_trace_record *iter,
                                    const char *field, uint64_t recorded, uint64_t replayed,
                                    weir_error *error) {
    char was[48], is[48];
    const char *what = strcmp(field, "indices") == 0 ? field : "digests";
    snprintf(was, sizeof was, "%llu %s", (unsigned long long)recorded, what);
    snprintf(is, sizeof is, "%llu %s", (unsigned long long)replayed, what);
    return weir_trace__divergence(error, r->header, iter, iter->t, field, was, is);
}

weir_status weir_trace__replayer_check(weir_trace__replayer *r, const weir_trace_record *iter,
                                       weir_step *step, weir_sampler **sampler, weir_error *error) {
    static const char *const digests[] = {"h", "batch_digest", "sample_digests", NULL};
    weir__difference difference;
    opened_dataset *opened;
    weir_cbor_value map = weir_trace__map(iter), recorded;
    bool has_indices = weir_cbor_get(&map, "indices", &recorded);
    WEIR__TRY(weir_trace__replayer_step(r, iter, step, sampler, error));
    if (has_indices && iter->index_count != step->count)
        return differ_in_number(r, iter, "indices", iter->index_count, step->count, error);
    if (has_indices)
        WEIR__TRY(make_indices(r, *sampler, step, error));
    WEIR__TRY(find_dataset(r, iter->dataset, iter->stage, &opened, error));
    weir_trace_iter again = {.t = iter->t, .dataset = opened->key, .step = step};
    if (has_indices) /* as it was recorded */
        again.indices = r->indices;
    r->body.size = 0;
    weir_cbor_restart(&r->body);
    weir_trace__write_iter(&r->body, &again);
    WEIR__TRY(weir_cbor_finish(&r->body, error));
    weir_cbor_value expected = weir_cbor_view(r->body.data);
    if (weir__compare(r->env, &map, &expected, digests, &difference))
        return weir_trace__divergence(error, r->header, iter, iter->t, difference.field, difference.left,
                                      difference.right);
    return WEIR_OK;
}

/* ---- Batches that are built again ------------------------------------------------------------ */

/* Whether the stores are there that a batch is built again from: of a mixed one, those of all its datasets.
 */
static bool has_stores(const weir_trace__replayer *r, const char *key) {
    if (!weir_manifest_describe(r->manifest)->batch->mixed || strcmp(key, WEIR_MIX_KEY) != 0)
        return store_of(r, key) != NULL;
    bool has_all = true;
    for (size_t i = 0; i < weir_manifest_describe(r->manifest)->dataset_count && has_all; i++) {
        const weir_dataset *dataset = &weir_manifest_describe(r->manifest)->datasets[i];
        has_all = dataset->weight == 0 || store_of(r, dataset->key) != NULL;
    }
    return has_all;
}

/* The store's identity was checked: a dataset's hash need not be. */
static weir_status open_builder(weir_trace__replayer *r, opened_dataset *d, weir_error *error) {
    static const weir_batch_memory without_tensors = {.without_tensors = true};
    d->has_looked = true;
    if (!has_stores(r, d->key))
        return WEIR_OK;
    weir_batch_options options = {.size = sizeof options,
                                  .store = store_of(r, d->key),
                                  .stores = r->stores.list,
                                  .store_count = r->stores.count,
                                  .manifest = r->manifest,
                                  .dataset = d->key,
                                  .stage = d->stage,
                                  .world_size = r->header->world_size,
                                  .rank = r->header->rank,
                                  .token = r->header->token,
                                  .token_size = r->header->token_size,
                                  .any_hash = true,
                                  .with_digests = true};
    WEIR__TRY(weir_batch_builder_open(r->env, &options, &d->builder, error));
    return weir_batch_buffer_open(&d->builder, 1, &without_tensors, &d->buffer, error);
}

enum { SHOWN_MAX = 16, SHOWN_CAPACITY = 2 * SHOWN_MAX + 32 };

static bool is_digest(const weir_cbor_value *recorded, const uint8_t *digest, size_t size) {
    return recorded->type == WEIR_CBOR_BYTES && recorded->number == size &&
           memcmp(recorded->data, digest, size) == 0;
}

static weir_status differs(const weir_trace__replayer *r, const weir_trace_record *iter, const char *field,
                           const weir_cbor_value *recorded, const uint8_t *digest, size_t size,
                           weir_error *error) {
    char was[SHOWN_CAPACITY] = "no digest", is[SHOWN_CAPACITY];
    if (recorded->type == WEIR_CBOR_BYTES && recorded->number <= SHOWN_MAX)
        weir__hex_encode(recorded->data, (size_t)recorded->number, was);
    weir__hex_encode(digest, size, is);
    return weir_trace__divergence(error, r->header, iter, iter->t, field, was, is);
}

static weir_status compare_samples(const weir_trace__replayer *r, const weir_trace_record *iter,
                                   const weir_cbor_value *recorded, const weir_batch *batch,
                                   weir_error *error) {
    weir_cbor_iterator it = weir_cbor_children(recorded);
    weir_cbor_value one;
    for (uint64_t i = 0; weir_cbor_next(&it, NULL, &one); i++) {
        uint8_t digest[8];
        if (i >= batch->step.valid_count)
            break;
        weir__store64be(digest, batch->group_digests[i]);
        if (!is_digest(&one, digest, sizeof digest))
            return differs(r, iter, "sample_digests", &one, digest, sizeof digest, error);
    }
    return recorded->number == batch->step.valid_count
               ? WEIR_OK
               : differ_in_number(r, iter, "sample_digests", recorded->number, batch->step.valid_count,
                                  error);
}

/* ---- A whole trace --------------------------------------------------------------------------- */

/* What a trace is replayed with. */
typedef struct replay {
    weir_trace_reader *reader;
    weir_trace__replayer *replayer;
    weir_trace__judge judge;
    weir_replay_report *report;
} replay;

/* Digests are compared if a store is there to build the batch again from, and counted either way. */
static weir_status check_digests(replay *p, const weir_trace_record *iter, weir_error *error) {
    weir_cbor_value map = weir_trace__map(iter), of_batch, of_samples;
    weir_trace__replayer *r = p->replayer;
    weir_replay_report *report = p->report;
    opened_dataset *d;
    bool has_batch = weir_cbor_get(&map, "batch_digest", &of_batch);
    bool has_samples = weir_trace__digests(iter, &of_samples);
    if (!has_batch && !has_samples)
        return WEIR_OK;
    weir_status status = find_dataset(r, iter->dataset, iter->stage, &d, error);
    if (status == WEIR_OK && !d->has_looked)
        status = open_builder(r, d, error);
    bool is_checked = status == WEIR_OK && d->builder;
    if (is_checked) {
        status = weir_batch_build(d->builder, iter->cursor_before, d->buffer, error);
        is_checked = status == WEIR_OK;
    }
    const weir_batch *batch = is_checked ? weir_batch_view(d->buffer) : NULL;
    if (is_checked && has_samples)
        status = compare_samples(r, iter, &of_samples, batch, error);
    if (is_checked && has_batch && status == WEIR_OK &&
        !is_digest(&of_batch, batch->batch_digest, sizeof batch->batch_digest))
        status = differs(r, iter, "batch_digest", &of_batch, batch->batch_digest, sizeof batch->batch_digest,
                         error);
    uint64_t sample_count = has_samples ? of_samples.number : 0;
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
        weir_sampler *sampler;
        WEIR__TRY(weir_trace__replayer_check(p->replayer, &record, &step, &sampler, error));
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

static weir_status replay_with(const weir_env *env, replay *p, const weir_manifest *manifest,
                               const weir_replay_options *options, weir_error *error) {
    const weir_trace_info *header = weir_trace_describe(p->reader);
    weir_trace__replay_stores stores = {options->stores, options->store_count};
    const char *expected = weir_manifest_operator(manifest, WEIR_STAGE_TRAIN);
    weir_cbor_value named;
    /* The header names the operator that the manifest's stage runs; only a step says which stage that is. */
    if (weir_cbor_get(weir_trace__header(p->reader), "operator", &named) &&
        !weir_cbor_is_text(&named, expected))
        return weir_trace__divergence(error, header, NULL, 0, "operator", "another operator", expected);
    weir_status status = weir_trace__judge_open(&p->judge, env, header, manifest, error);
    if (status == WEIR_OK)
        status = weir_trace__replayer_open(env, manifest, header, stores, header->world_size, header->rank,
                                           &p->replayer, error);
    if (status == WEIR_OK)
        status = weir_trace__replay_check_stores(header, stores, error);
    if (status == WEIR_OK)
        status = replay_records(p, error);
    p->report->status = p->judge.status;
    p->report->is_complete = p->judge.status != WEIR_RUN_CUT;
    p->report->failed_step = p->judge.failed_step;
    memcpy(p->report->failure_code, p->judge.failure_code, sizeof p->report->failure_code);
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
