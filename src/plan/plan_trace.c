/* The allocation trace: canonical CBOR records one after the other, as the seed's section 7 names them. */
#include "plan/planning.h"
#include "weir_tool/plan_tools.h"

static void write_name(weir_cbor_writer *w, weir_text name) {
    weir_cbor_text_n(w, name.data, name.size);
}

static void write_header(const weir_plan *plan, weir_cbor_writer *w) {
    weir_cbor_map(w, 5);
    weir_cbor_text(w, "mode");
    weir_cbor_text(w, weir_plan__modes[plan->mode]);
    weir_cbor_text(w, "type");
    weir_cbor_text(w, "allocation_header");
    weir_cbor_text(w, "arenas");
    weir_cbor_map(w, plan->arena_count);
    for (size_t i = 0; i < plan->arena_count; i++) {
        weir_plan_arena arena = weir_plan_arena_at(plan, i);
        write_name(w, arena.name);
        weir_cbor_map(w, 1u + (arena.page_size != 0) + arena.has_capacity);
        if (arena.page_size != 0) {
            weir_plan__put(w, "page_size", arena.page_size);
        }
        if (arena.has_capacity) {
            weir_plan__put(w, "capacity_bytes", arena.capacity);
        }
        weir_plan__put(w, "alignment_bytes", arena.alignment);
    }
    weir_cbor_text(w, "ir_hash");
    weir_cbor_bytes(w, plan->hashes.graph, WEIR_HASH_SIZE);
    weir_cbor_text(w, "replay_token_prefix");
    weir_cbor_bytes(w, plan->token_prefix, plan->has_metrics ? WEIR_PLAN__TOKEN_PREFIX : 0);
}

static void write_tensor(const weir_plan *plan, size_t index, weir_cbor_writer *w) {
    weir_plan_tensor tensor = weir_plan_tensor_at(plan, index);
    weir_plan_arena arena = weir_plan_arena_at(plan, tensor.arena);
    weir_cbor_map(w, tensor.is_alias ? 10 : 9);
    weir_plan__put(w, "size", tensor.size);
    weir_cbor_text(w, "type");
    weir_cbor_text(w, "tensor");
    weir_cbor_text(w, "arena");
    write_name(w, arena.name);
    weir_plan__put(w, "bytes", (tensor.size + arena.alignment - 1) & ~(arena.alignment - 1));
    weir_plan__put(w, "offset", tensor.offset);
    if (tensor.is_alias) {
        weir_cbor_text(w, "alias_of");
        write_name(w, tensor.alias_of);
    }
    weir_cbor_text(w, "tensor_id");
    write_name(w, tensor.id);
    weir_cbor_text(w, "live_range");
    weir_cbor_array(w, 2);
    weir_cbor_uint(w, tensor.birth);
    weir_cbor_uint(w, tensor.death);
    weir_plan__put(w, "logical_slot", tensor.slot);
    weir_plan__put(w, "virtual_address", tensor.address);
}

static void write_summary(const weir_plan *plan, weir_cbor_writer *w) {
    bool recomputes = weir_plan__has_remat(plan);
    bool pages = plan->paging.transfers > 0;
    weir_cbor_map(w, 5u + (recomputes ? 2 : 0) + pages);
    weir_cbor_text(w, "type");
    weir_cbor_text(w, "summary");
    if (recomputes) {
        weir_plan__put(w, "added_cost", plan->remat.added_cost);
        weir_plan__put(w, "runs_again", plan->remat.runs_again);
    }
    if (pages) {
        weir_plan__put(w, "paged_bytes", plan->paging.moved);
    }
    weir_cbor_text(w, "reuse_ratio");
    weir_cbor_double(w, plan->metrics.memory_reuse_ratio);
    weir_cbor_text(w, "fragmentation_pct");
    weir_cbor_double(w, 100 * plan->metrics.internal_fragmentation_ratio);
    weir_plan__put(w, "total_logical_slots", plan->metrics.peak_logical_slots);
    weir_cbor_text(w, "peak_bytes_per_arena");
    weir_cbor_map(w, plan->arena_count);
    for (size_t i = 0; i < plan->arena_count; i++) {
        weir_plan_arena arena = weir_plan_arena_at(plan, i);
        write_name(w, arena.name);
        weir_cbor_uint(w, arena.peak_bytes);
    }
}

void weir_plan_write_trace(const weir_plan *plan, weir_cbor_writer *w) {
    write_header(plan, w);
    weir_cbor_restart(w);
    for (size_t i = 0; i < plan->count; i++) {
        write_tensor(plan, i, w);
        weir_cbor_restart(w);
    }
    write_summary(plan, w);
}
