/* The inside of a sampler. Its parts: identity.c (hashes and seeds), sampler_open.c (the checks and the
 * configuration), positions.c (positions to indices), draw.c (the same, from a population), blocks.c (how
 * many blocks that takes), and sampler.c (a step). Everything beside the configuration is cache: a step is a
 * pure function of the cursor. */
#ifndef WEIR_SAMPLER_SAMPLER_H
#define WEIR_SAMPLER_SAMPLER_H

#include "base/internal.h"
#include "sampler/block_map.h"
#include "sampler/epoch.h"
#include "sampler/manifest.h"
#include "sampler/population.h"
#include "weir/sampler.h"

/* Names by their enum's number; NULL ends them. */
extern const char *const weir_sampler__stages[];

/* The sampling_mode by which a trace tells the stage eval_seeded from train. */
#define WEIR_SAMPLER__EVAL_SEEDED_MODE "SHUFFLE_EVAL_FEISTEL_V1"

typedef struct weir_sampler__epoch {
    bool is_set;
    uint64_t epoch;
    weir_seed seed;
    uint64_t rotation;
    weir_sampler__block_order order;
} weir_sampler__epoch;

struct weir_sampler {
    const weir_env *env;
    const char *failure_operator; /* NextBatch_v2 or NextBatch_v3 */
    const char *dataset;          /* its key */
    weir_stage stage;
    weir_sampling sampling; /* of this dataset */
    bool is_shuffled;       /* by blocks: neither in order nor from a population */
    weir_data_config data;
    uint64_t cardinality;
    weir_sampler__turns turns; /* of its batches; one if it does not train */
    uint64_t epoch_limit;      /* positions of an epoch that are used */
    uint64_t full_blocks;
    weir_sampler__divisor by_block_size;
    uint32_t world_size;
    uint32_t rank;
    weir_sampler__block_shape full_shape;
    weir_sampler__block_shape tail_shape; /* m = 0 if there is no tail */
    weir__sha256 seed_prefix;             /* of the epoch seed's tuple, up to the epoch */
    weir__sha256 replay_prefix;           /* of data_replay_t's tuple, up to the epoch */
    uint8_t sampler_config_hash[WEIR_HASH_SIZE];
    const char *sampling_mode;
    const char *subsampling_mode;
    const weir_population *population; /* that training draws from; NULL: it is shuffled */
    weir_sampler__place_map map;       /* of the period or epoch that was drawn from last, */
    uint64_t map_number;               /* which is this one */
    bool has_map;
    weir_sampler__epoch current;
    weir_sampler__epoch ahead;
    uint64_t instalment; /* units of work on the epoch ahead, a step */
    uint64_t hashed_epoch;
    bool has_hashed_epoch;
    uint8_t epoch_seed_hash[WEIR_HASH_SIZE]; /* of hashed_epoch */
};

static inline bool weir_sampler__is_stream(const weir_sampler *s) {
    return s->stage == WEIR_STAGE_TRAIN && s->data.epoch_boundary == WEIR_BOUNDARY_STREAM;
}

/* The turn of the batch that begins at a cursor; turns.count if none does. A single size may begin anywhere.
 */
static inline uint32_t weir_sampler__turn_of(const weir_sampler *s, weir_cursor cursor) {
    if (s->turns.count == 1)
        return 0;
    unsigned __int128 place = cursor.global_index;
    if (weir_sampler__is_stream(s))
        place += (unsigned __int128)cursor.epoch * s->cardinality;
    return weir_sampler__turn_at(&s->turns, (uint64_t)(place % weir_sampler__round_size(&s->turns)));
}

/* ---- identity.c ------------------------------------------------------------------------------ */

/* Sets the constant parts of the identities; with identify also the modes and the config's hash. A token of
 * NULL is the manifest's own. */
void weir_sampler__prepare(weir_sampler *s, const weir_manifest *manifest, const char *key, const void *token,
                           size_t token_size);
WEIR_CHECKED weir_status weir_sampler__identify(weir_sampler *s, const weir_manifest *manifest,
                                                const char *key, const void *token, size_t token_size,
                                                weir_error *error);
void weir_sampler__epoch_seed(const weir_sampler *s, uint64_t epoch, uint8_t seed[16]);
void weir_sampler__replay_token(const weir_sampler *s, weir_cursor cursor, uint8_t digest[WEIR_HASH_SIZE]);

/* ---- sampler.c ------------------------------------------------------------------------------- */

/* The same as weir_sampler_indices for `count` of a step's indices behind the first `skipped`. */
void weir_sampler__indices_from(weir_sampler *s, const weir_step *step, uint64_t skipped, uint64_t count,
                                uint64_t *out);

/* ---- positions.c ----------------------------------------------------------------------------- */

/* Positions [position, position + count) of an epoch, or of a stream from a cursor on. */
void weir_sampler__fill(weir_sampler *s, uint64_t epoch, uint64_t position, uint64_t count, uint64_t *out);
void weir_sampler__fill_stream(weir_sampler *s, weir_cursor from, uint64_t count, uint64_t *out);
/* Eval, infer and eval_seeded: what lies beyond the last sample begins again. */
void weir_sampler__fill_pass(const weir_sampler *s, uint64_t position, uint64_t count, uint64_t *out);

/* An epoch's rotation, without making its order; and (position + rotation) mod N without overflow. */
uint64_t weir_sampler__rotation(const weir_sampler *s, uint64_t epoch);
static inline uint64_t weir_sampler__rotate(const weir_sampler *s, uint64_t rotation, uint64_t position) {
    uint64_t room = s->cardinality - rotation;
    return position >= room ? position - room : position + rotation;
}

/* An instalment of the next epoch's block order. */
void weir_sampler__prepare_ahead(weir_sampler *s);

/* ---- draw.c ---------------------------------------------------------------------------------- */

/* The same where training draws from a population. Whether the contract's counters reach that far. */
void weir_sampler__draw(weir_sampler *s, uint64_t epoch, uint64_t position, uint64_t count, uint64_t *out);
bool weir_sampler__can_draw(const weir_sampler *s, uint64_t epoch, unsigned __int128 last_position);

/* ---- blocks.c -------------------------------------------------------------------------------- */

/* Distinct (epoch, block) pairs of `count` positions from a cursor on, which may run into later epochs.
 */
uint64_t weir_sampler__step_blocks(const weir_sampler *s, weir_cursor from, uint64_t count);

/* Distinct blocks of this rank's samples of the cursor's epoch, over all its steps, the one at the cursor, of
 * that turn, included. */
uint64_t weir_sampler__epoch_blocks(const weir_sampler *s, weir_cursor cursor, uint32_t turn);

/* Adds to an error of a step at a cursor which call it is about, as weir_sampler_name_call does. */
__attribute__((cold)) void weir_sampler__name_step(const weir_sampler *s, weir_cursor cursor,
                                                   weir_error *error);

/* An error at a cursor. */
__attribute__((cold)) weir_status weir_sampler__fail_at(const weir_sampler *s, weir_status code,
                                                        weir_cursor cursor, const char *what,
                                                        weir_error *error);

#endif
