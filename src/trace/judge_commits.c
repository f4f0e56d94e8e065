/* See judge_commits.h. A memory record is checked by itself (its hashes are those of its state), against its
 * step (the number, the digest) and against the record before it: the plan is the same, so what is live is,
 * and epochs count up. */
#include "trace/judge_commits.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"

void weir_trace__commits_release(weir_trace__commits *memory, const weir_env *env) {
    weir__release(env, memory->state);
}

static bool differs(weir__difference *found, const char *field, const char *recorded, const char *expected) {
    snprintf(found->field, sizeof found->field, "%s", field);
    snprintf(found->left, sizeof found->left, "%s", recorded);
    snprintf(found->right, sizeof found->right, "%s", expected);
    return false;
}

static bool differs_uint(weir__difference *found, const char *field, uint64_t recorded, uint64_t expected) {
    char was[32], is[32];
    snprintf(was, sizeof was, "%llu", (unsigned long long)recorded);
    snprintf(is, sizeof is, "%llu", (unsigned long long)expected);
    return differs(found, field, was, is);
}

/* ---- One record -------------------------------------------------------------------------------- */

/* A state as 03g says, without contents; only what is live is not looked into: it is compared as it is. */
static bool is_state(const weir_cbor_value *state) {
    weir_cbor_value format, hash, name, arena;
    bool is_whole = state->number == 5 && weir_trace__has(state, "batch", WEIR_CBOR_UINT) &&
                    weir_trace__has(state, "position", WEIR_CBOR_UINT) &&
                    weir_cbor_get(state, "format", &format) && weir_cbor_is_text(&format, "weir-commit/1") &&
                    weir_cbor_get(state, "plan_hash", &hash) && hash.type == WEIR_CBOR_BYTES &&
                    hash.number == WEIR_HASH_SIZE && weir_trace__has(state, "arenas", WEIR_CBOR_MAP);
    if (!is_whole)
        return false;
    weir_cbor_value arenas = weir_trace__get(state, "arenas");
    weir_cbor_iterator it = weir_cbor_children(&arenas);
    while (is_whole && weir_cbor_next(&it, &name, &arena))
        is_whole = arena.type == WEIR_CBOR_MAP && arena.number == 3 &&
                   weir_trace__has(&arena, "live", WEIR_CBOR_ARRAY) &&
                   weir_trace__has(&arena, "epoch", WEIR_CBOR_UINT) &&
                   weir_trace__has(&arena, "written", WEIR_CBOR_UINT);
    return is_whole;
}

static bool is_hash(const char *field, const uint8_t recorded[WEIR_HASH_SIZE],
                    const uint8_t hash[WEIR_HASH_SIZE], weir__difference *found) {
    char was[2 * WEIR_HASH_SIZE + 1], is[2 * WEIR_HASH_SIZE + 1];
    if (memcmp(recorded, hash, WEIR_HASH_SIZE) == 0)
        return true;
    weir__hex_encode(recorded, WEIR_HASH_SIZE, was);
    weir__hex_encode(hash, WEIR_HASH_SIZE, is);
    return differs(found, field, was, is);
}

static bool is_of_its_step(const weir_trace__commits *m, const weir_trace_record *record,
                           const weir_cbor_value *state, weir__difference *found) {
    uint8_t hash[WEIR_HASH_SIZE], buffer[96];
    weir_cbor_writer w;
    uint64_t t = record->t;
    if (!m->is_due || m->committed + 1 != m->steps)
        return differs(found, "memory", "recorded",
                       m->is_due ? "not recorded, as of the steps before it"
                                 : "recorded once, after its step");
    if (t != m->t)
        return differs_uint(found, "t", t, m->t);
    if (!is_state(state))
        return differs(found, "state", "something else", "a state of weir-commit/1");
    if (weir_trace__uint(state, "batch") != t)
        return differs_uint(found, "batch", weir_trace__uint(state, "batch"), t);
    weir__sha256_of(state->item, weir_cbor_size(state), hash);
    if (!is_hash("visibility_hash", record->visibility_hash, hash, found))
        return false;
    /* The state's: SHA-256(CBOR(["tmmu_commit_v1", plan_hash, t])). */
    weir_cbor_value plan = weir_trace__get(state, "plan_hash");
    weir_cbor_writer_fixed(&w, buffer, sizeof buffer);
    weir_cbor_array(&w, 3);
    weir_cbor_text(&w, "tmmu_commit_v1");
    weir_cbor_bytes(&w, plan.data, WEIR_HASH_SIZE);
    weir_cbor_uint(&w, t);
    weir__sha256_of(w.data, w.size, hash);
    if (!is_hash("state_hash", record->state_hash, hash, found))
        return false;
    if (m->has_digest && record->contents && memcmp(record->contents, m->digest, sizeof m->digest) != 0)
        return differs(found, "contents", "other bytes in their place", "the step's batch_digest");
    return true;
}

