/* The state of a prefetcher: what configuration it has, what each worker has given, who is next. Saving is
 * one canonical map; restoring takes it as anybody's bytes: every number is checked against what it could be
 * before it is used.
 *
 *   key, epochs, length, policy, workers, shard_mode, next_worker, start_epoch,
 *   worker_states: [{epoch, place, produced} …], drop_remainder, start_position
 *
 * `produced` counts the items that were consumed from the worker; epoch and place (items of its shard that
 * were consumed in that epoch) follow from it, and stand there for readers. Under strict order all of it
 * follows from the number of items that were consumed, and a state in which it does not is refused. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/prefetch.h"

enum { STATE_PAIRS = 11, WORKER_PAIRS = 3 };

/* Where a worker stands after its last consumed item. */
typedef struct worker_place {
    uint64_t epoch;
    uint64_t place;
} worker_place;

static worker_place place_after(const weir_pipeline__shards *shards, uint32_t worker, uint64_t consumed) {
    if (consumed == 0)
        return (worker_place){shards->start_epoch, 0};
    weir_pipeline__cursor last = weir_pipeline__cursor_at(shards, worker, consumed - 1);
    return (worker_place){last.epoch, last.place + 1};
}

/* ---- Saving ---------------------------------------------------------------------------------- */

void weir_pipeline__prefetch_mark(const weir_prefetch *prefetch, uint64_t *mark) {
    mark[0] = prefetch->next_worker;
    for (uint32_t i = 0; i < prefetch->worker_count; i++)
        mark[1 + i] = prefetch->workers[i].consumed;
}

static void write_worker(const weir_prefetch *prefetch, uint32_t worker, uint64_t consumed,
                         weir_cbor_writer *w) {
    worker_place after = place_after(&prefetch->shards, worker, consumed);
    weir_cbor_map(w, WORKER_PAIRS);
    weir_cbor_text(w, "epoch");
    weir_cbor_uint(w, after.epoch);
    weir_cbor_text(w, "place");
    weir_cbor_uint(w, after.place);
    weir_cbor_text(w, "produced");
    weir_cbor_uint(w, consumed);
}

void weir_prefetch_save(const weir_prefetch *prefetch, weir_cbor_writer *w) {
    weir_pipeline__prefetch_save(prefetch, NULL, w);
}

void weir_pipeline__prefetch_save(const weir_prefetch *prefetch, const uint64_t *mark, weir_cbor_writer *w) {
    const weir_pipeline__shards *shards = &prefetch->shards;
    weir_cbor_map(w, STATE_PAIRS);
    weir_cbor_text(w, "key");
    weir_cbor_uint(w, prefetch->key);
    weir_cbor_text(w, "epochs");
    weir_cbor_uint(w, prefetch->epochs);
    weir_cbor_text(w, "length");
    weir_cbor_uint(w, shards->length);
    weir_cbor_text(w, "policy");
    weir_cbor_text(w, weir_policy_name(prefetch->policy));
    weir_cbor_text(w, "workers");
    weir_cbor_uint(w, prefetch->worker_count);
    weir_cbor_text(w, "shard_mode");
    weir_cbor_text(w, weir_shard_mode_name(shards->mode));
    weir_cbor_text(w, "next_worker");
    weir_cbor_uint(w, mark ? mark[0] : prefetch->next_worker);
    weir_cbor_text(w, "start_epoch");
    weir_cbor_uint(w, shards->start_epoch);
    weir_cbor_text(w, "worker_states");
    weir_cbor_array(w, prefetch->worker_count);
    for (uint32_t i = 0; i < prefetch->worker_count; i++)
        write_worker(prefetch, i, mark ? mark[1 + i] : prefetch->workers[i].consumed, w);
    weir_cbor_text(w, "drop_remainder");
    weir_cbor_bool(w, shards->drop_remainder);
    weir_cbor_text(w, "start_position");
    weir_cbor_uint(w, shards->start_position);
}

/* ---- Refusing -------------------------------------------------------------------------------- */

static weir_status refuse(weir_error *error, const char *what) {
    return weir__fail(error, WEIR_CBOR_INVALID, WEIR_PIPELINE__PREFETCH_OPERATOR,
                      "this is not a state of a prefetcher: %s; use what weir_prefetch_save wrote", what);
}

/* `saved` and `now` are texts of the field's two values. */
static weir_status mismatch(weir_error *error, const char *field, const char *saved, const char *now,
                            const char *advice) {
    weir_status status = weir__fail(error, WEIR_CHECKPOINT_MISMATCH, WEIR_PIPELINE__PREFETCH_OPERATOR,
                                    "the state was saved with %s %s, and this prefetcher has %s; %s", field,
                                    saved, now, advice);
    weir__note_text(error, "field", field, strlen(field));
    weir__note_text(error, "saved", saved, strlen(saved));
    weir__note_text(error, "now", now, strlen(now));
    return status;
}

static const char use_the_same[] = "resume with the same configuration, or begin without the state";

/* ---- Comparing the configuration ------------------------------------------------------------- */

