/* weir merge: the ranks of one run against the same run at world size 1. Each rank's record is re-executed
 * as that rank; the indices of all ranks, one after the other, must be those that world size 1 takes at the
 * same cursor. Sample digests are compared with a world-size-1 trace where one is given. */
#include <stdio.h>
#include <string.h>

#include "trace/replay.h"

static const char operator_name[] = "weir.trace.merge";

typedef struct rank_trace {
    const char *path;
    weir_trace_reader *reader;
    weir__replayer *replayer;
    weir_trace_record record;
} rank_trace;

typedef struct merger {
    const weir_env *env;
    rank_trace *ranks; /* by rank */
    size_t count;
    weir_manifest *manifest;
    weir__replayer *whole;     /* world size 1 */
    weir_trace_reader *single; /* the world-size-1 trace, or NULL */
    weir_trace_record single_record;
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
    const weir_cbor_value *first = weir_trace_header(m->ranks[0].reader);
    for (; *fields; fields++)
        if (!weir__trace_same(first, header, *fields)) {
            char why[96];
            snprintf(why, sizeof why, "its %s is not that of the others", *fields);
            return not_one_run(m, path, why);
        }
    return WEIR_OK;
}

static weir_status check_headers(const merger *m) {
    weir_status status = WEIR_OK;
    for (size_t rank = 1; rank < m->count && status == WEIR_OK; rank++)
        status =
            check_shared(m, m->ranks[rank].path, weir_trace_header(m->ranks[rank].reader), shared_by_ranks);
    return status;
}

/* Opens every trace and puts it at its rank's place. */
static weir_status open_ranks(merger *m, const char *const *paths) {
    for (size_t i = 0; i < m->count; i++) {
        weir_trace_reader *reader;
        weir_status status = weir_trace_open(m->env, paths[i], &reader, m->error);
        if (status != WEIR_OK)
            return status;
        const weir_cbor_value *header = weir_trace_header(reader);
        uint64_t rank = weir__trace_uint(header, "rank");
        uint64_t world_size = weir__trace_uint(header, "world_size");
        if (world_size != m->count || rank >= m->count || m->ranks[rank].reader) {
            char why[128];
            snprintf(why, sizeof why, "it is rank %llu of %llu, and %zu %s given%s", (unsigned long long)rank,
                     (unsigned long long)world_size, m->count, m->count == 1 ? "trace is" : "traces are",
                     rank < m->count && m->ranks[rank].reader ? ", one of this rank already" : "");
            weir_trace_close(reader);
            return not_one_run(m, paths[i], why);
        }
        m->ranks[rank].path = paths[i];
        m->ranks[rank].reader = reader;
    }
    return check_headers(m);
}

static weir_status open_replayers(merger *m) {
    const weir_cbor_value *header = weir_trace_header(m->ranks[0].reader);
    weir_cbor_value token;
    weir_cbor_get(header, "replay_token", &token);
    weir_status status = weir_trace_manifest(m->ranks[0].reader, &m->manifest, m->error);
    if (status == WEIR_OK)
        status = weir__replayer_open(m->env, m->manifest, token.data, (size_t)token.number, 1, 0, &m->whole,
                                     m->error);
    for (size_t rank = 0; rank < m->count && status == WEIR_OK; rank++)
        status = weir__replayer_open(m->env, m->manifest, token.data, (size_t)token.number,
                                     (uint32_t)m->count, (uint32_t)rank, &m->ranks[rank].replayer, m->error);
    return status;
}

static weir_status open_single(merger *m, const char *path) {
    if (!path)
        return WEIR_OK;
    weir_status status = weir_trace_open(m->env, path, &m->single, m->error);
    if (status != WEIR_OK)
        return status;
    const weir_cbor_value *header = weir_trace_header(m->single);
    if (weir__trace_uint(header, "world_size") != 1)
        return not_one_run(m, path, "it is not a trace of world size 1");
    return check_shared(m, path, header, shared_by_all);
}

static const char *doing(weir_trace_kind kind) {
    switch (kind) {
    case WEIR_TRACE_ITER:
        return "goes on";
    case WEIR_TRACE_END:
        return "ends";
    default:
        return "breaks off without a run_end";
    }
}

/* Two traces of different length, at the first step that one of them lacks. */
static weir_status uneven(const merger *m, const char *left, weir_trace_kind left_kind, const char *right,
                          weir_trace_kind right_kind) {
    uint64_t t = m->report->steps;
    weir_status status =
        weir__fail(m->error, WEIR_REPLAY_DIVERGENCE, operator_name, "step %llu: %s %s there, and %s %s",
                   (unsigned long long)t, left, doing(left_kind), right, doing(right_kind));
    weir__note_text(m->error, "field", "type", 4);
    if (m->error)
        m->error->t = t;
    return status;
}

/* What every rank records of a step in the same words. */
static weir_status check_agreement(const merger *m, const rank_trace *rank) {
    static const char *const own[] = {"indices",       "valid_count",    "batch_digest",
                                      "data_replay_t", "sample_digests", NULL};
    weir__field_difference difference;
    const weir_trace_record *first = &m->ranks[0].record;
    if (rank->record.kind != first->kind)
        return uneven(m, m->ranks[0].path, first->kind, rank->path, rank->record.kind);
    if (first->kind == WEIR_TRACE_ITER &&
        weir__trace_compare(m->env, &first->map, &rank->record.map, own, &difference))
        return weir__divergence(m->error, weir__trace_uint(&first->map, "t"), difference.field,
                                difference.left, difference.right);
    return WEIR_OK;
}

