/* NextBatch_v2. A step is a pure function of the cursor; what is kept beside the configuration is cache: hash
 * states after the constant part of each identity, and the block orders of two epochs. While one epoch is
 * used, every step makes an instalment of the next one's order, so that an epoch begins at no cost. */
#include "weir/sampler.h"

#include <stdio.h>
#include <string.h>

#include "base/internal.h"
#include "base/philox.h"
#include "sampler/block_map.h"
#include "sampler/epoch.h"

static const char operator_name[] = "UML_OS.Data.NextBatch_v2";

enum { INSTALMENT_MIN = 64 };

typedef struct epoch_state {
    bool is_set;
    uint64_t epoch;
    weir_seed seed;
    uint64_t rotation;
    weir__block_order order;
} epoch_state;

struct weir_sampler {
    const weir_env *env;
    weir_stage stage;
    weir_data_config data;
    uint64_t cardinality;
    uint64_t global_batch_size;
    uint64_t micro_batch_size;
    uint64_t epoch_limit; /* positions of a strict epoch that are used */
    uint64_t full_blocks;
    uint32_t world_size;
    uint32_t rank;
    weir__block_shape full_shape;
    weir__block_shape tail_shape; /* m = 0 where there is no tail */
    weir_sha256 seed_prefix;      /* of the epoch seed's tuple, up to the epoch */
    weir_sha256 replay_prefix;    /* of data_replay_t's tuple, up to the epoch */
    uint8_t sampler_config_hash[WEIR_HASH_SIZE];
    const char *sampling_mode;
    const char *subsampling_mode;
    epoch_state current;
    epoch_state ahead;
    uint64_t instalment; /* units of work on the epoch ahead, a step */
    uint64_t hashed_epoch;
    bool has_hashed_epoch;
    uint8_t epoch_seed_hash[WEIR_HASH_SIZE]; /* of hashed_epoch */
};

weir_status weir_stage_parse(const char *name, weir_stage *out, weir_error *error) {
    static const char *const names[] = {"train", "eval", "infer"};
    for (unsigned i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (weir_stage)i;
            return WEIR_OK;
        }
    weir_status status = weir__fail(error, WEIR_INVALID_STAGE_TYPE, operator_name,
                                    "there is no stage '%s'; use train, eval or infer", name);
    weir__note_text(error, "stage", name, strlen(name));
    return status;
}

/* ---- Identities -----------------------------------------------------------------------------------------
 */

static void hash_head(weir_sha256 *sha, uint8_t major_and_info) {
    weir_sha256_update(sha, &major_and_info, 1);
}

/* Appends single canonical items: the tuples are arrays whose first items never change, so their hash state
 * is kept. */
static void hash_uint(weir_sha256 *sha, uint64_t value) {
    weir_cbor_writer w;
    weir_cbor_writer_hash(&w, sha);
    weir_cbor_uint(&w, value);
}

static void hash_text(weir_sha256 *sha, const char *text) {
    weir_cbor_writer w;
    weir_cbor_writer_hash(&w, sha);
    weir_cbor_text(&w, text);
}

static void hash_bytes(weir_sha256 *sha, const void *data, size_t size) {
    weir_cbor_writer w;
    weir_cbor_writer_hash(&w, sha);
    weir_cbor_bytes(&w, data, size);
}

static void prepare_identities(weir_sampler *s, const weir_manifest *manifest, const char *key,
                               const void *token, size_t token_size) {
    enum { ARRAY_OF_5 = 0x85, ARRAY_OF_7 = 0x87 };
    weir_sha256_init(&s->seed_prefix);
    hash_head(&s->seed_prefix, ARRAY_OF_5);
    hash_text(&s->seed_prefix, "nextbatch_epoch_seed_v2");
    hash_bytes(&s->seed_prefix, token, token_size);
    hash_bytes(&s->seed_prefix, weir_manifest_hash(manifest), WEIR_HASH_SIZE);
    hash_text(&s->seed_prefix, key);
    weir_sha256_init(&s->replay_prefix);
    hash_head(&s->replay_prefix, ARRAY_OF_7);
    hash_text(&s->replay_prefix, "nextbatch_v2");
    hash_bytes(&s->replay_prefix, token, token_size);
    hash_text(&s->replay_prefix, key);
}

