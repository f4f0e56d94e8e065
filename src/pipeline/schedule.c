/* See schedule.h. */
#include "pipeline/schedule.h"

#include <string.h>

#include "batch/mixed.h"
#include "sampler/manifest.h"
#include "sampler/mix.h"
#include "weir_tool/sampler_tools.h"

static const char operator_name[] = "weir.run.open";

/* ---- Members --------------------------------------------------------------------------------- */

static weir_status add_member(weir_pipeline__schedule *run, size_t index, weir_error *error) {
    const weir_run_options *options = run->options;
    weir_pipeline__schedule_member member = {
        .dataset = &weir_manifest_describe(run->options->manifest)->datasets[index], .index = index};
    const char *key = member.dataset->key;
    size_t at = run->member_count;
    WEIR__TRY(
        weir_batch__find_store(options->stores, options->store_count, member.dataset, &member.store, error));
    for (; at > 0; at--) {
        const char *other = run->members[at - 1].dataset->key;
        if (weir__key_compare(other, strlen(other), key, strlen(key)) < 0)
            break;
        run->members[at] = run->members[at - 1];
    }
    run->members[at] = member;
    run->member_count++;
    return WEIR_OK;
}

/* The dataset that is named, or every one of the mix; without a mix the only one, which weir_mix_open insists
 * on. */
static weir_status list_members(weir_pipeline__schedule *run, weir_error *error) {
    const weir_run_options *options = run->options;
    const weir_manifest *manifest = options->manifest;
    const weir_dataset *all = weir_manifest_describe(manifest)->datasets, *named = NULL;
    size_t datasets = weir_manifest_describe(manifest)->dataset_count;
    bool names_mix = manifest->batch.mixed && options->dataset && strcmp(options->dataset, WEIR_MIX_KEY) == 0;
    run->members = weir__allocate_zero(run->env, datasets, sizeof *run->members);
    if (!run->members)
        return weir__out_of_memory(error, operator_name, datasets * sizeof *run->members);
    if (options->dataset && !names_mix) {
        WEIR__TRY(weir_sampler__manifest_require(manifest, options->dataset, operator_name, &named, error));
        return add_member(run, (size_t)(named - all), error);
    }
    if (options->stage != WEIR_STAGE_TRAIN && (datasets != 1 || names_mix)) {
        char keys[640];
        weir_sampler__list_keys(manifest, keys, sizeof keys);
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "eval and infer run one dataset at a time; name one of %s", keys);
    }
    run->is_mixed = options->stage == WEIR_STAGE_TRAIN;
    if (run->is_mixed) { /* refuses several datasets without a mix, before any of them is looked for */
        weir_mix *mix;
        WEIR__TRY(weir_mix_open(run->env, manifest, options->token, options->token_size, &mix, error));
        weir_mix_close(mix);
    }
    bool has_mix = weir_manifest_mix_total(manifest) > 0;
    for (size_t i = 0; i < datasets; i++)
        if (!has_mix || all[i].weight > 0)
            WEIR__TRY(add_member(run, i, error));
    return WEIR_OK;
}

