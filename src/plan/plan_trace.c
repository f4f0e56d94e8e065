/* The allocation trace: canonical CBOR records one after the other, as the seed's section 7 names them. */
#include "plan/planning.h"
#include "weir_tool/plan_tools.h"

#define NUMBER(type, member) WEIR__UINT(type, member, 0, UINT64_MAX)

/* ---- The header -------------------------------------------------------------------------------- */

static const weir__field arena_fields[] = {
    {"page_size", NUMBER(weir_plan__planned_arena, page_size), .flags = WEIR__SPARSE},
    {"capacity_bytes", NUMBER(weir_plan__planned_arena, capacity),
     .has = offsetof(weir_plan__planned_arena, has_capacity), .flags = WEIR__SPARSE},
    {"alignment_bytes", NUMBER(weir_plan__planned_arena, alignment)},
};
static const weir__shape arena_shape = WEIR__SHAPE(weir_plan__planned_arena, arena_fields);

static void write_arenas(weir_cbor_writer *w, const weir__field *field, const void *object) {
    (void)field;
    weir_plan__write_arenas(object, &arena_shape, w);
}

static void write_token(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const weir_plan *plan = object;
    (void)field;
    weir_cbor_bytes(w, plan->token_prefix, plan->has_metrics ? WEIR_PLAN__TOKEN_PREFIX : 0);
}

static const weir__field header_fields[] = {
    {"mode", WEIR__WORD(weir_plan, mode, weir_plan__modes)},
    {"type", WEIR__CONSTANT("allocation_header")},
    {"arenas", WEIR__OTHER(NULL, write_arenas)},
    {"ir_hash", WEIR__BYTES(weir_plan, hashes.graph)},
    {"replay_token_prefix", WEIR__OTHER(NULL, write_token)},
};
static const weir__shape header_shape = WEIR__SHAPE(weir_plan, header_fields);

/* ---- Tensors ----------------------------------------------------------------------------------- */

typedef struct traced {
    weir_plan_tensor tensor;
    weir_text arena;
    uint64_t bytes; /* rounded */
} traced;

static void write_range(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const weir_plan_tensor *tensor = &((const traced *)object)->tensor;
    (void)field;
    weir_cbor_array(w, 2);
    weir_cbor_uint(w, tensor->birth);
    weir_cbor_uint(w, tensor->death);
}

static const weir__field tensor_fields[] = {
    {"size", NUMBER(traced, tensor.size)},
    {"type", WEIR__CONSTANT("tensor")},
    {"arena", WEIR__VIEW(traced, arena)},
    {"bytes", NUMBER(traced, bytes)},
    {"offset", NUMBER(traced, tensor.offset)},
    {"alias_of", WEIR__VIEW(traced, tensor.alias_of), .has = offsetof(traced, tensor.is_alias),
     .flags = WEIR__SPARSE},
    {"tensor_id", WEIR__VIEW(traced, tensor.id)},
    {"live_range", WEIR__OTHER(NULL, write_range)},
    {"logical_slot", NUMBER(traced, tensor.slot)},
    {"virtual_address", NUMBER(traced, tensor.address)},
};
static const weir__shape tensor_shape = WEIR__SHAPE(traced, tensor_fields);

/* ---- The summary ------------------------------------------------------------------------------- */

static bool recomputes_nothing(const void *plan) {
    return !weir_plan__has_remat(plan);
}

static bool pages_nothing(const void *plan) {
    return ((const weir_plan *)plan)->paging.transfers == 0;
}

static void write_percentage(weir_cbor_writer *w, const weir__field *field, const void *object) {
    (void)field;
    weir_cbor_double(w, 100 * ((const weir_plan *)object)->metrics.internal_fragmentation_ratio);
}

static const weir__field summary_fields[] = {
    {"type", WEIR__CONSTANT("summary")},
    {"added_cost", NUMBER(weir_plan, remat.added_cost), .is_absent = recomputes_nothing},
    {"runs_again", NUMBER(weir_plan, remat.runs_again), .is_absent = recomputes_nothing},
    {"paged_bytes", NUMBER(weir_plan, paging.moved), .is_absent = pages_nothing},
    {"reuse_ratio", WEIR__REAL(weir_plan, metrics.memory_reuse_ratio)},
    {"fragmentation_pct", WEIR__OTHER(NULL, write_percentage)},
    {"total_logical_slots", NUMBER(weir_plan, metrics.peak_logical_slots)},
    {"peak_bytes_per_arena", WEIR__OTHER(NULL, weir_plan__write_peaks)},
};
static const weir__shape summary_shape = WEIR__SHAPE(weir_plan, summary_fields);

void weir_plan_write_trace(const weir_plan *plan, weir_cbor_writer *w) {
    weir__write(w, &header_shape, plan);
    weir_cbor_restart(w);
    for (size_t i = 0; i < plan->count; i++) {
        traced item = {.tensor = weir_plan_tensor_at(plan, i)};
        const weir_plan__planned_arena *arena = &plan->arenas[item.tensor.arena];
        item.arena = arena->name;
        item.bytes = weir_plan__rounded(item.tensor.size, arena->alignment);
        weir__write(w, &tensor_shape, &item);
        weir_cbor_restart(w);
    }
    weir__write(w, &summary_shape, plan);
}
