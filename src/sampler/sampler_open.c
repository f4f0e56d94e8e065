/* Opening a sampler: checks 1 to 7 of the contract, in its order, those of the accountant and the population,
 * then the configuration and all memory. */
#include "sampler/sampler.h"

#include <stdio.h>
#include <string.h>

#include "base/floating.h"
#include "base/options.h"
#include "weir_tool/sampler_tools.h"

enum { INSTALMENT_MIN = 64 };

const char *const weir_sampler__stages[WEIR_STAGES + 1] = {"train", "eval", "infer", "eval_seeded", NULL};

const char *weir_stage_name(weir_stage stage) {
    return (unsigned)stage < WEIR_STAGES ? weir_sampler__stages[stage] : NULL;
}

weir_status weir_stage_parse(const char *name, weir_stage *out, weir_error *error) {
    for (unsigned i = 0; i < WEIR_STAGES; i++)
        if (strcmp(name, weir_stage_name((weir_stage)i)) == 0) {
            *out = (weir_stage)i;
            return WEIR_OK;
        }
    weir_status status = weir__fail(error, WEIR_INVALID_STAGE_TYPE, WEIR_SAMPLER__NEXT_BATCH,
                                    "there is no stage '%s'; use train, eval, infer or eval_seeded", name);
    weir__note_text(error, "stage", name, strlen(name));
    return status;
}

static weir_status check_stage(const weir_manifest *manifest, const weir_sampler_options *options,
                               const char *failure_operator, weir_error *error) {
    if (!weir_stage_name(options->stage))
        return weir__fail(error, WEIR_INVALID_STAGE_TYPE, failure_operator, "there is no stage number %d",
                          (int)options->stage);
    if (options->stage == WEIR_STAGE_TRAIN && weir_manifest_describe(manifest)->stage != WEIR_STAGE_TRAIN)
        return weir__fail(
            error, WEIR_INVALID_STAGE_TYPE, failure_operator,
            "the manifest's preset is eval_sequential, which does not train; use the stage eval or "
            "infer, or the preset train_shuffle");
    return WEIR_OK;
}

static weir_status check_cardinality(const weir_dataset *dataset, const weir_sampler_options *options,
                                     const char *failure_operator, weir_error *error) {
    if (dataset->cardinality == 0)
        return weir__fail(error, WEIR_CARDINALITY_MISMATCH, failure_operator,
                          "dataset '%s' has cardinality 0; remove it from the manifest or fill it",
                          dataset->key);
    if (!options->store_cardinality || *options->store_cardinality == dataset->cardinality)
        return WEIR_OK;
    weir_status status = weir__fail(error, WEIR_CARDINALITY_MISMATCH, failure_operator,
                                    "dataset '%s' has %llu samples in the manifest and %llu in the store; "
                                    "write the manifest anew from the "
                                    "store that you train on",
                                    dataset->key, (unsigned long long)dataset->cardinality,
                                    (unsigned long long)*options->store_cardinality);
    weir__note_uint(error, "manifest_cardinality", dataset->cardinality);
    weir__note_uint(error, "store_cardinality", *options->store_cardinality);
    return status;
}

static weir_status refuse_batch_size(uint64_t batch, uint32_t world, const char *failure_operator,
                                     weir_error *error) {
    uint64_t below = world ? batch - batch % world : 0;
    char advice[96] = "choose a positive multiple of the world size";
    if (world == 0)
        snprintf(advice, sizeof advice, "at least one rank is needed");
    else if (batch > 0 && (below == 0 || below > UINT64_MAX - world))
        snprintf(advice, sizeof advice, "choose %llu", (unsigned long long)(below ? below : world));
    else if (batch > 0)
        snprintf(advice, sizeof advice, "choose %llu or %llu", (unsigned long long)below,
                 (unsigned long long)(below + world));
    weir_status status = weir__fail(error, WEIR_BATCH_SIZE_INCONSISTENT, failure_operator,
                                    "global_batch_size %llu is not a multiple of world_size %u; %s",
                                    (unsigned long long)batch, world, advice);
    weir__note_uint(error, "global_batch_size", batch);
    weir__note_uint(error, "world_size", world);
    return status;
}

