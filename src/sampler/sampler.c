/* NextBatch_v2: the step at a cursor (checks 8 and 9 of the contract) and its indices. */
#include "sampler/sampler.h"

#include <string.h>

#include "base/floating.h"
#include "weir_tool/sampler_tools.h"

/* Unless the error says so already. */
void weir_sampler__name_step(const weir_sampler *s, weir_cursor cursor, weir_error *error) {
    bool has_key = false;
    if (!error)
        return;
    for (uint32_t i = 0; i < error->diagnostic_count; i++)
        has_key = has_key || strcmp(error->diagnostics[i].name, "dataset_key") == 0;
    if (!has_key)
        weir__note_text(error, "dataset_key", s->dataset, strlen(s->dataset));
    error->rank = s->rank;
    if (error->replay_token_size > 0)
        return;
    error->replay_token_size = WEIR_HASH_SIZE;
    weir_sampler__replay_token(s, cursor, error->replay_token);
}

void weir_sampler_name_call(const weir_manifest *manifest, const weir_sampler_options *options,
                            weir_error *error) {
    weir_sampler s = {.dataset = options->dataset, .world_size = options->world_size, .rank = options->rank};
    if (!error)
        return;
    weir_sampler__prepare(&s, manifest, options->dataset, options->token, options->token_size);
    weir_sampler__name_step(&s, options->cursor, error);
}

weir_status weir_sampler__fail_at(const weir_sampler *s, weir_status code, weir_cursor cursor,
                                  const char *what, weir_error *error) {
    char size[48] = "";
    if (code == WEIR_GLOBAL_POSITION_EXCEEDS_CARDINALITY)
        snprintf(size, sizeof size, "; the dataset has %llu samples", (unsigned long long)s->cardinality);
    weir_status status =
        weir__fail(error, code, s->failure_operator, "cursor (epoch %llu, global_index %llu) %s%s",
                   (unsigned long long)cursor.epoch, (unsigned long long)cursor.global_index, what, size);
    weir__note_uint(error, "epoch", cursor.epoch);
    weir__note_uint(error, "global_index", cursor.global_index);
    weir__note_uint(error, "cardinality", s->cardinality);
    weir_sampler__name_step(s, cursor, error);
    return status;
}

/* Train within an epoch: a rank's share of the last batch may be short or empty. False if the epoch
 * cannot be counted on. */
static bool step_strict(const weir_sampler *s, weir_cursor cursor, weir_step *step) {
    uint64_t limit = s->epoch_limit, size = step->global_batch_size, share = step->micro_batch_size;
    uint64_t remaining = cursor.global_index < limit ? limit - cursor.global_index : 0;
    uint64_t rank_start = s->rank * share;
    uint64_t produced = remaining < size ? remaining : size;
    uint64_t mine = remaining > rank_start ? remaining - rank_start : 0;
    step->count = step->valid_count = mine < share ? mine : share;
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
    if (__builtin_add_overflow(cursor.global_index, step->global_batch_size, &end) ||
        __builtin_add_overflow(cursor.epoch, end / s->cardinality, &epoch))
        return false;
    step->count = step->valid_count = step->micro_batch_size;
    step->effective_batch_size = step->global_batch_size;
    step->cursor_next = (weir_cursor){epoch, end % s->cardinality};
    return true;
}

/* A pass of eval, infer or eval_seeded: every rank has the full shape; what lies beyond the last sample is
 * wrapped and does not count as valid. */
static bool step_pass(const weir_sampler *s, weir_cursor cursor, weir_step *step) {
    uint64_t end, size = step->global_batch_size, share = step->micro_batch_size;
    if (__builtin_add_overflow(cursor.global_index, size, &end))
        return false;
    uint64_t first = cursor.global_index + s->rank * share;
    uint64_t valid = first < s->cardinality ? s->cardinality - first : 0;
    uint64_t remaining = s->cardinality - cursor.global_index;
    step->count = share;
    step->valid_count = valid < share ? valid : share;
    step->effective_batch_size = remaining < size ? remaining : size;
    if (end < s->cardinality) {
        step->cursor_next = (weir_cursor){cursor.epoch, end};
        return true;
    }
    step->cursor_next = (weir_cursor){cursor.epoch + 1, 0};
    return cursor.epoch != UINT64_MAX;
}

