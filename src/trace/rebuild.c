/* See rebuild.h. A builder and a buffer for each dataset and stage that the trace names, opened when it is
 * first met. */
#include "trace/rebuild.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "weir/batch.h"

static const char operator_name[] = "weir.trace.replay";

typedef struct rebuilt_dataset {
    char *key;
    weir_stage stage;
    weir_batch_builder *builder; /* NULL if no store has the dataset */
    weir_batch_buffer *buffer;
} rebuilt_dataset;

struct weir_trace__rebuilder {
    const weir_env *env;
    const weir_manifest *manifest;
    const weir_trace_info *header;
    weir_store *const *stores;
    size_t store_count;
    rebuilt_dataset *datasets;
    size_t dataset_count;
    size_t dataset_capacity;
};

/* ---- Opening --------------------------------------------------------------------------------- */

weir_status weir_trace__rebuilder_open(const weir_env *env, const weir_manifest *manifest,
                                       const weir_trace_info *header, weir_store *const *stores,
                                       size_t store_count, weir_trace__rebuilder **out, weir_error *error) {
    weir_status status =
        weir_trace__replay_check_stores(header, (weir_trace__replay_stores){stores, store_count}, error);
    if (status != WEIR_OK)
        return status;
    weir_trace__rebuilder *r = weir__allocate_zero(env, 1, sizeof *r);
    if (!r)
        return weir__out_of_memory(error, operator_name, sizeof *r);
    *r = (weir_trace__rebuilder){
        .env = env, .manifest = manifest, .header = header, .stores = stores, .store_count = store_count};
    *out = r;
    return WEIR_OK;
}

static void close_dataset(const weir_env *env, rebuilt_dataset *d) {
    weir_batch_buffer_close(d->buffer);
    weir_batch_builder_close(d->builder);
    weir__release(env, d->key);
}

void weir_trace__rebuilder_close(weir_trace__rebuilder *r) {
    if (!r)
        return;
    for (size_t i = 0; i < r->dataset_count; i++)
        close_dataset(r->env, &r->datasets[i]);
    weir__release(r->env, r->datasets);
    weir__release(r->env, r);
}

/* The first store that has a dataset, or NULL. */
static const weir_store *store_of(const weir_trace__rebuilder *r, const char *key) {
    weir_stored_dataset stored;
    for (size_t i = 0; i < r->store_count; i++)
        if (weir_store_dataset(r->stores[i], key, &stored, NULL) == WEIR_OK)
            return r->stores[i];
    return NULL;
}

/* Whether the stores are there that a batch is built again from: of a mixed one, those of all its datasets.
 */
static bool has_stores(const weir_trace__rebuilder *r, const char *key) {
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
static weir_status open_builder(weir_trace__rebuilder *r, rebuilt_dataset *d, weir_error *error) {
    static const weir_batch_memory without_tensors = {.without_tensors = true};
    if (!has_stores(r, d->key))
        return WEIR_OK;
    weir_batch_options options = {.size = sizeof options,
                                  .store = store_of(r, d->key),
                                  .stores = r->stores,
                                  .store_count = r->store_count,
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

static weir_status dataset_for(weir_trace__rebuilder *r, const weir_trace_record *iter, rebuilt_dataset **out,
                               weir_error *error) {
    weir_text key = iter->dataset;
    weir_stage stage = iter->stage;
    for (size_t i = 0; i < r->dataset_count; i++)
        if (r->datasets[i].stage == stage && strlen(r->datasets[i].key) == key.size &&
            memcmp(r->datasets[i].key, key.data, key.size) == 0) {
            *out = &r->datasets[i];
            return WEIR_OK;
        }
    void *memory = r->datasets;
    rebuilt_dataset opened = {.stage = stage, .key = weir__copy_text(r->env, key.data, key.size)};
    weir_status status = WEIR_OK;
    if (!opened.key ||
        !weir__grow(r->env, &memory, &r->dataset_capacity, r->dataset_count + 1, sizeof *r->datasets))
        status = weir__out_of_memory(error, operator_name, key.size);
    r->datasets = memory;
    if (status == WEIR_OK)
        status = open_builder(r, &opened, error);
    if (status != WEIR_OK) {
        close_dataset(r->env, &opened);
        return status;
    }
    r->datasets[r->dataset_count] = opened;
    *out = &r->datasets[r->dataset_count++];
    return WEIR_OK;
}

/* ---- Comparing ------------------------------------------------------------------------------- */

enum { SHOWN_MAX = 16, SHOWN_CAPACITY = 2 * SHOWN_MAX + 32 };

static bool is_digest(const weir_cbor_value *recorded, const uint8_t *digest, size_t size) {
    return recorded->type == WEIR_CBOR_BYTES && recorded->number == size &&
           memcmp(recorded->data, digest, size) == 0;
}

static weir_status differs(const weir_trace__rebuilder *r, const weir_trace_record *iter, const char *field,
                           const weir_cbor_value *recorded, const uint8_t *digest, size_t size,
                           weir_error *error) {
    char was[SHOWN_CAPACITY] = "no digest", is[SHOWN_CAPACITY];
    if (recorded->type == WEIR_CBOR_BYTES && recorded->number <= SHOWN_MAX)
        weir__hex_encode(recorded->data, (size_t)recorded->number, was);
    weir__hex_encode(digest, size, is);
    return weir_trace__divergence(error, r->header, iter, iter->t, field, was, is);
}

static weir_status compare_samples(const weir_trace__rebuilder *r, const weir_trace_record *iter,
                                   const weir_cbor_value *recorded, const weir_batch *batch,
                                   weir_error *error) {
    char was[32], is[32];
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
    if (recorded->number == batch->step.valid_count)
        return WEIR_OK;
    snprintf(was, sizeof was, "%llu digests", (unsigned long long)recorded->number);
    snprintf(is, sizeof is, "%llu digests", (unsigned long long)batch->step.valid_count);
    return weir_trace__divergence(error, r->header, iter, iter->t, "sample_digests", was, is);
}

weir_status weir_trace__rebuilder_check(weir_trace__rebuilder *r, const weir_trace_record *iter,
                                        bool *is_checked, weir_error *error) {
    rebuilt_dataset *d;
    weir_cbor_value map = weir_trace__map(iter), recorded;
    *is_checked = false;
    weir_status status = dataset_for(r, iter, &d, error);
    if (status != WEIR_OK || !d->builder)
        return status;
    WEIR__TRY(weir_batch_build(d->builder, iter->cursor_before, d->buffer, error));
    const weir_batch *batch = weir_batch_view(d->buffer);
    *is_checked = true;
    if (weir_cbor_get(&map, "sample_digests", &recorded) && recorded.type == WEIR_CBOR_ARRAY)
        status = compare_samples(r, iter, &recorded, batch, error);
    if (status == WEIR_OK && weir_cbor_get(&map, "batch_digest", &recorded) &&
        !is_digest(&recorded, batch->batch_digest, sizeof batch->batch_digest))
        status = differs(r, iter, "batch_digest", &recorded, batch->batch_digest, sizeof batch->batch_digest,
                         error);
    return status;
}
