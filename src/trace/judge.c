/* See judge.h. */
#include "trace/judge.h"

#include <stdio.h>
#include <string.h>

#include "sampler/mix.h"
#include "trace/replay.h"
#include "weir_tool/sampler_tools.h"

static const char operator_name[] = "weir.trace.judge";

weir_status weir_trace__judge_open(weir_trace__judge *j, const weir_env *env, const weir_trace_info *header,
                                   const weir_manifest *manifest, weir_error *error) {
    *j = (weir_trace__judge){
        .env = env, .header = header, .manifest = manifest, .is_best_effort = header->is_best_effort};
    weir_cbor_writer_memory(&j->body, env);
    if (header->schedule != WEIR_SCHEDULE_MIX)
        return WEIR_OK;
    return weir_mix_open(env, manifest, header->token, header->token_size, &j->mix, error);
}

void weir_trace__judge_close(weir_trace__judge *j) {
    if (!j->env)
        return;
    weir_mix_close(j->mix);
    weir_trace__tally_release(&j->tally, j->env);
    weir_trace__commits_release(&j->memory, j->env);
    weir__release(j->env, j->ahead);
    weir__release(j->env, j->dataset);
    weir_cbor_release(&j->body);
}

static weir_status diverge(const weir_trace__judge *j, const weir_trace_record *record, uint64_t t,
                           const char *field, const char *recorded, const char *expected, weir_error *error) {
    return weir_trace__divergence(error, j->header, record, t, field, recorded, expected);
}

static weir_status diverge_uint(const weir_trace__judge *j, const weir_trace_record *record, uint64_t t,
                                const char *field, uint64_t recorded, unsigned __int128 expected,
                                weir_error *error) {
    char was[32], is[32];
    snprintf(was, sizeof was, "%llu", (unsigned long long)recorded);
    if (expected > UINT64_MAX)
        snprintf(is, sizeof is, "none: there is no later step");
    else
        snprintf(is, sizeof is, "%llu", (unsigned long long)expected);
    return diverge(j, record, t, field, was, is, error);
}

/* ---- Sequence -------------------------------------------------------------------------------- */

/* Best effort: marks a step as taken; false if it was. */
static weir_status take_in_any_order(weir_trace__judge *j, uint64_t t, bool *is_new, weir_error *error) {
    size_t at = j->ahead_count;
    while (at > 0 && j->ahead[at - 1] > t)
        at--;
    *is_new = t >= j->next && (at == 0 || j->ahead[at - 1] != t);
    if (!*is_new)
        return WEIR_OK;
    void *memory = j->ahead;
    if (!weir__grow(j->env, &memory, &j->ahead_capacity, j->ahead_count + 1, sizeof *j->ahead))
        return weir__out_of_memory(error, operator_name, j->ahead_count * sizeof *j->ahead);
    j->ahead = memory;
    memmove(j->ahead + at + 1, j->ahead + at, (j->ahead_count - at) * sizeof *j->ahead);
    j->ahead[at] = t;
    j->ahead_count++;
    size_t joined = 0;
    while (joined < j->ahead_count && j->ahead[joined] == j->next) {
        j->next++;
        joined++;
    }
    j->ahead_count -= joined;
    memmove(j->ahead, j->ahead + joined, j->ahead_count * sizeof *j->ahead);
    return WEIR_OK;
}

static weir_status take_number(weir_trace__judge *j, const weir_trace_record *record, weir_error *error) {
    uint64_t t = record->t;
    bool is_new = true;
    weir_status status = WEIR_OK;
    if (!j->is_best_effort && t != j->next)
        return diverge_uint(j, record, t, "t", t, j->next, error);
    if (j->is_best_effort)
        status = take_in_any_order(j, t, &is_new, error);
    else
        j->next++;
    if (status == WEIR_OK && !is_new)
        status = diverge(j, record, t, "t", "taken a second time", "a step that was not taken yet", error);
    j->has_begun = true;
    j->taken++;
    return status;
}

/* A resume names the next step; of best effort, how many were taken. */
static weir_status take_resume(weir_trace__judge *j, const weir_trace_record *record, weir_error *error) {
    uint64_t step = record->t;
    unsigned __int128 expected = j->is_best_effort ? j->taken : j->next;
    if (j->has_begun && step != expected)
        return diverge_uint(j, record, step, "step", step, expected, error);
    if (!j->has_begun) {
        j->is_partial = step > 0;
        j->taken = step;
        j->next = j->is_best_effort ? 0 : step;
    }
    j->has_begun = true;
    return WEIR_OK;
}

/* ---- Place ----------------------------------------------------------------------------------- */

