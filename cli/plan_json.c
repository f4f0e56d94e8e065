/* A plan as JSON, the shape that programs read. Addresses are decimal strings, since JavaScript's numbers
 * cannot hold them. */
#include "plan_output.h"

static void write_tensors(const weir_plan *plan, weir_json_writer *w) {
    weir_json_pair_object(w, "tensors");
    for (size_t i = 0; i < weir_plan_describe(plan)->tensor_count; i++) {
        weir_plan_tensor tensor = weir_plan_tensor_at(plan, i);
        weir_text arena = weir_plan_arena_at(plan, tensor.arena).name;
        weir_json_key_n(w, tensor.id.data, tensor.id.size);
        weir_json_object(w);
        cli_json_text_n(w, "arena", arena);
        weir_json_pair_uint(w, "slot", tensor.slot);
        cli_json_uint_text(w, "address", tensor.address);
        weir_json_pair_uint(w, "offset", tensor.offset);
        weir_json_pair_uint(w, "size", tensor.size);
        weir_json_pair_uint(w, "birth", tensor.birth);
        weir_json_pair_uint(w, "death", tensor.death);
        if (tensor.is_alias) {
            cli_json_text_n(w, "alias_of", tensor.alias_of);
        }
        weir_json_end_object(w);
    }
    weir_json_end_object(w);
}

static void write_metrics(const weir_plan *plan, weir_json_writer *w) {
    const weir_plan_metrics *metrics = weir_plan_describe(plan)->metrics;
    weir_json_pair_object(w, "metrics");
    weir_json_pair_uint(w, "peak_logical_slots", metrics->peak_logical_slots);
    weir_json_pair_object(w, "peak_physical_bytes_per_arena");
    for (size_t i = 0; i < weir_plan_describe(plan)->arena_count; i++) {
        weir_plan_arena arena = weir_plan_arena_at(plan, i);
        weir_json_key_n(w, arena.name.data, arena.name.size);
        weir_json_uint(w, arena.peak_bytes);
    }
    weir_json_end_object(w);
    weir_json_pair_double(w, "memory_reuse_ratio", metrics->memory_reuse_ratio);
    weir_json_pair_double(w, "memory_reuse_bound", metrics->memory_reuse_bound);
    weir_json_pair_uint(w, "max_live", metrics->max_live);
    weir_json_pair_double(w, "internal_fragmentation_ratio", metrics->internal_fragmentation_ratio);
    weir_json_pair_double(w, "activation_retention_ratio", metrics->activation_retention_ratio);
    weir_json_pair_uint(w, "allocation_time_ns", metrics->allocation_time_ns);
    weir_json_end_object(w);
}

static void write_remat(const weir_plan *plan, weir_json_writer *w) {
    const weir_plan_remat *remat = weir_plan_describe(plan)->remat;
    const weir_plan_paging *paging = weir_plan_describe(plan)->paging;
    if (remat->runs_again > 0 || paging->transfers > 0) {
        weir_json_pair_object(w, "remat");
        weir_json_pair_uint(w, "added_cost", remat->added_cost);
        weir_json_pair_uint(w, "base_cost", remat->base_cost);
        weir_json_pair_uint(w, "lower_bound", remat->lower_bound);
        weir_json_pair_bool(w, "optimal", remat->optimal);
        weir_json_pair_uint(w, "runs_again", remat->runs_again);
        weir_json_pair_object(w, "budget");
        for (size_t i = 0; i < weir_plan_describe(plan)->arena_count; i++) {
            weir_plan_arena arena = weir_plan_arena_at(plan, i);
            if (arena.has_capacity) {
                weir_json_key_n(w, arena.name.data, arena.name.size);
                weir_json_uint(w, arena.budget);
            }
        }
        weir_json_end_object(w);
        weir_json_end_object(w);
    }
    if (paging->transfers > 0) {
        weir_json_pair_object(w, "paging");
        weir_json_pair_uint(w, "cost", paging->cost);
        if (paging->overlaps)
            weir_json_pair_uint(w, "hidden", paging->hidden);
        weir_json_pair_uint(w, "link", paging->link);
        weir_json_pair_uint(w, "moved", paging->moved);
        weir_json_pair_uint(w, "speed", paging->speed);
        weir_json_pair_uint(w, "tensors", paging->tensors);
        weir_json_pair_uint(w, "transfers", paging->transfers);
        weir_json_end_object(w);
    }
    if (weir_plan_describe(plan)->step_count == 0)
        return;
    weir_json_pair_array(w, "schedule");
    for (size_t i = 0; i < weir_plan_describe(plan)->step_count; i++) {
        weir_plan_step step = weir_plan_step_at(plan, i);
        weir_json_array(w);
        weir_json_text(w, weir_plan_step_kind_name(step.kind));
        weir_json_text_n(w, step.node.data, step.node.size);
        weir_json_end_array(w);
    }
    weir_json_end_array(w);
}

int cli_plan_print_json(const weir_plan *plan) {
    weir_json_writer w;
    const weir_plan_hashes *hashes = weir_plan_describe(plan)->hashes;
    cli_json_begin(&w);
    weir_json_pair_hex(&w, "plan_hash", hashes->plan, WEIR_HASH_SIZE);
    weir_json_pair_hex(&w, "assignment_hash", hashes->assignment, WEIR_HASH_SIZE);
    weir_json_pair_hex(&w, "graph_hash", hashes->graph, WEIR_HASH_SIZE);
    write_tensors(plan, &w);
    weir_json_pair_object(&w, "arenas");
    for (size_t i = 0; i < weir_plan_describe(plan)->arena_count; i++) {
        weir_plan_arena arena = weir_plan_arena_at(plan, i);
        weir_json_key_n(&w, arena.name.data, arena.name.size);
        weir_json_object(&w);
        weir_json_pair_uint(&w, "alignment", arena.alignment);
        if (arena.has_capacity)
            weir_json_pair_uint(&w, "capacity", arena.capacity);
        weir_json_pair_uint(&w, "lower_bound", arena.lower_bound);
        weir_json_pair_uint(&w, "max_live", arena.max_live);
        weir_json_pair_bool(&w, "optimal", arena.optimal);
        weir_json_pair_uint(&w, "peak_bytes", arena.peak_bytes);
        weir_json_pair_uint(&w, "slot_bytes", arena.slot_bytes);
        weir_json_pair_uint(&w, "slots", arena.slots);
        weir_json_end_object(&w);
    }
    weir_json_end_object(&w);
    write_metrics(plan, &w);
    write_remat(plan, &w);
    const weir_plan_reorder *reorder = weir_plan_describe(plan)->reorder;
    if (reorder->is_tried) {
        weir_json_pair_object(&w, "reorder");
        weir_json_pair_bool(&w, "changed", reorder->is_changed);
        weir_json_pair_uint(&w, "given_peak", reorder->given_peak);
        weir_json_pair_uint(&w, "peak", reorder->peak);
        weir_json_pair_uint(&w, "lower_bound", reorder->lower_bound);
        weir_json_end_object(&w);
    }
    return cli_print_object(&w);
}
