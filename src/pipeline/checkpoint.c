/* See checkpoint.h.
 *
 * A checkpoint is restored by writing the one that this run would have made at the same step, and comparing
 * the two: so what is written and what is compared cannot drift apart. What a run may change between two
 * sittings (its workers, and under strict its world) is named here; everything else must be equal. */
#include "pipeline/checkpoint.h"

#include <string.h>

#include "base/file.h"
#include "pipeline/prefetch.h"
#include "pipeline/run_files.h"
#include "pipeline/sealed.h"
#include "sampler/sampler.h"
#include "trace/record.h"

static const char operator_name[] = "weir.run.checkpoint";

/* ---- The document ---------------------------------------------------------------------------- */

typedef struct checkpoint_document {
    weir_checkpoint read;
    bool pad;
    const char *dataset; /* the one dataset of a run without a mix */
    const char *weir_version;
    uint8_t manifest_hash[WEIR_HASH_SIZE], mix_hash[WEIR_HASH_SIZE], batch_config_hash[WEIR_HASH_SIZE];
    uint8_t token_hash[WEIR_HASH_SIZE];
    const weir_pipeline__schedule *run;
    weir_mix *mix;
    const weir_pipeline__run_state *state;
} checkpoint_document;

static const char *const versions[] = {WEIR_PIPELINE__CHECKPOINT_VERSION, WEIR_PIPELINE__CHECKPOINT_VERSION_1,
                                       NULL};

/* Every checkpoint of this version vouches for its bytes; one of version 1 does not, and must not claim to.
 */
static weir_status read_version(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                                void *object) {
    weir_cbor_value hash;
    WEIR__TRY(weir__read_plain(r, field, value, object));
    bool is_whole = weir_cbor_is_text(value, WEIR_PIPELINE__CHECKPOINT_VERSION)
                        ? weir_pipeline__sealed_is_whole(r->map, WEIR_PIPELINE__CHECKPOINT_VERSION)
                        : !weir_cbor_get(r->map, "h", &hash);
    if (is_whole)
        return WEIR_OK;
    return weir__fail(
        r->error, WEIR_CHECKPOINT_MISMATCH, operator_name,
        "the checkpoint is damaged: its bytes are not those that its hash was made of; resume from "
        "an earlier copy");
}

static void write_cursors(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const checkpoint_document *document = object;
    const weir_pipeline__schedule *run = document->run;
    (void)field;
    weir_cbor_map(w, run->member_count);
    for (size_t i = 0; i < run->member_count; i++) {
        weir_cursor cursor;
        weir_cbor_text(w, run->members[i].dataset->key);
        if (weir_pipeline__schedule_next_cursor(run, document->mix, document->read.step, i, &cursor))
            weir__write(w, &weir_trace__cursor_shape, &cursor);
        else
            weir_cbor_null(w);
    }
}

static void write_store_hashes(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const weir_pipeline__schedule *run = ((const checkpoint_document *)object)->run;
    (void)field;
    weir_cbor_array(w, run->store_count);
    for (size_t i = 0; i < run->store_count; i++)
        weir_cbor_bytes(w, run->store_hashes[i], WEIR_HASH_SIZE);
}

static void write_prefetch(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const weir_pipeline__run_state *state = ((const checkpoint_document *)object)->state;
    (void)field;
    if (state->prefetch)
        weir_pipeline__prefetch_save(state->prefetch, state->mark, w);
    else
        weir_cbor_null(w);
}

#define SMALL(member) WEIR__UINT(checkpoint_document, read.member, 0, UINT32_MAX), .flags = WEIR__REQUIRED
#define HASH(member)  WEIR__BYTES(checkpoint_document, member), .flags = WEIR__WRITE_ONLY