static weir_status list_stores(weir_pipeline__schedule *run, weir_error *error) {
    run->store_hashes = weir__allocate_zero(run->env, run->source_count, sizeof *run->store_hashes);
    if (!run->store_hashes)
        return weir__out_of_memory(error, operator_name, run->source_count * sizeof *run->store_hashes);
    for (size_t i = 0; i < run->source_count; i++) {
        const uint8_t *hash = weir_store_describe(run->sources[i].store)->store_hash;
        size_t at = 0;
        int order = 1;
        while (at < run->store_count && (order = memcmp(run->store_hashes[at], hash, WEIR_HASH_SIZE)) < 0)
            at++;
        if (at < run->store_count && order == 0)
            continue;
        memmove(run->store_hashes[at + 1], run->store_hashes[at],
                (run->store_count - at) * sizeof *run->store_hashes);
        memcpy(run->store_hashes[at], hash, WEIR_HASH_SIZE);
        run->store_count++;
    }
    return WEIR_OK;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static weir_status fill(weir_pipeline__schedule *run, weir_error *error) {
    const weir_run_options *o = run->options;
    uint64_t batch = weir_manifest_describe(o->manifest)->global_batch_size;
    WEIR__TRY(list_members(run, error));
    run->sources = run->members;
    run->source_count = run->member_count;
    if (run->is_mixed && o->manifest->batch.mixed) {
        /* Every step is one of the mix itself, and what were members are where its samples come from. */
        run->members = weir__allocate_zero(run->env, 1, sizeof *run->members);
        if (!run->members)
            return weir__out_of_memory(error, operator_name, sizeof *run->members);
        run->members[0].dataset = weir_manifest_find(o->manifest, WEIR_MIX_KEY);
        run->member_count = 1;
    }
    WEIR__TRY(list_stores(run, error));
    size_t count = weir_manifest_describe(o->manifest)->dataset_count;
    run->populations = weir__allocate_zero(run->env, count, sizeof(void *));
    if (!run->populations)
        return weir__out_of_memory(error, operator_name, count * sizeof(void *));
    for (size_t i = 0; i < run->source_count && o->stage == WEIR_STAGE_TRAIN; i++) {
        weir_pipeline__schedule_member *source = &run->sources[i];
        WEIR__TRY(weir_population_open(run->env, o->manifest, source->store, source->dataset->key, o->token,
                                       o->token_size, &source->population, error));
        run->populations[source->index] = source->population;
    }
    run->end = WEIR_ENDLESS;
    if (o->stage != WEIR_STAGE_TRAIN &&
        batch > 0) { /* one pass; a batch size of 0 is the builders' to refuse */
        uint64_t samples = run->members[0].dataset->cardinality;
        run->end = samples / batch + (samples % batch != 0 && !o->drop_remainder);
    }
    run->end = o->steps > 0 && o->steps < run->end ? o->steps : run->end;
    return WEIR_OK;
}

weir_status weir_pipeline__schedule_open(weir_pipeline__schedule *run, const weir_env *env,
                                         const weir_run_options *options, weir_error *error) {
    *run = (weir_pipeline__schedule){.env = env, .options = options};
    if (!weir_stage_name(options->stage))
        return weir__fail(error, WEIR_INVALID_STAGE_TYPE, operator_name,
                          "the stage is not train, eval, infer or eval_seeded");
    weir_status status = fill(run, error);
    if (status == WEIR_OK)
        return WEIR_OK;
    if (options->dataset)
        weir_pipeline__schedule_name_call(run, options->dataset, (weir_cursor){0}, error);
    weir_pipeline__schedule_close(run);
    return status;
}

void weir_pipeline__schedule_close(weir_pipeline__schedule *run) {
    if (!run->env)
        return;
    for (size_t i = 0; i < run->source_count; i++)
        weir_population_close(run->sources[i].population);
    if (run->sources != run->members)
        weir__release(run->env, run->sources);
    weir__release(run->env, run->members);
    weir__release(run->env, run->populations);
    weir__release(run->env, run->store_hashes);
    *run = (weir_pipeline__schedule){0};
}

void weir_pipeline__schedule_name_call(const weir_pipeline__schedule *run, const char *dataset,
                                       weir_cursor cursor, weir_error *error) {
    const weir_run_options *o = run->options;
    weir_sampler_options call = {.size = sizeof call,
                                 .dataset = dataset,
                                 .world_size = o->world_size,
                                 .rank = o->rank,
                                 .token = o->token,
                                 .token_size = o->token_size,
                                 .cursor = cursor};
    weir_sampler_name_call(o->manifest, &call, error);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

weir_status weir_pipeline__schedule_locate(const weir_pipeline__schedule *run, weir_mix *mix, uint64_t step,
                                           size_t *member, weir_cursor *cursor, weir_error *error) {
    const weir_dataset *dataset = run->members[0].dataset;
    weir_status status = WEIR_OK;
    if (run->is_mixed)
        status = weir_mix_locate(mix, step, &dataset, cursor, error);
    else if (run->options->stage == WEIR_STAGE_TRAIN)
        status = weir_sampler__batch_cursor(run->options->manifest, dataset, step, cursor, error);
    else
        *cursor = (weir_cursor){0, step * weir_manifest_describe(run->options->manifest)->global_batch_size};
    *member = 0;
    while (status == WEIR_OK && run->members[*member].dataset != dataset)
        ++*member;
    return status;
}

bool weir_pipeline__schedule_next_cursor(const weir_pipeline__schedule *run, weir_mix *mix, uint64_t step,
                                         size_t member, weir_cursor *cursor) {
    const weir_pipeline__schedule_member *m = &run->members[member];
    uint64_t batch = weir_manifest_describe(run->options->manifest)->global_batch_size;
    if (run->options->stage != WEIR_STAGE_TRAIN) {
        /* After its one pass a dataset stands where the sampler leaves it. */
        bool is_over = step >= m->dataset->cardinality / batch + (m->dataset->cardinality % batch != 0);
        *cursor = is_over ? (weir_cursor){1, 0} : (weir_cursor){0, step * batch};
        return true;
    }
    bool has_turns = run->is_mixed && run->sources == run->members;
    uint64_t q = has_turns ? weir_sampler__mix_batches_before(mix, step, m->index) : step;
    return weir_sampler__batch_cursor(run->options->manifest, m->dataset, q, cursor, NULL) == WEIR_OK;
}

/* ---- Builders -------------------------------------------------------------------------------- */

weir_status weir_pipeline__builders_open(weir_pipeline__builders *builders, const weir_env *env,
                                         const weir_pipeline__schedule *run, weir_error *error) {
    const weir_run_options *o = run->options;
    *builders = (weir_pipeline__builders){.env = env};
    weir_status status = WEIR_OK;
    builders->list = weir__allocate_zero(env, run->member_count, sizeof(void *));
    if (!builders->list)
        status = weir__out_of_memory(error, operator_name, run->member_count * sizeof(void *));
    if (status == WEIR_OK && run->is_mixed)
        status = weir_mix_open(env, o->manifest, o->token, o->token_size, &builders->mix, error);
    while (status == WEIR_OK && builders->count < run->member_count) {
        const weir_pipeline__schedule_member *member = &run->members[builders->count];
        weir_batch_options options = {.size = sizeof options,
                                      .store = member->store,
                                      .manifest = o->manifest,
                                      .dataset = member->dataset->key,
                                      .stage = o->stage,
                                      .world_size = o->world_size,
                                      .rank = o->rank,
                                      .token = o->token,
                                      .token_size = o->token_size,
                                      .any_hash = o->any_hash,
                                      .pad = o->pad,
                                      .with_digests = o->with_digests,
                                      .population = member->population,
                                      .stores = o->stores,
                                      .store_count = o->store_count,
                                      .populations = run->populations};
        status = weir_batch_builder_open(env, &options, &builders->list[builders->count], error);
        builders->count += status == WEIR_OK;
    }
    if (status != WEIR_OK)
        weir_pipeline__builders_close(builders);
    return status;
}

void weir_pipeline__builders_close(weir_pipeline__builders *builders) {
    if (!builders->env)
        return;
    for (size_t i = 0; i < builders->count; i++)
        weir_batch_builder_close(builders->list[i]);
    weir__release(builders->env, builders->list);
    weir_mix_close(builders->mix);
    *builders = (weir_pipeline__builders){0};
}
