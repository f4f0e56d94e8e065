/* What push and pull share: options, progress, and the report. */
#include <string.h>

#include "base/options.h"
#include "remote/remote.h"

enum { TELL_EVERY_NS = 100000000 };

void weir_remote__watch_begin(weir_remote__watch *watch, const weir_env *env,
                              const weir_remote_options *options) {
    *watch = (weir_remote__watch){.env = env, .options = options, .began_ns = env->now_ns(env->context)};
}

void weir_remote__watch_phase(weir_remote__watch *watch, const char *phase, uint64_t total,
                              uint64_t total_bytes) {
    watch->state = (weir_progress){.phase = phase, .total = total, .total_bytes = total_bytes};
    watch->told_ns = 0;
}

weir_status weir_remote__watch_tell(weir_remote__watch *watch, weir_error *error) {
    uint64_t now = watch->env->now_ns(watch->env->context);
    if (!watch->options->progress || (watch->told_ns != 0 && now - watch->told_ns < TELL_EVERY_NS))
        return WEIR_OK;
    watch->told_ns = now;
    watch->state.elapsed_ns = now - watch->began_ns;
    if (watch->options->progress(watch->options->progress_context, &watch->state))
        return WEIR_OK;
    return weir__fail(error, WEIR_CANCELLED, WEIR_REMOTE__OPERATOR, "the transfer was cancelled");
}

void weir_remote__complete_report(weir_remote_report *report, const weir_remote__chunks *chunks,
                                  const weir_remote__watch *watch) {
    memcpy(report->store_hash, chunks->store_hash, WEIR_HASH_SIZE);
    report->bytes = chunks->size;
    report->chunks = chunks->count;
    report->total_ns = watch->env->now_ns(watch->env->context) - watch->began_ns;
}

weir_status weir_remote__take_options(weir_remote_options *options, const weir_remote_options *given,
                                      weir_error *error) {
    const weir_remote_options defaults = WEIR_REMOTE_OPTIONS;
    WEIR__TRY(WEIR__TAKE_OPTIONS(*options, given ? given : &defaults, weir_remote_options,
                                 WEIR_REMOTE__OPERATOR, error));
    bool fits = options->concurrency <= 64 && (options->retries == UINT32_MAX || options->retries <= 100) &&
                options->retry_ms <= 60000 && options->timeout_s <= 3600 &&
                (options->chunk_bits == 0 || (options->chunk_bits >= WEIR_REMOTE__CHUNK_BITS_LEAST &&
                                              options->chunk_bits <= WEIR_REMOTE__CHUNK_BITS_MOST));
    return fits
               ? WEIR_OK
               : weir__fail(
                     error, WEIR_CONTRACT_VIOLATION, WEIR_REMOTE__OPERATOR,
                     "an option of the transfer is beyond its limits: concurrency 1 to 64, retries 0 to 100, "
                     "retry_ms 1 to 60000, timeout_s 1 to 3600, chunk_bits 12 to 26");
}
