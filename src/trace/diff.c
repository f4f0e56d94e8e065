/* weir diff: two traces side by side, to the first step that is not the same. Headers and resumes are
 * looked at apart: they say whether the runs can be compared and how they went, not what they delivered. */
#include <stdio.h>
#include <string.h>

#include "trace/record.h"

static_assert((int)WEIR__SHOWN_MAX == (int)WEIR_DIFFERENCE_CAPACITY, "a difference is shown in full");

/* Runs that differ in one of these cannot be the same. */
static void compare_headers(const weir_trace_reader *left, const weir_trace_reader *right,
                            weir_trace_difference *difference) {
    static const char *const identities[] = {"trace_version", "manifest_hash", "mix_hash",
                                             "batch_config_hash", "store_hashes"};
    for (size_t i = 0; i < sizeof identities / sizeof identities[0]; i++) {
        if (weir__same(weir_trace__header(left), weir_trace__header(right), identities[i]))
            continue;
        size_t used = strlen(difference->incomparable);
        snprintf(difference->incomparable + used, sizeof difference->incomparable - used, "%s%s",
                 used ? ", " : "", identities[i]);
    }
    difference->is_comparable = difference->incomparable[0] == 0;
}

static const char *describe_kind(weir_trace_kind kind) {
    switch (kind) {
    case WEIR_TRACE_ITER:
        return "a step";
    case WEIR_TRACE_FAILURE:
        return "the run fails";
    case WEIR_TRACE_END:
        return "the run ends";
    default:
        return "the trace stops without run_end";
    }
}

/* The next step, failure or end; resumes and memory are passed over. */
static weir_status read_on(weir_trace_reader *reader, weir_trace_record *record, weir_error *error) {
    do
        WEIR__TRY(weir_trace_next(reader, record, error));
    while (record->kind == WEIR_TRACE_RESUME || record->kind == WEIR_TRACE_MEMORY);
    return WEIR_OK;
}

/* The step that two records which differ are about, whichever is the left one: the smaller number of two
 * steps, else the number of the one that has one, else the step after the last equal one. */
static uint64_t step_of(const weir_trace_record *left, const weir_trace_record *right, uint64_t next) {
    bool has_left = left->kind == WEIR_TRACE_ITER || left->kind == WEIR_TRACE_FAILURE;
    bool has_right = right->kind == WEIR_TRACE_ITER || right->kind == WEIR_TRACE_FAILURE;
    if (has_left && has_right)
        return left->t < right->t ? left->t : right->t;
    return has_left ? left->t : has_right ? right->t : next;
}

/* Compares one record of each; false at the first difference, which is filled in. What describes the machine
 * or the chain (resumes are in it, and may differ) is left out. */
static bool is_equal(const weir_env *env, const weir_trace_record *left, const weir_trace_record *right,
                     weir_trace_difference *difference) {
    static const char *const ignored[] = {"h", "trace_hash", "message", "diagnostics", "status", NULL};
    weir_cbor_value a = weir_trace__map(left), b = weir_trace__map(right);
    weir__difference found;
    if (left->kind == WEIR_TRACE_END && right->kind == WEIR_TRACE_END && left->status != right->status) {
        snprintf(difference->field, sizeof difference->field, "status");
        snprintf(difference->left, sizeof difference->left, "%s", weir_run_status_name(left->status));
        snprintf(difference->right, sizeof difference->right, "%s", weir_run_status_name(right->status));
    } else if (left->kind != right->kind) {
        snprintf(difference->field, sizeof difference->field, "type");
        snprintf(difference->left, sizeof difference->left, "%s", describe_kind(left->kind));
        snprintf(difference->right, sizeof difference->right, "%s", describe_kind(right->kind));
    } else if (left->kind == WEIR_TRACE_EOF || !weir__compare(env, &a, &b, ignored, &found)) {
        return true;
    } else {
        memcpy(difference->field, found.field, sizeof found.field);
        memcpy(difference->left, found.left, sizeof found.left);
        memcpy(difference->right, found.right, sizeof found.right);
    }
    return false;
}

static weir_status compare_traces(const weir_env *env, weir_trace_reader *left, weir_trace_reader *right,
                                  weir_trace_difference *difference, weir_error *error) {
    uint64_t next = 0;
    for (;;) {
        weir_trace_record a, b;
        WEIR__TRY(read_on(left, &a, error));
        WEIR__TRY(read_on(right, &b, error));
        if (!is_equal(env, &a, &b, difference)) {
            difference->differs = true;
            difference->t = step_of(&a, &b, next);
            return WEIR_OK;
        }
        if (a.kind == WEIR_TRACE_EOF)
            return WEIR_OK;
        if (a.kind == WEIR_TRACE_ITER) {
            difference->steps++;
            next = a.t + 1;
        } else if (a.kind == WEIR_TRACE_END) {
            difference->status = a.status;
        }
    }
}

weir_status weir_trace_diff(const weir_env *env, const char *left_path, const char *right_path,
                            weir_trace_difference *difference, weir_error *error) {
    env = weir__env_or_default(env);
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