/* The batch size, and in train those of all lengths. */
static weir_status check_batch_sizes(const weir_manifest *manifest, const weir_sampler_options *options,
                                     const char *failure_operator, weir_error *error) {
    const weir_sampler__turns *turns = &manifest->turns;
    uint64_t batch = weir_manifest_describe(manifest)->global_batch_size;
    uint32_t world = options->world_size;
    if (world == 0 || batch == 0 || batch % world != 0)
        return refuse_batch_size(batch, world, failure_operator, error);
    for (uint32_t i = 0; i < turns->count && options->stage == WEIR_STAGE_TRAIN; i++) {
        uint64_t size = weir_sampler__turn_size(turns, i);
        if (size % world == 0)
            continue;
        weir_status status =
            weir__fail(error, WEIR_BATCH_SIZE_INCONSISTENT, failure_operator,
                       "a step of %u cells a sequence has %llu samples, which is not a multiple of "
                       "world_size %u; choose lengths that divide the longest one",
                       turns->lengths[i], (unsigned long long)size, world);
        weir__note_uint(error, "sequence_length", turns->lengths[i]);
        weir__note_uint(error, "global_batch_size", size);
        weir__note_uint(error, "world_size", world);
        return status;
    }
    return WEIR_OK;
}

static weir_status check_config(const weir_manifest *manifest, const weir_dataset *dataset,
                                const weir_sampler_options *options, const char *failure_operator,
                                weir_error *error) {
    uint64_t batch = weir_sampler__turn_size(&manifest->turns, 0);
    const weir_data_config *data = weir_manifest_describe(manifest)->data;
    weir_status status = WEIR_OK;
    WEIR__TRY(check_cardinality(dataset, options, failure_operator, error));
    WEIR__TRY(check_batch_sizes(manifest, options, failure_operator, error));
    if (options->rank >= options->world_size) {
        status = weir__fail(error, WEIR_CONTRACT_VIOLATION, failure_operator,
                            "rank %u does not exist in a world of %u; ranks count from 0", options->rank,
                            options->world_size);
        weir__note_uint(error, "rank", options->rank);
        weir__note_uint(error, "world_size", options->world_size);
        return status;
    }
    if (data->sampler_block_size == 0)
        return weir__fail(error, WEIR_BATCH_SIZE_INCONSISTENT, failure_operator,
                          "sampler_block_size is 0; choose at least 1 (the default is 1048576)");
    bool is_strict_train = options->stage == WEIR_STAGE_TRAIN && data->epoch_boundary == WEIR_BOUNDARY_STRICT;
    if (is_strict_train && data->drop_last && batch > dataset->cardinality) {
        status = weir__fail(
            error, WEIR_BATCH_SIZE_INCONSISTENT, failure_operator,
            "a batch of %llu samples is larger than dataset '%s' (%llu samples) and drop_last is set, so an "
            "epoch would have no batch; lower global_batch_size or unset drop_last",
            (unsigned long long)batch, dataset->key, (unsigned long long)dataset->cardinality);
        weir__note_uint(error, "global_batch_size", batch);
        weir__note_uint(error, "cardinality", dataset->cardinality);
    }
    return status;
}

