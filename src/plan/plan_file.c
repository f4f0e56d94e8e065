/* A plan's canonical form (weir-plan/1) and its hashes. The whole is never in memory: it streams into
 * SHA-256 and, when it is saved, into a file. Tensors stand in the order of CBOR keys. */
#include <string.h>

#include "base/cbor_head.h"
#include "base/stream.h"
#include "plan/planning.h"
#include "plan/steps.h"
#include "weir_tool/plan_tools.h"

#define FILE_OPERATOR "weir.plan.file"

static void write_text(weir_cbor_writer *w, weir_text text) {
    weir_cbor_text_n(w, text.data, text.size);
}

/* ---- A tensor's row ---------------------------------------------------------------------------------- */

enum { ROW_MAX = 1 + WEIR__CBOR_HEAD_MAX + WEIR_PLAN__ARENA_NAME_MAX + 6 * WEIR__CBOR_HEAD_MAX };

/* There are as many rows as tensors, and each is hashed twice: they are encoded here, in one go, rather
 * than item by item. */
static size_t encode_row(const weir_plan *plan, const weir_plan__row *row, bool with_offset,
                         uint8_t out[ROW_MAX]) {
    const weir_plan__planned_arena *arena = &plan->arenas[row->arena];
    assert(arena->name.size <= WEIR_PLAN__ARENA_NAME_MAX && "a row is longer than its room");
    assert(row->slot < arena->slot_count && "a slot that the arena does not have");
    uint8_t *at = weir__cbor_head(out, WEIR__HEAD_ARRAY, with_offset ? 7 : 6);
    at = weir__cbor_head(at, WEIR__HEAD_TEXT, arena->name.size);
    memcpy(at, arena->name.data, arena->name.size);
    at = weir__cbor_head(at + arena->name.size, 0, row->slot);
    at = weir__cbor_head(at, 0, plan->slots[arena->first_slot + row->slot].address);
    if (with_offset)
        at = weir__cbor_head(at, 0, row->offset);
    at = weir__cbor_head(at, 0, row->size);
    at = weir__cbor_head(at, 0, row->birth);
    at = weir__cbor_head(at, 0, row->death);
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

/* ---- Arenas ------------------------------------------------------------------------------------------ */

static weir_status check_arena(weir__reader *r, void *object) {
    return weir_plan__is_alignment(((const weir_plan__planned_arena *)object)->alignment)
               ? WEIR_OK
               : weir__refuse(r, "alignment", "must be a power of two from 1 to 2^30");
}

#define NUMBER(member, most) WEIR__UINT(weir_plan__planned_arena, member, 0, most), .flags = WEIR__REQUIRED

static const weir__field arena_fields[] = {
    {"slots", NUMBER(slot_count, UINT32_MAX)},
    {"optimal", WEIR__BOOL(weir_plan__planned_arena, optimal), .flags = WEIR__REQUIRED},
    {"capacity", WEIR__UINT(weir_plan__planned_arena, capacity, 0, UINT64_MAX),
     .has = offsetof(weir_plan__planned_arena, has_capacity), .flags = WEIR__SPARSE},
    {"max_live", NUMBER(max_live, UINT32_MAX)},
    {"alignment", NUMBER(alignment, UINT64_MAX)},
    {"peak_bytes", NUMBER(peak_bytes, UINT64_MAX)},
    {"slot_bytes", NUMBER(slot_bytes, UINT64_MAX)},
    {"lower_bound", NUMBER(lower_bound, UINT64_MAX)},
};
const weir__shape weir_plan__arena_shape =
    WEIR__SHAPE(weir_plan__planned_arena, arena_fields, .check = check_arena);

void weir_plan__write_arenas(const weir_plan *plan, const weir__shape *shape, weir_cbor_writer *w) {
    weir_cbor_map(w, plan->arena_count);
    for (uint32_t a = 0; a < plan->arena_count; a++) {
        write_text(w, plan->arenas[a].name);
        weir__write(w, shape, &plan->arenas[a]);
    }
}

static void write_arenas(weir_cbor_writer *w, const weir__field *field, const void *object) {
    (void)field;
    weir_plan__write_arenas(((const weir_plan__file *)object)->plan, &weir_plan__arena_shape, w);
}

/* ---- Running operators again ------------------------------------------------------------------------- */

/* Budgets and arenas stand in one order, that of CBOR keys; each arena with a capacity has one. */
static weir_status read_budgets(weir__reader *r, const weir__field *field, const weir_cbor_value *map,
                                void *object) {
    weir_plan *plan = object;
    weir_cbor_iterator it = weir_cbor_children(map);
    weir_cbor_value name, bytes;
    bool is_good = map->type == WEIR_CBOR_MAP;
    for (uint32_t a = 0; is_good && a < plan->arena_count; a++) {
        weir_plan__planned_arena *arena = &plan->arenas[a];
        if (!arena->has_capacity)
            continue;
        is_good = weir_cbor_next(&it, &name, &bytes) && bytes.type == WEIR_CBOR_UINT &&
                  bytes.number <= arena->capacity &&
                  weir__key_compare((const char *)name.data, (size_t)name.number, arena->name.data,
                                    arena->name.size) == 0;
        if (is_good)
            arena->budget = bytes.number;
    }
    return is_good && !weir_cbor_next(&it, &name, &bytes)
               ? WEIR_OK
               : weir__refuse(r, field->name,
                              "must have a number for every arena with a capacity, within it");
}

static void write_budgets(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const weir_plan *plan = object;
    uint32_t budgets = 0;
    (void)field;
    for (uint32_t a = 0; a < plan->arena_count; a++)
        budgets += plan->arenas[a].has_capacity;
    weir_cbor_map(w, budgets);
    for (uint32_t a = 0; a < plan->arena_count; a++)
        if (plan->arenas[a].has_capacity) {
            write_text(w, plan->arenas[a].name);
            weir_cbor_uint(w, plan->arenas[a].budget);
        }
}

static weir_status check_remat(weir__reader *r, void *object) {
    const weir_plan_remat *remat = &((const weir_plan *)object)->remat;
    return remat->lower_bound <= remat->added_cost
               ? WEIR_OK
               : weir__refuse(r, "lower_bound", "is above the added_cost");
}

#define COST(member) WEIR__UINT(weir_plan, remat.member, 0, UINT64_MAX), .flags = WEIR__REQUIRED

static const weir__field remat_fields[] = {
    {"budget", WEIR__OTHER(read_budgets, write_budgets), .flags = WEIR__REQUIRED},
    {"optimal", WEIR__BOOL(weir_plan, remat.optimal), .flags = WEIR__REQUIRED},
    {"base_cost", COST(base_cost)},
    {"added_cost", COST(added_cost)},
    {"lower_bound", COST(lower_bound)},
};
const weir__shape weir_plan__remat_shape = WEIR__SHAPE(weir_plan, remat_fields, .check = check_remat);

static void write_remat(weir_cbor_writer *w, const weir__field *field, const void *object) {
    (void)field;
    weir__write(w, &weir_plan__remat_shape, ((const weir_plan__file *)object)->plan);
}

/* ---- Paging ------------------------------------------------------------------------------------------ */

#define MOVED(member, low, high) WEIR__UINT(weir_plan_paging, member, low, high), .flags = WEIR__REQUIRED

static const weir__field paging_fields[] = {
    {"cost", MOVED(cost, 0, UINT64_MAX)},
    {"hidden", WEIR__UINT(weir_plan_paging, hidden, 0, UINT64_MAX),
     .has = offsetof(weir_plan_paging, overlaps), .flags = WEIR__SPARSE},
    {"link", MOVED(link, 1, WEIR_PLAN__COST_MAX)},
    {"moved", MOVED(moved, 0, UINT64_MAX)},
    {"speed", MOVED(speed, 1, WEIR_PLAN__COST_MAX)},
};
static const weir__shape paging_shape = WEIR__SHAPE(weir_plan_paging, paging_fields);

/* ---- The whole --------------------------------------------------------------------------------------- */

static void write_rows(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const weir_plan__file *file = object;
    (void)field;
    write_tensors(file->plan, file->stream, w, true);
}

static void write_schedule(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const weir_plan__file *file = object;
    (void)field;
    weir_cbor_array(w, file->plan->schedule_count);
    for (size_t i = 0; i < file->plan->schedule_count; i++) {
        weir_plan_step step = weir_plan_step_at(file->plan, i);
        weir_cbor_array(w, 2);
        weir_cbor_text(w, weir_plan_step_kind_name(step.kind));
        write_text(w, step.node);
        weir__cbor_stream_drain(file->stream);
    }
}

static void write_aliases(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const weir_plan__file *file = object;
    const weir_plan *plan = file->plan;
    (void)field;
    weir_cbor_map(w, plan->alias_count);
    for (uint32_t i = 0; i < plan->count; i++) {
        uint32_t row = plan->sorted[i];
        if (!weir_plan__is_alias(plan, row))
            continue;
        write_text(w, weir_plan__id(plan, row));
        write_text(w, weir_plan__id(plan, plan->rows[row].owner));
        weir__cbor_stream_drain(file->stream);
    }
}

#define PART(member, writes) WEIR__VALUE(weir_plan__file, member), .write = (writes)
#define EXTRA(member, writes)                                                                                \
    PART(member, writes), .has = offsetof(weir_plan__file, has_##member), .flags = WEIR__SPARSE

static const weir__field file_fields[] = {
    {"format", WEIR__CONSTANT("weir-plan/1"), .flags = WEIR__REQUIRED},
    {"mode", WEIR__WORD(weir_plan__file, mode, weir_plan__modes), .flags = WEIR__REQUIRED},
    {"graph_hash", WEIR__BYTES(weir_plan__file, graph_hash), .flags = WEIR__REQUIRED},
    {"arenas", PART(arenas, write_arenas), .flags = WEIR__REQUIRED},
    {"tensors", PART(tensors, write_rows), .flags = WEIR__REQUIRED},
    {"aliases", EXTRA(aliases, write_aliases)},
    {"schedule", EXTRA(schedule, write_schedule)},
    {"remat", EXTRA(remat, write_remat)},
    {"paging", WEIR__OBJECT(weir_plan__file, paging, &paging_shape),
     .has = offsetof(weir_plan__file, has_paging), .flags = WEIR__SPARSE},
};
const weir__shape weir_plan__file_shape = WEIR__SHAPE(weir_plan__file, file_fields);

static void write_plan(const weir_plan *plan, weir__cbor_stream *stream, weir_cbor_writer *w) {
    weir_plan__file file = {.mode = plan->mode,
                            .has_aliases = plan->alias_count > 0,
                            .has_schedule = plan->schedule != NULL,
                            .has_remat = weir_plan__has_remat(plan),
                            .has_paging = plan->paging.transfers > 0,
                            .paging = plan->paging,
                            .plan = plan,
                            .stream = stream};
    memcpy(file.graph_hash, plan->hashes.graph, WEIR_HASH_SIZE);
    weir__write(w, &weir_plan__file_shape, &file);
}

weir_status weir_plan__seal(weir_plan *plan, weir_error *error) {
    weir__cbor_stream stream;
    weir_cbor_writer *w = &stream.writer;
    plan->sorted = weir__arena_take(&plan->memory, plan->count * sizeof *plan->sorted);
    if (!plan->sorted ||
        !weir__names_sort(plan->env, plan->id_text, plan->id_ends, plan->count, plan->sorted))
        return weir__out_of_memory(error, FILE_OPERATOR, plan->count * sizeof *plan->sorted);
    weir__cbor_stream_to_hash(&stream, plan->env);
    weir_cbor_array(w, 4);
    weir_cbor_text(w, "tmmu_assignment_v1");
    weir_cbor_bytes(w, plan->hashes.graph, WEIR_HASH_SIZE);
    weir_cbor_text(w, weir_plan__modes[plan->mode]);
    write_tensors(plan, &stream, w, false);
    WEIR__TRY(weir__cbor_stream_finish_hash(&stream, plan->hashes.assignment, error));
    weir__cbor_stream_to_hash(&stream, plan->env);
    write_plan(plan, &stream, w);
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

/* ---- Finding an id ----------------------------------------------------------------------------------- */

bool weir_plan__find_id(const weir_plan *plan, const uint32_t *sorted, weir_text id, weir_text suffix,
                        uint32_t *index) {
    uint32_t low = 0;
    uint32_t high = plan->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        weir_text at = weir_plan__id(plan, sorted ? sorted[middle] : middle);
        int order = (at.size > id.size + suffix.size) - (at.size < id.size + suffix.size);
        if (order == 0)
            order = weir__key_compare(at.data, id.size, id.data, id.size);
        if (order == 0)
            order = weir__key_compare(at.data + id.size, suffix.size, suffix.data, suffix.size);
        if (order == 0) {
            *index = middle;
            return true;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

bool weir_plan_find(const weir_plan *plan, const char *id, size_t id_size, size_t *index) {
    uint32_t found = 0;
    bool is_found = weir_plan__find_id(plan, plan->sorted, (weir_text){id, id_size}, (weir_text){0}, &found);
    if (is_found)
        *index = found;
    return is_found;
}
