/* An error record in the two notations that leave the process. */
#include <stdlib.h>
#include <string.h>

#include "base/internal.h"
#include "weir_tool/base_tools.h"
#include "weir_tool/documents.h"

static int compare_diagnostics(const void *a, const void *b) {
    const char *left = (*(const weir_diagnostic *const *)a)->name;
    const char *right = (*(const weir_diagnostic *const *)b)->name;
    return weir__key_compare(left, strlen(left), right, strlen(right));
}

static void write_diagnostics_cbor(const weir_error *error, weir_cbor_writer *w) {
    const weir_diagnostic *sorted[WEIR_DIAGNOSTICS_MAX];
    size_t count = error->diagnostic_count;
    for (size_t i = 0; i < count; i++)
        sorted[i] = &error->diagnostics[i];
    qsort(sorted, count, sizeof sorted[0], compare_diagnostics);
    weir_cbor_map(w, count);
    for (size_t i = 0; i < count; i++) {
        weir_cbor_text(w, sorted[i]->name);
        if (sorted[i]->kind == WEIR_DIAGNOSTIC_UINT)
            weir_cbor_uint(w, sorted[i]->number);
        else if (sorted[i]->kind == WEIR_DIAGNOSTIC_INT)
            weir_cbor_int(w, (int64_t)sorted[i]->number);
        else
            weir_cbor_text(w, sorted[i]->text);
    }
}

static const char *operator_of(const weir_error *error) {
    return error->failure_operator ? error->failure_operator : "";
}

void weir_error_cbor(const weir_error *error, weir_cbor_writer *w) {
    weir_cbor_map(w, 9);
    weir_cbor_pair_uint(w, "t", error->t);
    weir_cbor_pair_uint(w, "rank", error->rank);
    weir_cbor_pair_text(w, "code_id", weir_status_name(error->status));
    weir_cbor_pair_text(w, "message", error->message);
    weir_cbor_pair_text(w, "subsystem", weir_status_subsystem(error->status));
    weir_cbor_text(w, "diagnostics");
    write_diagnostics_cbor(error, w);
    weir_cbor_pair_uint(w, "numeric_code", (uint64_t)error->status);
    weir_cbor_pair_bytes(w, "replay_token", error->replay_token, error->replay_token_size);
    weir_cbor_pair_text(w, "failure_operator", operator_of(error));
}

static void write_diagnostics_json(const weir_error *error, weir_json_writer *w) {
    weir_json_object(w);
    for (size_t i = 0; i < error->diagnostic_count; i++) {
        const weir_diagnostic *diagnostic = &error->diagnostics[i];
        weir_json_key(w, diagnostic->name);
        if (diagnostic->kind == WEIR_DIAGNOSTIC_UINT)
            weir_json_uint(w, diagnostic->number);
        else if (diagnostic->kind == WEIR_DIAGNOSTIC_INT)
            weir_json_int(w, (int64_t)diagnostic->number);
        else
            weir_json_text(w, diagnostic->text);
    }
    weir_json_end_object(w);
}

void weir_error_json(const weir_error *error, weir_json_writer *w) {
    weir_json_object(w);
    weir_json_pair_text(w, "code_id", weir_status_name(error->status));
    weir_json_pair_uint(w, "numeric_code", (uint64_t)error->status);
    weir_json_pair_text(w, "subsystem", weir_status_subsystem(error->status));
    weir_json_pair_uint(w, "t", error->t);
    weir_json_pair_uint(w, "rank", error->rank);
    weir_json_pair_text(w, "failure_operator", operator_of(error));
    weir_json_pair_hex(w, "replay_token", error->replay_token, error->replay_token_size);
    weir_json_pair_text(w, "message", error->message);
    weir_json_key(w, "diagnostics");
    write_diagnostics_json(error, w);
    weir_json_end_object(w);
}
