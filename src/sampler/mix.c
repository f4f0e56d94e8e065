/* Mixing tasks. Where batches are mixed, every step is one of the mix itself. Else the schedule of one period
 * is a shuffled list of the datasets, each as often as its weight; a step's dataset and that dataset's own
 * batch number follow from the step alone. The schedule of the last period that was asked for is kept. */
#include "sampler/mix.h"

#include <string.h>

#include "base/philox.h"
#include "sampler/manifest.h"
#include "weir_tool/sampler_tools.h"

static const char operator_name[] = "weir.mix.locate";

/* One place of a period: which dataset, and how often it stood before in this period. */
typedef struct place {
    uint32_t dataset;
    uint32_t occurrence;
} place;

struct weir_mix {
    const weir_env *env;
    const weir_manifest *manifest;
    weir__sha256 seed_prefix; /* of the period's seed tuple, up to the period */
    place *schedule;
    uint32_t *occurrences; /* a counter a dataset */
    uint32_t total;        /* W; 1 if there is one dataset and no mix */
    bool has_period;
    uint64_t period;
};

weir_status weir_mix_open(const weir_env *env, const weir_manifest *manifest, const void *token,
                          size_t token_size, weir_mix **out, weir_error *error) {
    env = weir__env_or_default(env);
    uint32_t total = weir_manifest_mix_total(manifest);
    size_t datasets = weir_manifest_describe(manifest)->dataset_count;
    if (total == 0 && datasets != 1) {
        weir_status status = weir__fail(
            error, WEIR_MANIFEST_INVALID, operator_name,
            "the manifest has %zu datasets and no mix, so a step does not say which; add a mix", datasets);
        weir__note_uint(error, "datasets", datasets);
        return status;
    }
    total = total ? total : 1;
    weir_mix *mix = weir__allocate_zero(env, 1, sizeof *mix);
    if (!mix)
        return weir__out_of_memory(error, operator_name, sizeof *mix);
    mix->env = env;
    mix->manifest = manifest;
    mix->total = total;
    mix->schedule = weir__allocate_zero(env, total, sizeof *mix->schedule);
    mix->occurrences = weir__allocate_zero(env, datasets, sizeof *mix->occurrences);
    if (!mix->schedule || !mix->occurrences) {
        weir_mix_close(mix);
        return weir__out_of_memory(error, operator_name, total * sizeof *mix->schedule);
    }
    weir_cbor_writer w;
    weir__sha256_init(&mix->seed_prefix);
    weir__cbor_writer_hash(&w, &mix->seed_prefix);
    weir_cbor_array(&w, 5);
    weir_cbor_text(&w, "mix_seed_v1");
    weir_cbor_bytes(&w, token ? token : weir_manifest_describe(manifest)->token,
                    token ? token_size : WEIR_TOKEN_SIZE);
    weir_cbor_bytes(&w, weir_manifest_describe(manifest)->hash, WEIR_HASH_SIZE);
    weir_manifest_write_mix(manifest, &w);
    *out = mix;
    return WEIR_OK;
}

void weir_mix_close(weir_mix *mix) {
    if (!mix)
        return;
    weir__release(mix->env, mix->schedule);
    weir__release(mix->env, mix->occurrences);
    weir__release(mix->env, mix);
}

static weir_seed period_seed(const weir_mix *mix, uint64_t period) {
    uint8_t digest[WEIR_HASH_SIZE];
    weir__sha256 sha = mix->seed_prefix;
    weir_cbor_writer w;
    weir__cbor_writer_hash(&w, &sha);
    weir_cbor_uint(&w, period);
    weir__sha256_final(&sha, digest);
    return weir_seed_load(digest);
}

/* Lists each dataset weight times, in bytewise order of the keys, and shuffles the list. */
static void draw_period(weir_mix *mix, weir_seed seed) {
    const weir_manifest *manifest = mix->manifest;
    uint32_t place_count = 0;
    for (size_t i = 0; i < manifest->dataset_count; i++)
        for (uint32_t k = 0; k < manifest->datasets[i].weight; k++)
            mix->schedule[place_count++].dataset = (uint32_t)i;
    assert(place_count == mix->total && "the weights of a mix do not sum to its total");
    for (uint32_t i = 0; i + 1 < mix->total; i++) {
        uint64_t j = i + weir__scale(weir__philox_block(seed, WEIR_DOMAIN_MIX, i), mix->total - i);
        uint32_t kept = mix->schedule[i].dataset;
        mix->schedule[i].dataset = mix->schedule[j].dataset;
        mix->schedule[j].dataset = kept;
    }
}