static void configure(weir_sampler *s, const weir_manifest *manifest, const weir_dataset *dataset,
                      const weir_sampler_options *options) {
    s->failure_operator = weir_manifest_operator(manifest, options->stage);
    s->stage = options->stage;
    s->sampling = s->stage == WEIR_STAGE_TRAIN ? dataset->sampling : WEIR_SAMPLING_SHUFFLED;
    s->population = s->sampling == WEIR_SAMPLING_SHUFFLED ? NULL : options->population;
    s->is_shuffled = s->stage == WEIR_STAGE_TRAIN && s->sampling == WEIR_SAMPLING_SHUFFLED;
    s->data = *weir_manifest_describe(manifest)->data;
    s->data.weight_column = NULL; /* the manifest's */
    s->cardinality = dataset->cardinality;
    s->world_size = options->world_size;
    s->rank = options->rank;
    if (s->stage == WEIR_STAGE_TRAIN)
        s->turns = manifest->turns;
    else
        s->turns = (weir_sampler__turns){.count = 1,
                                         .lengths = {manifest->batch.sequence_length},
                                         .starts = {0, manifest->global_batch_size}};
    bool is_strict_train = s->stage == WEIR_STAGE_TRAIN && s->data.epoch_boundary == WEIR_BOUNDARY_STRICT;
    s->epoch_limit =
        weir_sampler__turns_limit(&s->turns, s->cardinality, is_strict_train && s->data.drop_last);
    s->full_blocks = s->cardinality / s->data.sampler_block_size;
    s->by_block_size = weir_sampler__divisor_make(s->data.sampler_block_size);
    /* Enough work a step that the next epoch's order is done when this epoch ends. */
    uint64_t steps = s->epoch_limit / weir_sampler__largest_turn(&s->turns);
    uint64_t work = s->full_blocks > UINT64_MAX / 2 ? UINT64_MAX : 2 * s->full_blocks;
    uint64_t share = steps ? work / steps + 1 : work;
    s->instalment = share > INSTALMENT_MIN ? share : INSTALMENT_MIN;
}

static weir_status open_orders(weir_sampler *s, weir_error *error) {
    bool is_stateless = s->data.block_order == WEIR_BLOCKS_STATELESS_V1;
    if (s->stage == WEIR_STAGE_EVAL_SEEDED) { /* one block, the same in every epoch */
        uint8_t seed[16];
        weir_sampler__epoch_seed(s, 0, seed);
        s->current.seed = weir_seed_load(seed);
        weir_sampler__block_shape_init(&s->full_shape, s->cardinality);
    }
    if (s->stage != WEIR_STAGE_TRAIN || s->population)
        return WEIR_OK;
    weir_sampler__block_shape_init(&s->full_shape, s->data.sampler_block_size);
    weir_sampler__block_shape_init(&s->tail_shape, s->cardinality % s->data.sampler_block_size);
    if (weir_sampler__block_order_open(&s->current.order, s->env, s->full_blocks, is_stateless) &&
        weir_sampler__block_order_open(&s->ahead.order, s->env, s->full_blocks, is_stateless))
        return WEIR_OK;
    weir_status status =
        weir__fail(error, WEIR_OUT_OF_MEMORY, s->failure_operator,
                   "no memory for the order of %llu blocks; raise sampler_block_size above %llu, "
                   "or set block_order to stateless_v1, which needs none",
                   (unsigned long long)s->full_blocks, (unsigned long long)s->data.sampler_block_size);
    weir__note_uint(error, "blocks", s->full_blocks);
    return status;
}

/* What a privacy accountant assumes about the run must be what the sampler does. */
static weir_status check_accountant(const weir_sampler *s, const weir_sampler__accountant *accountant,
                                    weir_error *error) {
    weir_status status = WEIR_OK;
    double q = accountant->effective_q; /* and then that of the first batch that has another */
    if (s->stage != WEIR_STAGE_TRAIN)
        return WEIR_OK;
    for (uint32_t i = 0; i < s->turns.count && q == accountant->effective_q; i++)
        q = weir__quotient(weir_sampler__turn_size(&s->turns, i), s->cardinality);
    if (accountant->subsampling_mode && strcmp(accountant->subsampling_mode, s->subsampling_mode) != 0) {
        status =
            weir__fail(error, WEIR_CONTRACT_VIOLATION, s->failure_operator,
                       "the manifest's accountant assumes the subsampling_mode '%.100s', and the sampler of "
                       "dataset '%.200s' does %s; change `data` or the accountant",
                       accountant->subsampling_mode, s->dataset, s->subsampling_mode);
        weir__note_text(error, "accountant", accountant->subsampling_mode,
                        strlen(accountant->subsampling_mode));
        weir__note_text(error, "sampler", s->subsampling_mode, strlen(s->subsampling_mode));
    } else if (accountant->has_effective_q && accountant->effective_q != q) {
        char assumed[WEIR__REAL_TEXT], actual[WEIR__REAL_TEXT];
        weir__print_real(accountant->effective_q, assumed);
        weir__print_real(q, actual);
        status = weir__fail(
            error, WEIR_CONTRACT_VIOLATION, s->failure_operator,
            "the manifest's accountant assumes the effective_q %s, and that of dataset '%.200s' is "
            "%s; correct the accountant or the batch size",
            assumed, s->dataset, actual);
        weir__note_text(error, "accountant", assumed, strlen(assumed));
        weir__note_text(error, "sampler", actual, strlen(actual));
    }
    return status;
}