static void make_epoch_seed(const weir_sampler *s, uint64_t epoch, uint8_t seed[16]) {
    uint8_t digest[WEIR_HASH_SIZE];
    weir_sha256 sha = s->seed_prefix;
    hash_uint(&sha, epoch);
    weir_sha256_final(&sha, digest);
    memcpy(seed, digest, 16);
}

static void make_replay_token(const weir_sampler *s, weir_cursor cursor, uint8_t digest[WEIR_HASH_SIZE]) {
    weir_sha256 sha = s->replay_prefix;
    hash_uint(&sha, cursor.epoch);
    hash_uint(&sha, cursor.global_index);
    hash_uint(&sha, s->world_size);
    hash_uint(&sha, s->rank);
    weir_sha256_final(&sha, digest);
}

static const char *sampling_mode_of(weir_stage stage, const weir_data_config *data) {
    static const char *const modes[2][2] = {
        {"SHUFFLE_WITHOUT_REPLACEMENT_BLOCK_AFFINE_V1", "SHUFFLE_WITHOUT_REPLACEMENT_BLOCK_FEISTEL_V1"},
        {"SHUFFLE_STREAMING_BLOCK_AFFINE_V1", "SHUFFLE_STREAMING_BLOCK_FEISTEL_V1"},
    };
    return stage == WEIR_STAGE_TRAIN ? modes[data->epoch_boundary][data->intra_block] : "SEQUENTIAL_V1";
}

static const char *subsampling_mode_of(weir_stage stage, const weir_data_config *data) {
    if (stage != WEIR_STAGE_TRAIN)
        return "NONE";
    return data->epoch_boundary == WEIR_BOUNDARY_STREAM ? "SHUFFLE_STREAMING" : "SHUFFLE_WITHOUT_REPLACEMENT";
}

static weir_status hash_config(weir_sampler *s, weir_error *error) {
    weir_sha256 sha;
    weir_cbor_writer w;
    weir_sha256_init(&sha);
    weir_cbor_writer_hash(&w, &sha);
    weir_cbor_array(&w, 6);
    weir_cbor_text(&w, s->sampling_mode);
    weir_cbor_uint(&w, s->data.sampler_block_size);
    weir_cbor_bool(&w, s->data.drop_last);
    weir_cbor_text(&w, s->data.rotate ? "epoch_seed_rule_v2+rotate_v1" : "epoch_seed_rule_v2");
    weir_cbor_text(&w, s->data.intra_block == WEIR_INTRA_FEISTEL_V1 ? "intra_block_feistel_v1"
                                                                    : "intra_block_affine_coprime_v1");
    weir_cbor_text(&w, "rank_contiguous_shard_v1");
    weir_status status = weir_cbor_finish(&w, error);
    weir_sha256_final(&sha, s->sampler_config_hash);
    return status;
}

/* ---- Opening: checks 1 to 7 of the contract -------------------------------------------------------------
 */

static weir_status check_cardinality(const weir_dataset *dataset, const weir_sampler_options *options,
                                     weir_error *error) {
    if (dataset->cardinality == 0)
        return weir__fail(error, WEIR_CARDINALITY_MISMATCH, operator_name,
                          "dataset '%s' has cardinality 0; remove it from the manifest or fill it",
                          dataset->key);
    if (!options->store_cardinality || *options->store_cardinality == dataset->cardinality)
        return WEIR_OK;
    weir_status status = weir__fail(error, WEIR_CARDINALITY_MISMATCH, operator_name,
                                    "dataset '%s' has %llu samples in the manifest and %llu in the store; "
                                    "write the manifest anew from the "
                                    "store that you train on",
                                    dataset->key, (unsigned long long)dataset->cardinality,
                                    (unsigned long long)*options->store_cardinality);
    weir__note_uint(error, "manifest_cardinality", dataset->cardinality);
    weir__note_uint(error, "store_cardinality", *options->store_cardinality);
    return status;
}

