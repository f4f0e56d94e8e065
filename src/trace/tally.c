/* See tally.h. */
#include "trace/tally.h"

#include <string.h>

#include "trace/record.h"

bool weir_trace__tally_step(weir_trace__tally *tally, const weir_env *env, weir_text key,
                            weir_cursor cursor_after, uint64_t samples) {
    size_t at = 0;
    int order = 1;
    while (at < tally->count && (order = weir__key_compare(tally->ends[at].key, strlen(tally->ends[at].key),
                                                           key.data, key.size)) < 0)
        at++;
    if (at == tally->count || order != 0) {
        void *memory = tally->ends;
        char *copy = weir__copy_text(env, key.data, key.size);
        if (!copy || !weir__grow(env, &memory, &tally->capacity, tally->count + 1, sizeof *tally->ends)) {
            weir__release(env, copy);
            return false;
        }
        tally->ends = memory;
        memmove(tally->ends + at + 1, tally->ends + at, (tally->count - at) * sizeof *tally->ends);
        tally->ends[at].key = copy;
        tally->count++;
    }
    tally->ends[at].cursor = cursor_after;
    if (__builtin_add_overflow(tally->samples, samples, &tally->samples))
        tally->samples = UINT64_MAX;
    return true;
}

void weir_trace__tally_release(weir_trace__tally *tally, const weir_env *env) {
    for (size_t i = 0; i < tally->count; i++)
        weir__release(env, tally->ends[i].key);
    weir__release(env, tally->ends);
    *tally = (weir_trace__tally){0};
}

void weir_trace__tally_write_end(const weir_trace__tally *tally, const uint8_t trace_hash[WEIR_HASH_SIZE],
                                 const char *status, weir_cbor_writer *w) {
    uint64_t final_epoch = 0;
    for (size_t i = 0; i < tally->count; i++)
        if (tally->ends[i].cursor.epoch > final_epoch)
            final_epoch = tally->ends[i].cursor.epoch;
    weir_cbor_map(w, 5u + (status != NULL));
    weir_cbor_pair_text(w, "type", "run_end");
    if (status)
        weir_cbor_pair_text(w, "status", status);
    weir_cbor_pair_bytes(w, "trace_hash", trace_hash, WEIR_HASH_SIZE);
    weir_cbor_pair_uint(w, "final_epoch", final_epoch);
    weir_cbor_text(w, "final_cursors");
    weir_cbor_map(w, tally->count);
    for (size_t i = 0; i < tally->count; i++) {
        weir_cbor_text(w, tally->ends[i].key);
        weir__write(w, &weir_trace__cursor_shape, &tally->ends[i].cursor);
    }
    weir_cbor_pair_uint(w, "total_samples_seen", tally->samples);
}
