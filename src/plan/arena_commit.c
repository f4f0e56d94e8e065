/* CommitExecution_v1: barriers over the arenas, and the visibility state that they seal for a batch
 * (docs/spec/03g-commit.md). The state is kept as its bytes, so that a repeated commit gives the same ones.
 */
#include "base/hash.h"
#include "base/options.h"
#include "plan/arenas.h"

#define COMMIT_OPERATOR "UML_OS.TMMU.CommitExecution_v1"

enum { READ_CHUNK = 1 << 20 };

/* On the host it is a fence: what was written before is seen by whoever learns of the commit. */
weir_status weir_plan__arena_barriers(const weir_arenas *arenas, weir_error *error) {
    for (uint32_t a = 0; a < arenas->arena_count; a++) {
        if (!arenas->arenas[a].base) /* it has no memory in this set */
            continue;
        weir_status status = weir__memory_settle(&arenas->memory, error);
        if (status != WEIR_OK) {
            weir__note_text(error, "arena", arenas->arenas[a].name.data, arenas->arenas[a].name.size);
            return status;
        }
    }
    return WEIR_OK;
}

void weir_plan__arena_note_write(weir_arenas *arenas, uint32_t tensor) {
    const weir_plan__row *row = &arenas->plan->rows[tensor];
    weir_plan__mapped *arena = &arenas->arenas[row->arena];
    if (__builtin_add_overflow(arena->written, row->size, &arena->written))
        arena->written = UINT64_MAX;
}

weir_status weir_arenas_written(weir_arenas *arenas, const char *id, size_t id_size, weir_error *error) {
    uint32_t tensor = 0;
    WEIR__TRY(weir_plan__arena_tensor(arenas, id, id_size, COMMIT_OPERATOR, &tensor, error));
    weir_plan__arena_note_write(arenas, tensor);
    return WEIR_OK;
}

static bool is_live(const weir_plan__row *row, uint32_t arena, uint64_t position) {
    return row->arena == arena && row->birth <= position && position < row->death;
}

/* ---- Contents ---------------------------------------------------------------------------------- */

static weir_status hash_contents(const weir_arenas *set, uint32_t a, uint64_t position,
                                 uint8_t hash[WEIR_HASH_SIZE], weir_error *error) {
    const weir_plan__mapped *arena = &set->arenas[a];
    weir__sha256 sha;
    weir_status status = WEIR_OK;
    uint8_t *chunk = weir__allocate(set->env, READ_CHUNK, 1);
    if (!chunk)
        return weir__out_of_memory(error, COMMIT_OPERATOR, READ_CHUNK);
    weir__sha256_init(&sha);
    for (uint32_t i = 0; i < set->plan->count && status == WEIR_OK; i++) {
        const weir_plan__row *row = &set->plan->rows[set->plan->sorted[i]];
        if (!is_live(row, a, position))
            continue;
        if (row->size > 0 && (!arena->base || !weir_plan__arena_is_backed(arena, row->offset, row->size)))
            status = weir__fail(error, WEIR_CONTRACT_VIOLATION, COMMIT_OPERATOR,
                                "the tensor '%.*s' has no memory to hash: it was given back",
                                WEIR_PLAN__SHOW(weir_plan__id(set->plan, set->plan->sorted[i])));
        for (uint64_t at = 0; at < row->size && status == WEIR_OK; at += READ_CHUNK) {
            size_t part = row->size - at < READ_CHUNK ? (size_t)(row->size - at) : READ_CHUNK;
            status = weir__memory_read(&set->memory, chunk, arena->base + row->offset + at, part, error);
            if (status == WEIR_OK)
                weir__sha256_update(&sha, chunk, part);
        }
    }
    weir__sha256_final(&sha, hash);
    weir__release(set->env, chunk);
    return status;
}

/* ---- The state --------------------------------------------------------------------------------- */