static weir_status inconsistent_batch(weir_error *error, uint64_t batch, uint32_t world, const char *advice) {
    weir_status status = weir__fail(error, WEIR_BATCH_SIZE_INCONSISTENT, operator_name,
                                    "global_batch_size %llu does not work with world_size %u; %s",
                                    (unsigned long long)batch, world, advice);
    weir__note_uint(error, "global_batch_size", batch);
    weir__note_uint(error, "world_size", world);
    return status;
}

static weir_status check_batch_size(uint64_t batch, uint32_t world, weir_error *error) {
    if (world == 0)
        return inconsistent_batch(error, batch, world, "at least one rank is needed");
    if (batch == 0)
        return inconsistent_batch(error, batch, world, "choose a positive multiple of the world size");
    if (batch % world == 0)
        return WEIR_OK;
    uint64_t below = batch - batch % world;
    char advice[96];
    if (below == 0 || below > UINT64_MAX - world)
        snprintf(advice, sizeof advice, "choose %llu", (unsigned long long)(below ? below : world));
    else
        snprintf(advice, sizeof advice, "choose %llu or %llu", (unsigned long long)below,
                 (unsigned long long)(below + world));
    weir_status status = weir__fail(error, WEIR_BATCH_SIZE_INCONSISTENT, operator_name,
                                    "global_batch_size %llu is not a multiple of world_size %u; %s",
                                    (unsigned long long)batch, world, advice);
    weir__note_uint(error, "global_batch_size", batch);
    weir__note_uint(error, "world_size", world);
    return status;
}

static weir_status check_config(const weir_manifest *manifest, const weir_dataset *dataset,
                                const weir_sampler_options *options, weir_error *error) {
    uint64_t batch = weir_manifest_global_batch_size(manifest);
    const weir_data_config *data = weir_manifest_data(manifest);
    weir_status status = check_cardinality(dataset, options, error);
    if (status == WEIR_OK)
        status = check_batch_size(batch, options->world_size, error);
    if (status != WEIR_OK)
        return status;
    if (options->rank >= options->world_size) {
        status = weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                            "rank %u does not exist in a world of %u; ranks count from 0", options->rank,
                            options->world_size);
        weir__note_uint(error, "rank", options->rank);
        weir__note_uint(error, "world_size", options->world_size);
        return status;
    }
    if (data->sampler_block_size == 0)
        return weir__fail(error, WEIR_BATCH_SIZE_INCONSISTENT, operator_name,
                          "sampler_block_size is 0; choose at least 1 (the default is 1048576)");
    bool is_strict_train = options->stage == WEIR_STAGE_TRAIN && data->epoch_boundary == WEIR_BOUNDARY_STRICT;
    if (is_strict_train && data->drop_last && batch > dataset->cardinality) {
        status = weir__fail(
            error, WEIR_BATCH_SIZE_INCONSISTENT, operator_name,
            "global_batch_size %llu is larger than dataset '%s' (%llu samples) and drop_last is set, so an "
            "epoch would have no batch; lower the batch size or unset drop_last",
            (unsigned long long)batch, dataset->key, (unsigned long long)dataset->cardinality);
        weir__note_uint(error, "global_batch_size", batch);
        weir__note_uint(error, "cardinality", dataset->cardinality);
    }
    return status;
}

static weir_status find_dataset(const weir_manifest *manifest, const char *key, const weir_dataset **out,
                                weir_error *error) {
    *out = weir_manifest_find(manifest, key);
    if (*out)
        return WEIR_OK;
    size_t count = weir_manifest_dataset_count(manifest);
    weir_status status = weir__fail(
        error, WEIR_INVALID_DATASET_KEY, operator_name, "the manifest has no dataset '%s'; it has %s%s%s",
        key, count ? "'" : "none", count ? weir_manifest_dataset(manifest, 0)->key : "",
        count > 1 ? "' and others"
        : count   ? "'"
                  : "");
    weir__note_text(error, "dataset_key", key, strlen(key));
    return status;
}

