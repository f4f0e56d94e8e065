/* See recipe.h. */
#include "batch/recipe.h"

#include <assert.h>
#include <string.h>

#include "base/bits.h"
#include "batch/compact.h"
#include "batch/link_groups.h"
#include "sampler/manifest.h"

static const char operator_name[] = "weir.batch.build";

/* ---- The dataset ----------------------------------------------------------------------------- */

weir_sampler_options weir_batch__sampling_of(const weir_batch_options *options) {
    return (weir_sampler_options){.size = sizeof(weir_sampler_options),
                                  .dataset = options->dataset,
                                  .stage = options->stage,
                                  .world_size = options->world_size,
                                  .rank = options->rank,
                                  .token = options->token,
                                  .token_size = options->token_size,
                                  .population = options->population};
}

/* Finds the dataset and opens its sampler, in the contract's order: an unknown stage or key is the sampler's
 * to refuse; then the dataset must be the store's; then the sampler's other checks. */
static weir_status open_sampler(weir_batch__recipe *r, const weir_batch_options *options,
                                weir_sampler **sampler, weir_error *error) {
    const weir_dataset *dataset = weir_manifest_find(options->manifest, options->dataset);
    weir_stored_dataset stored = {0};
    weir_sampler_options sampling = weir_batch__sampling_of(options);
    if (weir_stage_name(options->stage) && dataset) {
        WEIR__TRY(weir_store_dataset(options->store, options->dataset, &stored, error));
        if (!options->any_hash && memcmp(dataset->hash, stored.hash, WEIR_HASH_SIZE) != 0)
            return weir__fail(error, WEIR_CARDINALITY_MISMATCH, operator_name,
                              "dataset '%s' has another hash in the manifest than in the store; write the "
                              "manifest anew from the store that you train on",
                              options->dataset);
        r->task = stored.task;
        r->first_seed = weir_store_describe(options->store)->tasks[stored.task].split_start[stored.split];
        r->cardinality = stored.cardinality;
        sampling.store_cardinality = &r->cardinality;
    }
    if (options->stage == WEIR_STAGE_TRAIN && !options->population) {
        WEIR__TRY(weir_population_open(r->env, options->manifest, options->store, options->dataset,
                                       options->token, options->token_size, &r->population, error));
        sampling.population = r->population;
    }
    return weir_sampler_open(r->env, options->manifest, &sampling, sampler, error);
}

/* ---- Seeds ----------------------------------------------------------------------------------- */

void weir_batch__recipe_seed_by(weir_batch__recipe *r, const weir_manifest *manifest, const void *token,
                                size_t token_size, const char *dataset) {
    const weir_manifest_info *info = weir_manifest_describe(manifest);
    weir_cbor_writer w;
    r->context_seed = info->batch->context_seed;
    weir__sha256_init(&r->seed_prefix);
    weir__cbor_writer_hash(&w, &r->seed_prefix);
    weir_cbor_array(&w, r->context_seed ? 6 : 5);
    weir_cbor_text(&w, "walk_seed_v1");
    weir_cbor_bytes(&w, token ? token : info->token, token ? token_size : WEIR_TOKEN_SIZE);
    weir_cbor_bytes(&w, info->hash, WEIR_HASH_SIZE);
    weir_cbor_text(&w, dataset);
}