static weir_status check_indices(const merger *m, uint64_t t, const uint64_t *part, uint64_t count,
                                 const uint64_t *whole) {
    for (uint64_t i = 0; i < count; i++)
        if (part[i] != whole[i]) {
            char left[32], right[32];
            snprintf(left, sizeof left, "%llu", (unsigned long long)part[i]);
            snprintf(right, sizeof right, "%llu", (unsigned long long)whole[i]);
            return weir__divergence(m->error, t, "indices", left, right);
        }
    return WEIR_OK;
}

/* Compares one rank's digests with its stretch of the world-size-1 record's, which begins at `from`. */
static weir_status check_digests(const merger *m, uint64_t t, const weir_cbor_value *iter, uint64_t from) {
    weir_cbor_value digests, whole, digest, expected;
    if (!weir_cbor_get(iter, "sample_digests", &digests))
        return WEIR_OK;
    if (!m->single || !weir_cbor_get(&m->single_record.map, "sample_digests", &whole)) {
        m->report->unchecked_digests += digests.number;
        return WEIR_OK;
    }
    weir_cbor_iterator mine = weir_cbor_children(&digests);
    weir_cbor_iterator theirs = weir_cbor_children(&whole);
    for (uint64_t i = 0; i < from; i++)
        (void)weir_cbor_next(&theirs, NULL, &expected);
    while (weir_cbor_next(&mine, NULL, &digest)) {
        bool is_same = weir_cbor_next(&theirs, NULL, &expected) && digest.number == expected.number &&
                       memcmp(digest.data, expected.data, (size_t)digest.number) == 0;
        if (!is_same)
            return weir__divergence(m->error, t, "sample_digests", "the digest of a rank's sample",
                                    "another one at world size 1");
        m->report->digests++;
    }
    return WEIR_OK;
}

static weir_status check_single(merger *m, const weir_trace_record *first) {
    static const char *const by_world[] = {
        "indices",          "valid_count", "batch_digest", "data_replay_t", "sample_digests",
        "micro_batch_size", NULL};
    weir__field_difference difference;
    if (!m->single)
        return WEIR_OK;
    weir_status status = weir__trace_next_step(m->single, &m->single_record, m->error);
    if (status != WEIR_OK)
        return status;
    if (m->single_record.kind != first->kind)
        return uneven(m, "the run of the ranks", first->kind, "the one at world size 1",
                      m->single_record.kind);
    if (first->kind == WEIR_TRACE_ITER &&
        weir__trace_compare(m->env, &first->map, &m->single_record.map, by_world, &difference))
        return weir__divergence(m->error, weir__trace_uint(&first->map, "t"), difference.field,
                                difference.left, difference.right);
    return WEIR_OK;
}

static weir_status merge_step(merger *m) {
    weir_step step;
    const uint64_t *whole;
    uint64_t merged = 0;
    const weir_cbor_value *first = &m->ranks[0].record.map;
    uint64_t t = weir__trace_uint(first, "t");
    weir_status status = weir__replayer_step(m->whole, first, &step, &whole, m->error);
    for (size_t rank = 0; rank < m->count && status == WEIR_OK; rank++) {
        weir_step part_step;
        const uint64_t *part;
        const weir_cbor_value *iter = &m->ranks[rank].record.map;
        status = weir__replayer_check(m->ranks[rank].replayer, iter, &part_step, &part, m->error);
        if (status == WEIR_OK)
            status = check_indices(m, t, part, part_step.valid_count, whole + merged);
        if (status == WEIR_OK)
            status = check_digests(m, t, iter, merged);
        if (status == WEIR_OK)
            merged += part_step.valid_count;
    }
    if (status != WEIR_OK)
        return status;
    if (merged != step.valid_count)
        return weir__divergence(m->error, t, "valid_count", "the sum over the ranks",
                                "another number at world size 1");
    m->report->steps++;
    m->report->samples += merged;
    return WEIR_OK;
}

static weir_status merge_records(merger *m) {
    for (;;) {
        weir_status status = WEIR_OK;
        for (size_t rank = 0; rank < m->count && status == WEIR_OK; rank++)
            status = weir__trace_next_step(m->ranks[rank].reader, &m->ranks[rank].record, m->error);
        for (size_t rank = 1; rank < m->count && status == WEIR_OK; rank++)
            status = check_agreement(m, &m->ranks[rank]);
        if (status == WEIR_OK)
            status = check_single(m, &m->ranks[0].record);
        if (status != WEIR_OK || m->ranks[0].record.kind != WEIR_TRACE_ITER)
            return status;
        status = merge_step(m);
        if (status != WEIR_OK)
            return status;
    }
}

weir_status weir_trace_merge(const weir_env *env, const char *const *paths, size_t count, const char *single,
                             weir_merge_report *report, weir_error *error) {
    env = weir__env(env);
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
        status = open_replayers(&m);
    if (status == WEIR_OK)
        status = open_single(&m, single);
    if (status == WEIR_OK)
        status = merge_records(&m);
    for (size_t rank = 0; rank < count; rank++) {
        weir__replayer_close(m.ranks[rank].replayer);
        weir_trace_close(m.ranks[rank].reader);
    }
    weir__replayer_close(m.whole);
    weir_trace_close(m.single);
    weir_manifest_close(m.manifest);
    weir__release(env, m.ranks);
    return status;
}