/* Enough work a step that the next epoch's order is done when this epoch ends. */
static uint64_t instalment_of(const weir_sampler *s) {
    uint64_t steps = s->epoch_limit / s->global_batch_size;
    uint64_t work = s->full_blocks > UINT64_MAX / 2 ? UINT64_MAX : 2 * s->full_blocks;
    uint64_t share = steps ? work / steps + 1 : work;
    return share > INSTALMENT_MIN ? share : INSTALMENT_MIN;
}

static void configure(weir_sampler *s, const weir_manifest *manifest, const weir_dataset *dataset,
                      const weir_sampler_options *options) {
    s->stage = options->stage;
    s->data = *weir_manifest_data(manifest);
    s->cardinality = dataset->cardinality;
    s->global_batch_size = weir_manifest_global_batch_size(manifest);
    s->world_size = options->world_size;
    s->rank = options->rank;
    s->micro_batch_size = s->global_batch_size / s->world_size;
    s->epoch_limit = s->cardinality;
    bool is_strict_train = s->stage == WEIR_STAGE_TRAIN && s->data.epoch_boundary == WEIR_BOUNDARY_STRICT;
    if (is_strict_train && s->data.drop_last)
        s->epoch_limit -= s->cardinality % s->global_batch_size;
    s->sampling_mode = sampling_mode_of(s->stage, &s->data);
    s->subsampling_mode = subsampling_mode_of(s->stage, &s->data);
    s->full_blocks = s->cardinality / s->data.sampler_block_size;
    s->instalment = instalment_of(s);
}

static weir_status open_orders(weir_sampler *s, weir_error *error) {
    if (s->stage != WEIR_STAGE_TRAIN)
        return WEIR_OK;
    weir__block_shape_init(&s->full_shape, s->data.sampler_block_size);
    weir__block_shape_init(&s->tail_shape, s->cardinality % s->data.sampler_block_size);
    if (weir__block_order_open(&s->current.order, s->env, s->full_blocks) &&
        weir__block_order_open(&s->ahead.order, s->env, s->full_blocks))
        return WEIR_OK;
    weir_status status =
        weir__fail(error, WEIR_OUT_OF_MEMORY, operator_name,
                   "no memory for the order of %llu blocks; raise sampler_block_size above %llu",
                   (unsigned long long)s->full_blocks, (unsigned long long)s->data.sampler_block_size);
    weir__note_uint(error, "blocks", s->full_blocks);
    return status;
}

weir_status weir_sampler_open(const weir_env *env, const weir_manifest *manifest,
                              const weir_sampler_options *options, weir_sampler **out, weir_error *error) {
    env = weir__env(env);
    if (options->size < sizeof *options)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "options.size is %zu; set it to sizeof(weir_sampler_options)", options->size);
    if (options->stage != WEIR_STAGE_TRAIN && options->stage != WEIR_STAGE_EVAL &&
        options->stage != WEIR_STAGE_INFER)
        return weir__fail(error, WEIR_INVALID_STAGE_TYPE, operator_name, "there is no stage number %d",
                          (int)options->stage);
    const weir_dataset *dataset;
    weir_status status = find_dataset(manifest, options->dataset, &dataset, error);
    if (status == WEIR_OK)
        status = check_config(manifest, dataset, options, error);
    if (status != WEIR_OK)
        return status;
    weir_sampler *s = weir__allocate_zero(env, 1, sizeof *s);
    if (!s)
        return weir__out_of_memory(error, operator_name, sizeof *s);
    s->env = env;
    configure(s, manifest, dataset, options);
    bool has_token = options->token != NULL;
    prepare_identities(s, manifest, dataset->key, has_token ? options->token : weir_manifest_token(manifest),
                       has_token ? options->token_size : WEIR_TOKEN_SIZE);
    status = hash_config(s, error);
    if (status == WEIR_OK)
        status = open_orders(s, error);
    if (status != WEIR_OK) {
        weir_sampler_close(s);
        return status;
    }
    *out = s;
    return WEIR_OK;
}

void weir_sampler_close(weir_sampler *sampler) {
    if (!sampler)
        return;
    weir__block_order_close(&sampler->current.order, sampler->env);
    weir__block_order_close(&sampler->ahead.order, sampler->env);
    weir__release(sampler->env, sampler);
}

