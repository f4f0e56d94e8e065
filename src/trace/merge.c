/* weir merge: the ranks of one run against the same run at world size 1. Each rank's record is re-executed
 * as that rank, and each trace is judged as a run; the indices of all ranks, one after the other, must be
 * those that world size 1 takes at the same cursor. Sample digests are compared with a world-size-1 trace if
 * one is given. */
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "sampler/sampler.h"
#include "trace/replay.h"

static const char operator_name[] = "weir.trace.merge";

enum { PIECE = 1024 };
#define SAMPLES_MAX ((uint64_t)1 << 32) /* of a step: some seconds of work */

/* One of the traces: its record at hand is a step, the failure, the end, or the end of the file. */
typedef struct rank_trace {
    const char *path;
    weir_trace_reader *reader;
    weir_trace__replayer *replayer; /* NULL for the world-size-1 trace, whose steps are not re-executed */
    weir_trace__judge judge;
    weir_trace_record record;
} rank_trace;

typedef struct merger {
    const weir_env *env;
    rank_trace *ranks; /* by rank */
    size_t count;
    weir_manifest *manifest;
    weir_trace__replayer *whole; /* world size 1 */
    rank_trace single;           /* the world-size-1 trace; its reader is NULL if none is given */
    weir_merge_report *report;
    weir_error *error;
} merger;

static weir_status not_one_run(const merger *m, const char *path, const char *why) {
    return weir__fail(m->error, WEIR_CONTRACT_VIOLATION, operator_name,
                      "%s: %s; give the traces of all ranks of one run", path, why);
}

/* Everything in which the ranks of one run agree, and what the run at world size 1 shares with them. */
static const char *const shared_by_ranks[] = {"trace_version",     "manifest_hash", "mix_hash",
                                              "batch_config_hash", "store_hashes",  "replay_token",
                                              "world_size",        "schedule",      NULL};
static const char *const shared_by_all[] = {"trace_version", "manifest_hash", "mix_hash", "batch_config_hash",
                                            "store_hashes",  "replay_token",  NULL};

static weir_status check_shared(const merger *m, const char *path, const weir_cbor_value *header,
                                const char *const *fields) {
    const weir_cbor_value *first = weir_trace__header(m->ranks[0].reader);
    for (; *fields; fields++)
        if (!weir__same(first, header, *fields)) {
            char why[96];
            snprintf(why, sizeof why, "its %s is not that of the others", *fields);
            return not_one_run(m, path, why);
        }
    return WEIR_OK;
}

/* Opens every trace and puts it at its rank's place; all must be of one run. */
static weir_status open_ranks(merger *m, const char *const *paths) {
    for (size_t i = 0; i < m->count; i++) {
        weir_trace_reader *reader;
        WEIR__TRY(weir_trace_open(m->env, paths[i], &reader, m->error));
        uint32_t rank = weir_trace_describe(reader)->rank;
        uint32_t world_size = weir_trace_describe(reader)->world_size;
        if (world_size != m->count || rank >= m->count || m->ranks[rank].reader) {
            char why[128];
            snprintf(why, sizeof why, "it is rank %u of %u, and %zu %s given%s", (unsigned)rank,
                     (unsigned)world_size, m->count, m->count == 1 ? "trace is" : "traces are",
                     rank < m->count && m->ranks[rank].reader ? ", one of this rank already" : "");
            weir_trace_close(reader);
            return not_one_run(m, paths[i], why);
        }
        m->ranks[rank].path = paths[i];
        m->ranks[rank].reader = reader;
    }
    for (size_t rank = 1; rank < m->count; rank++)
        WEIR__TRY(
            check_shared(m, m->ranks[rank].path, weir_trace__header(m->ranks[rank].reader), shared_by_ranks));
    return WEIR_OK;
}