/* This rank's first position of a step. */
static weir_cursor first_position(const weir_sampler *s, const weir_step *step) {
    weir_cursor cursor = step->cursor_before;
    return (weir_cursor){cursor.epoch, cursor.global_index + s->rank * step->micro_batch_size};
}

static void describe(weir_sampler *s, weir_cursor cursor, weir_step *step) {
    step->is_shuffled = s->stage == WEIR_STAGE_TRAIN || s->stage == WEIR_STAGE_EVAL_SEEDED;
    step->sampler_block_size = s->data.sampler_block_size;
    step->effective_q = weir__quotient(step->global_batch_size, s->cardinality);
    step->subsampling_mode = s->subsampling_mode;
    step->sampling_mode = s->sampling_mode;
    memcpy(step->sampler_config_hash, s->sampler_config_hash, WEIR_HASH_SIZE);
    weir_sampler__replay_token(s, cursor, step->data_replay_t);
    if (!s->has_hashed_epoch || s->hashed_epoch != cursor.epoch) {
        uint8_t seed[16];
        weir_sampler__epoch_seed(s, cursor.epoch, seed);
        weir__sha256_of(seed, sizeof seed, s->epoch_seed_hash);
        s->hashed_epoch = cursor.epoch;
        s->has_hashed_epoch = true;
    }
    memcpy(step->epoch_seed_hash, s->epoch_seed_hash, WEIR_HASH_SIZE);
}

weir_status weir_sampler_step(weir_sampler *s, weir_cursor cursor, weir_step *step, weir_error *error) {
    if (cursor.global_index >= s->cardinality)
        return weir_sampler__fail_at(s, WEIR_GLOBAL_POSITION_EXCEEDS_CARDINALITY, cursor,
                                     "lies beyond the dataset", error);
    uint32_t turn = weir_sampler__turn_of(s, cursor);
    if (turn == s->turns.count)
        return weir_sampler__fail_at(
            s, WEIR_CONTRACT_VIOLATION, cursor,
            "lies inside a batch: the steps have several lengths, and none begins there; take cursors from "
            "steps, or from where a step is located",
            error);
    weir_step made;
    memset(&made, 0, sizeof made);
    made.cursor_before = cursor;
    made.sequence_length = s->turns.lengths[turn];
    made.global_batch_size = weir_sampler__turn_size(&s->turns, turn);
    made.micro_batch_size = made.global_batch_size / s->world_size;
    bool advanced = s->stage != WEIR_STAGE_TRAIN ? step_pass(s, cursor, &made)
                    : weir_sampler__is_stream(s) ? step_stream(s, cursor, &made)
                                                 : step_strict(s, cursor, &made);
    unsigned __int128 end = (unsigned __int128)cursor.global_index + made.global_batch_size;
    if (!advanced || !weir_sampler__can_draw(s, cursor.epoch, end - 1))
        return weir_sampler__fail_at(
            s, WEIR_COUNTER_OVERFLOW, cursor,
            "cannot advance: a counter would pass 2^64-1; start from an earlier epoch", error);
    assert(made.valid_count <= made.count && made.count <= made.micro_batch_size &&
           "a step beyond its share");
    describe(s, cursor, &made);
    if (s->is_shuffled) {
        made.blocks_materialized =
            made.count ? weir_sampler__step_blocks(s, first_position(s, &made), made.count) : 0;
        made.blocks_materialized_this_epoch = weir_sampler__epoch_blocks(s, cursor, turn);
    }
    *step = made;
    return WEIR_OK;
}

void weir_sampler__indices_from(weir_sampler *s, const weir_step *step, uint64_t skipped, uint64_t count,
                                uint64_t *out) {
    weir_cursor first = first_position(s, step);
    assert(skipped <= step->count && count <= step->count - skipped && "samples beyond a step");
    first.global_index += skipped;
    if (s->stage != WEIR_STAGE_TRAIN) {
        weir_sampler__fill_pass(s, first.global_index, count, out);
        return;
    }
    if (weir_sampler__is_stream(s))
        weir_sampler__fill_stream(s, first, count, out);
    else
        weir_sampler__fill(s, first.epoch, first.global_index, count, out);
    weir_sampler__prepare_ahead(s);
}

void weir_sampler_indices(weir_sampler *s, const weir_step *step, uint64_t *out) {
    weir_sampler__indices_from(s, step, 0, step->count, out);
}