static void schedule_period(weir_mix *mix, uint64_t period) {
    bool has_mix = mix->manifest->mix_total != 0;
    if (has_mix && mix->has_period && mix->period == period)
        return;
    if (has_mix)
        draw_period(mix, period_seed(mix, period));
    memset(mix->occurrences, 0, mix->manifest->dataset_count * sizeof *mix->occurrences);
    for (uint32_t i = 0; i < mix->total; i++)
        mix->schedule[i].occurrence = mix->occurrences[mix->schedule[i].dataset]++;
    mix->has_period = true;
    mix->period = period;
}

static weir_status find_cursor(const weir_manifest *manifest, const weir_dataset *dataset, uint64_t q,
                               weir_cursor *cursor, weir_error *error) {
    const weir_data_config *data = &manifest->data;
    const weir_sampler__turns *turns = &manifest->turns;
    uint64_t n = dataset->cardinality;
    if (n == 0)
        return weir__fail(error, WEIR_CARDINALITY_MISMATCH, operator_name,
                          "dataset '%s' has cardinality 0; take it out of the mix", dataset->key);
    if (manifest->global_batch_size == 0)
        return weir__fail(error, WEIR_BATCH_SIZE_INCONSISTENT, operator_name,
                          "global_batch_size is 0; choose at least 1");
    if (data->epoch_boundary == WEIR_BOUNDARY_STREAM) {
        unsigned __int128 position = weir_sampler__turns_start(turns, q);
        if (position / n > UINT64_MAX)
            return weir__fail(error, WEIR_COUNTER_OVERFLOW, operator_name,
                              "batch %llu of dataset '%s' lies beyond epoch 2^64-1; the step is too large",
                              (unsigned long long)q, dataset->key);
        *cursor = (weir_cursor){(uint64_t)(position / n), (uint64_t)(position % n)};
        return WEIR_OK;
    }
    uint64_t per_epoch = weir_sampler__turns_in_epoch(turns, n, data->drop_last);
    if (per_epoch == 0)
        return weir__fail(error, WEIR_BATCH_SIZE_INCONSISTENT, operator_name,
                          "dataset '%s' has %llu samples, fewer than a batch of %llu, and drop_last is set; "
                          "lower global_batch_size or unset drop_last",
                          dataset->key, (unsigned long long)n,
                          (unsigned long long)weir_sampler__turn_size(turns, 0));
    *cursor = (weir_cursor){q / per_epoch, (uint64_t)weir_sampler__turns_start(turns, q % per_epoch)};
    return WEIR_OK;
}

weir_status weir_sampler__batch_cursor(const weir_manifest *manifest, const weir_dataset *dataset, uint64_t q,
                                       weir_cursor *cursor, weir_error *error) {
    weir_status status = find_cursor(manifest, dataset, q, cursor, error);
    if (status != WEIR_OK)
        weir__note_text(error, "dataset_key", dataset->key, strlen(dataset->key));
    return status;
}

static uint64_t weight_of(const weir_mix *mix, const weir_dataset *dataset) {
    return weir_manifest_mix_total(mix->manifest) ? dataset->weight : 1;
}

uint64_t weir_sampler__mix_batches_before(weir_mix *mix, uint64_t step, size_t dataset) {
    assert(dataset < mix->manifest->dataset_count && "a dataset that the manifest does not have");
    uint64_t count =
        step / mix->total * weight_of(mix, &weir_manifest_describe(mix->manifest)->datasets[dataset]);
    schedule_period(mix, step / mix->total);
    for (uint64_t i = 0; i < step % mix->total; i++)
        count += mix->schedule[i].dataset == dataset;
    return count;
}

/* q is at most the step, since a dataset stands at most once per step: it cannot overflow. */
weir_status weir_mix_locate(weir_mix *mix, uint64_t step, const weir_dataset **dataset, weir_cursor *cursor,
                            weir_error *error) {
    const weir_dataset *found = &mix->manifest->blend;
    uint64_t q = step;
    if (!mix->manifest->batch.mixed) {
        schedule_period(mix, step / mix->total);
        place at = mix->schedule[step % mix->total];
        found = &weir_manifest_describe(mix->manifest)->datasets[at.dataset];
        q = step / mix->total * weight_of(mix, found) + at.occurrence;
    }
    weir_status status = weir_sampler__batch_cursor(mix->manifest, found, q, cursor, error);
    if (status == WEIR_OK)
        *dataset = found;
    else if (error)
        error->t = step;
    return status;
}