static weir_status open_replayers(merger *m, weir_trace__replay_stores stores) {
    const weir_trace_info *first = weir_trace_describe(m->ranks[0].reader);
    WEIR__TRY(weir_trace__replay_check_stores(first, stores, m->error));
    WEIR__TRY(weir_trace_manifest(m->ranks[0].reader, &m->manifest, m->error));
    WEIR__TRY(weir_trace__replayer_open(m->env, m->manifest, first, stores, 1, 0, &m->whole, m->error));
    for (size_t rank = 0; rank < m->count; rank++) {
        rank_trace *one = &m->ranks[rank];
        const weir_trace_info *header = weir_trace_describe(one->reader);
        WEIR__TRY(weir_trace__judge_open(&one->judge, m->env, header, m->manifest, m->error));
        WEIR__TRY(weir_trace__replayer_open(m->env, m->manifest, header, stores, (uint32_t)m->count,
                                            (uint32_t)rank, &one->replayer, m->error));
    }
    return WEIR_OK;
}

static weir_status open_single(merger *m, const char *path) {
    if (!path)
        return WEIR_OK;
    m->single.path = path;
    WEIR__TRY(weir_trace_open(m->env, path, &m->single.reader, m->error));
    const weir_trace_info *header = weir_trace_describe(m->single.reader);
    if (header->world_size != 1)
        return not_one_run(m, path, "it is not a trace of world size 1");
    WEIR__TRY(check_shared(m, path, weir_trace__header(m->single.reader), shared_by_all));
    return weir_trace__judge_open(&m->single.judge, m->env, header, m->manifest, m->error);
}

/* Reads on to the next step, failure or end, judging all that is read. */
static weir_status advance(const merger *m, rank_trace *one) {
    do {
        WEIR__TRY(weir_trace_next(one->reader, &one->record, m->error));
        bool is_failure = one->record.kind == WEIR_TRACE_FAILURE;
        weir_trace__place_of_step place = {0};
        if (is_failure)
            place = weir_trace__judge_locate(&one->judge, one->record.t);
        WEIR__TRY(weir_trace__judge_take(&one->judge, &one->record, m->error));
        if (is_failure && one->replayer)
            WEIR__TRY(weir_trace__replayer_check_failure(one->replayer, &one->record, &place, m->error));
    } while (one->record.kind == WEIR_TRACE_RESUME || one->record.kind == WEIR_TRACE_MEMORY);
    return WEIR_OK;
}

static const char *doing(weir_trace_kind kind) {
    switch (kind) {
    case WEIR_TRACE_ITER:
        return "continues";
    case WEIR_TRACE_FAILURE:
        return "fails";
    case WEIR_TRACE_END:
        return "ends";
    default:
        return "breaks off without a run_end";
    }
}

/* Two traces of different length, at the first step that one of them lacks. */
static weir_status uneven(const merger *m, const rank_trace *left, const rank_trace *right) {
    const rank_trace *step = left->record.kind == WEIR_TRACE_ITER ? left : right;
    uint64_t t = step->record.kind == WEIR_TRACE_ITER ? step->record.t : (uint64_t)left->judge.next;
    weir_status status = weir__fail(m->error, WEIR_REPLAY_DIVERGENCE, operator_name,
                                    "step %llu: %s %s there, and %s %s", (unsigned long long)t, left->path,
                                    doing(left->record.kind), right->path, doing(right->record.kind));
    weir__note_text(m->error, "field", "type", 4);
    if (m->error) {
        m->error->t = t;
        m->error->rank = right->judge.header->rank;
    }
    return status;
}

/* What two traces record of a step or a failure in the same words; `own` are the fields that may differ. */
static weir_status check_agreement(const merger *m, const rank_trace *left, const rank_trace *right,
                                   const char *const *own) {
    weir__difference difference;
    const weir_trace_record *record = &right->record;
    if (record->kind != left->record.kind)
        return uneven(m, left, right);
    bool is_compared = record->kind == WEIR_TRACE_ITER || record->kind == WEIR_TRACE_FAILURE;
    weir_cbor_value a = weir_trace__map(&left->record), b = weir_trace__map(record);
    if (!is_compared || !weir__compare(m->env, &a, &b, own, &difference))
        return WEIR_OK;
    return weir_trace__divergence(m->error, right->judge.header, record, record->t, difference.field,
                                  difference.right, difference.left);
}