static weir_status write_arena(const weir_arenas *set, uint32_t a, const weir_commit_options *options,
                               weir_cbor_writer *w, weir_error *error) {
    const weir_plan *plan = set->plan;
    const weir_plan__mapped *arena = &set->arenas[a];
    uint64_t count = 0;
    weir_cbor_text_n(w, arena->name.data, arena->name.size);
    weir_cbor_map(w, 3u + options->with_contents);
    weir_cbor_text(w, "live");
    for (uint32_t i = 0; i < plan->count; i++)
        count += is_live(&plan->rows[i], a, options->position);
    weir_cbor_array(w, count);
    for (uint32_t i = 0; i < plan->count; i++) {
        const weir_plan__row *row = &plan->rows[plan->sorted[i]];
        if (!is_live(row, a, options->position))
            continue;
        weir_text id = weir_plan__id(plan, plan->sorted[i]);
        weir_cbor_array(w, 4);
        weir_cbor_text_n(w, id.data, id.size);
        weir_cbor_uint(w, plan->slots[plan->arenas[a].first_slot + row->slot].address);
        weir_cbor_uint(w, row->offset);
        weir_cbor_uint(w, row->size);
    }
    weir_cbor_pair_uint(w, "epoch", arena->epoch + (arena->written > 0));
    weir_cbor_pair_uint(w, "written", arena->written);
    if (!options->with_contents)
        return WEIR_OK;
    uint8_t hash[WEIR_HASH_SIZE];
    weir_status status = hash_contents(set, a, options->position, hash, error);
    weir_cbor_pair_bytes(w, "contents", hash, sizeof hash);
    return status;
}

static weir_status write_state(weir_arenas *set, const weir_commit_options *options, weir_cbor_writer *w,
                               weir_error *error) {
    weir_cbor_map(w, 5);
    weir_cbor_pair_uint(w, "batch", options->batch);
    weir_cbor_text(w, "arenas");
    weir_cbor_map(w, set->arena_count);
    for (uint32_t a = 0; a < set->arena_count; a++)
        WEIR__TRY(write_arena(set, a, options, w, error));
    weir_cbor_pair_text(w, "format", "weir-commit/1");
    weir_cbor_pair_uint(w, "position", options->position);
    weir_cbor_pair_bytes(w, "plan_hash", set->plan->hashes.plan, WEIR_HASH_SIZE);
    return weir_cbor_finish(w, error);
}

static weir_status seal_batch(weir_arenas *set, const weir_commit_options *options, weir_error *error) {
    weir_cbor_writer w;
    weir_cbor_writer_memory(&w, set->env);
    weir_status status = write_state(set, options, &w, error);
    if (status != WEIR_OK) {
        weir_cbor_release(&w);
        return status;
    }
    weir_cbor_release(&set->sealed);
    set->sealed = w;
    set->is_sealed = true;
    set->sealed_as = *options;
    for (uint32_t a = 0; a < set->arena_count; a++) {
        set->arenas[a].epoch += set->arenas[a].written > 0;
        set->arenas[a].written = 0;
    }
    return WEIR_OK;
}

weir_status weir_arenas_seal(weir_arenas *arenas, const weir_commit_options *given, weir_commit *commit,
                             weir_error *error) {
    weir_commit_options options;
    WEIR__TRY(WEIR__TAKE_OPTIONS(options, given, weir_commit_options, COMMIT_OPERATOR, error));
    const weir_commit_options *before = &arenas->sealed_as;
    bool is_repeated = arenas->is_sealed && before->batch == options.batch; /* it is not sealed again */
    if (is_repeated &&
        (options.position != before->position || options.with_contents != before->with_contents))
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, COMMIT_OPERATOR,
                          "batch %llu was sealed at position %llu, %s contents; commit it as it was, or give "
                          "the next batch another number",
                          (unsigned long long)before->batch, (unsigned long long)before->position,
                          before->with_contents ? "with" : "without");
    WEIR__TRY(weir_arenas_commit(arenas, options.batch, commit->state_hash, error));
    if (!is_repeated)
        WEIR__TRY(seal_batch(arenas, &options, error));
    commit->state = arenas->sealed.data;
    commit->state_size = arenas->sealed.size;
    weir__sha256_of(commit->state, commit->state_size, commit->visibility_hash);
    return WEIR_OK;
}
