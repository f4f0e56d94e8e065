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
#include <stdio.h>
#include <string.h>

#include "base/fields.h"
#include "pipeline/prefetch.h"

#define NUMBER(type, member) WEIR__UINT(type, member, 0, UINT64_MAX), .flags = WEIR__REQUIRED

/* ---- The document ---------------------------------------------------------------------------- */

/* Where a worker stands after its last consumed item. */
typedef struct worker_place {
    uint64_t epoch;
    uint64_t place;
    uint64_t consumed;
} worker_place;

static const weir__field worker_fields[] = {
    {"epoch", NUMBER(worker_place, epoch)},
    {"place", NUMBER(worker_place, place)},
    {"produced", NUMBER(worker_place, consumed)},
};
static const weir__shape worker_shape = WEIR__SHAPE(worker_place, worker_fields);

static worker_place place_after(const weir_pipeline__shards *shards, uint32_t worker, uint64_t consumed) {
    if (consumed == 0)
        return (worker_place){shards->start_epoch, 0, 0};
    weir_pipeline__cursor last = weir_pipeline__cursor_at(shards, worker, consumed - 1);
    return (worker_place){last.epoch, last.place + 1, consumed};
}

typedef struct saved_state {
    weir_pipeline__shards shards;
    uint64_t key, epochs;
    weir_policy policy;
    uint32_t next_worker;
    weir_cbor_value workers;       /* when it was read: an array of shards.workers entries */
    const weir_prefetch *prefetch; /* when it is written */
    const uint64_t *mark;
} saved_state;

static saved_state state_of(const weir_prefetch *prefetch, const uint64_t *mark) {
    return (saved_state){.shards = prefetch->shards,
                         .key = prefetch->options.key,
                         .epochs = prefetch->options.epochs,
                         .policy = prefetch->options.policy,
                         .next_worker = mark ? WEIR__NARROW(uint32_t, mark[0]) : prefetch->next_worker,
                         .prefetch = prefetch,
                         .mark = mark};
}

static weir_status read_workers(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                                void *object) {
    saved_state *saved = object;
    if (value->type != WEIR_CBOR_ARRAY || value->number != saved->shards.workers)
        return weir__refuse(r, field->name, "must be a list with an item for each worker");
    saved->workers = *value;
    return WEIR_OK;
}

static void write_workers(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const saved_state *saved = object;
    const weir_pipeline__worker *workers = saved->prefetch->workers;
    (void)field;
    weir_cbor_array(w, saved->shards.workers);
    for (uint32_t i = 0; i < saved->shards.workers; i++) {
        uint64_t consumed = saved->mark ? saved->mark[1 + i] : workers[i].consumed;
        worker_place after = place_after(&saved->shards, i, consumed);
        weir__write(w, &worker_shape, &after);
    }
}

static weir_status check_state(weir__reader *r, void *object) {
    const saved_state *saved = object;
    return saved->next_worker < saved->shards.workers
               ? WEIR_OK
               : weir__refuse(r, "next_worker", "must be below the number of workers");
}

/* The first eight are the configuration, which must be equal. */
enum { CONFIGURATION = 8 };
static const weir__field fields[] = {
    {"policy", WEIR__WORD(saved_state, policy, weir_pipeline__policies), .flags = WEIR__REQUIRED},
    {"shard_mode", WEIR__WORD(saved_state, shards.mode, weir_pipeline__shard_modes), .flags = WEIR__REQUIRED},
    {"drop_remainder", WEIR__BOOL(saved_state, shards.drop_remainder), .flags = WEIR__REQUIRED},
    {"length", NUMBER(saved_state, shards.length)},
    {"key", NUMBER(saved_state, key)},
    {"epochs", NUMBER(saved_state, epochs)},
    {"start_position", NUMBER(saved_state, shards.start_position)},
    {"start_epoch", NUMBER(saved_state, shards.start_epoch)},
    {"workers", WEIR__UINT(saved_state, shards.workers, 1, WEIR_PIPELINE__WORKERS_MAX),
     .flags = WEIR__REQUIRED},
    {"next_worker", WEIR__UINT(saved_state, next_worker, 0, UINT32_MAX), .flags = WEIR__REQUIRED},
    {"worker_states", WEIR__OTHER(read_workers, write_workers), .flags = WEIR__REQUIRED},
};
static const weir__shape shape = WEIR__SHAPE(saved_state, fields, .check = check_state);
static const weir__shape configuration_shape = {
    .fields = fields, .count = CONFIGURATION, .size = sizeof(saved_state)};

/* ---- Saving ---------------------------------------------------------------------------------- */

void weir_pipeline__prefetch_mark(const weir_prefetch *prefetch, uint64_t *mark) {
    mark[0] = prefetch->next_worker;
    for (uint32_t i = 0; i < prefetch->options.workers; i++)
        mark[1 + i] = prefetch->workers[i].consumed;
}

weir_status weir_prefetch_save(const weir_prefetch *prefetch, weir_bytes *out, weir_error *error) {
    weir_cbor_writer w;
    weir_cbor_writer_memory(&w, prefetch->env);
    weir_pipeline__prefetch_save(prefetch, NULL, &w);
    return weir_cbor_give(&w, out, error);
}