/* ---- Epochs ---------------------------------------------------------------------------------------------
 */

static uint64_t rotation_under(const weir_sampler *s, weir_seed seed) {
    return s->data.rotate ? weir__scale(weir__philox(seed, WEIR_DOMAIN_ROTATION, 0), s->cardinality) : 0;
}

static void set_epoch(weir_sampler *s, epoch_state *state, uint64_t epoch) {
    uint8_t seed[16];
    make_epoch_seed(s, epoch, seed);
    state->is_set = true;
    state->epoch = epoch;
    state->seed = weir_seed_load(seed);
    state->rotation = rotation_under(s, state->seed);
    weir__block_order_restart(&state->order);
}

static void swap_epochs(weir_sampler *s) {
    epoch_state kept = s->current;
    s->current = s->ahead;
    s->ahead = kept;
}

/* The epoch's state with its whole order. Moving on to the epoch ahead, and back to the one just left, costs
 * nothing. */
static const epoch_state *use_epoch(weir_sampler *s, uint64_t epoch) {
    if (s->current.is_set && s->current.epoch == epoch)
        return &s->current;
    if (s->ahead.is_set && s->ahead.epoch == epoch)
        swap_epochs(s);
    else
        set_epoch(s, &s->current, epoch);
    weir__block_order_advance(&s->current.order, s->current.seed, UINT64_MAX);
    return &s->current;
}

/* The epoch's rotation, without making its order. */
static uint64_t rotation_of(const weir_sampler *s, uint64_t epoch) {
    uint8_t seed[16];
    if (!s->data.rotate)
        return 0;
    if (s->current.is_set && s->current.epoch == epoch)
        return s->current.rotation;
    if (s->ahead.is_set && s->ahead.epoch == epoch)
        return s->ahead.rotation;
    make_epoch_seed(s, epoch, seed);
    return rotation_under(s, weir_seed_load(seed));
}

static void prepare_ahead(weir_sampler *s) {
    uint64_t next = s->current.epoch + 1;
    if (!s->current.is_set || next == 0)
        return;
    if (!s->ahead.is_set || s->ahead.epoch != next)
        set_epoch(s, &s->ahead, next);
    weir__block_order_advance(&s->ahead.order, s->ahead.seed, s->instalment);
}

/* ---- Positions to indices -------------------------------------------------------------------------------
 */

typedef struct place {
    const weir__block_shape *shape;
    uint64_t block_id;
    uint64_t start; /* of the block */
    uint64_t local;
} place;

/* Where a virtual position (after rotation) lies. The short tail block stays last. */
static place locate(const weir_sampler *s, const epoch_state *epoch, uint64_t position) {
    uint64_t block_size = s->data.sampler_block_size;
    uint64_t slot = position / block_size;
    bool is_tail = slot == s->full_blocks;
    uint64_t block_id = is_tail ? slot : weir__block_order_at(&epoch->order, slot);
    return (place){
        .shape = is_tail ? &s->tail_shape : &s->full_shape,
        .block_id = block_id,
        .start = block_id * block_size,
        .local = position - slot * block_size,
    };
}

/* (position + rotation) mod N without overflow. */
static uint64_t rotate(const weir_sampler *s, uint64_t rotation, uint64_t position) {
    uint64_t room = s->cardinality - rotation;
    return position >= room ? position - room : position + rotation;
}

/* Consecutive virtual positions that do not pass the end of the epoch. */
static void fill_unrotated(const weir_sampler *s, const epoch_state *epoch, uint64_t position, uint64_t count,
                           uint64_t *out) {
    while (count > 0) {
        place p = locate(s, epoch, position);
        uint64_t rest = p.shape->m - p.local;
        uint64_t run = rest < count ? rest : count;
        weir__block_fill(p.shape, s->data.intra_block, epoch->seed, p.block_id, p.start, p.local, (size_t)run,
                         out);
        position += run;
        count -= run;
        out += run;
    }
}

