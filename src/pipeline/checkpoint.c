/* See checkpoint.h. Keys are written in canonical order: by length, then bytewise.
 *
 * A checkpoint is restored by writing the one that this run would have made at the same step, and comparing
 * the two: so what is written and what is compared cannot drift apart. What a run may change between two
 * sittings (its workers, and under strict its world) is named here; everything else must be equal. */
#include "pipeline/checkpoint.h"

#include <string.h>

#include "base/file.h"
#include "pipeline/prefetch.h"
#include "pipeline/sealed.h"
#include "trace/record.h"

static const char operator_name[] = "weir.run.checkpoint";

/* ---- Writing --------------------------------------------------------------------------------- */

static void write_hash(weir_cbor_writer *w, const char *key, const uint8_t hash[WEIR_HASH_SIZE]) {
    weir_cbor_text(w, key);
    weir_cbor_bytes(w, hash, WEIR_HASH_SIZE);
}

static void write_cursors(const weir_pipeline__schedule *run, weir_mix *mix, uint64_t step,
                          weir_cbor_writer *w) {
    weir_cbor_map(w, run->member_count);
    for (size_t i = 0; i < run->member_count; i++) {
        weir_cursor cursor;
        weir_cbor_text(w, run->members[i].dataset->key);
        if (!weir_pipeline__schedule_next_cursor(run, mix, step, i, &cursor)) {
            weir_cbor_null(w);
            continue;
        }
        weir_cbor_map(w, 2);
        weir_cbor_text(w, "epoch");
        weir_cbor_uint(w, cursor.epoch);
        weir_cbor_text(w, "global_index");
        weir_cbor_uint(w, cursor.global_index);
    }
}

/* The mix, or the one dataset of a run without it. */
static void write_dataset(const weir_pipeline__schedule *run, weir_cbor_writer *w) {
    weir_cbor_text(w, "dataset");
    if (run->is_mixed)
        weir_cbor_null(w);
    else
        weir_cbor_text(w, run->members[0].dataset->key);
}

static void write_prefetch(const weir_pipeline__run_state *state, weir_cbor_writer *w) {
    weir_cbor_text(w, "prefetch");
    if (state->prefetch)
        weir_pipeline__prefetch_save(state->prefetch, state->mark, w);
    else
        weir_cbor_null(w);
}

typedef struct written_run {
    const weir_pipeline__schedule *run;
    weir_mix *mix;
    const weir_pipeline__run_state *state;
} written_run;

enum { PAIRS = 17 };

static void write_pairs(const void *context, weir_cbor_writer *w) {
    const written_run *c = context;
    const weir_pipeline__schedule *run = c->run;
    const weir_pipeline__run_state *state = c->state;
    uint8_t token_hash[WEIR_HASH_SIZE];
    weir__sha256_of(run->token, run->token_size, token_hash);
    weir_cbor_text(w, "pad");
    weir_cbor_bool(w, run->pad);
    weir_cbor_text(w, "rank");
    weir_cbor_uint(w, run->rank);
    weir_cbor_text(w, "step");
    weir_cbor_uint(w, state->step);
    weir_cbor_text(w, "stage");
    weir_cbor_text(w, weir_stage_name(run->stage));
    weir_cbor_text(w, "policy");
    weir_cbor_text(w, weir_policy_name(state->policy));
    write_dataset(run, w);
    weir_cbor_text(w, "workers");
    weir_cbor_uint(w, state->workers);
    write_hash(w, "mix_hash", weir_manifest_mix_hash(run->manifest));
    write_prefetch(state, w);
    write_hash(w, "token_hash", token_hash);
    weir_cbor_text(w, "world_size");
    weir_cbor_uint(w, run->world_size);
    weir_cbor_text(w, "data_cursors");
    write_cursors(run, c->mix, state->step, w);
    weir_cbor_text(w, "store_hashes");
    weir_cbor_array(w, run->store_count);
    for (size_t i = 0; i < run->store_count; i++)
        weir_cbor_bytes(w, run->store_hashes[i], WEIR_HASH_SIZE);
    weir_cbor_text(w, "weir_version");
    weir_cbor_text(w, weir_version());
    write_hash(w, "manifest_hash", weir_manifest_hash(run->manifest));
    write_hash(w, "batch_config_hash", weir_manifest_batch_config_hash(run->manifest));
    weir_cbor_text(w, "checkpoint_version");
    weir_cbor_text(w, WEIR_PIPELINE__CHECKPOINT_VERSION);
}

void weir_pipeline__checkpoint_write(const weir_pipeline__schedule *run, weir_mix *mix,
                                     const weir_pipeline__run_state *state, weir_cbor_writer *w) {
    written_run c = {run, mix, state};
    weir_pipeline__sealed_write(w, WEIR_PIPELINE__CHECKPOINT_VERSION, PAIRS, write_pairs, &c);
}

/* ---- Reading --------------------------------------------------------------------------------- */