static bool get_number(const weir_cbor_value *map, const char *key, uint64_t *out) {
    weir_cbor_value value;
    if (!weir_cbor_get(map, key, &value) || value.type != WEIR_CBOR_UINT)
        return false;
    *out = value.number;
    return true;
}

static weir_status compare_number(const weir_cbor_value *state, const char *field, uint64_t now,
                                  weir_error *error) {
    uint64_t saved;
    char saved_text[24], now_text[24];
    if (!get_number(state, field, &saved))
        return refuse(error, field);
    if (saved == now)
        return WEIR_OK;
    snprintf(saved_text, sizeof saved_text, "%" PRIu64, saved);
    snprintf(now_text, sizeof now_text, "%" PRIu64, now);
    return mismatch(error, field, saved_text, now_text, use_the_same);
}

static weir_status compare_text(const weir_cbor_value *state, const char *field, const char *now,
                                weir_error *error) {
    weir_cbor_value value;
    char saved[32];
    if (!weir_cbor_get(state, field, &value) || value.type != WEIR_CBOR_TEXT)
        return refuse(error, field);
    if (weir_cbor_is_text(&value, now))
        return WEIR_OK;
    snprintf(saved, sizeof saved, "%.*s", WEIR__NARROW(int, value.number < 24 ? value.number : 24),
             (const char *)value.data);
    return mismatch(error, field, saved, now, use_the_same);
}

static weir_status compare_flag(const weir_cbor_value *state, const char *field, bool now,
                                weir_error *error) {
    weir_cbor_value value;
    if (!weir_cbor_get(state, field, &value) || value.type != WEIR_CBOR_BOOL)
        return refuse(error, field);
    if ((value.number != 0) == now)
        return WEIR_OK;
    return mismatch(error, field, now ? "false" : "true", now ? "true" : "false", use_the_same);
}

/* All but the number of workers. */
static weir_status compare_configuration(const weir_prefetch *prefetch, const weir_cbor_value *state,
                                         weir_error *error) {
    const weir_pipeline__shards *shards = &prefetch->shards;
    const struct {
        const char *field;
        uint64_t now;
    } numbers[] = {{"length", shards->length},
                   {"key", prefetch->key},
                   {"epochs", prefetch->epochs},
                   {"start_position", shards->start_position},
                   {"start_epoch", shards->start_epoch}};
    weir_status status = compare_text(state, "policy", weir_policy_name(prefetch->policy), error);
    if (status == WEIR_OK)
        status = compare_text(state, "shard_mode", weir_shard_mode_name(shards->mode), error);
    if (status == WEIR_OK)
        status = compare_flag(state, "drop_remainder", shards->drop_remainder, error);
    for (size_t i = 0; status == WEIR_OK && i < sizeof numbers / sizeof *numbers; i++)
        status = compare_number(state, numbers[i].field, numbers[i].now, error);
    return status;
}

/* ---- Reading the places ---------------------------------------------------------------------- */

/* What strict order has taken: whole rounds, and in the round under way the workers below next_worker. The
 * last that gave stands just before next_worker, so its count says how many rounds there were. */
typedef struct strict_place {
    uint64_t rounds;
    uint64_t next_worker;
} strict_place;

static uint64_t strict_count(const weir_pipeline__shards *shards, uint32_t worker, strict_place place) {
    uint64_t total = weir_pipeline__shard_total(shards, worker);
    uint64_t count = place.rounds + (worker < place.next_worker);
    return count < total ? count : total;
}

/* A saved state that is being read: as it was configured then. */
typedef struct saved_state {
    weir_pipeline__shards shards;
    weir_cbor_value workers; /* an array of shards.workers entries */
    uint64_t next_worker;
} saved_state;

/* The count of one worker, checked against what it could be and against its epoch and place. */
static bool read_worker(const saved_state *saved, uint32_t number, const weir_cbor_value *value,
                        uint64_t *consumed) {
    uint64_t epoch, place;
    if (value->type != WEIR_CBOR_MAP || value->number != WORKER_PAIRS ||
        !get_number(value, "produced", consumed) || !get_number(value, "epoch", &epoch) ||
        !get_number(value, "place", &place) || *consumed > weir_pipeline__shard_total(&saved->shards, number))
        return false;
    worker_place after = place_after(&saved->shards, number, *consumed);
    return after.epoch == epoch && after.place == place;
}

/* The count of the worker that gave last; 0 if none has. */
static bool read_last_worker(const saved_state *saved, uint64_t *consumed) {
    uint32_t last =
        WEIR__NARROW(uint32_t, saved->next_worker ? saved->next_worker : saved->shards.workers) - 1;
    weir_cbor_iterator it = weir_cbor_children(&saved->workers);
    weir_cbor_value value;
    for (uint32_t i = 0; i <= last; i++)
        if (!weir_cbor_next(&it, NULL, &value))
            return false;
    return read_worker(saved, last, &value, consumed);
}

