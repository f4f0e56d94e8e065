/* See mixed.h. */
#include "batch/mixed.h"

#include <string.h>

#include "base/bytes.h"
#include "base/narrow.h"
#include "batch/expand_kernel.h"
#include "sampler/manifest.h"
#include "sampler/sampler.h"
#include "sampler/shares.h"
#include "weir_tool/sampler_tools.h"

static const char operator_name[] = "weir.batch.build";

/* A dataset of the mix. */
typedef struct member {
    weir_batch_builder *builder;
    uint64_t seed_epoch; /* of the walk seed that was made last */
    weir_seed seed;
    bool has_seed;
} member;

struct weir_batch__mixture {
    weir__block lists;
    member *members;
    weir_sampler__share *shares;
    weir_batch_source *sources;
    const weir_batch__rules **rules;
    weir_batch__origin *origins;
    char *next_key;        /* where the next member's is copied to */
    uint32_t count;        /* of members */
    uint32_t origin_count; /* of stores, in the order of their first members */
    uint8_t *expansion;    /* the rules of all */
};

/* ---- Stores ---------------------------------------------------------------------------------- */

weir_status weir_batch__find_store(weir_store *const *stores, size_t count, const weir_dataset *dataset,
                                   const weir_store **out, weir_error *error) {
    *out = NULL;
    for (size_t i = 0; i < count; i++) {
        weir_stored_dataset stored;
        if (weir_store_dataset(stores[i], dataset->key, &stored, NULL) != WEIR_OK)
            continue;
        bool is_named = memcmp(stored.hash, dataset->hash, WEIR_HASH_SIZE) == 0;
        if (!*out || is_named)
            *out = stores[i];
        if (is_named)
            return WEIR_OK;
    }
    if (*out)
        return WEIR_OK;
    weir_status status =
        weir__fail(error, WEIR_INVALID_DATASET_KEY, operator_name,
                   "no store that is given has the dataset '%s' of this run; give its store, "
                   "name one dataset, or take it out of the mix",
                   dataset->key);
    weir__note_text(error, "dataset_key", dataset->key, strlen(dataset->key));
    weir__note_uint(error, "stores", count);
    return status;
}

/* Where the numbers of a store begin: behind those of the stores before it, unless it has them already. */
static weir_status find_origin(weir_batch__mixture *m, const weir_store *store,
                               const weir_batch__origin **out, weir_error *error) {
    const weir_store_info *info = weir_store_describe(store);
    weir_batch__origin *next = &m->origins[m->origin_count];
    for (uint32_t i = 0; i < m->origin_count; i++)
        if (m->origins[i].store == store) {
            *out = &m->origins[i];
            return WEIR_OK;
        }
    *next = (weir_batch__origin){.store = store};
    uint64_t columns = info->column_count, categories = info->category_count, texts = info->text_count;
    if (m->origin_count > 0) {
        const weir_batch__origin *last = next - 1;
        const weir_store_info *before = weir_store_describe(last->store);
        if (before->embedding_dim != info->embedding_dim)
            return weir__fail(
                error, WEIR_CONTRACT_VIOLATION, operator_name,
                "stores '%.100s' and '%.100s' cannot be mixed in a batch: their embeddings have "
                "%u and %u numbers; ingest both with the same embedder, or leave out batch.mixed",
                before->name, info->name, before->embedding_dim, info->embedding_dim);
        *next = (weir_batch__origin){.store = store,
                                     .first_column = last->first_column + before->column_count,
                                     .first_category = last->first_category + before->category_count,
                                     .first_text = last->first_text + before->text_count};
    }
    if (next->first_column + columns > INT32_MAX || next->first_category + categories > UINT32_MAX ||
        next->first_text + texts > UINT32_MAX)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "the stores of the mix have more columns, categories or texts than 32 bits can "
                          "number; mix fewer stores in a batch");
    m->origin_count++;
    *out = next;
    return WEIR_OK;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static weir_status add_member(weir_batch_builder *b, const weir_batch_options *all, size_t number,
                              weir_error *error) {
    weir_batch__mixture *m = b->mixture;
    const weir_dataset *dataset = &weir_manifest_describe(all->manifest)->datasets[number];
    weir_store *only = (weir_store *)(uintptr_t)all->store;
    bool has_list = all->store_count > 0;
    const weir_batch__origin *origin = NULL;
    const weir_store *store = NULL;
    uint32_t at = m->count;
    weir_batch_options options = *all;
    WEIR__TRY(weir_batch__find_store(has_list ? all->stores : &only,
                                     has_list ? all->store_count : only != NULL, dataset, &store, error));
    WEIR__TRY(find_origin(m, store, &origin, error));
    options.store = store;
    options.dataset = dataset->key;
    options.population = all->populations ? all->populations[number] : NULL;
    options.with_digests = false; /* the batch has them */
    WEIR__TRY(weir_batch__member_open(b->recipe.env, &options, origin, at, &m->members[at].builder, error));
    m->count++;
    weir_batch__recipe *r = &m->members[at].builder->recipe;
    if (r->group_size > 1)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "dataset '%.200s' is of a link task, whose samples are groups of %u sequences, and "
                          "cannot be mixed with others in a batch; take it out of the mix, or leave out "
                          "batch.mixed",
                          dataset->key, r->group_size);
    m->sources[at] = weir_batch__source_of(r);
    m->sources[at].dataset = m->next_key;
    m->next_key = stpcpy(m->next_key, dataset->key) + 1;
    m->rules[at] = &r->rules;
    m->shares[at] = (weir_sampler__share){
        .first = at ? m->shares[at - 1].first + m->shares[at - 1].weight : 0,
        .weight = dataset->weight,
        .cardinality = dataset->cardinality,
    };
    return WEIR_OK;
}