/* ---- After another ----------------------------------------------------------------------------- */

static bool is_next(const weir_trace__commits *m, const weir_cbor_value *state, weir__difference *found) {
    weir_cbor_value name, arena, old_name, old_arena;
    char field[sizeof found->field];
    weir_cbor_value before = m->state ? weir_cbor_view(m->state) : *state;
    if (!weir__same(state, &before, "plan_hash") || !weir__same(state, &before, "position"))
        return differs(found, weir__same(state, &before, "plan_hash") ? "position" : "plan_hash",
                       "another one", "that of the steps before it");
    weir_cbor_value arenas = weir_trace__get(state, "arenas");
    weir_cbor_value old_arenas = weir_trace__get(&before, "arenas");
    weir_cbor_iterator it = weir_cbor_children(&arenas), old = weir_cbor_children(&old_arenas);
    if (arenas.number != old_arenas.number)
        return differs_uint(found, "arenas", arenas.number, old_arenas.number);
    while (weir_cbor_next(&it, &name, &arena) && weir_cbor_next(&old, &old_name, &old_arena)) {
        if (!weir_cbor_is_same(&name, &old_name))
            return differs(found, "arenas", "another name", "those of the steps before it");
        int shown = name.number < 32 ? (int)name.number : 32;
        if (m->state && !weir__same(&arena, &old_arena, "live")) {
            snprintf(field, sizeof field, "arenas.%.*s.live", shown, (const char *)name.data);
            return differs(found, field, "another list", "that of the steps before it");
        }
        uint64_t epoch = weir_trace__uint(&arena, "epoch"), step = weir_trace__uint(&arena, "written") > 0;
        uint64_t last = m->state ? weir_trace__uint(&old_arena, "epoch") : 0;
        if (epoch != last + step || epoch < last) {
            snprintf(field, sizeof field, "arenas.%.*s.epoch", shown, (const char *)name.data);
            return differs_uint(found, field, epoch, last + step);
        }
    }
    return true;
}

bool weir_trace__commits_follow(weir_trace__commits *m, const weir_env *env, const weir_trace_record *record,
                                weir__difference *found, weir_status *status, weir_error *error) {
    weir_cbor_value map = weir_trace__map(record), state;
    *status = WEIR_OK;
    if (record->kind == WEIR_TRACE_MEMORY) {
        state = weir_trace__get(&map, "state");
        if (!is_of_its_step(m, record, &state, found) || !is_next(m, &state, found))
            return false;
        void *memory = m->state;
        size_t size = weir_cbor_size(&state);
        if (weir__grow(env, &memory, &m->state_capacity, size, 1)) {
            m->state = memory;
            memcpy(m->state, state.item, size);
        } else {
            *status = weir__out_of_memory(error, "weir.trace.judge", size);
        }
        m->committed++;
        m->is_due = false;
        return true;
    }
    if (record->kind != WEIR_TRACE_EOF && m->is_due && m->committed > 0)
        return differs(found, "memory", "(absent)", "recorded, as of the steps before it");
    if (record->kind == WEIR_TRACE_ITER) {
        m->t = record->t;
        m->steps++;
        m->is_due = true;
        m->has_digest = record->batch_digest;
        if (m->has_digest)
            memcpy(m->digest, record->batch_digest, sizeof m->digest);
    } else if (record->kind == WEIR_TRACE_RESUME) { /* another process, with memory of its own */
        weir_trace__commits_release(m, env);
        *m = (weir_trace__commits){0};
    }
    return true;
}