void weir_pipeline__prefetch_save(const weir_prefetch *prefetch, const uint64_t *mark, weir_cbor_writer *w) {
    saved_state saved = state_of(prefetch, mark);
    weir__write(w, &shape, &saved);
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

/* The count of one worker, checked against what it could be and against its epoch and place. */
static bool read_worker(const saved_state *saved, uint32_t number, const weir_cbor_value *value,
                        uint64_t *consumed) {
    worker_place read;
    weir__reader r = {.family = WEIR_CBOR_INVALID, .unknown = ""};
    if (weir__read(&r, value, &worker_shape, &read) != WEIR_OK ||
        read.consumed > weir_pipeline__shard_total(&saved->shards, number))
        return false;
    worker_place after = place_after(&saved->shards, number, read.consumed);
    *consumed = read.consumed;
    return after.epoch == read.epoch && after.place == read.place;
}

/* Whether all workers' counts are those of one place in strict order, and which: that of the worker that gave
 * last says it, and the others must fit. */
static bool read_strict_place(const saved_state *saved, strict_place *out) {
    uint32_t next = saved->next_worker, last = (next ? next : saved->shards.workers) - 1;
    for (int pass = 0; pass < 2; pass++) {
        weir_cbor_iterator it = weir_cbor_children(&saved->workers);
        weir_cbor_value value;
        uint64_t consumed;
        for (uint32_t i = 0; i < saved->shards.workers; i++) {
            if (!weir_cbor_next(&it, NULL, &value) || !read_worker(saved, i, &value, &consumed))
                return false;
            if (pass == 0 && i == last && next > 0 && consumed == 0)
                return false;
            if (pass == 0 && i == last)
                *out = (strict_place){consumed - (next > 0), next};
            if (pass == 1 && consumed != strict_count(&saved->shards, i, *out))
                return false;
        }
    }
    return true;
}

/* If the order is the sequential one under both numbers of workers, what was consumed is its first items, and
 * these are dealt again. */
static weir_status restore_strict(weir_prefetch *prefetch, const saved_state *saved, weir_error *error) {
    strict_place place;
    uint64_t consumed;
    if (!read_strict_place(saved, &place))
        return refuse(error, "worker_states are not those of one place in strict order");
    if (saved->shards.workers != prefetch->options.workers) {
        if (__builtin_mul_overflow(place.rounds, saved->shards.workers, &consumed) ||
            __builtin_add_overflow(consumed, place.next_worker, &consumed))
            return refuse(error, "more than 2^64 items were consumed");
        place = (strict_place){consumed / prefetch->options.workers, consumed % prefetch->options.workers};
    }
    for (uint32_t i = 0; i < prefetch->options.workers; i++)
        prefetch->workers[i].consumed = strict_count(&prefetch->shards, i, place);
    prefetch->next_worker = WEIR__NARROW(uint32_t, place.next_worker);
    return WEIR_OK;
}

/* ---- Restoring ------------------------------------------------------------------------------- */

static weir_status compare_workers(const weir_prefetch *prefetch, const weir_pipeline__shards *saved,
                                   weir_error *error) {
    char saved_text[24], now_text[24];
    if (saved->workers == prefetch->options.workers)
        return WEIR_OK;
    if (prefetch->options.policy == WEIR_POLICY_STRICT &&
        weir_pipeline__order_is_sequential(&prefetch->shards) && weir_pipeline__order_is_sequential(saved))
        return WEIR_OK;
    snprintf(saved_text, sizeof saved_text, "%u", saved->workers);
    snprintf(now_text, sizeof now_text, "%u", prefetch->options.workers);
    return mismatch(error, "workers", saved_text, now_text,
                    "resume with as many; their number can change only under strict order with interleaved "
                    "shards, in one pass without a dropped remainder or where it divides every pass");
}

/* All but the workers. */
static weir_status compare_configuration(const weir_prefetch *prefetch, const weir_cbor_value *state,
                                         weir_error *error) {
    static const char *const ignored[] = {"workers", "next_worker", "worker_states", NULL};
    uint8_t buffer[512];
    weir_cbor_writer w;
    weir__difference difference;
    saved_state expected = state_of(prefetch, NULL);
    weir_cbor_writer_fixed(&w, buffer, sizeof buffer);
    weir__write(&w, &configuration_shape, &expected);
    WEIR__TRY(weir_cbor_finish(&w, error));
    weir_cbor_value now = weir_cbor_view(buffer);
    if (!weir__compare(prefetch->env, state, &now, ignored, &difference))
        return WEIR_OK;
    return mismatch(error, difference.field, difference.left, difference.right,
                    "resume with the same configuration, or begin without the state");
}

weir_status weir_pipeline__prefetch_restore(weir_prefetch *prefetch, const void *data, size_t size,
                                            weir_error *error) {
    WEIR__TRY(weir_cbor_check(data, size, NULL, error));
    weir_cbor_value state = weir_cbor_view(data);
    saved_state saved = {.shards = prefetch->shards};
    weir__reader r = {.error = error,
                      .family = WEIR_CBOR_INVALID,
                      .failure_operator = WEIR_PIPELINE__PREFETCH_OPERATOR,
                      .name = "this is not a state of a prefetcher; use what weir_prefetch_save wrote",
                      .unknown = "is not a key of a state",
                      .path = "$"};
    WEIR__TRY(weir__read(&r, &state, &shape, &saved));
    WEIR__TRY(compare_configuration(prefetch, &state, error));
    WEIR__TRY(compare_workers(prefetch, &saved.shards, error));
    if (prefetch->options.policy == WEIR_POLICY_STRICT)
        return restore_strict(prefetch, &saved, error);
    weir_cbor_iterator it = weir_cbor_children(&saved.workers);
    weir_cbor_value value;
    for (uint32_t i = 0; i < prefetch->options.workers; i++)
        if (!weir_cbor_next(&it, NULL, &value) ||
            !read_worker(&saved, i, &value, &prefetch->workers[i].consumed))
            return refuse(error, "worker_states holds a place that a worker cannot have");
    prefetch->next_worker = saved.next_worker;
    return WEIR_OK;
}
