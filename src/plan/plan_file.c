/* A plan's canonical form (weir-plan/1) and its hashes. The whole is never in memory: it streams into
 * SHA-256 and, when it is saved, into a file. Tensors stand in the order of CBOR keys. */
#include <string.h>

#include "base/bytes.h"
#include "base/stream.h"
#include "plan/planning.h"
#include "weir_tool/plan_tools.h"

#define FILE_OPERATOR "weir.plan.file"

static void write_text(weir_cbor_writer *w, weir_text text) {
    weir_cbor_text_n(w, text.data, text.size);
}

static void write_arena(const weir_plan__planned_arena *arena, weir_cbor_writer *w) {
    write_text(w, arena->name);
    weir_cbor_map(w, arena->has_capacity ? 8 : 7);
    weir_cbor_text(w, "slots");
    weir_cbor_uint(w, arena->slot_count);
    weir_cbor_text(w, "optimal");
    weir_cbor_bool(w, arena->optimal);
    if (arena->has_capacity) {
        weir_cbor_text(w, "capacity");
        weir_cbor_uint(w, arena->capacity);
    }
    weir_cbor_text(w, "max_live");
    weir_cbor_uint(w, arena->max_live);
    weir_cbor_text(w, "alignment");
    weir_cbor_uint(w, arena->alignment);
    weir_cbor_text(w, "peak_bytes");
    weir_cbor_uint(w, arena->peak_bytes);
    weir_cbor_text(w, "slot_bytes");
    weir_cbor_uint(w, arena->slot_bytes);
    weir_cbor_text(w, "lower_bound");
    weir_cbor_uint(w, arena->lower_bound);
}

/* ---- A tensor's row ---------------------------------------------------------------------------------- */

enum {
    MAJOR_TEXT = 3 << 5,
    MAJOR_ARRAY = 4 << 5,
    HEAD_MAX = 9,
    ROW_MAX = 1 + HEAD_MAX + WEIR_PLAN__ARENA_NAME_MAX + 6 * HEAD_MAX,
};

/* There are as many rows as tensors, and each is hashed twice: they are encoded here, in one go, rather
 * than item by item. Returns the byte behind the head. */
static uint8_t *put_head(uint8_t *at, unsigned major, uint64_t argument) {
    if (argument < 24) {
        *at = (uint8_t)(major | argument);
        return at + 1;
    }
    if (argument <= UINT8_MAX) {
        at[0] = (uint8_t)(major | 24);
        at[1] = (uint8_t)argument;
        return at + 2;
    }
    if (argument <= UINT16_MAX) {
        at[0] = (uint8_t)(major | 25);
        weir__store16be(at + 1, (uint16_t)argument);
        return at + 3;
    }
    if (argument <= UINT32_MAX) {
        at[0] = (uint8_t)(major | 26);
        weir__store32be(at + 1, (uint32_t)argument);
        return at + 5;
    }
    at[0] = (uint8_t)(major | 27);
    weir__store64be(at + 1, argument);
    return at + 9;
}

static size_t encode_row(const weir_plan *plan, const weir_plan__row *row, bool with_offset,
                         uint8_t out[ROW_MAX]) {
    const weir_plan__planned_arena *arena = &plan->arenas[row->arena];
    uint8_t *at = put_head(out, MAJOR_ARRAY, with_offset ? 7 : 6);
    at = put_head(at, MAJOR_TEXT, arena->name.size);
    memcpy(at, arena->name.data, arena->name.size);
    at = put_head(at + arena->name.size, 0, row->slot);
    at = put_head(at, 0, plan->slots[arena->first_slot + row->slot].address);
    if (with_offset)
        at = put_head(at, 0, row->offset);
    at = put_head(at, 0, row->size);
    at = put_head(at, 0, row->birth);
    at = put_head(at, 0, row->death);
    return (size_t)(at - out);
}

static void write_tensors(const weir_plan *plan, weir__cbor_stream *stream, weir_cbor_writer *w,
                          bool with_offset) {
    uint8_t encoded[ROW_MAX];
    weir_cbor_map(w, plan->count);
    for (uint32_t i = 0; i < plan->count; i++) {
        write_text(w, weir_plan__id(plan, plan->sorted[i]));
        weir_cbor_raw(w, encoded, encode_row(plan, &plan->rows[plan->sorted[i]], with_offset, encoded));
        weir__cbor_stream_drain(stream);
    }
}

/* ---- The whole --------------------------------------------------------------------------------------- */

static void write_remat(const weir_plan *plan, weir_cbor_writer *w) {
    uint32_t budgets = 0;
    for (uint32_t a = 0; a < plan->arena_count; a++)
        budgets += plan->arenas[a].has_capacity;
    weir_cbor_text(w, "remat");
    weir_cbor_map(w, 5);
    weir_cbor_text(w, "budget");
    weir_cbor_map(w, budgets);
    for (uint32_t a = 0; a < plan->arena_count; a++)
        if (plan->arenas[a].has_capacity) {
            write_text(w, plan->arenas[a].name);
            weir_cbor_uint(w, plan->arenas[a].budget);
        }
    weir_cbor_text(w, "optimal");
    weir_cbor_bool(w, plan->remat.optimal);
    weir_cbor_text(w, "base_cost");
    weir_cbor_uint(w, plan->remat.base_cost);
    weir_cbor_text(w, "added_cost");
    weir_cbor_uint(w, plan->remat.added_cost);
    weir_cbor_text(w, "lower_bound");
    weir_cbor_uint(w, plan->remat.lower_bound);
}