weir_trace__place_of_step weir_trace__judge_locate(weir_trace__judge *j, uint64_t t) {
    weir_trace__place_of_step place = {.is_known = true, .dataset = j->dataset, .stage = j->stage};
    if (j->mix) {
        const weir_dataset *dataset = NULL;
        place.status = weir_mix_locate(j->mix, t, &dataset, &place.cursor, NULL);
        place.dataset = dataset ? dataset->key : NULL;
        place.stage = WEIR_STAGE_TRAIN;
    } else if (!j->dataset) {
        place.is_known = false;
    } else if (!j->is_best_effort) {
        place.cursor = j->cursor;
    } else {
        const weir_dataset *dataset = weir_manifest_find(j->manifest, j->dataset);
        uint64_t batch = weir_manifest_describe(j->manifest)->global_batch_size;
        if (!dataset)
            place.status = WEIR_INVALID_DATASET_KEY;
        else if (j->stage == WEIR_STAGE_TRAIN)
            place.status = weir_sampler__batch_cursor(j->manifest, dataset, t, &place.cursor, NULL);
        else if (__builtin_mul_overflow(t, batch, &place.cursor.global_index))
            place.status = WEIR_COUNTER_OVERFLOW;
    }
    return place;
}

enum { TEXT_CAPACITY = 128 };

static const char *cursor_text(weir_cursor cursor, char out[TEXT_CAPACITY]) {
    snprintf(out, TEXT_CAPACITY, "epoch %llu, global_index %llu", (unsigned long long)cursor.epoch,
             (unsigned long long)cursor.global_index);
    return out;
}

static const char *key_text(weir_text key, char out[TEXT_CAPACITY]) {
    if (!key.data)
        key = (weir_text){"null", 4};
    snprintf(out, TEXT_CAPACITY, "%.*s", key.size < TEXT_CAPACITY ? (int)key.size : TEXT_CAPACITY - 1,
             key.data);
    return out;
}

/* Compares the dataset and the cursor that a record names with where its step must lie. */
static weir_status check_place(const weir_trace__judge *j, const weir_trace_record *record,
                               const weir_trace__place_of_step *place, weir_error *error) {
    char was[TEXT_CAPACITY], is[TEXT_CAPACITY];
    uint64_t t = record->t;
    weir_text key = record->dataset;
    weir_cursor recorded = record->cursor_before;
    bool is_nowhere = place->status != WEIR_OK;
    if (is_nowhere && record->kind == WEIR_TRACE_FAILURE)
        return !record->has_cursor ? WEIR_OK
                                   : diverge(j, record, t, "cursor_before", "a cursor",
                                             "null: the step cannot be located", error);
    if (is_nowhere)
        return diverge(j, record, t, "cursor_before", "a cursor", "none: the step cannot be located", error);
    if (!key.data || key.size != strlen(place->dataset) || memcmp(key.data, place->dataset, key.size) != 0)
        return diverge(j, record, t, "dataset_key", key_text(key, was), place->dataset, error);
    if (!record->has_cursor)
        return diverge(j, record, t, "cursor_before", "null", cursor_text(place->cursor, is), error);
    if (recorded.epoch != place->cursor.epoch || recorded.global_index != place->cursor.global_index)
        return diverge(j, record, t, "cursor_before", cursor_text(recorded, was),
                       cursor_text(place->cursor, is), error);
    return WEIR_OK;
}

/* All steps of a run are of one stage. */
static weir_status check_stage(const weir_trace__judge *j, const weir_trace_record *record, weir_stage is,
                               weir_error *error) {
    weir_stage was = record->stage;
    uint64_t t = record->t;
    if ((was == WEIR_STAGE_EVAL) != (is == WEIR_STAGE_EVAL))
        return diverge(j, record, t, "is_shuffled", was == WEIR_STAGE_EVAL ? "false" : "true",
                       is == WEIR_STAGE_EVAL ? "false" : "true", error);
    return was == is
               ? WEIR_OK
               : diverge(j, record, t, "sampling_mode", weir_stage_name(was), weir_stage_name(is), error);
}

static weir_status take_step(weir_trace__judge *j, const weir_trace_record *record, weir_error *error) {
    weir_text key = record->dataset;
    WEIR__TRY(take_number(j, record, error));
    weir_trace__place_of_step place = weir_trace__judge_locate(j, record->t);
    if (place.is_known) {
        WEIR__TRY(check_place(j, record, &place, error));
        WEIR__TRY(check_stage(j, record, place.stage, error));
    }
    if (!j->dataset && !j->mix) {
        j->dataset = weir__copy_text(j->env, key.data, key.size);
        if (!j->dataset)
            return weir__out_of_memory(error, operator_name, key.size);
        j->stage = record->stage;
    }
    j->cursor = record->cursor_after;
    if (!weir_trace__tally_step(&j->tally, j->env, key, j->cursor, record->effective_batch_size))
        return weir__out_of_memory(error, operator_name, key.size);
    j->steps++;
    return WEIR_OK;
}