/* What is only written is compared when a run is restored. */
static const weir__field fields[] = {
    {"checkpoint_version", .kind = WEIR__KIND_CONSTANT, .words = versions, .flags = WEIR__REQUIRED,
     .read = read_version},
    {"step", WEIR__UINT(checkpoint_document, read.step, 0, UINT64_MAX), .flags = WEIR__REQUIRED},
    {"rank", SMALL(rank)},
    {"workers", SMALL(workers)},
    {"world_size", SMALL(world_size)},
    {"stage", WEIR__WORD(checkpoint_document, read.stage, weir_sampler__stages), .flags = WEIR__REQUIRED},
    {"policy", WEIR__WORD(checkpoint_document, read.policy, weir_pipeline__policies),
     .flags = WEIR__REQUIRED},
    {"manifest_hash", WEIR__BYTES(checkpoint_document, manifest_hash), .flags = WEIR__REQUIRED},
    {"pad", WEIR__BOOL(checkpoint_document, pad), .flags = WEIR__WRITE_ONLY},
    {"dataset", WEIR__TEXT(checkpoint_document, dataset), .flags = WEIR__WRITE_ONLY | WEIR__NULLABLE},
    {"mix_hash", HASH(mix_hash)},
    {"prefetch", WEIR__OTHER(NULL, write_prefetch), .flags = WEIR__WRITE_ONLY},
    {"token_hash", HASH(token_hash)},
    {"data_cursors", WEIR__OTHER(NULL, write_cursors), .flags = WEIR__WRITE_ONLY},
    {"store_hashes", WEIR__OTHER(NULL, write_store_hashes), .flags = WEIR__WRITE_ONLY},
    {"weir_version", WEIR__TEXT(checkpoint_document, weir_version), .flags = WEIR__WRITE_ONLY},
    {"batch_config_hash", HASH(batch_config_hash)},
};
static const weir__shape shape = WEIR__SHAPE(checkpoint_document, fields);

void weir_pipeline__checkpoint_write(const weir_pipeline__schedule *run, weir_mix *mix,
                                     const weir_pipeline__run_state *state, weir_cbor_writer *w) {
    const weir_run_options *o = run->options;
    const weir_manifest_info *manifest = weir_manifest_describe(o->manifest);
    checkpoint_document document = {.read = {.step = state->step,
                                             .policy = o->policy,
                                             .workers = o->workers,
                                             .world_size = o->world_size,
                                             .rank = o->rank,
                                             .stage = o->stage},
                                    .pad = o->pad,
                                    .dataset = run->is_mixed ? NULL : run->members[0].dataset->key,
                                    .weir_version = weir_version(),
                                    .run = run,
                                    .mix = mix,
                                    .state = state};
    memcpy(document.manifest_hash, manifest->hash, WEIR_HASH_SIZE);
    memcpy(document.mix_hash, manifest->mix_hash, WEIR_HASH_SIZE);
    memcpy(document.batch_config_hash, manifest->batch_config_hash, WEIR_HASH_SIZE);
    weir__sha256_of(o->token, o->token_size, document.token_hash);
    weir_pipeline__sealed_write(w, WEIR_PIPELINE__CHECKPOINT_VERSION, &shape, &document);
}

static weir__reader reader_of(weir_error *error) {
    return (weir__reader){.error = error,
                          .family = WEIR_CHECKPOINT_MISMATCH,
                          .failure_operator = operator_name,
                          .name = "not a checkpoint of this version (" WEIR_PIPELINE__CHECKPOINT_VERSION ")",
                          .path = "$"};
}

weir_status weir_checkpoint_read(const void *data, size_t size, weir_checkpoint *out, weir_error *error) {
    checkpoint_document document = {0};
    weir_cbor_value hash;
    WEIR__TRY(weir_cbor_check(data, size, NULL, error));
    weir_cbor_value map = weir_cbor_view(data);
    weir__reader r = reader_of(error);
    WEIR__TRY(weir__read(&r, &map, &shape, &document));
    *out = document.read;
    weir_cbor_get(&map, "manifest_hash", &hash);
    out->manifest_hash = hash.data;
    weir__sha256_of(data, size, out->hash);
    return WEIR_OK;
}

/* ---- Restoring ------------------------------------------------------------------------------- */

/* What must be equal, the most telling first: another manifest has another token and other cursors too. The
 * last three in best effort alone, where steps that were taken out of order are those of one rank and its
 * workers. */
static const char *const identities[] = {
    "store_hashes", "manifest_hash", "mix_hash",     "batch_config_hash", "token_hash", "stage",  "dataset",
    "policy",       "pad",           "data_cursors", "world_size",        "rank",       "workers"};
