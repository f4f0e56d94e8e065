/* The options of a prefetcher: names, defaults, and what is refused. */
#include <string.h>

#include "base/options.h"
#include "pipeline/prefetch.h"
#include "weir_tool/pipeline_tools.h"

/* ---- Names ----------------------------------------------------------------------------------- */

const char *const weir_pipeline__policies[] = {"strict", "best_effort", NULL};
const char *const weir_pipeline__shard_modes[] = {"interleaved", "contiguous", NULL};

const char *weir_policy_name(weir_policy policy) {
    return (unsigned)policy < 2 ? weir_pipeline__policies[policy] : "unknown";
}

const char *weir_shard_mode_name(weir_shard_mode mode) {
    return (unsigned)mode < 2 ? weir_pipeline__shard_modes[mode] : "unknown";
}

/* Both have two names. */
static weir_status parse(const char *const names[2], const char *what, const char *name, unsigned *out,
                         weir_error *error) {
    for (*out = 0; *out < 2; ++*out)
        if (strcmp(name, names[*out]) == 0)
            return WEIR_OK;
    return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PIPELINE__PREFETCH_OPERATOR,
                      "there is no %s '%s'; use %s or %s", what, name, names[0], names[1]);
}

weir_status weir_policy_parse(const char *name, weir_policy *out, weir_error *error) {
    unsigned number;
    WEIR__TRY(parse(weir_pipeline__policies, "policy", name, &number, error));
    *out = (weir_policy)number;
    return WEIR_OK;
}

weir_status weir_shard_mode_parse(const char *name, weir_shard_mode *out, weir_error *error) {
    unsigned number;
    WEIR__TRY(parse(weir_pipeline__shard_modes, "shard mode", name, &number, error));
    *out = (weir_shard_mode)number;
    return WEIR_OK;
}

/* ---- Defaults -------------------------------------------------------------------------------- */

static void fill_defaults(weir_prefetch_options *options) {
    weir_pipeline__set_default(&options->max_lead, WEIR_PREFETCH_LEAD);
    weir_pipeline__set_default(&options->max_skips_per_round, WEIR_PREFETCH_SKIPS);
    weir_pipeline__set_default(&options->workers, WEIR_PREFETCH_WORKERS);
    weir_pipeline__set_default(&options->buffer_size, WEIR_PREFETCH_BUFFER);
    weir_pipeline__set_default(&options->queue_size, WEIR_PREFETCH_QUEUE);
}

uint64_t weir_prefetch_slot_count(const weir_prefetch_options *options) {
    weir_prefetch_options filled = *options;
    fill_defaults(&filled);
    return (uint64_t)filled.workers * filled.buffer_size + filled.queue_size;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static weir_status refuse(weir_error *error, const char *name, uint64_t value, const char *advice) {
    weir_status status = weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PIPELINE__PREFETCH_OPERATOR,
                                    "%s is %llu; %s", name, (unsigned long long)value, advice);
    weir__note_uint(error, name, value);
    return status;
}

weir_status weir_pipeline__prefetch_options_check(const weir_prefetch_options *given,
                                                  weir_prefetch_options *out, weir_error *error) {
    WEIR__TRY(
        WEIR__TAKE_OPTIONS(*out, given, weir_prefetch_options, WEIR_PIPELINE__PREFETCH_OPERATOR, error));
    if ((unsigned)out->policy > WEIR_POLICY_BEST_EFFORT)
        return refuse(error, "policy", (unsigned)out->policy, "there is no such policy");
    fill_defaults(out);
    if (!out->source.produce)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PIPELINE__PREFETCH_OPERATOR,
                          "the source has no produce function");
    if (out->start_position > out->source.length)
        return refuse(error, "start_position", out->start_position,
                      "it must not lie beyond the source's end");
    if (out->epochs > 0 && out->start_epoch > UINT64_MAX - (out->epochs - 1))
        return refuse(error, "start_epoch", out->start_epoch, "with that many epochs it passes 2^64-1");
    if ((unsigned)out->shard_mode > WEIR_SHARD_CONTIGUOUS)
        return refuse(error, "shard_mode", (unsigned)out->shard_mode, "there is no such mode");
    if (out->source.length == WEIR_ENDLESS && out->shard_mode == WEIR_SHARD_CONTIGUOUS)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PIPELINE__PREFETCH_OPERATOR,
                          "an endless source has no contiguous blocks; use interleaved shards");
    if (out->shares_items &&
        (out->policy != WEIR_POLICY_STRICT || out->shard_mode != WEIR_SHARD_INTERLEAVED ||
         out->drop_remainder || out->epochs != 1))
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PIPELINE__PREFETCH_OPERATOR,
                          "items are shared in strict order, in one pass of interleaved shards without a "
                          "dropped remainder; leave shares_items out, or change these");
    uint64_t slot_count = weir_prefetch_slot_count(out);
    if (out->workers > WEIR_PIPELINE__WORKERS_MAX)
        return refuse(error, "workers", out->workers, "4096 is the most");
    if (slot_count > WEIR_PIPELINE__SLOTS_MAX)
        return refuse(error, "slot_count", slot_count, "ask for fewer slots");
    if (!out->slots && out->slot_size == 0)
        return refuse(error, "slot_size", 0, "say how large a slot is, or give slots");
    for (uint64_t i = 0; out->slots && i < slot_count; i++)
        if (!out->slots[i])
            return refuse(error, "slot", i, "its address is NULL");
    return WEIR_OK;
}