static void write_paging(const weir_plan *plan, weir_cbor_writer *w) {
    weir_cbor_text(w, "paging");
    weir_cbor_map(w, 4);
    weir_cbor_text(w, "cost");
    weir_cbor_uint(w, plan->paging.cost);
    weir_cbor_text(w, "link");
    weir_cbor_uint(w, plan->paging.link);
    weir_cbor_text(w, "moved");
    weir_cbor_uint(w, plan->paging.moved);
    weir_cbor_text(w, "speed");
    weir_cbor_uint(w, plan->paging.speed);
}

static void write_schedule(const weir_plan *plan, weir__cbor_stream *stream, weir_cbor_writer *w) {
    weir_cbor_text(w, "schedule");
    weir_cbor_array(w, plan->schedule_count);
    for (size_t i = 0; i < plan->schedule_count; i++) {
        weir_plan_step step = weir_plan_step_at(plan, i);
        weir_cbor_array(w, 2);
        weir_cbor_text(w, weir_plan_step_kind_name(weir_plan_step_kind_at(plan, i)));
        write_text(w, step.node);
        weir__cbor_stream_drain(stream);
    }
}

static void write_aliases(const weir_plan *plan, weir__cbor_stream *stream, weir_cbor_writer *w) {
    weir_cbor_text(w, "aliases");
    weir_cbor_map(w, plan->alias_count);
    for (uint32_t i = 0; i < plan->count; i++) {
        uint32_t row = plan->sorted[i];
        if (!weir_plan__is_alias(plan, row))
            continue;
        write_text(w, weir_plan__id(plan, row));
        write_text(w, weir_plan__id(plan, plan->rows[row].owner));
        weir__cbor_stream_drain(stream);
    }
}

static void write_plan(const weir_plan *plan, weir__cbor_stream *stream, weir_cbor_writer *w) {
    bool recomputes = weir_plan__has_remat(plan);
    bool pages = plan->paging.transfers > 0;
    weir_cbor_map(w, 5u + recomputes + pages + (plan->schedule != NULL) + (plan->alias_count > 0));
    weir_cbor_text(w, "mode");
    weir_cbor_text(w, weir_plan__mode_name(plan->mode));
    if (recomputes)
        write_remat(plan, w);
    weir_cbor_text(w, "arenas");
    weir_cbor_map(w, plan->arena_count);
    for (uint32_t a = 0; a < plan->arena_count; a++)
        write_arena(&plan->arenas[a], w);
    weir_cbor_text(w, "format");
    weir_cbor_text(w, "weir-plan/1");
    if (pages)
        write_paging(plan, w);
    if (plan->alias_count > 0)
        write_aliases(plan, stream, w);
    weir_cbor_text(w, "tensors");
    write_tensors(plan, stream, w, true);
    if (plan->schedule)
        write_schedule(plan, stream, w);
    weir_cbor_text(w, "graph_hash");
    weir_cbor_bytes(w, plan->hashes.graph, WEIR_HASH_SIZE);
}

static void write_assignment(const weir_plan *plan, weir__cbor_stream *stream) {
    weir_cbor_writer *w = &stream->writer;
    weir_cbor_array(w, 4);
    weir_cbor_text(w, "tmmu_assignment_v1");
    weir_cbor_bytes(w, plan->hashes.graph, WEIR_HASH_SIZE);
    weir_cbor_text(w, weir_plan__mode_name(plan->mode));
    write_tensors(plan, stream, w, false);
}

weir_status weir_plan__seal(weir_plan *plan, weir_error *error) {
    weir__cbor_stream stream;
    plan->sorted = weir__allocate(plan->env, plan->count, sizeof *plan->sorted);
    if (!plan->sorted ||
        !weir__names_sort(plan->env, plan->id_text, plan->id_ends, plan->count, plan->sorted))
        return weir__out_of_memory(error, FILE_OPERATOR, plan->count * sizeof *plan->sorted);
    weir__cbor_stream_to_hash(&stream, plan->env);
    write_assignment(plan, &stream);
    WEIR__TRY(weir__cbor_stream_finish_hash(&stream, plan->hashes.assignment, error));
    weir__cbor_stream_to_hash(&stream, plan->env);
    write_plan(plan, &stream, &stream.writer);
    return weir__cbor_stream_finish_hash(&stream, plan->hashes.plan, error);
}

void weir_plan_write(const weir_plan *plan, weir_cbor_writer *w) {
    write_plan(plan, NULL, w);
}

weir_status weir_plan_save(const weir_env *env, const weir_plan *plan, const char *path, weir_error *error) {
    weir__atomic_file file;
    weir__cbor_stream stream;
    uint8_t hash[WEIR_HASH_SIZE];
    env = weir__env_or_default(env);
    WEIR__TRY(weir__atomic_open(&file, env, path, FILE_OPERATOR, error));
    weir__cbor_stream_to_file(&stream, env, &file);
    write_plan(plan, &stream, &stream.writer);
    if (plan->looks) {
        weir_cbor_restart(&stream.writer);
        weir_plan__write_looks(plan, &stream, &stream.writer);
    }
    if (plan->has_metrics) {
        weir_cbor_restart(&stream.writer);
        weir_plan__put_metrics(plan, &stream.writer);
    }
    weir_status status = weir__cbor_stream_finish_hash(&stream, hash, error);
    if (status == WEIR_OK)
        status = weir__atomic_commit(&file, error);
    weir__atomic_abandon(&file);
    return status;
}