typedef struct field {
    const char *name;
    weir_cbor_type type;
} field;

static weir_status no_checkpoint(weir_error *error, const char *why, const char *name) {
    return weir__fail(error, WEIR_CHECKPOINT_MISMATCH, operator_name,
                      "not a checkpoint of this version (%s): %s %s", WEIR_PIPELINE__CHECKPOINT_VERSION, name,
                      why);
}

static bool find_stage(const weir_cbor_value *name, weir_stage *out) {
    for (unsigned i = 0; i < WEIR_STAGES; i++)
        if (weir_cbor_is_text(name, weir_stage_name((weir_stage)i))) {
            *out = (weir_stage)i;
            return true;
        }
    return false;
}

static bool find_policy(const weir_cbor_value *name, weir_policy *out) {
    *out = WEIR_POLICY_BEST_EFFORT;
    if (weir_cbor_is_text(name, weir_policy_name(WEIR_POLICY_STRICT)))
        *out = WEIR_POLICY_STRICT;
    return weir_cbor_is_text(name, weir_policy_name(*out));
}

/* Every checkpoint of this version vouches for its bytes; one of version 1 does not, and must not claim to.
 */
static weir_status check_seal(const weir_cbor_value *map, bool is_sealed, weir_error *error) {
    weir_cbor_value hash;
    bool is_whole = is_sealed ? weir_pipeline__sealed_is_whole(map, WEIR_PIPELINE__CHECKPOINT_VERSION)
                              : !weir_cbor_get(map, "h", &hash);
    if (is_whole)
        return WEIR_OK;
    return weir__fail(
        error, WEIR_CHECKPOINT_MISMATCH, operator_name,
        "the checkpoint is damaged: its bytes are not those that its hash was made of; resume from "
        "an earlier copy");
}

static weir_status check_fields(const weir_cbor_value *map, weir_error *error) {
    static const field fields[] = {{"step", WEIR_CBOR_UINT},          {"rank", WEIR_CBOR_UINT},
                                   {"workers", WEIR_CBOR_UINT},       {"world_size", WEIR_CBOR_UINT},
                                   {"stage", WEIR_CBOR_TEXT},         {"policy", WEIR_CBOR_TEXT},
                                   {"manifest_hash", WEIR_CBOR_BYTES}};
    weir_cbor_value value;
    if (map->type != WEIR_CBOR_MAP)
        return no_checkpoint(error, "is not a map", "it");
    if (!weir_cbor_get(map, "checkpoint_version", &value) ||
        (!weir_cbor_is_text(&value, WEIR_PIPELINE__CHECKPOINT_VERSION) &&
         !weir_cbor_is_text(&value, WEIR_PIPELINE__CHECKPOINT_VERSION_1)))
        return no_checkpoint(error, "is missing or another", "checkpoint_version");
    WEIR__TRY(check_seal(map, weir_cbor_is_text(&value, WEIR_PIPELINE__CHECKPOINT_VERSION), error));
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (!weir_cbor_get(map, fields[i].name, &value) || value.type != fields[i].type)
            return no_checkpoint(error, "is missing or of another type", fields[i].name);
    for (size_t i = 1; i < 4; i++)
        if (weir_cbor_get(map, fields[i].name, &value) && value.number > UINT32_MAX)
            return no_checkpoint(error, "is out of range", fields[i].name);
    if (weir_cbor_get(map, "manifest_hash", &value) && value.number != WEIR_HASH_SIZE)
        return no_checkpoint(error, "is not a hash", "manifest_hash");
    return WEIR_OK;
}

static uint32_t small_uint(const weir_cbor_value *map, const char *key) {
    return WEIR__NARROW(uint32_t, weir_trace__uint(map, key));
}

weir_status weir_checkpoint_read(const void *data, size_t size, weir_checkpoint *out, weir_error *error) {
    weir_checkpoint read = {0};
    weir_cbor_value stage, policy, hash;
    WEIR__TRY(weir_cbor_check(data, size, NULL, error));
    weir_cbor_value map = weir_cbor_view(data);
    WEIR__TRY(check_fields(&map, error));
    weir_cbor_get(&map, "stage", &stage);
    weir_cbor_get(&map, "policy", &policy);
    weir_cbor_get(&map, "manifest_hash", &hash);
    if (!find_stage(&stage, &read.stage))
        return no_checkpoint(error, "is not a stage", "stage");
    if (!find_policy(&policy, &read.policy))
        return no_checkpoint(error, "is not a policy", "policy");
    read.step = weir_trace__uint(&map, "step");
    read.rank = small_uint(&map, "rank");
    read.workers = small_uint(&map, "workers");
    read.world_size = small_uint(&map, "world_size");
    read.manifest_hash = hash.data;
    weir__sha256_of(data, size, read.hash);
    *out = read;
    return WEIR_OK;
}

/* ---- Restoring ------------------------------------------------------------------------------- */