/* Whether all workers' counts are those of one place in strict order, and which. */
static bool read_strict_place(const saved_state *saved, strict_place *out) {
    uint64_t last, consumed;
    if (!read_last_worker(saved, &last) || (saved->next_worker > 0 && last == 0))
        return false;
    *out = (strict_place){last - (saved->next_worker > 0), saved->next_worker};
    weir_cbor_iterator it = weir_cbor_children(&saved->workers);
    weir_cbor_value value;
    for (uint32_t i = 0; i < saved->shards.workers; i++)
        if (!weir_cbor_next(&it, NULL, &value) || !read_worker(saved, i, &value, &consumed) ||
            consumed != strict_count(&saved->shards, i, *out))
            return false;
    return true;
}

static weir_status restore_best_effort(weir_prefetch *prefetch, const saved_state *saved, weir_error *error) {
    weir_cbor_iterator it = weir_cbor_children(&saved->workers);
    weir_cbor_value value;
    for (uint32_t i = 0; i < prefetch->worker_count; i++)
        if (!weir_cbor_next(&it, NULL, &value) ||
            !read_worker(saved, i, &value, &prefetch->workers[i].consumed))
            return refuse(error, "worker_states holds a place that a worker cannot have");
    prefetch->next_worker = WEIR__NARROW(uint32_t, saved->next_worker);
    return WEIR_OK;
}

/* Where the order is the sequential one under both numbers of workers, what was consumed is its first
 * items, and these are dealt again. */
static weir_status deal_again(const weir_prefetch *prefetch, const saved_state *saved, strict_place *place,
                              weir_error *error) {
    uint64_t consumed;
    if (__builtin_mul_overflow(place->rounds, saved->shards.workers, &consumed) ||
        __builtin_add_overflow(consumed, place->next_worker, &consumed))
        return refuse(error, "more than 2^64 items were consumed");
    place->rounds = consumed / prefetch->worker_count;
    place->next_worker = consumed % prefetch->worker_count;
    return WEIR_OK;
}

static weir_status restore_strict(weir_prefetch *prefetch, const saved_state *saved, weir_error *error) {
    strict_place place;
    if (!read_strict_place(saved, &place))
        return refuse(error, "worker_states are not those of one place in strict order");
    if (saved->shards.workers != prefetch->worker_count) {
        WEIR__TRY(deal_again(prefetch, saved, &place, error));
    }
    for (uint32_t i = 0; i < prefetch->worker_count; i++)
        prefetch->workers[i].consumed = strict_count(&prefetch->shards, i, place);
    prefetch->next_worker = WEIR__NARROW(uint32_t, place.next_worker);
    return WEIR_OK;
}

/* ---- Restoring ------------------------------------------------------------------------------- */

static weir_status compare_workers(const weir_prefetch *prefetch, const weir_pipeline__shards *saved,
                                   weir_error *error) {
    char saved_text[24], now_text[24];
    if (saved->workers == prefetch->worker_count)
        return WEIR_OK;
    if (prefetch->policy == WEIR_POLICY_STRICT && weir_pipeline__order_is_sequential(&prefetch->shards) &&
        weir_pipeline__order_is_sequential(saved))
        return WEIR_OK;
    snprintf(saved_text, sizeof saved_text, "%u", saved->workers);
    snprintf(now_text, sizeof now_text, "%u", prefetch->worker_count);
    return mismatch(error, "workers", saved_text, now_text,
                    "resume with as many; their number can change only under strict order with interleaved "
                    "shards, in one pass without a dropped remainder or where it divides every pass");
}

static weir_status read_workers(const weir_cbor_value *state, saved_state *saved, weir_error *error) {
    uint64_t workers;
    if (!get_number(state, "workers", &workers) || workers == 0 || workers > WEIR_PIPELINE__WORKERS_MAX)
        return refuse(error, "workers");
    saved->shards.workers = WEIR__NARROW(uint32_t, workers);
    if (!weir_cbor_get(state, "worker_states", &saved->workers) || saved->workers.type != WEIR_CBOR_ARRAY ||
        saved->workers.number != workers)
        return refuse(error, "worker_states");
    if (!get_number(state, "next_worker", &saved->next_worker) || saved->next_worker >= workers)
        return refuse(error, "next_worker");
    return WEIR_OK;
}

weir_status weir_pipeline__prefetch_restore(weir_prefetch *prefetch, const weir_cbor_value *state,
                                            weir_error *error) {
    saved_state saved = {.shards = prefetch->shards};
    if (state->type != WEIR_CBOR_MAP || state->number != STATE_PAIRS)
        return refuse(error, "it is not a map of 11 pairs");
    weir_status status = compare_configuration(prefetch, state, error);
    if (status == WEIR_OK)
        status = read_workers(state, &saved, error);
    if (status == WEIR_OK)
        status = compare_workers(prefetch, &saved.shards, error);
    if (status != WEIR_OK)
        return status;
    return prefetch->policy == WEIR_POLICY_STRICT ? restore_strict(prefetch, &saved, error)
                                                  : restore_best_effort(prefetch, &saved, error);
}
