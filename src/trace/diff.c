/* weir diff: two traces side by side, to the first step that is not the same. Headers and resumes are
 * looked at apart: they say whether the runs can be compared and how they went, not what they delivered. */
#include <stdio.h>
#include <string.h>

#include "trace/record.h"

/* Runs that differ in one of these cannot be the same. */
static void compare_headers(const weir_trace_reader *left, const weir_trace_reader *right,
                            weir_trace_difference *difference) {
    static const char *const identities[] = {"trace_version", "manifest_hash", "mix_hash",
                                             "batch_config_hash", "store_hashes"};
    for (size_t i = 0; i < sizeof identities / sizeof identities[0]; i++) {
        if (weir__trace_same(weir_trace_header(left), weir_trace_header(right), identities[i]))
            continue;
        size_t used = strlen(difference->incomparable);
        snprintf(difference->incomparable + used, sizeof difference->incomparable - used, "%s%s",
                 used ? ", " : "", identities[i]);
    }
    difference->is_comparable = difference->incomparable[0] == 0;
}

static const char *describe_kind(weir_trace_kind kind) {
    return kind == WEIR_TRACE_ITER  ? "a step"
           : kind == WEIR_TRACE_END ? "the run ends"
                                    : "the trace stops without run_end";
}

/* Compares one record of each; false at the first difference, which is filled in. */
static bool is_equal(const weir_env *env, const weir_trace_record *left, const weir_trace_record *right,
                     weir_trace_difference *difference) {
    static const char *const chained[] = {"trace_hash", NULL}; /* resumes are in the chain, and may differ */
    weir__field_difference found;
    if (left->kind != right->kind) {
        snprintf(difference->field, sizeof difference->field, "type");
        snprintf(difference->left, sizeof difference->left, "%s", describe_kind(left->kind));
        snprintf(difference->right, sizeof difference->right, "%s", describe_kind(right->kind));
    } else if (left->kind == WEIR_TRACE_EOF ||
               !weir__trace_compare(env, &left->map, &right->map, chained, &found)) {
        return true;
    } else {
        memcpy(difference->field, found.field, sizeof found.field);
        memcpy(difference->left, found.left, sizeof found.left);
        memcpy(difference->right, found.right, sizeof found.right);
    }
    const weir_trace_record *step = left->kind == WEIR_TRACE_ITER ? left : right;
    difference->differs = true;
    difference->t = step->kind == WEIR_TRACE_ITER ? weir__trace_uint(&step->map, "t") : difference->steps;
    return false;
}

static weir_status compare_traces(const weir_env *env, weir_trace_reader *left, weir_trace_reader *right,
                                  weir_trace_difference *difference, weir_error *error) {
    for (;;) {
        weir_trace_record a, b;
        weir_status status = weir__trace_next_step(left, &a, error);
        if (status == WEIR_OK)
            status = weir__trace_next_step(right, &b, error);
        if (status != WEIR_OK || !is_equal(env, &a, &b, difference) || a.kind == WEIR_TRACE_EOF)
            return status;
        difference->steps += a.kind == WEIR_TRACE_ITER;
    }
}

weir_status weir_trace_diff(const weir_env *env, const char *left_path, const char *right_path,
                            weir_trace_difference *difference, weir_error *error) {
    env = weir__env(env);
    weir_trace_reader *left = NULL;
    weir_trace_reader *right = NULL;
    *difference = (weir_trace_difference){0};
    weir_status status = weir_trace_open(env, left_path, &left, error);
    if (status == WEIR_OK)
        status = weir_trace_open(env, right_path, &right, error);
    if (status == WEIR_OK) {
        compare_headers(left, right, difference);
        status = compare_traces(env, left, right, difference, error);
    }
    weir_trace_close(left);
    weir_trace_close(right);
    return status;
}
