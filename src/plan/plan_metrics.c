/* A plan's metrics as the last item of its file (docs/spec/03e-plan-metrics.md). They are in no hash, and no
 * time is among them: the same plan is the same file. What can be known from the plan is compared when they
 * are read. */
#include <string.h>

#include "plan/planning.h"
#include "weir_tool/plan_tools.h"

#define METRICS_OPERATOR "weir.plan.restore"
#define METRICS_FORMAT   "weir-plan-metrics/1"

/* ---- The document ------------------------------------------------------------------------------ */

void weir_plan__write_peaks(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const weir_plan *plan = object;
    (void)field;
    weir_cbor_map(w, plan->arena_count);
    for (uint32_t a = 0; a < plan->arena_count; a++) {
        weir_cbor_text_n(w, plan->arenas[a].name.data, plan->arenas[a].name.size);
        weir_cbor_uint(w, plan->arenas[a].peak_bytes);
    }
}

static weir_status check_ratio(weir__reader *r, void *object) {
    double ratio = ((const weir_plan *)object)->metrics.activation_retention_ratio;
    return ratio >= 0 && ratio <= 1 ? WEIR_OK
                                    : weir__refuse(r, "activation_retention_ratio", "must be from 0 to 1");
}

/* What follows from the plan is only written, and compared when a file is read. */
#define COUNT(member)                                                                                        \
    WEIR__UINT(weir_plan, metrics.member, 0, UINT64_MAX), .flags = WEIR__REQUIRED | WEIR__WRITE_ONLY
#define RATIO(member) WEIR__REAL(weir_plan, metrics.member), .flags = WEIR__REQUIRED | WEIR__WRITE_ONLY

static const weir__field metrics_fields[] = {
    {"tensors", COUNT(tensors)},
    {"max_live", COUNT(max_live)},
    {"memory_reuse_bound", RATIO(memory_reuse_bound)},
    {"memory_reuse_ratio", RATIO(memory_reuse_ratio)},
    {"peak_logical_slots", COUNT(peak_logical_slots)},
    {"peak_tmmu_usage_per_arena", WEIR__OTHER(NULL, weir_plan__write_peaks),
     .flags = WEIR__REQUIRED | WEIR__WRITE_ONLY},
    {"activation_retention_ratio", WEIR__REAL(weir_plan, metrics.activation_retention_ratio),
     .flags = WEIR__REQUIRED},
    {"internal_fragmentation_ratio", RATIO(internal_fragmentation_ratio)},
};
static const weir__shape metrics_shape = WEIR__SHAPE(weir_plan, metrics_fields, .check = check_ratio);

static const weir__field fields[] = {
    {"format", WEIR__CONSTANT(METRICS_FORMAT), .flags = WEIR__REQUIRED},
    {"metrics", WEIR__SPREAD(&metrics_shape), .flags = WEIR__REQUIRED},
    {"plan_hash", WEIR__BYTES(weir_plan, hashes.plan), .flags = WEIR__REQUIRED | WEIR__WRITE_ONLY},
    {"replay_token_prefix", WEIR__BYTES(weir_plan, token_prefix), .flags = WEIR__REQUIRED},
};
static const weir__shape shape = WEIR__SHAPE(weir_plan, fields);

void weir_plan__put_metrics(const weir_plan *plan, weir_cbor_writer *w) {
    weir__write(w, &shape, plan);
}

void weir_plan_write_metrics(const weir_plan *plan, weir_cbor_writer *w) {
    if (!plan->has_metrics)
        return;
    weir_cbor_restart(w);
    weir_plan__put_metrics(plan, w);
}

/* ---- Reading ----------------------------------------------------------------------------------- */

bool weir_plan__is_plan_metrics(const weir_cbor_value *root) {
    weir_cbor_value format;
    return root->type == WEIR_CBOR_MAP && weir_cbor_get(root, "format", &format) &&
           weir_cbor_is_text(&format, METRICS_FORMAT);
}

weir_status weir_plan__read_metrics(weir_plan *plan, const weir_cbor_value *root, size_t size,
                                    const char *name, weir_error *error) {
    weir__reader r = {.error = error,
                      .family = WEIR_INVALID_IR,
                      .failure_operator = METRICS_OPERATOR,
                      .name = name,
                      .meant = "a plan with usable metrics; make it again",
                      .path = "$"};
    WEIR__TRY(weir__read(&r, root, &shape, plan));
    /* Everything but the retention ratio and the token follows from the plan: written anew it must be the
     * same bytes. */
    weir_cbor_writer w;
    weir_cbor_writer_memory(&w, plan->env);
    weir_plan__put_metrics(plan, &w);
    weir_status status = weir_cbor_finish(&w, error);
    bool is_same = status == WEIR_OK && w.size == size && memcmp(w.data, root->item, size) == 0;
    weir_cbor_release(&w);
    if (status == WEIR_OK && !is_same)
        status = weir__fail(error, WEIR_INVALID_IR, METRICS_OPERATOR,
                            "%s: its last item is not the metrics of this plan; make it again", name);
    plan->has_metrics = status == WEIR_OK;
    return status;
}
