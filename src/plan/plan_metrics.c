/* A plan's metrics as the last item of its file (docs/spec/03e-plan-metrics.md). They are in no hash, and no
 * time is among them: the same plan is the same file. What can be known from the plan is compared when they
 * are read. */
#include <string.h>

#include "plan/planning.h"
#include "weir_tool/plan_tools.h"

#define METRICS_OPERATOR "weir.plan.restore"
#define METRICS_FORMAT   "weir-plan-metrics/1"

enum { METRICS = 8 };

/* ---- Writing ----------------------------------------------------------------------------------- */

static void put_peaks(const weir_plan *plan, weir_cbor_writer *w) {
    weir_cbor_map(w, plan->arena_count);
    for (uint32_t a = 0; a < plan->arena_count; a++) {
        weir_cbor_text_n(w, plan->arenas[a].name.data, plan->arenas[a].name.size);
        weir_cbor_uint(w, plan->arenas[a].peak_bytes);
    }
}

void weir_plan__put_metrics(const weir_plan *plan, weir_cbor_writer *w) {
    const weir_plan_metrics *m = &plan->metrics;
    weir_cbor_map(w, 4);
    weir_cbor_text(w, "format");
    weir_cbor_text(w, METRICS_FORMAT);
    weir_cbor_text(w, "metrics");
    weir_cbor_map(w, METRICS);
    weir_cbor_text(w, "tensors");
    weir_cbor_uint(w, m->tensors);
    weir_cbor_text(w, "max_live");
    weir_cbor_uint(w, m->max_live);
    weir_cbor_text(w, "memory_reuse_bound");
    weir_cbor_double(w, m->memory_reuse_bound);
    weir_cbor_text(w, "memory_reuse_ratio");
    weir_cbor_double(w, m->memory_reuse_ratio);
    weir_cbor_text(w, "peak_logical_slots");
    weir_cbor_uint(w, m->peak_logical_slots);
    weir_cbor_text(w, "peak_tmmu_usage_per_arena");
    put_peaks(plan, w);
    weir_cbor_text(w, "activation_retention_ratio");
    weir_cbor_double(w, m->activation_retention_ratio);
    weir_cbor_text(w, "internal_fragmentation_ratio");
    weir_cbor_double(w, m->internal_fragmentation_ratio);
    weir_cbor_text(w, "plan_hash");
    weir_cbor_bytes(w, plan->hashes.plan, WEIR_HASH_SIZE);
    weir_cbor_text(w, "replay_token_prefix");
    weir_cbor_bytes(w, plan->token_prefix, WEIR_PLAN__TOKEN_PREFIX);
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

static bool get_bytes(const weir_cbor_value *map, const char *key, size_t size, const uint8_t **bytes) {
    weir_cbor_value value;
    if (!weir_cbor_get(map, key, &value) || value.type != WEIR_CBOR_BYTES || value.number != size)
        return false;
    *bytes = value.data;
    return true;
}

/* Everything but the retention ratio and the token follows from the plan: written anew it must be the same
 * bytes. */
static weir_status compare(const weir_plan *plan, const weir_cbor_value *root, size_t size, bool *is_same,
                           weir_error *error) {
    weir_cbor_writer w;
    weir_cbor_writer_memory(&w, plan->env);
    weir_plan__put_metrics(plan, &w);
    weir_status status = weir_cbor_finish(&w, error);
    *is_same = status == WEIR_OK && w.size == size && memcmp(w.data, root->item, size) == 0;
    weir_cbor_release(&w);
    return status;
}

weir_status weir_plan__read_metrics(weir_plan *plan, const weir_cbor_value *root, size_t size,
                                    const char *name, weir_error *error) {
    weir_cbor_value metrics;
    weir_cbor_value ratio;
    const uint8_t *prefix = NULL;
    const uint8_t *hash = NULL;
    bool is_good = get_bytes(root, "replay_token_prefix", WEIR_PLAN__TOKEN_PREFIX, &prefix) &&
                   get_bytes(root, "plan_hash", WEIR_HASH_SIZE, &hash) &&
                   memcmp(hash, plan->hashes.plan, WEIR_HASH_SIZE) == 0 &&
                   weir_cbor_get(root, "metrics", &metrics) && metrics.type == WEIR_CBOR_MAP &&
                   weir_cbor_get(&metrics, "activation_retention_ratio", &ratio) &&
                   ratio.type == WEIR_CBOR_FLOAT && ratio.real >= 0 && ratio.real <= 1;
    if (is_good) {
        plan->metrics.activation_retention_ratio = ratio.real;
        memcpy(plan->token_prefix, prefix, WEIR_PLAN__TOKEN_PREFIX);
        plan->has_metrics = true;
        WEIR__TRY(compare(plan, root, size, &is_good, error));
    }
    if (is_good)
        return WEIR_OK;
    return weir__fail(error, WEIR_INVALID_IR, METRICS_OPERATOR,
                      "%s: its last item is not the metrics of this plan; make it again", name);
}