static void fill_shuffled(weir_sampler *s, uint64_t epoch_number, uint64_t position, uint64_t count,
                          uint64_t *out) {
    if (count == 0)
        return;
    const epoch_state *epoch = use_epoch(s, epoch_number);
    uint64_t from = rotate(s, epoch->rotation, position);
    uint64_t before_end = s->cardinality - from;
    uint64_t run = before_end < count ? before_end : count;
    fill_unrotated(s, epoch, from, run, out);
    fill_unrotated(s, epoch, 0, count - run, out + run);
}

static void fill_sequential(uint64_t cardinality, uint64_t position, uint64_t count, uint64_t *out) {
    uint64_t index = position % cardinality;
    for (uint64_t i = 0; i < count; i++) {
        out[i] = index++;
        if (index == cardinality)
            index = 0;
    }
}

/* Stream mode: positions beyond the epoch go on in the next ones. */
static void fill_stream(weir_sampler *s, weir_cursor from, uint64_t count, uint64_t *out) {
    uint64_t epoch = from.epoch + from.global_index / s->cardinality;
    uint64_t position = from.global_index % s->cardinality;
    while (count > 0) {
        uint64_t rest = s->cardinality - position;
        uint64_t run = rest < count ? rest : count;
        fill_shuffled(s, epoch, position, run, out);
        out += run;
        count -= run;
        position = 0;
        epoch++;
    }
}

static bool is_stream(const weir_sampler *s) {
    return s->stage == WEIR_STAGE_TRAIN && s->data.epoch_boundary == WEIR_BOUNDARY_STREAM;
}

/* ---- A step ---------------------------------------------------------------------------------------------
 */

/* Distinct blocks behind `count` consecutive positions of one epoch. After rotation they may run past the end
 * and come back to the block that they began in, which then counts once. */
static uint64_t count_blocks(const weir_sampler *s, uint64_t epoch, uint64_t position, uint64_t count) {
    uint64_t block_size = s->data.sampler_block_size;
    if (count == 0)
        return 0;
    uint64_t first = rotate(s, rotation_of(s, epoch), position);
    uint64_t before_end = s->cardinality - first;
    if (count <= before_end)
        return (first + (count - 1)) / block_size - first / block_size + 1;
    uint64_t last_block = (s->cardinality - 1) / block_size;
    uint64_t wrapped_block = (count - before_end - 1) / block_size;
    uint64_t blocks = (last_block - first / block_size + 1) + (wrapped_block + 1);
    return wrapped_block >= first / block_size ? blocks - 1 : blocks;
}

static uint64_t count_stream_blocks(const weir_sampler *s, weir_cursor from, uint64_t count) {
    uint64_t epoch = from.epoch + from.global_index / s->cardinality;
    uint64_t position = from.global_index % s->cardinality;
    uint64_t rest = s->cardinality - position;
    if (count <= rest)
        return count_blocks(s, epoch, position, count);
    uint64_t blocks_of_epoch = s->full_blocks + (s->tail_shape.m != 0);
    uint64_t whole_epochs = (count - rest) / s->cardinality;
    uint64_t last = (count - rest) % s->cardinality;
    return count_blocks(s, epoch, position, rest) + whole_epochs * blocks_of_epoch +
           count_blocks(s, epoch + 1 + whole_epochs, 0, last);
}

static weir_status fail_at_cursor(weir_sampler *s, weir_status code, weir_cursor cursor, const char *what,
                                  weir_error *error) {
    weir_status status =
        weir__fail(error, code, operator_name, "cursor (epoch %llu, global_index %llu) %s",
                   (unsigned long long)cursor.epoch, (unsigned long long)cursor.global_index, what);
    weir__note_uint(error, "epoch", cursor.epoch);
    weir__note_uint(error, "global_index", cursor.global_index);
    weir__note_uint(error, "cardinality", s->cardinality);
    if (error) {
        error->rank = s->rank;
        error->replay_token_size = WEIR_HASH_SIZE;
        make_replay_token(s, cursor, error->replay_token);
    }
    return status;
}

static weir_status counter_overflow(weir_sampler *s, weir_cursor cursor, weir_error *error) {
    return fail_at_cursor(s, WEIR_COUNTER_OVERFLOW, cursor,
                          "cannot advance: a counter would pass 2^64-1; start from an earlier epoch", error);
}