/* A step as it is made again, with the sampler that makes its indices. */
typedef struct made_step {
    weir_step step;
    weir_sampler *sampler;
} made_step;

/* Compares a rank's indices with those from `from` on at world size 1, a piece at a time: a trace of a few
 * bytes may say that they are any number. */
static weir_status check_indices(const merger *m, const rank_trace *one, uint64_t t, const made_step *part,
                                 const made_step *whole, uint64_t from) {
    uint64_t mine[PIECE], theirs[PIECE], valid = part->step.valid_count;
    for (uint64_t done = 0, count; done < valid; done += count) {
        count = valid - done < PIECE ? valid - done : PIECE;
        weir_sampler__indices_from(part->sampler, &part->step, done, count, mine);
        weir_sampler__indices_from(whole->sampler, &whole->step, from + done, count, theirs);
        for (uint64_t i = 0; i < count; i++)
            if (mine[i] != theirs[i]) {
                char left[32], right[32];
                snprintf(left, sizeof left, "%llu", (unsigned long long)mine[i]);
                snprintf(right, sizeof right, "%llu", (unsigned long long)theirs[i]);
                return weir_trace__divergence(m->error, one->judge.header, &one->record, t, "indices", left,
                                              right);
            }
    }
    return WEIR_OK;
}

static weir_status lacks_digests(const merger *m, const rank_trace *one, uint64_t t) {
    return weir__fail(
        m->error, WEIR_CONTRACT_VIOLATION, operator_name,
        "%s has no sample digests of step %llu, so there is nothing to compare with --single; record "
        "the runs with digests (without --no-digests), or leave --single out",
        one->path, (unsigned long long)t);
}

/* Compares one rank's digests with its stretch of the world-size-1 record's, which begins at `from`. */
static weir_status check_digests(const merger *m, const rank_trace *one, uint64_t t, uint64_t from) {
    weir_cbor_value digests, whole, digest, expected;
    bool has_digests = weir_trace__digests(&one->record, &digests);
    if (!m->single.reader) {
        m->report->unchecked_digests += has_digests ? digests.number : 0;
        return WEIR_OK;
    }
    if (!has_digests)
        return lacks_digests(m, one, t);
    if (!weir_trace__digests(&m->single.record, &whole))
        return lacks_digests(m, &m->single, t);
    weir_cbor_iterator mine = weir_cbor_children(&digests);
    weir_cbor_iterator theirs = weir_cbor_children(&whole);
    for (uint64_t i = 0; i < from; i++)
        (void)weir_cbor_next(&theirs, NULL, &expected);
    while (weir_cbor_next(&mine, NULL, &digest)) {
        if (!weir_cbor_next(&theirs, NULL, &expected) || !weir_cbor_is_same(&digest, &expected))
            return weir_trace__divergence(m->error, one->judge.header, &one->record, t, "sample_digests",
                                          "the digest of a rank's sample", "another one at world size 1");
        m->report->digests++;
    }
    return WEIR_OK;
}

/* A trace's digests of a step must be as many as its samples: none may be left uncompared. */
static weir_status check_digest_count(const merger *m, const rank_trace *one, uint64_t t, uint64_t valid) {
    char was[32], is[32];
    weir_cbor_value digests;
    if (!weir_trace__digests(&one->record, &digests) || digests.number == valid)
        return WEIR_OK;
    snprintf(was, sizeof was, "%llu digests", (unsigned long long)digests.number);
    snprintf(is, sizeof is, "%llu samples", (unsigned long long)valid);
    return weir_trace__divergence(m->error, one->judge.header, &one->record, t, "sample_digests", was, is);
}

static weir_status other_sum(const merger *m, uint64_t t) {
    const rank_trace *first = &m->ranks[0];
    return weir_trace__divergence(m->error, first->judge.header, &first->record, t, "valid_count",
                                  "the sum over the ranks", "another number at world size 1");
}