/* Lists that have room for all datasets of the manifest, and for their keys. */
static void carve_lists(weir_batch__mixture *m, const weir_manifest_info *manifest) {
    size_t count = manifest->dataset_count, key_size = 0;
    for (size_t i = 0; i < count; i++)
        key_size += strlen(manifest->datasets[i].key) + 1;
    m->members = weir__carve(&m->lists, count, sizeof *m->members);
    m->shares = weir__carve(&m->lists, count, sizeof *m->shares);
    m->sources = weir__carve(&m->lists, count, sizeof *m->sources);
    m->rules = weir__carve(&m->lists, count, sizeof *m->rules);
    m->origins = weir__carve(&m->lists, count, sizeof *m->origins);
    m->next_key = weir__carve(&m->lists, key_size, 1);
}

/* Puts the rules of all datasets one after the other. */
static weir_status join_rules(weir_batch_builder *b, weir_error *error) {
    weir_batch__mixture *m = b->mixture;
    uint64_t size = 0;
    for (uint32_t i = 0; i < m->count; i++)
        size += m->rules[i]->expansion_size;
    if (size / 8 > UINT32_MAX)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "the datasets of the mix have too many columns to be mixed in a batch; mix fewer");
    m->expansion = weir__allocate(b->recipe.env, (size_t)size, 1);
    if (!m->expansion)
        return weir__out_of_memory(error, operator_name, (size_t)size);
    b->recipe.rules.expansion = m->expansion;
    b->recipe.rules.expansion_size = size;
    size = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        weir_batch__rules *rules = &m->members[i].builder->recipe.rules;
        rules->place = WEIR__NARROW(uint32_t, size / 8);
        memcpy(m->expansion + size, rules->expansion, (size_t)rules->expansion_size);
        weir__store64(m->expansion + size + 8 * (size_t)RULES_DATASET, i);
        size += rules->expansion_size;
    }
    return WEIR_OK;
}

