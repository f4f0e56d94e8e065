/* A sampler's identities. The tuples that are hashed are arrays whose first items never change, so the hash
 * state after those is kept, and a step hashes its few integers only. */
#include "sampler/sampler.h"

#include <string.h>

/* Appends an item to a tuple of which the state is kept. */
static void hash_uint(weir__sha256 *sha, uint64_t value) {
    weir_cbor_writer w;
    weir__cbor_writer_hash(&w, sha);
    weir_cbor_uint(&w, value);
}

void weir_sampler__prepare(weir_sampler *s, const weir_manifest *manifest, const char *key, const void *token,
                           size_t token_size) {
    weir_cbor_writer w;
    token_size = token ? token_size : WEIR_TOKEN_SIZE;
    token = token ? token : weir_manifest_describe(manifest)->token;
    weir__sha256_init(&s->seed_prefix);
    weir__cbor_writer_hash(&w, &s->seed_prefix);
    weir_cbor_array(&w, 5);
    weir_cbor_text(&w, "nextbatch_epoch_seed_v2");
    weir_cbor_bytes(&w, token, token_size);
    weir_cbor_bytes(&w, weir_manifest_describe(manifest)->hash, WEIR_HASH_SIZE);
    weir_cbor_text(&w, key);
    weir__sha256_init(&s->replay_prefix);
    weir__cbor_writer_hash(&w, &s->replay_prefix);
    weir_cbor_array(&w, 7);
    weir_cbor_text(&w, "nextbatch_v2");
    weir_cbor_bytes(&w, token, token_size);
    weir_cbor_text(&w, key);
}

void weir_sampler__epoch_seed(const weir_sampler *s, uint64_t epoch, uint8_t seed[16]) {
    uint8_t digest[WEIR_HASH_SIZE];
    weir__sha256 sha = s->seed_prefix;
    hash_uint(&sha, epoch);
    weir__sha256_final(&sha, digest);
    memcpy(seed, digest, 16);
}

void weir_sampler__replay_token(const weir_sampler *s, weir_cursor cursor, uint8_t digest[WEIR_HASH_SIZE]) {
    weir__sha256 sha = s->replay_prefix;
    hash_uint(&sha, cursor.epoch);
    hash_uint(&sha, cursor.global_index);
    hash_uint(&sha, s->world_size);
    hash_uint(&sha, s->rank);
    weir__sha256_final(&sha, digest);
}

/* By sampling and boundary: [0] is by block order and map inside a block. */
static const char *sampling_mode_of(const weir_sampler *s) {
    static const char *const shuffled[2][2][2] = {
        {{"SHUFFLE_WITHOUT_REPLACEMENT_BLOCK_AFFINE_V1", "SHUFFLE_WITHOUT_REPLACEMENT_BLOCK_FEISTEL_V1"},
         {"SHUFFLE_WITHOUT_REPLACEMENT_STATELESS_BLOCK_AFFINE_V1",
          "SHUFFLE_WITHOUT_REPLACEMENT_STATELESS_BLOCK_FEISTEL_V1"}},
        {{"SHUFFLE_STREAMING_BLOCK_AFFINE_V1", "SHUFFLE_STREAMING_BLOCK_FEISTEL_V1"},
         {"SHUFFLE_STREAMING_STATELESS_BLOCK_AFFINE_V1", "SHUFFLE_STREAMING_STATELESS_BLOCK_FEISTEL_V1"}},
    };
    static const char *const drawn[2][2] = {{"CLASS_BALANCED_V1", "CLASS_BALANCED_STREAMING_V1"},
                                            {"WEIGHTED_V1", "WEIGHTED_STREAMING_V1"}};
    const weir_data_config *data = &s->data;
    if (s->stage == WEIR_STAGE_EVAL_SEEDED)
        return WEIR_SAMPLER__EVAL_SEEDED_MODE;
    if (s->stage != WEIR_STAGE_TRAIN)
        return "SEQUENTIAL_V1";
    if (s->sampling != WEIR_SAMPLING_SHUFFLED)
        return drawn[s->sampling == WEIR_SAMPLING_WEIGHTED][data->epoch_boundary];
    return shuffled[data->epoch_boundary][data->block_order][data->intra_block];
}

static const char *subsampling_mode_of(const weir_sampler *s) {
    if (s->stage != WEIR_STAGE_TRAIN)
        return "NONE";
    if (s->sampling != WEIR_SAMPLING_SHUFFLED)
        return s->sampling == WEIR_SAMPLING_WEIGHTED ? "WEIGHTED" : "CLASS_BALANCED";
    return s->data.epoch_boundary == WEIR_BOUNDARY_STREAM ? "SHUFFLE_STREAMING"
                                                          : "SHUFFLE_WITHOUT_REPLACEMENT";
}

weir_status weir_sampler__identify(weir_sampler *s, const weir_manifest *manifest, const char *key,
                                   const void *token, size_t token_size, weir_error *error) {
    weir__sha256 sha;
    weir_cbor_writer w;
    s->sampling_mode = sampling_mode_of(s);
    s->subsampling_mode = subsampling_mode_of(s);
    weir_sampler__prepare(s, manifest, key, token, token_size);
    weir__sha256_init(&sha);
    weir__cbor_writer_hash(&w, &sha);
    weir_cbor_array(&w, 6);
    weir_cbor_text(&w, s->sampling_mode);
    weir_cbor_uint(&w, s->data.sampler_block_size);
    weir_cbor_bool(&w, s->data.drop_last);
    weir_cbor_text(&w, s->data.rotate ? "epoch_seed_rule_v2+rotate_v1" : "epoch_seed_rule_v2");
    weir_cbor_text(&w, s->data.intra_block == WEIR_INTRA_FEISTEL_V1 ? "intra_block_feistel_v1"
                                                                    : "intra_block_affine_coprime_v1");
    weir_cbor_text(&w, "rank_contiguous_shard_v1");
    weir_status status = weir_cbor_finish(&w, error);
    weir__sha256_final(&sha, s->sampler_config_hash);
    return status;
}