static weir_status merge_step(merger *m) {
    made_step whole, part;
    uint64_t merged = 0;
    const rank_trace *first = &m->ranks[0];
    uint64_t t = first->record.t;
    WEIR__TRY(weir_trace__replayer_step(m->whole, &first->record, &whole.step, &whole.sampler, m->error));
    uint64_t valid = whole.step.valid_count;
    if (valid > SAMPLES_MAX)
        return weir__fail(m->error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "%s: step %llu has %llu samples; at most %llu are compared", first->path,
                          (unsigned long long)t, (unsigned long long)valid, (unsigned long long)SAMPLES_MAX);
    if (m->single.reader)
        WEIR__TRY(check_digest_count(m, &m->single, t, valid));
    for (size_t rank = 0; rank < m->count; rank++) {
        const rank_trace *one = &m->ranks[rank];
        WEIR__TRY(
            weir_trace__replayer_check(one->replayer, &one->record, &part.step, &part.sampler, m->error));
        if (part.step.valid_count > valid - merged)
            return other_sum(m, t);
        WEIR__TRY(check_digest_count(m, one, t, part.step.valid_count));
        WEIR__TRY(check_indices(m, one, t, &part, &whole, merged));
        WEIR__TRY(check_digests(m, one, t, merged));
        merged += part.step.valid_count;
    }
    if (merged != valid)
        return other_sum(m, t);
    m->report->steps++;
    m->report->samples += merged;
    return WEIR_OK;
}

static weir_status merge_records(merger *m) {
    static const char *const by_world[] = {
        "micro_batch_size", "h",       "indices",     "valid_count", "batch_digest", "data_replay_t",
        "sample_digests",   "message", "diagnostics", NULL};
    const char *const *by_rank = by_world + 1; /* all ranks have the same micro-batch */
    const rank_trace *first = &m->ranks[0];
    for (;;) {
        for (size_t rank = 0; rank < m->count; rank++)
            WEIR__TRY(advance(m, &m->ranks[rank]));
        for (size_t rank = 1; rank < m->count; rank++)
            WEIR__TRY(check_agreement(m, first, &m->ranks[rank], by_rank));
        if (m->single.reader) {
            WEIR__TRY(advance(m, &m->single));
            WEIR__TRY(check_agreement(m, first, &m->single, by_world));
        }
        if (first->record.kind == WEIR_TRACE_END || first->record.kind == WEIR_TRACE_EOF)
            return WEIR_OK;
        if (first->record.kind == WEIR_TRACE_ITER)
            WEIR__TRY(merge_step(m));
    }
}

static void close_trace(rank_trace *one) {
    weir_trace__replayer_close(one->replayer);
    weir_trace__judge_close(&one->judge);
    weir_trace_close(one->reader);
}

weir_status weir_trace_merge(const weir_env *env, const char *const *paths, size_t count,
                             const weir_merge_options *given, weir_merge_report *report, weir_error *error) {
    weir_merge_options options;
    WEIR__TRY(WEIR__TAKE_OPTIONS(options, given, weir_merge_options, operator_name, error));
    env = weir__env_or_default(env);
    *report = (weir_merge_report){.world_size = (uint32_t)count};
    if (count == 0 || count > UINT32_MAX)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "no trace is given; name those of all ranks");
    merger m = {.env = env, .count = count, .report = report, .error = error};
    m.ranks = weir__allocate_zero(env, count, sizeof *m.ranks);
    if (!m.ranks)
        return weir__out_of_memory(error, operator_name, count * sizeof *m.ranks);
    weir_status status = open_ranks(&m, paths);
    if (status == WEIR_OK)
        status = open_replayers(&m, (weir_trace__replay_stores){options.stores, options.store_count});
    if (status == WEIR_OK)
        status = open_single(&m, options.single);
    if (status == WEIR_OK)
        status = merge_records(&m);
    const weir_trace__judge *judge = &m.ranks[0].judge;
    report->status = judge->status;
    report->failed_step = judge->failed_step;
    memcpy(report->failure_code, judge->failure_code, sizeof report->failure_code);
    for (size_t rank = 0; rank < count; rank++)
        close_trace(&m.ranks[rank]);
    close_trace(&m.single);
    weir_trace__replayer_close(m.whole);
    weir_manifest_close(m.manifest);
    weir__release(env, m.ranks);
    return status;
}