/* Train within an epoch: a rank's share of the last batch may be short or empty. False where the epoch cannot
 * be counted on. */
static bool step_strict(const weir_sampler *s, weir_cursor cursor, weir_step *step) {
    uint64_t limit = s->epoch_limit;
    uint64_t remaining = cursor.global_index < limit ? limit - cursor.global_index : 0;
    uint64_t rank_start = s->rank * s->micro_batch_size;
    uint64_t produced = remaining < s->global_batch_size ? remaining : s->global_batch_size;
    uint64_t mine = remaining > rank_start ? remaining - rank_start : 0;
    step->count = step->valid_count = mine < s->micro_batch_size ? mine : s->micro_batch_size;
    step->effective_batch_size = produced;
    if (remaining > produced) {
        step->cursor_next = (weir_cursor){cursor.epoch, cursor.global_index + produced};
        return true;
    }
    step->cursor_next = (weir_cursor){cursor.epoch + 1, 0};
    return cursor.epoch != UINT64_MAX;
}

static bool step_stream(const weir_sampler *s, weir_cursor cursor, weir_step *step) {
    uint64_t end, epoch;
    if (__builtin_add_overflow(cursor.global_index, s->global_batch_size, &end) ||
        __builtin_add_overflow(cursor.epoch, end / s->cardinality, &epoch))
        return false;
    step->count = step->valid_count = s->micro_batch_size;
    step->effective_batch_size = s->global_batch_size;
    step->cursor_next = (weir_cursor){epoch, end % s->cardinality};
    return true;
}

/* Eval and infer: every rank has the full shape; what lies beyond the epoch is wrapped and does not count as
 * valid. */
static bool step_sequential(const weir_sampler *s, weir_cursor cursor, weir_step *step) {
    uint64_t end;
    if (__builtin_add_overflow(cursor.global_index, s->global_batch_size, &end))
        return false;
    uint64_t first = cursor.global_index + s->rank * s->micro_batch_size;
    uint64_t valid = first < s->cardinality ? s->cardinality - first : 0;
    uint64_t remaining = s->cardinality - cursor.global_index;
    step->count = s->micro_batch_size;
    step->valid_count = valid < s->micro_batch_size ? valid : s->micro_batch_size;
    step->effective_batch_size = remaining < s->global_batch_size ? remaining : s->global_batch_size;
    if (end < s->cardinality) {
        step->cursor_next = (weir_cursor){cursor.epoch, end};
        return true;
    }
    step->cursor_next = (weir_cursor){cursor.epoch + 1, 0};
    return cursor.epoch != UINT64_MAX;
}

static weir_cursor first_position(const weir_sampler *s, weir_cursor cursor) {
    return (weir_cursor){cursor.epoch, cursor.global_index + s->rank * s->micro_batch_size};
}

static void describe(weir_sampler *s, weir_cursor cursor, weir_step *step) {
    step->cursor_before = cursor;
    step->is_shuffled = s->stage == WEIR_STAGE_TRAIN;
    step->sampler_block_size = s->data.sampler_block_size;
    step->micro_batch_size = s->micro_batch_size;
    step->global_batch_size = s->global_batch_size;
    step->effective_q = (double)s->global_batch_size / (double)s->cardinality;
    step->subsampling_mode = s->subsampling_mode;
    step->sampling_mode = s->sampling_mode;
    memcpy(step->sampler_config_hash, s->sampler_config_hash, WEIR_HASH_SIZE);
    make_replay_token(s, cursor, step->data_replay_t);
    if (!s->has_hashed_epoch || s->hashed_epoch != cursor.epoch) {
        uint8_t seed[16];
        make_epoch_seed(s, cursor.epoch, seed);
        weir_sha256_of(seed, sizeof seed, s->epoch_seed_hash);
        s->hashed_epoch = cursor.epoch;
        s->has_hashed_epoch = true;
    }
    memcpy(step->epoch_seed_hash, s->epoch_seed_hash, WEIR_HASH_SIZE);
}