static weir_status check_population(const weir_sampler *s, const weir_manifest *manifest,
                                    const weir_sampler_options *options, weir_error *error) {
    if (s->sampling == WEIR_SAMPLING_SHUFFLED)
        return WEIR_OK;
    if (!s->population)
        return weir__fail(
            error, WEIR_CONTRACT_VIOLATION, s->failure_operator,
            "data.sampling is %s, so drawing from dataset '%.200s' needs its store, and none is "
            "given; give the store",
            weir_sampler__sampling_name(s->sampling), s->dataset);
    weir_seed seed = weir_sampler__sampling_seed(manifest, s->dataset, options->token, options->token_size);
    if (s->population->sampling != s->sampling || s->population->count != s->cardinality ||
        memcmp(&seed, &s->population->seed, sizeof seed) != 0)
        return weir__fail(
            error, WEIR_CONTRACT_VIOLATION, s->failure_operator,
            "the population is another one than that of dataset '%.200s' under this manifest and "
            "token; open it with the same ones",
            s->dataset);
    return WEIR_OK;
}

/* Fills a sampler that is zero but for its environment. */
static weir_status fill_sampler(weir_sampler *s, const weir_manifest *manifest, const weir_dataset *dataset,
                                const weir_sampler_options *options, weir_error *error) {
    configure(s, manifest, dataset, options);
    s->dataset = weir__copy_text(s->env, dataset->key, strlen(dataset->key));
    if (!s->dataset)
        return weir__out_of_memory(error, s->failure_operator, strlen(dataset->key));
    WEIR__TRY(weir_sampler__identify(s, manifest, dataset->key, options->token, options->token_size, error));
    WEIR__TRY(check_accountant(s, &manifest->accountant, error));
    WEIR__TRY(check_population(s, manifest, options, error));
    return open_orders(s, error);
}

static weir_status open_checked(const weir_env *env, const weir_manifest *manifest,
                                const weir_sampler_options *options, weir_sampler **out, weir_error *error) {
    const char *failure_operator = weir_manifest_operator(manifest, options->stage);
    const weir_dataset *dataset;
    WEIR__TRY(check_stage(manifest, options, failure_operator, error));
    WEIR__TRY(weir_sampler__manifest_require(manifest, options->dataset, failure_operator, &dataset, error));
    if (dataset == &manifest->blend && options->stage != WEIR_STAGE_TRAIN)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, failure_operator,
                          "mixed batches are for training; name one dataset of the mix to evaluate");
    WEIR__TRY(check_config(manifest, dataset, options, failure_operator, error));
    weir_sampler *s = weir__allocate_zero(env, 1, sizeof *s);
    if (!s)
        return weir__out_of_memory(error, failure_operator, sizeof *s);
    s->env = env;
    weir_status status = fill_sampler(s, manifest, dataset, options, error);
    if (status == WEIR_OK)
        *out = s;
    else
        weir_sampler_close(s);
    return status;
}

weir_status weir_sampler_open(const weir_env *env, const weir_manifest *manifest,
                              const weir_sampler_options *given, weir_sampler **out, weir_error *error) {
    weir_sampler_options options;
    WEIR__TRY(WEIR__TAKE_OPTIONS(options, given, weir_sampler_options,
                                 weir_manifest_operator(manifest, WEIR_STAGE_EVAL), error));
    weir_status status = open_checked(weir__env_or_default(env), manifest, &options, out, error);
    if (status != WEIR_OK)
        weir_sampler_name_call(manifest, &options, error);
    return status;
}

void weir_sampler_close(weir_sampler *sampler) {
    if (!sampler)
        return;
    weir_sampler__block_order_close(&sampler->current.order, sampler->env);
    weir_sampler__block_order_close(&sampler->ahead.order, sampler->env);
    weir__release(sampler->env, (void *)sampler->dataset);
    weir__release(sampler->env, sampler);
}