/* ---- Failure and end ------------------------------------------------------------------------- */

/* The tokens of the call that a failure is about. */
static weir_status check_tokens(const weir_trace__judge *j, const weir_trace_record *record,
                                const weir_trace__place_of_step *place, weir_error *error) {
    char was[WEIR__SHOWN_MAX], is[2 * WEIR_HASH_SIZE + 1];
    weir_cbor_value map = weir_trace__map(record), token = weir_trace__get(&map, "replay_token");
    uint64_t t = record->t;
    if (token.number != j->header->token_size || memcmp(token.data, j->header->token, token.number) != 0)
        return diverge(j, record, t, "replay_token", "another token", "the one in the header", error);
    if (!place->is_known || place->status != WEIR_OK)
        return WEIR_OK;
    weir_error call = {0};
    weir_sampler_options options = {.size = sizeof options,
                                    .dataset = place->dataset,
                                    .world_size = j->header->world_size,
                                    .rank = j->header->rank,
                                    .token = j->header->token,
                                    .token_size = j->header->token_size,
                                    .cursor = place->cursor};
    weir_sampler_name_call(j->manifest, &options, &call);
    if (record->data_replay_t && memcmp(record->data_replay_t, call.replay_token, WEIR_HASH_SIZE) == 0)
        return WEIR_OK;
    weir_cbor_value recorded = weir_trace__get(&map, "data_replay_t");
    weir__show(j->env, &recorded, was);
    weir__hex_encode(call.replay_token, WEIR_HASH_SIZE, is);
    return diverge(j, record, t, "data_replay_t", was, is, error);
}

static weir_status take_failure(weir_trace__judge *j, const weir_trace_record *record, weir_error *error) {
    weir_text code = record->failure_code;
    weir_trace__place_of_step place = weir_trace__judge_locate(j, record->t);
    weir_status status = take_number(j, record, error);
    if (status == WEIR_OK && place.is_known)
        status = check_place(j, record, &place, error);
    if (status == WEIR_OK)
        status = check_tokens(j, record, &place, error);
    int shown = code.size < sizeof j->failure_code ? (int)code.size : (int)sizeof j->failure_code - 1;
    snprintf(j->failure_code, sizeof j->failure_code, "%.*s", shown, code.data);
    j->failed_step = record->t;
    j->has_failed = true;
    return status;
}

/* Writes the run_end that the records before lead to, and compares. */
static weir_status take_end(weir_trace__judge *j, const weir_trace_record *record, weir_error *error) {
    weir_cbor_value map = weir_trace__map(record), recorded_status;
    static const char *const link[] = {"h", NULL};
    weir__difference difference;
    bool has_failed = j->has_failed;
    uint64_t t = j->next > UINT64_MAX ? UINT64_MAX : (uint64_t)j->next;
    bool has_status = weir_cbor_get(&map, "status", &recorded_status);
    j->body.size = 0;
    weir_cbor_restart(&j->body);
    weir_trace__tally_write_end(&j->tally, weir_trace__get(&map, "trace_hash").data,
                                has_failed   ? "failed"
                                : has_status ? "success"
                                             : NULL,
                                &j->body);
    WEIR__TRY(weir_cbor_finish(&j->body, error));
    weir_cbor_value expected = weir_cbor_view(j->body.data);
    if (weir__compare(j->env, &map, &expected, link, &difference))
        return diverge(j, record, t, difference.field, difference.left, difference.right, error);
    if (!has_failed && !j->is_partial && j->ahead_count > 0)
        return diverge(j, record, t, "t", "missing before the end of the run", "taken", error);
    j->status = has_failed ? WEIR_RUN_FAILED : WEIR_RUN_SUCCEEDED;
    return WEIR_OK;
}

weir_status weir_trace__judge_take(weir_trace__judge *j, const weir_trace_record *record, weir_error *error) {
    weir__difference found;
    weir_status status = WEIR_OK;
    /* What a process's memory was must be recorded of all its steps, or of none. */
    bool follows = weir_trace__commits_follow(&j->memory, j->env, record, &found, &status, error);
    if (!follows)
        return diverge(j, record, record->kind == WEIR_TRACE_MEMORY ? record->t : j->memory.t, found.field,
                       found.left, found.right, error);
    if (status != WEIR_OK)
        return status;
    switch (record->kind) {
    case WEIR_TRACE_ITER:
        return take_step(j, record, error);
    case WEIR_TRACE_RESUME:
        return take_resume(j, record, error);
    case WEIR_TRACE_FAILURE:
        return take_failure(j, record, error);
    case WEIR_TRACE_END:
        return take_end(j, record, error);
    default:
        return WEIR_OK;
    }
}
