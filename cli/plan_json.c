/* A plan as JSON, the shape that programs read. Addresses are decimal strings, since JavaScript's numbers
 * cannot hold them. */
#include "plan_output.h"

static void write_tensors(const weir_plan *plan, weir_json_writer *w) {
    cli_json_object(w, "tensors");
    for (size_t i = 0; i < weir_plan_describe(plan)->tensor_count; i++) {
        weir_plan_tensor tensor = weir_plan_tensor_at(plan, i);
        weir_text arena = weir_plan_arena_at(plan, tensor.arena).name;
        weir_json_key_n(w, tensor.id.data, tensor.id.size);
        weir_json_object(w);
        cli_json_text_n(w, "arena", arena);
        cli_json_uint(w, "slot", tensor.slot);
        cli_json_uint_text(w, "address", tensor.address);
        cli_json_uint(w, "offset", tensor.offset);
        cli_json_uint(w, "size", tensor.size);
        cli_json_uint(w, "birth", tensor.birth);
        cli_json_uint(w, "death", tensor.death);
        if (tensor.is_alias) {
            cli_json_text_n(w, "alias_of", tensor.alias_of);
        }
        weir_json_end_object(w);
    }
    weir_json_end_object(w);
}

static void write_metrics(const weir_plan *plan, weir_json_writer *w) {
    const weir_plan_metrics *metrics = weir_plan_describe(plan)->metrics;
    cli_json_object(w, "metrics");
    cli_json_uint(w, "peak_logical_slots", metrics->peak_logical_slots);
    cli_json_object(w, "peak_physical_bytes_per_arena");
    for (size_t i = 0; i < weir_plan_describe(plan)->arena_count; i++) {
        weir_plan_arena arena = weir_plan_arena_at(plan, i);
        weir_json_key_n(w, arena.name.data, arena.name.size);
        weir_json_uint(w, arena.peak_bytes);
    }
    weir_json_end_object(w);
    cli_json_double(w, "memory_reuse_ratio", metrics->memory_reuse_ratio);
    cli_json_double(w, "memory_reuse_bound", metrics->memory_reuse_bound);
    cli_json_uint(w, "max_live", metrics->max_live);
    cli_json_double(w, "internal_fragmentation_ratio", metrics->internal_fragmentation_ratio);
    cli_json_double(w, "activation_retention_ratio", metrics->activation_retention_ratio);
    cli_json_uint(w, "allocation_time_ns", metrics->allocation_time_ns);
    weir_json_end_object(w);
}

static void write_remat(const weir_plan *plan, weir_json_writer *w) {
    const weir_plan_remat *remat = weir_plan_describe(plan)->remat;
    const weir_plan_paging *paging = weir_plan_describe(plan)->paging;
    if (remat->runs_again > 0 || paging->transfers > 0) {
        cli_json_object(w, "remat");
        cli_json_uint(w, "added_cost", remat->added_cost);
        cli_json_uint(w, "base_cost", remat->base_cost);
        cli_json_uint(w, "lower_bound", remat->lower_bound);
        cli_json_bool(w, "optimal", remat->optimal);
        cli_json_uint(w, "runs_again", remat->runs_again);
        cli_json_object(w, "budget");
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
        cli_json_object(w, "paging");
        cli_json_uint(w, "cost", paging->cost);
        if (paging->overlaps)
            cli_json_uint(w, "hidden", paging->hidden);
        cli_json_uint(w, "link", paging->link);
        cli_json_uint(w, "moved", paging->moved);
        cli_json_uint(w, "speed", paging->speed);
        cli_json_uint(w, "tensors", paging->tensors);
        cli_json_uint(w, "transfers", paging->transfers);
        weir_json_end_object(w);
    }
    if (weir_plan_describe(plan)->step_count == 0)
        return;
    cli_json_array(w, "schedule");
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
    cli_json_hex(&w, "plan_hash", hashes->plan, WEIR_HASH_SIZE);
    cli_json_hex(&w, "assignment_hash", hashes->assignment, WEIR_HASH_SIZE);
    cli_json_hex(&w, "graph_hash", hashes->graph, WEIR_HASH_SIZE);
    write_tensors(plan, &w);
    cli_json_object(&w, "arenas");
    for (size_t i = 0; i < weir_plan_describe(plan)->arena_count; i++) {
        weir_plan_arena arena = weir_plan_arena_at(plan, i);
        weir_json_key_n(&w, arena.name.data, arena.name.size);
        weir_json_object(&w);
        cli_json_uint(&w, "alignment", arena.alignment);
        if (arena.has_capacity)
            cli_json_uint(&w, "capacity", arena.capacity);
        cli_json_uint(&w, "lower_bound", arena.lower_bound);
        cli_json_uint(&w, "max_live", arena.max_live);
        cli_json_bool(&w, "optimal", arena.optimal);
        cli_json_uint(&w, "peak_bytes", arena.peak_bytes);
        cli_json_uint(&w, "slot_bytes", arena.slot_bytes);
        cli_json_uint(&w, "slots", arena.slots);
        weir_json_end_object(&w);
    }
    weir_json_end_object(&w);
    write_metrics(plan, &w);
    write_remat(plan, &w);
    const weir_plan_reorder *reorder = weir_plan_describe(plan)->reorder;
    if (reorder->is_tried) {
        cli_json_object(&w, "reorder");
        cli_json_bool(&w, "changed", reorder->is_changed);
        cli_json_uint(&w, "given_peak", reorder->given_peak);
        cli_json_uint(&w, "peak", reorder->peak);
        cli_json_uint(&w, "lower_bound", reorder->lower_bound);
        weir_json_end_object(&w);
    }
    return cli_print_object(&w);
}