weir_status weir_sampler_step(weir_sampler *s, weir_cursor cursor, weir_step *step, weir_error *error) {
    if (cursor.global_index >= s->cardinality)
        return fail_at_cursor(s, WEIR_GLOBAL_POSITION_EXCEEDS_CARDINALITY, cursor,
                              "lies beyond the dataset; an epoch's positions are below its cardinality",
                              error);
    weir_step made;
    memset(&made, 0, sizeof made);
    bool advanced = s->stage != WEIR_STAGE_TRAIN ? step_sequential(s, cursor, &made)
                    : is_stream(s)               ? step_stream(s, cursor, &made)
                                                 : step_strict(s, cursor, &made);
    if (!advanced)
        return counter_overflow(s, cursor, error);
    describe(s, cursor, &made);
    weir_cursor first = first_position(s, cursor);
    if (is_stream(s))
        made.blocks_materialized = count_stream_blocks(s, first, made.count);
    else if (made.is_shuffled)
        made.blocks_materialized = count_blocks(s, cursor.epoch, first.global_index, made.count);
    *step = made;
    return WEIR_OK;
}

void weir_sampler_indices(weir_sampler *s, const weir_step *step, uint64_t *out) {
    weir_cursor first = first_position(s, step->cursor_before);
    if (s->stage != WEIR_STAGE_TRAIN) {
        fill_sequential(s->cardinality, first.global_index, step->count, out);
        return;
    }
    if (is_stream(s))
        fill_stream(s, first, step->count, out);
    else
        fill_shuffled(s, first.epoch, first.global_index, step->count, out);
    prepare_ahead(s);
}

weir_status weir_sampler_range(weir_sampler *s, uint64_t epoch, uint64_t position, uint64_t count,
                               uint64_t *out, weir_error *error) {
    if (position >= s->cardinality || count > s->cardinality - position)
        return fail_at_cursor(s, WEIR_GLOBAL_POSITION_EXCEEDS_CARDINALITY, (weir_cursor){epoch, position},
                              "and the positions behind it do not lie inside the epoch", error);
    if (s->stage != WEIR_STAGE_TRAIN)
        fill_sequential(s->cardinality, position, count, out);
    else
        fill_shuffled(s, epoch, position, count, out);
    return WEIR_OK;
}

weir_status weir_sampler_index_at(weir_sampler *s, uint64_t epoch, uint64_t position, uint64_t *index,
                                  weir_error *error) {
    if (position >= s->cardinality)
        return fail_at_cursor(s, WEIR_GLOBAL_POSITION_EXCEEDS_CARDINALITY, (weir_cursor){epoch, position},
                              "lies beyond the dataset; an epoch's positions are below its cardinality",
                              error);
    if (s->stage != WEIR_STAGE_TRAIN) {
        *index = position;
        return WEIR_OK;
    }
    const epoch_state *state = use_epoch(s, epoch);
    place p = locate(s, state, rotate(s, state->rotation, position));
    *index = weir__block_index(p.shape, s->data.intra_block, state->seed, p.block_id, p.start, p.local);
    return WEIR_OK;
}

weir_status weir_intra_block_map(weir_intra_block kind, weir_seed seed, uint64_t block_id,
                                 uint64_t block_size, uint64_t cardinality, uint64_t local_position,
                                 uint64_t *index, weir_error *error) {
    static const char map_operator[] = "UML_OS.Data.SeededIntraBlockMap_v1";
    uint64_t start;
    bool is_inside =
        block_size > 0 && !__builtin_mul_overflow(block_id, block_size, &start) && start < cardinality;
    uint64_t rest = is_inside ? cardinality - start : 0;
    uint64_t m = rest < block_size ? rest : block_size;
    if (!is_inside || local_position >= m)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, map_operator,
                          "position %llu of block %llu (block size %llu) does not exist in a dataset of %llu",
                          (unsigned long long)local_position, (unsigned long long)block_id,
                          (unsigned long long)block_size, (unsigned long long)cardinality);
    weir__block_shape shape;
    weir__block_shape_init(&shape, m);
    *index = weir__block_index(&shape, kind, seed, block_id, start, local_position);
    return WEIR_OK;
}