weir_seed weir_batch__walk_seed(const weir_batch__recipe *recipe, uint64_t epoch) {
    uint8_t digest[WEIR_HASH_SIZE];
    weir__sha256 sha = recipe->seed_prefix;
    weir_cbor_writer w;
    weir__cbor_writer_hash(&w, &sha);
    weir_cbor_uint(&w, recipe->stage == WEIR_STAGE_TRAIN ? epoch : 0);
    if (recipe->context_seed) {
        weir_cbor_restart(&w);
        weir_cbor_uint(&w, recipe->context_seed);
    }
    weir__sha256_final(&sha, digest);
    return weir_seed_load(digest);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static weir_status beyond_memory(uint64_t sequences, uint64_t length, weir_error *error) {
    return weir__fail(
        error, WEIR_OUT_OF_MEMORY, operator_name,
        "a batch of %llu sequences of %llu cells is beyond any memory; use more ranks or a smaller batch",
        (unsigned long long)sequences, (unsigned long long)length);
}

weir_status weir_batch__recipe_add_length(weir_batch__recipe *r, weir_batch__limits *l, weir_error *error) {
    const weir_batch__origin *last = &r->origins[r->origin_count - 1];
    uint64_t texts = (uint64_t)last->first_text + weir_store_describe(last->store)->text_count;
    l->texts = weir__lesser(l->sequences * l->walked_texts, texts);
    weir_batch__limit_sums(l);
    /* A place in the compact form is counted in units of 4 bytes, in 32 bits. */
    if (l->room.compact / 4 > UINT32_MAX || l->room.tensors > PTRDIFF_MAX)
        return beyond_memory(l->sequences, l->length, error);
    r->limits = r->length_count > 0 ? weir_batch__limits_of_both(&r->limits, l) : *l;
    r->by_length[r->length_count++] = *l;
    return WEIR_OK;
}

/* Adds batches of so many sequences of up to so many cells to those that the recipe makes. */
static weir_status add_length(weir_batch__recipe *r, uint64_t sequences, uint32_t length, weir_error *error) {
    uint64_t rows = weir__lesser(r->config.max_rows, r->rules.row_count);
    weir_batch__limits limits = {.sequences = sequences,
                                 .length = length,
                                 .dim = weir_store_describe(r->store)->embedding_dim,
                                 .tensors = r->config.tensors};
    if (sequences > UINT32_MAX / length ||
        weir_batch__walk_knows(&r->rules, &r->config) > WEIR_BATCH__KNOWN_ROWS_MAX)
        return beyond_memory(sequences, length, error);
    weir_batch__limit_sequences(&limits, &r->rules, length, rows);
    limits.rows = r->config.pad_rows ? r->config.max_rows : limits.walked_rows;
    return weir_batch__recipe_add_length(r, &limits, error);
}

/* Those of every turn in train, else those of the longest. */
static weir_status add_lengths(weir_batch__recipe *r, const weir_batch_options *options, weir_error *error) {
    const weir_sampler__turns *turns = &options->manifest->turns;
    bool is_train = options->stage == WEIR_STAGE_TRAIN;
    for (uint32_t i = 0; i < (is_train ? turns->count : 1); i++) {
        uint64_t samples = is_train ? weir_sampler__turn_size(turns, i)
                                    : weir_manifest_describe(options->manifest)->global_batch_size;
        uint64_t sequences;
        if (__builtin_mul_overflow(samples / options->world_size, r->group_size, &sequences))
            sequences = UINT64_MAX;
        WEIR__TRY(add_length(r, sequences, is_train ? turns->lengths[i] : r->config.sequence_length, error));
    }
    return WEIR_OK;
}

uint32_t weir_batch__row_stride(const weir_batch__recipe *r, uint32_t sequence_length) {
    uint32_t i = 0;
    while (i < r->length_count && r->by_length[i].length != sequence_length)
        i++;
    assert(i < r->length_count);
    return WEIR__NARROW(uint32_t, r->by_length[i].walked_rows);
}

/* ---- Opening --------------------------------------------------------------------------------- */

weir_status weir_batch__recipe_open(weir_batch__recipe *r, const weir_env *env,
                                    const weir_batch_options *options, const weir_batch__origin *origin,
                                    weir_sampler **sampler, weir_error *error) {
    *r = (weir_batch__recipe){.env = env,
                              .store = origin->store,
                              .origins = &r->origin,
                              .origin_count = 1,
                              .origin = *origin,
                              .stage = options->stage,
                              .rank = options->rank,
                              .pads = options->pad,
                              .with_digests = options->with_digests,
                              .config = *weir_manifest_describe(options->manifest)->batch};
    WEIR__TRY(open_sampler(r, options, sampler, error));
    weir_batch__recipe_seed_by(r, options->manifest, options->token, options->token_size, options->dataset);
    const weir_task *task = &weir_store_describe(r->store)->tasks[r->task];
    if (task->link.is_link && task->link.edge == WEIR_NONE &&
        r->config.links.by == WEIR_NEGATIVES_BY_POPULARITY)
        return weir__fail(
            error, WEIR_CONTRACT_VIOLATION, operator_name,
            "batch.links draws negatives by popularity, but task %.200s does not say what counts "
            "it; name a foreign key as its \"popularity\" in the schema and ingest anew",
            task->name);
    weir_status status = weir_batch__rules_open(&r->rules, env, origin, r->task, &r->config, error);
    r->config.widths = NULL; /* the manifest's, which may be closed; the rules have them */
    r->group_size = weir_batch__group_size(task, &r->config, r->stage);
    return status ? status : add_lengths(r, options, error);
}

weir_status weir_batch__recipe_open_for_requests(weir_batch__recipe *r, const weir_env *env,
                                                 const weir_context_options *options, uint32_t task,
                                                 weir_error *error) {
    *r = (weir_batch__recipe){.env = env,
                              .store = options->store,
                              .origins = &r->origin,
                              .origin_count = 1,
                              .origin = {.store = options->store},
                              .stage = WEIR_STAGE_EVAL,
                              .task = task,
                              .group_size = 1,
                              .with_digests = options->with_digests,
                              .config = *weir_manifest_describe(options->manifest)->batch};
    weir_status status = weir_batch__rules_open(&r->rules, env, &r->origin, task, &r->config, error);
    r->config.widths = NULL;
    uint64_t sequences = options->most_requests ? options->most_requests : 1;
    return status ? status : add_length(r, sequences, r->config.sequence_length, error);
}

void weir_batch__recipe_close(weir_batch__recipe *recipe) {
    weir_population_close(recipe->population);
    weir_batch__rules_close(&recipe->rules, recipe->env);
}