/* What must be equal, the most telling first: another manifest has another token and other cursors too. */
static const char *const identities[] = {"store_hashes", "manifest_hash", "mix_hash", "batch_config_hash",
                                         "token_hash",   "stage",         "dataset",  "policy",
                                         "pad",          "data_cursors"};
/* Steps that were taken out of order are those of one rank and its workers alone. */
static const char *const best_effort_identities[] = {"world_size", "rank", "workers"};

static weir_status check_equal(const weir_env *env, const weir_cbor_value *checkpoint,
                               const weir_cbor_value *expected, const char *key, weir_error *error) {
    char was[WEIR__SHOWN_MAX], is[WEIR__SHOWN_MAX];
    weir_cbor_value left, right;
    if (weir__same(checkpoint, expected, key))
        return WEIR_OK;
    weir__show(env, weir_cbor_get(checkpoint, key, &left) ? &left : NULL, was);
    weir__show(env, weir_cbor_get(expected, key, &right) ? &right : NULL, is);
    weir_status status =
        weir__fail(error, WEIR_CHECKPOINT_MISMATCH, operator_name,
                   "the checkpoint is another run's: its %s is %.240s, this run's is %.240s", key, was, is);
    weir__note_text(error, "field", key, strlen(key));
    weir__note_text(error, "checkpoint", was, strlen(was));
    weir__note_text(error, "run", is, strlen(is));
    return status;
}

static weir_status compare(const weir_env *env, const weir_cbor_value *checkpoint,
                           const weir_cbor_value *expected, weir_policy policy, weir_error *error) {
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < sizeof identities / sizeof identities[0] && status == WEIR_OK; i++)
        status = check_equal(env, checkpoint, expected, identities[i], error);
    if (policy == WEIR_POLICY_BEST_EFFORT)
        for (size_t i = 0; i < 3 && status == WEIR_OK; i++)
            status = check_equal(env, checkpoint, expected, best_effort_identities[i], error);
    return status;
}

/* In best effort the step is the first one and all that the workers gave since; if they do not add up,
 * somebody has changed one of them. */
static weir_status check_taken(const weir_cbor_value *prefetch, uint64_t step, uint64_t *start,
                               weir_error *error) {
    weir_cbor_value workers, worker, first;
    if (!weir_cbor_get(prefetch, "worker_states", &workers) || workers.type != WEIR_CBOR_ARRAY ||
        !weir_cbor_get(prefetch, "start_position", &first) || first.type != WEIR_CBOR_UINT)
        return no_checkpoint(error, "is not a state of a prefetcher", "prefetch");
    uint64_t taken = first.number;
    bool adds_up = true;
    weir_cbor_iterator it = weir_cbor_children(&workers);
    while (weir_cbor_next(&it, NULL, &worker))
        adds_up = adds_up && !__builtin_add_overflow(taken, weir_trace__uint(&worker, "produced"), &taken);
    if (!adds_up || taken != step)
        return no_checkpoint(error, "is not what the workers have given", "step");
    *start = first.number;
    return WEIR_OK;
}

weir_status weir_pipeline__checkpoint_restore(const weir_pipeline__schedule *run, weir_mix *mix,
                                              const weir_pipeline__run_state *state, const void *data,
                                              size_t size, weir_pipeline__restored *out, weir_error *error) {
    weir_checkpoint read = {0};
    weir_pipeline__restored restored = {0};
    WEIR__TRY(weir_checkpoint_read(data, size, &read, error));
    weir_cbor_value checkpoint = weir_cbor_view(data);
    weir_pipeline__run_state there = *state;
    weir_cbor_writer w;
    there.step = read.step;
    there.prefetch = NULL;
    weir_cbor_writer_memory(&w, run->env);
    weir_pipeline__checkpoint_write(run, mix, &there, &w);
    weir_status status = weir_cbor_finish(&w, error);
    if (status == WEIR_OK) {
        weir_cbor_value expected = weir_cbor_view(w.data);
        status = compare(run->env, &checkpoint, &expected, state->policy, error);
    }
    weir_cbor_release(&w);
    if (status == WEIR_OK && !weir_cbor_get(&checkpoint, "prefetch", &restored.prefetch))
        status = no_checkpoint(error, "is missing", "prefetch");
    restored.step = restored.start_position = read.step;
    if (status == WEIR_OK && state->policy == WEIR_POLICY_BEST_EFFORT)
        status = check_taken(&restored.prefetch, read.step, &restored.start_position, error);
    if (status == WEIR_OK)
        *out = restored;
    return status;
}

/* ---- Files ----------------------------------------------------------------------------------- */

weir_status weir_pipeline__checkpoint_save(const weir_env *env, const void *data, size_t size,
                                           const char *path, weir_error *error) {
    weir__atomic_file file;
    WEIR__TRY(weir__atomic_open(&file, env, path, operator_name, error));
    weir_status status = weir__atomic_write(&file, data, size, error);
    if (status == WEIR_OK)
        status = weir__atomic_commit(&file, error);
    weir__atomic_abandon(&file);
    return status;
}