weir_status weir_batch__mixture_open(weir_batch_builder *b, const weir_batch_options *options,
                                     weir_error *error) {
    weir_batch__recipe *r = &b->recipe;
    const weir_manifest_info *manifest = weir_manifest_describe(options->manifest);
    weir_sampler_options sampling = weir_batch__sampling_of(options);
    r->config = *manifest->batch;
    r->config.widths = NULL; /* the manifest's, which may be closed */
    r->config.tensors |= (uint32_t)1 << WEIR_DATASET_IDS;
    r->stage = options->stage;
    r->rank = options->rank;
    r->with_digests = options->with_digests;
    r->group_size = 1;
    r->cardinality = weir_manifest_find(options->manifest, options->dataset)->cardinality;
    sampling.population = NULL;
    WEIR__TRY(weir_sampler_open(r->env, options->manifest, &sampling, &b->sampler, error));
    weir_batch__mixture *m = b->mixture = weir__allocate_zero(r->env, 1, sizeof *m);
    if (!m)
        return weir__out_of_memory(error, operator_name, sizeof *m);
    carve_lists(m, manifest);
    if (!weir__block_open(&m->lists, r->env))
        return weir__out_of_memory(error, operator_name, (size_t)m->lists.size);
    carve_lists(m, manifest);
    for (size_t i = 0; i < manifest->dataset_count; i++)
        if (manifest->datasets[i].weight > 0)
            WEIR__TRY(add_member(b, options, i, error));
    r->origins = m->origins;
    r->origin_count = m->origin_count;
    r->sources = m->sources;
    r->source_count = m->count;
    r->all_rules = m->rules;
    WEIR__TRY(join_rules(b, error));
    const weir_batch__recipe *first = &m->members[0].builder->recipe;
    for (uint32_t k = 0; k < first->length_count; k++) { /* with room for sequences of any of the datasets */
        weir_batch__limits limits = first->by_length[k];
        for (uint32_t i = 1; i < m->count; i++)
            limits = weir_batch__limits_of_both(&limits, &m->members[i].builder->recipe.by_length[k]);
        limits.tensors = r->config.tensors;
        WEIR__TRY(weir_batch__recipe_add_length(r, &limits, error));
    }
    return WEIR_OK;
}

void weir_batch__mixture_close(weir_batch_builder *b) {
    weir_batch__mixture *m = b->mixture;
    const weir_env *env = b->recipe.env;
    if (!m)
        return;
    for (uint32_t i = 0; i < m->count; i++)
        weir_batch_builder_close(m->members[i].builder);
    weir__block_close(&m->lists, env);
    weir__release(env, m->expansion);
    weir__release(env, m);
}

/* ---- Building -------------------------------------------------------------------------------- */

static weir_seed walk_seed(member *one, uint64_t epoch) {
    if (!one->has_seed || one->seed_epoch != epoch)
        one->seed = weir_batch__walk_seed(&one->builder->recipe, epoch);
    one->seed_epoch = epoch;
    one->has_seed = true;
    return one->seed;
}

/* The sample that an entry of the mix stands for. */
static weir_status list_sample(weir_batch_builder *b, weir_batch_buffer *buffer, uint64_t i, uint64_t period,
                               weir_error *error) {
    weir_batch__mixture *m = b->mixture;
    weir_batch__sample *sample = &buffer->samples[i];
    weir_cursor at;
    uint32_t number;
    if (!weir_sampler__share_at(m->shares, m->count, period, buffer->indices[i], &number, &at))
        return weir__fail(error, WEIR_COUNTER_OVERFLOW, operator_name,
                          "dataset '%.200s' goes beyond epoch 2^64-1; the step is too large",
                          m->sources[number].dataset);
    member *one = &m->members[number];
    *sample = (weir_batch__sample){.position = at.global_index,
                                   .walk_position = at.global_index,
                                   .walk_seed = walk_seed(one, at.epoch),
                                   .table = one->builder->recipe.rules.task->anchor_table,
                                   .member = number};
    buffer->epochs[i] = at.epoch;
    buffer->dataset_ids[i] = number;
    return weir_sampler_index_at(one->builder->sampler, at.epoch, at.global_index, &sample->index, error);
}

weir_status weir_batch__mixture_list(weir_batch_builder *b, weir_batch_buffer *buffer, weir_cursor cursor,
                                     weir_error *error) {
    const weir_batch__recipe *r = &b->recipe;
    const weir_step *step = &buffer->batch.step;
    uint64_t first = cursor.global_index + r->rank * step->micro_batch_size;
    weir_status status = WEIR_OK;
    for (uint64_t i = 0; i < step->valid_count && status == WEIR_OK; i++)
        status = list_sample(b, buffer, i, cursor.epoch + (first + i) / r->cardinality, error);
    if (status != WEIR_OK)
        weir_sampler__name_step(b->sampler, cursor, error);
    return status;
}

void weir_batch__mixture_walk(weir_batch_builder *b, weir_batch_buffer *buffer, uint32_t first,
                              uint32_t end) {
    for (uint32_t i = 0; i < b->mixture->count; i++)
        weir_batch__walk_own(b->mixture->members[i].builder, buffer, first, end);
}