enum { STRICT_IDENTITIES = 10, IDENTITIES = sizeof identities / sizeof identities[0] };

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
                   "the checkpoint is another run's: its %s is %.240s, this run's is %.240s; resume it with "
                   "what it was begun with, or begin anew with another checkpoint",
                   key, was, is);
    weir__note_text(error, "field", key, strlen(key));
    weir__note_text(error, "checkpoint", was, strlen(was));
    weir__note_text(error, "run", is, strlen(is));
    return status;
}

/* In best effort the step is the first one and all that the workers gave since; if they do not add up,
 * somebody has changed one of them. */
static weir_status check_taken(const weir_cbor_value *prefetch, uint64_t step, uint64_t *start,
                               weir_error *error) {
    weir__reader r = reader_of(error);
    weir_cbor_value workers, worker, first;
    if (!weir_cbor_get(prefetch, "worker_states", &workers) || workers.type != WEIR_CBOR_ARRAY ||
        !weir_cbor_get(prefetch, "start_position", &first) || first.type != WEIR_CBOR_UINT)
        return weir__refuse(&r, "prefetch", "is not a state of a prefetcher");
    uint64_t taken = first.number;
    bool adds_up = true;
    weir_cbor_iterator it = weir_cbor_children(&workers);
    while (weir_cbor_next(&it, NULL, &worker))
        adds_up = adds_up && !__builtin_add_overflow(taken, weir_trace__uint(&worker, "produced"), &taken);
    if (!adds_up || taken != step)
        return weir__refuse(&r, "step", "is not what the workers have given");
    *start = first.number;
    return WEIR_OK;
}

weir_status weir_pipeline__checkpoint_restore(const weir_pipeline__schedule *run, weir_mix *mix,
                                              const void *data, size_t size, weir_pipeline__restored *out,
                                              weir_error *error) {
    weir_checkpoint read = {0};
    weir_pipeline__restored restored = {0};
    WEIR__TRY(weir_checkpoint_read(data, size, &read, error));
    weir_cbor_value checkpoint = weir_cbor_view(data);
    weir_pipeline__run_state there = {.step = read.step};
    bool is_best_effort = run->options->policy == WEIR_POLICY_BEST_EFFORT;
    weir_cbor_writer w;
    weir_cbor_writer_memory(&w, run->env);
    weir_pipeline__checkpoint_write(run, mix, &there, &w);
    weir_status status = weir_cbor_finish(&w, error);
    size_t compared = is_best_effort ? IDENTITIES : STRICT_IDENTITIES;
    for (size_t i = 0; i < compared && status == WEIR_OK; i++) {
        weir_cbor_value expected = weir_cbor_view(w.data);
        status = check_equal(run->env, &checkpoint, &expected, identities[i], error);
    }
    weir_cbor_release(&w);
    weir__reader r = reader_of(error);
    if (status == WEIR_OK && !weir_cbor_get(&checkpoint, "prefetch", &restored.prefetch))
        status = weir__refuse(&r, "prefetch", "is missing");
    restored.step = restored.start_position = read.step;
    if (status == WEIR_OK && is_best_effort)
        status = check_taken(&restored.prefetch, read.step, &restored.start_position, error);
    if (status == WEIR_OK)
        *out = restored;
    return status;
}

/* ---- Files ----------------------------------------------------------------------------------- */

weir_status weir_pipeline__checkpoint_save(const weir_env *env, const void *data, size_t size,
                                           const char *path, bool is_first, weir_error *error) {
    weir__atomic_file file;
    WEIR__TRY(weir__atomic_open(&file, env, path, operator_name, error));
    /* Who has the file open is the only writer of that name: what is not there now is not there at commit. */
    weir_status status =
        is_first ? weir_pipeline__run_files_check_first(env, path, operator_name, error) : WEIR_OK;
    if (status == WEIR_OK)
        status = weir__atomic_write(&file, data, size, error);
    if (status == WEIR_OK) {
        status = weir__atomic_commit(&file, error);
        if (status != WEIR_OK && is_first && !file.temporary[0]) /* it has its name, but may lose it */
            env->remove(env->context, path);
    }
    weir__atomic_abandon(&file);
    return status;
}
